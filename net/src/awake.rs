//! Whether this node has been attending to its links, and waits that tolerate a stop of its process.

use std::{
    future::{Future, pending},
    pin::pin,
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};
use tokio::time::{Instant, error::Elapsed};

/// When something was last looked at: by tokio's clock, which tests can stop, and by the host's, which, unlike tokio's, goes on while the host sleeps.
pub(crate) struct Watch {
    pub(crate) seen_at: Instant,
    since_boot: Duration,
}

impl Watch {
    pub(crate) fn new() -> Self {
        Self { seen_at: Instant::now(), since_boot: since_boot() }
    }

    /// Looks again. Returns for how long nobody did.
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

/// A wait that ends this much too late shows that this process, or its host, was stopped.
const LATE: Duration = Duration::from_millis(200);
/// For how long what arrived during a stop is read before anything is given up as too late.
const CATCH_UP: Duration = Duration::from_millis(200);

/// [`tokio::time::timeout`] for what a link brings: nobody is called silent because this process was stopped while the answer came.
pub async fn timeout<F: Future>(wait: Duration, future: F) -> Result<F::Output, Elapsed> {
    let (mut future, began) = (pin!(future), since_boot());
    match tokio::time::timeout(wait, &mut future).await {
        Err(_) if since_boot().saturating_sub(began) > wait.saturating_add(LATE) => {
            tokio::time::timeout(CATCH_UP, future).await
        }
        ended => ended,
    }
}

/// [`tokio::time::sleep`] before it is decided what has taken too long.
pub async fn sleep(wait: Duration) {
    let _ = timeout(wait, pending::<()>()).await;
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn what_arrived_while_the_process_was_stopped_is_read_before_its_time_is_up() {
        const WAIT: Duration = Duration::from_millis(1);
        let (sender, receiver) = oneshot::channel();
        let waiting = tokio::spawn(timeout(WAIT, receiver));
        tokio::task::yield_now().await;
        // Both are due when the thread runs again, and the one that waits is called first.
        let reads_next = tokio::time::sleep(WAIT * 10);
        let began = since_boot();
        while since_boot() - began < LATE * 2 {
            std::hint::spin_loop();
        }
        reads_next.await;
        sender.send("what arrived").unwrap();
        assert_eq!(waiting.await.unwrap().unwrap().unwrap(), "what arrived");
    }
}
