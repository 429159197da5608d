//! What chains do between nodes that are processes of their own, which can be killed and stopped. Each is the example `node`, run by this program.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod adapting;
mod arriving;
#[allow(dead_code)]
mod attacker;
mod attacking;
mod blobs;
#[path = "../common/bound.rs"]
mod bound;
mod clock;
mod composing;
mod endless;
mod entering;
mod fetching;
#[path = "../common/held.rs"]
mod held;
mod latency;
mod logged;
mod losing;
mod merging;
#[path = "../../examples/node/main.rs"]
mod node;
mod nodes;
#[allow(dead_code)]
mod process;
mod relay;
mod segments;
mod unruly;

/// The process that the tests start. Run as a test it is over at once.
#[tokio::test(flavor = "multi_thread")]
async fn process() {
    if let Some(mut arguments) = process::arguments() {
        if arguments.pop_if(|last| last.as_str() == logged::LOGGED).is_some() {
            logged::begin();
        }
        node::serve(arguments.into_iter()).await.unwrap();
    }
}
