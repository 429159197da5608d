//! Nodes that make a mistake on purpose are found out, by every kind of chain: a tester that cannot fail proves nothing.
//! Mistakes of the protocol itself need a build of their own: `make chaos-bugs`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::process::Stdio;

use support::{Ran, chaos};

/// A run of nodes with a flaw, which must not pass; with few faults, so that most chains are answered. What it says is kept: it is no news.
fn found(flaw: &str, chosen: &[&str]) -> Ran {
    let arguments = ["--seed", "2", "--nodes", "3", "--fault-every-ms", "10000", "--flaw", flaw];
    let ran = chaos(&[&arguments, chosen].concat(), Stdio::piped());
    assert!(!ran.output.status.success(), "{flaw}: {}", ran.figures);
    ran
}

const KINDS: [&str; 15] = [
    "adaptive",
    "beside",
    "cancelled",
    "composed",
    "delegated",
    "detached",
    "dropped",
    "durable",
    "interactive",
    "mixed",
    "moving",
    "nested",
    "split",
    "straight",
    "throwing",
];

#[test]
fn effects_that_take_place_twice_are_found() {
    let ran = found("twice", &["--chains", "400"]);
    for kind in KINDS {
        assert!(ran.count_of(kind, "doubled") > 0, "{kind}: {}", ran.figures);
    }
    assert_eq!(ran.count_of("repeatable", "doubled"), 0, "it may take place twice");
}

#[test]
fn effects_that_never_take_place_are_found() {
    let ran = found("never", &["--chains", "400"]);
    for kind in KINDS.into_iter().chain(["repeatable"]) {
        assert!(ran.count_of(kind, "lost") > 0, "{kind}: {}", ran.figures);
    }
}

#[test]
fn bytes_that_are_others_words_that_change_and_locks_that_two_hold_are_found() {
    let kinds = ["blob", "segment", "lock", "message"];
    let ran = found("wrong", &["--chains", "320", "--kind", &kinds.join(",")]);
    for kind in kinds {
        assert!(ran.count_of(kind, "wrong") > 0, "{kind}: {}", ran.figures);
    }
}

#[test]
fn servers_that_reply_to_nobody_are_found() {
    let ran = found("deaf", &["--chains", "60", "--in-flight", "8", "--kind", "dropped", "--fault", "stop"]);
    assert!(ran.count_of("dropped", "ran_on") > 0, "{}", ran.figures);
}
