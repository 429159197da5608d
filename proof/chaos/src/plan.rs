//! What a chain is to do: a tree of steps, which the function in `take.js` goes through.

use std::time::Duration;

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

impl Function {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Take => "take",
            Self::Repeat => "repeat",
            Self::Keep => "keep",
        }
    }
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
    /// The function ends with an exception of its own; one in a plan.
    Throw,
}

/// What the function is given.
#[derive(Clone, Serialize, Deserialize, Debug, Default)]
pub(crate) struct Input {
    pub(crate) steps: Vec<Step>,
    /// Each effect that the function itself has is an intermediate answer too.
    pub(crate) emits: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) input: Input,
    /// Sub-chains run on their own.
    pub(crate) detached: bool,
    /// Where the function runs.
    pub(crate) mode: Mode,
    /// It has one call less than it needs.
    pub(crate) short_of_hops: bool,
    /// The origin cancels the chain after this.
    pub(crate) cancelled_after: Option<Duration>,
}
