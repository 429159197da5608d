//! A hundred hostile functions beside a thousand good chains on one node (rpc-chains section 3.6): who breaks a limit ends its own chain, and nothing else.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod common;

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicU64},
};

use catena::{Client, Code, Exception, Limits, Node, Place, RunOptions, Sandbox, SandboxConfig, exceptions, to_value};
use common::SANDBOX;
use futures_util::{StreamExt, stream};
use serde_json::{Value as Json, json};

const GOOD: usize = 1_000;
/// Good chains under way at once.
const GOOD_AT_ONCE: usize = 64;
const HOSTILE_OF_A_KIND: usize = 10;
/// The limit on the time of a turn.
const TIME: &str = "step_wall_ms_max";

/// What a function does after its first hop, and how its chain ends: name, and a word of the message. On a slow processor its time may be up before: that each
/// of these limits holds by itself is tested in `guest/tests/limits.rs` and in the core.
const HOSTILE: [(&str, &str, &str, &str); 9] = [
    ("loops", "for (;;) {}", exceptions::LIMIT_EXCEEDED, TIME),
    ("awaits for ever", "for (;;) await null;", exceptions::LIMIT_EXCEEDED, TIME),
    (
        "catches and loops",
        "for (;;) { try { for (;;) {} } catch {} finally { continue; } }",
        exceptions::LIMIT_EXCEEDED,
        TIME,
    ),
    (
        "allocates",
        "const kept = []; for (;;) kept.push(new Uint8Array(1 << 20).fill(1));",
        exceptions::LIMIT_EXCEEDED,
        "memory_bytes_max",
    ),
    ("recurses", "const down = () => down() + 1; return down();", exceptions::LIMIT_EXCEEDED, "stack_bytes_max"),
    ("floods", "const text = 'x'.repeat(9999); for (;;) emit(text);", exceptions::LIMIT_EXCEEDED, "output_bytes_max"),
    (
        "carries too much",
        "const kept = new Float64Array(50000).map(Math.random); await call('b/where', 1); return kept;",
        exceptions::LIMIT_EXCEEDED,
        "continuation_bytes_max",
    ),
    ("calls for ever", "for (;;) await call('b/where', 1);", exceptions::HOP_BUDGET_EXCEEDED, "hop budget"),
    (
        "calls everybody",
        "return Promise.all(Array.from({ length: 2000 }, () => call('b/where', 1)));",
        exceptions::LIMIT_EXCEEDED,
        "calls_per_chain_max",
    ),
];

/// A compiled function that goes to `a` and traps there, in bytes: one call of `a/where` when it starts, `unreachable` when it goes on.
fn trapping() -> Vec<u8> {
    let section = |id: u8, body: &[u8]| [&[id, body.len() as u8], body].concat();
    let export = |name: &str, kind: u8, index: u8| [&[name.len() as u8], name.as_bytes(), &[kind, index]].concat();
    let function = |body: &[u8]| [&[body.len() as u8 + 2, 0], body, &[0x0b]].concat();
    let call = [0x81, 0x87, 0, 0, 0x61, b'a', 0x65, b'w', b'h', b'e', b'r', b'e', 0xf6, 0, 0];
    // (256 << 32) | 15, signed LEB128.
    let outbox = [0x42, 0x8f, 0x80, 0x80, 0x80, 0x80, 0x20];
    let types = [&[3][..], &[0x60, 0, 0], &[0x60, 1, 0x7f, 1, 0x7f], &[0x60, 2, 0x7f, 0x7f, 1, 0x7e]].concat();
    let names = ["catena_abi_v1", "catena_alloc", "catena_start", "catena_resume"];
    let mut exports = vec![5];
    exports.extend(export("memory", 2, 0));
    exports.extend(names.iter().zip(0..).flat_map(|(name, index)| export(name, 0, index)));
    let bodies = [&[][..], &[0x41, 0x80, 0x08], &outbox, &[0x00]];
    let code = [vec![4], bodies.iter().flat_map(|body| function(body)).collect()].concat();
    let data = [&[1, 0, 0x41, 0x80, 0x02, 0x0b, call.len() as u8], &call[..]].concat();
    let parts = [
        b"\0asm\x01\0\0\0".to_vec(),
        section(1, &types),
        section(3, &[4, 0, 1, 2, 2]),
        section(5, &[1, 0, 1]),
        section(7, &exports),
        section(10, &code),
        section(11, &data),
    ];
    parts.concat()
}

/// Node `a` with tight limits, a node `b`, and a client.
async fn stage() -> (Node, Node, Client) {
    let limits = Limits {
        memory_bytes_max: 16 << 20,
        step_wall_ms_max: 300,
        output_bytes_max: 1 << 20,
        events_max: 10_000,
        continuation_bytes_max: 256 << 10,
    };
    let sandbox = Sandbox::new(SandboxConfig { limits, ..SandboxConfig::default() }).unwrap();
    let service = |name| common::service(name, &Arc::new(AtomicU64::new(0)));
    let a = Node::builder("a").listen("127.0.0.1:0").sandbox(sandbox).service(service("a")).start().await.unwrap();
    let place = Place::new(a.address().unwrap());
    let b = Node::builder("b").listen("127.0.0.1:0").sandbox(SANDBOX.clone()).service(service("b"));
    let b = b.join(place.clone()).start().await.unwrap();
    let client = Client::builder("client").sandbox(SANDBOX.clone()).join(place).connect().await.unwrap();
    (a, b, client)
}

/// Runs the good chains.
async fn good(client: &Client, code: &Code) {
    let one = |number: usize| async move {
        let result: Json = client.run(code, &number).await.unwrap().value().await.unwrap();
        assert_eq!(result, json!(["a", 499_500 * number, format!("chain {number}")]), "a good chain was hurt");
    };
    stream::iter((0..GOOD).map(one)).buffer_unordered(GOOD_AT_ONCE).collect::<Vec<_>>().await;
}

async fn hostile(client: &Client, code: Code) -> Exception {
    let options = RunOptions { hops_max: 50, ..RunOptions::default() };
    let mut replies = client.run_with(&code, &to_value(&()).unwrap(), &options).unwrap();
    replies.last().await.expect_err("a hostile function ended well")
}

// Two threads as the command has them, on one processor too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_hostile_functions_hurt_none_of_a_thousand_good_chains() {
    let (a, b, client) = stage().await;
    let source = r#"import { call } from "catena";
        export default async (number) => {
            const where = await call("a/where", null);
            let sum = 0;
            for (let i = 0; i < 1000; i++) sum += i * number;
            return [where, sum, await call("a/echo", `chain ${number}`)];
        };"#;
    let code = client.javascript("good.js", source).await.unwrap();
    good(&client, &code).await;

    let mut kinds = Vec::new();
    for (what, body, name, word) in HOSTILE {
        let source = format!(
            "import {{ call, emit }} from 'catena';\nexport default async () => {{ await call('a/where', 1); {body} }};"
        );
        kinds.push((what, client.javascript("hostile.js", &source).await.unwrap(), name, word));
    }
    kinds.push(("traps", client.wasm("trap.wasm", &trapping()).await.unwrap(), "GuestTrapped", "unreachable"));
    let all = kinds.iter().flat_map(|kind| std::iter::repeat_n(kind, HOSTILE_OF_A_KIND));
    let all = all.map(|(what, code, name, word)| {
        let client = client.clone();
        async move { (*what, hostile(&client, *code).await, *name, *word) }
    });
    let all: Vec<_> = all.collect();
    assert_eq!(all.len(), 100);
    let (ended, ()) = tokio::join!(futures_util::future::join_all(all), good(&client, &code));
    let mut by_kind: BTreeMap<&str, BTreeMap<String, usize>> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (what, why, name, word) in ended {
        let of_time = why.name == exceptions::LIMIT_EXCEEDED && why.message.contains(TIME);
        let as_expected = why.name == name && why.message.contains(word);
        *by_kind.entry(what).or_default().entry(format!("{} ({word})", why.name)).or_default() += 1;
        if !(as_expected || of_time) || why.path.last().is_none_or(|host| host == "client") {
            wrong.push(format!("{what}: {why}"));
        }
    }
    println!("{by_kind:#?}");
    assert!(wrong.is_empty(), "{wrong:#?}");
    while [&a, &b].iter().any(|node| node.load() != (0, 0, 0)) {
        tokio::task::yield_now().await; // nothing of them is left
    }
    good(&client, &code).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_of_one_peer_that_wait_leave_instances_for_others() {
    const CHAINS: usize = 20;
    let few = Sandbox::new(SandboxConfig { instances_max: 16, ..SandboxConfig::default() }).unwrap();
    let a = Node::builder("a").listen("127.0.0.1:0").sandbox(few).service(common::service("a", &Arc::default()));
    let a = a.start().await.unwrap();
    let place = Place::new(a.address().unwrap());
    let client = Client::builder("peer").sandbox(SANDBOX.clone()).join(place).connect().await.unwrap();
    // What waits for calls side by side has an instance meanwhile.
    let source = r#"import { call, emit } from "catena";
        export default async () => {
            await call("a/where", null);
            const both = [call("a/hold", null), call("a/hold", null)];
            emit("it waits");
            await Promise.all(both);
        };"#;
    let code = client.javascript("waits.js", source).await.unwrap();
    let (mut waiting, mut refused) = (Vec::new(), 0);
    for _ in 0..CHAINS {
        let mut replies = client.run(&code, &()).await.unwrap();
        match replies.next().await.unwrap() {
            Ok(_) => waiting.push(replies),
            Err(why) => {
                assert!(why.name == exceptions::OVERLOADED && why.message.contains("instances_max"), "{why}");
                refused += 1;
            }
        }
    }
    assert_eq!((waiting.len(), refused), (8, CHAINS - 8), "half of seven eighths, and one more");
    let own = a.client();
    let code = own.javascript("own.js", "export default () => 7;").await.unwrap();
    assert_eq!(own.run(&code, &()).await.unwrap().value::<u32>().await.unwrap(), 7);
}
