//! Making nodes and clients.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use catena_core::{Node as Core, Policy, messages::MessagePolicy, segments::SegmentPolicy};
use catena_directory::{Registry, Resolver};
use catena_guest::{Limits, Sandbox, SandboxConfig};
use catena_net::{
    Endpoint, EndpointConfig, Identity, MemoryBudget, NetError, Place, Topology,
    near::Near,
    transport::{Tcp, Transport},
};
use catena_segment::RemoteMemory;
use catena_wire::{Exception, FUNCTIONS_MAX, Fault, NAME_BYTES_MAX, NodeId, NodeRef, names};

use futures_util::future::{BoxFuture, join_all};

use crate::{
    Client, Node, Service, StepStoreLimits,
    blobs::{self, Blobs},
    clock::Clock,
    durable::StepStore,
    memory::GuestsMemory,
    random,
    segments::{Hub, Sharing},
    shell::{LinkEvents, MakeSandbox, Settings, Shell, dial_pause},
    store::Store,
};

/// Largest function that travels with its first hop over a link; the receiver fetches a larger one.
const CODE_RIDE_BYTES_MAX: usize = 64 << 10;
/// Addresses in a minute that are dialled because a stranger named them, and turn out not to be the node that was meant.
const UNTOLD_DIALS_MAX: usize = 16;
/// Bytes of a node's blobs, and how long a blob outlives its chain.
const BLOB_BYTES_MAX: u64 = 256 << 20;
const BLOB_GRACE: Duration = Duration::from_secs(30);
/// Divisors of a node's memory for the functions that it keeps: one part for their encoded bytes, one for their loaded images.
const STORE_PART: u64 = 16;
const IMAGES_PART: u64 = 8;

/// Why a node or client did not start.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StartError {
    /// A socket could not be opened, or the first node could not be reached.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The address to listen on cannot be parsed.
    #[error("cannot listen on {0:?}: write it as host:port, such as 127.0.0.1:7400")]
    Address(String),
    /// The address to advertise cannot be dialled, or nobody listens behind it.
    #[error("cannot advertise {address:?}: {reason}")]
    Advertise {
        /// As it was given.
        address: String,
        /// What is wrong with it, and what to do.
        reason: &'static str,
    },
    /// The node would listen on all addresses of its machine, without one that it could tell its peers.
    #[error(
        "{0} stands for every address of this machine, so other nodes cannot dial it: say with `advertise` which \
         host:port they reach this node at, or listen on that one address"
    )]
    Unspecified(SocketAddr),
    /// A name is empty or too long.
    #[error("{0:?} is no name: names have 1 to {NAME_BYTES_MAX} bytes and no slash")]
    Name(String),
    /// The folder of functions cannot be used.
    #[error("the function store {}: {reason}", path.display())]
    FunctionStore {
        /// The folder.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The sandbox cannot be made ([`NodeBuilder::sandbox_at_start`]).
    #[error("{0}")]
    Sandbox(String),
    /// The file of durable steps cannot be used.
    #[error("the step store {}: {reason}", path.display())]
    StepStore {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A function is durable, and the node has nowhere to keep its steps.
    #[error("{0} is durable, and its node has no step store: name a file with `step_store`")]
    NoStepStore(String),
    /// A service has more functions than can be announced.
    #[error("{0} has more than {FUNCTIONS_MAX} functions; make several services of it")]
    Functions(String),
    /// Two services of one node, or two functions of one service, have the same name.
    #[error("{0} is there twice; services of one node, and functions of one service, need different names")]
    Twice(String),
    /// A function is declared durable or repeatable, but its service does not have it.
    #[error("{declared} is declared {kind}, and there is no such function; {service} has: {functions}")]
    NoFunction {
        /// The function, with its service.
        declared: String,
        /// `durable` or `repeatable`.
        kind: &'static str,
        /// The service.
        service: String,
        /// The functions that the service has.
        functions: String,
    },
}

/// Settings of a node; [`crate::Node::builder`] begins one.
pub struct NodeBuilder {
    name: String,
    site: Option<String>,
    listen: Option<String>,
    advertise: Option<String>,
    join: Vec<Place>,
    services: Vec<Service>,
    topology: Option<Arc<Topology>>,
    policy: Policy,
    sandbox: SandboxSource,
    repository: bool,
    proxy: Option<String>,
    hosts_for_others: bool,
    entry_only: bool,
    untold_dials_max: usize,
    step_store: Option<(PathBuf, StepStoreLimits)>,
    memory: MemoryBudget,
    segments: SegmentPolicy,
    blob_bytes_max: u64,
    blob_grace: Duration,
    messages: MessagePolicy,
    sharing: Sharing,
    names: Vec<Names>,
    function_store: Option<PathBuf>,
    registry: Option<Arc<dyn Registry>>,
}

/// A way in which a node finds services ([`NodeBuilder::names`] sets which it tries, and in which order).
#[derive(Clone)]
pub enum Names {
    /// Asks the nodes of its mesh.
    Mesh,
    /// Asks this resolver.
    By(Arc<dyn Resolver>),
}

/// A sandbox shared with other nodes, or the settings of one to be made.
#[derive(Default)]
struct SandboxSource {
    shared: Option<Sandbox>,
    limits: Limits,
    cache_dir: Option<PathBuf>,
    at_start: bool,
}

impl NodeBuilder {
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            site: None,
            listen: None,
            advertise: None,
            join: Vec::new(),
            services: Vec::new(),
            topology: None,
            policy: Policy::default(),
            sandbox: SandboxSource::default(),
            repository: false,
            proxy: None,
            hosts_for_others: false,
            entry_only: false,
            untold_dials_max: UNTOLD_DIALS_MAX,
            step_store: None,
            memory: EndpointConfig::default().memory,
            segments: SegmentPolicy::default(),
            blob_bytes_max: BLOB_BYTES_MAX,
            blob_grace: BLOB_GRACE,
            messages: MessagePolicy::default(),
            sharing: Sharing { memory: true, remote: None },
            names: vec![Names::Mesh],
            function_store: None,
            registry: None,
        }
    }

    /// The memory that the whole node may take, in bytes: messages in both directions, what is kept of chains and their steps, and the guests' memory. At most
    /// half of it goes to guests, and at most half to what is kept. Beyond it, peers are refused (`Overloaded`) or read more slowly. At least 128 MiB; with
    /// less than 1 GiB, the default, the longest message is an eighth of it. A shared sandbox ([`NodeBuilder::sandbox`]) does not count.
    #[must_use]
    pub fn memory_bytes_max(mut self, bytes: u64) -> Self {
        self.memory = MemoryBudget::new(bytes);
        self
    }

    /// Sets the limits of what the node does with segments.
    #[must_use]
    pub fn segment_policy(mut self, policy: SegmentPolicy) -> Self {
        self.segments = policy;
        self
    }

    /// Limits the bytes of blobs that the node owns at one time, within its memory ([`NodeBuilder::memory_bytes_max`]); beyond, none is made (`Overloaded`).
    /// Default 256 MiB.
    #[must_use]
    pub fn blob_bytes_max(mut self, bytes: u64) -> Self {
        self.blob_bytes_max = bytes;
        self
    }

    /// Sets how long a blob outlives the chain or call for which it was made, in addition to one second for each megabyte. Default 30 s.
    #[must_use]
    pub fn blob_grace(mut self, grace: Duration) -> Self {
        self.blob_grace = grace;
        self
    }

    /// Sets the limits of what the node does with messages between services.
    #[must_use]
    pub fn message_policy(mut self, policy: MessagePolicy) -> Self {
        self.messages = policy;
        self
    }

    /// Treats nodes on the same host as if they were remote: segments are reached over links, and links use TCP where they would be Unix sockets.
    #[must_use]
    pub fn without_shared_memory(mut self) -> Self {
        self.sharing.memory = false;
        self
    }

    /// Sets the remote memory (RDMA, `catena_fabric::Fabric`) by which this node reaches segments on other hosts and lets them reach its own, if both sides
    /// have the same. Accesses of [`SegmentPolicy::remote_bytes_min`] bytes or more use it where memory is not shared.
    #[must_use]
    pub fn remote_memory(mut self, by: Arc<dyn RemoteMemory>) -> Self {
        self.sharing.remote = Some(by);
        self
    }

    /// Runs no foreign code on this node: chains that call it run at the node that listens at `address` instead, which must allow that
    /// ([`NodeBuilder::hosts_chains_for_others`]). While that node cannot be reached, chains stay where they are and call this node from there (rpc-chains
    /// section 7.3).
    #[must_use]
    pub fn chaining_proxy(mut self, address: impl Into<String>) -> Self {
        self.proxy = Some(address.into());
        self
    }

    /// Keeps links only with the nodes that it joins, and links with others of their mesh only to call them. What those others have to tell a client that
    /// nobody can dial is sent through the node at which its chain entered.
    #[must_use]
    pub fn entry_only(mut self) -> Self {
        self.entry_only = true;
        self
    }

    /// How many addresses named by strangers the node may dial in vain in a minute. Addresses that it joins, and those that the nodes there name, do not count,
    /// nor does an address where the intended node does answer, such as the origin of a chain. Default 16; 0: it dials no address that a stranger names.
    #[must_use]
    pub fn untold_dials_max(mut self, addresses: usize) -> Self {
        self.untold_dials_max = addresses;
        self
    }

    /// Lets this node host chains that call services of other nodes, as the chaining proxy of its site.
    #[must_use]
    pub fn hosts_chains_for_others(mut self) -> Self {
        self.hosts_for_others = true;
        self
    }

    /// Sets the site of the node, for shaped links and for display.
    #[must_use]
    pub fn site(mut self, site: impl Into<String>) -> Self {
        self.site = Some(site.into());
        self
    }

    /// Listens on `host:port`; with port 0 the system chooses one. Without it the node only dials. A host that stands for all addresses of the machine
    /// (`0.0.0.0`, `[::]`) also needs [`NodeBuilder::advertise`].
    #[must_use]
    pub fn listen(mut self, address: impl Into<String>) -> Self {
        self.listen = Some(address.into());
        self
    }

    /// Tells peers to dial `host:port`. Needed where they reach this node at an address other than the one on which it listens: behind NAT, in a container, or
    /// when it listens on all addresses. Port 0 stands for the port on which it listens.
    #[must_use]
    pub fn advertise(mut self, address: impl Into<String>) -> Self {
        self.advertise = Some(address.into());
        self
    }

    /// Joins the mesh to which the node at this place belongs; may be called more than once. A node that is down is retried until it is up.
    #[must_use]
    pub fn join(mut self, place: Place) -> Self {
        self.join.push(place);
        self
    }

    /// Adds a service.
    #[must_use]
    pub fn service(mut self, service: Service) -> Self {
        self.services.push(service);
        self
    }

    /// Adds delay and limits bandwidth on the node's links, by the sites at their ends: for development and demonstrations only.
    #[must_use]
    pub fn topology(mut self, topology: Arc<Topology>) -> Self {
        self.topology = Some(topology);
        self
    }

    /// Sets the limits of the protocol. Where guests run is also set by [`NodeBuilder::chaining_proxy`] and [`NodeBuilder::hosts_chains_for_others`], which may
    /// be called before or after this.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets the limits of each guest.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.sandbox.limits = limits;
        self
    }

    /// Keeps compiled modules, above all the JavaScript engine, in this folder from one process to the next, so that the first chain begins after milliseconds
    /// instead of seconds. No other user may have write access, since the modules in it are executed.
    #[must_use]
    pub fn cache_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.sandbox.cache_dir = Some(folder.into());
        self
    }

    /// Uses a sandbox shared with other nodes of this process. It has its own limits and cache, so those set on this builder are ignored.
    #[must_use]
    pub fn sandbox(mut self, sandbox: Sandbox) -> Self {
        self.sandbox.shared = Some(sandbox);
        self
    }

    /// Makes the sandbox when the node starts, if functions run here, and not when the first one comes: that one does not wait for it, and a folder of compiled
    /// modules that cannot be used is an error of [`NodeBuilder::start`].
    #[must_use]
    pub fn sandbox_at_start(mut self) -> Self {
        self.sandbox.at_start = true;
        self
    }

    /// Makes this node a repository, which keeps functions for the nodes that join it (rpc-chains section 3.2).
    #[must_use]
    pub fn repository(mut self) -> Self {
        self.repository = true;
        self
    }

    /// Keeps the steps of durable functions ([`Service::durable`]) in this file, which is created if it does not exist. The file must be on a local disk, and
    /// only one node at a time may use it.
    #[must_use]
    pub fn step_store(self, file: impl Into<PathBuf>) -> Self {
        self.step_store_within(file, StepStoreLimits::default())
    }

    /// Like [`NodeBuilder::step_store`], with other limits than the default.
    #[must_use]
    pub fn step_store_within(mut self, file: impl Into<PathBuf>, limits: StepStoreLimits) -> Self {
        self.step_store = Some((file.into(), limits));
        self
    }

    /// Sets how the node finds services, in this order; each of these ways is also told what the node serves. Default: [`Names::Mesh`] alone.
    #[must_use]
    pub fn names(mut self, names: Vec<Names>) -> Self {
        self.names = names;
        self
    }

    /// Keeps functions in this folder, so that the node has them after a restart; the folder is created if it does not exist. One node at a time may use it.
    #[must_use]
    pub fn function_store(mut self, folder: impl Into<PathBuf>) -> Self {
        self.function_store = Some(folder.into());
        self
    }

    /// Sets a registry, which keeps functions beyond the life of every node. A node asks it for a function that no other node has, and a repository
    /// ([`NodeBuilder::repository`]) pushes to it the functions that it is given.
    #[must_use]
    pub fn registry(mut self, registry: Arc<dyn Registry>) -> Self {
        self.registry = Some(registry);
        self
    }

    /// Starts the node. Needs a tokio runtime with time and I/O enabled.
    ///
    /// # Errors
    /// A bad name or address, or a port in use. Nodes to join may be down: they are retried.
    pub async fn start(self) -> Result<Node, StartError> {
        self.open_and_join(false).await.map(Node::new)
    }

    /// Starts the node as a client, for which each node to join must be reachable.
    pub(crate) async fn start_client(self) -> Result<Client, StartError> {
        self.open_and_join(true).await.map(Client::new)
    }

    /// Boxed, like whatever the API awaits of the shell, so that it is compiled here once: the future of an `async fn` is compiled in each program that awaits it.
    fn open_and_join(self, must_join: bool) -> BoxFuture<'static, Result<Arc<Shell>, StartError>> {
        Box::pin(async move {
            let seeds = self.join.clone();
            let shell = self.open().await?;
            let joined = join_all(seeds.iter().map(|seed| shell.join(seed))).await;
            for (seed, joined) in seeds.iter().zip(joined) {
                match joined {
                    Err(why) if must_join => return Err(why.into()),
                    Err(why) => {
                        tracing::warn!(address = %seed.address, %why, "not joined yet; trying again");
                    }
                    Ok(_) => {}
                }
            }
            shell.keep_joined(seeds);
            Ok(shell)
        })
    }

    async fn open(mut self) -> Result<Arc<Shell>, StartError> {
        self.policy.runs_guests &= self.proxy.is_none();
        self.policy.chaining_proxy |= self.hosts_for_others;
        let listen = self.listen.as_deref().map(resolve).transpose()?;
        let services = by_name(self.services)?;
        let store_bytes_max = usize::try_from(self.memory.bytes_max() / STORE_PART).unwrap_or(usize::MAX);
        let store = open_store(self.function_store, store_bytes_max).await?;
        check_name(&self.name)?;
        let steps = open_steps(self.step_store, &services).await?;
        let transport: Arc<dyn Transport> = match self.sharing.memory {
            true => Arc::new(Near::default()),
            false => Arc::new(Tcp::default()),
        };
        let topology = self.topology.clone();
        let config = EndpointConfig { listen, transport, topology, ..EndpointConfig::within(self.memory.clone()) };
        // A message may have waited in a socket for as long as links tolerate silence.
        self.policy.link_silence_us_max = config.silence_ms_max().saturating_mul(1_000);
        // The address is part of the node's identity, and the system may be the one to choose the port.
        let bound = Endpoint::bind(config).await?;
        let address = told_to_peers(bound.local_address(), self.advertise)?;
        let me = NodeRef { id: NodeId(random::bits64()), name: self.name, address, site: self.site.clone() };
        // Read together, since everything that this node dates is dated by this one clock.
        let (clock, began_at_us) = (Clock::new(), unix_us());
        let dial_pause = dial_pause(&self.policy);
        let sandbox_at_start = self.sandbox.at_start && self.policy.runs_guests;
        let mut core = Core::new(me.clone(), self.policy, began_at_us);
        let built_in = blobs::service();
        for service in services.values().chain([&built_in]) {
            core.serve(service.name(), service.functions(), service.kinds());
        }
        let node = me.id.0;
        if self.repository {
            core.set_repository(Arc::new(me));
        }
        let images_bytes = if self.sandbox.shared.is_none() { self.memory.bytes_max() / IMAGES_PART } else { 0 };
        let set_aside = self.memory.lease(self.memory.bytes_max() / STORE_PART + images_bytes).ok();
        // Generations start at the clock and rise by one with each export, so they exceed those of every earlier run.
        let segments = Hub::new(NodeId(node), self.segments, began_at_us, self.sharing);
        if self.registry.is_some() {
            core.set_registry();
        }
        let settings = Settings {
            segments,
            messages: self.messages,
            clock,
            began_at_us,
            repository: self.repository,
            registry: self.registry,
            make_sandbox: self.sandbox.maker(&self.memory),
            code_ride_bytes_max: CODE_RIDE_BYTES_MAX,
            topology: self.topology,
            proxy: self.proxy,
            entry_only: self.entry_only,
            dial_pause,
            untold_dials_max: self.untold_dials_max,
            steps,
            set_aside,
        };
        let blobs = Blobs::new(&self.memory, self.blob_bytes_max, self.blob_grace);
        let shell = Shell::new(core, services, (store, blobs), settings, half_of(&self.memory));
        if sandbox_at_start {
            shell.sandbox().await.map_err(|why| StartError::Sandbox(why.message))?;
        }
        let hello = shell.hello(&shell.own_services()).into();
        let identity = Identity { node, site: self.site, hello };
        let endpoint = bound.start(identity, Arc::new(LinkEvents::new(&shell)))?;
        shell.connect(endpoint);
        shell.find_by(self.names);
        Ok(shell)
    }
}

impl SandboxSource {
    fn maker(self, memory: &MemoryBudget) -> MakeSandbox {
        let images_bytes_max = memory.bytes_max() / IMAGES_PART;
        let memory = Arc::new(GuestsMemory::new(&half_of(memory)));
        Box::new(move || match &self.shared {
            Some(sandbox) => Ok(sandbox.clone()),
            None => {
                let (limits, cache_dir) = (self.limits.clone(), self.cache_dir.clone());
                let memory = Arc::clone(&memory);
                let config = SandboxConfig { limits, cache_dir, memory, images_bytes_max, ..SandboxConfig::default() };
                Sandbox::new(config).map_err(|why| {
                    Exception::new(names::BAD_CODE, Fault::Node, format!("the sandbox cannot be made: {why}"))
                })
            }
        })
    }
}

/// A bound of half the node's memory for one kind of work, so that room is left for the others.
fn half_of(memory: &MemoryBudget) -> MemoryBudget {
    memory.part(memory.bytes_max() / 2)
}

/// Opens the step store on a blocking thread, since opening waits for the disk.
async fn open_steps(
    file: Option<(PathBuf, StepStoreLimits)>,
    services: &HashMap<String, Service>,
) -> Result<Option<StepStore>, StartError> {
    let Some((path, limits)) = file else {
        let durable = services.values().find_map(|service| Some((service.name(), service.durable_functions().next()?)));
        return durable
            .map_or(Ok(None), |(service, function)| Err(StartError::NoStepStore(format!("{service}/{function}"))));
    };
    let failed = |reason| StartError::StepStore { path: path.clone(), reason };
    let file = path.clone();
    let opened = tokio::task::spawn_blocking(move || StepStore::open(&file, limits)).await;
    opened.map_err(|why| failed(why.to_string()))?.map(Some).map_err(|why| failed(why.to_string()))
}

async fn open_store(folder: Option<PathBuf>, bytes_max: usize) -> Result<Store, StartError> {
    let Some(folder) = folder else { return Ok(Store::new(bytes_max)) };
    let failed = |reason| StartError::FunctionStore { path: folder.clone(), reason };
    let path = folder.clone();
    let opened = tokio::task::spawn_blocking(move || Store::open(bytes_max, &path)).await;
    opened.map_err(|why| failed(why.to_string()))?.map_err(|why| failed(why.to_string()))
}

/// Checks that names are valid, and that each function declared durable or repeatable exists.
pub(crate) fn check_service(service: &Service) -> Result<(), StartError> {
    check_name(service.name())?;
    if service.functions().count() > FUNCTIONS_MAX {
        return Err(StartError::Functions(service.name().to_owned()));
    }
    service.functions().try_for_each(check_name)?;
    service.check()
}

fn by_name(services: Vec<Service>) -> Result<HashMap<String, Service>, StartError> {
    let mut named = HashMap::new();
    for service in services {
        check_service(&service)?;
        let name = service.name().to_owned();
        if named.insert(name.clone(), service).is_some() || name == blobs::SERVICE {
            return Err(StartError::Twice(name));
        }
    }
    Ok(named)
}

fn check_name(name: &str) -> Result<(), StartError> {
    match name.len() {
        1..=NAME_BYTES_MAX if !name.contains('/') => Ok(()),
        _ => Err(StartError::Name(name.to_owned())),
    }
}

fn resolve(address: &str) -> Result<SocketAddr, StartError> {
    use std::net::ToSocketAddrs;
    let bad = || StartError::Address(address.to_owned());
    address.to_socket_addrs().ok().and_then(|mut found| found.next()).ok_or_else(bad)
}

/// The address in this node's greeting: what other nodes will dial.
fn told_to_peers(listen: Option<SocketAddr>, advertise: Option<String>) -> Result<Option<String>, StartError> {
    let Some(address) = advertise else {
        return match listen {
            Some(listen) if listen.ip().is_unspecified() => Err(StartError::Unspecified(listen)),
            listen => Ok(listen.map(|listen| listen.to_string())),
        };
    };
    let wrong = |reason| Err(StartError::Advertise { address: address.clone(), reason });
    let Some(listen) = listen else {
        return wrong("this node listens nowhere, so nobody could reach it there; give it an address to listen on");
    };
    let Some((host, port)) = address.rsplit_once(':').filter(|(host, _)| !host.is_empty()) else {
        return wrong("write it as host:port, such as node.example.org:7400");
    };
    let Ok(port) = port.parse::<u16>() else {
        return wrong("its port is no number from 0 to 65535; 0 stands for the port that the node listens on");
    };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified()) {
        return wrong("it stands for every address of a machine; name the one that other nodes reach");
    }
    let port = if port == 0 { listen.port() } else { port };
    let told = format!("{host}:{port}");
    if told.len() > NAME_BYTES_MAX {
        return wrong("it has more than 256 bytes, which no node reads");
    }
    Ok(Some(told))
}

fn unix_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
