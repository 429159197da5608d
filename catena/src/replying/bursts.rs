//! Replies that follow one another so quickly that one message has many: one task watches for their pause, and has them sent.

use super::{
    ground::{AtomicBool, AtomicU64, Ordering, made},
    mistake::Mistake,
};

/// Those of a node.
pub(crate) struct Bursts {
    /// Replies that waited, so far.
    replies: AtomicU64,
    /// A task watches for their pause.
    watched: AtomicBool,
}

impl Bursts {
    pub(crate) fn new() -> Self {
        Self { replies: AtomicU64::new(0), watched: AtomicBool::new(false) }
    }

    /// One more waits, and is `first` under its right to do so. Whether the caller has to watch for the pause: if not, whoever does sends this one too.
    pub(crate) fn one_waits(&self, first: bool) -> bool {
        self.replies.fetch_add(1, Ordering::Relaxed);
        first && !self.watched.swap(true, Ordering::AcqRel)
    }

    /// Replies that waited, so far: as long as it changes there is no pause.
    pub(crate) fn so_far(&self) -> u64 {
        self.replies.load(Ordering::Relaxed)
    }

    /// There is a pause: sends what waits. From here on another has to watch, and before that which waits is taken: a reply that finds this one still watching is
    /// among those taken.
    pub(crate) fn over(&self, send: impl FnOnce()) {
        if made(Mistake::SentBeforeOver) {
            send();
            return self.watched.store(false, Ordering::Release);
        }
        self.watched.store(false, Ordering::Release);
        send();
    }
}
