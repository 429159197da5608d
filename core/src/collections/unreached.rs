//! For how long a node could not be reached.

use catena_wire::Unreached as Ages;

use crate::{Policy, Time};

/// When it was first not reached, and when that was last noticed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unreached(Option<(Time, Time)>);

impl Unreached {
    /// Decodes what arrives with a hop.
    pub(crate) fn from_wire(now: Time, ages: Option<Ages>) -> Self {
        Self(ages.map(|ages| (now.before(ages.since_us), now.before(ages.last_us))))
    }

    /// Encodes what leaves with a hop.
    pub(crate) fn as_wire(&self, now: Time) -> Option<Ages> {
        self.0.map(|(since, last)| Ages { since_us: now.since(since), last_us: now.since(last) })
    }

    pub(crate) fn note(&mut self, now: Time) {
        let since = self.0.map_or(now, |(since, _)| since);
        self.0 = Some((since, now));
    }

    /// Whether this has lasted for `orphan_timeout_us`. News of a failure may come later than the next sign of life is due, so it counts for two intervals.
    pub(crate) fn is_for_long(&mut self, now: Time, policy: &Policy) -> bool {
        let lately = |(_, last): &(Time, Time)| now.since(*last) <= policy.heartbeat_interval_us.saturating_mul(2);
        self.0 = self.0.filter(lately);
        self.0.is_some_and(|(since, _)| now.since(since) >= policy.orphan_timeout_us)
    }
}
