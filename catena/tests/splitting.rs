//! Chains that split and merge, over real nodes and sockets (rpc-chains section 3.10).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::collections::BTreeSet;

use catena::{Reply, RunOptions, from_value, to_value};
use common::mesh;
use serde_json::{Value as Json, json};

#[tokio::test(flavor = "multi_thread")]
async fn branches_go_their_own_ways_and_their_results_come_in_order() {
    let mesh = mesh(4).await;
    let source = r#"import { call, split } from "catena";
        export default async (names) => {
            const prefix = "at ";
            const seen = await split(names.map((name) => async () => {
                const first = await call(`${name}/where`, null);
                return prefix + first + await call("d/where", null);
            }));
            return [seen, await call("a/where", null)];
        };"#;
    let got = mesh.run(source, ["a", "b", "c"]).await.unwrap();
    assert_eq!(got, json!([["at ad", "at bd", "at cd"], "a"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn branches_merge_at_the_host_of_one_s_choice() {
    let mesh = mesh(3).await;
    let source = r#"import { call, split } from "catena";
        export default async () => {
            const seen = await split([() => call("a/where", null), () => call("b/where", null)], { at: "c" });
            return [seen, await call("c/where", null)];
        };"#;
    let code = mesh.code(source).await;
    let options = RunOptions { profile: true, ..RunOptions::default() };
    let mut replies = mesh.client.run_with(&code, &to_value(&()).unwrap(), &options).unwrap();
    let got: Json = from_value(&replies.last().await.unwrap()).unwrap();
    assert_eq!(got, json!([["a", "b"], "c"]));
    let after = replies.trace().iter().find(|step| step.target == "c/where").unwrap();
    assert!(
        after.in_place && after.node == "c",
        "the parent went on where its branches merged: {:#?}",
        replies.trace()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn splits_may_be_nested_and_branches_may_fail() {
    let mesh = mesh(3).await;
    let source = r#"import { call, split } from "catena";
        const inner = (name) => () => call(`${name}/where`, null);
        export default async () => {
            const outcomes = await split([
                async () => (await split([inner("a"), inner("b"), inner("c")])).join(""),
                () => call("b/fail", "on purpose"),
                async () => { throw new RangeError("too far"); },
            ], { settled: true });
            const told = outcomes.map((o) => o.status === "fulfilled" ? o.value : `${o.reason.name}: ${o.reason.message}`);
            let caught = "nothing";
            try { await split([inner("a"), () => call("c/fail", "first"), () => call("b/fail", "second")]); }
            catch (error) { caught = error.message; }
            return [told, caught];
        };"#;
    let got = mesh.run(source, Json::Null).await.unwrap();
    assert_eq!(got, json!([["abc", "Failed: on purpose", "RangeError: too far"], "first"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_branch_emits_in_its_own_order_and_the_end_comes_after_all() {
    let mesh = mesh(3).await;
    let source = r#"import { call, emit, split } from "catena";
        export default async () => {
            emit(["root", 0]);
            const branch = (name) => async () => {
                for (let i = 0; i < 5; i++) { emit([name, i]); await call(`${name}/where`, null); }
                return name;
            };
            const names = await split([branch("a"), branch("b"), branch("c")]);
            emit(["root", 1]);
            return [names, Math.random() !== Math.random()];
        };"#;
    let code = mesh.code(source).await;
    let mut replies = mesh.client.run(&code, &()).await.unwrap();
    let mut seen: Vec<(String, u32)> = Vec::new();
    while let Some(reply) = replies.next().await {
        match reply.unwrap() {
            Reply::Partial(value) => seen.push(from_value(&value).unwrap()),
            Reply::Last(value) => assert_eq!(from_value::<Json>(&value).unwrap(), json!([["a", "b", "c"], true])),
        }
    }
    assert_eq!(seen.len(), 17, "all answers, then the end: {seen:?}");
    for name in ["root", "a", "b", "c"] {
        let own: Vec<_> = seen.iter().filter(|(who, _)| who == name).map(|(_, number)| *number).collect();
        assert_eq!(own, (0..own.len() as u32).collect::<Vec<_>>(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn branches_draw_different_random_numbers_and_the_same_ones_again() {
    let mesh = mesh(2).await;
    let source = r#"import { call, split } from "catena";
        const draw = async () => { await call("a/where", null); return Math.random(); };
        const nested = async () => [await split([draw, draw]), Math.random()];
        export default async () => {
            const before = Math.random();
            // Nothing is drawn between the two.
            const [first, second] = [await split([nested, nested, draw]), await split([nested, nested, draw])];
            return [before, first, second, Math.random(), Math.random(), Math.random()].flat(4);
        };"#;
    let got = mesh.run(source, Json::Null).await.unwrap();
    let drawn: BTreeSet<String> = got.as_array().unwrap().iter().map(ToString::to_string).collect();
    assert_eq!((got.as_array().unwrap().len(), drawn.len()), (18, 18), "{got}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_split_for_ever_ends_by_the_hop_budget() {
    let mesh = mesh(2).await;
    let source = r#"import { call, split } from "catena";
        const again = async () => { await call("a/where", null); return split([again, again]); };
        export default again;"#;
    let code = mesh.code(source).await;
    let options = RunOptions { hops_max: 200, ..RunOptions::default() };
    let mut replies = mesh.client.run_with(&code, &to_value(&()).unwrap(), &options).unwrap();
    let why = replies.last().await.unwrap_err();
    assert_eq!(why.name, "HopBudgetExceeded", "{why}");
    while mesh.nodes.iter().any(|node| node.load() != (0, 0, 0)) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_reaches_every_branch() {
    let mesh = mesh(3).await;
    let source = r#"import { call, emit, split } from "catena";
        export default async () => split(["a", "b", "c"].map((name) => async () => {
            await call(`${name}/where`, null);
            emit(name);
            await call(`${name}/sleep`, 60000);
            await call(`${name}/add`, null);
        }));"#;
    let code = mesh.code(source).await;
    let mut replies = mesh.client.run(&code, &()).await.unwrap();
    for _ in 0..3 {
        assert!(matches!(replies.next().await, Some(Ok(Reply::Partial(_)))));
    }
    replies.cancel();
    assert_eq!(replies.last().await.unwrap_err().name, "Cancelled");
    while mesh.nodes.iter().any(|node| node.load() != (0, 0, 0)) {
        tokio::task::yield_now().await;
    }
    assert!(mesh.effects.iter().all(|effect| effect.load(std::sync::atomic::Ordering::SeqCst) == 0));
}
