//! Services that answer with chains, over real nodes and sockets: neither chain knows of the other.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::sync::{Arc, Mutex};

use catena::{Context, Exception, Mode, Node, Place, Policy, Reply, RunOptions, Service, SubChain, to_value};
use common::{Mesh, SANDBOX, mesh};
use serde_json::{Value as Json, json};

/// Adds a node `z` whose functions answer with chains.
async fn with_chains(mesh: &Mesh, policy: Policy) -> (Node, Arc<Mutex<Vec<catena::Value>>>) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hearer = Arc::clone(&heard);
    let sub = |source: &'static str| {
        async move |context: Context, input: Json| {
            let code = context.client().javascript("sub.js", source).await?;
            SubChain::new(&code, &input)
        }
    };
    let trip = r#"import { call } from "catena";
        export default async (names) => {
            const seen = ["sub"];
            for (const name of names) seen.push(await call(`${name}/where`, null));
            return seen;
        };"#;
    let fails = r#"import { call } from "catena";
        export default async (name) => { await call(`${name}/fail`, "in the sub-chain"); };"#;
    let emits = r#"import { call, emit } from "catena";
        export default async (name) => { emit(1); await call(`${name}/where`, null); emit(2); return "emitted"; };"#;
    let says = r#"import { call, log } from "catena";
        export default async ([name, fails]) => {
            log("one");
            await call(`${name}/where`, null);
            log("two");
            if (fails) throw new Error("having said so");
        };"#;
    let service = Service::new("z")
        .chain("says", sub(says))
        .chain("trip", sub(trip))
        .chain("fails", sub(fails))
        .chain("recovers", async move |context: Context, input: Json| {
            let code = context.client().javascript("sub.js", fails).await?;
            Ok(SubChain::new(&code, &input)?.catch("recover"))
        })
        .function_in("recover", async |context: Context, why: Json| {
            Ok(json!({ "caught": why["name"], "at": context.node.to_string() }))
        })
        .chain("emits", move |context: Context, input: Json| {
            let hearer = Arc::clone(&hearer);
            async move {
                let code = context.client().javascript("sub.js", emits).await?;
                Ok(SubChain::new(&code, &input)?.hear(move |value| hearer.lock().unwrap().push(value)))
            }
        })
        .chain("for_ever", sub(r#"import { call } from "catena"; export default async (x) => call("z/for_ever", x);"#));
    let first = Place::new(mesh.nodes[0].address().unwrap());
    let node = Node::builder("z").listen("127.0.0.1:0").sandbox(SANDBOX.clone()).policy(policy).service(service);
    (node.join(first).start().await.unwrap(), heard)
}

async fn run(mesh: &Mesh, source: &str, input: Json, options: &RunOptions) -> (Result<Json, Exception>, Vec<String>) {
    let code = mesh.code(source).await;
    let mut replies = mesh.client.run_with(&code, &to_value(&input).unwrap(), options).unwrap();
    let result = replies.last().await.and_then(|value| catena::from_value(&value));
    (result, replies.path().to_vec())
}

const CALLS: &str = r#"import { call } from "catena";
    export default async ([target, input, then]) => {
        const before = "kept";
        const got = await call(target, input);
        return { before, got, after: await call(`${then}/where`, null) };
    };"#;

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_sub_chain_resumes_the_chain_that_called_where_it_ended() {
    let mesh = mesh(3).await;
    let _z = with_chains(&mesh, Policy::default()).await;
    let input = json!(["z/trip", ["a", "b"], "c"]);
    let (result, path) = run(&mesh, CALLS, input.clone(), &RunOptions::default()).await;
    assert_eq!(result.unwrap(), json!({ "before": "kept", "got": ["sub", "a", "b"], "after": "c" }));
    assert_eq!(path, ["client", "z", "a", "b", "c"], "nothing goes back to z");

    let detached = RunOptions { compose: false, ..RunOptions::default() };
    let (result, path) = run(&mesh, CALLS, input, &detached).await;
    assert_eq!(result.unwrap(), json!({ "before": "kept", "got": ["sub", "a", "b"], "after": "c" }));
    assert_eq!(path, ["client", "z", "c"], "the sub-chain ran on its own, and came back to z");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sub_chain_s_exception_goes_to_who_catches_it() {
    let mesh = mesh(2).await;
    let _z = with_chains(&mesh, Policy::default()).await;
    let options = RunOptions::default();
    let (result, _) = run(&mesh, CALLS, json!(["z/recovers", "a", "b"]), &options).await;
    let got = result.unwrap();
    assert_eq!(got["got"], json!({ "caught": "Failed", "at": "z" }), "its creator first");

    let catches = r#"import { call } from "catena";
        export default async () => {
            try { await call("z/fails", "a"); } catch (e) { return [e.name, e.message, await call("b/where", null)]; }
        };"#;
    let (result, path) = run(&mesh, catches, Json::Null, &options).await;
    assert_eq!(result.unwrap(), json!(["Failed", "in the sub-chain", "b"]), "then the chain that called");
    assert_eq!(path, ["client", "z", "a", "b"]);

    let (result, _) = run(&mesh, CALLS, json!(["z/fails", "a", "b"]), &options).await;
    let why = result.unwrap_err();
    assert_eq!((why.name.as_str(), why.message.as_str()), ("Failed", "in the sub-chain"), "then the origin");
    assert_eq!(why.path, ["client", "z", "a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sub_chain_emits_to_its_creator_and_the_chain_that_called_to_the_origin() {
    let mesh = mesh(2).await;
    let (_z, heard) = with_chains(&mesh, Policy::default()).await;
    let source = r#"import { call, emit } from "catena";
        export default async () => { emit("mine"); const got = await call("z/emits", "a"); emit("too"); return got; };"#;
    let code = mesh.code(source).await;
    let mut replies = mesh.client.run(&code, &()).await.unwrap();
    let mut partial = Vec::new();
    while let Some(reply) = replies.next().await {
        match reply.unwrap() {
            Reply::Partial(value) => partial.push(catena::from_value::<String>(&value).unwrap()),
            Reply::Last(value) => assert_eq!(catena::from_value::<String>(&value).unwrap(), "emitted"),
        }
    }
    assert_eq!(partial, ["mine", "too"]);
    // They go their own way to the creator; the end of the chain does not wait for them.
    let all = async {
        while heard.lock().unwrap().len() < 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(120), all).await.expect("all are heard");
    let heard: Vec<u8> = heard.lock().unwrap().iter().map(|value| catena::from_value(value).unwrap()).collect();
    assert_eq!(heard, [1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sub_chain_says_the_same_wherever_it_runs() {
    let mesh = mesh(2).await;
    let _z = with_chains(&mesh, Policy::default()).await;
    let source = r#"import { call, log } from "catena";
        export default async (fails) => {
            log("before");
            try { await call("z/says", ["a", fails]); } catch (e) { log(e.message); }
            log("between");
            await Promise.all([call("z/says", ["a", false]), call("b/where", null)]);
            log("after");
        };"#;
    let code = mesh.code(source).await;
    let detached = RunOptions { compose: false, ..RunOptions::default() };
    let from_home = RunOptions { mode: Mode::Interactive, ..RunOptions::default() };
    for fails in [false, true] {
        for options in [&RunOptions::default(), &detached, &from_home] {
            let mut replies = mesh.client.run_with(&code, &to_value(&fails).unwrap(), options).unwrap();
            replies.last().await.unwrap();
            let lines = replies.console();
            let said: Vec<_> = lines.iter().map(|line| line.text.as_str()).collect();
            let caught = fails.then_some("having said so");
            let all: Vec<_> = ["before", "one", "two"].into_iter().chain(caught).collect();
            assert_eq!(said, [&all[..], &["between", "one", "two", "after"]].concat(), "{options:?}");
            assert_eq!((lines[1].node.as_str(), lines[2].node.as_str()), ("z", "a"), "{options:?}");
            assert!(lines.iter().zip(0..).all(|(line, number)| line.number == number && line.branch.is_root()));
            assert!(lines.windows(2).all(|two| two[0].step <= two[1].step && two[0].at_us <= two[1].at_us));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_calls_itself_for_ever_ends_by_the_depth_of_its_stack() {
    let mesh = mesh(2).await;
    let _z = with_chains(&mesh, Policy { stack_depth_max: 5, ..Policy::default() }).await;
    let source = r#"import { call } from "catena"; export default async () => call("z/for_ever", null);"#;
    let options = RunOptions { hops_max: 50, ..RunOptions::default() };
    let (result, _) = run(&mesh, source, Json::Null, &options).await;
    let why = result.unwrap_err();
    assert_eq!(why.name, "LimitExceeded", "{why}");
    assert!(why.message.contains("stack_depth_max is 5"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn in_interactive_mode_the_same_program_stays_where_it_began() {
    let mesh = mesh(3).await;
    let _z = with_chains(&mesh, Policy::default()).await;
    let options = RunOptions { mode: Mode::Interactive, ..RunOptions::default() };
    let (result, path) = run(&mesh, CALLS, json!(["z/trip", ["a", "b"], "c"]), &options).await;
    assert_eq!(result.unwrap(), json!({ "before": "kept", "got": ["sub", "a", "b"], "after": "c" }));
    assert_eq!(path, ["client"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_chain_stops_where_it_is() {
    let mesh = mesh(2).await;
    let source = r#"import { call, emit } from "catena";
        export default async () => {
            await call("a/where", null);
            emit("there");
            await call("b/sleep", 60000);
            return call("a/add", null);
        };"#;
    let code = mesh.code(source).await;
    let mut replies = mesh.client.run(&code, &()).await.unwrap();
    assert!(matches!(replies.next().await, Some(Ok(Reply::Partial(_)))));
    while mesh.nodes[1].load().2 == 0 {
        tokio::task::yield_now().await;
    }
    replies.cancel();
    let why = replies.last().await.unwrap_err();
    assert_eq!(why.name, "Cancelled");
    while mesh.nodes.iter().any(|node| node.load() != (0, 0, 0)) {
        tokio::task::yield_now().await;
    }
    assert_eq!(mesh.effects[0].load(std::sync::atomic::Ordering::SeqCst), 0);
}
