//! The bandwidth and the delay from this endpoint to one remote site, shared by all its links to that site.
//!
//! Pure arithmetic: time is an argument. A pipe remembers when it will be free, so that a timer that fires late loses
//! nothing: the next frame's turn is reckoned from the end of the last one, not from when somebody looked.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::LinkShape;

const NS_PER_S: u128 = 1_000_000_000;

/// How far bulk may run ahead of the clock: two ticks of a timer that is one millisecond coarse.
const AHEAD_BULK: Duration = Duration::from_millis(2);
/// How far small messages may: more, so that another link's bulk cannot starve them.
const AHEAD_SMALL: Duration = Duration::from_millis(4);

/// Fragments are no longer than this much of the bandwidth, so that control never waits longer for one.
const FRAGMENT: Duration = Duration::from_millis(1);
/// But not so short that headers would eat the bandwidth.
const FRAGMENT_BYTES_MIN: usize = 1024;

/// One direction of the way to a site.
#[derive(Debug)]
pub(crate) struct Pipe {
    shape: LinkShape,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    free_at: Option<Instant>,
    /// What the last division left over, in units of 1 / `bytes_per_s` ns: nothing is lost to rounding.
    remainder: u128,
}

impl Pipe {
    pub(crate) fn new(shape: LinkShape) -> Self {
        Self { shape, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Longest fragment that suits this bandwidth, header included, in bytes.
    pub(crate) fn fragment_bytes_max(&self) -> usize {
        match self.shape.bytes_per_s {
            0 => usize::MAX,
            rate => bytes_in(rate, FRAGMENT).max(FRAGMENT_BYTES_MIN),
        }
    }

    /// How many bytes may be on their way at once: what the pipe holds, and a little.
    pub(crate) fn line_bytes_max(&self) -> usize {
        let length = Duration::from_micros(self.shape.delay_us) + 4 * AHEAD_SMALL;
        match self.shape.bytes_per_s {
            0 => 64 << 20,
            rate => bytes_in(rate, length).max(64 << 10),
        }
    }

    /// When the next frame may be taken from the queue; not after `now`: at once.
    pub(crate) fn open_at(&self, now: Instant, small: bool) -> Instant {
        let ahead = if small { AHEAD_SMALL } else { AHEAD_BULK };
        self.state().free_at.and_then(|at| at.checked_sub(ahead)).map_or(now, |at| at.max(now))
    }

    /// Sends `bytes` through the pipe, after all that it was given before. Says when the last byte arrives.
    pub(crate) fn charge(&self, now: Instant, bytes: usize) -> Instant {
        let delay = Duration::from_micros(self.shape.delay_us);
        let rate = u128::from(self.shape.bytes_per_s);
        if rate == 0 {
            return now + delay;
        }
        let mut state = self.state();
        let busy_from = state.free_at.filter(|&at| at > now);
        let carried = if busy_from.is_some() { state.remainder } else { 0 };
        let total = bytes as u128 * NS_PER_S + carried;
        let busy = Duration::from_nanos(u64::try_from(total / rate).unwrap_or(u64::MAX / 4));
        state.remainder = total % rate;
        let free_at = busy_from.unwrap_or(now) + busy;
        state.free_at = Some(free_at);
        free_at + delay
    }
}

fn bytes_in(bytes_per_s: u64, time: Duration) -> usize {
    usize::try_from(u128::from(bytes_per_s) * time.as_nanos() / NS_PER_S).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_and_bandwidth_are_exact() {
        let pipe = Pipe::new(LinkShape::new(90_000, 2_100_000));
        let start = Instant::now();
        // 2.1 MB in odd pieces: exactly one second, and the delay once.
        let mut sent = 0;
        let mut arrival = start;
        while sent < 2_100_000 {
            let bytes = 1_237.min(2_100_000 - sent);
            sent += bytes;
            arrival = pipe.charge(start, bytes);
        }
        assert_eq!(arrival - start, Duration::from_millis(1_090));
    }

    #[test]
    fn an_idle_pipe_saves_nothing_up() {
        let pipe = Pipe::new(LinkShape::new(0, 1_000_000));
        let start = Instant::now();
        pipe.charge(start, 1_000);
        let later = start + Duration::from_secs(10);
        assert_eq!(pipe.charge(later, 1_000) - later, Duration::from_millis(1));
    }

    #[test]
    fn bulk_stays_within_two_milliseconds_and_small_goes_before() {
        let pipe = Pipe::new(LinkShape::new(0, 1_000_000));
        let start = Instant::now();
        pipe.charge(start, 3_500);
        assert_eq!(pipe.open_at(start, false), start + Duration::from_micros(1_500));
        assert_eq!(pipe.open_at(start, true), start);
    }
}
