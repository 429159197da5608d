//! All links of one node: dialling, accepting, closing.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::awake;
use crate::config::EndpointConfig;
use crate::egress::{Egress, Writer};
use crate::flusher::flush;
use crate::hello::{self, Hello};
use crate::ingress::Ingress;
use crate::message::{Handler, Identity, Place};
use crate::pipe::Pipe;
use crate::registry::Registry;
use crate::slots::{Slot, Slots};
use crate::ticker::Ticker;
use crate::transport::{Listener, Opening};
use crate::{FrameError, Link, LinkError, MemoryBudget, NetError};

/// How long to wait when the system refuses to accept (out of file descriptors), instead of asking again at once.
const ACCEPT_PAUSE_MS: u64 = 50;
/// How long a caller that speaks another version may take to read which version this is.
const FAREWELL_MS_MAX: u64 = 1_000;
/// How many bytes such a caller may still send meanwhile.
const FAREWELL_BYTES_MAX: u64 = 1 << 20;

/// A node's end of all its links. Cheap to clone; when the last clone is dropped, all links end.
#[derive(Clone)]
pub struct Endpoint {
    hub: Arc<Hub>,
}

struct Hub {
    config: Arc<EndpointConfig>,
    identity: Identity,
    /// The hello for links from now on, in place of the identity's.
    greeting: Mutex<Bytes>,
    handler: Arc<dyn Handler>,
    registry: Mutex<Registry>,
    /// One slot for each link, for as long as its reader task lives.
    slots: Arc<Slots>,
    /// By remote site. Only sites that the topology names have one, so peers cannot make this grow.
    pipes: Mutex<HashMap<String, Arc<Pipe>>>,
    ticker: Option<Arc<Ticker>>,
    next_id: AtomicU64,
    local_address: Option<SocketAddr>,
    accepting: Mutex<Option<JoinHandle<()>>>,
}

/// An endpoint that has its port, if it is to listen, and greets nobody yet: what it will say of itself may name the port.
pub struct BoundEndpoint {
    config: EndpointConfig,
    listener: Option<Box<dyn Listener>>,
}

impl BoundEndpoint {
    /// Where it will listen, with the port that the system chose; `None` if it will only dial.
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.listener.as_ref().and_then(|listener| listener.local_address().ok())
    }

    /// Opens the endpoint: from now on it is who this identity says. Needs a tokio runtime.
    ///
    /// # Errors
    /// The site's name is empty or too long, or the hello is longer than peers accept.
    pub fn start(self, identity: Identity, handler: Arc<dyn Handler>) -> Result<Endpoint, NetError> {
        check_identity(&self.config, &identity)?;
        let local_address = self.local_address();
        let (config, listener) = (Arc::new(self.config), self.listener);
        let hub = Arc::new(Hub {
            greeting: Mutex::new(identity.hello.clone()),
            identity,
            handler,
            registry: Mutex::default(),
            slots: Slots::new(Arc::clone(&config)),
            pipes: Mutex::default(),
            ticker: (config.sharp_shaping && config.topology.is_some()).then(|| Arc::new(Ticker::start())),
            next_id: AtomicU64::new(1),
            local_address,
            accepting: Mutex::default(),
            config,
        });
        if let Some(listener) = listener {
            *lock(&hub.accepting) = Some(tokio::spawn(accept(Arc::downgrade(&hub), listener)));
        }
        Ok(Endpoint { hub })
    }
}

impl Endpoint {
    /// Takes the port of an endpoint that is to listen. Callers wait until [`BoundEndpoint::start`]. Needs a tokio runtime.
    ///
    /// # Errors
    /// The port is in use, the system refuses, or the configuration contradicts itself.
    pub async fn bind(config: EndpointConfig) -> Result<BoundEndpoint, NetError> {
        config.check()?;
        let listener = match config.listen {
            Some(address) => Some(listen(&config, address).await?),
            None => None,
        };
        Ok(BoundEndpoint { config, listener })
    }

    /// Where it listens, with the port that the system chose; `None` if it only dials.
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.hub.local_address
    }

    /// Who this endpoint says it is.
    pub fn identity(&self) -> &Identity {
        &self.hub.identity
    }

    /// From now on greets new links with this hello instead.
    ///
    /// # Errors
    /// It is longer than peers accept.
    pub fn set_hello(&self, hello: Bytes) -> Result<(), NetError> {
        let identity = Identity { hello, ..self.hub.identity.clone() };
        check_identity(&self.hub.config, &identity)?;
        *lock(&self.hub.greeting) = identity.hello;
        Ok(())
    }

    /// The budget for the memory of its links; other parts that keep much charge it too.
    pub fn memory(&self) -> &MemoryBudget {
        &self.hub.config.memory
    }

    /// The live link that was dialled to this place, or a new one. Concurrent callers share one dial.
    ///
    /// Returns when connected, before the peer's hello: [`Link::introduced`] waits for that. Cancel-safe: the dial goes
    /// on for the others.
    ///
    /// # Errors
    /// Nobody answers there, in time or at all; too many links; this endpoint was closed.
    pub async fn link(&self, place: &Place) -> Result<Arc<Link>, NetError> {
        let mut dial = {
            let mut registry = lock(&self.hub.registry);
            if registry.closed {
                return Err(NetError::Closed);
            }
            if let Some(link) = registry.at_place(place) {
                return Ok(link);
            }
            match registry.dials.get(place) {
                Some(dial) => dial.clone(),
                None => {
                    let (result, dial) = watch::channel(None);
                    registry.dials.insert(place.clone(), dial.clone());
                    tokio::spawn(dial_and_tell(Arc::clone(&self.hub), place.clone(), result));
                    dial
                }
            }
        };
        let result = dial.wait_for(Option::is_some).await.map_err(|_| NetError::Closed)?;
        result.clone().unwrap_or(Err(NetError::Closed))
    }

    /// The link to the node at this place, once it has said who it is: not the one dialled, if the node was linked already.
    ///
    /// # Errors
    /// As for [`Endpoint::link`]; or the link ended before.
    pub async fn link_introduced(&self, place: &Place) -> Result<Arc<Link>, NetError> {
        let link = self.link(place).await?;
        let Err(why) = link.introduced().await else { return Ok(link) };
        let other = lock(&self.hub.registry).at_place(place).filter(|other| other.identity().is_some());
        other.ok_or(NetError::Lost(why))
    }

    /// The live link to this node, whichever side opened it, once its hello has come. There is at most one: see [`Hello::taken`].
    pub fn link_to_node(&self, node: u64) -> Option<Arc<Link>> {
        lock(&self.hub.registry).to_node(node)
    }

    /// All links, including those not introduced yet.
    pub fn links(&self) -> Vec<Arc<Link>> {
        lock(&self.hub.registry).all()
    }

    /// Stops accepting and dialling, sends what is queued, and closes. Links that have not finished within `grace` are
    /// cut. Returns when every link's handler call is done, and the address that was listened on is free.
    pub async fn close(&self, grace: Duration) {
        let accepting = lock(&self.hub.accepting).take();
        if let Some(task) = accepting {
            task.abort();
            // The socket lives until the task has been dropped.
            let _ = task.await;
        }
        lock(&self.hub.registry).closed = true;
        let links = self.links();
        links.iter().for_each(|link| link.begin_close());
        let finished = async {
            for link in &links {
                link.done.wait().await;
            }
        };
        if timeout(grace, finished).await.is_err() {
            links.iter().for_each(|link| link.end(LinkError::Closed { peer: link.peer.clone() }));
            for link in &links {
                link.done.wait().await;
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn check_identity(config: &EndpointConfig, identity: &Identity) -> Result<(), NetError> {
    let bad = |what: String| Err(NetError::Config { what });
    if identity.site.as_ref().is_some_and(|site| site.is_empty() || site.len() > 255) {
        return bad("a site's name must have between 1 and 255 bytes".to_owned());
    }
    let bytes = identity.hello.len();
    if bytes + hello::OVERHEAD_BYTES_MAX > config.hello_bytes_max as usize {
        return bad(format!("a hello of {bytes} bytes; hello_bytes_max = {}", config.hello_bytes_max));
    }
    Ok(())
}

async fn listen(config: &EndpointConfig, address: SocketAddr) -> Result<Box<dyn Listener>, NetError> {
    config.transport.listen(address).await.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => NetError::AddressInUse { address: address.to_string() },
        _ => NetError::Listen { address: address.to_string(), reason: error.to_string() },
    })
}

async fn dial_and_tell(hub: Arc<Hub>, place: Place, result: watch::Sender<Option<Result<Arc<Link>, NetError>>>) {
    let outcome = dial(&hub, &place).await;
    lock(&hub.registry).dials.remove(&place);
    // All who asked may be gone.
    let _ = result.send(Some(outcome));
}

async fn dial(hub: &Arc<Hub>, place: &Place) -> Result<Arc<Link>, NetError> {
    let id = hub.new_id();
    let address = place.address.clone();
    let no_memory = |why| NetError::NoMemory { address: place.address.clone(), why };
    let mut slot = hub.slots.take(&address, false).map_err(|why| match why {
        LinkError::NoMemory { why, .. } => no_memory(why),
        _ => NetError::TooManyLinks { address: address.clone(), links_max: hub.config.links_max },
    })?;
    let connect_timeout_ms = hub.config.connect_timeout_ms;
    let connection = timeout(Duration::from_millis(connect_timeout_ms), hub.config.transport.dial(&address))
        .await
        .map_err(|_| NetError::ConnectTimeout { address: address.clone(), connect_timeout_ms })?
        .map_err(|error| NetError::Unreachable { address, reason: error.to_string() })?;
    if let Some(host) = connection.host {
        slot.move_to(host).map_err(no_memory)?;
    }
    let pipe = hub.pipe_to(place.site.as_deref());
    let ingress = Ingress::new(connection.reader, connection.peer.clone());
    let (link, last) = hub.open(id, connection.writer, (connection.peer, connection.host), Some(place), pipe, slot)?;
    tokio::spawn(flush(Arc::clone(&link), hub.ticker.clone()));
    tokio::spawn(run_dialled(Arc::downgrade(hub), last, ingress));
    Ok(link)
}

/// The reader task of a link that this side dialled.
async fn run_dialled(hub: Weak<Hub>, mut last: Retirement, mut ingress: Ingress) {
    last.told = true;
    let link = Arc::clone(&last.link);
    let introduced = async {
        loop {
            let hello = ingress.read_hello(&link.config).await?;
            let Some(hub) = hub.upgrade() else { return Err(LinkError::Closed { peer: link.peer.clone() }) };
            if hub.take_in(&link, hello)? {
                return Ok(());
            }
        }
    };
    let introduced = tokio::select! {
        biased;
        introduced = introduced => introduced,
        why = link.ended.wait() => Err(why.clone()),
    };
    match introduced {
        Ok(()) => run(&*last.handler, &link, ingress).await,
        Err(why) => link.end(why),
    }
}

/// Accepts callers until the endpoint is gone.
async fn accept(hub: Weak<Hub>, mut listener: Box<dyn Listener>) {
    loop {
        let caller = listener.accept().await;
        let Some(hub) = hub.upgrade() else { return };
        match caller {
            Ok((peer, opening)) => match hub.slots.take(&peer, true) {
                Ok(slot) => {
                    let handler = Arc::clone(&hub.handler);
                    let config = Arc::clone(&hub.config);
                    tokio::spawn(run_accepted(Arc::downgrade(&hub), handler, config, peer, opening, slot));
                }
                Err(why) => hub.handler.on_refused(&why),
            },
            Err(error) => {
                tracing::warn!(%error, "cannot accept a caller");
                drop(hub);
                tokio::time::sleep(Duration::from_millis(ACCEPT_PAUSE_MS)).await;
            }
        }
    }
}

/// The reader task of a link that the peer dialled.
async fn run_accepted(
    hub: Weak<Hub>,
    handler: Arc<dyn Handler>,
    config: Arc<EndpointConfig>,
    peer: String,
    opening: Opening,
    slot: Slot,
) {
    let hello_timeout_ms = config.hello_timeout_ms;
    let connection = match timeout(Duration::from_millis(hello_timeout_ms), opening).await {
        Ok(Ok(connection)) => connection,
        Ok(Err(error)) => return handler.on_refused(&LinkError::io(&peer, &error)),
        Err(_) => return handler.on_refused(&LinkError::NoHello { peer, hello_timeout_ms }),
    };
    let mut ingress = Ingress::new(connection.reader, connection.peer.clone());
    let hello = match ingress.read_hello(&config).await {
        Ok(hello) => hello,
        Err(why) => {
            handler.on_refused(&why);
            return turn_away(&why, ingress, connection.writer).await;
        }
    };
    let Some(strong) = hub.upgrade() else { return };
    let node = hello.identity.node;
    if node == strong.identity.node {
        return handler.on_refused(&LinkError::Taken { peer, node });
    }
    let pipe = strong.pipe_to(hello.identity.site.as_deref());
    let (id, caller) = (strong.new_id(), (connection.peer, connection.host));
    let Ok((link, mut last)) = strong.open(id, connection.writer, caller, None, pipe, slot) else { return };
    let mut welcome = strong.claim(&link, &hello);
    if welcome.is_err() {
        link.greet(strong.hello(true));
    }
    tokio::spawn(flush(Arc::clone(&link), strong.ticker.clone()));
    drop(strong);
    if let Err(mut first) = welcome {
        loop {
            if !gives_way(&first, &link).await {
                let why = LinkError::Taken { peer: link.peer.clone(), node };
                handler.on_refused(&why);
                return link.end(why);
            }
            let Some(strong) = hub.upgrade() else { return };
            welcome = strong.claim(&link, &hello);
            match welcome {
                Ok(()) => break,
                Err(next) => first = next,
            }
        }
    }
    last.told = true;
    run(&*handler, &link, ingress).await;
}

/// Whether the first link to a node ends in time to make way for another that claims the same node.
///
/// A peer at the same address as the first is probably the same node, which has lost the first link on its side: then it is enough that the first is silent for
/// `takeover_ms` although it is pinged. A peer at another address may be anybody: the first link then has its full time to be lost by itself.
async fn gives_way(first: &Arc<Link>, other: &Arc<Link>) -> bool {
    let takeover_ms = first.config.takeover_ms;
    let received = || first.counters.bytes_received.load(Relaxed);
    let before = received();
    first.ping_now();
    tokio::select! {
        biased;
        _ = other.ended.wait() => return false,
        _ = first.done.wait() => return true,
        () = awake::sleep(Duration::from_millis(takeover_ms)) => {}
    }
    if received() != before || first.host() != other.host() {
        return false;
    }
    first.end(LinkError::Silent { peer: first.peer.clone(), silent_ms: takeover_ms });
    first.done.wait().await;
    true
}

/// Tells a caller of another version which version this is, and lets it read that.
async fn turn_away(why: &LinkError, ingress: Ingress, mut writer: Writer) {
    if !matches!(why, LinkError::Misbehaved { what: FrameError::Version { .. }, .. }) {
        return;
    }
    let farewell = async {
        writer.write_all(&hello::encode_prefix()).await?;
        writer.shutdown().await?;
        // Closing with unread bytes would reset the connection, and the caller might never see the version.
        tokio::io::copy(&mut ingress.reader.take(FAREWELL_BYTES_MAX), &mut tokio::io::sink()).await
    };
    // Best effort: the caller is turned away in any case.
    let _ = timeout(Duration::from_millis(FAREWELL_MS_MAX), farewell).await;
}

/// From the introduction to the end of the link.
async fn run(handler: &dyn Handler, link: &Arc<Link>, ingress: Ingress) {
    handler.on_link(link);
    // Measured at once, so that the round trip is known early.
    link.ping_now();
    let why = tokio::select! {
        biased;
        why = ingress.deliver(link, handler) => why,
        why = link.ended.wait() => why.clone(),
    };
    link.end(why);
}

/// The last thing that a reader task does, even if a handler has panicked in it: otherwise the link would seem alive for ever.
struct Retirement {
    hub: Weak<Hub>,
    handler: Arc<dyn Handler>,
    link: Arc<Link>,
    slot: Option<Slot>,
    /// Whether anybody knows of the link.
    told: bool,
}

impl Drop for Retirement {
    fn drop(&mut self) {
        self.link.end(LinkError::Closed { peer: self.link.peer.clone() });
        if let Some(hub) = self.hub.upgrade() {
            lock(&hub.registry).remove(&self.link);
        }
        self.slot = None;
        if self.told {
            self.tell();
        }
        // Cannot fail: only this task sets it.
        let _ = self.link.done.set(());
    }
}

impl Retirement {
    /// Tells the handler that the link is lost. If it has panicked, it is told in a task of its own: a panic within a panic would end the process.
    fn tell(&self) {
        let (handler, link) = (Arc::clone(&self.handler), Arc::clone(&self.link));
        let tell = move || link.ended().into_iter().for_each(|why| handler.on_link_lost(&link, why));
        if !std::thread::panicking() {
            tell();
        } else if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { tell() });
        }
    }
}

impl Hub {
    /// The pipe to a site, if links to it are shaped.
    fn pipe_to(&self, site: Option<&str>) -> Option<Arc<Pipe>> {
        let shape = self.config.topology.as_ref()?.between(self.identity.site.as_deref()?, site?)?;
        let mut pipes = lock(&self.pipes);
        let pipe = pipes.entry(site?.to_owned()).or_insert_with(|| Arc::new(Pipe::new(shape)));
        Some(Arc::clone(pipe))
    }

    /// The hello that this endpoint sends.
    fn hello(&self, taken: bool) -> Hello {
        let identity = Identity { hello: lock(&self.greeting).clone(), ..self.identity.clone() };
        Hello { identity, limits: self.config.limits, taken }
    }

    /// The number for a link that begins now: when it is dialled, before there is a connection; when it is accepted, once the peer has said who it is.
    fn new_id(&self) -> u64 {
        self.next_id.fetch_add(1, Relaxed)
    }

    /// Makes the link and registers it. One that this side dialled can be found from now on: nothing is sent over it before the hello.
    fn open(
        self: &Arc<Self>,
        id: u64,
        writer: Writer,
        peer: (String, Option<IpAddr>),
        place: Option<&Place>,
        pipe: Option<Arc<Pipe>>,
        mut slot: Slot,
    ) -> Result<(Arc<Link>, Retirement), NetError> {
        // Every slot is created with a lease.
        let lease = slot.lease.take().ok_or(NetError::Closed)?;
        let egress = Egress::new(id, writer, pipe, lease);
        let link = Link::new(id, peer, place.cloned(), Arc::clone(&self.config), slot.memory.clone(), egress);
        if place.is_some() {
            link.greet(self.hello(false));
        }
        let mut registry = lock(&self.registry);
        if registry.closed {
            return Err(NetError::Closed);
        }
        registry.add(&link);
        let (hub, handler) = (Arc::downgrade(self), Arc::clone(&self.handler));
        let last = Retirement { hub, handler, link: Arc::clone(&link), slot: Some(slot), told: false };
        Ok((link, last))
    }

    /// Makes this the link to the node that the peer says it is, unless there is another live one. One that the peer dialled can be found once the registry is
    /// unlocked: nothing is sent over it before the hello.
    fn claim(&self, link: &Arc<Link>, hello: &Hello) -> Result<(), Arc<Link>> {
        let mut registry = lock(&self.registry);
        registry.claim(link, hello.identity.node)?;
        if link.place.is_none() {
            link.greet(self.hello(false));
        }
        link.introduce(hello.clone(), self.pipe_to(hello.identity.site.as_deref()));
        let node = hello.identity.node;
        for other in registry.replace_refused(link, node) {
            other.end(LinkError::Taken { peer: other.peer.clone(), node });
        }
        Ok(())
    }

    /// Evaluates the hello of the peer on a link that this side dialled. Returns whether the link is welcome there, or has to wait.
    ///
    /// # Errors
    /// There is another link to this node, which is kept instead.
    fn take_in(&self, link: &Arc<Link>, hello: Hello) -> Result<bool, LinkError> {
        let node = hello.identity.node;
        let first = match hello.taken {
            false => self.claim(link, &hello).err(),
            true => lock(&self.registry).to_node(node),
        };
        let Some(first) = first else {
            // The peer says that another link has taken this node's number, but none is alive here: it is on its way, or the peer will notice its loss too.
            if hello.taken {
                let _ = link.refused_by.set(node);
            }
            return Ok(!hello.taken);
        };
        // Both sides dialled at the same time, and both links are welcome: each side keeps the one that was dialled by the lower node number.
        let crossed = first.place.is_none() && first.id > link.id;
        let outlived = !crossed && first.host() == link.host();
        if !hello.taken && (outlived || (crossed && self.identity.node < node)) {
            if outlived {
                first.end(LinkError::PeerClosed { peer: first.peer.clone(), mid_message: false });
            }
            lock(&self.registry).prefer(link, node);
            let pipe = self.pipe_to(hello.identity.site.as_deref());
            link.introduce(hello, pipe);
            return Ok(true);
        }
        if let Some(place) = &link.place {
            lock(&self.registry).also_at(place, &first);
        }
        Err(LinkError::Taken { peer: link.peer.clone(), node })
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        if let Some(task) = lock(&self.accepting).take() {
            task.abort();
        }
        for link in lock(&self.registry).all() {
            link.end(LinkError::Closed { peer: link.peer.clone() });
        }
    }
}
