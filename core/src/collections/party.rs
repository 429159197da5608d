//! Parties: the units among which a node's resources are shared out.

use alloc::collections::BTreeMap;
use catena_wire::NodeId;
use core::net::IpAddr;

/// Those who have one share together. A node chooses its number itself, so all nodes at one address are one party.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Party {
    /// This node itself.
    Own,
    /// Everything linked over a network from this address; for IPv6 the first 64 bits, which all belong to one customer.
    Address(IpAddr),
    /// A process on this machine, or a node about whose link nothing is known.
    Node(NodeId),
}

/// The addresses from which nodes are linked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parties(BTreeMap<NodeId, IpAddr>);

impl Parties {
    pub(crate) fn linked(&mut self, node: NodeId, address: Option<IpAddr>) {
        match address {
            Some(address) => drop(self.0.insert(node, address)),
            None => drop(self.0.remove(&node)),
        }
    }

    pub(crate) fn link_lost(&mut self, node: NodeId) {
        self.0.remove(&node);
    }

    pub(crate) fn of(&self, node: NodeId) -> Party {
        self.0.get(&node).map_or(Party::Node(node), |address| Party::Address(*address))
    }
}
