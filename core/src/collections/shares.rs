//! How much of something each peer has, so that none of them takes what all need.

use alloc::collections::{BTreeMap, BTreeSet};
use catena_wire::NodeId;

#[derive(Clone, Debug, Default)]
pub(crate) struct Shares {
    of: BTreeMap<NodeId, usize>,
    by_size: BTreeSet<(usize, NodeId)>,
    all: usize,
}

impl Shares {
    /// What all have together.
    pub(crate) const fn all(&self) -> usize {
        self.all
    }

    pub(crate) fn of(&self, peer: NodeId) -> usize {
        self.of.get(&peer).copied().unwrap_or_default()
    }

    /// One more.
    pub(crate) fn add(&mut self, peer: NodeId) {
        self.set(peer, self.of(peer) + 1);
        self.all += 1;
    }

    /// One less of what it has.
    pub(crate) fn remove(&mut self, peer: NodeId) {
        if let Some(left) = self.of(peer).checked_sub(1) {
            self.set(peer, left);
            self.all -= 1;
        }
    }

    fn set(&mut self, peer: NodeId, size: usize) {
        let before = if size == 0 { self.of.remove(&peer) } else { self.of.insert(peer, size) };
        if let Some(before) = before {
            self.by_size.remove(&(before, peer));
        }
        if size > 0 {
            self.by_size.insert((size, peer));
        }
    }

    /// Whose oldest goes for one more of this peer's, where all have room for so many: its own if it has a quarter of that room, else that of
    /// whoever has most. So what strangers bring evicts nothing of a peer that has less than they.
    pub(crate) fn gives_way(&self, newest: NodeId, room: usize) -> Option<NodeId> {
        const PARTS: usize = 4;
        if self.of(newest) >= (room / PARTS).max(1) {
            return Some(newest);
        }
        self.by_size.last().map(|(_, peer)| *peer)
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
}
