//! The file service under the load of many clerks: whatever was acknowledged is seen by all of them, over TCP and in shared memory, whoever is killed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::{
    collections::HashMap,
    ops::RangeInclusive,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use catena_dfs::{Clerk, ClerkConfig, Way};
use catena_files::testing::{create, lookup, mkdir, read, write};
use catena_files::{
    CreateParams, FileError, FileService, GetattrParams, Handle, ReaddirParams, RemoveParams, RenameParams, Stable,
};
use common::{Process, RESTARTED, bridge, start, start_clerk, until};

/// Numbers in a file.
const NUMBERS: usize = 2_500;
/// A name comes up in the first, moves to the second, grows there and goes.
const DIRECTORIES: [&str; 2] = ["here", "there"];
const STEPS: u64 = 4;

/// How far the one who changes something is, step by step.
#[derive(Default)]
struct Progress {
    begun: AtomicU64,
    acknowledged: AtomicU64,
}

impl Progress {
    /// The step after the last that was acknowledged, and whether it was begun before: then it may be done already.
    fn begin(&self) -> (u64, bool) {
        let next = self.acknowledged.load(Ordering::Acquire) + 1;
        (next, self.begun.swap(next, Ordering::AcqRel) == next)
    }

    fn acknowledge(&self) {
        self.acknowledged.fetch_add(1, Ordering::AcqRel);
    }

    fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Acquire)
    }

    /// Steps after which somebody may have seen things who began when `acknowledged` was the last, and is ready.
    fn since(&self, acknowledged: u64) -> RangeInclusive<u64> {
        acknowledged..=self.begun.load(Ordering::Acquire)
    }
}

/// What one writer alone changes: a file that is full of one rising number, and a name that comes and goes. What is under way when the writer is killed may be done at
/// any time later: so nobody else goes on with it.
struct Work {
    name: String,
    data: Progress,
    names: Progress,
}

/// The size of the file by that name in a directory after a step; `None`: there is none.
fn size(directory: &str, step: u64) -> Option<u64> {
    match step % STEPS {
        1 if directory == DIRECTORIES[0] => Some(0),
        2 if directory == DIRECTORIES[1] => Some(0),
        3 if directory == DIRECTORIES[1] => Some(step),
        _ => None,
    }
}

/// The size of a file that was there after a step, by its handle and after a later step.
fn size_by_handle(seen: u64, step: u64) -> Option<u64> {
    let same = seen / STEPS == step / STEPS;
    DIRECTORIES.into_iter().filter(|_| same).find_map(|directory| size(directory, step))
}

fn is_none(why: &FileError) -> bool {
    ["NFS3ERR_NOENT", "NFS3ERR_STALE"].contains(&why.name())
}

impl Work {
    async fn new(setup: &Clerk, name: String) -> Arc<Self> {
        let file = create(setup, &format!("data-{name}")).await.handle;
        write(setup, &file, 0, &[0; NUMBERS * 8], Stable::Unstable).await.unwrap();
        Arc::new(Self { name, data: Progress::default(), names: Progress::default() })
    }

    async fn write_next(&self, service: &dyn FileService) -> Result<(), FileError> {
        let (next, _) = self.data.begin();
        let file = lookup(service, &format!("data-{}", self.name)).await?.handle;
        write(service, &file, 0, &next.to_le_bytes().repeat(NUMBERS), Stable::Unstable).await?;
        self.data.acknowledge();
        Ok(())
    }

    async fn name_next(&self, service: &dyn FileService) -> Result<(), FileError> {
        let (next, again) = self.names.begin();
        let [here, there] = DIRECTORIES.map(|directory| format!("{directory}/{}", self.name));
        let done = match next % STEPS {
            1 => service
                .create(CreateParams { path: Some(here), size: Some(0), ..CreateParams::default() })
                .await
                .map(drop),
            2 => {
                let from_dir = Some(lookup(service, DIRECTORIES[0]).await?.handle);
                let to_dir = Some(lookup(service, DIRECTORIES[1]).await?.handle);
                let (from_name, to_name) = (self.name.clone(), self.name.clone());
                service.rename(RenameParams { from_dir, from_name, to_dir, to_name }).await.map(drop)
            }
            3 => {
                let file = lookup(service, &there).await?.handle;
                write(service, &file, next - 1, b"x", Stable::Unstable).await.map(drop)
            }
            _ => service.remove(RemoveParams { path: Some(there), ..RemoveParams::default() }).await.map(drop),
        };
        match done {
            // The answer to the first try was lost.
            Err(why) if again && is_none(&why) => {}
            done => done?,
        }
        self.names.acknowledge();
        Ok(())
    }

    /// Goes on until it is told to stop, or its clerk is gone: `last` says of which errors that is so, and others have to be those of a server that is.
    async fn go_on(&self, service: &dyn FileService, stop: &AtomicBool, last: impl Fn(&FileError) -> bool) {
        while !stop.load(Ordering::Acquire) {
            for done in [self.write_next(service).await, self.name_next(service).await] {
                match done {
                    Ok(()) => {}
                    Err(why) if last(&why) => return,
                    Err(why) => assert!(is_lost(&why) || is_told(&why), "{}: {why}", self.name),
                }
            }
        }
    }

    async fn check_data(&self, reader: &Clerk) {
        let acknowledged = self.data.acknowledged();
        let file = lookup(reader, &format!("data-{}", self.name)).await.unwrap().handle;
        let found = read(reader, &file, 0, (NUMBERS * 8) as u32).await.unwrap().data;
        let allowed = self.data.since(acknowledged);
        assert_eq!(found.len(), NUMBERS * 8);
        for number in found.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)) {
            assert!(allowed.contains(&number), "{}: {number} is not within {allowed:?}", self.name);
        }
    }

    /// By the handle of what this reader last found by the name, and by the name.
    async fn check_name(&self, reader: &mut Reader, directory: &'static str) {
        let before = reader.found.remove(&(self.name.clone(), directory));
        if let Some(before) = before {
            self.check_handle(&reader.clerk, before).await;
        }
        let (acknowledged, sessions) = (self.names.acknowledged(), reader.clerk.counts().sessions);
        let found = match lookup(&reader.clerk, &format!("{directory}/{}", self.name)).await {
            Ok(found) => Some(found),
            Err(why) if is_none(&why) => None,
            Err(why) => panic!("{}: {why}", self.name),
        };
        let (allowed, seen) = (self.names.since(acknowledged), found.as_ref().map(|found| found.attributes.size));
        let steps: Vec<u64> = allowed.clone().filter(|step| size(directory, *step) == seen).collect();
        assert!(!steps.is_empty(), "{directory}/{}: {seen:?} is of none of {allowed:?}", self.name);
        if let Some(handle) = found.map(|found| found.handle) {
            reader.found.insert((self.name.clone(), directory), Found { handle, steps, sessions });
        }
    }

    async fn check_handle(&self, reader: &Clerk, Found { handle, steps, sessions }: Found) {
        let acknowledged = self.names.acknowledged();
        let seen = match reader.getattr(GetattrParams { handle }).await {
            Ok(now) => Some(now.size),
            Err(why) if is_none(&why) => None,
            Err(why) => panic!("{}: {why}", self.name),
        };
        let allowed = self.names.since(acknowledged);
        let is_of = |step: u64| steps.iter().any(|before| step >= *before && size_by_handle(*before, step) == seen);
        // A server that was started anew knows nothing of moves before.
        let anew = seen.is_none() && reader.counts().sessions > sessions;
        assert!(
            anew || allowed.clone().any(is_of),
            "{}: {seen:?} is of none of {allowed:?} after {steps:?}",
            self.name
        );
    }
}

/// What a reader found by a name: after which steps that may have been, and in which session.
struct Found {
    handle: Handle,
    steps: Vec<u64>,
    sessions: u64,
}

struct Reader {
    clerk: Clerk,
    found: HashMap<(String, &'static str), Found>,
}

async fn check_listing(works: &[Arc<Work>], reader: &Clerk, directory: &str) {
    let acknowledged: Vec<u64> = works.iter().map(|work| work.names.acknowledged()).collect();
    let dir = Some(lookup(reader, directory).await.unwrap().handle);
    let page = reader.readdir(ReaddirParams { dir, cookie: None, count: None }).await.unwrap();
    assert!(page.eof);
    for (work, acknowledged) in works.iter().zip(acknowledged) {
        let allowed = work.names.since(acknowledged);
        let listed = page.entries.iter().filter(|entry| entry.name == work.name).count();
        let is_of = |step: u64| usize::from(size(directory, step).is_some()) == listed;
        assert!(allowed.clone().any(is_of), "{directory}/{} is listed {listed} times in {allowed:?}", work.name);
    }
}

/// What a clerk's own client is told when the server, or for an NFS client its clerk, is gone.
fn is_lost(why: &FileError) -> bool {
    matches!(why, FileError::OutcomeUnknown { .. } | FileError::Unreachable { .. })
}

/// What an NFS client is told when its clerk's server is gone.
fn is_told(why: &FileError) -> bool {
    ["NFS3ERR_IO", "NFS3ERR_JUKEBOX"].contains(&why.name())
}

/// Everything that is under way.
struct Load {
    address: String,
    shared_memory: bool,
    setup: Clerk,
    stop: Arc<AtomicBool>,
    works: Arc<Mutex<Vec<Arc<Work>>>>,
    checks: Arc<AtomicU64>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

/// Whatever becomes of the test: a runtime waits for tasks that never wait themselves, as who reads by READs need not.
impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

impl Load {
    async fn clerk(&self, way: Way) -> Clerk {
        let clerk = common::clerk(&self.address, way).await;
        let wanted = if self.shared_memory { catena::Way::SharedMemory } else { catena::Way::Link };
        assert_eq!(clerk.reads_by(), wanted);
        clerk
    }

    async fn work(&self, name: String) -> Arc<Work> {
        let work = Work::new(&self.setup, name).await;
        self.works.lock().unwrap().push(Arc::clone(&work));
        work
    }

    /// A writer in this process, until the end.
    async fn write(&mut self, way: Way) {
        let (work, clerk) = (self.work(format!("{way:?}")).await, self.clerk(way).await);
        let stop = Arc::clone(&self.stop);
        self.tasks.push(tokio::spawn(async move { work.go_on(&clerk, &stop, |_| false).await }));
    }

    /// A writer whose clerk is a process of its own, well under way.
    async fn write_by_a_process(&mut self, name: &str) -> (Process, Arc<Work>) {
        let work = self.work(name.to_owned()).await;
        let (process, port) = start_clerk(&self.address);
        let (client, stop, writes) = (bridge(port).await, Arc::clone(&self.stop), Arc::clone(&work));
        self.tasks.push(tokio::spawn(async move { writes.go_on(&client, &stop, is_lost).await }));
        go_on(&work).await;
        (process, work)
    }

    async fn reader(&self) -> Reader {
        Reader { clerk: self.clerk(Way::Data).await, found: HashMap::new() }
    }

    async fn check(&mut self) {
        let mut reader = self.reader().await;
        let (works, stop, checks) = (Arc::clone(&self.works), Arc::clone(&self.stop), Arc::clone(&self.checks));
        self.tasks.push(tokio::spawn(async move {
            for turn in 0.. {
                let works = works.lock().unwrap().clone();
                check(&works, turn, &mut reader).await;
                checks.fetch_add(1, Ordering::Relaxed);
                if stop.load(Ordering::Acquire) {
                    return;
                }
            }
        }));
    }

    async fn checked(&self, more: u64) {
        let from = self.checks.load(Ordering::Relaxed);
        until("checks go on", async || self.checks.load(Ordering::Relaxed) >= from + more).await;
    }
}

async fn check(works: &[Arc<Work>], turn: usize, reader: &mut Reader) {
    let work = &works[turn % works.len()];
    work.check_data(&reader.clerk).await;
    for directory in DIRECTORIES {
        work.check_name(reader, directory).await;
        check_listing(works, &reader.clerk, directory).await;
    }
}

/// Waits until a writer has done a whole round of names, and more.
async fn go_on(work: &Work) {
    let from = (work.data.acknowledged(), work.names.acknowledged());
    until("a writer goes on", async || {
        work.data.acknowledged() >= from.0 + 3 && work.names.acknowledged() > from.1 + STEPS
    })
    .await;
}

/// Readers by READs must never see what is older than what was acknowledged before they began, nor what was not begun: data, attributes by name and by handle, names and
/// whole directories; while clerks are killed in the midst of their changes, and the server, which comes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn concurrent_clerks_see_what_was_acknowledged_through_crashes_of_clerks_and_server() {
    for shared_memory in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let options = if shared_memory { &[][..] } else { &["--without-shared-memory"] };
        let (server, address) = start(folder.path(), RESTARTED, &[options, &["--no-grace"]].concat());
        let setup = Clerk::connect(ClerkConfig { way: Way::Call, ..ClerkConfig::new(&address) }).await.unwrap();
        for directory in DIRECTORIES {
            mkdir(&setup, directory).await;
        }
        let (stop, works, checks, tasks) = Default::default();
        let mut load = Load { address: address.clone(), shared_memory, setup, stop, works, checks, tasks };
        for way in [Way::Data, Way::Hybrid, Way::Call] {
            load.write(way).await;
        }
        load.check().await;
        load.check().await;
        drop(load.write_by_a_process("first killed").await);
        let (stays, survivor) = load.write_by_a_process("survivor").await;
        load.checked(40).await;
        drop(server);
        let (_server, _) = start(folder.path(), &address, options);
        go_on(&survivor).await;
        drop(stays);
        drop(load.write_by_a_process("last killed").await);
        load.checked(40).await;
        load.stop.store(true, Ordering::Release);
        for task in std::mem::take(&mut load.tasks) {
            task.await.unwrap();
        }
        // When all is quiet it is as it was acknowledged.
        let (mut reader, works) = (load.reader().await, load.works.lock().unwrap().clone());
        for turn in 0..2 * works.len() {
            check(&works, turn, &mut reader).await;
        }
    }
}
