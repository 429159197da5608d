//! Intermediate answers and lines of the console, in order and once, for whoever waits for them.

use alloc::{collections::BTreeMap, vec::Vec};
use catena_wire::{Branch, ChainId, LogLine, StepKey, Value};

use super::{Awaited, Origin, Out, Started};
use crate::{Action, Policy, Replied, Time, console::extend};

/// Answers of one branch.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers {
    /// Number of the next one to deliver.
    pub(super) next: u32,
    held: BTreeMap<u32, Value>,
}

impl Origin {
    pub(crate) fn on_partial(
        &mut self,
        now: Time,
        key: &StepKey,
        number: u32,
        value: Value,
        policy: &Policy,
        out: &mut Out,
    ) {
        let Some(started) = self.seen(now, key, &[], policy) else {
            return;
        };
        if started.answers.len() >= catena_wire::BRANCHES_MAX && !started.answers.contains_key(&key.branch) {
            return;
        }
        let answers = started.answers.entry(key.branch.clone()).or_default();
        // A repeat is dropped; so is what lies too far ahead. The next in order always finds room: it makes room itself.
        let room = started.held < policy.partials_held_max || number == answers.next;
        if number < answers.next && bug!(policy, AnswerTwice) {
            out.push_back(Action::Reply(key.chain, Replied::Partial(value)));
        } else if number >= answers.next && room && answers.held.insert(number, value).is_none() {
            started.held += 1;
        }
        self.deliver(key.chain, &key.branch, policy, out);
    }

    pub(crate) fn on_console(
        &mut self,
        key: &StepKey,
        first: u32,
        lines: Vec<LogLine>,
        policy: &Policy,
        out: &mut Out,
    ) {
        let Some(started) = self.chains.get_mut(&key.chain.number).filter(|_| key.chain.origin == self.me) else {
            return;
        };
        let lines = match bug!(policy, LineTwice) {
            true => lines,
            false => started.console.take(&key.branch, first, lines, policy.console_lines_max),
        };
        show(key.chain, started, lines, out);
    }

    /// Hands out what is next in order; the end when everything it counts has been handed out.
    pub(super) fn deliver(&mut self, chain: ChainId, branch: &Branch, policy: &Policy, out: &mut Out) {
        let Some(started) = self.chains.get_mut(&chain.number) else {
            return;
        };
        if let Some(answers) = started.answers.get_mut(branch) {
            while let Some(value) = answers.held.remove(&answers.next) {
                answers.next = answers.next.saturating_add(1);
                started.held -= 1;
                match &started.apart {
                    Some(Awaited { heard_as: Some(at), .. }) => out.push_back(Action::Heard(at.clone(), value)),
                    Some(_) => {}
                    None => out.push_back(Action::Reply(chain, Replied::Partial(value))),
                }
            }
        }
        self.end_if_complete(chain, branch, policy, out);
    }
}

/// Lines for whoever holds the reply set, or waits for the chain's end.
pub(super) fn show(chain: ChainId, started: &mut Started, lines: Vec<LogLine>, out: &mut Out) {
    match &mut started.apart {
        Some(awaited) => extend(&mut awaited.console, lines, awaited.lines_max),
        None if lines.is_empty() => {}
        None => out.push_back(Action::Reply(chain, Replied::Console(lines))),
    }
}
