//! How much of something each peer has, so that none of them takes what all need.

use alloc::collections::{BTreeMap, BTreeSet};
use catena_wire::NodeId;

#[derive(Clone, Debug, Default)]
pub(crate) struct Shares {
    of: BTreeMap<NodeId, Share>,
    by_count: BTreeSet<(usize, NodeId)>,
    all: Share,
}

/// How many, and their bytes where those are counted.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    count: usize,
    bytes: u64,
}

impl Shares {
    /// How many all have together.
    pub(crate) const fn all(&self) -> usize {
        self.all.count
    }

    pub(crate) const fn all_bytes(&self) -> u64 {
        self.all.bytes
    }

    pub(crate) fn of(&self, peer: NodeId) -> usize {
        self.share(peer).count
    }

    pub(crate) fn bytes_of(&self, peer: NodeId) -> u64 {
        self.share(peer).bytes
    }

    fn share(&self, peer: NodeId) -> Share {
        self.of.get(&peer).copied().unwrap_or_default()
    }

    /// One more, whose bytes are not counted.
    pub(crate) fn add(&mut self, peer: NodeId) {
        self.add_sized(peer, 0);
    }

    pub(crate) fn add_sized(&mut self, peer: NodeId, bytes: u64) {
        let Share { count, bytes: before } = self.share(peer);
        self.set(peer, Share { count: count + 1, bytes: before + bytes });
    }

    pub(crate) fn remove(&mut self, peer: NodeId) {
        self.remove_sized(peer, 0);
    }

    pub(crate) fn remove_sized(&mut self, peer: NodeId, bytes: u64) {
        let Share { count, bytes: before } = self.share(peer);
        if count > 0 {
            self.set(peer, Share { count: count - 1, bytes: before - bytes });
        }
    }

    /// It has nothing any more.
    pub(crate) fn forget(&mut self, peer: NodeId) {
        self.set(peer, Share::default());
    }

    fn set(&mut self, peer: NodeId, share: Share) {
        let before = if share.count == 0 { self.of.remove(&peer) } else { self.of.insert(peer, share) };
        let before = before.unwrap_or_default();
        self.all.count = self.all.count - before.count + share.count;
        self.all.bytes = self.all.bytes - before.bytes + share.bytes;
        self.by_count.remove(&(before.count, peer));
        if share.count > 0 {
            self.by_count.insert((share.count, peer));
        }
    }

    /// Whose oldest goes for one more of this peer's, where all have room for so many: its own if it has a quarter of that room, else that of
    /// whoever has most. So what strangers bring evicts nothing of a peer that has less than they.
    pub(crate) fn gives_way(&self, newest: NodeId, room: usize) -> Option<NodeId> {
        const PARTS: usize = 4;
        if self.of(newest) >= (room / PARTS).max(1) {
            return Some(newest);
        }
        self.by_count.last().map(|(_, peer)| *peer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_its_share_gives_way_itself_and_else_whoever_has_most() {
        let mut shares = Shares::default();
        let [few, many, new] = [1, 2, 3].map(NodeId);
        shares.add(few);
        for _ in 0..7 {
            shares.add(many);
        }
        assert_eq!([few, many, new].map(|peer| shares.gives_way(peer, 8)), [Some(many); 3]);
        shares.add(few);
        assert_eq!(shares.gives_way(few, 8), Some(few), "it has a quarter");
        for _ in 0..9 {
            shares.remove(many);
        }
        assert_eq!((shares.of(many), shares.all(), shares.gives_way(new, 8)), (0, 2, Some(few)));
        shares.remove(few);
        shares.remove(few);
        assert_eq!((shares.all(), shares.gives_way(new, 8)), (0, None));
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
        shares.forget(one);
        assert_eq!((shares.of(one), shares.all(), shares.all_bytes()), (0, 1, 1));
    }
}
