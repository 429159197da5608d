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
            // Filled and looked at in few operations: a machine may be so busy that a loop over all words lasts longer than a step may.
            const state = new Uint32Array(bytes / 4);
            const starts = Array.from({ length: state.length / 64 }, (_, part) => 64 * part);
            for (const at of starts) state.fill(at + 1, at, at + 64);
            const whole = () => starts.every((at) => state[at] === at + 1 && state[at + 63] === at + 1);
            const before = whole();
            const count = await call("b/note", { text: "x" });
            return [count, before && whole()];
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
