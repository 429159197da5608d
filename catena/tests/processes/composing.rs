//! Services that answer with chains: where their exceptions and their answers go (rpc-chains sections 3.4, 3.8, 7.1).

use catena::{Client, Exception};
use serde_json::{Value as Json, json};

use crate::nodes::{Ended, Nodes, ask, begin, run};

/// What desk `z` answers with: on to `a`, and then to `b`, which refuses.
const REFUSED: &str = r#"import { call } from "catena";
export default async (why) => {
  await call("a/where", null);
  await call("b/fail", why);
};"#;

/// Calls `z`, and if it may, catches what comes of it.
const CALLS: &str = r#"import { call } from "catena";
    export default async ([target, job, catches]) => {
        try { return [await call(target, job), await call("c/where", null)]; }
        catch (why) {
            if (!catches) throw why;
            const { name, message, params, target, path } = why;
            return [{ name, message, params, target, path }, await call("c/where", null)];
        }
    };"#;

async fn refused(client: &Client, function: &str, catches: bool) -> Ended {
    let job = json!({ "source": REFUSED, "input": { "code": 7, "of": ["x"] } });
    run(client, CALLS, json!([function, job, catches])).await
}

/// All that is to be known of it, whoever is told.
#[track_caller]
fn is_told(why: &Json) {
    assert_eq!((&why["name"], &why["message"]), (&json!("Refused"), &json!("as it was asked to")), "{why}");
    assert_eq!(why["params"], json!({ "code": 7, "of": ["x"] }), "{why}");
    assert_eq!((&why["target"], &why["path"]), (&json!("b/fail"), &json!(["client", "z", "a", "b"])), "{why}");
}

/// The line of the sub-chain's own source.
#[track_caller]
fn has_its_line(stack: Option<&str>) {
    assert!(stack.is_some_and(|stack| stack.contains("job.js:4")), "{stack:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_uncaught_exception_of_a_sub_chain_is_brought_to_its_creator_in_another_process() {
    let (mut nodes, client) = Nodes::patient(&["a", "b", "c", "z"]).await;
    let ended = refused(&client, "z/job_caught", false).await;
    let got = ended.value();
    assert_eq!((&got[0]["caught_by"], &got[1]), (&json!("z"), &json!("c")), "the chain that called goes on: {got}");
    is_told(&got[0]["why"]);
    has_its_line(got[0]["why"]["stack"].as_str());
    nodes.process("z").says("z caught \"Refused\"").await;
    assert_eq!(ended.path, ["client", "z", "a", "b", "z", "c"], "from where it failed, to the creator, and on");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_creator_does_not_catch_comes_to_the_chain_that_called_where_it_happened() {
    let (_nodes, client) = Nodes::patient(&["a", "b", "c", "z"]).await;
    let ended = refused(&client, "z/job", true).await;
    is_told(&ended.value()[0]);
    assert_eq!(ended.path, ["client", "z", "a", "b", "c"], "nobody went back");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_catches_comes_to_the_origin() {
    let (_nodes, client) = Nodes::patient(&["a", "b", "c", "z"]).await;
    let ended = refused(&client, "z/job", false).await;
    let why: &Exception = ended.why();
    let params: Json = catena::from_value(why.params.as_ref().unwrap()).unwrap();
    is_told(
        &json!({ "name": why.name, "message": why.message, "params": params, "target": why.target, "path": why.path, "stack": why.stack }),
    );
    assert!(!why.unknown, "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn if_the_creator_s_process_is_gone_the_exception_comes_to_the_chain_that_called() {
    let (mut nodes, client) = Nodes::patient(&["a", "b", "c", "z"]).await;
    let source = r#"import { call } from "catena";
        export default async () => {
            await call("a/note", { text: "x", wait: "before" });
            await call("b/fail", 1);
        };"#;
    let chain = begin(&client, CALLS, json!(["z/job_caught", { "source": source }, true]));
    nodes.process("a").says("a begins x").await;
    nodes.kill("z").await;
    ask::<()>(&client, "a", "open", Json::Null).await;
    let ended = chain.await.unwrap();
    assert_eq!((&ended.value()[0]["name"], &ended.value()[1]), (&json!("Refused"), &json!("c")), "{}", ended.value());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sub_chain_emits_to_its_creator_s_process_and_its_parent_to_the_origin() {
    let (mut nodes, client) = Nodes::patient(&["a", "b", "z"]).await;
    let job = r#"import { call, emit } from "catena";
        export default async () => {
            for (const at of ["a", "b"]) { emit(`coming to ${at}`); await call(`${at}/where`, null); emit([at]); }
            return null;
        };"#;
    let outer = r#"import { call, emit } from "catena";
        export default async (job) => { emit("before"); await call("z/job", job); emit("after"); return 1; };"#;
    let ended = run(&client, outer, json!({ "source": job })).await;
    assert_eq!((ended.value(), &ended.emitted), (&json!(1), &vec![json!("before"), json!("after")]), "its own alone");
    for said in ["\"coming to a\"", "[\"a\"]", "\"coming to b\"", "[\"b\"]"] {
        let heard = nodes.process("z").says("z heard ").await;
        assert_eq!(heard, said, "in order and once");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_from_a_far_hop_goes_straight_to_the_origin() {
    let (mut nodes, client) = Nodes::patient(&["a", "b"]).await;
    let source = r#"import { call, emit } from "catena";
        export default async () => {
            await call("a/where", null);
            await call("b/note", { text: "x", wait: "after" });
            emit("from b");
            return "home";
        };"#;
    let chain = begin(&client, source, Json::Null);
    nodes.process("b").says("b noted x").await;
    // Whatever went by way of the hop before would stay there.
    nodes.process("a").signal("STOP").await;
    ask::<()>(&client, "b", "open", Json::Null).await;
    let ended = chain.await.unwrap();
    assert_eq!((ended.value(), &ended.emitted), (&json!("home"), &vec![json!("from b")]));
    assert_eq!(ended.path, ["client", "a", "b"]);
}
