//! Which way of its chain made a step: the rule by which a step store tells ways apart.

use catena_wire::{Branch, PossibleDuplicate, StepKey};

/// A step, and the way of its chain that made it or is to make it. A chain that may be under way twice, a possible duplicate, has several ways: what one of
/// them has done, no other does again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Way {
    /// The way's number; 0 for a chain that is not flagged as a possible duplicate.
    pub number: u64,
    /// From this step on the way has a history of its own; `u32::MAX` for a chain that is not flagged as a possible duplicate.
    pub fence: u32,
    /// The step.
    pub step: u32,
    /// Its branch.
    pub branch: Branch,
}

impl Way {
    /// The way on which a chain comes to a step, given its flag as a possible duplicate if it has one.
    #[must_use]
    pub fn of(key: &StepKey, duplicate: Option<&PossibleDuplicate>) -> Self {
        let fence = match duplicate {
            Some(duplicate) if duplicate.since.chain == key.chain => duplicate.since.step,
            // Another chain numbers its steps on its own: no step of this chain is before the fence.
            Some(_) => 0,
            None => u32::MAX,
        };
        Self { number: Self::number_of(duplicate), fence, step: key.step, branch: key.branch.clone() }
    }

    /// The number of a way with this flag.
    pub(crate) fn number_of(duplicate: Option<&PossibleDuplicate>) -> u64 {
        duplicate.map_or(0, |duplicate| duplicate.way)
    }

    /// Whether `other`, of the same chain, shows that another way has been where this one is: on the same line of branches, and not before the
    /// earlier of their fences, where the two ways are known to have parted.
    #[must_use]
    pub fn is_overtaken_by(&self, other: &Self) -> bool {
        let in_line = is_around(&self.branch, &other.branch) || is_around(&other.branch, &self.branch);
        self.number != other.number && in_line && other.step >= self.fence.min(other.fence)
    }
}

/// Whether `branch` is `of`, or one of the branches that it was split off from.
fn is_around(branch: &Branch, of: &Branch) -> bool {
    core::iter::successors(Some(of.clone()), Branch::parent).any(|around| around == *branch)
}
