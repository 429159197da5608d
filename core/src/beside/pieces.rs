//! Pieces that were pushed and not asked for yet: of both sides of a push, each within the share of the other side's party, and until its time is over.

use alloc::{collections::BTreeMap, vec::Vec};
use catena_wire::NodeId;

use super::{PUSHED_BYTES_PER_PEER_MAX, PUSHED_LASTS_US, PUSHED_PIECES_PER_PEER_MAX, Piece};
use crate::{
    Time,
    collections::{AT_ONCE_MAX, Parties, Party, Shares, Timers},
};

/// The node at the other side, and what was pushed.
pub(super) type Key = (NodeId, Piece);

#[derive(Debug)]
pub(super) struct Pieces<V> {
    pub(super) parties: Parties,
    by_key: BTreeMap<Key, (Party, V)>,
    until: Timers<Key>,
    pub(super) shares: Shares<Party>,
}

impl<V> Default for Pieces<V> {
    fn default() -> Self {
        let (parties, by_key) = (Parties::default(), BTreeMap::new());
        Self { parties, by_key, until: Timers::default(), shares: Shares::default() }
    }
}

impl<V> Pieces<V> {
    /// Keeps a piece if there is room for it and `make` returns what is kept of it. Returns whether it is kept.
    pub(super) fn keep(&mut self, now: Time, key: Key, make: impl FnOnce() -> Option<V>) -> bool {
        let (party, bytes) = (self.parties.of(key.0), u64::from(key.1.count));
        let room = self.shares.of(party) < PUSHED_PIECES_PER_PEER_MAX
            && self.shares.bytes_of(party) + bytes <= PUSHED_BYTES_PER_PEER_MAX
            && !self.has(&key);
        let Some(value) = room.then(make).flatten() else { return false };
        self.by_key.insert(key, (party, value));
        self.until.set(key, now.after(PUSHED_LASTS_US));
        self.shares.add_sized(party, bytes);
        true
    }

    pub(super) fn has(&self, key: &Key) -> bool {
        self.by_key.contains_key(key)
    }

    pub(super) fn take(&mut self, key: &Key) -> Option<V> {
        self.until.clear(key);
        let (party, value) = self.by_key.remove(key)?;
        self.shares.remove_sized(party, key.1.count.into());
        Some(value)
    }

    /// Drops and returns those whose time is over: [`AT_ONCE_MAX`] of them at most.
    pub(super) fn expired(&mut self, now: Time) -> Vec<V> {
        let over: Vec<Key> = core::iter::from_fn(|| self.until.take_due(now)).take(AT_ONCE_MAX).collect();
        over.iter().filter_map(|key| self.take(key)).collect()
    }

    /// Drops those of one node.
    pub(super) fn forget(&mut self, node: NodeId) {
        let of_node: Vec<Key> = self.by_key.keys().filter(|(other, _)| *other == node).copied().collect();
        of_node.iter().for_each(|key| drop(self.take(key)));
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }
}
