//! Which limit broke, and where. Once one has, the program does not go on: no `catch` and no `finally` runs.

use core::cell::Cell;

use crate::engine;
use crate::heap;
use crate::js::{self, Single};
use crate::position::{self, Position};

/// A limit that the engine itself sees break.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    MemoryBytes,
    StepWallMs,
    StackBytes,
    OutputBytes,
}

impl Limit {
    /// As it stands in the `limit` event.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Limit::MemoryBytes => "memory_bytes_max",
            Limit::StepWallMs => "step_wall_ms_max",
            Limit::StackBytes => "stack_bytes_max",
            Limit::OutputBytes => "output_bytes_max",
        }
    }

    /// What happened, for people.
    pub(crate) fn message(self) -> &'static str {
        match self {
            Limit::MemoryBytes => "the function needs more memory than it may have",
            Limit::StepWallMs => "the function ran too long without awaiting a call",
            Limit::StackBytes => "the function's calls are nested too deeply; does it recurse without end?",
            Limit::OutputBytes => "the function sends more in one step than it may",
        }
    }
}

struct Stop {
    limit: Cell<Option<Limit>>,
    /// Where the exception that stopped the program was thrown.
    at: Cell<Position>,
    /// The last call that the program had made when the engine noticed.
    noticed_at: Cell<Position>,
}

static STOP: Single<Stop> =
    Single(Stop { limit: Cell::new(None), at: Cell::new(Position::UNKNOWN), noticed_at: Cell::new(Position::UNKNOWN) });

/// The first limit that broke, if any.
pub(crate) fn broken() -> Option<Limit> {
    if STOP.0.limit.get().is_none() && heap::exhausted() {
        STOP.0.limit.set(Some(Limit::MemoryBytes));
    }
    STOP.0.limit.get()
}

/// Where it broke, as far as it is known: at worst, by the function that ran.
pub(crate) fn broken_at() -> Position {
    let (at, noticed_at) = (STOP.0.at.get(), STOP.0.noticed_at.get());
    // Without memory the exception may have lost its way; else it knows better than the last call.
    let noticed_first = broken() == Some(Limit::MemoryBytes) || at == Position::UNKNOWN;
    let known = if noticed_first && noticed_at != Position::UNKNOWN { noticed_at } else { at };
    if known == Position::UNKNOWN { engine::function_place() } else { known }
}

/// Where the program is, asked when it was stopped by force.
pub(crate) fn stopped_at() -> Position {
    notice();
    broken_at()
}

/// A limit broke; only the first one counts.
pub(crate) fn set_broken(limit: Limit) {
    if broken().is_none() {
        STOP.0.limit.set(Some(limit));
    }
}

/// The place where the program was stopped; only the first one counts.
pub(crate) fn set_broken_at(at: Position) {
    if STOP.0.at.get() == Position::UNKNOWN {
        STOP.0.at.set(at);
    }
}

/// Whether the program must stop now. `host_says` is asked only if nothing else is known.
pub(crate) fn must_stop(host_says: impl FnOnce() -> bool) -> bool {
    if broken().is_none() && host_says() {
        set_broken(Limit::StepWallMs);
    }
    if broken().is_none() {
        return false;
    }
    notice();
    true
}

/// Remembers where the program is, unless it was noticed before.
fn notice() {
    if STOP.0.noticed_at.get() == Position::UNKNOWN {
        match position::here() {
            Ok(at) => STOP.0.noticed_at.set(at),
            Err(_) => drop(js::take_exception()),
        }
    }
}
