//! What a guest that trapped says of it reaches whoever reads the exception, and harms nobody.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::{
    sync::LazyLock,
    time::{Duration, Instant},
};

use catena_guest::{GUEST_TRAPPED, Limits, Sandbox, SandboxConfig};
use catena_wire::Exception;
use common::{NODES, START, config, guest, load_wasm, sandbox, value};
use serde_json::{Value as Json, json};

/// So much time for a step that nobody could wait for it.
const STEP_WALL_MS_MAX: u32 = 240_000;
static PATIENT: LazyLock<Sandbox> = LazyLock::new(|| {
    let limits = Limits { step_wall_ms_max: STEP_WALL_MS_MAX, memory_bytes_max: 16 << 20, ..Limits::default() };
    sandbox(SandboxConfig { limits, ..config() })
});

async fn trapped(sandbox: &Sandbox, module: &[u8], input: &Json) -> Exception {
    let image = load_wasm(sandbox, module).await.unwrap();
    let mut session = sandbox.begin(&image).await.unwrap();
    let exception = session.start(&value(input), START).await.unwrap_err();
    assert_eq!(exception.name, GUEST_TRAPPED, "{exception}");
    exception
}

#[tokio::test]
async fn a_panic_tells_its_place_and_its_message() {
    let plan = guest("plan.wasm");
    let message = trapped(&NODES[0], &plan, &json!(["panic", "on purpose"])).await.message;
    let (said, trap) = message.split_once(" (").unwrap();
    let (place, words) = said.rsplit_once(": ").unwrap();
    assert_eq!(words, "on purpose");
    let line = place.strip_prefix("the function's WebAssembly trapped: panicked at samples/plan/src/lib.rs:").unwrap();
    assert!(line.parse::<u32>().is_ok_and(|line| line > 1), "{message}");
    assert!(trap.contains("unreachable"), "{message}");

    let long = format!("a\u{1b}[2J\u{202e}\n{}", "x".repeat(100_000));
    let message = trapped(&NODES[0], &plan, &json!(["panic", long])).await.message;
    assert!(message.contains("a [2J\u{fffd} xxx") && message.len() < 2_000, "{message}");
}

#[tokio::test]
async fn a_panic_after_a_move_is_told_as_well() {
    let image = load_wasm(&NODES[0], &guest("plan.wasm")).await.unwrap();
    let mut session = NODES[0].begin(&image).await.unwrap();
    let plan = json!(["seq", [["call", "a/echo", 1], ["panic", "elsewhere"]]]);
    session.start(&value(&plan), START).await.unwrap();
    let continuation = session.suspend().await.unwrap();
    let elsewhere = load_wasm(&NODES[1], &guest("plan.wasm")).await.unwrap();
    let mut session = NODES[1].resume(&elsewhere, &continuation).await.unwrap();
    let exception = session.settle(0, Ok(&value(&json!(1)))).await.unwrap_err();
    assert!(exception.message.contains(": elsewhere ("), "{exception}");
}

/// A module that traps, whose last words are what `body` says.
fn module(state: &str, body: &str) -> Vec<u8> {
    let entries = match state {
        "explicit" => r#"(func (export "catena_step") (param i32 i32) (result i64) unreachable)"#,
        _ => {
            r#"(func (export "catena_start") (param i32 i32) (result i64) unreachable)
               (func (export "catena_resume") (param i32 i32) (result i64) unreachable)"#
        }
    };
    let module = format!(
        r#"(module (memory (export "memory") 1)
          (data (i32.const 256) "farewell") (data (i32.const 512) "\ff\00\01\fe") (data (i32.const 65532) "last")
          (func $down (param i64) (result i64) (i64.add (call $down (local.get 0)) (i64.const 1)))
          (func (export "catena_abi_v1")) (func (export "catena_alloc") (param i32) (result i32) i32.const 1024)
          (func (export "catena_last_words") (result i64) {body})
          {entries})"#
    );
    wat::parse_str(module).unwrap()
}

#[tokio::test]
async fn hostile_last_words_are_as_good_as_none() {
    const NONE: &str = "";
    for (what, body, words) in [
        ("words", "i64.const 0x0000010000000008", "farewell ("),
        ("words at the memory's end", "i64.const 0x0000fffc00000004", "last ("),
        ("no words", "i64.const 0x0000010000000000", NONE),
        ("a place outside the memory", "i64.const 0xfffffff000000008", NONE),
        ("an end outside the memory", "i64.const 0x0000fffc00000005", NONE),
        ("words of 4 GiB", "i64.const 0x00000100ffffffff", "farewell "),
        ("no text", "i64.const 0x0000020000000004", "\u{fffd}  \u{fffd} ("),
        ("a loop without end", "(loop (br 0)) i64.const 0x0000010000000008", NONE),
        ("a trap", "unreachable", NONE),
        ("recursion without end", "(call $down (i64.const 1))", NONE),
        (
            "memory without end",
            "(loop (br_if 0 (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) i64.const 0x0000010000000008",
            "farewell (",
        ),
    ] {
        for state in ["explicit", "in memory"] {
            let began = Instant::now();
            let exception = trapped(&PATIENT, &module(state, body), &json!(null)).await;
            let said = exception.message.strip_prefix("the function's WebAssembly trapped: ").unwrap();
            let expected = if words.is_empty() { "wasm trap: " } else { words };
            assert!(said.starts_with(expected) && said.len() < 2_000, "{what}, state {state}: {exception}");
            assert!(said.contains("unreachable"), "{what}, state {state}: {exception}");
            let most = Duration::from_millis(STEP_WALL_MS_MAX.into()) / 2;
            assert!(began.elapsed() < most, "{what}: it had the time of a whole step for its last words");
        }
    }
    // Others have nothing of it.
    let image = load_wasm(&PATIENT, &guest("plan.wasm")).await.unwrap();
    let mut session = PATIENT.begin(&image).await.unwrap();
    let turn = session.start(&value(&json!(["value", 7])), START).await.unwrap();
    assert_eq!(turn.end, Some(Ok(value(&json!(7)))));
    assert_eq!(PATIENT.stats().instances, 1, "what trapped is dropped");
}
