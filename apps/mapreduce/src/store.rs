//! What a map task has made so far: kept until its job is over, and followed by whoever wants it.
//!
//! The words themselves lie in blobs ([`crate::data`]), which end with the last handle of what was made.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::watch;

use crate::data::Kept;

/// The parts of one map task, for each partition in the order in which they were made.
#[derive(Debug)]
pub struct Made {
    parts: Mutex<Vec<Vec<Kept>>>,
    /// How far the task is: whoever follows it waits for this to change.
    stage: watch::Sender<Stage>,
    dropped: AtomicBool,
}

/// How far a map task is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stage {
    /// Additions so far.
    pub additions: u32,
    /// No more will come, for this reason if it is not the end.
    pub ended: Option<Result<(), String>>,
}

impl Made {
    /// Nothing yet, for so many partitions.
    #[must_use]
    pub fn new(partitions: u32) -> Self {
        let parts = (0..partitions).map(|_| Vec::new()).collect();
        Self { parts: Mutex::new(parts), stage: watch::Sender::default(), dropped: AtomicBool::new(false) }
    }

    /// Adds a block: a part for each partition.
    pub fn add(&self, new: Vec<Kept>) {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.iter_mut().zip(new).for_each(|(parts, part)| parts.push(part));
        drop(parts);
        self.stage.send_modify(|stage| stage.additions += 1);
    }

    /// Says that no more will come.
    pub fn end(&self, how: Result<(), String>) {
        self.stage.send_modify(|stage| stage.ended = Some(how));
    }

    /// What was made for a partition, from number `from` on.
    #[must_use]
    pub fn parts(&self, partition: u32, from: usize) -> Vec<Kept> {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let of = usize::try_from(partition).ok().and_then(|partition| parts.get(partition));
        of.and_then(|parts| parts.get(from..)).map(<[_]>::to_vec).unwrap_or_default()
    }

    /// A receiver for following the task: look at the stage first, then at the parts.
    #[must_use]
    pub fn follow(&self) -> watch::Receiver<Stage> {
        self.stage.subscribe()
    }

    /// The job is over: the task need not go on.
    pub fn drop_it(&self) {
        self.dropped.store(true, Ordering::Relaxed);
    }

    /// Whether it need not go on.
    #[must_use]
    pub fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let parts = self.parts.get_mut().unwrap_or_else(PoisonError::into_inner);
        // All parts of a block lie in one blob, so one of them gives it up.
        parts.iter().take(1).flatten().for_each(Kept::release);
    }
}
