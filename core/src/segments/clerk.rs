//! The owner's side of the registry: which slot holds what, and when the table has to grow.

use alloc::{collections::BTreeMap, vec::Vec};

use super::registry::{RECORD_BYTES, Record, deleted, encode, encode_head, offset_of, table_bytes};

/// Slots of the first table.
const SLOTS_MIN: u32 = 64;
/// Slots of the largest table: names that do not fit are found by asking the owner.
const SLOTS_MAX: u32 = 1 << 18;

/// What to write into the table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Placed {
    /// These bytes, at this offset.
    Here(u64, [u8; RECORD_BYTES]),
    /// This whole table, as a new segment in place of the old one.
    Grown(Vec<u8>),
    /// The largest table is full.
    Full,
}

/// The contents of this node's table.
#[derive(Debug)]
pub struct Clerk {
    slots: u32,
    records: BTreeMap<u32, Record>,
    by_hash: BTreeMap<[u64; 2], u32>,
}

impl Default for Clerk {
    fn default() -> Self {
        Self { slots: SLOTS_MIN, records: BTreeMap::new(), by_hash: BTreeMap::new() }
    }
}

impl Clerk {
    /// The whole table as it is now.
    #[must_use]
    pub fn table(&self) -> Vec<u8> {
        let mut bytes = alloc::vec![0; table_bytes(self.slots) as usize];
        bytes[..RECORD_BYTES].copy_from_slice(&encode_head(self.slots));
        for (slot, record) in &self.records {
            let at = offset_of(*slot) as usize;
            bytes[at..at + RECORD_BYTES].copy_from_slice(&encode(record));
        }
        bytes
    }

    /// Enters a segment.
    pub fn add(&mut self, record: Record) -> Placed {
        // Beyond three quarters, look-ups become long.
        if (self.records.len() as u64 + 1) * 4 > u64::from(self.slots) * 3 {
            if self.slots >= SLOTS_MAX {
                return Placed::Full;
            }
            self.grow();
            self.place(record);
            return Placed::Grown(self.table());
        }
        let slot = self.place(record);
        Placed::Here(offset_of(slot), encode(&record))
    }

    /// Leaves a tombstone for a segment; returns where to write which bytes.
    pub fn delete(&mut self, hash: [u64; 2]) -> Option<(u64, [u8; RECORD_BYTES])> {
        let slot = self.by_hash.remove(&hash)?;
        let record = self.records.remove(&slot)?;
        Some((offset_of(slot), deleted(&record)))
    }

    /// The first slot on the name's probe path that is empty or has a tombstone.
    fn place(&mut self, record: Record) -> u32 {
        let mut slot = (record.hash[0] % u64::from(self.slots)) as u32;
        while self.records.contains_key(&slot) {
            slot = (slot + 1) % self.slots;
        }
        self.records.insert(slot, record);
        self.by_hash.insert(record.hash, slot);
        slot
    }

    fn grow(&mut self) {
        self.slots *= 2;
        self.by_hash.clear();
        for (_, record) in core::mem::take(&mut self.records) {
            self.place(record);
        }
    }
}
