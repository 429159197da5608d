//! What the explored files stand on: the types of whoever explores, and one mistake if a test asks for it. Each test program compiles it.

use std::cell::Cell;

pub(super) use super::explorer::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};

use super::mistake::Mistake;

thread_local! {
    /// All threads of a model run on the test's own.
    static MISTAKE: Cell<Option<Mistake>> = const { Cell::new(None) };
}

/// Whether this mistake is made.
pub(super) fn made(mistake: Mistake) -> bool {
    MISTAKE.get() == Some(mistake)
}

/// From here on this one is made, in this test.
pub(super) fn make(mistake: Mistake) {
    MISTAKE.set(Some(mistake));
}
