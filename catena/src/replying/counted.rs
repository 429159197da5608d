//! A value that clones and drops, and whose last drop is told (Quatrain, section 3.2).

use std::ops::Deref;

use super::{
    ground::{Arc, AtomicBool, AtomicUsize, Ordering, made},
    mistake::Mistake,
};

/// What hears of the end.
pub(crate) trait Ends {
    /// The last clone has gone, and all that was done under any of them is done.
    fn end(&self, gone: Gone);
}

/// How the last clone went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    /// Let go by a function that has ended, and that had handed it on to nobody.
    LetGo,
    /// Dropped by a function that had handed it on to nobody.
    Dropped,
    /// It had been handed on to tasks or threads: one of them may have been dropped before it had said all.
    HandedOn,
}

/// One clone of it. The count is kept apart from that of the pointer, so that nobody but its clones delays the end.
pub(crate) struct Counted<E: Ends> {
    shared: Arc<Shared<E>>,
    let_go: bool,
}

struct Shared<E> {
    clones: AtomicUsize,
    handed_on: AtomicBool,
    value: E,
}

impl<E: Ends> Counted<E> {
    pub(crate) fn new(value: E) -> Self {
        let (clones, handed_on) = (AtomicUsize::new(1), AtomicBool::new(false));
        Self { shared: Arc::new(Shared { clones, handed_on, value }), let_go: false }
    }

    /// A clone for whoever runs the function: by this one it is not handed on.
    pub(crate) fn beside(&self) -> Self {
        if !made(Mistake::CloneNotCounted) {
            // Whoever clones has one itself, so this can neither be the first nor follow the end. It cannot overflow: the pointer's own count would have, before.
            self.shared.clones.fetch_add(1, Ordering::Relaxed);
        }
        Self { shared: Arc::clone(&self.shared), let_go: false }
    }

    /// Drops this one for a function that has ended.
    pub(crate) fn let_go(mut self) {
        self.let_go = true;
    }

    fn gone(&self) -> Gone {
        // Relaxed: whoever handed it on went before, and the count was acquired since.
        match (self.shared.handed_on.load(Ordering::Relaxed), self.let_go) {
            (true, _) => Gone::HandedOn,
            (false, true) => Gone::LetGo,
            (false, false) => Gone::Dropped,
        }
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
        self.shared.handed_on.store(!made(Mistake::HandedOnUnseen), Ordering::Relaxed);
        self.beside()
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
            self.shared.value.end(self.gone());
        }
    }
}
