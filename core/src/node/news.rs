//! What the shell has to tell: what guests did, what was looked up, what got lost, and that time has passed.

use alloc::{boxed::Box, sync::Arc};
use bytes::Bytes;
use catena_wire::{Exception, Hash, Hop, NodeId, NodeRef, Part, StepKey};

use super::Node;
use crate::{
    Action, Instance, Receipt, SessionId, Tail, Time, Turn, Undelivered, calls::result_too_large, directory::Waiter,
};

impl Node {
    /// The guest has run, for `took_us`, and returned with an empty stack; or broke a limit.
    pub fn on_turn(&mut self, now: Time, session: SessionId, turn: Result<Turn, Exception>, took_us: u64) {
        self.at(now, |node| node.chains.on_turn(&mut node.ground, session, turn, took_us));
    }

    /// The guest's continuation has been taken, and its function if that is to ride along; or that failed.
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

    /// The continuation of a hop has arrived, and the function if it rode along; or never will.
    pub fn on_tail(&mut self, now: Time, key: &StepKey, tail: Option<Tail>) {
        self.at(now, |node| node.chains.tail(&mut node.ground, key, tail));
    }

    /// The shell has not got the function of this session, which it was asked to check: it is fetched while the session waits for its call.
    pub fn on_code_missing(&mut self, now: Time, session: SessionId, code: Hash) {
        self.at(now, |node| node.chains.code_missing(&mut node.ground, session, code));
    }

    /// The shell was to let this guest go on ([`Action::Resume`], [`Action::Branch`]), and has not got its function.
    pub fn on_code_absent(&mut self, now: Time, action: Action) {
        self.at(now, |node| node.chains.code_absent(&mut node.ground, action));
    }

    /// A function that was asked for, or offered, has been checked and kept; or is not what its hash says.
    pub fn on_code_stored(&mut self, now: Time, code: Hash, stored: Result<(), Exception>) {
        self.at(now, |node| node.chains.code_stored(&mut node.ground, code, stored.is_ok()));
    }

    /// A name has been looked up.
    pub fn on_resolved(&mut self, now: Time, service: &str, place: Result<Instance, Exception>) {
        self.at(now, |node| {
            if let Ok(place) = &place {
                node.learn(service, place.clone());
            }
            let (waiters, more) = node.ground.directory.answered(service);
            for waiter in waiters {
                match waiter {
                    Waiter::Call(id) => node.calls.resolved(&mut node.ground, id, &place, more),
                    Waiter::Chain(session, step) => {
                        node.chains.resolved(&mut node.ground, (session, step), &place, more);
                    }
                }
            }
        });
    }

    /// A link to this node has broken: what it was asked is lost, what it asked is moot.
    pub fn on_link_lost(&mut self, now: Time, node: NodeId) {
        self.at(now, |this| {
            let ground = &mut this.ground;
            ground.directory.forget_node(node);
            ground.outgoing.link_lost(now, node, &ground.policy);
            for code in ground.codes.link_lost(node) {
                this.chains.ask_for_code(ground, code);
            }
            this.sets.link_lost(ground, node);
            this.rights.link_lost(ground, node);
            this.calls.abandon_peer(ground, node);
            this.calls.link_lost(ground, node);
            this.chains.link_lost(ground, node);
        });
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
                // Whoever waits for a result asks again when its link has broken.
                (Receipt::Return(..) | Receipt::WantCode(_) | Receipt::Beat(_) | Receipt::None, _) => {}
            }
        });
    }

    /// Time has passed.
    pub fn on_timeout(&mut self, now: Time) {
        self.at(now, |node| {
            let Self { origin, chains, calls, sets, rights, ground, .. } = node;
            let overdue = origin.on_timeout(now, &mut ground.out, &ground.policy);
            // Ahead of the hops that go out again: what is known of the first time is asked for.
            overdue.sought.into_iter().for_each(|chain| chains.seek(ground, chain));
            overdue.silent.into_iter().for_each(|chain| chains.retransmit(ground, chain));
            // Nobody waits for them any more.
            overdue.lost.into_iter().for_each(|(chain, hosts)| chains.stop(ground, chain, hosts));
            chains.on_timeout(ground);
            calls.on_timeout(ground);
            rights.on_timeout(ground);
            sets.on_timeout(ground);
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
