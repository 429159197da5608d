//! Rust guests that split, over real nodes and sockets: the same plans carried out by the sample guest `plan` and by a JavaScript
//! function must show the same to the world.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::{collections::BTreeSet, path::Path, sync::atomic::Ordering};

use catena::{Client, Code, Exception, Mode, Reply, RunOptions, from_value, to_value};
use common::{Mesh, mesh};
use serde_json::{Value as Json, json};

/// What `guest/wasm/samples/plan` is, in JavaScript.
const PLAN_JS: &str = r#"import { call, emit, log, split } from "catena";
    export default async (plan) => {
        let number = 0;
        const started = new Map();
        const named = (name, message) => Object.assign(new Error(message), { name });
        const told = async (promise) => {
            try { return ["done", await promise]; } catch (why) { return ["threw", `${why.name}: ${why.message}`]; }
        };
        const step = async ([what, ...rest]) => {
            switch (what) {
                case "value": return rest[0];
                case "call": return call(rest[0], rest[1]);
                case "tell": await call(rest[0], rest[1]); return null;
                case "ask": return (await call(rest[0], rest[1])) ?? null;
                case "seq": { const all = []; for (const plan of rest[0]) all.push(await step(plan)); return all; }
                case "all": return Promise.all(rest[0].map(step));
                case "race": return Promise.race(rest[0].map(step));
                case "split": {
                    const [at, settled, plans] = rest;
                    const all = await split(plans.map((plan) => () => step(plan)), { at: at ?? undefined, settled });
                    return settled ? Promise.all(all.map(({ status, value, reason }) =>
                        told(status === "fulfilled" ? value : Promise.reject(reason)))) : all;
                }
                case "catch": return told(step(rest[0]));
                case "guarded": try { return await step(rest[1]); } finally { emit(rest[0]); }
                case "start": started.set(rest[0], call(rest[1], rest[2])); return null;
                case "await": return started.get(rest[0]);
                case "add": return number += rest[0];
                case "emit": emit(rest[0]); return null;
                case "log": log(rest[0]); return null;
                case "throw": throw named(rest[0], rest[1]);
            }
        };
        return step(plan);
    };"#;

async fn plan_wasm(client: &Client) -> Code {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/guests/plan.wasm");
    let module = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}: run `make engine`", path.display()));
    client.wasm("plan.wasm", &module).await.expect("the function loads")
}

/// What a chain shows to the world. There is no order between branches.
#[derive(Debug, PartialEq)]
struct Shown {
    end: Result<Json, Exception>,
    emitted: BTreeSet<String>,
    logged: BTreeSet<String>,
    path: BTreeSet<String>,
}

async fn shown(mesh: &Mesh, code: &Code, plan: &Json, options: &RunOptions) -> Shown {
    let mut replies = mesh.client.run_with(code, &to_value(plan).unwrap(), options).unwrap();
    let mut emitted = Vec::new();
    let end = loop {
        match replies.next().await {
            Some(Ok(Reply::Partial(value))) => emitted.push(from_value::<Json>(&value).unwrap().to_string()),
            Some(Ok(Reply::Last(value))) => break from_value(&value),
            Some(Err(why)) => break Err(why),
            None => panic!("no end"),
        }
    };
    let count = emitted.len();
    let emitted = BTreeSet::from_iter(emitted);
    assert_eq!(emitted.len(), count, "each answer of a plan is another, and comes once");
    let logged = replies.console().iter().map(|line| line.text.clone()).collect();
    Shown { end, emitted, logged, path: replies.path().iter().cloned().collect() }
}

/// Runs a plan by both kinds of guest, which must not differ; the answer is what the Rust guest showed.
async fn both(mesh: &Mesh, plan: &Json) -> Shown {
    let (rust, js) = (plan_wasm(&mesh.client).await, mesh.code(PLAN_JS).await);
    let mut last = None;
    for mode in [Mode::Interactive, Mode::Chain] {
        let options = RunOptions { mode, ..RunOptions::default() };
        let (mut rust, mut js) = tokio::join!(shown(mesh, &rust, plan, &options), shown(mesh, &js, plan, &options));
        for end in [&mut rust.end, &mut js.end] {
            // Rust guests know no lines.
            if let Err(why) = end {
                (why.stack, why.line, why.column) = Default::default();
            }
        }
        assert_eq!(rust, js, "{mode:?}: {plan}");
        last = Some(rust);
    }
    last.unwrap()
}

fn at(name: &str) -> Json {
    json!(["call", format!("{name}/where"), null])
}

fn set(of: &[&str]) -> BTreeSet<String> {
    of.iter().map(|text| (*text).to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn branches_go_their_own_ways_and_their_results_come_in_order() {
    let mesh = mesh(4).await;
    let branches = ["a", "b", "c"].map(|name| json!(["seq", [at(name), at("d")]]));
    let got = both(&mesh, &json!(["seq", [["split", null, false, branches], at("a")]])).await;
    assert_eq!(got.end.unwrap(), json!([[["a", "d"], ["b", "d"], ["c", "d"]], "a"]));
    assert_eq!(got.path, set(&["client", "a", "b", "c", "d"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn branches_merge_at_the_host_of_one_s_choice() {
    let mesh = mesh(3).await;
    let plan = json!(["seq", [["split", "c", false, [at("a"), at("b")]], at("c")]]);
    assert_eq!(both(&mesh, &plan).await.end.unwrap(), json!([["a", "b"], "c"]));
    let options = RunOptions { profile: true, ..RunOptions::default() };
    let code = plan_wasm(&mesh.client).await;
    let mut replies = mesh.client.run_with(&code, &to_value(&plan).unwrap(), &options).unwrap();
    replies.last().await.unwrap();
    let after = replies.trace().iter().find(|step| step.target == "c/where").unwrap();
    assert!(after.in_place && after.node == "c", "it went on where its branches merged: {:#?}", replies.trace());
}

#[tokio::test(flavor = "multi_thread")]
async fn splits_may_be_nested_and_branches_may_fail() {
    let mesh = mesh(3).await;
    let fail = |node: &str, message: &str| json!(["call", format!("{node}/fail"), message]);
    let innermost = json!(["split", null, false, [at("c"), ["seq", [at("b"), at("a")]]]]);
    let inner = json!(["seq", [["split", "b", false, [at("a"), innermost, at("c")]], at("b")]]);
    let outer = json!(["split", "c", true, [inner, fail("b", "on purpose"), ["throw", "TooFar", "much"]]]);
    let first = json!(["catch", ["split", null, false, [at("a"), fail("c", "first"), fail("b", "second")]]]);
    let got = both(&mesh, &json!(["seq", [outer, first]])).await;
    let nested = json!([["a", ["c", ["b", "a"]], "c"], "b"]);
    assert_eq!(
        got.end.unwrap(),
        json!([
            [["done", nested], ["threw", "Failed: on purpose"], ["threw", "TooFar: much"]],
            ["threw", "Failed: first"]
        ])
    );
    // Uncaught: the exception tells where it happened, whichever guest let it pass.
    let why = both(&mesh, &json!(["split", null, false, [at("a"), fail("c", "alone")]])).await.end.unwrap_err();
    assert_eq!((why.name.as_str(), why.target.as_deref()), ("Failed", Some("c/fail")));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_branch_emits_and_logs_and_what_it_assigns_is_its_own() {
    let mesh = mesh(3).await;
    let branch = |name: &str, more: i64| {
        json!([
            "seq",
            [["add", more], ["emit", [name, 0]], at(name), ["emit", [name, 1]], ["log", name], ["add", more]]
        ])
    };
    let got = both(
        &mesh,
        &json!([
            "seq",
            [
                ["add", 1],
                ["emit", "begun"],
                ["split", "b", false, [branch("a", 10), branch("b", 100), branch("c", 1000)]],
                ["emit", "merged"],
                ["log", "end"],
                ["add", 1]
            ]
        ]),
    )
    .await;
    let end = got.end.unwrap();
    let assigned: Vec<_> = end[2].as_array().unwrap().iter().map(|branch| (&branch[0], &branch[5])).collect();
    assert_eq!(assigned, [(&json!(11), &json!(21)), (&json!(101), &json!(201)), (&json!(1001), &json!(2001))]);
    assert_eq!(end[5], json!(2), "no branch is seen by the function that split");
    assert_eq!((got.emitted.len(), got.logged), (8, set(&["a", "b", "c", "end"])));
    assert_eq!(got.path, set(&["client", "a", "b", "c"]), "the hosts of all branches, wherever they merge");
}

#[tokio::test(flavor = "multi_thread")]
async fn splits_that_cannot_be_made_are_exceptions_that_can_be_caught() {
    let mesh = mesh(2).await;
    let threw = |end: Result<Json, Exception>| end.unwrap()[1].as_str().unwrap().to_owned();
    let plan = |count: usize| json!(["catch", ["split", null, false, vec![json!(["value", 1]); count]]]);
    let many = both(&mesh, &plan(257)).await;
    assert!(threw(many.end).starts_with("LimitExceeded: a split into 257 branches"));
    let most = both(&mesh, &plan(256)).await.end.unwrap();
    assert_eq!(most, json!(["done", vec![1; 256]]));
    let beside = json!(["split", null, false, [at("a"), at("b")]]);
    let beside = both(&mesh, &json!(["catch", ["all", [beside, beside]]])).await;
    assert!(threw(beside.end).starts_with("LimitExceeded: splits cannot run beside each other"));
    // Each guest says it in the words of its language.
    for code in [plan_wasm(&mesh.client).await, mesh.code(PLAN_JS).await] {
        let none = shown(&mesh, &code, &plan(0), &RunOptions::default()).await;
        assert!(threw(none.end).starts_with("TypeError: split takes "));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_split_for_ever_ends_by_the_hop_budget() {
    let mesh = mesh(2).await;
    let mut plan = at("a");
    for _ in 0..8 {
        plan = json!(["seq", [at("b"), ["split", null, false, [plan, plan]]]]);
    }
    let options = RunOptions { hops_max: 100, ..RunOptions::default() };
    let why = shown(&mesh, &plan_wasm(&mesh.client).await, &plan, &options).await.end.unwrap_err();
    assert!(["HopBudgetExceeded", "LimitExceeded"].contains(&why.name.as_str()), "{why}");
    while mesh.nodes.iter().any(|node| node.load() != (0, 0, 0)) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_are_under_way_are_answered_to_the_function_that_split() {
    let mesh = mesh(3).await;
    // Answered before the split: the branches have the answer too. Still under way: they wait in vain.
    let plan = json!([
        "seq",
        [
            ["start", "early", "a/where", null],
            ["start", "late", "b/hold", null],
            at("c"),
            // Over the same link, and after it.
            at("a"),
            ["split", "c", true, [["await", "early"], ["await", "late"], at("b")]],
            ["call", "b/open", null],
            ["await", "early"],
            ["catch", ["await", "late"]]
        ]
    ]);
    let end = both(&mesh, &plan).await.end.unwrap();
    assert_eq!(end[4][0], json!(["done", "a"]));
    assert!(end[4][1][1].as_str().unwrap().starts_with("Stalled: "), "{end}");
    assert_eq!((&end[4][2], &end[6], &end[7][0]), (&json!(["done", "b"]), &json!("a"), &json!("done")));
}

/// Longer than any test: nobody waits for it.
const LONG_MS: u64 = 600_000;

#[tokio::test(flavor = "multi_thread")]
async fn calls_side_by_side_mean_the_same_in_both_kinds_of_guest() {
    let mesh = mesh(3).await;
    let sleep = |node: &str, ms: u64| json!(["seq", [["call", format!("{node}/sleep"), ms], at(node)]]);
    let nothing = json!(["seq", [["tell", "b/sleep", 1], ["ask", "c/sleep", 1]]]);
    let all = json!(["all", [sleep("a", 30), at("b"), ["all", [at("c"), at("a")]], ["value", 7], nothing]]);
    let race = json!(["race", [sleep("a", LONG_MS), sleep("b", 1), sleep("c", LONG_MS)]]);
    let failed = json!(["catch", ["all", [sleep("a", LONG_MS), ["call", "b/fail", "soon"]]]]);
    // A race inside a branch, and a split beside a call.
    let mixed = json!(["all", [["split", "c", false, [race, all]], at("b")]]);
    let end = both(&mesh, &json!(["seq", [all, race, failed, mixed, at("c")]])).await.end.unwrap();
    let all = json!([[null, "a"], "b", ["c", "a"], 7, [null, null]]);
    let race = json!([null, "b"]);
    assert_eq!(end, json!([all, race, ["threw", "Failed: soon"], [[race, all], "b"], "c"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_function_holds_is_let_go_once_and_not_by_its_branches() {
    let mesh = mesh(2).await;
    let within = json!(["split", null, false, [at("a"), ["guarded", "of the branch", at("b")]]]);
    let got = both(&mesh, &json!(["guarded", "of the function", within])).await;
    assert_eq!(got.end.unwrap(), json!(["a", "b"]));
    // Each was emitted once: `shown` would have found it twice.
    assert_eq!(got.emitted, set(&[r#""of the branch""#, r#""of the function""#]));
}

#[tokio::test(flavor = "multi_thread")]
async fn branches_of_each_split_have_seeds_of_their_own_and_branches_within_branches_too() {
    let mesh = mesh(2).await;
    let seed = json!(["seq", [at("a"), ["seed"]]]);
    let inner = json!(["split", null, false, [seed, seed, ["seed"]]]);
    let split = json!(["split", null, false, [inner, inner, seed]]);
    let plan = json!(["seq", [["seed"], split, split, ["seed"]]]);
    let end = shown(&mesh, &plan_wasm(&mesh.client).await, &plan, &RunOptions::default()).await.end.unwrap();
    assert_eq!(end[0], end[3], "the function's own stays");
    let mut seeds = BTreeSet::new();
    collect(&end, &mut seeds);
    assert_eq!(seeds.len(), 15, "one for each branch that drew, of either split, and the function's: {end}");
}

fn collect(json: &Json, seeds: &mut BTreeSet<u64>) {
    match json {
        Json::Array(items) => items.iter().for_each(|item| collect(item, seeds)),
        other => seeds.extend(other.as_u64()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_an_exception_of_its_branch_and_harms_nothing_else() {
    let mesh = mesh(3).await;
    let code = plan_wasm(&mesh.client).await;
    let panics = json!(["seq", [at("b"), ["panic", "on purpose"]]]);
    let plan = json!(["seq", [["split", "c", true, [at("a"), panics, ["call", "c/add", null]]], at("a")]]);
    let end = shown(&mesh, &code, &plan, &RunOptions::default()).await.end.unwrap();
    assert_eq!((&end[0][0], &end[0][2], &end[1]), (&json!(["done", "a"]), &json!(["done", 1]), &json!("a")));
    assert_eq!(end[0][1][0], "threw");
    let told = end[0][1][1].as_str().unwrap();
    assert!(told.starts_with("GuestTrapped: ") && told.contains("lib.rs:") && told.contains(": on purpose ("), "{end}");
    let why = shown(&mesh, &code, &panics, &RunOptions::default()).await.end.unwrap_err();
    assert_eq!((why.name.as_str(), why.fault), ("GuestTrapped", catena::Fault::Guest));
    assert_eq!(mesh.effects[2].load(Ordering::SeqCst), 1);
    let next = shown(&mesh, &code, &at("b"), &RunOptions::default()).await;
    assert_eq!(next.end.unwrap(), json!("b"), "the node goes on");
}
