//! What was imported, who uses it, whether it is still good, and what is known of the writes to it.

use alloc::{boxed::Box, collections::BTreeMap, vec::Vec};

use catena_wire::{At, NodeId, SegmentEntry, SegmentRefusal};

use crate::collections::Numbered;

/// Refused writes of one import that are remembered until a flush.
const REFUSALS_MAX: usize = 16;

/// An imported segment, by its number here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ImportId(u64);

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

/// How far a segment was written: by which link, and how many writes of that link the last one and those before it are.
pub(super) type Written = (u64, u64);

/// A write that was not done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RefusedWrite {
    pub(super) turn: u64,
    /// Where its first byte was to go.
    pub offset: u64,
    /// How many.
    pub bytes: u64,
    /// Why.
    pub why: SegmentRefusal,
}

#[derive(Clone, Debug)]
struct Imported {
    import: Import,
    users: u32,
    written: Option<Written>,
    /// Writes that were refused and of which no flush has told.
    refused: Vec<RefusedWrite>,
    /// Those of which the last flush told.
    told: Vec<RefusedWrite>,
}

impl Imported {
    /// For the flush that covers it. Of too many the last stands for all: the flush that covers that one says so.
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
    all: Numbered<Imported>,
    by_name: BTreeMap<(NodeId, Box<str>), ImportId>,
}

impl Imports {
    pub(super) const fn new(imports_max: usize) -> Self {
        Self { imports_max, all: Numbered::new(), by_name: BTreeMap::new() }
    }

    /// What was imported from this owner under this name, if it is not stale: the local look-up of section 4.2. It has one user more by that.
    pub fn known(&mut self, owner: NodeId, name: &str) -> Option<ImportId> {
        // Asked for with a borrowed name, which a key of two parts does not allow.
        let id = *self.by_name.get(&(owner, name.into()))?;
        let imported = self.all.get_mut(id.0).filter(|imported| imported.import.stale.is_none())?;
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
            && let Some(known) = self.all.get_mut(id.0)
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
        let id = ImportId(self.all.insert(Imported {
            import,
            users: 1,
            written: None,
            refused: Vec::new(),
            told: Vec::new(),
        }));
        if grant.is_none() {
            self.by_name.insert(key, id);
        }
        Ok(id)
    }

    /// One user less; after the last the segment is imported no more.
    pub fn release(&mut self, id: ImportId) {
        let Some(imported) = self.all.get_mut(id.0) else { return };
        imported.users -= 1;
        if imported.users > 0 {
            return;
        }
        let key = (imported.import.owner, Box::from(imported.import.entry.name.as_str()));
        if self.by_name.get(&key) == Some(&id) {
            self.by_name.remove(&key);
        }
        self.all.remove(id.0);
    }

    /// What is known of an import.
    #[must_use]
    pub fn get(&self, id: ImportId) -> Option<&Import> {
        self.all.get(id.0).map(|imported| &imported.import)
    }

    /// All imports, for a refresh.
    pub fn all(&self) -> impl Iterator<Item = (ImportId, &Import)> {
        self.all.iter().map(|(number, imported)| (ImportId(number), &imported.import))
    }

    /// From now on every use of it fails here (section 4.1: after a refresh, stale entries fail at the source).
    pub fn purge(&mut self, id: ImportId, why: SegmentRefusal) {
        if let Some(imported) = self.all.get_mut(id.0) {
            imported.import.stale.get_or_insert(why);
        }
    }

    /// Whether everything written to a segment is known to have been done: only then may it be reached by another way.
    #[must_use]
    pub fn is_flushed(&self, id: ImportId) -> bool {
        self.all.get(id.0).is_some_and(|imported| imported.written.is_none() && imported.refused.is_empty())
    }

    /// A write could not be sent: its turn has to be passed on, by a write of nothing, and the next flush says so.
    pub fn not_sent(&mut self, id: ImportId, (offset, bytes): (u64, u64)) {
        let turn = self.written(id).map_or(0, |(_, upto)| upto.saturating_sub(1));
        self.refused(id, RefusedWrite { turn, offset, bytes, why: SegmentRefusal::Overloaded });
    }

    /// The writes that were refused, of which the last flush told; at most 16, of which the last stands for those after it.
    pub fn take_told(&mut self, id: ImportId) -> Vec<RefusedWrite> {
        self.all.get_mut(id.0).map(|imported| core::mem::take(&mut imported.told)).unwrap_or_default()
    }

    pub(super) const fn len(&self) -> usize {
        self.all.len()
    }

    /// Where a request goes, if it may go out: what is known to fail fails here.
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
        self.all.get(id.0)?.written
    }

    pub(super) fn wrote(&mut self, id: ImportId, (link, upto): Written) {
        let Some(imported) = self.all.get_mut(id.0) else { return };
        if imported.written.is_some_and(|(before, _)| before != link) {
            // What was written over a link that is lost may not have been done.
            imported.refuse(RefusedWrite { turn: 0, offset: 0, bytes: 0, why: SegmentRefusal::OwnerLost });
        }
        imported.written = Some((link, upto));
    }

    pub(super) fn refused(&mut self, id: ImportId, write: RefusedWrite) {
        if let Some(imported) = self.all.get_mut(id.0) {
            imported.refuse(write);
        }
    }

    /// What was written to it so far has been done, or refused: gives the first refusal. What was written since waits for the next flush.
    pub(super) fn flushed(&mut self, id: ImportId, upto: Written) -> Option<SegmentRefusal> {
        let imported = self.all.get_mut(id.0)?;
        imported.written = imported.written.filter(|written| *written != upto);
        let (told, later) = core::mem::take(&mut imported.refused).into_iter().partition(|write| write.turn < upto.1);
        (imported.refused, imported.told) = (later, told);
        imported.told.first().map(|write| write.why)
    }
}
