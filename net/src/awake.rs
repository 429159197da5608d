//! Whether this node has been attending to its links.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

/// When something was last looked at: by tokio's clock, which tests can stop, and by the host's, which, unlike tokio's, goes on while the host sleeps.
pub(crate) struct Watch {
    pub(crate) seen_at: Instant,
    since_boot: Duration,
}

impl Watch {
    pub(crate) fn new() -> Self {
        Self { seen_at: Instant::now(), since_boot: since_boot() }
    }

    /// Looks at it again. Returns for how long nobody did.
    pub(crate) fn look(&mut self) -> Duration {
        let before = std::mem::replace(self, Self::new());
        let stood_still = self.since_boot.saturating_sub(before.since_boot);
        stood_still.max(self.seen_at - before.seen_at)
    }
}

/// For how long this host has been up, including the time that it slept.
#[must_use]
pub fn since_boot() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default()
}
