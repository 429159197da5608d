//! Runs a job: gives its reduces to workers, follows their snapshots, and stops when it has what is wanted.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use catena::{Client, Exception, Fault, RunOptions, exceptions, to_value};
use tokio::{sync::mpsc, task::JoinSet};

use crate::{
    job::{Job, Want},
    reduce::Snapshot,
    reduce_task::{RunReduce, patient},
    top::{Top, top},
    worker::name,
};

/// Snapshots queued for the coordinator.
const WAITING_MAX: usize = 64;
/// How long a worker has to hear that the job is over.
const FORGET_TIMEOUT: Duration = Duration::from_secs(1);

/// How a job is run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The job.
    pub job: Job,
    /// How many workers there are.
    pub workers: u32,
    /// If a worker has been silent for this long, its maps are asked elsewhere too.
    pub quiet: Duration,
    /// A folder for the counts, a file for each partition.
    pub output: Option<PathBuf>,
}

/// How far a job is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// Since it began.
    pub at: Duration,
    /// Blocks mapped, in percent.
    pub maps_pct: f64,
    /// Blocks that the reduce function has counted, in percent over all partitions.
    pub reduces_pct: f64,
}

/// What a job gave.
#[derive(Clone, Debug)]
pub struct Done {
    /// The most frequent words.
    pub top: Top,
    /// How long it took.
    pub took: Duration,
    /// When it was proved which words they are: nothing that was still to come could change that.
    pub proved_at: Option<Duration>,
    /// From when on the snapshots showed the same words as the last one; this is known only in hindsight.
    pub settled_at: Duration,
    /// How far the job was, over time.
    pub points: Vec<Point>,
    /// Parts that came twice, and were counted once.
    pub repeats: u64,
    /// Different words.
    pub words: u64,
}

enum Event {
    Snapshot(Snapshot),
    Reduced(Snapshot),
    Failed { partition: u32, attempt: u32, why: Exception },
    Mapped { worker: usize, blocks: u32 },
}

/// Runs a job; `watch` is told whenever something has changed.
///
/// # Errors
/// A reduce failed at every worker.
pub async fn run(client: &Client, plan: &Plan, mut watch: impl FnMut(&Point, &Top)) -> Result<Done, Exception> {
    let (to, mut events) = mpsc::channel(WAITING_MAX);
    let mut tasks = JoinSet::new();
    for worker in 0..plan.workers {
        tasks.spawn(follow_maps(client.clone(), worker, plan.job.id, to.clone()));
    }
    for partition in 0..plan.job.reduces {
        tasks.spawn(reduce(client.clone(), plan.clone(), partition, 0, to.clone()));
    }
    let mut course = Course::new(plan);
    let ended = loop {
        match events.recv().await {
            Some(Event::Failed { partition, attempt, why }) if attempt + 1 >= plan.workers => {
                break Err(why.calling("reduce", &partition.to_string()));
            }
            Some(Event::Failed { partition, attempt, .. }) => {
                tasks.spawn(reduce(client.clone(), plan.clone(), partition, attempt + 1, to.clone()));
            }
            Some(event) => {
                let over = course.take(event);
                if let Some(point) = course.points.last() {
                    watch(point, &course.top);
                }
                if over {
                    break Ok(());
                }
            }
            None => break Err(Exception::new(exceptions::CANCELLED, Fault::Node, "nobody works at the job any more")),
        }
    };
    // Dropping their reply sets cancels what is still under way, everywhere.
    tasks.shutdown().await;
    let took = course.began.elapsed();
    forget(client, plan).await;
    ended.map(|()| course.done(took))
}

/// What has happened so far.
struct Course {
    began: Instant,
    wanted: Want,
    count: usize,
    blocks: f64,
    snapshots: Vec<Option<Snapshot>>,
    reduced: Vec<bool>,
    mapped: Vec<u32>,
    top: Top,
    proved_at: Option<Duration>,
    settled_at: Duration,
    points: Vec<Point>,
}

impl Course {
    fn new(plan: &Plan) -> Self {
        let reduces = usize::try_from(plan.job.reduces).unwrap_or(0);
        Self {
            began: Instant::now(),
            wanted: plan.job.want,
            count: plan.job.top(),
            blocks: f64::from(plan.job.blocks_in_all().max(1)),
            snapshots: vec![None; reduces],
            reduced: vec![false; reduces],
            mapped: vec![0; usize::try_from(plan.workers).unwrap_or(0)],
            top: Top { words: Vec::new(), proved: false },
            proved_at: None,
            settled_at: Duration::ZERO,
            points: Vec::new(),
        }
    }

    /// Takes in what has happened; returns whether the job has what is wanted.
    fn take(&mut self, event: Event) -> bool {
        let at = self.began.elapsed();
        match event {
            Event::Mapped { worker, blocks } => {
                if let Some(mapped) = self.mapped.get_mut(worker) {
                    *mapped = blocks;
                }
            }
            Event::Snapshot(snapshot) => self.see(at, snapshot),
            Event::Reduced(snapshot) => {
                if let Some(reduced) = usize::try_from(snapshot.partition).ok().and_then(|at| self.reduced.get_mut(at))
                {
                    *reduced = true;
                }
                self.see(at, snapshot);
            }
            Event::Failed { .. } => {}
        }
        self.points.push(self.point(at));
        self.reduced.iter().all(|reduced| *reduced) || (matches!(self.wanted, Want::Top(_)) && self.top.proved)
    }

    fn see(&mut self, at: Duration, snapshot: Snapshot) {
        if let Some(place) = usize::try_from(snapshot.partition).ok().and_then(|at| self.snapshots.get_mut(at)) {
            *place = Some(snapshot);
        }
        let now = top(&self.snapshots, self.count);
        if names(&now) != names(&self.top) {
            self.settled_at = at;
        }
        if now.proved && self.proved_at.is_none() {
            self.proved_at = Some(at);
        }
        self.top = now;
    }

    fn point(&self, at: Duration) -> Point {
        let mapped: u32 = self.mapped.iter().sum();
        let counted: u32 = self.snapshots.iter().flatten().map(|snapshot| snapshot.blocks_done).sum();
        let share = |done: u32, of: f64| (f64::from(done) / of * 100.0).min(100.0);
        let of_all = self.blocks * f64::from(u32::try_from(self.snapshots.len().max(1)).unwrap_or(1));
        Point { at, maps_pct: share(mapped, self.blocks), reduces_pct: share(counted, of_all) }
    }

    fn done(self, took: Duration) -> Done {
        let known = || self.snapshots.iter().flatten();
        let (repeats, words) = (known().map(|one| one.repeats).sum(), known().map(|one| one.words).sum());
        let Self { top, proved_at, settled_at, points, .. } = self;
        Done { top, took, proved_at, settled_at, points, repeats, words }
    }
}

fn names(top: &Top) -> std::collections::BTreeSet<&str> {
    top.words.iter().map(|ranked| ranked.word.as_str()).collect()
}

/// Runs one attempt at a reduce; each attempt is made at another worker.
async fn reduce(client: Client, plan: Plan, partition: u32, attempt: u32, to: mpsc::Sender<Event>) {
    let run = RunReduce {
        job: plan.job.clone(),
        partition,
        workers: plan.workers,
        quiet_ms: u64::try_from(plan.quiet.as_millis()).unwrap_or(u64::MAX),
        output: plan.output.map(|folder| folder.join(format!("part-{partition:05}"))),
    };
    let worker = (partition + attempt) % plan.workers.max(1);
    let event = match follow_reduce(&client, worker, &run, &to).await {
        Ok(last) => Event::Reduced(last),
        Err(why) => Event::Failed { partition, attempt, why },
    };
    // Fails only if the job is over.
    let _ = to.send(event).await;
}

async fn follow_reduce(
    client: &Client,
    worker: u32,
    run: &RunReduce,
    to: &mpsc::Sender<Event>,
) -> Result<Snapshot, Exception> {
    let mut replies = client.replies_with(&format!("{}/reduce", name(worker)), to_value(run)?, &patient())?;
    let mut last: Option<Snapshot> = None;
    while let Some(reply) = replies.next().await {
        let snapshot: Snapshot = reply?.decode()?;
        let _ = to.send(Event::Snapshot(snapshot.clone())).await;
        last = Some(snapshot);
    }
    last.ok_or_else(|| Exception::new(exceptions::PROTOCOL, Fault::Service, "a reduce ended without a snapshot"))
}

async fn follow_maps(client: Client, worker: u32, job: u64, to: mpsc::Sender<Event>) {
    let Ok(params) = to_value(&job) else { return };
    let Ok(mut replies) = client.replies_with(&format!("{}/progress", name(worker)), params, &patient()) else {
        return;
    };
    // A lost worker makes no more progress; its maps are done elsewhere.
    while let Some(Ok(reply)) = replies.next().await {
        let Ok(blocks) = reply.decode() else { return };
        let worker = usize::try_from(worker).unwrap_or(usize::MAX);
        if to.send(Event::Mapped { worker, blocks }).await.is_err() {
            return;
        }
    }
}

/// Tells the workers that the job is over; a worker that cannot be told is lost anyway.
async fn forget(client: &Client, plan: &Plan) {
    let options = &RunOptions { timeout: FORGET_TIMEOUT, ..RunOptions::default() };
    let told = (0..plan.workers).map(|worker| async move {
        if let Ok(job) = to_value(&plan.job.id) {
            let _ = client.call_with(&name(worker), "forget", job, options).await;
        }
    });
    futures_util::future::join_all(told).await;
}
