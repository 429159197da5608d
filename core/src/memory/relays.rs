//! What this node passes on for origins that cannot be dialled: it is the node by which their chains entered.

use alloc::{collections::BTreeMap, string::String, sync::Arc, vec::Vec};
use catena_wire::{ChainId, Encoded, Message, NodeId, NodeRef, Part, StepKey};

use crate::{
    Policy, Receipt, Time, Urgency,
    collections::{Expiring, Party},
    outbox::Outbox,
};

/// Nodes at which the branches of one chain are remembered to be.
const HEARD_MAX: usize = 64;

#[derive(Clone, Debug, Default)]
pub(crate) struct Relays {
    /// Who sent a part of an outcome: who has it says so to this node.
    parts: Expiring<(StepKey, Part), Arc<NodeRef>>,
    /// Who replies under which right: what its caller has taken is said to this node.
    rights: Expiring<StepKey, Arc<NodeRef>>,
    /// Where chains were heard of last.
    heard: Expiring<ChainId, BTreeMap<NodeId, Arc<NodeRef>>>,
}

impl Relays {
    /// For a node that cannot be dialled, from one that has no link to it. Only answers of chains to their origin are passed on:
    /// anything else would come under this node's name.
    pub(crate) fn pass_on(
        &mut self,
        out: &mut Outbox,
        awake: Time,
        (by, from): (Party, &Arc<NodeRef>),
        origin: NodeId,
        message: Encoded,
        policy: &Policy,
    ) {
        let Ok(said) = Message::decode_head(&message.head) else { return };
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
            _ => return,
        };
        if let Some(part) = part {
            self.parts.entry(awake, by, (key.clone(), part), policy.outgoing_max, || from.clone());
        }
        if key.chain.origin == origin {
            // By an open link only: it cannot be dialled, or nobody would have asked.
            let to = Arc::new(NodeRef { id: origin, name: String::new(), address: None, site: None });
            out.send_encoded(to, message, Receipt::None, None);
        }
    }

    fn hear(&mut self, awake: Time, chain: ChainId, (by, at): (Party, &Arc<NodeRef>), policy: &Policy) {
        let nodes = self.heard.entry(awake, by, chain, policy.stopped_chains_max, BTreeMap::new);
        if nodes.len() < HEARD_MAX {
            nodes.insert(at.id, at.clone());
        }
    }

    /// A part of an outcome has arrived: whoever sent it by this node is told.
    pub(crate) fn received(&mut self, out: &mut Outbox, key: StepKey, part: Part) {
        if let Some(sender) = self.parts.remove(&(key.clone(), part)) {
            out.send(&sender, Message::Received(key, part), Receipt::None, Urgency::Lazy);
        }
    }

    /// A caller, and nobody else, says what it has taken of replies: whoever replies by this node is told.
    pub(crate) fn took(&self, out: &mut Outbox, from: NodeId, key: StepKey, (arrived, read): (u32, u32)) {
        if let Some(holder) = self.rights.get(&key).filter(|_| from == key.chain.origin) {
            out.send(holder, Message::Took { key, arrived, read }, Receipt::None, Urgency::Now);
        }
    }

    /// Where this chain was heard of last.
    pub(crate) fn hosts(&self, chain: ChainId) -> Vec<Arc<NodeRef>> {
        self.heard.get(&chain).map(|nodes| nodes.values().cloned().collect()).unwrap_or_default()
    }

    pub(crate) fn expire(&mut self, awake: Time, policy: &Policy) {
        self.parts.expired(awake, policy.step_record_ttl_us);
        self.rights.expired(awake, policy.budget_max.time_left_us());
        self.heard.expired(awake, policy.budget_max.time_left_us());
    }
}
