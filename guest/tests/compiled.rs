//! Functions compiled to WebAssembly, with both kinds of state, and modules that cannot travel.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::sync::Arc;

use catena_guest::{Function, FunctionKind, GuestsBudget, Owner, Sandbox, SandboxConfig};
use catena_wire::{Fault, Value, names};
use common::{NODES, START, Way, answer, config, guest, json_of, load_js, load_wasm, run, sandbox, starting, value};
use serde_json::json;

/// What a guest does that says that nothing happened, and then waits.
const WAITS: &str = "(i32.store8 (i32.const 1024) (i32.const 0x80)) (return (i64.const 0x40000000001))";

async fn relay(guest_name: &str, input: &serde_json::Value, way: Way) -> common::Shown {
    let module = guest(guest_name);
    let [a, b] = &*NODES;
    let images = [&load_wasm(a, &module).await.unwrap(), &load_wasm(b, &module).await.unwrap()];
    run([a, b], images, input, way).await.unwrap()
}

#[tokio::test]
async fn a_rust_guest_travels_with_its_memory_or_with_explicit_state() {
    let input = json!({ "hops": ["a.b/inc", "c/inc", "d/echo", "e/inc"], "value": 40 });
    for (guest, explicit) in [("relay.wasm", false), ("relay_explicit.wasm", true)] {
        let in_place = relay(guest, &input, Way::InPlace).await;
        let moved = relay(guest, &input, Way::Moving).await;
        assert_eq!(moved.end, Some(Ok(json!(43))), "{guest}");
        assert_eq!((&moved.calls, &moved.end), (&in_place.calls, &in_place.end), "{guest}");
        assert_eq!(moved.calls[0], (0, "a.b/inc".to_owned(), json!(40)));
        assert_eq!(moved.calls[3].0, 3, "calls are numbered");
        for continuation in &moved.continuations {
            let version =
                if explicit { catena_guest::VERSION_EXPLICIT } else { catena_guest::continuation::VERSION_MEMORY };
            assert_eq!(continuation[0], version);
            assert!(continuation.len() < 1_500, "{guest}: {} bytes", continuation.len());
        }
    }
}

#[tokio::test]
async fn a_failed_call_reaches_a_rust_guest_and_ends_it() {
    for guest in ["relay.wasm", "relay_explicit.wasm"] {
        let shown = relay(guest, &json!({ "hops": ["a/fail"], "value": 1 }), Way::Moving).await;
        let exception = shown.end.unwrap().unwrap_err();
        assert_eq!((exception.name.as_str(), exception.message.as_str()), ("NoSuchMail", "there is no such mail"));
        assert_eq!((exception.fault, exception.step, exception.path.len()), (Fault::Service, 2, 2), "{guest}");
        assert_eq!(exception.target.as_deref(), Some("a/fail"), "{guest}");
    }
}

#[tokio::test]
async fn null_is_what_a_rust_guest_takes_for_nothing() {
    let image = load_wasm(&NODES[0], &guest("plan.wasm")).await.unwrap();
    let (null, empty, number) = (json!(null), json!([]), json!(7));
    let undefined = Value::from_cbor(vec![0xf7].into()).unwrap();
    for (what, result, expected) in [
        ("tell", value(&null), Some(&null)),
        ("tell", undefined.clone(), Some(&null)),
        ("tell", value(&empty), Some(&null)),
        ("tell", value(&number), None),
        ("ask", value(&null), Some(&null)),
        ("ask", undefined, Some(&null)),
        ("ask", value(&number), Some(&number)),
        ("ask", value(&empty), None),
    ] {
        let mut session = NODES[0].begin(&image).await.unwrap();
        session.start(&value(&json!([what, "a/b", null])), START).await.unwrap();
        let end = session.settle(0, Ok(&result)).await.unwrap().end.unwrap();
        match expected {
            Some(expected) => assert_eq!(&json_of(&end.unwrap()), expected, "{what}: {result:?}"),
            None => assert_eq!(end.unwrap_err().name, "BadParameters", "{what}: {result:?}"),
        }
    }
}

#[tokio::test]
async fn a_call_is_settled_once_and_by_its_number() {
    let node = &NODES[0];
    let image = load_wasm(node, &guest("relay_explicit.wasm")).await.unwrap();
    let mut session = node.begin(&image).await.unwrap();
    let input = value(&json!({ "hops": ["a/inc", "b/inc"], "value": 1 }));
    let turn = session.start(&input, START).await.unwrap();
    let wrong = session.settle(7, Ok(&input)).await.unwrap_err();
    assert_eq!(wrong.name, catena_guest::SESSION_OVER);
    let result = answer(&turn.calls[0]).unwrap();
    let turn = session.settle(0, Ok(&result)).await.unwrap();
    assert_eq!(turn.calls[0].call, 1);
    assert!(session.settle(0, Ok(&result)).await.is_err(), "settled before");
}

/// A module of the right shape, with something more.
fn module(more: &str) -> String {
    format!(
        r#"(module {more}
          (func (export "catena_abi_v1")) (func (export "catena_alloc") (param i32) (result i32) i32.const 64)
          (func (export "catena_start") (param i32 i32) (result i64) i64.const 0)
          (func (export "catena_resume") (param i32 i32) (result i64) i64.const 0))"#
    )
}

const MEMORY: &str = r#"(memory (export "memory") 1)"#;

#[tokio::test]
async fn modules_that_cannot_travel_are_refused_by_name() {
    let with = |more: &str| module(&format!("{MEMORY} {more}"));
    let table = "(table $t 4 funcref) (elem $e func)";
    for (wat, says) in [
        (module(r#"(import "env" "memory" (memory 1)) (export "memory" (memory 0))"#), "imports the memory env.memory"),
        (module(&format!(r#"(import "env" "t" (table 1 funcref)) {MEMORY}"#)), "imports the table env.t"),
        (module(&format!(r#"(import "env" "g" (global i32)) {MEMORY}"#)), "imports the global env.g"),
        (
            module(&format!(r#"(import "wasi_snapshot_preview1" "fd_write" (func)) {MEMORY}"#)),
            "imports the function wasi_snapshot_preview1.fd_write",
        ),
        (
            module(&format!(r#"(import "catena" "interrupted" (func (param i32))) {MEMORY}"#)),
            "a function of another type catena.interrupted",
        ),
        (module(""), "has 0 memories"),
        (with("(memory 1)"), "has 2 memories"),
        (module(r#"(memory (export "memory") i64 1)"#), "memory is 64-bit"),
        (module(r#"(memory (export "memory") 1 2 shared)"#), "memory is shared"),
        (module(r#"(memory (export "memory") 2000)"#), "more than memory_bytes_max"),
        (with("(global (mut funcref) (ref.null func))"), "mutable global 0 holds a reference"),
        (
            with("(global i32 (i32.const 1)) (global (mut v128) (v128.const i64x2 0 0))"),
            "mutable global 1 holds a v128",
        ),
        (with(&format!("{table} (func (table.set $t (i32.const 0) (ref.null func)))")), "uses table.set"),
        (with(&format!("{table} (func (drop (table.grow $t (ref.null func) (i32.const 1))))")), "uses table.grow"),
        (
            with(&format!("{table} (func (table.fill $t (i32.const 0) (ref.null func) (i32.const 1)))")),
            "uses table.fill",
        ),
        (with(&format!("{table} (func (table.copy (i32.const 0) (i32.const 1) (i32.const 1)))")), "uses table.copy"),
        (with(&format!("{table} (func (table.init $e (i32.const 0) (i32.const 0) (i32.const 0)))")), "uses table.init"),
        (with(&format!("{table} (func (elem.drop $e))")), "uses elem.drop"),
        (with(r#"(data $d "x") (func (data.drop $d))"#), "uses data.drop"),
        (with("(type (struct (field i32)))"), "uses garbage collection"),
        (with("(table 1 externref)"), "gc types are disallowed"),
        (with("(tag)"), "uses exceptions"),
        (with("(func (atomic.fence))"), "uses atomic instructions"),
        (with("(func $s) (start $s)"), "has a start function"),
        (with(r#"(global (export "__wizer_global_0") (mut i32) (i32.const 0))"#), "__wizer_"),
        (with("(table 30000 funcref)"), "table_elements_max"),
        (with("(func (result i32) i64.const 1)"), "not a valid WebAssembly module"),
        (format!(r"(module {MEMORY})"), "does not export catena_abi_v1"),
        (
            module(MEMORY).replace("(param i32 i32) (result i64)", "(param i32 i64) (result i64)"),
            "does not export catena_start as (i32, i32) -> i64",
        ),
        (with(r#"(func (export "catena_scratch") (result i64) i64.const 0)"#), "does not export catena_scratch as"),
        (
            with(r#"(func (export "catena_last_words") (result i32) i32.const 0)"#),
            "does not export catena_last_words as",
        ),
        (with(r#"(func (export "catena_scratch") (result i32) i32.const 65532)"#), "scratch list"),
        (with(r#"(func (export "catena_scratch") (result i32) unreachable)"#), "unreachable"),
    ] {
        let exception = load_wasm(&NODES[0], &wat::parse_str(&wat).unwrap()).await.unwrap_err();
        assert!(exception.message.contains(says), "{wat}\nwanted: {says}\nfound:  {exception}");
    }
    load_wasm(&NODES[0], &wat::parse_str(with("")).unwrap()).await.unwrap();
}

#[tokio::test]
async fn bytes_that_are_no_function_are_refused() {
    let node = &NODES[0];
    let function = node.function(FunctionKind::Wasm, "x", b"\0asm\x01\0\0\0".to_vec());
    let encoded = function.encode();
    let wrong_hash = node.load(node.engine_hash(), &encoded).await.unwrap_err();
    assert_eq!(wrong_hash.name, names::BAD_CODE);
    for bytes in [&b""[..], b"garbage", &encoded[..encoded.len() - 1]] {
        let hash = catena_wire::Hash(*blake3::hash(bytes).as_bytes());
        assert_eq!(node.load(hash, bytes).await.unwrap_err().name, names::BAD_CODE);
    }
    let other_engine = Function {
        engine: Some(function.hash()),
        ..node.function(FunctionKind::JavaScript, "x", "export default () => 1;")
    };
    let exception = node.load(other_engine.hash(), &other_engine.encode()).await.unwrap_err();
    assert!(exception.message.contains(&node.engine_hash().to_string()), "{exception}");
    let not_text = node.function(FunctionKind::JavaScript, "x", vec![0xff]);
    assert_eq!(node.load(not_text.hash(), &not_text.encode()).await.unwrap_err().name, names::BAD_CODE);
    let huge = node.function(FunctionKind::JavaScript, "x", vec![b' '; 5 << 20]);
    assert_eq!(node.load(huge.hash(), &huge.encode()).await.unwrap_err().name, names::LIMIT_EXCEEDED);
}

#[tokio::test]
async fn a_function_is_kept_within_bounds_and_loaded_once() {
    let sandbox =
        common::sandbox(catena_guest::SandboxConfig { images_max: 3, warm_instances_max: 2, ..common::config() });
    let source = |n: usize| format!("export default async () => {n};");
    for n in 0..10 {
        load_js(&sandbox, &source(n)).await.unwrap();
        let stats = sandbox.stats();
        assert!(stats.images <= 3 && stats.warm_instances <= 2 && stats.instances <= 2, "{stats:?}");
    }
    assert_eq!(sandbox.stats().loads, 10);
    // The last three are kept, the others are gone.
    let hash = |n: usize| sandbox.function(FunctionKind::JavaScript, "test.js", source(n)).hash();
    assert!(
        sandbox.loaded(hash(9)).is_some() && sandbox.loaded(hash(7)).is_some() && sandbox.loaded(hash(6)).is_none()
    );
    let source = source(99);
    let loads = (0..50).map(|_| load_js(&sandbox, &source));
    let images = futures_util::future::join_all(loads).await;
    assert!(images.iter().all(|image| std::sync::Arc::ptr_eq(image.as_ref().unwrap(), images[0].as_ref().unwrap())));
    assert_eq!(sandbox.stats().loads, 11);
}

#[tokio::test]
async fn the_longest_unused_go_when_bytes_run_out() {
    let module = guest("relay.wasm");
    let sandbox = common::sandbox(catena_guest::SandboxConfig { images_bytes_max: 500 << 10, ..common::config() });
    for n in 0..5 {
        let function = sandbox.function(FunctionKind::Wasm, &format!("relay {n}"), module.clone());
        sandbox.load(function.hash(), &function.encode()).await.unwrap();
        let stats = sandbox.stats();
        assert!(stats.images <= 3 && stats.images_bytes <= 500 << 10, "{stats:?}");
    }
}

#[tokio::test]
async fn one_instance_too_many_is_refused_and_room_is_made_of_those_unused() {
    let sandbox = common::sandbox(catena_guest::SandboxConfig { instances_max: 2, ..common::config() });
    let images = [
        &load_js(&sandbox, "export default () => 1;").await.unwrap(),
        &load_js(&sandbox, "export default () => 2;").await.unwrap(),
    ];
    assert_eq!(sandbox.stats().warm_instances, 2);
    let first = sandbox.begin(images[0]).await.unwrap();
    let second = sandbox.begin(images[0]).await.unwrap();
    assert_eq!(sandbox.stats().warm_instances, 0, "the other's made room");
    let exception = sandbox.begin(images[1]).await.unwrap_err();
    assert_eq!(exception.name, names::OVERLOADED);
    // A module is looked at in an instance of its own.
    let exception = load_wasm(&sandbox, &guest("relay.wasm")).await.unwrap_err();
    assert_eq!(exception.name, names::OVERLOADED, "{exception}");
    drop((first, second));
    assert_eq!(sandbox.stats().warm_instances, 2);
    load_wasm(&sandbox, &guest("relay.wasm")).await.unwrap();
    assert_eq!(sandbox.stats().warm_instances, 1);
    sandbox.begin(images[1]).await.unwrap();
}

#[tokio::test]
async fn instances_that_one_owner_holds_leave_room_for_others() {
    let sandbox = common::sandbox(SandboxConfig { instances_max: 16, ..common::config() });
    let image = load_js(&sandbox, "export default () => 1;").await.unwrap();
    let hold = async |sandbox: &Sandbox| {
        let mut held = Vec::new();
        while let Ok(session) = sandbox.begin(&image).await {
            held.push(session);
        }
        held
    };
    let [one, other] = [1, 2].map(|number| sandbox.on_behalf_of(Owner::Other(number)));
    let of_one = hold(&one).await;
    // One that is over is kept ready, and takes no room.
    drop(sandbox.begin(&image).await.unwrap());
    let (of_other, own) = (hold(&other).await, hold(&sandbox).await);
    assert_eq!([of_one.len(), of_other.len(), own.len()], [8, 4, 4]);
    drop((of_one, of_other));
    assert_eq!(hold(&one).await.len(), 6, "as many as are left, but for an eighth of all");
}

/// A guest that answers any event with no events, takes those of up to `inbox` bytes at 0x100, and has scratch from there on.
fn quiet(inbox: u32, scratch: u32, outbox: u32) -> Vec<u8> {
    let module = format!(
        r#"(module (memory (export "memory") 1) (data (i32.const 0x80) "\00\01\00\00\{scratch:02x}\00\00\00\00\00\00\00\00\00\00\00")
          (data (i32.const 0x120) "\80") (data (i32.const 0x400) "\80")
          (func (export "catena_abi_v1")) (func (export "catena_scratch") (result i32) i32.const 0x80)
          (func (export "catena_inbox") (result i64) i64.const 0x100000000{inbox:02x})
          (func (export "catena_alloc") (param i32) (result i32) unreachable)
          (func (export "catena_settle") unreachable)
          (func (export "catena_start") (param i32 i32) (result i64) i64.const {outbox:#x}00000001)
          (func (export "catena_resume") (param i32 i32) (result i64) i64.const {outbox:#x}00000001))"#
    );
    wat::parse_str(module).unwrap()
}

#[tokio::test]
async fn what_fits_the_fixed_places_is_one_entry_into_the_guest() {
    let sandbox = &NODES[0];
    // `catena_alloc` and `catena_settle` trap.
    for (what, inbox, outbox, input, quiet_is_enough) in [
        ("all fits", 0x30, 0x120, "x".to_owned(), true),
        ("the event is too long", 0x30, 0x120, "x".repeat(100), false),
        ("the outbox lies elsewhere", 0x30, 0x400, "x".to_owned(), false),
        ("there is no inbox", 0, 0x120, "x".to_owned(), false),
    ] {
        let image = load_wasm(sandbox, &quiet(inbox, 0x40, outbox)).await.unwrap();
        let mut session = sandbox.begin(&image).await.unwrap();
        let turn = session.start(&value(&json!(input)), START).await;
        assert_eq!(turn.is_ok(), quiet_is_enough, "{what}: {turn:?}");
    }
    let refused = load_wasm(sandbox, &quiet(0x50, 0x40, 0x120)).await.unwrap_err();
    assert!(refused.message.contains("its inbox is not scratch"), "{refused}");
}

#[tokio::test]
async fn a_module_for_whose_memory_the_node_has_no_room_is_not_at_fault() {
    let memory = Arc::new(GuestsBudget::new(1 << 20));
    let sandbox = sandbox(SandboxConfig { memory, ..config() });
    load_wasm(&sandbox, &starting(40, "")).await.unwrap();
    let refused = load_wasm(&sandbox, &starting(80, "")).await.unwrap_err();
    assert_eq!((refused.name.as_str(), refused.fault), (names::OVERLOADED, Fault::Node), "{refused}");
    assert!(refused.message.contains("guests_bytes_max"), "{refused}");
}

#[tokio::test]
async fn what_guests_write_of_their_first_memory_is_bounded_by_the_nodes() {
    let memory = Arc::new(GuestsBudget::new(8 << 20));
    let sandbox = sandbox(SandboxConfig { memory, ..config() });
    let write = |kib: u32, then: &str| {
        let filled = format!("(memory.fill (i32.const 4096) (i32.const 1) (i32.const {}))", kib << 10);
        starting(31, &format!("{filled} {then}"))
    };
    let small = load_wasm(&sandbox, &write(100, WAITS)).await.unwrap();
    let waits = load_wasm(&sandbox, &write(1_500, WAITS)).await.unwrap();
    let loops = load_wasm(&sandbox, &write(1_500, "(loop (br 0))")).await.unwrap();
    let mut waiting = Vec::new();
    let refused = loop {
        let mut session = sandbox.begin(&waits).await.unwrap();
        match session.start(&value(&json!(null)), START).await {
            Ok(_) => waiting.push(session),
            Err(why) => break why,
        }
    };
    assert_eq!((refused.name.as_str(), refused.fault), (names::OVERLOADED, Fault::Node), "{refused}");
    assert_eq!(waiting.len(), 8, "a MiB of each counts");
    let busy = sandbox.begin(&loops).await.unwrap().start(&value(&json!(null)), START).await.unwrap_err();
    assert_eq!(busy.name, names::OVERLOADED, "{busy}");
    // One that writes little needs no room.
    let mut session = sandbox.begin(&small).await.unwrap();
    session.start(&value(&json!(null)), START).await.unwrap();
    drop((waiting, session));
    assert_eq!(sandbox.stats().warm_instances, 1, "what writes much is not kept ready");
    sandbox.begin(&waits).await.unwrap().start(&value(&json!(null)), START).await.unwrap();
}

#[tokio::test]
async fn what_would_take_long_to_compile_is_refused_by_the_limits_name() {
    let sandbox = sandbox(config());
    let many_blocks = format!("(local{}) {}", " i32".repeat(1_100), "(loop (br_if 0 (local.get 0)))".repeat(1_000));
    for (limit, module) in [
        ("function_body_bytes_max", starting(1, &"(drop (i64.const 7))".repeat(100_000))),
        ("module_locals_times_blocks_max", starting(1, &many_blocks)),
        ("mutable_globals_max", {
            let globals = "(global (mut i32) (i32.const 0))".repeat(300);
            wat::parse_str(format!("(module (memory 1) {globals})")).unwrap()
        }),
    ] {
        let refused = load_wasm(&sandbox, &module).await.unwrap_err();
        assert_eq!(refused.name, names::BAD_CODE);
        assert!(refused.message.contains(limit), "{limit}: {refused}");
    }
}

#[tokio::test]
async fn memory_that_one_owners_guests_take_leaves_room_for_others() {
    let memory = Arc::new(GuestsBudget::new(16 << 20));
    let sandbox = sandbox(SandboxConfig { memory, ..config() });
    let grows = format!("(drop (memory.grow (i32.const 16))) {WAITS}");
    let image = load_wasm(&sandbox, &starting(32, &grows)).await.unwrap();
    let hold = async |sandbox: &Sandbox| {
        let mut held = Vec::new();
        loop {
            let mut session = sandbox.begin(&image).await.unwrap();
            match session.start(&value(&json!(null)), START).await {
                Ok(_) => held.push(session),
                Err(why) => {
                    assert_eq!((why.name.as_str(), why.fault), (names::OVERLOADED, Fault::Node), "{why}");
                    return held;
                }
            }
        }
    };
    let [one, other] = [1, 2].map(|number| sandbox.on_behalf_of(Owner::Other(number)));
    let (of_one, of_other, own) = (hold(&one).await, hold(&other).await, hold(&sandbox).await);
    assert_eq!([of_one.len(), of_other.len(), own.len()], [7, 3, 6]);
    drop(of_one);
    assert_eq!(hold(&one).await.len(), 2, "as much as is left, but for an eighth of all");
}

#[tokio::test]
async fn what_an_instance_begins_with_counts_and_is_not_kept_ready() {
    let memory = Arc::new(GuestsBudget::new(16 << 20));
    let sandbox = sandbox(SandboxConfig { memory, ..config() });
    // 4 MiB, of which 2 count.
    let large = load_wasm(&sandbox, &starting(64, WAITS)).await.unwrap();
    let one = sandbox.on_behalf_of(Owner::Other(1));
    let mut held = Vec::new();
    let refused = loop {
        match one.begin(&large).await {
            Ok(session) => held.push(session),
            Err(why) => break why,
        }
    };
    assert_eq!((held.len(), refused.name.as_str()), (3, names::OVERLOADED), "{refused}");
    for mut session in held {
        session.start(&value(&json!(null)), START).await.unwrap();
    }
    assert_eq!(sandbox.stats().warm_instances, 0, "it would take from the budget for nobody");
    let own: Vec<_> = futures_util::future::join_all((0..8).map(|_| sandbox.begin(&large))).await;
    assert!(own.into_iter().all(|begun| begun.is_ok()), "all has been given back");
}

/// A memory that says how large it may become.
#[tokio::test]
async fn growth_that_the_memory_itself_refuses_takes_nothing() {
    let memory = Arc::new(GuestsBudget::new(16 << 20));
    let sandbox = sandbox(SandboxConfig { memory, ..config() });
    let grows = "(drop (memory.grow (i32.const 100)))".repeat(9);
    let bounded = starting("2 2", &format!("{grows}{WAITS}"));
    let image = load_wasm(&sandbox, &bounded).await.unwrap();
    sandbox.begin(&image).await.unwrap().start(&value(&json!(null)), START).await.unwrap();
}
