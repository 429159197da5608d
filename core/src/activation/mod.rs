//! A chain while it is at this node: its data and its phase.

mod cargo;
mod hand_off;
mod merging;
mod ready;
mod recording;
mod set;
mod state;

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    string::String,
    sync::Arc,
};
use bytes::Bytes;
use catena_wire::{BlobBytes, Budget, ChainId, Exception, NodeRef, StepKey, StepTrace, Value};

use crate::{
    RetryScope, SubChain, Time,
    allowance::Allowance,
    collections::{Party, Unreached},
};
pub(crate) use cargo::Cargo;
pub(crate) use hand_off::HandOff;
pub(crate) use merging::{Ended, Merging};
pub(crate) use ready::{Ready, kept_bytes};
pub(crate) use recording::Recording;
pub(crate) use set::{OpenSet, Over};
pub(crate) use state::ChainState;

/// Hops that a chain never lends, so that it can still react if lent hops are lost with their borrower.
const HOPS_RESERVED_MAX: u32 = 64;

#[derive(Clone, Debug)]
pub(crate) struct Activation {
    /// The step by which the chain arrived; the dedup table keeps its record under this key.
    pub(crate) arrived: StepKey,
    /// The last step made, here or before.
    pub(crate) step: u32,
    pub(crate) state: ChainState,
    pub(crate) budget: Allowance,
    pub(crate) heartbeat_at: Time,
    /// The party that brought the chain here, whose share it counts for.
    pub(crate) by: Party,
    /// The node that handed the chain over, which has its function if nobody else does.
    pub(crate) before: Arc<NodeRef>,
    /// The node where the last sub-chain that ended here began; it has had the function that goes on.
    pub(crate) creator: Option<Arc<NodeRef>>,
    pub(crate) phase: Phase,
    pub(crate) calls: Outstanding,
    /// The profile of the step being done, if the origin asked for one. Boxed, since few chains have one.
    pub(crate) profile: Option<Box<StepTrace>>,
    /// For how long the origin has not been reached.
    pub(crate) unreached: Unreached,
    /// Bytes that are counted for this chain in its party's share.
    pub(crate) counted_bytes: usize,
}

/// Calls of a guest that have not been settled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outstanding {
    /// Calls that were issued, by the guest's numbers for them.
    pub(crate) out: BTreeSet<u32>,
    /// Results that arrived while the guest was running.
    pub(crate) ready: Ready,
    /// Open reply sets, by the guest's numbers for them.
    pub(crate) sets: BTreeMap<u32, OpenSet>,
    /// Which of the calls issued are reads of sets, and the set that each reads.
    pub(crate) reads: BTreeMap<u32, u32>,
    /// Reply sets that have not returned the hops lent to them; a set that was left never does.
    pub(crate) loans: u32,
    /// Profiles of calls made in place, while they run.
    pub(crate) profiles: BTreeMap<u32, StepTrace>,
}

/// What a chain at this node is doing.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "the activation around it is boxed as a whole")]
pub(crate) enum Phase {
    /// It is suspended here: a call runs for it, or its state or function is still on its way.
    Suspended(Suspended),
    /// Its guest runs.
    Running,
    /// Its guest waits for calls that are out side by side.
    Waiting,
    /// Its guest waits while the place of this call or split is looked up.
    LookingUp(Cargo),
    /// Its continuation is being taken.
    Suspending(Departure),
    /// Its hop is kept until the next node accepts it.
    HandingOff(Box<HandOff>),
    /// It waits here, as merge host, for its branches to end.
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

/// Whether the continuations of a chain and of its enclosing chains are here.
#[derive(Clone, Debug)]
pub(crate) enum Continuation {
    Here(Bytes),
    /// This many bytes are on their way, and the hop is not accepted before they arrive. After this time the hop is dropped; its sender still has it.
    Coming(usize, Option<Time>),
}

/// What is handed to the guest when the chain goes on.
#[derive(Clone, Debug)]
pub(crate) enum Awaits {
    /// The result of its call, which has not arrived.
    Call,
    /// The result of its call, which has arrived.
    Result(Result<Value, Box<Exception>>),
    /// The result of a sub-chain, with which this service answered the call and which has not begun.
    SubChain(String, SubChain),
    /// The outcomes of this many branches, and the ends of those that ended before the parent's state had arrived.
    Branches(u16, Ended),
    /// Nothing: the chain is the branch of this index, which begins here.
    Branch(u16),
}

/// Whether a function is here.
#[derive(Clone, Debug)]
pub(crate) enum Code {
    Here,
    Fetching,
    /// Nobody has it: the chain ends with this exception once the states of its enclosing chains are here.
    Unavailable(Box<Exception>),
}

impl Suspended {
    /// A chain whose state and function are here: only what it `awaits` is missing.
    pub(crate) const fn here(call: u32, continuation: Bytes, awaits: Awaits) -> Self {
        Self { call, awaits, continuation: Continuation::Here(continuation), code: Code::Here }
    }

    /// Bytes that it takes to keep.
    fn bytes(&self) -> usize {
        let continuation = match &self.continuation {
            Continuation::Here(continuation) => continuation.len(),
            // Room for what has not arrived is reserved already.
            Continuation::Coming(bytes, _) => *bytes,
        };
        let awaits = match &self.awaits {
            Awaits::Branches(_, ended) => ended.bytes(),
            Awaits::Result(result) => result.as_ref().map_or_else(|why| why.kept_bytes(), Value::len_bytes),
            Awaits::SubChain(_, sub) => sub.input.len_bytes(),
            Awaits::Call | Awaits::Branch(_) => 0,
        };
        continuation + awaits
    }

    /// Whether a call is running or has run, and so may have taken effect.
    pub(crate) const fn calls(&self) -> bool {
        matches!(self.awaits, Awaits::Call | Awaits::Result(_) | Awaits::SubChain(..))
    }
}

/// Why a chain's continuation is being taken.
#[derive(Clone, Debug)]
pub(crate) enum Departure {
    /// To move to this node with this cargo; the call may be repeated within this scope.
    To(Arc<NodeRef>, RetryScope, Cargo),
    /// To make room for the sub-chain with which a service of this node answered this call.
    SubChain { call: u32, step: u32, service: String, sub: SubChain },
}

impl Activation {
    /// A chain that arrives or begins here at this step, in phase `Running`.
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
            budget: Allowance::new(now, budget),
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

    /// Hops that it can lend to calls that may be answered with chains, after one hop for each of `calls` calls is set aside.
    fn spare_hops(&self, now: Time, calls: u32) -> u32 {
        let left = self.budget.left(now).without_hops(calls).hops_left();
        left - (left / 2).min(HOPS_RESERVED_MAX)
    }

    /// Hops that can be lent to each of `calls` new calls. If several calls are out, one part is held back, since the function may make further calls while it
    /// waits.
    pub(crate) fn hops_for_each(&self, now: Time, calls: usize) -> u32 {
        let out = u32::try_from(self.calls.out.len() + calls).unwrap_or(u32::MAX).max(1);
        let parts = if out == 1 { 1 } else { out.saturating_add(1) };
        self.spare_hops(now, u32::try_from(calls).unwrap_or(u32::MAX)) / parts
    }

    /// Lends a part of its spare hops to a call that may be delegated. The part is smaller the more such loans are out, so that many sets still leave hops for
    /// what comes after them.
    pub(crate) fn lend_to_set(&mut self, now: Time) -> Budget {
        const PARTS: u32 = 4;
        self.calls.loans = self.calls.loans.saturating_add(1);
        let hops = self.spare_hops(now, 0) / self.calls.loans.saturating_mul(PARTS);
        self.budget.lend(now, hops)
    }

    /// Takes back what such a call has not spent, at its exact end.
    pub(crate) const fn take_back_from_set(&mut self, hops: u32) {
        self.calls.loans = self.calls.loans.saturating_sub(1);
        self.budget.give_back(hops);
    }

    /// Lends all spare hops to the only call that the chain waits for, if its service may answer with a chain.
    pub(crate) fn lend_all(&mut self, now: Time, may_chain: bool) -> Budget {
        let spare = if may_chain { self.spare_hops(now, 0) } else { 0 };
        self.budget.lend(now, spare)
    }

    /// When this chain next needs attention, whatever else happens.
    pub(crate) fn wakes_at(&self) -> Time {
        let wake = self.budget.deadline().min(self.heartbeat_at);
        match &self.phase {
            Phase::HandingOff(hand_off) => wake.min(hand_off.retry_at()),
            Phase::Suspended(Suspended { continuation: Continuation::Coming(_, Some(due)), .. }) => wake.min(*due),
            _ => wake,
        }
    }

    /// Its guest has run for `took_us`.
    pub(crate) fn note_guest(&mut self, took_us: u64) {
        if let Some(profile) = &mut self.profile {
            profile.guest_us += took_us;
        }
    }

    /// The service function has run for `took_us`, and read these bytes of blobs.
    pub(crate) fn note_service(&mut self, took_us: u64, blobs: Option<Box<BlobBytes>>) {
        if let Some(profile) = &mut self.profile {
            (profile.service_us, profile.blobs) = (took_us, blobs);
        }
    }

    /// The step for which the chain is here ends now.
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

    /// Whether a call is under way that may take effect, or has taken effect.
    pub(crate) fn has_call_out(&self) -> bool {
        // The call that the chain departs for is not under way before the chain has departed.
        let out_beside = |departs: Option<&Cargo>| {
            let own = departs.map(Cargo::number);
            self.calls.out.iter().any(|call| Some(*call) != own) || !self.calls.sets.is_empty()
        };
        match &self.phase {
            Phase::Suspended(suspended) => suspended.calls(),
            Phase::HandingOff(hand_off) => hand_off.may_be_done(),
            Phase::Running | Phase::Waiting => out_beside(None),
            Phase::Merging(_) | Phase::Suspending(Departure::SubChain { .. }) => true,
            Phase::LookingUp(cargo) | Phase::Suspending(Departure::To(.., cargo)) => out_beside(Some(cargo)),
        }
    }

    /// The step that a service of this node has answered with a sub-chain to which it listens, and which has not begun.
    pub(crate) fn heard_later(&self) -> Option<StepKey> {
        let (step, sub) = match &self.phase {
            Phase::Suspending(Departure::SubChain { step, sub, .. }) => (*step, sub),
            Phase::Suspended(Suspended { awaits: Awaits::SubChain(_, sub), .. }) => (self.step, sub),
            _ => return None,
        };
        sub.hears.then(|| StepKey { step, ..self.arrived.clone() })
    }

    /// The exception of a chain that is ended from outside its function. If calls are under way the outcome is unknown: they stop too, perhaps half-way.
    pub(crate) fn stopped_for(&self, why: Exception) -> Exception {
        if self.has_call_out() { why.outcome_unknown() } else { why }
    }

    /// Completes the exception of a call that was made from here at this step: its path continues that of the chain.
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

    /// Bytes kept here for the chain. The memory of its guest is counted by the shell, which runs it.
    pub(crate) fn bytes(&self) -> usize {
        let held = match &self.phase {
            Phase::Suspended(suspended) => suspended.bytes(),
            Phase::HandingOff(hand_off) => hand_off.bytes,
            Phase::Merging(merging) => merging.continuation.len() + merging.ended.bytes(),
            Phase::LookingUp(cargo) | Phase::Suspending(Departure::To(_, _, cargo)) => cargo.bytes(),
            Phase::Running | Phase::Waiting | Phase::Suspending(Departure::SubChain { .. }) => 0,
        };
        let unread: usize = self.calls.sets.values().map(OpenSet::bytes).sum();
        size_of::<Self>() + held + unread + self.calls.ready.bytes() + self.state.bytes()
    }

    /// Whether a result that comes now has to be kept until its function can take it.
    pub(crate) fn keeps_results(&self) -> bool {
        match &self.phase {
            Phase::Waiting => false,
            Phase::Suspended(Suspended { continuation: Continuation::Here(_), code, .. }) => {
                matches!(code, Code::Fetching)
            }
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Activation;

    /// Thousands of chains wait at a node, so what few of them have must be boxed.
    #[test]
    fn a_chain_that_waits_is_small() {
        assert!(size_of::<Activation>() <= 900, "{} bytes", size_of::<Activation>());
    }
}
