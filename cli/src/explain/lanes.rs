//! The steps of a profile, each in its branch and at its time.
//!
//! A profile names no branches. It has them one after the other, in the order of their numbers: the stay in which a branch begins calls
//! nothing, and has the step of the split; the stay of the parent after the merge either has no node (it never left), or is one that calls
//! nothing at another node than the branches began at.

use std::collections::BTreeMap;

use catena::StepTrace;

/// What a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Call,
    /// A branch begins.
    Branch,
    /// The branches have ended, and their parent goes on.
    Merge,
}

/// A step where it belongs.
#[derive(Clone, Debug)]
pub(super) struct Placed<'a> {
    pub(super) step: &'a StepTrace,
    pub(super) role: Role,
    /// Empty for the whole chain, else such as `.1.2`.
    pub(super) branch: String,
    pub(super) node: &'a str,
    /// From the chain's beginning.
    pub(super) begins_us: u64,
    pub(super) network_us: Option<u64>,
    pub(super) stay_us: u64,
}

/// All steps, and when the last one ended: from the beginning, and by the clock of its node.
pub(super) struct Lanes<'a> {
    pub(super) placed: Vec<Placed<'a>>,
    pub(super) end_us: u64,
    pub(super) left_at_us: Option<u64>,
}

/// The stay that a branch is in.
#[derive(Clone, Copy)]
struct Stay<'a> {
    node: &'a str,
    arrived_at_us: u64,
    left_at_us: u64,
    begins_us: u64,
    ends_us: u64,
}

/// A split whose branches are being read.
struct Split<'a> {
    step: u32,
    node: &'a str,
    parent: String,
}

/// Puts each step where it belongs.
pub(super) fn place(steps: &[StepTrace]) -> Lanes<'_> {
    let mut reader = Reader::default();
    let mut in_place = Vec::new();
    for step in steps {
        if step.in_place {
            // Noted before the stay that holds it ends.
            in_place.push(step);
            continue;
        }
        reader.stay(step);
        in_place.sort_by_key(|step| step.step);
        in_place.drain(..).for_each(|step| reader.in_place(step));
    }
    in_place.into_iter().for_each(|step| reader.in_place(step));
    let whole = reader.stays.get("");
    let (end_us, left_at_us) = (whole.map_or(0, |stay| stay.ends_us), whole.map(|stay| stay.left_at_us));
    Lanes { placed: reader.placed, end_us, left_at_us }
}

#[derive(Default)]
struct Reader<'a> {
    placed: Vec<Placed<'a>>,
    stays: BTreeMap<String, Stay<'a>>,
    splits: Vec<Split<'a>>,
    /// Branches begun, by parent: they are numbered through.
    begun: BTreeMap<String, u32>,
    branch: String,
}

impl<'a> Reader<'a> {
    fn stay(&mut self, step: &'a StepTrace) {
        let role = self.role(step);
        let before = match role {
            Role::Branch => self.splits.last().and_then(|split| self.stays.get(&split.parent)).copied(),
            Role::Call | Role::Merge => self.stays.get(&self.branch).copied(),
        };
        let took_us = step.left_at_us.saturating_sub(step.arrived_at_us);
        let (node, arrived_at_us, begins_us, network_us, stay_us) = match (role, before) {
            // It was here all the time: its clock is that of the stay before.
            (Role::Merge, Some(before)) if step.node.is_empty() => {
                let begins_us = self.branches_end_us().max(before.ends_us);
                let arrived_at_us = before.arrived_at_us.saturating_add(begins_us - before.begins_us);
                let stay_us = step.left_at_us.saturating_sub(arrived_at_us);
                (before.node, arrived_at_us, begins_us, None, stay_us)
            }
            (Role::Branch, Some(before)) => {
                let since_us = step.arrived_at_us.saturating_sub(before.arrived_at_us);
                (step.node.as_str(), step.arrived_at_us, before.begins_us.saturating_add(since_us), None, took_us)
            }
            (_, Some(before)) => {
                let network_us = step.arrived_at_us.checked_sub(before.left_at_us);
                let begins_us = before.ends_us.saturating_add(network_us.unwrap_or_default());
                (step.node.as_str(), step.arrived_at_us, begins_us, network_us, took_us)
            }
            (_, None) => (step.node.as_str(), step.arrived_at_us, 0, None, took_us),
        };
        let ends_us = begins_us.saturating_add(stay_us);
        let stay = Stay { node, arrived_at_us, left_at_us: step.left_at_us, begins_us, ends_us };
        self.stays.insert(self.branch.clone(), stay);
        self.put(step, role, node, begins_us, network_us, stay_us);
    }

    /// What the stay is; from here on its branch is the one that is read.
    fn role(&mut self, step: &'a StepTrace) -> Role {
        if step.node.is_empty() {
            return self.merge();
        }
        if self.placed.is_empty() || !matches!(step.target.as_str(), "" | "/") {
            return Role::Call;
        }
        while self.splits.last().is_some_and(|split| split.step > step.step) {
            self.merge();
        }
        match self.splits.last() {
            Some(split) if split.step == step.step && split.node != step.node => return self.merge(),
            Some(split) if split.step == step.step => self.branch.clone_from(&split.parent),
            _ => self.splits.push(Split { step: step.step, node: &step.node, parent: self.branch.clone() }),
        }
        let number = self.begun.entry(self.branch.clone()).or_default();
        *number = number.saturating_add(1);
        self.branch = format!("{}.{number}", self.branch);
        Role::Branch
    }

    fn merge(&mut self) -> Role {
        if let Some(split) = self.splits.pop() {
            self.branch = split.parent;
        }
        Role::Merge
    }

    fn branches_end_us(&self) -> u64 {
        let own = format!("{}.", self.branch);
        let ends = self.stays.iter().filter(|(branch, _)| branch.starts_with(&own)).map(|(_, stay)| stay.ends_us);
        ends.max().unwrap_or_default()
    }

    fn in_place(&mut self, step: &'a StepTrace) {
        let stay = self.stays.get(&self.branch).copied();
        let since_us =
            |stay: Stay<'_>| step.arrived_at_us.saturating_sub(stay.arrived_at_us).saturating_add(stay.begins_us);
        let stay_us = step.left_at_us.saturating_sub(step.arrived_at_us);
        self.put(step, Role::Call, &step.node, stay.map_or(0, since_us), None, stay_us);
    }

    fn put(
        &mut self,
        step: &'a StepTrace,
        role: Role,
        node: &'a str,
        begins_us: u64,
        network_us: Option<u64>,
        stay_us: u64,
    ) {
        let branch = self.branch.clone();
        self.placed.push(Placed { step, role, branch, node, begins_us, network_us, stay_us });
    }
}
