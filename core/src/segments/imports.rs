//! What was imported, who uses it, whether it is still valid, and what is known of the writes to it.

use alloc::{boxed::Box, collections::BTreeMap, vec::Vec};

use catena_wire::{At, NodeId, SegmentEntry, SegmentRefusal};

/// Limit on refused writes of one import that are remembered until a flush.
const REFUSALS_MAX: usize = 16;

/// An imported segment, by its number here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ImportId(u64);

/// What is known of an imported segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Import {
    /// The run of the node that owns it.
    pub owner: NodeId,
    /// As its owner described it.
    pub entry: SegmentEntry,
    /// The grant by which it is used, if it is not by this node's own rights.
    pub grant: Option<u64>,
    /// Why it can no longer be used, if so.
    pub stale: Option<SegmentRefusal>,
    /// Its slot in the owner's registry, if it was found there.
    pub slot: Option<u32>,
}

/// How far a segment was written: over which link, and how many of that link's writes there were up to the last one to this segment.
pub(super) type Written = (u64, u64);

/// A write that was not done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RefusedWrite {
    pub(super) turn: u64,
    /// Where its first byte was to go.
    pub offset: u64,
    /// How many bytes it had.
    pub bytes: u64,
    /// Why.
    pub why: SegmentRefusal,
}

#[derive(Clone, Debug)]
struct Imported {
    import: Import,
    users: u32,
    written: Option<Written>,
    /// Refused writes that no flush has reported yet.
    refused: Vec<RefusedWrite>,
    /// Refused writes that the last flush reported.
    told: Vec<RefusedWrite>,
}

impl Imported {
    /// Kept for the flush that covers the write. If there are too many, the last stands for the rest, and is reported by the flush that covers the last.
    fn refuse(&mut self, write: RefusedWrite) {
        if self.refused.len() == REFUSALS_MAX {
            self.refused.pop();
        }
        self.refused.push(write);
    }
}

/// All segments that are imported here.
#[derive(Clone, Debug)]
pub struct Imports {
    imports_max: usize,
    all: BTreeMap<ImportId, Imported>,
    /// The next import's number. No number is used twice, so that one that was released finds nothing.
    next: u64,
    by_name: BTreeMap<(NodeId, Box<str>), ImportId>,
}

impl Imports {
    pub(super) const fn new(imports_max: usize) -> Self {
        Self { imports_max, all: BTreeMap::new(), next: 0, by_name: BTreeMap::new() }
    }

    /// What was imported from this owner under this name, if it is not stale: the local look-up of section 4.2. Counts one more user.
    pub fn known(&mut self, owner: NodeId, name: &str) -> Option<ImportId> {
        // The name is copied, since a key of two parts cannot be looked up by a borrowed name.
        let id = *self.by_name.get(&(owner, name.into()))?;
        let imported = self.all.get_mut(&id).filter(|imported| imported.import.stale.is_none())?;
        imported.users += 1;
        Some(id)
    }

    /// Adds a segment. Unless it is the same segment, it replaces one of the same name from the same owner, whose users then find theirs stale.
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
            && let Some(known) = self.all.get_mut(&id)
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
        if self.all.len() >= self.imports_max {
            return Err(SegmentRefusal::Overloaded);
        }
        let import = Import { owner, entry, grant, stale: None, slot };
        let id = ImportId(self.next);
        self.next += 1;
        self.all.insert(id, Imported { import, users: 1, written: None, refused: Vec::new(), told: Vec::new() });
        if grant.is_none() {
            self.by_name.insert(key, id);
        }
        Ok(id)
    }

    /// One user less; after the last one the import is dropped.
    pub fn release(&mut self, id: ImportId) {
        let Some(imported) = self.all.get_mut(&id) else { return };
        imported.users -= 1;
        if imported.users > 0 {
            return;
        }
        let key = (imported.import.owner, Box::from(imported.import.entry.name.as_str()));
        if self.by_name.get(&key) == Some(&id) {
            self.by_name.remove(&key);
        }
        self.all.remove(&id);
    }

    /// What is known of an import.
    #[must_use]
    pub fn get(&self, id: ImportId) -> Option<&Import> {
        self.all.get(&id).map(|imported| &imported.import)
    }

    /// All imports, for a refresh.
    pub fn all(&self) -> impl Iterator<Item = (ImportId, &Import)> {
        self.all.iter().map(|(id, imported)| (*id, &imported.import))
    }

    /// From now on every use of the import fails here (section 4.1: after a refresh, stale entries fail at the source).
    pub fn purge(&mut self, id: ImportId, why: SegmentRefusal) {
        if let Some(imported) = self.all.get_mut(&id) {
            imported.import.stale.get_or_insert(why);
        }
    }

    /// Whether everything written to a segment is known to have been done: only then may it be reached in another way.
    #[must_use]
    pub fn is_flushed(&self, id: ImportId) -> bool {
        self.all.get(&id).is_some_and(|imported| imported.written.is_none() && imported.refused.is_empty())
    }

    /// A write could not be sent: an empty write has to use up its turn, and the next flush reports it.
    pub fn not_sent(&mut self, id: ImportId, (offset, bytes): (u64, u64)) {
        let turn = self.written(id).map_or(0, |(_, upto)| upto.saturating_sub(1));
        self.refused(id, RefusedWrite { turn, offset, bytes, why: SegmentRefusal::Overloaded });
    }

    /// The refused writes that the last flush reported: at most 16, of which the last stands for those after it.
    pub fn take_told(&mut self, id: ImportId) -> Vec<RefusedWrite> {
        self.all.get_mut(&id).map(|imported| core::mem::take(&mut imported.told)).unwrap_or_default()
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Where a request goes, if it may go out: what is known to fail is refused here.
    pub(super) fn check(&self, id: ImportId, offset: u64, count: u64) -> Result<(NodeId, At), SegmentRefusal> {
        let Import { owner, entry, grant, stale, .. } = self.get(id).ok_or(SegmentRefusal::Stale)?;
        if let Some(why) = stale {
            return Err(*why);
        }
        if offset.checked_add(count).is_none_or(|end| end > entry.bytes) {
            return Err(SegmentRefusal::OutOfBounds(entry.bytes));
        }
        Ok((*owner, At { number: entry.number, generation: entry.generation, offset, grant: *grant }))
    }

    pub(super) fn written(&self, id: ImportId) -> Option<Written> {
        self.all.get(&id)?.written
    }

    pub(super) fn wrote(&mut self, id: ImportId, (link, upto): Written) {
        let Some(imported) = self.all.get_mut(&id) else { return };
        if imported.written.is_some_and(|(before, _)| before != link) {
            // What was written over the lost link may not have been done.
            imported.refuse(RefusedWrite { turn: 0, offset: 0, bytes: 0, why: SegmentRefusal::OwnerLost });
        }
        imported.written = Some((link, upto));
    }

    pub(super) fn refused(&mut self, id: ImportId, write: RefusedWrite) {
        if let Some(imported) = self.all.get_mut(&id) {
            imported.refuse(write);
        }
    }

    /// Everything written up to `upto` has been done, or refused: returns the first refusal. What was written since waits for the next flush.
    pub(super) fn flushed(&mut self, id: ImportId, upto: Written) -> Option<SegmentRefusal> {
        let imported = self.all.get_mut(&id)?;
        imported.written = imported.written.filter(|written| *written != upto);
        let (told, later) = core::mem::take(&mut imported.refused).into_iter().partition(|write| write.turn < upto.1);
        (imported.refused, imported.told) = (later, told);
        imported.told.first().map(|write| write.why)
    }
}
