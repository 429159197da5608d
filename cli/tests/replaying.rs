//! `catena run --record` and `catena debug --record`, and `catena replay` with nobody there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use serde_json::{Value, json};
use support::{Ended, Server, catena, catena_with_input, command, end, file, folder, own::Own, signal};

/// TypeScript, with all that a function may be told: results, exceptions, the clock, randomness, values that JSON lacks.
const TRIP: &str = r#"import { call, emit, log, split } from "catena";
export default async (first: number) => {
  log("from", first);
  const one = await call("own/add", first);
  const odd = await call("own/echo", [undefined, new Date(0), 2n ** 64n]);
  emit({ one, odd: odd.length });
  let caught: string = "";
  try { await call("own/fail", "no"); } catch (why: any) { caught = `${why.name} ${why.step}`; }
  const both = await Promise.all([call("own/echo", "a"), call("own/echo", "b")]);
  const parts = await split([async () => { log("in .1"); return call("own/echo", "c"); }, async () => Math.random()]);
  return [one, odd[2] === 2n ** 64n, caught, both, parts, Math.random(), Date.now()];
};
"#;

struct Taken {
    folder: tempfile::TempDir,
    recording: String,
    ran: Ended,
}

/// Records a run; its node is gone afterwards.
#[track_caller]
fn record(source: &str, more: &[&str]) -> Taken {
    let folder = folder();
    let function = file(&folder, "trip.ts", source);
    record_of(folder, &function, "5", more)
}

#[track_caller]
fn record_of(folder: tempfile::TempDir, function: &str, input: &str, more: &[&str]) -> Taken {
    let own = Own::start();
    let recording = folder.path().join("trip.json").to_str().unwrap().to_owned();
    let mut arguments = vec!["run", function, "--arg", input, "--record", &recording, "--connect", &own.address];
    arguments.extend(more);
    let ran = catena(&arguments);
    Taken { folder, recording, ran }
}

/// The lines of the console, without their times.
fn console(ended: &Ended) -> Vec<&str> {
    ended.err.lines().filter(|line| line.starts_with('[')).collect()
}

#[test]
fn a_recorded_run_is_the_same_again_with_nobody_there() {
    let taken = record(TRIP, &[]);
    assert_eq!(taken.ran.code, Some(0), "{:?}", taken.ran);
    assert!(taken.ran.err.contains("recorded: "), "{:?}", taken.ran);
    let again = catena(&["replay", &taken.recording]);
    assert_eq!((again.code, &again.out), (Some(0), &taken.ran.out), "{again:?}");
    let said = |ended: &Ended| -> Vec<String> {
        console(ended).iter().map(|line| line.split("] ").last().unwrap().to_owned()).collect()
    };
    assert_eq!(said(&again), ["from 5", "in .1"], "{again:?}");
    assert_eq!(said(&again), said(&taken.ran));
    let told = catena(&["replay", &taken.recording, "--json"]).json_lines().pop().unwrap();
    assert_eq!((&told["same"], &told["calls"], &told["ending"]), (&json!(true), &json!(6), &json!("answered")));
}

/// What came of a call that is answered many times was told to the function where it was, and is told again.
const READS: &str = r#"import { call, emit, replies } from "catena";
export default async (first: number) => {
  let sum = 0;
  for await (const reply of replies("own/count", 10 * first)) sum += reply;
  for await (const reply of replies("own/count", 1_000)) { emit(reply); if (reply === 2) break; }
  const nobody = replies("nobody/f", null, { partial: true });
  for await (const reply of nobody) emit(reply);
  return [sum, await call("own/echo", "after"), nobody.missing.map(({ target, why }) => [target, why.name])];
};
"#;

#[test]
fn replies_that_a_function_read_are_the_same_again() {
    let taken = record(READS, &[]);
    assert_eq!(taken.ran.code, Some(0), "{:?}", taken.ran);
    assert!(taken.ran.out.contains("1225") && taken.ran.out.contains("UnknownService"), "{:?}", taken.ran);
    let again = catena(&["replay", &taken.recording]);
    assert_eq!((again.code, &again.out), (Some(0), &taken.ran.out), "{again:?}");
    let told = catena(&["replay", &taken.recording, "--json"]).json_lines().pop().unwrap();
    assert_eq!((&told["same"], &told["calls"]), (&json!(true), &json!(4)), "{told}");
    // One that asks for one answer instead does another thing.
    let other = READS.replace(r#"replies("own/count", 10 * first)"#, r#"[call("own/count", 10 * first)]"#);
    let other = file(&taken.folder, "other.ts", &other);
    let again = catena(&["replay", &taken.recording, "--source", &other]);
    assert!(again.err.contains("own/count(50) for its replies"), "{again:?}");
    assert_ne!(again.code, Some(0), "{again:?}");
}

#[test]
fn replies_that_a_compiled_function_read_are_the_same_again() {
    let function = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/guests/enough.wasm");
    let input = r#"{"target": "own/count", "params": 1000, "wanted": 300, "then": "own/where"}"#;
    let taken = record_of(folder(), function, input, &[]);
    assert_eq!(taken.ran.code, Some(0), "{:?}", taken.ran);
    let again = catena(&["replay", &taken.recording]);
    assert_eq!((again.code, &again.out), (Some(0), &taken.ran.out), "{again:?}");
    let told = catena(&["replay", &taken.recording, "--json"]).json_lines().pop().unwrap();
    assert_eq!((&told["same"], &told["ending"]), (&json!(true), &json!("answered")), "{told}");
}

#[test]
fn an_exception_is_the_same_again() {
    let source = r#"import { call } from "catena";
export default async () => { await call("own/add", 1); return await call("own/fail", "not today"); };
"#;
    let taken = record(source, &[]);
    taken.ran.failed(1, &["Refused: not today", "trip.ts:2:"]);
    let again = catena(&["replay", &taken.recording]);
    again.failed(1, &["Refused: not today", "trip.ts:2:", "step    2"]);
    let told = catena(&["replay", &taken.recording, "--json"]).json();
    assert_eq!((&told["same"], &told["error"]["name"]), (&json!(true), &json!("Refused")));
}

#[test]
fn another_source_is_told_the_same_until_it_takes_another_way() {
    let taken = record(TRIP, &[]);
    let other = |from: &str, to: &str| {
        assert!(TRIP.contains(from), "{from}");
        let source = file(&taken.folder, "other.ts", &TRIP.replace(from, to));
        catena(&["replay", &taken.recording, "--source", &source])
    };
    // The same calls, and another result.
    let result = other("return [one,", "return [\"new\", one,");
    assert_eq!(result.code, Some(0), "{result:?}");
    assert!(result.out.contains("\"new\"") && result.err.contains("6 calls were the same"), "{result:?}");
    // Other parameters at the third call.
    other("own/fail\", \"no\"", "own/fail\", \"yes\"")
        .failed(1, &["another way at call 3", "own/fail(\"no\")", "own/fail(\"yes\")", "other.ts:8:", "help:"]);
    // One call fewer, and one more.
    other("const odd = await call(\"own/echo\", [undefined, new Date(0), 2n ** 64n]);", "const odd = [1, 2, 3];")
        .failed(1, &["another way at call 2", "own/echo", "now calls own/fail"]);
    other("return [one,", "await call(\"own/where\", null); return [one,")
        .failed(1, &["another way at call 7: the recording ended", "now calls own/where"]);
    other("const parts = await split", "if (one) return 1; const parts = await split")
        .failed(1, &["another way at call 6", "now ends with 1"]);
    let source = file(&taken.folder, "other.ts", &TRIP.replace("\"no\"", "\"yes\""));
    let told = catena(&["replay", &taken.recording, "--source", &source, "--json"]);
    assert_eq!(told.json_lines().pop().unwrap()["error"]["name"], "AnotherWay", "{told:?}");
}

#[test]
fn the_way_taken_in_the_debugger_is_recorded() {
    let own = Own::start();
    let folder = folder();
    let function = file(&folder, "trip.ts", TRIP);
    let recording = folder.path().join("way.json").to_str().unwrap().to_owned();
    let arguments = ["debug", &function, "--arg", "5", "--record", &recording, "--connect", &own.address];
    // A way that was gone back on is no part of it.
    let debugged = catena_with_input(&arguments, "continue\nback 1\nset 70\ncontinue\n");
    assert_eq!(debugged.code, Some(0), "{debugged:?}");
    drop(own);
    let again = catena(&["replay", &recording]);
    assert_eq!(again.code, Some(0), "{again:?}");
    let last = |ended: &Ended| ended.out[ended.out.find("\n[").unwrap()..].to_owned();
    assert_eq!(last(&again), last(&debugged));
    assert!(last(&again).contains("70"), "{again:?}");
    let text: Value = serde_json::from_str(&std::fs::read_to_string(&recording).unwrap()).unwrap();
    let settled = text["told"].as_array().unwrap().iter().filter(|told| told["settled"].is_object());
    let changed: Vec<_> = settled.take(2).map(|told| &told["changed"]).collect();
    assert_eq!(changed, [&json!(true), &Value::Null]);
}

#[test]
fn a_recording_that_ends_early_says_so() {
    let own = Own::start();
    let folder = folder();
    let function = file(&folder, "trip.ts", TRIP);
    let recording = folder.path().join("way.json").to_str().unwrap().to_owned();
    let arguments = ["debug", &function, "--arg", "5", "--record", &recording, "--connect", &own.address];
    catena_with_input(&arguments, "step\nstep\n");
    let again = catena(&["replay", &recording]);
    assert_eq!((again.code, again.out.as_str()), (Some(0), ""), "{again:?}");
    assert!(again.err.contains("ends before the function does: 1 calls"), "{again:?}");
}

/// Through all four nodes, with branches that meet again at another one.
const TRAVELS: &str = r#"import { call, emit, log, split } from "catena";
export default async () => {
  const seen = [await call("probe.red/where", {})];
  const parts = await split([
    async () => { log("one"); seen.push(await call("probe.cam/where", {})); emit(1); return seen.length + Math.random(); },
    async () => { try { await call("probe.bei/fail", {}); } catch (why) { log("two", why.name); return why.step; } },
  ], { at: "probe.bei" });
  log("met");
  return [seen, parts, await call("probe.mtv/where", {}), Math.random()];
};
"#;

#[test]
fn a_chain_that_travelled_is_recorded_where_it_was_and_replays_with_nobody_there() {
    let folder = folder();
    let file_of = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (function, recording) = (file(&folder, "travels.js", TRAVELS), file_of("travels.json"));
    let ran = {
        let server = Server::start(&["dev", "--port-base", "0", "--no-shape", "--json"]);
        let address = server.ready()["nodes"][0]["address"].as_str().unwrap().to_owned();
        catena(&["run", &function, "--record", &recording, "--explain", "--json", "--connect", &address])
    };
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let ran = ran.json_lines().pop().unwrap();
    for host in ["client", "red", "cam", "bei", "mtv"] {
        assert!(ran["path"].as_array().unwrap().contains(&json!(host)), "{host}: {ran}");
    }
    let again = catena(&["replay", &recording, "--json"]);
    assert_eq!(again.code, Some(0), "{again:?}");
    let again = again.json_lines().pop().unwrap();
    assert_eq!((&again["result"], &again["same"], &again["calls"]), (&ran["result"], &json!(true), &json!(4)));
    let said = catena(&["replay", &recording]);
    for line in ["[cam 2 of branch 1", "[bei 3 of branch 2", "[bei 2 ", "met"] {
        assert!(said.err.contains(line) || said.err.contains("two"), "{line}: {said:?}");
    }
    // What another function does otherwise is told with its branch and its line.
    let other = file(&folder, "other.js", &TRAVELS.replace("probe.bei/fail\", {}", "probe.bei/fail\", 1"));
    let way = catena(&["replay", &recording, "--source", &other]);
    way.failed(1, &["another way at call 3", "probe.bei/fail(1)", "of branch 2", "other.js:6:"]);
}

#[test]
fn what_a_sub_chain_was_told_is_recorded_too() {
    let source = r#"import { call, log } from "catena";
export default async (input) => { log("before"); const [same, at] = await call("own/sub", input); log("after"); return same + at; };
"#;
    let taken = record(source, &[]);
    assert_eq!((taken.ran.code, taken.ran.json()), (Some(0), json!("5own")), "{:?}", taken.ran);
    let text: Value = serde_json::from_str(&std::fs::read_to_string(&taken.recording).unwrap()).unwrap();
    let inner: Vec<_> = text["told"].as_array().unwrap().iter().filter(|told| told["depth"] == 1).collect();
    assert_eq!((&inner[0]["begun"]["input"], &inner[1]["turned"][0]["function"]), (&json!(5), &json!("where")));
    let again = catena(&["replay", &taken.recording, "--json"]).json_lines().pop().unwrap();
    assert_eq!((&again["result"], &again["same"], &again["calls"]), (&json!("5own"), &json!(true), &json!(1)));
}

#[test]
fn a_recording_that_is_full_says_so_and_the_chain_goes_on() {
    let source = r#"import { call } from "catena";
export default async () => {
  for (let n = 0; n < 6; n++) await call("own/echo", "x".repeat(1 << 20));
  return "there";
};
"#;
    let taken = record(source, &[]);
    assert_eq!((taken.ran.code, taken.ran.json()), (Some(0), json!("there")), "{:?}", taken.ran);
    let again = catena(&["replay", &taken.recording]);
    assert_eq!((again.code, again.out.as_str()), (Some(0), ""), "{again:?}");
    assert!(again.err.contains("there was no room for more: 3 calls were the same"), "{again:?}");
}

/// Emits, and then waits for what never comes.
const STAYS: &str = r#"import { call, emit } from "catena";
export default async () => { await call("own/add", 1); emit("there"); return call("own/stay", null); };
"#;

#[test]
fn a_recorded_run_that_is_cut_off_says_what_is_not_known() {
    let taken = record(STAYS, &["--timeout", "2s", "--mode", "interactive", "--json"]);
    assert_eq!(taken.ran.code, Some(1), "{:?}", taken.ran);
    let told = taken.ran.json_lines().pop().unwrap();
    assert_eq!((&told["error"]["name"], &told["ending"]), (&json!("DeadlineExceeded"), &json!("unknown")), "{told}");

    let own = Own::start();
    let folder = folder();
    let function = file(&folder, "stays.js", STAYS);
    let recording = folder.path().join("stays.json").to_str().unwrap().to_owned();
    let arguments =
        ["run", &function, "--record", &recording, "--mode", "interactive", "--json", "--connect", &own.address];
    let mut child = command(&arguments).spawn().unwrap();
    let mut out = std::io::BufReader::with_capacity(1, child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut out, &mut String::new()).unwrap();
    child.stdout = Some(out.into_inner());
    signal(&child, "INT");
    let ended = end(child);
    assert_eq!(ended.code, Some(130), "{ended:?}");
    let told = ended.json();
    assert_eq!((&told["error"]["name"], &told["ending"]), (&json!("Cancelled"), &json!("unknown")), "{told}");
    assert_eq!(told["error"]["step"], 2, "{told}");
    let again = catena(&["replay", &recording]);
    assert!(again.err.contains("ends before the function does: 1 calls"), "{again:?}");
}

#[test]
fn what_cannot_be_recorded_or_replayed_is_told() {
    let folder = folder();
    let function = file(&folder, "trip.ts", TRIP);
    let file_of = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    catena(&["run", &function, "--record", "/no/such/folder/x", "--connect", "127.0.0.1:1"])
        .failed(3, &["127.0.0.1:1"]);
    catena(&["replay", &file_of("nothing.json")]).failed(2, &["does not exist"]);
    catena(&["replay", &function]).failed(2, &["not a recording", "trip.ts:1:"]);
    let taken = record(TRIP, &[]);
    let text = std::fs::read_to_string(&taken.recording).unwrap();
    let newer = file(&folder, "newer.json", &text.replace("\"catena_recording\": 2", "\"catena_recording\": 3"));
    catena(&["replay", &newer]).failed(2, &["version 3", "reads 2"]);
    let (before, after) = text.rsplit_once("\"branch\": \".1\"").unwrap();
    let strange = file(&folder, "strange.json", &format!("{before}\"branch\": \".x\"{after}"));
    catena(&["replay", &strange]).failed(2, &["a branch is not written as .1.2"]);
    let slip = file(&folder, "slip.json", &text.replacen("\"hops_max\"", "\"hop_max\"", 1));
    catena(&["replay", &slip]).failed(2, &["hop_max"]);
}
