//! `make chaos`: chains with numbered effects over real nodes, while those are killed, stopped and restarted. What the
//! chains' origin is told is then held against what took place.
#![allow(clippy::print_stdout, reason = "its output is its purpose")]

mod audit;
mod chains;
mod faults;
mod fleet;
mod node;
mod rng;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::{Parser, Subcommand};

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Parser)]
#[command(
    version,
    about = "Runs chains over real nodes that are killed, stopped and restarted; counts what went wrong"
)]
struct Args {
    #[command(subcommand)]
    what: Option<What>,
    /// Where the same run begins: delays of the faults, their kinds, the chains' ways
    #[arg(long, default_value_t = seed_of_today())]
    seed: u64,
    /// Chains to run
    #[arg(long, default_value_t = 2_000)]
    chains: usize,
    /// Nodes to run them over
    #[arg(long, default_value_t = 4)]
    nodes: usize,
    /// Chains under way at one time
    #[arg(long, default_value_t = 16)]
    in_flight: usize,
    /// Where the figures are written
    #[arg(long, default_value = "target/chaos/result.json")]
    result: PathBuf,
}

#[derive(Subcommand)]
enum What {
    /// One node, for this program itself to start.
    #[command(hide = true)]
    Node(node::NodeArgs),
}

fn seed_of_today() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    since.as_secs()
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let ran = match args.what {
        Some(What::Node(args)) => node::serve(args).await,
        None => run(args).await,
    };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("chaos: {why}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> Result<(), Failure> {
    println!(
        "seed {}: {} chains over {} nodes; run again with --seed {}",
        args.seed, args.chains, args.nodes, args.seed
    );
    let mut fleet = fleet::Fleet::start(args.nodes).await?;
    let client = fleet.client().await?;
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let mut faults = faults::Faults::new(args.seed);
    let injecting = async {
        let injected = faults.inject(&mut fleet, stopped).await;
        // All are up again, so that what is on its way can end.
        fleet.restart_all().await.map(|()| injected)
    };
    let chains = async {
        let ended = chains::run(&client, args.seed, args.chains, args.nodes, args.in_flight).await;
        let _ = stop.send(());
        ended
    };
    let (injected, ended) = tokio::join!(injecting, chains);
    let (injected, ended) = (injected?, ended?);
    client.close(Duration::from_secs(1)).await;
    let verdict = audit::hold(&ended, &fleet.effects()?, injected);
    fleet.end().await;
    verdict.print();
    verdict.write(&args.result)?;
    if verdict.is_good() { Ok(()) } else { Err("the last three must be 0".into()) }
}
