//! The origin's side of chains: what is known of each chain begun here, and signs of life of its branches.

mod answers;
mod console;
mod end;
mod found;
mod liveness;
mod trials;

use alloc::{boxed::Box, collections::BTreeMap, string::ToString, sync::Arc, vec::Vec};
use catena_wire::{Branch, ChainId, End, Exception, Fault, Hash, LogLine, Mode, NodeRef, StepKey, names};

use crate::{
    Plan, Time,
    collections::{Party, Tally, Timers},
    console::extend,
    ground::Ground,
};
pub(crate) use end::Ending;
use found::Found;
use liveness::Liveness;
use trials::{Trial, Trials};

/// What the service that answered a call with a chain, and that call's caller, need of the chain while it runs on its own.
#[derive(Clone, Debug)]
struct Detached {
    /// The step under whose key the service is told of the answers, if it wants them.
    heard_as: Option<StepKey>,
    /// Lines shown so far, which go to the caller with the result.
    console: Vec<LogLine>,
    console_bytes: usize,
    lines_max: usize,
}

impl Detached {
    /// Keeps these lines, as far as they fit into `room` bytes.
    fn keep(&mut self, lines: Vec<LogLine>, room: usize, bytes_max: usize) {
        let bytes_max = self.console_bytes.saturating_add(room).min(bytes_max);
        extend(&mut self.console, lines, (self.lines_max, bytes_max));
        self.console_bytes = self.console.iter().map(LogLine::kept_bytes).sum();
    }
}

/// A chain that was begun here and has not ended.
#[derive(Clone, Debug)]
struct Started {
    deadline: Time,
    liveness: Liveness,
    answers: Tally,
    console: console::Console,
    /// When it was last searched for, and where that search found that it had stopped.
    sought_at: Option<Time>,
    found: Option<Box<Found>>,
    /// The end notice, while answers that it counts are still on their way.
    end: Option<Box<End>>,
    /// Set if a service of this node waits for the end, and nobody holds a reply set.
    detached: Option<Box<Detached>>,
    /// The trial of a mode that this chain is, if adaptive chains learn from it.
    trial: Option<Trial>,
}

impl Started {
    /// Bytes of answers and of an end that wait for answers before them, and of lines that are kept.
    fn bytes(&self) -> usize {
        self.answers.held_bytes() + self.end.as_deref().map_or(0, End::kept_bytes) + self.line_bytes()
    }

    fn line_bytes(&self) -> usize {
        self.console.held_bytes() + self.detached.as_ref().map_or(0, |detached| detached.console_bytes)
    }

    fn wakes_at(&self) -> Time {
        self.liveness.silent_at().map_or(self.deadline, |silent| silent.min(self.deadline))
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Origin {
    chains: BTreeMap<ChainId, Started>,
    timers: Timers<ChainId>,
    trials: Trials,
    /// Bytes of answers and ends that wait for answers before them, and of lines that are kept.
    bytes: usize,
}

impl Origin {
    /// Bytes of answers and ends that wait for answers before them, and of lines that are kept.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn count(&self) -> usize {
        self.chains.len()
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    /// Whether this chain may begin on behalf of `by`, which has `own` chains under way. Returns its plan as it is to be carried out here, and the function
    /// and mode, if how long they take is to be learned.
    ///
    /// # Errors
    /// `Overloaded`, or a number that is in use.
    pub(crate) fn admit(
        &mut self,
        ground: &Ground,
        (by, own): (Party, usize),
        chain: ChainId,
        code: Hash,
        plan: Plan,
    ) -> Result<(Plan, Option<(Hash, Mode)>), Exception> {
        ground.check_share("chains begun", by, own, self.chains.len(), ground.policy.chains_started_max)?;
        if self.awaits(chain) {
            return Err(taken(chain));
        }
        let adaptive = plan.mode == Mode::Adaptive;
        let mode = if adaptive { self.trials.choose(code) } else { plan.mode };
        let budget = plan.budget.narrowed_to(ground.policy.budget_max);
        Ok((Plan { budget, mode, ..plan }, adaptive.then_some((code, mode))))
    }

    pub(crate) fn begin(&mut self, ground: &Ground, chain: ChainId, deadline: Time, trial: Option<(Hash, Mode)>) {
        let Ground { now, policy, me, .. } = ground;
        let started = Started {
            deadline,
            liveness: Liveness::new(now.after(policy.heartbeat_timeout_us), me),
            answers: Tally::default(),
            console: console::Console::default(),
            sought_at: None,
            found: None,
            end: None,
            detached: None,
            trial: trial.map(|(code, arm)| Trial { code, arm, began: *now, last: *now }),
        };
        if !bug!(policy, OriginWaitsForEver) {
            self.timers.set(chain, started.wakes_at());
        }
        self.chains.insert(chain, started);
    }

    /// A service of this node waits for the chain's end, and its caller for at most `lines_max` lines. If the service wants the answers, it is told of them by
    /// the key `heard_as`.
    pub(crate) fn detach(&mut self, chain: ChainId, heard_as: Option<StepKey>, lines_max: usize) {
        if let Some(started) = self.chains.get_mut(&chain) {
            started.detached = Some(Box::new(Detached { heard_as, console: Vec::new(), console_bytes: 0, lines_max }));
        }
    }

    /// The holder of the reply set has gone: whatever still comes is dropped. False if there was nothing to forget.
    pub(crate) fn forget(&mut self, ground: &mut Ground, chain: ChainId) -> bool {
        self.timers.clear(&chain);
        let Some(started) = self.chains.remove(&chain) else { return false };
        self.bytes -= started.bytes();
        if let Some(step) = started.detached.and_then(|detached| detached.heard_as) {
            ground.listeners.forget(&mut ground.out, &step);
        }
        true
    }

    pub(crate) fn awaits(&self, chain: ChainId) -> bool {
        self.chains.contains_key(&chain)
    }

    /// The nodes where the chain's branches were last heard of.
    pub(crate) fn hosts(&self, chain: ChainId) -> Vec<Arc<NodeRef>> {
        self.chains.get(&chain).map(|started| started.liveness.hosts()).unwrap_or_default()
    }

    /// A heartbeat. If the chain was begun here and has ended, that node has not heard so, and is told again to stop it: it may be on another way than the one that
    /// has ended the chain, and about to hand it on.
    pub(crate) fn on_heartbeat(
        &mut self,
        ground: &mut Ground,
        from: &Arc<NodeRef>,
        key: &StepKey,
        host: NodeRef,
        open: &[Branch],
    ) {
        let (chain, me) = (key.chain, ground.me.id);
        if chain.origin == me && from.id != me && !self.awaits(chain) {
            ground.answer_cancelled(chain, [from.clone()]);
        }
        self.seen(ground, key, Some(&Arc::new(host)), Some(open));
    }

    /// The chain was last heard of at this step, at this node.
    pub(crate) fn heard_at(&mut self, key: &StepKey, node: &Arc<NodeRef>) {
        if let Some(started) = self.chains.get_mut(&key.chain) {
            started.liveness.heard_at(key, node);
        }
    }

    /// A sign of life of a branch; `open` are the branches that it has split into and waits for, if it says so.
    fn seen(
        &mut self,
        ground: &Ground,
        key: &StepKey,
        host: Option<&Arc<NodeRef>>,
        open: Option<&[Branch]>,
    ) -> Option<&mut Started> {
        let Ground { now, policy, .. } = ground;
        let started = self.chains.get_mut(&key.chain)?;
        let silent_at = now.after(policy.heartbeat_timeout_us);
        started.liveness.seen(key, host, open, silent_at, policy);
        if bug!(policy, BusyBranchSpeaks) {
            started.liveness.all_seen(silent_at);
        }
        if let Some(trial) = &mut started.trial {
            trial.last = *now;
        }
        // The chain's timer is left as it is: it is due at the old time, and set anew then.
        Some(started)
    }
}

/// The exception for a number that is in use.
pub(crate) fn taken(chain: ChainId) -> Exception {
    let message = ["a chain of number ", &chain.number.to_string(), " is under way already; draw another"].concat();
    Exception::new(names::PROTOCOL, Fault::Caller, message)
}
