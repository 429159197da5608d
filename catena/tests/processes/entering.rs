//! An origin that nobody can dial, and that has one link alone.

use catena::exceptions;
use serde_json::{Value as Json, json};

use crate::{
    node::beating,
    nodes::{Nodes, PATIENT_BEAT_MS, ask, begin, builder},
};

#[tokio::test(flavor = "multi_thread")]
async fn answers_come_home_through_the_process_by_which_the_chain_entered() {
    let (mut nodes, side) = Nodes::patient(&["entry", "a", "b"]).await;
    let behind = builder("behind").policy(beating(PATIENT_BEAT_MS)).join(nodes.place("entry")).entry_only();
    let behind = behind.connect().await.unwrap();
    let source = r#"import { call, emit } from "catena";
        export default async () => {
            const hosts = [await call("entry/where", null), await call("a/where", null)];
            await call("b/note", { text: "x", wait: "before" });
            emit("from b");
            await call("b/note", { text: "y" });
            return hosts;
        };"#;
    let chain = begin(&behind, source, Json::Null);
    nodes.process("b").says("b begins x").await;
    nodes.process("entry").signal("STOP").await;
    ask::<()>(&side, "b", "open", Json::Null).await;
    nodes.process("b").says("b noted y").await;
    assert!(!chain.is_finished(), "there is no other way");
    nodes.process("entry").signal("CONT").await;
    let ended = chain.await.unwrap();
    assert_eq!((ended.value(), &ended.emitted), (&json!(["entry", "a"]), &vec![json!("from b")]));
    assert_eq!(ended.path, ["behind", "entry", "a", "b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_that_process_the_chain_ends_as_unknown_and_its_work_is_done_once() {
    let mut nodes = Nodes::start(&["entry", "b"]).await;
    let side = nodes.client().await;
    let behind = builder("behind").join(nodes.place("entry")).entry_only().connect().await.unwrap();
    let source = r#"import { call } from "catena";
        export default async () => {
            await call("entry/where", null);
            return call("b/note", { text: "x", wait: "before" });
        };"#;
    let chain = begin(&behind, source, Json::Null);
    nodes.process("b").says("b begins x").await;
    nodes.kill("entry").await;
    ask::<()>(&side, "b", "open", Json::Null).await;
    let ended = chain.await.unwrap();
    let why = ended.why();
    assert_eq!((why.name.as_str(), why.unknown), (exceptions::NODE_LOST, true), "{why}");
    assert!(why.message.starts_with("entry was lost"), "{why}");
    assert_eq!(ask::<u32>(&side, "b", "count", json!("x")).await, 1, "it was done, and once");
}
