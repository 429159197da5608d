//! Merging (rpc-chains section 3.10): the merge host awaits the outcomes of all branches, then the parent goes on.

use alloc::vec::Vec;
use catena_wire::{BRANCHES_MAX, BranchCount, End, NodeId, PATH_HOSTS_MAX, StepKey, Value};

use super::{
    Chains,
    activation::{Activation, Awaits, Phase, Suspended},
};
use crate::{
    SessionId, console,
    ground::Ground,
    memory::{DoneStep, Fate, StepRecord},
};

impl Chains {
    /// A branch has ended. An end for a merge that is over is dropped. False if the end has to be sent again: its parent may still be on
    /// its way here, or there is no room for the end.
    pub(crate) fn branch_ended(&mut self, ground: &mut Ground, from: NodeId, end: End) -> bool {
        let Some(at) = end.at.clone() else { return true };
        let known = self.knows_split(ground, &at);
        // A branch may end before its parent's state has arrived at the merge host.
        let arriving = || ground.dedup.get(&at).and_then(StepRecord::session);
        let Some(session) = self.merging(&at).or_else(arriving) else { return known };
        let again = |activation: &Activation| activation.keeps_end(end.key.branch.number());
        let repeats_count = bug!(ground.policy, MergeCountsRepeats);
        let Some(activation) = self.get(session).filter(|activation| repeats_count || !again(activation)) else {
            return known;
        };
        let room = || self.check_bytes(ground, activation.by, end.kept_bytes());
        if from != ground.me.id && room().is_err() && !bug!(ground.policy, EndsUnweighed) {
            return false;
        }
        self.update(session, |activation| keep_end(ground, activation, &at, end));
        if let Some(Activation { phase: Phase::Merging(merging), .. }) = self.get(session)
            && merging.is_complete()
        {
            self.merge(ground, session);
        }
        known
    }

    /// Whether the parent of these branches is or was here.
    fn knows_split(&self, ground: &Ground, at: &StepKey) -> bool {
        match ground.dedup.stay_of(at) {
            Some((arrived, StepRecord::Running { session, .. })) => {
                arrived == at || self.get(*session).is_some_and(|activation| activation.step >= at.step)
            }
            Some((_, StepRecord::Done(DoneStep { fate: Fate::Forwarded(step, _), .. }))) => *step > at.step,
            Some((_, StepRecord::Done(_))) => true,
            Some((_, StepRecord::Calling { .. })) | None => false,
        }
    }

    fn merge(&mut self, ground: &mut Ground, session: SessionId) {
        let Some(activation) = self.get_mut(session) else { return };
        let Phase::Merging(merging) = &mut activation.phase else { return };
        let ends = core::mem::take(&mut merging.ended);
        let (hosts_before, lines_before, hops_each) = (merging.hosts_before, merging.lines_before, merging.hops_each);
        let (call, continuation) = (merging.call, merging.continuation.clone());
        let returned: u32 = ends.iter().map(|end| end.hops_left.min(hops_each)).sum();
        activation.budget.set(ground.now, activation.budget.left(ground.now).with_hops_back(returned));
        let (mut outcomes, mut uncounted) = (Vec::with_capacity(ends.len()), false);
        let state = &mut activation.state;
        for end in ends.into_ends() {
            let counts = [BranchCount { branch: end.key.branch, emitted: end.emitted }].into_iter().chain(end.merged);
            let mut counts = counts.filter(|count| count.emitted > 0);
            let room = BRANCHES_MAX.saturating_sub(state.merged.len());
            state.merged.extend(counts.by_ref().take(room));
            uncounted |= counts.next().is_some();
            let room = PATH_HOSTS_MAX.saturating_sub(state.path.len());
            state.path.extend(end.path.into_iter().skip(hosts_before).take(room));
            let lines = end.console.into_iter().skip(lines_before);
            console::extend(&mut state.console, lines, console::carried_max(&ground.policy));
            state.note(end.trace.into_iter().flatten());
            if let (Some(recording), Some(more)) = (&mut state.recording, end.recording) {
                recording.merge(more);
            }
            outcomes.push(end.outcome);
        }
        if uncounted && !bug!(ground.policy, AnswersUncounted) {
            return self.too_many_answer(ground, session);
        }
        if !bug!(ground.policy, BranchUncertaintyForgotten) {
            state.observe_branches(&outcomes);
        }
        if activation.profile.is_none() {
            // The parent split here and stayed: its profile was closed when it split.
            activation.profile = ground.profile(activation.state.trace.is_some(), activation.step, "", "");
        }
        self.resume(ground, session, call, continuation, Ok(Value::of_outcomes(&outcomes)));
    }
}

/// Keeps how a branch of this parent ended, if that is not known yet.
fn keep_end(ground: &Ground, activation: &mut Activation, at: &StepKey, mut end: End) {
    match &mut activation.phase {
        Phase::Merging(merging) => {
            if merging.ended.contains(end.key.branch.number())
                && bug!(ground.policy, MergeCountsRepeats)
                && let Some(open) = merging.open_branches().into_iter().next()
            {
                end.key.branch = open;
            }
            if merging.awaits(&end) {
                merging.ended.insert(end);
            }
        }
        Phase::Suspended(Suspended { awaits: Awaits::Branches(count, early), .. }) => {
            let ours = end.key.chain == at.chain && end.key.branch.parent().as_ref() == Some(&at.branch);
            if ours && early.len() < usize::from(*count) {
                early.insert(end);
            }
        }
        _ => {}
    }
}
