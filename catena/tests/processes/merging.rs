//! Branches that merge at a process where none of them has been (rpc-chains section 3.10).

use catena::exceptions;
use serde_json::{Value as Json, json};

use crate::nodes::{Nodes, ask, begin, run, until_unreachable};

const SPLITS: &str = r#"import { call, split } from "catena";
    export default async (wait) => {
        const note = (at) => async () => { await call(`${at}/note`, { text: "x", wait }); return at; };
        const seen = await split([note("a"), note("b")], { at: "c" });
        return [seen, await call("c/where", null)];
    };"#;

#[tokio::test(flavor = "multi_thread")]
async fn branches_merge_at_a_process_that_none_of_them_visits() {
    let (_nodes, client) = Nodes::patient(&["a", "b", "c"]).await;
    let ended = run(&client, SPLITS, Json::Null).await;
    assert_eq!(ended.value(), &json!([["a", "b"], "c"]));
    let step = |target: &str| {
        ended.trace.iter().find(|step| step.target == target).unwrap_or_else(|| panic!("{:?}", ended.trace))
    };
    for (target, node) in [("a/note", "a"), ("b/note", "b")] {
        assert_eq!((step(target).node.as_str(), step(target).in_place), (node, false), "{:?}", ended.trace);
    }
    let after = step("c/where");
    assert_eq!((after.node.as_str(), after.in_place), ("c", true), "the chain was there already: {:?}", ended.trace);
    assert_eq!(ended.path[..2], ["client", "c"], "it waited there: {:?}", ended.path);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merge_host_that_is_killed_ends_the_chain_as_unknown_and_leaves_the_branches_work_done_once() {
    let mut nodes = Nodes::start(&["a", "b", "c"]).await;
    let client = nodes.client().await;
    let chain = begin(&client, SPLITS, json!("before"));
    for name in ["a", "b"] {
        nodes.process(name).says(&format!("{name} begins x")).await;
    }
    nodes.kill("c").await;
    for name in ["a", "b"] {
        ask::<()>(&client, name, "open", Json::Null).await;
        nodes.process(name).says(&format!("{name} noted x")).await;
    }
    let ended = chain.await.unwrap();
    let why = ended.why();
    assert_eq!((why.name.as_str(), why.unknown), (exceptions::CHAIN_LOST, true), "{why}");
    for name in ["a", "b"] {
        assert_eq!(ask::<u32>(&client, name, "count", json!("x")).await, 1, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merge_host_that_is_gone_before_is_an_exception_and_no_branch_begins() {
    let (mut nodes, client) = Nodes::patient(&["a", "b", "c"]).await;
    assert_eq!(ask::<String>(&client, "c", "where", Json::Null).await, "c");
    nodes.kill("c").await;
    until_unreachable(&client, "c").await;
    let ended = run(&client, SPLITS, Json::Null).await;
    let why = ended.why();
    assert_eq!((why.name.as_str(), why.unknown), (exceptions::NODE_UNREACHABLE, false), "{why}");
    assert!(why.message.contains("c "), "{why}");
    for name in ["a", "b"] {
        assert_eq!(ask::<u32>(&client, name, "count", json!("x")).await, 0, "{name}");
    }
}
