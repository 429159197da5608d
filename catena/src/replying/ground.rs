//! What [`super::counted`] and [`super::bursts`] stand on. `proof/explore` has a file of this name too, with loom's or shuttle's types, and compiles these two files on it.

pub(super) use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};

use super::mistake::Mistake;

/// Nobody makes mistakes on purpose here.
pub(super) const fn made(_: Mistake) -> bool {
    false
}
