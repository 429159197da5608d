//! What arrives from other nodes, to whichever part it concerns.

use alloc::sync::Arc;
use catena_wire::{Encoded, Message, NodeId, NodeRef};

use crate::{
    Action, Node, Receipt, Time, Urgency,
    calls::{Asker, Request},
};

impl Node {
    /// A whole message has arrived.
    pub fn on_message(&mut self, now: Time, from: &Arc<NodeRef>, message: Message) {
        match message {
            Message::Hop(hop) => self.land(now, from, hop, true),
            Message::Accepted(key) => self.hop_accepted(now, from.id, &key),
            Message::Refused(key, why) => self.hop_refused(now, from.id, &key, why),
            Message::Partial { key, number, value, to } => {
                self.seen_beyond(now, from.id, &key);
                if to == 0 {
                    // What is passed on by the node of the entry has no host of its own to name.
                    self.origin.heard_at(&key, from);
                    self.origin.on_partial(now, &key, number, value, &self.policy, &mut self.actions);
                } else {
                    self.hearings.on_partial(&key, to, number, value, &self.policy, &mut self.actions);
                }
                self.settle_apart(now);
            }
            Message::End(end) => {
                self.seen_beyond(now, from.id, &end.key);
                if end.at.is_some() {
                    self.branch_ended(now, *end);
                } else {
                    self.chain_ended(now, *end);
                    self.settle_apart(now);
                }
            }
            Message::Heartbeat(key, host, open) => {
                self.seen_beyond(now, from.id, &key);
                self.origin.on_heartbeat(now, &key, from, &host, &open, &self.policy);
                self.stop_stray(from, key.chain);
            }
            Message::Console(key, first, lines) => {
                self.origin.on_console(&key, first, lines, &self.policy, &mut self.actions);
            }
            Message::Locate { key, origin, entry } => self.locate(now, from.id, &key, &(origin, entry)),
            // To a node that cannot be dialled it may be passed on by another.
            Message::Located(key, host, whereabouts) if host == from.name || self.me.address.is_none() => {
                self.origin.on_located(&key, &host, whereabouts);
            }
            Message::Located(..) => {}
            Message::Call { id, service, function, params, budget, key, credentials, redone } => {
                let asker = Asker::Peer { to: from.clone(), id };
                let request = Request::new(asker, service, function, params, now, budget);
                let redone = redone.map(|redone| crate::redoing::Mark::from_wire(now, redone));
                self.serve_step(now, Request { key, credentials, redone, ..request });
            }
            Message::Return(id, outcome, brought) => self.call_returned(now, from, id, outcome, brought),
            Message::Withdraw(id) => self.call_withdrawn(now, from, id),
            Message::WantCode(code) => self.actions.push_back(Action::ServeCode { code, to: from.clone() }),
            Message::Code(code, bytes) => self.code_came(from, code, bytes),
            Message::NoCode(code) => self.code_unavailable(now, code, from.id),
            Message::List(id) => self.actions.push_back(Action::ServeListing { id, to: from.clone() }),
            Message::Listing(id, entries) => self.actions.push_back(Action::Listing { id, entries }),
            Message::Cancel(chain) => self.cancelled_by(now, from, chain),
            Message::Relay { to, head, tail } if is_answer_to(to, &head) => {
                // By an open link only: it cannot be dialled, or nobody would have asked.
                let to = Arc::new(NodeRef { id: to, name: alloc::string::String::new(), address: None, site: None });
                let message = Encoded { head: head.into(), tail };
                let (receipt, urgency) = (Receipt::None, Urgency::Now);
                self.actions.push_back(Action::Send { to, message, receipt, urgency, via: None });
            }
            Message::Relay { .. } => {}
        }
        self.give_up(now);
    }
}

/// Whether this is an answer of a chain to its origin. Nothing else is passed on: it would come under this node's name.
fn is_answer_to(origin: NodeId, head: &[u8]) -> bool {
    match Message::decode_head(head) {
        Ok(
            Message::Partial { key, to: 0, .. }
            | Message::Heartbeat(key, ..)
            | Message::Console(key, ..)
            | Message::Located(key, ..),
        ) => key.chain.origin == origin,
        Ok(Message::End(end)) => end.key.chain.origin == origin,
        _ => false,
    }
}
