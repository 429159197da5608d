//! Small messages that many senders send right after one another: a system call and a segment for each would cost both ends more than the messages do. So after
//! a few of them the next is left to the link's flusher, which first lets the tasks run that are ready, and then writes all that has come. Whoever sends one
//! message at a time, or two or three that belong together, never waits: waking the flusher's thread can take longer than writing.

use std::time::Duration;

use tokio::time::Instant;

/// A message so soon after a write belongs to the same row: a round trip takes longer, even on one host.
const GAP_MAX: Duration = Duration::from_micros(10);
/// This many messages in a row are a burst.
const ROW_MIN: u8 = 3;
/// How long a message may wait for others.
const WAIT_MAX: Duration = Duration::from_micros(200);
/// This many queued bytes are enough for a write.
const BYTES_MAX: u64 = 16 * 1024;

/// Who writes what has just been queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Writer {
    /// The sender that queued it.
    Sender,
    /// The flusher, which has to be woken.
    Flusher,
    /// The flusher, which has been woken already for what was queued before.
    FlusherAwake,
}

#[derive(Debug, Default)]
pub(crate) struct Burst {
    wrote_at: Option<Instant>,
    /// Messages in a row, each queued right after a write.
    row: u8,
    waits_since: Option<Instant>,
    /// Whether the flusher has yet to let others go first.
    to_yield: bool,
}

impl Burst {
    /// A message has been queued; with it, `bytes` bytes are queued.
    pub(crate) fn queued(&mut self, now: Instant, bytes: u64) -> Writer {
        let so_soon = |before: Instant, max| now.saturating_duration_since(before) < max;
        if let Some(since) = self.waits_since {
            let may_wait = so_soon(since, WAIT_MAX) && bytes < BYTES_MAX;
            return if may_wait { Writer::FlusherAwake } else { Writer::Sender };
        }
        let behind = self.wrote_at.is_some_and(|at| so_soon(at, GAP_MAX));
        self.row = if behind { self.row.saturating_add(1) } else { 0 };
        if self.row < ROW_MIN || bytes >= BYTES_MAX {
            return Writer::Sender;
        }
        (self.waits_since, self.to_yield) = (Some(now), true);
        Writer::Flusher
    }

    /// Whether the flusher is to let others run first: once per burst.
    pub(crate) fn yields(&mut self) -> bool {
        std::mem::take(&mut self.to_yield)
    }

    /// Something has been written.
    pub(crate) fn written(&mut self, now: Instant) {
        (self.wrote_at, self.waits_since, self.to_yield) = (Some(now), None, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_behind_a_row_of_writes_waits_but_not_for_long_and_not_much_of_it() {
        let mut burst = Burst::default();
        let start = Instant::now();
        let us = |us| start + Duration::from_micros(us);
        let send = |burst: &mut Burst, at| {
            assert_eq!(burst.queued(us(at), 100), Writer::Sender, "at {at} us");
            burst.written(us(at + 1));
        };
        // One message at a time, then two and three that belong together.
        for at in [0, 20, 22, 40, 42, 44, 60, 62, 64] {
            send(&mut burst, at);
        }
        assert_eq!(burst.queued(us(66), 100), Writer::Flusher, "one more in the row");
        assert_eq!((burst.yields(), burst.yields()), (true, false));
        assert_eq!(burst.queued(us(190), 200), Writer::FlusherAwake, "it has not run yet");
        assert_eq!(burst.queued(us(191), BYTES_MAX), Writer::Sender, "that is enough for a write");
        assert_eq!(burst.queued(us(267), 300), Writer::Sender, "the first has waited for long enough");
        burst.written(us(268));
        assert!(!burst.yields(), "nothing waits");
        assert_eq!(burst.queued(us(270), 100), Writer::Flusher, "the row goes on");
        burst.written(us(272));
        send(&mut burst, 300);
    }
}
