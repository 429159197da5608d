//! How far a peer is, and how fast bytes come from it. Pure: time is an argument.
//!
//! The shortest round trip and the median rate of the last few, each from samples of its own, so that neither spoils the other: a queue lengthens round trips,
//! and short exchanges reveal no bandwidth (after BBR's two estimates: Cardwell, Cheng, Gunn, Yeganeh, Jacobson, ACM Queue 14(5), 2016). BBR takes the
//! highest rate; here that would be the speed of memory, whenever this node looked late and found a whole message there.

use std::time::Duration;

use tokio::time::Instant;

use crate::FrameError;

/// The shortest of this many round trips counts: with a ping every 5 s, a way that has become longer is noticed after 40 s.
pub(crate) const ROUND_TRIPS_KEPT: usize = 8;
/// This many pings go one right after another when the link opens: at the first one both sides are still busy with the hello.
const PINGS_AT_FIRST: u64 = 3;
/// The median of this many rates counts; of two, the lower.
pub(crate) const RATES_KEPT: usize = 5;
/// A message of at least this many bytes is timed.
pub(crate) const LONG_BYTES_MIN: u64 = 128 << 10;
/// A rate needs at least this many bytes.
const TIMED_BYTES_MIN: u64 = LONG_BYTES_MIN / 2;
/// If the reader was away from the stream for longer than this, bytes have piled up, and their rate is not the link's.
const AWAY_MAX: Duration = Duration::from_millis(1);
/// A change by more than one part in this many is reported.
const CHANGE_PART: u64 = 4;

/// What was measured of the way to a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Round trip, in microseconds; `None` before the first pong.
    pub round_trip_us: Option<u64>,
    /// From the peer to here, in bytes per second; `None` before the first long message from it.
    pub bytes_per_s: Option<u64>,
}

impl Measured {
    /// Whether somebody who knows `self` should be told of `newer`.
    pub(crate) fn is_outdated_by(&self, newer: &Self) -> bool {
        let differs = |old: Option<u64>, new: Option<u64>| match (old, new) {
            (Some(old), Some(new)) => old.abs_diff(new) > old / CHANGE_PART,
            (old, new) => old != new,
        };
        differs(self.round_trip_us, newer.round_trip_us) || differs(self.bytes_per_s, newer.bytes_per_s)
    }
}

/// The last `N` samples of a series.
#[derive(Debug)]
struct Window<const N: usize> {
    samples: [u64; N],
    count: usize,
    next: usize,
}

impl<const N: usize> Default for Window<N> {
    fn default() -> Self {
        Self { samples: [0; N], count: 0, next: 0 }
    }
}

impl<const N: usize> Window<N> {
    fn push(&mut self, sample: u64) {
        self.samples[self.next] = sample;
        self.next = (self.next + 1) % N;
        self.count = (self.count + 1).min(N);
    }

    fn least(&self) -> Option<u64> {
        self.samples[..self.count].iter().min().copied()
    }

    fn middle(&self) -> Option<u64> {
        let mut sorted = self.samples;
        let sorted = &mut sorted[..self.count];
        sorted.sort_unstable();
        sorted.get(self.count.saturating_sub(1) / 2).copied()
    }
}

/// The pings of one link, and what their pongs showed.
#[derive(Debug, Default)]
pub(crate) struct Pings {
    /// The last ping's nonce; they count from 1.
    sent: u64,
    /// When that ping was sent, until it is answered.
    sent_at: Option<Instant>,
    /// The last pong's nonce.
    answered: u64,
    timed: u64,
    round_trips_us: Window<ROUND_TRIPS_KEPT>,
}

impl Pings {
    /// The nonce of a ping that goes out now.
    pub(crate) fn send(&mut self, now: Instant) -> u64 {
        self.sent += 1;
        self.sent_at = Some(now);
        self.sent
    }

    /// A pong has come. A pong for an earlier ping than the last is valid, but was not timed.
    ///
    /// # Errors
    /// No ping with this nonce waits for a pong: none was sent, or that one or a later one was answered.
    pub(crate) fn answer(&mut self, nonce: u64, now: Instant) -> Result<(), FrameError> {
        if nonce <= self.answered || nonce > self.sent {
            return Err(FrameError::UnexpectedPong { nonce });
        }
        self.answered = nonce;
        if let Some(sent_at) = self.sent_at.take_if(|_| nonce == self.sent) {
            self.timed = self.timed.saturating_add(1);
            self.round_trips_us.push(micros(now.saturating_duration_since(sent_at)));
        }
        Ok(())
    }

    /// Whether another ping should be sent at once: none is under way, and too few were timed.
    pub(crate) fn are_too_few(&self) -> bool {
        self.sent_at.is_none() && self.timed < PINGS_AT_FIRST
    }

    pub(crate) fn round_trip_us(&self) -> Option<u64> {
        self.round_trips_us.least()
    }
}

/// Times long messages that come in, by all bytes that come meanwhile: messages under way at the same time share the link.
///
/// Reads no clock while there is no long message. What comes while the reader is away (running the handler) piles up, and then comes at the speed of memory: so
/// the count starts anew when the reader has caught up.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    /// Long messages under way.
    long: usize,
    /// Since when bytes are counted; `None`: not until the reader has caught up.
    since: Option<Instant>,
    bytes: u64,
    /// When the reader was last at the stream.
    read_at: Option<Instant>,
    rates: Window<RATES_KEPT>,
}

impl Gauge {
    /// Whether a long message is under way.
    pub(crate) fn is_on(&self) -> bool {
        self.long > 0
    }

    /// `long` long messages are under way now. Returns a new rate, if there is one.
    pub(crate) fn follow(&mut self, long: usize, now: impl FnOnce() -> Instant) -> Option<u64> {
        let before = std::mem::replace(&mut self.long, long);
        if before == 0 && long > 0 {
            let now = now();
            (self.since, self.bytes, self.read_at) = (Some(now), 0, Some(now));
        }
        if long >= before {
            return None;
        }
        let (since, read_at, bytes) = (self.since?, self.read_at?, std::mem::take(&mut self.bytes));
        self.since = Some(read_at);
        if bytes < TIMED_BYTES_MIN {
            return None;
        }
        let took_us = micros(read_at.saturating_duration_since(since)).max(1);
        self.rates.push(bytes.saturating_mul(1_000_000) / took_us);
        self.rates.middle()
    }

    /// The reader returns to the stream.
    pub(crate) fn returns(&mut self, now: Instant) {
        if self.read_at.is_some_and(|read_at| now.saturating_duration_since(read_at) > AWAY_MAX) {
            self.since = None;
        }
    }

    /// `bytes` bytes have come; `all` says whether nothing more was waiting.
    pub(crate) fn came(&mut self, bytes: usize, all: bool, now: Instant) {
        self.read_at = Some(now);
        match self.since {
            Some(_) => self.bytes = self.bytes.saturating_add(bytes as u64),
            None if all => (self.since, self.bytes) = (Some(now), 0),
            None => {}
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_shortest_of_the_last_round_trips_counts() {
        let (mut pings, start) = (Pings::default(), Instant::now());
        let mut round_trip = |ms: u32| {
            let nonce = pings.send(start);
            pings.answer(nonce, start + ms * MS).unwrap();
            pings.round_trip_us().unwrap()
        };
        assert_eq!([90, 30, 50].map(&mut round_trip), [90_000, 30_000, 30_000]);
        let after: Vec<_> = (0..ROUND_TRIPS_KEPT as u32).map(|_| round_trip(60)).collect();
        assert_eq!((after[5], after[6], after[7]), (30_000, 50_000, 60_000), "a longer way is noticed");
    }

    #[test]
    fn only_a_ping_that_waits_can_be_answered() {
        let (mut pings, now) = (Pings::default(), Instant::now());
        let wrong = |nonce| Err(FrameError::UnexpectedPong { nonce });
        assert_eq!(pings.answer(0, now), wrong(0));
        assert_eq!(pings.answer(1, now), wrong(1), "before any ping");
        assert_eq!((0..4).map(|_| pings.send(now)).last(), Some(4));
        assert_eq!(pings.answer(5, now), wrong(5), "not sent yet");
        assert_eq!(pings.answer(2, now), Ok(()));
        assert_eq!(pings.round_trip_us(), None, "its time is not known any more");
        assert!(!pings.are_too_few(), "a later one is under way");
        assert_eq!(pings.answer(2, now), wrong(2), "twice");
        assert_eq!(pings.answer(1, now), wrong(1), "out of turn");
        assert_eq!(pings.answer(4, now + 3 * MS), Ok(()));
        assert_eq!(pings.round_trip_us(), Some(3_000));
        assert_eq!(pings.answer(u64::MAX, now), wrong(u64::MAX));
    }

    /// A message of `reads` reads of `bytes` each, one per millisecond, of which the reader is away for `away_ms` after the first.
    fn message(gauge: &mut Gauge, start: Instant, reads: u32, bytes: usize, away_ms: u32) -> Option<u64> {
        assert_eq!(gauge.follow(1, || start), None);
        gauge.returns(start + away_ms * MS);
        for n in 1..=reads {
            // What came while the reader was away lies there, and is read at once.
            let at = start + n.max(away_ms) * MS;
            gauge.came(bytes, n >= away_ms, at);
            gauge.returns(at);
        }
        gauge.follow(0, || panic!("the clock was read for nothing"))
    }

    #[test]
    fn a_long_message_shows_the_rate() {
        let (mut gauge, start) = (Gauge::default(), Instant::now());
        assert_eq!(message(&mut gauge, start, 200, 1_400, 0), Some(1_400_000));
        assert!(!gauge.is_on());
    }

    #[test]
    fn what_piled_up_while_the_reader_was_away_does_not_count() {
        let (mut gauge, start) = (Gauge::default(), Instant::now());
        assert_eq!(message(&mut gauge, start, 200, 1_400, 100), Some(1_400_000));
        assert_eq!(message(&mut gauge, start, 200, 1_400, 200), None, "it had all come before");
    }

    #[test]
    fn the_middle_rate_counts_and_nothing_is_divided_by_zero() {
        let (mut gauge, start) = (Gauge::default(), Instant::now());
        gauge.follow(1, || start);
        gauge.came(1 << 20, false, start);
        assert_eq!(gauge.follow(0, || start), Some((1 << 20) * 1_000_000), "in no time at all");
        assert_eq!(message(&mut gauge, start, 200, 1_000, 0), Some(1_000_000), "the lower of two");
        assert_eq!(message(&mut gauge, start, 200, 2_000, 0), Some(2_000_000));
        assert_eq!(message(&mut gauge, start, 200, 9_000, 0), Some(2_000_000));
        assert_eq!(message(&mut gauge, start, 200, 500, 0), Some(2_000_000));
    }

    #[test]
    fn messages_under_way_at_once_share_the_rate() {
        let (mut gauge, start) = (Gauge::default(), Instant::now());
        gauge.follow(1, || start);
        gauge.follow(2, || panic!("the clock was read for nothing"));
        gauge.came(100_000, true, start + 50 * MS);
        assert_eq!(gauge.follow(1, || start), Some(2_000_000));
        gauge.came(100_000, true, start + 100 * MS);
        assert_eq!(gauge.follow(0, || start), Some(2_000_000));
    }

    #[test]
    fn a_quarter_more_or_less_is_not_told() {
        let known = Measured { round_trip_us: Some(1_000), bytes_per_s: None };
        let told = |round_trip_us, bytes_per_s| known.is_outdated_by(&Measured { round_trip_us, bytes_per_s });
        assert!(!told(Some(1_250), None) && !told(Some(750), None));
        assert!(told(Some(1_251), None) && told(Some(749), None));
        assert!(told(Some(1_000), Some(5)), "what was not known before");
        assert!(Measured::default().is_outdated_by(&known));
    }
}
