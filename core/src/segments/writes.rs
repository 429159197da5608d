//! Writes that were sent and are not known to be done: counted, so that each keeps its turn, and bounded.

use alloc::collections::{BTreeMap, VecDeque};

use catena_wire::{NodeId, SegmentRefusal};

use super::imports::{ImportId, RefusedWrite};

/// What even an empty write takes of the bytes that may be under way.
const WRITE_COST_BYTES: u64 = 64;

/// Writes to one owner.
#[derive(Clone, Debug, Default)]
struct Stream {
    link: u64,
    next: u64,
    flushed: u64,
    under_way: VecDeque<UnderWay>,
    bytes: u64,
    /// A flush to make room is under way.
    making_room: bool,
}

#[derive(Clone, Debug)]
struct UnderWay {
    turn: u64,
    import: ImportId,
    offset: u64,
    /// Its bytes, and [`WRITE_COST_BYTES`] more.
    bytes: u64,
}

pub(super) struct Begun {
    /// `None`: there is no room for it now.
    pub(super) turn: Option<u64>,
    /// How many writes a flush has to cover to make room, if one is needed and none is under way.
    pub(super) make_room: Option<u64>,
}

#[derive(Clone, Debug)]
pub(super) struct Writes {
    bytes_max: u64,
    by_owner: BTreeMap<NodeId, Stream>,
}

impl Writes {
    pub(super) const fn new(bytes_max: u64) -> Self {
        Self { bytes_max, by_owner: BTreeMap::new() }
    }

    /// Gives a write its turn. On a new link turns begin anew: writes on the old one are lost with it.
    pub(super) fn begin(
        &mut self,
        (owner, link): (NodeId, u64),
        import: ImportId,
        (offset, bytes): (u64, u64),
    ) -> Begun {
        let stream = self.by_owner.entry(owner).or_default();
        if stream.link != link {
            *stream = Stream { link, ..Stream::default() };
        }
        let bytes = bytes + WRITE_COST_BYTES;
        let room = stream.bytes == 0 || stream.bytes + bytes <= self.bytes_max;
        let turn = room.then_some(stream.next);
        if let Some(turn) = turn {
            stream.next += 1;
            stream.bytes += bytes;
            stream.under_way.push_back(UnderWay { turn, import, offset, bytes });
        }
        let make_room = !stream.making_room && (!room || stream.bytes > self.bytes_max / 2);
        stream.making_room |= make_room;
        Begun { turn, make_room: make_room.then_some(stream.next) }
    }

    /// The first `upto` writes were done, or refused.
    pub(super) fn done_upto(&mut self, by: (NodeId, u64), upto: u64) {
        let Some(stream) = self.stream(by) else { return };
        stream.flushed = stream.flushed.max(upto);
        while let Some(write) = stream.under_way.pop_front_if(|write| write.turn < upto) {
            stream.bytes -= write.bytes;
        }
    }

    /// A flush to make room has ended.
    pub(super) fn room_made(&mut self, by: (NodeId, u64)) {
        if let Some(stream) = self.stream(by) {
            stream.making_room = false;
        }
    }

    /// The write of this turn was refused for this reason. Returns it, and to which import it went.
    pub(super) fn refused(
        &mut self,
        by: (NodeId, u64),
        turn: u64,
        why: SegmentRefusal,
    ) -> Option<(ImportId, RefusedWrite)> {
        let under_way = &self.stream(by)?.under_way;
        let at = under_way.binary_search_by_key(&turn, |write| write.turn).ok()?;
        let UnderWay { import, offset, bytes, .. } = *under_way.get(at)?;
        Some((import, RefusedWrite { turn, offset, bytes: bytes - WRITE_COST_BYTES, why }))
    }

    /// What was sent over a lost link may not have been done.
    pub(super) fn on_link_lost(&mut self, link: u64) {
        self.by_owner.retain(|_, stream| stream.link != link);
    }

    /// Whether writes to this owner go by this link.
    pub(super) fn go_by(&self, (owner, link): (NodeId, u64)) -> bool {
        self.by_owner.get(&owner).is_some_and(|stream| stream.link == link)
    }

    /// Whether some of the first `upto` writes may not have been done yet.
    pub(super) fn are_under_way(&self, owner: NodeId, upto: u64) -> bool {
        self.by_owner.get(&owner).is_some_and(|stream| stream.flushed < upto)
    }

    pub(super) fn bytes_to(&self, owner: NodeId) -> u64 {
        self.by_owner.get(&owner).map_or(0, |stream| stream.bytes)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.by_owner.values().map(|stream| stream.bytes).sum()
    }

    fn stream(&mut self, (owner, link): (NodeId, u64)) -> Option<&mut Stream> {
        self.by_owner.get_mut(&owner).filter(|stream| stream.link == link)
    }
}
