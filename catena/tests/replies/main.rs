//! Calls that are answered many times, over real nodes and sockets (Quatrain).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::disallowed_methods, reason = "a blocking function is tried by one that blocks")]

mod ending;
mod replying;

use std::{collections::BTreeSet, time::Duration};

use catena::{Client, Context, Ended, Exception, Node, Place, Policy, ReplySet, Service};

const PATIENCE: Duration = Duration::from_secs(30);

/// Nodes with these services, each of its own, and a client that has joined the first.
async fn nodes(services: Vec<Service>) -> (Vec<Node>, Client) {
    nodes_with(services, &Policy::default()).await
}

async fn nodes_with(services: Vec<Service>, policy: &Policy) -> (Vec<Node>, Client) {
    let mut nodes: Vec<Node> = Vec::new();
    for service in services {
        let builder = Node::builder(service.name()).listen("127.0.0.1:0").policy(policy.clone());
        let mut builder = builder.service(service.clone());
        if let Some(first) = nodes.first() {
            builder = builder.join(Place::new(first.address().unwrap()));
        }
        nodes.push(builder.start().await.unwrap());
    }
    let join = Place::new(nodes[0].address().unwrap());
    let client = Client::builder("client").policy(policy.clone()).join(join).connect().await.unwrap();
    (nodes, client)
}

/// All replies, and what ended the set if it was not complete.
async fn all(mut set: ReplySet) -> (BTreeSet<u64>, Option<Exception>, ReplySet) {
    let (mut seen, mut ended) = (BTreeSet::new(), None);
    while let Some(reply) = tokio::time::timeout(PATIENCE, set.next()).await.expect("the set ends") {
        match reply {
            Ok(reply) => assert!(seen.insert(reply.decode().unwrap()), "{reply:?} came twice"),
            Err(why) => ended = Some(why),
        }
    }
    (seen, ended, set)
}

async fn complete(set: ReplySet) -> BTreeSet<u64> {
    let (seen, ended, set) = all(set).await;
    assert!(ended.is_none() && set.ended() == Some(Ended::Complete) && !set.is_partial(), "{ended:?}");
    seen
}

/// Replies with `of + 0..count`, each from a task of its own.
fn leaf(name: &str, of: u64) -> Service {
    let tasks = move |context: Context, count: u64| async move {
        for number in 0..count {
            let context = context.clone();
            tokio::spawn(async move { context.preturn(&(of + number)).await });
        }
        Ok(())
    };
    Service::new(name).replies("find", tasks)
}
