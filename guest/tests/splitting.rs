//! The guest SDK's side of a split, event by event: what a branch takes along, and what it lets go.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::{collections::BTreeSet, sync::Arc};

use bytes::Bytes;
use catena_guest::{GuestSplit, Image, Session, Turn};
use catena_wire::{Branch, Exception, Fault};
use common::{NODES, START, answer, guest, json_of, load_js, load_wasm, value};
use serde_json::{Value as Json, json};

/// Runs `plan` to its split: the image, and the continuation from which all branches begin.
async fn split(plan: &Json) -> (Arc<Image>, Bytes, Turn) {
    let image = load_wasm(&NODES[0], &guest("plan.wasm")).await.unwrap();
    let mut session = NODES[0].begin(&image).await.unwrap();
    let turn = session.start(&value(plan), START).await.unwrap();
    (image, session.suspend().await.unwrap(), turn)
}

async fn begin(image: &Arc<Image>, continuation: &Bytes, call: u32, index: u16) -> (Session, Turn) {
    let mut session = NODES[0].resume(image, continuation).await.unwrap();
    let turn = session.branch(call, index).await.unwrap();
    (session, turn)
}

#[tokio::test]
async fn a_branch_takes_none_of_the_others_memory_along() {
    const LARGE_BYTES: usize = 50_000;
    let echo = |params: Json| json!(["call", "a/echo", params]);
    let large = json!({ "$bytes": LARGE_BYTES });
    let plan = json!(["guarded", large, ["split", "z", false, [echo(large.clone()), echo(json!("small"))]]]);
    let (image, parent, turn) = split(&plan).await;
    assert_eq!(turn.splits, [GuestSplit { call: 0, count: 2, at: Some("z".to_owned()), line: 0, column: 0 }]);
    assert!(parent.len() > 2 * LARGE_BYTES, "{} bytes", parent.len());
    for (index, least, most) in [(0, LARGE_BYTES, LARGE_BYTES + 4_000), (1, 0, 4_000)] {
        let (mut session, turn) = begin(&image, &parent, 0, index).await;
        assert_eq!((turn.calls.len(), turn.calls[0].call), (1, 1), "numbers go on where the function was");
        assert!(turn.emits.is_empty(), "what the function holds is let go where the function goes on");
        let result = answer(&turn.calls[0]).unwrap();
        let branch = session.suspend().await.unwrap();
        assert!((least..most).contains(&branch.len()), "branch {index}: {} bytes", branch.len());
        let mut session =
            NODES[1].resume(&load_wasm(&NODES[1], &guest("plan.wasm")).await.unwrap(), &branch).await.unwrap();
        let turn = session.settle(1, Ok(&result)).await.unwrap();
        assert_eq!(turn.end, Some(Ok(result)), "the branch's result is the end");
    }
    let mut session = NODES[0].resume(&image, &parent).await.unwrap();
    let turn = session.settle(0, Ok(&value(&json!([[true, 1], [true, [2]]])))).await.unwrap();
    assert_eq!(turn.end.map(|end| json_of(&end.unwrap())), Some(json!([1, [2]])));
    assert_eq!(turn.emits, [value(&large)]);
}

#[tokio::test]
async fn what_a_branch_holds_is_let_go_by_itself_or_if_there_is_no_split() {
    let guarded = |name: &str| json!(["guarded", name, ["value", 1]]);
    let plan = json!(["catch", ["split", null, false, [guarded("never begun"), ["value", 2]]]]);
    let (image, continuation, _) = split(&plan).await;
    let (_, other) = begin(&image, &continuation, 0, 1).await;
    assert!(other.emits.is_empty() && other.end.is_some(), "what a branch holds is let go where the branch goes on");
    let mut session = NODES[0].resume(&image, &continuation).await.unwrap();
    let turn = session.settle(0, Ok(&value(&json!([[true, 1], [true, 2]])))).await.unwrap();
    assert!(turn.emits.is_empty() && turn.end.is_some(), "and not where the branches merge");
    let mut session = NODES[0].resume(&image, &continuation).await.unwrap();
    let why = Exception::new("LimitExceeded", Fault::Guest, "too many");
    let turn = session.settle(0, Err(&why)).await.unwrap();
    assert_eq!(turn.end.map(|end| json_of(&end.unwrap())), Some(json!(["threw", "LimitExceeded: too many"])));
    assert_eq!(turn.emits, [value(&json!("never begun"))], "there is no other copy");
}

#[tokio::test]
async fn a_branch_that_begins_again_draws_the_same_numbers() {
    let source = "import { split } from 'catena'; const draw = async () => Math.random();
        export default async () => { Math.random(); return split([draw, draw, () => split([draw, draw])]); };";
    let image = load_js(&NODES[0], source).await.unwrap();
    let mut session = NODES[0].begin(&image).await.unwrap();
    session.start(&value(&json!(null)), START).await.unwrap();
    let parent = session.suspend().await.unwrap();
    let mut drawn = Vec::new();
    for _ in 0..2 {
        let (mut inner, _) = begin(&image, &parent, 0, 2).await;
        let inner = inner.suspend().await.unwrap();
        for (of, call, index) in [(&parent, 0, 0), (&parent, 0, 1), (&inner, 1, 0), (&inner, 1, 1)] {
            let (_, turn) = begin(&image, of, call, index).await;
            drawn.push(json_of(&turn.end.unwrap().unwrap()).to_string());
        }
    }
    let (first, again) = drawn.split_at(4);
    assert_eq!(first, again);
    assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), 4, "{first:?}");
}

#[tokio::test]
async fn an_exception_that_passes_keeps_the_branch_in_which_it_happened() {
    let mut failed = Exception::new("Failed", Fault::Service, "in a branch");
    failed.path = vec!["a".to_owned()];
    failed.step = 3;
    failed.branch = Branch::root().child(2).and_then(|branch| branch.child(70)).unwrap();
    let pass = "import { call } from 'catena'; export default async () => { await call('a/b', 1); };";
    let js = load_js(&NODES[0], pass).await.unwrap();
    let rust = load_wasm(&NODES[0], &guest("relay.wasm")).await.unwrap();
    for image in [js, rust] {
        let mut session = NODES[0].begin(&image).await.unwrap();
        session.start(&value(&json!({ "hops": ["a/b"] })), START).await.unwrap();
        let why = session.settle(0, Err(&failed)).await.unwrap().end.unwrap().unwrap_err();
        assert_eq!((&why.branch, why.step, &why.path), (&failed.branch, 3, &failed.path));
    }
    // What a program uses the name for.
    for own in ["'main'", "[]", "[1.5]", "[-1]", "[65536]", "['1']", "Array(17).fill(1)", "{ length: 1, 0: 1 }", "7"] {
        let source = format!(
            "export default async () => {{ throw Object.assign(new Error('own'), {{ branch: {own}, path: ['a'] }}); }};"
        );
        let image = load_js(&NODES[0], &source).await.unwrap();
        let mut session = NODES[0].begin(&image).await.unwrap();
        let turn = session.start(&value(&json!(null)), START).await.unwrap();
        assert_eq!(turn.end.unwrap().unwrap_err().branch, Branch::root(), "{own}");
    }
}

#[tokio::test]
async fn a_branch_that_there_is_not_and_a_merge_of_another_shape_are_exceptions() {
    let (image, continuation, _) = split(&json!(["split", null, false, [["value", 1], ["value", 2]]])).await;
    for (call, index) in [(0, 2), (0, u16::MAX), (1, 0), (u32::MAX, 0)] {
        let (_, turn) = begin(&image, &continuation, call, index).await;
        assert_eq!(turn.end.unwrap().unwrap_err().name, "BadState", "split {call}, branch {index}");
    }
    for merged in [json!(null), json!([true, 1]), json!([[1, 2]]), json!([[false, "not an exception"]]), json!([[]])] {
        let mut session = NODES[0].resume(&image, &continuation).await.unwrap();
        let turn = session.settle(0, Ok(&value(&merged))).await.unwrap();
        assert_eq!(turn.end.unwrap().unwrap_err().name, "BadParameters", "{merged}");
    }
}
