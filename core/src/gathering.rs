//! Merging (rpc-chains section 3.10): the merge host awaits the outcomes of all branches, then the parent goes on.

use alloc::{collections::BTreeMap, vec::Vec};
use bytes::Bytes;
use catena_wire::{BRANCHES_MAX, BranchCount, End, PATH_HOSTS_MAX, StepKey, StepTrace, TRACE_STEPS_MAX, Value};

use crate::{Node, SessionId, Time, activation::Phase, console, orphans::Unreached, steps::Done};

/// A parent that waits for its branches.
#[derive(Clone, Debug)]
pub(crate) struct Gathering {
    /// The guest's number for the split.
    pub(crate) call: u32,
    /// The step that split.
    pub(crate) at: StepKey,
    /// Number of the first branch.
    pub(crate) first: u16,
    /// How many there are.
    pub(crate) count: u16,
    /// What each was given; none can bring more back.
    pub(crate) hops_each: u32,
    pub(crate) continuation: Bytes,
    /// How many hosts of the parent's path its branches share.
    pub(crate) hosts_before: usize,
    /// How many of the lines that its branches carry were the parent's when it split: meanwhile it may be brought others.
    pub(crate) lines_before: usize,
    /// By number.
    pub(crate) ended: BTreeMap<u16, End>,
    /// The origin seems to be gone.
    pub(crate) unreached: Option<Unreached>,
}

impl Node {
    /// A branch has ended. What comes for a merge that is over, or never was here, is dropped.
    pub(crate) fn branch_ended(&mut self, now: Time, end: End) {
        let Some(at) = &end.at else { return };
        let Some(session) = self.activations.gathering(at) else { return self.ended_early(end) };
        let Some(activation) = self.activations.get_mut(session) else { return };
        let Phase::Gathering(gathering) = &mut activation.phase else { return };
        let number = end.key.branch.number();
        let among = number.checked_sub(gathering.first).is_some_and(|index| index < gathering.count);
        let ours =
            end.key.chain == gathering.at.chain && end.key.branch.parent().as_ref() == Some(&gathering.at.branch);
        let number = match gathering.ended.contains_key(&number) && bug!(self.policy, MergeCountsRepeats) {
            true => (0..gathering.count).map(|i| gathering.first + i).find(|n| !gathering.ended.contains_key(n)),
            false => Some(number),
        };
        let Some(number) = number else { return };
        if !among || !ours || gathering.ended.contains_key(&number) {
            return;
        }
        gathering.ended.insert(number, end);
        let early = usize::from(bug!(self.policy, MergeTooEarly));
        if gathering.ended.len() + early == usize::from(gathering.count) {
            self.merge(now, session);
        }
    }

    /// A branch may be quicker than the state of its parent, which is on its way to the merge host.
    fn ended_early(&mut self, end: End) {
        let Some(Done::Running(session)) = end.at.as_ref().and_then(|at| self.steps.get(at)) else { return };
        let Some(activation) = self.activations.get_mut(*session) else { return };
        if let Phase::Landing(landing) = &mut activation.phase
            && landing.early.len() < usize::from(landing.gather)
            && landing.early.iter().all(|early| early.key.branch != end.key.branch)
        {
            landing.early.push(end);
        }
    }

    fn merge(&mut self, now: Time, session: SessionId) {
        let (arrived_at_us, profile) = (self.unix_us(now), self.profile("", ""));
        let Some(activation) = self.activations.get_mut(session) else { return };
        let Phase::Gathering(gathering) = &mut activation.phase else { return };
        let ends = core::mem::take(&mut gathering.ended);
        let (hosts_before, lines_before) = (gathering.hosts_before, gathering.lines_before);
        let (call, hops_each, state) = (gathering.call, gathering.hops_each, gathering.continuation.clone());
        let returned: u32 = ends.values().map(|end| end.hops_left.min(hops_each)).sum();
        activation.budget = activation.budget_now(now).with_hops_back(returned);
        activation.budget_at = now;
        let mut outcomes = Vec::with_capacity(ends.len());
        for (_, end) in ends {
            let baggage = &mut activation.baggage;
            let counts = [BranchCount { branch: end.key.branch, emitted: end.emitted }].into_iter().chain(end.merged);
            let room = BRANCHES_MAX.saturating_sub(baggage.merged.len());
            baggage.merged.extend(counts.filter(|count| count.emitted > 0).take(room));
            let room = PATH_HOSTS_MAX.saturating_sub(baggage.path.len());
            baggage.path.extend(end.path.into_iter().skip(hosts_before).take(room));
            let lines = end.console.into_iter().skip(lines_before);
            console::extend(&mut baggage.console, lines, self.policy.console_lines_max);
            if let (Some(trace), Some(more)) = (&mut baggage.trace, end.trace) {
                let room = TRACE_STEPS_MAX.saturating_sub(trace.len());
                trace.extend(more.into_iter().take(room));
            }
            if let (Some(recording), Some(more)) = (&mut baggage.recording, end.recording) {
                recording.merge(more);
            }
            outcomes.push(end.outcome);
        }
        if activation.profile.node.is_empty() {
            // It has been here all the time; what it did until it split has been noted.
            activation.profile = StepTrace { step: activation.step, arrived_at_us, ..profile };
        }
        activation.baggage.told_of_branches(&outcomes);
        self.resume(session, call, state, Ok(Value::of_outcomes(&outcomes)));
    }
}
