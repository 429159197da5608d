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

use catena::{Client, Hash, Node, Place, RunOptions, to_value};
use catena_net::Link;
use catena_wire::{Branch, Hop, Message, StepKey};
use serde_json::{Value as Json, json};

use attacker::{Attacker, captured, of_chain, send};
use latency::Quiet;
use nodes::{Nodes, SANDBOX, ask, run};

/// The process that the tests start. Run as a test it is over at once.
#[tokio::test(flavor = "multi_thread")]
async fn process() {
    if let Some(arguments) = process::arguments() {
        node::serve(arguments.into_iter()).await.unwrap();
    }
}

const HOPS: u64 = 20_000;
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

/// Sends node `a` so many hops of so many chains. Returns when they have been read.
async fn flood(attacker: Arc<Attacker>, link: Arc<Link>, hop: Hop) {
    for number in 1..=HOPS {
        send(&link, of_chain(&hop, number, &attacker.node)).await;
    }
    attacker.is_read(&link).await;
}

/// A flood of one kind of hop, good chains beside it, then the same from another peer when the first has gone.
async fn hops_of_one_peer_hurt_nobody(attack: &str, hop: Hop) {
    let (mut nodes, client) = Nodes::patient(&["a", "b"]).await;
    let alone = quiet(&client).await;
    let before = nodes.process("a").resident_bytes();
    for (id, attack) in [(4_242, attack.to_owned()), (4_243, format!("{attack}, by another peer"))] {
        let attacker = Arc::new(Attacker::start(id, "attacker", |_| Vec::new()).await);
        let link = attacker.link(&nodes.place("a")).await;
        let flood = flood(Arc::clone(&attacker), link, hop.clone());
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
