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

fn fingerprint(text: &str) -> Hash {
    fingerprint_of("service", "function", &Value::encode(&text))
}

/// Runs a step that counts its effects, and answers with how many there were.
async fn effect(steps: &StepStore, number: u32, params: &str, effects: &AtomicU32) -> Result<String, Exception> {
    let running = async { Ok(Answer::Value(Value::encode(&(effects.fetch_add(1, Ordering::SeqCst) + 1)))) };
    match steps.once(&step(number), fingerprint(params), None, running).await? {
        Answer::Value(value) => Ok(format!("{value:?}")),
        Answer::Nothing | Answer::Chain(_) => Ok("a chain".to_owned()),
    }
}

/// Opens the store, after waiting until the writer of a dropped one has released the file.
async fn open(path: &Path, limits: StepStoreLimits) -> StepStore {
    loop {
        match StepStore::open(path, limits) {
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
    // A step that begins and is dropped in the middle.
    {
        let third = step(3);
        let mut pending = Box::pin(steps.once(&third, fingerprint("a"), None, std::future::pending()));
        let polled = pending.as_mut().poll(&mut TaskContext::from_waker(Waker::noop()));
        assert!(polled.is_pending(), "its intent is on its way to the disk");
        assert!(effect(&steps, 3, "a", &effects).await.unwrap_err().unknown, "nobody else may run it");
    }
    let refused = async { Err(Exception::new("Empty", Fault::Service, "on purpose")) };
    assert_eq!(steps.once(&step(4), fingerprint("a"), None, refused).await.unwrap_err().name, "Empty");
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

/// The key of this step in the branch of this text form.
fn at(branch: &str, step: u32) -> StepKey {
    StepKey { branch: branch.parse().unwrap(), ..self::step(step) }
}

fn way(number: u64, since: u32) -> Option<PossibleDuplicate> {
    Some(PossibleDuplicate { way: number, since: step(since) })
}

/// A name, the steps that were here before and how, the step that comes then and how, and whether it runs.
type Case = (&'static str, Vec<(StepKey, Option<PossibleDuplicate>)>, StepKey, Option<PossibleDuplicate>, bool);

#[tokio::test]
async fn what_one_way_of_a_chain_has_done_no_other_does_again() {
    let first_way = || None;
    let other_chain =
        Some(PossibleDuplicate { way: 9, since: StepKey { chain: ChainId { number: 2, ..step(1).chain }, ..step(8) } });
    let cases: [Case; 14] = [
        ("nobody has been here", vec![], at("", 5), way(9, 3), true),
        ("its own way has", vec![(at("", 4), way(9, 3))], at("", 5), way(9, 3), true),
        ("it has itself, before any duplicate", vec![(at("", 4), first_way())], at("", 5), first_way(), true),
        ("the first way, after the two parted", vec![(at("", 4), first_way())], at("", 5), way(9, 3), false),
        ("the first way, where they parted", vec![(at("", 3), first_way())], at("", 5), way(9, 3), false),
        ("the first way, before", vec![(at("", 2), first_way())], at("", 5), way(9, 3), true),
        ("the first way, further on", vec![(at("", 7), first_way())], at("", 5), way(9, 3), false),
        ("a later way, and this one is not", vec![(at("", 4), way(9, 3))], at("", 5), first_way(), false),
        ("another later way, which parted earlier", vec![(at("", 4), way(8, 3))], at("", 6), way(9, 5), false),
        ("another later way, before either parted", vec![(at("", 2), way(8, 3))], at("", 6), way(9, 5), true),
        ("a branch of it", vec![(at(".1.2", 4), first_way())], at("", 5), way(9, 3), false),
        ("what it branched from", vec![(at(".1", 4), first_way())], at(".1.2", 5), way(9, 3), false),
        ("another branch", vec![(at(".1", 4), first_way())], at(".12", 5), way(9, 3), true),
        (
            "a duplicate of another chain counts from the start",
            vec![(at("", 2), first_way())],
            at("", 5),
            other_chain,
            false,
        ),
    ];
    let dir = tempfile::tempdir().unwrap();
    for (number, (what, before, key, way, runs)) in cases.into_iter().enumerate() {
        let steps = open(&dir.path().join(number.to_string()), StepStoreLimits::default()).await;
        let done = || async { Ok(Answer::Value(Value::null())) };
        for (key, way) in before {
            steps.once(&key, fingerprint("before"), way, done()).await.unwrap();
        }
        let ran = AtomicU32::new(0);
        let running = async {
            ran.fetch_add(1, Ordering::SeqCst);
            Ok(Answer::Value(Value::null()))
        };
        match steps.once(&key, fingerprint("now"), way, running).await {
            Ok(_) => assert!(runs, "{what}: it ran"),
            Err(why) => assert!(!runs && why.unknown && why.name == names::NODE_LOST, "{what}: {why}"),
        }
        assert_eq!(ran.load(Ordering::SeqCst), u32::from(runs), "{what}");
    }
}

#[tokio::test]
async fn the_same_step_is_answered_whichever_way_asks() {
    let (dir, effects) = (tempfile::tempdir().unwrap(), AtomicU32::new(0));
    let steps = open(&dir.path().join("steps"), StepStoreLimits::default()).await;
    assert_eq!(effect(&steps, 5, "a", &effects).await.unwrap(), "1");
    let never = async { panic!("it was done") };
    let Ok(Answer::Value(value)) = steps.once(&step(5), fingerprint("a"), way(9, 3), never).await else {
        panic!("no answer")
    };
    assert_eq!(format!("{value:?}"), "1");
}

#[tokio::test]
async fn a_folder_that_is_deleted_is_made_again_with_all_that_was_known() {
    let (dir, effects) = (tempfile::tempdir().unwrap(), AtomicU32::new(0));
    let folder = dir.path().join("of").join("steps");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("file");
    let steps = open(&path, StepStoreLimits::default()).await;
    assert_eq!(effect(&steps, 1, "a", &effects).await.unwrap(), "1");
    for number in 2..4 {
        std::fs::remove_dir_all(dir.path().join("of")).unwrap();
        assert_eq!(effect(&steps, number, "a", &effects).await.unwrap(), number.to_string(), "it goes on at once");
    }
    drop(steps);
    let steps = open(&path, StepStoreLimits::default()).await;
    for number in 1..4 {
        assert_eq!(effect(&steps, number, "a", &effects).await.unwrap(), number.to_string(), "nothing was forgotten");
    }
}

#[tokio::test]
async fn while_its_place_is_taken_nothing_is_done_and_then_it_goes_on() {
    let (dir, effects) = (tempfile::tempdir().unwrap(), AtomicU32::new(0));
    let folder = dir.path().join("folder");
    std::fs::create_dir(&folder).unwrap();
    let steps = open(&folder.join("file"), StepStoreLimits::default()).await;
    assert_eq!(effect(&steps, 1, "a", &effects).await.unwrap(), "1");
    std::fs::remove_dir_all(&folder).unwrap();
    std::fs::write(&folder, "no folder").unwrap();
    for _ in 0..3 {
        let why = effect(&steps, 2, "a", &effects).await.unwrap_err();
        assert!(!why.unknown && why.message.contains(folder.to_str().unwrap()), "{why}");
    }
    std::fs::remove_file(&folder).unwrap();
    let done = loop {
        match effect(&steps, 2, "a", &effects).await {
            Ok(done) => break done,
            Err(why) => assert!(why.message.contains("step store cannot be used"), "{why}"),
        }
    };
    assert_eq!(done, "2", "by itself");
}
