//! Wakes shaped links on time. tokio's timer is one to two milliseconds late, which is a lot for a hop inside a site;
//! a thread that sleeps is late by some tens of microseconds. Only an endpoint with a topology has one.
//!
//! It is a second alarm, not the only one: the flusher's own timer stays set, and follows virtual time. One alarm too many does no harm.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

/// A thread with one alarm per link.
#[derive(Debug)]
pub(crate) struct Ticker {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    alarms: HashMap<u64, (Instant, Waker)>,
    stopped: bool,
}

impl Ticker {
    /// Starts the thread. Without it (the system refused) links are woken later, but work.
    pub(crate) fn start() -> Self {
        let shared = Arc::<Shared>::default();
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("catena-shape".to_owned()).spawn(move || of_thread.run());
        if let Err(error) = thread {
            tracing::warn!(%error, "no thread for precise shaping: shaped links will be up to 2 ms late");
            shared.state().stopped = true;
        }
        Self { shared }
    }

    /// Sets the only alarm of `link`, in place of the one it had.
    pub(crate) fn set(&self, link: u64, after: Duration, waker: &Waker) {
        let mut state = self.shared.state();
        if !state.stopped {
            state.alarms.insert(link, (Instant::now() + after, waker.clone()));
            self.shared.changed.notify_one();
        }
    }

    /// Forgets a link.
    pub(crate) fn clear(&self, link: u64) {
        self.shared.state().alarms.remove(&link);
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.state().stopped = true;
        self.shared.changed.notify_one();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut due = Vec::new();
        let mut state = self.state();
        while !state.stopped {
            let now = Instant::now();
            due.extend(state.alarms.extract_if(|_, (at, _)| *at <= now).map(|(_, (_, waker))| waker));
            if !due.is_empty() {
                drop(state);
                due.drain(..).for_each(Waker::wake);
                state = self.state();
                continue;
            }
            let next = state.alarms.values().map(|(at, _)| *at).min();
            state = match next {
                Some(at) => {
                    let waited = self.changed.wait_timeout(state, at.saturating_duration_since(now));
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}
