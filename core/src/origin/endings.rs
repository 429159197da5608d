//! How a chain ends at its origin: exactly, cancelled, lost, or out of time.

use alloc::{format, string::String, sync::Arc, vec::Vec};
use catena_wire::{Branch, ChainId, End, Exception, Fault, LogLine, NodeRef, Outcome, StepKey, Whereabouts, names};

use super::{Awaited, Origin, Out, Started, answers::show};
use crate::{Action, Policy, Replied, Time};

/// Where a chain that fell silent was found to have stopped.
#[derive(Clone, Debug)]
pub(super) struct Found {
    step: u32,
    /// The node that says so.
    by: String,
    whereabouts: Whereabouts,
}

impl Found {
    fn hosts(&self) -> Vec<String> {
        match &self.whereabouts {
            Whereabouts::Went(to) | Whereabouts::Handing(to) => alloc::vec![self.by.clone(), to.clone()],
            Whereabouts::Unknown => alloc::vec![self.by.clone()],
        }
    }

    /// What is known, and which host to look at.
    fn told(&self) -> String {
        let Self { step, by, whereabouts } = self;
        match whereabouts {
            Whereabouts::Went(to) => format!(
                "at step {step} {by} handed it to {to}, which took it over and has said nothing since; outcome unknown from there on; check {to}"
            ),
            Whereabouts::Handing(to) => {
                format!("{by} tries to hand step {step} to {to}; whether that took effect is unknown; check {to}")
            }
            Whereabouts::Unknown => format!(
                "{by}, which was to have it at step {step}, does not know of it; outcome unknown from there on; check whether {by} was restarted"
            ),
        }
    }
}

/// A chain that ran apart and has ended.
#[derive(Clone, Debug)]
pub(crate) struct EndedApart {
    pub(crate) number: u64,
    pub(crate) outcome: Outcome,
    /// What it left of its hops.
    pub(crate) hops_left: u32,
    pub(crate) console: Vec<LogLine>,
}

/// Chains whose time has come.
#[derive(Debug, Default)]
pub(crate) struct Overdue {
    /// Silent for too long: they are to be sent on their way again.
    pub(crate) silent: Vec<ChainId>,
    /// Of these, the ones sent again for the last time: it is to be found out where they stopped (rpc-chains section 3.9).
    pub(crate) sought: Vec<ChainId>,
    /// Given up, with the node last heard of: they are to be stopped, wherever they are.
    pub(crate) lost: Vec<(ChainId, Option<Arc<NodeRef>>)>,
}

impl Started {
    fn is_complete(&self) -> bool {
        let Some(end) = &self.end else { return false };
        let all = |branch: &Branch, count: u32| self.answers.get(branch).map_or(0, |answers| answers.next) >= count;
        all(&end.key.branch, end.emitted) && end.merged.iter().all(|merged| all(&merged.branch, merged.emitted))
    }
}

impl Origin {
    /// Ends it as cancelled. False if it has ended before.
    pub(crate) fn cancel(&mut self, chain: ChainId, out: &mut Out) -> bool {
        let Some(started) = self.chains.get(&chain.number).filter(|_| chain.origin == self.me) else { return false };
        let message = format!(
            "the chain was cancelled; last heard of at step {} on {}; whether that step took effect is unknown",
            started.last_step, started.last_host
        );
        let why = Exception::new(names::CANCELLED, Fault::Caller, message).outcome_unknown();
        self.give_up(chain.number, why, out);
        true
    }

    /// What a node knows of a step of a chain that is being looked for.
    pub(crate) fn on_located(&mut self, key: &StepKey, host: &str, whereabouts: Whereabouts) {
        let Some(started) = self.chains.get_mut(&key.chain.number).filter(|_| key.chain.origin == self.me) else {
            return;
        };
        if started.found.as_ref().is_none_or(|found| found.step <= key.step) {
            started.found = Some(Found { step: key.step, by: host.into(), whereabouts });
        }
    }

    pub(crate) fn on_end(&mut self, now: Time, end: End, policy: &Policy, out: &mut Out) {
        let (chain, branch) = (end.key.chain, end.key.branch.clone());
        // A branch ends at its merge host, not here, unless the whole chain ends with it.
        if !branch.is_root() && !end.cut {
            return;
        }
        if bug!(policy, EndTwice) && !self.chains.contains_key(&chain.number) {
            let (outcome, path) = (end.outcome.clone(), end.path.clone());
            let end = Replied::End { outcome, last_step: end.key.step, path, trace: Vec::new(), recording: None };
            out.push_back(Action::Reply(chain, end));
        }
        let Some(started) = self.seen(now, &end.key, &[], policy) else {
            return;
        };
        let end = match bug!(policy, EndTooEarly) {
            true => End { emitted: 0, merged: Vec::new(), ..end },
            false => end,
        };
        // What was counted before may never all come.
        if started.end.as_ref().is_none_or(|known| end.cut && !known.cut) {
            started.end = Some(end);
        }
        self.deliver(chain, &branch, policy, out);
    }

    /// The end has come, and everything that it counts has been handed out.
    pub(super) fn end_if_complete(&mut self, chain: ChainId, branch: &Branch, policy: &Policy, out: &mut Out) {
        let Some(started) = self.chains.get_mut(&chain.number).filter(|started| started.is_complete()) else { return };
        let Some(end) = started.end.take() else { return };
        let rest = started.console.take(branch, 0, end.console, policy.console_lines_max);
        show(chain, started, rest, out);
        let (trace, hops_left) = (end.trace.unwrap_or_default(), end.hops_left);
        let last_step = end.key.step;
        let End { outcome, path, recording, .. } = end;
        self.finish(chain, Replied::End { outcome, last_step, path, trace, recording }, hops_left, out);
    }

    fn finish(&mut self, chain: ChainId, end: Replied, hops_left: u32, out: &mut Out) {
        if let Some(started) = self.chains.get_mut(&chain.number) {
            let rest = started.console.flush();
            show(chain, started, rest, out);
        }
        let started = self.chains.get_mut(&chain.number);
        let (apart, trial) = started.map_or((None, None), |started| (started.apart.take(), started.trial));
        if let (Some(trial), Replied::End { outcome, .. }) = (trial, &end) {
            self.tried.push_back((trial, outcome.clone()));
        }
        self.forget(chain);
        match (end, apart) {
            (Replied::End { outcome, .. }, Some(Awaited { console, .. })) => {
                self.apart.push_back(EndedApart { number: chain.number, outcome, hops_left, console });
            }
            (end, _) => out.push_back(Action::Reply(chain, end)),
        }
    }

    fn give_up(&mut self, number: u64, why: Exception, out: &mut Out) {
        let Some(started) = self.chains.get(&number) else { return };
        let found = started.found.as_ref().filter(|_| why.name == names::CHAIN_LOST);
        let (step, path) = match found {
            Some(found) => (found.step, found.hosts()),
            None => (started.last_step, alloc::vec![started.last_host.clone()]),
        };
        let why = why.at_step(step, &path);
        let chain = ChainId { origin: self.me, number };
        let end =
            Replied::End { outcome: Outcome::Threw(why), last_step: step, path, trace: Vec::new(), recording: None };
        self.finish(chain, end, 0, out);
    }

    /// Ends what is out of time, or was silent for too often.
    pub(crate) fn on_timeout(&mut self, now: Time, policy: &Policy, out: &mut Out) -> Overdue {
        let mut overdue = Overdue::default();
        while let Some(number) = self.timers.take_due(now) {
            let Some(started) = self.chains.get_mut(&number) else {
                continue;
            };
            let chain = ChainId { origin: self.me, number };
            let why = if started.deadline <= now {
                Some(late(started))
            } else if started.retransmissions >= policy.retransmissions_max {
                Some(lost(started, policy))
            } else {
                None
            };
            if let Some(why) = why {
                overdue.lost.push((chain, started.last_node.clone()));
                self.give_up(number, why, out);
            } else {
                started.retransmissions += 1;
                started.found = None;
                let later = now.after(policy.heartbeat_timeout_us.max(1));
                started.silent_at.values_mut().for_each(|silent_at| *silent_at = later);
                self.timers.set(number, started.wakes_at());
                overdue.silent.push(chain);
                if started.retransmissions >= policy.retransmissions_max {
                    overdue.sought.push(chain);
                }
            }
        }
        overdue
    }
}

fn late(started: &Started) -> Exception {
    let message = format!(
        "no time left; last heard of at step {} on {}; whether that step took effect is unknown; allow more time, or look at that host",
        started.last_step, started.last_host
    );
    Exception::new(names::DEADLINE_EXCEEDED, Fault::Caller, message).outcome_unknown()
}

fn lost(started: &Started, policy: &Policy) -> Exception {
    let silence = format!(
        "no sign of life for {} ms, and none after it was sent again {} times",
        policy.heartbeat_timeout_us / 1_000,
        started.retransmissions,
    );
    let (step, host) = (started.last_step, &started.last_host);
    let known = match &started.found {
        Some(found) => found.told(),
        None => format!("outcome unknown after step {step}, last heard of on {host}; check that host"),
    };
    let message = format!("{silence}; {known}, then run the chain again if its effects may be repeated");
    Exception::new(names::CHAIN_LOST, Fault::Network, message).outcome_unknown()
}
