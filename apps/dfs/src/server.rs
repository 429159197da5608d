//! The server: a directory, its four caches, and the answers to clerks that need what is not in them.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use catena::{Exception, Export, Fault, Node, Rights, Service, ServiceError, StartError};
use catena_clerk::{answer, beat_at};
use catena_files::{Directory, FileService, Handle, OpenError, RootParams};
use tokio::task::AbortHandle;

use crate::{
    caches::Caches,
    known::Known,
    limits::{BEAT_EVERY, KNOWN_FILES_MAX, LANES, LEASE, Measures, RECHECK_EVERY, REFUSAL_BYTES_MAX},
    places::{Place, Places},
    protocol::{Hello, Reply, Request, SERVICE, Welcome, decode, encode},
};

/// How a server is to run.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The directory to serve.
    pub root: PathBuf,
    /// Where to listen, such as `127.0.0.1:7600`.
    pub listen: String,
    /// Where clerks reach it, if that is another address; port 0 stands for the port it listens on.
    pub advertise: Option<String>,
    /// The node's name, by which clerks import its tables.
    pub name: String,
    /// The measures of the tables.
    pub measures: Measures,
    /// Whether clerks on the same host may map the tables.
    pub shared_memory: bool,
    /// Files whose path and state it remembers: only these are cached.
    pub known_files_max: usize,
    /// How long to change nothing after the start, so that clerks of the previous run have noticed its end.
    pub grace: Duration,
}

impl ServerConfig {
    /// A server of this directory, at any port of loopback, with production settings: with the grace period that leases demand.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            listen: "127.0.0.1:0".to_owned(),
            advertise: None,
            name: "dfs".to_owned(),
            measures: Measures::default(),
            shared_memory: true,
            known_files_max: KNOWN_FILES_MAX,
            grace: LEASE + Duration::from_millis(500),
        }
    }
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The directory.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The node.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The tables.
    #[error("the tables cannot be exported: {0}")]
    Export(Exception),
}

/// A running file server; it ends when this is dropped.
pub struct Server {
    node: Node,
    shared: Arc<Shared>,
    tasks: [AbortHandle; 2],
}

pub(crate) struct Shared {
    pub(crate) files: Directory,
    pub(crate) caches: Caches,
    pub(crate) known: Mutex<Known>,
    /// Held while names are created or removed, one at a time.
    pub(crate) names: tokio::sync::Mutex<()>,
    /// Held exclusively during moves: handles contain paths, and nobody may look for a file while its path changes.
    pub(crate) paths: tokio::sync::RwLock<()>,
    pub(crate) ready: tokio::time::Instant,
    /// When this run began, in milliseconds: it distinguishes this run from earlier ones.
    run: u64,
    node: Node,
    places: Arc<Places>,
    greeted: AtomicU64,
    asked: AtomicU64,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl Server {
    /// Starts serving.
    ///
    /// # Errors
    /// [`ServeError`]
    pub async fn start(config: ServerConfig) -> Result<Self, ServeError> {
        let files = Directory::open(&config.root)?;
        let builder = Node::builder(config.name).listen(config.listen);
        let builder = match config.advertise {
            Some(address) => builder.advertise(address),
            None => builder,
        };
        let node = if config.shared_memory { builder } else { builder.without_shared_memory() }.start().await?;
        let caches = Caches::export(&node, &config.measures).map_err(ServeError::Export)?;
        let began = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let shared = Arc::new(Shared {
            files,
            caches,
            known: Mutex::new(Known::new(config.known_files_max)),
            names: tokio::sync::Mutex::default(),
            paths: tokio::sync::RwLock::default(),
            ready: tokio::time::Instant::now() + config.grace,
            run: u64::try_from(began.unwrap_or_default().as_millis()).unwrap_or(0),
            node: node.clone(),
            places: Arc::default(),
            greeted: AtomicU64::new(0),
            asked: AtomicU64::new(0),
        });
        node.offer(service(&shared)).map_err(ServeError::Export)?;
        let tasks = [tokio::spawn(beat(Arc::downgrade(&shared))), tokio::spawn(recheck(Arc::downgrade(&shared)))];
        Ok(Self { node, shared, tasks: tasks.map(|task| task.abort_handle()) })
    }

    /// Where clerks reach it.
    #[must_use]
    pub fn address(&self) -> &str {
        self.node.address().unwrap_or_default()
    }

    /// Entries in its caches: data, names, attributes, pages and links.
    #[must_use]
    pub fn cached(&self) -> [usize; 4] {
        self.shared.caches.lens()
    }

    /// Operations for which control went to the server, in any way; READs are not counted.
    #[must_use]
    pub fn asked(&self) -> u64 {
        self.shared.asked.load(Ordering::Relaxed)
    }

    /// Clerks that it serves now.
    #[must_use]
    pub fn clerks(&self) -> usize {
        self.shared.places.taken()
    }

    /// Stops serving: its segments are gone when this returns.
    pub async fn stop(self) {
        self.tasks.iter().for_each(AbortHandle::abort);
        self.node.close(Duration::from_millis(100)).await;
    }
}

async fn beat(shared: Weak<Shared>) {
    while let Some(shared) = shared.upgrade() {
        shared.caches.beat();
        drop(shared);
        tokio::time::sleep(BEAT_EVERY).await;
    }
}

async fn recheck(shared: Weak<Shared>) {
    while let Some(shared) = shared.upgrade() {
        shared.recheck().await;
        drop(shared);
        tokio::time::sleep(RECHECK_EVERY).await;
    }
}

fn service(shared: &Arc<Shared>) -> Service {
    let greeting = Arc::downgrade(shared);
    let performing = Arc::downgrade(shared);
    Service::new(SERVICE)
        .function("hello", move |hello: Hello| {
            let shared = greeting.upgrade();
            async move { Ok(shared.ok_or_else(stopping)?.greet(hello).await?) }
        })
        .function("perform", move |request: Request| {
            let shared = performing.upgrade();
            async move { Ok(perform(&shared.ok_or_else(stopping)?, request).await) }
        })
}

fn stopping() -> ServiceError {
    ServiceError::named("Stopping", "the file server is being stopped; try again when it is back")
}

/// Executes a request. A change is carried out to its end, even if the caller goes away meanwhile.
pub(crate) async fn perform(shared: &Arc<Shared>, request: Request) -> Reply {
    shared.asked.fetch_add(1, Ordering::Relaxed);
    if request.is_repeatable() {
        let _still = shared.paths.read().await;
        return shared.perform(request).await;
    }
    let shared = Arc::clone(shared);
    let changing = tokio::spawn(async move {
        tokio::time::sleep_until(shared.ready).await;
        if matches!(request, Request::Rename(_)) {
            let _alone = shared.paths.write().await;
            shared.perform(request).await
        } else {
            let _still = shared.paths.read().await;
            shared.perform(request).await
        }
    });
    match changing.await {
        Ok(reply) => reply,
        Err(why) => Reply::Refused { status: catena_files::Status::ServerFault.number(), what: why.to_string() },
    }
}

impl Shared {
    pub(crate) fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Executes a request at the paths where its files are known to be, else at those in its handles.
    async fn perform(self: &Arc<Self>, mut request: Request) -> Reply {
        if let Some(moved) = self.moved(&mut request) {
            let reply = self.perform_there(moved).await;
            if !reply.is_stale() {
                return reply;
            }
        }
        self.perform_there(request).await
    }

    async fn perform_there(self: &Arc<Self>, request: Request) -> Reply {
        if request.is_repeatable() { self.read(request).await } else { self.change(request).await }
    }

    /// The same request with handles that have the current paths of their files; `None` if they have them already.
    fn moved(&self, request: &mut Request) -> Option<Request> {
        let known = self.known();
        let elsewhere = |handle: &mut Handle| {
            let now = known.handle_of(&Directory::identity(handle)?)?;
            (now != handle).then(|| now.clone())
        };
        let moves = request.handles().map(|handle| handle.and_then(elsewhere));
        drop(known);
        if moves.iter().all(Option::is_none) {
            return None;
        }
        let mut moved = request.clone();
        for (handle, now) in moved.handles().into_iter().zip(moves) {
            if let (Some(handle), Some(now)) = (handle, now) {
                *handle = now;
            }
        }
        Some(moved)
    }

    /// Makes room for a clerk: lanes that it alone may write, and a task that answers until the clerk is gone.
    async fn greet(self: &Arc<Self>, hello: Hello) -> Result<Welcome, Exception> {
        let place = self.places.take(hello.node())?;
        self.welcome(&hello, place).await
    }

    async fn welcome(self: &Arc<Self>, hello: &Hello, place: Place) -> Result<Welcome, Exception> {
        let answers = self.node.client().import(&hello.answers).await?;
        if answers.bytes() < catena_clerk::answers_bytes(&LANES) || answers.owner().id != hello.node() {
            let text = "the segment for answers is too short, or another node's";
            return Err(Exception::new("BadHello", Fault::Caller, text));
        }
        let name = format!("dfs.requests.{}", self.greeted.fetch_add(1, Ordering::Relaxed));
        let requests = self.node.export(&name, LANES.segment_bytes(), Export::default())?;
        requests.allow(hello.node(), Rights::READ.and(Rights::WRITE)).await?;
        let root = self
            .files
            .root(RootParams {})
            .await
            .map_err(|why| Exception::new(why.name(), Fault::Service, why.message()))?;
        let shared = Arc::downgrade(self);
        tokio::spawn(async move {
            let performing = shared.clone();
            let answering = answer(requests, answers.clone(), LANES, move |request| one(performing.clone(), request));
            // Until the clerk is gone, whichever notices first.
            tokio::select! {
                _ = answering => {}
                _ = answers.watch(beat_at(&LANES), Duration::from_secs(1), Duration::from_secs(10)) => {}
            }
            drop(place);
        });
        Ok(Welcome { requests: format!("{}/{name}", self.node.name()), root, run: self.run })
    }
}

/// One request that came in a lane, encoded, and its encoded reply.
async fn one(shared: Weak<Shared>, request: Vec<u8>) -> Vec<u8> {
    let Some(shared) = shared.upgrade() else { return Vec::new() };
    let reply = match decode(request) {
        Ok(request) => perform(&shared, request).await,
        Err(why) => no_request(why),
    };
    encode(&reply)
}

/// The reply to bytes that are not a request. The error message may repeat those bytes in full: so it is cut.
fn no_request(why: Exception) -> Reply {
    let mut what = why.message;
    what.truncate(what.floor_char_boundary(REFUSAL_BYTES_MAX));
    Reply::Refused { status: catena_files::Status::Inval.number(), what }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
