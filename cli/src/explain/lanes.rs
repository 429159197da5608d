//! The steps of a profile, each in its branch and at its time.
//!
//! A profile lists the stays of each branch in order; after a split, the stays of the sub-branches come before the stay in which the
//! parent goes on after their merge. Calls that did not move the chain are listed when they are over: before or after the stay in which they were made.

use std::collections::BTreeMap;

use catena::{Branch, StepTrace};
use serde::Serialize;

/// What a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Role {
    Call,
    /// A branch begins.
    Branch,
    /// The branches have ended, and their parent goes on.
    Merge,
    /// The next node did not take the chain, which goes on where it was.
    Back,
}

/// A step where it belongs.
#[derive(Clone, Copy)]
pub(super) struct Hop<'a> {
    pub(super) step: &'a StepTrace,
    pub(super) role: Role,
    /// When it begins, counted from the chain's beginning.
    pub(super) begins_us: u64,
    /// Time on the network: of a hop, one way; of a call made from afar, there and back; of a merge, the way of the last outcome. `None` where
    /// nothing travelled, or where the nodes' clocks disagree.
    pub(super) network_us: Option<u64>,
    pub(super) stay_us: u64,
}

impl Hop<'_> {
    pub(super) fn called(&self) -> bool {
        self.step.step > 0 && self.role == Role::Call
    }

    /// What it called; empty where that was nothing: of the origin's own turn, and of the way home.
    pub(super) fn target(&self) -> &str {
        if calls_nothing(self.step) { "" } else { &self.step.target }
    }

    /// The chain stayed where it was, and another node served the call.
    pub(super) const fn is_from_afar(&self) -> bool {
        self.step.served_by.is_some()
    }

    /// A call to the node where the chain was.
    pub(super) const fn is_in_place(&self) -> bool {
        self.step.in_place && !self.is_from_afar()
    }
}

/// All steps, and how the chain's way ended.
pub(super) struct Lanes<'a> {
    /// Each stay, and after it the calls made from there.
    pub(super) hops: Vec<Hop<'a>>,
    /// The end of the last stay, from the chain's beginning.
    pub(super) end_us: u64,
    /// The same by that node's clock, if it is not the node at which the chain began.
    pub(super) left_for_home_at_us: Option<u64>,
}

/// Puts each step where it belongs.
pub(super) fn place(steps: &[StepTrace]) -> Lanes<'_> {
    let mut reader = Reader::default();
    steps.iter().filter(|step| !step.in_place).for_each(|step| reader.stay(step));
    steps.iter().filter(|step| step.in_place).for_each(|step| reader.call(step));
    reader.read()
}

/// Where the chain, or a branch of it, was, and the calls that it made from there.
struct Stay<'a> {
    at: Hop<'a>,
    calls: Vec<Hop<'a>>,
}

impl Stay<'_> {
    const fn ends_us(&self) -> u64 {
        self.at.begins_us.saturating_add(self.at.stay_us)
    }

    /// Converts a time by this node's clock into a time since the chain's beginning.
    const fn since_us(&self, unix_us: u64) -> u64 {
        self.at.begins_us.saturating_add(unix_us.saturating_sub(self.at.step.arrived_at_us))
    }
}

#[derive(Default)]
struct Reader<'a> {
    stays: Vec<Stay<'a>>,
    /// The newest stay of each branch.
    newest: BTreeMap<Branch, usize>,
    /// Calls whose stay is not in the profile, which has ended before.
    astray: Vec<Hop<'a>>,
}

impl<'a> Reader<'a> {
    fn stay(&mut self, step: &'a StepTrace) {
        let newest = |branch: &Branch| self.newest.get(branch).copied();
        let own = newest(&step.branch);
        let before = own.or_else(|| step.branch.parent().as_ref().and_then(newest));
        let before = before.and_then(|index| self.stays.get(index));
        let role = match own {
            None if step.branch.is_root() => Role::Call,
            None => Role::Branch,
            Some(_) if !calls_nothing(step) => Role::Call,
            Some(_) if self.stays.last().is_some_and(|last| last.at.step.branch != step.branch) => Role::Merge,
            Some(_) => Role::Back,
        };
        let (begins_us, network_us) = match before {
            None => (0, None),
            // The branch did not travel, so its times are by the same clock as the stay before. At a merge, the outcomes of the branches did.
            Some(before) if role != Role::Call && before.at.step.node == step.node => {
                let network_us = self.last_outcome_us(own, step).filter(|_| role == Role::Merge);
                (before.since_us(step.arrived_at_us), network_us)
            }
            Some(before) => {
                let network_us = step.arrived_at_us.checked_sub(before.at.step.left_at_us);
                (before.ends_us().saturating_add(network_us.unwrap_or_default()), network_us)
            }
        };
        let at = Hop { step, role, begins_us, network_us, stay_us: took_us(step) };
        self.newest.insert(step.branch.clone(), self.stays.len());
        self.stays.push(Stay { at, calls: Vec::new() });
    }

    /// How long the last outcome took to reach this merge from where its branch ended.
    fn last_outcome_us(&self, before: Option<usize>, merge: &StepTrace) -> Option<u64> {
        let branches = self.stays.get(before? + 1..)?.iter().map(|stay| stay.at.step);
        let last = branches.filter(|step| step.branch != merge.branch).max_by_key(|step| step.left_at_us)?;
        merge.arrived_at_us.checked_sub(last.left_at_us).filter(|_| last.node != merge.node)
    }

    /// Adds a call to the last stay of its branch at its node that had begun by then.
    fn call(&mut self, step: &'a StepTrace) {
        let made_it = |stay: &&mut Stay<'_>| {
            let at = stay.at.step;
            at.branch == step.branch && at.node == step.node && at.arrived_at_us <= step.arrived_at_us
        };
        let stay = self.stays.iter_mut().rfind(made_it);
        let stay_us = took_us(step);
        // Each is a difference of times by one clock, so the clocks need not agree.
        let network_us = step.served_by.as_ref().and_then(|_| stay_us.checked_sub(step.service_us));
        let begins_us = stay.as_ref().map_or(0, |stay| stay.since_us(step.arrived_at_us));
        let hop = Hop { step, role: Role::Call, begins_us, network_us, stay_us };
        stay.map_or(&mut self.astray, |stay| &mut stay.calls).push(hop);
    }

    fn read(self) -> Lanes<'a> {
        let first = self.stays.first().map(|stay| &stay.at.step.node);
        let last = self.newest.get(&Branch::root()).and_then(|index| self.stays.get(*index));
        let end_us = last.map_or(0, Stay::ends_us);
        let away = last.filter(|last| Some(&last.at.step.node) != first);
        let left_for_home_at_us = away.map(|last| last.at.step.left_at_us);
        let mut hops = Vec::new();
        for mut stay in self.stays {
            stay.calls.sort_by_key(|call| call.step.step);
            hops.push(stay.at);
            hops.append(&mut stay.calls);
        }
        hops.extend(self.astray);
        Lanes { hops, end_us, left_for_home_at_us }
    }
}

/// What calls nothing has no name between its slashes.
fn calls_nothing(step: &StepTrace) -> bool {
    matches!(step.target.as_str(), "" | "/")
}

const fn took_us(step: &StepTrace) -> u64 {
    step.left_at_us.saturating_sub(step.arrived_at_us)
}
