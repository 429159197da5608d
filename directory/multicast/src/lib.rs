//! Service IDs by multicast, as ARP finds addresses: no configuration, no server. Nodes on one network hear what the others serve, ask for what they do not
//! know, and remember the answers for a while.
//!
//! Anybody on the network may speak. So what is heard is a hint, like every answer of a [`Resolver`]: the node at the address is asked who it is before
//! anything is sent to it. A liar can only draw callers to a node of its own, which whoever can link to the mesh can do anyway; it cannot speak for others,
//! fill the memory, or make nodes dial beyond its own network.
#![forbid(unsafe_code)]

mod datagram;
mod machine;

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use catena_directory::{Announcement, Answer, Changed, Location, NodeId, ResolveError, Resolver};
use machine::{DELAY_MS_MAX, Heard, Machine, Ms};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::{net::UdpSocket, sync::Notify, task::AbortHandle};

/// Administratively scoped (RFC 2365): routers keep it on the local network.
pub const GROUP: Ipv4Addr = Ipv4Addr::new(239, 255, 74, 0);
/// The port that all nodes of one network share.
pub const PORT: u16 = 7_401;

/// How long an answer is waited for, in all, and when the question is asked again: a datagram may get lost.
const WAIT: Duration = Duration::from_millis(500);
const ASK_AGAIN: Duration = Duration::from_millis(150);

/// Where to listen and what to believe.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MulticastConfig {
    /// The address of the interface; `0.0.0.0`: as the system chooses.
    pub interface: Ipv4Addr,
    /// The group.
    pub group: Ipv4Addr,
    /// The port.
    pub port: u16,
    /// Whether addresses outside the sender's part of the network are accepted.
    pub any_address: bool,
}

impl Default for MulticastConfig {
    fn default() -> Self {
        Self { interface: Ipv4Addr::UNSPECIFIED, group: GROUP, port: PORT, any_address: false }
    }
}

/// The services of the local network.
pub struct MulticastResolver {
    inner: Arc<Inner>,
    task: AbortHandle,
}

struct Inner {
    socket: UdpSocket,
    to: SocketAddr,
    began: Instant,
    machine: Mutex<Machine>,
    /// Notified when there is something to send, or to send earlier.
    wake: Notify,
    /// Notified when something was heard.
    heard: Notify,
    watcher: OnceLock<Changed>,
    also: Mutex<Vec<(String, String)>>,
    random: RandomState,
}

impl MulticastResolver {
    /// Joins the group. Needs a tokio runtime.
    ///
    /// # Errors
    /// The interface is not there, or takes no multicast: some containers allow none.
    pub fn open(config: &MulticastConfig) -> Result<Self, ResolveError> {
        let socket = open(config).map_err(|why| {
            let MulticastConfig { interface, group, port, .. } = config;
            let message = format!("multicast on {interface} ({group}:{port}) is not to be had: {why}; name another `interface`, or leave it out");
            ResolveError(message)
        })?;
        let inner = Arc::new(Inner {
            socket,
            to: SocketAddr::V4(SocketAddrV4::new(config.group, config.port)),
            began: Instant::now(),
            machine: Mutex::new(Machine::new(config.any_address)),
            wake: Notify::new(),
            heard: Notify::new(),
            watcher: OnceLock::new(),
            also: Mutex::default(),
            random: RandomState::new(),
        });
        let task = tokio::spawn(serve(Arc::clone(&inner))).abort_handle();
        Ok(Self { inner, task })
    }

    /// Datagrams that were ignored or not sent: those of liars, those of other versions, and those beyond what a node may send in a second.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.inner.machine().dropped
    }

    /// Also announces something that is not a service of this node, as long as the node has services: where a directory is, for nodes without configuration.
    pub fn tell_of(&self, service: &str, address: &str) {
        let also = (service.to_owned(), address.to_owned());
        self.inner.also.lock().unwrap_or_else(PoisonError::into_inner).push(also);
    }

    /// The addresses announced for a service, those that were announced first coming first.
    pub async fn addresses(&self, service: &str) -> Vec<String> {
        let found = self.resolve(service, &[]).await.unwrap_or_default();
        let address = |location| match location {
            Location::At { address, .. } => Some(address),
            Location::Known(_) => None,
        };
        found.at.into_iter().filter_map(address).collect()
    }
}

impl Drop for MulticastResolver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn open(config: &MulticastConfig) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    // All nodes of one machine share the port.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SocketAddr::V4(SocketAddrV4::new(config.group, config.port)).into())?;
    socket.join_multicast_v4(&config.group, &config.interface)?;
    if !config.interface.is_unspecified() {
        socket.set_multicast_if_v4(&config.interface)?;
    }
    socket.set_multicast_loop_v4(true)?;
    socket.set_multicast_ttl_v4(1)?;
    UdpSocket::from_std(socket.into())
}

impl Inner {
    fn machine(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Ms {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// A delay that differs from node to node; it needs no other property.
    fn delay_ms(&self) -> u64 {
        let mut hasher = self.random.build_hasher();
        hasher.write_u64(self.now());
        hasher.finish() % (DELAY_MS_MAX + 1)
    }

    fn take(&self, sender: IpAddr, bytes: &[u8]) {
        let news = self.machine().on_datagram(self.now(), sender, bytes, self.delay_ms());
        if let Some(changed) = self.watcher.get() {
            news.iter().for_each(|service| changed(service));
        }
        if !news.is_empty() {
            self.heard.notify_waiters();
        }
    }
}

async fn serve(inner: Arc<Inner>) {
    let mut buffer = vec![0; 2 * datagram::DATAGRAM_BYTES_MAX];
    loop {
        let (send, next) = {
            let mut machine = inner.machine();
            (machine.poll(inner.now()), machine.next_timeout())
        };
        for bytes in send {
            // If the network is down it will be back, and whoever still wants to know asks again.
            let _ = inner.socket.send_to(&bytes, inner.to).await;
        }
        let wait = next.map_or(Duration::from_secs(3_600), |at| Duration::from_millis(at.saturating_sub(inner.now())));
        tokio::select! {
            came = inner.socket.recv_from(&mut buffer) => match came {
                Ok((bytes, sender)) => inner.take(sender.ip(), &buffer[..bytes]),
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            },
            () = inner.wake.notified() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}

#[async_trait]
impl Resolver for MulticastResolver {
    fn name(&self) -> &str {
        "multicast"
    }

    async fn resolve(&self, service: &str, avoid: &[NodeId]) -> Result<Answer, ResolveError> {
        if service.len() > datagram::NAME_BYTES_MAX {
            return Ok(Answer::default());
        }
        let inner = &self.inner;
        let known = || {
            let all = inner.machine().known(inner.now(), service);
            let good = all.iter().any(|one| !avoid.contains(&NodeId(one.run)));
            (all, good)
        };
        if let (all, true) = known() {
            return Ok(answer(inner.now(), &all, false));
        }
        let asked = async {
            loop {
                let next = inner.heard.notified();
                tokio::pin!(next);
                // Registered before asking, so that no answer is missed in between.
                next.as_mut().enable();
                if let (all, true) = known() {
                    return all;
                }
                inner.machine().ask(inner.now(), service);
                inner.wake.notify_one();
                let _ = tokio::time::timeout(ASK_AGAIN, next).await;
            }
        };
        match tokio::time::timeout(WAIT, asked).await {
            Ok(all) => Ok(answer(inner.now(), &all, true)),
            // Instances to be avoided are returned as well, since they are all that is known.
            Err(_) => Ok(answer(inner.now(), &known().0, true)),
        }
    }

    async fn announce(&self, own: &Announcement) -> Result<(), ResolveError> {
        // Nobody can dial a node without an address.
        let address = own.node.address.clone();
        let entries = own.services.iter().filter_map(|entry| Some((entry.service.clone(), address.clone()?)));
        let entries = entries.filter(|(service, _)| service.len() <= datagram::NAME_BYTES_MAX);
        let also = self.inner.also.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let also = also.into_iter().filter(|_| !own.services.is_empty());
        self.inner.machine().announce(self.inner.now(), &own.node.name, own.node.id.0, entries.chain(also).collect());
        self.inner.wake.notify_one();
        if own.services.is_empty() {
            // Sent now, before the node is gone.
            let bytes = self.inner.machine().poll(self.inner.now());
            for bytes in bytes {
                let _ = self.inner.socket.send_to(&bytes, self.inner.to).await;
            }
        }
        Ok(())
    }

    fn watch(&self, changed: Changed) {
        let _ = self.inner.watcher.set(changed);
    }

    /// Whoever is on the network speaks.
    fn is_trusted(&self) -> bool {
        false
    }
}

fn answer(now: Ms, all: &[Heard], fresh: bool) -> Answer {
    let at = |one: &Heard| Location::At {
        address: one.address.clone(),
        node: Some(one.node.clone()),
        run: Some(NodeId(one.run)),
    };
    let since = |one: &Heard| Duration::from_millis(now.saturating_sub(one.at));
    let left = |one: &Heard| Duration::from_millis(one.until.saturating_sub(now));
    Answer {
        at: all.iter().map(at).collect(),
        age: all.iter().map(since).max().filter(|_| !fresh),
        ttl: all.iter().map(left).min(),
        note: (all.len() > 1)
            .then(|| format!("{} nodes say that they serve it; the first to say so is called", all.len())),
    }
}
