//! Mistakes that nodes make on purpose: a tester that cannot fail proves nothing.

use catena::StepKey;
use clap::ValueEnum;

use crate::{ledger::Ledger, plan::Effect};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Flaw {
    /// Some effects take place twice.
    Twice,
    /// Some do not take place, and are answered.
    Never,
    /// Some bytes are others than those that were asked for, and words of segments change by themselves.
    Wrong,
    /// Whoever replies goes on when nobody waits any more.
    Deaf,
}

/// One effect of so many is done wrong.
const ONE_OF: usize = 8;

/// The flaw, if this one is to be done wrong.
pub(crate) fn spoils(flaw: Option<Flaw>, number: usize) -> Option<Flaw> {
    flaw.filter(|_| number.is_multiple_of(ONE_OF))
}

/// Lets an effect take place, once and now if there is no flaw.
pub(crate) fn note(flaw: Option<Flaw>, ledger: &Ledger, effect: &Effect, key: Option<&StepKey>) -> std::io::Result<()> {
    match spoils(flaw, effect.chain + effect.index) {
        Some(Flaw::Twice) => ledger.note(effect, key).and_then(|()| ledger.note(effect, key)),
        Some(Flaw::Never) => Ok(()),
        _ => ledger.note(effect, key),
    }
}
