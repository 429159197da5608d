//! How a chain ends at its origin: exactly, cancelled, lost, or out of time.

use alloc::{boxed::Box, format, sync::Arc, vec::Vec};
use catena_wire::{Branch, ChainId, End, Exception, Fault, NodeRef, Outcome, StepKey, Whereabouts, names};

use super::{
    Detached, Origin, Started,
    answers::{lines_room, show},
    found::Found,
    liveness::Silence,
};
use crate::{
    Action, Policy, Replied, Time,
    collections::AT_ONCE_MAX,
    ground::Ground,
    outbox::{EndedDetached, Event},
};

/// Chains whose time has come.
#[derive(Debug, Default)]
pub(crate) struct Overdue {
    /// Silent for too long: to be retransmitted.
    pub(crate) silent: Vec<ChainId>,
    /// Those of `silent` that are retransmitted for the last time: a search has to find out where they stopped (rpc-chains section 3.9).
    pub(crate) sought: Vec<ChainId>,
    /// Given up, with the nodes where they were last heard of: to be stopped, wherever they are.
    pub(crate) lost: Vec<(ChainId, Vec<Arc<NodeRef>>)>,
}

/// What an end that has arrived means to the origin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// The end of a chain that is still awaited: answers that it counts are on their way.
    Early,
    /// The end of a chain that was cut: what is left of the chain is to stop.
    Cut,
    /// The end that was awaited.
    Last,
    /// The end of a chain that is not awaited here, or no longer.
    Unknown,
}

impl Started {
    fn is_complete(&self) -> bool {
        self.end.is_some() && self.answers.is_complete()
    }
}

impl Origin {
    /// Ends it as cancelled. False if it has ended before.
    pub(crate) fn cancel(&mut self, ground: &mut Ground, chain: ChainId) -> bool {
        let Some(started) = self.chains.get(&chain) else { return false };
        let (step, host) = started.liveness.last();
        let message = format!(
            "the chain was cancelled; last heard of at step {step} on {host}; whether that step took effect is unknown"
        );
        let why = Exception::new(names::CANCELLED, Fault::Caller, message).outcome_unknown();
        self.give_up(ground, chain, why);
        true
    }

    /// What a node knows of a step of a chain that is being looked for.
    pub(crate) fn on_located(&mut self, key: &StepKey, host: &str, whereabouts: Whereabouts) {
        let Some(started) = self.chains.get_mut(&key.chain) else { return };
        if started.found.as_ref().is_none_or(|found| found.step <= key.step) {
            started.found = Some(Box::new(Found { step: key.step, by: host.into(), whereabouts }));
        }
    }

    /// The end of a chain, or of a branch with which the whole chain ends, has come.
    pub(crate) fn on_end(&mut self, ground: &mut Ground, end: End) -> Ending {
        let (chain, cut, awaited) = (end.key.chain, end.cut, self.awaits(end.key.chain));
        self.take_end(ground, end);
        match (awaited, self.awaits(chain)) {
            (false, _) => Ending::Unknown,
            (true, _) if cut => Ending::Cut,
            (true, true) => Ending::Early,
            (true, false) => Ending::Last,
        }
    }

    fn take_end(&mut self, ground: &mut Ground, end: End) {
        let (chain, branch) = (end.key.chain, end.key.branch.clone());
        // A branch ends at its merge host, not here, unless the whole chain ends with it.
        if !branch.is_root() && !end.cut {
            return;
        }
        if bug!(ground.policy, EndTwice) && !self.chains.contains_key(&chain) {
            let (outcome, path) = (end.outcome.clone(), end.path.clone());
            let end = Replied::End { outcome, last_step: end.key.step, path, trace: Vec::new(), recording: None };
            ground.out.ask(Action::Reply(chain, end));
        }
        let Some(started) = self.seen(ground, &end.key, None, None) else { return };
        let end = match bug!(ground.policy, EndTooEarly) {
            true => End { emitted: 0, merged: Vec::new(), ..end },
            false => end,
        };
        if started.end.as_ref().is_none_or(|known| replaces(&end, known)) {
            started.answers.forget_totals();
            started.answers.ended(&branch, end.emitted);
            end.merged.iter().for_each(|merged| started.answers.ended(&merged.branch, merged.emitted));
            let bytes = end.kept_bytes();
            let before = started.end.replace(Box::new(end)).as_deref().map_or(0, End::kept_bytes);
            self.bytes = self.bytes - before + bytes;
        }
        self.deliver(ground, chain, &branch);
    }

    /// Delivers the end, if it has arrived and every answer that it counts has been handed out.
    pub(super) fn end_if_complete(&mut self, ground: &mut Ground, chain: ChainId, branch: &Branch) {
        let Some(started) = self.chains.get_mut(&chain).filter(|started| started.is_complete()) else { return };
        let Some(mut end) = started.end.take() else { return };
        self.bytes -= end.kept_bytes();
        let lines = core::mem::take(&mut end.console);
        self.tell_lines(chain, |started| {
            let rest = started.console.take(branch, 0, lines, lines_room(ground));
            show(ground, chain, started, rest);
        });
        let (hops_left, last_step) = (end.hops_left, end.key.step);
        let End { outcome, path, trace, recording, .. } = *end;
        let trace = trace.unwrap_or_default();
        self.finish(ground, chain, Replied::End { outcome, last_step, path, trace, recording }, hops_left);
    }

    fn finish(&mut self, ground: &mut Ground, chain: ChainId, end: Replied, hops_left: u32) {
        let ended = self.tell_lines(chain, |started| {
            let rest = started.console.flush();
            show(ground, chain, started, rest);
            (started.detached.take(), started.trial)
        });
        let Some((detached, trial)) = ended else { return };
        if let (Replied::End { outcome, .. }, Some(trial)) = (&end, trial) {
            self.trials.learn(trial, outcome);
        }
        self.forget(ground, chain);
        match (end, detached) {
            (Replied::End { outcome, .. }, Some(detached)) => {
                let Detached { console, heard_as, .. } = *detached;
                heard_as.iter().for_each(|step| ground.listeners.forget(&mut ground.out, step));
                ground.out.tell(Event::DetachedEnded(EndedDetached { chain, outcome, hops_left, console }));
            }
            (end, _) => ground.out.ask(Action::Reply(chain, end)),
        }
    }

    fn give_up(&mut self, ground: &mut Ground, chain: ChainId, why: Exception) {
        let Some(started) = self.chains.get(&chain) else { return };
        let found = started.found.as_ref().filter(|_| why.name == names::CHAIN_LOST);
        let (last_step, last_host) = started.liveness.last();
        let (step, path) = match found {
            Some(found) => (found.step, found.hosts()),
            None => (last_step, alloc::vec![last_host.into()]),
        };
        let why = why.at_step(step, &path);
        let (step, path) = (why.step, why.path.clone());
        let outcome = Outcome::Threw(why);
        let end = Replied::End { outcome, last_step: step, path, trace: Vec::new(), recording: None };
        self.finish(ground, chain, end, 0);
    }

    /// Ends chains that are out of time, or that had a branch silent too often.
    pub(crate) fn on_timeout(&mut self, ground: &mut Ground) -> Overdue {
        let (now, mut overdue) = (ground.now, Overdue::default());
        for _ in 0..AT_ONCE_MAX {
            let Some(chain) = self.timers.take_due(now) else { break };
            let Some(started) = self.chains.get_mut(&chain) else { continue };
            let hosts = started.liveness.hosts();
            let in_time = started.deadline > now;
            let silence = if in_time { started.liveness.silence(now, &ground.policy) } else { None };
            let why = match silence {
                Some(Silence::Lost { retransmissions, step, host }) => {
                    lost(started, &ground.policy, retransmissions, step, &host)
                }
                None if !in_time => late(started),
                again => {
                    if let Some(Silence::Retransmit { last }) = again {
                        overdue.silent.push(chain);
                        overdue.sought.extend((last && started.seek(now, &ground.policy)).then_some(chain));
                    }
                    self.timers.set(chain, started.wakes_at());
                    continue;
                }
            };
            overdue.lost.push((chain, hosts));
            self.give_up(ground, chain, why);
        }
        overdue
    }
}

impl Started {
    /// Whether it is to be searched for now. One search finds all of its branches, and nodes do not answer a second one that comes soon after.
    fn seek(&mut self, now: Time, policy: &Policy) -> bool {
        let lately = self.sought_at.is_some_and(|at| now.since(at) < policy.heartbeat_timeout_us);
        if !lately {
            (self.sought_at, self.found) = (Some(now), None);
        }
        !lately
    }
}

/// The end of a chain that was cut replaces an earlier one, whose answers may never all arrive; and so does the end of a branch that was cut at two nodes, if it
/// counts fewer answers.
fn replaces(end: &End, known: &End) -> bool {
    let branch = &end.key.branch;
    let merged = known.merged.iter().find(|merged| merged.branch == *branch).map(|merged| merged.emitted);
    let counted = if known.key.branch == *branch { Some(known.emitted) } else { merged };
    end.cut && (!known.cut || counted.is_some_and(|counted| end.emitted < counted))
}

fn late(started: &Started) -> Exception {
    let (step, host) = started.liveness.last();
    let message = format!(
        "no time left; last heard of at step {step} on {host}; whether that step took effect is unknown; allow more time, or look at that host"
    );
    Exception::new(names::DEADLINE_EXCEEDED, Fault::Caller, message).outcome_unknown()
}

fn lost(started: &Started, policy: &Policy, retransmissions: u8, step: u32, host: &str) -> Exception {
    let silence_ms = policy.heartbeat_timeout_us / 1_000;
    let silence =
        format!("no sign of life for {silence_ms} ms, and none after it was sent again {retransmissions} times");
    let known = match &started.found {
        Some(found) => found.told(),
        None => format!("outcome unknown after step {step}, last heard of on {host}; check that host"),
    };
    let message = format!("{silence}; {known}, then run the chain again if its effects may be repeated");
    let why = Exception::new(names::CHAIN_LOST, Fault::Network, message).outcome_unknown();
    if started.found.is_some() { why } else { why.at_step(step, &[host.into()]) }
}
