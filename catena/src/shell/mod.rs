//! The shell around the state machines: sockets, clock, guests and services, put together.
//!
//! What arrives is handled where it arrives, in the link's reader task: decode, ask the machines, do what they say, and only what has to wait
//! becomes a task of its own. So a hop through a quick service costs no task switch.

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

use catena_core::{CallId, Node as Core, Replied, Ticket, Time, messages::MessagePolicy};
use catena_directory::{Registry, Resolver};
use catena_guest::Sandbox;
use catena_net::{Endpoint, Lease, MemoryBudget, Topology};
use catena_wire::{ChainId, Exception, Fault, NodeId, NodeRef, ResolverAnswer, ServiceEntry, StepKey, Value, names};
use tokio::{
    runtime::Handle,
    sync::{Notify, OnceCell, Semaphore, oneshot},
    task::AbortHandle,
};

use crate::{
    Names, Service,
    blobs::{Blobs, Tally},
    clock::Clock,
    durable::StepStore,
    incoming::{Incoming, Sender, incoming},
    messages::Post,
    replying::Bursts,
    segments::Hub,
    store::Store,
};
use dials::Dials;
use mesh_names::MeshResolver;
use offering::Offering;
use peers::Peers;
use relief::Relief;
use sessions::Sessions;
use timer::Alarm;

pub(crate) use handler::LinkEvents;

/// How long resolvers may take at the end to take in that its services are gone.
const WITHDRAWING_MAX: Duration = Duration::from_secs(2);

/// Sub-chains whose intermediate answers are listened to at one time.
const LISTENERS_MAX: usize = 16_384;

/// Who takes a sub-chain's intermediate answers.
pub(crate) type Listener = Arc<dyn Fn(Value) + Send + Sync>;

/// How the sandbox comes to be: once, when first needed.
pub(crate) type MakeSandbox = Box<dyn Fn() -> Result<Sandbox, Exception> + Send + Sync>;

pub(crate) struct Shell {
    core: Mutex<Core>,
    /// What the machines may keep, and what they keep now.
    memory: MemoryBudget,
    kept: Mutex<Lease>,
    /// Held by whoever does what the core says.
    driving: Mutex<()>,
    /// A task to drive has been spawned, and has not begun.
    wake_requested: AtomicBool,
    /// Wakes a worker when a service or guest holds the one that waits for sockets.
    relief: Relief,
    runtime: Handle,
    pub(crate) me: NodeRef,
    endpoint: OnceLock<Endpoint>,
    sandbox: OnceCell<Sandbox>,
    pub(crate) store: Store,
    sessions: Sessions,
    /// Service functions under way.
    running: Mutex<HashMap<Ticket, UnderWay>>,
    replies: Mutex<HashMap<ChainId, Sender>>,
    calls: Mutex<HashMap<CallId, oneshot::Sender<Result<Value, Exception>>>>,
    /// Rights to reply that service functions here have.
    rights: Mutex<HashMap<StepKey, Arc<Notify>>>,
    bursts: Bursts,
    /// Of the sub-chains that services of this node answered with.
    listeners: Mutex<HashMap<StepKey, Listener>>,
    listings: Mutex<HashMap<u64, oneshot::Sender<Vec<ServiceEntry>>>>,
    questions: Mutex<HashMap<u64, oneshot::Sender<Vec<ResolverAnswer>>>>,
    offering: Offering,
    resolvers: OnceLock<Vec<Arc<dyn Resolver>>>,
    lookups: Semaphore,
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

/// A service function under way.
#[derive(Default)]
struct UnderWay {
    /// `None` while it is polled for the first time.
    task: Option<AbortHandle>,
    /// What it reads of blobs, if it has been given any.
    read: Option<Arc<Tally>>,
}

/// What a node is started with.
pub(crate) struct Settings {
    pub(crate) clock: Clock,
    /// When that began, microseconds since the Unix epoch.
    pub(crate) began_at_us: u64,
    pub(crate) repository: bool,
    pub(crate) make_sandbox: MakeSandbox,
    pub(crate) code_ride_bytes_max: usize,
    pub(crate) topology: Option<Arc<Topology>>,
    /// Address of the node at which chains run that call this one.
    pub(crate) proxy: Option<String>,
    /// Links with the nodes that it joins, and with no others of their mesh.
    pub(crate) entry_only: bool,
    pub(crate) untold_dials_max: usize,
    /// Where the steps of durable functions are kept.
    pub(crate) steps: Option<StepStore>,
    /// The memory of the functions that are kept.
    #[allow(dead_code, reason = "it is held for as long as the node is there")]
    pub(crate) set_aside: Option<Lease>,
    pub(crate) segments: Arc<Hub>,
    pub(crate) messages: MessagePolicy,
    /// What keeps functions beyond the life of every node.
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
            listings: Mutex::default(),
            questions: Mutex::default(),
            offering: Offering::new(services),
            resolvers: OnceLock::new(),
            lookups: Semaphore::new(resolving::LOOKUPS_AT_ONCE_MAX),
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

    /// Gives it its links: they need the shell, so it is there first.
    pub(crate) fn connect(&self, endpoint: Endpoint) {
        let _ = self.endpoint.set(endpoint);
    }

    /// Finds services from now on in these ways, in this order; and tells them what is served here.
    pub(crate) fn find_by(self: &Arc<Self>, names: Vec<Names>) {
        let resolvers = names.into_iter().map(|names| match names {
            Names::Mesh => Arc::new(MeshResolver::new(Arc::downgrade(self))) as Arc<dyn Resolver>,
            Names::By(resolver) => resolver,
        });
        self.begin_resolving(resolvers.collect());
        self.begin_announcing();
    }

    /// Withdraws its services, sends what is queued, and closes the links within `grace`.
    pub(crate) async fn close(self: &Arc<Self>, grace: Duration) {
        let _ = tokio::time::timeout(grace.min(WITHDRAWING_MAX), self.announce(Vec::new())).await;
        if let Some(endpoint) = self.endpoint() {
            endpoint.close(grace).await;
        }
    }

    /// Its links are shaped as if others on its host were elsewhere.
    pub(crate) const fn plays_far(&self) -> bool {
        self.settings.topology.is_some()
    }

    pub(crate) fn endpoint(&self) -> Option<&Endpoint> {
        self.endpoint.get()
    }

    /// The machines, which refuse what there is no memory to keep.
    pub(crate) fn core(&self) -> MutexGuard<'_, Core> {
        let mut core = lock(&self.core);
        core.set_memory_left(usize::try_from(self.memory.left()).unwrap_or(usize::MAX));
        core
    }

    /// What a peer has sent goes to the machines.
    fn take_in<R>(&self, happen: impl FnOnce(&mut Core, Time) -> R) -> R {
        let now = self.now();
        let mut core = self.core();
        let result = happen(&mut core, now);
        self.note_kept(&core);
        result
    }

    /// Charges what the machines keep by now to the node's memory.
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

    /// The sandbox, made when first needed: its engine takes some milliseconds to load, and a plain call needs none.
    pub(crate) async fn sandbox(self: &Arc<Self>) -> Result<&Sandbox, Exception> {
        if let Some(sandbox) = self.sandbox.get() {
            return Ok(sandbox);
        }
        let make = || async {
            let shell = Arc::clone(self);
            let made = tokio::task::spawn_blocking(move || (shell.settings.make_sandbox)()).await;
            made.unwrap_or_else(|_| Err(Exception::new(names::BAD_CODE, Fault::Node, "the sandbox could not be made")))
        };
        // Apart, so that each turn of a guest does not set memory aside for it.
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
            // Before the lock is let go: an answer must find its reply set.
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

    /// Takes the intermediate answers of the sub-chain with which a service answers at this step.
    pub(crate) fn listen(&self, step: StepKey, listener: Listener) {
        let mut listeners = lock(&self.listeners);
        if listeners.len() < LISTENERS_MAX {
            listeners.insert(step, listener);
        }
    }

    /// The sub-chain has ended, and all of its answers have been heard.
    fn stop_listening(&self, step: &StepKey) {
        lock(&self.listeners).remove(step);
    }

    fn hear(&self, step: &StepKey, value: Value) {
        let listener = lock(&self.listeners).get(step).cloned();
        if let Some(listener) = listener {
            // It is a service's own; whoever does what the core says must go on.
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
        // A full set loses its sender, and so does one for which there is no memory. Its reader sees that as the end: `Overloaded`.
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

    /// Chains, calls and service functions under way.
    pub(crate) fn load(&self) -> (usize, usize, usize) {
        self.core().load()
    }
}

/// What a node says of one of its services. Its chaining proxy may not be linked yet: it is named by its address alone, and
/// whoever reads this looks for the node that listens there.
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

/// A poisoned lock means that some service panicked elsewhere; what it guards is still whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
