//! What one peer can do to the state machines of a node, over real processes: a good chain beside it goes on, and all is as before when the peer has gone.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[allow(dead_code)]
#[path = "processes/attacker.rs"]
mod attacker;
#[path = "common/bound.rs"]
mod bound;
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

use std::{cell::Cell, sync::Arc, time::Duration};

use catena::{Client, Context, Exception, Hash, Node, NodeId, NodeRef, RunOptions, Service, from_value, to_value};
use catena_net::Link;
use catena_wire::{
    Brought, Budget, ChainId, Hop, Kinds, Message, Outcome, Replies, RightEnd, ServiceEntry, StepKey, Value,
};
use serde_json::{Value as Json, json};
use tokio::{sync::Semaphore, task::JoinHandle};

use attacker::{Attacker, captured, entry, of_chain, send};
use latency::Quiet;
use node::beating;
use nodes::{BEAT_MS, Nodes, ask, run};
use process::comes_to_pass;

/// The process that the tests start. Run as a test it is over at once.
#[tokio::test(flavor = "multi_thread")]
async fn process() {
    if let Some(arguments) = process::arguments() {
        node::serve(arguments.into_iter()).await.unwrap();
    }
}

/// Hops or calls of one flood.
const MESSAGES: u64 = 20_000;
/// Processor time that can be told from none, in hundredths of a second.
const TICKS_TO_MEASURE: u64 = 20;
/// What a node may hold beyond what it held before, whatever a peer does.
const KEPT_BYTES_MAX: u64 = 512 << 20;

async fn good(client: &Client) {
    let source = r#"import { call } from "catena";
        export default async () => [await call("a/where", null), await call("b/where", null)];"#;
    assert_eq!(run(client, source, Json::Null).await.value(), &json!(["a", "b"]), "a good chain was hurt");
}

/// The same, begun by a service of node `z`, which is its origin.
async fn good_by_z(client: &Client) {
    let source = r#"import { call } from "catena";
        export default async () => [await call("a/where", null), await call("b/where", null)];"#;
    let ended = begun_at_z(client, source).await.unwrap().unwrap_or_else(|why| panic!("a good chain was hurt: {why}"));
    assert_eq!(ended, json!(["a", "b"]), "a good chain was hurt");
}

/// Some good chains: how long one takes.
async fn quiet(nodes: &Nodes, client: &Client) -> Quiet {
    Quiet::of(nodes.id("a"), async || good(client).await).await
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
    let alone = quiet(&nodes, &client).await;
    let before = nodes.process("a").resident_bytes();
    for (id, attack) in [(4_242, attack.to_owned()), (4_243, format!("{attack}, by another peer"))] {
        let attacker = Arc::new(Attacker::start(id, "attacker", |_| Vec::new()).await);
        let link = attacker.link(&nodes.place("a")).await;
        let flood = flood(Arc::clone(&attacker), link, Arc::clone(&make));
        alone.beside(&attack, flood, async || good(&client).await).await;
        quiet(&nodes, &client).await;
        let more = nodes.process("a").resident_bytes().saturating_sub(before);
        assert!(more < KEPT_BYTES_MAX, "{} MiB more", more >> 20);
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
    let client = nodes.patient_client().await;
    let alone = quiet(&nodes, &client).await;
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

/// Each announces another service than the one before it, of nearly as many bytes as a node keeps of one peer.
#[tokio::test(flavor = "multi_thread")]
async fn long_announcements_are_forgotten_with_the_next() {
    const ANNOUNCEMENTS: usize = 400;
    const FUNCTIONS: usize = 3_900;
    let (mut nodes, client) = Nodes::patient(&["a", "b"]).await;
    let alone = quiet(&nodes, &client).await;
    let before = nodes.process("a").resident_bytes();
    let attacker = Arc::new(Attacker::start(4_242, "attacker", |_| Vec::new()).await);
    let link = attacker.link(&nodes.place("a")).await;
    let name = |round: usize| format!("attacker.{round}");
    let announcing = {
        let (attacker, asks) = (Arc::clone(&attacker), client.clone());
        async move {
            let repeatable = (0..FUNCTIONS).map(|one| format!("{one:0240}")).collect();
            let kinds = Kinds { repeatable, ..Kinds::default() };
            for round in 0..ANNOUNCEMENTS {
                let heavy = ServiceEntry { kinds: kinds.clone(), ..entry(&name(round), &attacker.node) };
                send(&link, Message::Offers(vec![heavy])).await;
            }
            let last = name(ANNOUNCEMENTS - 1);
            while !asks.services().await.iter().any(|entry| entry.service == last) {}
        }
    };
    alone.beside("long announcements", announcing, async || good(&client).await).await;
    let more = nodes.process("a").resident_bytes().saturating_sub(before);
    println!("{} MiB more", more >> 20);
    assert!(more < KEPT_BYTES_MAX / 2, "{} MiB more", more >> 20);
    attacker.endpoint.close(Duration::from_secs(1)).await;
    let forgotten = async || !client.services().await.iter().any(|entry| entry.service.starts_with("attacker."));
    comes_to_pass("names go with their link", forgotten).await;
    good(&client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_sleeping_hops_of_one_peer_hurt_nobody() {
    let (service, function) = ("a".to_owned(), "hold".to_owned());
    hops_of_one_peer_hurt_nobody("hops that sleep", Hop { service, function, ..captured().await }).await;
}

/// A node's number is its own choice: whoever takes another for each few of its hops has no larger share.
#[tokio::test(flavor = "multi_thread")]
async fn sleeping_hops_under_many_numbers_of_one_address_hurt_nobody() {
    const NUMBERS: u64 = 32;
    /// Half of the chains that may be here, without those that are the node's own.
    const SHARE: usize = 20_000 / 8 * 7 / 2 + 1;
    let (nodes, client) = Nodes::patient(&["a", "b"]).await;
    let alone = quiet(&nodes, &client).await;
    let (service, function) = ("a".to_owned(), "hold".to_owned());
    let hop = Hop { service, function, ..captured().await };
    let mut attackers = Vec::new();
    for id in 0..NUMBERS {
        let attacker = Attacker::start(5_000 + id, "attacker", |_| Vec::new()).await;
        let link = attacker.link(&nodes.place("a")).await;
        attackers.push((attacker, link));
    }
    let asleep = hop.clone();
    let attack = async move {
        let mut accepted = 0;
        for (attacker, link) in &attackers {
            for number in 1..=MESSAGES / 16 {
                send(link, of_chain(&asleep, number, &attacker.node)).await;
            }
            accepted += attacker.answered(MESSAGES as usize / 16).await.0;
        }
        (accepted, attackers)
    };
    let what = "hops that sleep, under many numbers of one address";
    let (accepted, attackers) = alone.beside(what, attack, async || good(&client).await).await;
    println!("{accepted} of {} accepted", NUMBERS * MESSAGES / 16);
    assert!(accepted <= SHARE && accepted > SHARE / 2, "{accepted} accepted");
    quiet(&nodes, &client).await;
    for (attacker, _) in attackers {
        attacker.endpoint.close(Duration::from_secs(1)).await;
    }
    ask::<()>(&client, "a", "open", Json::Null).await;
    let next = Attacker::start(4_242, "next", |_| Vec::new()).await;
    let (link, sent) = (next.link(&nodes.place("a")).await, Cell::new(0));
    let finds_room = async || {
        sent.set(sent.get() + 1);
        send(&link, of_chain(&hop, sent.get(), &next.node)).await;
        next.answered(sent.get() as usize).await.0 > 0
    };
    comes_to_pass("there is room again", finds_room).await;
    good(&client).await;
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
async fn to_cancel_thousands_of_sleeping_hops_takes_about_as_long_as_to_take_them_in() {
    const TIMES_MAX: u64 = 4;
    let (mut nodes, client) = Nodes::patient(&["a", "b"]).await;
    let alone = quiet(&nodes, &client).await;
    let attacker = Arc::new(Attacker::start(4_242, "attacker", |_| Vec::new()).await);
    let link = attacker.link(&nodes.place("a")).await;
    let (service, function) = ("a".to_owned(), "hold".to_owned());
    let hop = Hop { service, function, ..captured().await };
    let begun = nodes.process("a").busy_ticks();
    let sleeping = hop.clone();
    let make: Make = Arc::new(move |number, node| of_chain(&sleeping, number, node));
    flood(Arc::clone(&attacker), Arc::clone(&link), make).await;
    let asleep = nodes.process("a").busy_ticks();
    let (accepted, overloaded) = attacker.answered(MESSAGES as usize).await;
    assert!(accepted > 5_000 && overloaded > 0, "{accepted} accepted, {overloaded} refused");
    let cancels = {
        let (attacker, link) = (Arc::clone(&attacker), Arc::clone(&link));
        async move {
            for number in 1..=MESSAGES {
                let chain = ChainId { origin: attacker.node.id, number: number.into() };
                send(&link, Message::Cancel(chain)).await;
            }
            attacker.is_read(&link).await;
        }
    };
    alone.beside("cancels of hops that sleep", cancels, async || good(&client).await).await;
    let cancelled = nodes.process("a").busy_ticks();
    let (taken_in, over) = (asleep - begun, cancelled - asleep);
    println!("{accepted} accepted; processor time: {taken_in} ticks to take them in, {over} to cancel them");
    // The good chains that run meanwhile count, too. Cancels that look through all that sleep, 1 ms each, would take some 2,000 ticks.
    assert!(
        over <= TIMES_MAX * taken_in.max(TICKS_TO_MEASURE),
        "{taken_in} ticks to take them in, {over} to cancel them"
    );
    // None of them is left: there is room for as many again.
    for number in 1..=accepted as u64 {
        send(&link, of_chain(&hop, MESSAGES + number, &attacker.node)).await;
    }
    let hops = MESSAGES as usize + accepted;
    assert_eq!(attacker.answered(hops).await, (2 * accepted, overloaded), "there is no room again");
}

/// Begins a chain at node `z`, which is its origin: what is to come of it. It may take as long as an attack.
fn begun_at_z(client: &Client, source: &str) -> JoinHandle<Result<Json, Exception>> {
    let (client, job) = (client.clone(), to_value(&json!({ "source": source })).unwrap());
    let options = RunOptions { timeout: Duration::from_secs(600), ..RunOptions::default() };
    tokio::spawn(async move { from_value(&client.call_with("z", "job", job, &options).await?) })
}

#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_with_thousands_of_open_branches_hurt_neither_their_chain_nor_another() {
    const HEARTBEATS: u16 = 200;
    /// Of what as many heartbeats take that are read and dropped. What looks through all branches for each of them takes hundreds of times as long.
    const TIMES_MAX: u64 = 10;
    let (mut nodes, client) = Nodes::patient(&["a", "b", "z"]).await;
    let alone = Quiet::of(nodes.id("z"), async || good_by_z(&client).await).await;
    let attacker = Arc::new(Attacker::start(4_242, "attacker", |node| vec![entry("attacker", node)]).await);
    let link = attacker.link(&nodes.place("z")).await;
    let source = r#"import { call } from "catena";
        export default () => Promise.all([call("a/hold", null), call("attacker/f", null)]);"#;
    let chain = begun_at_z(&client, source);
    let asked = attacker.hears(|message| match message {
        Message::Call { id, key: Some(key), .. } => Some((id, key)),
        _ => None,
    });
    let (id, key) = asked.await;
    let beats = |key: &StepKey| {
        let (attacker, link, key) = (Arc::clone(&attacker), Arc::clone(&link), key.clone());
        async move {
            for round in 0..HEARTBEATS {
                let open = (0..4_096).map(|one| key.branch.child(round % 16).unwrap().child(one).unwrap()).collect();
                send(&link, Message::Heartbeat(key.clone(), attacker.node.clone(), open)).await;
            }
            attacker.is_read(&link).await;
        }
    };
    alone.beside("heartbeats of many branches", beats(&key), async || good_by_z(&client).await).await;
    // Of a chain that `z` did not begin: it drops them when it has read them.
    let elsewhere = StepKey { chain: ChainId { origin: NodeId(9_999), ..key.chain }, ..key.clone() };
    let mut ticks = [0; 2];
    for (ticks, key) in ticks.iter_mut().zip([&elsewhere, &key]) {
        let before = nodes.process("z").busy_ticks();
        beats(key).await;
        *ticks = nodes.process("z").busy_ticks() - before;
    }
    let [dropped, heard] = ticks;
    println!("{heard} ticks of the processor for {HEARTBEATS} heartbeats, {dropped} for as many that are dropped");
    assert!(heard <= TIMES_MAX * dropped.max(TICKS_TO_MEASURE), "{dropped} ticks of the processor, then {heard}");
    send(&link, Message::Return(id, Outcome::Done(Value::null()), Brought::default())).await;
    ask::<()>(&client, "a", "open", Json::Null).await;
    let ended = chain.await.unwrap().unwrap_or_else(|why| panic!("the chain that they were about: {why}"));
    assert_eq!(ended, json!([null, null]));
    attacker.endpoint.close(Duration::from_secs(1)).await;
    good_by_z(&client).await;
}

/// These replies under this right, the first of them number 0, and its end, which counts so many.
async fn tells(link: &Arc<Link>, key: &StepKey, values: &[u64], replies: u32) {
    let (key, values) = (key.clone(), values.iter().map(|value| to_value(value).unwrap()).collect());
    send(link, Message::Replies(Replies { key: key.clone(), first: 0, values })).await;
    let end = RightEnd { key, replies, delegated: Vec::new(), threw: None, late: false };
    send(link, Message::RightEnd(Box::new(end))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_lies_about_replies_spoils_its_own_call_only() {
    let (nodes, client) = Nodes::patient(&["a", "b", "z"]).await;
    let alone = Quiet::of(nodes.id("z"), async || good_by_z(&client).await).await;
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
    let count = Service::new("honest").replies("count", count);
    let honest = Node::builder("honest").listen("127.0.0.1:0").policy(beating(BEAT_MS)).service(count);
    let _honest = honest.join(nodes.place("z")).start().await.unwrap();
    let liar = Attacker::start(4_242, "liar", |node| vec![entry("liar", node)]).await;
    let link = liar.link(&nodes.place("z")).await;
    liar.is_read(&link).await;
    let source = r#"import { replies } from "catena";
        const read = async (target) => {
            const [seen, set] = [[], replies(target, 3, { partial: true })];
            for await (const reply of set) seen.push(reply);
            return [seen, set.ended, set.missing.map((missing) => missing.node)];
        };
        export default () => Promise.all([read("honest/count"), read("liar/f")]);"#;
    let chain = begun_at_z(&client, source);
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
    alone.under("lies about replies", async || good_by_z(&client).await).await;
    gate.add_permits(1);
    // It is the liar's own call that waits for what it counted: until the liar has gone.
    liar.endpoint.close(Duration::from_secs(1)).await;
    let read: [(Vec<u64>, String, Vec<String>); 2] = serde_json::from_value(chain.await.unwrap().unwrap()).unwrap();
    let [honest, lied_to] = read;
    assert_eq!(honest, (vec![0, 1, 2, 3], "complete".to_owned(), Vec::new()));
    let (seen, ended, missing) = lied_to;
    assert!(seen.starts_with(&[1]) && !seen.contains(&2) && !seen.contains(&666), "{seen:?}");
    assert_ne!(ended, "complete");
    assert!(missing.iter().any(|node| node == "liar"), "{missing:?}");
    good_by_z(&client).await;
}
