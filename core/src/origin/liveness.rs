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
        let Ok(place) = self.place_of(&key.branch) else { return };
        let (_, pulse) = &mut self.pulses[place];
        // What comes late, or once more, says nothing about the branches that it has split into since.
        let is_late = open.is_none() && key.step < pulse.step;
        pulse.silent_at = silent_at;
        if !bug!(policy, SilencesAddUp) {
            pulse.retransmissions = 0;
        }
        pulse.step = pulse.step.max(key.step);
        if is_late {
            return;
        }
        let parent = pulse.clone();
        let open = open.unwrap_or_default().iter().filter(|branch| branch.parent().as_ref() == Some(&key.branch));
        self.track(place, &parent, &open.collect(), policy);
    }

    /// The branch at `place`, which was heard of a moment ago, has split into these branches and waits for them. A branch is tracked from when its parent names
    /// it until its parent names it no longer, and so are those within it: a late sign of life must not make the origin wait for a branch that is over.
    fn track(&mut self, place: usize, parent: &Pulse, open: &BTreeSet<&Branch>, policy: &Policy) {
        // In their order, the branches within a branch are right behind it.
        let behind = &self.pulses[place + 1..];
        let within = behind.partition_point(|(branch, _)| branch.is_within(&self.pulses[place].0));
        if within == 0 && open.is_empty() {
            return;
        }
        let is_open = |branch: &Branch| {
            let before = open.range::<&Branch, _>(..=branch).next_back();
            before.is_some_and(|open| branch == *open || branch.is_within(open))
        };
        let range = place + 1..=place + within;
        let mut tracked: Vec<_> = self.pulses.drain(range).filter(|(branch, _)| is_open(branch)).collect();
        let known = |branch: &Branch| tracked.binary_search_by(|(tracked, _)| tracked.cmp(branch)).is_ok();
        let mut new: Vec<_> =
            open.iter().filter(|branch| !known(branch)).map(|new| ((*new).clone(), parent.clone())).collect();
        if !bug!(policy, HeardWithoutBound) {
            new.truncate(BRANCHES_MAX.saturating_sub(self.pulses.len() + tracked.len()));
        }
        // Two sorted runs are merged in one walk; each branch inserted in its place would move those behind it.
        tracked.append(&mut new);
        tracked.sort_by(|(a, _), (b, _)| a.cmp(b));
        drop(self.pulses.splice(place + 1..place + 1, tracked));
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

    /// An inner split that closes is reported by nobody: its branches and its parent are over, and the chain goes on.
    #[test]
    fn branches_within_a_branch_that_is_over_are_over_too() {
        let policy = Policy { retransmissions_max: 1, heartbeat_timeout_us: 10, ..Policy::default() };
        let root = Branch::root();
        let [first, second, tenth] = [1, 2, 10].map(|number| root.child(number).unwrap());
        let inner = [first.child(1).unwrap(), first.child(2).unwrap()];
        let mut liveness = Liveness::new(Time::from_us(10), &node("origin"));
        let beat = |liveness: &mut Liveness, branch: &Branch, open: &[Branch], now: u64| {
            liveness.seen(&key(branch, 1), Some(&node("host")), Some(open), Time::from_us(now + 10), &policy);
            let tracked: Vec<_> = liveness.pulses.iter().map(|(branch, _)| branch.clone()).collect();
            (tracked, liveness.silence(Time::from_us(now), &policy))
        };
        let all = [first.clone(), second.clone(), tenth.clone()];
        assert_eq!(beat(&mut liveness, &root, &all, 1).0.len(), 4);
        let [one, two] = inner.clone();
        let with_inner = [root.clone(), first.clone(), one, two, second.clone(), tenth.clone()];
        assert_eq!(beat(&mut liveness, &first, &inner, 2).0, with_inner);
        assert_eq!(beat(&mut liveness, &root, &all, 3).0, with_inner, "they are not the root's to end");
        assert_eq!(beat(&mut liveness, &second, &[], 4).0, with_inner);
        liveness.seen(&key(&root, 0), None, None, Time::from_us(14), &policy);
        assert_eq!(beat(&mut liveness, &second, &[], 4).0, with_inner, "an answer from before the split came late");
        for now in [5, 15, 25, 35] {
            let (tracked, silence) = beat(&mut liveness, &root, &[second.clone(), tenth.clone()], now);
            assert_eq!(tracked, [root.clone(), second.clone(), tenth.clone()]);
            assert!(!matches!(silence, Some(Silence::Lost { .. })), "{now}");
            beat(&mut liveness, &second, &[], now);
            beat(&mut liveness, &tenth, &[], now);
        }
        assert_eq!(beat(&mut liveness, &root, &[], 40).0, [root]);
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
