//! Outgoing messages, over an open link or after dialling.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, OnceLock},
};

use catena_core::{Receipt, Undelivered, Urgency};
use catena_net::{Lease, Link, LinkError, MemoryBudget, Message, Place};
use catena_wire::{Encoded, NodeId, NodeRef};

use futures_util::future::BoxFuture;

use super::{Shell, lock};

/// What a message that waits for a dial is charged in addition to its own bytes.
const WAITING_OVERHEAD_BYTES: u64 = 512;
/// The part of the node's memory that such messages may take for addresses that the mesh named, and the part for others; one address has at most half of either,
/// unless it is one message.
const WAITING_PART: u64 = 4;

impl Shell {
    /// Sends to a node that cannot be dialled and has no link, by way of a node that can reach it.
    pub(super) fn send_by(
        self: &Arc<Self>,
        to: Arc<NodeRef>,
        message: Encoded,
        receipt: Receipt,
        urgency: Urgency,
        via: Option<Arc<NodeRef>>,
    ) {
        let linked = || self.endpoint().and_then(|endpoint| endpoint.link_to_node(to.id.0)).is_some();
        match via {
            Some(via) if !linked() => {
                let Encoded { head, tail } = message;
                let relay = catena_wire::Message::Relay { to: to.id, head: head.to_vec(), tail }.encode();
                self.send(via, relay, receipt, urgency);
            }
            _ => self.send(to, message, receipt, urgency),
        }
    }

    pub(super) fn send(self: &Arc<Self>, to: Arc<NodeRef>, message: Encoded, receipt: Receipt, urgency: Urgency) {
        self.push_beside(&to, &message.head);
        let message = Message::new(message.head, message.tail);
        let Some(link) = self.endpoint().and_then(|endpoint| endpoint.link_to_node(to.id.0)) else {
            return self.send_when_linked(to, message, receipt);
        };
        match urgency {
            Urgency::Lazy => drop(link.send_lazily(message)),
            Urgency::Now => self.post(&link, message, receipt),
        }
    }

    fn post(self: &Arc<Self>, link: &Arc<Link>, message: Message, receipt: Receipt) {
        // On one host, a long message is put into memory that the receiver maps.
        let Err(message) = self.carry(link, message) else { return };
        if let Err(why) = link.post(message) {
            self.undelivered(receipt, meaning(&why));
        }
    }

    /// Keeps the message until the node is linked, by whichever side: one dial serves all messages to that node.
    fn send_when_linked(self: &Arc<Self>, to: Arc<NodeRef>, message: Message, receipt: Receipt) {
        let Some(endpoint) = self.endpoint() else { return };
        let is_told = to.address.as_deref().is_some_and(|address| self.dials.is_told(address));
        let first = match self.peers.waiting.add(&to, message, receipt, (endpoint.memory(), is_told)) {
            Ok(first) => first,
            Err(receipt) => return self.undelivered(receipt, Undelivered::Unreachable),
        };
        if let Some(link) = endpoint.link_to_node(to.id.0) {
            // The node linked a moment ago, before this message was added.
            return self.post_waiting(&to, &link);
        }
        if first {
            let shell = Arc::clone(self);
            self.runtime.spawn(async move {
                match shell.dial(&to).await {
                    Some(link) => shell.post_waiting(&to, &link),
                    None => shell.not_reached(&to),
                }
            });
        }
    }

    /// Reports that the messages to this node that waited for a dial of this address were not sent.
    fn not_reached(self: &Arc<Self>, to: &NodeRef) {
        for Waiting { receipt, .. } in self.peers.waiting.take_at(to) {
            self.undelivered(receipt, Undelivered::Unreachable);
        }
    }

    /// Sends the messages that wait for a link to this node. The node may have linked to this one while our own dial, which can take long, is still under way,
    /// so nothing waits for that. Hops and calls that were given up meanwhile are not sent.
    pub(super) fn post_waiting(self: &Arc<Self>, to: &NodeRef, link: &Arc<Link>) {
        for Waiting { message, receipt, lease } in self.peers.waiting.take(to.id) {
            drop(lease);
            let is_to_go = self.core().is_to_go(to.id, &receipt);
            if is_to_go {
                self.post(link, message, receipt);
            }
        }
    }

    /// A link to this very run of the node: another run at its address remembers none of its steps.
    pub(crate) fn dial<'a>(&'a self, to: &'a NodeRef) -> BoxFuture<'a, Option<Arc<Link>>> {
        Box::pin(async move {
            let endpoint = self.endpoint()?;
            if let Some(link) = endpoint.link_to_node(to.id.0) {
                return Some(link);
            }
            let place = Place { address: to.address.clone()?, site: to.site.clone() };
            let leave = self.dials.leave(&place.address).await?;
            // Both nodes may dial at the same time; then only one of the two links remains.
            let dialled = leave.dial(endpoint.link_introduced(&place)).await;
            let link = dialled
                .filter(|link| link.identity().is_some_and(|identity| identity.node == to.id.0))
                .or_else(|| endpoint.link_to_node(to.id.0))?;
            leave.reached();
            Some(link)
        })
    }

    fn undelivered(self: &Arc<Self>, receipt: Receipt, why: Undelivered) {
        let now = self.now();
        self.core().on_undelivered(now, receipt, why);
        self.drive();
    }
}

/// What a link's error means for the message that was not sent.
fn meaning(why: &LinkError) -> Undelivered {
    match why {
        LinkError::TooLarge { bytes, bytes_max, .. } => {
            Undelivered::TooLarge { bytes: *bytes as u64, bytes_max: *bytes_max }
        }
        _ => Undelivered::Unreachable,
    }
}

/// A message to a node that is being dialled.
struct Waiting {
    message: Message,
    receipt: Receipt,
    /// Charged for as long as the message is held.
    lease: Lease,
}

/// Messages that wait for nodes that are being dialled, by node and address: whoever names a wrong address for a node holds up only what is sent there.
#[derive(Default)]
pub(super) struct Waitings {
    places: Mutex<Places>,
    rooms: OnceLock<Rooms>,
}

/// A stranger's addresses take no room of the mesh's.
struct Rooms {
    told: MemoryBudget,
    untold: MemoryBudget,
}

#[derive(Default)]
struct Places {
    by_address: HashMap<Option<String>, AtAddress>,
    /// The same, by node.
    of_node: BTreeSet<(NodeId, Option<String>)>,
}

struct AtAddress {
    /// A part of the room of the address as it was when the first message came.
    share: MemoryBudget,
    by_node: HashMap<NodeId, Vec<Waiting>>,
}

impl AtAddress {
    /// Of several messages for one address, whatever nodes they are for, no more may wait than leave as much room for others.
    fn lease(&self, room: &MemoryBudget, bytes: u64) -> Option<Lease> {
        let fits = self.by_node.is_empty() || self.share.used() + bytes <= room.left().saturating_sub(bytes);
        if fits { self.share.lease(bytes).ok() } else { None }
    }
}

impl Waitings {
    /// Returns whether it is the first message for this address of its node, which then has to be dialled. `memory`: the node's, and whether the mesh named
    /// the address.
    ///
    /// # Errors
    /// There is no room.
    fn add(
        &self,
        to: &NodeRef,
        message: Message,
        receipt: Receipt,
        (memory, is_told): (&MemoryBudget, bool),
    ) -> Result<bool, Receipt> {
        let room = || memory.part(memory.bytes_max() / WAITING_PART);
        let rooms = self.rooms.get_or_init(|| Rooms { told: room(), untold: room() });
        let room = if is_told { &rooms.told } else { &rooms.untold };
        let mut places = lock(&self.places);
        let Places { by_address, of_node } = &mut *places;
        let new = || AtAddress { share: room.part(u64::MAX), by_node: HashMap::new() };
        let at = by_address.entry(to.address.clone()).or_insert_with(new);
        let Some(lease) = at.lease(room, message.bytes() as u64 + WAITING_OVERHEAD_BYTES) else {
            if at.by_node.is_empty() {
                by_address.remove(&to.address);
            }
            return Err(receipt);
        };
        let all = at.by_node.entry(to.id).or_default();
        all.push(Waiting { message, receipt, lease });
        of_node.insert((to.id, to.address.clone()));
        Ok(all.len() == 1)
    }

    /// All that wait for this node.
    fn take(&self, node: NodeId) -> Vec<Waiting> {
        let mut places = lock(&self.places);
        let first = (node, None);
        let addresses: Vec<_> = places.of_node.range(first..).take_while(|(of, _)| *of == node).cloned().collect();
        addresses.iter().flat_map(|(node, address)| places.take(*node, address)).collect()
    }

    /// Those that wait for a dial of this address.
    fn take_at(&self, to: &NodeRef) -> Vec<Waiting> {
        lock(&self.places).take(to.id, &to.address)
    }
}

impl Places {
    fn take(&mut self, node: NodeId, address: &Option<String>) -> Vec<Waiting> {
        self.of_node.remove(&(node, address.clone()));
        let Some(at) = self.by_address.get_mut(address) else { return Vec::new() };
        let waiting = at.by_node.remove(&node).unwrap_or_default();
        if at.by_node.is_empty() {
            self.by_address.remove(address);
        }
        waiting
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn at(address: &str) -> NodeRef {
        NodeRef { id: NodeId(1), name: String::new(), address: Some(address.to_owned()), site: None }
    }

    fn message(bytes: u64) -> Message {
        Message::new(vec![0; (bytes - WAITING_OVERHEAD_BYTES) as usize], bytes::Bytes::new())
    }

    #[test]
    fn whoever_names_a_wrong_address_of_a_node_holds_up_only_what_is_sent_there() {
        let (memory, waitings) = (MemoryBudget::new(1 << 20), Waitings::default());
        let add = |to: &NodeRef| waitings.add(to, message(1_000), Receipt::None, (&memory, false)).unwrap();
        let (wrong, right) = (at("wrong:1"), at("right:1"));
        assert!(add(&wrong) && add(&right) && !add(&right));
        assert_eq!(waitings.take_at(&wrong).len(), 1);
        assert!(add(&wrong));
        assert_eq!((waitings.take(NodeId(2)).len(), waitings.take(NodeId(1)).len()), (0, 3), "the node is linked");
        let places = lock(&waitings.places);
        assert!(places.by_address.is_empty() && places.of_node.is_empty() && memory.used() == 0);
    }

    #[test]
    fn what_waits_for_one_address_leaves_room_for_others_and_strangers_take_none_of_the_mesh_s() {
        let memory = MemoryBudget::new(WAITING_PART * 100_000);
        let waitings = Waitings::default();
        let add = |to: &NodeRef, bytes, is_told| {
            waitings.add(to, message(bytes), Receipt::None, (&memory, is_told)).map_err(|receipt| {
                assert_eq!(receipt, Receipt::None);
            })
        };
        let (silent, other) = (at("silent:1"), NodeRef { id: NodeId(2), ..at("silent:1") });
        let mut all = 0;
        while add(if all % 2 == 0 { &silent } else { &other }, 10_000, false).is_ok() {
            all += 1;
        }
        assert_eq!(all, 5, "half, whatever numbers its nodes have");
        assert!(add(&at("fair:1"), 45_000, false).is_ok(), "one message may take what is left");
        assert!(add(&at("late:1"), 10_000, false).is_err() && add(&at("mesh:1"), 100_000, true).is_ok());
        assert_eq!((waitings.take_at(&at("fair:1")).len(), waitings.take_at(&silent).len()), (1, 3));
        assert_eq!((0..10).filter(|_| add(&silent, 10_000, false).is_ok()).count(), 3, "what was sent leaves room");
        assert_eq!((waitings.take(NodeId(1)).len(), waitings.take(NodeId(2)).len()), (4, 2));
        let places = lock(&waitings.places);
        assert!(places.by_address.is_empty() && places.of_node.is_empty() && memory.used() == 0);
    }
}
