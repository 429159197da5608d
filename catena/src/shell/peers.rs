//! Who is at the other end of each link, and what they serve.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, PoisonError, RwLock},
};

use catena_net::Link;
use catena_wire::{Hello, NodeId, NodeRef, ServiceEntry};
use tokio::sync::Notify;

use super::sending::Waitings;

/// Names of services remembered from greetings.
const SERVICES_MAX: usize = 65_536;
/// Names remembered of services whose last instance was lost.
const DEPARTED_MAX: usize = 1_024;
/// Instances of one service.
const INSTANCES_MAX: usize = 64;

#[derive(Default)]
pub(crate) struct Peers {
    /// Told whenever a link's greeting has been taken in.
    pub(super) greeted: Notify,
    /// What is to be sent to nodes that are not linked yet.
    pub(super) waiting: Waitings,
    by_link: RwLock<HashMap<u64, Arc<NodeRef>>>,
    /// By name, then each instance: those that serve it under the same name.
    services: RwLock<BTreeMap<String, Vec<ServiceEntry>>>,
    /// Services whose last instance was lost, and the node that it was on.
    departed: RwLock<BTreeMap<String, String>>,
}

impl Peers {
    /// A link is up: remembers who it is and what it serves. What it says of other nodes does not count.
    pub(super) fn greet(&self, link: &Arc<Link>, hello: Hello) -> Arc<NodeRef> {
        let node = Arc::new(hello.node);
        write(&self.by_link).insert(link.id(), Arc::clone(&node));
        let own = hello.services.into_iter().filter(|entry| entry.node.id == node.id);
        self.learn(own);
        self.greeted.notify_waiters();
        node
    }

    fn learn(&self, entries: impl Iterator<Item = ServiceEntry>) {
        let mut services = write(&self.services);
        for entry in entries {
            if services.len() >= SERVICES_MAX && !services.contains_key(&entry.service) {
                continue;
            }
            write(&self.departed).remove(&entry.service);
            let instances = services.entry(entry.service.clone()).or_default();
            match instances.iter().position(|known| known.node.id == entry.node.id) {
                Some(known) => instances[known] = entry,
                None if instances.len() < INSTANCES_MAX => instances.push(entry),
                None => {}
            }
        }
    }

    pub(crate) fn of(&self, link: &Arc<Link>) -> Option<Arc<NodeRef>> {
        self.by_link.read().unwrap_or_else(PoisonError::into_inner).get(&link.id()).cloned()
    }

    /// A link is gone: so, for all that is known here, is its node.
    pub(super) fn part(&self, link: &Arc<Link>) -> Option<Arc<NodeRef>> {
        let node = write(&self.by_link).remove(&link.id())?;
        let still_linked = self.is_linked(node.id);
        if !still_linked {
            let gone = self.drop_services(node.id);
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

    pub(super) fn is_linked(&self, node: NodeId) -> bool {
        self.by_link.read().unwrap_or_else(PoisonError::into_inner).values().any(|peer| peer.id == node)
    }

    /// Whether a node of the same number, and not this one, is linked.
    pub(super) fn is_another(&self, node: &NodeRef) -> bool {
        let links = self.by_link.read().unwrap_or_else(PoisonError::into_inner);
        links.values().any(|peer| peer.id == node.id && **peer != *node)
    }

    /// Instances of a service at nodes that are linked.
    pub(crate) fn linked_instances(&self, service: &str) -> Vec<ServiceEntry> {
        let services = self.services.read().unwrap_or_else(PoisonError::into_inner);
        let linked = |entry: &&ServiceEntry| self.is_linked(entry.node.id);
        services.get(service).into_iter().flatten().filter(linked).cloned().collect()
    }

    /// What a node says of one of its services.
    pub(super) fn entry(&self, service: &str, node: NodeId) -> Option<ServiceEntry> {
        let services = self.services.read().unwrap_or_else(PoisonError::into_inner);
        services.get(service)?.iter().find(|entry| entry.node.id == node).cloned()
    }

    /// Whether any node that is linked serves it.
    pub(super) fn serve(&self, service: &str) -> bool {
        self.services.read().unwrap_or_else(PoisonError::into_inner).contains_key(service)
    }

    /// All nodes that are linked.
    pub(super) fn linked(&self) -> Vec<Arc<NodeRef>> {
        let links = self.by_link.read().unwrap_or_else(PoisonError::into_inner);
        let mut nodes: Vec<_> = links.values().cloned().collect();
        nodes.sort_by_key(|node| node.id);
        nodes.dedup_by_key(|node| node.id);
        nodes
    }

    /// What a node serves from now on, instead of what it said before.
    pub(super) fn offers(&self, node: &NodeRef, entries: Vec<ServiceEntry>) {
        if !self.is_linked(node.id) {
            return;
        }
        self.drop_services(node.id);
        self.learn(entries.into_iter().filter(|entry| entry.node == *node).take(super::mesh::SERVICES_PER_PEER_MAX));
    }

    /// Forgets what a node serves; returns what nobody serves any more.
    fn drop_services(&self, node: NodeId) -> Vec<String> {
        let mut gone = Vec::new();
        write(&self.services).retain(|service, instances| {
            instances.retain(|entry| entry.node.id != node);
            if instances.is_empty() {
                gone.push(service.clone());
            }
            !instances.is_empty()
        });
        gone
    }

    /// The node that served it until its link was lost, if nobody has served it since.
    pub(super) fn departed(&self, service: &str) -> Option<String> {
        self.departed.read().unwrap_or_else(PoisonError::into_inner).get(service).cloned()
    }

    /// The node of this name, if it is linked.
    pub(crate) fn named(&self, name: &str) -> Option<Arc<NodeRef>> {
        let links = self.by_link.read().unwrap_or_else(PoisonError::into_inner);
        links.values().find(|peer| peer.name == name).cloned()
    }

    /// The node that listens there, if it is linked.
    pub(super) fn at_address(&self, address: &str) -> Option<NodeRef> {
        let links = self.by_link.read().unwrap_or_else(PoisonError::into_inner);
        links.values().find(|peer| peer.address.as_deref() == Some(address)).map(|peer| (**peer).clone())
    }

    /// Everything known, by name.
    pub(crate) fn all(&self) -> Vec<ServiceEntry> {
        self.first(usize::MAX)
    }

    /// So much of it: whoever asks again and again what is known costs no more than what he is told.
    pub(super) fn first(&self, entries_max: usize) -> Vec<ServiceEntry> {
        let services = self.services.read().unwrap_or_else(PoisonError::into_inner);
        services.values().flatten().take(entries_max).cloned().collect()
    }
}

fn write<T>(lock: &RwLock<T>) -> std::sync::RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
