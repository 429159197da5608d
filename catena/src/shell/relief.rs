//! A service or guest that blocks its thread blocks nothing else.
//!
//! In a tokio runtime one worker at a time waits for sockets and timers. It runs the tasks that they wake; if that is a single one, it wakes no other worker to
//! wait in its place. So code that blocks this thread without an `await` would stop every link and timer of the node, however many workers are idle. The rule
//! here: while foreign code runs, and none has begun or ended for a tick, a worker is woken from outside the runtime. It writes what links have put off, finds
//! nothing else to do, and then waits for sockets and timers.

use std::{
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, Thread},
    time::Duration,
};

use tokio::runtime::Handle;

use super::Shell;

/// How long code may block its thread before another worker is woken.
const TICK: Duration = Duration::from_millis(10);
/// After this many ticks in which nothing ran, the watcher sleeps until something does.
const IDLE_TICKS_MAX: u32 = 10;
/// How often a sleeping watcher checks whether its node still exists.
const IDLE: Duration = Duration::from_secs(1);

/// Counts threads in foreign code: services and guests. The watcher's thread starts with the first of them.
#[derive(Debug, Default)]
pub(super) struct Relief {
    entered: AtomicU64,
    left: AtomicU64,
    asleep: AtomicBool,
    /// `None`: the system refused a thread, and the node does without.
    watcher: OnceLock<Option<Thread>>,
}

/// Held while foreign code runs.
pub(super) struct Inside<'r>(&'r Relief);

impl Relief {
    fn enter(&self, shell: &Arc<Shell>) -> Inside<'_> {
        self.entered.fetch_add(1, Ordering::SeqCst);
        let watcher = self.watcher.get_or_init(|| begin(Arc::downgrade(shell), shell.runtime.clone()));
        if self.asleep.load(Ordering::SeqCst)
            && let Some(watcher) = watcher
        {
            watcher.unpark();
        }
        Inside(self)
    }

    /// How often foreign code was entered, and whether some of it has not been left.
    fn look(&self) -> (u64, bool) {
        // In this order, so that code that is entered and left in between is not counted as running.
        let entered = self.entered.load(Ordering::SeqCst);
        (entered, self.left.load(Ordering::SeqCst) < entered)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.left.fetch_add(1, Ordering::SeqCst);
    }
}

impl Shell {
    /// Marks foreign code as running until the guard is dropped.
    pub(super) fn enter_code(self: &Arc<Self>) -> Inside<'_> {
        self.relief.enter(self)
    }

    fn write_what_waits(&self) {
        let links = self.endpoint().map(catena_net::Endpoint::links).unwrap_or_default();
        links.iter().for_each(|link| link.write_what_waits());
    }
}

fn begin(shell: Weak<Shell>, runtime: Handle) -> Option<Thread> {
    let thread = thread::Builder::new().name("catena-relief".into()).spawn(move || watch(&shell, &runtime));
    thread.ok().map(|thread| thread.thread().clone())
}

fn watch(watched: &Weak<Shell>, runtime: &Handle) {
    // The node may end during this check; then its parts must be dropped inside the runtime, where its tasks can be.
    let _runtime = runtime.enter();
    let (mut before, mut idle) = (0, 0);
    while let Some(shell) = watched.upgrade() {
        let relief = &shell.relief;
        let (entered, inside) = relief.look();
        if inside && entered == before {
            let held = Weak::clone(watched);
            // Spawned from this thread, which is not one of the runtime's: that wakes a worker.
            runtime.spawn(async move {
                if let Some(shell) = held.upgrade() {
                    shell.write_what_waits();
                }
            });
        }
        idle = if inside || entered != before { 0 } else { idle + 1 };
        before = entered;
        if idle < IDLE_TICKS_MAX {
            drop(shell);
            thread::park_timeout(TICK);
            continue;
        }
        relief.asleep.store(true, Ordering::SeqCst);
        // Whoever enters foreign code from now on wakes this thread; whoever entered before is seen here.
        if relief.look() == (before, false) {
            drop(shell);
            thread::park_timeout(IDLE);
            watched.upgrade().inspect(|shell| shell.relief.asleep.store(false, Ordering::SeqCst));
        } else {
            relief.asleep.store(false, Ordering::SeqCst);
        }
    }
}
