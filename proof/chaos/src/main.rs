//! `make chaos`: chains with numbered effects over real nodes, while those are killed, stopped and restarted. What the
//! chains' origin is told is then held against what took place.
#![allow(clippy::print_stdout, reason = "its output is its purpose")]

mod audit;
mod chains;
mod faults;
mod flaw;
mod fleet;
mod kinds;
mod ledger;
mod node;
mod plan;
mod progress;
mod quiet;
mod rng;
mod tally;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::{Parser, Subcommand, ValueEnum};

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
    /// Only chains of these kinds, parted by commas [default: all of them]
    #[arg(long, value_delimiter = ',')]
    kind: Vec<kinds::Kind>,
    /// A mistake that all nodes make: the run must find it
    #[arg(long, hide = true)]
    flaw: Option<flaw::Flaw>,
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
    let kinds = if args.kind.is_empty() { kinds::Kind::value_variants().to_vec() } else { args.kind };
    let Args { seed, chains, nodes, in_flight, .. } = args;
    let run = chains::Run { seed, chains, nodes, in_flight, kinds };
    // Not among the figures: it is seen even where a test keeps those to itself.
    eprintln!("chaos: seed {seed}: {chains} chains over {nodes} nodes; run again with --seed {seed}");
    let mut fleet = fleet::Fleet::start(nodes, args.flaw).await?;
    let client = fleet.client().await?;
    let (ended, faults) = under_faults(&mut fleet, &client, &run).await?;
    let left = quiet::wait(&client, nodes).await;
    println!("{:>8}  ms until nothing was left running", left.after.as_millis());
    client.close(Duration::from_secs(1)).await;
    let effects = fleet.effects()?;
    fleet.end().await;
    let mut verdict = tally::Verdict::new(seed, faults, left.running);
    for one in &ended {
        verdict.add(one.kind, &audit::hold(one, &effects));
    }
    verdict.print();
    verdict.write(&args.result)?;
    if verdict.is_good() { Ok(()) } else { Err("the last five must be 0".into()) }
}

/// Runs all chains; says how they ended, and how many faults there were meanwhile.
async fn under_faults(
    fleet: &mut fleet::Fleet,
    client: &catena::Client,
    run: &chains::Run,
) -> Result<(Vec<chains::Ended>, usize), Failure> {
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let mut faults = faults::Faults::new(run.seed);
    let injecting = async {
        let injected = faults.inject(fleet, stopped).await;
        // All are up again, so that what is on its way can end.
        fleet.restart_all().await.map(|()| injected)
    };
    let chains = async {
        let ended = chains::run(client, run).await;
        let _ = stop.send(());
        ended
    };
    let (injected, ended) = tokio::join!(injecting, chains);
    Ok((ended?, injected?))
}
