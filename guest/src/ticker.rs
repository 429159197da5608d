//! The clock that makes guests stand aside: one thread that counts wasmtime's epochs, once a millisecond, while guests run.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, Thread},
    time::Duration,
};
use wasmtime::EngineWeak;

/// Length of an epoch.
pub(crate) const TICK: Duration = Duration::from_millis(1);
/// Ticks without a guest after which the thread rests.
const IDLE_TICKS_MAX: u32 = 64;

/// Stops with the last clone of its engine, or when dropped.
pub(crate) struct Ticker {
    shared: Arc<Shared>,
    thread: Thread,
}

#[derive(Default)]
struct Shared {
    /// A guest ran since the last tick.
    active: AtomicBool,
    /// The thread rests, or is about to.
    resting: AtomicBool,
    stopped: AtomicBool,
}

impl Ticker {
    pub(crate) fn new(engine: EngineWeak) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let ticking = Arc::clone(&shared);
        let handle = thread::Builder::new().name("catena-epochs".to_owned()).spawn(move || run(&engine, &ticking))?;
        Ok(Self { shared, thread: handle.thread().clone() })
    }

    /// Called whenever a guest is about to run, and by a guest that goes on running: costs a load unless the thread rests.
    #[inline]
    pub(crate) fn keep_awake(&self) {
        // A stale `true` does no harm: the thread rests only many ticks after it last took one.
        if !self.shared.active.load(Ordering::Relaxed) {
            self.shared.active.store(true, Ordering::SeqCst);
        }
        if self.shared.resting.load(Ordering::SeqCst) {
            self.shared.resting.store(false, Ordering::SeqCst);
            self.thread.unpark();
        }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        self.shared.resting.store(false, Ordering::SeqCst);
        self.thread.unpark();
    }
}

#[expect(clippy::disallowed_methods, reason = "this thread is its own, and to sleep is its work")]
fn run(engine: &EngineWeak, shared: &Shared) {
    let mut idle_ticks = 0;
    while !shared.stopped.load(Ordering::SeqCst) {
        thread::sleep(TICK);
        let Some(engine) = engine.upgrade() else {
            return;
        };
        engine.increment_epoch();
        drop(engine);
        if shared.active.swap(false, Ordering::SeqCst) {
            idle_ticks = 0;
            continue;
        }
        idle_ticks += 1;
        if idle_ticks > IDLE_TICKS_MAX {
            shared.resting.store(true, Ordering::SeqCst);
            // Whoever set `active` before it could see `resting` is seen here.
            if shared.active.load(Ordering::SeqCst) {
                shared.resting.store(false, Ordering::SeqCst);
            }
            while shared.resting.load(Ordering::SeqCst) {
                thread::park();
            }
            idle_ticks = 0;
        }
    }
}
