//! Reports that the last holder of a right to reply is gone (Quatrain, section 3.2): only while the node runs.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use tokio::runtime::Handle;

/// Reports ends, each in a task. A runtime that is shutting down drops unfinished tasks, those spawned by functions included, and takes no new ones. So
/// nobody is told falsely that all replies have come, and the caller learns that the node is lost.
#[derive(Clone, Debug)]
pub(crate) struct Teller {
    runtime: Handle,
    untold: Arc<AtomicUsize>,
}

impl Teller {
    pub(crate) fn new(runtime: Handle) -> Self {
        Self { runtime, untold: Arc::default() }
    }

    pub(super) fn tell(&self, say: impl FnOnce() + Send + 'static) {
        let untold = Arc::clone(&self.untold);
        untold.fetch_add(1, Relaxed);
        self.runtime.spawn(async move {
            untold.fetch_sub(1, Relaxed);
            say();
        });
    }

    /// To be called before code that may block its thread: a tokio worker keeps the task that it spawned last to itself, until it spawns another.
    pub(crate) fn leave_to_others(&self) {
        if self.untold.load(Relaxed) > 0 {
            self.runtime.spawn(async {});
        }
    }
}
