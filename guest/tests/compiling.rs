//! Compiling is bounded: by one thread, and by limits with names.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::sync::Arc;

use catena_guest::{GuestsBudget, SandboxConfig};
use catena_wire::{Fault, names};
use common::{config, load_wasm, sandbox};

/// A guest whose `catena_start` is `body`, with so many locals.
fn guest(locals: usize, body: &str) -> Vec<u8> {
    let locals = " i32".repeat(locals);
    let module = format!(
        r#"(module (memory (export "memory") 1)
          (func (export "catena_abi_v1")) (func (export "catena_alloc") (param i32) (result i32) i32.const 1024)
          (func (export "catena_start") (param i32 i32) (result i64) (local{locals}) {body} i64.const 0)
          (func (export "catena_resume") (param i32 i32) (result i64) i64.const 0))"#
    );
    wat::parse_str(module).unwrap()
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

// The only test here that compiles, so that nobody else starts threads.
#[tokio::test]
async fn a_module_is_compiled_by_one_thread() {
    let sandbox = sandbox(config());
    let before = threads();
    // New each time, so that no cache has it.
    let new = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
    let body = format!("(drop (i64.const {}))", new % (1 << 60));
    let body: String = (0..200).map(|_| format!("(loop (br_if 0 (local.get 0))) {body}")).collect();
    load_wasm(&sandbox, &guest(10, &body)).await.unwrap();
    assert!(threads() <= before + 1, "{} threads compiled", threads() - before);
}

#[tokio::test]
async fn a_module_for_whose_memory_the_node_has_no_room_is_not_at_fault() {
    let memory = Arc::new(GuestsBudget::new(1 << 20));
    let sandbox = sandbox(SandboxConfig { memory, ..config() });
    let text = |pages: u32| {
        format!(
            r#"(module (memory (export "memory") {pages})
              (func (export "catena_abi_v1")) (func (export "catena_alloc") (param i32) (result i32) i32.const 1024)
              (func (export "catena_start") (param i32 i32) (result i64) i64.const 0)
              (func (export "catena_resume") (param i32 i32) (result i64) i64.const 0))"#
        )
    };
    load_wasm(&sandbox, &wat::parse_str(text(40)).unwrap()).await.unwrap();
    let refused = load_wasm(&sandbox, &wat::parse_str(text(80)).unwrap()).await.unwrap_err();
    assert_eq!((refused.name.as_str(), refused.fault), (names::OVERLOADED, Fault::Node), "{refused}");
    assert!(refused.message.contains("guests_bytes_max"), "{refused}");
}

#[tokio::test]
async fn what_would_take_long_to_compile_is_refused_by_the_limits_name() {
    let sandbox = sandbox(config());
    for (limit, module) in [
        ("function_body_bytes_max", guest(1, &"(drop (i64.const 7))".repeat(100_000))),
        ("module_locals_times_blocks_max", guest(1_100, &"(loop (br_if 0 (local.get 0)))".repeat(1_000))),
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
