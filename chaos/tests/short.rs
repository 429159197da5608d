//! A short run of `make chaos`, with its seed printed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use std::process::Command;

#[test]
fn whatever_happens_to_the_nodes_no_effect_is_doubled_or_lost_and_no_chain_hangs() {
    let folder = tempfile::tempdir().unwrap();
    let result = folder.path().join("result.json");
    let ran = Command::new(env!("CARGO_BIN_EXE_catena-chaos"))
        .args(["--chains", "150", "--nodes", "3", "--result"])
        .arg(&result)
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    println!("{out}{err}");
    assert!(ran.status.success(), "{out}{err}");
    let figures: serde_json::Value = serde_json::from_slice(&std::fs::read(&result).unwrap()).unwrap();
    let count = |key: &str| figures[key].as_u64().unwrap();
    assert_eq!((count("doubled"), count("lost"), count("hung")), (0, 0, 0));
    assert!(count("faults") > 0 && count("answered") > 0, "something happened: {figures}");
    assert_eq!(count("answered") + count("failed") + count("unknown"), count("chains"));
}
