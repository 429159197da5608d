//! A module is compiled by one thread. The test is alone in its program, so that nobody else starts threads.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{config, load_wasm, sandbox, starting};

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[tokio::test]
async fn a_module_is_compiled_by_one_thread() {
    let sandbox = sandbox(config());
    let before = threads();
    // New each time, so that no cache has it.
    let new = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
    let body = format!("(drop (i64.const {}))", new % (1 << 60));
    let body: String = (0..200).map(|_| format!("(loop (br_if 0 (local.get 0))) {body}")).collect();
    load_wasm(&sandbox, &starting(1, &format!("(local i32) {body}"))).await.unwrap();
    assert!(threads() <= before + 1, "{} threads compiled", threads() - before);
}
