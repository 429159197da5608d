//! Chains that would never end, and stopping what has ended: over processes.

use catena::{Exception, RunOptions, exceptions, from_value, to_value};
use serde_json::{Value as Json, json};

use crate::nodes::{Nodes, ask, begin_with, run};

/// How it ends, and that the nodes are as good as before.
async fn ends(source: &str, input: Json, options: RunOptions) -> Exception {
    let (_nodes, client) = Nodes::patient(&["a", "b", "z"]).await;
    let ended = begin_with(&client, source, input, options).await.unwrap();
    let why = ended.why().clone();
    println!("{why:?}");
    let after = r#"import { call } from "catena";
        export default async () => [await call("a/where", null), await call("b/where", null), await call("z/where", null)];"#;
    assert_eq!(run(&client, after, Json::Null).await.value(), &json!(["a", "b", "z"]), "nobody else is hurt");
    why
}

fn hops(hops_max: u32) -> RunOptions {
    RunOptions { hops_max, ..RunOptions::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_that_goes_round_for_ever_ends_by_its_hops() {
    let source = r#"import { call } from "catena";
        export default async () => { for (;;) { await call("a/where", null); try { await call("b/fail", 1); } catch {} } };"#;
    let why = ends(source, Json::Null, hops(100)).await;
    assert_eq!((why.name.as_str(), why.unknown), (exceptions::HOP_BUDGET_EXCEEDED, false), "{why}");
    assert_eq!(why.path.len(), 1 + 100, "so many hops from the client, and no more: {why}");
}

/// A job that does itself again.
const AGAIN: &str = r#"import { call } from "catena";
    export default (source) => call("z/job", { source, input: source });"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_that_calls_itself_for_ever_ends_by_the_depth_of_its_stack() {
    let why = ends(AGAIN, json!(AGAIN), RunOptions::default()).await;
    assert_eq!(why.name, exceptions::LIMIT_EXCEEDED, "{why}");
    assert!(why.message.contains("stack_depth_max is 16"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_that_calls_itself_for_ever_without_composing_ends_by_whichever_is_less() {
    for (hops_max, name) in [(10, exceptions::HOP_BUDGET_EXCEEDED), (100, exceptions::LIMIT_EXCEEDED)] {
        let why = ends(AGAIN, json!(AGAIN), RunOptions { compose: false, ..hops(hops_max) }).await;
        assert_eq!(why.name, name, "{why}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_that_splits_for_ever_ends_by_its_hops() {
    let source = r#"import { call, split } from "catena";
        const again = async () => { await call("a/where", null); return split([again, again]); };
        export default again;"#;
    let why = ends(source, Json::Null, hops(200)).await;
    assert_eq!(why.name, exceptions::HOP_BUDGET_EXCEEDED, "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_what_has_ended_does_nothing() {
    let (_nodes, client) = Nodes::patient(&["a", "b"]).await;
    let source = r#"import { call } from "catena";
        export default async () => [await call("a/note", { text: "x" }), await call("b/note", { text: "x" })];"#;
    let code = client.javascript("test.js", source).await.unwrap();
    for done in 1..=2 {
        let mut replies = client.run_with(&code, &to_value(&()).unwrap(), &RunOptions::default()).unwrap();
        let value = replies.last().await.unwrap();
        replies.cancel();
        assert_eq!(from_value::<Json>(&value).unwrap(), json!([done, done]));
        assert!(replies.next().await.is_none() && !replies.is_partial(), "it stays as it ended");
    }
    for name in ["a", "b"] {
        assert_eq!(ask::<u32>(&client, name, "count", json!("x")).await, 2, "{name}");
    }
}
