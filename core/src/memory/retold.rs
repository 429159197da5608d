//! What was told again lately. A short message (a hop that is repeated, a question for a chain) may be answered by a long one, and to another node than the one
//! that sent it: so it is answered once in a while. An origin that misses its chain asks less often than that.

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

/// With the times at which it was told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Retold(Expiring<(StepKey, Telling), Time>);

impl Retold {
    /// Whether this is to be told again now, for the chain of this party. If so, it counts as told.
    pub(crate) fn is_due(&mut self, now: Time, by: Party, step: &StepKey, what: Telling, policy: &Policy) -> bool {
        // Half of what passes between two rounds of an origin: they find each node at different times after the first.
        let pause_us = policy.accept_timeout_us.min(policy.heartbeat_timeout_us / 2);
        self.0.expired(now, pause_us);
        let key = (step.clone(), what);
        let told = self.0.get(&key).is_some_and(|at| now.since(*at) < pause_us);
        if told && !bug!(policy, RepeatsAlwaysAnswered) {
            return false;
        }
        *self.0.renew(now, by, key, RETOLD_MAX, || now) = now;
        true
    }
}

#[cfg(test)]
mod tests {
    use catena_wire::{ChainId, NodeId};

    use super::*;
    use crate::collections::AT_ONCE_MAX;

    #[test]
    fn what_was_told_long_ago_is_due_whatever_else_was_told_since() {
        let (policy, mut retold) = (Policy::default(), Retold::default());
        let step = |number| StepKey::first(ChainId { origin: NodeId(1), number });
        let flood = 2 * AT_ONCE_MAX as u128;
        let mut is_due =
            |at_us, number| retold.is_due(Time::from_us(at_us), Party::Own, &step(number), Telling::Outcome, &policy);
        assert!((0..=flood).all(|number| is_due(0, number)));
        let pause_us = policy.accept_timeout_us;
        assert!(!is_due(pause_us - 1, flood) && is_due(pause_us, flood) && !is_due(pause_us + 1, flood));
    }
}
