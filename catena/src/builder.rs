//! Making nodes and clients.

use std::{
    collections::HashMap,
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use catena_core::{Node as Core, Policy};
use catena_guest::{Limits, Sandbox, SandboxConfig};
use catena_net::{Endpoint, EndpointConfig, Identity, NetError, Place, Topology};
use catena_wire::{Exception, Fault, Hello, NAME_BYTES_MAX, NodeId, NodeRef, ServiceEntry, names};

use crate::{
    Client, Node, Service,
    shell::{Ears, MakeSandbox, Parts, Shell},
};

/// Largest function that rides along with its first hop over a link; a larger one is fetched.
const CODE_RIDE_BYTES_MAX: usize = 64 << 10;
/// Functions that a node keeps.
const STORE_BYTES_MAX: usize = 64 << 20;

/// Why a node or client did not start.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StartError {
    /// A socket could not be had, or the first node could not be reached.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The address to listen on cannot be read.
    #[error("cannot listen on {0:?}: write it as host:port, such as 127.0.0.1:7400")]
    Address(String),
    /// A name is empty or too long.
    #[error("{0:?} is no name: names have 1 to {NAME_BYTES_MAX} bytes and no slash")]
    Name(String),
    /// Two services of one node have the same name.
    #[error("two services are called {0}; a node's services need different names")]
    Twice(String),
}

/// Settings of a node; [`crate::Node::builder`] begins one.
pub struct NodeBuilder {
    name: String,
    site: Option<String>,
    listen: Option<String>,
    join: Vec<Place>,
    services: Vec<Service>,
    topology: Option<Arc<Topology>>,
    policy: Policy,
    sandbox: SandboxSource,
    repository: bool,
}

enum SandboxSource {
    Own { limits: Limits, cache_dir: Option<PathBuf> },
    Shared(Sandbox),
}

impl NodeBuilder {
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            site: None,
            listen: None,
            join: Vec::new(),
            services: Vec::new(),
            topology: None,
            policy: Policy::default(),
            sandbox: SandboxSource::Own { limits: Limits::default(), cache_dir: None },
            repository: false,
        }
    }

    /// Where the node is, for shaped links and for people.
    #[must_use]
    pub fn site(mut self, site: impl Into<String>) -> Self {
        self.site = Some(site.into());
        self
    }

    /// Listens on `host:port`; port 0 lets the system choose. Without it the node only dials.
    #[must_use]
    pub fn listen(mut self, address: impl Into<String>) -> Self {
        self.listen = Some(address.into());
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

    /// The bounds of the protocol.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// The bounds of each guest.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.sandbox = SandboxSource::Own { limits, cache_dir: None };
        self
    }

    /// Uses a sandbox that other nodes of this process use too.
    #[must_use]
    pub fn sandbox(mut self, sandbox: Sandbox) -> Self {
        self.sandbox = SandboxSource::Shared(sandbox);
        self
    }

    /// Keeps functions for all nodes of the mesh (rpc-chains section 3.2).
    #[must_use]
    pub fn repository(mut self) -> Self {
        self.repository = true;
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

    async fn open(self) -> Result<Arc<Shell>, StartError> {
        let listen = self.listen.as_deref().map(resolve).transpose()?;
        let services = by_name(self.services)?;
        check_name(&self.name)?;
        // The address is part of who it is, so the port must be known before: it is chosen here if the system may choose.
        let listen = listen.map(choose_port).transpose()?;
        let me = NodeRef {
            id: NodeId(random()),
            name: self.name,
            address: listen.map(|address| address.to_string()),
            site: self.site.clone(),
        };
        let entries: Vec<_> = services.values().map(|service| entry(service, &me)).collect();
        let hello = Hello { node: me.clone(), services: entries, repository: self.repository }.encode();
        let identity = Identity { node: me.id.0, site: self.site, hello: hello.into() };
        let mut core = Core::new(me.clone(), self.policy, unix_us());
        for service in services.values() {
            core.serve(service.name(), service.functions());
        }
        if self.repository {
            core.set_repository(me);
        }
        let shell = Shell::new(Parts {
            core,
            began: Instant::now(),
            services,
            make_sandbox: self.sandbox.maker(),
            store_bytes_max: STORE_BYTES_MAX,
            code_ride_bytes_max: CODE_RIDE_BYTES_MAX,
        });
        let config = EndpointConfig { listen, topology: self.topology, ..EndpointConfig::default() };
        let endpoint = Endpoint::bind(config, identity, Arc::new(Ears::new(&shell))).await?;
        shell.connect(endpoint);
        Ok(shell)
    }
}

impl SandboxSource {
    fn maker(self) -> MakeSandbox {
        Box::new(move || match &self {
            Self::Shared(sandbox) => Ok(sandbox.clone()),
            Self::Own { limits, cache_dir } => {
                let config =
                    SandboxConfig { limits: limits.clone(), cache_dir: cache_dir.clone(), ..SandboxConfig::default() };
                Sandbox::new(config).map_err(|why| {
                    Exception::new(names::BAD_CODE, Fault::Node, format!("the sandbox could not be made: {why}"))
                })
            }
        })
    }
}

fn by_name(services: Vec<Service>) -> Result<HashMap<String, Service>, StartError> {
    let mut named = HashMap::new();
    for service in services {
        check_name(service.name())?;
        let name = service.name().to_owned();
        if named.insert(name.clone(), service).is_some() {
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

fn entry(service: &Service, node: &NodeRef) -> ServiceEntry {
    ServiceEntry {
        service: service.name().to_owned(),
        functions: service.functions().map(str::to_owned).collect(),
        node: node.clone(),
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

/// A number for this run of the node, from the process's own random keys.
fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

fn unix_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
