//! What lies between the nodes: delays, and faults as rules.

use std::sync::Arc;

use catena_core::{HopCopy, Receipt, Undelivered};
use catena_wire::{Encoded, Message, NodeId, NodeRef};

use crate::{
    record::Sent,
    sim::{Event, Tail, World},
};

/// How long it takes to notice that nobody answers the dialling.
const DIAL_US: u64 = 20_000;

impl World {
    pub(crate) fn send(
        &mut self,
        from: usize,
        to: &Arc<NodeRef>,
        message: Encoded,
        receipt: Receipt,
        via: Option<Arc<NodeRef>>,
    ) {
        let me = self.hosts[from].me.clone();
        let Some(target) = self.index_of(to.id).filter(|target| self.reaches(from, *target)) else {
            if let Some(via) = via {
                let relay = Message::Relay { to: to.id, head: message.head.to_vec(), tail: message.tail };
                return self.send(from, &via, relay.encode(), receipt, None);
            }
            let gone = Event::Undelivered { at: me.id, receipt, why: Undelivered::Unreachable };
            return self.after(DIAL_US, gone);
        };
        if me.address.is_none() {
            self.opened.insert((me.id, to.id));
        }
        let bytes = (message.head.len() + message.tail.len()) as u64;
        if let Some(bytes_max) = self.plan.nodes.message_bytes_max.filter(|bytes_max| bytes > *bytes_max) {
            let why = Undelivered::TooLarge { bytes, bytes_max };
            return self.after(0, Event::Undelivered { at: me.id, receipt, why });
        }
        let sent = describe(from, target, &message);
        let (kind, once) = (sent.kind, sent.kind == "call" && sent.key.is_none());
        self.record.sent.push(sent);
        if self.is_cut(from, target, &me, &receipt) {
            return;
        }
        let rules = self.plan.rules.clone();
        if from != target && self.rng.chance(rules.drop) {
            return self.drop_message(from, target, &me, receipt);
        }
        let copies = 1 + u64::from(!once && self.rng.chance(rules.duplicate));
        for copy in 0..copies {
            let tail = self.draw_tail(kind);
            let bytes = message.head.len() + message.tail.len();
            let at = self.arrival(from, target, bytes as u64) + if copy > 0 { self.rng.range(0, 300_000) } else { 0 };
            let (from, message, receipt) = (me.clone(), message.clone(), receipt.clone());
            self.at(at, Event::Deliver { from, to: to.id, message, receipt, tail });
        }
        if self.rng.chance(rules.flap) {
            let after = self.rng.range(1, 300_000);
            self.break_link(from, target, after);
        }
    }

    /// A node without an address is reached over the links that it has opened itself.
    fn reaches(&self, from: usize, to: usize) -> bool {
        let (from, to) = (&self.hosts[from].me, &self.hosts[to].me);
        from.id == to.id || to.address.is_some() || self.opened.contains(&(to.id, from.id))
    }

    fn drop_message(&mut self, from: usize, to: usize, me: &NodeRef, receipt: Receipt) {
        if self.rng.chance(50) {
            let after = self.rng.range(1_000, 1_000_000);
            self.break_link(from, to, after);
            self.after(after, Event::Undelivered { at: me.id, receipt, why: Undelivered::Lost });
        }
    }

    fn draw_tail(&mut self, kind: &str) -> Tail {
        if kind != "hop" {
            return Tail::With;
        }
        let (late, never) = (self.plan.rules.late_tail, self.plan.rules.no_tail);
        match self.rng.range(0, 100) {
            roll if roll < late => Tail::After(self.rng.range(1, 50_000)),
            roll if roll < late + never => Tail::Never,
            _ => Tail::With,
        }
    }

    fn arrival(&mut self, from: usize, to: usize, bytes: u64) -> u64 {
        let rules = self.plan.rules.clone();
        let transfer_us = self.widths.get(&(from, to)).map_or(0, |bytes_per_s| bytes * 1_000_000 / bytes_per_s);
        let base = if from == to { 1 } else { self.delays[&(from, to)] + transfer_us };
        let extra = if self.rng.chance(rules.delay) { self.rng.range(1, 1_000_000) } else { 0 };
        if self.rng.chance(rules.reorder) {
            return self.now + base + extra + self.rng.range(0, 2 * base);
        }
        let last = self.last_arrival.entry((from, to)).or_default();
        *last = (*last).max(self.now + base + extra);
        *last
    }

    fn is_cut(&mut self, from: usize, to: usize, me: &NodeRef, receipt: &Receipt) -> bool {
        let now = self.now;
        let cuts =
            |cut: &&crate::plan::Cut| cut.from == from && cut.to == to && (cut.at_us..cut.until_us).contains(&now);
        let Some(cut) = self.plan.cuts.iter().find(cuts).cloned() else { return false };
        let (at_us, why) = if self.now < cut.noticed_us {
            (cut.noticed_us, Undelivered::Lost)
        } else {
            (self.now + DIAL_US, Undelivered::Unreachable)
        };
        self.at(at_us, Event::Undelivered { at: me.id, receipt: receipt.clone(), why });
        true
    }

    pub(crate) fn deliver(&mut self, from: &Arc<NodeRef>, to: NodeId, message: Encoded, receipt: Receipt, tail: Tail) {
        let Some(target) = self.index_of(to) else {
            let after = self.rng.range(1_000, 500_000);
            return self.after(after, Event::Undelivered { at: from.id, receipt, why: Undelivered::Lost });
        };
        self.note(|| format!("n{target} <- {} {:?} {:?}", from.name, message.head, message.tail));
        let mut decoded = Message::decode_head(&message.head).expect("what one node says, another understands");
        self.learn_of(from.id, to, &decoded);
        if let (Message::Hop(hop), true) = (&decoded, tail != Tail::With) {
            let (head, copy) = (hop.clone(), HopCopy::of(from, hop));
            self.on(to, |node, now| {
                let returned = node.on_hop_head(now, from, head);
                assert_eq!(returned, copy, "the copy of which the tail must follow");
            });
            decoded.attach_tail(message.tail).expect("the tail is whole");
            let Message::Hop(hop) = decoded else { return };
            let whole = Some(hop.into_tail());
            let (us, tail) = match tail {
                Tail::After(us) => (us, whole),
                Tail::With | Tail::Never => (10_000, None),
            };
            if tail.is_none() {
                let sender = self.hosts.iter().position(|host| host.up && host.id() == from.id);
                sender.into_iter().for_each(|sender| self.break_link(sender, target, us));
                self.after(us, Event::Undelivered { at: from.id, receipt, why: Undelivered::Lost });
            }
            return self.after(us, Event::Tail { to, copy, tail });
        }
        decoded.attach_tail(message.tail).expect("the tail is whole");
        self.on(to, |node, now| node.on_message(now, from, decoded));
    }
}

impl World {
    /// Which node knows which chain, and which of these have been cancelled there.
    fn learn_of(&mut self, from: NodeId, to: NodeId, message: &Message) {
        match message {
            Message::Hop(hop) => drop(self.record.known.insert((to, hop.key.chain, from))),
            Message::Call { key: Some(key), .. } => drop(self.record.known.insert((to, key.chain, from))),
            Message::Cancel(chain) if from == chain.origin || self.record.known.contains(&(to, *chain, from)) => {
                self.record.cancels.insert((to, *chain));
            }
            _ => {}
        }
    }
}

fn describe(from: usize, to: usize, message: &Encoded) -> Sent {
    let message = Message::decode_head(&message.head).expect("what a node says is a message");
    let open = if let Message::Heartbeat(.., open) = &message { open.clone() } else { Vec::new() };
    let (kind, key, budget) = match message {
        Message::Hop(hop) => ("hop", Some(hop.key), Some(hop.budget)),
        Message::Accepted(key) => ("accepted", Some(key), None),
        Message::Refused(key, _) => ("refused", Some(key), None),
        Message::Partial { key, .. } => ("partial", Some(key), None),
        Message::End(end) => ("end", Some(end.key), None),
        Message::Heartbeat(key, ..) => ("heartbeat", Some(key), None),
        Message::Call { budget, key, .. } => ("call", key, Some(budget)),
        Message::Return(..) => ("return", None, None),
        Message::Withdraw(_) => ("withdraw", None, None),
        Message::WantCode(_) => ("want", None, None),
        Message::Code(..) => ("code", None, None),
        Message::NoCode(_) => ("nocode", None, None),
        Message::List(_) | Message::Listing(..) => ("list", None, None),
        Message::Console(key, ..) => ("console", Some(key), None),
        Message::Locate { key, .. } => ("locate", Some(key), None),
        Message::Located(key, ..) => ("located", Some(key), None),
        Message::Cancel(_) => ("cancel", None, None),
        Message::Relay { .. } => ("relay", None, None),
        Message::Received(key, _) => ("received", Some(key), None),
        Message::Ask { budget, right, .. } => ("ask", Some(right.key), Some(budget)),
        Message::Replies(replies) => ("replies", Some(replies.key), None),
        Message::RightEnd(end) => ("right end", Some(end.key), None),
        Message::Took { key, .. } => ("took", Some(key), None),
        Message::Over(_) => ("over", None, None),
        Message::SubChainEnded(key) => ("sub-chain ended", Some(key), None),
        Message::Segment(_) => ("about segments", None, None),
        Message::CallElsewhere(..) => ("call elsewhere", None, None),
        Message::HopElsewhere(key, _) => ("hop elsewhere", Some(key), None),
        Message::Moved(..) => ("moved", None, None),
        Message::Offers(_) | Message::Resolve(..) | Message::Resolved(..) => ("names", None, None),
    };
    Sent { from, to, kind, key, budget, open }
}
