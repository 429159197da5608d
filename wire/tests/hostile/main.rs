//! What a peer only claims costs nothing: no bytes are asked for because a length says so.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../common/mod.rs"]
mod common;
mod counting;

use bytes::Bytes;
use catena_wire::{
    CONSOLE_LINES_MAX, Exception, FUNCTIONS_MAX, Hello, Hop, LISTING_ENTRIES_MAX, LISTING_NAMES_MAX, LogLine, Message,
    StepTrace, TRACE_STEPS_MAX, Value,
};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// Per byte that came: a step of a profile, the largest thing in a list, takes some 150 bytes of memory and at least 11 on the wire.
const FACTOR: usize = 64;
/// Whatever came: an error's text, the first few entries of a list.
const BASE: usize = 16 << 10;

fn decode_cheaply(bytes: &[u8]) {
    let asked = counting::bytes_asked_by(|| {
        let _ = Message::decode_head(bytes);
        let _ = Hello::decode(bytes);
        let _ = minicbor::decode::<Exception>(bytes);
        let _ = Value::from_cbor(Bytes::copy_from_slice(bytes));
    });
    let most = BASE + FACTOR * bytes.len();
    assert!(asked <= most, "{asked} bytes were asked for by {} bytes: {bytes:x?}", bytes.len());
}

#[test]
fn what_is_asked_for_is_counted() {
    assert!(counting::bytes_asked_by(|| drop(vec![0_u8; 5_000])) >= 5_000);
}

#[test]
fn every_bit_of_every_message_may_be_wrong() {
    for (_, message) in common::samples() {
        let head = message.encode().head;
        for bit in 0..head.len() * 8 {
            let mut head = head.to_vec();
            head[bit / 8] ^= 1_u8 << (bit % 8);
            decode_cheaply(&head);
        }
    }
}

#[test]
fn every_message_may_be_cut_anywhere() {
    for (kind, message) in common::samples() {
        let head = message.encode().head;
        for cut in 0..head.len() {
            assert!(Message::decode_head(&head[..cut]).is_err(), "{kind} at {cut}");
            decode_cheaply(&head[..cut]);
        }
    }
}

/// Any byte of a message becomes the beginning of something 2^60 long.
#[test]
fn a_claimed_length_costs_nothing() {
    for (_, message) in common::samples() {
        let head = message.encode().head;
        for at in 0..head.len() {
            for major in [0x5b, 0x7b, 0x9b, 0xbb_u8] {
                let claim = [&[major][..], &(1_u64 << 60).to_be_bytes()].concat();
                decode_cheaply(&[&head[..at], &claim, &head[at..]].concat());
                decode_cheaply(&[&head[..at], &claim, &head[at + 1..]].concat());
            }
        }
    }
}

#[test]
fn a_claimed_tail_costs_nothing() {
    let mut hop = common::hop_of();
    hop.continuation_bytes = u32::MAX;
    let head = Message::Hop(Box::new(hop)).encode().head;
    let asked = counting::bytes_asked_by(|| {
        let mut message = Message::decode_head(&head).unwrap();
        assert!(message.attach_tail(Bytes::from_static(b"abc")).is_err());
    });
    assert!(asked < BASE, "{asked}");
}

/// What is charged for a message, by its length alone, is enough with the longest lists of the smallest items.
#[test]
fn what_is_charged_is_enough() {
    let line = LogLine { node: String::new(), text: String::new(), ..common::line_of() };
    let hop = |blobs, steps, lines| {
        let step = StepTrace { blobs, ..StepTrace::default() };
        let (trace, console) = (Some(vec![step; steps]), vec![line.clone(); lines]);
        Message::Hop(Box::new(Hop { trace, console, ..common::hop_of() }))
    };
    let list = |count, names| Message::Listing(1, vec![common::entry_of(names); count]);
    let messages = [
        hop(None, TRACE_STEPS_MAX, CONSOLE_LINES_MAX),
        hop(Some(Box::default()), TRACE_STEPS_MAX, 0),
        list(LISTING_ENTRIES_MAX, 0),
        list(LISTING_NAMES_MAX / FUNCTIONS_MAX, FUNCTIONS_MAX),
    ];
    for message in messages {
        let head = message.encode().head;
        let asked = counting::bytes_asked_by(|| drop(Message::decode_head(&head).unwrap()));
        let charged = Message::decoded_bytes_max(head.len());
        assert!(asked as u64 <= charged, "{asked} bytes for {}, and {charged} are charged", head.len());
    }
}

/// What a hop carries may be much, and its sender keeps it until the hop is accepted: it is written from there, not copied first.
#[test]
fn a_hop_that_leaves_takes_no_more_than_its_bytes() {
    /// What it takes to share the continuation with whoever sends it.
    const SHARING_BYTES: usize = 64;
    let hop = Hop { stack: Vec::new(), code_bytes: None, ..common::hop_of() };
    let head_bytes = hop.leaving().encode().head.len();
    let asked = counting::bytes_asked_by(|| drop(hop.leaving().encode()));
    assert!(asked <= head_bytes + SHARING_BYTES, "{asked} bytes were asked for by a head of {head_bytes}");
}
