//! `make bench`: every figure of the README in one run, side by side with its peer, written to `target/bench/summary.json`.
#![allow(clippy::print_stdout, reason = "its output is its purpose")]

mod cpu;
mod grpc;
mod guests;
mod latency;
mod mesh;
mod peers;
mod ring;
mod stats;
mod summary;

use std::{process::ExitCode, sync::Arc};

use summary::Summary;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    // A quick run says whether the benchmark works, not how fast anything is.
    let quick = std::env::args().any(|argument| argument == "--quick");
    match measure(quick).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("the benchmark failed: {why}");
            ExitCode::FAILURE
        }
    }
}

async fn measure(quick: bool) -> Result<(), Failure> {
    let sandbox = mesh::sandbox()?;
    let mut summary = Summary::default();
    eprintln!("guests: one hop, and loading a function");
    guests::measure(&sandbox, if quick { 100 } else { 4_000 }, &mut summary).await?;
    let peers = Arc::new(peers::Peers::start(&sandbox).await?);
    eprintln!("latency: chains of 4 hops, a ring of raw TCP, and gRPC, in turns");
    latency::measure(&peers, if quick { 2 } else { 40 }, &mut summary).await?;
    eprintln!("processor time: 64 in flight");
    cpu::measure(&peers, if quick { 1 } else { 7 }, &mut summary).await?;
    summary.print();
    summary.write("target/bench/summary.json")?;
    Ok(())
}
