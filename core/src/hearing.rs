//! Intermediate answers of sub-chains, in order and once, for the services that answered with them.

use alloc::collections::{BTreeMap, VecDeque};
use catena_wire::{BRANCHES_MAX, Branch, StepKey, Value};

use crate::{Action, Policy, Time};

/// Answers of one branch of a sub-chain.
#[derive(Clone, Debug, Default)]
struct Answers {
    next: u32,
    held: BTreeMap<u32, Value>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Hearings {
    /// By the step at which the sub-chain began.
    open: BTreeMap<StepKey, BTreeMap<Branch, Answers>>,
    /// Oldest first.
    begun: VecDeque<(Time, StepKey)>,
}

impl Hearings {
    pub(crate) fn begin(&mut self, now: Time, key: StepKey, policy: &Policy) {
        if self.open.len() < policy.hearings_max && self.open.insert(key.clone(), BTreeMap::new()).is_none() {
            self.begun.push_back((now, key));
        }
    }

    pub(crate) fn on_partial(
        &mut self,
        key: &StepKey,
        to: u32,
        number: u32,
        value: Value,
        policy: &Policy,
        out: &mut VecDeque<Action>,
    ) {
        let Some(at) = self.begun_at(key, to) else { return };
        let Some(branches) = self.open.get_mut(&at) else { return };
        if branches.len() >= BRANCHES_MAX && !branches.contains_key(&key.branch) {
            return;
        }
        let held: usize = branches.values().map(|answers| answers.held.len()).sum();
        let answers = branches.entry(key.branch.clone()).or_default();
        if number < answers.next || (number > answers.next && held >= policy.partials_held_max) {
            return;
        }
        answers.held.insert(number, value);
        while let Some(value) = answers.held.remove(&answers.next) {
            answers.next = answers.next.saturating_add(1);
            out.push_back(Action::Heard(at.clone(), value));
        }
    }

    /// Where the sub-chain began, of which this is a step: the sub-chain itself, or a branch of it.
    fn begun_at(&self, key: &StepKey, step: u32) -> Option<StepKey> {
        let ancestors = core::iter::successors(Some(key.branch.clone()), Branch::parent);
        let mut beginnings = ancestors.map(|branch| StepKey { branch, step, ..key.clone() });
        beginnings.find(|at| self.open.contains_key(at))
    }

    /// Chains are short: what is older than any may be is over.
    pub(crate) fn evict(&mut self, now: Time, policy: &Policy) {
        while self.begun.front().is_some_and(|(at, _)| now.since(*at) > policy.budget_max.time_left_us()) {
            if let Some((_, key)) = self.begun.pop_front() {
                self.open.remove(&key);
            }
        }
    }
}
