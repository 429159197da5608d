//! Unguessable numbers for nodes and chains.

/// 64 bits.
pub(crate) fn bits64() -> u64 {
    u64::from_ne_bytes(bytes())
}

/// 128 bits.
pub(crate) fn bits128() -> u128 {
    u128::from_ne_bytes(bytes())
}

#[allow(clippy::expect_used, reason = "no node is safe without: its first number is drawn before it starts")]
fn bytes<const BYTES: usize>() -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).expect("the system's random numbers");
    bytes
}
