//! What worlds that are drawn from a seed share: how they draw, how many there are, and what is said of one that breaks a promise.
#![allow(dead_code, reason = "each test program uses its part")]

use std::{fmt::Debug, ops::Range};

/// Such worlds are shown, and no more.
const FAILURES_SHOWN: usize = 8;

/// The numbers of one run: splitmix64, so that a seed means the same on every machine and with every version of every library.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(mix(seed ^ 0x005e_ed0f_ca7e_4a00))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// From 0 up to, and not including, `most`.
    pub(crate) fn below<N: TryFrom<u64> + TryInto<u64>>(&mut self, most: N) -> N {
        let most: u64 = most.try_into().ok().expect("a bound");
        N::try_from(self.next() % most.max(1)).ok().expect("less than a bound")
    }

    /// From `low` up to, and not including, `high`.
    pub(crate) fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low)
    }

    /// True `percent` times of a hundred.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn one_in(&mut self, parts: u64) -> bool {
        self.below(parts) == 0
    }
}

/// The splitmix64 finalizer: also used wherever a world needs a result that depends on everything put into it.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The one to look at, if the environment names it.
pub(crate) fn chosen() -> Option<u64> {
    number("CATENA_SEED")
}

/// The one that `CATENA_SEED` names, else as many as `CATENA_SEEDS` says, else so many.
pub(crate) fn seeds(otherwise: u64) -> Range<u64> {
    chosen().map_or(0..number("CATENA_SEEDS").unwrap_or(otherwise), |seed| seed..seed + 1)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// Each of these worlds keeps its promises.
#[track_caller]
pub(crate) fn all_hold(seeds: Range<u64>, judge: impl Fn(u64) -> Result<(), String>) {
    let broken = seeds.filter_map(|seed| judge(seed).err().map(|why| format!("seed {seed}: {why}")));
    let broken: Vec<_> = broken.take(FAILURES_SHOWN).collect();
    assert!(broken.is_empty(), "{}\nCATENA_SEED=... looks at one of them", broken.join("\n"));
}

/// Each of these mistakes is seen in one of the worlds.
#[track_caller]
pub(crate) fn each_is_seen<B: Copy + Debug>(
    mistakes: impl IntoIterator<Item = B>,
    seeds: u64,
    judge: impl Fn(B, u64) -> Result<(), String>,
) {
    let missed = mistakes.into_iter().filter(|mistake| (0..seeds).all(|seed| judge(*mistake, seed).is_ok()));
    let missed: Vec<B> = missed.collect();
    assert!(missed.is_empty(), "{missed:?} go unnoticed");
}
