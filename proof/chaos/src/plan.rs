//! What a chain is to do: a tree of steps, which the function in `take.js` goes through.

use std::{collections::BTreeMap, time::Duration};

use catena::Mode;
use serde::{Deserialize, Serialize};

/// The function that goes through a plan.
pub(crate) const TAKE: &str = include_str!("take.js");

/// One numbered effect.
#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
pub(crate) struct Effect {
    pub(crate) chain: usize,
    pub(crate) index: usize,
    /// How long it takes before it takes place.
    pub(crate) before_ms: u64,
    /// And until it is answered.
    pub(crate) after_ms: u64,
}

/// The service function that has the effect: all do the same, and are declared differently.
#[derive(Clone, Copy, Serialize, Deserialize, Debug, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Function {
    /// Declared as nothing.
    Take,
    /// Declared repeatable.
    Repeat,
    /// Declared durable.
    Keep,
}

#[derive(Clone, Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Step {
    Effect {
        service: String,
        function: Function,
        effect: Effect,
    },
    /// The service answers with a chain of these.
    Sub {
        service: String,
        steps: Vec<Step>,
    },
    /// Effects and sub-chains, called side by side.
    Beside(Vec<Step>),
    /// Branches, merged at a service or where the chain is.
    Split {
        branches: Vec<Vec<Step>>,
        at: Option<String>,
    },
    /// The function ends with an exception of its own.
    Throw(String),
}

#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    /// Sub-chains run on their own.
    pub(crate) apart: bool,
    /// Where the function runs.
    pub(crate) mode: Mode,
    /// The origin cancels the chain after this.
    pub(crate) cancelled_after: Option<Duration>,
}

/// An effect as planned.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) function: Function,
    /// The effects that must have taken place before it.
    pub(crate) after: Vec<usize>,
}

impl Plan {
    /// All effects, by index.
    pub(crate) fn effects(&self) -> BTreeMap<usize, Planned> {
        let mut effects = BTreeMap::new();
        lay_out(&self.steps, Vec::new(), &mut effects);
        effects
    }

    /// Whether it is one call after the other, so that step *k* has the effect of index *k* - 1.
    pub(crate) fn is_straight(&self) -> bool {
        self.steps.iter().all(|step| matches!(step, Step::Effect { .. } | Step::Throw(_)))
    }
}

/// One after the other, the first after those in `last`. Returns what comes after them has to wait for.
fn lay_out(steps: &[Step], mut last: Vec<usize>, effects: &mut BTreeMap<usize, Planned>) -> Vec<usize> {
    for step in steps {
        last = match step {
            Step::Effect { function, effect, .. } => {
                effects.insert(effect.index, Planned { function: *function, after: last });
                vec![effect.index]
            }
            Step::Sub { steps, .. } => lay_out(steps, last, effects),
            Step::Beside(steps) => {
                steps.iter().flat_map(|one| lay_out(std::slice::from_ref(one), last.clone(), effects)).collect()
            }
            Step::Split { branches, .. } => {
                branches.iter().flat_map(|branch| lay_out(branch, last.clone(), effects)).collect()
            }
            Step::Throw(_) => last,
        };
    }
    last
}

#[cfg(test)]
mod tests {
    use super::{Effect, Function, Plan, Planned, Step};

    fn effect(index: usize) -> Step {
        let effect = Effect { chain: 0, index, before_ms: 0, after_ms: 0 };
        Step::Effect { service: "s".into(), function: Function::Take, effect }
    }

    #[test]
    fn what_comes_after_branches_comes_after_the_last_of_each() {
        let branches = vec![vec![effect(1), effect(2)], vec![effect(3)]];
        let steps = vec![effect(0), Step::Split { branches, at: None }, effect(4)];
        let effects = Plan { steps, ..Plan::default() }.effects();
        let after: Vec<_> = effects.into_values().map(|Planned { after, .. }| after).collect();
        assert_eq!(after, [vec![], vec![0], vec![1], vec![0], vec![2, 3]]);
    }
}
