//! What adaptive chains learn from each other: how long a function took in each mode, so that it is never slower than the
//! better of them for long (rpc-chains section 7.2).
//!
//! Each mode is tried once; then the quickest is used. The others are tried again as often as [`EXPLORING_PART`] of the time pays for, and at once when the
//! mode in use takes longer twice in a row than its past explains: then sites or links have changed, and what was learned of the others is out of date too.

use catena_wire::{Hash, Mode, Outcome};

use crate::{Time, collections::Recent};

/// Functions that are remembered; beyond that, the least recently used is forgotten.
const FUNCTIONS_MAX: usize = 4_096;
/// One part in this many of the time may be spent on modes that are expected to be slower.
const EXPLORING_PART: u64 = 100;
/// Runs between two that explore a mode expected to be slower, and between two changes that are believed.
const EXPLORE_AFTER: u32 = 16;
/// The least weight of a series' newest run in its mean: one part in this many.
const NEWEST_PART: i64 = 8;
/// A run that is off by more than this many mean deviations plus an eighth of the mean is no coincidence (as in RFC 6298).
const DEVIATIONS_MAX: u64 = 4;
/// The modes, in the order in which they are tried. `Adaptive` decides at each call by what is known of the link, the state and the result, which the other two
/// modes have shown by then.
const ARMS: [Mode; 3] = [Mode::Chain, Mode::Interactive, Mode::Adaptive];

/// A run that is a trial of one mode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trial {
    pub(crate) code: Hash,
    pub(crate) arm: Mode,
    pub(crate) began: Time,
    pub(crate) last: Time,
}

#[derive(Clone, Debug)]
struct Function {
    /// Runs since a mode that was expected to be slower was last tried.
    since_explored: u32,
    /// Runs since a change was believed.
    since_changed: u32,
    /// Microseconds that may be spent on exploring.
    credit_us: u64,
    /// In the order of [`ARMS`].
    arms: [Arm; ARMS.len()],
}

/// What is known of one mode.
#[derive(Clone, Debug)]
struct Arm {
    /// It has to be tried before the quickest mode is chosen.
    is_due: bool,
    /// Runs of the current series, over which the mean is taken.
    runs: u32,
    /// Their mean duration, and the mean deviation from it; 0 before the first.
    took_us: u64,
    deviation_us: u64,
    /// The last run was far off, either way. One may be a coincidence: two in a row are a change.
    is_off: bool,
}

impl Default for Function {
    fn default() -> Self {
        let untried = Arm { is_due: true, runs: 0, took_us: 0, deviation_us: 0, is_off: false };
        Self { since_explored: 0, since_changed: 0, credit_us: 0, arms: [untried.clone(), untried.clone(), untried] }
    }
}

impl Arm {
    /// Begins a series with this run.
    const fn begin(&mut self, took_us: u64) {
        (self.runs, self.took_us, self.deviation_us, self.is_off) = (1, took_us, took_us / 2, false);
    }

    /// Adds a run to the series. True if it took longer than the series explains, and the run before was far off too.
    fn learn(&mut self, took_us: u64) -> bool {
        let off_us = took_us.abs_diff(self.took_us);
        let was_off = self.is_off;
        self.is_off = self.runs > 1 && off_us > DEVIATIONS_MAX * self.deviation_us + self.took_us / 8;
        if self.is_off {
            let longer = took_us > self.took_us;
            if was_off {
                self.begin(took_us);
            }
            return was_off && longer;
        }
        self.runs = self.runs.saturating_add(1);
        let step = (took_us.cast_signed() - self.took_us.cast_signed()) / i64::from(self.runs).min(NEWEST_PART);
        self.took_us = self.took_us.saturating_add_signed(step);
        self.deviation_us = (self.deviation_us / 4) * 3 + off_us / 4;
        false
    }
}

impl Function {
    fn choose(&mut self) -> usize {
        self.since_explored = self.since_explored.saturating_add(1);
        self.since_changed = self.since_changed.saturating_add(1);
        if let Some(due) = self.arms.iter().position(|arm| arm.is_due) {
            self.arms[due].is_due = false;
            return due;
        }
        let best = self.best();
        let extra_us = |arm: usize| self.arms[arm].took_us.saturating_sub(self.arms[best].took_us);
        let others = (0..ARMS.len()).filter(|arm| *arm != best);
        let affordable = others.filter(|arm| extra_us(*arm) <= self.credit_us).max_by_key(|arm| extra_us(*arm));
        match affordable.filter(|_| self.since_explored > EXPLORE_AFTER) {
            Some(arm) => {
                self.credit_us -= extra_us(arm);
                self.since_explored = 0;
                arm
            }
            None => best,
        }
    }

    /// The mode that took the least time. A mode that was never answered comes last here, but `choose` counts exploring it as free.
    fn best(&self) -> usize {
        (0..ARMS.len()).min_by_key(|arm| (self.arms[*arm].runs == 0, self.arms[*arm].took_us)).unwrap_or_default()
    }

    fn learn(&mut self, arm: usize, took_us: u64) {
        let best = self.best();
        if arm != best || self.arms[arm].runs == 0 {
            return self.arms[arm].begin(took_us);
        }
        let slowest_us = self.arms.iter().map(|arm| arm.took_us).max().unwrap_or_default();
        self.credit_us = (self.credit_us + took_us / EXPLORING_PART).min(slowest_us);
        let slower = self.arms[arm].learn(took_us);
        if slower && self.since_changed > EXPLORE_AFTER {
            self.since_changed = 0;
            (0..ARMS.len()).filter(|other| *other != arm).for_each(|other| self.arms[other].is_due = true);
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Trials {
    functions: Recent<Hash, Function>,
}

impl Trials {
    pub(crate) fn choose(&mut self, code: Hash) -> Mode {
        ARMS[self.functions.entry(code, FUNCTIONS_MAX, Function::default).choose()]
    }

    /// Learns from the outcome of a run. A failed run says nothing about how long an answer takes.
    pub(crate) fn learn(&mut self, trial: Trial, outcome: &Outcome) {
        let arm = ARMS.iter().position(|mode| *mode == trial.arm);
        let (Some(function), Some(arm)) = (self.functions.get_mut(&trial.code), arm) else { return };
        if let Outcome::Done(_) = outcome {
            function.learn(arm, trial.last.since(trial.began));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use alloc::vec::Vec;

    use super::Function;

    /// By how many percent `runs` runs took longer than as many runs of the best mode; each mode takes its `modes_us`, give or take `noise_pct`.
    fn over_the_best_pct(function: &mut Function, runs: u64, modes_us: [u64; 3], noise_pct: u64) -> u64 {
        let mut all_us = 0;
        for run in 0..runs {
            let arm = function.choose();
            // A number from 0 to 99 that looks random.
            let percent = 100 - noise_pct + (run * 7_919 % 100) * 2 * noise_pct / 100;
            let took_us = modes_us[arm] * percent / 100;
            function.learn(arm, took_us);
            all_us += took_us;
        }
        let best_us = modes_us.into_iter().min().unwrap() * runs;
        (all_us * 100 / best_us).saturating_sub(100)
    }

    #[test]
    fn trying_costs_little_whatever_the_other_modes_take() {
        for modes_us in [[650_000, 150_000, 640_000], [100_000, 100_000, 110_000], [1_000, 100_000, 100_000]] {
            for noise_pct in [0, 10, 50] {
                let mut function = Function::default();
                over_the_best_pct(&mut function, 10, modes_us, noise_pct);
                let over = over_the_best_pct(&mut function, 10_000, modes_us, noise_pct);
                assert!(over <= 4, "{modes_us:?}, give or take {noise_pct} %: {over} % more");
            }
        }
    }

    #[test]
    fn a_change_is_noticed_at_once() {
        for (before_us, after_us) in [
            ([430_000, 900_000, 440_000], [650_000, 150_000, 640_000]),
            ([200_000, 800_000, 800_000], [3_000_000, 800_000, 1_000_000]),
        ] {
            let mut function = Function::default();
            over_the_best_pct(&mut function, 150, before_us, 5);
            let over = over_the_best_pct(&mut function, 150, after_us, 5);
            assert!(over <= 8, "{before_us:?}, then {after_us:?}: {over} % more");
        }
    }

    #[test]
    fn one_run_that_takes_long_has_nothing_tried() {
        let mut function = Function::default();
        let tried: Vec<_> = (0..500)
            .filter(|run| {
                let arm = function.choose();
                let took_us = [3_000_000, if run % 20 == 10 { 240_000 } else { 60_000 }, 3_000_000][arm];
                function.learn(arm, took_us);
                arm != 1
            })
            .collect();
        assert_eq!(tried, [0, 2], "each mode once, at the beginning");
    }

    #[test]
    fn a_mode_that_has_become_the_best_is_found() {
        let mut function = Function::default();
        over_the_best_pct(&mut function, 200, [100_000, 300_000, 100_000], 5);
        over_the_best_pct(&mut function, 200, [100_000, 50_000, 100_000], 5);
        let over = over_the_best_pct(&mut function, 200, [100_000, 50_000, 100_000], 5);
        assert!(over <= 4, "{over} % more");
    }
}
