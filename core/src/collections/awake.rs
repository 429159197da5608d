//! Time as a node experiences it: while its process is stopped, nothing that it remembers grows older.

use crate::Time;

/// How long the node was awake, in microseconds: what it remembers ages by this clock. A node that was stopped for an hour finds in its sockets what was sent
/// to it before: it must then still remember what it did by then.
#[derive(Clone, Debug, Default)]
pub(crate) struct AwakeClock {
    last: Time,
    awake_us: u64,
}

impl AwakeClock {
    /// The most that counts between two events, microseconds: a longer gap was a stop, or a time without work.
    pub(crate) const GAP_US_MAX: u64 = 1_000_000;

    pub(crate) fn advance(&mut self, now: Time, gap_us_max: u64) {
        self.awake_us = self.awake_us.saturating_add(now.since(self.last).min(gap_us_max));
        self.last = self.last.max(now);
    }

    pub(crate) const fn now(&self) -> Time {
        Time::from_us(self.awake_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_does_not_count_and_no_clock_runs_backwards() {
        let mut clock = AwakeClock::default();
        for (now_us, awake_us) in [(400_000, 400_000), (900_000, 900_000), (3_600_900_000, 1_900_000), (5, 1_900_000)] {
            clock.advance(Time::from_us(now_us), AwakeClock::GAP_US_MAX);
            assert_eq!(clock.now().as_us(), awake_us);
        }
    }
}
