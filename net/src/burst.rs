//! Small messages that many senders send one right behind the other: a system call and a segment for each would cost both ends more than the messages do. So who
//! sends right after a write leaves the next one to the link's flusher, which lets those go first that are about to run, and writes all that has come by then. Whoever
//! sends one message at a time never waits.

use std::time::Duration;

use tokio::time::Instant;

/// So soon after a write another one is part of the same burst: less than a round trip takes on one host.
const GAP_MAX: Duration = Duration::from_micros(10);
/// How long a message may wait for others.
const WAIT_MAX: Duration = Duration::from_micros(200);
/// With so much queued there is enough for a write.
const BYTES_MAX: u64 = 16 * 1024;

/// Who writes what has been queued now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Writer {
    /// Whoever has queued it.
    Sender,
    /// The flusher, which is to be woken.
    Flusher,
    /// The flusher, which has been woken for what is queued before it.
    FlusherAwake,
}

#[derive(Debug, Default)]
pub(crate) struct Burst {
    wrote_at: Option<Instant>,
    waits_since: Option<Instant>,
    /// The flusher is still to let others go first.
    to_yield: bool,
}

impl Burst {
    /// With what has been queued now so many bytes are.
    pub(crate) fn queued(&mut self, now: Instant, bytes: u64) -> Writer {
        let so_soon = |before: Instant, max| now.saturating_duration_since(before) < max;
        match self.waits_since {
            _ if bytes >= BYTES_MAX => Writer::Sender,
            Some(since) if so_soon(since, WAIT_MAX) => Writer::FlusherAwake,
            None if self.wrote_at.is_some_and(|at| so_soon(at, GAP_MAX)) => {
                (self.waits_since, self.to_yield) = (Some(now), true);
                Writer::Flusher
            }
            Some(_) | None => Writer::Sender,
        }
    }

    /// Whether the flusher is to let others go first: once in a burst.
    pub(crate) fn yields(&mut self) -> bool {
        std::mem::take(&mut self.to_yield)
    }

    /// Something has been written.
    pub(crate) fn written(&mut self, now: Instant) {
        *self = Self { wrote_at: Some(now), ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_right_behind_a_write_waits_but_not_for_long_and_not_much_of_it() {
        let mut burst = Burst::default();
        let start = Instant::now();
        let us = |us| start + Duration::from_micros(us);
        assert_eq!(burst.queued(start, 100), Writer::Sender, "nothing was written yet");
        burst.written(start);
        assert_eq!(burst.queued(us(10), 100), Writer::Sender, "the write was long ago");
        burst.written(us(20));
        assert_eq!(burst.queued(us(25), 100), Writer::Flusher);
        assert_eq!((burst.yields(), burst.yields()), (true, false));
        assert_eq!(burst.queued(us(150), 200), Writer::FlusherAwake, "it has not run yet");
        assert_eq!(burst.queued(us(151), BYTES_MAX), Writer::Sender, "that is enough for a write");
        assert_eq!(burst.queued(us(225), 300), Writer::Sender, "the first has waited for long enough");
        burst.written(us(226));
        assert!(!burst.yields(), "nothing waits");
    }
}
