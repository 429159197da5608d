//! Numbers drawn from a seed: the same for the same words, on every machine.

use std::f64::consts::TAU;

/// A source of numbers.
pub(crate) struct Draw(blake3::OutputReader);

impl Draw {
    /// The source for these words.
    pub(crate) fn of(words: &[&str]) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("catena glickr");
        for word in words {
            hasher.update(&(word.len() as u64).to_le_bytes());
            hasher.update(word.as_bytes());
        }
        Self(hasher.finalize_xof())
    }

    pub(crate) fn bits(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// From 0 to 1, without 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// From 0 to `n`, without `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.unit() * n as f64) as usize
    }

    /// About 1, by a normal distribution of the logarithm.
    pub(crate) fn spread(&mut self, deviation: f64) -> f64 {
        let (radius, turn) = ((-2.0 * (1.0 - self.unit()).ln()).sqrt(), TAU * self.unit());
        (deviation * radius * turn.cos()).exp()
    }

    /// 0 or more, by an exponential distribution.
    pub(crate) fn tail(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }
}
