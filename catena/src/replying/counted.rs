//! A value that can be cloned, and whose last drop is reported (Quatrain, section 3.2).

use std::ops::Deref;

use super::{
    ground::{Arc, AtomicUsize, Ordering, made},
    mistake::Mistake,
};

/// Is told of the end.
pub(crate) trait Ends {
    /// The last clone is gone, and everything done under any clone is complete.
    fn end(&self);
}

/// One clone of the value. Clones are counted apart from the `Arc`, so that only they delay the end.
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
            // Whoever clones holds a clone, so this is neither the first nor after the end. It cannot overflow: the `Arc`'s own count would have, before.
            self.shared.clones.fetch_add(1, Ordering::Relaxed);
        }
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<E: Ends> Drop for Counted<E> {
    fn drop(&mut self) {
        // Release: the last drop sees what was done under this clone. Acquire: if this is the last, it sees what was done under the others.
        let order = if made(Mistake::EndSeesLess) { Ordering::Relaxed } else { Ordering::AcqRel };
        let before = self.shared.clones.fetch_sub(1, order);
        let last =
            if made(Mistake::EndToldTwice) { self.shared.clones.load(Ordering::Acquire) == 0 } else { before == 1 };
        if last {
            self.shared.value.end();
        }
    }
}
