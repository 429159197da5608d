//! What the shell has to tell: what guests did, what was looked up, what got lost, and that time has passed.

use core::net::IpAddr;

use alloc::{boxed::Box, string::ToString, sync::Arc};
use bytes::Bytes;
use catena_wire::{Exception, Hash, Hop, Message, NodeId, NodeRef, Part, ServiceEntry, StepKey, Tail, Whither};

use super::Node;
use crate::{
    Action, Instance, LookupId, Receipt, SessionId, Time, Turn, Undelivered, Urgency, calls::result_too_large,
    collections::Party, directory::Waiter, ground::Ground,
};

impl Node {
    /// The guest has run, for `took_us`, and returned with an empty stack; or broke a limit.
    pub fn on_turn(&mut self, now: Time, session: SessionId, turn: Result<Turn, Exception>, took_us: u64) {
        self.at(now, |node| node.chains.on_turn(&mut node.ground, session, turn, took_us));
    }

    /// The guest's continuation has been taken, with its function if that is to be sent along; or taking it failed.
    pub fn on_suspended(
        &mut self,
        now: Time,
        session: SessionId,
        continuation: Result<(Bytes, Option<Bytes>), Exception>,
        took_us: u64,
    ) {
        self.at(now, |node| node.chains.suspended(&mut node.ground, session, continuation, took_us));
    }

    /// The head of a hop has arrived, its continuation is still on its way: the service function can begin
    /// (rpc-chains section 7.2). [`Node::on_tail`] must follow, for the key that this returns.
    pub fn on_hop_head(&mut self, now: Time, from: &Arc<NodeRef>, hop: Box<Hop>) -> StepKey {
        let key = hop.key.clone();
        self.at(now, |node| node.chains.land(&mut node.ground, from, hop, false));
        key
    }

    /// The tail of a hop has arrived: continuations, and the function if it was sent along. `None`: it never will.
    pub fn on_tail(&mut self, now: Time, key: &StepKey, tail: Option<Tail>) {
        self.at(now, |node| node.chains.tail(&mut node.ground, key, tail));
    }

    /// The shell does not have the function that it was asked to check for this session: it is fetched while the session waits for its call.
    pub fn on_code_missing(&mut self, now: Time, session: SessionId, code: Hash) {
        self.at(now, |node| node.chains.code_missing(&mut node.ground, session, code));
    }

    /// The shell was asked to run this guest ([`Action::Resume`], [`Action::Branch`]), and does not have its function.
    pub fn on_code_absent(&mut self, now: Time, action: Action) {
        self.at(now, |node| node.chains.code_absent(&mut node.ground, action));
    }

    /// A function that was asked for, or offered, has been checked and stored; or it does not match its hash.
    pub fn on_code_stored(&mut self, now: Time, code: Hash, stored: Result<(), Exception>) {
        self.at(now, |node| node.chains.code_stored(&mut node.ground, code, stored.is_ok()));
    }

    /// The registry's answer for this function. `None`: it does not have it, or cannot be asked.
    pub fn on_code_fetched(&mut self, now: Time, code: Hash, bytes: Option<Bytes>) {
        self.at(now, |node| {
            if node.ground.codes.fetched(&mut node.ground.out, code, bytes) {
                node.chains.ask_for_code(&mut node.ground, code);
            }
        });
    }

    /// A name has been looked up.
    pub fn on_resolved(&mut self, now: Time, lookup: LookupId, place: Result<Instance, Exception>) {
        self.at(now, |node| {
            let Ground { directory, policy, .. } = &mut node.ground;
            let waiters = directory.resolved(now, lookup, &place, policy);
            node.found(waiters, &place);
        });
    }

    /// What was found for a name is valid for so long.
    pub fn on_name_ttl(&mut self, now: Time, service: &str, ttl_us: u64) {
        self.ground.directory.names.shorten(service, now.after(ttl_us));
    }

    /// Somebody says that this name leads elsewhere now: what is known of it is forgotten, and it is looked up again when it is used next.
    pub fn on_name_changed(&mut self, service: &str) {
        self.ground.directory.names.forget(service);
    }

    pub(super) fn found(&mut self, waiters: impl IntoIterator<Item = Waiter>, place: &Result<Instance, Exception>) {
        for waiter in waiters {
            match waiter {
                Waiter::Call(id) => {
                    if let Ok(place) = place
                        && let Some(request) = self.calls.going_to(id, place)
                    {
                        self.chains.lend_late(self.ground.now, request, place);
                    }
                    self.calls.resolved(&mut self.ground, id, place);
                }
                Waiter::Chain(session, step) => {
                    self.chains.resolved(&mut self.ground, (session, step), place);
                }
            }
        }
    }

    /// A node says that a service is there no longer.
    pub(super) fn moved(&mut self, from: NodeId, service: &str, whither: Whither) {
        let Ground { directory, policy, out, .. } = &mut self.ground;
        if let Some((place, waiters)) = directory.moved(out, from, service, whither, policy) {
            self.found(waiters, &Ok(place));
        }
    }

    /// This node no longer serves this service; what has begun goes on. `moving_us`: the service is being moved, and [`Node::service_moved`] will follow within
    /// so many microseconds; until then its callers are told to wait.
    pub fn leave_service(&mut self, now: Time, service: &str, moving_us: Option<u64>) {
        self.at(now, |node| {
            let Ground { directory, policy, clock, .. } = &mut node.ground;
            directory.leave(clock.now(), service, moving_us.map(|us| now.after(us)), policy);
        });
    }

    /// A service that this node served is at `to` now, or gone. The nodes in `tell`, which may have called it here, are told.
    pub fn service_moved(&mut self, now: Time, service: &str, to: Option<ServiceEntry>, tell: &[Arc<NodeRef>]) {
        self.at(now, |node| {
            let whither = to.clone().map_or(Whither::Unknown, |entry| Whither::There(Box::new(entry)));
            let Ground { directory, policy, clock, me, .. } = &mut node.ground;
            directory.left_for(clock.now(), service, whither.clone(), policy);
            if let Some(entry) = to.filter(|entry| entry.service == service && !directory.serves(service)) {
                directory.names.learn(service, Instance::of(entry), policy);
            }
            // Chains and calls of this node may wait for it as well.
            let me = me.id;
            node.moved(me, service, whither.clone());
            let out = &mut node.ground.out;
            for peer in tell {
                let message = Message::Moved(service.to_string(), whither.clone());
                out.send(peer, message, Receipt::None, Urgency::Now);
            }
        });
    }

    /// How many functions of a service run here.
    #[must_use]
    pub fn running(&self, service: &str) -> usize {
        self.calls.running(service)
    }

    /// `node` is linked from now on: over a network from this address, or, if there is none, from a process of this machine. All nodes of one address have a
    /// common share of what this node takes on; of IPv6 the first 64 bits count.
    pub fn on_linked(&mut self, node: NodeId, address: Option<IpAddr>) {
        self.ground.parties.linked(node, address);
    }

    /// A link to `node` has broken: what it was asked is lost. Nobody waits for what it asked, unless it is still linked: of two links that both sides dialled
    /// at once only one lasts, and what came by that goes on.
    pub fn on_link_lost(&mut self, now: Time, node: NodeId, still_linked: bool) {
        self.at(now, |this| {
            let ground = &mut this.ground;
            ground.directory.forget_node(&mut ground.out, node);
            ground.parties.link_lost(node);
            ground.outgoing.link_lost(now, node, &ground.policy);
            for code in ground.codes.link_lost(node) {
                this.chains.ask_for_code(ground, code);
            }
            this.sets.link_lost(ground, node);
            this.rights.link_lost(ground, node);
            if !still_linked {
                this.calls.abandon_peer(ground, node);
            }
            this.calls.link_lost(ground, node);
            this.chains.link_lost(ground, node);
        });
    }

    /// Whether a message that has waited, for example for a link, is still to go to that node. A hop or call may have been given up meanwhile: nobody waits for
    /// it any more, and another node may do it.
    #[must_use]
    pub fn is_to_go(&self, to: NodeId, receipt: &Receipt) -> bool {
        match receipt {
            Receipt::Hop(handed) => self.chains.is_to_go(to, handed),
            Receipt::Call(id) => self.calls.is_to_go(to, *id),
            Receipt::Return(..) | Receipt::WantCode(_) | Receipt::Part(..) | Receipt::Beat(_) | Receipt::None => true,
        }
    }

    /// A message did not arrive, or may not have.
    pub fn on_undelivered(&mut self, now: Time, receipt: Receipt, why: Undelivered) {
        self.at(now, |node| {
            let ground = &mut node.ground;
            match (receipt, why) {
                (Receipt::Hop(handed), why) => node.chains.hop_undelivered(ground, handed, why),
                (Receipt::Call(id), why) => node.calls.undelivered(ground, id, why),
                (Receipt::Part(key, Part::Partial(first)), Undelivered::TooLarge { bytes, bytes_max })
                    if node.rights.knows(&key) =>
                {
                    node.rights.reply_too_large(ground, &key, first, bytes, bytes_max);
                }
                (Receipt::Part(key, part), why) => node.chains.part_undelivered(ground, (key, part), why),
                (Receipt::Return(to, id), Undelivered::TooLarge { bytes, bytes_max }) => {
                    result_too_large(ground, &to, id, bytes, bytes_max);
                }
                (Receipt::WantCode(wanted), _) if ground.codes.awaits(wanted.code, wanted.from) => {
                    node.chains.ask_for_code(ground, wanted.code);
                }
                (Receipt::Beat(key), Undelivered::Unreachable | Undelivered::Lost) => {
                    node.chains.origin_unreached(ground, &key);
                    node.rights.unreached(now, &key);
                }
                // A caller asks for its result again when its link has broken.
                (Receipt::Return(..) | Receipt::WantCode(_) | Receipt::Beat(_) | Receipt::None, _) => {}
            }
        });
    }

    /// Time has passed.
    pub fn on_timeout(&mut self, now: Time) {
        self.at(now, |node| {
            let Self { origin, chains, calls, sets, rights, ground, .. } = node;
            let overdue = origin.on_timeout(ground);
            // Before the retransmissions, since the search is for traces of the earlier attempts.
            overdue.sought.into_iter().for_each(|chain| chains.seek(ground, chain));
            overdue.silent.into_iter().for_each(|chain| chains.retransmit(ground, chain));
            // Nobody waits for them any more.
            overdue.lost.into_iter().for_each(|(chain, hosts)| chains.stop(ground, Party::Own, chain, hosts));
            chains.on_timeout(ground);
            calls.on_timeout(ground);
            rights.on_timeout(ground);
            sets.on_timeout(ground);
            ground.directory.lookups.on_timeout(now, &mut ground.out);
            ground.over.on_timeout(now, &mut ground.out);
            while let Some(code) = ground.codes.take_late(now) {
                chains.ask_for_code(ground, code);
            }
            for (key, parcel) in ground.outgoing.take_due(now, &ground.policy) {
                let receipt = Receipt::Part(key.0, key.1);
                ground.out.send_encoded(parcel.to, parcel.message, receipt, parcel.via);
            }
            node.expire();
        });
    }
}
