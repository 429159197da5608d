//! A message is a head and a tail from a peer: any bytes give a message that can be said again, or an error.
#![no_main]

use bytes::Bytes;
use catena_wire::{Encoded, Hello, Message};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|parts: (&[u8], &[u8])| {
    let (head, tail) = parts;
    let _ = Hello::decode(head);
    let encoded = Encoded { head: Bytes::copy_from_slice(head), tail: Bytes::copy_from_slice(tail) };
    if let Ok(message) = Message::decode(encoded) {
        // Compared as bytes: a profile or a payload may hold a NaN, which is not equal to itself.
        let again = message.encode();
        let twice = Message::decode(again.clone()).map(Message::encode);
        assert_eq!(twice, Ok(again), "what was understood once is understood again");
    }
});
