//! A guest that breaks a limit ends its own function with an exception that names the limit and the line. Others go on.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use catena_guest::{Image, Limits, Sandbox, SandboxConfig};
use catena_wire::{Exception, StepLimits, names};
use common::{START, config, json_of, load_js, load_wasm, sandbox, value};
use serde_json::json;
use std::{
    cell::Cell,
    sync::{Arc, LazyLock},
};

/// Little time.
static TIGHT: LazyLock<Sandbox> = LazyLock::new(|| limited(200));
/// Time enough to break any other limit, on a busy machine too.
static PATIENT: LazyLock<Sandbox> = LazyLock::new(|| limited(PATIENT_LIMITS.step_wall_ms_max));
const PATIENT_LIMITS: Limits = Limits {
    memory_bytes_max: 16 << 20,
    step_wall_ms_max: 60_000,
    output_bytes_max: 1 << 20,
    events_max: 1_000,
    continuation_bytes_max: 256 << 10,
};

fn limited(step_wall_ms_max: u32) -> Sandbox {
    sandbox(SandboxConfig { limits: Limits { step_wall_ms_max, ..PATIENT_LIMITS }, ..config() })
}

async fn broken(sandbox: &Sandbox, body: &str) -> Exception {
    let source =
        format!("import {{ call, emit, log }} from 'catena';\nexport default async function f() {{\n{body}\n}}\n");
    let image = load_js(sandbox, &source).await.unwrap();
    let mut session = sandbox.begin(&image).await.unwrap();
    match session.start(&value(&json!(null)), START).await {
        Err(exception) => {
            let again = session.start(&value(&json!(null)), START).await.unwrap_err();
            assert_eq!(again.name, catena_guest::SESSION_OVER, "{body}");
            exception
        }
        Ok(turn) => match turn.end {
            Some(Err(exception)) => exception,
            other => panic!("{body} ended with {other:?}"),
        },
    }
}

#[tokio::test]
async fn each_limit_is_named_with_the_line_that_broke_it() {
    // The body's second line is line 4 of the source. A loop that calls nothing may be known by what comes before it, and what
    // stops where nothing of the program runs by its function's line, 2.
    let mut wrong = Vec::new();
    for (what, body, limit, lines) in [
        ("a loop without end", "\nfor (;;) {}", "step_wall_ms_max", &[2, 4][..]),
        (
            "a loop without end that catches everything",
            "\nfor (;;) { try { for (;;) {} } catch {} finally { continue; } }",
            "step_wall_ms_max",
            &[2, 4],
        ),
        ("a promise loop without end", "\nfor (;;) await null;", "step_wall_ms_max", &[2, 4]),
        (
            "allocation without end",
            "const kept = [];\nfor (;;) kept.push(new Array(1000).fill(7));",
            "memory_bytes_max",
            &[4],
        ),
        (
            "allocation that catches everything",
            "const kept = [];\nfor (;;) { try { for (;;) kept.push(new Uint8Array(65536)); } catch {} }",
            "memory_bytes_max",
            &[4],
        ),
        ("one huge allocation", "\nconst all = new Uint8Array(1e9);", "memory_bytes_max", &[4]),
        ("a huge string", "\nlet s = 'x'; for (;;) { s += s; s.at(1); }", "memory_bytes_max", &[4]),
        ("a huge repeat", "\nconst s = 'abc'.repeat(2 ** 27); return s.length;", "memory_bytes_max", &[4]),
        ("recursion without end", "const down = () => down() + 1;\nreturn down();", "stack_bytes_max", &[3, 4]),
        ("a catastrophic regex", "\nreturn /^(a+)+$/.test('a'.repeat(40) + 'b');", "step_wall_ms_max", &[4]),
        (
            "one operation that takes for ever",
            "\nreturn 'a'.repeat(4e5).indexOf('a'.repeat(2e5) + 'b');",
            "step_wall_ms_max",
            &[4],
        ),
        (
            "the same, deeper down",
            "const f = (n) => 'a'.repeat(2 * n).indexOf('a'.repeat(n) + 'b');\nreturn [2e5].map(f);",
            "step_wall_ms_max",
            &[3],
        ),
        (
            "a huge sort",
            "const a = Array.from({ length: 20000 }, (_, i) => (i * 7919) % 20011);\nfor (;;) a.sort((x, y) => (x ^ y) & 3);",
            "step_wall_ms_max",
            &[4],
        ),
        ("a huge result", "const s = 'x'.repeat(1 << 20);\nreturn [s, s];", "output_bytes_max", &[2]),
        ("a huge emit", "const s = 'x'.repeat(1 << 20);\nemit([s, s]);", "output_bytes_max", &[4]),
        ("a huge call", "const s = 'x'.repeat(1 << 20);\nawait call('a/b', [s, s]);", "output_bytes_max", &[4]),
        ("logs without end", "\nfor (;;) log('line');", "output_bytes_max", &[4]),
    ] {
        let sandbox = if limit == "step_wall_ms_max" { &TIGHT } else { &PATIENT };
        let exception = broken(sandbox, body).await;
        let params = exception.params.as_ref().map(json_of).unwrap_or_default();
        let named = exception.name == names::LIMIT_EXCEEDED && params["limit"] == limit;
        let sized = params["limit_max"].is_u64() && params["unit"].is_string();
        if !(named && sized && exception.message.contains(limit) && lines.contains(&exception.line)) {
            wrong.push(format!("{what}: {exception:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn a_continuation_that_is_too_large_is_an_exception_of_its_own_chain() {
    let source = "import { call } from 'catena';\nexport default async () => { const kept = Uint8Array.from({ length: 400000 }, (_, i) => i * 7); await call('a/b', 1); return kept.length; };";
    let image = load_js(&PATIENT, source).await.unwrap();
    let mut session = PATIENT.begin(&image).await.unwrap();
    let turn = session.start(&value(&json!(null)), START).await.unwrap();
    assert_eq!(turn.calls.len(), 1);
    let exception = session.suspend().await.unwrap_err();
    assert_eq!(json_of(&exception.params.unwrap())["limit"], "continuation_bytes_max");
    // One that claims to be larger is not even looked at.
    let exception = PATIENT.resume(&image, &vec![0; 300 << 10]).await.unwrap_err();
    assert_eq!(exception.name, names::LIMIT_EXCEEDED);
}

#[tokio::test]
async fn a_large_memory_is_compared_in_parts_and_the_instance_put_back_when_the_session_goes() {
    let sandbox = one_instance();
    let source = "import { call } from 'catena';\nexport default async (n) => { const kept = new Uint8Array(n).fill(1).fill(0); await call('a/b', 1); return kept.length; };";
    let image = load_js(&sandbox, source).await.unwrap();
    for (bytes, parts) in [(1 << 20, false), (12 << 20, true)] {
        let mut session = sandbox.begin(&image).await.unwrap();
        session.start(&value(&json!(bytes)), START).await.unwrap();
        let continuation = {
            let mut suspend = std::pin::pin!(session.suspend());
            let first = suspend.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
            assert_eq!(first.is_pending(), parts, "{bytes} bytes were written");
            match first {
                std::task::Poll::Ready(continuation) => continuation.unwrap(),
                std::task::Poll::Pending => suspend.await.unwrap(),
            }
        };
        assert!(continuation.len() < 10_000, "zeros travel: {} bytes", continuation.len());
        assert_eq!(sandbox.stats().warm_instances, 0);
        assert_eq!(sandbox.stats().instances, 1);
        let over = session.suspend().await.unwrap_err();
        assert_eq!(over.name, catena_guest::SESSION_OVER);
        drop(session);
        let mut session = sandbox.resume(&image, &continuation).await.unwrap();
        let turn = session.settle(0, Ok(&value(&json!(null)))).await.unwrap();
        assert_eq!(turn.end, Some(Ok(value(&json!(bytes)))));
    }
}

#[tokio::test]
async fn recursion_can_be_caught_like_any_error() {
    let source = "export default async () => { const down = (n) => down(n + 1); try { down(0); } catch (e) { return e.name; } };";
    let image = load_js(&TIGHT, source).await.unwrap();
    let mut session = TIGHT.begin(&image).await.unwrap();
    let turn = session.start(&value(&json!(null)), START).await.unwrap();
    let name = json_of(&turn.end.unwrap().unwrap());
    assert!(["RangeError", "InternalError"].contains(&name.as_str().unwrap()), "{name}");
}

#[tokio::test(flavor = "current_thread")]
async fn while_one_loops_others_on_the_same_thread_go_on() {
    const HOPS: u32 = 100;
    let looping = load_js(&PATIENT, "export default async () => { for (;;) {} };").await.unwrap();
    let source = "import { call } from 'catena';\nexport default async () => { for (;;) await call('w/echo', 1); };";
    let working = load_js(&PATIENT, source).await.unwrap();
    let (begun, hops) = (Cell::new(false), Cell::new(0));
    let hostile = async {
        let mut session = PATIENT.begin(&looping).await.unwrap();
        begun.set(true);
        session.start(&value(&json!(null)), START).await.unwrap_err()
    };
    let good = async {
        let mut session = PATIENT.begin(&working).await.unwrap();
        let mut turn = session.start(&value(&json!(null)), START).await.unwrap();
        while hops.get() < HOPS {
            let continuation = session.suspend().await.unwrap();
            drop(session);
            session = PATIENT.resume(&working, &continuation).await.unwrap();
            turn = common::settle(&mut session, &turn.calls[0]).await.unwrap();
            hops.set(hops.get() + u32::from(begun.get()));
            tokio::task::yield_now().await;
        }
    };
    // It loops for a minute of its own time, if nobody ends it, and stands aside about every millisecond of it.
    tokio::select! {
        biased;
        exception = hostile => panic!("only {} hops beside the loop: {exception}", hops.get()),
        () = good => {}
    }
}

#[tokio::test]
async fn a_step_abandoned_half_way_leaves_nothing_behind() {
    let sandbox = sandbox(SandboxConfig { instances_max: 1, ..config() });
    let image =
        load_js(&sandbox, "export default async (n) => { for (let i = 0; i < n; i++); return n; };").await.unwrap();
    let mut session = sandbox.begin(&image).await.unwrap();
    let input = value(&json!(1_000_000_000));
    {
        let mut step = std::pin::pin!(session.start(&input, START));
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(step.as_mut().poll(&mut cx).is_pending(), "it stands aside at the first epoch");
    }
    let over = session.start(&input, START).await.unwrap_err();
    assert_eq!(over.name, catena_guest::SESSION_OVER);
    drop(session);
    // The only instance there may be is free again, and is a new one.
    let mut session = sandbox.begin(&image).await.unwrap();
    let turn = session.start(&value(&json!(5)), START).await.unwrap();
    assert_eq!(turn.end.map(|end| json_of(&end.unwrap())), Some(json!(5)));
}

#[tokio::test]
async fn compiled_guests_are_stopped_by_force() {
    for (what, body, name, says) in [
        ("a loop without end", "(loop (br 0)) i64.const 0", names::LIMIT_EXCEEDED, "step_wall_ms_max"),
        ("recursion without end", "(call $down (i64.const 1))", names::LIMIT_EXCEEDED, "stack_bytes_max"),
        (
            "memory without end",
            "(loop (br_if 0 (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) i64.const 0x10000000001",
            names::LIMIT_EXCEEDED,
            "memory_bytes_max",
        ),
        ("a trap", "unreachable", catena_guest::GUEST_TRAPPED, "unreachable"),
        ("an access outside", "(i64.load (i32.const -8))", catena_guest::GUEST_TRAPPED, "out of bounds"),
        ("an outbox outside its memory", "i64.const 0x7fffffff00000010", catena_guest::GUEST_ABI, "outside its memory"),
        ("an outbox of 4 GiB", "i64.const 0x00000000ffffffff", names::LIMIT_EXCEEDED, "output_bytes_max"),
        ("an outbox of garbage", "i64.const 0x0000000000000010", catena_guest::GUEST_ABI, "outbox"),
        ("a chain that loads", "i64.const 0x0000010000000003", catena_guest::GUEST_ABI, "loads"),
    ] {
        let module = format!(
            r#"(module (memory (export "memory") 1) (data (i32.const 256) "\81\81\07")
              (func (export "catena_abi_v1")) (func (export "catena_alloc") (param i32) (result i32) i32.const 1024)
              (func $down (param i64) (result i64) (i64.add (call $down (local.get 0)) (i64.const 1)))
              (func (export "catena_start") (param i32 i32) (result i64) {body})
              (func (export "catena_resume") (param i32 i32) (result i64) i64.const 0))"#
        );
        let module = wat::parse_str(module).unwrap();
        let sandbox = if says == "step_wall_ms_max" { &TIGHT } else { &PATIENT };
        let image = load_wasm(sandbox, &module).await.unwrap();
        let mut session = sandbox.begin(&image).await.unwrap();
        let exception = session.start(&value(&json!(null)), START).await.unwrap_err();
        assert_eq!(exception.name, name, "{what}: {exception:?}");
        assert!(exception.message.contains(says), "{what}: {exception}");
    }
}

const RAISED: StepLimits = StepLimits {
    memory_bytes_max: Some(u64::MAX),
    step_wall_ms_max: Some(u32::MAX),
    output_bytes_max: Some(u32::MAX),
    events_max: Some(u32::MAX),
    continuation_bytes_max: Some(u32::MAX),
};

/// Only this one limit.
fn lowered(limit: &str, max: u32) -> StepLimits {
    let mut by = StepLimits::UNCHANGED;
    match limit {
        "memory_bytes_max" => by.memory_bytes_max = Some(max.into()),
        "step_wall_ms_max" => by.step_wall_ms_max = Some(max),
        "output_bytes_max" => by.output_bytes_max = Some(max),
        "events_max" => by.events_max = Some(max),
        "continuation_bytes_max" => by.continuation_bytes_max = Some(max),
        other => panic!("there is no limit {other}"),
    }
    by
}

fn assert_broken(result: Result<(), Exception>, limit: &str, max: u64, what: &str) {
    let Err(exception) = result else { panic!("{what}: {limit} is not held") };
    let params = exception.params.as_ref().map(json_of).unwrap_or_default();
    assert_eq!(exception.name, names::LIMIT_EXCEEDED, "{what}: {exception}");
    assert_eq!((&params["limit"], &params["limit_max"]), (&json!(limit), &json!(max)), "{what}: {exception}");
    assert!(exception.message.contains(&format!("{limit} ({max} ")), "{what}: {exception}");
}

/// With room for one instance, which all sessions have one after the other.
fn one_instance() -> Sandbox {
    let limits = PATIENT_LIMITS;
    sandbox(SandboxConfig { limits, instances_max: 1, warm_instances_max: 1, ..config() })
}

/// Lowers a session's limits one after the other, starts it with `input`, and takes its continuation.
async fn attempt(sandbox: &Sandbox, image: &Arc<Image>, by: &[StepLimits], input: u32) -> Result<(), Exception> {
    let mut session = sandbox.begin(image).await.unwrap();
    by.iter().try_for_each(|by| session.lower(by))?;
    let turn = session.start(&value(&json!(input)), START).await?;
    assert_eq!(turn.calls.len(), 1, "{turn:?}");
    session.suspend().await.map(drop)
}

#[tokio::test]
async fn a_lowered_limit_is_held_and_cannot_be_raised_and_concerns_no_other_session() {
    let sandbox = one_instance();
    let own = PATIENT_LIMITS;
    // Per limit: what the function does with its input, the lowered limit, inputs that keep the lowered one, that keep only the
    // node's own, and that break that too.
    for (limit, body, max, small, large, huge) in [
        (
            "memory_bytes_max",
            "const kept = new Uint8Array(n);",
            4 << 20,
            10_000,
            8_000_000,
            Some((20_000_000, own.memory_bytes_max)),
        ),
        ("step_wall_ms_max", "for (let i = 0; i < n; i++);", 50, 10, 20_000_000, None),
        (
            "output_bytes_max",
            "log('x'.repeat(n));",
            10_000,
            100,
            100_000,
            Some((2_000_000, own.output_bytes_max.into())),
        ),
        ("events_max", "for (let i = 0; i < n; i++) log('x');", 100, 10, 500, Some((2_000, own.events_max.into()))),
        (
            "continuation_bytes_max",
            "const kept = Uint8Array.from({ length: n }, (_, i) => i * 7);",
            50_000,
            10,
            100_000,
            Some((400_000, own.continuation_bytes_max.into())),
        ),
    ] {
        let result = if body.contains("kept") { "kept.length" } else { "n" };
        let source = format!(
            "import {{ call, log }} from 'catena';\nexport default async (n) => {{ {body} await call('a/b', 1); return {result}; }};"
        );
        let image = load_js(&sandbox, &source).await.unwrap();
        let by = lowered(limit, max);
        attempt(&sandbox, &image, &[], large).await.unwrap();
        assert_broken(attempt(&sandbox, &image, &[by], large).await, limit, max.into(), "lowered");
        assert_broken(attempt(&sandbox, &image, &[by, RAISED], large).await, limit, max.into(), "lowered, then raised");
        if let Some((huge, own)) = huge {
            assert_broken(attempt(&sandbox, &image, &[RAISED], huge).await, limit, own, "raised");
        }
        attempt(&sandbox, &image, &[by], small).await.unwrap();
        let hits = sandbox.stats().warm_hits;
        attempt(&sandbox, &image, &[], large).await.unwrap();
        assert_eq!(sandbox.stats().warm_hits, hits + 1, "{limit}: it was not the instance of the lowered session");
    }
}

#[tokio::test]
async fn a_continuation_is_laid_over_an_instance_that_had_less_before() {
    let sandbox = one_instance();
    let source = "import { call } from 'catena'; export default async (n) => { const kept = new Uint8Array(n); await call('a/b', 1); return kept.length; };";
    let image = load_js(&sandbox, source).await.unwrap();
    let mut session = sandbox.begin(&image).await.unwrap();
    session.start(&value(&json!(8_000_000)), START).await.unwrap();
    let continuation = session.suspend().await.unwrap();
    drop(session);
    let by = lowered("memory_bytes_max", 4 << 20);
    attempt(&sandbox, &image, &[by], 10).await.unwrap();
    let hits = sandbox.stats().warm_hits;
    let mut session = sandbox.resume(&image, &continuation).await.unwrap();
    assert_eq!(sandbox.stats().warm_hits, hits + 1, "it was not the instance of the lowered session");
    let turn = session.settle(0, Ok(&value(&json!(null)))).await.unwrap();
    assert_eq!(turn.end, Some(Ok(value(&json!(8_000_000)))));
    drop(session);
    // A session that has more already than it may.
    let mut session = sandbox.resume(&image, &continuation).await.unwrap();
    assert_broken(session.lower(&by), "memory_bytes_max", 4 << 20, "resumed");
    drop(session);
    // Nor is another function loaded with the limits of the session before.
    attempt(&sandbox, &image, &[by], 10).await.unwrap();
    let source = "const kept = new Uint8Array(8_000_000); export default async () => kept.length;";
    load_js(&sandbox, source).await.unwrap();
}

/// A function of explicit state that goes on with `$short` for ever, until its event is a long one: that it answers with `long`.
fn explicit(long: &str) -> Vec<u8> {
    let module = format!(
        r#"(module (memory (export "memory") 1)
          ;; [next a/b null, null]; the same with 2,000 bytes of state; four lines of log, and next.
          (data (i32.const 0x100) "\81\85\06\61a\61b\f6\f6")
          (data (i32.const 0x200) "\81\85\06\61a\61b\f6\59\07\d0")
          (data (i32.const 0x1000) "\85\82\04\61x\82\04\61x\82\04\61x\82\04\61x\85\06\61a\61b\f6\f6")
          (global $short i64 (i64.const 0x0000010000000009))
          (func (export "catena_abi_v1")) (func (export "catena_alloc") (param i32) (result i32) i32.const 0x2000)
          (func $long (result i64) (local $i i64) {long})
          (func (export "catena_step") (param i32 i32) (result i64)
            (if (result i64) (i32.lt_u (local.get 1) (i32.const 100)) (then (global.get $short)) (else (call $long)))))"#
    );
    wat::parse_str(module).unwrap()
}

#[tokio::test]
async fn a_lowered_limit_is_held_at_every_step_of_a_function_with_explicit_state() {
    const LARGE_STATE: &str = "i64.const 0x00000200000007db";
    let sandbox = one_instance();
    let long = value(&json!("x".repeat(200)));
    for (limit, body, max) in [
        ("memory_bytes_max", "(drop (memory.grow (i32.const 100))) (global.get $short)", 4 << 20),
        (
            "step_wall_ms_max",
            "(loop (br_if 0 (i64.lt_u (local.tee $i (i64.add (local.get $i) (i64.const 1))) (i64.const 1_000_000_000)))) (global.get $short)",
            20,
        ),
        ("output_bytes_max", LARGE_STATE, 1_000),
        ("events_max", "i64.const 0x0000100000000019", 4),
        ("continuation_bytes_max", LARGE_STATE, 1_000),
    ] {
        let image = load_wasm(&sandbox, &explicit(body)).await.unwrap();
        let by = lowered(limit, max);
        for (what, lowerings) in [("as the node has them", &[][..]), ("lowered", &[by]), ("then raised", &[by, RAISED])]
        {
            let mut session = sandbox.begin(&image).await.unwrap();
            for by in lowerings {
                session.lower(by).unwrap();
            }
            session.start(&value(&json!(null)), START).await.unwrap();
            session.settle(0, Ok(&value(&json!(null)))).await.unwrap();
            let result = match session.settle(1, Ok(&long)).await {
                Ok(_) => session.suspend().await.map(drop),
                Err(exception) => Err(exception),
            };
            match lowerings {
                [] => result.unwrap(),
                _ => assert_broken(result, limit, max.into(), what),
            }
        }
        // Lowered and kept: the next has all again.
        let mut session = sandbox.begin(&image).await.unwrap();
        session.lower(&by).unwrap();
        session.start(&value(&json!(null)), START).await.unwrap();
        let continuation = session.suspend().await.unwrap();
        drop(session);
        let hits = sandbox.stats().warm_hits;
        let mut session = sandbox.resume(&image, &continuation).await.unwrap();
        assert_eq!(sandbox.stats().warm_hits, hits + 1, "{limit}: it was not the instance of the lowered session");
        session.settle(0, Ok(&long)).await.unwrap();
        session.suspend().await.unwrap();
    }
    let image = load_wasm(&sandbox, &explicit(LARGE_STATE)).await.unwrap();
    let mut session = sandbox.begin(&image).await.unwrap();
    assert_broken(
        session.lower(&lowered("memory_bytes_max", 1_000)),
        "memory_bytes_max",
        1_000,
        "less than it begins with",
    );
}
