//! A reduce task: asks each map for its partition's parts, counts them as they come, and replies with snapshots.
//!
//! A map whose worker fails is asked elsewhere. So is one whose worker has fallen silent, or has several more to do while another has nothing: if both answer,
//! each block counts once.

use std::{
    collections::{BTreeSet, HashMap},
    io::{BufWriter, Write},
    path::PathBuf,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use catena::{Client, Context, Exception, Reply, RunOptions, ServiceError, from_value, to_value};
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval},
};

use crate::{
    data::{self, Kept, READS_MAX},
    job::{Job, Mode, Want},
    map::Part,
    reduce::{Reducer, Snapshot},
    worker::{AskParts, Worker, function_of, name},
};

/// How many snapshots one reduce sends, at regular steps of its progress.
const SNAPSHOTS: usize = 50;
/// Parts waiting to be counted; beyond this, maps wait.
const WAITING_MAX: usize = 64;
/// How long a map may take until all its parts are there.
const MAP_TIMEOUT: Duration = Duration::from_secs(600);

/// Runs a reduce.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunReduce {
    /// The job.
    pub job: Job,
    /// The partition.
    pub partition: u32,
    /// How many workers there are.
    pub workers: u32,
    /// After so many milliseconds without a word from a worker, its maps are asked elsewhere too.
    pub quiet_ms: u64,
    /// Where the counts of the partition are written, in the order of the words.
    pub output: Option<PathBuf>,
}

/// Something for the reduce.
enum News {
    /// Parts of a map task, as its worker gave them.
    Parts { worker: u32, parts: Vec<Part> },
    /// All parts of a map task.
    Whole { worker: u32, map: u32, parts: Vec<Part> },
    /// A map task failed there.
    Failed { worker: u32, map: u32, why: Exception },
}

/// Runs a reduce task, and replies with snapshots; after the last one its counts are written.
pub(crate) async fn run(worker: &Arc<Worker>, context: Context, run: RunReduce) -> Result<(), ServiceError> {
    let (to, mut news) = mpsc::channel(WAITING_MAX);
    let mut task = Task::new(worker.number(), context.client(), run, to);
    let mut pushed = task.accept_pushes(worker);
    task.ask_all();
    let mut tick = interval(task.quiet());
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !task.reducer.is_complete() {
        let came = tokio::select! {
            came = news.recv() => came,
            Some(parts) = pushed.recv() => Some(News::Parts { worker: task.worker_of(&parts), parts }),
            _ = tick.tick() => {
                task.ask_elsewhere_what_is_quiet();
                continue;
            }
        };
        // The task itself holds a sender, so something always comes.
        let Some(came) = came else { break };
        for part in task.take(came)? {
            if task.reducer.take(part)
                && let Some(snapshot) = task.snapshot()
            {
                context.preturn(&snapshot).await?;
            }
        }
        task.steal();
    }
    let last = task.write().await?;
    Ok(context.preturn(&last).await?)
}

struct Task {
    run: RunReduce,
    here: u32,
    client: Client,
    reducer: Reducer,
    maps: Vec<Map>,
    heard: HashMap<u32, Instant>,
    /// In blocking mode: what has been fetched, held until everything has.
    held: Vec<Part>,
    taken: usize,
    snapshot_at: usize,
    feeds: JoinSet<()>,
    to: mpsc::Sender<News>,
}

/// Where a map task was asked for.
#[derive(Clone, Debug, Default)]
struct Map {
    asked: BTreeSet<u32>,
    failed: BTreeSet<u32>,
    done: bool,
}

impl Task {
    fn new(here: u32, client: Client, run: RunReduce, to: mpsc::Sender<News>) -> Self {
        let maps = (0..run.job.maps).map(|_| Map::default()).collect();
        let reducer = Reducer::new(&run.job);
        let (heard, held, feeds) = (HashMap::new(), Vec::new(), JoinSet::new());
        Self { run, here, client, reducer, maps, heard, held, taken: 0, snapshot_at: 0, feeds, to }
    }

    fn quiet(&self) -> Duration {
        Duration::from_millis(self.run.quiet_ms.max(1))
    }

    /// The channel for pushed parts; it stays empty where nothing is pushed.
    fn accept_pushes(&self, worker: &Worker) -> mpsc::Receiver<Vec<Part>> {
        let (to, pushed) = mpsc::channel(WAITING_MAX);
        if self.run.job.mode == Mode::PushPull {
            worker.inbox.open(self.run.job.id, self.run.partition, to);
        }
        pushed
    }

    /// The worker that pushed: the last one asked for this map, as far as is known.
    fn worker_of(&self, pushed: &[Part]) -> u32 {
        let map = pushed.first().and_then(|part| self.maps.get(usize::try_from(part.map).ok()?));
        map.and_then(|map| map.asked.last().copied()).unwrap_or(self.here)
    }

    fn ask_all(&mut self) {
        for map in 0..self.run.job.maps {
            self.ask(map, map % self.run.workers.max(1));
        }
    }

    fn ask(&mut self, map: u32, worker: u32) {
        let Some(state) = usize::try_from(map).ok().and_then(|map| self.maps.get_mut(map)) else { return };
        state.asked.insert(worker);
        self.heard.entry(worker).or_insert_with(Instant::now);
        let ask = AskParts { job: self.run.job.clone(), map, partition: self.run.partition, reduce_at: self.here };
        self.feeds.spawn(feed(self.client.clone(), worker, ask, self.to.clone()));
    }

    /// The next worker that was not asked for a map yet.
    fn other(&self, map: u32) -> Option<u32> {
        let asked = &self.maps.get(usize::try_from(map).ok()?)?.asked;
        (1..self.run.workers).map(|step| (map + step) % self.run.workers).find(|worker| !asked.contains(worker))
    }

    /// Takes news in; returns the parts that may be counted now.
    fn take(&mut self, news: News) -> Result<Vec<Part>, Exception> {
        match news {
            News::Parts { worker, parts } => {
                self.heard.insert(worker, Instant::now());
                Ok(parts)
            }
            News::Whole { worker, map, parts } => {
                self.heard.insert(worker, Instant::now());
                if let Some(state) = usize::try_from(map).ok().and_then(|map| self.maps.get_mut(map)) {
                    state.done = true;
                }
                self.held.extend(parts);
                let all = self.maps.iter().all(|map| map.done);
                Ok(if all { std::mem::take(&mut self.held) } else { Vec::new() })
            }
            News::Failed { worker, map, why } => self.failed(worker, map, why).map(|()| Vec::new()),
        }
    }

    fn failed(&mut self, worker: u32, map: u32, why: Exception) -> Result<(), Exception> {
        let Some(state) = usize::try_from(map).ok().and_then(|map| self.maps.get_mut(map)) else { return Ok(()) };
        state.failed.insert(worker);
        let hopeless = state.failed.len() == usize::try_from(self.run.workers).unwrap_or(0);
        match self.other(map) {
            Some(other) => self.ask(map, other),
            None if hopeless => return Err(why),
            None => {}
        }
        Ok(())
    }

    /// The maps that a worker has still to deliver.
    fn awaited(&self, worker: u32) -> Vec<u32> {
        let of = |(map, state): (u32, &Map)| (!state.done && state.asked.contains(&worker)).then_some(map);
        (0..).zip(&self.maps).filter_map(of).collect()
    }

    /// Maps of a worker that has been silent for long are asked elsewhere too.
    fn ask_elsewhere_what_is_quiet(&mut self) {
        self.see_what_is_done();
        let quiet: Vec<_> =
            self.heard.iter().filter(|(_, heard)| heard.elapsed() > self.quiet()).map(|(worker, _)| *worker).collect();
        for worker in quiet {
            for map in self.awaited(worker) {
                let elsewhere = self.maps.get(usize::try_from(map).unwrap_or(0)).is_some_and(|map| map.asked.len() > 1);
                if let (false, Some(other)) = (elsewhere, self.other(map)) {
                    self.ask(map, other);
                }
            }
        }
    }

    /// A worker that has delivered everything takes a map over from the one with most left: its last, which has hardly begun.
    fn steal(&mut self) {
        self.see_what_is_done();
        let awaited: Vec<_> = (0..self.run.workers).map(|worker| self.awaited(worker)).collect();
        let idle: Vec<_> = (0..).zip(&awaited).filter(|(_, maps)| maps.is_empty()).map(|(worker, _)| worker).collect();
        for worker in idle {
            let most = awaited.iter().filter(|maps| maps.len() > 1).max_by_key(|maps| maps.len());
            let last = most.and_then(|maps| maps.iter().rev().find(|map| self.asked_once(**map)));
            if let Some(map) = last.copied() {
                self.ask(map, worker);
            }
        }
    }

    fn asked_once(&self, map: u32) -> bool {
        usize::try_from(map).ok().and_then(|map| self.maps.get(map)).is_some_and(|map| map.asked.len() == 1)
    }

    fn see_what_is_done(&mut self) {
        for (map, state) in (0..).zip(&mut self.maps) {
            state.done = state.done || self.reducer.has_map(map);
        }
    }

    /// A snapshot, if it is time for one: in steps, when the last block is heard of, and at the end.
    fn snapshot(&mut self) -> Option<Snapshot> {
        let blocks = usize::try_from(self.run.job.blocks_in_all()).unwrap_or(usize::MAX);
        self.taken += 1;
        let due = self.taken >= self.snapshot_at || self.taken == blocks;
        if !due || self.reducer.is_complete() {
            return None;
        }
        self.snapshot_at = self.taken + blocks.div_ceil(SNAPSHOTS);
        Some(self.reducer.snapshot(self.run.partition, self.run.job.top()))
    }

    /// Sorts and writes the counts, if they are wanted; gives the last snapshot.
    async fn write(self) -> Result<Snapshot, ServiceError> {
        let Self { run, reducer, .. } = self;
        let written = tokio::task::spawn_blocking(move || {
            if let (Some(path), Want::Counts) = (&run.output, run.job.want) {
                let failed =
                    |why: std::io::Error| ServiceError::named("NotWritten", format!("{}: {why}", path.display()));
                let mut out = BufWriter::new(std::fs::File::create(path).map_err(failed)?);
                reducer
                    .sorted()
                    .iter()
                    .try_for_each(|(word, count)| writeln!(out, "{word}\t{count}"))
                    .map_err(failed)?;
                out.flush().map_err(failed)?;
            }
            Ok(reducer.snapshot(run.partition, run.job.top()))
        });
        written.await.map_err(|why| ServiceError::named("NotWritten", why.to_string()))?
    }
}

/// Fetches what one worker has of a map task.
async fn feed(client: Client, worker: u32, ask: AskParts, to: mpsc::Sender<News>) {
    let map = ask.map;
    let fed = match ask.job.mode {
        Mode::Replies => by_replies(&client, worker, &ask, &to).await,
        Mode::PushPull => by_call(&client, worker, &ask).await.map(|parts| Some(News::Parts { worker, parts })),
        Mode::Blocking => by_call(&client, worker, &ask).await.map(|parts| Some(News::Whole { worker, map, parts })),
    };
    let last = fed.unwrap_or_else(|why| Some(News::Failed { worker, map, why }));
    if let Some(last) = last {
        // Fails only if the reduce is over.
        let _ = to.send(last).await;
    }
}

async fn by_replies(
    client: &Client,
    worker: u32,
    ask: &AskParts,
    to: &mpsc::Sender<News>,
) -> Result<Option<News>, Exception> {
    let target = format!("{}/{}", name(worker), function_of(ask.job.mode));
    let replies = client.replies_with(&target, to_value(ask)?, &patient())?;
    let fetch = async |reply: Result<Reply, Exception>| reply?.decode::<Kept>()?.fetch(client).await;
    let mut parts = pin!(replies.map(fetch).buffered(READS_MAX));
    while let Some(part) = parts.next().await {
        if to.send(News::Parts { worker, parts: vec![part?] }).await.is_err() {
            break;
        }
    }
    Ok(None)
}

async fn by_call(client: &Client, worker: u32, ask: &AskParts) -> Result<Vec<Part>, Exception> {
    let kept = client.call_with(&name(worker), function_of(ask.job.mode), to_value(ask)?, &patient()).await?;
    data::fetch_all(client, from_value(&kept)?).await
}

/// A map may take long.
pub(crate) fn patient() -> RunOptions {
    RunOptions { timeout: MAP_TIMEOUT, ..RunOptions::default() }
}
