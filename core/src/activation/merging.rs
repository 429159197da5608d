//! A parent and its branches.

use alloc::{collections::BTreeMap, vec::Vec};
use bytes::Bytes;
use catena_wire::{Branch, End, StepKey};

/// A parent that waits for its branches.
#[derive(Clone, Debug)]
pub(crate) struct Merging {
    /// The guest's number for the split.
    pub(crate) call: u32,
    /// The step that split.
    pub(crate) at: StepKey,
    /// Number of the first branch.
    pub(crate) first: u16,
    /// How many there are.
    pub(crate) count: u16,
    /// Hops that each branch was given; none can bring back more.
    pub(crate) hops_each: u32,
    pub(crate) continuation: Bytes,
    /// How many hosts of the parent's path its branches share.
    pub(crate) hosts_before: usize,
    /// How many lines the parent had when it split: its branches carry these too. Meanwhile the parent's other calls may bring it more.
    pub(crate) lines_before: usize,
    pub(crate) ended: Ended,
    /// Branches for which the parent does not wait: 0, except with a seeded bug.
    pub(crate) early: usize,
}

/// The ends of branches by number, and their bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ended {
    by_number: BTreeMap<u16, End>,
    bytes: usize,
}

impl Ended {
    pub(crate) fn insert(&mut self, end: End) {
        self.bytes += end.kept_bytes();
        self.by_number.insert(end.key.branch.number(), end);
    }

    pub(crate) fn contains(&self, number: u16) -> bool {
        self.by_number.contains_key(&number)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_number.len()
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &End> {
        self.by_number.values()
    }

    /// In the order of the numbers.
    pub(crate) fn into_ends(self) -> impl ExactSizeIterator<Item = End> {
        self.by_number.into_values()
    }
}

impl Merging {
    /// Branches that have not ended, as the merge host tells the origin.
    pub(crate) fn open_branches(&self) -> Vec<Branch> {
        let numbers = (0..self.count).map(|index| self.first.saturating_add(index));
        let open = numbers.filter(|number| !self.ended.contains(*number));
        open.filter_map(|number| self.at.branch.child(number)).collect()
    }

    /// Whether this is the end of one of these branches, and the first end from that branch.
    pub(crate) fn awaits(&self, end: &End) -> bool {
        let number = end.key.branch.number();
        let among = number.checked_sub(self.first).is_some_and(|index| index < self.count);
        let ours = end.key.chain == self.at.chain && end.key.branch.parent().as_ref() == Some(&self.at.branch);
        among && ours && !self.ended.contains(number)
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.ended.len() + self.early >= usize::from(self.count)
    }
}
