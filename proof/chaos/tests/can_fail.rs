//! Nodes that make a mistake on purpose are found out, by every kind of chain: a tester that cannot fail proves nothing.
//! Mistakes of the protocol itself need a build of their own: `tools/chaos.sh bugs`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::process::Stdio;

use support::{Ran, chaos};

/// A run of nodes with a flaw, which must not pass; with few faults, so that most chains are answered. What it says is kept: it is no news.
fn found(flaw: &str) -> Ran {
    let arguments = ["--seed", "2", "--chains", "160", "--nodes", "3", "--fault-every-ms", "2000", "--flaw", flaw];
    let ran = chaos(&arguments, Stdio::piped());
    assert!(!ran.output.status.success(), "{flaw}: {}", ran.figures);
    ran
}

const KINDS: [&str; 11] = [
    "adaptive",
    "apart",
    "beside",
    "cancelled",
    "composed",
    "durable",
    "interactive",
    "mixed",
    "split",
    "straight",
    "throwing",
];

#[test]
fn effects_that_take_place_twice_are_found() {
    let ran = found("twice");
    for kind in KINDS {
        assert!(ran.count_of(kind, "doubled") > 0, "{kind}: {}", ran.figures);
    }
    assert_eq!(ran.count_of("repeatable", "doubled"), 0, "it may take place twice");
}

#[test]
fn effects_that_never_take_place_are_found() {
    let ran = found("never");
    for kind in KINDS.into_iter().chain(["repeatable"]) {
        assert!(ran.count_of(kind, "lost") > 0, "{kind}: {}", ran.figures);
    }
}
