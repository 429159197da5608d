//! A value that clones and drops, and whose last drop is told (Quatrain, section 3.2).

use std::ops::Deref;

use super::{
    ground::{Arc, AtomicUsize, Ordering, made},
    mistake::Mistake,
};

/// What hears of the end.
pub(crate) trait Ends {
    /// The last clone has gone, and all that was done under any of them is done.
    fn end(&self);
}

/// One clone of it. The count is kept apart from that of the pointer, so that nobody but its clones delays the end.
pub(crate) struct Counted<E: Ends> {
    shared: Arc<Shared<E>>,
}

struct Shared<E> {
    clones: AtomicUsize,
    value: E,
}

impl<E: Ends> Counted<E> {
    pub(crate) fn new(value: E) -> Self {
        Self { shared: Arc::new(Shared { clones: AtomicUsize::new(1), value }) }
    }
}

impl<E: Ends> Deref for Counted<E> {
    type Target = E;

    fn deref(&self) -> &E {
        &self.shared.value
    }
}

impl<E: Ends> Clone for Counted<E> {
    fn clone(&self) -> Self {
        if !made(Mistake::CloneNotCounted) {
            // Whoever clones has one itself, so this can neither be the first nor follow the end. It cannot overflow: the pointer's own count would have, before.
            self.shared.clones.fetch_add(1, Ordering::Relaxed);
        }
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<E: Ends> Drop for Counted<E> {
    fn drop(&mut self) {
        // Release: what was done under this clone is seen by the last. Acquire: the last sees what was done under the others.
        let order = if made(Mistake::EndSeesLess) { Ordering::Relaxed } else { Ordering::AcqRel };
        let before = self.shared.clones.fetch_sub(1, order);
        let last =
            if made(Mistake::EndToldTwice) { self.shared.clones.load(Ordering::Acquire) == 0 } else { before == 1 };
        if last {
            self.shared.value.end();
        }
    }
}
