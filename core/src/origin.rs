//! The origin's side of a chain: answers in order and once, signs of life of every branch, and an exact end.

use alloc::{
    collections::{BTreeMap, VecDeque},
    format,
    string::String,
    sync::Arc,
    vec::Vec,
};
use catena_wire::{
    Branch, ChainId, End, Exception, Fault, LogLine, NodeId, NodeRef, Outcome, StepKey, Value, Whereabouts, names,
};

use crate::{Action, Policy, Replied, Time, console::Console, timers::Timers, trials::Trial};

/// Answers of one branch.
#[derive(Clone, Debug, Default)]
struct Answers {
    /// Number of the next one to deliver.
    next: u32,
    held: BTreeMap<u32, Value>,
}

/// Where a chain that fell silent was found to have stopped.
#[derive(Clone, Debug)]
struct Found {
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

#[derive(Clone, Debug)]
struct Started {
    deadline: Time,
    /// When each branch that is under way will have been silent for too long.
    silent_at: BTreeMap<Branch, Time>,
    retransmissions: u8,
    last_step: u32,
    last_host: String,
    last_node: Option<Arc<NodeRef>>,
    answers: BTreeMap<Branch, Answers>,
    held: usize,
    console: Console,
    /// What looking for it has found.
    found: Option<Found>,
    /// The end notice, while answers that it counts are still on their way.
    end: Option<End>,
    /// Nobody holds a reply set: a service of this node waits for the end.
    apart: bool,
    /// The step under whose name that service hears the answers, if it wants them.
    heard_as: Option<StepKey>,
    /// What adaptive chains learn from it.
    trial: Option<Trial>,
}

impl Started {
    fn wakes_at(&self) -> Time {
        self.silent_at.values().copied().min().map_or(self.deadline, |silent| silent.min(self.deadline))
    }

    fn is_complete(&self) -> bool {
        let Some(end) = &self.end else { return false };
        let all = |branch: &Branch, count: u32| self.answers.get(branch).map_or(0, |answers| answers.next) >= count;
        all(&end.key.branch, end.emitted) && end.merged.iter().all(|merged| all(&merged.branch, merged.emitted))
    }
}

/// Chains begun here and not yet ended.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    me: NodeId,
    chains: BTreeMap<u64, Started>,
    timers: Timers<u64>,
    /// Ends of chains that ran apart, and what they left of their hops.
    apart: VecDeque<(u64, Outcome, u32)>,
    /// Trials of adaptive chains that have ended.
    tried: VecDeque<(Trial, Outcome)>,
}

type Out = VecDeque<Action>;

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

impl Origin {
    pub(crate) fn new(me: NodeId) -> Self {
        Self { me, chains: BTreeMap::new(), timers: Timers::default(), apart: VecDeque::new(), tried: VecDeque::new() }
    }

    pub(crate) fn count(&self) -> usize {
        self.chains.len()
    }

    pub(crate) fn begin(&mut self, now: Time, number: u64, time_us: u64, host: &str, policy: &Policy) {
        let silent_at = [(Branch::root(), now.after(policy.heartbeat_timeout_us))].into();
        let started = Started {
            deadline: now.after(time_us),
            silent_at,
            retransmissions: 0,
            last_step: 0,
            last_host: host.into(),
            last_node: None,
            answers: BTreeMap::new(),
            held: 0,
            console: Console::default(),
            found: None,
            end: None,
            apart: false,
            heard_as: None,
            trial: None,
        };
        if !bug!(policy, OriginWaitsForEver) {
            self.timers.set(number, started.wakes_at());
        }
        self.chains.insert(number, started);
    }

    /// How long it takes is of interest.
    pub(crate) fn set_trial(&mut self, number: u64, trial: Trial) {
        if let Some(started) = self.chains.get_mut(&number) {
            started.trial = Some(trial);
        }
    }

    pub(crate) fn take_trial(&mut self) -> Option<(Trial, Outcome)> {
        self.tried.pop_front()
    }

    /// A service of this node waits for its end; its answers, if they are wanted, are told under this name.
    pub(crate) fn set_apart(&mut self, number: u64, heard_as: Option<StepKey>) {
        if let Some(started) = self.chains.get_mut(&number) {
            started.apart = true;
            started.heard_as = heard_as;
        }
    }

    pub(crate) fn take_apart(&mut self) -> Option<(u64, Outcome, u32)> {
        self.apart.pop_front()
    }

    /// The holder of the reply set has gone: whatever still comes is dropped. False if there was nothing to forget.
    pub(crate) fn forget(&mut self, chain: ChainId) -> bool {
        if chain.origin != self.me {
            return false;
        }
        self.timers.clear(chain.number);
        self.chains.remove(&chain.number).is_some()
    }

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

    /// The node from which a sign of life came last.
    pub(crate) fn last_host(&self, chain: ChainId) -> Option<Arc<NodeRef>> {
        self.chains.get(&chain.number).filter(|_| chain.origin == self.me)?.last_node.clone()
    }

    pub(crate) fn on_heartbeat(
        &mut self,
        now: Time,
        key: &StepKey,
        from: &Arc<NodeRef>,
        host: &str,
        open: &[Branch],
        policy: &Policy,
    ) {
        let Some(started) = self.seen(now, key, open, policy) else { return };
        if key.step >= started.last_step {
            started.last_host = host.into();
            started.last_node = Some(from.clone());
        }
    }

    /// The chain was last heard of at this step, at this node.
    pub(crate) fn heard_at(&mut self, key: &StepKey, node: &Arc<NodeRef>) {
        let own = key.chain.origin == self.me;
        if let Some(started) = self.chains.get_mut(&key.chain.number).filter(|_| own)
            && key.step >= started.last_step
        {
            started.last_step = key.step;
            started.last_host.clone_from(&node.name);
            started.last_node = Some(node.clone());
        }
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
        // A branch ends at its merge host, not here.
        if !branch.is_root() {
            return;
        }
        if bug!(policy, EndTwice) && !self.chains.contains_key(&chain.number) {
            let end = Replied::End { outcome: end.outcome.clone(), path: end.path.clone(), trace: Vec::new() };
            out.push_back(Action::Reply(chain, end));
        }
        let Some(started) = self.seen(now, &end.key, &[], policy) else {
            return;
        };
        let end = match bug!(policy, EndTooEarly) {
            true => End { emitted: 0, merged: Vec::new(), ..end },
            false => end,
        };
        if started.end.is_none() {
            started.end = Some(end);
        }
        self.deliver(chain, &branch, policy, out);
    }

    /// A sign of life of a branch; `open` are the branches that it has split into and waits for.
    fn seen(&mut self, now: Time, key: &StepKey, open: &[Branch], policy: &Policy) -> Option<&mut Started> {
        if key.chain.origin != self.me {
            return None;
        }
        let number = key.chain.number;
        let started = self.chains.get_mut(&number)?;
        let later = now.after(policy.heartbeat_timeout_us);
        // A branch counts from when its parent names it until its parent goes on: a late sign of one that is over must
        // not make the origin wait for more.
        if let Some(silent_at) = started.silent_at.get_mut(&key.branch) {
            *silent_at = later;
            let own = |branch: &Branch| branch.parent().as_ref() == Some(&key.branch);
            started.silent_at.retain(|branch, _| !own(branch) || open.contains(branch));
            for branch in open.iter().filter(|branch| own(branch)) {
                started.silent_at.entry(branch.clone()).or_insert(later);
            }
        }
        if let Some(trial) = &mut started.trial {
            trial.last = now;
        }
        if key.step > started.last_step {
            // It gets on: what was amiss is over.
            started.retransmissions = 0;
            started.last_step = key.step;
        }
        if !bug!(policy, OriginWaitsForEver) {
            self.timers.set(number, started.wakes_at());
        }
        Some(started)
    }

    /// Hands out what is next in order; the end when everything it counts has been handed out.
    fn deliver(&mut self, chain: ChainId, branch: &Branch, policy: &Policy, out: &mut Out) {
        let Some(started) = self.chains.get_mut(&chain.number) else {
            return;
        };
        if let Some(answers) = started.answers.get_mut(branch) {
            while let Some(value) = answers.held.remove(&answers.next) {
                answers.next = answers.next.saturating_add(1);
                started.held -= 1;
                match &started.heard_as {
                    Some(at) => out.push_back(Action::Heard(at.clone(), value)),
                    None if started.apart => {}
                    None => out.push_back(Action::Reply(chain, Replied::Partial(value))),
                }
            }
        }
        if started.is_complete()
            && let Some(end) = started.end.take()
        {
            let rest = started.console.take(branch, 0, end.console, policy.console_lines_max);
            show(chain, started, rest, out);
            let trace = end.trace.unwrap_or_default();
            let hops_left = end.hops_left;
            self.finish(chain, Replied::End { outcome: end.outcome, path: end.path, trace }, hops_left, out);
        }
    }

    fn finish(&mut self, chain: ChainId, end: Replied, hops_left: u32, out: &mut Out) {
        if let Some(started) = self.chains.get_mut(&chain.number) {
            let rest = started.console.flush();
            show(chain, started, rest, out);
        }
        let started = self.chains.get(&chain.number);
        let apart = started.is_some_and(|started| started.apart);
        if let (Some(trial), Replied::End { outcome, .. }) = (started.and_then(|started| started.trial), &end) {
            self.tried.push_back((trial, outcome.clone()));
        }
        self.forget(chain);
        match end {
            Replied::End { outcome, .. } if apart => self.apart.push_back((chain.number, outcome, hops_left)),
            end => out.push_back(Action::Reply(chain, end)),
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
        self.finish(chain, Replied::End { outcome: Outcome::Threw(why), path, trace: Vec::new() }, 0, out);
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.timers.next()
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

/// Lines for whoever holds the reply set, if anybody does.
fn show(chain: ChainId, started: &Started, lines: Vec<LogLine>, out: &mut Out) {
    if !started.apart && !lines.is_empty() {
        out.push_back(Action::Reply(chain, Replied::Console(lines)));
    }
}
