//! Outgoing messages, over an open link or after dialling.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use catena_core::{Receipt, Undelivered, Urgency};
use catena_net::{Lease, Link, LinkError, Message, Place};
use catena_wire::{Encoded, NodeId, NodeRef};

use futures_util::future::BoxFuture;

use super::{Shell, lock};

/// What a message that waits for a dial is charged in addition to its own bytes.
const WAITING_OVERHEAD_BYTES: u64 = 512;

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
        let Ok(lease) = endpoint.memory().lease(message.bytes() as u64 + WAITING_OVERHEAD_BYTES) else {
            return self.undelivered(receipt, Undelivered::Unreachable);
        };
        let first = self.peers.waiting.add(&to, Waiting { message, receipt, lease });
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
    by_node: Mutex<HashMap<NodeId, ByAddress>>,
}

type ByAddress = HashMap<Option<String>, Vec<Waiting>>;

impl Waitings {
    /// Returns whether it is the first message for this address of its node, which then has to be dialled.
    fn add(&self, to: &NodeRef, waiting: Waiting) -> bool {
        let mut by_node = lock(&self.by_node);
        let all = by_node.entry(to.id).or_default().entry(to.address.clone()).or_default();
        all.push(waiting);
        all.len() == 1
    }

    /// All that wait for this node.
    fn take(&self, node: NodeId) -> Vec<Waiting> {
        lock(&self.by_node).remove(&node).into_iter().flat_map(HashMap::into_values).flatten().collect()
    }

    /// Those that wait for a dial of this address.
    fn take_at(&self, to: &NodeRef) -> Vec<Waiting> {
        let mut by_node = lock(&self.by_node);
        let Some(by_address) = by_node.get_mut(&to.id) else { return Vec::new() };
        let waiting = by_address.remove(&to.address).unwrap_or_default();
        if by_address.is_empty() {
            by_node.remove(&to.id);
        }
        waiting
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use catena_net::MemoryBudget;

    use super::*;

    #[test]
    fn whoever_names_a_wrong_address_of_a_node_holds_up_only_what_is_sent_there() {
        let at = |address: &str| NodeRef {
            id: NodeId(1),
            name: String::new(),
            address: Some(address.to_owned()),
            site: None,
        };
        let memory = MemoryBudget::new(1_000);
        let waiting = || Waiting {
            message: Message::new(bytes::Bytes::new(), bytes::Bytes::new()),
            receipt: Receipt::None,
            lease: memory.lease(1).unwrap(),
        };
        let waitings = Waitings::default();
        let (wrong, right) = (at("wrong:1"), at("right:1"));
        assert!(waitings.add(&wrong, waiting()) && waitings.add(&right, waiting()) && !waitings.add(&right, waiting()));
        assert_eq!(waitings.take_at(&wrong).len(), 1);
        assert!(waitings.add(&wrong, waiting()));
        assert_eq!((waitings.take(NodeId(2)).len(), waitings.take(NodeId(1)).len()), (0, 3), "the node is linked");
        assert!(lock(&waitings.by_node).is_empty() && memory.used() == 0);
    }
}
