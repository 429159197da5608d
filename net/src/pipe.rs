//! The bandwidth and the delay from this endpoint to one remote site, shared by all its links to that site.
//!
//! Pure arithmetic: time is an argument. For what waited for the pipe, time counts from when the pipe became free, not from when a late timer fired, so errors
//! do not add up. Links with bulk take turns, fragment by fragment.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::LinkShape;

const NS_PER_S: u128 = 1_000_000_000;

/// How far bulk may run ahead of the clock: two ticks of a timer with a resolution of one millisecond.
const AHEAD_BULK: Duration = Duration::from_millis(2);
/// How far small messages may run ahead: further, so that another link's bulk cannot starve them.
const AHEAD_SMALL: Duration = Duration::from_millis(4);
/// When to ask again after another link had its turn: the next tick.
const TICK: Duration = Duration::from_millis(1);
/// A link that does not use its turn for this long loses it.
const TURN_LATE_MAX: Duration = Duration::from_millis(2);

/// Fragments take no longer than this at the pipe's bandwidth, so that control messages never wait longer for one.
const FRAGMENT: Duration = Duration::from_millis(1);
/// But fragments are not so short that headers would use up the bandwidth.
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
    /// The remainder of the last division, in units of 1 / `bytes_per_s` ns: nothing is lost to rounding.
    remainder: u128,
    /// Links with bulk that were told to wait, and until when; each at most once.
    turns: VecDeque<(u64, Instant)>,
}

impl State {
    fn wait(&mut self, link: u64, until: Instant) -> Result<(), Instant> {
        match self.turns.iter_mut().find(|turn| turn.0 == link) {
            Some(turn) => turn.1 = until,
            None => self.turns.push_back((link, until)),
        }
        Err(until)
    }
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

    /// How many bytes may be on their way at once: what the pipe holds, and some more.
    pub(crate) fn line_bytes_max(&self) -> usize {
        let length = Duration::from_micros(self.shape.delay_us) + 4 * AHEAD_SMALL;
        match self.shape.bytes_per_s {
            0 => 64 << 20,
            rate => bytes_in(rate, length).max(64 << 10),
        }
    }

    /// Whether `link` may take its next frame from the queue now.
    ///
    /// # Errors
    /// When to ask again.
    pub(crate) fn admit(&self, now: Instant, link: u64, small: bool) -> Result<(), Instant> {
        let ahead = if small { AHEAD_SMALL } else { AHEAD_BULK };
        let mut state = self.state();
        let open_at = state.free_at.and_then(|at| at.checked_sub(ahead)).filter(|&at| at > now);
        match open_at {
            Some(at) if small => return Err(at),
            Some(at) => return state.wait(link, at),
            None if small => return Ok(()),
            None => {}
        }
        while state.turns.front().is_some_and(|&(other, due)| other != link && due + TURN_LATE_MAX < now) {
            state.turns.pop_front();
        }
        match state.turns.front() {
            Some(&(other, _)) if other != link => state.wait(link, now + TICK),
            _ => {
                state.turns.pop_front();
                Ok(())
            }
        }
    }

    /// Sends `bytes` through the pipe, after all that it was given before and not before `ready`, when they began to wait for the pipe. Returns when the last
    /// byte arrives.
    pub(crate) fn charge(&self, ready: Instant, bytes: usize) -> Instant {
        let delay = Duration::from_micros(self.shape.delay_us);
        let rate = u128::from(self.shape.bytes_per_s);
        if rate == 0 {
            return ready + delay;
        }
        let mut state = self.state();
        let busy_from = state.free_at.filter(|&at| at >= ready);
        let carried = if busy_from.is_some() { state.remainder } else { 0 };
        let total = bytes as u128 * NS_PER_S + carried;
        let busy = Duration::from_nanos(u64::try_from(total / rate).unwrap_or(u64::MAX / 4));
        state.remainder = total % rate;
        let free_at = busy_from.unwrap_or(ready) + busy;
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
        assert_eq!(pipe.admit(start, 1, false), Err(start + Duration::from_micros(1_500)));
        assert_eq!(pipe.admit(start, 1, true), Ok(()));
    }

    #[test]
    fn links_take_turns_and_one_that_does_not_come_is_passed_over() {
        let pipe = Pipe::new(LinkShape::new(0, 1_000_000));
        let start = Instant::now();
        pipe.charge(start, 3_000);
        let open_at = start + Duration::from_millis(1);
        assert_eq!(pipe.admit(start, 1, false), Err(open_at));
        assert_eq!(pipe.admit(start, 2, false), Err(open_at));
        assert_eq!(pipe.admit(open_at, 2, false), Err(open_at + TICK), "it is the turn of link 1");
        assert_eq!(pipe.admit(open_at, 1, false), Ok(()));
        assert_eq!(pipe.admit(open_at, 1, false), Err(open_at + TICK), "now it is the turn of link 2");
        let late = open_at + TICK + TURN_LATE_MAX + TICK;
        assert_eq!(pipe.admit(late, 1, false), Ok(()));
    }

    #[test]
    fn a_late_timer_loses_nothing_for_bytes_that_waited() {
        let pipe = Pipe::new(LinkShape::new(0, 1_000_000));
        let start = Instant::now();
        pipe.charge(start, 1_000);
        // Ready at the start, but looked at 7 ms later.
        assert_eq!(pipe.charge(start, 1_000), start + Duration::from_millis(2));
    }
}
