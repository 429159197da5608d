//! Intermediate answers of sub-chains, in order and once, for the services that answered with them.

use alloc::collections::{BTreeMap, VecDeque};
use catena_wire::{StepKey, Value};

use crate::{Action, Policy, Time};

#[derive(Clone, Debug, Default)]
struct Hearing {
    next: u32,
    held: BTreeMap<u32, Value>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Hearings {
    /// By the step at which the sub-chain began.
    open: BTreeMap<StepKey, Hearing>,
    /// Oldest first.
    begun: VecDeque<(Time, StepKey)>,
}

impl Hearings {
    pub(crate) fn begin(&mut self, now: Time, key: StepKey, policy: &Policy) {
        if self.open.len() < policy.hearings_max && self.open.insert(key.clone(), Hearing::default()).is_none() {
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
        let at = StepKey { step: to, ..key.clone() };
        let Some(hearing) = self.open.get_mut(&at) else { return };
        if number < hearing.next || (number > hearing.next && hearing.held.len() >= policy.partials_held_max) {
            return;
        }
        hearing.held.insert(number, value);
        while let Some(value) = hearing.held.remove(&hearing.next) {
            hearing.next = hearing.next.saturating_add(1);
            out.push_back(Action::Heard(at.clone(), value));
        }
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
