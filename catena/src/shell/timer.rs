//! One task that wakes the machines at their next deadline.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use catena_net::awake;
use tokio::sync::Notify;

use super::Shell;

/// When the timer task wakes, and how to make it check again.
#[derive(Debug)]
pub(super) struct Alarm {
    at_us: AtomicU64,
    changed: Notify,
}

impl Default for Alarm {
    fn default() -> Self {
        Self { at_us: AtomicU64::new(u64::MAX), changed: Notify::new() }
    }
}

impl Alarm {
    /// Wakes the task only if it would wake too late: most hops are done well before any deadline.
    pub(super) fn set(&self, next_us: u64) {
        if next_us < self.at_us.load(Ordering::Relaxed) {
            self.at_us.store(next_us, Ordering::Relaxed);
            self.changed.notify_one();
        }
    }
}

pub(super) fn start(shell: &Arc<Shell>) {
    let (alarm, shell) = (Arc::clone(&shell.alarm), Arc::downgrade(shell));
    tokio::spawn(watch(alarm, shell));
}

async fn watch(alarm: Arc<Alarm>, shell: Weak<Shell>) {
    /// How often to check whether the node still exists.
    const IDLE: Duration = Duration::from_secs(1);
    loop {
        let Some(wait) = shell.upgrade().map(|shell| {
            let next = shell.core().next_timeout();
            alarm.at_us.store(next.map_or(u64::MAX, catena_core::Time::as_us), Ordering::Relaxed);
            next.map_or(IDLE, |next| Duration::from_micros(next.since(shell.now()))).min(IDLE)
        }) else {
            return;
        };
        let _ = awake::timeout(wait, alarm.changed.notified()).await;
        if let Some(shell) = shell.upgrade() {
            let now = shell.now();
            shell.core().on_timeout(now);
            shell.drive_later();
        }
    }
}
