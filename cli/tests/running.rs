//! `catena run`: where a chain's code runs, on whose behalf, how it ends, and its console.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::io::{BufRead, BufReader};

use serde_json::{Value, json};
use support::{Ended, Server, catena, command, end, file, folder, own::Own, signal};

/// Visits `own` and, if it is told to, fails there or stays.
const VISIT: &str = r#"import { call, emit, log } from "catena";
export default async (way) => {
  log("before");
  const at = await call("own/where", null);
  log("after", at);
  emit("there");
  if (way === "fail") await call("own/fail", "not today");
  if (way === "slip") return at.nobody.name;
  return at;
};
"#;

#[track_caller]
fn run(own: &Own, source: &str, more: &[&str]) -> Ended {
    let folder = folder();
    let function = file(&folder, "visit.js", source);
    let mut arguments = vec!["run", &function, "--connect", &own.address];
    arguments.extend(more);
    catena(&arguments)
}

/// The last line of `--json`.
#[track_caller]
fn report(ended: &Ended) -> Value {
    ended.json_lines().pop().unwrap()
}

#[test]
fn a_mode_says_where_the_code_runs() {
    let own = Own::start();
    let moves = json!(["client", "own"]);
    // The first run of a function from a client that knows nothing of it tries the way of a chain.
    for (mode, path) in [("chain", moves.clone()), ("interactive", json!(["client"])), ("adaptive", moves)] {
        let ended = run(&own, VISIT, &["--mode", mode, "--json"]);
        let report = report(&ended);
        assert_eq!((&report["result"], &report["path"]), (&json!("own"), &path), "{mode}: {ended:?}");
        assert_eq!(report["log"][1]["node"], path[path.as_array().unwrap().len() - 1], "{mode}: {ended:?}");
    }
    run(&own, VISIT, &["--mode", "interactiv"]).failed(2, &["interactive", "adaptive"]);
}

#[test]
fn sub_chains_join_unless_they_are_told_not_to() {
    let own = Own::start();
    let source = r#"import { call } from "catena"; export default async () => call("own/sub", 7);"#;
    let joined = report(&run(&own, source, &["--json"]));
    assert_eq!(joined["result"], json!([7, "own"]));
    assert_eq!(joined["log"][0]["text"], "in the sub-chain");
    let detached = report(&run(&own, source, &["--json", "--no-compose"]));
    assert_eq!(
        (&detached["result"], &detached["log"][0]["text"]),
        (&json!([7, "own"]), &json!("in the sub-chain")),
        "the same"
    );
    // What it called shows among the steps of the chain that it joined alone.
    for (more, shown) in [(vec!["--explain"], true), (vec!["--explain", "--no-compose"], false)] {
        let ended = run(&own, source, &more);
        assert_eq!([ended.out.as_str(), ended.err.as_str()].concat().contains("own/where"), shown, "{ended:?}");
    }
}

#[test]
fn services_are_called_on_somebody_s_behalf() {
    let own = Own::start();
    let source = r#"import { call } from "catena"; export default async () => call("own/who", null);"#;
    for mode in ["chain", "interactive"] {
        let ended = run(&own, source, &["--mode", mode, "--credentials", "{\"uid\": 1000}"]);
        assert_eq!(ended.json(), json!({ "uid": 1000 }), "{mode}");
    }
    assert_eq!(run(&own, source, &[]).json(), Value::Null);
    run(&own, source, &["--credentials", "{uid}"]).failed(2, &["not JSON"]);
    run(&own, source, &["--credentials", "-", "--arg", "-"]).failed(2, &["--arg and --credentials", "help:"]);
}

#[test]
fn what_a_chain_does_not_have_is_told_with_what_it_has() {
    let own = Own::start();
    let there = r#"import { call } from "catena"; export default async () => { await call("own/where", null); console.log(1); };"#;
    run(&own, there, &[]).failed(1, &["console is not defined", "help: use log(...) from \"catena\""]);
    let at_once = "require('fs'); export default async () => 1;";
    run(&own, at_once, &[]).failed(2, &["require is not defined", "help: the only module is \"catena\""]);
}

#[test]
fn every_run_ends_in_one_of_three_ways() {
    let own = Own::start();
    assert_eq!(report(&run(&own, VISIT, &["--json"]))["ending"], "answered");

    let ended = run(&own, VISIT, &["--arg", "\"fail\""]);
    ended.failed(1, &["Refused: not today", "ending  failed at step 2"]);
    let ended = run(&own, VISIT, &["--arg", "\"fail\"", "--json"]);
    let told = report(&ended);
    assert_eq!((&told["ending"], &told["error"]["ending"]), (&json!("failed"), &json!("failed")), "{ended:?}");
    assert_eq!((&told["error"]["step"], &told["error"]["key"]["step"]), (&json!(2), &json!(2)), "{ended:?}");
    assert_eq!(told["error"]["key"]["chain"], told["chain"], "{ended:?}");
    assert_eq!(told["error"]["key"]["origin"].as_str().map(str::len), Some(16), "{ended:?}");

    run(&own, VISIT, &["--arg", "\"slip\""]).failed(1, &["TypeError", "ending  failed after step 1, in the function"]);
    let nowhere = r#"import { call } from "catena"; export default async () => call("nobody/here", null);"#;
    run(&own, nowhere, &[]).failed(1, &["UnknownService", "ending  failed before its effect at step"]);
}

/// Has `own` put a folder in the place of the file that it is given, which cannot be written any more then.
const BLOCK: &str = r#"import { call, log } from "catena";
export default async (path) => { await call("own/block", path); log("blocked"); return "done"; };
"#;

#[test]
fn the_outcome_is_told_whether_it_can_be_recorded_or_not() {
    let (own, folder) = (Own::start(), folder());
    let path = folder.path().join("way.json").to_str().unwrap().to_owned();
    let arg = format!("{path:?}");
    for (more, result) in [(None, ""), (Some("--json"), "/result")] {
        let mut arguments = vec!["--arg", &arg, "--record", &path];
        arguments.extend(more);
        let ended = run(&own, BLOCK, &arguments);
        ended.failed(2, &["error: the recording cannot be written", "help:"]);
        assert_eq!(ended.json().pointer(result), Some(&json!("done")), "{ended:?}");
        std::fs::remove_dir(&path).unwrap();
    }
    let fails = BLOCK.replace("return", "await call(\"own/fail\", \"no\"); return");
    run(&own, &fails, &["--arg", &arg, "--record", &path]).failed(1, &["cannot be written", "Refused: no"]);
}

#[test]
fn a_console_file_that_takes_no_more_stops_nothing_else() {
    let ended = run(&Own::start(), VISIT, &["--console", "/dev/full"]);
    ended.failed(2, &["/dev/full cannot be written", "--console FILE"]);
    assert_eq!(ended.err.matches("error:").count(), 1, "{ended:?}");
    assert_eq!(ended.out, "\"there\"\n\"own\"\n");
}

/// A run that has emitted, and sleeps at its second step.
fn asleep(server: &Server, more: &[&str]) -> (std::process::Child, tempfile::TempDir) {
    let folder = folder();
    let source = "import { call, emit } from \"catena\";\nexport default async () => {\n  await call(\"probe.red/where\", {});\n  emit(\"asleep\");\n  await call(\"probe.red/sleep\", { ms: 300000 });\n};\n";
    let function = file(&folder, "sleep.js", source);
    let address = server.ready()["nodes"][0]["address"].as_str().unwrap().to_owned();
    let mut arguments = vec!["run", &function, "--connect", &address];
    arguments.extend(more);
    let mut child = command(&arguments).spawn().unwrap();
    let mut first = String::new();
    // The rest of what it says fits into the pipe and is not looked at; the pipe stays open.
    let mut out = BufReader::with_capacity(1, child.stdout.take().unwrap());
    out.read_line(&mut first).unwrap();
    assert!(first.contains("asleep"), "{first}");
    child.stdout = Some(out.into_inner());
    (child, folder)
}

#[test]
fn an_outcome_that_nobody_knows_is_told_as_such() {
    let server = Server::start(&["dev", "--port-base", "0", "--no-shape", "--json"]);
    let (child, _folder) = asleep(&server, &["--mode", "interactive", "--json"]);
    server.kill();
    let ended = end(child);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let told = report(&ended);
    assert_eq!((&told["ending"], &told["error"]["ending"]), (&json!("unknown"), &json!("unknown")), "{ended:?}");
    assert_eq!((&told["error"]["step"], &told["error"]["key"]["step"]), (&json!(2), &json!(2)), "{ended:?}");
}

#[test]
fn a_chain_whose_signs_of_life_stop_is_told_as_one_that_nobody_knows() {
    let server = Server::start(&["dev", "--port-base", "0", "--no-shape", "--json"]);
    let (child, _folder) = asleep(&server, &["--json"]);
    // Its links stay, and nothing more comes over them.
    server.signal("STOP");
    let ended = end(child);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let told = report(&ended);
    let error = &told["error"];
    assert_eq!((&told["ending"], &error["ending"]), (&json!("unknown"), &json!("unknown")), "{ended:?}");
    // The hop that was sent again is not accepted: what is known is that its own call, or one after it, was under way.
    assert_eq!((&error["name"], &error["key"]["step"]), (&json!("NodeLost"), &json!(1)), "{ended:?}");
    assert!(error["message"].as_str().unwrap().contains("red was lost"), "{ended:?}");
}

#[test]
fn ctrl_c_cancels_the_chain_and_says_where_it_was() {
    let server = Server::start(&["dev", "--port-base", "0", "--no-shape", "--json"]);
    let (child, _folder) = asleep(&server, &["--json"]);
    signal(&child, "INT");
    let ended = end(child);
    assert_eq!(ended.code, Some(130), "{ended:?}");
    let told = report(&ended);
    assert_eq!((&told["error"]["name"], &told["ending"]), (&json!("Cancelled"), &json!("unknown")), "{ended:?}");
    assert!(told["error"]["step"].as_u64() >= Some(1), "{ended:?}");
}

#[test]
fn what_does_not_come_home_with_a_chain_is_told_to_be_missing() {
    let server = Server::start(&["dev", "--port-base", "0", "--no-shape", "--json"]);
    let files = folder();
    let recording = files.path().join("recording.json");
    let (child, _folder) = asleep(&server, &["--explain", "--record", recording.to_str().unwrap()]);
    signal(&child, "INT");
    end(child).failed(130, &["only its beginning", "where it spent its time is not known"]);
}

#[test]
fn a_second_ctrl_c_ends_at_once() {
    let server = Server::start(&["dev", "--port-base", "0", "--no-shape", "--json"]);
    let (mut child, _folder) = asleep(&server, &[]);
    // Nobody there hears that the chain is cancelled, so saying good-bye takes as long as it may.
    server.signal("STOP");
    signal(&child, "INT");
    let mut said = String::new();
    let mut err = BufReader::with_capacity(1, child.stderr.take().unwrap());
    err.read_line(&mut said).unwrap();
    assert!(said.contains("once more to end at once"), "{said}");
    signal(&child, "INT");
    child.stderr = Some(err.into_inner());
    let ended = end(child);
    server.signal("CONT");
    ended.failed(130, &["Cancelled", "ended at once"]);
}

#[test]
fn the_console_goes_where_it_is_told() {
    let own = Own::start();
    let shown = run(&own, VISIT, &[]);
    let lines: Vec<_> = shown.err.lines().collect();
    assert!(lines[0].starts_with("[client 0 +0.") && lines[0].ends_with(" s] before"), "{shown:?}");
    assert!(lines[1].starts_with("[own 1 +") && lines[1].ends_with("] after own"), "{shown:?}");
    let off = run(&own, VISIT, &["--console", "off"]);
    assert_eq!((off.code, off.err.as_str()), (Some(0), ""));
    let folder = folder();
    let path = folder.path().join("lines.txt");
    let filed = run(&own, VISIT, &["--console", path.to_str().unwrap()]);
    assert_eq!((filed.code, filed.err.as_str()), (Some(0), ""));
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().map(|line| line.rsplit("] ").next().unwrap()).collect::<Vec<_>>(), ["before", "after own"]);
    run(&own, VISIT, &["--console", "/no/such/folder/x"]).failed(2, &["cannot be written", "--console"]);
}
