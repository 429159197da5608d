//! The task that goes on sending where an inline write had to stop, and that keeps the link's time: the shape, lazy
//! messages, pings.

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
        // One write per lock and turn: senders come in between.
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

/// When to look again if nothing else happens. A blocked stream wakes by itself; only pings go on.
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

/// Pings, and the count of those that brought nothing.
struct Pulse {
    due: Instant,
    interval: Duration,
    seen_bytes: u64,
    missed: u32,
    heard_at: Instant,
}

impl Pulse {
    fn new(link: &Link) -> Self {
        let now = Instant::now();
        let interval = Duration::from_millis(link.config.ping_interval_ms);
        Self { due: now + interval, interval, seen_bytes: 0, missed: 0, heard_at: now }
    }

    fn beat(&mut self, link: &Link, egress: &mut Egress) -> Result<(), LinkError> {
        let now = Instant::now();
        if now < self.due {
            return Ok(());
        }
        let bytes = link.counters.bytes_received.load(Relaxed);
        if bytes != self.seen_bytes {
            (self.seen_bytes, self.missed, self.heard_at) = (bytes, 0, now);
        } else if self.missed >= link.config.pings_missed_max {
            let silent_ms = u64::try_from((now - self.heard_at).as_millis()).unwrap_or(u64::MAX);
            return Err(LinkError::Silent { peer: link.peer.clone(), silent_ms });
        }
        self.missed += 1;
        self.due = now + self.interval;
        link.ping(egress);
        Ok(())
    }
}
