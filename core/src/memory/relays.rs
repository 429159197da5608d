//! What this node passes on for origins that cannot be dialled, as the entry node of their chains.

use alloc::{collections::BTreeMap, string::String, sync::Arc, vec::Vec};
use catena_wire::{ChainId, Encoded, Message, NodeId, NodeRef, Part, StepKey};

use crate::{
    Policy, Receipt, Time, Urgency,
    collections::{Expiring, Party},
    outbox::Outbox,
};

/// Nodes that are remembered to have branches of one chain.
const HEARD_MAX: usize = 64;

#[derive(Clone, Debug, Default)]
pub(crate) struct Relays {
    /// The sender of a part of an outcome: the receiver acknowledges the part to this node, which tells the sender.
    parts: Expiring<(StepKey, Part), Arc<NodeRef>>,
    /// The node that replies under a right: the caller tells this node what it has taken, and this node passes that on.
    rights: Expiring<StepKey, Arc<NodeRef>>,
    /// The nodes from which heartbeats of a chain came.
    heard: Expiring<ChainId, BTreeMap<NodeId, Arc<NodeRef>>>,
}

impl Relays {
    /// Passes a message on to a node that cannot be dialled, from one without a link to it. Only answers of chains to their origin are passed on: anything else
    /// would arrive under this node's name. Returns the chain of which it is a sign of life, if it is one.
    pub(crate) fn pass_on(
        &mut self,
        out: &mut Outbox,
        awake: Time,
        (by, from): (Party, &Arc<NodeRef>),
        origin: NodeId,
        message: Encoded,
        policy: &Policy,
    ) -> Option<ChainId> {
        let said = Message::decode_head(&message.head).ok()?;
        let beats = matches!(said, Message::Heartbeat(..));
        let (key, part) = match said {
            Message::Partial { key, number, to: 0, .. } => (key, Some(Part::Partial(number))),
            Message::End(end) => (end.key, Some(Part::End)),
            Message::RightEnd(end) => (end.key, Some(Part::End)),
            Message::Replies(replies) => {
                self.rights.entry(awake, by, replies.key.clone(), policy.rights_max, || from.clone());
                (replies.key, None)
            }
            Message::Heartbeat(key, ..) => {
                if !bug!(policy, EntryForgetsHosts) {
                    self.hear(awake, key.chain, (by, from), policy);
                }
                (key, None)
            }
            Message::Console(key, ..) | Message::Located(key, ..) => (key, None),
            _ => return None,
        };
        let chain = key.chain;
        if chain.origin == origin {
            if let Some(part) = part {
                self.parts.entry(awake, by, (key.clone(), part), policy.outgoing_max, || from.clone());
            }
            // No address, so it is reached by an open link only: a node that can be dialled needs no relay.
            let to = Arc::new(NodeRef { id: origin, name: String::new(), address: None, site: None });
            out.send_encoded(to, message, Receipt::None, None);
        }
        beats.then_some(chain)
    }

    fn hear(&mut self, awake: Time, chain: ChainId, (by, at): (Party, &Arc<NodeRef>), policy: &Policy) {
        let nodes = self.heard.entry(awake, by, chain, policy.stopped_chains_max, BTreeMap::new);
        if nodes.len() < HEARD_MAX {
            nodes.insert(at.id, at.clone());
        }
    }

    /// The origin says that a part of an outcome has arrived, and nobody else may: the node that sent it through this one is told.
    pub(crate) fn received(&mut self, out: &mut Outbox, from: NodeId, key: StepKey, part: Part, policy: &Policy) {
        if from != key.chain.origin && !bug!(policy, StrangersReceive) {
            return;
        }
        if let Some(sender) = self.parts.remove(&(key.clone(), part)) {
            out.send(&sender, Message::Received(key, part), Receipt::None, Urgency::Lazy);
        }
    }

    /// A caller says which replies it has taken, and nobody else may: the node that replies through this one is told.
    pub(crate) fn took(&self, out: &mut Outbox, from: NodeId, key: StepKey, (arrived, read): (u32, u32)) {
        if let Some(holder) = self.rights.get(&key).filter(|_| from == key.chain.origin) {
            out.send(holder, Message::Took { key, arrived, read }, Receipt::None, Urgency::Now);
        }
    }

    /// The nodes from which heartbeats of this chain came, to be told that it is over: each is told once for what it said, so that two entries of one chain
    /// do not tell each other for ever.
    pub(crate) fn take_hosts(&mut self, chain: ChainId) -> Vec<Arc<NodeRef>> {
        self.heard.remove(&chain).map(|nodes| nodes.into_values().collect()).unwrap_or_default()
    }

    /// The nodes from which heartbeats of this chain came.
    pub(crate) fn hosts(&self, chain: ChainId) -> Vec<Arc<NodeRef>> {
        self.heard.get(&chain).map(|nodes| nodes.values().cloned().collect()).unwrap_or_default()
    }

    pub(crate) fn expire(&mut self, awake: Time, policy: &Policy) {
        self.parts.expired(awake, policy.step_record_ttl_us);
        self.rights.expired(awake, policy.budget_max.time_left_us());
        self.heard.expired(awake, policy.budget_max.time_left_us());
    }
}
