//! What the origin was told, held against what took place.

use std::collections::{BTreeMap, BTreeSet};

use catena::exceptions;

use crate::{
    chains::{Ended, Ending},
    ledger::Effects,
    plan::{Function, Planned},
    tally::Tally,
};

/// An effect later than this after its chain was cancelled shows that the chain ran on. Nodes that are stopped hear the word when they go on.
const STRAGGLING_MS_MAX: u64 = 3_000;

/// Counts one chain. Whatever is wrong with it is told to people too.
pub(crate) fn hold(ended: &Ended, all: &Effects) -> Tally {
    let audit = Audit { ended, planned: ended.plan.effects(), took_place: of_chain(ended.chain, all) };
    let mut tally = Tally { chains: 1, ..Tally::default() };
    match &ended.ending {
        Ending::Answered(_) => tally.answered = 1,
        Ending::Failed(_) => tally.failed = 1,
        Ending::Unknown(_) => tally.unknown = 1,
        Ending::Hung => tally.hung = 1,
    }
    tally.doubled = audit.doubled();
    tally.lost = audit.without_those_before().union(&audit.otherwise_than_told()).count() + audit.miscounted();
    tally.ran_on = audit.ran_on();
    if !tally.is_good() {
        audit.tell(&tally);
    }
    tally
}

fn of_chain(chain: usize, all: &Effects) -> BTreeMap<usize, Vec<u64>> {
    all.range((chain, 0)..=(chain, usize::MAX)).map(|((_, index), times)| (*index, times.clone())).collect()
}

struct Audit<'a> {
    ended: &'a Ended,
    planned: BTreeMap<usize, Planned>,
    /// When, by index.
    took_place: BTreeMap<usize, Vec<u64>>,
}

impl Audit<'_> {
    fn doubled(&self) -> usize {
        let may_repeat = |index| self.planned.get(index).is_some_and(|planned| planned.function == Function::Repeat);
        self.took_place.iter().filter(|(index, times)| times.len() > 1 && !may_repeat(index)).count()
    }

    /// However a chain ended: it does not go on before what it called has taken effect.
    fn without_those_before(&self) -> BTreeSet<usize> {
        let reached = self.planned.iter().filter(|(index, _)| self.took_place.contains_key(index));
        let needed = reached.flat_map(|(_, planned)| &planned.after).copied();
        needed.filter(|index| !self.took_place.contains_key(index)).collect()
    }

    /// Effects that the ending says took place, or did not, and it is the other way round.
    fn otherwise_than_told(&self) -> BTreeSet<usize> {
        let told = |index: usize| match &self.ended.ending {
            Ending::Answered(_) => Some(true),
            Ending::Failed(why) if self.ended.plan.is_straight() => {
                // Step k has the effect k - 1. An exception that names no call is the function's own: its last step was done.
                let done = if why.target.is_some() { why.step.saturating_sub(1) } else { why.step };
                Some(index < done as usize)
            }
            Ending::Unknown(why) if self.ended.plan.is_straight() => (index + 1 < why.step as usize).then_some(true),
            _ => None,
        };
        let untrue = |index: &usize| told(*index).is_some_and(|told| told != self.took_place.contains_key(index));
        self.planned.keys().copied().filter(untrue).collect()
    }

    /// The function's own count, if it came.
    fn miscounted(&self) -> usize {
        match self.ended.ending {
            Ending::Answered(count) => self.planned.len().abs_diff(count),
            _ => 0,
        }
    }

    /// Of another ending this cannot be said: calls that nobody awaits any more are still made.
    fn ran_on(&self) -> usize {
        let cancelled = matches!(&self.ended.ending, Ending::Unknown(why) if why.name == exceptions::CANCELLED);
        let last = self.took_place.values().flatten().max().copied().unwrap_or_default();
        usize::from(cancelled && last > self.ended.at_ms.saturating_add(STRAGGLING_MS_MAX))
    }

    fn tell(&self, tally: &Tally) {
        let Ended { chain, kind, plan, ending, at_ms } = self.ended;
        let Tally { doubled, lost, hung, ran_on, .. } = tally;
        eprintln!(
            "chain {chain} ({}): {doubled} doubled, {lost} lost, {hung} hung, {ran_on} ran on: {ending:?}",
            kind.name()
        );
        let after = |at: &u64| i128::from(*at) - i128::from(*at_ms);
        let relative: BTreeMap<_, Vec<_>> =
            self.took_place.iter().map(|(index, times)| (index, times.iter().map(after).collect())).collect();
        eprintln!("    effects, in ms from its end: {relative:?}");
        eprintln!("    its plan: {}", serde_json::to_string(&plan.steps).unwrap_or_default());
    }
}

#[cfg(test)]
#[path = "audit_tests.rs"]
mod tests;
