//! What may still be spent, by this node's clock.

use catena_wire::Budget;

use crate::Time;

/// A budget that is kept here, and the time as of which it holds: waiting costs time too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    budget: Budget,
    as_of: Time,
}

impl Allowance {
    pub(crate) const fn new(now: Time, budget: Budget) -> Self {
        Self { budget, as_of: now }
    }

    /// What is left to spend now.
    pub(crate) const fn left(&self, now: Time) -> Budget {
        self.budget.after(now.since(self.as_of))
    }

    pub(crate) const fn hops_left(&self) -> u32 {
        self.budget.hops_left()
    }

    pub(crate) const fn deadline(&self) -> Time {
        self.as_of.after(self.budget.time_left_us())
    }

    pub(crate) const fn set(&mut self, now: Time, budget: Budget) {
        *self = Self::new(now, budget);
    }

    /// Lends `hops` hops, or all that are left if there are fewer; the borrower brings back those that it does not spend.
    pub(crate) fn lend(&mut self, now: Time, hops: u32) -> Budget {
        let left = self.left(now);
        let hops = hops.min(left.hops_left());
        self.set(now, left.without_hops(hops));
        Budget::new(left.time_left_us(), hops)
    }

    /// Takes back hops that were lent.
    pub(crate) const fn give_back(&mut self, hops: u32) {
        self.budget = self.budget.with_hops_back(hops);
    }
}
