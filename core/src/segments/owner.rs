//! Segments of this node: what they are, who may do what with them, and what becomes of a request.

use alloc::{borrow::ToOwned, boxed::Box, collections::BTreeMap, string::String, vec::Vec};
use bytes::Bytes;
use core::fmt;

use catena_wire::{
    At, NAME_BYTES_MAX, NodeId, Order, Rights, SEGMENT_LISTING_MAX, SegmentEntry, SegmentMessage, SegmentRefusal,
};

use super::{
    grants::{Grant, Grants},
    policy::SegmentPolicy,
    turns::{AllTurns, Now, refused},
};
use crate::Time;

/// When the owner is notified of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Notify {
    /// Whenever the request asks for it.
    #[default]
    IfAsked,
    /// Each time.
    Always,
    /// At no time.
    Never,
}

impl Notify {
    /// Whether an access is told of.
    #[must_use]
    pub const fn tells(self, asked: bool) -> bool {
        matches!((self, asked), (Self::Always, _) | (Self::IfAsked, true))
    }
}

/// How a segment is exported. By default nobody may do anything with it yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Export {
    /// What everybody may do.
    pub anyone: Rights,
    /// Whether the owner is notified of reads.
    pub on_read: Notify,
    /// Whether the owner is notified of writes and swaps.
    pub on_write: Notify,
}

/// A segment of this node: its number, and which of those that had it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SegmentId {
    /// Its number; 0 is the registry's.
    pub number: u32,
    /// Only rises.
    pub generation: u64,
}

/// Why a segment is not exported.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExportError {
    /// A segment of this name is exported.
    Twice,
    /// Names have 1 to 256 bytes.
    Name,
    /// A limit of the node, by its name.
    Limit(&'static str),
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Twice => f.write_str("a segment of this name is exported; revoke it first, or choose another name"),
            Self::Name => f.write_str("a segment's name has 1 to 256 bytes"),
            Self::Limit(limit) => write!(f, "the node's limit {limit} is reached; revoke segments, or raise it"),
        }
    }
}

impl core::error::Error for ExportError {}

/// What is to be done with the bytes of a segment. The memory is that of the segment at the time of asking: it must be held before anybody else may ask.
#[derive(Debug)]
pub enum Todo<M> {
    /// Read, and answer with the bytes.
    Read {
        /// The requester's number.
        id: u64,
        /// The segment's bytes.
        memory: M,
        /// From here.
        offset: u64,
        /// So many.
        count: u32,
        /// Turned so.
        order: Order,
        /// Whether the owner is notified.
        tell: bool,
    },
    /// Write.
    Write {
        /// The segment's bytes.
        memory: M,
        /// There.
        offset: u64,
        /// These.
        data: Bytes,
        /// Turned so.
        order: Order,
        /// Whether the owner is notified.
        tell: bool,
    },
    /// Compare and swap, and answer with what was there.
    Cas {
        /// The requester's number.
        id: u64,
        /// The segment's bytes.
        memory: M,
        /// There: aligned.
        offset: u64,
        /// 4 or 8.
        width: u8,
        /// If it is this,
        old: u64,
        /// this comes there.
        new: u64,
        /// Whether the owner is notified.
        tell: bool,
    },
    /// Share the pages with the requester.
    Share {
        /// The requester's number.
        id: u64,
        /// The segment's bytes.
        memory: M,
        /// Their number.
        bytes: u64,
        /// Whether it may write and swap.
        write: bool,
    },
    /// Let the requester reach the memory from its host.
    Offer {
        /// The requester's number.
        id: u64,
        /// The segment's bytes.
        memory: M,
        /// By what.
        by: String,
        /// Whether it may write and swap.
        write: bool,
    },
    /// Send this.
    Answer(SegmentMessage),
    /// Nothing, now.
    Nothing,
}

#[derive(Debug)]
struct Exported<M> {
    name: Box<str>,
    bytes: u64,
    how: Export,
    /// What some may do instead of what everybody may.
    importers: Vec<(NodeId, Rights)>,
    inhibited: bool,
    pinned: bool,
    memory: M,
}

impl<M> Exported<M> {
    fn rights_of(&self, importer: NodeId) -> Rights {
        let own = self.importers.iter().find(|(node, _)| *node == importer);
        own.map_or(self.how.anyone, |(_, rights)| *rights)
    }
}

/// A number, and who has it.
#[derive(Debug)]
struct Slot<M> {
    /// Of the segment that has it, or of the last one that had.
    generation: u64,
    exported: Option<Box<Exported<M>>>,
}

/// The segments of this node.
#[derive(Debug)]
pub struct Owner<M> {
    policy: SegmentPolicy,
    last_generation: u64,
    slots: Vec<Slot<M>>,
    free: Vec<u32>,
    names: BTreeMap<Box<str>, u32>,
    exported_bytes: u64,
    pinned_bytes: u64,
    grants: Grants,
    turns: AllTurns,
    #[cfg(feature = "seeded-bugs")]
    approved: BTreeMap<(u64, u64), M>,
}

impl<M: Clone> Owner<M> {
    pub(super) fn new(policy: SegmentPolicy, last_generation: u64) -> Self {
        Self {
            policy,
            last_generation,
            // The registry's number.
            slots: alloc::vec![Slot { generation: 0, exported: None }],
            free: Vec::new(),
            names: BTreeMap::new(),
            exported_bytes: 0,
            pinned_bytes: 0,
            grants: Grants::default(),
            turns: AllTurns::default(),
            #[cfg(feature = "seeded-bugs")]
            approved: BTreeMap::new(),
        }
    }

    /// Exports memory of so many bytes by a name.
    ///
    /// # Errors
    /// See [`ExportError`].
    pub fn export(&mut self, name: &str, bytes: u64, how: Export, memory: M) -> Result<SegmentId, ExportError> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(ExportError::Name);
        }
        if self.names.contains_key(name) {
            return Err(ExportError::Twice);
        }
        self.check_room(bytes)?;
        let number = match self.free.pop() {
            Some(number) => number,
            None => {
                self.slots.push(Slot { generation: 0, exported: None });
                (self.slots.len() - 1) as u32
            }
        };
        self.names.insert(name.into(), number);
        Ok(self.put(number, name.into(), bytes, how, memory))
    }

    /// Exports the registry, in the place of the one before: everybody may read it.
    ///
    /// # Errors
    /// [`ExportError::Limit`]
    pub fn export_registry(&mut self, bytes: u64, memory: M) -> Result<SegmentId, ExportError> {
        self.clear(0);
        self.check_room(bytes)?;
        let how = Export { anyone: Rights::READ, on_read: Notify::Never, on_write: Notify::Never };
        Ok(self.put(0, "".into(), bytes, how, memory))
    }

    fn check_room(&self, bytes: u64) -> Result<(), ExportError> {
        let Self { policy, .. } = self;
        match () {
            () if self.names.len() >= policy.segments_max => Err(ExportError::Limit("segments_max")),
            () if bytes > policy.segment_bytes_max => Err(ExportError::Limit("segment_bytes_max")),
            () if self.exported_bytes.saturating_add(bytes) > policy.exported_bytes_max => {
                Err(ExportError::Limit("exported_bytes_max"))
            }
            () => Ok(()),
        }
    }

    fn put(&mut self, number: u32, name: Box<str>, bytes: u64, how: Export, memory: M) -> SegmentId {
        self.last_generation += 1;
        self.exported_bytes += bytes;
        let exported = Exported { name, bytes, how, importers: Vec::new(), inhibited: false, pinned: false, memory };
        self.slots[number as usize] = Slot { generation: self.last_generation, exported: Some(Box::new(exported)) };
        SegmentId { number, generation: self.last_generation }
    }

    /// Takes the segment back: from now on every request is refused. Gives its memory; `None`: it was revoked before.
    pub fn revoke(&mut self, id: SegmentId) -> Option<M> {
        self.current_mut(id)?;
        let exported = self.clear(id.number)?;
        self.names.remove(&exported.name);
        if id.number != 0 {
            self.free.push(id.number);
        }
        Some(exported.memory)
    }

    fn clear(&mut self, number: u32) -> Option<Box<Exported<M>>> {
        let exported = self.slots.get_mut(number as usize)?.exported.take()?;
        self.exported_bytes -= exported.bytes;
        self.pinned_bytes -= if exported.pinned { exported.bytes } else { 0 };
        self.grants.forget(number);
        Some(exported)
    }

    /// Gives one importer rights of its own, in the place of everybody's. Says whether it has fewer than before.
    ///
    /// # Errors
    /// [`SegmentRefusal::Revoked`]; [`SegmentRefusal::Overloaded`]: too many have rights of their own.
    pub fn set_rights(&mut self, id: SegmentId, importer: NodeId, rights: Rights) -> Result<bool, SegmentRefusal> {
        let most = self.policy.importers_per_segment_max;
        #[cfg(feature = "seeded-bugs")]
        let stays = self.policy.bug == Some(super::SegmentBug::RightsStay);
        let exported = self.current_mut(id).ok_or(SegmentRefusal::Revoked)?;
        let before = exported.rights_of(importer);
        #[cfg(feature = "seeded-bugs")]
        let rights = if stays { rights.and(before) } else { rights };
        match exported.importers.iter().position(|(node, _)| *node == importer) {
            Some(at) => exported.importers[at].1 = rights,
            None if exported.importers.len() < most => exported.importers.push((importer, rights)),
            None => return Err(SegmentRefusal::Overloaded),
        }
        Ok(!rights.include(before))
    }

    /// Lets nobody write or swap, or lets them again who may. Says whether that is new.
    ///
    /// # Errors
    /// [`SegmentRefusal::Revoked`]
    pub fn inhibit_writes(&mut self, id: SegmentId, inhibited: bool) -> Result<bool, SegmentRefusal> {
        let exported = self.current_mut(id).ok_or(SegmentRefusal::Revoked)?;
        Ok(core::mem::replace(&mut exported.inhibited, inhibited) != inhibited)
    }

    /// Notes that the segment's pages are kept in memory, or not any more.
    ///
    /// # Errors
    /// [`SegmentRefusal::Revoked`]; [`SegmentRefusal::TooLarge`]: more than the node pins.
    pub fn pin(&mut self, id: SegmentId, pinned: bool) -> Result<bool, SegmentRefusal> {
        let room = self.policy.pinned_bytes_max.saturating_sub(self.pinned_bytes);
        let exported = self.current_mut(id).ok_or(SegmentRefusal::Revoked)?;
        let bytes = exported.bytes;
        if exported.pinned == pinned {
            return Ok(false);
        }
        if pinned && bytes > room {
            return Err(SegmentRefusal::TooLarge(room));
        }
        exported.pinned = pinned;
        if pinned {
            self.pinned_bytes += bytes
        } else {
            self.pinned_bytes -= bytes
        }
        Ok(true)
    }

    /// Grants a partner something, under a number drawn at random.
    ///
    /// # Errors
    /// [`SegmentRefusal::Revoked`], [`SegmentRefusal::OutOfBounds`]; [`SegmentRefusal::Overloaded`]: too many are out.
    pub fn grant(&mut self, now: Time, id: SegmentId, drawn: u64, grant: Grant) -> Result<u64, SegmentRefusal> {
        let bytes = self.current_mut(id).ok_or(SegmentRefusal::Revoked)?.bytes;
        if grant.offset.checked_add(grant.bytes).is_none_or(|end| end > bytes) {
            return Err(SegmentRefusal::OutOfBounds(bytes));
        }
        self.grants.give(now, id.number, drawn, grant, &self.policy)
    }

    /// Takes a grant back; says whether it was still out.
    pub fn take_back(&mut self, grant: u64) -> bool {
        self.grants.take_back(grant)
    }

    /// A request that this link brought. What there is to do may lead to more: see [`Owner::next`].
    pub fn on_request(&mut self, now: Time, link: u64, from: NodeId, message: SegmentMessage) -> Todo<M> {
        #[cfg(feature = "seeded-bugs")]
        if self.policy.bug == Some(super::SegmentBug::WritesOvertake) && matches!(message, SegmentMessage::Write { .. })
        {
            return self.decide(now, from, message);
        }
        #[cfg(feature = "seeded-bugs")]
        self.approve_early(link, &message);
        match self.turns.take(link, message, &self.policy) {
            Now::Do(message) => self.decide(now, from, message),
            Now::Held => Todo::Nothing,
            Now::Full(message) => refused(&message, SegmentRefusal::Overloaded).map_or(Todo::Nothing, Todo::Answer),
        }
    }

    /// The next request of this link that was held for what was done; to be asked until there is none.
    pub fn next(&mut self, now: Time, link: u64, from: NodeId) -> Option<Todo<M>> {
        let message = self.turns.next(link)?;
        #[cfg(feature = "seeded-bugs")]
        if let SegmentMessage::Write { turn, at, data, order, .. } = &message
            && let Some(memory) = self.approved.remove(&(link, *turn))
        {
            let (offset, data, order) = (at.offset, data.clone(), *order);
            return Some(Todo::Write { memory, offset, data, order, tell: false });
        }
        Some(self.decide(now, from, message))
    }

    #[cfg(feature = "seeded-bugs")]
    fn approve_early(&mut self, link: u64, message: &SegmentMessage) {
        if self.policy.bug == Some(super::SegmentBug::RevokeOvertaken)
            && let SegmentMessage::Write { turn, at, .. } = message
            && let Ok(exported) = self.find(at)
        {
            let memory = exported.memory.clone();
            self.approved.insert((link, *turn), memory);
        }
    }

    /// Nothing comes by this link any more: what it left unfinished is not done.
    pub fn on_link_lost(&mut self, link: u64) {
        self.turns.lost(link);
    }

    fn decide(&mut self, now: Time, from: NodeId, message: SegmentMessage) -> Todo<M> {
        let why = match self.try_decide(now, from, &message) {
            Ok(todo) => return todo,
            Err(why) => why,
        };
        match message {
            SegmentMessage::Import(id, _) | SegmentMessage::Attach { id, .. } | SegmentMessage::Reach { id, .. } => {
                Todo::Answer(SegmentMessage::Refused(id, why))
            }
            message => refused(&message, why).map_or(Todo::Nothing, Todo::Answer),
        }
    }

    fn try_decide(&mut self, now: Time, from: NodeId, message: &SegmentMessage) -> Result<Todo<M>, SegmentRefusal> {
        Ok(match message {
            SegmentMessage::Read { id, at, count, notify, order, .. } => {
                self.check_count(u64::from(*count), *order)?;
                let exported = self.allowed(now, from, at, u64::from(*count), Rights::READ)?;
                let (memory, tell) = (exported.memory.clone(), exported.how.on_read.tells(*notify));
                Todo::Read { id: *id, memory, offset: at.offset, count: *count, order: *order, tell }
            }
            SegmentMessage::Write { at, notify, order, data, .. } => {
                self.check_count(data.len() as u64, *order)?;
                let exported = self.allowed(now, from, at, data.len() as u64, Rights::WRITE)?;
                let (memory, tell) = (exported.memory.clone(), exported.how.on_write.tells(*notify));
                Todo::Write { memory, offset: at.offset, data: data.clone(), order: *order, tell }
            }
            SegmentMessage::Cas { id, at, width, old, new, notify, .. } => {
                if !matches!(width, 4 | 8) || !at.offset.is_multiple_of(u64::from(*width)) {
                    return Err(SegmentRefusal::Unaligned);
                }
                let exported = self.allowed(now, from, at, u64::from(*width), Rights::CAS)?;
                let (memory, tell) = (exported.memory.clone(), exported.how.on_write.tells(*notify));
                let (id, width, old, new) = (*id, *width, *old, *new);
                Todo::Cas { id, memory, offset: at.offset, width, old, new, tell }
            }
            SegmentMessage::Flush(id, _) => Todo::Answer(SegmentMessage::Flushed(*id)),
            SegmentMessage::Import(id, name) => {
                let entry = self.entry(self.number_of(name)?, from).ok_or(SegmentRefusal::UnknownName)?;
                Todo::Answer(SegmentMessage::Imported(*id, entry))
            }
            // A grant is for a partner on this host.
            SegmentMessage::Reach { at: At { grant: Some(_), .. }, .. } => return Err(SegmentRefusal::NotShared),
            SegmentMessage::Reach { id, at, by, write } => {
                let (exported, write) = self.shown(now, from, at, *write)?;
                // What goes by without messages is not told of.
                if exported.how.on_read == Notify::Always {
                    return Err(SegmentRefusal::NotShared);
                }
                let write = write && exported.how.on_write != Notify::Always;
                Todo::Offer { id: *id, memory: exported.memory.clone(), by: by.clone(), write }
            }
            SegmentMessage::Attach { id, at, write, .. } => {
                let (exported, write) = self.shown(now, from, at, *write)?;
                Todo::Share { id: *id, memory: exported.memory.clone(), bytes: exported.bytes, write }
            }
            SegmentMessage::List(id, first) => Todo::Answer(SegmentMessage::Listing(*id, self.list(from, *first))),
            _ => Todo::Nothing,
        })
    }

    /// A segment that this importer reaches without requests, by its rights or by a grant of all of it; and whether it may do all that there is to do with
    /// it, as whoever reaches memory for writing can.
    fn shown(&self, now: Time, from: NodeId, at: &At, write: bool) -> Result<(&Exported<M>, bool), SegmentRefusal> {
        let exported = self.find(at)?;
        let all = match at.grant {
            None => {
                let rights = exported.rights_of(from);
                let reads = rights.include(Rights::READ).then(|| rights.include(Rights::ALL));
                reads.ok_or_else(|| SegmentRefusal::NoRight(Rights::READ.without(rights)))?
            }
            Some(grant) => {
                let whole = self.grants.whole(now, grant, (from, at.number), exported.bytes);
                whole.ok_or(SegmentRefusal::GrantVoid)?
            }
        };
        Ok((exported, write && all && !exported.inhibited))
    }

    fn check_count(&self, count: u64, order: Order) -> Result<(), SegmentRefusal> {
        let most = u64::from(self.policy.request_bytes_max);
        if count > most {
            return Err(SegmentRefusal::TooLarge(most));
        }
        match order {
            Order::Bytes => Ok(()),
            Order::Little(width @ (2 | 4 | 8)) | Order::Big(width @ (2 | 4 | 8))
                if count.is_multiple_of(u64::from(width)) =>
            {
                Ok(())
            }
            _ => Err(SegmentRefusal::Unaligned),
        }
    }

    /// The segment, if it is this one, and this importer may do that with this range of it now. A grant is used by it.
    fn allowed(
        &mut self,
        now: Time,
        from: NodeId,
        at: &At,
        count: u64,
        need: Rights,
    ) -> Result<&Exported<M>, SegmentRefusal> {
        let exported = self.find(at)?;
        match at.grant {
            None => {
                let rights = exported.rights_of(from);
                if !rights.include(need) {
                    return Err(SegmentRefusal::NoRight(need.without(rights)));
                }
            }
            Some(grant) => self.grants.allows(now, grant, (from, at.number), (at.offset, count), need)?,
        }
        if at.offset.checked_add(count).is_none_or(|end| end > exported.bytes) {
            return Err(SegmentRefusal::OutOfBounds(exported.bytes));
        }
        if exported.inhibited && need != Rights::READ {
            return Err(SegmentRefusal::WriteInhibited);
        }
        if let Some(grant) = at.grant {
            self.use_up(grant);
        }
        self.find(at)
    }

    fn use_up(&mut self, grant: u64) {
        #[cfg(feature = "seeded-bugs")]
        if self.policy.bug == Some(super::SegmentBug::GrantTwice) {
            return;
        }
        self.grants.used(grant);
    }

    fn find(&self, at: &At) -> Result<&Exported<M>, SegmentRefusal> {
        let slot = self.slots.get(at.number as usize).ok_or(SegmentRefusal::NeverExported)?;
        #[cfg(feature = "seeded-bugs")]
        if self.policy.bug == Some(super::SegmentBug::StaleAccepted)
            && at.generation < slot.generation
            && let Some(exported) = &slot.exported
        {
            return Ok(exported);
        }
        match &slot.exported {
            _ if at.generation > slot.generation => Err(SegmentRefusal::NeverExported),
            Some(exported) if at.generation == slot.generation => Ok(exported),
            None if at.generation == slot.generation => Err(SegmentRefusal::Revoked),
            _ => Err(SegmentRefusal::Stale),
        }
    }

    fn current_mut(&mut self, id: SegmentId) -> Option<&mut Exported<M>> {
        let slot = self.slots.get_mut(id.number as usize).filter(|slot| slot.generation == id.generation)?;
        slot.exported.as_deref_mut()
    }

    /// The memory of a segment that is exported.
    #[must_use]
    pub fn memory(&self, id: SegmentId) -> Option<&M> {
        let slot = self.slots.get(id.number as usize).filter(|slot| slot.generation == id.generation)?;
        slot.exported.as_ref().map(|exported| &exported.memory)
    }

    /// The registry's name is empty.
    fn number_of(&self, name: &str) -> Result<u32, SegmentRefusal> {
        if name.is_empty() {
            return Ok(0);
        }
        self.names.get(name).copied().ok_or(SegmentRefusal::UnknownName)
    }

    /// Describes a segment as one importer may use it. To whom it gives nothing, it is not there.
    fn entry(&self, number: u32, importer: NodeId) -> Option<SegmentEntry> {
        let slot = self.slots.get(number as usize)?;
        let exported = slot.exported.as_ref()?;
        let rights = exported.rights_of(importer);
        let name: String = (*exported.name).to_owned();
        let entry = SegmentEntry { name, number, generation: slot.generation, bytes: exported.bytes, rights };
        (rights != Rights::NONE).then_some(entry)
    }

    fn list(&self, importer: NodeId, first: u32) -> Vec<SegmentEntry> {
        let numbers = first.max(1)..self.slots.len() as u32;
        numbers.filter_map(|number| self.entry(number, importer)).take(SEGMENT_LISTING_MAX).collect()
    }

    /// Segments, their bytes, grants that are out, and bytes of writes that wait for their turn.
    #[must_use]
    pub fn load(&self) -> (usize, u64, usize, u64) {
        (self.names.len(), self.exported_bytes, self.grants.out(), self.turns.held_bytes())
    }
}
