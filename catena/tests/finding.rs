//! A node that takes a hop over and says nothing: the chain is sent again, looked for, and ended with that node's name
//! (rpc-chains section 3.9).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "common/bound.rs"]
mod bound;
mod common;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bound::bound;
use catena::{Client, Node, Place, Policy, RunOptions, exceptions, to_value};
use catena_net::{Endpoint, Handler, Identity, Incoming, Link, LinkError, Message as Frames};
use catena_wire::{Encoded, Hello, Kinds, Message, NodeId, NodeRef, ServiceEntry};
use common::{SANDBOX, service};

/// Takes over whatever hop comes, and never does anything with it.
struct Silent {
    hops: AtomicU64,
}

impl Handler for Silent {
    fn on_link(&self, _: &Arc<Link>) {}

    fn on_message(&self, peer: &Arc<Link>, incoming: Incoming) {
        let head = match incoming {
            Incoming::Whole(message) => message.head,
            Incoming::Head { head, .. } => head,
            Incoming::Tail { .. } => return,
        };
        if let Ok(Message::Hop(hop)) = Message::decode_head(&head) {
            self.hops.fetch_add(1, Ordering::SeqCst);
            let Encoded { head, tail } = Message::Accepted(hop.key).encode();
            peer.try_send(Frames::new(head, tail)).expect("an open link");
        }
    }

    fn on_link_lost(&self, _: &Arc<Link>, _: &LinkError) {}
}

async fn silent(handler: &Arc<Silent>) -> (Endpoint, String) {
    let (bound, address) = bound().await;
    let node = NodeRef { id: NodeId(4_242), name: "silent".into(), address: Some(address.clone()), site: None };
    let entry = ServiceEntry {
        service: "silent".into(),
        functions: vec!["f".into()],
        node: node.clone(),
        kinds: Kinds::default(),
        proxy: None,
    };
    let hello = Hello { node: node.clone(), services: vec![entry], repository: false }.encode().into();
    let identity = Identity { node: node.id.0, site: None, hello };
    (bound.start(identity, Arc::clone(handler) as Arc<dyn Handler>).expect("an endpoint"), address)
}

/// Three silences of this length end a chain: it must not be that slow where it is well.
fn impatient() -> Policy {
    Policy { heartbeat_interval_us: 1_000_000, heartbeat_timeout_us: 3_000_000, ..Policy::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_takes_a_hop_over_and_says_nothing_is_named() {
    let handler = Arc::new(Silent { hops: AtomicU64::new(0) });
    let (endpoint, address) = silent(&handler).await;
    let effects = Arc::new(AtomicU64::new(0));
    let a = Node::builder("a")
        .listen("127.0.0.1:0")
        .sandbox(SANDBOX.clone())
        .policy(impatient())
        .service(service("a", &effects))
        .join(Place::new(address))
        .start()
        .await
        .unwrap();
    let client = Client::builder("client").sandbox(SANDBOX.clone()).policy(impatient());
    let client = client.join(Place::new(a.address().unwrap())).connect().await.unwrap();
    let source = "import { call } from 'catena';
        export default async () => { await call('a/add', null); await call('silent/f', null); };";
    let code = client.javascript("lost.js", source).await.unwrap();
    // What takes its time the first time is done before the clock runs.
    let first = "import { call } from 'catena'; export default () => call('a/count', null);";
    let first = client.javascript("first.js", first).await.unwrap();
    assert_eq!(client.run(&first, &()).await.unwrap().value::<u64>().await.unwrap(), 0);
    let options = RunOptions { timeout: Duration::from_secs(120), ..RunOptions::default() };
    let replies = client.run_with(&code, &to_value(&()).unwrap(), &options).unwrap();
    let why = replies.value::<()>().await.unwrap_err();
    assert_eq!((why.name.as_str(), why.unknown, why.step), (exceptions::CHAIN_LOST, true, 2), "{why}");
    assert_eq!(why.path, ["a", "silent"], "{why}");
    assert!(why.message.contains("a handed it to silent, which took it over"), "{why}");
    assert_eq!(effects.load(Ordering::SeqCst), 1, "what was done before is not done again");
    assert!(handler.hops.load(Ordering::SeqCst) >= 2, "it was sent again");
    endpoint.close(Duration::ZERO).await;
}
