//! The table in which a node's segments are found by reading (section 4.2): open addressing, the same hash everywhere.
//!
//! Each node exports it as segment number 0. A record has 64 bytes, so that one READ brings one; the first is the table's head, and slot `i` is record `i + 1`.
//! A deletion leaves a tombstone and moves nothing. All numbers are little-endian, whatever the machine.
//!
//! A reader trusts nothing in a table: it may be torn, since nobody locks it, or it may lie. A probe looks at a limited number of slots, and a request that a
//! false record leads to is refused by the owner.

use catena_wire::Rights;

/// Bytes of a record.
pub const RECORD_BYTES: usize = 64;
/// The name by which a node's table is asked for, once.
pub const REGISTRY_NAME: &str = "";

/// The first word of a table's head.
const MAGIC: u64 = u64::from_le_bytes(*b"catenaS1");
const VALID: u64 = 1;
const DELETED: u64 = 2;

/// What a record says about a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// The hash of its name: see [`hash`].
    pub hash: [u64; 2],
    /// Its number.
    pub number: u32,
    /// What everybody may do.
    pub anyone: Rights,
    /// Its generation.
    pub generation: u64,
    /// Its size.
    pub bytes: u64,
}

/// What a slot holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slot {
    /// Nothing, ever: a look-up that comes here is over.
    Empty,
    /// A segment that was revoked.
    Deleted,
    /// A segment.
    Valid(Record),
    /// Neither: it was being written at that moment, or is not a record.
    Torn,
}

/// A 128-bit hash of a name, by which it is found. It is neither a secret nor resistant to collisions sought on purpose: the table belongs to the owner, which
/// would only deceive itself.
#[must_use]
pub fn hash(name: &str) -> [u64; 2] {
    let fnv = |basis: u64| {
        name.bytes().fold(basis, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
    };
    [mix(fnv(0xcbf2_9ce4_8422_2325)), mix(fnv(0x6c62_272e_07bb_0142).wrapping_add(name.len() as u64))]
}

/// The finalizer of splitmix64.
const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Where a slot begins in the table.
#[must_use]
pub const fn offset_of(slot: u32) -> u64 {
    (slot as u64 + 1) * RECORD_BYTES as u64
}

/// Bytes of a table of `slots` slots.
#[must_use]
pub const fn table_bytes(slots: u32) -> u64 {
    offset_of(slots)
}

/// The head of a table of `slots` slots.
#[must_use]
pub fn encode_head(slots: u32) -> [u8; RECORD_BYTES] {
    put(&[MAGIC, u64::from(slots)])
}

/// The number of slots according to a table's head, if that many fit into the table.
#[must_use]
pub fn decode_head(head: &[u8], bytes: u64) -> Option<u32> {
    let [magic, slots, ..] = words(head)?;
    let slots = u32::try_from(slots).ok().filter(|slots| *slots > 0 && slots.is_power_of_two())?;
    (magic == MAGIC && table_bytes(slots) <= bytes).then_some(slots)
}

/// The bytes of a record.
#[must_use]
pub fn encode(record: &Record) -> [u8; RECORD_BYTES] {
    let small = u64::from(record.number) | u64::from(record.anyone.bits()) << 32;
    let [one, two] = record.hash;
    put(&[VALID, one, two, small, record.generation, record.bytes, check_of(record)])
}

/// The tombstone of a record that was deleted. What the record held stays readable, above all the generation.
#[must_use]
pub fn deleted(record: &Record) -> [u8; RECORD_BYTES] {
    let mut bytes = encode(record);
    bytes[..8].copy_from_slice(&DELETED.to_le_bytes());
    bytes
}

/// What a slot holds, decoded from its bytes.
#[must_use]
pub fn decode(bytes: &[u8]) -> Slot {
    let Some([state, one, two, small, generation, size, check, _]) = words(bytes) else { return Slot::Torn };
    match state {
        0 => return Slot::Empty,
        DELETED => return Slot::Deleted,
        VALID => {}
        _ => return Slot::Torn,
    }
    let anyone = Rights::from_bits((small >> 32) as u8);
    let record = Record { hash: [one, two], number: small as u32, anyone, generation, bytes: size };
    if check == check_of(&record) { Slot::Valid(record) } else { Slot::Torn }
}

/// Words are read whole, records are not: this checksum distinguishes a mix of two records from a record.
fn check_of(record: &Record) -> u64 {
    let words = [
        record.hash[0],
        record.hash[1],
        record.number.into(),
        record.anyone.bits().into(),
        record.generation,
        record.bytes,
    ];
    words.iter().fold(MAGIC, |sum, word| mix(sum ^ *word).wrapping_add(1))
}

fn put(words: &[u64]) -> [u8; RECORD_BYTES] {
    let mut bytes = [0; RECORD_BYTES];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

fn words(bytes: &[u8]) -> Option<[u64; RECORD_BYTES / 8]> {
    let mut words = [0; RECORD_BYTES / 8];
    if bytes.len() != RECORD_BYTES {
        return None;
    }
    for (word, place) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = place.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    }
    Some(words)
}

/// A look-up under way: which slot to read next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probe {
    hash: [u64; 2],
    slots: u32,
    at: u32,
    left: u32,
    again: bool,
}

/// What a slot means for a look-up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Saw {
    /// Found, in this slot.
    Found(Record, u32),
    /// Read this slot next.
    Next(u32),
    /// It is not in the table.
    Absent,
    /// It may be in a slot that was not read: ask the owner (section 4.2, the second and third way).
    Unknown,
}

impl Probe {
    /// Looks for a name in a table of `slots` slots, in at most `probes_max` of them.
    #[must_use]
    pub fn new(name: &str, slots: u32, probes_max: u32) -> Self {
        let hash = hash(name);
        let slots = slots.max(1);
        Self { hash, slots, at: (hash[0] % u64::from(slots)) as u32, left: probes_max.min(slots), again: true }
    }

    /// The slot to read first.
    #[must_use]
    pub const fn first(&self) -> u32 {
        self.at
    }

    /// Looks at the bytes of the slot that was named last.
    pub fn look(&mut self, bytes: &[u8]) -> Saw {
        match decode(bytes) {
            Slot::Empty => return Saw::Absent,
            Slot::Valid(record) if record.hash == self.hash => return Saw::Found(record, self.at),
            // Once more: whoever was writing the record is done by now.
            Slot::Torn if core::mem::take(&mut self.again) => return Saw::Next(self.at),
            Slot::Torn | Slot::Deleted | Slot::Valid(_) => {}
        }
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            return Saw::Unknown;
        }
        self.at = (self.at + 1) % self.slots;
        Saw::Next(self.at)
    }
}
