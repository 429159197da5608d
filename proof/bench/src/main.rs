//! `make bench`: every figure of the README in one run, side by side with its peer, written to `target/bench/summary.json`.
#![allow(clippy::print_stdout, reason = "its output is its purpose")]

mod adaptive;
mod composition;
mod cpu;
mod custody;
mod grpc;
mod guests;
mod latency;
mod lone;
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

/// Rounds of one job for a profiler.
const PROFILE_ROUNDS: usize = 10;

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    // Servers have one thread each: there are more of them than cores here, and what is to be compared is what a message
    // costs, not how each fares with idle threads that look for work.
    let server = std::env::args().nth(1).is_some_and(|first| first == "serve");
    let mut runtime = match server {
        true => tokio::runtime::Builder::new_current_thread(),
        false => tokio::runtime::Builder::new_multi_thread(),
    };
    match runtime.enable_all().build() {
        Ok(runtime) => runtime.block_on(begin()),
        Err(why) => {
            eprintln!("no runtime: {why}");
            ExitCode::FAILURE
        }
    }
}

async fn begin() -> ExitCode {
    // A quick run says whether the benchmark works, not how fast anything is.
    let quick = std::env::args().any(|argument| argument == "--quick");
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let done = match arguments.split_first() {
        Some((first, rest)) if first == "serve" => server::serve(rest).await,
        Some((first, rest)) if first == "profile" => {
            profile(rest.first().map_or("", String::as_str), rest.get(1)).await
        }
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

/// One job over and over, for a profiler to look at: `catena-bench profile chain_js [IN_FLIGHT]`.
async fn profile(job: &str, in_flight: Option<&String>) -> Result<(), Failure> {
    let job = match job {
        "chain_js" => peers::Job::ChainJs,
        "chain_wasm" => peers::Job::ChainWasm,
        "tonic4" => peers::Job::Tonic4,
        "call" => peers::Job::Call,
        other => return Err(format!("{other} is none of chain_js, chain_wasm, tonic4, call").into()),
    };
    let in_flight = in_flight.map_or(Ok(cpu::IN_FLIGHT), |count| count.parse())?;
    let peers = Arc::new(peers::Peers::start(&mesh::sandbox()?).await?);
    for _ in 0..PROFILE_ROUNDS {
        let began = std::time::Instant::now();
        let per_second = cpu::per_cpu_second(&peers, job, in_flight).await?;
        println!("{per_second:.0} per second of processor time, {:.2} s in all", began.elapsed().as_secs_f64());
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
    let hop_us = latency::measure(&peers, if quick { 2 } else { 40 }, &mut summary).await?;
    eprintln!("custody: what it costs that no step is done twice");
    custody::measure(if quick { 3 } else { 20 }, hop_us, &mut summary).await?;
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
    summary.write(quick, "target/bench/summary.json")?;
    Ok(())
}
