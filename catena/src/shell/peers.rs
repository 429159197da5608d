//! Who is at the other end of each link, and what they serve.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::{Arc, PoisonError, RwLock},
};

use catena_net::Link;
use catena_wire::{Hello, NodeId, NodeRef, ServiceEntry};
use tokio::sync::Notify;

use super::{offered::Offered, sending::Waitings};

/// Names remembered of services whose last instance was lost.
const DEPARTED_MAX: usize = 1_024;

#[derive(Default)]
pub(crate) struct Peers {
    /// Told whenever a link's greeting has been taken in.
    pub(super) greeted: Notify,
    /// What is to be sent to nodes that are not linked yet.
    pub(super) waiting: Waitings,
    by_link: RwLock<HashMap<u64, Peer>>,
    services: RwLock<Offered>,
    /// Services whose last instance was lost, and the node that it was on.
    departed: RwLock<BTreeMap<String, String>>,
}

/// Who is at the other end of a link, and the address from which it comes over a network.
struct Peer {
    node: Arc<NodeRef>,
    address: Option<IpAddr>,
}

impl Peers {
    /// A link is up: remembers who it is and what it serves. What it says of other nodes does not count.
    pub(super) fn greet(&self, link: &Arc<Link>, hello: Hello) -> Arc<NodeRef> {
        let node = Arc::new(hello.node);
        write(&self.by_link).insert(link.id(), Peer { node: Arc::clone(&node), address: link.host() });
        let own = hello.services.into_iter().filter(|entry| entry.node.id == node.id);
        self.learn(link.host(), own);
        self.greeted.notify_waiters();
        node
    }

    fn learn(&self, address: Option<IpAddr>, entries: impl Iterator<Item = ServiceEntry>) {
        let mut services = write(&self.services);
        for entry in entries {
            let name = entry.service.clone();
            if services.add(entry, address) {
                write(&self.departed).remove(&name);
            }
        }
    }

    pub(crate) fn of(&self, link: &Arc<Link>) -> Option<Arc<NodeRef>> {
        self.by_link.read().unwrap_or_else(PoisonError::into_inner).get(&link.id()).map(|peer| peer.node.clone())
    }

    /// A link is gone: so, for all that is known here, is its node.
    pub(super) fn part(&self, link: &Arc<Link>) -> Option<Arc<NodeRef>> {
        let Peer { node, .. } = write(&self.by_link).remove(&link.id())?;
        let still_linked = self.is_linked(node.id);
        if !still_linked {
            let gone = write(&self.services).drop_node(node.id);
            let mut departed = write(&self.departed);
            for service in gone.into_iter().take(DEPARTED_MAX) {
                departed.insert(service, node.name.clone());
                if departed.len() > DEPARTED_MAX {
                    departed.pop_first();
                }
            }
        }
        Some(node)
    }

    /// The address from which a node is linked over a network, or None by a process of this machine; nothing if it is not linked.
    pub(super) fn linked_from(&self, node: NodeId) -> Option<Option<IpAddr>> {
        let links = self.by_link.read().unwrap_or_else(PoisonError::into_inner);
        // Of several links one over a network says more.
        links.values().filter(|peer| peer.node.id == node).map(|peer| peer.address).max()
    }

    pub(super) fn is_linked(&self, node: NodeId) -> bool {
        self.by_link.read().unwrap_or_else(PoisonError::into_inner).values().any(|peer| peer.node.id == node)
    }

    /// Whether a node of the same number, and not this one, is linked.
    pub(super) fn is_another(&self, node: &NodeRef) -> bool {
        let links = self.by_link.read().unwrap_or_else(PoisonError::into_inner);
        links.values().any(|peer| peer.node.id == node.id && *peer.node != *node)
    }

    /// Instances of a service at nodes that are linked.
    pub(crate) fn linked_instances(&self, service: &str) -> Vec<ServiceEntry> {
        let services = self.services.read().unwrap_or_else(PoisonError::into_inner);
        let linked = |entry: &&ServiceEntry| self.is_linked(entry.node.id);
        services.by_name().get(service).into_iter().flatten().filter(linked).cloned().collect()
    }

    /// What a node says of one of its services.
    pub(super) fn entry(&self, service: &str, node: NodeId) -> Option<ServiceEntry> {
        let services = self.services.read().unwrap_or_else(PoisonError::into_inner);
        services.by_name().get(service)?.iter().find(|entry| entry.node.id == node).cloned()
    }

    /// Whether any node that is linked serves it.
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

    /// What a node serves from now on, instead of what it said before.
    pub(super) fn offers(&self, node: &NodeRef, entries: Vec<ServiceEntry>) {
        let Some(address) = self.linked_from(node.id) else { return };
        write(&self.services).drop_node(node.id);
        self.learn(
            address,
            entries.into_iter().filter(|entry| entry.node == *node).take(super::mesh::SERVICES_PER_PEER_MAX),
        );
        // Its link may have gone meanwhile, and has dropped nothing of this then.
        if !self.is_linked(node.id) {
            write(&self.services).drop_node(node.id);
        }
    }

    /// The node that served it until its link was lost, if nobody has served it since.
    pub(super) fn departed(&self, service: &str) -> Option<String> {
        self.departed.read().unwrap_or_else(PoisonError::into_inner).get(service).cloned()
    }

    /// The node of this name, if it is linked.
    pub(crate) fn named(&self, name: &str) -> Option<Arc<NodeRef>> {
        let links = self.by_link.read().unwrap_or_else(PoisonError::into_inner);
        links.values().find(|peer| peer.node.name == name).map(|peer| peer.node.clone())
    }

    /// The node that listens there, if it is linked.
    pub(super) fn at_address(&self, address: &str) -> Option<NodeRef> {
        let links = self.by_link.read().unwrap_or_else(PoisonError::into_inner);
        let at = links.values().find(|peer| peer.node.address.as_deref() == Some(address));
        at.map(|peer| (*peer.node).clone())
    }

    /// Everything known, by name.
    pub(crate) fn all(&self) -> Vec<ServiceEntry> {
        self.first(usize::MAX)
    }

    /// So much of it: whoever asks again and again what is known costs no more than what he is told.
    pub(super) fn first(&self, entries_max: usize) -> Vec<ServiceEntry> {
        let services = self.services.read().unwrap_or_else(PoisonError::into_inner);
        services.by_name().values().flatten().take(entries_max).cloned().collect()
    }
}

fn write<T>(lock: &RwLock<T>) -> std::sync::RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
