//! `make bench`: every figure in one run, side by side with its peer, written to `target/bench/summary.json`.
#![allow(clippy::print_stdout, reason = "its output is its purpose")]

mod adaptive;
mod alone;
mod blob;
mod carriers;
mod chains;
mod compare;
mod composition;
mod cores;
mod cpu;
mod crossing;
mod custody;
mod grpc;
mod guests;
mod keys;
mod latency;
mod lone;
mod memory;
mod mesh;
mod micro;
mod moving;
mod page;
mod peers;
mod replies;
mod ring;
mod segments;
mod server;
mod soak;
mod split;
mod stats;
mod summary;

use std::{path::Path, process::ExitCode, sync::Arc};

use summary::Summary;

/// The figures of the last whole run.
const SUMMARY: &str = "target/bench/summary.json";
/// Where they are explained.
const PAGE: &str = "docs/src/figures.md";
/// What a smoke run writes: too few measurements to be figures.
const SMOKE: &str = "target/bench/smoke.json";
/// Rounds of one job for a profiler.
const PROFILE_ROUNDS: usize = 10;

const USAGE: &str = "catena-bench               every figure, to target/bench/summary.json
catena-bench to FILE       the same, to another file
catena-bench smoke         a little of everything, to see that it works: no figures
catena-bench only guests|chains|segments|carriers|blob|crossing|replies|migration|adaptive   one part, whole, to look at; written nowhere
catena-bench micro DIR [--smoke]  the Quatrain paper's micro benchmark
catena-bench compare FILES which figures moved between runs by more than their spread
catena-bench page [FILES]  fills the table of docs/src/figures.md from a summary, or from several runs
catena-bench profile chain_js|chain_wasm|chain_near|tonic4|call|call_near [IN_FLIGHT [ROUNDS]]
catena-bench profile read|raw|read_shared|write_shared|long|long_near|tonic_long|stream|raw_stream";

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    // Servers have one thread each: there are more of them than cores here, and what is to be compared is what a message
    // costs, not how each fares with idle threads that look for work. One that is to find its limit has all.
    let mut arguments = std::env::args().skip(1);
    let server = arguments.next().is_some_and(|first| first == "serve");
    let stressed = arguments.next().is_some_and(|kind| kind == "stressed");
    let mut runtime = match server && !stressed {
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
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let (first, rest) = arguments.split_first().map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
    let file = rest.first().map_or(SUMMARY, String::as_str);
    let done = match first {
        "" => measure(&WHOLE, SUMMARY).await,
        "to" => measure(&WHOLE, file).await,
        "smoke" => measure(&FEW, SMOKE).await,
        "serve" => server::serve(rest).await,
        "alone" => alone::run(rest).await,
        "only" => only(file).await,
        "micro" => micro::run(rest).await,
        "profile" => profile(rest).await,
        "compare" => compare::compare(rest),
        "page" if rest.is_empty() => page::fill(Path::new(PAGE), &[SUMMARY.to_owned()]),
        "page" => page::fill(Path::new(PAGE), rest),
        _ => Err(USAGE.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("the benchmark failed: {why}");
            ExitCode::FAILURE
        }
    }
}

/// One job over and over, for a profiler to look at or to compare builds.
async fn profile(arguments: &[String]) -> Result<(), Failure> {
    let job = match arguments.first().map_or("", String::as_str) {
        of_segments if segments::PROFILED.contains(&of_segments) => {
            return segments::profile(of_segments, PROFILE_ROUNDS).await;
        }
        "chain_js" => peers::Job::ChainJs,
        "chain_wasm" => peers::Job::ChainWasm,
        "tonic4" => peers::Job::Tonic4,
        "call" => peers::Job::Call,
        "call_near" => peers::Job::CallNear,
        "chain_near" => peers::Job::ChainNear,
        _ => return Err(USAGE.into()),
    };
    let number = |at: usize, otherwise| arguments.get(at).map_or(Ok(otherwise), |number| number.parse());
    let (in_flight, rounds) = (number(1, cpu::IN_FLIGHT)?, number(2, PROFILE_ROUNDS)?);
    let peers = Arc::new(peers::Peers::start(&mesh::sandbox()?).await?);
    let [near, far] = peers.processes();
    let _held = cores::Cores::hold(near, far)?;
    for _ in 0..rounds {
        let began = std::time::Instant::now();
        let per_second = cpu::per_cpu_second(&peers, job, in_flight).await?;
        println!("{per_second:.0} per second of processor time, {:.2} s in all", began.elapsed().as_secs_f64());
    }
    Ok(())
}

/// One part of the figures, for whoever works on it.
async fn only(part: &str) -> Result<(), Failure> {
    let mut summary = Summary::default();
    match part {
        "guests" => alone::measure_guests(WHOLE.guests, &mut summary).await?,
        "chains" => {
            let mut all = chains::Chains::default();
            for _ in 0..chains::VISITS {
                all.visit(&mesh::sandbox()?, WHOLE.chains).await?;
            }
            all.report(&mut summary);
        }
        "segments" => segments::measure(WHOLE.segments, &mut summary).await?,
        "carriers" => carriers::measure(WHOLE.blocks, &mut summary).await?,
        "blob" => blob::measure(&mesh::sandbox()?, WHOLE.shaped_rounds, &mut summary).await?,
        "crossing" => crossing::measure(&mesh::sandbox()?, WHOLE.shaped_rounds, &mut summary).await?,
        "replies" => replies::measure(WHOLE.replies, &mut summary).await?,
        "migration" => moving::measure(WHOLE.moves, &mut summary).await?,
        "adaptive" => {
            let (repetitions, runs) = WHOLE.adaptive;
            adaptive::measure(&mesh::sandbox()?, repetitions, runs, &mut summary).await?;
        }
        _ => return Err(USAGE.into()),
    }
    summary.print();
    Ok(())
}

/// How much is measured.
struct Scale {
    guests: alone::Scale,
    chains: chains::Scale,
    blocks: usize,
    shaped_rounds: usize,
    adaptive: (usize, usize),
    memory: alone::Scale,
    segments: segments::Scale,
    replies: replies::Scale,
    moves: usize,
    /// Whether it yields figures.
    whole: bool,
}

/// For figures.
const WHOLE: Scale = Scale {
    guests: alone::Scale { repetitions: 9, parts: 1 },
    chains: chains::Scale { blocks: 14, cpu_rounds: 3 },
    blocks: 40,
    shaped_rounds: 15,
    adaptive: (5, 150),
    memory: alone::Scale { repetitions: 3, parts: 1 },
    segments: segments::Scale { blocks: 40, processes: 5, rounds: 3, stream_bytes: 256 << 20 },
    replies: replies::Scale { rounds: 15, blocks: 20 },
    moves: 400,
    whole: true,
};
/// To see that the benchmark works.
const FEW: Scale = Scale {
    guests: alone::Scale { repetitions: 1, parts: 20 },
    chains: chains::Scale { blocks: 1, cpu_rounds: 1 },
    blocks: 2,
    shaped_rounds: 1,
    adaptive: (1, 10),
    memory: alone::Scale { repetitions: 1, parts: 20 },
    segments: segments::Scale { blocks: 2, processes: 1, rounds: 1, stream_bytes: 32 << 20 },
    replies: replies::Scale { rounds: 2, blocks: 1 },
    moves: 3,
    whole: false,
};

/// Measures all, and writes down what was measured even if something could not be.
async fn measure(scale: &Scale, path: &str) -> Result<(), Failure> {
    let mut summary = Summary::default();
    let measured = measure_all(scale, &mut summary).await;
    summary.close(Path::new(path), scale.whole && measured.is_ok())?;
    measured
}

async fn measure_all(scale: &Scale, summary: &mut Summary) -> Result<(), Failure> {
    let sandbox = mesh::sandbox()?;
    eprintln!("guests: one hop, and loading a function");
    alone::measure_guests(scale.guests, summary).await?;
    let mut chains = chains::Chains::default();
    chains.visit(&sandbox, scale.chains).await?;
    eprintln!("segments: accesses by the link and in shared memory, names, streams");
    segments::measure(scale.segments, summary).await?;
    eprintln!("carriers: calls and blobs on one host, by the link and in memory");
    carriers::measure(scale.blocks, summary).await?;
    eprintln!("replies: one of many, and the end behind the last");
    replies::measure(scale.replies, summary).await?;
    eprintln!("migration: calls of a service that moves every 100 ms");
    moving::measure(scale.moves, summary).await?;
    chains.visit(&sandbox, scale.chains).await?;
    eprintln!("splits: 8 branches beside 8 calls in a row");
    split::measure(&sandbox, scale.blocks, summary).await?;
    eprintln!("composition: copies to a replicated service, over shaped links");
    composition::measure(&sandbox, scale.shaped_rounds, summary).await?;
    eprintln!("blobs: a chain of four hops whose answer holds 10 MB by reference, over shaped links");
    blob::measure(&sandbox, scale.shaped_rounds, summary).await?;
    eprintln!("state: a chain that carries it, as a value and as a blob, beside two calls, over shaped links");
    crossing::measure(&sandbox, scale.shaped_rounds, summary).await?;
    eprintln!("adaptive: chains that choose where they run, over shaped links that change");
    let (repetitions, runs) = scale.adaptive;
    adaptive::measure(&sandbox, repetitions, runs, summary).await?;
    chains.visit(&sandbox, scale.chains).await?;
    chains.report(summary);
    eprintln!("memory: cached functions, chains that wait, an hour's worth of chains of all kinds");
    alone::measure_memory(scale.memory, summary).await?;
    summary.check()
}
