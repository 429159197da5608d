//! Figure 11, and when the most frequent words are known (section 5.4).

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::json;

use crate::{
    coordinator::{self, Done, Plan, Point},
    fleet::Fleet,
    job::{Job, Mode, Want},
    text::{self, Text},
    top::Top,
};

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// How often all of it.
    pub runs: u64,
    /// The text.
    pub text: Text,
}

/// 40 maps and 5 reduces over 4 processes.
pub const REDUCES: u32 = 5;
/// Worker processes.
pub const WORKERS: usize = 4;
/// How many of the most frequent words are wanted; the paper's 20.
pub const TOP: u32 = 20;
/// If a worker has been silent for this long, its maps are asked elsewhere too.
pub const QUIET: Duration = Duration::from_secs(2);
/// The text of the demonstration and of the figures.
pub const TEXT: Text = Text { seed: 2_013, files: 40, lines: 25, words: 8_000, vocabulary: 200_000 };

impl Scale {
    /// For figures.
    pub const WHOLE: Self = Self { runs: 5, text: TEXT };
    /// To see that it works: no figures.
    pub const SMOKE: Self = Self { runs: 1, text: Text { lines: 4, words: 2_000, vocabulary: 20_000, ..TEXT } };
}

/// A text on disk and workers to count it.
pub struct Stage {
    folder: tempfile::TempDir,
    text: Text,
    fleet: Fleet,
    jobs: u64,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

impl Stage {
    /// Writes the text, and starts workers of this program.
    ///
    /// # Errors
    /// The text cannot be written, or a worker does not get ready.
    pub async fn open(program: &Path, text: Text) -> Result<Self, Failure> {
        let folder = tempfile::Builder::new().prefix("mapreduce-").tempdir()?;
        text::write(&text, folder.path())?;
        let fleet = Fleet::start(program, &[0; WORKERS], None).await?;
        Ok(Self { folder, text, fleet, jobs: 0 })
    }

    /// Counts the text.
    ///
    /// # Errors
    /// The job failed.
    pub async fn run(&mut self, mode: Mode, want: Want, watch: impl FnMut(&Point, &Top)) -> Result<Done, Failure> {
        self.jobs += 1;
        let Text { files, lines, words, .. } = self.text;
        let text: PathBuf = self.folder.path().to_owned();
        let output = text.join(format!("counts-{}", self.jobs));
        std::fs::create_dir(&output)?;
        let job = Job { id: self.jobs, text, maps: files, blocks: lines, words, reduces: REDUCES, mode, want };
        let plan = Plan { job, workers: self.fleet.workers(), quiet: QUIET, output: Some(output.clone()) };
        let done = coordinator::run(self.fleet.client(), &plan, watch).await;
        std::fs::remove_dir_all(&output)?;
        Ok(done?)
    }
}

/// Measures all, and writes `mapreduce.csv` and `mapreduce.json`.
///
/// # Errors
/// A job failed, or the folder cannot be written.
pub async fn measure(program: &Path, folder: &Path, scale: &Scale) -> Result<(), Failure> {
    let mut stage = Stage::open(program, scale.text).await?;
    let (mut csv, mut values) = ("mode,at_s,maps_pct,reduces_pct\n".to_owned(), Values::default());
    for run in 0..=scale.runs {
        eprintln!("mapreduce: run {run} of {}", scale.runs);
        for mode in Mode::ALL {
            let done = stage.run(mode, Want::Counts, |_, _| {}).await?;
            // The first run warms everything up.
            if run > 0 {
                values.add(mode, &done);
            }
            if run == 1 {
                done.points.iter().for_each(|point| row(&mut csv, mode, point));
            }
        }
        let top = stage.run(Mode::Replies, Want::Top(TOP), |_, _| {}).await?;
        if run > 0 {
            values.add_top(&top)?;
        }
    }
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("mapreduce.csv"), csv)?;
    Ok(std::fs::write(folder.join("mapreduce.json"), format!("{:#}\n", values.json()))?)
}

fn row(csv: &mut String, mode: Mode, point: &Point) {
    let Point { at, maps_pct, reduces_pct } = point;
    // Writing to a string does not fail.
    let _ = writeln!(csv, "{},{:.3},{maps_pct:.1},{reduces_pct:.1}", mode.name(), at.as_secs_f64());
}

/// The values of all runs.
#[derive(Default)]
struct Values {
    took_s: [Vec<f64>; 3],
    at_half_pct: [Vec<f64>; 3],
    settled_pct: Vec<f64>,
    top_pct: Vec<f64>,
}

impl Values {
    fn add(&mut self, mode: Mode, done: &Done) {
        let at = Mode::ALL.iter().position(|one| *one == mode).unwrap_or(0);
        self.took_s[at].push(done.took.as_secs_f64());
        self.at_half_pct[at].push(at_half(&done.points));
    }

    /// Adds a top-words run, relative to the whole count just before it, in the same mode.
    fn add_top(&mut self, done: &Done) -> Result<(), Failure> {
        let whole = self.took_s[2].last().ok_or("nothing was counted before")?;
        let proved = done.proved_at.ok_or("the most frequent words were never proved")?;
        self.top_pct.push(100.0 * proved.as_secs_f64() / whole);
        self.settled_pct.push(100.0 * done.settled_at.as_secs_f64() / whole);
        Ok(())
    }

    fn json(&self) -> serde_json::Value {
        let [blocking, push_pull, replies] = &self.at_half_pct;
        let [blocking_s, push_pull_s, replies_s] = &self.took_s;
        json!({
            "values": {
                "mr_top20_pct": self.top_pct,
                "mr_top20_settled_pct": self.settled_pct,
                "mr_reduce_at_half_pct": replies,
                "mr_push_pull_reduce_at_half_pct": push_pull,
                "mr_blocking_reduce_at_half_pct": blocking,
                "mr_s": replies_s,
                "mr_push_pull_s": push_pull_s,
                "mr_blocking_s": blocking_s,
            },
            "paper": { "reduce_at_half_pct": 35.0, "top20_pct": 60.0 },
        })
    }
}

/// How far the reduces were when half of the maps were done, in percent.
#[must_use]
pub fn at_half(points: &[Point]) -> f64 {
    points.iter().find(|point| point.maps_pct >= 50.0).map_or(0.0, |point| point.reduces_pct)
}
