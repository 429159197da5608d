//! Where each branch of a function is, by the recording of its chain.

use std::collections::BTreeMap;

use catena::{Asked, Branch, Told, What};

use crate::{console::step_of, output::printable};

/// A call that has no outcome yet, or a split.
#[derive(Clone, Debug)]
pub(crate) struct Open {
    pub(crate) branch: Branch,
    pub(crate) step: u32,
    pub(crate) asked: Asked,
    /// Branches of the split that have begun, and that have ended.
    begun: u32,
    ended: u32,
}

impl Open {
    /// Its step and its target, as people read them.
    pub(crate) fn name(&self) -> String {
        format!("step {} {}", step_of(self.step, &self.branch), printable(&self.asked.target()))
    }
}

/// All branches.
#[derive(Default)]
pub(super) struct Way {
    guests: BTreeMap<Branch, Guest>,
    /// The recording has no room for more.
    pub(super) full: bool,
}

#[derive(Default)]
struct Guest {
    runs: bool,
    over: bool,
    open: Vec<Open>,
}

impl Way {
    /// Takes in what happened next.
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
                });
                guest.open.extend(open);
            }
            What::Ended => guest.over = true,
            What::Full => self.full = true,
            What::Begun { .. } | What::Branch(..) => {}
        }
    }

    /// Calls without an outcome: those of a branch before those of its own branches.
    pub(super) fn calls(&self) -> impl Iterator<Item = &Open> {
        self.guests.values().flat_map(|guest| &guest.open).filter(|open| open.asked.branches == 0)
    }

    /// Whether nothing happens before somebody says what comes of a call: each that counts has come to the gate. That a node does not make
    /// a call any more ends the branch.
    pub(super) fn rests(&self, at_gate: impl Fn(&Open) -> bool) -> bool {
        let waits = |open: &Open| match open.asked.branches {
            0 => at_gate(open),
            branches => open.begun == branches && open.ended < branches,
        };
        let rests = |branch: &Branch, guest: &Guest| match guest.over {
            // The end of the chain follows that of its function.
            true => !branch.is_root(),
            false => !guest.runs && !guest.open.is_empty() && guest.open.iter().all(waits),
        };
        !self.guests.is_empty() && self.guests.iter().all(|(branch, guest)| rests(branch, guest))
    }

    /// Whether the calls that the function itself started and did not await have come to the gate.
    pub(super) fn is_left_with(&self, at_gate: impl Fn(&Open) -> bool) -> bool {
        self.guests.get(&Branch::root()).is_none_or(|root| root.open.iter().all(at_gate))
    }
}
