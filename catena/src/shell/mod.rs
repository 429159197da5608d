//! The shell around the state machines: puts sockets, clock, guests and services together.
//!
//! A message is handled in the link's reader task: it is decoded, given to the machines, and their actions are done; only what has to wait becomes a task of
//! its own. So a hop through a quick service costs no task switch.

mod dials;
mod guests;
mod handler;
mod in_turn;
mod mesh;
mod mesh_names;
mod offered;
mod offering;
mod peers;
mod perform;
mod questions;
mod registry;
mod relief;
mod resolving;
mod rights;
mod sending;
mod sessions;
mod timer;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, atomic::AtomicBool},
    time::Duration,
};

use catena_core::{CallId, LookupId, Node as Core, Replied, Ticket, Time, messages::MessagePolicy};
use catena_directory::{Registry, Resolver};
use catena_guest::Sandbox;
use catena_net::{Endpoint, Lease, MemoryBudget, Topology};
use catena_wire::{ChainId, Exception, Fault, NodeId, NodeRef, ResolverAnswer, ServiceEntry, StepKey, Value, names};
use futures_util::future::BoxFuture;
use tokio::{
    runtime::Handle,
    sync::{Notify, OnceCell, Semaphore, oneshot},
    task::AbortHandle,
};

use crate::{
    Names, Service,
    admission::Room,
    blobs::{Blobs, Tally},
    clock::Clock,
    durable::StepStore,
    incoming::{Incoming, Sender, incoming},
    messages::Post,
    replying::{Bursts, Teller},
    segments::Hub,
    store::Store,
};
use dials::Dials;
use mesh_names::MeshResolver;
use offering::Offering;
use peers::Peers;
use questions::Questions;
use relief::Relief;
use sessions::Sessions;
use timer::Alarm;

pub(crate) use handler::LinkEvents;
pub(crate) use mesh::dial_pause;

/// How long resolvers may take at shutdown to note that this node's services are gone.
const WITHDRAWING_MAX: Duration = Duration::from_secs(2);

/// Receives a sub-chain's intermediate answers.
pub(crate) type Listener = Arc<dyn Fn(Value) + Send + Sync>;

/// Makes the sandbox: called once, when it is first needed.
pub(crate) type MakeSandbox = Box<dyn Fn() -> Result<Sandbox, Exception> + Send + Sync>;

pub(crate) struct Shell {
    core: Mutex<Core>,
    /// The memory that the machines may take; `kept`: what they hold now.
    memory: MemoryBudget,
    kept: Mutex<Lease>,
    /// Held by the thread that does what the core says.
    driving: Mutex<()>,
    /// A driving task has been spawned, and has not begun.
    wake_requested: AtomicBool,
    /// Wakes a worker when a service or guest blocks the one that waits for sockets.
    relief: Relief,
    runtime: Handle,
    pub(crate) me: NodeRef,
    endpoint: OnceLock<Endpoint>,
    sandbox: OnceCell<Sandbox>,
    pub(crate) store: Store,
    sessions: Sessions,
    /// Service functions that are running.
    running: Mutex<HashMap<Ticket, UnderWay>>,
    replies: Mutex<HashMap<ChainId, Sender>>,
    calls: Mutex<HashMap<CallId, oneshot::Sender<Result<Value, Exception>>>>,
    /// The rights to reply that service functions here hold.
    rights: Mutex<HashMap<StepKey, Arc<Notify>>>,
    bursts: Bursts,
    /// For the sub-chains with which services of this node have answered.
    listeners: Mutex<HashMap<StepKey, Listener>>,
    listings: Questions<Vec<ServiceEntry>>,
    /// Numbers of the listings that each peer has asked for and that are being made.
    listings_asked: Mutex<HashMap<NodeId, Vec<u64>>>,
    questions: Questions<Vec<ResolverAnswer>>,
    offering: Offering,
    resolvers: OnceLock<Vec<Arc<dyn Resolver>>>,
    lookups: Semaphore,
    /// For questions of other nodes.
    answering: Room,
    /// The tasks that look names up.
    resolving: Mutex<HashMap<LookupId, AbortHandle>>,
    /// Reports that rights to reply have ended.
    pub(crate) ends: Teller,
    pub(crate) peers: Peers,
    dials: Dials,
    pub(crate) segments: Arc<Hub>,
    pub(crate) blobs: Blobs,
    pub(crate) post: Post,
    alarm: Arc<Alarm>,
    name: Arc<str>,
    site: Option<Arc<str>>,
    settings: Settings,
}

/// Drops what is the service's code: if that panics, the thread that drives the machines must go on.
fn let_go<T>(of_service: T) {
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(of_service))).is_err() {
        tracing::warn!("what a service left behind panicked when it was dropped");
    }
}

/// A service function that is running.
#[derive(Default)]
struct UnderWay {
    /// `None` while it is polled for the first time.
    task: Option<AbortHandle>,
    /// Counts what it reads of blobs, if it was given any.
    read: Option<Arc<Tally>>,
    /// It answers this step with a sub-chain, to which its service listens.
    listens: Option<(StepKey, Listener)>,
}

/// The settings of a node.
pub(crate) struct Settings {
    pub(crate) clock: Clock,
    /// When the clock began, in microseconds since the Unix epoch.
    pub(crate) began_at_us: u64,
    pub(crate) repository: bool,
    pub(crate) make_sandbox: MakeSandbox,
    pub(crate) code_ride_bytes_max: usize,
    pub(crate) topology: Option<Arc<Topology>>,
    /// The address of the chaining proxy at which chains that call this node run.
    pub(crate) proxy: Option<String>,
    /// Links only with the nodes that it joins, not with others of their mesh.
    pub(crate) entry_only: bool,
    /// From one try to link with a place to the next.
    pub(crate) dial_pause: Duration,
    pub(crate) untold_dials_max: usize,
    /// The step store for durable functions, if the node has one.
    pub(crate) steps: Option<StepStore>,
    /// The memory reserved for the functions that are kept.
    #[allow(dead_code, reason = "it is held for as long as the node is there")]
    pub(crate) set_aside: Option<Lease>,
    pub(crate) segments: Arc<Hub>,
    pub(crate) messages: MessagePolicy,
    /// The registry, which keeps functions beyond the life of every node.
    pub(crate) registry: Option<Arc<dyn Registry>>,
}

impl Shell {
    /// Must be called within a tokio runtime.
    pub(crate) fn new(
        core: Core,
        services: HashMap<String, Service>,
        (store, blobs): (Store, Blobs),
        settings: Settings,
        memory: MemoryBudget,
    ) -> Arc<Self> {
        let me = (**core.me()).clone();
        let kept = memory.none();
        let shell = Arc::new(Self {
            runtime: Handle::current(),
            name: me.name.as_str().into(),
            site: me.site.as_deref().map(Into::into),
            me,
            core: Mutex::new(core),
            memory,
            kept: Mutex::new(kept),
            driving: Mutex::default(),
            wake_requested: AtomicBool::default(),
            relief: Relief::default(),
            endpoint: OnceLock::new(),
            sandbox: OnceCell::new(),
            store,
            sessions: Sessions::default(),
            running: Mutex::default(),
            replies: Mutex::default(),
            calls: Mutex::default(),
            rights: Mutex::default(),
            bursts: Bursts::new(),
            listeners: Mutex::default(),
            listings: Questions::default(),
            listings_asked: Mutex::default(),
            questions: Questions::default(),
            offering: Offering::new(services),
            resolvers: OnceLock::new(),
            lookups: Semaphore::new(resolving::LOOKUPS_AT_ONCE_MAX),
            answering: Room::new(resolving::ANSWERED_AT_ONCE_MAX),
            resolving: Mutex::default(),
            ends: Teller::new(Handle::current()),
            peers: Peers::default(),
            dials: Dials::new(settings.untold_dials_max),
            segments: Arc::clone(&settings.segments),
            blobs,
            post: Post::new(settings.messages.clone()),
            alarm: Arc::default(),
            settings,
        });
        timer::start(&shell);
        shell
    }

    /// Sets the endpoint. Its links need the shell, so the shell is made first.
    pub(crate) fn connect(&self, endpoint: Endpoint) {
        let _ = self.endpoint.set(endpoint);
    }

    /// Sets the ways in which services are found, in this order, and tells them what is served here.
    pub(crate) fn find_by(self: &Arc<Self>, names: Vec<Names>) {
        let resolvers = names.into_iter().map(|names| match names {
            Names::Mesh => Arc::new(MeshResolver::new(Arc::downgrade(self))) as Arc<dyn Resolver>,
            Names::By(resolver) => resolver,
        });
        self.begin_resolving(resolvers.collect());
        self.begin_announcing();
    }

    /// Withdraws its services, sends what is queued, and closes the links within `grace`.
    pub(crate) fn close<'a>(self: &'a Arc<Self>, grace: Duration) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let _ = tokio::time::timeout(grace.min(WITHDRAWING_MAX), self.announce(Vec::new())).await;
            if let Some(endpoint) = self.endpoint() {
                endpoint.close(grace).await;
            }
        })
    }

    /// Whether links are shaped, so that nodes on this host count as if they were elsewhere.
    pub(crate) const fn plays_far(&self) -> bool {
        self.settings.topology.is_some()
    }

    pub(crate) fn endpoint(&self) -> Option<&Endpoint> {
        self.endpoint.get()
    }

    /// The machines. They refuse what there is no memory for.
    pub(crate) fn core(&self) -> MutexGuard<'_, Core> {
        let mut core = lock(&self.core);
        core.set_memory_left(usize::try_from(self.memory.left()).unwrap_or(usize::MAX));
        core
    }

    /// Passes something that a peer has sent to the machines.
    fn take_in<R>(&self, happen: impl FnOnce(&mut Core, Time) -> R) -> R {
        let now = self.now();
        let mut core = self.core();
        let result = happen(&mut core, now);
        self.note_kept(&core);
        result
    }

    /// Charges to the node's memory what the machines now hold.
    fn note_kept(&self, core: &Core) {
        lock(&self.kept).record(core.held_bytes() as u64);
    }

    pub(crate) fn now(&self) -> Time {
        self.settings.clock.now()
    }

    /// The time of day by this node's clock.
    pub(crate) fn unix_us(&self) -> u64 {
        self.settings.began_at_us.saturating_add(self.now().as_us())
    }

    /// The sandbox, made when first needed: its engine takes some milliseconds to load, and a plain call does not need it.
    pub(crate) async fn sandbox(self: &Arc<Self>) -> Result<&Sandbox, Exception> {
        if let Some(sandbox) = self.sandbox.get() {
            return Ok(sandbox);
        }
        let make = || async {
            let shell = Arc::clone(self);
            let made = tokio::task::spawn_blocking(move || (shell.settings.make_sandbox)()).await;
            made.unwrap_or_else(|_| Err(Exception::new(names::BAD_CODE, Fault::Node, "the sandbox cannot be made")))
        };
        // Boxed, so that the future of each turn does not reserve memory for it.
        Box::pin(self.sandbox.get_or_try_init(make)).await
    }

    /// Begins a chain; the receiver gets its answers.
    pub(crate) fn run(
        self: &Arc<Self>,
        begin: impl FnOnce(&mut Core, Time) -> Result<ChainId, Exception>,
    ) -> Result<(ChainId, Incoming), Exception> {
        let (sender, receiver) = incoming(&self.memory);
        let chain = {
            let mut core = self.core();
            let chain = begin(&mut core, self.now())?;
            // Before the lock is released, since an answer must find its reply set.
            lock(&self.replies).insert(chain, sender);
            chain
        };
        self.drive();
        Ok((chain, receiver))
    }

    pub(crate) fn forget(self: &Arc<Self>, chain: ChainId) {
        lock(&self.replies).remove(&chain);
        let now = self.now();
        self.core().forget(now, chain);
        self.drive();
    }

    /// Stops a chain wherever it is; its reply set ends as `Cancelled`.
    pub(crate) fn cancel(self: &Arc<Self>, chain: ChainId) {
        let now = self.now();
        self.core().cancel(now, chain);
        self.drive();
    }

    /// A service function answers this step with a sub-chain, whose intermediate answers this listener is to hear.
    pub(crate) fn listen(&self, ticket: Ticket, step: StepKey, listener: Listener) {
        if let Some(running) = lock(&self.running).get_mut(&ticket) {
            running.listens = Some((step, listener));
        }
    }

    /// The sub-chain has ended, and all of its answers have been delivered.
    fn stop_listening(&self, step: &StepKey) {
        // Dropped without the lock: what it holds is the service's.
        let ended = lock(&self.listeners).remove(step);
        let_go(ended);
    }

    fn hear(&self, step: &StepKey, value: Value) {
        let listener = lock(&self.listeners).get(step).cloned();
        if let Some(listener) = listener {
            // The listener is the service's code: if it panics, the thread that drives the machines must go on.
            let heard = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| listener(value)));
            if heard.is_err() {
                tracing::warn!("what hears a sub-chain's answers panicked");
            }
        }
    }

    fn reply(&self, chain: ChainId, replied: Replied) {
        let mut replies = lock(&self.replies);
        let ended = matches!(replied, Replied::End { .. } | Replied::Over { .. });
        let Some(sender) = replies.get(&chain) else { return };
        // A set that is full, or for which there is no memory, loses its sender. Its reader sees that as the end: `Overloaded`.
        if !sender.send(replied) || ended {
            replies.remove(&chain);
        }
    }

    /// Makes a plain call. Dropping the receiver withdraws it.
    pub(crate) fn call(
        self: &Arc<Self>,
        begin: impl FnOnce(&mut Core, Time) -> CallId,
    ) -> (CallId, oneshot::Receiver<Result<Value, Exception>>) {
        let (sender, receiver) = oneshot::channel();
        let id = {
            let mut core = self.core();
            let id = begin(&mut core, self.now());
            lock(&self.calls).insert(id, sender);
            id
        };
        self.drive();
        (id, receiver)
    }

    pub(crate) fn withdraw(self: &Arc<Self>, id: CallId) {
        if lock(&self.calls).remove(&id).is_some() {
            let now = self.now();
            self.core().withdraw(now, id);
            self.drive();
        }
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// A service of this node.
    pub(crate) fn service(&self, name: &str) -> Option<Arc<Service>> {
        self.offering.get(name)
    }

    /// How many chains, calls and service functions are under way.
    pub(crate) fn load(&self) -> (usize, usize, usize) {
        self.core().load()
    }
}

/// What a node announces of one of its services. Its chaining proxy may not be linked yet, so it is named by its address alone, and the recipient looks for the
/// node that listens there.
pub(crate) fn entry_of(service: &Service, node: &NodeRef, proxy: Option<&str>) -> ServiceEntry {
    let at = |address: &str| NodeRef {
        id: NodeId(0),
        name: address.to_owned(),
        address: Some(address.to_owned()),
        site: node.site.clone(),
    };
    ServiceEntry {
        service: service.name().to_owned(),
        functions: service.functions().map(str::to_owned).collect(),
        node: node.clone(),
        kinds: service.kinds(),
        proxy: proxy.map(at),
    }
}

/// A poisoned lock means that a service panicked; the data that it guards are still consistent.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
