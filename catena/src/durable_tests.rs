#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    sync::atomic::{AtomicU32, Ordering},
    task::{Context as TaskContext, Waker},
};

use catena_wire::{Branch, ChainId, NodeId};

use super::*;

fn step(step: u32) -> StepKey {
    let chain = ChainId { origin: NodeId(7), number: 1 };
    StepKey { chain, branch: Branch::root(), step }
}

fn print(text: &str) -> Hash {
    print_of("service", "function", &Value::encode(&text))
}

/// Runs a step that counts its effects, and answers with how many there were.
async fn effect(steps: &Steps, number: u32, params: &str, effects: &AtomicU32) -> Result<String, Exception> {
    let running = async { Ok(Answer::Value(Value::encode(&(effects.fetch_add(1, Ordering::SeqCst) + 1)))) };
    match steps.once(&step(number), print(params), running).await? {
        Answer::Value(value) => Ok(format!("{value:?}")),
        Answer::Chain(_) => Ok("a chain".to_owned()),
    }
}

/// Waits until the writer of one that was dropped has let go of its file.
async fn open(path: &Path, limits: StepStoreLimits) -> Steps {
    loop {
        match Steps::open(path, limits) {
            Ok(steps) => return steps,
            Err(why) if why.to_string().contains("already open") => tokio::task::yield_now().await,
            Err(why) => panic!("{why}"),
        }
    }
}

#[tokio::test]
async fn a_step_runs_once_whatever_comes_between() {
    let (dir, effects) = (tempfile::tempdir().unwrap(), AtomicU32::new(0));
    let path = dir.path().join("steps");
    let steps = open(&path, StepStoreLimits::default()).await;
    assert_eq!(effect(&steps, 1, "a", &effects).await.unwrap(), "1");
    assert_eq!(effect(&steps, 2, "a", &effects).await.unwrap(), "2", "another step");
    // Begun, and dropped in the middle.
    {
        let third = step(3);
        let mut pending = Box::pin(steps.once(&third, print("a"), std::future::pending()));
        let polled = pending.as_mut().poll(&mut TaskContext::from_waker(Waker::noop()));
        assert!(polled.is_pending(), "its intent is on its way to the disk");
        assert!(effect(&steps, 3, "a", &effects).await.unwrap_err().unknown, "nobody else may run it");
    }
    let refused = async { Err(Exception::new("Empty", Fault::Service, "on purpose")) };
    assert_eq!(steps.once(&step(4), print("a"), refused).await.unwrap_err().name, "Empty");
    drop(steps);

    let steps = open(&path, StepStoreLimits::default()).await;
    for _ in 0..2 {
        assert_eq!(effect(&steps, 1, "a", &effects).await.unwrap(), "1");
        assert_eq!(effect(&steps, 2, "a", &effects).await.unwrap(), "2");
        let unknown = effect(&steps, 3, "a", &effects).await.unwrap_err();
        assert!(unknown.unknown && unknown.name == names::NODE_LOST, "{unknown}");
        let kept = effect(&steps, 4, "a", &effects).await.unwrap_err();
        assert!(!kept.unknown && kept.name == "Empty", "{kept}");
        assert!(effect(&steps, 1, "b", &effects).await.unwrap_err().unknown, "another call under the same step");
    }
    assert_eq!(effects.load(Ordering::SeqCst), 2, "each step at most once");
}

#[tokio::test]
async fn what_is_kept_has_bounds() {
    let (dir, effects) = (tempfile::tempdir().unwrap(), AtomicU32::new(0));
    let path = |name: &str| dir.path().join(name);
    let few = open(&path("few"), StepStoreLimits { entries_max: 2, ..StepStoreLimits::default() }).await;
    for number in 1..=2 {
        effect(&few, number, "a", &effects).await.unwrap();
    }
    let full = effect(&few, 3, "a", &effects).await.unwrap_err();
    assert!(full.name == names::OVERLOADED && full.message.contains("entries_max = 2") && !full.unknown, "{full}");
    assert_eq!(effect(&few, 1, "a", &effects).await.unwrap(), "1", "what is kept is still answered");

    let small = open(&path("small"), StepStoreLimits { bytes_max: 1, ..StepStoreLimits::default() }).await;
    effect(&small, 1, "a", &effects).await.unwrap();
    let full = effect(&small, 2, "a", &effects).await.unwrap_err();
    assert!(full.message.contains("bytes_max = 1"), "{full}");

    let limits = StepStoreLimits { entries_max: 1, age_max_ms: 0, ..StepStoreLimits::default() };
    let brief = open(&path("brief"), limits).await;
    for number in 1..=3 {
        while effect(&brief, number, "a", &effects).await.is_err_and(|why| why.name == names::OVERLOADED) {}
    }

    let large = open(&path("large"), StepStoreLimits { result_bytes_max: 0, ..StepStoreLimits::default() }).await;
    effect(&large, 1, "a", &effects).await.unwrap();
    assert!(effect(&large, 1, "a", &effects).await.unwrap_err().unknown, "given, but not kept");
}
