//! One thing over and over, for a profiler.

use std::time::Duration;

use super::{
    Failure, clients,
    copies::{self, To},
};

/// What is done over and over.
#[derive(clap::Args)]
pub(crate) struct Profiling {
    #[arg(value_enum)]
    what: Job,
    /// Clerks that replay the mix
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=clients::CLERKS_MAX))]
    clerks: u64,
    /// For how long; until it is interrupted, if this is not given
    #[arg(long)]
    seconds: Option<u64>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Job {
    /// nfs-cp copies a file through the clerk
    CopyRead,
    /// nfs-cp copies a file to the server through the clerk
    CopyWrite,
    /// Clerks replay the mix of Table 1a by READs over TCP
    MixTcp,
}

/// Runs the job, and prints which processes take part in it.
pub(crate) async fn profile(arguments: Profiling) -> Result<(), Failure> {
    let Profiling { what, clerks, seconds } = arguments;
    let working = async {
        match what {
            Job::CopyRead => copies::over_and_over(To::Here).await,
            Job::CopyWrite => copies::over_and_over(To::Server).await,
            Job::MixTcp => clients::over_and_over(clerks).await,
        }
    };
    let time = Duration::from_secs(seconds.unwrap_or(u64::MAX));
    tokio::select! {
        biased;
        interrupted = tokio::signal::ctrl_c() => Ok(interrupted?),
        over = tokio::time::timeout(time, working) => over.unwrap_or(Ok(())),
    }
}
