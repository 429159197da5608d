//! Limits that whoever runs a function lowers (rpc-chains section 3.6).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use support::{Ended, Server, catena, catena_with_input, file, folder, world};

/// What a function does after its first hop, the flag that forbids it, and how that limit is told.
const CASES: [(&str, [&str; 2], &str); 5] = [
    (
        "return new Uint8Array(6 << 20).fill(1).length;",
        ["--memory-bytes-max", "4194304"],
        "memory_bytes_max (4194304 bytes)",
    ),
    ("let n = 0; while (n < 3e5) n++; return n;", ["--step-wall-ms-max", "1"], "step_wall_ms_max (1 ms)"),
    (
        "for (let n = 0; n < 100; n++) emit('x'.repeat(1000)); return 1;",
        ["--output-bytes-max", "20000"],
        "output_bytes_max (20000 bytes)",
    ),
    ("for (let n = 0; n < 100; n++) emit(n); return 1;", ["--events-max", "20"], "events_max (20 events)"),
    (
        "const kept = Uint8Array.from({ length: 1e5 }, () => Math.random() * 256); await call('probe.cam/where', {}); return kept.length;",
        ["--continuation-bytes-max", "50000"],
        "continuation_bytes_max (50000 bytes)",
    ),
];

fn function(folder: &tempfile::TempDir, after_the_hop: &str) -> String {
    let source = format!(
        "import {{ call, emit }} from \"catena\";\nexport default async () => {{ await call(\"probe.red/where\", {{}}); {after_the_hop} }};\n"
    );
    file(folder, "f.js", &source)
}

#[track_caller]
fn run(function: &str, address: &str, more: &[&str]) -> Ended {
    let mut arguments = vec!["run", function, "--connect", address];
    arguments.extend(more);
    catena(&arguments)
}

#[test]
fn a_lowered_limit_breaks_where_the_chain_is() {
    let world = world();
    for (does, flag, told) in CASES {
        let folder = folder();
        let function = function(&folder, does);
        let allowed = run(&function, &world.address, &[]);
        assert_eq!(allowed.code, Some(0), "{does}: {allowed:?}");
        run(&function, &world.address, &flag).failed(1, &["LimitExceeded", told, "client > red"]);
    }
}

#[test]
fn a_lowered_limit_breaks_here_where_the_function_runs_here() {
    let world = world();
    for (does, flag, told) in CASES {
        let folder = folder();
        let function = function(&folder, does);
        let way = folder.path().join("way.json");
        let way = way.to_str().unwrap();
        // Where nothing is packed, no continuation is too large.
        if flag[0] != "--continuation-bytes-max" {
            let ended = run(&function, &world.address, &["--mode", "interactive", flag[0], flag[1]]);
            ended.failed(1, &["LimitExceeded", told]);
            assert!(!ended.err.contains("client > red"), "{ended:?}");
            let debug = ["debug", &function, "--connect", &world.address, flag[0], flag[1]];
            catena_with_input(&debug, "continue\n").failed(1, &["LimitExceeded", told]);
        }
        run(&function, &world.address, &["--record", way, flag[0], flag[1]]).failed(1, &["LimitExceeded", told]);
        let again = catena(&["replay", way]);
        again.failed(1, &["LimitExceeded", told]);
        assert!(!again.err.contains("another way"), "{again:?}");
    }
}

#[test]
fn nothing_can_be_raised() {
    let folder = folder();
    let node = "name = \"own\"\nlisten = \"127.0.0.1:0\"\n[[service]]\nkind = \"probe\"\nname = \"probe.red\"\n[limits]\nevents_max = 50\n";
    let node = Server::start(&["up", &file(&folder, "own.toml", node), "--json"]);
    let address = node.ready()["node"]["address"].as_str().unwrap().to_owned();
    let function = function(&folder, "for (let n = 0; n < 100; n++) emit(n); return 1;");
    run(&function, &address, &["--events-max", "1000"]).failed(1, &["events_max (50 events)", "client > own"]);
    run(&function, &address, &["--events-max", "20"]).failed(1, &["events_max (20 events)", "client > own"]);
}

#[test]
fn nothing_is_no_limit() {
    let folder = folder();
    let function = function(&folder, "return 1;");
    run(&function, "127.0.0.1:1", &["--events-max", "0"]).failed(2, &["--events-max", "0"]);
}
