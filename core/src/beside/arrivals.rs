//! What arrived at a callee before it was asked for, and who waits for what.

use alloc::{collections::BTreeMap, vec::Vec};
use catena_wire::NodeId;
use core::net::IpAddr;

use super::{
    Piece,
    pieces::{Key, Pieces},
};
use crate::{Time, collections::Expiring};

/// Limit on remembered pieces that came and found no room.
const DROPPED_MAX: usize = 256;

/// A callee's side of pushes. `B` is the type of a piece's bytes, `W` of whoever waits for one.
#[derive(Debug)]
pub struct Arrivals<B, W> {
    /// Pieces that nobody has asked for yet.
    here: Pieces<B>,
    waiting: BTreeMap<Key, Vec<(u64, W)>>,
    last: u64,
    dropped: Expiring<Key, ()>,
}

/// What is to be done with a piece that came.
#[derive(PartialEq, Eq, Debug)]
pub enum Came<B, W> {
    /// These waiters asked for it.
    For(B, Vec<W>),
    /// It is kept.
    Kept,
    /// There is no room for it: whoever needs it has to ask for it.
    Dropped,
}

impl<B, W> Default for Arrivals<B, W> {
    fn default() -> Self {
        Self { here: Pieces::default(), waiting: BTreeMap::new(), last: 0, dropped: Expiring::default() }
    }
}

impl<B, W> Arrivals<B, W> {
    /// From which address a node is linked from now on; `None`: it is a process of this machine, or not linked any more. See [`crate::Node::on_linked`].
    pub fn on_linked(&mut self, node: NodeId, address: Option<IpAddr>) {
        self.here.parties.linked(node, address);
    }

    /// Somebody here needs a piece, and READs it. Returns the piece if it is here already; else the waiter is kept under a number.
    ///
    /// # Errors
    /// The waiter's number: the piece is not here.
    pub fn take(&mut self, now: Time, owner: NodeId, piece: Piece, waiter: W) -> Result<B, u64> {
        drop(self.on_timeout(now));
        if let Some(bytes) = self.here.take(&(owner, piece)) {
            return Ok(bytes);
        }
        self.last += 1;
        self.waiting.entry((owner, piece)).or_default().push((self.last, waiter));
        Err(self.last)
    }

    /// Nobody waits under this number any more.
    pub fn give_up(&mut self, owner: NodeId, piece: Piece, number: u64) {
        let key = (owner, piece);
        if let Some(waiting) = self.waiting.get_mut(&key) {
            waiting.retain(|(other, _)| *other != number);
            if waiting.is_empty() {
                self.waiting.remove(&key);
            }
        }
    }

    /// A piece has come from its owner. `keep` turns it into what is kept if the piece has to wait, and returns `None` if there is no memory for that.
    pub fn came<R>(
        &mut self,
        now: Time,
        (owner, piece): (NodeId, Piece),
        bytes: R,
        keep: impl FnOnce(R) -> Option<B>,
    ) -> Came<R, W> {
        drop(self.on_timeout(now));
        let key = (owner, piece);
        if let Some(waiting) = self.waiting.remove(&key) {
            return Came::For(bytes, waiting.into_iter().map(|(_, waiter)| waiter).collect());
        }
        if self.here.keep(now, key, || keep(bytes)) {
            return Came::Kept;
        }
        let party = self.here.parties.of(owner);
        self.dropped.renew(now, party, key, DROPPED_MAX, || ());
        Came::Dropped
    }

    /// Whether a piece, which its owner says it has pushed, came and found no room: it will not come again by itself. Reported once.
    pub fn was_dropped(&mut self, owner: NodeId, piece: Piece) -> bool {
        self.dropped.remove(&(owner, piece)).is_some()
    }

    /// Drops and returns the pieces that nobody has asked for in time; of very many some stay until it is called again.
    pub fn on_timeout(&mut self, now: Time) -> Vec<B> {
        self.here.expired(now)
    }

    /// How many pieces nobody has asked for yet, and how many waiters there are.
    #[must_use]
    pub fn load(&self) -> (usize, usize) {
        (self.here.len(), self.waiting.values().map(Vec::len).sum())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{
        super::{PUSHED_BYTES_PER_PEER_MAX, PUSHED_LASTS_US, PUSHED_PIECES_PER_PEER_MAX},
        *,
    };
    use crate::collections::AT_ONCE_MAX;

    const NOW: Time = Time::from_us(5);
    const OWNER: NodeId = NodeId(1);
    const LIAR: NodeId = NodeId(2);

    type Machine = Arrivals<u64, char>;

    fn piece(offset: u64) -> Piece {
        Piece { number: 1, generation: 2, grant: 3, offset, count: 1 << 20 }
    }

    fn came(machine: &mut Machine, now: Time, owner: NodeId, offset: u64) -> Came<u64, char> {
        machine.came(now, (owner, piece(offset)), offset, Some)
    }

    #[test]
    fn a_piece_meets_whoever_needs_it_in_either_order() {
        let mut machine = Machine::default();
        assert_eq!(came(&mut machine, NOW, OWNER, 7), Came::Kept);
        assert!(machine.take(NOW, LIAR, piece(7), 'a').is_err(), "another owner's");
        assert_eq!(machine.take(NOW, OWNER, piece(7), 'b'), Ok(7));
        let number = machine.take(NOW, OWNER, piece(7), 'c').unwrap_err();
        let second = machine.take(NOW, OWNER, piece(7), 'd').unwrap_err();
        assert_ne!(number, second);
        machine.give_up(OWNER, piece(7), number);
        assert_eq!(came(&mut machine, NOW, OWNER, 7), Came::For(7, alloc::vec!['d']));
        machine.give_up(OWNER, piece(7), second);
        assert_eq!(came(&mut machine, NOW, OWNER, 7), Came::Kept, "nobody waits any more");
        assert_eq!(machine.load(), (1, 1));
    }

    #[test]
    fn what_an_owner_pushes_unasked_is_bounded_in_bytes_and_time() {
        let mut machine = Machine::default();
        let mut kept = |now, owner| (0..50).filter(|at| came(&mut machine, now, owner, *at) == Came::Kept).count();
        assert_eq!(kept(NOW, LIAR) as u64, PUSHED_BYTES_PER_PEER_MAX >> 20);
        assert_eq!(kept(NOW, LIAR), 0, "nor twice the same");
        assert_eq!(kept(NOW, OWNER), 8, "others have their own");
        assert!(machine.was_dropped(OWNER, piece(8)) && !machine.was_dropped(OWNER, piece(8)));
        assert!(!machine.was_dropped(OWNER, piece(7)));
        let later = NOW.after(PUSHED_LASTS_US);
        assert_eq!(machine.on_timeout(later).len(), 16);
        assert_eq!((machine.load(), machine.here.shares.all_bytes()), ((0, 0), 0));
        assert_eq!(machine.came(later, (OWNER, piece(1)), 1, |_| None), Came::Dropped, "no memory");
        for offset in 0..2_000 {
            let small = Piece { count: 0, ..piece(offset) };
            machine.came(later, (LIAR, small), 0, Some);
        }
        assert!(machine.was_dropped(OWNER, piece(1)), "others' are remembered");
        assert_eq!(machine.dropped.expired(later, 0).len(), DROPPED_MAX - 1);
        assert!(machine.here.len() <= PUSHED_PIECES_PER_PEER_MAX);
    }

    #[test]
    fn owners_at_one_address_have_one_share_together() {
        let mut machine = Machine::default();
        let crowd = (100..150).map(NodeId);
        crowd.clone().for_each(|node| machine.on_linked(node, Some([192, 0, 2, 1].into())));
        let kept = crowd.filter(|owner| came(&mut machine, NOW, *owner, 7) == Came::Kept).count();
        assert_eq!(kept as u64, PUSHED_BYTES_PER_PEER_MAX >> 20);
        assert_eq!(came(&mut machine, NOW, OWNER, 7), Came::Kept);
    }

    /// However many pieces are here, one that comes waits for few of them.
    #[test]
    fn a_flood_that_is_old_goes_in_parts() {
        let mut machine = Machine::default();
        let small = Piece { count: 0, ..piece(0) };
        for owner in 0..AT_ONCE_MAX as u64 + 2 {
            assert_eq!(machine.came(NOW, (NodeId(owner), small), 0, Some), Came::Kept);
        }
        let later = NOW.after(PUSHED_LASTS_US);
        assert_eq!(machine.came(later, (OWNER, piece(1)), 0, Some), Came::Kept);
        assert_eq!(machine.load().0, 3, "two of the old ones, and it");
        assert_eq!(machine.on_timeout(later).len(), 2);
    }
}
