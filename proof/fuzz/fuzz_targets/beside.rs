//! What goes beside calls is pushed and asked for by peers, in any order and number: a piece that somebody waits for reaches
//! all who do, one that was pushed is sent again only to whoever asks twice, and no partner takes more than its part.
#![no_main]

use std::collections::BTreeMap;

use arbitrary::Arbitrary;
use catena_core::{
    Time,
    beside::{
        Arrivals, Came, PUSH_BYTES_MAX, PUSHED_BYTES_PER_PEER_MAX, PUSHED_LASTS_US, PUSHED_PIECES_PER_PEER_MAX, Piece,
        Pushed,
    },
};
use catena_wire::{At, NodeId};
use libfuzzer_sys::fuzz_target;

const PEERS: u8 = 3;
/// Pieces that an owner remembers: `pushed.rs`.
const PIECES_MAX: usize = 4_096;

#[derive(Arbitrary, Debug)]
enum Operation {
    /// Time goes on, in units of a tenth of what a push lasts.
    Wait(u8),
    /// Somebody here needs a piece.
    Take(u8, Part),
    /// The oldest who waits gives up.
    GiveUp,
    /// A peer pushes a piece to this node; there is memory for it, or not.
    Came(u8, Part, bool),
    /// A peer says that it has pushed it.
    Dropped(u8, Part),
    /// This node pushes a range to a peer.
    Push(u8, Range),
    /// A peer asks for a piece.
    Read(u8, Part),
    LinkLost(u8),
}

/// A piece, of so few that they meet.
#[derive(Arbitrary, Clone, Copy, Debug)]
struct Part {
    offset: u8,
    mebibytes: u8,
}

#[derive(Arbitrary, Debug)]
struct Range {
    offset: u64,
    bytes: u64,
    grant: Option<u64>,
    piece_bytes: u32,
}

fn node(peer: u8) -> NodeId {
    NodeId(u64::from(peer % PEERS) + 1)
}

fn piece(part: Part) -> Piece {
    let count = (u32::from(part.mebibytes % 4) << 20) + 1;
    Piece { number: 1, generation: 2, grant: 3, offset: u64::from(part.offset), count }
}

#[derive(Default)]
struct World {
    now_us: u64,
    here: Arrivals<Piece, u64>,
    /// Who waits for which piece, by the number that he was given.
    waiting: BTreeMap<u64, (NodeId, Piece)>,
    pushed: Pushed,
}

impl World {
    fn now(&self) -> Time {
        Time::from_us(self.now_us)
    }

    fn does(&mut self, operation: Operation) {
        let now = self.now();
        match operation {
            Operation::Wait(tenths) => self.now_us += u64::from(tenths) * PUSHED_LASTS_US / 10,
            Operation::Take(peer, part) => self.take(node(peer), piece(part)),
            Operation::GiveUp => {
                if let Some((number, (owner, piece))) = self.waiting.pop_first() {
                    self.here.give_up(owner, piece, number);
                }
            }
            Operation::Came(peer, part, room) => self.came(node(peer), piece(part), room),
            Operation::Dropped(peer, part) => {
                let (owner, piece) = (node(peer), piece(part));
                while self.here.was_dropped(owner, piece) {}
                assert!(!self.here.was_dropped(owner, piece), "told once");
            }
            Operation::Push(peer, Range { offset, bytes, grant, piece_bytes }) => {
                let at = At { number: 1, generation: 2, offset, grant };
                // As many as a node pushes at one time.
                for piece in Piece::pushed_of(at, bytes, piece_bytes.max(64 << 10)) {
                    assert!(piece.offset >= offset && piece.offset - offset < PUSH_BYTES_MAX, "{piece:?}");
                    assert!(Piece::of(&piece.at(), piece.count) == Some(piece));
                    if self.pushed.push(now, node(peer), piece) {
                        assert!(!self.pushed.push(now, node(peer), piece), "it is under way");
                        // Told by the callee's READ, or by nothing: both happen.
                        if piece.offset % 2 == 0 {
                            assert!(!self.pushed.read(now, node(peer), piece), "it was pushed");
                            assert!(self.pushed.read(now, node(peer), piece), "asked for again, it is sent");
                        }
                    }
                }
            }
            Operation::Read(peer, part) => {
                let was_pushed = !self.pushed.read(now, node(peer), piece(part));
                assert!(!was_pushed || self.pushed.read(now, node(peer), piece(part)), "asked for again, it is sent");
            }
            Operation::LinkLost(peer) => self.pushed.on_link_lost(node(peer)),
        }
        let ((pieces, waiting), (under_way, bytes)) = (self.here.load(), self.pushed.load());
        assert!(pieces <= PUSHED_PIECES_PER_PEER_MAX * usize::from(PEERS) && under_way <= PIECES_MAX);
        assert!(bytes <= PUSHED_BYTES_PER_PEER_MAX * u64::from(PEERS), "{bytes} bytes are under way");
        assert_eq!(waiting, self.waiting.len());
    }

    fn take(&mut self, owner: NodeId, piece: Piece) {
        let now = self.now();
        // The machine's next number is not known before it gives it: whoever waits is told apart by who waits already.
        let mark = self.waiting.keys().next_back().map_or(0, |last| last + 1);
        match self.here.take(now, owner, piece, mark) {
            Ok(there) => assert_eq!(there, piece),
            Err(number) => assert!(self.waiting.insert(number, (owner, piece)).is_none(), "{number} waits already"),
        }
    }

    fn came(&mut self, owner: NodeId, piece: Piece, room: bool) {
        let now = self.now();
        let expected = self.waiting.values().filter(|of| **of == (owner, piece)).count();
        match self.here.came(now, (owner, piece), piece, |piece| room.then_some(piece)) {
            Came::For(there, waiters) => {
                assert!(there == piece && waiters.len() == expected && expected > 0);
                self.waiting.retain(|_, of| *of != (owner, piece));
            }
            Came::Kept => assert!(room && expected == 0),
            Came::Dropped => {
                assert_eq!(expected, 0, "somebody waits for it");
                assert!(self.here.was_dropped(owner, piece));
            }
        }
    }
}

fuzz_target!(|operations: Vec<Operation>| {
    let mut world = World::default();
    for operation in operations {
        world.does(operation);
    }
    // What nobody asks for is given back in its time.
    world.now_us += PUSHED_LASTS_US;
    drop(world.here.on_timeout(world.now()));
    assert_eq!(world.here.load().0, 0);
});
