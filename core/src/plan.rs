//! How a chain is to run, as its user says.

use catena_wire::{Budget, ChainId, Mode, StepLimits, Value};

/// How a chain is to run.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// What it may spend.
    pub budget: Budget,
    /// Where its continuation runs.
    pub mode: Mode,
    /// Whether chains that services answer with join it (rpc-chains section 3.4).
    pub compose: bool,
    /// Whether every step is profiled.
    pub profile: bool,
    /// On whose behalf it runs.
    pub credentials: Option<Value>,
    /// What its function may use at each step, if that is less than each node allows.
    pub limits: StepLimits,
    /// Whether what its guests are told is recorded, and returned with its end.
    pub record: bool,
    /// The clock and randomness of its function, if an earlier chain is to be run again.
    pub start: Option<Start>,
}

/// The only clock and randomness that a function has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Start {
    /// Milliseconds since the Unix epoch.
    pub started_at_ms: u64,
    /// The seed of its random numbers.
    pub seed: u64,
}

impl Start {
    pub(crate) fn of(chain: ChainId, unix_us: u64) -> Self {
        Self { started_at_ms: unix_us / 1_000, seed: chain.seed() }
    }
}

impl Plan {
    /// A plan with the default settings, and this budget.
    #[must_use]
    pub const fn new(budget: Budget) -> Self {
        let limits = StepLimits::UNCHANGED;
        let (mode, compose) = (Mode::Chain, true);
        Self { budget, mode, compose, profile: false, credentials: None, limits, record: false, start: None }
    }
}
