//! A short run of `make chaos`, with its seed printed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::process::Stdio;

#[test]
fn whatever_happens_to_the_nodes_no_effect_is_doubled_or_lost_and_no_chain_hangs() {
    // The program says its seed, and what went wrong, on stderr: inherited, since what a test itself prints is seen only if it fails.
    let ran = support::chaos(&["--chains", "250", "--nodes", "3"], Stdio::inherit());
    let out = String::from_utf8_lossy(&ran.output.stdout);
    assert!(ran.output.status.success(), "{out}");
    for none in ["doubled", "lost", "hung", "ran_on", "left_running"] {
        assert_eq!(ran.count(none), 0, "{none}: {out}");
    }
    assert!(ran.count("faults") > 0 && ran.count("answered") > 0, "something happened: {out}");
    assert_eq!(ran.count("answered") + ran.count("failed") + ran.count("unknown"), ran.count("chains"));
    let kinds = ran.figures["kinds"].as_object().unwrap();
    assert_eq!(kinds.values().map(|kind| kind["chains"].as_u64().unwrap()).sum::<u64>(), ran.count("chains"));
}
