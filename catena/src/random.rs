//! Unguessable numbers for nodes and chains.

use std::{
    collections::hash_map::RandomState,
    hash::BuildHasher,
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
};

/// 64 bits: SipHash of a counter, with keys that the system drew for this process.
pub(crate) fn bits64() -> u64 {
    static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    static NEXT: AtomicU64 = AtomicU64::new(0);
    KEYS.hash_one(NEXT.fetch_add(1, Ordering::Relaxed))
}

/// 128 bits.
pub(crate) fn bits128() -> u128 {
    u128::from(bits64()) << 64 | u128::from(bits64())
}
