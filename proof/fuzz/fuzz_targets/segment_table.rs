//! A registry's table comes from a peer: whatever is in it, a look-up ends after so many slots, and reads none that the table does not have.
#![no_main]

use catena_core::segments::registry::{Probe, RECORD_BYTES, Saw, decode_head, encode_head, offset_of};
use libfuzzer_sys::fuzz_target;

const PROBES_MAX: u32 = 64;

fuzz_target!(|input: (&str, u8, &[u8])| {
    let (name, slots, records) = input;
    let _ = decode_head(records, records.len() as u64);
    let slots = 1 << (slots % 8);
    let bytes = offset_of(slots);
    assert_eq!(decode_head(&encode_head(slots), bytes), Some(slots));
    let mut probe = Probe::new(name, slots, PROBES_MAX);
    let (mut slot, mut reads) = (probe.first(), 0);
    loop {
        assert!(slot < slots && reads <= PROBES_MAX);
        reads += 1;
        let at = offset_of(slot) as usize - RECORD_BYTES;
        let record = records.get(at..at + RECORD_BYTES).unwrap_or(&[0; RECORD_BYTES]);
        match probe.look(record) {
            Saw::Next(next) => slot = next,
            Saw::Found(..) | Saw::Absent | Saw::Unknown => return,
        }
    }
});
