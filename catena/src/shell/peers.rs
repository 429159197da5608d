//! The node at the other end of each link, and what it serves.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    ops::Bound,
    sync::{Arc, PoisonError, RwLock},
};

use catena_net::Link;
use catena_wire::{Hello, NodeId, NodeRef, ServiceEntry};
use tokio::sync::Notify;

use super::{
    offered::{News, Offered},
    sending::Waitings,
};

/// The most services, whose last instance was lost, that are remembered.
const DEPARTED_MAX: usize = 1_024;

#[derive(Default)]
pub(crate) struct Peers {
    /// Notified whenever a link's greeting has been handled.
    pub(super) greeted: Notify,
    /// Messages to nodes that are not linked yet.
    pub(super) waiting: Waitings,
    by_link: RwLock<HashMap<u64, Peer>>,
    services: RwLock<Offered>,
    /// Services whose last instance was lost, and the node that it was on.
    departed: RwLock<BTreeMap<String, String>>,
}

/// The node at the other end of a link, and the network address from which it is linked.
struct Peer {
    node: Arc<NodeRef>,
    address: Option<IpAddr>,
    /// It says that it keeps functions for all.
    repository: bool,
    /// This node joined it.
    joined: bool,
}

impl Peers {
    /// A link is up: remembers its node and what the node serves. What the node says about others does not count.
    pub(super) fn greet(&self, link: &Arc<Link>, hello: Hello) -> (Arc<NodeRef>, News) {
        let node = Arc::new(hello.node);
        let (address, repository) = (link.host(), hello.repository);
        let peer = Peer { node: Arc::clone(&node), address, repository, joined: false };
        write(&self.by_link).insert(link.id(), peer);
        let own = hello.services.into_iter().filter(|entry| entry.node.id == node.id);
        let news = self.learn(node.id, link.host(), own);
        self.greeted.notify_waiters();
        (node, news)
    }

    fn learn(&self, node: NodeId, address: Option<IpAddr>, entries: impl Iterator<Item = ServiceEntry>) -> News {
        let news = write(&self.services).replace(node, address, entries);
        let mut departed = write(&self.departed);
        news.now.iter().for_each(|entry| drop(departed.remove(&entry.service)));
        news
    }

    pub(crate) fn of(&self, link: &Arc<Link>) -> Option<Arc<NodeRef>> {
        self.by_link.read().unwrap_or_else(PoisonError::into_inner).get(&link.id()).map(|peer| peer.node.clone())
    }

    /// A link is gone, and with it all that is known of its node.
    pub(super) fn part(&self, link: &Arc<Link>) -> Option<Arc<NodeRef>> {
        let Peer { node, .. } = write(&self.by_link).remove(&link.id())?;
        let still_linked = self.is_linked(node.id);
        if !still_linked {
            let mut served = write(&self.services).drop_node(node.id);
            served.retain(|service| !self.serve(service));
            let mut departed = write(&self.departed);
            for service in served.into_iter().take(DEPARTED_MAX) {
                departed.insert(service, node.name.clone());
                if departed.len() > DEPARTED_MAX {
                    departed.pop_first();
                }
            }
        }
        Some(node)
    }

    /// The network address from which a node is linked; inner `None`: it is a process of this machine; outer `None`: it is not linked.
    pub(super) fn linked_from(&self, node: NodeId) -> Option<Option<IpAddr>> {
        let links = self.by_link.read().unwrap_or_else(PoisonError::into_inner);
        // Of several links, one over a network is more informative.
        links.values().filter(|peer| peer.node.id == node).map(|peer| peer.address).max()
    }

    pub(super) fn is_linked(&self, node: NodeId) -> bool {
        self.by_link.read().unwrap_or_else(PoisonError::into_inner).values().any(|peer| peer.node.id == node)
    }

    /// This node joined the node at the other end.
    pub(super) fn joined(&self, link: &Link) {
        if let Some(peer) = write(&self.by_link).get_mut(&link.id()) {
            peer.joined = true;
        }
    }

    /// Of the nodes that this one joined, and that say that they keep functions for all, the one that has been linked for longest.
    pub(super) fn repository(&self) -> Option<Arc<NodeRef>> {
        let links = self.by_link.read().unwrap_or_else(PoisonError::into_inner);
        let keepers = links.iter().filter(|(_, peer)| peer.repository && peer.joined);
        keepers.min_by_key(|(link, _)| **link).map(|(_, peer)| Arc::clone(&peer.node))
    }

    /// Whether a different node with the same number is linked.
    pub(super) fn is_another(&self, node: &NodeRef) -> bool {
        let links = self.by_link.read().unwrap_or_else(PoisonError::into_inner);
        links.values().any(|peer| peer.node.id == node.id && *peer.node != *node)
    }

    /// Instances of a service at linked nodes.
    pub(crate) fn linked_instances(&self, service: &str) -> Vec<ServiceEntry> {
        let services = self.services.read().unwrap_or_else(PoisonError::into_inner);
        let linked = |entry: &&ServiceEntry| self.is_linked(entry.node.id);
        services.by_name().get(service).into_iter().flatten().filter(linked).cloned().collect()
    }

    /// What a node announces of one of its services.
    pub(super) fn entry(&self, service: &str, node: NodeId) -> Option<ServiceEntry> {
        let services = self.services.read().unwrap_or_else(PoisonError::into_inner);
        services.by_name().get(service)?.iter().find(|entry| entry.node.id == node).cloned()
    }

    /// Whether any linked node serves it.
    pub(super) fn serve(&self, service: &str) -> bool {
        self.services.read().unwrap_or_else(PoisonError::into_inner).by_name().contains_key(service)
    }

    /// All nodes that are linked.
    pub(super) fn linked(&self) -> Vec<Arc<NodeRef>> {
        let links = self.by_link.read().unwrap_or_else(PoisonError::into_inner);
        let mut nodes: Vec<_> = links.values().map(|peer| peer.node.clone()).collect();
        nodes.sort_by_key(|node| node.id);
        nodes.dedup_by_key(|node| node.id);
        nodes
    }

    /// Replaces the services that a node announces.
    pub(super) fn offers(&self, node: &NodeRef, entries: Vec<ServiceEntry>) -> News {
        let Some(address) = self.linked_from(node.id) else { return News::default() };
        let own = entries.into_iter().filter(|entry| entry.node == *node);
        let news = self.learn(node.id, address, own.take(super::mesh::SERVICES_PER_PEER_MAX));
        // Its link may have been lost meanwhile, which could not remove these entries yet.
        if !self.is_linked(node.id) {
            write(&self.services).drop_node(node.id);
            return News::default();
        }
        news
    }

    /// The node that served it until its link was lost, if no other has served it since.
    pub(super) fn departed(&self, service: &str) -> Option<String> {
        self.departed.read().unwrap_or_else(PoisonError::into_inner).get(service).cloned()
    }

    /// The node of this name, if it is linked.
    pub(crate) fn named(&self, name: &str) -> Option<Arc<NodeRef>> {
        let links = self.by_link.read().unwrap_or_else(PoisonError::into_inner);
        links.values().find(|peer| peer.node.name == name).map(|peer| peer.node.clone())
    }

    /// The node that listens at this address, if it is linked.
    pub(super) fn at_address(&self, address: &str) -> Option<Arc<NodeRef>> {
        let links = self.by_link.read().unwrap_or_else(PoisonError::into_inner);
        links.values().find(|peer| peer.node.address.as_deref() == Some(address)).map(|peer| Arc::clone(&peer.node))
    }

    /// This many names of services in alphabetical order before this one, and after it.
    pub(super) fn names_near(&self, service: &str, names_max: usize) -> Vec<String> {
        let services = self.services.read().unwrap_or_else(PoisonError::into_inner);
        let before =
            services.by_name().range::<str, _>((Bound::Unbounded, Bound::Excluded(service))).rev().take(names_max);
        let after = services.by_name().range::<str, _>((Bound::Excluded(service), Bound::Unbounded)).take(names_max);
        before.chain(after).map(|(name, _)| name.clone()).collect()
    }

    /// Everything known, by name.
    pub(crate) fn all(&self) -> Vec<ServiceEntry> {
        self.first(usize::MAX)
    }

    /// The first `entries_max` of all entries known: repeated requests cost no more than the entries that they return.
    pub(super) fn first(&self, entries_max: usize) -> Vec<ServiceEntry> {
        let services = self.services.read().unwrap_or_else(PoisonError::into_inner);
        services.by_name().values().flatten().take(entries_max).cloned().collect()
    }
}

fn write<T>(lock: &RwLock<T>) -> std::sync::RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
