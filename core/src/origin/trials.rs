//! What adaptive chains learn from each other: how long a function took in each mode, so that it is never slower than the
//! better of them for long (rpc-chains section 7.2).

use alloc::{collections::BTreeMap, vec::Vec};
use catena_wire::{Hash, Mode, Outcome};

use crate::Time;

/// Functions about which something is remembered; beyond, the least recently used is forgotten.
const FUNCTIONS_MAX: usize = 4_096;
/// Every so many runs of a function the other modes are tried again: sites and links change.
const EXPLORE_EVERY: u32 = 64;
/// How much the newest of a series counts: one part in so many.
const NEWEST_PART: u64 = 4;
/// What is tried, in this order. `Adaptive` decides at each call, by what is known of the link, the state and the result:
/// which the other two have shown by then.
const ARMS: [Mode; 3] = [Mode::Chain, Mode::Interactive, Mode::Adaptive];

/// A run that is a trial of one mode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trial {
    pub(crate) code: Hash,
    pub(crate) arm: Mode,
    pub(crate) began: Time,
    pub(crate) last: Time,
}

/// Runs of each mode before one is chosen. The first of them looks names up and brings the function to its nodes, which
/// none does after it: what it took is forgotten.
const RUNS_AT_FIRST: u32 = 2;

#[derive(Clone, Debug, Default)]
struct Function {
    runs: u32,
    used: u64,
    /// By [`ARMS`].
    arms: [Arm; ARMS.len()],
}

/// What is known of one mode.
#[derive(Clone, Debug, Default)]
struct Arm {
    /// Runs that have ended.
    ended: u32,
    /// Microseconds that they took; `None` before the first that was answered.
    took_us: Option<u64>,
}

impl Arm {
    fn learn(&mut self, took_us: Option<u64>) {
        self.ended = self.ended.saturating_add(1);
        let before = self.took_us.filter(|_| self.ended > RUNS_AT_FIRST);
        let average = |took_us: u64| match before {
            Some(before) => (before / NEWEST_PART) * (NEWEST_PART - 1) + took_us / NEWEST_PART,
            None => took_us,
        };
        self.took_us = took_us.map(average).or(self.took_us);
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Trials {
    functions: BTreeMap<Hash, Function>,
    uses: u64,
}

impl Trials {
    /// The mode for the next run of this function.
    pub(crate) fn choose(&mut self, code: Hash) -> Mode {
        self.make_room(code);
        self.uses += 1;
        let function = self.functions.entry(code).or_default();
        function.used = self.uses;
        function.runs = function.runs.wrapping_add(1);
        // Turn by turn, so that what one mode has looked up serves the others.
        let fewest = (0..ARMS.len()).min_by_key(|arm| function.arms[*arm].ended).unwrap_or_default();
        if function.arms[fewest].ended < RUNS_AT_FIRST {
            return ARMS[fewest];
        }
        if function.runs % EXPLORE_EVERY < ARMS.len() as u32 {
            return ARMS[(function.runs % EXPLORE_EVERY) as usize];
        }
        let took_us = |arm: &usize| function.arms[*arm].took_us.unwrap_or(u64::MAX);
        let best = (0..ARMS.len()).min_by_key(took_us).unwrap_or_default();
        ARMS[best]
    }

    /// What a run came to. One that failed says nothing about how long an answer takes.
    pub(crate) fn learn(&mut self, trial: Trial, outcome: &Outcome) {
        let arm = ARMS.iter().position(|mode| *mode == trial.arm);
        let (Some(function), Some(arm)) = (self.functions.get_mut(&trial.code), arm) else { return };
        function.arms[arm].learn(match outcome {
            Outcome::Done(_) => Some(trial.last.since(trial.began)),
            Outcome::Threw(_) => None,
        });
    }

    fn make_room(&mut self, code: Hash) {
        if self.functions.len() < FUNCTIONS_MAX || self.functions.contains_key(&code) {
            return;
        }
        let used: Vec<_> = self.functions.iter().map(|(code, function)| (function.used, *code)).collect();
        if let Some((_, oldest)) = used.into_iter().min() {
            self.functions.remove(&oldest);
        }
    }
}
