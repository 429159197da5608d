//! A blob's reference comes from whoever sent the value: any bytes give one whose range is within what it says there is, and which can be said again, or an error.
#![no_main]
#![allow(dead_code, reason = "of the crate's own module a part is used; the crate itself brings wasmtime")]

#[path = "../../../catena/src/blobs/reference.rs"]
mod reference;

use catena_wire::NAME_BYTES_MAX;
use libfuzzer_sys::fuzz_target;
use reference::Reference;

/// The tag, and an array of four: most inputs would fail there.
const HEAD: [u8; 6] = [0xda, 0x43, 0x42, 0x4c, 0x42, 0x84];

fuzz_target!(|bytes: &[u8]| {
    for bytes in [bytes, &[&HEAD, bytes].concat()] {
        let Ok(reference) = minicbor_serde::from_slice::<Reference>(bytes) else { continue };
        let Reference { owner, held, first, size, media_type, .. } = &reference;
        assert!(first.checked_add(*size).is_some_and(|end| end <= *held), "{reference:?}");
        let texts = [Some(&owner.name), owner.address.as_ref(), owner.site.as_ref(), Some(media_type)];
        assert!(texts.into_iter().flatten().all(|text| text.len() <= NAME_BYTES_MAX), "{reference:?}");
        let again = minicbor_serde::to_vec(&reference).expect("memory");
        assert_eq!(minicbor_serde::from_slice::<Reference>(&again).ok().as_ref(), Some(&reference));
        let _ = reference.to_string();
    }
});
