//! Splitting (rpc-chains section 3.10): the continuation is forked, and each branch goes its own way under its own number.

use alloc::{boxed::Box, format, string::String, vec::Vec};
use bytes::Bytes;
use catena_wire::{BRANCHES_MAX, Exception, Fault, Listener, Merge, Mode, NodeRef, Outcome, StepKey, names};

use super::{
    Chains,
    activation::{Activation, Awaits, Cargo, ChainState, Ended, Merging, Phase, Recording, Suspended},
};
use crate::{
    GuestSplit, RetryScope, SessionId,
    collections::{Party, leaves_room},
    ground::Ground,
};

impl Chains {
    /// A guest asked for a split. The chain moves to the merge host if it is `lone`, that is, if its function waits for nothing else.
    pub(super) fn split(&mut self, ground: &mut Ground, session: SessionId, split: GuestSplit, lone: bool) {
        let Some(activation) = self.get_mut(session) else { return };
        // Charged before the other checks, so that a function cannot go on asking for splits that are refused.
        let budget = activation.budget.left(ground.now).take_hop();
        let Some(budget) = budget.filter(|budget| budget.hops_left() >= split.count) else {
            // The exception names the step that cannot be made.
            activation.step = activation.step.saturating_add(1);
            return self.out_of_hops(ground, session, &Cargo::Split(split));
        };
        activation.budget.set(ground.now, budget);
        let stays = !lone || activation.state.header.mode == Mode::Interactive;
        let Some(activation) = self.get(session) else { return };
        if let Err(why) = self.may_split(ground, activation, &split) {
            let why = why.at_line(split.line, split.column);
            return self.settle(ground, session, split.call, Err(why));
        }
        let here = stays || split.at.as_ref().is_none_or(|at| ground.directory.serves(at));
        let cargo = Cargo::Split(split);
        if here {
            let me = ground.me.clone();
            return self.depart(ground, session, me, RetryScope::Nowhere, cargo);
        }
        self.find_and_depart(ground, session, cargo);
    }

    fn may_split(&self, ground: &Ground, activation: &Activation, split: &GuestSplit) -> Result<(), Exception> {
        let limit = |message: String| Err(Exception::new(names::LIMIT_EXCEEDED, Fault::Guest, message));
        let branches_max = ground.policy.branches_max;
        if split.count == 0 || split.count > branches_max {
            return limit(format!("a split into {} branches, where branches_max is {branches_max}", split.count));
        }
        if activation.arrived.branch.child(1).is_none() {
            return limit(String::from("splits within splits are too deep; merge before splitting again"));
        }
        if u32::from(activation.state.splits) + split.count > u32::from(u16::MAX) {
            return limit(String::from("the chain has split into 65,535 branches, which is all that can be numbered"));
        }
        // Branches whose answers the listener counts, or may have to.
        let counted = match activation.state.listener() {
            Listener::Origin => activation.state.merged.len(),
            Listener::Creator(..) => activation.state.splits.into(),
            Listener::Nobody => 0,
        };
        if counted + split.count as usize > BRANCHES_MAX {
            return limit(format!(
                "{} more branches that may answer, after {counted}, where answers of {BRANCHES_MAX} are counted; let branches return their values to the merge",
                split.count
            ));
        }
        if !self.has_room_for(ground, activation.by, split.count as usize) {
            return Err(ground.overloaded("chains", ground.policy.activations_max));
        }
        // Each branch has a copy of what the chain carries.
        self.check_bytes(ground, activation.by, activation.state.branch_bytes().saturating_mul(split.count as usize))
    }

    fn has_room_for(&self, ground: &Ground, by: Party, branches: usize) -> bool {
        let own = self.brought.of(by);
        leaves_room(&ground.policy, by, branches, own, self.count(), ground.policy.activations_max)
    }

    /// Splits the chain where it is: this node is the merge host as well.
    pub(super) fn split_here(
        &mut self,
        ground: &mut Ground,
        session: SessionId,
        split: &GuestSplit,
        continuation: Bytes,
    ) {
        let Some(activation) = self.get_mut(session) else { return };
        activation.close_profile(ground.unix_us());
        activation.step = activation.step.saturating_add(1);
        if !bug!(ground.policy, BranchNumbersAgain) {
            activation.state.splits = activation.state.splits.saturating_add(split.branches());
        }
        let (parent, me) = (activation.clone(), ground.me.clone());
        self.become_merge_host(ground, session, split.call, split.branches(), continuation.clone());
        self.begin_branches(ground, &parent, &me, split, &continuation);
    }

    /// From now on this session waits for its branches to end here.
    pub(super) fn become_merge_host(
        &mut self,
        ground: &Ground,
        session: SessionId,
        call: u32,
        count: u16,
        continuation: Bytes,
    ) {
        let Some(activation) = self.get_mut(session) else { return };
        let (share, rest) = activation.budget.left(ground.now).shared(u32::from(count));
        activation.budget.set(ground.now, rest);
        // Other calls stay out: their results wait until the parent goes on.
        activation.calls.out.remove(&call);
        // If the parent moved here to merge, its path includes this host, and those of its branches do not.
        let moved = usize::from(matches!(activation.phase, Phase::Suspended(_)));
        let merging = Merging {
            call,
            at: activation.key(),
            first: activation.state.splits.saturating_sub(count).saturating_add(1),
            count,
            hops_each: share.hops_left(),
            continuation,
            hosts_before: activation.state.path.len().saturating_sub(moved),
            lines_before: activation.state.console.len(),
            ended: Ended::default(),
            early: usize::from(bug!(ground.policy, MergeTooEarly)),
        };
        self.set_phase(session, Phase::Merging(merging));
    }

    /// Begins the branches here if the hop that was handed over is a split; returns their keys.
    pub(super) fn children_of(&mut self, ground: &mut Ground, parent: &Activation) -> Vec<StepKey> {
        let Phase::HandingOff(hand_off) = &parent.phase else { return Vec::new() };
        let Cargo::Split(split) = &hand_off.cargo else { return Vec::new() };
        self.begin_branches(ground, parent, hand_off.to(), split, &hand_off.continuation)
    }

    /// Begins each branch here from the parent's continuation. A branch for which there is no room ends at once.
    fn begin_branches(
        &mut self,
        ground: &mut Ground,
        parent: &Activation,
        host: &NodeRef,
        split: &GuestSplit,
        continuation: &Bytes,
    ) -> Vec<StepKey> {
        let (at, count) = (parent.key(), split.branches());
        let first = parent.state.splits.saturating_sub(count).saturating_add(1);
        let mut children = Vec::new();
        for index in 0..count {
            let Some(branch) = at.branch.child(first.saturating_add(index)) else { continue };
            let key = StepKey { branch, ..at.clone() };
            let room = self.has_room_for(ground, parent.by, 1) || bug!(ground.policy, BranchesWithoutRoom);
            let suspended = Suspended::here(split.call, continuation.clone(), Awaits::Branch(index));
            let child = branch_of(ground, parent, &key, host, count);
            let senders = super::senders(&child);
            let session = self.insert(Activation { phase: Phase::Suspended(suspended), ..child });
            ground.dedup.begin(key.clone(), senders, session);
            children.push(key);
            match room {
                true => self.resume_if_ready(ground, session),
                false => {
                    let why = ground.overloaded("chains", ground.policy.activations_max);
                    self.end(ground, session, Outcome::Threw(why));
                }
            }
        }
        children
    }
}

fn branch_of(ground: &Ground, parent: &Activation, key: &StepKey, host: &NodeRef, count: u16) -> Activation {
    let left = parent.budget.left(ground.now);
    let share = if bug!(ground.policy, HopsNotShared) { left } else { left.shared(u32::from(count)).0 };
    let state = ChainState {
        stack: Vec::new(),
        emitted: 0,
        splits: 0,
        merge: Some(Box::new(Merge { host: host.clone(), at: parent.key(), listener: parent.state.listener() })),
        merged: Vec::new(),
        trace: parent.state.trace.as_ref().map(|_| Vec::new()),
        recording: parent.state.recording.as_ref().map(|_| Box::new(Recording::default())),
        // The branch carries its parent's lines before its own; the origin shows each line once.
        console_told: 0,
        // Counts the branch's own calls only: what the parent was told is the parent's uncertainty.
        uncertain: false,
        ..parent.state.clone()
    };
    let profile = ground.profile(parent.state.trace.is_some(), key.step, "", "");
    let (heartbeat_at, creator, unreached) = (parent.heartbeat_at, parent.creator.clone(), parent.unreached);
    let branch = Activation::new(ground.now, key.clone(), share, (parent.by, ground.me.clone()), state);
    Activation { heartbeat_at, creator, unreached, profile, ..branch }
}
