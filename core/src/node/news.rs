//! What the shell reports: what guests did, what is known of functions, and that time has passed.

use alloc::{boxed::Box, sync::Arc};
use bytes::Bytes;
use catena_wire::{Exception, Hash, Hop, NodeRef, Tail};

use super::Node;
use crate::{Action, HopCopy, Receipt, SessionId, Time, Turn};

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
    /// (rpc-chains section 7.2). [`Node::on_tail`] must follow, for the copy that this returns.
    pub fn on_hop_head(&mut self, now: Time, from: &Arc<NodeRef>, hop: Box<Hop>) -> HopCopy {
        let copy = HopCopy::of(from, &hop);
        self.at(now, |node| node.take_hop(from, hop, false));
        copy
    }

    /// The tail of a hop has arrived: continuations, and the function if it was sent along. `None`: it never will.
    pub fn on_tail(&mut self, now: Time, of: &HopCopy, tail: Option<Tail>) {
        self.at(now, |node| node.chains.tail(&mut node.ground, of, tail));
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

    /// The registry's answer for this function. `None`: the registry does not have it, or cannot be asked.
    pub fn on_code_fetched(&mut self, now: Time, code: Hash, bytes: Option<Bytes>) {
        self.at(now, |node| {
            if node.ground.codes.fetched(&mut node.ground.out, code, bytes) {
                node.chains.ask_for_code(&mut node.ground, code);
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
            for (chain, hosts) in overdue.lost {
                let by = ground.bringer_of(chain);
                chains.stop(ground, by, chain, hosts);
            }
            chains.on_timeout(ground);
            calls.on_timeout(ground);
            rights.on_timeout(ground);
            sets.on_timeout(ground);
            ground.directory.lookups.on_timeout(now, &mut ground.out);
            ground.over.on_timeout(now, &mut ground.out);
            while let Some(code) = ground.codes.take_late(now, &ground.policy) {
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
