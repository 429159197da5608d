//! What a chain may still spend.

use minicbor::{Decode, Encode};

/// Shrinks along the chain and never grows (design, section 2): each method takes away, or gives back what was lent before.
///
/// Time is what is left, not an instant, so that no two clocks need to agree (rpc-chains section 3.9).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
#[cbor(array)]
pub struct Budget {
    #[n(0)]
    time_left_us: u64,
    #[n(1)]
    hops_left: u32,
}

impl Budget {
    /// A budget of `time_us` microseconds and `hops` calls.
    #[must_use]
    pub const fn new(time_us: u64, hops: u32) -> Self {
        Self { time_left_us: time_us, hops_left: hops }
    }

    /// Microseconds until the chain has missed its deadline.
    #[must_use]
    pub const fn time_left_us(&self) -> u64 {
        self.time_left_us
    }

    /// Calls that the chain may still make.
    #[must_use]
    pub const fn hops_left(&self) -> u32 {
        self.hops_left
    }

    /// The budget after `spent_us` microseconds; no time is left if that is more than there was.
    #[must_use]
    pub const fn after(self, spent_us: u64) -> Self {
        Self { time_left_us: self.time_left_us.saturating_sub(spent_us), ..self }
    }

    /// The budget after one more call, or `None` if there was none left.
    #[must_use]
    pub const fn take_hop(self) -> Option<Self> {
        match self.hops_left.checked_sub(1) {
            Some(hops_left) => Some(Self { hops_left, ..self }),
            None => None,
        }
    }

    /// Its hops in `parts` equal parts: one such part, and what remains; each has all of the time.
    #[must_use]
    pub const fn shared(self, parts: u32) -> (Self, Self) {
        let each = match self.hops_left.checked_div(parts) {
            Some(each) => each,
            None => 0,
        };
        let rest = self.hops_left - each * parts;
        (Self { hops_left: each, ..self }, Self { hops_left: rest, ..self })
    }

    /// The budget after `hops` of its hops were lent.
    #[must_use]
    pub const fn without_hops(self, lent: u32) -> Self {
        Self { hops_left: self.hops_left.saturating_sub(lent), ..self }
    }

    /// The budget after hops that were lent came back.
    #[must_use]
    pub const fn with_hops_back(self, returned: u32) -> Self {
        Self { hops_left: self.hops_left.saturating_add(returned), ..self }
    }

    /// The smaller of both, field by field: how a node's own policy narrows a chain.
    #[must_use]
    pub fn narrowed_to(self, policy: Self) -> Self {
        Self {
            time_left_us: self.time_left_us.min(policy.time_left_us),
            hops_left: self.hops_left.min(policy.hops_left),
        }
    }
}
