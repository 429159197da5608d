//! Where functions come from when their repository is down, or spoils them (rpc-chains section 3.2).

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use catena::{Client, Hash, Node, NodeId, NodeRef, Place, exceptions};
use catena_net::{Endpoint, Handler, Identity, Incoming, Link, LinkError, Message as Frames};
use catena_wire::{Encoded, Hello, Kinds, Message, ServiceEntry};
use serde_json::{Value as Json, json};
use tokio::sync::Notify;

use crate::{
    bound::bound,
    nodes::{Nodes, PATIENT_BEAT_MS, SANDBOX, ask, begin, run},
    process::PATIENCE,
};

const CALLS: &str = r#"import { call } from "catena"; export default (job) => call("z/job", job);"#;

/// Too large to ride along, so that it has to be fetched.
fn large(source: &str) -> Json {
    let source = [source, "\n// ", &"x".repeat(100_000)].concat();
    json!({ "source": source })
}

#[tokio::test(flavor = "multi_thread")]
async fn with_the_repository_killed_the_hop_before_serves_the_function() {
    let (mut nodes, client) =
        Nodes::patient_with(&[("keeper", &["--repository"]), ("a", &[]), ("b", &[]), ("z", &[])]).await;
    nodes.kill("keeper").await;
    // The second note at `a` is taken by the function itself, which has been fetched by then.
    let job = large(
        r#"import { call } from "catena";
        export default async () => {
            await call("a/where", null);
            await call("a/note", { text: "x", wait: "before" });
            return call("b/where", null);
        };"#,
    );
    let chain = begin(&client, CALLS, job);
    nodes.process("a").says("a begins x").await;
    // The sub-chain began there, and the client never had its function: `a` is the only one left that has.
    nodes.kill("z").await;
    ask::<()>(&client, "a", "open", Json::Null).await;
    let ended = chain.await.unwrap();
    assert_eq!((ended.value(), &ended.path[..]), (&json!("b"), &["client", "z", "a", "b"].map(str::to_owned)[..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn with_the_repository_and_the_hop_before_killed_the_function_is_said_to_be_missing() {
    let (mut nodes, client) = Nodes::patient_with(&[("keeper", &["--repository"]), ("a", &[]), ("z", &[])]).await;
    // It is asked first and keeps silent, so that the hop before is not asked before it is gone.
    nodes.process("keeper").signal("STOP").await;
    let job = large(r#"import { call } from "catena"; export default () => call("a/note", { text: "x" });"#);
    let chain = begin(&client, CALLS, job);
    nodes.process("a").says("a noted x").await;
    nodes.kill("z").await;
    nodes.kill("keeper").await;
    let ended = chain.await.unwrap();
    let why = ended.why();
    assert_eq!((why.name.as_str(), why.unknown), (exceptions::CODE_MISSING, true), "{why}");
    assert!(why.message.contains("neither the repository nor the hop before"), "{why}");
    assert_eq!((why.step, &why.path[..]), (2, &["client", "z", "a"].map(str::to_owned)[..]), "{why}");
    assert_eq!(ask::<u32>(&client, "a", "count", json!("x")).await, 1, "its service function had run");
}

/// A repository that answers every question with other bytes than it was asked for.
#[derive(Default)]
struct Spoiler {
    asked: Mutex<Vec<Hash>>,
    offered: Mutex<Vec<Hash>>,
    listed: Notify,
}

impl Handler for Spoiler {
    fn on_link(&self, _: &Arc<Link>) {}

    fn on_message(&self, peer: &Arc<Link>, incoming: Incoming) {
        let Incoming::Whole(message) = incoming else { return };
        match Message::decode_head(&message.head) {
            Ok(Message::WantCode(code)) => {
                self.asked.lock().unwrap().push(code);
                say(peer, Message::Code(code, b"not what was asked for"[..].into()));
            }
            Ok(Message::Code(code, _)) => self.offered.lock().unwrap().push(code),
            Ok(Message::List(id)) => say(peer, Message::Listing(id, Vec::new())),
            Ok(Message::Listing(..)) => self.listed.notify_one(),
            _ => {}
        }
    }

    fn on_link_lost(&self, _: &Arc<Link>, _: &LinkError) {}
}

impl Spoiler {
    /// What it has been offered by now at the other end of its link: small messages keep their order.
    async fn offered(&self, endpoint: &Endpoint) -> Vec<Hash> {
        let [link] = &endpoint.links()[..] else { panic!("one link") };
        self.offered_over(link).await
    }

    async fn offered_over(&self, link: &Arc<Link>) -> Vec<Hash> {
        link.introduced().await.unwrap();
        say(link, Message::List(1));
        self.listed.notified().await;
        self.offered.lock().unwrap().clone()
    }
}

fn say(peer: &Link, message: Message) {
    let Encoded { head, tail } = message.encode();
    peer.try_send(Frames::new(head, tail)).expect("an open link");
}

async fn spoiler(handler: &Arc<Spoiler>) -> (Endpoint, String) {
    let (bound, address) = bound().await;
    let id = NodeId(bound.local_address().unwrap().port().into());
    let node = NodeRef { id, name: "spoiler".into(), address: Some(address.clone()), site: None };
    let functions = vec!["f".into()];
    let entry =
        ServiceEntry { service: "spoiled".into(), functions, node: node.clone(), kinds: Kinds::default(), proxy: None };
    let hello = Hello { node: node.clone(), services: vec![entry], repository: true }.encode().into();
    let identity = Identity { node: node.id.0, site: None, hello };
    let handler = Arc::clone(handler) as Arc<dyn Handler>;
    (bound.start(identity, handler).expect("an endpoint"), address)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repository_that_serves_the_wrong_bytes_is_seen_and_the_hop_before_serves_the_function() {
    let handler = Arc::new(Spoiler::default());
    let (_endpoint, address) = spoiler(&handler).await;
    let mut nodes = Nodes::default();
    nodes.introduce("spoiler", address);
    for name in ["a", "b", "z"] {
        nodes.add(name, &["--beat-ms", &PATIENT_BEAT_MS.to_string()]).await;
    }
    let client = nodes.patient_client().await;
    let job = large(
        r#"import { call } from "catena";
        export default async () => [await call("a/where", null), await call("b/where", null)];"#,
    );
    let ended = run(&client, CALLS, job).await;
    assert_eq!((ended.value(), ended.path.len()), (&json!(["a", "b"]), 4));
    let asked = handler.asked.lock().unwrap();
    let [first, second, third] = asked[..] else { panic!("{asked:?}") };
    assert!(first == second && second != third, "`a` and `b` asked for the job, `b` for what called: {asked:?}");
}

/// A function that nobody has yet.
async fn add(client: &Client, number: usize) -> Hash {
    client.javascript("new.js", &format!("export default () => {number};")).await.unwrap().hash()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_that_says_that_it_keeps_functions_is_given_none() {
    let stranger = Arc::new(Spoiler::default());
    let (endpoint, _) = spoiler(&stranger).await;
    let node = Node::builder("node").listen("127.0.0.1:0").sandbox(SANDBOX.clone()).start().await.unwrap();
    endpoint.link(&Place::new(node.address().unwrap())).await.unwrap();
    assert!(stranger.offered(&endpoint).await.is_empty());
    add(&node.client(), 0).await;
    assert!(stranger.offered(&endpoint).await.is_empty(), "whoever dials is no repository");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_that_the_mesh_lists_is_given_no_functions_although_it_says_that_it_keeps_them() {
    let stranger = Arc::new(Spoiler::default());
    let (endpoint, _) = spoiler(&stranger).await;
    let of_mesh = |name: &str| Node::builder(name).listen("127.0.0.1:0").sandbox(SANDBOX.clone());
    let seed = of_mesh("seed").start().await.unwrap();
    let place = Place::new(seed.address().unwrap());
    let link = endpoint.link(&place).await.unwrap();
    // The seed has handled its greeting by then.
    stranger.offered_over(&link).await;
    let node = of_mesh("node").join(place).start().await.unwrap();
    let link = endpoint.links().into_iter().find(|other| other.id() != link.id()).expect("the node has dialled it");
    add(&node.client(), 0).await;
    assert!(stranger.offered_over(&link).await.is_empty(), "whoever is listed is no repository");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_repositories_one_is_given_functions_and_the_other_once_the_first_is_gone() {
    let handlers = [(); 2].map(|()| Arc::new(Spoiler::default()));
    let [first, second] = &handlers;
    let ((at_first, place), (at_second, other)) = (spoiler(first).await, spoiler(second).await);
    let node = Node::builder("node").listen("127.0.0.1:0").sandbox(SANDBOX.clone());
    let node = node.join(Place::new(place)).join(Place::new(other)).start().await.unwrap();
    let code = add(&node.client(), 0).await;
    let given = [first.offered(&at_first).await, second.offered(&at_second).await];
    let (gone, (stays, at)) = match given.each_ref().map(Vec::as_slice) {
        [[one], []] if *one == code => (at_first, (second, at_second)),
        [[], [one]] if *one == code => (at_second, (first, at_first)),
        _ => panic!("one of them is given the function: {given:?}"),
    };
    gone.close(Duration::ZERO).await;
    // The other takes its place as soon as the loss is noticed.
    let other_is_given = async {
        for number in 1.. {
            let code = add(&node.client(), number).await;
            if stays.offered(&at).await.contains(&code) {
                break;
            }
        }
    };
    tokio::time::timeout(PATIENCE, other_is_given).await.expect("a repository");
}
