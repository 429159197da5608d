//! What one peer can do to the state machines of a node, over real processes: a good chain beside it goes on, and all is as before when the peer has gone.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[allow(dead_code)]
#[path = "processes/attacker.rs"]
mod attacker;
#[path = "common/held.rs"]
mod held;
#[path = "processes/latency.rs"]
mod latency;
#[path = "../examples/node/main.rs"]
mod node;
#[allow(dead_code)]
#[path = "processes/nodes.rs"]
mod nodes;
#[allow(dead_code)]
#[path = "processes/process.rs"]
mod process;

use std::{sync::Arc, time::Duration};

use catena::{Client, Context, Ended, Hash, Node, NodeRef, Place, ReplySet, RunOptions, Service, to_value};
use catena_net::Link;
use catena_wire::{Branch, Budget, ChainId, Hop, Message, Replies, RightEnd, StepKey};
use serde_json::{Value as Json, json};
use tokio::sync::Semaphore;

use attacker::{Attacker, captured, entry, of_chain, send};
use latency::Quiet;
use node::beating;
use nodes::{BEAT_MS, Nodes, SANDBOX, ask, run};

/// The process that the tests start. Run as a test it is over at once.
#[tokio::test(flavor = "multi_thread")]
async fn process() {
    if let Some(arguments) = process::arguments() {
        node::serve(arguments.into_iter()).await.unwrap();
    }
}

/// Hops or calls of one flood.
const MESSAGES: u64 = 20_000;
/// What a node may hold beyond what it held before, whatever a peer does.
const MORE_BYTES_MAX: u64 = 512 << 20;

async fn good(client: &Client) {
    let source = r#"import { call } from "catena";
        export default async () => [await call("a/where", null), await call("b/where", null)];"#;
    assert_eq!(run(client, source, Json::Null).await.value(), &json!(["a", "b"]), "a good chain was hurt");
}

/// Some good chains: how long one takes.
async fn quiet(client: &Client) -> Quiet {
    Quiet::of(async || good(client).await).await
}

/// Makes the messages of a flood: the one of this number, from that node.
type Make = Arc<dyn Fn(u64, &NodeRef) -> Message + Send + Sync>;

/// Sends node `a` so many messages. Returns when they have been read.
async fn flood(attacker: Arc<Attacker>, link: Arc<Link>, make: Make) {
    for number in 1..=MESSAGES {
        send(&link, make(number, &attacker.node)).await;
    }
    attacker.is_read(&link).await;
}

async fn hops_of_one_peer_hurt_nobody(attack: &str, hop: Hop) {
    one_peer_hurts_nobody(attack, Arc::new(move |number, node| of_chain(&hop, number, node))).await;
}

/// A flood of one kind of message, good chains beside it and while all of it is there, then the same from another peer when the first has gone.
async fn one_peer_hurts_nobody(attack: &str, make: Make) {
    let (mut nodes, client) = Nodes::patient(&["a", "b"]).await;
    let alone = quiet(&client).await;
    let before = nodes.process("a").resident_bytes();
    for (id, attack) in [(4_242, attack.to_owned()), (4_243, format!("{attack}, by another peer"))] {
        let attacker = Arc::new(Attacker::start(id, "attacker", |_| Vec::new()).await);
        let link = attacker.link(&nodes.place("a")).await;
        let flood = flood(Arc::clone(&attacker), link, Arc::clone(&make));
        alone.beside(&attack, flood, async || good(&client).await).await;
        quiet(&client).await;
        let more = nodes.process("a").resident_bytes().saturating_sub(before);
        assert!(more < MORE_BYTES_MAX, "{} MiB more", more >> 20);
        attacker.endpoint.close(Duration::from_secs(1)).await;
        good(&client).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_hops_that_name_one_unknown_function_hurt_nobody() {
    let (service, function) = ("a".to_owned(), "where".to_owned());
    let hop = Hop { service, function, code: Hash([7; 32]), code_bytes: None, ..captured().await };
    hops_of_one_peer_hurt_nobody("hops of an unknown function", hop).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn chains_with_much_to_carry_are_refused_before_the_nodes_memory_is_full() {
    const MEMORY_BYTES_MAX: u64 = 256 << 20;
    const CARRIED_BYTES: u32 = 8 << 20;
    let mut nodes = Nodes::default();
    let memory = MEMORY_BYTES_MAX.to_string();
    for name in ["a", "b"] {
        nodes.add(name, &["--beat-ms", "8000", "--memory", &memory]).await;
    }
    let client = nodes.client().await;
    let alone = quiet(&client).await;
    let before = nodes.process("a").resident_bytes();
    let (service, function) = ("a".to_owned(), "hold".to_owned());
    let continuation = vec![7; CARRIED_BYTES as usize].into();
    let hop = Hop { service, function, continuation, continuation_bytes: CARRIED_BYTES, ..captured().await };
    let attacker = Arc::new(Attacker::start(4_242, "attacker", |_| Vec::new()).await);
    let link = attacker.link(&nodes.place("a")).await;
    let attack = {
        let (attacker, link, hop) = (Arc::clone(&attacker), Arc::clone(&link), hop.clone());
        async move {
            for number in 1..=64 {
                send(&link, of_chain(&hop, number, &attacker.node)).await;
            }
            attacker.answered(64).await
        }
    };
    let (accepted, overloaded) = alone.beside("chains with much to carry", attack, async || good(&client).await).await;
    let more = nodes.process("a").resident_bytes().saturating_sub(before);
    println!("{accepted} accepted, {overloaded} refused, {} MiB more", more >> 20);
    assert!(accepted > 2 && overloaded > 2, "{accepted} accepted, {overloaded} refused");
    assert!(more < MEMORY_BYTES_MAX, "{} MiB more", more >> 20);
    good(&client).await;
    // They end, since no function goes on from such a state, and there is room again.
    ask::<()>(&client, "a", "open", Json::Null).await;
    good(&client).await;
    send(&link, of_chain(&hop, 65, &attacker.node)).await;
    assert_eq!(attacker.answered(65).await, (accepted + 1, overloaded), "there is no room again");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_sleeping_hops_of_one_peer_hurt_nobody() {
    let (service, function) = ("a".to_owned(), "hold".to_owned());
    hops_of_one_peer_hurt_nobody("hops that sleep", Hop { service, function, ..captured().await }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_sleeping_calls_of_one_peer_hurt_nobody() {
    let sleeping = |id, _: &NodeRef| {
        let (service, function, params) = ("a".to_owned(), "hold".to_owned(), to_value(&()).unwrap());
        let (key, credentials, duplicate, age_us) = (None, None, None, 0);
        let budget = Budget::new(600_000_000, 1);
        Message::Call { id, service, function, params, budget, key, credentials, duplicate, age_us }
    };
    one_peer_hurts_nobody("calls that sleep", Arc::new(sleeping)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_with_thousands_of_open_branches_hurt_neither_their_chain_nor_another() {
    let nodes = Nodes::start(&["a", "b"]).await;
    let origin = Node::builder("origin").listen("127.0.0.1:0").sandbox(SANDBOX.clone());
    let origin = origin.join(nodes.place("a")).join(nodes.place("b")).start().await.unwrap();
    let client = origin.client();
    let alone = quiet(&client).await;
    let source = r#"import { call } from "catena"; export default () => call("a/hold", null);"#;
    let code = client.javascript("holds.js", source).await.unwrap();
    let mut replies = client.run_with(&code, &to_value(&()).unwrap(), &RunOptions::default()).unwrap();
    let attacker = Attacker::start(4_242, "attacker", |_| Vec::new()).await;
    let link = attacker.link(&Place::new(origin.address().unwrap())).await;
    let key = StepKey { chain: replies.chain(), branch: Branch::root(), step: 2 };
    let attack = async move {
        for round in 0..200_u16 {
            let open = (0..4_096).map(|one| key.branch.child(round % 16).unwrap().child(one).unwrap()).collect();
            send(&link, Message::Heartbeat(key.clone(), attacker.node.clone(), open)).await;
        }
        attacker.is_read(&link).await;
    };
    alone.beside("heartbeats of many branches", attack, async || good(&client).await).await;
    ask::<()>(&client, "a", "open", Json::Null).await;
    replies.last().await.unwrap_or_else(|why| panic!("the chain that they were about: {why}"));
}

/// These replies under this right, the first of them number 0, and its end, which counts so many.
async fn tells(link: &Arc<Link>, key: &StepKey, values: &[u64], replies: u32) {
    let (key, values) = (key.clone(), values.iter().map(|value| to_value(value).unwrap()).collect());
    send(link, Message::Replies(Replies { key: key.clone(), first: 0, values })).await;
    let end = RightEnd { key, replies, delegated: Vec::new(), threw: None, late: false };
    send(link, Message::RightEnd(Box::new(end))).await;
}

async fn all(set: &mut ReplySet) -> Vec<u64> {
    let mut seen = Vec::new();
    while let Some(reply) = set.next().await {
        seen.extend(reply.ok().map(|reply| reply.decode::<u64>().unwrap()));
    }
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_lies_about_replies_spoils_its_own_call_only() {
    let gate = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&gate);
    let count = move |context: Context, upto: u64| {
        let held = Arc::clone(&held);
        async move {
            for number in 0..upto {
                context.preturn(&number).await?;
            }
            held.acquire().await?.forget();
            Ok(context.preturn(&upto).await?)
        }
    };
    let count = Service::new("good").replies("count", count);
    let good =
        Node::builder("good").listen("127.0.0.1:0").policy(beating(BEAT_MS)).service(count).start().await.unwrap();
    let liar = Attacker::start(4_242, "liar", |node| vec![entry("liar", node)]).await;
    let origin = Node::builder("origin").listen("127.0.0.1:0").policy(beating(BEAT_MS));
    let origin = origin.join(Place::new(good.address().unwrap())).start().await.unwrap();
    let link = liar.link(&Place::new(origin.address().unwrap())).await;
    liar.is_read(&link).await;
    let client = origin.client();
    let mut honest = client.replies("good/count", &3_u64).await.unwrap();
    let mut lied_to = client.replies("liar/f", &()).await.unwrap();
    let right = liar.hears(|message| if let Message::Ask { right, .. } = message { Some(*right) } else { None }).await;
    // Calls by their numbers: the honest one has a random one, which is not to be guessed.
    for by in [1, u128::MAX] {
        let chain = ChainId { number: right.key.chain.number.wrapping_add(by), ..right.key.chain };
        tells(&link, &StepKey { chain, ..right.key.clone() }, &[666], 1).await;
    }
    // Its own: a reply that is told twice, and not the same; counts that contradict each other; more replies than are counted, under a right of nobody.
    tells(&link, &right.key, &[1], 3).await;
    tells(&link, &right.key, &[2], u32::MAX).await;
    tells(&link, &right.child(7).unwrap().key, &[3], 0).await;
    liar.is_read(&link).await;
    gate.add_permits(1);
    assert_eq!((all(&mut honest).await, honest.ended()), (vec![0, 1, 2, 3], Some(Ended::Complete)));
    let seen = all(&mut lied_to).await;
    assert!(seen.starts_with(&[1]) && !seen.contains(&2) && !seen.contains(&666), "{seen:?}");
    assert_ne!(lied_to.ended(), Some(Ended::Complete));
    assert!(lied_to.missing().iter().any(|missing| missing.node.as_deref() == Some("liar")), "{:?}", lied_to.missing());
}
