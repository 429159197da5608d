//! The clock that makes guests yield: one thread that counts wasmtime's epochs, no more often than the guests need it.
//!
//! | of late | the thread |
//! | --- | --- |
//! | no guest has run | is parked: no timer is armed |
//! | guests run, each for a moment | looks every [`WATCH`] |
//! | a guest ran on while it looked | counts every [`TICK`] until none does |

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, Thread},
    time::Duration,
};
use wasmtime::EngineWeak;

/// Length of an epoch while a guest is busy.
const TICK: Duration = Duration::from_millis(1);
/// Length of an epoch otherwise: one for each tick would be a third of all context switches of a node that does nothing but hops.
const WATCH: Duration = Duration::from_millis(10);
/// The most epochs in which a guest need not yield.
const PATIENCE_EPOCHS_MAX: u64 = 2;
/// Watches without a guest after which the thread is parked.
const IDLE_WATCHES_MAX: u8 = 8;

/// How often epochs are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pace {
    Parked,
    Watching { idle: u8 },
    Ticking,
}

impl Pace {
    /// The pace after an epoch. `ran`: a guest ran in it at all; `busy`: a guest was still running at the end of the epoch before.
    const fn after(self, ran: bool, busy: bool) -> Self {
        match self {
            _ if busy => Self::Ticking,
            Self::Watching { idle } if !ran && idle >= IDLE_WATCHES_MAX => Self::Parked,
            Self::Watching { idle } if !ran => Self::Watching { idle: idle + 1 },
            _ => Self::Watching { idle: 0 },
        }
    }
}

/// Stops with the last clone of its engine, or when dropped.
pub(crate) struct Ticker {
    engine: EngineWeak,
    shared: Arc<Shared>,
    thread: Thread,
}

#[derive(Default)]
struct Shared {
    /// A guest ran in this epoch.
    ran: AtomicBool,
    /// A guest was still running when an epoch ended.
    busy: AtomicBool,
    ticking: AtomicBool,
    /// The thread is parked, or is about to be.
    parked: AtomicBool,
    stopped: AtomicBool,
}

impl Ticker {
    pub(crate) fn new(engine: EngineWeak) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let ticking = Arc::clone(&shared);
        let counted = engine.clone();
        let handle = thread::Builder::new().name("catena-epochs".to_owned()).spawn(move || run(&counted, &ticking))?;
        Ok(Self { engine, shared, thread: handle.thread().clone() })
    }

    /// Called whenever a guest is about to run: costs two loads unless the thread is parked.
    #[inline]
    pub(crate) fn keep_awake(&self) {
        // A stale `true` does no harm: the thread parks only many epochs after it last took one.
        if !self.shared.ran.load(Ordering::Relaxed) {
            self.shared.ran.store(true, Ordering::SeqCst);
        }
        if self.shared.parked.load(Ordering::SeqCst) {
            self.shared.parked.store(false, Ordering::SeqCst);
            self.thread.unpark();
        }
    }

    /// Called by a guest that runs on at the end of an epoch.
    pub(crate) fn busy(&self) {
        self.shared.busy.store(true, Ordering::SeqCst);
        if !self.shared.ticking.load(Ordering::SeqCst) {
            // Starts ticking now, not at the end of the watch, which has just begun.
            self.thread.unpark();
        }
    }

    /// After how many epochs a guest that begins now must yield. The first epoch may end at once, which would be much too early only while epochs are short.
    pub(crate) fn patience_epochs(&self) -> u64 {
        if self.shared.ticking.load(Ordering::Relaxed) { PATIENCE_EPOCHS_MAX } else { 1 }
    }

    /// Makes every guest that runs yield at its next chance.
    pub(crate) fn end_slices(&self) {
        let Some(engine) = self.engine.upgrade() else { return };
        (0..PATIENCE_EPOCHS_MAX).for_each(|_| engine.increment_epoch());
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        self.shared.parked.store(false, Ordering::SeqCst);
        self.thread.unpark();
    }
}

fn run(engine: &EngineWeak, shared: &Shared) {
    let mut pace = Pace::Parked;
    while !shared.stopped.load(Ordering::SeqCst) {
        match pace {
            Pace::Parked => park(shared),
            Pace::Watching { .. } => thread::park_timeout(WATCH),
            Pace::Ticking => thread::park_timeout(TICK),
        }
        let Some(engine) = engine.upgrade() else { return };
        engine.increment_epoch();
        drop(engine);
        pace = pace.after(shared.ran.swap(false, Ordering::SeqCst), shared.busy.swap(false, Ordering::SeqCst));
        shared.ticking.store(pace == Pace::Ticking, Ordering::SeqCst);
    }
}

fn park(shared: &Shared) {
    shared.parked.store(true, Ordering::SeqCst);
    // If `ran` was set before `parked` could be seen, it is seen here.
    if shared.ran.load(Ordering::SeqCst) || shared.stopped.load(Ordering::SeqCst) {
        shared.parked.store(false, Ordering::SeqCst);
    }
    while shared.parked.load(Ordering::SeqCst) {
        thread::park();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pace after each of these epochs.
    fn paces(epochs: impl IntoIterator<Item = (bool, bool)>) -> Vec<Pace> {
        let mut pace = Pace::Parked;
        let after = |(ran, busy)| {
            pace = pace.after(ran, busy);
            pace
        };
        epochs.into_iter().map(after).collect()
    }

    #[test]
    fn short_runs_are_watched_and_never_ticked() {
        let paces = paces([(true, false); 1_000]);
        assert!(paces.iter().all(|pace| *pace == Pace::Watching { idle: 0 }), "{paces:?}");
    }

    #[test]
    fn it_ticks_for_as_long_as_a_guest_is_busy() {
        let watching = Pace::Watching { idle: 0 };
        let paces = paces([(true, false), (true, true), (true, true), (true, false), (true, true)]);
        assert_eq!(paces, [watching, Pace::Ticking, Pace::Ticking, watching, Pace::Ticking]);
    }

    #[test]
    fn it_parks_when_no_guest_runs() {
        let idle = usize::from(IDLE_WATCHES_MAX) + 1;
        let paces = paces([(true, true), (true, false)].into_iter().chain(vec![(false, false); idle]));
        assert_eq!(paces.iter().position(|pace| *pace == Pace::Parked), Some(idle + 1), "{paces:?}");
    }
}
