//! Nodes that are killed or stopped in mid-call: what goes on elsewhere, what ends, and what is said of it (rpc-chains section 3.9).

use catena::{Client, exceptions};
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};
use tokio::task::JoinHandle;

use crate::nodes::{Ended, Nodes, ask, begin, run};

/// Takes a note at `a`, and then one elsewhere, which takes its time.
const THEN: &str = r#"import { call } from "catena";
    export default async ([target, wait]) => {
        await call("a/note", { text: "first" });
        return [await call(target, { text: "second", wait }), await call("a/count", "first")];
    };"#;

/// Begins a chain that waits at one of two nodes with the desk `shared`, and kills that one: the chain, and the name of the other.
async fn killed_in_mid_call(target: &str) -> (Nodes, Client, JoinHandle<Ended>, &'static str) {
    // Its links break as it is killed: nobody has to be silent for that, and nobody who is alive is given up.
    let (mut nodes, client) =
        Nodes::patient_with(&[("a", &[]), ("left", &["--also", "shared"]), ("right", &["--also", "shared"])]).await;
    let chain = begin(&client, THEN, json!([target, "after"]));
    let gone = nodes.first_to_say("shared noted second").await;
    nodes.kill(&gone).await;
    (nodes, client, chain, if gone == "left" { "right" } else { "left" })
}

/// Asks a desk one of whose processes was killed: the client's own link to that one may break a moment later than those of others.
async fn ask_those_left<R: DeserializeOwned>(client: &Client, desk: &str, function: &str, params: Json) -> R {
    loop {
        match client.call(desk, function, &params).await {
            Err(why) if why.name == exceptions::NODE_LOST => {}
            answered => return answered.unwrap(),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_be_done_again_is_done_by_another_process_when_the_first_is_killed_in_mid_call() {
    let (mut nodes, client, chain, stays) = killed_in_mid_call("shared/jot").await;
    nodes.process(stays).says("shared noted second").await;
    ask_those_left::<()>(&client, "shared", "open", Json::Null).await;
    let ended = chain.await.unwrap();
    assert_eq!(ended.value(), &json!([1, 1]), "what was done before was not done again");
    assert_eq!(ended.path, ["client", "a", stays, "a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_not_be_done_again_ends_as_unknown_when_its_process_is_killed_in_mid_call() {
    let (_nodes, client, chain, stays) = killed_in_mid_call("shared/note").await;
    let ended = chain.await.unwrap();
    let why = ended.why();
    assert_eq!((why.name.as_str(), why.unknown, why.step), (exceptions::NODE_LOST, true, 2), "{why}");
    assert_eq!(why.target.as_deref(), Some("shared/note"), "{why}");
    let count: u32 = ask_those_left(&client, "shared", "count", json!("second")).await;
    assert_eq!(count, 0, "{stays} was not asked");
    assert_eq!(ask::<u32>(&client, "a", "count", json!("first")).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_stopped_after_it_took_a_hop_over_is_named_and_doubles_nothing_when_it_goes_on() {
    let mut nodes = Nodes::start(&["a", "b", "c"]).await;
    let client = nodes.client().await;
    let source = r#"import { call } from "catena";
        export default async () => {
            for (const at of ["a", "b", "c"]) await call(`${at}/note`, { text: "x" });
            await call("c/note", { text: "y", wait: "after" });
        };"#;
    let chain = begin(&client, source, Json::Null);
    nodes.process("c").says("c noted y").await;
    nodes.process("c").signal("STOP").await;
    let ended = chain.await.unwrap();
    let why = ended.why();
    // Long before its minute was over: the hops were sent again, and the last one was not accepted.
    assert_eq!((why.name.as_str(), why.unknown, why.step), (exceptions::NODE_LOST, true, 3), "{why}");
    assert!(why.message.starts_with("c was lost"), "{why}");

    nodes.process("c").signal("CONT").await;
    ask::<()>(&client, "c", "open", Json::Null).await;
    // It comes over the same links as what was sent again meanwhile, and after it.
    let counts = r#"import { call } from "catena";
        export default async () => {
            const counts = [];
            for (const at of ["a", "b", "c"]) counts.push(await call(`${at}/count`, "x"));
            return [...counts, await call("c/count", "y")];
        };"#;
    assert_eq!(run(&client, counts, Json::Null).await.value(), &json!([1, 1, 1, 1]));
}
