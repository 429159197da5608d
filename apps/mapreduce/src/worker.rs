//! A worker: it runs map tasks, as many at once as it has slots, and reduce tasks (Quatrain section 4.3).
//!
//! A map task begins when it is first asked for its parts. What it has made is kept, so each reduce gets all of it whenever it asks: from the
//! store what is there, and from then on what is made.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use catena::{Client, Context, Exception, Service, ServiceError};
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, watch};

use crate::{
    data::{self, Kept},
    job::{Job, Mode, Want},
    map,
    pull::{self, Inbox},
    reduce_task::{self, RunReduce},
    store::Made,
};

/// How far a map lowers its priority, in units of `nice`.
const MAP_NICENESS: i32 = 10;
/// Bytes of one block: a line of the text.
const BLOCK_BYTES_MAX: u64 = 64 << 20;

/// Which part of which map task is wanted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AskParts {
    /// The job.
    pub job: Job,
    /// The map task.
    pub map: u32,
    /// The partition.
    pub partition: u32,
    /// The worker on which the reduce runs, to which parts may be pushed.
    pub reduce_at: u32,
}

/// How a worker works.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Its number: its service is named after it.
    pub number: u32,
    /// Map tasks that it runs at once.
    pub slots: usize,
    /// Milliseconds by which each block is slowed down: simulates a slow machine.
    pub slow_ms: u64,
}

/// The name of a worker's service.
#[must_use]
pub fn name(worker: u32) -> String {
    format!("mapreduce.{worker}")
}

/// A worker, and what it has made.
pub struct Worker {
    settings: Settings,
    slots: Arc<Semaphore>,
    made: Mutex<HashMap<(u64, u32), Arc<Made>>>,
    /// Blocks mapped of each job, and map tasks that still have blocks to map.
    work: watch::Sender<HashMap<u64, Work>>,
    pub(crate) inbox: Inbox,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Work {
    blocks_mapped: u32,
    maps_at_work: u32,
    over: bool,
}

/// A map goes through its blocks once, and once more if tails are wanted after heads: counting again is cheaper than keeping what is mostly unwanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    First,
    Tails,
}

/// A worker's service.
#[must_use]
pub fn service(settings: Settings) -> Service {
    let worker = Arc::new(Worker {
        settings,
        slots: Arc::new(Semaphore::new(settings.slots.max(1))),
        made: Mutex::default(),
        work: watch::Sender::default(),
        inbox: Inbox::default(),
    });
    let of = || Arc::clone(&worker);
    let (parts, whole, push_to, push, reduce, progress, forget) = (of(), of(), of(), of(), of(), of(), of());
    Service::new(name(settings.number))
        .replies("parts", move |context: Context, ask: AskParts| {
            let worker = Arc::clone(&parts);
            async move { worker.parts(context, ask).await }
        })
        .function_in("whole", move |context: Context, ask: AskParts| {
            let worker = Arc::clone(&whole);
            async move { worker.whole(&context.client(), ask).await }
        })
        .function_in("push_to", move |context: Context, ask: AskParts| {
            let worker = Arc::clone(&push_to);
            async move { worker.push_to(&context.client(), ask) }
        })
        .function_in("push", move |context: Context, pushed: pull::Pushed| {
            let worker = Arc::clone(&push);
            async move { Ok(worker.push(&context.client(), pushed).await?) }
        })
        .replies("reduce", move |context: Context, run: RunReduce| {
            let worker = Arc::clone(&reduce);
            async move { reduce_task::run(&worker, context, run).await }
        })
        .replies("progress", move |context: Context, job: u64| {
            let worker = Arc::clone(&progress);
            async move { worker.progress(context, job).await }
        })
        .function("forget", move |job: u64| {
            let worker = Arc::clone(&forget);
            async move {
                worker.forget(job);
                Ok(())
            }
        })
}

impl Worker {
    /// Its number.
    pub(crate) const fn number(&self) -> u32 {
        self.settings.number
    }

    /// What a map task has made so far. The first request starts the task.
    fn made(self: &Arc<Self>, client: &Client, job: &Job, map: u32) -> Arc<Made> {
        let mut all = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = all.get(&(job.id, map)) {
            return Arc::clone(made);
        }
        let made = Arc::new(Made::new(job.reduces));
        all.insert((job.id, map), Arc::clone(&made));
        self.at_work(job.id, |work| work.maps_at_work += 1);
        tokio::spawn(Arc::clone(self).run_map(client.clone(), job.clone(), map, Arc::clone(&made)));
        made
    }

    async fn run_map(self: Arc<Self>, client: Client, job: Job, map: u32, made: Arc<Made>) {
        let mut ended = self.pass(&client, &job, map, &made, Pass::First).await;
        self.at_work(job.id, |work| work.maps_at_work -= 1);
        if let (Ok(()), Want::Top(_)) = (&ended, job.want) {
            // Tails wait until no head is outstanding, since heads may already decide the result; mostly the job is over by then.
            let mut work = self.work.subscribe();
            let _ = work.wait_for(|all| all.get(&job.id).is_none_or(|work| work.maps_at_work == 0 || work.over)).await;
            ended = self.pass(&client, &job, map, &made, Pass::Tails).await;
        }
        made.end(ended);
    }

    /// Goes through the blocks of a map, on a thread of its own, when there is a slot.
    async fn pass(
        self: &Arc<Self>,
        client: &Client,
        job: &Job,
        map: u32,
        made: &Arc<Made>,
        pass: Pass,
    ) -> Result<(), String> {
        let slot = Arc::clone(&self.slots).acquire_owned().await.map_err(|closed| closed.to_string())?;
        let (worker, client, job, made) = (Arc::clone(self), client.clone(), job.clone(), Arc::clone(made));
        let mapped = tokio::task::spawn_blocking(move || {
            let _slot = slot;
            Self::give_way();
            worker.map_blocks(&client, &job, map, &made, pass)
        });
        mapped.await.unwrap_or_else(|why| Err(why.to_string()))
    }

    /// Lowers the priority below that of the reduces, where cores are few: mapped blocks should be reduced before more are mapped.
    fn give_way() {
        // Of this thread alone, on Linux. If this fails, the result is the same, and the reduces are only further behind.
        let _ = rustix::process::setpriority_process(None, MAP_NICENESS);
    }

    fn map_blocks(&self, client: &Client, job: &Job, map: u32, made: &Made, pass: Pass) -> Result<(), String> {
        let path = job.text.join(map.to_string());
        let failed = |why: std::io::Error| format!("{}: {why}", path.display());
        let mut text = BufReader::new(std::fs::File::open(&path).map_err(failed)?);
        let mut line = String::new();
        for block in 0..job.blocks {
            line.clear();
            std::io::Read::take(&mut text, BLOCK_BYTES_MAX).read_line(&mut line).map_err(failed)?;
            if made.is_dropped() {
                return Err("the job is over".into());
            }
            self.be_slow();
            let counted = map::count(&line, job.reduces);
            let parts = match (pass, job.want) {
                (Pass::Tails, _) => counted.tails(map, block),
                (Pass::First, Want::Top(_)) => counted.heads(map, block),
                (Pass::First, Want::Counts) => counted.whole(map, block),
            };
            made.add(data::keep(client, &parts).map_err(|why| why.to_string())?);
            if pass == Pass::First {
                self.at_work(job.id, |work| work.blocks_mapped += 1);
            }
        }
        Ok(())
    }

    #[allow(clippy::disallowed_methods, reason = "on a thread for blocking work: a slow machine is what it plays")]
    fn be_slow(&self) {
        if self.settings.slow_ms > 0 {
            std::thread::sleep(Duration::from_millis(self.settings.slow_ms));
        }
    }

    fn at_work(&self, job: u64, change: impl FnOnce(&mut Work)) {
        self.work.send_modify(|all| change(all.entry(job).or_default()));
    }

    /// All parts for one partition, each as soon as it is there.
    async fn parts(self: &Arc<Self>, context: Context, ask: AskParts) -> Result<(), ServiceError> {
        let made = self.made(&context.client(), &ask.job, ask.map);
        let (mut stage, mut from) = (made.follow(), 0);
        loop {
            let ended = stage.borrow_and_update().ended.clone();
            for part in made.parts(ask.partition, from) {
                context.preturn(&part).await?;
                from += 1;
            }
            match ended {
                Some(Ok(())) => return Ok(()),
                Some(Err(why)) => return Err(map_failed(&ask, &why)),
                None => stage.changed().await.map_err(|_| map_failed(&ask, "it was dropped"))?,
            }
        }
    }

    /// All parts for one partition, when the task is done.
    async fn whole(self: &Arc<Self>, client: &Client, ask: AskParts) -> Result<Vec<Kept>, ServiceError> {
        let made = self.made(client, &ask.job, ask.map);
        let mut stage = made.follow();
        let ended = stage.wait_for(|stage| stage.ended.is_some()).await.map(|stage| stage.ended.clone());
        match ended {
            Ok(Some(Ok(()))) => Ok(made.parts(ask.partition, 0)),
            Ok(Some(Err(why))) => Err(map_failed(&ask, &why)),
            Ok(None) | Err(_) => Err(map_failed(&ask, "it was dropped")),
        }
    }

    /// Returns what is there, and pushes what is made from then on.
    fn push_to(self: &Arc<Self>, client: &Client, ask: AskParts) -> Result<Vec<Kept>, ServiceError> {
        let made = self.made(client, &ask.job, ask.map);
        let kept = made.parts(ask.partition, 0);
        let from = kept.len();
        tokio::spawn(pull::push_on(client.clone(), made, ask, from));
        Ok(kept)
    }

    /// Takes in what was pushed to a reduce here.
    async fn push(&self, client: &Client, pushed: pull::Pushed) -> Result<(), Exception> {
        let parts = data::fetch_all(client, pushed.parts).await?;
        self.inbox.push(pushed.job, pushed.partition, parts).await
    }

    /// The blocks that have been mapped here, whenever that changes, until the job is over.
    async fn progress(&self, context: Context, job: u64) -> Result<(), ServiceError> {
        let mut work = self.work.subscribe();
        let mut told = None;
        loop {
            let now = work.borrow_and_update().get(&job).copied();
            // A job that was known and is not any more is over, too.
            let over = now.map_or(told.is_some(), |work| work.over);
            let now = now.unwrap_or_default();
            if told != Some(now.blocks_mapped) {
                context.preturn(&now.blocks_mapped).await?;
                told = Some(now.blocks_mapped);
            }
            if over || work.changed().await.is_err() {
                return Ok(());
            }
        }
    }

    /// The job is over: what was made for it may go.
    fn forget(&self, job: u64) {
        let mut all = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(of, _), made| {
            let keep = *of != job;
            if !keep {
                made.drop_it();
            }
            keep
        });
        drop(all);
        self.inbox.close(job);
        self.work.send_modify(|all| {
            all.retain(|id, work| *id == job || !work.over);
            all.entry(job).or_default().over = true;
        });
    }
}

fn map_failed(ask: &AskParts, why: &str) -> ServiceError {
    ServiceError::named("MapFailed", format!("map task {}: {why}", ask.map))
}

/// Which modes ask which function.
pub(crate) const fn function_of(mode: Mode) -> &'static str {
    match mode {
        Mode::Blocking => "whole",
        Mode::PushPull => "push_to",
        Mode::Replies => "parts",
    }
}
