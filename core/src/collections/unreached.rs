//! How long somebody has not been reached.

use catena_wire::Unreached as Ages;

use crate::{Policy, Time};

/// Since when that is so, and when it was noticed last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unreached(Option<(Time, Time)>);

impl Unreached {
    /// As a hop brings it.
    pub(crate) fn from_wire(now: Time, ages: Option<Ages>) -> Self {
        Self(ages.map(|ages| (now.before(ages.since_us), now.before(ages.last_us))))
    }

    /// As a hop takes it along.
    pub(crate) fn as_wire(&self, now: Time) -> Option<Ages> {
        self.0.map(|(since, last)| Ages { since_us: now.since(since), last_us: now.since(last) })
    }

    pub(crate) fn note(&mut self, now: Time) {
        let since = self.0.map_or(now, |(since, _)| since);
        self.0 = Some((since, now));
    }

    /// Whether it has been so for `orphan_timeout_us`. News of a failure may take longer than to the next sign of life: it counts for two.
    pub(crate) fn is_for_long(&mut self, now: Time, policy: &Policy) -> bool {
        let lately = |(_, last): &(Time, Time)| now.since(*last) <= policy.heartbeat_interval_us.saturating_mul(2);
        self.0 = self.0.filter(lately);
        self.0.is_some_and(|(since, _)| now.since(since) >= policy.orphan_timeout_us)
    }
}
