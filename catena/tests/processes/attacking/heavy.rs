//! What keeps a node's processor busy: functions that compile slowly, and chains whose memory is large to compare.

use std::time::UNIX_EPOCH;

use catena_guest::FunctionKind;
use catena_wire::Hop;
use serde_json::json;
use tokio::task::JoinSet;

use super::{good, quiet, stage};
use crate::{
    attacker::{Attacker, captured, of_chain, send},
    nodes::{SANDBOX, begin, run},
};

/// LEB128.
fn count(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

fn section(id: u8, body: &[u8]) -> Vec<u8> {
    [&[id][..], &count(body.len()), body].concat()
}

/// A function in WebAssembly of nearly as many locals times blocks as are let in, which the compiler has to follow one by one; each of another number differs.
fn slow_to_compile(number: usize) -> Vec<u8> {
    const LOCALS: usize = 990;
    const LOOPS: usize = 1_000;
    let named = |name: &str, kind: u8, index: u8| [&[name.len() as u8], name.as_bytes(), &[kind, index]].concat();
    let function = |locals: &[u8], body: &[u8]| {
        let whole = [locals, body, &[0x0b]].concat();
        [count(whole.len()), whole].concat()
    };
    let types = [&[3][..], &[0x60, 0, 0], &[0x60, 1, 0x7f, 1, 0x7f], &[0x60, 2, 0x7f, 0x7f, 1, 0x7e]].concat();
    let names = ["catena_abi_v1", "catena_alloc", "catena_start", "catena_resume"];
    let mut exports = vec![5];
    exports.extend(named("memory", 2, 0));
    exports.extend(names.iter().zip(0..).flat_map(|(name, index)| named(name, 0, index)));
    // (loop (br_if 0 (local.get 0))), so often, and a number that tells it from others.
    let loops = [0x03, 0x40, 0x20, 0, 0x0d, 0, 0x0b].repeat(LOOPS);
    let start = [&loops[..], &[0x42], &count(number), &[0x1a, 0x42, 0]].concat();
    let locals = [&[1][..], &count(LOCALS), &[0x7f]].concat();
    let bodies = [
        function(&[0], &[]),
        function(&[0], &[0x41, 0x80, 0x08]),
        function(&locals, &start),
        function(&[0], &[0x42, 0]),
    ];
    [
        b"\0asm\x01\0\0\0".to_vec(),
        section(1, &types),
        section(3, &[4, 0, 1, 2, 2]),
        section(5, &[1, 0, 1]),
        section(7, &exports),
        section(10, &[&[4], &bodies.concat()[..]].concat()),
    ]
    .concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn modules_that_compile_slowly_hurt_nobody() {
    const MODULES: usize = 4;
    let (nodes, client) = stage().await;
    let alone = quiet(&nodes, &client).await;
    let attacker = Attacker::start(4_242, "attacker", |_| Vec::new()).await;
    let link = attacker.link(&nodes.place("a")).await;
    let hop = captured().await;
    // New each time, so that no cache has them.
    let new = UNIX_EPOCH.elapsed().unwrap().as_millis() as usize;
    let attack = async move {
        for number in 0..MODULES {
            let module = SANDBOX.function(FunctionKind::Wasm, "slow", slow_to_compile(new + number));
            let (service, function) = ("a".to_owned(), "where".to_owned());
            let (code, code_bytes) = (module.hash(), Some(module.encode()));
            let hop = Hop { service, function, code, code_bytes, ..hop.clone() };
            send(&link, of_chain(&hop, number as u64, &attacker.node)).await;
        }
        // Each is compiled, and ends: no function goes on from no state.
        attacker.ended(MODULES).await;
    };
    alone.beside("modules that compile slowly", attack, async || good(&client, 1).await).await;
    good(&client, 10).await;
}

/// Goes to and fro with nearly all the memory that it may have, written and put back: nothing of it travels, and all of it is compared.
const FULL: &str = r#"import { call } from "catena";
    export default async (hops) => {
        await call("a/where", null);
        const kept = new Uint8Array(56 << 20);
        for (let hop = 0; hop < hops; hop++) {
            kept.fill(1).fill(0);
            await call(hop % 2 ? "a/where" : "b/where", null);
        }
        return kept.length;
    };"#;

#[tokio::test(flavor = "multi_thread")]
async fn memory_that_is_large_to_compare_hurts_nobody() {
    const CHAINS: usize = 4;
    const HOPS: u64 = 20;
    let (nodes, client) = stage().await;
    let alone = quiet(&nodes, &client).await;
    let hostile = nodes.patient_client().await;
    let attack = async move {
        let chains: JoinSet<_> =
            (0..CHAINS).map(|_| begin(&hostile, FULL, json!(HOPS))).map(async |chain| chain.await.unwrap()).collect();
        chains.join_all().await
    };
    let ended = alone.beside("memory that is large to compare", attack, async || good(&client, 1).await).await;
    for chain in ended {
        assert_eq!(chain.value(), &json!(56 << 20));
    }
    assert_eq!(run(&client, FULL, json!(2)).await.value(), &json!(56 << 20));
}
