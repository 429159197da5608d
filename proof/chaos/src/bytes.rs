//! Recognizable bytes: each word encodes whose it is, and where it belongs.

use crate::rng::Rng;

/// So many bytes of this seed.
pub(crate) fn pattern(seed: u64, bytes: usize) -> Vec<u8> {
    let words = (0..bytes.div_ceil(8) as u64).flat_map(|at| word(seed, at).to_le_bytes());
    words.take(bytes).collect()
}

fn word(seed: u64, at: u64) -> u64 {
    Rng::new(seed ^ at.wrapping_mul(0xd134_2543_de82_ef95)).range(0, u64::MAX)
}

/// Where bytes differ first, if they do.
pub(crate) fn difference(expected: &[u8], got: &[u8]) -> Option<String> {
    if expected.len() != got.len() {
        return Some(format!("{} bytes came, where {} were meant", got.len(), expected.len()));
    }
    let at = expected.iter().zip(got).position(|(expected, got)| expected != got)?;
    let differ = expected.iter().zip(got).filter(|(expected, got)| expected != got).count();
    Some(format!("{differ} of {} bytes are others, the first at {at}", got.len()))
}

/// A checksum over bytes and their places; the function in `carry.js` computes the same.
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().zip(1..).map(|(byte, place)| u64::from(*byte) * place).sum()
}

#[cfg(test)]
mod tests {
    use super::{difference, pattern};

    #[test]
    fn bytes_of_two_seeds_a_piece_elsewhere_and_a_piece_too_little_are_told_apart() {
        let own = pattern(7, 1_000);
        assert_eq!(difference(&own, &pattern(7, 1_000)), None);
        assert!(difference(&own, &pattern(8, 1_000)).is_some());
        assert!(difference(&own, &own[..999]).is_some());
        let mut swapped = own.clone();
        swapped[..16].rotate_left(8);
        assert!(difference(&own, &swapped).is_some());
    }
}
