//! What arrives from other nodes, to whichever part it concerns.

use alloc::{string::String, sync::Arc};
use catena_wire::{Encoded, End, Message, NodeId, NodeRef, Part, StepKey};

use super::Node;
use crate::{
    Action, Receipt, Time, Urgency,
    calls::{ReplyTo, Request},
    collections::Party,
    ground::Ground,
    memory::StepRecord,
};

impl Node {
    /// A whole message has arrived.
    pub fn on_message(&mut self, now: Time, from: &Arc<NodeRef>, message: Message) {
        self.at(now, |node| node.take_message(from, message));
    }

    pub(super) fn take_message(&mut self, from: &Arc<NodeRef>, message: Message) {
        let Self { chains, calls, origin, sets, rights, ground, .. } = self;
        let by = ground.party_of(from.id);
        match message {
            Message::Hop(hop) => chains.land(ground, from, hop, true),
            Message::Accepted(key) => chains.hop_accepted(ground, from, &key),
            Message::Refused(key, why) => chains.hop_refused(ground, from.id, &key, why),
            Message::Partial { key, number, value, to } => {
                chains.implicit_ack(ground, from.id, &key);
                // What comes from this node itself cannot come again.
                let room = (from.id != ground.me.id).then_some(ground.room);
                let kept = if to == 0 {
                    // What is passed on by the node of the entry has no host of its own to name.
                    origin.heard_at(&key, from);
                    origin.on_partial(ground, &key, number, value, room)
                } else {
                    ground.listeners.on_partial(&mut ground.out, &key, to, number, value, room, &ground.policy)
                };
                if kept {
                    self.received(from, key, Part::Partial(number));
                }
            }
            Message::End(end) => {
                chains.implicit_ack(ground, from.id, &end.key);
                self.end_came(from, *end);
            }
            Message::Received(key, part) => {
                ground.outgoing.received(&(key.clone(), part), from.id);
                if let Some(sender) = ground.relays.received(&key, part) {
                    ground.out.send(&sender, Message::Received(key, part), Receipt::None, Urgency::Lazy);
                }
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
            // To a node that cannot be dialled it may be passed on by another.
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
                if let Some(holder) = ground.relays.holder(&key).filter(|_| from.id == key.chain.origin) {
                    ground.out.send(&holder, Message::Took { key, arrived, read }, Receipt::None, Urgency::Now);
                }
            }
            // The machine beside this one takes them.
            Message::Segment(_) => {}
            Message::CallElsewhere(id, whither) => calls.elsewhere(ground, from.id, id, whither),
            Message::HopElsewhere(key, whither) => chains.hop_elsewhere(ground, from.id, &key, whither),
            Message::Moved(service, whither) => self.moved(from.id, &service, whither),
            Message::Offers(mut entries) => {
                // Nobody speaks for others.
                entries.retain(|entry| entry.node.id == from.id);
                ground.out.ask(Action::Offered { from: from.clone(), entries });
            }
            Message::Resolve(id, service) => ground.out.ask(Action::ServeResolvers { id, service, to: from.clone() }),
            Message::Resolved(id, answers) => ground.out.ask(Action::ResolversSaid { id, answers }),
            Message::Relay { to, head, tail } => self.pass_on(from, to, Encoded { head: head.into(), tail }),
        }
    }

    /// A part of an outcome has come, and is kept here: whoever sent it may forget it.
    fn received(&mut self, from: &Arc<NodeRef>, key: StepKey, part: Part) {
        let ground = &mut self.ground;
        if from.id != ground.me.id {
            ground.out.send(from, Message::Received(key, part), Receipt::None, Urgency::Lazy);
        }
    }

    /// The end of a branch, at its merge host, or of a chain of this node.
    fn end_came(&mut self, from: &Arc<NodeRef>, end: End) {
        let Self { chains, origin, ground, .. } = self;
        let key = end.key.clone();
        if let Some(at) = &end.at {
            // It may come ahead of its parent, whose hop is not here yet: then it has to come again.
            let known = chains.knows_split(ground, at);
            chains.branch_ended(ground, end);
            return if known {
                self.received(from, key, Part::End)
            };
        }
        let (chain, hosts) = (key.chain, origin.hosts(key.chain));
        let awaited = origin.awaits(chain);
        let cut = end.cut && awaited;
        origin.on_end(ground, end);
        // Of a chain that went on here as well, after it was told that another had been lost.
        let mine = chain.origin == ground.me.id;
        let runs = |record: &StepRecord| matches!(record, StepRecord::Running { .. });
        let here = mine && ground.dedup.of_chain(chain).any(|(_, record)| runs(record));
        if cut || (here && !origin.awaits(chain)) {
            chains.stop(ground, Party::Own, chain, hosts);
        } else if awaited && !origin.awaits(chain) {
            chains.over(ground, chain);
        }
        self.received(from, key, Part::End);
    }

    /// A sign of life. Whoever was to stop a chain of this node that has ended did not get there: it is stopped now.
    fn beat(&mut self, from: &Arc<NodeRef>, key: &StepKey, host: NodeRef, open: &[catena_wire::Branch]) {
        let Self { origin, sets, ground, .. } = self;
        if sets.awaits(key.chain) {
            return sets.on_beat(ground, from, key, host);
        }
        let (chain, me) = (key.chain, ground.me.id);
        let stray = chain.origin == me && from.id != me && !origin.awaits(chain);
        if stray {
            ground.out.send(from, Message::Cancel(chain), Receipt::None, Urgency::Now);
        }
        origin.on_heartbeat(ground, key, host, open);
    }

    /// For a node that cannot be dialled, from one that has no link to it. Only answers of chains to their origin are passed on:
    /// anything else would come under this node's name.
    fn pass_on(&mut self, from: &Arc<NodeRef>, origin: NodeId, message: Encoded) {
        let by = (self.ground.party_of(from.id), from);
        let Ground { clock, relays, policy, out, .. } = &mut self.ground;
        let (awake, Ok(said)) = (clock.now(), Message::decode_head(&message.head)) else { return };
        let (key, part) = match said {
            Message::Partial { key, number, to: 0, .. } => (key, Some(Part::Partial(number))),
            Message::End(end) => (end.key, Some(Part::End)),
            Message::RightEnd(end) => (end.key, Some(Part::End)),
            Message::Replies(replies) => {
                relays.replies(awake, replies.key.clone(), by, policy);
                (replies.key, None)
            }
            Message::Heartbeat(key, ..) => {
                if !bug!(policy, EntryForgetsHosts) {
                    relays.heard(awake, key.chain, by, policy);
                }
                (key, None)
            }
            Message::Console(key, ..) | Message::Located(key, ..) => (key, None),
            _ => return,
        };
        if let Some(part) = part {
            relays.sent(awake, key.clone(), part, by, policy);
        }
        if key.chain.origin == origin {
            // By an open link only: it cannot be dialled, or nobody would have asked.
            let to = Arc::new(NodeRef { id: origin, name: String::new(), address: None, site: None });
            out.send_encoded(to, message, Receipt::None, None);
        }
    }
}
