//! `make bench`: every figure of the README in one run, side by side with its peer, written to `target/bench/summary.json`.
#![allow(clippy::print_stdout, reason = "its output is its purpose")]

mod adaptive;
mod composition;
mod cpu;
mod grpc;
mod guests;
mod latency;
mod memory;
mod mesh;
mod peers;
mod ring;
mod server;
mod split;
mod stats;
mod summary;

use std::{process::ExitCode, sync::Arc};

use summary::Summary;

/// As in the `catena` command. The peers are measured with it too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Rounds of one job for a profiler.
const PROFILE_ROUNDS: usize = 10;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    // A quick run says whether the benchmark works, not how fast anything is.
    let quick = std::env::args().any(|argument| argument == "--quick");
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let done = match arguments.split_first() {
        Some((first, rest)) if first == "serve" => server::serve(rest).await,
        Some((first, rest)) if first == "profile" => profile(&rest.concat()).await,
        _ => measure(quick).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("the benchmark failed: {why}");
            ExitCode::FAILURE
        }
    }
}

/// One job over and over, for a profiler to look at: `catena-bench profile chain_js`.
async fn profile(job: &str) -> Result<(), Failure> {
    let job = match job {
        "chain_js" => peers::Job::ChainJs,
        "chain_wasm" => peers::Job::ChainWasm,
        "tonic4" => peers::Job::Tonic4,
        "call" => peers::Job::Call,
        other => return Err(format!("{other} is none of chain_js, chain_wasm, tonic4, call").into()),
    };
    let peers = Arc::new(peers::Peers::start(&mesh::sandbox()?).await?);
    for _ in 0..PROFILE_ROUNDS {
        let per_second = cpu::per_cpu_second(&peers, job).await?;
        println!("{per_second:.0} per second of processor time");
    }
    Ok(())
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
    eprintln!("splits: 8 branches beside 8 calls in a row");
    split::measure(&sandbox, if quick { 3 } else { 40 }, &mut summary).await?;
    eprintln!("composition: copies to a replicated service, over shaped links");
    composition::measure(&sandbox, if quick { 1 } else { 7 }, &mut summary).await?;
    eprintln!("adaptive: chains that choose where they run, over shaped links");
    adaptive::measure(&sandbox, if quick { 1 } else { 7 }, &mut summary).await?;
    eprintln!("memory: 10,000 chains that wait, then an hour's worth of chains");
    memory::measure(&sandbox, quick, &mut summary).await?;
    summary.print();
    summary.write("target/bench/summary.json")?;
    Ok(())
}
