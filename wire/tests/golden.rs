//! The wire format may not change unnoticed: the bytes of one message of each kind.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::fmt::Write as _;

use catena_wire::{Encoded, Message};

const GOLDEN: &str = include_str!("golden.txt");

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect()
}

fn lines() -> String {
    let line = |(kind, message): (&str, Message)| {
        let Encoded { head, tail } = message.encode();
        format!("{kind}: {} | {}\n", hex(&head), hex(&tail))
    };
    common::samples().into_iter().map(line).collect()
}

#[test]
fn the_bytes_are_those_that_other_nodes_know() {
    assert_eq!(
        lines(),
        GOLDEN,
        "the wire format has changed; if that is meant, it is a new version, and golden.txt follows"
    );
}

#[test]
fn the_bytes_that_other_nodes_send_are_understood() {
    let samples = common::samples();
    assert_eq!(GOLDEN.lines().count(), samples.len());
    for (line, (kind, message)) in GOLDEN.lines().zip(samples) {
        let (head, tail) = line.split_once(": ").unwrap().1.split_once(" | ").unwrap();
        let encoded = Encoded { head: bytes(head).into(), tail: bytes(tail.trim_end()).into() };
        assert_eq!(Message::decode(encoded), Ok(message), "{kind}");
    }
}
