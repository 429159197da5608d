//! What an owner has pushed, and to whom.

use catena_wire::NodeId;
use core::net::IpAddr;

use super::{
    Piece,
    pieces::{Key, Pieces},
};
use crate::{Time, collections::Timers};

/// Limit on remembered pieces that were pushed, and also on those that were asked for.
const PIECES_MAX: usize = 4_096;
/// How long an owner remembers that a piece was asked for, microseconds: a request to push the piece may come that much later.
const ASKED_LASTS_US: u64 = 2_000_000;

/// An owner's memory of its pushes.
#[derive(Debug, Default)]
pub struct Pushed {
    /// Pieces of which a READ is answered by saying that they were pushed.
    pushed: Pieces<()>,
    /// Until when a piece that was asked for is not pushed any more.
    asked: Timers<Key>,
}

impl Pushed {
    /// From which address a node is linked from now on; `None`: it is a process of this machine, or not linked any more. See [`crate::Node::on_linked`].
    pub fn on_linked(&mut self, node: NodeId, address: Option<IpAddr>) {
        self.pushed.parties.linked(node, address);
    }

    /// Whether to push a piece to this callee now, because it was not asked for yet. If so, the caller has to send it.
    pub fn push(&mut self, now: Time, to: NodeId, piece: Piece) -> bool {
        self.forget_old(now);
        let key = (to, piece);
        self.asked.at(&key).is_none() && self.pushed.len() < PIECES_MAX && self.pushed.keep(now, key, || Some(()))
    }

    /// Whether a READ has to be answered with the bytes. If not, the bytes are on their way, and a second READ of them will have to be answered with them.
    pub fn read(&mut self, now: Time, from: NodeId, piece: Piece) -> bool {
        self.forget_old(now);
        let key = (from, piece);
        let was_pushed = self.pushed.take(&key).is_some();
        if self.asked.at(&key).is_none() && self.asked.len() < PIECES_MAX {
            self.asked.set(key, now.after(ASKED_LASTS_US));
        }
        !was_pushed
    }

    /// What was on its way to a node may be lost with its link.
    pub fn on_link_lost(&mut self, node: NodeId) {
        self.pushed.forget(node);
        self.asked.retain(|(to, _)| *to != node);
    }

    /// How many pieces are remembered that were pushed and not asked for, and their bytes.
    #[must_use]
    pub fn load(&self) -> (usize, u64) {
        (self.pushed.len(), self.pushed.shares.all_bytes())
    }

    fn forget_old(&mut self, now: Time) {
        self.pushed.expired(now);
        while self.asked.take_due(now).is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::{super::PUSHED_BYTES_PER_PEER_MAX, super::PUSHED_LASTS_US, *};
    use catena_wire::At;

    const NOW: Time = Time::from_us(5);
    const CALLEE: NodeId = NodeId(1);
    const OTHER: NodeId = NodeId(2);

    fn piece(offset: u64, count: u32) -> Piece {
        Piece { number: 1, generation: 2, grant: 3, offset, count }
    }

    #[test]
    fn each_piece_goes_once_whoever_asks_first() {
        let mut machine = Pushed::default();
        assert!(machine.push(NOW, CALLEE, piece(0, 10)));
        assert!(!machine.push(NOW, CALLEE, piece(0, 10)), "the hop was sent again");
        assert!(machine.read(NOW, OTHER, piece(0, 10)), "it went to somebody else");
        assert!(machine.read(NOW, CALLEE, piece(0, 9)), "it is another piece");
        assert!(!machine.read(NOW, CALLEE, piece(0, 10)), "it is on its way");
        assert_eq!(machine.load(), (0, 0));
        assert!(machine.read(NOW, CALLEE, piece(0, 10)), "the callee has it no more, or never got it");
        assert!(!machine.push(NOW, CALLEE, piece(0, 10)), "it was asked for");
        assert!(machine.read(NOW, CALLEE, piece(10, 10)));
        assert!(!machine.push(NOW, CALLEE, piece(10, 10)), "the READ was first");
    }

    #[test]
    fn what_one_callee_is_pushed_is_bounded_in_bytes_and_time() {
        let (mut machine, count) = (Pushed::default(), 1 << 20);
        let goes = |machine: &mut Pushed, now, offset| machine.push(now, CALLEE, piece(offset, count));
        let went = (0..20).filter(|at| goes(&mut machine, NOW, at << 20)).count();
        assert_eq!(went as u64, PUSHED_BYTES_PER_PEER_MAX >> 20);
        assert!(machine.push(NOW, OTHER, piece(0, count)), "others have their own");
        assert!(!machine.read(NOW, CALLEE, piece(0, count)), "what is asked for makes room");
        assert!(goes(&mut machine, NOW, 100 << 20) && !goes(&mut machine, NOW, 101 << 20));
        let later = NOW.after(PUSHED_LASTS_US);
        assert!(goes(&mut machine, later, 102 << 20));
        assert_eq!(machine.load(), (1, 1 << 20));
        assert!(machine.read(later, CALLEE, piece(1 << 20, count)), "what was pushed long ago is sent again");
        machine.on_link_lost(CALLEE);
        assert_eq!(machine.load(), (0, 0));
        assert!(goes(&mut machine, later, 102 << 20), "a new link has brought nothing yet");
        // However many ask, no more is remembered than there is room for.
        for number in 0..3 * PIECES_MAX as u64 {
            machine.read(later, NodeId(number), piece(number, 1));
            machine.push(later, NodeId(number), piece(0, 1));
        }
        assert!(machine.asked.len() <= PIECES_MAX && machine.pushed.len() <= PIECES_MAX);
        assert!(machine.pushed.shares.all() <= PIECES_MAX);
    }

    #[test]
    fn callees_at_one_address_have_one_share_together() {
        let mut machine = Pushed::default();
        let crowd = (100..150).map(NodeId);
        crowd.clone().for_each(|node| machine.on_linked(node, Some([192, 0, 2, 1].into())));
        let went = crowd.filter(|to| machine.push(NOW, *to, piece(0, 1 << 20))).count();
        assert_eq!(went as u64, PUSHED_BYTES_PER_PEER_MAX >> 20);
        assert!(machine.push(NOW, OTHER, piece(0, 1 << 20)));
        // The share stays with the address, even if a node's link to it is known no more.
        machine.on_linked(NodeId(100), None);
        machine.on_link_lost(NodeId(100));
        let goes = |machine: &mut Pushed, at: u64| machine.push(NOW, NodeId(101), piece(at << 20, 1 << 20));
        assert!(goes(&mut machine, 1) && !goes(&mut machine, 2));
    }

    #[test]
    fn a_range_is_pushed_in_the_pieces_that_it_is_read_in() {
        let at = At { number: 1, generation: 2, offset: 100, grant: Some(3) };
        let pieces = |at, bytes| Piece::pushed_of(at, bytes, 1_000).map(|piece| (piece.offset, piece.count)).collect();
        let all: alloc::vec::Vec<(u64, u32)> = pieces(at, 2_500);
        assert_eq!(all, [(100, 1_000), (1_100, 1_000), (2_100, 500)]);
        assert_eq!(pieces(at, 1_000), [(100, 1_000)]);
        assert!(pieces(at, 0).is_empty() && pieces(At { grant: None, ..at }, 100).is_empty());
        assert_eq!(pieces(At { offset: u64::MAX - 1_500, ..at }, u64::MAX).len(), 2);
        let most: u64 = pieces(at, u64::MAX).iter().map(|(_, count)| u64::from(*count)).sum();
        assert_eq!(most, super::super::PUSH_BYTES_MAX);
    }
}
