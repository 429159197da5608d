//! What arrives from other nodes, to whichever part it concerns.

use alloc::sync::Arc;
use catena_wire::{Message, NodeRef};

use crate::{
    Action, Node, Time,
    calls::{Asker, Request},
};

impl Node {
    /// A whole message has arrived.
    pub fn on_message(&mut self, now: Time, from: &Arc<NodeRef>, message: Message) {
        match message {
            Message::Hop(mut hop) => {
                let tail = core::mem::take(&mut hop.continuation);
                self.land(now, from, hop, Some(tail));
            }
            Message::Accepted(key) => self.hop_accepted(now, from.id, &key),
            Message::Refused(key, why) => self.hop_refused(from.id, &key, why),
            Message::Partial { key, number, value } => {
                self.seen_beyond(now, from.id, &key);
                self.origin.on_partial(now, &key, number, value, &self.policy, &mut self.actions);
            }
            Message::End(end) => {
                self.seen_beyond(now, from.id, &end.key);
                self.origin.on_end(now, *end, &self.policy, &mut self.actions);
            }
            Message::Heartbeat(key, host) => {
                self.seen_beyond(now, from.id, &key);
                self.origin.on_heartbeat(now, &key, &host, &self.policy);
            }
            Message::Console(key, lines) => self.origin.on_console(&key, lines, &mut self.actions),
            Message::Call { id, service, function, params, budget } => {
                let asker = Asker::Peer { to: from.clone(), id };
                self.serve_call(now, Request { asker, service, function, params, budget, budget_at: now });
            }
            Message::Return(id, outcome) => self.call_returned(now, from, id, outcome),
            Message::Withdraw(id) => self.call_withdrawn(from, id),
            Message::WantCode(code) => self.actions.push_back(Action::ServeCode { code, to: from.clone() }),
            Message::Code(code, bytes) => self.code_came(from, code, bytes),
            Message::NoCode(code) => self.code_unavailable(now, code, from.id),
            Message::List(id) => self.actions.push_back(Action::ServeListing { id, to: from.clone() }),
            Message::Listing(id, entries) => self.actions.push_back(Action::Listing { id, entries }),
        }
    }
}
