//! Times at which the whole machine stood still: no node could do anything meanwhile, so no node is blamed for it.

use std::{
    sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel},
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::ledger::now_ms;

/// How often the watcher looks at the clock, in milliseconds.
const TICK_MS: u64 = 50;
/// A tick that is later than this, in milliseconds, means that the machine stood still.
const STALL_MS: u64 = 500;
/// More are not noted.
const STALLS_MAX: usize = 10_000;

/// Watches from a thread of its own: whatever blocks the clients under test does not look like a stall.
pub(crate) struct Stalls {
    /// The watcher ends when this is dropped.
    ends: SyncSender<()>,
    watcher: JoinHandle<Vec<(u64, u64)>>,
}

impl Stalls {
    pub(crate) fn watch() -> Self {
        let (ends, ended) = sync_channel(1);
        let watcher = thread::spawn(move || {
            let (mut stalls, mut seen_ms) = (Vec::new(), now_ms());
            while ended.recv_timeout(Duration::from_millis(TICK_MS)) == Err(RecvTimeoutError::Timeout) {
                let before_ms = std::mem::replace(&mut seen_ms, now_ms());
                let late_ms = seen_ms.saturating_sub(before_ms).saturating_sub(TICK_MS);
                if late_ms > STALL_MS && stalls.len() < STALLS_MAX {
                    stalls.push((before_ms, seen_ms));
                }
            }
            stalls
        });
        Self { ends, watcher }
    }

    /// When each began and ended, in milliseconds since the Unix epoch.
    pub(crate) fn end(self) -> Vec<(u64, u64)> {
        drop(self.ends);
        self.watcher.join().unwrap_or_default()
    }
}
