//! Segments of other nodes: what was imported, what was asked and not answered yet, what was written and not flushed.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};
use bytes::Bytes;

use catena_wire::{At, Buffer, NodeId, Order, SegmentEntry, SegmentMessage, SegmentRefusal};

use super::policy::SegmentPolicy;
use crate::Time;

/// Deadlines are looked at no more often than this, microseconds.
const SWEEP_US: u64 = 10_000;

/// Refused writes of one import that are remembered until a flush.
const REFUSALS_MAX: usize = 16;

/// An imported segment, by its number here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ImportId {
    index: u32,
    round: u32,
}

/// What is known of an imported segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Import {
    /// The run of the node that owns it.
    pub owner: NodeId,
    /// As it described it.
    pub entry: SegmentEntry,
    /// By this grant, not by rights of one's own.
    pub grant: Option<u64>,
    /// Why it can be used no more, if so.
    pub stale: Option<SegmentRefusal>,
    /// Where the owner's registry has it, if it was found there.
    pub slot: Option<u32>,
}

#[derive(Debug)]
struct Imported {
    import: Import,
    users: u32,
    /// The last write: the link, and how many writes of that link it and those before are.
    last: Option<(u64, u64)>,
    /// Writes that were refused and of which no flush has told: turn and reason.
    refused: Vec<(u64, SegmentRefusal)>,
    round: u32,
}

impl Imported {
    /// For the flush that covers it. Of too many the last stands for all: the flush that covers that one says so.
    fn note_refusal(&mut self, turn: u64, why: SegmentRefusal) {
        if self.refused.len() == REFUSALS_MAX {
            self.refused.pop();
        }
        self.refused.push((turn, why));
    }
}

/// What came of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Bytes.
    Data(Bytes),
    /// Bytes that lie in memory that is lent to this node, until it says that it has taken what has this number.
    Lent(u64, Buffer),
    /// What was in the word.
    Was(u64),
    /// All writes before are done.
    Flushed,
    /// A segment.
    Entry(SegmentEntry),
    /// A ticket for the owner's door.
    Ticket(u128),
    /// How the owner's memory is reached.
    Reachable {
        /// What to tell the provider.
        token: Vec<u8>,
        /// Whether it may be written.
        write: bool,
    },
    /// Segments.
    Listing(Vec<SegmentEntry>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Read(u32),
    Cas,
    /// So many writes of its link.
    Flush(ImportId, u64),
    /// So many writes of this link, to make room.
    Room(u64, u64),
    Import,
    Attach,
    Reach,
    List,
}

#[derive(Debug)]
struct Request<W> {
    owner: NodeId,
    link: u64,
    kind: Kind,
    deadline: Time,
    /// `None`: nobody in particular.
    waiter: Option<W>,
}

#[derive(Debug)]
struct Place<T> {
    round: u32,
    held: Option<T>,
}

/// Writes to one owner.
#[derive(Debug, Default)]
struct Stream {
    link: u64,
    next: u64,
    flushed: u64,
    under_way: VecDeque<UnderWay>,
    bytes: u64,
    /// A flush to make room is under way.
    making_room: bool,
}

#[derive(Debug)]
struct UnderWay {
    turn: u64,
    import: ImportId,
    bytes: u64,
}

/// What to send, and to whom: by this link, since answers and turns belong to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asked {
    /// The request's number, by which it can be given up.
    pub id: u64,
    /// The message.
    pub message: SegmentMessage,
}

/// Why a write was not taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WriteRefused {
    /// Too much is written and not flushed: when some of it has been done, there is room. What to send to be told so, if it was not sent before.
    NoRoom(Option<Asked>),
    /// It cannot be done.
    Never(SegmentRefusal),
}

/// What this node does with segments of others.
#[derive(Debug)]
pub struct Importer<W> {
    policy: SegmentPolicy,
    imports: Vec<Place<Imported>>,
    free_imports: Vec<u32>,
    by_name: BTreeMap<(NodeId, Box<str>), ImportId>,
    requests: Vec<Place<Request<W>>>,
    free_requests: Vec<u32>,
    streams: BTreeMap<NodeId, Stream>,
    /// No deadline is before this.
    sweep_at: Option<Time>,
}

impl<W> Importer<W> {
    pub(super) const fn new(policy: SegmentPolicy) -> Self {
        Self {
            policy,
            imports: Vec::new(),
            free_imports: Vec::new(),
            by_name: BTreeMap::new(),
            requests: Vec::new(),
            free_requests: Vec::new(),
            streams: BTreeMap::new(),
            sweep_at: None,
        }
    }

    // Imports.

    /// What was imported from this owner under this name, if it is not stale: the local look-up of section 4.2. It has one user more by that.
    pub fn known(&mut self, owner: NodeId, name: &str) -> Option<ImportId> {
        // Asked for with a borrowed name, which a key of two parts does not allow.
        let id = *self.by_name.get(&(owner, name.into()))?;
        let imported = self.imported_mut(id).filter(|imported| imported.import.stale.is_none())?;
        imported.users += 1;
        Some(id)
    }

    /// Takes a segment in. One of the same name from the same owner is replaced by it: whoever uses that finds it stale, unless it is the same segment.
    ///
    /// # Errors
    /// [`SegmentRefusal::Overloaded`]: too many are imported.
    pub fn import(
        &mut self,
        owner: NodeId,
        entry: SegmentEntry,
        slot: Option<u32>,
        grant: Option<u64>,
    ) -> Result<ImportId, SegmentRefusal> {
        let key = (owner, Box::from(entry.name.as_str()));
        if grant.is_none()
            && let Some(id) = self.by_name.get(&key).copied()
            && let Some(known) = self.imported_mut(id)
        {
            let same = (known.import.entry.number, known.import.entry.generation) == (entry.number, entry.generation);
            if same && known.import.stale.is_none() {
                known.import.entry = entry;
                known.import.slot = slot.or(known.import.slot);
                known.users += 1;
                return Ok(id);
            }
            known.import.stale.get_or_insert(SegmentRefusal::Stale);
            self.by_name.remove(&key);
        }
        if self.imports.len() - self.free_imports.len() >= self.policy.imports_max {
            return Err(SegmentRefusal::Overloaded);
        }
        let index = self.free_imports.pop().unwrap_or_else(|| {
            self.imports.push(Place { round: 0, held: None });
            (self.imports.len() - 1) as u32
        });
        let place = &mut self.imports[index as usize];
        let id = ImportId { index, round: place.round };
        let by_name = grant.is_none();
        let import = Import { owner, entry, grant, stale: None, slot };
        place.held = Some(Imported { import, users: 1, last: None, refused: Vec::new(), round: place.round });
        if by_name {
            self.by_name.insert(key, id);
        }
        Ok(id)
    }

    /// One user less; after the last the segment is imported no more.
    pub fn release(&mut self, id: ImportId) {
        let Some(imported) = self.imported_mut(id) else { return };
        imported.users -= 1;
        if imported.users > 0 {
            return;
        }
        let key = (imported.import.owner, Box::from(imported.import.entry.name.as_str()));
        if self.by_name.get(&key) == Some(&id) {
            self.by_name.remove(&key);
        }
        let place = &mut self.imports[id.index as usize];
        place.held = None;
        place.round = place.round.wrapping_add(1);
        self.free_imports.push(id.index);
    }

    /// What is known of an import.
    #[must_use]
    pub fn get(&self, id: ImportId) -> Option<&Import> {
        self.imported(id).map(|imported| &imported.import)
    }

    /// All imports, for a refresh.
    pub fn all(&self) -> impl Iterator<Item = (ImportId, &Import)> {
        let held = self.imports.iter().zip(0_u32..).filter_map(|(place, index)| Some((index, place.held.as_ref()?)));
        held.map(|(index, imported)| (ImportId { index, round: imported.round }, &imported.import))
    }

    /// From now on every use of it fails here (section 4.1: after a refresh, stale entries fail at the source).
    pub fn purge(&mut self, id: ImportId, why: SegmentRefusal) {
        if let Some(imported) = self.imported_mut(id) {
            imported.import.stale.get_or_insert(why);
        }
    }

    fn imported(&self, id: ImportId) -> Option<&Imported> {
        let place = self.imports.get(id.index as usize).filter(|place| place.round == id.round)?;
        place.held.as_ref()
    }

    fn imported_mut(&mut self, id: ImportId) -> Option<&mut Imported> {
        let place = self.imports.get_mut(id.index as usize).filter(|place| place.round == id.round)?;
        place.held.as_mut()
    }

    // Requests.

    /// Begins a READ over this link. It is done after the writes to the same segment that went before. Whether this node takes lent bytes is for its shell to
    /// say, in the message.
    ///
    /// # Errors
    /// Why it is not even sent; the waiter comes back.
    #[allow(clippy::too_many_arguments, reason = "READ has as many operands in the paper")]
    pub fn read(
        &mut self,
        now: Time,
        (id, link): (ImportId, u64),
        offset: u64,
        count: u32,
        (notify, order): (bool, Order),
        waiter: W,
    ) -> Result<Asked, (SegmentRefusal, W)> {
        let (at, owner, after) = match self.check(id, link, offset, u64::from(count)) {
            Ok(checked) => checked,
            Err(why) => return Err((why, waiter)),
        };
        let message = |id| SegmentMessage::Read { id, at, count, notify, order, after, maps: false };
        self.ask(now, owner, link, Kind::Read(count), waiter, message)
    }

    /// Begins a CAS over this link, after the writes to the same segment that went before.
    ///
    /// # Errors
    /// Why it is not even sent; the waiter comes back.
    pub fn cas(
        &mut self,
        now: Time,
        (id, link): (ImportId, u64),
        (offset, width): (u64, u8),
        (old, new): (u64, u64),
        notify: bool,
        waiter: W,
    ) -> Result<Asked, (SegmentRefusal, W)> {
        let (at, owner, after) = match self.check(id, link, offset, u64::from(width)) {
            Ok(_) if !matches!(width, 4 | 8) || !offset.is_multiple_of(width.into()) => {
                return Err((SegmentRefusal::Unaligned, waiter));
            }
            Ok(checked) => checked,
            Err(why) => return Err((why, waiter)),
        };
        let message = |id| SegmentMessage::Cas { id, at, width, old, new, notify, after };
        self.ask(now, owner, link, Kind::Cas, waiter, message)
    }

    /// A WRITE over this link: counted, so that it keeps its turn. With it comes a flush to send after it, now and then, to make room.
    ///
    /// # Errors
    /// See [`WriteRefused`].
    pub fn write(
        &mut self,
        now: Time,
        (id, link): (ImportId, u64),
        offset: u64,
        data: Bytes,
        (notify, order): (bool, Order),
    ) -> Result<(SegmentMessage, Option<Asked>), WriteRefused> {
        let bytes = data.len() as u64;
        let (at, owner, _) = self.check(id, link, offset, bytes).map_err(WriteRefused::Never)?;
        if bytes > u64::from(self.policy.request_bytes_max) {
            return Err(WriteRefused::Never(SegmentRefusal::TooLarge(self.policy.request_bytes_max.into())));
        }
        let most = self.policy.unflushed_bytes_max;
        self.stream_over(owner, link);
        let Some(stream) = self.streams.get_mut(&owner) else { return Err(WriteRefused::NoRoom(None)) };
        // Empty writes are bounded too.
        let cost = bytes + 64;
        if stream.bytes > 0 && stream.bytes + cost > most {
            let (upto, make_room) = (stream.next, !stream.making_room);
            let flush = if make_room { self.make_room(now, owner, link, upto) } else { None };
            return Err(WriteRefused::NoRoom(flush));
        }
        let turn = stream.next;
        stream.next += 1;
        stream.bytes += cost;
        stream.under_way.push_back(UnderWay { turn, import: id, bytes: cost });
        let (upto, make_room) = (stream.next, stream.bytes > most / 2 && !stream.making_room);
        if let Some(imported) = self.imported_mut(id) {
            if imported.last.is_some_and(|(of, _)| of != link) {
                // What was written over a link that is lost may not have been done.
                imported.note_refusal(0, SegmentRefusal::OwnerLost);
            }
            imported.last = Some((link, upto));
        }
        let flush = if make_room { self.make_room(now, owner, link, upto) } else { None };
        Ok((SegmentMessage::Write { turn, at, notify, order, data }, flush))
    }

    fn make_room(&mut self, now: Time, owner: NodeId, link: u64, upto: u64) -> Option<Asked> {
        let kind = Kind::Room(link, upto);
        let asked = self.place(now, owner, link, kind, None, |id| SegmentMessage::Flush(id, upto))?;
        if let Some(stream) = self.streams.get_mut(&owner) {
            stream.making_room = true;
        }
        Some(asked)
    }

    /// Whether everything written to a segment is known to have been done: only then may it be reached by another way.
    #[must_use]
    pub fn is_flushed(&self, id: ImportId) -> bool {
        self.imported(id).is_some_and(|imported| imported.last.is_none() && imported.refused.is_empty())
    }

    /// A write could not be sent: its turn has to be passed on, by a write of nothing, and the next flush says so.
    pub fn not_sent(&mut self, id: ImportId) {
        if let Some(imported) = self.imported_mut(id) {
            let turn = imported.last.map_or(0, |(_, upto)| upto.saturating_sub(1));
            imported.note_refusal(turn, SegmentRefusal::Overloaded);
        }
    }

    /// Asks to be told when everything written to a segment has been done. `Ok(None)`: there is nothing to wait for; the waiter comes back.
    ///
    /// # Errors
    /// What was refused, or lost, since the last flush; the waiter comes back.
    pub fn flush(&mut self, now: Time, id: ImportId, waiter: W) -> Result<Result<Asked, W>, (SegmentRefusal, W)> {
        let Some(imported) = self.imported_mut(id) else { return Err((SegmentRefusal::Stale, waiter)) };
        let owner = imported.import.owner;
        let Some((link, upto)) = imported.last else {
            return match core::mem::take(&mut imported.refused).first() {
                Some((_, why)) => Err((*why, waiter)),
                None => Ok(Err(waiter)),
            };
        };
        let current = self.streams.get(&owner).is_some_and(|stream| stream.link == link);
        if !current {
            // Whether it was done nobody can say any more.
            let why = self.flushed(id, (link, upto)).unwrap_or(SegmentRefusal::OwnerLost);
            return Err((why, waiter));
        }
        let message = |id| SegmentMessage::Flush(id, upto);
        self.ask(now, owner, link, Kind::Flush(id, upto), waiter, message).map(Ok)
    }

    /// What was written to a segment up to there has been done, or refused: gives the first refusal.
    fn flushed(&mut self, id: ImportId, upto: (u64, u64)) -> Option<SegmentRefusal> {
        let imported = self.imported_mut(id)?;
        // What was written since waits for the next flush.
        imported.last = imported.last.filter(|last| *last != upto);
        let (told, later) = core::mem::take(&mut imported.refused).into_iter().partition(|(turn, _)| *turn < upto.1);
        imported.refused = later;
        let told: Vec<(u64, SegmentRefusal)> = told;
        told.first().map(|(_, why)| *why)
    }

    /// Asks an owner for the segment of a name.
    ///
    /// # Errors
    /// [`SegmentRefusal::Overloaded`]; the waiter comes back.
    pub fn look_up(
        &mut self,
        now: Time,
        (owner, link): (NodeId, u64),
        name: &str,
        waiter: W,
    ) -> Result<Asked, (SegmentRefusal, W)> {
        self.ask(now, owner, link, Kind::Import, waiter, |id| SegmentMessage::Import(id, name.into()))
    }

    /// Asks an owner which segments there are, from this number on.
    ///
    /// # Errors
    /// [`SegmentRefusal::Overloaded`]; the waiter comes back.
    pub fn list(
        &mut self,
        now: Time,
        (owner, link): (NodeId, u64),
        first: u32,
        waiter: W,
    ) -> Result<Asked, (SegmentRefusal, W)> {
        self.ask(now, owner, link, Kind::List, waiter, |id| SegmentMessage::List(id, first))
    }

    /// Asks an owner to share a segment's memory.
    ///
    /// # Errors
    /// Why it is not even sent; the waiter comes back.
    pub fn attach(
        &mut self,
        now: Time,
        (id, link): (ImportId, u64),
        host: u128,
        write: bool,
        waiter: W,
    ) -> Result<Asked, (SegmentRefusal, W)> {
        let (at, owner, _) = match self.check(id, link, 0, 0) {
            Ok(checked) => checked,
            Err(why) => return Err((why, waiter)),
        };
        let message = |id| SegmentMessage::Attach { id, at, host, write };
        self.ask(now, owner, link, Kind::Attach, waiter, message)
    }

    /// Asks an owner to let this node reach a segment's memory from here, by what both have.
    ///
    /// # Errors
    /// Why it is not even sent; the waiter comes back.
    pub fn reach(
        &mut self,
        now: Time,
        (id, link): (ImportId, u64),
        by: &str,
        write: bool,
        waiter: W,
    ) -> Result<Asked, (SegmentRefusal, W)> {
        let (at, owner, _) = match self.check(id, link, 0, 0) {
            Ok(checked) => checked,
            Err(why) => return Err((why, waiter)),
        };
        let message = |id| SegmentMessage::Reach { id, at, by: by.into(), write };
        self.ask(now, owner, link, Kind::Reach, waiter, message)
    }

    /// Nobody waits for this any more.
    pub fn give_up(&mut self, id: u64) {
        drop(self.take(id));
    }

    /// What the owner says. Gives who waited for it, and what came of it.
    pub fn on_answer(
        &mut self,
        from: NodeId,
        link: u64,
        message: SegmentMessage,
    ) -> Option<(W, Result<Answer, SegmentRefusal>)> {
        let id = match &message {
            SegmentMessage::NotWritten(turn, why) => {
                self.not_written(from, link, *turn, *why);
                return None;
            }
            SegmentMessage::Data(id, _)
            | SegmentMessage::Lent(id, ..)
            | SegmentMessage::Was(id, _)
            | SegmentMessage::Flushed(id)
            | SegmentMessage::Refused(id, _)
            | SegmentMessage::Imported(id, _)
            | SegmentMessage::Attached(id, _)
            | SegmentMessage::Reachable { id, .. }
            | SegmentMessage::Listing(id, _) => *id,
            _ => return None,
        };
        let asked = self.request(id).filter(|request| request.owner == from && request.link == link)?.kind;
        let request = self.take(id)?;
        if let Kind::Room(..) = asked {
            self.room_made(from, link);
        }
        let result = match (asked, message) {
            (_, SegmentMessage::Refused(_, why)) => Err(why),
            (Kind::Read(count), SegmentMessage::Data(_, data)) if data.len() == count as usize => {
                Ok(Answer::Data(data))
            }
            (Kind::Read(count), SegmentMessage::Lent(_, number, buffer)) if buffer.bytes == u64::from(count) => {
                Ok(Answer::Lent(number, buffer))
            }
            (Kind::Cas, SegmentMessage::Was(_, was)) => Ok(Answer::Was(was)),
            (Kind::Flush(import, upto), SegmentMessage::Flushed(_)) => {
                self.done_upto(from, link, upto);
                self.flushed(import, (link, upto)).map_or(Ok(Answer::Flushed), Err)
            }
            (Kind::Room(_, upto), SegmentMessage::Flushed(_)) => {
                self.done_upto(from, link, upto);
                return None;
            }
            (Kind::Import, SegmentMessage::Imported(_, entry)) => Ok(Answer::Entry(entry)),
            (Kind::Attach, SegmentMessage::Attached(_, ticket)) => Ok(Answer::Ticket(ticket)),
            (Kind::Reach, SegmentMessage::Reachable { token, write, .. }) => Ok(Answer::Reachable { token, write }),
            (Kind::List, SegmentMessage::Listing(_, entries)) => Ok(Answer::Listing(entries)),
            _ => Err(SegmentRefusal::BadAnswer),
        };
        Some((request.waiter?, result))
    }

    fn not_written(&mut self, from: NodeId, link: u64, turn: u64, why: SegmentRefusal) {
        let Some(stream) = self.streams.get(&from).filter(|stream| stream.link == link) else { return };
        let found = stream.under_way.binary_search_by_key(&turn, |write| write.turn);
        let Some(import) = found.ok().and_then(|at| stream.under_way.get(at)).map(|write| write.import) else { return };
        if let Some(imported) = self.imported_mut(import) {
            imported.note_refusal(turn, why);
        }
    }

    fn done_upto(&mut self, owner: NodeId, link: u64, upto: u64) {
        let Some(stream) = self.streams.get_mut(&owner).filter(|stream| stream.link == link) else { return };
        stream.flushed = stream.flushed.max(upto);
        while let Some(write) = stream.under_way.front().filter(|write| write.turn < upto) {
            stream.bytes -= write.bytes;
            stream.under_way.pop_front();
        }
    }

    fn room_made(&mut self, owner: NodeId, link: u64) {
        if let Some(stream) = self.streams.get_mut(&owner).filter(|stream| stream.link == link) {
            stream.making_room = false;
        }
    }

    /// A link is gone: what was asked over it is not answered any more, and what was written may not have been done.
    pub fn on_link_lost(&mut self, link: u64) -> Vec<(W, SegmentRefusal)> {
        self.streams.retain(|_, stream| stream.link != link);
        self.end(|request| request.link == link, SegmentRefusal::OwnerLost)
    }

    /// Time has passed.
    pub fn on_timeout(&mut self, now: Time) -> Vec<(W, SegmentRefusal)> {
        if self.sweep_at.is_none_or(|at| at > now) {
            return Vec::new();
        }
        let late = self.end(|request| request.deadline <= now, SegmentRefusal::NoAnswer);
        let deadlines = self.requests.iter().filter_map(|place| Some(place.held.as_ref()?.deadline));
        self.sweep_at = deadlines.min().map(|at| at.max(now.after(SWEEP_US)));
        late
    }

    /// When [`Importer::on_timeout`] is due.
    #[must_use]
    pub const fn next_timeout(&self) -> Option<Time> {
        self.sweep_at
    }

    /// Bytes written to one owner, and not flushed.
    #[must_use]
    pub fn unflushed_to(&self, owner: NodeId) -> u64 {
        self.streams.get(&owner).map_or(0, |stream| stream.bytes)
    }

    /// Imports, requests under way, bytes written and not flushed.
    #[must_use]
    pub fn load(&self) -> (usize, usize, u64) {
        let unflushed = self.streams.values().map(|stream| stream.bytes).sum();
        (self.imports.len() - self.free_imports.len(), self.requests.len() - self.free_requests.len(), unflushed)
    }

    fn end(&mut self, which: impl Fn(&Request<W>) -> bool, why: SegmentRefusal) -> Vec<(W, SegmentRefusal)> {
        let mut ended = Vec::new();
        for index in 0..self.requests.len() {
            let place = &self.requests[index];
            if place.held.as_ref().is_some_and(&which) {
                let id = u64::from(place.round) << 32 | index as u64;
                let Some(request) = self.take(id) else { continue };
                if let Kind::Room(link, _) = request.kind {
                    self.room_made(request.owner, link);
                }
                ended.extend(request.waiter.map(|waiter| (waiter, why)));
            }
        }
        ended
    }

    /// Whether a request may go out: what is known to fail fails here.
    fn check(&mut self, id: ImportId, link: u64, offset: u64, count: u64) -> Result<(At, NodeId, u64), SegmentRefusal> {
        let imported = self.imported(id).ok_or(SegmentRefusal::Stale)?;
        let Import { owner, entry, grant, stale, .. } = &imported.import;
        if let Some(why) = stale {
            return Err(*why);
        }
        if offset.checked_add(count).is_none_or(|end| end > entry.bytes) {
            return Err(SegmentRefusal::OutOfBounds(entry.bytes));
        }
        let after = match imported.last {
            Some((of, upto)) if of == link && self.streams.get(owner).is_some_and(|all| all.flushed < upto) => upto,
            _ => 0,
        };
        let at = At { number: entry.number, generation: entry.generation, offset, grant: *grant };
        Ok((at, *owner, after))
    }

    /// Writes over another link begin anew: those of the old one are lost with it.
    fn stream_over(&mut self, owner: NodeId, link: u64) {
        let stream = self.streams.entry(owner).or_default();
        if stream.link != link {
            *stream = Stream { link, ..Stream::default() };
        }
    }

    fn ask(
        &mut self,
        now: Time,
        owner: NodeId,
        link: u64,
        kind: Kind,
        waiter: W,
        message: impl FnOnce(u64) -> SegmentMessage,
    ) -> Result<Asked, (SegmentRefusal, W)> {
        if self.is_full() {
            return Err((SegmentRefusal::Overloaded, waiter));
        }
        let (id, message) = self.put(now, owner, link, kind, Some(waiter), message);
        Ok(Asked { id, message })
    }

    fn place(
        &mut self,
        now: Time,
        owner: NodeId,
        link: u64,
        kind: Kind,
        waiter: Option<W>,
        message: impl FnOnce(u64) -> SegmentMessage,
    ) -> Option<Asked> {
        if self.is_full() {
            return None;
        }
        let (id, message) = self.put(now, owner, link, kind, waiter, message);
        Some(Asked { id, message })
    }

    fn is_full(&self) -> bool {
        self.requests.len() - self.free_requests.len() >= self.policy.requests_max
    }

    fn put(
        &mut self,
        now: Time,
        owner: NodeId,
        link: u64,
        kind: Kind,
        waiter: Option<W>,
        message: impl FnOnce(u64) -> SegmentMessage,
    ) -> (u64, SegmentMessage) {
        let deadline = now.after(self.policy.request_timeout_us);
        let index = self.free_requests.pop().unwrap_or_else(|| {
            self.requests.push(Place { round: 0, held: None });
            (self.requests.len() - 1) as u32
        });
        let place = &mut self.requests[index as usize];
        place.held = Some(Request { owner, link, kind, deadline, waiter });
        let id = u64::from(place.round) << 32 | u64::from(index);
        // All have the same time, so the first of them is the earliest.
        self.sweep_at.get_or_insert(deadline);
        (id, message(id))
    }

    fn request(&self, id: u64) -> Option<&Request<W>> {
        let place = self.requests.get((id & u64::from(u32::MAX)) as usize)?;
        place.held.as_ref().filter(|_| u64::from(place.round) == id >> 32)
    }

    fn take(&mut self, id: u64) -> Option<Request<W>> {
        self.request(id)?;
        let index = (id & u64::from(u32::MAX)) as u32;
        let place = self.requests.get_mut(index as usize)?;
        place.round = place.round.wrapping_add(1);
        self.free_requests.push(index);
        place.held.take()
    }
}
