//! The mesh: a node that joins one node of a mesh is soon linked with all, and each knows what the others serve.
//!
//! What a peer announces counts for itself only, and only while its link is up. About other nodes, only nodes that this node dialled are believed: those that
//! it joins, and those that they name.

use std::{
    collections::{BTreeSet, HashSet},
    sync::{Arc, Weak},
    time::Duration,
};

use catena_core::{Instance, Policy};
use catena_net::{Link, LogLimit, Measured, NetError, Place, awake};
use catena_wire::{Hello, Message, NodeId, NodeRef, ServiceEntry};
use futures_util::{StreamExt, future::BoxFuture, stream::FuturesUnordered};

use super::{Shell, offered::News};

/// How long a peer may take to answer a listing.
const LISTING_TIMEOUT: Duration = Duration::from_secs(3);
/// How long it may take until a link's greeting has been handled.
const GREETING_TIMEOUT: Duration = Duration::from_secs(3);
/// The most nodes that are kept linked.
const LINKED_MAX: usize = 256;
/// The most services that one node may announce; further ones are ignored.
pub(super) const SERVICES_PER_PEER_MAX: usize = 256;
/// The most entries of one listing, sent or received.
pub(super) const LISTING_ENTRIES_MAX: usize = 4_096;
/// For how long a service counts as one without its proxy after the proxy could not be reached.
const PROXY_AGAIN: Duration = Duration::from_secs(10);
/// How often a place that is linked is asked which nodes of the mesh there are.
const LIST_EVERY: Duration = Duration::from_secs(1);
/// The bounds of [`dial_pause`]: a place that refuses every link is not dialled without a pause, and one that was down is linked soon after it is back.
const DIAL_PAUSE_MIN: Duration = Duration::from_millis(10);
const DIAL_PAUSE_MAX: Duration = Duration::from_secs(1);

/// Limits log lines about peers that say that they keep functions, since anyone can say so.
static REPOSITORIES: LogLimit = LogLimit::new();

impl Shell {
    /// Whether a peer that greets as this node may be accepted as such.
    pub(super) fn may_greet(&self, node: &NodeRef, link_says: u64) -> Result<(), &'static str> {
        if node.id.0 != link_says {
            return Err("it greets under two numbers");
        }
        if node.id == self.me.id || self.peers.is_another(node) {
            return Err("it greets under another node's number");
        }
        Ok(())
    }

    /// Handles a peer's greeting.
    pub(super) fn greet(self: &Arc<Self>, link: &Arc<Link>, mut hello: Hello) {
        let own = hello.node.clone();
        hello.services.retain(|entry| entry.node == own);
        hello.services.truncate(SERVICES_PER_PEER_MAX);
        if hello.repository
            && link.place().is_none()
            && let Some(left_out) = REPOSITORIES.pass()
        {
            let peer = &own.name;
            tracing::info!(
                peer,
                left_out,
                "it says that it keeps functions; this node gives it some only if it joins it"
            );
        }
        let (node, news) = self.peers.greet(link, hello);
        self.learn_services(&node, &news);
        let way = self.way_to(&node);
        self.note_linked(node.id);
        if let Some(way) = way {
            self.core().on_link_measured(node.id, way);
        }
        self.post_waiting(&node, link);
        // What is to be sent to this node again is due sooner now.
        self.drive();
        self.follow(link, node);
    }

    /// Tells each machine from which address a node is linked. It is looked up under the machine's lock: of a link that is made and one that is lost at the same
    /// time, whichever is told last tells what is so.
    fn note_linked(&self, node: NodeId) {
        let from = || self.peers.linked_from(node);
        self.segments.machine().owner.on_linked(node, from().flatten());
        self.post.on_linked(node, || from().flatten());
        self.blobs.beside().on_linked(node, || from().flatten());
        let mut core = self.core();
        if let Some(address) = from() {
            core.on_linked(node, address);
        }
    }

    /// A link to this node is lost.
    pub(super) fn note_lost(&self, node: NodeId) {
        self.blobs.beside().link_lost(node);
        let mut core = self.core();
        let still_linked = self.peers.is_linked(node);
        core.on_link_lost(self.now(), node, still_linked);
        if let Some(address) = self.peers.linked_from(node) {
            core.on_linked(node, address);
        }
        drop(core);
        // Over another link it may come from another address.
        self.note_linked(node);
        self.choose_repository();
    }

    /// Anybody can say that it keeps functions for all: only a node that this one joined is believed. It stays the repository until another one takes its
    /// place: functions that are added while its link is down go there when it is up again.
    fn choose_repository(&self) {
        if let (false, Some(repository)) = (self.settings.repository, self.peers.repository()) {
            let mut core = self.core();
            core.set_repository(repository);
        }
    }

    /// Records which services a node announces, in place of those that it announced before.
    pub(super) fn learn_services(&self, node: &NodeRef, News { now, before }: &News) {
        let services: Vec<_> = now.iter().map(|entry| (entry.service.as_str(), self.instance(entry))).collect();
        let mut core = self.core();
        before.iter().for_each(|service| core.on_not_there(service, node.id));
        for (service, instance) in services {
            // Another run of this node does not count as another instance.
            if node.name != self.me.name {
                core.note_replica(service);
            }
            // The known instance is as good: a service that is moved for no reason loses what its node remembers. A service whose
            // proxy is not linked is not learnt: it is looked up when it is used, and its proxy is dialled then.
            if let (false, Some(instance)) = (core.knows(service), instance) {
                core.learn(service, instance);
            }
        }
    }

    /// Tells the machine the distance to a node whenever a new measurement changes it, for as long as the link lives.
    fn follow(self: &Arc<Self>, link: &Arc<Link>, node: Arc<NodeRef>) {
        let (shell, link) = (Arc::downgrade(self), Arc::clone(link));
        self.runtime.spawn(async move {
            let mut known = Measured::default();
            while let Some(measured) = link.measured_beyond(known).await {
                known = measured;
                let Some(shell) = shell.upgrade() else { return };
                if let Some(way) = shell.way_to(&node) {
                    shell.core().on_link_measured(node.id, way);
                }
            }
        });
    }

    /// Links with this place and with all nodes that it knows. Returns the link to the place.
    ///
    /// # Errors
    /// Only if the place itself cannot be reached: the others are retried later.
    pub(crate) async fn join(self: &Arc<Self>, place: &Place) -> Result<Arc<Link>, NetError> {
        let Some(endpoint) = self.endpoint() else { return Err(NetError::Closed) };
        self.dials.tell(&place.address);
        let unreachable = |reason: String| NetError::Unreachable { address: place.address.clone(), reason };
        let link = endpoint.link_introduced(place).await.map_err(|why| match why {
            NetError::Lost(why) => unreachable(why.to_string()),
            why => why,
        })?;
        let Some(peer) = self.peer_of(&link).await else { return Err(unreachable("it is no Catena node".into())) };
        // The link may be one that the peer dialled at the same time.
        self.peers.joined(&link);
        self.choose_repository();
        let others = async {
            if !self.settings.entry_only {
                let entries = self.list(peer).await.unwrap_or_default();
                self.link_with_all(entries).await;
            }
        };
        // A node that is stopped can delay the others for long; the place itself is to be dialled again as soon as it is lost.
        tokio::select! {
            () = others => {}
            _ = link.lost() => {}
        }
        Ok(link)
    }

    /// The node at the other end, once the link's greeting has been handled; the link itself is known a moment earlier.
    pub(crate) async fn peer_of(&self, link: &Arc<Link>) -> Option<Arc<NodeRef>> {
        let greeted = async {
            loop {
                let next = self.peers.greeted.notified();
                tokio::pin!(next);
                // Registered before looking, so that no greeting is missed in between.
                next.as_mut().enable();
                if let Some(peer) = self.peers.of(link) {
                    return peer;
                }
                next.await;
            }
        };
        awake::timeout(GREETING_TIMEOUT, greeted).await.ok()
    }

    async fn link_with_all(self: &Arc<Self>, entries: Vec<ServiceEntry>) {
        let mut nodes: Vec<NodeRef> = Vec::new();
        for entry in entries {
            let known = entry.node.id == self.me.id || self.peers.is_linked(entry.node.id);
            if !known && nodes.len() < LINKED_MAX && !nodes.iter().any(|node| node.id == entry.node.id) {
                nodes.push(entry.node);
            }
        }
        let dials: FuturesUnordered<_> = nodes.iter().map(|node| self.dial(node)).collect();
        let links: Vec<_> = dials.filter_map(std::future::ready).collect().await;
        for link in links {
            self.peer_of(&link).await;
        }
    }

    /// Asks a node of the mesh which services it knows.
    async fn list(self: &Arc<Self>, peer: Arc<NodeRef>) -> Option<Vec<ServiceEntry>> {
        let question = self.listings.ask();
        self.tell(peer, Message::List(question.number));
        let mut entries = question.answer_within(LISTING_TIMEOUT).await?;
        entries.truncate(LISTING_ENTRIES_MAX);
        entries.iter().filter_map(|entry| entry.node.address.as_deref()).for_each(|address| self.dials.tell(address));
        Some(entries)
    }

    /// The linked nodes of this node's mesh.
    pub(super) fn mesh_peers(&self) -> Vec<Arc<NodeRef>> {
        let links = self.endpoint().map(catena_net::Endpoint::links).unwrap_or_default();
        let of_mesh = |link: &&Arc<Link>| link.place().is_some_and(|place| self.dials.is_told(&place.address));
        let mut peers: Vec<_> = links.iter().filter(of_mesh).filter_map(|link| self.peers.of(link)).collect();
        peers.sort_by_key(|peer| peer.id);
        peers.dedup_by_key(|peer| peer.id);
        peers
    }

    /// Asks the nodes of the mesh; returns all that they know, what this node serves, and what linked nodes announce.
    pub(crate) fn survey<'a>(self: &'a Arc<Self>) -> BoxFuture<'a, Vec<ServiceEntry>> {
        Box::pin(async move {
            let listed = self.listed().await;
            let mut all = self.own_services();
            all.extend(self.peers.all());
            all.extend(listed);
            all.sort_by(|a, b| (&a.service, a.node.id).cmp(&(&b.service, b.node.id)));
            all.dedup_by(|a, b| a.service == b.service && a.node.id == b.node.id);
            all
        })
    }

    /// Asks the nodes of the mesh; returns all that they know.
    pub(super) async fn listed(self: &Arc<Self>) -> Vec<ServiceEntry> {
        let asked: FuturesUnordered<_> = self.mesh_peers().into_iter().map(|peer| self.list(peer)).collect();
        let listings: Vec<_> = asked.filter_map(std::future::ready).collect().await;
        let listed: Vec<_> = listings.into_iter().flatten().collect();
        // That others serve a service matters only for those of this node.
        let own: HashSet<_> = self.own_names().into_iter().collect();
        let others = listed.iter().filter(|entry| entry.node.name != self.me.name && own.contains(&entry.service));
        let replicas: BTreeSet<_> = others.map(|entry| &entry.service).collect();
        let mut core = self.core();
        replicas.into_iter().for_each(|service| core.note_replica(service));
        drop(core);
        listed
    }

    /// `None`: its proxy is not linked. For the proxy itself, the instance has none.
    fn instance(&self, entry: &ServiceEntry) -> Option<Instance> {
        let proxy = match entry.proxy.as_ref().and_then(|proxy| proxy.address.as_deref()) {
            Some(address) if self.me.address.as_deref() != Some(address) => Some(self.peers.at_address(address)?),
            _ => None,
        };
        Some(instance(entry, proxy))
    }

    /// An instance, after dialling its proxy if that is not linked. If the proxy cannot be reached, the instance has none, and counts for a short time.
    pub(super) async fn instance_with_proxy(
        &self,
        entry: &ServiceEntry,
        ttl: Option<Duration>,
    ) -> (Instance, Option<Duration>) {
        if let Some(instance) = self.instance(entry) {
            return (instance, ttl);
        }
        let address = entry.proxy.as_ref().and_then(|proxy| proxy.address.as_deref()).unwrap_or_default();
        let proxy = match self.link_at(address, None).await {
            Some(link) => self.peer_of(&link).await,
            None => None,
        };
        let ttl = if proxy.is_some() { ttl } else { Some(ttl.unwrap_or(PROXY_AGAIN).min(PROXY_AGAIN)) };
        (instance(entry, proxy), ttl)
    }

    /// The distance to a node, by the best measurement over its links; values that are not measured yet come from the shaped topology, if there is one.
    fn way_to(&self, node: &NodeRef) -> Option<catena_core::Link> {
        let links = self.endpoint().map(catena_net::Endpoint::links).unwrap_or_default();
        let to_it = |link: &&Arc<Link>| link.identity().is_some_and(|peer| peer.node == node.id.0);
        let measured: Vec<_> = links.iter().filter(to_it).map(|link| link.measured()).collect();
        let shape = self.shape_to(node);
        let round_trip_us = measured.iter().filter_map(|way| way.round_trip_us).min();
        let bytes_per_s = measured.iter().filter_map(|way| way.bytes_per_s).max();
        Some(catena_core::Link {
            round_trip_us: round_trip_us.or(shape.map(|shape| shape.round_trip_us))?,
            bytes_per_s: bytes_per_s.or(shape.map(|shape| shape.bytes_per_s)).unwrap_or_default(),
        })
    }

    /// The configured distance to a node where links are shaped: used until it is measured.
    fn shape_to(&self, node: &NodeRef) -> Option<catena_core::Link> {
        let (here, there) = (self.me.site.as_deref()?, node.site.as_deref()?);
        let shape = self.settings.topology.as_ref()?.between(here, there)?;
        Some(catena_core::Link { round_trip_us: 2 * shape.delay_us, bytes_per_s: shape.bytes_per_s })
    }

    /// Keeps this node linked with the mesh for as long as it lives.
    pub(crate) fn keep_joined(self: &Arc<Self>, seeds: Vec<Place>) {
        for seed in seeds {
            self.runtime.spawn(keep_joined(Arc::downgrade(self), self.settings.dial_pause, seed));
        }
    }
}

fn instance(entry: &ServiceEntry, proxy: Option<Arc<NodeRef>>) -> Instance {
    Instance { node: Arc::new(entry.node.clone()), proxy, kinds: entry.kinds.clone() }
}

/// From one try to link with a place to the next: several fit in before what is under way there counts as silent.
pub(crate) fn dial_pause(policy: &Policy) -> Duration {
    Duration::from_micros(policy.heartbeat_interval_us / 3).clamp(DIAL_PAUSE_MIN, DIAL_PAUSE_MAX)
}

/// A task for each seed: one that does not answer delays no other.
async fn keep_joined(shell: Weak<Shell>, dial_pause: Duration, seed: Place) {
    // The node has just tried.
    tokio::time::sleep(dial_pause).await;
    loop {
        // Counted from this try, so that after a link that lasted the next try is at once.
        let pause = tokio::time::sleep(dial_pause);
        let joined = match shell.upgrade() {
            Some(shell) => shell.join(&seed).await,
            None => return,
        };
        match joined {
            Ok(link) => tokio::select! {
                () = tokio::time::sleep(LIST_EVERY) => {}
                _ = link.lost() => {}
            },
            Err(why) => tracing::debug!(address = %seed.address, %why, "not joined; trying again"),
        }
        pause.await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use catena_core::Policy;

    use super::dial_pause;

    #[test]
    fn a_place_is_dialled_again_after_a_third_of_the_heartbeat_interval_within_bounds() {
        let with = |heartbeat_interval_us| dial_pause(&Policy { heartbeat_interval_us, ..Policy::default() });
        assert_eq!(dial_pause(&Policy::default()), Duration::from_secs(1));
        assert_eq!(with(300_000), Duration::from_millis(100));
        assert_eq!(with(u64::MAX), Duration::from_secs(1), "never less often than every second");
        assert_eq!(with(0), Duration::from_millis(10), "not without a pause");
    }
}
