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
    /// What each was given; none can bring more back.
    pub(crate) hops_each: u32,
    pub(crate) continuation: Bytes,
    /// How many hosts of the parent's path its branches share.
    pub(crate) hosts_before: usize,
    /// How many of the lines that its branches carry were the parent's when it split: meanwhile it may be brought others.
    pub(crate) lines_before: usize,
    pub(crate) ended: Ended,
    /// Branches for which it does not wait: none, but for a mistake made on purpose.
    pub(crate) early: usize,
}

/// How branches have ended, by their numbers, and what it takes to keep that.
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

    /// Whether it is one of these branches, and has not ended before.
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
