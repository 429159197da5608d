//! The registry's table: what is entered is found, and what lies leads nowhere.

use catena_core::segments::{
    Clerk, Placed,
    registry::{Probe, RECORD_BYTES, Record, Saw, Slot, decode, decode_head, encode, hash, offset_of, table_bytes},
};
use catena_wire::Rights;
use proptest::prelude::*;

fn record(name: &str, generation: u64) -> Record {
    Record { hash: hash(name), number: generation as u32, anyone: Rights::READ, generation, bytes: 64 }
}

fn place(table: &mut Vec<u8>, placed: Placed) {
    match placed {
        Placed::Here(offset, bytes) => table[offset as usize..offset as usize + RECORD_BYTES].copy_from_slice(&bytes),
        Placed::Grown(grown) => *table = grown,
        Placed::Full => panic!("full"),
    }
}

/// Looks a name up as an importer does, and says how many records it read.
fn find(table: &[u8], name: &str, probes_max: u32) -> (Option<Record>, u32) {
    let Some(slots) = decode_head(&table[..RECORD_BYTES], table.len() as u64) else { return (None, 0) };
    let mut probe = Probe::new(name, slots, probes_max);
    let (mut slot, mut reads) = (probe.first(), 0);
    loop {
        let at = offset_of(slot) as usize;
        reads += 1;
        match probe.look(&table[at..at + RECORD_BYTES]) {
            Saw::Found(record, _) => return (Some(record), reads),
            Saw::Next(next) => slot = next,
            Saw::Absent | Saw::Unknown => return (None, reads),
        }
    }
}

#[test]
fn what_is_entered_is_found_until_it_is_deleted() {
    let mut clerk = Clerk::default();
    let mut table = clerk.table();
    for at in 0..1_000_u64 {
        place(&mut table, clerk.add(record(&format!("name {at}"), at + 1)));
    }
    for at in (0..1_000).step_by(3) {
        let (offset, mark) = clerk.delete(hash(&format!("name {at}"))).unwrap();
        place(&mut table, Placed::Here(offset, mark));
    }
    assert_eq!(clerk.delete(hash("name 0")), None);
    let mut reads = 0;
    for at in 0..1_000_u64 {
        let (found, these) = find(&table, &format!("name {at}"), u32::MAX);
        assert_eq!(found.map(|record| record.generation), (at % 3 != 0).then_some(at + 1));
        reads += these;
    }
    assert!(reads < 4_000, "{reads} records read for 1,000 names");
    // A deleted one's place is taken again, and the same name is found with its new generation.
    place(&mut table, clerk.add(record("name 0", 5_000)));
    assert_eq!(find(&table, "name 0", 256).0.unwrap().generation, 5_000);
}

#[test]
fn a_full_registry_takes_no_more_keeps_what_it_has_and_has_room_again_after_a_deletion() {
    let mut clerk = Clerk::default();
    let name = |at: u64| format!("name {at}");
    let mut entered = 0;
    while clerk.add(record(&name(entered), entered + 1)) != Placed::Full {
        entered += 1;
    }
    assert_eq!(entered, 3 << 16, "three quarters of the largest table");
    assert_eq!(clerk.delete(hash(&name(entered))), None, "what found no room is not in it");
    let mut table = clerk.table();
    for at in (0..entered).step_by(997) {
        assert_eq!(find(&table, &name(at), u32::MAX).0.map(|record| record.generation), Some(at + 1));
    }
    assert_eq!(find(&table, &name(entered), u32::MAX).0, None);
    let (offset, mark) = clerk.delete(hash(&name(7))).unwrap();
    place(&mut table, Placed::Here(offset, mark));
    place(&mut table, clerk.add(record(&name(entered), entered + 1)));
    assert_eq!(find(&table, &name(entered), u32::MAX).0.map(|record| record.generation), Some(entered + 1));
    assert_eq!(clerk.add(record("one more", 1)), Placed::Full);
}

#[test]
fn the_hash_is_the_same_everywhere() {
    assert_eq!(hash(""), HASH_OF_NOTHING);
    assert_eq!(hash("mail/inbox"), HASH_OF_A_NAME);
    assert_ne!(hash("a")[0], hash("b")[0]);
}

const HASH_OF_NOTHING: [u64; 2] = [17_665_956_581_633_026_203, 2_964_520_691_612_219_563];
const HASH_OF_A_NAME: [u64; 2] = [3_255_827_492_460_285_499, 7_744_748_447_910_068_598];

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_table_of_anything_ends_a_look_up(mut table in proptest::collection::vec(any::<u8>(), 64..2_000), slots in 0_u32..12) {
        let _ = find(&table, "name", 50);
        // With a head that says something that fits, and records that are whole but for their names.
        let slots = 1 << slots;
        table.resize(table_bytes(slots) as usize, 0xff);
        table[..RECORD_BYTES].copy_from_slice(&catena_core::segments::registry::encode_head(slots));
        for slot in (0..slots).step_by(2) {
            let at = offset_of(slot) as usize;
            table[at..at + RECORD_BYTES].copy_from_slice(&encode(&record(&format!("{slot}"), 1)));
        }
        let (_, reads) = find(&table, "name", 50);
        prop_assert!(reads <= 51);
    }

    #[test]
    fn a_torn_record_is_no_record(one in any::<[u64; 4]>(), two in any::<[u64; 4]>(), cut in 1_usize..8) {
        let make = |words: [u64; 4]| Record { hash: [words[0], words[1]], number: 3, anyone: Rights::ALL, generation: words[2], bytes: words[3] };
        let (one, two) = (encode(&make(one)), encode(&make(two)));
        let torn = [&one[..cut * 8], &two[cut * 8..]].concat();
        if torn[..] != one[..] && torn[..] != two[..] {
            prop_assert_eq!(decode(&torn), Slot::Torn);
        }
        prop_assert_eq!(decode_head(&torn, u64::MAX), None);
    }
}
