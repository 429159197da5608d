//! What was told again lately. A short message (a hop that is repeated, a question for a chain) may be answered by a long one, and to another node than the one
//! that sent it: so it is answered once in each `accept_timeout_us`. Nobody who waits for the answer sends it more often.

use catena_wire::StepKey;

use crate::{
    Policy, Time,
    collections::{Expiring, Party},
};

/// How many steps are remembered: of a party that floods others are told again sooner.
const RETOLD_MAX: usize = 65_536;

/// What is told of a step.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Telling {
    /// What became of it, as it was sent.
    Outcome,
    /// Where its chain went from there.
    Whereabouts,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Retold(Expiring<(StepKey, Telling), ()>);

impl Retold {
    /// Whether this is to be told again now, for the chain of this party. If so, it counts as told.
    pub(crate) fn is_due(&mut self, now: Time, by: Party, step: &StepKey, what: Telling, policy: &Policy) -> bool {
        self.0.expired(now, policy.accept_timeout_us);
        let key = (step.clone(), what);
        if self.0.contains(&key) && !bug!(policy, RepeatsAlwaysAnswered) {
            return false;
        }
        self.0.entry(now, by, key, RETOLD_MAX, || ());
        true
    }
}
