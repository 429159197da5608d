//! Where each branch of a function is, derived from the recording of its chain.

use std::collections::BTreeMap;

use catena::{Asked, Branch, ChainId, StepKey, Told, What};

use super::gate::Gate;
use crate::{console::step_of, output::printable};

/// A call that has no outcome yet, or a split.
#[derive(Clone, Debug)]
pub(crate) struct Open {
    pub(crate) branch: Branch,
    pub(crate) step: u32,
    pub(crate) asked: Asked,
    /// For a split: how many of its branches have begun, and how many have ended.
    begun: u32,
    ended: u32,
    /// For a call: whether it is at the gate.
    arrived: bool,
}

impl Open {
    pub(super) fn key(&self, chain: ChainId) -> StepKey {
        StepKey { chain, branch: self.branch.clone(), step: self.step }
    }

    /// Its step and its target, as people read them.
    pub(crate) fn name(&self) -> String {
        format!("step {} {}", step_of(self.step, &self.branch), printable(&self.asked.target()))
    }
}

/// The state of all branches of a chain.
#[derive(Default)]
pub(super) struct Way {
    guests: BTreeMap<Branch, Guest>,
    /// The recording is full, so later events are missing.
    pub(super) full: bool,
}

#[derive(Default)]
struct Guest {
    runs: bool,
    over: bool,
    open: Vec<Open>,
}

impl Way {
    /// Applies the next recorded event.
    pub(super) fn take(&mut self, told: &Told) {
        let split = |split: &&mut Open| split.asked.branches > 0;
        let parent = told.branch.parent().and_then(|parent| self.guests.get_mut(&parent));
        match (&told.what, parent) {
            (What::Branch(..), Some(parent)) => parent.open.iter_mut().filter(split).for_each(|split| split.begun += 1),
            (What::Ended, Some(parent)) => parent.open.iter_mut().filter(split).for_each(|split| split.ended += 1),
            _ => {}
        }
        let guest = self.guests.entry(told.branch.clone()).or_default();
        guest.runs = matches!(told.what, What::Begun { .. } | What::Branch(..) | What::Settled(..));
        match &told.what {
            What::Settled(call, _) => guest.open.retain(|open| open.asked.call != *call),
            What::Turned(asked) => {
                let open = (told.step + 1..).zip(asked).map(|(step, asked)| Open {
                    branch: told.branch.clone(),
                    step,
                    asked: asked.clone(),
                    begun: 0,
                    ended: 0,
                    arrived: false,
                });
                guest.open.extend(open);
            }
            What::Ended => guest.over = true,
            What::Full => self.full = true,
            What::Begun { .. } | What::Branch(..) => {}
        }
    }

    /// Looks which calls have arrived at the gate. Those of a branch have the steps at which they arrived, once all have: a read of a reply set that
    /// fails is a step, too, and is not recorded, so the calls of that turn are later steps than their order says.
    pub(super) fn look(&mut self, gate: &Gate, chain: ChainId) {
        for (branch, guest) in &mut self.guests {
            let steps: Vec<u32> = gate.steps(chain, branch).collect();
            let mut calls: Vec<_> = guest.open.iter_mut().filter(|open| open.asked.branches == 0).collect();
            if steps.len() == calls.len() {
                calls.iter_mut().zip(&steps).for_each(|(call, step)| call.step = *step);
            }
            calls.into_iter().for_each(|call| call.arrived = steps.contains(&call.step));
        }
    }

    /// No outcome of this call will be told.
    pub(super) fn forget(&mut self, call: &Open) {
        if let Some(guest) = self.guests.get_mut(&call.branch) {
            guest.open.retain(|open| open.asked.call != call.asked.call);
        }
    }

    /// Calls at the gate; a branch's own calls come before those of its sub-branches.
    pub(super) fn calls(&self) -> impl Iterator<Item = &Open> {
        self.guests.values().flat_map(|guest| &guest.open).filter(|open| open.arrived)
    }

    /// Whether the chain makes no progress until somebody decides the outcome of a call: every call that can still have one is at the gate. A call
    /// that a node refuses to make ends its branch.
    pub(super) fn rests(&self) -> bool {
        let waits = |open: &Open| open.arrived || open.begun == open.asked.branches && open.ended < open.begun;
        let rests = |branch: &Branch, guest: &Guest| match guest.over {
            // When the root's function has ended, the end of the chain is still to come.
            true => !branch.is_root(),
            false => !guest.runs && !guest.open.is_empty() && guest.open.iter().all(waits),
        };
        !self.guests.is_empty() && self.guests.iter().all(|(branch, guest)| rests(branch, guest))
    }

    /// Whether all calls that the root function started and did not await have arrived at the gate.
    pub(super) fn is_left_with(&self) -> bool {
        self.guests.get(&Branch::root()).is_none_or(|root| root.open.iter().all(|open| open.arrived))
    }
}
