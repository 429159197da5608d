//! Messages from other nodes, brought to the part that they concern.

use alloc::{boxed::Box, sync::Arc, vec::Vec};
use catena_wire::{Encoded, End, Hop, Message, NodeRef, Part, StepKey};

use super::Node;
use crate::{
    Action, Receipt, Time, Urgency,
    calls::{ReplyTo, Request},
    chain::refuse_as_over,
    origin::Ending,
};

impl Node {
    /// A whole message has arrived.
    pub fn on_message(&mut self, now: Time, from: &Arc<NodeRef>, message: Message) {
        self.at(now, |node| node.take_message(from, message));
    }

    /// A hop has come, `whole` or without its tail. A chain that is over takes no new step at its origin: a hop may still come on a way that was given up.
    pub(super) fn take_hop(&mut self, from: &Arc<NodeRef>, hop: Box<Hop>, whole: bool) {
        let Self { chains, origin, ground, .. } = self;
        let (chain, me) = (hop.key.chain, ground.me.id);
        let is_over = chain.origin == me && from.id != me && !origin.awaits(chain);
        if is_over && ground.dedup.get(&hop.key).is_none() && !bug!(ground.policy, StraysGoOn) {
            ground.answer_cancelled(chain, [from.clone()]);
            return refuse_as_over(ground, from, &hop);
        }
        chains.arrive(ground, from, hop, whole);
    }

    pub(super) fn take_message(&mut self, from: &Arc<NodeRef>, message: Message) {
        let Self { chains, calls, origin, sets, rights, ground, .. } = self;
        let by = match &message {
            Message::Ask { right, .. } if from.id == ground.me.id => sets.party_of(right.key.chain),
            Message::Call { key: Some(key), .. } | Message::SubChainEnded(key) => {
                ground.party_of(from.id, Some(key.chain))
            }
            _ => ground.party_of(from.id, None),
        };
        match message {
            Message::Hop(hop) => self.take_hop(from, hop, true),
            Message::Accepted(key) => chains.hop_accepted(ground, from, &key),
            Message::Refused(key, why) => chains.hop_refused(ground, from.id, &key, why),
            Message::Partial { key, number, value, to } => {
                chains.implicit_ack(ground, from.id, &key);
                let awaited = origin.awaits(key.chain);
                // What comes from this node itself cannot be sent again, and always finds room.
                let room = (from.id != ground.me.id).then_some(ground.room);
                let kept = if to == 0 {
                    // An answer names no host: if the entry node passed it on, that node counts as the place.
                    origin.heard_at(&key, from);
                    origin.on_partial(ground, &key, number, value, room)
                } else {
                    ground.listeners.on_partial(&mut ground.out, &key, to, number, value, room, &ground.policy)
                };
                // The end was here before: this was the last answer that it counts.
                if awaited && !origin.awaits(key.chain) {
                    chains.chain_ended(ground, key.chain, Ending::Last, Vec::new());
                }
                if kept {
                    self.received(from, key, Part::answer(number, to));
                }
            }
            Message::End(end) => {
                chains.implicit_ack(ground, from.id, &end.key);
                self.end_came(from, *end);
            }
            Message::Received(key, part) => {
                ground.outgoing.received(&(key.clone(), part), from.id);
                ground.relays.received(&mut ground.out, from.id, key, part, &ground.policy);
            }
            Message::Over(ended) => ended.into_iter().for_each(|chain| chains.over_says(ground, from.id, chain)),
            Message::SubChainEnded(key) => {
                ground.listeners.end(ground.clock.now(), by, key, &ground.policy);
            }
            Message::Heartbeat(key, host, open) => {
                chains.implicit_ack(ground, from.id, &key);
                self.beat(from, &key, host, &open);
            }
            Message::Console(key, first, lines) => {
                origin.on_console(ground, &key, first, lines);
            }
            Message::Locate { key, origin, entry } => chains.locate(ground, from.id, &key, (origin, entry)),
            // If this node cannot be dialled, another may have passed it on.
            Message::Located(key, host, whereabouts) if host == from.name || ground.me.address.is_none() => {
                origin.on_located(&key, &host, whereabouts);
            }
            Message::Located(..) => {}
            Message::Call { id, service, function, params, budget, key, credentials, duplicate, age_us } => {
                let reply_to = ReplyTo::Peer { to: from.clone(), id };
                let request = Request::new(by, reply_to, service, function, params, ground.now, budget);
                let duplicate = duplicate.map(alloc::boxed::Box::new);
                let request = Request { key, credentials, duplicate, ..request };
                calls.serve(ground, from, id, request, age_us);
            }
            Message::Return(id, outcome, brought) => calls.returned(ground, from, id, outcome, brought),
            Message::Withdraw(id) => calls.withdrawn(ground, from, id),
            Message::WantCode(code) => ground.out.ask(Action::ServeCode { code, to: from.clone() }),
            Message::Code(code, bytes) => ground.codes.came(&mut ground.out, ground.me.id, from.id, code, bytes),
            Message::NoCode(code) if ground.codes.awaits(code, from.id) => chains.ask_for_code(ground, code),
            Message::NoCode(_) => {}
            Message::List(id) => ground.out.ask(Action::ServeListing { id, to: from.clone() }),
            Message::Listing(id, entries) => ground.out.ask(Action::Listing { id, entries }),
            Message::Cancel(chain) => {
                rights.stop(ground, from.id, chain);
                chains.stopped_by(ground, from, chain);
                let me = ground.me.id;
                self.received(from, StepKey::first(chain), Part::Cancel(me));
            }
            Message::Ask { id, service, function, params, budget, credentials, right } => {
                let reply_to = ReplyTo::Peer { to: from.clone(), id };
                let request = Request::new(by, reply_to, service, function, params, ground.now, budget);
                let request = Request { credentials, right: Some(right), ..request };
                calls.serve(ground, from, id, request, 0);
            }
            Message::Replies(replies) => sets.on_replies(ground, from, replies),
            Message::RightEnd(end) => {
                let key = end.key.clone();
                sets.on_end(ground, from, *end);
                self.received(from, key, Part::End);
            }
            Message::Took { key, arrived, read } => {
                rights.took(ground, from.id, &key, arrived, read);
                ground.relays.took(&mut ground.out, from.id, key, (arrived, read));
            }
            // The state machine for segments, beside this one, handles them.
            Message::Segment(_) => {}
            Message::CallElsewhere(id, relocation, again) => calls.elsewhere(ground, from.id, id, relocation, again),
            Message::HopElsewhere(key, relocation) => chains.hop_elsewhere(ground, from.id, &key, relocation),
            Message::Moved(service, relocation) => self.moved(from.id, &service, relocation),
            Message::Offers(mut entries) => {
                // A node can only say what it serves itself.
                entries.retain(|entry| entry.node.id == from.id);
                ground.out.ask(Action::Offered { from: from.clone(), entries });
            }
            Message::Resolve(id, service) => {
                let (to, by) = (from.clone(), ground.party_of(from.id, None));
                ground.out.ask(Action::ServeResolvers { id, service, to, by });
            }
            Message::Resolved(id, answers) => ground.out.ask(Action::ResolversSaid { id, answers }),
            Message::Relay { to, head, tail } => {
                let (awake, message) = (ground.clock.now(), Encoded { head: head.into(), tail });
                let beats = ground.relays.pass_on(&mut ground.out, awake, (by, from), to, message, &ground.policy);
                // Its sender has not heard that the chain is stopped, and only nodes that had been heard of by then were told.
                if let Some(chain) = beats
                    && ground.fences.is_stopped(chain, chain.origin)
                {
                    ground.answer_cancelled(chain, [from.clone()]);
                }
            }
        }
    }

    /// What its sender keeps until it has arrived is here: the sender may forget it.
    fn received(&mut self, from: &Arc<NodeRef>, key: StepKey, part: Part) {
        let ground = &mut self.ground;
        if from.id != ground.me.id {
            ground.out.send(from, Message::Received(key, part), Receipt::None, Urgency::Lazy);
        }
    }

    /// The end of a branch, at its merge host, or of a chain of this node.
    fn end_came(&mut self, from: &Arc<NodeRef>, end: End) {
        let Self { chains, origin, ground, .. } = self;
        let (key, hosts) = (end.key.clone(), origin.hosts(end.key.chain));
        if end.at.is_none() {
            let ending = origin.on_end(ground, end);
            chains.chain_ended(ground, key.chain, ending, hosts);
        } else if !chains.branch_ended(ground, from.id, end) {
            return;
        }
        self.received(from, key, Part::End);
    }

    /// A sign of life.
    fn beat(&mut self, from: &Arc<NodeRef>, key: &StepKey, host: NodeRef, open: &[catena_wire::Branch]) {
        let Self { origin, sets, ground, .. } = self;
        match sets.awaits(key.chain) {
            true => sets.on_beat(ground, from, key, host),
            false => origin.on_heartbeat(ground, from, key, host, open),
        }
    }
}
