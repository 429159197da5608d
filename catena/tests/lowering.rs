//! A chain may lower what its function may use at each step, and raise nothing (rpc-chains section 3.6).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use catena::{Exception, RunOptions, StepLimits, exceptions, to_value};
use common::{Mesh, mesh};
use serde_json::Value as Json;

async fn run(mesh: &Mesh, after_the_hop: &str, limits: StepLimits) -> Result<Json, Exception> {
    let source = format!(
        "import {{ call, emit }} from 'catena';
         export default async () => {{
           await call('a/where', null);
           {after_the_hop}
         }};"
    );
    let code = mesh.code(&source).await;
    let options = RunOptions { limits, ..RunOptions::default() };
    mesh.client.run_with(&code, &to_value(&()).unwrap(), &options)?.value().await
}

/// What a function does after its first hop, the limit that forbids it, and how that limit is told.
fn cases() -> Vec<(&'static str, StepLimits, &'static str)> {
    let as_they_are = StepLimits::UNCHANGED;
    vec![
        (
            "return new Uint8Array(6 << 20).fill(1).length;",
            StepLimits { memory_bytes_max: Some(4 << 20), ..as_they_are },
            "memory_bytes_max (4194304 bytes)",
        ),
        (
            "const until = 3e5; let n = 0; while (n < until) n++; return n;",
            StepLimits { step_wall_ms_max: Some(1), ..as_they_are },
            "step_wall_ms_max (1 ms)",
        ),
        (
            "for (let n = 0; n < 100; n++) emit('x'.repeat(1000)); return 1;",
            StepLimits { output_bytes_max: Some(20_000), ..as_they_are },
            "output_bytes_max (20000 bytes)",
        ),
        (
            "for (let n = 0; n < 100; n++) emit(n); return 1;",
            StepLimits { events_max: Some(20), ..as_they_are },
            "events_max (20 events)",
        ),
        (
            "const kept = Uint8Array.from({ length: 100000 }, () => Math.random() * 256); await call('b/where', 1); return kept.length;",
            StepLimits { continuation_bytes_max: Some(50_000), ..as_they_are },
            "continuation_bytes_max (50000 bytes)",
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_may_lower_each_limit_and_breaks_it_where_it_is() {
    let mesh = mesh(2).await;
    for (does, limits, told) in cases() {
        run(&mesh, does, StepLimits::UNCHANGED).await.unwrap_or_else(|why| panic!("{does}: {why}"));
        let why = run(&mesh, does, limits).await.expect_err(does);
        assert_eq!(why.name, exceptions::LIMIT_EXCEEDED, "{does}: {why}");
        assert!(why.message.contains(told), "{does}: {why}");
        assert_eq!(why.path, ["client", "a"], "{does}: {why}");
    }
    // The node itself is as it was.
    for (does, ..) in cases() {
        run(&mesh, does, StepLimits::UNCHANGED).await.unwrap_or_else(|why| panic!("{does}: {why}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_can_raise_nothing() {
    let mesh = mesh(2).await;
    let limits =
        StepLimits { step_wall_ms_max: Some(u32::MAX), memory_bytes_max: Some(u64::MAX), ..StepLimits::UNCHANGED };
    let why = run(&mesh, "for (;;) {}", limits).await.unwrap_err();
    assert!(why.message.contains("step_wall_ms_max (1000 ms)"), "{why}");
    let why =
        run(&mesh, "const kept = []; for (;;) kept.push(new Uint8Array(1 << 20).fill(1));", limits).await.unwrap_err();
    assert!(why.message.contains("memory_bytes_max (67108864 bytes)"), "{why}");
}
