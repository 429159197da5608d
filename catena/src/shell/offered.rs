//! Which services linked nodes announce.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use catena_wire::{NodeId, ServiceEntry};

/// The most names of services that are remembered.
const SERVICES_MAX: usize = 65_536;
/// The most services that all nodes of one address may offer together.
const OFFERS_PER_ADDRESS_MAX: usize = SERVICES_MAX / 4;
/// The most bytes that the services of one node take up, those of one address, and all.
const OFFERS_BYTES_PER_NODE_MAX: usize = 1 << 20;
const OFFERS_BYTES_PER_ADDRESS_MAX: usize = OFFERS_BYTES_MAX / 4;
const OFFERS_BYTES_MAX: usize = 64 << 20;
/// The most instances of one service, and those of one address.
const INSTANCES_MAX: usize = 64;
const INSTANCES_PER_ADDRESS_MAX: usize = 16;

/// A node's services from now on, as far as there is room for them, in place of those that it announced before.
#[derive(Default)]
pub(super) struct News {
    pub(super) now: Vec<ServiceEntry>,
    pub(super) before: Vec<String>,
}

#[derive(Default)]
pub(super) struct Offered {
    /// By name, every instance of that service.
    by_name: BTreeMap<String, Vec<ServiceEntry>>,
    by_node: HashMap<NodeId, Offer>,
    /// What the nodes of each address offer.
    of_address: HashMap<IpAddr, Load>,
    bytes: usize,
}

/// How much is offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Load {
    services: usize,
    bytes: usize,
}

/// The services that one node offers.
#[derive(Default)]
struct Offer {
    address: Option<IpAddr>,
    names: BTreeSet<String>,
    bytes: usize,
}

impl Offered {
    pub(super) fn by_name(&self) -> &BTreeMap<String, Vec<ServiceEntry>> {
        &self.by_name
    }

    /// A node, linked from this address, announces these services in place of all others.
    pub(super) fn replace(
        &mut self,
        node: NodeId,
        address: Option<IpAddr>,
        entries: impl Iterator<Item = ServiceEntry>,
    ) -> News {
        let address = self.by_node.get(&node).map_or(address, |offer| offer.address);
        let before = self.drop_node(node);
        let mut named = BTreeSet::new();
        let now = entries.filter(|entry| named.insert(entry.service.clone()) && self.add(entry, address)).collect();
        News { now, before }
    }

    /// A node, linked from this address, announces one more service. False if there is no room for it.
    fn add(&mut self, entry: &ServiceEntry, address: Option<IpAddr>) -> bool {
        let (node, bytes) = (entry.node.id, entry.kept_bytes());
        // It counts for the address from which the node first announced a service.
        let address = self.by_node.get(&node).map_or(address, |offer| offer.address);
        self.drop_entry(&entry.service, node);
        let instances = self.by_name.get(&entry.service).map_or(&[][..], Vec::as_slice);
        let is_full = instances.is_empty() && self.by_name.len() >= SERVICES_MAX;
        if is_full || instances.len() >= INSTANCES_MAX || !self.has_room_for(node, address, instances, bytes) {
            return false;
        }
        let offer = self.by_node.entry(node).or_insert_with(|| Offer { address, ..Offer::default() });
        offer.names.insert(entry.service.clone());
        offer.bytes += bytes;
        self.bytes += bytes;
        if let Some(address) = offer.address {
            let load = self.of_address.entry(address).or_default();
            *load = Load { services: load.services + 1, bytes: load.bytes + bytes };
        }
        self.by_name.entry(entry.service.clone()).or_default().push(entry.clone());
        true
    }

    /// Whether a node of this address may offer one more service of this size, of which these instances are known.
    fn has_room_for(&self, node: NodeId, address: Option<IpAddr>, instances: &[ServiceEntry], bytes: usize) -> bool {
        let of_node = self.by_node.get(&node).map_or(0, |offer| offer.bytes);
        if of_node + bytes > OFFERS_BYTES_PER_NODE_MAX || self.bytes + bytes > OFFERS_BYTES_MAX {
            return false;
        }
        let Some(address) = address else { return true };
        let of_it = |entry: &&ServiceEntry| {
            self.by_node.get(&entry.node.id).is_some_and(|offer| offer.address == Some(address))
        };
        let load = self.of_address.get(&address).copied().unwrap_or_default();
        load.services < OFFERS_PER_ADDRESS_MAX
            && load.bytes + bytes <= OFFERS_BYTES_PER_ADDRESS_MAX
            && instances.iter().filter(of_it).count() < INSTANCES_PER_ADDRESS_MAX
    }

    /// Forgets what a node serves; returns the names of that.
    pub(super) fn drop_node(&mut self, node: NodeId) -> Vec<String> {
        let names: Vec<_> = self.by_node.get(&node).into_iter().flat_map(|offer| offer.names.clone()).collect();
        names.iter().for_each(|name| self.drop_entry(name, node));
        names
    }

    /// Forgets that a node serves this, if it does.
    fn drop_entry(&mut self, service: &str, node: NodeId) {
        let Some(instances) = self.by_name.get_mut(service) else { return };
        let Some(known) = instances.iter().position(|known| known.node.id == node) else { return };
        let bytes = instances.remove(known).kept_bytes();
        if instances.is_empty() {
            self.by_name.remove(service);
        }
        self.bytes -= bytes;
        let Some(offer) = self.by_node.get_mut(&node) else { return };
        offer.names.remove(service);
        offer.bytes -= bytes;
        let (address, is_last) = (offer.address, offer.names.is_empty());
        if is_last {
            self.by_node.remove(&node);
        }
        if let Some(address) = address
            && let Some(load) = self.of_address.get_mut(&address)
        {
            *load = Load { services: load.services - 1, bytes: load.bytes - bytes };
            if load.services == 0 {
                self.of_address.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use catena_wire::{Kinds, NodeRef};

    use super::*;

    fn entry(service: usize, node: u64) -> ServiceEntry {
        let node = NodeRef { id: NodeId(node), name: format!("n{node}"), address: None, site: None };
        let service = format!("s{service}");
        ServiceEntry { service, node, functions: Vec::new(), kinds: Kinds::default(), proxy: None }
    }

    #[test]
    fn nodes_of_one_address_have_one_share_whatever_their_numbers() {
        let (here, there) = (Some(IpAddr::from([10, 0, 0, 1])), Some(IpAddr::from([10, 0, 0, 2])));
        let mut offered = Offered::default();
        for name in 0..OFFERS_PER_ADDRESS_MAX {
            assert!(offered.add(&entry(name, 1 + (name % 100) as u64), here));
        }
        assert!(!offered.add(&entry(OFFERS_PER_ADDRESS_MAX, 1_000), here), "another number of that address");
        assert!(offered.add(&entry(0, 1), here), "what is known is said again");
        assert!(offered.add(&entry(OFFERS_PER_ADDRESS_MAX, 2_000), there));
        assert!(offered.add(&entry(OFFERS_PER_ADDRESS_MAX + 1, 3_000), None), "a process of this machine");
        // A lost link frees room, and the names that it brought.
        let gone = offered.drop_node(NodeId(1));
        assert!(gone.len() == OFFERS_PER_ADDRESS_MAX.div_ceil(100) && !offered.by_name().contains_key("s0"));
        assert!(offered.add(&entry(OFFERS_PER_ADDRESS_MAX, 1_000), here));
    }

    #[test]
    fn what_is_announced_is_bounded_in_bytes_for_each_node_each_address_and_all() {
        let heavy = |service, node| ServiceEntry { functions: vec!["f".repeat(100 << 10)], ..entry(service, node) };
        let mut offered = Offered::default();
        let mut adds = |nodes: std::ops::Range<u64>, last: u8| {
            let address = Some(IpAddr::from([10, 0, 0, last]));
            let all = nodes.flat_map(|node| (0..20).map(move |service| (100 * node as usize + service, node)));
            (all.filter(|(service, node)| offered.add(&heavy(*service, *node), address)).count(), offered.bytes)
        };
        assert_eq!(adds(0..1, 1).0, 10, "of one node");
        let (added, bytes) = adds(1..100, 1);
        assert!(
            added > 100
                && bytes <= OFFERS_BYTES_PER_ADDRESS_MAX
                && bytes > OFFERS_BYTES_PER_ADDRESS_MAX - OFFERS_BYTES_PER_NODE_MAX
        );
        let bytes = (2..9).map(|last| adds(u64::from(last) * 1_000..u64::from(last) * 1_000 + 100, last).1).max();
        assert!(
            bytes
                .is_some_and(|bytes| bytes <= OFFERS_BYTES_MAX && bytes > OFFERS_BYTES_MAX - OFFERS_BYTES_PER_NODE_MAX)
        );
        // What is said again in other words counts once.
        let before = offered.bytes;
        offered.add(&entry(0, 0), None);
        assert!(offered.bytes < before);
        let news = offered.replace(NodeId(0), None, [entry(1, 0), heavy(77, 0)].into_iter());
        assert_eq!((news.now.len(), news.before.len()), (2, 10));
        let twice = [heavy(77, 0), ServiceEntry { functions: vec!["f".repeat(2 << 20)], ..entry(77, 0) }];
        assert_eq!(offered.replace(NodeId(0), None, twice.into_iter()).now, [heavy(77, 0)], "each name once");
        assert!(offered.by_name().contains_key("s77"));
        let nodes: Vec<_> = offered.by_node.keys().copied().collect();
        nodes.into_iter().for_each(|node| drop(offered.drop_node(node)));
        assert!(offered.bytes == 0 && offered.by_name.is_empty() && offered.of_address.is_empty());
    }

    #[test]
    fn no_address_has_all_instances_of_a_service() {
        let (here, there) = (Some(IpAddr::from([10, 0, 0, 1])), Some(IpAddr::from([10, 0, 0, 2])));
        let mut offered = Offered::default();
        for node in 0..INSTANCES_MAX as u64 {
            assert_eq!(offered.add(&entry(1, node), here), node < INSTANCES_PER_ADDRESS_MAX as u64);
        }
        assert!(!offered.add(&entry(1, 900), here) && offered.add(&entry(1, 1_000), there));
        // If the same node announces more by another link, that counts for the first address.
        assert!(offered.add(&entry(2, 0), there) && offered.of_address[&IpAddr::from([10, 0, 0, 2])].services == 1);
    }

    #[test]
    fn a_service_is_known_until_its_last_instance_has_gone() {
        let mut offered = Offered::default();
        for node in 0..=INSTANCES_MAX as u64 {
            assert_eq!(offered.add(&entry(1, node), None), node < INSTANCES_MAX as u64);
        }
        for node in 0..INSTANCES_MAX as u64 - 1 {
            assert_eq!(offered.drop_node(NodeId(node)), ["s1"]);
            assert!(offered.by_name().contains_key("s1"));
        }
        offered.drop_node(NodeId(INSTANCES_MAX as u64 - 1));
        assert!(offered.by_name().is_empty() && offered.by_node.is_empty());
    }
}
