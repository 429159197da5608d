//! A chain while it is at this node: what it has, and the phase in which it is.

mod cargo;
mod hand_off;
mod merging;
mod recording;
mod set;
mod state;

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet, VecDeque},
    string::String,
    sync::Arc,
};
use bytes::Bytes;
use catena_wire::{BlobBytes, Budget, ChainId, Exception, NodeRef, StepKey, StepTrace, Value};

use crate::{
    RetryScope, SubChain, Time,
    collections::{Party, Unreached},
};
pub(crate) use cargo::Cargo;
pub(crate) use hand_off::HandOff;
pub(crate) use merging::{Ended, Merging};
pub(crate) use recording::Recording;
pub(crate) use set::{OpenSet, Over};
pub(crate) use state::ChainState;

/// Hops that a chain never lends: if what was lent is lost with its borrower, the chain can still do something about it.
const HOPS_RESERVED_MAX: u32 = 64;

#[derive(Clone, Debug)]
pub(crate) struct Activation {
    /// The step under which it came, and under which what becomes of it is remembered.
    pub(crate) arrived: StepKey,
    /// The last step made, here or before.
    pub(crate) step: u32,
    pub(crate) state: ChainState,
    pub(crate) budget: Budget,
    /// When `budget` was right.
    pub(crate) budget_at: Time,
    pub(crate) heartbeat_at: Time,
    /// Who brought it here: it takes of that one's share.
    pub(crate) by: Party,
    /// The node that handed it over: it has the function, if nobody else has.
    pub(crate) before: Arc<NodeRef>,
    /// Where the last sub-chain began that ended here: that node has had the function that goes on.
    pub(crate) creator: Option<Arc<NodeRef>>,
    pub(crate) phase: Phase,
    pub(crate) calls: Outstanding,
    /// The profile of the step being done, if its origin asked for one. Few chains have one: this must not make all of them larger.
    pub(crate) profile: Option<Box<StepTrace>>,
    /// Its origin cannot be reached.
    pub(crate) unreached: Unreached,
    /// What it counts for in what all chains take to keep.
    pub(crate) counted_bytes: usize,
}

/// Calls of a guest that have not been settled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outstanding {
    /// Issued, by the guest's numbers for them.
    pub(crate) out: BTreeSet<u32>,
    /// Results that have come, while the guest was running.
    pub(crate) ready: VecDeque<(u32, Result<Value, Exception>)>,
    /// Calls that are answered many times and that its guest reads, by the guest's numbers for them.
    pub(crate) sets: BTreeMap<u32, OpenSet>,
    /// Reads of sets among the calls issued, and of which set each is.
    pub(crate) reads: BTreeMap<u32, u32>,
    /// Sets whose hops have not come back; those of a set that was left never do.
    pub(crate) loans: u32,
    /// Profiles of calls made in place, while they run.
    pub(crate) profiles: BTreeMap<u32, StepTrace>,
}

/// Where it stands.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "the activation around it is boxed as a whole")]
pub(crate) enum Phase {
    /// It is suspended here: a call runs for it, or its state or function is still on its way.
    Suspended(Suspended),
    /// Its guest runs.
    Running,
    /// Its guest waits for calls that are out side by side.
    Waiting,
    /// Its guest waits: where this goes is being looked up.
    LookingUp(Cargo),
    /// Its continuation is being taken.
    Suspending(Departure),
    /// Kept until the next node accepts it.
    HandingOff(Box<HandOff>),
    /// Its branches are under way, and end here.
    Merging(Merging),
}

/// What a suspended chain waits for: its continuation, its function, and what is to be handed in.
#[derive(Clone, Debug)]
pub(crate) struct Suspended {
    /// The guest's number for the call or split that is settled when it goes on.
    pub(crate) call: u32,
    pub(crate) awaits: Awaits,
    pub(crate) continuation: Continuation,
    pub(crate) code: Code,
}

/// A chain's state, and that of the enclosing chains.
#[derive(Clone, Debug)]
pub(crate) enum Continuation {
    Here(Bytes),
    /// So many bytes are on their way. The hop is not accepted before: if they do not come by then, its sender still has it.
    Coming(usize, Option<Time>),
}

/// What is handed in when it goes on.
#[derive(Clone, Debug)]
pub(crate) enum Awaits {
    /// The result of its call, which has not come.
    Call,
    /// That result.
    Result(Result<Value, Box<Exception>>),
    /// The result of the chain with which this service answers the call, and which has not begun.
    SubChain(String, SubChain),
    /// The outcomes of so many branches; with those that ended before its state had come.
    Branches(u16, Ended),
    /// Nothing: it is the branch of this number, which begins here.
    Branch(u16),
}

/// Whether a function is here.
#[derive(Clone, Debug)]
pub(crate) enum Code {
    Here,
    Fetching,
    /// Nobody has it: the chain ends so as soon as the states of the enclosing chains are there.
    Unavailable(Box<Exception>),
}

impl Suspended {
    /// Of what is here already: its state is, and nothing has to come but what it awaits.
    pub(crate) const fn here(call: u32, continuation: Bytes, awaits: Awaits) -> Self {
        Self { call, awaits, continuation: Continuation::Here(continuation), code: Code::Here }
    }

    /// What it takes to keep.
    fn bytes(&self) -> usize {
        let continuation = match &self.continuation {
            Continuation::Here(continuation) => continuation.len(),
            // What has yet to come has its place already.
            Continuation::Coming(bytes, _) => *bytes,
        };
        let ended = if let Awaits::Branches(_, ended) = &self.awaits { ended.bytes() } else { 0 };
        continuation + ended
    }

    /// Whether a call runs, or ran, that may have taken effect.
    pub(crate) const fn calls(&self) -> bool {
        matches!(self.awaits, Awaits::Call | Awaits::Result(_) | Awaits::SubChain(..))
    }
}

/// What a chain's continuation is taken for.
#[derive(Clone, Debug)]
pub(crate) enum Departure {
    /// It goes there for this, which may be done again in that scope.
    To(Arc<NodeRef>, RetryScope, Cargo),
    /// It makes room for the chain with which a service of this node answered this call.
    SubChain { call: u32, service: String, sub: SubChain },
}

impl Activation {
    /// One that begins here at this step: its guest runs.
    pub(crate) fn new(
        now: Time,
        arrived: StepKey,
        budget: Budget,
        (by, before): (Party, Arc<NodeRef>),
        state: ChainState,
    ) -> Self {
        Self {
            step: arrived.step,
            arrived,
            state,
            budget,
            budget_at: now,
            heartbeat_at: now,
            by,
            before,
            creator: None,
            phase: Phase::Running,
            calls: Outstanding::default(),
            profile: None,
            unreached: Unreached::default(),
            counted_bytes: 0,
        }
    }

    /// What is left to spend now.
    pub(crate) fn budget_now(&self, now: Time) -> Budget {
        self.budget.after(now.since(self.budget_at))
    }

    pub(crate) const fn set_budget(&mut self, now: Time, budget: Budget) {
        (self.budget, self.budget_at) = (budget, now);
    }

    /// Hops that were lent come back.
    pub(crate) const fn give_back(&mut self, hops: u32) {
        self.budget = self.budget.with_hops_back(hops);
    }

    /// Hops that it can lend to calls that may become chains of their own, once so many calls are counted.
    fn spare_hops(&self, now: Time, calls: u32) -> u32 {
        let left = self.budget_now(now).without_hops(calls).hops_left();
        left - (left / 2).min(HOPS_RESERVED_MAX)
    }

    /// What each of so many new calls can be lent. A function that has several out may go on making others while it waits:
    /// one part stays for those.
    pub(crate) fn hops_for_each(&self, now: Time, calls: usize) -> u32 {
        let out = u32::try_from(self.calls.out.len() + calls).unwrap_or(u32::MAX).max(1);
        let parts = if out == 1 { 1 } else { out.saturating_add(1) };
        self.spare_hops(now, u32::try_from(calls).unwrap_or(u32::MAX)) / parts
    }

    /// So many of its hops, for a call; what that does not spend comes back.
    pub(crate) fn lend(&mut self, now: Time, hops: u32) -> Budget {
        let left = self.budget_now(now);
        let hops = hops.min(left.hops_left());
        self.set_budget(now, left.without_hops(hops));
        Budget::new(left.time_left_us(), hops)
    }

    /// A part of what it can spare, for a call that may be delegated: the less, the more of such loans are out, so that many sets leave hops
    /// for what comes after them.
    pub(crate) fn lend_to_set(&mut self, now: Time) -> Budget {
        const PARTS: u32 = 4;
        self.calls.loans = self.calls.loans.saturating_add(1);
        let hops = self.spare_hops(now, 0) / self.calls.loans.saturating_mul(PARTS);
        self.lend(now, hops)
    }

    /// What such a call has not spent comes back, with its exact end.
    pub(crate) const fn take_back_from_set(&mut self, hops: u32) {
        self.calls.loans = self.calls.loans.saturating_sub(1);
        self.give_back(hops);
    }

    /// All that it can spare, if that may be needed: it waits for this one call.
    pub(crate) fn lend_all(&mut self, now: Time, may_chain: bool) -> Budget {
        let spare = if may_chain { self.spare_hops(now, 0) } else { 0 };
        self.lend(now, spare)
    }

    /// When this chain next needs attention, whatever else happens.
    pub(crate) fn wakes_at(&self) -> Time {
        let deadline = self.budget_at.after(self.budget.time_left_us());
        let wake = deadline.min(self.heartbeat_at);
        match &self.phase {
            Phase::HandingOff(hand_off) => wake.min(hand_off.retry_at()),
            Phase::Suspended(Suspended { continuation: Continuation::Coming(_, Some(due)), .. }) => wake.min(*due),
            _ => wake,
        }
    }

    /// Its guest has run for so long.
    pub(crate) fn note_guest(&mut self, took_us: u64) {
        if let Some(profile) = &mut self.profile {
            profile.guest_us += took_us;
        }
    }

    /// The service function has run for so long, and read so much of blobs.
    pub(crate) fn note_service(&mut self, took_us: u64, blobs: Option<Box<BlobBytes>>) {
        if let Some(profile) = &mut self.profile {
            (profile.service_us, profile.blobs) = (took_us, blobs);
        }
    }

    /// The step that it was here for ends now.
    pub(crate) fn close_profile(&mut self, now_us: u64) {
        if let Some(profile) = self.profile.take() {
            self.note(StepTrace { left_at_us: now_us, ..*profile });
        }
    }

    /// A call that was made in place ends now.
    pub(crate) fn close_call(&mut self, now_us: u64, call: u32, service_us: u64, blobs: Option<Box<BlobBytes>>) {
        if let Some(profile) = self.calls.profiles.remove(&call) {
            self.note(StepTrace { left_at_us: now_us, service_us, blobs, ..profile });
        }
    }

    fn note(&mut self, profile: StepTrace) {
        let branch = self.arrived.branch.clone();
        self.state.note([StepTrace { branch, ..profile }]);
    }

    /// Whether something is under way that may take effect, or has.
    pub(crate) fn has_call_out(&self) -> bool {
        match &self.phase {
            Phase::Suspended(suspended) => suspended.calls(),
            Phase::HandingOff(hand_off) => hand_off.may_be_done(),
            Phase::Running | Phase::Waiting => !self.calls.out.is_empty() || !self.calls.sets.is_empty(),
            Phase::Merging(_) => true,
            Phase::LookingUp(_) => false,
            Phase::Suspending(departure) => matches!(departure, Departure::SubChain { .. }),
        }
    }

    /// Why it is ended from outside of its function: what is under way for it stops with it, perhaps half-way.
    pub(crate) fn stopped_for(&self, why: Exception) -> Exception {
        if self.has_call_out() { why.outcome_unknown() } else { why }
    }

    /// What came of a call that was made from here at this step: its path goes on from that of the chain.
    pub(crate) fn behind(&self, step: u32, why: Exception) -> Exception {
        why.behind(step, self.arrived.branch.clone(), &self.state.path)
    }

    pub(crate) fn key(&self) -> StepKey {
        StepKey { step: self.step, ..self.arrived.clone() }
    }

    pub(crate) const fn chain(&self) -> ChainId {
        self.arrived.chain
    }

    /// Whether the end of its branch of this number is kept here.
    pub(crate) fn keeps_end(&self, number: u16) -> bool {
        match &self.phase {
            Phase::Merging(merging) => merging.ended.contains(number),
            Phase::Suspended(Suspended { awaits: Awaits::Branches(_, early), .. }) => early.contains(number),
            _ => false,
        }
    }

    /// What it takes to keep here: what its guest takes is counted by whoever runs that.
    pub(crate) fn bytes(&self) -> usize {
        let held = match &self.phase {
            Phase::Suspended(suspended) => suspended.bytes(),
            Phase::HandingOff(hand_off) => hand_off.bytes(),
            Phase::Merging(merging) => merging.continuation.len() + merging.ended.bytes(),
            Phase::LookingUp(cargo) | Phase::Suspending(Departure::To(_, _, cargo)) => cargo.bytes(),
            Phase::Running | Phase::Waiting | Phase::Suspending(Departure::SubChain { .. }) => 0,
        };
        let unread: usize = self.calls.sets.values().map(OpenSet::bytes).sum();
        size_of::<Self>() + held + unread + self.state.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::Activation;

    /// What few chains have is apart: thousands wait at a node, and each takes as much.
    #[test]
    fn a_chain_that_waits_is_small() {
        assert!(size_of::<Activation>() <= 900, "{} bytes", size_of::<Activation>());
    }
}
