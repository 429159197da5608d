//! What an owner tells of how its memory is reached by RDMA: any bytes give a token that is said again as it came, or
//! none.
#![no_main]
#![allow(dead_code, reason = "of the crate's own module a part is used; the crate itself loads libfabric")]

#[path = "../../../segment/fabric/src/token.rs"]
mod token;

use catena_wire::REACH_BYTES_MAX;
use libfuzzer_sys::fuzz_target;
use token::Token;

/// The form of token that there is: most inputs would fail there.
const FORM: u8 = 1;

fuzz_target!(|bytes: &[u8]| {
    for bytes in [bytes, &[&[FORM], bytes].concat()] {
        let Some(token) = Token::decode(bytes) else { continue };
        assert!(token.address.len() < bytes.len() && bytes.len() <= REACH_BYTES_MAX, "{token:?}");
        assert_eq!(token.encode(), bytes);
    }
});
