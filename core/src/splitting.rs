//! Splitting (rpc-chains section 3.10): the continuation is forked, and each branch goes its own way under its own number.

use alloc::{collections::BTreeMap, format, string::String, vec::Vec};
use bytes::Bytes;
use catena_wire::{Branch, Exception, Fault, Kinds, Merge, Mode, NodeRef, StepKey, StepTrace, names};

use crate::{
    Action, GuestSplit, Instance, Node, SessionId, Time,
    activation::{Activation, Baggage, Cargo, Phase},
    gathering::Gathering,
    node::overloaded,
    recording::Recording,
};

impl Node {
    /// A split that a guest asked for: it moves to the merge host if it is `lone`, and its function waits for nothing else.
    pub(crate) fn split(&mut self, now: Time, session: SessionId, split: GuestSplit, lone: bool) {
        let Some(activation) = self.activations.get_mut(session) else { return };
        // Before all else, so that no function can go on asking in vain.
        let budget = activation.budget_now(now).take_hop();
        let Some(budget) = budget.filter(|budget| budget.hops_left() >= split.count) else {
            // It is this step that cannot be made.
            activation.step = activation.step.saturating_add(1);
            return self.out_of_hops(now, session, &Cargo::Split(split));
        };
        activation.budget = budget;
        activation.budget_at = now;
        let stays = !lone || activation.baggage.charter.mode == Mode::Interactive;
        if let Err(why) = self.may_split(session, &split) {
            let why = why.at_line(split.line, split.column);
            return self.settle(session, split.call, Err(why));
        }
        let here = stays || split.at.as_ref().is_none_or(|at| self.services.contains_key(at));
        let cargo = Cargo::Split(split);
        if here {
            let place = Instance { node: self.me.clone(), proxy: None, kinds: Kinds::default() };
            return self.pack(session, cargo, place);
        }
        self.find_and_pack(session, cargo);
    }

    fn may_split(&self, session: SessionId, split: &GuestSplit) -> Result<(), Exception> {
        let limit = |message: String| Err(Exception::new(names::LIMIT_EXCEEDED, Fault::Guest, message));
        let Some(activation) = self.activations.get(session) else { return limit(String::new()) };
        let branches_max = self.policy.branches_max;
        if split.count == 0 || split.count > branches_max {
            return limit(format!("a split into {} branches, where branches_max is {branches_max}", split.count));
        }
        if activation.arrived.branch.child(1).is_none() {
            return limit(String::from("splits within splits are too deep; merge before splitting again"));
        }
        if u32::from(activation.baggage.splits) + split.count > u32::from(u16::MAX) {
            return limit(String::from("the chain has split into 65,535 branches, which is all that can be numbered"));
        }
        let (here, max) = (self.activations.count() as u64, self.policy.activations_max as u64);
        if here + u64::from(split.count) > max {
            return Err(overloaded(&self.me.name, "chains", self.policy.activations_max));
        }
        Ok(())
    }

    /// This node is the merge host too.
    pub(crate) fn split_here(&mut self, now: Time, session: SessionId, split: &GuestSplit, continuation: Bytes) {
        self.close_profile(now, session);
        let Some(activation) = self.activations.get_mut(session) else { return };
        activation.step = activation.step.saturating_add(1);
        let count = u16::try_from(split.count).unwrap_or(u16::MAX);
        if !bug!(self.policy, BranchNumbersAgain) {
            activation.baggage.splits = activation.baggage.splits.saturating_add(count);
        }
        let parent = activation.clone();
        self.become_merge_host(now, session, split.call, count, continuation.clone());
        let host = (*self.me).clone();
        self.begin_branches(now, &parent, &host, split.call, count, &continuation);
    }

    /// From now on this session waits for its branches to end here.
    pub(crate) fn become_merge_host(
        &mut self,
        now: Time,
        session: SessionId,
        call: u32,
        count: u16,
        continuation: Bytes,
    ) {
        let Some(activation) = self.activations.get_mut(session) else { return };
        let (share, rest) = activation.budget_now(now).shared(u32::from(count));
        activation.budget = rest;
        activation.budget_at = now;
        // Results of other calls wait until it goes on.
        activation.out.remove(&call);
        activation.busy = true;
        let first = activation.baggage.splits.saturating_sub(count).saturating_add(1);
        let at = activation.key();
        // If it has come here to merge, this host is on its own path only.
        let moved = usize::from(matches!(activation.phase, Phase::Landing(_)));
        let hosts_before = activation.baggage.path.len().saturating_sub(moved);
        let gathering = Gathering {
            call,
            at,
            first,
            count,
            hops_each: share.hops_left(),
            continuation,
            hosts_before,
            lines_before: activation.baggage.console.len(),
            ended: BTreeMap::new(),
            unreached: None,
        };
        self.activations.set_phase(session, Phase::Gathering(gathering));
    }

    /// Each branch begins here, from the parent's continuation.
    pub(crate) fn begin_branches(
        &mut self,
        now: Time,
        parent: &Activation,
        host: &NodeRef,
        call: u32,
        count: u16,
        continuation: &Bytes,
    ) -> Vec<StepKey> {
        let at = parent.key();
        let first = parent.baggage.splits.saturating_sub(count).saturating_add(1);
        let mut children = Vec::new();
        for index in 0..count {
            let Some(branch) = at.branch.child(first.saturating_add(index)) else { continue };
            let key = StepKey { branch: branch.clone(), ..at.clone() };
            let child = self.branch_of(now, parent, &key, host, count);
            let session = self.activations.insert(child);
            self.steps.begin(key.clone(), session);
            children.push(key);
            let (code, limits) = (parent.baggage.code, parent.baggage.limits);
            self.actions.push_back(Action::CheckCode { code, bytes: None });
            let continuation = continuation.clone();
            self.actions.push_back(Action::Branch { session, code, continuation, call, index, limits });
        }
        children
    }

    fn branch_of(&self, now: Time, parent: &Activation, key: &StepKey, host: &NodeRef, count: u16) -> Activation {
        let (share, _) = parent.budget_now(now).shared(u32::from(count));
        let baggage = Baggage {
            stack: Vec::new(),
            emitted: 0,
            splits: 0,
            merge: Some(Merge { host: host.clone(), at: parent.key(), listener: parent.baggage.listener() }),
            merged: Vec::new(),
            trace: parent.baggage.trace.as_ref().map(|_| Vec::new()),
            recording: parent.baggage.recording.as_ref().map(|_| Recording::default()),
            // What its parent said comes before what it says; the origin shows each line once.
            console_told: 0,
            // Of its own calls: its parent answers for what its parent was told.
            doubt: false,
            ..parent.baggage.clone()
        };
        Activation {
            arrived: key.clone(),
            step: key.step,
            baggage,
            budget: share,
            budget_at: now,
            phase: Phase::Live,
            out: alloc::collections::BTreeSet::new(),
            busy: true,
            ready: alloc::collections::VecDeque::new(),
            profile: StepTrace { step: key.step, arrived_at_us: self.unix_us(now), ..self.profile("", "") },
            in_place: BTreeMap::new(),
            ..parent.clone()
        }
    }
}

/// Branches that have not ended, as a merge host tells the origin.
pub(crate) fn open_branches(gathering: &Gathering) -> Vec<Branch> {
    let numbers = (0..gathering.count).map(|index| gathering.first.saturating_add(index));
    numbers
        .filter(|number| !gathering.ended.contains_key(number))
        .filter_map(|n| gathering.at.branch.child(n))
        .collect()
}
