//! The chain's own randomness (SplitMix64: public domain, Vigna 2015).

/// The state `steps` numbers later.
pub(crate) const fn advance(state: u64, steps: u64) -> u64 {
    state.wrapping_add(steps.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// The number that belongs to a state.
pub(crate) const fn mix(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Where branch `index` of the split `call` begins: elsewhere for each branch of each split, for branches within branches, whose
/// indices do not change places, and for the function that split; the same if it is done again.
pub(crate) const fn of_branch(state: u64, call: u32, index: u32) -> u64 {
    mix(advance(mix(advance(state, call as u64 + 1)), index as u64 + 1))
}
