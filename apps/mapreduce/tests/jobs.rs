//! Jobs over four worker processes, which are slow, hang and die.
#![allow(clippy::unwrap_used)]

use std::{collections::BTreeMap, path::Path, time::Duration};

use catena_mapreduce::{
    coordinator::{self, Done, Plan},
    fleet::Fleet,
    job::{Job, Mode, Want},
    text::{self, Text},
};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

const TEXT: Text = Text { seed: 4, files: 12, lines: 4, words: 1_500, vocabulary: 3_000 };
const QUIET: Duration = Duration::from_millis(500);

struct Stage {
    folder: TempDir,
    fleet: Fleet,
}

impl Stage {
    async fn open(slow_ms: [u64; 4]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        text::write(&TEXT, folder.path()).unwrap();
        let fleet = Fleet::start(Path::new(env!("CARGO_BIN_EXE_mapreduce")), &slow_ms, None).await.unwrap();
        Self { folder, fleet }
    }

    fn plan(&self, id: u64, mode: Mode, want: Want, reduces: u32) -> Plan {
        let Text { files, lines, words, .. } = TEXT;
        let text = self.folder.path().to_owned();
        let output = text.join(format!("counts-{id}"));
        std::fs::create_dir(&output).unwrap();
        let job = Job { id, text, maps: files, blocks: lines, words, reduces, mode, want };
        Plan { job, workers: 4, quiet: QUIET, output: Some(output) }
    }

    /// All counts that a job wrote.
    fn written(plan: &Plan) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        for file in std::fs::read_dir(plan.output.as_ref().unwrap()).unwrap() {
            for line in std::fs::read_to_string(file.unwrap().path()).unwrap().lines() {
                let (word, count) = line.split_once('\t').unwrap();
                assert!(all.insert(word.to_owned(), count.parse().unwrap()).is_none(), "{word} is in two partitions");
            }
        }
        all
    }

    fn truth(&self) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        for file in 0..TEXT.files {
            let text = std::fs::read_to_string(self.folder.path().join(file.to_string())).unwrap();
            text.split_whitespace().for_each(|word| *all.entry(word.to_owned()).or_default() += 1);
        }
        all
    }
}

fn must_be_the_most_frequent(done: &Done, truth: &BTreeMap<String, u64>) {
    let mut counts: Vec<_> = truth.values().copied().collect();
    counts.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
    assert_eq!(done.top.words.len(), 20);
    for ranked in &done.top.words {
        let count = truth[&ranked.word];
        assert!(count >= counts[19] && (ranked.least..=ranked.most).contains(&count), "{ranked:?}: {count}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_mode_counts_every_word_and_the_top_is_proved_before_the_end() {
    let stage = Stage::open([0; 4]).await;
    let truth = stage.truth();
    for (id, mode) in (1..).zip(Mode::ALL) {
        let plan = stage.plan(id, mode, Want::Counts, 5);
        let done = coordinator::run(stage.fleet.client(), &plan, |_, _| {}).await.unwrap();
        assert_eq!(Stage::written(&plan), truth, "{mode:?}");
        must_be_the_most_frequent(&done, &truth);
        let last = done.points.last().unwrap();
        assert_eq!(last.reduces_pct, 100.0, "{mode:?}");
    }
    let plan = stage.plan(9, Mode::Replies, Want::Top(20), 5);
    let done = coordinator::run(stage.fleet.client(), &plan, |_, _| {}).await.unwrap();
    assert!(done.top.proved && done.proved_at.is_some());
    assert!(done.points.last().unwrap().reduces_pct < 100.0, "it stopped before the tails were counted");
    must_be_the_most_frequent(&done, &truth);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_dies_is_replaced_and_nothing_is_counted_twice() {
    let mut stage = Stage::open([20; 4]).await;
    let truth = stage.truth();
    let plan = stage.plan(1, Mode::Replies, Want::Counts, 5);
    let client = stage.fleet.client().clone();
    let (begun, beginning) = tokio::sync::oneshot::channel();
    let mut begun = Some(begun);
    let running = coordinator::run(&client, &plan, |point, _| {
        if point.reduces_pct > 10.0
            && let Some(begun) = begun.take()
        {
            begun.send(()).unwrap();
        }
    });
    let killing = async {
        beginning.await.unwrap();
        // It has maps, and the reduce of partition 2.
        stage.fleet.kill(2).await.unwrap();
    };
    let (done, ()) = tokio::join!(running, killing);
    must_be_the_most_frequent(&done.unwrap(), &truth);
    assert_eq!(Stage::written(&plan), truth);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_hangs_or_is_slow_holds_nobody_up() {
    // At the pace of the last one the job would take minutes.
    let stage = Stage::open([0, 5, 0, 20_000]).await;
    let truth = stage.truth();
    let hung = Pid::from_raw(stage.fleet.process(1).unwrap() as i32).unwrap();
    kill_process(hung, Signal::STOP).unwrap();
    let plan = stage.plan(1, Mode::Replies, Want::Counts, 1);
    let done = coordinator::run(stage.fleet.client(), &plan, |_, _| {}).await;
    kill_process(hung, Signal::CONT).unwrap();
    must_be_the_most_frequent(&done.unwrap(), &truth);
    assert_eq!(Stage::written(&plan), truth);
}
