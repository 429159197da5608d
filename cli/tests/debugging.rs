//! `catena debug`: a function stepped through, its results changed, its earlier steps gone back to.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use support::{Ended, catena, catena_with_input, command, end, file, folder, own::Own, signal};

const ADDS: &str = r#"import { call, emit, log } from "catena";
export default async (first) => {
  log("begins");
  const one = await call("own/add", first);
  emit(one);
  const kept = [one, Math.random()];
  const two = await call("own/echo", { one });
  let caught = null;
  try { await call("own/fail", "no"); } catch (why) { caught = why.name; }
  return { one, two, caught, kept: kept.length };
};
"#;

struct Bench {
    own: Own,
    folder: tempfile::TempDir,
    function: String,
}

impl Bench {
    fn new(source: &str) -> Self {
        let folder = folder();
        let function = file(&folder, "adds.js", source);
        Self { own: Own::start(), folder, function }
    }

    #[track_caller]
    fn debug(&self, script: &str, more: &[&str]) -> Ended {
        let mut arguments = vec!["debug", &self.function, "--arg", "3", "--connect", &self.own.address];
        arguments.extend(more);
        catena_with_input(&arguments, script)
    }

    /// What happened, as JSON.
    #[track_caller]
    fn events(&self, script: &str, more: &[&str]) -> Vec<Value> {
        let mut more = more.to_vec();
        more.push("--json");
        self.debug(script, &more).json_lines()
    }
}

/// Those of one kind.
fn all<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter_map(|event| event.get(kind)).collect()
}

#[test]
fn a_step_is_shown_then_made_then_handed_in() {
    let bench = Bench::new(ADDS);
    let ended = bench.debug("", &[]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), ""), "{ended:?}");
    for part in ["begins", "#1 step 1 own/add(3)", "adds.js:4:", "4 |   const one = await call", "has not ended"] {
        assert!(ended.err.contains(part), "{part}: {}", ended.err);
    }
    assert_eq!(bench.own.effects(), 0, "no call is made before the user says so");
    let ended = bench.debug("step\n", &[]);
    assert!(ended.err.contains("  = 3") && !ended.err.contains("#2"), "{}", ended.err);
    assert_eq!(bench.own.effects(), 3);
    let ended = bench.debug("step\nstep\nshow\nlist\n", &[]);
    for part in
        ["#2 step 2 own/echo({\"one\":6})", "params {\"one\":6}", "bytes of continuation", ">   2", "    1  step 1"]
    {
        assert!(ended.err.contains(part), "{part}: {}", ended.err);
    }
}

#[test]
fn all_replies_to_a_call_are_shown_as_a_list_and_handed_in_one_by_one() {
    let source = r#"import { call, emit, replies } from "catena";
export default async (count) => {
  for await (const reply of replies("own/count", count)) emit(reply);
  for await (const reply of replies("own/count", 0)) emit(reply);
  return call("own/echo", "after");
};
"#;
    let bench = Bench::new(source);
    let events = bench.events("continue\n", &[]);
    assert_eq!(all(&events, "answered")[0]["result"], json!([0, 1, 2]), "{events:?}");
    assert_eq!(all(&events, "emit"), [&json!(0), &json!(1), &json!(2)]);
    assert_eq!(all(&events, "ended")[0]["result"], json!("after"));
    // Its user may say that others came.
    let events = bench.events("set [7]\ncontinue\n", &[]);
    assert_eq!(all(&events, "emit"), [&json!(7)], "{events:?}");
}

#[test]
fn replies_that_no_list_can_hold_are_not_taken_for_none() {
    let source = r#"import { replies } from "catena";
export default async () => { for await (const reply of replies("own/deep", null)) return "came"; };
"#;
    let bench = Bench::new(source);
    let events = bench.events("step\n", &[]);
    assert_eq!(all(&events, "answered")[0]["error"]["name"], "LimitExceeded", "{events:?}");
}

#[test]
fn to_the_end_gives_what_a_run_gives() {
    let bench = Bench::new(ADDS);
    let ended = bench.debug("continue\n", &[]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let (emitted, result) = ended.out.split_once('\n').unwrap();
    assert_eq!(emitted, "3");
    let result: Value = serde_json::from_str(result).unwrap();
    assert_eq!(result, json!({ "one": 3, "two": { "one": 3 }, "caught": "Refused", "kept": 2 }));
    let events = bench.events("continue\n", &[]);
    assert_eq!(all(&events, "ended")[0]["result"]["two"], json!({ "one": 6 }));
    assert_eq!(all(&events, "stopped").len(), 3);
    assert_eq!(all(&events, "answered")[2]["error"]["name"], "Refused");
    assert_eq!((all(&events, "emit"), all(&events, "log")[0]["text"].clone()), (vec![&json!(6)], json!("begins")));
}

#[test]
fn a_result_may_be_changed_or_become_an_exception() {
    let bench = Bench::new(ADDS);
    let events = bench.events("set 40\nstep\nstep\nset {\"x\": 1}\nstep\nset \"fine\"\nstep\n", &[]);
    assert_eq!(bench.own.effects(), 0, "a call that is answered by the user is not made");
    let result = &all(&events, "ended")[0]["result"];
    assert_eq!(*result, json!({ "one": 40, "two": { "x": 1 }, "caught": null, "kept": 2 }));
    let changed: Vec<_> = all(&events, "answered").iter().map(|answer| answer["changed"] == true).collect();
    assert_eq!(changed, [true, false, true, true]);

    let ended = bench.debug("throw TooBad on purpose\nstep\n", &[]);
    ended.failed(1, &["throws TooBad: on purpose", "adds.js:4:", "error: TooBad: on purpose", "own/add"]);
    let ended = bench.debug("throw TooBad on purpose\nstep\n", &["--json"]);
    assert_eq!(ended.code, Some(1));
    assert_eq!(all(&ended.json_lines(), "ended")[0]["error"]["name"], "TooBad");
}

#[test]
fn one_goes_back_and_takes_another_way() {
    let bench = Bench::new(ADDS);
    // To the end, then back to the first step: its outcome stands, and is changed.
    let events = bench.events("continue\nback 1\nset 100\ncontinue\n", &[]);
    let ends = all(&events, "ended");
    assert_eq!((&ends[0]["result"]["one"], &ends[1]["result"]["one"]), (&json!(3), &json!(100)));
    assert_eq!(bench.own.effects(), 3, "what was done is not done again");
    // Back from the second call to the result of the first, once more to before it, and the call is made anew.
    let events = bench.events("step\nstep\nback\nback\nstep\ncontinue\n", &[]);
    assert_eq!(bench.own.effects(), 9);
    assert_eq!(all(&events, "ended")[0]["result"]["one"], 9);
    let refused = bench.events("back 7\nback\n", &[]);
    assert_eq!(all(&refused, "refused").len(), 2, "{refused:?}");
}

#[test]
fn branches_run_one_after_the_other_and_calls_side_by_side_in_order() {
    let source = r#"import { call, split } from "catena";
export default async () => {
  await call("own/where", null);
  const both = await Promise.all([call("own/echo", 1), call("own/echo", 2)]);
  const parts = await split([
    async () => [await call("own/echo", "a"), await call("own/echo", "b")],
    async () => split([() => call("own/echo", "c"), () => call("own/fail", "d")], { settled: true }),
    async () => Math.random(),
  ]);
  return [both, parts[0], parts[1].map((part) => part.status), parts.length, await call("own/echo", "e")];
};
"#;
    let bench = Bench::new(source);
    let events = bench.events("continue\n", &[]);
    let steps: Vec<_> = all(&events, "stopped")
        .iter()
        .map(|stop| format!("{}/{} {}", stop["branch"].as_str().unwrap(), stop["step"], stop["params"]))
        .collect();
    let expected = ["/1 null", "/2 1", "/3 2", ".1/5 \"a\"", ".1/6 \"b\"", ".2.1/6 \"c\"", ".2.2/6 \"d\"", "/5 \"e\""];
    assert_eq!(steps, expected);
    let result = &all(&events, "ended")[0]["result"];
    assert_eq!(*result, json!([[1, 2], ["a", "b"], ["fulfilled", "rejected"], 3, "e"]));
    // From the second branch back into the first.
    let events = bench.events("continue\nback 4\nset \"other\"\ncontinue\n", &[]);
    assert_eq!(all(&events, "ended")[1]["result"][1], json!(["other", "b"]));
}

#[test]
fn the_end_is_told_whether_it_can_be_recorded_or_not() {
    let bench =
        Bench::new("import { call } from \"catena\";\nexport default async (path) => call(\"own/block\", path);\n");
    let path = bench.folder.path().join("way.json").to_str().unwrap().to_owned();
    let arguments = ["debug", &bench.function, "--arg", &format!("{path:?}"), "--record", &path];
    let ended = catena_with_input(&[&arguments[..], &["--connect", &bench.own.address]].concat(), "continue\n");
    ended.failed(2, &["the recording cannot be written"]);
    assert_eq!(ended.out, "null\n");
}

#[test]
fn nothing_is_refused_silently() {
    let bench = Bench::new(ADDS);
    bench.debug("step\nstpe\n", &[]).failed(2, &["standard input:2: \"stpe\" is no command", "did you mean step?"]);
    let script = file(&bench.folder, "way.txt", "# a comment\nset {\n");
    let arguments = ["debug", &bench.function, "--script", &script, "--connect", &bench.own.address];
    catena(&arguments).failed(2, &["way.txt:2:", "not JSON"]);
    let over = bench.debug("continue\nstep\nset 1\nquit\nnonsense\n", &[]);
    assert_eq!(over.code, Some(0), "{over:?}");
    assert!(over.err.contains("the function has ended; `back`") && over.err.contains("no call to answer"), "{over:?}");
    assert!(bench.debug("help\n", &[]).err.contains("throw NAME MESSAGE"));
    bench.debug("", &["--arg", "-"]).failed(2, &["--arg"]);
    let hops = bench.debug("continue\n", &["--hops-max", "2"]);
    hops.failed(1, &["HopBudgetExceeded"]);
    catena(&["debug", "/no/such.js"]).failed(2, &["does not exist"]);
}

#[test]
fn a_script_file_drives_it_and_credentials_go_along() {
    let bench = Bench::new("import { call } from \"catena\";\nexport default async () => call(\"own/who\", null);\n");
    let script = file(&bench.folder, "way.txt", "step\nstep\n");
    let connect = ["--connect", &bench.own.address];
    let mut arguments = vec!["debug", &bench.function, "--script", &script, "--credentials", "{\"uid\": 7}"];
    arguments.extend(connect);
    assert_eq!(catena(&arguments).json(), json!({ "uid": 7 }));
}

/// Has a session carry out these commands, which are held open: their end would end it too. When it has stopped at this call it is interrupted.
#[track_caller]
fn interrupted_at(bench: &Bench, commands: &str, call: &str) -> Ended {
    let mut child = command(&["debug", &bench.function, "--arg", "3", "--json", "--connect", &bench.own.address])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(commands.as_bytes()).unwrap();
    let mut out = BufReader::with_capacity(1, child.stdout.take().unwrap());
    let mut line = String::new();
    while !(line.contains("stopped") && line.contains(call)) {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0, "it ended before {call}");
    }
    child.stdout = Some(out.into_inner());
    signal(&child, "INT");
    end(child)
}

#[test]
fn ctrl_c_at_the_prompt_ends_the_session() {
    let bench = Bench::new(ADDS);
    assert_eq!(interrupted_at(&bench, "", "own/add").code, Some(130));
}

/// Stays at its second call.
const STAYS: &str = r#"import { call } from "catena";
export default async (count) => {
  await call("own/add", count);
  try { await call("own/stay", null); } catch {}
  await call("own/add", count);
};
"#;

#[test]
fn ctrl_c_ends_the_command_with_all_that_it_would_still_do() {
    let bench = Bench::new(STAYS);
    let ended = interrupted_at(&bench, "continue\n", "own/stay");
    assert_eq!(ended.code, Some(130), "{ended:?}");
    let events = ended.json_lines();
    let answered = &all(&events, "answered")[0]["error"];
    assert_eq!((&answered["name"], &answered["unknown"]), (&json!("Cancelled"), &json!(true)), "{ended:?}");
    assert_eq!(bench.own.effects(), 3, "no call after it is made");
}

#[test]
fn at_a_terminal_ctrl_c_gives_the_prompt_back_and_once_more_ends_the_session() {
    const CTRL_C: &str = "\x03";
    let bench = Bench::new(STAYS);
    let words = [env!("CARGO_BIN_EXE_catena"), "debug", &bench.function, "--arg", "3", "--connect", &bench.own.address];
    let line = words.map(|word| format!("'{word}'")).join(" ");
    // `script` gives it a terminal; a session that hangs is ended by `timeout`.
    let mut terminal = Command::new("timeout")
        .args(["--foreground", "120", "script", "-qefc", &line, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut keys, mut screen) = (terminal.stdin.take().unwrap(), terminal.stdout.take().unwrap());
    let (mut shown, mut piece) = (String::new(), [0; 4_096]);
    for (typed, until) in [
        ("continue\r", "step 2 own/stay(null)"),
        (CTRL_C, "once more to end the session"),
        ("list\r", "own/stay(null) = throws"),
    ] {
        keys.write_all(typed.as_bytes()).unwrap();
        let from = shown.len();
        while !shown[from..].contains(until) {
            let count = screen.read(&mut piece).unwrap();
            assert!(count > 0, "{until:?} is not in:\n{shown}");
            shown += &String::from_utf8_lossy(&piece[..count]);
        }
    }
    keys.write_all(CTRL_C.as_bytes()).unwrap();
    screen.read_to_string(&mut shown).unwrap();
    assert_eq!(terminal.wait().unwrap().code(), Some(130), "{shown}");
    assert_eq!(bench.own.effects(), 3, "no call after it is made");
}

#[test]
fn a_call_beside_a_read_that_fails_is_shown_and_so_is_one_that_nobody_awaits() {
    let source = r#"import { call, replies, split } from "catena";
export default async () => {
  const set = replies("own/count", 3);
  await set.next();
  await split([async () => 1]);
  const late = set.next().catch((why) => why.name);
  const both = [await call("own/echo", "beside"), await late];
  call("own/echo", "for nobody");
  return both;
};
"#;
    let bench = Bench::new(source);
    let events = bench.events("continue\n", &[]);
    assert_eq!(all(&events, "ended")[0]["result"], json!(["beside", "Cancelled"]), "{events:?}");
    assert_eq!(all(&events, "stopped").len(), 3, "{events:?}");
}

#[test]
fn a_call_that_nobody_serves_is_shown_and_may_be_answered() {
    let bench = Bench::new(
        "import { call } from \"catena\";\nexport default async () => [await call(\"nobody/here\", 1), await call(\"nobody/here\", 2)];\n",
    );
    let events = bench.events("set 5\nstep\nshow\nset 6\nstep\n", &[]);
    assert_eq!(all(&events, "ended")[0]["result"], json!([5, 6]));
    assert!(all(&events, "stopped")[2]["continuation_bytes"].as_u64() > Some(0), "{events:?}");
    bench.debug("continue\n", &[]).failed(1, &["UnknownService", "adds.js:2:", "nobody/here"]);
}
