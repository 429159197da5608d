//! A payload, and an exception from a guest or a peer: any bytes give one, or an error.
#![no_main]

use bytes::Bytes;
use catena_wire::{Exception, Value};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(value) = Value::from_cbor(Bytes::copy_from_slice(bytes)) {
        assert_eq!(value.as_bytes().as_ref(), bytes);
        let _ = format!("{value:?}");
    }
    if let Ok(exception) = minicbor::decode::<Exception>(bytes) {
        let again = minicbor::to_vec(&exception).expect("memory");
        let twice: Exception = minicbor::decode(&again).expect("what was said is understood");
        assert_eq!(minicbor::to_vec(&twice).expect("memory"), again);
        let _ = format!("{exception}");
    }
});
