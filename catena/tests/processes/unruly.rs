//! Input that no good peer gives: repetitions, from a socket that was not read for long, too; a state that never comes; an origin whose link comes and goes;
//! two nodes of one name; ids that are forged or guessed. Nothing is done twice, nothing is lost, and nobody else is hurt.

use std::time::{Duration, Instant};

use catena::{ChainId, Client, Exception, Fault, Node, Place, Reply, RunOptions, Service, exceptions, to_value};
use catena_wire::{Branch, Brought, End, Hop, Message, Outcome, StepKey, Value};
use futures_util::stream;
use serde_json::{Value as Json, json};

use crate::{
    attacker::{Attacker, broken, captured, end_of, entry, of_chain, send},
    clock::Clock,
    nodes::{Nodes, PATIENT_BEAT_MS, SANDBOX, ask, begin, builder, run},
    process::PATIENCE,
    relay::Relay,
};

/// A hop that takes a note at `a`, with so much to carry.
async fn noting(text: &str, carried: usize) -> Hop {
    let (service, function) = ("a".to_owned(), "note".to_owned());
    let (continuation, continuation_bytes) = (vec![7; carried].into(), u32::try_from(carried).unwrap());
    let params = to_value(&json!({ "text": text })).unwrap();
    Hop { service, function, params, continuation, continuation_bytes, ..captured().await }
}

/// By a chain of somebody whom nothing of this concerns.
async fn count(client: &Client, text: &str) -> u32 {
    let source = r#"import { call } from "catena";
        export default (text) => call("a/count", text);"#;
    let counted = run(client, source, json!(text)).await;
    serde_json::from_value(counted.value().clone()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_peer_says_twice_is_done_once() {
    let nodes = Nodes::start(&["a"]).await;
    let client = nodes.client().await;
    let attacker = Attacker::start(4_242, "attacker", |_| Vec::new()).await;
    let link = attacker.link(&nodes.place("a")).await;
    let hop = noting("hop", 0).await;
    for number in 1..=20 {
        for _ in 0..2 {
            send(&link, of_chain(&hop, number, &attacker.node)).await;
        }
    }
    let key = |step| catena_wire::StepKey { step, ..hop.key.clone() };
    for id in 1..=20 {
        for again in [0, 100] {
            let call = Message::Call {
                id: id + again,
                service: "a".into(),
                function: "note".into(),
                params: to_value(&json!({ "text": "call" })).unwrap(),
                budget: hop.budget,
                key: Some(key(u32::try_from(id).unwrap() + 50)),
                credentials: None,
                duplicate: None,
                age_us: again,
            };
            send(&link, call).await;
        }
    }
    attacker.is_read(&link).await;
    assert_eq!((count(&client, "hop").await, count(&client, "call").await), (20, 20));
}

/// Its origin sends a hop twice, and stops the chain twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_chain_that_is_begun_and_stopped_twice_stops_once() {
    let mut nodes = Nodes::start(&["a"]).await;
    let client = nodes.client().await;
    let attacker = Attacker::start(4_242, "attacker", |_| Vec::new()).await;
    let link = attacker.link(&nodes.place("a")).await;
    let twice = async |message: Message| {
        send(&link, message.clone()).await;
        send(&link, message).await;
    };
    let params = to_value(&json!({ "text": "stopped", "wait": "before" })).unwrap();
    let hop = Hop { params, ..noting("stopped", 0).await };
    twice(of_chain(&hop, 1, &attacker.node)).await;
    nodes.process("a").says("a begins stopped").await;
    twice(Message::Cancel(ChainId { origin: attacker.node.id, number: 1 })).await;
    nodes.process("a").says("a let go of stopped").await;
    attacker.is_read(&link).await;
    ask::<u32>(&client, "a", "note", json!({ "text": "over" })).await;
    assert_eq!(nodes.process("a").says_before("a noted over").await, ["a begins over"]);
}

/// A node that remembers steps for three seconds sleeps for so long, in mid-life, alone or with its host: its clock jumps. What was said to it meanwhile waits in
/// its socket, or its link breaks over it.
async fn sleeps(sleep_s: u64, its_host: bool, breaks: bool) {
    let (mut nodes, clock) = (Nodes::default(), Clock::new());
    nodes.add_in(clock.environment(), "a", &["--ttl-ms", "3000"]).await;
    let client = nodes.client().await;
    let attacker = Attacker::start(4_242, "attacker", |_| Vec::new()).await;
    let link = attacker.link(&nodes.place("a")).await;
    let hop = noting("once", 0).await;
    send(&link, of_chain(&hop, 1, &attacker.node)).await;
    nodes.process("a").says("a noted once").await;
    // Before that the step is under way, which no node forgets.
    attacker.ended(1).await;
    nodes.process("a").signal("STOP").await;
    for _ in 0..3 {
        send(&link, of_chain(&hop, 1, &attacker.node)).await;
    }
    // It stands still for a little longer, so that no clock of it goes back.
    tokio::time::sleep(Duration::from_secs(sleep_s) + Duration::from_millis(500)).await;
    if its_host {
        clock.slept(i64::try_from(sleep_s).unwrap());
    }
    nodes.process("a").signal("CONT").await;
    if breaks {
        broken(&link).await;
    } else {
        attacker.is_read(&link).await;
    }
    let client = if breaks { nodes.client().await } else { client };
    // Twice a second it drops what is old.
    let awake = Instant::now();
    while awake.elapsed() < Duration::from_secs(1) {
        count(&client, "once").await;
    }
    let age_us = sleep_s * 1_000_000;
    let again = of_chain(&Hop { age_us, ..hop }, 1, &attacker.node);
    // It has the old link for a moment yet, and may close the new one for it.
    while !attacker.is_heard(&nodes.place("a"), again.clone()).await {}
    assert_eq!(count(&client, "once").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_slept_for_longer_than_it_remembers_steps_knows_what_it_did_before() {
    sleeps(4, false, false).await;
}

/// An hour is no different: no wait of a node is longer but those for a chain's own time.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_slept_for_longer_than_its_links_last_does_nothing_twice() {
    sleeps(25, false, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_host_slept_for_longer_than_its_links_last_does_nothing_twice() {
    sleeps(25, true, true).await;
}

/// The other node was awake meanwhile, and goes by that age: it may have forgotten the step.
#[tokio::test(flavor = "multi_thread")]
async fn a_hop_that_is_sent_again_after_its_host_slept_says_how_old_it_is() {
    const SLEPT_S: u64 = 4;
    let clock = Clock::new();
    let mut nodes = Nodes::default();
    // Its client does not give the chain up meanwhile.
    nodes.add_in(clock.environment(), "a", &["--beat-ms", &PATIENT_BEAT_MS.to_string()]).await;
    let client = nodes.patient_client().await;
    let attacker = Attacker::start(4_242, "attacker", |node| vec![entry("attacker", node)]).await;
    let _link = attacker.link(&nodes.place("a")).await;
    let source = r#"import { call } from "catena";
        export default async () => { await call("a/where", null); await call("attacker/f", null); };"#;
    let chain = begin(&client, source, Json::Null);
    let hop = |message| match message {
        Message::Hop(hop) => Some(hop),
        _ => None,
    };
    let first = attacker.hears(hop).await;
    assert_eq!(first.age_us, 0);
    nodes.process("a").signal("STOP").await;
    // It stands still for a little longer, so that no clock of it goes back.
    tokio::time::sleep(Duration::from_secs(SLEPT_S) + Duration::from_millis(500)).await;
    clock.slept(i64::try_from(SLEPT_S).unwrap());
    nodes.process("a").signal("CONT").await;
    let again = attacker.hears(hop).await;
    assert_eq!(again.key, first.key);
    assert!(again.age_us >= SLEPT_S * 1_000_000, "{} us", again.age_us);
    chain.abort();
}

/// Carries noise to `a` and on to `b`, where it waits.
const LARGE: &str = r#"import { call } from "catena";
    export default async (bytes) => {
        const noise = new Uint32Array(1 << 16);
        for (let at = 0, x = 1; at < noise.length; at++) noise[at] = x = Math.imul(x, 1664525) + 1013904223;
        const state = new Uint32Array(bytes / 4);
        for (let at = 0; at < state.length; at += noise.length) state.set(noise, at);
        await call("a/where", null);
        await call("b/note", { text: "large", wait: "before" });
        return state.length;
    };"#;

/// A node that remembers this many steps.
const RECORDS_MAX: u64 = 4_096;

#[tokio::test(flavor = "multi_thread")]
async fn neither_large_states_nor_many_refusals_make_a_node_forget_what_it_did() {
    /// Together more than a node keeps to answer steps once more.
    const CHAINS: usize = 9;
    const CARRIED: u64 = 8 << 20;
    /// More than a node remembers.
    const REFUSED: u64 = RECORDS_MAX + 500;
    let remembers = ["--records-max", &RECORDS_MAX.to_string()];
    let (mut nodes, client) = Nodes::patient_with(&[("a", &remembers), ("b", &[])]).await;
    let attacker = Attacker::start(4_242, "attacker", |_| Vec::new()).await;
    let link = attacker.link(&nodes.place("a")).await;
    let hop = noting("once", 0).await;
    send(&link, of_chain(&hop, 1, &attacker.node)).await;
    attacker.ended(1).await;
    let again = Hop { age_us: 1_000_000, ..hop.clone() };

    let chains: Vec<_> = (0..CHAINS).map(|_| begin(&client, LARGE, json!(CARRIED))).collect();
    for _ in 0..CHAINS {
        nodes.process("b").says("b begins large").await;
    }
    send(&link, of_chain(&again, 1, &attacker.node)).await;
    assert_eq!(attacker.answered(2).await, (2, 0), "what it did is known, and said");

    // Another address, so that it has a share of its own.
    let refused = Hop { service: "nowhere".into(), ..hop };
    let another = Attacker::start(4_243, "another", |_| Vec::new()).await;
    let relay = Relay::between([127, 0, 0, 2], nodes.place("a").address).await;
    let to_a = another.link(&Place::new(&relay.address)).await;
    for number in 1..=REFUSED {
        send(&to_a, of_chain(&refused, number, &another.node)).await;
    }
    another.is_read(&to_a).await;
    send(&link, of_chain(&again, 1, &attacker.node)).await;
    assert_eq!(attacker.answered(3).await, (3, 0), "refusals of another peer");

    // Its own drive it out; then whether it was done is unknown, and it is not done again.
    for number in 2..=REFUSED {
        send(&link, of_chain(&refused, number, &attacker.node)).await;
    }
    send(&link, of_chain(&again, 1, &attacker.node)).await;
    attacker.unknown(1).await;
    assert_eq!(count(&client, "once").await, 1);
    ask::<()>(&client, "b", "open", Json::Null).await;
    for chain in chains {
        let ended = chain.await.unwrap();
        assert_eq!(ended.value(), &json!(CARRIED / 4));
        assert!(ended.trace.iter().any(|step| step.continuation_bytes >= CARRIED), "{:?}", ended.trace);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sub_chains_are_heard_however_many_there_were_before() {
    use futures_util::StreamExt;
    /// More than a node listens to at one time: as many as 27 a second are in ten minutes, the longest that a chain may take.
    const SUB_CHAINS: usize = 16_384 + 500;
    const AT_ONCE: usize = 16;
    let mut nodes = Nodes::default();
    // It lets go of those that have ended after four of these.
    nodes.add("z", &["--beat-ms", "50"]).await;
    let client = nodes.client().await;
    let source = r#"import { call } from "catena";
        const source = `import { emit } from "catena"; export default async (number) => { emit(number); return number; };`;
        export default (input) => call("z/job", { source, input });"#;
    let code = client.javascript("test.js", source).await.unwrap();
    let one = async |number: usize| {
        let ended = client.run(&code, &number).await.unwrap().value::<usize>().await;
        assert_eq!(ended.unwrap_or_else(|why| panic!("{why}")), number);
    };
    let all = stream::iter(0..SUB_CHAINS).map(one).buffer_unordered(AT_ONCE).collect::<Vec<()>>();
    let heard = async {
        for _ in 0..SUB_CHAINS {
            nodes.process("z").says("z heard ").await;
        }
    };
    tokio::join!(all, heard);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_of_day_that_jumps_changes_nothing_but_what_is_told_of_it() {
    const YEAR_S: i64 = 365 * 86_400;
    let clock = Clock::new();
    let mut nodes = Nodes::start(&["b"]).await;
    nodes.add_in(clock.environment(), "a", &[]).await;
    let client = nodes.client().await;
    let source = r#"import { call } from "catena";
        export default async (text) => {
            await call("b/where", null);
            await call("a/note", { text, wait: "before" });
            return [await call("b/where", null), await call("a/count", text)];
        };"#;
    let mut last_us = 0;
    for (text, moved_s) in [("as it is", 0), ("a year on", YEAR_S), ("a year back", -YEAR_S)] {
        let chain = begin(&client, source, json!(text));
        nodes.process("a").says(&format!("a begins {text}")).await;
        // While the chain is there, and again before the next.
        clock.set(moved_s);
        ask::<()>(&client, "a", "open", Json::Null).await;
        let ended = chain.await.unwrap();
        assert_eq!(ended.value(), &json!(["b", 1]));
        let at_a = ended.trace.iter().find(|step| step.target == "a/note").expect("its profile");
        // Whatever a node dates is dated by the clock that it began with.
        assert!(at_a.arrived_at_us >= last_us, "{} before {last_us}", at_a.arrived_at_us);
        last_us = at_a.arrived_at_us;
    }
    // One that begins under such a clock dates by it, and works with the others.
    clock.set(YEAR_S);
    nodes.add_in(clock.environment(), "c", &[]).await;
    let client = nodes.client().await;
    let source = r#"import { call } from "catena";
        export default async () => [await call("a/where", null), await call("c/where", null), await call("b/where", null)];"#;
    let ended = run(&client, source, Json::Null).await;
    assert_eq!(ended.value(), &json!(["a", "c", "b"]));
    let at_c = ended.trace.iter().find(|step| step.target == "c/where").expect("its profile");
    assert!(at_c.arrived_at_us > last_us + u64::try_from(YEAR_S).unwrap() * 900_000, "the clock was not moved");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hop_whose_state_never_comes_is_its_senders_to_send_again() {
    // More than the buffers on the way hold.
    const CARRIED: usize = 48 << 20;
    let mut nodes = Nodes::start(&["a"]).await;
    let client = nodes.client().await;
    let attacker = Attacker::start(4_242, "attacker", |_| Vec::new()).await;
    let mut relay = Relay::to(nodes.place("a").address).await;
    let hop = noting("once", CARRIED).await;
    {
        let link = attacker.link(&Place::new(&relay.address)).await;
        relay.allow(1 << 20);
        send(&link, of_chain(&hop, 1, &attacker.node)).await;
        // The service function runs already.
        nodes.process("a").says("a noted once").await;
        relay.holds().await;
        relay.cut();
        broken(&link).await;
    }
    let link = attacker.link(&nodes.place("a")).await;
    let later = Hop { age_us: 1_000_000, ..hop };
    send(&link, of_chain(&later, 1, &attacker.node)).await;
    assert_eq!(attacker.answered(1).await, (1, 0), "with its state it is accepted");
    assert_eq!(count(&client, "once").await, 1, "and its service function does not run again");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_origin_whose_link_comes_and_goes_misses_nothing() {
    let mut nodes = Nodes::start(&["a", "b"]).await;
    let relay = Relay::to(nodes.place("a").address).await;
    // Nobody can dial it, and it knows of no other way in.
    let origin = builder("origin").join(Place::new(&relay.address)).entry_only().connect().await.unwrap();
    let source = r#"import { call, emit } from "catena";
        export default async () => {
            for (let round = 0; round < 4; round++) {
                emit(round);
                await call(round % 2 ? "a/where" : "b/where", null);
                await call("b/note", { text: `round ${round}`, wait: round ? "before" : null });
            }
            emit("last");
            return "done";
        };"#;
    let chain = begin(&origin, source, Json::Null);
    nodes.process("b").says("b noted round 0").await;
    let client = nodes.client().await;
    for _ in 0..3 {
        relay.cut();
        // It is linked again when a call of its own is answered.
        let again = async {
            while origin.call::<_, Json>("a", "count", &"x").await.is_err() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, again).await.expect("it links again");
    }
    ask::<()>(&client, "b", "open", Json::Null).await;
    let ended = chain.await.unwrap();
    assert_eq!(ended.value(), &json!("done"));
    assert_eq!(ended.emitted, [json!(0), json!(1), json!(2), json!(3), json!("last")]);
    for round in 0..4 {
        assert_eq!(ask::<u32>(&client, "b", "count", json!(format!("round {round}"))).await, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_of_one_name_hurt_nobody() {
    const ALL: &str = r#"import { call } from "catena";
        export default async () => [await call("a/where", null), await call("twin/where", null), await call("b/where", null)];"#;
    let nodes = Nodes::start(&["a", "b"]).await;
    let desk = |service: &str| Service::new(service).function("where", async |_: Json| Ok("twin"));
    let twin = Node::builder("a").listen("127.0.0.1:0").join(nodes.place("a")).join(nodes.place("b"));
    // What both serve may be done by either.
    let twin = twin.service(desk("twin")).service(desk("a")).sandbox(SANDBOX.clone()).start().await.unwrap();
    let client = nodes.client().await;
    for _ in 0..10 {
        let ended = run(&client, ALL, Json::Null).await;
        assert!([json!(["a", "twin", "b"]), json!(["twin", "twin", "b"])].contains(ended.value()), "{}", ended.value());
    }
    twin.close(Duration::from_secs(1)).await;
    let ended = run(&client, ALL, Json::Null).await;
    assert!(!ended.why().unknown, "{}", ended.why());
    let source = r#"import { call } from "catena"; export default () => call("a/where", null);"#;
    assert_eq!(run(&client, source, Json::Null).await.value(), &json!("a"));
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_and_guessed_ids_touch_nobodys_chain() {
    let mut nodes = Nodes::start(&["a", "b"]).await;
    let origin = Node::builder("origin").listen("127.0.0.1:0").sandbox(SANDBOX.clone());
    let origin = origin.join(nodes.place("a")).join(nodes.place("b")).start().await.unwrap();
    let source = r#"import { call, emit } from "catena";
        export default async () => {
            emit("first");
            await call("a/note", { text: "here" });
            await call("a/hold", null);
            emit("last");
            return await call("b/where", null);
        };"#;
    let code = origin.client().javascript("holds.js", source).await.unwrap();
    let mut replies = origin.client().run_with(&code, &to_value(&()).unwrap(), &RunOptions::default()).unwrap();
    nodes.process("a").says("a noted here").await;
    let (chain, attacker) = (replies.chain(), Attacker::start(4_242, "attacker", |_| Vec::new()).await);
    let to_origin = attacker.link(&Place::new(origin.address().unwrap())).await;
    let to_a = attacker.link(&nodes.place("a")).await;
    let done = || Outcome::Done(Value::null());
    // Numbers as they would be, did nodes count their chains and calls.
    for number in 0..2_000 {
        let key = StepKey { chain: ChainId { number: number.into(), ..chain }, branch: Branch::root(), step: 3 };
        let partial = Message::Partial { key: key.clone(), number: 0, value: Value::null(), to: 0 };
        let end = End { path: vec!["a".into()], ..end_of(key) };
        for guess in [partial, Message::End(Box::new(end)), Message::Return(number, done(), Brought::default())] {
            send(&to_origin, guess).await;
        }
    }
    // Even who knows the chain's number is not the one who may say so.
    for step in 1..5 {
        let key = StepKey { chain, branch: Branch::root(), step };
        let why = Exception::new(exceptions::OVERLOADED, Fault::Node, "forged");
        for link in [&to_a, &to_origin] {
            for forged in
                [Message::Accepted(key.clone()), Message::Refused(key.clone(), why.clone()), Message::Cancel(chain)]
            {
                send(link, forged).await;
            }
        }
    }
    attacker.is_read(&to_a).await;
    attacker.is_read(&to_origin).await;
    ask::<()>(&nodes.client().await, "a", "open", Json::Null).await;
    let mut said = Vec::new();
    while let Some(reply) = replies.next().await {
        match reply.unwrap() {
            Reply::Partial(value) | Reply::Last(value) => said.push(catena::from_value::<String>(&value).unwrap()),
        }
    }
    assert_eq!(said, ["first", "last", "b"]);
}
