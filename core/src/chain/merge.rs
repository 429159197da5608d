//! Merging (rpc-chains section 3.10): the merge host awaits the outcomes of all branches, then the parent goes on.

use alloc::vec::Vec;
use catena_wire::{BRANCHES_MAX, BranchCount, End, PATH_HOSTS_MAX, StepKey, Value};

use super::{
    Chains,
    activation::{Activation, Awaits, Phase, Suspended},
    console,
};
use crate::{
    SessionId,
    ground::Ground,
    memory::{DoneStep, Fate, StepRecord},
};

impl Chains {
    /// A branch has ended. What comes for a merge that is over, or never was here, is dropped.
    pub(crate) fn branch_ended(&mut self, ground: &mut Ground, mut end: End) {
        let Some(at) = end.at.clone() else { return };
        let Some(session) = self.merging(&at) else { return self.ended_early(ground, &at, end) };
        let Some(Activation { phase: Phase::Merging(merging), .. }) = self.get_mut(session) else { return };
        if merging.ended.contains_key(&end.key.branch.number())
            && bug!(ground.policy, MergeCountsRepeats)
            && let Some(open) = merging.open_branches().into_iter().next()
        {
            end.key.branch = open;
        }
        if !merging.awaits(&end) {
            return;
        }
        merging.ended.insert(end.key.branch.number(), end);
        if merging.is_complete() {
            self.merge(ground, session);
        }
    }

    /// Whether the parent of these branches is or was here. If not, its hop is still on its way, and the branch has to send its end again.
    pub(crate) fn knows_split(&self, ground: &Ground, at: &StepKey) -> bool {
        match ground.dedup.stay_of(at) {
            Some((arrived, StepRecord::Running { session, .. })) => {
                arrived == at || self.get(*session).is_some_and(|activation| activation.step >= at.step)
            }
            Some((_, StepRecord::Done(DoneStep { fate: Fate::Forwarded(step, _), .. }))) => *step > at.step,
            Some((_, StepRecord::Done(_))) => true,
            Some((_, StepRecord::Calling { .. })) | None => false,
        }
    }

    /// A branch may be quicker than the state of its parent, which is on its way to the merge host.
    fn ended_early(&mut self, ground: &Ground, at: &StepKey, end: End) {
        let Some(session) = ground.dedup.get(at).and_then(StepRecord::session) else { return };
        let Some(Activation { phase: Phase::Suspended(suspended), .. }) = self.get_mut(session) else { return };
        if let Suspended { awaits: Awaits::Branches(count, early), .. } = suspended
            && early.len() < usize::from(*count)
            && early.iter().all(|known| known.key.branch != end.key.branch)
        {
            early.push(end);
        }
    }

    fn merge(&mut self, ground: &mut Ground, session: SessionId) {
        let Some(activation) = self.get_mut(session) else { return };
        let Phase::Merging(merging) = &mut activation.phase else { return };
        let ends = core::mem::take(&mut merging.ended);
        let (hosts_before, lines_before, hops_each) = (merging.hosts_before, merging.lines_before, merging.hops_each);
        let (call, continuation) = (merging.call, merging.continuation.clone());
        let returned: u32 = ends.values().map(|end| end.hops_left.min(hops_each)).sum();
        activation.set_budget(ground.now, activation.budget_now(ground.now).with_hops_back(returned));
        let mut outcomes = Vec::with_capacity(ends.len());
        let state = &mut activation.state;
        for (_, end) in ends {
            let counts = [BranchCount { branch: end.key.branch, emitted: end.emitted }].into_iter().chain(end.merged);
            let room = BRANCHES_MAX.saturating_sub(state.merged.len());
            state.merged.extend(counts.filter(|count| count.emitted > 0).take(room));
            let room = PATH_HOSTS_MAX.saturating_sub(state.path.len());
            state.path.extend(end.path.into_iter().skip(hosts_before).take(room));
            let lines = end.console.into_iter().skip(lines_before);
            console::extend(&mut state.console, lines, ground.policy.console_lines_max);
            state.note(end.trace.into_iter().flatten());
            if let (Some(recording), Some(more)) = (&mut state.recording, end.recording) {
                recording.merge(more);
            }
            outcomes.push(end.outcome);
        }
        if !bug!(ground.policy, BranchDoubtForgotten) {
            state.observe_branches(&outcomes);
        }
        if activation.profile.is_none() {
            // It has been here all the time; what it did until it split has been noted.
            activation.profile = ground.profile(activation.state.trace.is_some(), activation.step, "", "");
        }
        self.resume(ground, session, call, continuation, Ok(Value::of_outcomes(&outcomes)));
    }
}
