//! Calls that are answered many times, whose replies a function reads while the chain stays here (Quatrain).
//!
//! A reply set belongs to the chain's stay at this node. While it is open the function waits for more than one thing, so the chain does not move.
//! The set is closed when the function leaves it, when the function ends, and when the function is suspended.

use alloc::{collections::BTreeSet, format, string::String, vec::Vec};
use catena_wire::{ChainId, Exception, Fault, Value, names};

use super::{
    Chains,
    activation::{Activation, OpenSet, Outstanding, Over},
    turn::{open_profile, request_of},
};
use crate::{GuestAsk, GuestCall, GuestRead, Missing, SessionId, calls::ReplyTo, ground::Ground, outbox::Event};

impl Chains {
    pub(super) fn ask(&mut self, ground: &mut Ground, session: SessionId, ask: GuestAsk) {
        let GuestAsk { number, call } = ask;
        let Some(activation) = self.take_hop(ground, session, &call) else { return };
        let (set, max) = (call.call, ground.policy.sets_per_chain_max);
        activation.calls.out.insert(set);
        activation.calls.reads.insert(set, set);
        if activation.calls.sets.len() >= max || activation.calls.sets.contains_key(&set) {
            let message = format!(
                "one more reply set, where a function may have {max} open (sets_per_chain_max); read some to their ends, or leave them"
            );
            let why = Exception::new(names::LIMIT_EXCEEDED, Fault::Guest, message).at_line(call.line, call.column);
            return self.settle(ground, session, set, Err(why));
        }
        open_profile(ground, activation, &call);
        let budget = activation.lend_to_set(ground.now);
        let id = ChainId { origin: ground.me.id, number };
        let open = OpenSet::new(id, activation.step, set, budget.hops_left());
        activation.calls.sets.insert(set, open);
        let request = request_of(activation, ReplyTo::Nobody(activation.chain()), call, ground.now, budget);
        ground.out.tell(Event::Ask { session, set, number, request });
    }

    pub(super) fn read(&mut self, ground: &mut Ground, session: SessionId, read: GuestRead) {
        let Some(activation) = self.get_mut(session) else { return };
        activation.calls.reads.insert(read.call, read.set);
        if let Some(set) = activation.calls.sets.get_mut(&read.set)
            && set.read.is_none()
        {
            set.read = Some(read.call);
            activation.calls.out.insert(read.call);
            return self.hand_batch(ground, session, read.set);
        }
        let why = match activation.calls.sets.contains_key(&read.set) {
            true => {
                let why = "this reply set is being read already; await one read of it before the next";
                Exception::new(names::BAD_PARAMETERS, Fault::Guest, why)
            }
            false => not_open(),
        };
        let (service, function, params) = (String::new(), String::new(), Value::null());
        let call = GuestCall { call: read.call, service, function, params, line: 0, column: 0 };
        let Some(activation) = self.take_hop(ground, session, &call) else { return };
        activation.calls.out.insert(read.call);
        self.settle(ground, session, read.call, Err(why));
    }

    /// The function leaves these sets: work on them is cancelled, and reads that are under way are never settled.
    pub(super) fn sets_left(&mut self, ground: &Ground, session: SessionId, sets: &BTreeSet<u32>) {
        sets.iter().for_each(|set| self.close_set(ground, session, *set, false));
        let Some(Activation { calls, .. }) = self.get_mut(session).filter(|_| !sets.is_empty()) else { return };
        // Also drops a result that is ready but not handed in: the guest has forgotten the read.
        let Outstanding { out, ready, reads, .. } = calls;
        reads.retain(|read, of| {
            let keep = !sets.contains(of);
            if !keep {
                out.remove(read);
                ready.forget(*read);
            }
            keep
        });
    }

    /// Forgets the set, and has it stopped unless it is `over`.
    fn close_set(&mut self, ground: &Ground, session: SessionId, set: u32, over: bool) {
        let Some(activation) = self.get_mut(session) else { return };
        let Some(OpenSet { id, .. }) = activation.calls.sets.remove(&set) else { return };
        activation.close_call(ground.unix_us(), set, 0, None);
        if !over {
            self.left_sets.push(id);
        }
        self.recount(session);
    }

    /// The guest is going, so nobody reads its sets any more.
    pub(super) fn leave_sets(&mut self, session: SessionId) {
        let Some(activation) = self.by_session.get_mut(&session) else { return };
        for (_, set) in core::mem::take(&mut activation.calls.sets) {
            self.left_sets.push(set.id);
            // The read fails when the function goes on, if it does so here.
            if let Some(read) = set.read {
                activation.calls.ready.push(read, Err(not_open()));
            }
        }
    }

    /// A set that nobody reads any more, if there is one.
    pub(crate) fn take_left_set(&mut self) -> Option<ChainId> {
        self.left_sets.pop()
    }

    pub(crate) fn replied(&mut self, ground: &mut Ground, (session, set): (SessionId, u32), values: Vec<Value>) {
        if let Some(open) = self.open_set(session, set) {
            open.push(values);
            self.recount(session);
            self.hand_batch(ground, session, set);
        }
    }

    /// A set has ended. `rights` were given out to reply to it: each but the first was delegated, which cost a hop.
    pub(crate) fn set_over(
        &mut self,
        ground: &mut Ground,
        (session, set): (SessionId, u32),
        mut missing: Vec<Missing>,
        failure: Option<Exception>,
        rights: usize,
    ) {
        let Some(activation) = self.get_mut(session) else { return };
        let Some(step) = activation.calls.sets.get(&set).map(|open| open.step) else { return };
        let failed = failure.is_some();
        // As for a single result: in a possible duplicate, what has failed now may have been done by another way.
        let by_another_way = activation.state.duplicate.is_some();
        missing.iter_mut().for_each(|missing| missing.why.unknown |= by_another_way);
        let why = failure.or_else(|| Missing::exception_of(&missing)).map(|why| activation.behind(step, why));
        let why = why.map(|why| Exception { unknown: why.unknown || by_another_way, ..why });
        let Some(open) = activation.calls.sets.get_mut(&set) else { return };
        let spent = u32::try_from(rights.saturating_sub(1)).unwrap_or(u32::MAX);
        let left = why.is_none().then(|| open.lent.saturating_sub(spent));
        open.end(Over { missing, why, failed });
        if let Some(left) = left {
            activation.take_back_from_set(left);
        }
        self.hand_batch(ground, session, set);
    }

    fn open_set(&mut self, session: SessionId, set: u32) -> Option<&mut OpenSet> {
        self.get_mut(session)?.calls.sets.get_mut(&set)
    }

    /// Hands the function the replies that have arrived, if it waits for some.
    fn hand_batch(&mut self, ground: &mut Ground, session: SessionId, set: u32) {
        let Some(open) = self.open_set(session, set) else { return };
        let (Some(read), id) = (open.read, open.id) else { return };
        let Some(batch) = open.take() else { return };
        open.read = None;
        if batch.replies > 0 {
            ground.out.tell(Event::Read(id, batch.replies));
        }
        if batch.last || batch.outcome.is_err() {
            self.close_set(ground, session, set, batch.last);
        } else {
            self.recount(session);
        }
        if let Some(activation) = self.get_mut(session) {
            activation.state.uncertain |= batch.unknown && !bug!(ground.policy, SetsUncertaintyForgotten);
        }
        self.settle_counted(ground, session, read, batch.outcome);
    }
}

/// The exception for a read of a set that is not open.
fn not_open() -> Exception {
    let message = "this reply set is not open: it has ended, or was left, as it is when a function splits; read it to its end before, or ask again";
    Exception::new(names::CANCELLED, Fault::Guest, message)
}
