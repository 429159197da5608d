//! Replies that follow one another so quickly that they are sent in one message: one task waits for a pause, and then sends them.

use super::{
    ground::{AtomicBool, AtomicU64, Ordering, made},
    mistake::Mistake,
};

/// The bursts of a node.
pub(crate) struct Bursts {
    /// How many replies have been held back so far.
    replies: AtomicU64,
    /// Whether a task watches for a pause.
    watched: AtomicBool,
}

impl Bursts {
    pub(crate) fn new() -> Self {
        Self { replies: AtomicU64::new(0), watched: AtomicBool::new(false) }
    }

    /// Records a held-back reply, `first` under its right to do so. Returns whether the caller must watch for the pause; else the current watcher sends it.
    pub(crate) fn one_waits(&self, first: bool) -> bool {
        self.replies.fetch_add(1, Ordering::Relaxed);
        first && !self.watched.swap(true, Ordering::AcqRel)
    }

    /// How many replies have been held back so far: while this changes there is no pause.
    pub(crate) fn so_far(&self) -> u64 {
        self.replies.load(Ordering::Relaxed)
    }

    /// Called at a pause, to send what was held back. First another task may become the watcher, and only then are the replies taken: a reply that still finds
    /// this watcher is among those taken.
    pub(crate) fn over(&self, send: impl FnOnce()) {
        if made(Mistake::SentBeforeOver) {
            send();
            return self.watched.store(false, Ordering::Release);
        }
        self.watched.store(false, Ordering::Release);
        send();
    }
}
