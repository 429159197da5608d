//! One fetch over and over, for a profiler.

use std::time::{Duration, Instant};

use super::{Cores, Fetching, Way, cache, content, server::Child};
use crate::Failure;

/// What is fetched over and over.
#[derive(clap::Args)]
pub(crate) struct Profiling {
    /// Bytes of the file
    #[arg(long, default_value_t = 1_024)]
    bytes: u64,
    /// How it is fetched
    #[arg(long, value_enum, default_value_t = Way::InPlace)]
    way: Way,
    /// With the server's cache off
    #[arg(long)]
    uncached: bool,
    /// With the server on its client's core; else each has one of its own
    #[arg(long)]
    one_core: bool,
    /// A server other than hyper, as for the figures
    #[arg(long)]
    server: Option<String>,
    /// For how long; until it is interrupted, if this is not given
    #[arg(long)]
    seconds: Option<u64>,
}

/// Does it, and says which processes have a part in it.
pub(crate) async fn profile(arguments: Profiling, cores: Cores) -> Result<(), Failure> {
    let Profiling { bytes, way, uncached, one_core, server, seconds } = arguments;
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join(format!("{bytes}.bin")), content(bytes))?;
    let child = Child::start(folder.path(), cache(!uncached), server.as_deref(), &cores)?;
    cores.share(child.id(), one_core)?;
    let mut fetching = Fetching::open(&child, bytes).await?;
    println!("the server is process {}, the client is {}: perf record -g -p PROCESS", child.id(), std::process::id());
    let time = Duration::from_secs(seconds.unwrap_or(u64::MAX));
    tokio::select! {
        biased;
        interrupted = tokio::signal::ctrl_c() => Ok(interrupted?),
        over = tokio::time::timeout(time, over_and_over(&mut fetching, way)) => over.unwrap_or(Ok(())),
    }
}

/// Says now and then how long a fetch takes.
async fn over_and_over(fetching: &mut Fetching, way: Way) -> Result<(), Failure> {
    const EVERY: Duration = Duration::from_secs(1);
    loop {
        let (began, mut fetches) = (Instant::now(), 0_u32);
        while began.elapsed() < EVERY {
            fetching.fetch(way).await?;
            fetches += 1;
        }
        println!("{:.1} µs a fetch", began.elapsed().as_secs_f64() * 1e6 / f64::from(fetches));
    }
}
