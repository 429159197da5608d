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

use crate::{
    Client, Node, Service, StepStoreLimits,
    blobs::{self, Blobs},
    clock::Clock,
    durable::StepStore,
    memory::GuestsMemory,
    random,
    segments::{Hub, Sharing},
    shell::{LinkEvents, MakeSandbox, Settings, Shell},
    store::Store,
};

/// Largest function that rides along with its first hop over a link; a larger one is fetched.
const CODE_RIDE_BYTES_MAX: usize = 64 << 10;
/// Addresses in a minute that were dialled at the word of a stranger, and were not the node that was meant.
const UNTOLD_DIALS_MAX: usize = 16;
/// Bytes of a node's blobs, and how long they outlive their chain.
const BLOB_BYTES_MAX: u64 = 256 << 20;
const BLOB_GRACE: Duration = Duration::from_secs(30);
/// The parts of a node's memory that are set aside for functions that it keeps: as they are, and loaded.
const STORE_PART: u64 = 16;
const IMAGES_PART: u64 = 8;

/// Why a node or client did not start.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StartError {
    /// A socket could not be had, or the first node could not be reached.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The address to listen on cannot be read.
    #[error("cannot listen on {0:?}: write it as host:port, such as 127.0.0.1:7400")]
    Address(String),
    /// The address to tell peers cannot be dialled, or nobody listens behind it.
    #[error("cannot advertise {address:?}: {reason}")]
    Advertise {
        /// As it was given.
        address: String,
        /// What is wrong with it, and what to do.
        reason: &'static str,
    },
    /// The node would listen on all addresses of its machine, and tell its peers none of them.
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
    /// A service has more functions than can be told to others.
    #[error("{0} has more than {FUNCTIONS_MAX} functions; make several services of it")]
    Functions(String),
    /// Two services of one node, or two functions of one service, have the same name.
    #[error("{0} is there twice; services of one node, and functions of one service, need different names")]
    Twice(String),
    /// Something is declared of a function that its service does not have.
    #[error("{declared} is declared {kind}, and there is no such function; {service} has: {functions}")]
    NoFunction {
        /// The function, with its service.
        declared: String,
        /// `durable` or `repeatable`.
        kind: &'static str,
        /// The service.
        service: String,
        /// What it has.
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

/// One of the ways in which a node finds services, in the order in which it tries them ([`NodeBuilder::names`]).
#[derive(Clone)]
pub enum Names {
    /// It asks the nodes of its mesh.
    Mesh,
    /// It asks this resolver.
    By(Arc<dyn Resolver>),
}

/// A shared sandbox, else one of its own with these settings.
#[derive(Default)]
struct SandboxSource {
    shared: Option<Sandbox>,
    limits: Limits,
    cache_dir: Option<PathBuf>,
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

    /// The memory that the whole node may take, in bytes: what peers send and are sent, what is kept of chains and their steps, and what its guests
    /// hold; of that, guests have half at most, and what is kept another half. Beyond it peers are refused (`Overloaded`) or read more slowly. At least
    /// 128 MiB; with less than 1 GiB, the default, the longest message is an eighth of it. A shared sandbox ([`NodeBuilder::sandbox`]) does not count.
    #[must_use]
    pub fn memory_bytes_max(mut self, bytes: u64) -> Self {
        self.memory = MemoryBudget::new(bytes);
        self
    }

    /// The bounds of what it does with segments.
    #[must_use]
    pub fn segment_policy(mut self, policy: SegmentPolicy) -> Self {
        self.segments = policy;
        self
    }

    /// The bytes of the blobs that it owns at one time, within its memory ([`NodeBuilder::memory_bytes_max`]); beyond, no blob is made (`Overloaded`).
    /// Default 256 MiB.
    #[must_use]
    pub fn blob_bytes_max(mut self, bytes: u64) -> Self {
        self.blob_bytes_max = bytes;
        self
    }

    /// How long a blob outlives the chain or call that it was made for, beside a second for each megabyte. Default 30 s.
    #[must_use]
    pub fn blob_grace(mut self, grace: Duration) -> Self {
        self.blob_grace = grace;
        self
    }

    /// The bounds of what it does with messages between services.
    #[must_use]
    pub fn message_policy(mut self, policy: MessagePolicy) -> Self {
        self.messages = policy;
        self
    }

    /// Shares nothing with nodes on its host, as if they were elsewhere: segments are reached by links, and links are TCP where they would be Unix sockets.
    #[must_use]
    pub fn without_shared_memory(mut self) -> Self {
        self.sharing.memory = false;
        self
    }

    /// Reaches segments of nodes on other hosts by this, and lets them reach the ones of this node, where both have the same: RDMA
    /// (`catena_fabric::Fabric`). Accesses of [`SegmentPolicy::remote_bytes_min`] bytes or more go that way, if memory is not shared.
    #[must_use]
    pub fn remote_memory(mut self, by: Arc<dyn RemoteMemory>) -> Self {
        self.sharing.remote = Some(by);
        self
    }

    /// Runs no foreign code here: chains that call this node run at the node that listens at `address` instead, which must allow it
    /// ([`NodeBuilder::hosts_chains_for_others`]); while that is not reachable they stay where they are and call from there
    /// (rpc-chains section 7.3).
    #[must_use]
    pub fn chaining_proxy(mut self, address: impl Into<String>) -> Self {
        self.proxy = Some(address.into());
        self
    }

    /// Links with the nodes that it joins, and with others of their mesh only to call them: what those have to say to a client
    /// that nobody can dial comes by the node at which its chain entered.
    #[must_use]
    pub fn entry_only(mut self) -> Self {
        self.entry_only = true;
        self
    }

    /// How many addresses a stranger may have it dial in vain, in a minute. Those that it joins, and those that the nodes there name, do not count, nor does
    /// an address at which the very node is that was meant: the origin of a chain, say. Default 16; 0: it dials nobody else.
    #[must_use]
    pub fn untold_dials_max(mut self, addresses: usize) -> Self {
        self.untold_dials_max = addresses;
        self
    }

    /// Hosts chains that call services of other nodes: this node is the chaining proxy of its site.
    #[must_use]
    pub fn hosts_chains_for_others(mut self) -> Self {
        self.hosts_for_others = true;
        self
    }

    /// Where the node is, for shaped links and for people.
    #[must_use]
    pub fn site(mut self, site: impl Into<String>) -> Self {
        self.site = Some(site.into());
        self
    }

    /// Listens on `host:port`; port 0 lets the system choose. Without it the node only dials. A host that stands for all addresses of
    /// the machine (`0.0.0.0`, `[::]`) needs [`NodeBuilder::advertise`] besides.
    #[must_use]
    pub fn listen(mut self, address: impl Into<String>) -> Self {
        self.listen = Some(address.into());
        self
    }

    /// Tells peers to dial `host:port`, where they reach this node at another address than it listens on: behind a translation of
    /// addresses, in a container, or listening on all addresses. Port 0 stands for the port it listens on.
    #[must_use]
    pub fn advertise(mut self, address: impl Into<String>) -> Self {
        self.advertise = Some(address.into());
        self
    }

    /// Joins the mesh of which the node there is one; may be called more than once. A node that is down is tried again until it is up.
    #[must_use]
    pub fn join(mut self, place: Place) -> Self {
        self.join.push(place);
        self
    }

    /// Offers a service.
    #[must_use]
    pub fn service(mut self, service: Service) -> Self {
        self.services.push(service);
        self
    }

    /// Adds delay and bandwidth to its links, by the sites at their ends: for development and demonstrations only.
    #[must_use]
    pub fn topology(mut self, topology: Arc<Topology>) -> Self {
        self.topology = Some(topology);
        self
    }

    /// The bounds of the protocol. Where its guests run is also said by [`NodeBuilder::chaining_proxy`] and
    /// [`NodeBuilder::hosts_chains_for_others`], before or after.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// The bounds of each guest.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.sandbox.limits = limits;
        self
    }

    /// Keeps compiled modules in this folder from one process to the next, the JavaScript engine above all: the first chain then begins
    /// after milliseconds instead of seconds. Only this user may be able to write there: what lies there is run.
    #[must_use]
    pub fn cache_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.sandbox.cache_dir = Some(folder.into());
        self
    }

    /// Uses a sandbox that other nodes of this process use too. It has limits and a cache of its own: those set here do not count.
    #[must_use]
    pub fn sandbox(mut self, sandbox: Sandbox) -> Self {
        self.sandbox.shared = Some(sandbox);
        self
    }

    /// Keeps functions for all nodes of the mesh (rpc-chains section 3.2).
    #[must_use]
    pub fn repository(mut self) -> Self {
        self.repository = true;
        self
    }

    /// Keeps the steps of durable functions ([`Service::durable`]) in this file, which is made if it is not there. One node at a time; on a disk of this
    /// machine.
    #[must_use]
    pub fn step_store(self, file: impl Into<PathBuf>) -> Self {
        self.step_store_within(file, StepStoreLimits::default())
    }

    /// The same with bounds of one's own.
    #[must_use]
    pub fn step_store_within(mut self, file: impl Into<PathBuf>, limits: StepStoreLimits) -> Self {
        self.step_store = Some((file.into(), limits));
        self
    }

    /// How it finds services, in this order; each is told what this node serves. Default: [`Names::Mesh`] alone.
    #[must_use]
    pub fn names(mut self, names: Vec<Names>) -> Self {
        self.names = names;
        self
    }

    /// Keeps functions in this folder, which is made if it is not there, so that the node has them after a restart. One node at a time.
    #[must_use]
    pub fn function_store(mut self, folder: impl Into<PathBuf>) -> Self {
        self.function_store = Some(folder.into());
        self
    }

    /// Where functions are kept beyond the life of every node: a node asks there for one that no other node has, and a repository
    /// ([`NodeBuilder::repository`]) brings there what it is given.
    #[must_use]
    pub fn registry(mut self, registry: Arc<dyn Registry>) -> Self {
        self.registry = Some(registry);
        self
    }

    /// Starts the node. Needs a tokio runtime with time and I/O enabled.
    ///
    /// # Errors
    /// A bad name or address, a port in use. Nodes to join may be down: they are tried again.
    pub async fn start(self) -> Result<Node, StartError> {
        let seeds = self.join.clone();
        let shell = self.open().await?;
        for seed in &seeds {
            if let Err(why) = shell.join(seed).await {
                tracing::warn!(address = %seed.address, %why, "not joined yet; trying again every second");
            }
        }
        shell.keep_joined(seeds);
        Ok(Node::new(shell))
    }

    /// Starts it as a client: the first node must be there.
    pub(crate) async fn start_client(self) -> Result<Client, StartError> {
        let seeds = self.join.clone();
        let shell = self.open().await?;
        for seed in &seeds {
            shell.join(seed).await?;
        }
        shell.keep_joined(seeds);
        Ok(Client::new(shell))
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
        // The address is part of who it is, so the port must be known before: it is chosen here if the system may choose.
        let listen = listen.map(choose_port).transpose()?;
        let address = told_to_peers(listen, self.advertise)?;
        let me = NodeRef { id: NodeId(random::bits64()), name: self.name, address, site: self.site.clone() };
        let transport: Arc<dyn Transport> = match self.sharing.memory {
            true => Arc::new(Near::default()),
            false => Arc::new(Tcp::default()),
        };
        let topology = self.topology.clone();
        let config = EndpointConfig { listen, transport, topology, ..EndpointConfig::within(self.memory.clone()) };
        // What waits in a socket is as old as the links let it grow.
        self.policy.link_silence_us_max = config.silence_ms_max().saturating_mul(1_000);
        // Read together: whatever this node dates is dated by this one clock.
        let (clock, began_at_us) = (Clock::new(), unix_us());
        let mut core = Core::new(me.clone(), self.policy, began_at_us);
        let built_in = blobs::service();
        for service in services.values().chain([&built_in]) {
            core.serve(service.name(), service.functions(), service.kinds());
        }
        let node = me.id.0;
        if self.repository {
            core.set_repository(me);
        }
        let images_bytes = if self.sandbox.shared.is_none() { self.memory.bytes_max() / IMAGES_PART } else { 0 };
        let set_aside = self.memory.lease(self.memory.bytes_max() / STORE_PART + images_bytes).ok();
        // Generations rise with the clock, and by one with each export: no run before has come so far.
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
            untold_dials_max: self.untold_dials_max,
            steps,
            set_aside,
        };
        let blobs = Blobs::new(&self.memory, self.blob_bytes_max, self.blob_grace);
        let shell = Shell::new(core, services, (store, blobs), settings, half_of(&self.memory));
        let hello = shell.hello(&shell.own_services()).into();
        let identity = Identity { node, site: self.site, hello };
        let endpoint = Endpoint::bind(config, identity, Arc::new(LinkEvents::new(&shell))).await?;
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
                    Exception::new(names::BAD_CODE, Fault::Node, format!("the sandbox could not be made: {why}"))
                })
            }
        })
    }
}

/// What one kind of work may take of the node's memory at most: there is room for the others.
fn half_of(memory: &MemoryBudget) -> MemoryBudget {
    memory.part(memory.bytes_max() / 2)
}

/// Waits for the disk elsewhere than in the runtime's threads.
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

/// Whether its names can be said, and what it declares is there.
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

fn choose_port(address: SocketAddr) -> Result<SocketAddr, StartError> {
    if address.port() != 0 {
        return Ok(address);
    }
    // Asked for and let go again: the system does not give a port out twice in a row.
    let probe = std::net::TcpListener::bind(address).and_then(|listener| listener.local_addr());
    probe.map_err(|why| NetError::Listen { address: address.to_string(), reason: why.to_string() }.into())
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
    Ok(Some(format!("{host}:{port}")))
}

fn unix_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
