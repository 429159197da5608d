//! A service or guest that holds its thread holds up nobody else.
//!
//! In a tokio runtime one worker at a time waits for sockets and timers. It runs what they wake, and if that is a single task, it wakes no other worker to wait in
//! its place. So code that holds that one thread without an `await` would stop every link and timer of the node, however many workers are idle. The rule here: while
//! code that is not this crate's runs, and nothing of it has begun or ended for a tick, a worker is woken from outside the runtime; finding nothing else to do, it
//! waits for sockets and timers.

use std::{
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, Thread},
    time::Duration,
};

use tokio::runtime::Handle;

/// How long code may hold its thread before another worker is woken.
const TICK: Duration = Duration::from_millis(10);
/// After so many ticks in which nothing ran the watcher sleeps until something does.
const IDLE_TICKS_MAX: u32 = 10;
/// How often a sleeping watcher sees whether its node is still there.
const IDLE: Duration = Duration::from_secs(1);

/// Who is in code that is not this crate's. The watcher's thread begins with the first of it.
#[derive(Debug, Default)]
pub(super) struct Relief {
    entered: AtomicU64,
    left: AtomicU64,
    asleep: AtomicBool,
    /// `None`: the system gave no thread; the node does without.
    watcher: OnceLock<Option<Thread>>,
}

/// Held while such code runs.
pub(super) struct Inside<'r>(&'r Relief);

impl Relief {
    pub(super) fn enter(self: &Arc<Self>, runtime: &Handle) -> Inside<'_> {
        self.entered.fetch_add(1, Ordering::SeqCst);
        let watcher = self.watcher.get_or_init(|| begin(Arc::downgrade(self), runtime.clone()));
        if self.asleep.load(Ordering::SeqCst)
            && let Some(watcher) = watcher
        {
            watcher.unpark();
        }
        Inside(self)
    }

    /// How often code was entered, and whether some of it has not been left.
    fn look(&self) -> (u64, bool) {
        // In this order: what is entered and left in between does not look as if it were inside.
        let entered = self.entered.load(Ordering::SeqCst);
        (entered, self.left.load(Ordering::SeqCst) < entered)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.left.fetch_add(1, Ordering::SeqCst);
    }
}

fn begin(relief: Weak<Relief>, runtime: Handle) -> Option<Thread> {
    let thread = thread::Builder::new().name("catena-relief".into()).spawn(move || watch(&relief, &runtime));
    thread.ok().map(|thread| thread.thread().clone())
}

fn watch(relief: &Weak<Relief>, runtime: &Handle) {
    let (mut before, mut idle) = (0, 0);
    while let Some(relief) = relief.upgrade() {
        let (entered, inside) = relief.look();
        if inside && entered == before {
            // From this thread, which is none of the runtime's: that wakes a worker.
            runtime.spawn(async {});
        }
        idle = if inside || entered != before { 0 } else { idle + 1 };
        before = entered;
        if idle < IDLE_TICKS_MAX {
            drop(relief);
            thread::park_timeout(TICK);
            continue;
        }
        relief.asleep.store(true, Ordering::SeqCst);
        // Whoever enters from now on wakes this thread; whoever was quicker is seen here.
        if relief.look() == (before, false) {
            let asleep = Arc::downgrade(&relief);
            drop(relief);
            thread::park_timeout(IDLE);
            asleep.upgrade().inspect(|relief| relief.asleep.store(false, Ordering::SeqCst));
        } else {
            relief.asleep.store(false, Ordering::SeqCst);
        }
    }
}
