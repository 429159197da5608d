//! The origin's side of a chain: what is known of each that was begun here, and signs of life of every branch.

mod answers;
mod endings;

use alloc::{
    collections::{BTreeMap, VecDeque},
    string::String,
    sync::Arc,
    vec::Vec,
};
use catena_wire::{Branch, ChainId, End, LogLine, NodeId, NodeRef, Outcome, StepKey};

use crate::{Action, Policy, Time, console::Console, timers::Timers, trials::Trial};
use answers::Answers;
use endings::{EndedApart, Found};

/// What of a chain that runs apart concerns the service that answered with it, and whoever called that.
#[derive(Clone, Debug)]
struct Awaited {
    /// The step under whose name the service hears the answers, if it wants them.
    heard_as: Option<StepKey>,
    /// Lines shown so far, which go to the caller with the result.
    console: Vec<LogLine>,
    lines_max: usize,
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
    apart: Option<Awaited>,
    /// What adaptive chains learn from it.
    trial: Option<Trial>,
}

impl Started {
    fn wakes_at(&self) -> Time {
        self.silent_at.values().copied().min().map_or(self.deadline, |silent| silent.min(self.deadline))
    }
}

/// Chains begun here and not yet ended.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    me: NodeId,
    chains: BTreeMap<u64, Started>,
    timers: Timers<u64>,
    /// Chains that ran apart and have ended.
    apart: VecDeque<EndedApart>,
    /// Trials of adaptive chains that have ended.
    tried: VecDeque<(Trial, Outcome)>,
}

type Out = VecDeque<Action>;

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
            apart: None,
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

    /// A service of this node waits for its end, and its caller for so many lines; its answers, if they are wanted, are
    /// told under this name.
    pub(crate) fn set_apart(&mut self, number: u64, heard_as: Option<StepKey>, lines_max: usize) {
        if let Some(started) = self.chains.get_mut(&number) {
            started.apart = Some(Awaited { heard_as, console: Vec::new(), lines_max });
        }
    }

    pub(crate) fn take_apart(&mut self) -> Option<EndedApart> {
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

    /// Whether it has not ended.
    pub(crate) fn awaits(&self, chain: ChainId) -> bool {
        chain.origin == self.me && self.chains.contains_key(&chain.number)
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

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.timers.next()
    }
}
