//! The primitives under [`super::counted`] and [`super::bursts`], which `proof/explore` compiles on a file of this name with loom's or shuttle's types.

pub(super) use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};

use super::mistake::Mistake;

/// No mistakes are seeded here.
pub(super) const fn made(_: Mistake) -> bool {
    false
}
