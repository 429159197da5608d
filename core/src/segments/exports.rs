//! Segments of this node: their descriptors, by number and generation, and who has which rights.

use alloc::{borrow::ToOwned, boxed::Box, collections::BTreeMap, string::String, vec::Vec};
use core::fmt;

use catena_wire::{At, NAME_BYTES_MAX, NodeId, Rights, SEGMENT_LISTING_MAX, SegmentEntry, SegmentRefusal};

use super::policy::SegmentPolicy;

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
    /// Whether the owner is notified of an access, given whether the request asked for that.
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

/// A segment of this node: its number, and its generation, which distinguishes it from others that had the number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SegmentId {
    /// Its number; 0 is the registry's.
    pub number: u32,
    /// Only ever rises.
    pub generation: u64,
}

/// Why a segment is not exported.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExportError {
    /// A segment of this name is exported already.
    Twice,
    /// Names have 1 to 256 bytes.
    Name,
    /// A limit of the node is reached; its name.
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

#[derive(Clone, Debug)]
pub(super) struct Exported<M> {
    name: Box<str>,
    pub(super) bytes: u64,
    pub(super) how: Export,
    /// Importers whose own rights replace everybody's.
    importers: Vec<(NodeId, Rights)>,
    pub(super) inhibited: bool,
    pinned: bool,
    pub(super) memory: M,
}

impl<M> Exported<M> {
    pub(super) fn rights_of(&self, importer: NodeId) -> Rights {
        let own = self.importers.iter().find(|(node, _)| *node == importer);
        own.map_or(self.how.anyone, |(_, rights)| *rights)
    }
}

/// A segment number, and the segment that has it now.
#[derive(Clone, Debug)]
struct Slot<M> {
    /// Of the segment that has the number, or of the last one that had it.
    generation: u64,
    exported: Option<Box<Exported<M>>>,
}

/// All segments that this node exports.
#[derive(Clone, Debug)]
pub struct Exports<M> {
    policy: SegmentPolicy,
    last_generation: u64,
    slots: Vec<Slot<M>>,
    free: Vec<u32>,
    names: BTreeMap<Box<str>, u32>,
    exported_bytes: u64,
    pinned_bytes: u64,
}

impl<M> Exports<M> {
    pub(super) fn new(policy: SegmentPolicy, last_generation: u64) -> Self {
        Self {
            policy,
            last_generation,
            // Number 0 is the registry's.
            slots: alloc::vec![Slot { generation: 0, exported: None }],
            free: Vec::new(),
            names: BTreeMap::new(),
            exported_bytes: 0,
            pinned_bytes: 0,
        }
    }

    /// Exports memory of `bytes` bytes under a name.
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

    /// Exports the registry in place of the previous one: everybody may read it.
    ///
    /// # Errors
    /// [`ExportError::Limit`]
    pub(super) fn export_registry(&mut self, bytes: u64, memory: M) -> Result<SegmentId, ExportError> {
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

    /// Revokes a segment, and returns its memory; `None` if it was revoked before.
    pub(super) fn revoke(&mut self, id: SegmentId) -> Option<M> {
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
        Some(exported)
    }

    /// Gives one importer rights of its own, in place of everybody's. Returns whether it has fewer rights than before.
    ///
    /// # Errors
    /// [`SegmentRefusal::Revoked`]; [`SegmentRefusal::Overloaded`]: too many importers have rights of their own.
    pub fn set_rights(&mut self, id: SegmentId, importer: NodeId, rights: Rights) -> Result<bool, SegmentRefusal> {
        let most = self.policy.importers_per_segment_max;
        let stays = bug!(self.policy, SegmentBug::RightsStay);
        let exported = self.current_mut(id).ok_or(SegmentRefusal::Revoked)?;
        let before = exported.rights_of(importer);
        let rights = if stays { rights.and(before) } else { rights };
        match exported.importers.iter().position(|(node, _)| *node == importer) {
            Some(at) => exported.importers[at].1 = rights,
            None if exported.importers.len() < most => exported.importers.push((importer, rights)),
            None => return Err(SegmentRefusal::Overloaded),
        }
        Ok(!rights.include(before))
    }

    /// Stops everybody from writing and swapping, or lets those go on who have the right. Returns whether that is a change.
    ///
    /// # Errors
    /// [`SegmentRefusal::Revoked`]
    pub fn inhibit_writes(&mut self, id: SegmentId, inhibited: bool) -> Result<bool, SegmentRefusal> {
        let exported = self.current_mut(id).ok_or(SegmentRefusal::Revoked)?;
        Ok(core::mem::replace(&mut exported.inhibited, inhibited) != inhibited)
    }

    /// Notes whether the segment's pages are kept in memory from now on. Returns whether that is a change.
    ///
    /// # Errors
    /// [`SegmentRefusal::Revoked`]; [`SegmentRefusal::TooLarge`]: more than the node may pin.
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

    pub(super) fn find(&self, at: &At) -> Result<&Exported<M>, SegmentRefusal> {
        let slot = self.slots.get(at.number as usize).ok_or(SegmentRefusal::NeverExported)?;
        if bug!(self.policy, SegmentBug::StaleAccepted)
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

    fn current(&self, id: SegmentId) -> Option<&Exported<M>> {
        let slot = self.slots.get(id.number as usize).filter(|slot| slot.generation == id.generation)?;
        slot.exported.as_deref()
    }

    pub(super) fn bytes(&self, id: SegmentId) -> Option<u64> {
        self.current(id).map(|exported| exported.bytes)
    }

    /// Describes the segment of this name; the registry has the empty name.
    pub(super) fn named(&self, name: &str, importer: NodeId) -> Result<SegmentEntry, SegmentRefusal> {
        let number = if name.is_empty() { Some(0) } else { self.names.get(name).copied() };
        number.and_then(|number| self.entry(number, importer)).ok_or(SegmentRefusal::UnknownName)
    }

    /// Describes a segment as one importer may use it. For an importer without rights it does not exist.
    fn entry(&self, number: u32, importer: NodeId) -> Option<SegmentEntry> {
        let slot = self.slots.get(number as usize)?;
        let exported = slot.exported.as_ref()?;
        let rights = exported.rights_of(importer);
        // Asked first: a name is copied only for those who may see it.
        (rights != Rights::NONE).then(|| {
            let name: String = (*exported.name).to_owned();
            SegmentEntry { name, number, generation: slot.generation, bytes: exported.bytes, rights }
        })
    }

    pub(super) fn list(&self, importer: NodeId, first: u32) -> Vec<SegmentEntry> {
        let numbers = first.max(1)..self.slots.len() as u32;
        numbers.filter_map(|number| self.entry(number, importer)).take(SEGMENT_LISTING_MAX).collect()
    }

    pub(super) fn load(&self) -> (usize, u64) {
        (self.names.len(), self.exported_bytes)
    }
}
