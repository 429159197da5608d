//! Signs of life of each branch of a chain (rpc-chains section 3.9): a busy branch does not speak for one that is silent.

use alloc::{collections::BTreeSet, string::String, sync::Arc, vec::Vec};
use catena_wire::{BRANCHES_MAX, Branch, NodeRef, StepKey};

use crate::{Policy, Time};

/// What was heard of one branch.
#[derive(Clone, Debug)]
struct Pulse {
    /// When it will have been silent for too long.
    silent_at: Time,
    /// How often in a row it was silent for too long, so that the chain was retransmitted.
    retransmissions: u8,
    step: u32,
    host: Arc<NodeRef>,
}

#[derive(Clone, Debug)]
pub(super) struct Liveness {
    /// Branches under way, sorted. Most chains have one branch, and a map would reserve memory for many.
    pulses: Vec<(Branch, Pulse)>,
    /// The last step heard of, on any branch, and where it was.
    last_step: u32,
    last_host: Arc<NodeRef>,
}

/// What to do about a chain that has a silent branch.
#[derive(Debug)]
pub(super) enum Silence {
    /// The chain is retransmitted, for the last time if `last`.
    Retransmit { last: bool },
    /// The chain is given up: a branch was silent again after this many retransmissions, and was last heard of at this step on that host.
    Lost { retransmissions: u8, step: u32, host: String },
}

impl Liveness {
    pub(super) fn new(silent_at: Time, host: &Arc<NodeRef>) -> Self {
        let pulse = Pulse { silent_at, retransmissions: 0, step: 0, host: host.clone() };
        Self { pulses: alloc::vec![(Branch::root(), pulse)], last_step: 0, last_host: host.clone() }
    }

    /// When the first branch will have been silent for too long.
    pub(super) fn silent_at(&self) -> Option<Time> {
        self.pulses.iter().map(|(_, pulse)| pulse.silent_at).min()
    }

    pub(super) fn last(&self) -> (u32, &str) {
        (self.last_step, &self.last_host.name)
    }

    pub(super) fn hosts(&self) -> Vec<Arc<NodeRef>> {
        self.pulses.iter().map(|(_, pulse)| &pulse.host).chain([&self.last_host]).cloned().collect()
    }

    fn place_of(&self, branch: &Branch) -> Result<usize, usize> {
        self.pulses.binary_search_by(|(known, _)| known.cmp(branch))
    }

    fn pulse_mut(&mut self, branch: &Branch) -> Option<&mut Pulse> {
        let place = self.place_of(branch).ok()?;
        self.pulses.get_mut(place).map(|(_, pulse)| pulse)
    }

    pub(super) fn heard_at(&mut self, key: &StepKey, node: &Arc<NodeRef>) {
        if key.step >= self.last_step {
            (self.last_step, self.last_host) = (key.step, node.clone());
        }
        if let Some(pulse) = self.pulse_mut(&key.branch).filter(|pulse| key.step >= pulse.step) {
            (pulse.step, pulse.host) = (key.step, node.clone());
        }
    }

    /// A sign of life: this branch is no longer silent.
    pub(super) fn seen(
        &mut self,
        key: &StepKey,
        host: Option<&Arc<NodeRef>>,
        open: Option<&[Branch]>,
        silent_at: Time,
        policy: &Policy,
    ) {
        self.last_step = self.last_step.max(key.step);
        if let Some(host) = host {
            self.heard_at(key, host);
        }
        // A branch is tracked from when its parent names it until its parent goes on: a late sign of life must not make the origin wait for a branch that is
        // over.
        let Some(pulse) = self.pulse_mut(&key.branch) else { return };
        pulse.silent_at = silent_at;
        pulse.retransmissions = 0;
        pulse.step = pulse.step.max(key.step);
        let parent = pulse.clone();
        let own = |branch: &Branch| branch.parent().as_ref() == Some(&key.branch);
        let open: BTreeSet<&Branch> = open.unwrap_or_default().iter().filter(|branch| own(branch)).collect();
        if open.is_empty() && self.pulses.len() == 1 {
            return;
        }
        self.pulses.retain(|(branch, _)| !own(branch) || open.contains(branch));
        let unknown = open.into_iter().filter(|branch| self.place_of(branch).is_err());
        let mut new: Vec<_> = unknown.map(|branch| (branch.clone(), parent.clone())).collect();
        if !bug!(policy, HeardWithoutBound) {
            new.truncate(BRANCHES_MAX.saturating_sub(self.pulses.len()));
        }
        // Two sorted runs are merged in one walk; each branch inserted in its place would move those behind it.
        self.pulses.append(&mut new);
        self.pulses.sort_by(|(a, _), (b, _)| a.cmp(b));
    }

    /// A sign of life of one branch, taken for one of all of them: a seeded bug.
    pub(super) fn all_seen(&mut self, silent_at: Time) {
        for (_, pulse) in &mut self.pulses {
            (pulse.silent_at, pulse.retransmissions) = (silent_at, 0);
        }
    }

    /// What to do if some branch has been silent for too long.
    pub(super) fn silence(&mut self, now: Time, policy: &Policy) -> Option<Silence> {
        let later = now.after(policy.heartbeat_timeout_us.max(1));
        let mut last = None;
        for (_, pulse) in self.pulses.iter_mut().filter(|(_, pulse)| pulse.silent_at <= now) {
            if pulse.retransmissions >= policy.retransmissions_max {
                let (retransmissions, step) = (pulse.retransmissions, pulse.step);
                return Some(Silence::Lost { retransmissions, step, host: pulse.host.name.clone() });
            }
            pulse.retransmissions += 1;
            pulse.silent_at = later;
            last = last.max(Some(pulse.retransmissions >= policy.retransmissions_max));
        }
        last.map(|last| Silence::Retransmit { last })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]
mod tests {
    use catena_wire::{ChainId, NodeId};

    use super::*;

    fn node(name: &str) -> Arc<NodeRef> {
        Arc::new(NodeRef { id: NodeId(1), name: name.into(), address: None, site: None })
    }

    fn key(branch: &Branch, step: u32) -> StepKey {
        StepKey { chain: ChainId { origin: NodeId(1), number: 1 }, branch: branch.clone(), step }
    }

    #[test]
    fn a_busy_branch_does_not_speak_for_a_silent_one_and_the_lost_host_is_the_silent_ones() {
        let policy = Policy { retransmissions_max: 1, heartbeat_timeout_us: 10, ..Policy::default() };
        let root = Branch::root();
        let (busy, silent) = (root.child(1).unwrap(), root.child(2).unwrap());
        let mut liveness = Liveness::new(Time::from_us(10), &node("origin"));
        let open = [busy.clone(), silent.clone()];
        liveness.seen(&key(&root, 1), Some(&node("merge")), Some(&open), Time::from_us(10), &policy);
        liveness.seen(&key(&silent, 2), Some(&node("dead")), None, Time::from_us(10), &policy);
        for now in [10, 20] {
            let later = Time::from_us(now + 10);
            liveness.seen(&key(&busy, 9), Some(&node("busy")), None, later, &policy);
            liveness.seen(&key(&root, 1), Some(&node("merge")), Some(&open), later, &policy);
            match liveness.silence(Time::from_us(now), &policy) {
                Some(Silence::Retransmit { last: true }) if now == 10 => {}
                Some(Silence::Lost { host, step: 2, .. }) if now == 20 => assert_eq!(host, "dead"),
                other => panic!("{now}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_chain_that_says_something_after_each_silence_is_never_lost() {
        let policy = Policy { retransmissions_max: 1, heartbeat_timeout_us: 10, ..Policy::default() };
        let mut liveness = Liveness::new(Time::from_us(10), &node("origin"));
        for round in 1..20 {
            let now = round * 10;
            let silence = liveness.silence(Time::from_us(now), &policy);
            assert!(matches!(silence, Some(Silence::Retransmit { .. })), "{round}: {silence:?}");
            // An answer of the same step as before.
            liveness.seen(&key(&Branch::root(), 1), None, None, Time::from_us(now + 10), &policy);
        }
    }
}
