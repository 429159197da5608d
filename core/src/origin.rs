//! The origin's side of a chain: answers in order and once, signs of life, and an exact end.

use alloc::{
    collections::{BTreeMap, VecDeque},
    format,
    string::String,
    vec::Vec,
};
use catena_wire::{ChainId, End, Exception, Fault, LogLine, NodeId, Outcome, StepKey, Value, names};

use crate::{Action, Policy, Replied, Time, timers::Timers};

#[derive(Debug)]
struct Started {
    deadline: Time,
    silent_at: Time,
    last_step: u32,
    last_host: String,
    /// Number of the next intermediate answer to deliver.
    next: u32,
    held: BTreeMap<u32, Value>,
    /// The end notice, while answers that it counts are still on their way.
    end: Option<End>,
}

/// Chains begun here and not yet ended.
#[derive(Debug)]
pub(crate) struct Origin {
    me: NodeId,
    chains: BTreeMap<u64, Started>,
    timers: Timers<u64>,
}

type Out = VecDeque<Action>;

impl Origin {
    pub(crate) fn new(me: NodeId) -> Self {
        Self { me, chains: BTreeMap::new(), timers: Timers::default() }
    }

    pub(crate) fn count(&self) -> usize {
        self.chains.len()
    }

    pub(crate) fn begin(&mut self, now: Time, number: u64, time_us: u64, host: &str, policy: &Policy) {
        let started = Started {
            deadline: now.after(time_us),
            silent_at: now.after(policy.heartbeat_timeout_us),
            last_step: 0,
            last_host: host.into(),
            next: 0,
            held: BTreeMap::new(),
            end: None,
        };
        self.timers.set(number, started.deadline.min(started.silent_at));
        self.chains.insert(number, started);
    }

    /// The holder of the reply set has gone: whatever still comes is dropped.
    pub(crate) fn forget(&mut self, chain: ChainId) {
        if chain.origin != self.me {
            return;
        }
        self.chains.remove(&chain.number);
        self.timers.clear(chain.number);
    }

    pub(crate) fn on_heartbeat(&mut self, now: Time, key: &StepKey, host: &str, policy: &Policy) {
        self.seen(now, key, host, policy);
    }

    pub(crate) fn on_partial(
        &mut self,
        now: Time,
        key: &StepKey,
        number: u32,
        value: Value,
        policy: &Policy,
        out: &mut Out,
    ) {
        let Some(started) = self.seen(now, key, "", policy) else {
            return;
        };
        // A repeat is dropped; so is what lies too far ahead. The next in order always finds room: it makes room itself.
        let room = started.held.len() < policy.partials_held_max || number == started.next;
        if number >= started.next && room {
            started.held.insert(number, value);
        }
        self.deliver(key.chain, out);
    }

    pub(crate) fn on_console(&mut self, key: &StepKey, lines: Vec<LogLine>, out: &mut Out) {
        if key.chain.origin == self.me && self.chains.contains_key(&key.chain.number) && !lines.is_empty() {
            out.push_back(Action::Reply(key.chain, Replied::Console(lines)));
        }
    }

    pub(crate) fn on_end(&mut self, now: Time, end: End, policy: &Policy, out: &mut Out) {
        let chain = end.key.chain;
        let Some(started) = self.seen(now, &end.key, "", policy) else {
            return;
        };
        if started.end.is_none() {
            started.end = Some(end);
        }
        self.deliver(chain, out);
    }

    fn seen(&mut self, now: Time, key: &StepKey, host: &str, policy: &Policy) -> Option<&mut Started> {
        if key.chain.origin != self.me {
            return None;
        }
        let number = key.chain.number;
        let started = self.chains.get_mut(&number)?;
        started.silent_at = now.after(policy.heartbeat_timeout_us);
        if key.step >= started.last_step {
            started.last_step = key.step;
            if !host.is_empty() {
                started.last_host = host.into();
            }
        }
        self.timers.set(number, started.deadline.min(started.silent_at));
        Some(started)
    }

    /// Hands out what is next in order; the end when everything it counts has been handed out.
    fn deliver(&mut self, chain: ChainId, out: &mut Out) {
        let Some(started) = self.chains.get_mut(&chain.number) else {
            return;
        };
        while let Some(value) = started.held.remove(&started.next) {
            started.next = started.next.saturating_add(1);
            out.push_back(Action::Reply(chain, Replied::Partial(value)));
        }
        let complete = started.end.as_ref().is_some_and(|end| end.emitted <= started.next);
        if let Some(end) = complete.then(|| started.end.take()).flatten() {
            self.on_console(&end.key, end.console, out);
            let trace = end.trace.unwrap_or_default();
            self.finish(chain, Replied::End { outcome: end.outcome, path: end.path, trace }, out);
        }
    }

    fn finish(&mut self, chain: ChainId, end: Replied, out: &mut Out) {
        self.forget(chain);
        out.push_back(Action::Reply(chain, end));
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    pub(crate) fn on_timeout(&mut self, now: Time, policy: &Policy, out: &mut Out) {
        while let Some(number) = self.timers.take_due(now) {
            let Some(started) = self.chains.get(&number) else {
                continue;
            };
            let exception = if started.deadline <= now { late(started) } else { lost(started, policy) };
            let path = alloc::vec![started.last_host.clone()];
            let exception = exception.at_step(started.last_step, &path);
            let chain = ChainId { origin: self.me, number };
            self.finish(chain, Replied::End { outcome: Outcome::Threw(exception), path, trace: Vec::new() }, out);
        }
    }
}

fn late(started: &Started) -> Exception {
    let message = format!(
        "no time left; last heard of at step {} on {}; whether that step took effect is unknown; allow more time, or look at that host",
        started.last_step, started.last_host
    );
    Exception::new(names::DEADLINE_EXCEEDED, Fault::Caller, message)
}

fn lost(started: &Started, policy: &Policy) -> Exception {
    let message = format!(
        "no sign of life for {} ms; outcome unknown after step {}, last heard of on {}; check that host, then run the chain again if its effects may be repeated",
        policy.heartbeat_timeout_us / 1_000,
        started.last_step,
        started.last_host
    );
    Exception::new(names::CHAIN_LOST, Fault::Network, message)
}
