//! A service function starts before the state of the chain that called it is there (rpc-chains section 7.2).

use serde_json::json;

use crate::{
    held::HeldPort,
    nodes::{Nodes, begin},
    relay::Relay,
};

/// Bytes that the chain carries: noise, which nothing makes smaller.
const STATE_BYTES: u64 = 1 << 20;
/// Of them, those that come before the service has started: enough for the call itself, and the function.
const FIRST_BYTES: u64 = 256 << 10;

#[tokio::test(flavor = "multi_thread")]
async fn the_service_starts_while_the_state_is_still_on_its_way() {
    let held = HeldPort::new();
    let listen = held.address.to_string();
    let mut relay = Relay::to(listen.clone()).await;
    let behind_it = ["--listen", &listen, "--advertise", &relay.address];
    let (mut nodes, client) = Nodes::patient_with(&[("b", &behind_it)]).await;
    let source = r#"import { call } from "catena";
        export default async (bytes) => {
            const state = new Uint32Array(bytes / 4);
            for (let at = 0, x = 1; at < state.length; at++) state[at] = x = Math.imul(x, 1664525) + 1013904223;
            const sum = () => state.reduce((sum, word) => sum + word, 0);
            const before = sum();
            const count = await call("b/note", { text: "x" });
            return [count, sum() === before];
        };"#;
    relay.allow(FIRST_BYTES);
    let mut chain = begin(&client, source, json!(STATE_BYTES));
    tokio::select! {
        _ = nodes.process("b").says("b noted x") => {}
        ended = &mut chain => panic!("it ended before: {:?}", ended.unwrap().result),
    }
    relay.holds().await;
    assert!(!chain.is_finished(), "most of its state has not come");
    relay.allow(u64::MAX);
    let ended = chain.await.unwrap();
    assert_eq!(ended.value(), &json!([1, true]), "the state is whole");
    let carried = ended.trace.iter().map(|step| step.continuation_bytes).max();
    assert!(carried >= Some(STATE_BYTES), "{:?}", ended.trace);
}
