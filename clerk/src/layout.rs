//! How a table lies in a segment: bytes in, decisions out. Nothing that is read is trusted.
//!
//! ```text
//! head, 64 bytes:   magic | slots | sectors | payload bytes | check of these | beat | 0 | 0
//! slot i:           sectors of (16 + payload) bytes each, from 64 + i * slot bytes on
//! sector:           flag word | check | payload
//! flag word:        bit 0: valid; bit 1: the value ends here; bits 2 to 17: bytes of the value in this sector; the rest: version
//! ```
//!
//! All words are little-endian. The check covers key, flag word, sector number and bytes, so that each sector by itself shows whose it is and that it is whole:
//! a reader may fetch only as many sectors of a slot as it needs. Sectors of one value have the same version.

use std::hash::{Hash, Hasher};

/// Bytes of a table's head.
pub const HEAD_BYTES: usize = 64;
/// Offset of the beat word, which the owner increments.
pub const BEAT_AT: u64 = 40;
/// Bytes of a sector before its payload.
pub(crate) const SECTOR_HEAD_BYTES: usize = 16;
/// Payload of a sector at most, in bytes: its length has 16 bits.
pub const PAYLOAD_BYTES_MAX: u32 = 32 << 10;
/// Sectors of a slot at most.
pub const SECTORS_MAX: u32 = 256;
/// Slots of a table at most.
pub const SLOTS_MAX: u32 = 1 << 24;

const MAGIC: u64 = u64::from_le_bytes(*b"catenaT1");
const VALID: u64 = 1;
const LAST: u64 = 2;
const VERSION_SHIFT: u32 = 18;

/// The key of an entry: 128 bits of a collision-resistant hash, so that users who choose names cannot make one file look like another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Key(pub [u64; 2]);

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0[0]);
    }
}

impl Key {
    /// The key of these parts, in this order; each part is delimited from its neighbours.
    #[must_use]
    pub fn of(parts: &[&[u8]]) -> Self {
        let mut hash = blake3::Hasher::new();
        for part in parts {
            hash.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        let mut bytes = [0; 16];
        hash.finalize_xof().fill(&mut bytes);
        let whole = u128::from_le_bytes(bytes);
        Self([whole as u64, (whole >> 64) as u64])
    }
}

/// The dimensions of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// How many entries it has room for.
    pub slots: u32,
    /// Sectors of a slot.
    pub sectors: u32,
    /// Bytes of a value in each sector: a multiple of 8.
    pub payload: u32,
}

/// Bytes that are no table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LayoutError {
    /// The head is that of something else, or torn.
    #[error("the segment holds no table: its head is not one")]
    NoTable,
    /// Dimensions that no table can have, or that do not fit into the segment.
    #[error("a table of {0:?} does not fit: slots, sectors and payload have bounds, and the segment has {1} bytes")]
    Measures(Shape, u64),
}

impl Shape {
    /// Bytes that a value may have.
    #[must_use]
    pub const fn value_bytes(&self) -> usize {
        self.sectors as usize * self.payload as usize
    }

    /// Bytes from one sector to the next.
    #[must_use]
    pub const fn sector_bytes(&self) -> usize {
        SECTOR_HEAD_BYTES + self.payload as usize
    }

    /// Bytes of the segment.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.at(self.slots, 0)
    }

    /// Where a sector of a slot begins.
    #[must_use]
    pub const fn at(&self, slot: u32, sector: u32) -> u64 {
        HEAD_BYTES as u64 + (slot as u64 * self.sectors as u64 + sector as u64) * self.sector_bytes() as u64
    }

    /// The two slots in which a key may lie.
    #[must_use]
    pub const fn slots_of(&self, key: Key) -> [u32; 2] {
        let slots = self.slots as u64;
        let (one, two) = ((key.0[0] % slots) as u32, (key.0[1] % slots) as u32);
        [one, if one == two { (two + 1) % self.slots } else { two }]
    }

    /// Number of sectors that hold the first `bytes` of a value, at least one.
    #[must_use]
    pub const fn sectors_for(&self, bytes: usize) -> u32 {
        let sectors = bytes.div_ceil(self.payload as usize);
        if sectors == 0 {
            1
        } else if sectors > self.sectors as usize {
            self.sectors
        } else {
            sectors as u32
        }
    }

    /// Whether a table of this shape is valid, and fits into a segment of this size.
    ///
    /// # Errors
    /// [`LayoutError::Measures`]
    pub fn check(&self, segment_bytes: u64) -> Result<(), LayoutError> {
        let sound = (1..=SLOTS_MAX).contains(&self.slots)
            && (1..=SECTORS_MAX).contains(&self.sectors)
            && (8..=PAYLOAD_BYTES_MAX).contains(&self.payload)
            && self.payload.is_multiple_of(8);
        match sound && self.bytes() <= segment_bytes {
            true => Ok(()),
            false => Err(LayoutError::Measures(*self, segment_bytes)),
        }
    }

    /// The head of such a table.
    #[must_use]
    pub fn head(&self) -> [u8; HEAD_BYTES] {
        let measures = [MAGIC, self.slots.into(), self.sectors.into(), self.payload.into()];
        let mut head = [0; HEAD_BYTES];
        let words = measures.into_iter().chain([head_check(measures)]);
        for (to, word) in head.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *to = word.to_le_bytes();
        }
        head
    }

    /// The shape that a head declares, if it is valid and fits into a segment of this size.
    ///
    /// # Errors
    /// [`LayoutError`]
    pub fn of_head(head: &[u8], segment_bytes: u64) -> Result<Self, LayoutError> {
        let mut words = head.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        let mut next = || words.next().ok_or(LayoutError::NoTable);
        let (measures, check) = ([next()?, next()?, next()?, next()?], next()?);
        if measures[0] != MAGIC || check != head_check(measures) {
            return Err(LayoutError::NoTable);
        }
        let small = |word: u64| u32::try_from(word).map_err(|_| LayoutError::NoTable);
        let shape = Self { slots: small(measures[1])?, sectors: small(measures[2])?, payload: small(measures[3])? };
        shape.check(segment_bytes).map(|()| shape)
    }
}

fn head_check(measures: [u64; 4]) -> u64 {
    let bytes: Vec<u8> = measures.iter().flat_map(|word| word.to_le_bytes()).collect();
    check(Key([0, 0]), 0, 0, &bytes)
}

/// Tells a whole sector of this key from anything else, but for a chance of one in 2^64. It is not a secret: whoever may write the table can forge it.
#[must_use]
pub(crate) fn check(key: Key, flag: u64, sector: u32, bytes: &[u8]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let step = |lane: u64, word: u64| (lane ^ word).wrapping_mul(ODD).rotate_left(29);
    let mut lanes = [key.0[0] ^ flag, key.0[1] ^ u64::from(sector), !flag, bytes.len() as u64];
    let (rows, rest) = bytes.as_chunks::<32>();
    for row in rows {
        for (lane, word) in lanes.iter_mut().zip(row.as_chunks::<8>().0) {
            *lane = step(*lane, u64::from_le_bytes(*word));
        }
    }
    let mut tail = [0; 32];
    tail[..rest.len()].copy_from_slice(rest);
    for (lane, word) in lanes.iter_mut().zip(tail.as_chunks::<8>().0) {
        *lane = step(*lane, u64::from_le_bytes(*word));
    }
    lanes.into_iter().fold(ODD, |sum, lane| {
        let mixed = step(sum, lane);
        mixed ^ (mixed >> 31)
    })
}

/// The bytes of a value's sectors.
#[must_use]
pub(crate) fn encode(shape: &Shape, key: Key, version: u64, value: &[u8]) -> Vec<Vec<u8>> {
    let payload = shape.payload as usize;
    let count = shape.sectors_for(value.len());
    (0..count)
        .map(|number| {
            let from = number as usize * payload;
            let bytes = &value[from..value.len().min(from + payload)];
            let last = if number + 1 == count { LAST } else { 0 };
            let flag = VALID | last | (bytes.len() as u64) << 2 | version << VERSION_SHIFT;
            let mut sector = Vec::with_capacity(SECTOR_HEAD_BYTES + bytes.len());
            sector.extend_from_slice(&flag.to_le_bytes());
            sector.extend_from_slice(&check(key, flag, number, bytes).to_le_bytes());
            sector.extend_from_slice(bytes);
            sector
        })
        .collect()
}

/// What the sectors of a slot say about a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Seen {
    /// The value, whole.
    Whole(Vec<u8>),
    /// The beginning of the value, which continues in sectors that were not fetched.
    Begins(Vec<u8>),
    /// Nothing of this key: empty, another's, torn, or a lie. Which of them does not matter: it is a miss.
    Miss,
}

/// Reads `sectors` (from the first of the slot on) as those of `key`.
#[must_use]
pub(crate) fn decode(shape: &Shape, key: Key, sectors: &[u8]) -> Seen {
    let mut value = Vec::with_capacity(sectors.len());
    let mut version = None;
    for (number, sector) in sectors.chunks_exact(shape.sector_bytes()).enumerate() {
        let Some((flag, bytes)) = sector_of(key, number as u32, sector) else { return Seen::Miss };
        if *version.get_or_insert(flag >> VERSION_SHIFT) != flag >> VERSION_SHIFT {
            return Seen::Miss;
        }
        value.extend_from_slice(bytes);
        if flag & LAST != 0 {
            return Seen::Whole(value);
        }
        if bytes.len() != shape.payload as usize {
            return Seen::Miss;
        }
    }
    if version.is_none() { Seen::Miss } else { Seen::Begins(value) }
}

fn sector_of(key: Key, number: u32, sector: &[u8]) -> Option<(u64, &[u8])> {
    let (head, payload) = sector.split_at_checked(SECTOR_HEAD_BYTES)?;
    let mut words = head.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    let (flag, told) = (words.next()?, words.next()?);
    let bytes = payload.get(..(flag >> 2) as usize & 0xffff)?;
    (flag & VALID != 0 && check(key, flag, number, bytes) == told).then_some((flag, bytes))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    const SHAPE: Shape = Shape { slots: 8, sectors: 4, payload: 64 };

    fn laid(key: Key, version: u64, value: &[u8]) -> Vec<u8> {
        let mut slot = vec![0; SHAPE.sector_bytes() * SHAPE.sectors as usize];
        for (number, sector) in encode(&SHAPE, key, version, value).iter().enumerate() {
            slot[number * SHAPE.sector_bytes()..][..sector.len()].copy_from_slice(sector);
        }
        slot
    }

    proptest! {
        #[test]
        fn a_value_comes_back_whole_or_its_beginning(value in proptest::collection::vec(any::<u8>(), 0..=256), sectors in 1_usize..=4) {
            let key = Key::of(&[b"a", b"b"]);
            let slot = laid(key, 7, &value);
            let brought = &slot[..SHAPE.sector_bytes() * sectors];
            match decode(&SHAPE, key, brought) {
                Seen::Whole(all) => prop_assert_eq!(all, value),
                Seen::Begins(some) => prop_assert_eq!(&some[..], &value[..64 * sectors]),
                Seen::Miss => prop_assert!(false),
            }
        }

        #[test]
        fn any_bytes_are_a_miss(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            prop_assert_eq!(decode(&SHAPE, Key::of(&[b"a"]), &bytes), Seen::Miss);
        }

        #[test]
        fn any_head_is_no_table_or_one_that_fits(bytes in proptest::collection::vec(any::<u8>(), 0..80), slots: u32, sectors: u32, payload: u32, sound: bool) {
            let head = if sound { Shape { slots, sectors, payload }.head().to_vec() } else { bytes };
            if let Ok(shape) = Shape::of_head(&head, 1 << 20) {
                prop_assert!(shape.bytes() <= 1 << 20);
            }
        }

        #[test]
        fn one_changed_byte_is_a_miss((bytes, at) in (1_usize..=64).prop_flat_map(|bytes| (Just(bytes), 0..16 + bytes)), by in 1_u8..) {
            let key = Key::of(&[b"k"]);
            let mut slot = laid(key, 3, &vec![5; bytes]);
            slot[at] ^= by;
            prop_assert_eq!(decode(&SHAPE, key, &slot), Seen::Miss);
        }

        #[test]
        fn words_of_two_writes_are_a_miss(words in proptest::collection::vec(any::<bool>(), 20)) {
            let key = Key::of(&[b"k"]);
            let (old, new) = (laid(key, 3, &[1; 144]), laid(key, 4, &[2; 144]));
            let used = 2 * SHAPE.sector_bytes() + 32;
            let mut torn = old.clone();
            for (at, from_new) in (0..used).step_by(8).zip(words.into_iter().cycle()) {
                if from_new {
                    torn[at..at + 8].copy_from_slice(&new[at..at + 8]);
                }
            }
            match decode(&SHAPE, key, &torn) {
                Seen::Whole(value) => prop_assert!(value == [1; 144] || value == [2; 144]),
                Seen::Begins(_) => prop_assert!(false),
                Seen::Miss => {}
            }
        }
    }

    #[test]
    fn another_key_s_entry_is_a_miss() {
        let slot = laid(Key::of(&[b"mine"]), 1, b"value");
        assert_eq!(decode(&SHAPE, Key::of(&[b"yours"]), &slot), Seen::Miss);
        assert_ne!(Key::of(&[b"a", b"bc"]), Key::of(&[b"ab", b"c"]));
    }

    #[test]
    fn a_head_is_that_of_its_table_alone_and_of_one_that_fits() {
        assert_eq!(Shape::of_head(&SHAPE.head(), SHAPE.bytes()), Ok(SHAPE));
        assert_eq!(
            Shape::of_head(&SHAPE.head(), SHAPE.bytes() - 1),
            Err(LayoutError::Measures(SHAPE, SHAPE.bytes() - 1))
        );
        for at in 0..40 {
            let mut head = SHAPE.head();
            head[at] ^= 1;
            assert_eq!(Shape::of_head(&head, SHAPE.bytes()), Err(LayoutError::NoTable), "byte {at}");
        }
        let other = [MAGIC + 1, 8, 4, 64];
        let words = other.into_iter().chain([head_check(other)]);
        let head: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        assert_eq!(
            Shape::of_head(&head, SHAPE.bytes()),
            Err(LayoutError::NoTable),
            "something else with the same check"
        );
    }

    #[test]
    fn sectors_of_one_value_in_another_order_are_a_miss() {
        let (key, cut) = (Key::of(&[b"k"]), SHAPE.sector_bytes());
        let slot = laid(key, 3, &[[1; 64], [2; 64], [3; 64]].concat());
        let swapped = [&slot[cut..2 * cut], &slot[..cut], &slot[2 * cut..]].concat();
        assert_eq!(decode(&SHAPE, key, &swapped), Seen::Miss);
    }

    #[test]
    fn a_sector_that_is_not_valid_or_too_short_to_be_gone_on_from_is_a_miss() {
        let key = Key::of(&[b"k"]);
        // With a matching check, as the owner would write it.
        let with = |flag: u64, bytes: &[u8]| {
            let mut slot = laid(key, 3, &[7; 100]);
            slot[..8].copy_from_slice(&flag.to_le_bytes());
            slot[8..16].copy_from_slice(&check(key, flag, 0, bytes).to_le_bytes());
            decode(&SHAPE, key, &slot)
        };
        let flag = |valid: u64, bytes: u64| valid | bytes << 2 | 3 << VERSION_SHIFT;
        assert_eq!(with(flag(VALID, 64), &[7; 64]), Seen::Whole(vec![7; 100]));
        assert_eq!(with(flag(0, 64), &[7; 64]), Seen::Miss);
        assert_eq!(with(flag(VALID, 40), &[7; 40]), Seen::Miss);
    }

    #[test]
    fn sectors_of_two_versions_are_a_miss() {
        let key = Key::of(&[b"k"]);
        let (old, new) = (laid(key, 3, &[1; 128]), laid(key, 4, &[1; 128]));
        let cut = SHAPE.sector_bytes();
        let mixed: Vec<u8> = old[..cut].iter().chain(&new[cut..]).copied().collect();
        assert_eq!(decode(&SHAPE, key, &mixed), Seen::Miss);
    }
}
