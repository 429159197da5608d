//! Short runs of `make chaos`, with their seeds printed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::process::Stdio;

#[test]
fn whatever_happens_to_the_nodes_nothing_is_doubled_lost_or_wrong_and_nothing_hangs() {
    // The program says its seed, and what went wrong, on stderr: inherited, since what a test itself prints is seen only if it fails.
    let ran = support::chaos(&["--chains", "400"], Stdio::inherit());
    let out = String::from_utf8_lossy(&ran.output.stdout);
    assert!(ran.output.status.success(), "{out}");
    for none in ["doubled", "lost", "misnamed", "hung", "ran_on", "wrong", "left_running"] {
        assert_eq!(ran.count(none), 0, "{none}: {out}");
    }
    assert!(ran.count("faults") > 0 && ran.count("answered") > 0, "something happened: {out}");
    assert_eq!(ran.count("answered") + ran.count("failed") + ran.count("unknown"), ran.count("chains"));
    assert!(ran.count("moves") > 0, "services moved: {out}");
    let kinds = ran.figures["kinds"].as_object().unwrap();
    assert_eq!(kinds.values().map(|kind| kind["chains"].as_u64().unwrap()).sum::<u64>(), ran.count("chains"));
}

#[test]
fn a_run_in_parts_that_was_broken_off_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let result = folder.path().join("result.json");
    let run = |parts: &str| {
        let arguments = ["--seed", "5", "--chains", "5", "--nodes", "2", "--fault-every-ms", "60000", "--parts", parts];
        support::chaos_into(&arguments, Stdio::piped(), &result)
    };
    // Alone, a part leaves its result, but is not asked for it.
    assert_eq!(run("1").count("chains"), 5);
    let part = std::fs::read_dir(folder.path().join("result.parts")).unwrap().next().unwrap().unwrap().path();
    let marked = std::fs::read_to_string(&part).unwrap().replace("\"hung\": 0", "\"hung\": 7");
    std::fs::write(&part, marked).unwrap();
    let both = run("2");
    assert_eq!((both.count("chains"), both.count("parts")), (10, 2));
    assert_eq!(both.count("hung"), 7, "what was found before counts: {}", both.figures);
    assert!(!both.output.status.success());
}
