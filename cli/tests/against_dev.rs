//! Chains, calls and listings against a real `catena dev`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::process::Stdio;

use support::{Ended, catena, command, end, example, file, folder, signal, world};

/// Runs the command against the world of this file.
#[track_caller]
fn here(arguments: &[&str]) -> Ended {
    let mut all = arguments.to_vec();
    all.extend(["--connect", &world().address]);
    catena(&all)
}

#[test]
fn ls_lists_every_service() {
    let listed = here(&["ls", "--json"]);
    let services = listed.json()["services"].as_array().unwrap().len();
    assert_eq!((listed.code, services), (Some(0), 8));
    let people = here(&["ls"]);
    let row = people.out.lines().find(|line| line.starts_with("probe.cam")).unwrap();
    assert!(
        row.contains(" cam ") && row.contains("127.0.0.1:") && row.contains("count echo fail sleep where"),
        "{row}"
    );
}

#[test]
fn ls_lists_one_site() {
    let listed = here(&["ls", "--site", "cam", "--json"]).json();
    let services: Vec<_> = listed["services"].as_array().unwrap().iter().map(|it| it["service"].clone()).collect();
    assert_eq!(services, ["files.cam", "probe.cam"]);
    let other = here(&["ls", "--site", "ca"]);
    assert_eq!((other.code, other.out.as_str()), (Some(0), ""));
    assert!(other.err.contains("no node at site ca") && other.err.contains("did you mean cam?"), "{other:?}");
}

#[test]
fn call_gives_back_what_the_service_says() {
    let echoed = here(&["call", "probe.cam/echo", "{\"z\": [1, null, \"é\"], \"a\": {\"$bytes\": \"AP8=\"}}"]);
    assert_eq!(echoed.code, Some(0), "{echoed:?}");
    assert_eq!(echoed.json(), serde_json::json!({ "z": [1, null, "é"], "a": { "$bytes": "AP8=" } }));
    assert!(echoed.out.find("\"z\"") < echoed.out.find("\"a\""), "in the order in which it was written");
    let json = here(&["call", "probe.bei/where", "--json", "--site", "mtv"]);
    assert_eq!(json.json(), serde_json::json!({ "result": { "node": "bei", "site": "bei" }, "ending": "answered" }));
}

#[test]
fn replies_are_printed_as_they_come_and_missing_ones_fail_the_command_after_those_that_came() {
    let count =
        |also: &str| here(&["call", "--replies", "probe.cam/count", &format!("{{\"upto\": 2, \"also\": [{also}]}}")]);
    let mut lines: Vec<String> = count("\"probe.bei/count\"").out.lines().map(str::to_owned).collect();
    lines.sort();
    let line = |node: &str, number: u64| format!("{{\"node\":\"{node}\",\"number\":{number}}}");
    assert_eq!(lines, [line("bei", 1), line("bei", 2), line("cam", 1), line("cam", 2)]);
    let partial = count("\"probe.bei/none\"");
    assert_eq!(partial.out.lines().count(), 2, "{partial:?}");
    partial.failed(1, &["UnknownFunction", "probe.bei/none"]);
    // A plain call has all of them as one list.
    let list = here(&["call", "probe.cam/count", "{\"upto\": 3}"]).json();
    assert_eq!(list.as_array().unwrap().len(), 3);
}

#[test]
fn an_unknown_service_or_function_has_the_nearest() {
    here(&["call", "probe.mtw/echo", "1"]).failed(1, &["UnknownService", "did you mean", "help:", "fault"]);
    here(&["call", "probe.mtv/ecko", "1"]).failed(1, &["UnknownFunction", "echo"]);
    let json = here(&["call", "probe.mtv/ecko", "1", "--json"]);
    assert_eq!(json.code, Some(1));
    assert_eq!(json.json()["error"]["name"], "UnknownFunction");
    assert_eq!(json.json()["error"]["target"], "probe.mtv/ecko");
    here(&["call", "probe.mtv/sleep", "{\"ms\": \"x\"}"]).failed(1, &["BadParameters"]);
    here(&["call", "probe.mtv/sleep", "{\"ms\": 60000}", "--timeout", "100ms"])
        .failed(1, &["DeadlineExceeded", "--timeout"]);
}

#[test]
fn check_looks_for_the_services() {
    let folder = folder();
    let source = "import { call } from \"catena\";\nexport default async () => {\n  await call(\"probe.mtv/echo\", 1);\n  await call(\"probe.mtv/wher\", {});\n  await call(\"probe.rad/where\", {});\n};\n";
    let function = file(&folder, "f.js", source);
    here(&["check", &function]).failed(
        2,
        &[
            "f.js:4:9: error: probe.mtv has no function wher",
            "did you mean where?",
            "f.js:5:9: error: no node serves probe.rad",
            "did you mean probe.red?",
        ],
    );
    let json = here(&["check", &function, "--json"]).json();
    assert_eq!((&json["ok"], &json["calls"][0]["node"]), (&serde_json::json!(false), &serde_json::json!("mtv")));
    let good = here(&["check", &example("hello.ts")]);
    assert_eq!(good.code, Some(0), "{good:?}");
    assert!(good.out.contains("at cam"), "{good:?}");
}

#[test]
fn the_examples_run() {
    let hello = here(&["run", &example("hello.ts"), "--arg", "\"you\""]);
    assert_eq!((hello.code, hello.out.as_str()), (Some(0), "\"HELLO, YOU!\"\n"), "{hello:?}");
    let errors = here(&["run", &example("errors.ts")]);
    assert_eq!(errors.json(), serde_json::json!({ "caught": "OutOfTea", "said": "the kettle is empty", "at": "cam" }));
    let enough = here(&["run", &example("enough.ts"), "--arg", "3"]);
    assert_eq!((enough.code, enough.out.lines().count()), (Some(0), 4), "{enough:?}");
    assert!(enough.out.ends_with("\"3 replies, then at red\"\n"), "{enough:?}");
}

#[test]
fn a_tour_emits_logs_and_is_explained() {
    let tour = here(&["run", &example("tour.ts"), "--explain"]);
    assert_eq!(tour.code, Some(0), "{tour:?}");
    let lines: Vec<_> = tour.out.lines().collect();
    assert_eq!(lines[0], "{\"stop\":1,\"at\":\"bei\"}");
    assert_eq!(lines[4], "\"bei > red > mtv > cam\"");
    for part in ["standing at bei with 1 stops behind me", "probe.red/where", "total", "4 calls"] {
        assert!(tour.err.contains(part), "{part:?}: {}", tour.err);
    }
    assert!(!tour.err.contains('\u{1b}'), "no colour where nobody looks");

    let json = here(&["run", &example("tour.ts"), "--explain", "--json", "--arg", "[\"red\",\"red\"]"]).json_lines();
    assert_eq!(json[0], serde_json::json!({ "emit": { "stop": 1, "at": "red" } }));
    let last = json.last().unwrap();
    assert_eq!(last["result"], "red > red");
    let steps = last["explain"]["steps"].as_array().unwrap();
    let in_place: Vec<_> = steps.iter().map(|step| step["in_place"].as_bool().unwrap()).collect();
    assert_eq!(in_place, [false, false, true], "the second call is made where the chain already is");
    assert!(steps[1]["continuation_bytes"].as_u64().unwrap() > 0);
    assert_eq!(last["log"].as_array().unwrap().len(), 2);
}

#[test]
fn a_split_chain_is_explained_branch_by_branch() {
    let folder = folder();
    let source = r#"import { call, split } from "catena";
export default async (at) => {
  await call("probe.bei/where", {});
  await split([
    async () => { await call("probe.red/where", {}); await call("probe.cam/where", {}); },
    async () => split([() => call("probe.mtv/where", {}), () => call("probe.mtv/where", {})]),
  ], at ? { at } : {});
  return (await call("probe.mtv/where", {})).node;
};
"#;
    let function = file(&folder, "split.js", source);
    for at in ["null", "\"probe.cam\""] {
        let ran = here(&["run", &function, "--arg", at, "--explain", "--json"]);
        let report = ran.json_lines().pop().unwrap();
        assert_eq!(report["result"], "mtv", "{ran:?}");
        let told = |step: &serde_json::Value| {
            let text = |key: &str| step[key].as_str().unwrap().to_owned();
            format!("{}{} {}", text("role"), text("branch"), text("target")).trim_end().to_owned()
        };
        let steps: Vec<_> = report["explain"]["steps"].as_array().unwrap().iter().map(told).collect();
        let expected = [
            "call",
            "call probe.bei/where",
            "branch.1",
            "call.1 probe.red/where",
            "call.1 probe.cam/where",
            "branch.2",
            "branch.2.1",
            "call.2.1 probe.mtv/where",
            "branch.2.2",
            "call.2.2 probe.mtv/where",
            "merge.2",
            "merge",
            "call probe.mtv/where",
        ];
        assert_eq!(steps, expected, "{at}");
        assert!(report["explain"]["total_us"].as_u64() < Some(60_000_000), "{ran:?}");
    }
    let people = here(&["run", &function, "--explain"]);
    for part in ["(branch begins)", "(branches merge)", ".2.1", "side by side"] {
        assert!(people.err.contains(part), "{part}: {}", people.err);
    }
}

#[test]
fn an_exception_says_where_why_and_what_to_do() {
    let threw = here(&["run", &example("errors.ts"), "--arg", "\"throw\""]);
    threw.failed(
        1,
        &["OutOfTea: the kettle is empty", "fault   service", "errors.ts:9:18: error:", "client > cam", "help:"],
    );
    assert!(threw.out.is_empty());
    let json = here(&["run", &example("errors.ts"), "--arg", "\"throw\"", "--json"]);
    assert_eq!(json.code, Some(1));
    let error = &json.json()["error"];
    assert_eq!(error["name"], "OutOfTea");
    assert_eq!(error["fault"], "service");
    assert_eq!(error["path"], serde_json::json!(["client", "cam"]));
}

#[test]
fn an_exception_of_the_function_shows_its_line() {
    let folder = folder();
    let source = "import { call } from \"catena\";\n\nexport default async (input: any) => {\n  const here = await call(\"probe.red/where\", {});\n  return here.nobody.name;\n};\n";
    let function = file(&folder, "slip.ts", source);
    here(&["run", &function]).failed(
        1,
        &["slip.ts:5:", "TypeError", "5 |   return here.nobody.name;", "^", "fault   guest", "client > red"],
    );
    let endless = file(&folder, "loop.js", "export default async () => {\n  for (;;) {}\n};\n");
    here(&["run", &endless]).failed(1, &["LimitExceeded", "step_wall_ms_max"]);
    let hops = "import { call } from \"catena\";\nexport default async () => {\n  for (;;) await call(\"probe.red/where\", {});\n};\n";
    let hops = file(&folder, "hops.js", hops);
    here(&["run", &hops, "--hops-max", "5"]).failed(1, &["HopBudgetExceeded", "--hops-max"]);
}

#[test]
fn values_that_json_lacks_are_shown() {
    let folder = folder();
    let source = "export default async (input) => [undefined, new Uint8Array([0, 255]), 2n ** 64n, new Date(0), new Set([1]), NaN, input];\n";
    let function = file(&folder, "kinds.js", source);
    let shown = here(&["run", &function, "--arg", "{\"n\": 18446744073709551615}", "--json"]).json();
    let expected = "[null,{\"$bytes\":\"AP8=\"},\"18446744073709551616\",\"1970-01-01T00:00:00.000Z\",[1],\"NaN\",{\"n\":18446744073709551615}]";
    assert_eq!(shown["result"].to_string(), expected);
}

#[test]
fn ctrl_c_cancels_a_run() {
    let folder = folder();
    let source = "import { call, emit } from \"catena\";\nexport default async () => {\n  await call(\"probe.red/where\", {});\n  emit(\"asleep\");\n  await call(\"probe.red/sleep\", { ms: 300000 });\n};\n";
    let function = file(&folder, "sleep.js", source);
    let mut child = command(&["run", &function, "--connect", &world().address]).stdout(Stdio::piped()).spawn().unwrap();
    // It is under way when its first answer is there.
    let mut first = [0; 8];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut first).unwrap();
    signal(&child, "INT");
    let ended = end(child);
    ended.failed(130, &["cancelling", "Cancelled", "ending  outcome unknown after step", "help:"]);
}

#[test]
fn the_input_comes_from_a_file_or_a_pipe_too() {
    let folder = folder();
    let input = file(&folder, "in.json", "\"file\"");
    let from_file = here(&["run", &example("hello.ts"), "--arg", &format!("@{input}")]);
    assert_eq!(from_file.out, "\"HELLO, FILE!\"\n");
    let arguments = ["run", &example("hello.ts"), "--arg", "-", "--connect", &world().address];
    let from_pipe = support::catena_with_input(&arguments, "\"pipe\"");
    assert_eq!(from_pipe.out, "\"HELLO, PIPE!\"\n");
}
