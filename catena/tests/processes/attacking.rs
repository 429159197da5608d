//! What one peer can do to a node: whatever that is, a good chain beside it goes on, and all is as before when it has gone.

mod heavy;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use catena::{Client, NodeBuilder, NodeId, NodeRef, exceptions};
use catena_net::Message as Frames;
use catena_wire::{Branch, ChainId, Message, StepKey};
use futures_util::{
    StreamExt,
    stream::{self, FuturesUnordered},
};
use serde_json::{Value as Json, json};
use tokio::time::timeout;

use crate::{
    attacker::{Attacker, entry, send},
    latency::Quiet,
    logged::LOGGED,
    node::beating,
    nodes::{Nodes, PATIENT_BEAT_MS, ask, begin, builder, run},
    process::{PATIENCE, comes_to_pass, resident_bytes_max},
};

const BOTH: &str = r#"import { call } from "catena";
    export default async () => [await call("a/where", null), await call("b/where", null)];"#;

async fn good(client: &Client, times: usize) {
    for _ in 0..times {
        assert_eq!(run(client, BOTH, Json::Null).await.value(), &json!(["a", "b"]), "a good chain was hurt");
    }
}

/// How long good chains take by themselves.
async fn quiet(nodes: &Nodes, client: &Client) -> Quiet {
    Quiet::of(nodes.id("a"), async || good(client, 1).await).await
}

/// Good chains, by themselves and then beside an attack.
async fn beside<T: Send + 'static>(
    (nodes, client): (&Nodes, &Client),
    attack: &str,
    attacking: impl Future<Output = T> + Send + 'static,
) -> T {
    quiet(nodes, client).await.beside(attack, attacking, async || good(client, 1).await).await
}

/// Nodes `a`, which is attacked, and `b`, and a client of both.
async fn stage() -> (Nodes, Client) {
    let (nodes, client) = Nodes::patient(&["a", "b"]).await;
    good(&client, 1).await;
    (nodes, client)
}

/// Somebody who has joined `a` alone.
fn newcomer(nodes: &Nodes) -> NodeBuilder {
    builder("newcomer").policy(beating(PATIENT_BEAT_MS)).join(nodes.place("a"))
}

/// The names of services that a node tells somebody new of, sorted.
async fn told_to_a_newcomer(nodes: &Nodes) -> Vec<(String, NodeRef)> {
    let newcomer = newcomer(nodes).entry_only().connect().await.unwrap();
    newcomer.services().await.into_iter().map(|entry| (entry.service, entry.node)).collect()
}

/// Addresses of this machine at which somebody counts who knocks.
async fn doors() -> (u16, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("0.0.0.0:0").await.unwrap();
    let (port, knocks) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&knocks);
    tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    (port, knocks)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_cannot_have_addresses_of_its_choice_dialled() {
    const LOOKUPS: u64 = 11_000;
    let (nodes, client) = stage().await;
    let (port, knocks) = doors().await;
    let attacker = Attacker::start(4_242, "attacker", |_| Vec::new()).await;
    let link = attacker.link(&nodes.place("a")).await;
    let attack = async move {
        for number in 0..LOOKUPS {
            let id = NodeId(1_000_000 + number);
            let address = Some(format!("127.1.{}.{}:{port}", number / 250, number % 250 + 1));
            let origin = NodeRef { id, name: "elsewhere".into(), address, site: None };
            let key = StepKey { chain: ChainId { origin: id, number: 1 }, branch: Branch::root(), step: 1 };
            send(&link, Message::Locate { key, origin, entry: None }).await;
        }
        attacker.is_read(&link).await;
        (attacker, link)
    };
    let (attacker, _link) = beside((&nodes, &client), "look-ups with foreign addresses", attack).await;
    // By then most of them would have been dialled.
    good(&client, 100).await;
    attacker.endpoint.close(std::time::Duration::from_secs(1)).await;
    good(&client, 10).await;
    let knocks = knocks.load(Ordering::SeqCst);
    assert!(knocks <= 64, "{knocks} addresses of a stranger's choice were dialled");
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_few_for_each_link_and_gone_with_it() {
    const ATTACKERS: u64 = 116;
    const AT_ONCE: usize = 4;
    /// As many as a greeting has room for.
    const NAMES: usize = 700;
    /// Of them, those that a node takes.
    const KNOWN_MAX: usize = 256;
    let (nodes, client) = stage().await;
    let alone = quiet(&nodes, &client).await;
    let before = told_to_a_newcomer(&nodes).await.len();
    let place = nodes.place("a");
    let attacker = move |number: u64| {
        let place = place.clone();
        async move {
            let name = format!("attacker{number}");
            let announces = |node: &NodeRef| (0..NAMES).map(|one| entry(&format!("{name}.{one}"), node)).collect();
            let attacker = Attacker::start(1_000 + number, &name, announces).await;
            let link = attacker.link(&place).await;
            attacker.is_read(&link).await;
            attacker
        }
    };
    let first = attacker(0).await;
    let known = told_to_a_newcomer(&nodes).await.len();
    assert!(known <= before + KNOWN_MAX, "{known} names");
    // Each has to introduce itself in time, on a slow processor too.
    let others = stream::iter(1..ATTACKERS).map(attacker).buffer_unordered(AT_ONCE).collect::<Vec<_>>();
    let others = alone.beside("announced names", others, async || good(&client, 1).await).await;
    alone.under("announced names, once they are known", async || good(&client, 1).await).await;
    for attacker in others.into_iter().chain([first]) {
        attacker.endpoint.close(std::time::Duration::from_secs(1)).await;
    }
    comes_to_pass("names are gone with their link", async || told_to_a_newcomer(&nodes).await.len() <= before).await;
    good(&client, 10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_announces_for_another_node_or_greets_as_one() {
    let (nodes, client) = stage().await;
    let alone = quiet(&nodes, &client).await;
    let known = told_to_a_newcomer(&nodes).await;
    let find = |name: &str| known.iter().find(|(service, _)| service == name).unwrap().1.clone();
    let (a, b) = (find("a"), find("b"));
    // What `b` serves, at an address of the attacker's: under `b`'s number, in a greeting of its own and in one of `b`'s.
    let astray = |at: &NodeRef| NodeRef { address: at.address.clone(), ..b.clone() };
    let liar = Attacker::start(4_242, "liar", |me| {
        let nobody = NodeRef { id: NodeId(9_999), ..me.clone() };
        vec![entry("b", &astray(me)), entry("ghost", &nobody), entry("liar", me)]
    });
    let (liar, thief) = (liar.await, Attacker::start(b.id.0, "thief", |me| vec![entry("b", me)]).await);
    let twin = Attacker::start(a.id.0, "a", |me| vec![entry("a", me)]).await;
    // Whoever comes under the number of a linked node, or of `a` itself, is turned away.
    for (attacker, may_be_heard) in [(&liar, true), (&thief, false), (&twin, false)] {
        let link = attacker.endpoint.link(&nodes.place("a")).await.unwrap();
        assert_eq!(link.introduced().await.is_ok(), may_be_heard, "{}", attacker.node.name);
    }
    let link = liar.link(&nodes.place("a")).await;
    liar.is_read(&link).await;
    for _ in 0..20 {
        let told = told_to_a_newcomer(&nodes).await;
        let nodes_of = |name: &str| told.iter().filter(|(service, _)| service == name).map(|(_, node)| node).collect();
        let (of_a, of_b, of_ghost): (Vec<_>, Vec<_>, Vec<_>) = (nodes_of("a"), nodes_of("b"), nodes_of("ghost"));
        assert_eq!((of_a, of_b, of_ghost), (vec![&a], vec![&b], vec![]), "somebody is led astray");
        good(&client, 1).await;
        let newcomer = newcomer(&nodes).connect().await.unwrap();
        good(&newcomer, 1).await;
    }
    alone.under("announcements for another node", async || good(&client, 1).await).await;
    liar.endpoint.close(std::time::Duration::from_secs(1)).await;
    comes_to_pass("all is as before", async || told_to_a_newcomer(&nodes).await == known).await;
    good(&client, 10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_dropped_and_hurts_nobody() {
    const MESSAGES: u32 = 20_000;
    const LINES_PER_S_MAX: u64 = 5;
    let (mut nodes, client) = Nodes::patient_with(&[("a", &[LOGGED]), ("b", &[LOGGED])]).await;
    let alone = quiet(&nodes, &client).await;
    let attacker = Attacker::start(4_242, "attacker", |_| Vec::new()).await;
    let link = attacker.link(&nodes.place("a")).await;
    let began = Instant::now();
    let attack = async move {
        for number in 0..MESSAGES {
            link.send(Frames::head([&[0xff][..], &number.to_be_bytes()].concat())).await.unwrap();
        }
        attacker.is_read(&link).await;
    };
    alone.beside("messages that cannot be read", attack, async || good(&client, 1).await).await;
    // In each second it has begun.
    let lines_max = LINES_PER_S_MAX * (began.elapsed().as_secs() + 2);
    ask::<u32>(&client, "a", "note", json!({ "text": "all" })).await;
    let said = nodes.process("a").says_before("a noted all").await;
    let lines = said.iter().filter(|line| line.contains("a message was dropped")).count();
    println!("{lines} lines of the log");
    assert!((1..=lines_max).contains(&(lines as u64)), "{lines} lines of the log");
    good(&client, 10).await;
}

/// Grows to 48 MiB at `a`, and waits there: for two calls, so that it does not leave.
const LARGE: &str = r#"import { call, emit } from "catena";
    export default async (name) => {
        await call("a/where", null);
        const kept = new Uint8Array(48 << 20).fill(1);
        emit("large");
        await Promise.all([call("a/hold", name), call("b/where", null)]);
        return kept.length;
    };"#;

#[tokio::test(flavor = "multi_thread")]
async fn guests_share_one_bound_of_memory() {
    // Of half of a GiB, one peer's guests have at most seven sixteenths.
    const MORE_BYTES_MAX: u64 = 400 << 20;
    const FILLED_BYTES_MIN: u64 = 150 << 20;
    let (mut nodes, client) = stage().await;
    let alone = quiet(&nodes, &client).await;
    let (before, attacked) = (nodes.process("a").resident_bytes(), nodes.id("a"));
    let hostile = nodes.patient_client().await;
    let attack = async move {
        // Those that do not fit end while the others wait.
        let mut chains: FuturesUnordered<_> = (0..40).map(|_| begin(&hostile, LARGE, json!("x"))).collect();
        for _ in 0..30 {
            let ended = chains.next().await.expect("a chain").unwrap();
            let why = ended.why();
            assert_eq!(why.name, exceptions::OVERLOADED, "{why}");
            assert!(why.message.contains("guests_bytes_max"), "{why}");
        }
        // The others fill what they were granted.
        let filled = async {
            while resident_bytes_max(attacked) < before + FILLED_BYTES_MIN {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, filled).await.expect("they fill it");
        chains
    };
    let mut chains = alone.beside("chains that grow", attack, async || good(&client, 1).await).await;
    alone.under("chains that have grown, and wait", async || good(&client, 1).await).await;
    let more = resident_bytes_max(nodes.id("a")).saturating_sub(before);
    assert!(more < MORE_BYTES_MAX, "{} MiB more", more >> 20);
    ask::<()>(&client, "a", "open", Json::Null).await;
    while let Some(ended) = chains.next().await {
        let ended = ended.unwrap();
        match &ended.result {
            Ok(bytes) => assert_eq!(bytes, &json!(48 << 20)),
            Err(why) => assert_eq!(why.name, exceptions::OVERLOADED, "{why}"),
        }
    }
    assert_eq!(run(&client, LARGE, json!("x")).await.value(), &json!(48 << 20), "there is room again");
}
