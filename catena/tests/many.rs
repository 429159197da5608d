//! Many chains at once, begun faster than they can be run.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use catena::{Client, Context, Node, Place, Policy, RunOptions, Service, from_value, to_value};
use common::{SANDBOX, mesh_with};

/// Several times the guests that a sandbox holds at one time.
const MANY: u64 = 5_000;

/// Begun in one breath, without a pause in which others could make room. However long that takes, nobody is to be taken for lost.
async fn all_come_home(source: &str) {
    let patient = Policy { accept_timeout_us: 120_000_000, heartbeat_timeout_us: 120_000_000, ..Policy::default() };
    let mesh = mesh_with(1, |builder| builder.policy(patient.clone())).await;
    let place = Place::new(mesh.nodes[0].address().unwrap());
    let client = Client::builder("many").policy(patient).sandbox(SANDBOX.clone()).join(place).connect().await.unwrap();
    let code = client.javascript("test.js", source).await.unwrap();
    let begin = |number: u64| client.run_with(&code, &to_value(&number).unwrap(), &RunOptions::default()).unwrap();
    let begun: Vec<_> = (0..MANY).map(begin).collect();
    for (number, mut replies) in (0..).zip(begun) {
        let value = replies.last().await.unwrap_or_else(|why| panic!("chain {number}: {why}"));
        assert_eq!(from_value::<u64>(&value).unwrap(), number);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_begun_at_once_that_hop_come_home() {
    all_come_home(r#"import { call } from "catena"; export default (number) => call("a/echo", number);"#).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_begun_at_once_that_end_here_come_home() {
    all_come_home("export default async (number) => number;").await;
}

/// Services done at once that call services done at once: each answer leads to the next on the same stack, as far as that goes.
#[tokio::test]
async fn many_calls_within_calls_do_not_run_out_of_stack() {
    let depth = Arc::new(AtomicU64::new(0));
    let deepest = Arc::clone(&depth);
    let down = move |context: Context, left: u64| {
        let deepest = Arc::clone(&deepest);
        async move {
            deepest.fetch_add(1, Ordering::SeqCst);
            match left.checked_sub(1) {
                Some(left) => Ok(context.client().call::<_, u64>("own", "down", &left).await?),
                None => Ok(7),
            }
        }
    };
    let own = Service::new("own").function_in("down", down);
    let node = Node::builder("own").listen("127.0.0.1:0").sandbox(SANDBOX.clone()).service(own).start().await.unwrap();
    let join = Place::new(node.address().unwrap());
    let client = Client::builder("client").sandbox(SANDBOX.clone()).join(join).connect().await.unwrap();
    let end: u64 = client.call("own", "down", &2_000_u64).await.unwrap();
    assert_eq!((end, depth.load(Ordering::SeqCst)), (7, 2_001));
}
