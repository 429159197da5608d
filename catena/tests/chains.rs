//! Chains over real nodes, real sockets and the real sandbox.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::{sync::atomic::Ordering, time::Duration};

use catena::{Context, Fault, Node, Place, Reply, RunOptions, Service, from_value, to_value};
use common::{SANDBOX, mesh};
use serde_json::{Value as Json, json};

#[tokio::test(flavor = "multi_thread")]
async fn a_function_hops_and_its_result_comes_straight_home() {
    let mesh = mesh(3).await;
    let code = mesh
        .code(
            r#"import { call } from "catena";
            export default async function trip(names) {
                const seen = [];
                for (const name of names) seen.push(await call(`${name}/where`, null));
                return seen;
            }"#,
        )
        .await;
    let options = RunOptions { profile: true, ..RunOptions::default() };
    let input = to_value(&["a", "b", "c", "a"]).unwrap();
    let mut replies = mesh.client.run_with(&code, &input, &options).unwrap();
    let seen: Vec<String> = from_value(&replies.last().await.unwrap()).unwrap();
    assert_eq!(seen, ["a", "b", "c", "a"]);
    assert_eq!(replies.path(), ["client", "a", "b", "c", "a"]);
    assert!(!replies.has_more().await && !replies.is_partial());
    let hops: Vec<_> = replies.trace().iter().filter(|step| step.continuation_bytes > 0).collect();
    assert_eq!(hops.len(), 4, "{:#?}", replies.trace());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_to_a_service_on_the_same_node_stays_in_place() {
    let mesh = mesh(2).await;
    let source = r#"import { call } from "catena";
        export default async () => {
            await call("a/add", null);
            await call("a/add", null);
            return call("a/count", null);
        };"#;
    let code = mesh.code(source).await;
    let options = RunOptions { profile: true, ..RunOptions::default() };
    let mut replies = mesh.client.run_with(&code, &to_value(&()).unwrap(), &options).unwrap();
    assert_eq!(from_value::<u64>(&replies.last().await.unwrap()).unwrap(), 2);
    assert_eq!(replies.path(), ["client", "a"]);
    assert_eq!(replies.trace().iter().filter(|step| step.in_place).count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn intermediate_answers_come_in_order_before_the_end() {
    let mesh = mesh(2).await;
    let code = mesh
        .code(
            r#"import { call, emit, log } from "catena";
            export default async () => {
                emit(0);
                await call("a/where", null);
                emit(1);
                log("at a");
                await call("b/where", null);
                emit(2);
                return "end";
            };"#,
        )
        .await;
    let mut replies = mesh.client.run(&code, &()).await.unwrap();
    let mut seen = Vec::new();
    while let Some(reply) = replies.next().await {
        seen.push(match reply.unwrap() {
            Reply::Partial(value) => from_value::<Json>(&value).unwrap(),
            Reply::Last(value) => from_value::<Json>(&value).unwrap(),
        });
    }
    assert_eq!(seen, [json!(0), json!(1), json!(2), json!("end")]);
    assert_eq!(
        replies.console().iter().map(|line| (line.node.as_str(), line.text.as_str())).collect::<Vec<_>>(),
        [("a", "at a")]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn try_and_catch_work_where_the_failure_happened() {
    let mesh = mesh(2).await;
    let result = mesh
        .run(
            r#"import { call } from "catena";
            export default async () => {
                try { await call("a/fail", "no luck"); }
                catch (error) {
                    return [error.name, error.message, error.path, await call("a/where", null)];
                }
            };"#,
            (),
        )
        .await;
    assert_eq!(result.unwrap(), json!(["Failed", "no luck", ["client", "a"], "a"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_uncaught_exception_has_its_name_its_line_and_the_path_of_hosts() {
    let mesh = mesh(2).await;
    let why = mesh
        .run(
            "import { call } from \"catena\";\nexport default async () => {\n  await call(\"a/where\", null);\n  await call(\"b/fail\", \"no luck\");\n};",
            (),
        )
        .await
        .unwrap_err();
    assert_eq!((why.name.as_str(), why.message.as_str()), ("Failed", "no luck"));
    assert_eq!(why.path, ["client", "a", "b"]);
    assert_eq!(why.line, 4, "{why:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exception_that_passes_through_keeps_where_it_happened() {
    let mesh = mesh(3).await;
    let passing = "await call('a/where', null); await call('b/where', null);";
    let cases = [
        ("await call('c/fail', 'no luck');", 3, vec!["client", "a", "b", "c"]),
        ("await Promise.all([call('b/where', null), call('c/fail', 'no luck')]);", 4, vec!["client", "a", "b", "c"]),
        (
            "try { await call('c/fail', 'no luck'); } catch (error) { await call('a/where', null); throw error; }",
            3,
            vec!["client", "a", "b", "c"],
        ),
        ("await call('c/fail', 'no luck').finally(() => call('a/where', null));", 3, vec!["client", "a", "b", "c"]),
    ];
    for (failing, step, path) in cases {
        let source = format!("import {{ call }} from 'catena'; export default async () => {{ {passing} {failing} }};");
        let why = mesh.run(&source, ()).await.unwrap_err();
        assert_eq!((why.name.as_str(), why.message.as_str()), ("Failed", "no luck"), "{failing}");
        assert_eq!((why.fault, why.target.as_deref()), (Fault::Service, Some("c/fail")), "{failing}: {why:?}");
        assert_eq!(
            (why.step, &why.path),
            (step, &path.iter().map(ToString::to_string).collect()),
            "{failing}: {why:?}"
        );
    }
    // What the function throws in reaction is its own.
    let source = format!(
        "import {{ call }} from 'catena'; export default async () => {{ {passing}
        try {{ await call('c/fail', 'no luck'); }} catch (cause) {{ throw new TypeError('worse', {{ cause }}); }} }};"
    );
    let why = mesh.run(&source, ()).await.unwrap_err();
    assert_eq!((why.name.as_str(), why.fault, why.target.as_deref()), ("TypeError", Fault::Guest, None), "{why:?}");
    assert_eq!(why.path.last().map(String::as_str), Some("c"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exception_that_a_service_passes_on_is_of_the_call_that_it_answers_and_says_where_it_began() {
    let mesh = mesh(2).await;
    let service = Service::new("z").function_in("asks", async |context: Context, service: String| {
        Ok(context.client().call::<_, Json>(&service, "fail", "no luck").await?)
    });
    let first = Place::new(mesh.nodes[0].address().unwrap());
    let node = Node::builder("z").listen("127.0.0.1:0").sandbox(SANDBOX.clone()).service(service).join(first);
    let _z = node.start().await.unwrap();
    let moves = "await call('z/asks', service)";
    let beside = "await Promise.all([call('z/asks', service), call('a/where', null)])";
    for (calls, service, name, hosts) in [
        (moves, "b", "Failed", &["client", "a", "z", "b"][..]),
        (beside, "b", "Failed", &["client", "a", "z", "b"]),
        // That this call was not made does not say that the one of `z` was not.
        (moves, "nobody", "UnknownService", &["client", "a", "z"]),
        (beside, "nobody", "UnknownService", &["client", "a", "z"]),
    ] {
        let source = format!(
            "import {{ call }} from 'catena'; export default async (service) => {{ await call('a/where', null); {calls}; }};"
        );
        let why = mesh.run(&source, service).await.unwrap_err();
        assert_eq!((why.name.as_str(), why.fault), (name, Fault::Service), "{calls}: {why:?}");
        assert_eq!((why.target.as_deref(), why.step), (Some("z/asks"), 2), "{calls}: {why:?}");
        assert_eq!(why.path, hosts, "{calls}: {why:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_service_is_named_with_the_nearest_one() {
    let mesh = mesh(1).await;
    let why =
        mesh.run("import { call } from 'catena'; export default () => call('aa/where', null);", ()).await.unwrap_err();
    assert_eq!(why.name, "UnknownService");
    assert!(why.message.contains("did you mean a?"), "{}", why.message);
    let why =
        mesh.run("import { call } from 'catena'; export default () => call('a/wear', null);", ()).await.unwrap_err();
    assert_eq!(why.name, "UnknownFunction");
    assert!(why.message.contains("where"), "{}", why.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_side_by_side_stay_where_the_chain_is() {
    let mesh = mesh(3).await;
    let code = mesh
        .code(
            r#"import { call } from "catena";
            export default async () => {
                await call("a/where", null);
                const seen = await Promise.all([call("b/where", null), call("c/where", null), call("a/where", null)]);
                return [...seen, await call("b/where", null)];
            };"#,
        )
        .await;
    let mut replies = mesh.client.run(&code, &()).await.unwrap();
    let seen: Vec<String> = from_value(&replies.last().await.unwrap()).unwrap();
    assert_eq!(seen, ["b", "c", "a", "b"]);
    assert_eq!(replies.path(), ["client", "a", "b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn large_parameters_and_results_travel() {
    let mesh = mesh(2).await;
    let result = mesh
        .run(
            r#"import { call } from "catena";
            export default async () => {
                const blob = await call("a/blob", 3_000_000);
                const back = await call("b/echo", blob);
                return [blob.length, back === blob];
            };"#,
            (),
        )
        .await;
    assert_eq!(result.unwrap(), json!([3_000_000, true]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_panics_hurts_nobody_else() {
    let mesh = mesh(1).await;
    let why = mesh.client.call::<_, ()>("a", "panic", &()).await.unwrap_err();
    assert_eq!(why.name, "ServiceFailed");
    assert_eq!(mesh.client.call::<_, String>("a", "where", &()).await.unwrap(), "a");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_cannot_be_encoded_is_the_services_fault_since_its_function_has_run() {
    let mesh = mesh(1).await;
    let why = mesh.client.call::<_, ()>("a", "unencodable", &()).await.unwrap_err();
    assert_eq!((why.name.as_str(), why.fault), ("BadParameters", Fault::Service), "{why:?}");
    assert!(why.message.contains("on purpose"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_loops_ends_alone() {
    let mesh = mesh(1).await;
    let looping = mesh
        .code("import { call } from 'catena'; export default async () => { await call('a/where', null);\nfor (;;) [].concat([1]); };")
        .await;
    let mut stuck = mesh.client.run(&looping, &()).await.unwrap();
    for _ in 0..50 {
        let good = mesh.run("import { call } from 'catena'; export default () => call('a/where', null);", ()).await;
        assert_eq!(good.unwrap(), json!("a"));
    }
    let why = stuck.last().await.unwrap_err();
    assert_eq!(why.name, "LimitExceeded");
    assert!(why.message.contains("step_wall_ms_max"), "{}", why.message);
    // The engine knows where calls are: stopped at the turn of a loop, it names the call before it.
    assert!([1, 2].contains(&why.line), "{why:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_chains_at_once_all_come_home() {
    let mesh = mesh(3).await;
    let code = mesh
        .code(
            r#"import { call } from "catena";
            export default async (n) => {
                await call("a/add", null);
                await call("b/add", null);
                await call("c/add", null);
                return n * 2;
            };"#,
        )
        .await;
    let mut sets = Vec::new();
    for n in 0..1000u64 {
        sets.push((n, mesh.client.run(&code, &n).await.unwrap()));
    }
    for (n, set) in sets {
        assert_eq!(set.value::<u64>().await.unwrap(), n * 2);
    }
    for effects in &mesh.effects {
        assert_eq!(effects.load(Ordering::SeqCst), 1000);
    }
    // Custody ends with the next node's word, which takes its time.
    let idle = async {
        while mesh.nodes.iter().any(|node| node.load() != (0, 0, 0)) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), idle).await.expect("no chain is left anywhere");
}
