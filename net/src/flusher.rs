//! The task that continues sending where an inline write had to stop, and that handles what is due at a time on the link: the shape, lazy messages, pings.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use crate::egress::{Egress, Pumped};
use crate::ticker::Ticker;
use crate::{Link, LinkError};

/// Runs until the link has ended or is shut down.
pub(crate) async fn flush(link: Arc<Link>, ticker: Option<Arc<Ticker>>) {
    let mut pulse = Pulse::new(&link);
    let mut alarm = Alarm { ticker, at: None };
    let mut timer = pin!(sleep_until(pulse.due));
    poll_fn(|cx| poll(&link, &mut pulse, &mut alarm, timer.as_mut(), cx)).await;
    alarm.clear(&link);
}

fn poll(
    link: &Link,
    pulse: &mut Pulse,
    alarm: &mut Alarm,
    mut timer: Pin<&mut Sleep>,
    cx: &mut Context<'_>,
) -> Poll<()> {
    let mut egress = link.egress();
    if link.ended.get().is_some() {
        return Poll::Ready(());
    }
    if !egress.flusher.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
        egress.flusher = Some(cx.waker().clone());
    }
    if egress.burst.yields() {
        drop(egress);
        // Wakes this task again when the tasks that are ready have run.
        let _ = pin!(tokio::task::yield_now()).poll(cx);
        return Poll::Pending;
    }
    if let Err(why) = pulse.beat(link, &mut egress) {
        drop(egress);
        link.end(why);
        return Poll::Ready(());
    }
    match link.pump(&mut egress, cx) {
        Poll::Ready(Err(error)) => {
            drop(egress);
            link.end(LinkError::io(&link.peer, &error));
            return Poll::Ready(());
        }
        // One write per turn, with the lock released in between: senders get their turn.
        Poll::Ready(Ok(Pumped::More)) => cx.waker().wake_by_ref(),
        Poll::Ready(Ok(Pumped::Dry)) | Poll::Pending => {}
    }
    let due = next_due(&egress, pulse.due);
    egress.timer_at = Some(due);
    alarm.set(link, egress.pipe_wake_at.filter(|_| !egress.blocked), cx);
    drop(egress);
    if timer.deadline() != due {
        timer.as_mut().reset(due);
    }
    if timer.poll(cx).is_ready() {
        cx.waker().wake_by_ref();
    }
    Poll::Pending
}

/// When to look again if nothing else happens. A blocked stream wakes the task by itself; only pings have to go on.
fn next_due(egress: &Egress, ping_due: Instant) -> Instant {
    if egress.blocked {
        return ping_due;
    }
    [egress.pipe_wake_at, egress.lazy_due].into_iter().flatten().fold(ping_due, Instant::min)
}

/// The precise alarm of a shaped link.
struct Alarm {
    ticker: Option<Arc<Ticker>>,
    /// What it is set to.
    at: Option<Instant>,
}

impl Alarm {
    fn set(&mut self, link: &Link, at: Option<Instant>, cx: &Context<'_>) {
        if let (Some(ticker), Some(at)) = (&self.ticker, at)
            && self.at != Some(at)
        {
            self.at = Some(at);
            ticker.set(link.id, at.saturating_duration_since(Instant::now()), cx.waker());
        }
    }

    fn clear(&self, link: &Link) {
        if let Some(ticker) = &self.ticker {
            ticker.clear(link.id);
        }
    }
}

/// Pings, and the end of a link that makes no progress.
struct Pulse {
    due: Instant,
    interval: Duration,
    silence_max: Duration,
    seen_bytes: u64,
    missed: u32,
    heard_at: Instant,
    received: Progress,
    sent: Progress,
}

impl Pulse {
    fn new(link: &Link) -> Self {
        let now = Instant::now();
        let interval = Duration::from_millis(link.config.ping_interval_ms);
        let silence_max = Duration::from_millis(link.config.silence_ms_max());
        let progress = Progress { since: now, bytes: 0 };
        let (received, sent) = (progress, progress);
        Self { due: now + interval, interval, silence_max, seen_bytes: 0, missed: 0, heard_at: now, received, sent }
    }

    fn beat(&mut self, link: &Link, egress: &mut Egress) -> Result<(), LinkError> {
        let now = Instant::now();
        if now < self.due {
            return Ok(());
        }
        let peer = || link.peer.clone();
        if now > self.due + self.silence_max {
            return Err(LinkError::Slept { peer: peer(), stopped_ms: millis(now - self.due) });
        }
        let bytes = link.counters.bytes_received.load(Relaxed);
        let held_up = link.counters.was_held_up.swap(false, Relaxed);
        if held_up || bytes != self.seen_bytes {
            (self.seen_bytes, self.missed, self.heard_at) = (bytes, 0, now);
        } else if self.missed >= link.config.pings_missed_max {
            return Err(LinkError::Silent { peer: peer(), silent_ms: millis(now - self.heard_at) });
        }
        self.check_progress(link, egress, held_up, now)?;
        self.missed += 1;
        self.due = now + self.interval;
        // A caller that is not welcome yet is told nothing before the next hello.
        if link.identity().is_some() || link.place.is_some() {
            link.ping(egress);
        }
        Ok(())
    }

    fn check_progress(
        &mut self,
        link: &Link,
        egress: &mut Egress,
        held_up: bool,
        now: Instant,
    ) -> Result<(), LinkError> {
        let bytes_per_s_min = link.config.progress_bytes_per_s_min;
        let slow = |what| Err(LinkError::Stalled { peer: link.peer.clone(), what, bytes_per_s_min });
        let idle = link.counters.was_whole.swap(false, Relaxed) || held_up;
        let bytes = link.counters.fragment_bytes.load(Relaxed);
        if self.received.is_slow(idle, bytes, now, self.silence_max, bytes_per_s_min) {
            return slow("sent the rest of a message with");
        }
        let idle = std::mem::take(&mut egress.was_dry) || egress.queued_bytes == 0;
        let bytes = link.counters.bytes_sent.load(Relaxed);
        if self.sent.is_slow(idle, bytes, now, self.silence_max, bytes_per_s_min) {
            return slow("takes what is queued for it with");
        }
        Ok(())
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// What has gone one way since there was last nothing to send.
#[derive(Clone, Copy)]
struct Progress {
    since: Instant,
    bytes: u64,
}

impl Progress {
    /// Whether this was less than `bytes_per_s_min`, over all of `window`.
    fn is_slow(&mut self, idle: bool, bytes: u64, now: Instant, window: Duration, bytes_per_s_min: u64) -> bool {
        let took = now - self.since;
        if !idle && took < window {
            return false;
        }
        let least = u128::from(bytes_per_s_min) * took.as_millis() / 1_000;
        let slow = !idle && u128::from(bytes - self.bytes) < least;
        *self = Self { since: now, bytes };
        slow
    }
}
