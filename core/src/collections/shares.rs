//! How much of something each party or peer has, so that none of them takes what all need.

use alloc::collections::{BTreeMap, BTreeSet};

use super::Party;
use crate::Policy;

/// Whether a party that has `own` of something may have `more`, where all parties together have `all` and there is room for `max`. A party may have no more
/// than it leaves free, so that the next party finds room. An eighth of `max` is reserved for this node itself.
pub(crate) fn leaves_room(policy: &Policy, by: Party, more: usize, own: usize, all: usize, max: usize) -> bool {
    is_room(if bug!(policy, PeerTakesAll) { Party::Own } else { by }, more, own, all, max)
}

fn is_room(by: Party, more: usize, own: usize, all: usize, max: usize) -> bool {
    // All of `more` but the last unit, which has to find room too.
    let before = more.saturating_sub(1);
    let left = |max: usize| max.saturating_sub(all.saturating_add(before));
    if by == Party::Own {
        return left(max) > 0;
    }
    let left = left(max - max / 8);
    left > 0 && own.saturating_add(before) <= left
}

/// Places for what the shell takes on, shared out among parties as is what the machines take on: none has more than it leaves free.
#[derive(Debug)]
pub struct Places {
    shares: Shares<Party>,
    max: usize,
}

impl Places {
    /// This many places, all free.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self { shares: Shares::default(), max }
    }

    /// Takes a place, if there is one for this party.
    #[must_use]
    pub fn take(&mut self, by: Party) -> bool {
        let is_room = is_room(by, 1, self.shares.of(by), self.shares.all(), self.max);
        if is_room {
            self.shares.add(by);
        }
        is_room
    }

    /// Gives a place back that this party took.
    pub fn give_back(&mut self, by: Party) {
        self.shares.remove(by);
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Shares<P> {
    of: BTreeMap<P, Share>,
    by_size: BTreeSet<(u64, P)>,
    all: Share,
}

/// How many items, and their size: in bytes where those are counted.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    count: usize,
    size: u64,
}

impl<P> Default for Shares<P> {
    fn default() -> Self {
        Self { of: BTreeMap::new(), by_size: BTreeSet::new(), all: Share::default() }
    }
}

impl<P: Ord + Copy> Shares<P> {
    /// How many items all have together.
    pub(crate) const fn all(&self) -> usize {
        self.all.count
    }

    pub(crate) const fn all_bytes(&self) -> u64 {
        self.all.size
    }

    pub(crate) fn of(&self, peer: P) -> usize {
        self.share(peer).count
    }

    pub(crate) fn bytes_of(&self, peer: P) -> u64 {
        self.share(peer).size
    }

    fn share(&self, peer: P) -> Share {
        self.of.get(&peer).copied().unwrap_or_default()
    }

    /// One more item, whose bytes are not counted.
    pub(crate) fn add(&mut self, peer: P) {
        self.add_sized(peer, 0);
    }

    pub(crate) fn add_sized(&mut self, peer: P, size: u64) {
        let Share { count, size: before } = self.share(peer);
        self.set(peer, Share { count: count + 1, size: before + size });
    }

    pub(crate) fn remove(&mut self, peer: P) {
        self.remove_sized(peer, 0);
    }

    pub(crate) fn remove_sized(&mut self, peer: P, size: u64) {
        let Share { count, size: before } = self.share(peer);
        if count > 0 {
            self.set(peer, Share { count: count - 1, size: before - size });
        }
    }

    fn set(&mut self, peer: P, share: Share) {
        let before = if share.count == 0 { self.of.remove(&peer) } else { self.of.insert(peer, share) };
        let before = before.unwrap_or_default();
        self.all.count = self.all.count - before.count + share.count;
        self.all.size = self.all.size - before.size + share.size;
        self.by_size.remove(&(before.size, peer));
        if share.count > 0 {
            self.by_size.insert((share.size, peer));
        }
    }

    /// The peer whose oldest item makes room for one more of this size from `newest`: the one that would then have most. So strangers' items evict nothing
    /// of a peer that has less than they have.
    pub(crate) fn gives_way(&self, newest: P, size: u64) -> Option<P> {
        let (most, peer) = self.by_size.last()?;
        Some(if self.bytes_of(newest) + size > *most { newest } else { *peer })
    }
}

#[cfg(test)]
mod tests {
    use catena_wire::NodeId;

    use super::*;

    #[test]
    fn whoever_has_most_gives_way() {
        let mut shares = Shares::default();
        let [few, many, new] = [1, 2, 3].map(NodeId);
        assert_eq!(shares.gives_way(new, 1), None);
        shares.add_sized(few, 1);
        for _ in 0..3 {
            shares.add_sized(many, 1);
        }
        assert_eq!([few, many, new].map(|peer| shares.gives_way(peer, 1)), [Some(many); 3]);
        assert_eq!([2, 3].map(|size| shares.gives_way(few, size)), [Some(many), Some(few)]);
        assert_eq!([3, 4].map(|size| shares.gives_way(new, size)), [Some(many), Some(new)]);
        for _ in 0..3 {
            shares.remove_sized(many, 1);
        }
        assert_eq!((shares.of(many), shares.all(), shares.gives_way(new, 1)), (0, 1, Some(few)));
        // Removes one item more than there are.
        shares.remove_sized(few, 1);
        shares.remove_sized(few, 1);
        assert_eq!((shares.all(), shares.gives_way(new, 1)), (0, None));
    }

    #[test]
    fn bytes_are_counted_with_what_has_them() {
        let mut shares = Shares::default();
        let [one, other] = [1, 2].map(NodeId);
        for (peer, bytes) in [(one, 5), (one, 7), (other, 1)] {
            shares.add_sized(peer, bytes);
        }
        shares.remove_sized(one, 5);
        assert_eq!((shares.of(one), shares.bytes_of(one), shares.all_bytes()), (1, 7, 8));
        shares.remove_sized(one, 7);
        assert_eq!((shares.of(one), shares.all(), shares.all_bytes()), (0, 1, 1));
    }
}
