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
}

/// One effect of so many is done wrong.
const ONE_OF: usize = 8;

impl Flaw {
    const fn spoils(effect: &Effect) -> bool {
        (effect.chain + effect.index).is_multiple_of(ONE_OF)
    }
}

/// Lets an effect take place, once and now if there is no flaw.
pub(crate) fn note(flaw: Option<Flaw>, ledger: &Ledger, effect: &Effect, key: Option<&StepKey>) -> std::io::Result<()> {
    match flaw.filter(|_| Flaw::spoils(effect)) {
        Some(Flaw::Twice) => ledger.note(effect, key).and_then(|()| ledger.note(effect, key)),
        Some(Flaw::Never) => Ok(()),
        None => ledger.note(effect, key),
    }
}
