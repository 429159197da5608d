//! Intermediate answers and lines of the console, in order and once, for whoever waits for them.

use alloc::{collections::BTreeMap, vec::Vec};
use catena_wire::{BRANCHES_MAX, Branch, ChainId, LogLine, StepKey, Value};

use super::{Detached, Origin, Started};
use crate::{Action, Policy, Replied, Time, chain::extend, collections::InOrder, outbox::Outbox};

/// Answers of all branches of one chain.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers {
    branches: BTreeMap<Branch, InOrder<Value>>,
    held: usize,
    held_bytes: usize,
}

impl Answers {
    /// How many answers of a branch have been delivered.
    pub(super) fn delivered(&self, branch: &Branch) -> u32 {
        self.branches.get(branch).map_or(0, InOrder::next)
    }
}

impl Origin {
    /// An intermediate answer has come. False if it has to come again: there is no room for it.
    pub(crate) fn on_partial(
        &mut self,
        now: Time,
        out: &mut Outbox,
        key: &StepKey,
        number: u32,
        value: Value,
        policy: &Policy,
    ) -> bool {
        let Some(started) = self.seen(now, key, None, None, policy) else { return true };
        let answers = &mut started.answers;
        if answers.branches.len() >= BRANCHES_MAX && !answers.branches.contains_key(&key.branch) {
            return true;
        }
        let branch = answers.branches.entry(key.branch.clone()).or_default();
        // A repetition is dropped; what lies too far ahead comes again.
        let full = answers.held >= policy.partials_held_max || answers.held_bytes >= policy.partials_held_bytes_max;
        if branch.has(number) {
            if bug!(policy, AnswerTwice) {
                out.ask(Action::Reply(key.chain, Replied::Partial(value)));
            }
            return true;
        }
        if number > branch.next() && full && !bug!(policy, HoldsWithoutBound) {
            return bug!(policy, EarlyAnswerDropped);
        }
        answers.held += 1;
        answers.held_bytes += value.len_bytes();
        branch.insert(number, value);
        self.deliver(out, key.chain, &key.branch, policy);
        true
    }

    pub(crate) fn on_console(
        &mut self,
        out: &mut Outbox,
        key: &StepKey,
        first: u32,
        lines: Vec<LogLine>,
        policy: &Policy,
    ) {
        let Some(started) = self.chains.get_mut(&key.chain.number).filter(|_| key.chain.origin == self.me) else {
            return;
        };
        let lines = match bug!(policy, LineTwice) {
            true => lines,
            false => started.console.take(&key.branch, first, lines, policy.console_lines_max),
        };
        show(out, key.chain, started, lines);
    }

    /// Hands out what is next in order; the end when everything it counts has been handed out.
    pub(super) fn deliver(&mut self, out: &mut Outbox, chain: ChainId, branch: &Branch, policy: &Policy) {
        let Some(started) = self.chains.get_mut(&chain.number) else { return };
        let answers = &mut started.answers;
        if let Some(in_order) = answers.branches.get_mut(branch) {
            while let Some(value) = in_order.pop() {
                answers.held -= 1;
                answers.held_bytes -= value.len_bytes();
                match &started.detached {
                    Some(Detached { heard_as: Some(at), .. }) => out.ask(Action::Heard(at.clone(), value)),
                    Some(_) => {}
                    None => out.ask(Action::Reply(chain, Replied::Partial(value))),
                }
            }
        }
        self.end_if_complete(out, chain, branch, policy);
    }
}

/// Lines for whoever holds the reply set, or waits for the chain's end.
pub(super) fn show(out: &mut Outbox, chain: ChainId, started: &mut Started, lines: Vec<LogLine>) {
    match &mut started.detached {
        Some(detached) => extend(&mut detached.console, lines, detached.lines_max),
        None if lines.is_empty() => {}
        None => out.ask(Action::Reply(chain, Replied::Console(lines))),
    }
}
