//! `make chaos`: chains with numbered effects, replies, blobs, segments and messages over real nodes, under injected faults. What
//! their origin was told is then checked against what took place.
#![allow(clippy::print_stdout, reason = "its output is its purpose")]

mod audit;
mod blobs;
mod board;
mod bug;
mod bytes;
mod chains;
mod course;
mod data;
mod faults;
mod flaw;
mod fleet;
mod front;
mod kinds;
mod ledger;
mod locks;
mod messages;
mod moving;
mod node;
mod outages;
mod parts;
mod patience;
mod plan;
mod progress;
mod quiet;
mod replies;
mod rng;
mod segments;
mod stalls;
mod tally;
mod trials;

use std::{
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::{Parser, Subcommand, ValueEnum};

use crate::{fleet::Mistakes, outages::Outages, tally::Verdict};

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Parser)]
#[command(
    version,
    about = "Runs chains over real nodes that are killed, stopped, cut off and doubled; counts what went wrong",
    args_override_self = true
)]
struct Args {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    run: Run,
    /// How many parts to run, each with the next seed; parts whose results exist already are not run again
    #[arg(long, default_value_t = 1)]
    parts: usize,
    /// Where the figures are written
    #[arg(long, default_value = "target/chaos/result.json")]
    result: PathBuf,
}

#[derive(clap::Args, Clone)]
struct Run {
    /// What chains, faults and their times are drawn from
    #[arg(long, default_value_t = seed_of_today())]
    seed: u64,
    /// Chains, and trials of other kinds, to run in each part
    #[arg(long, default_value_t = 2_000)]
    chains: usize,
    /// Nodes to run them over
    #[arg(long, default_value_t = 6)]
    nodes: usize,
    /// How many trials are under way at one time
    #[arg(long, default_value_t = 16)]
    in_flight: usize,
    /// A fault of a node begins this often, in milliseconds, if it leaves half of the nodes without one; a fault of a node's links half as often
    #[arg(long, default_value_t = 250)]
    fault_every_ms: u64,
    /// Only trials of these kinds, separated by commas [default: all of them]
    #[arg(long, value_delimiter = ',')]
    kind: Vec<kinds::Kind>,
    /// Only faults of these kinds, separated by commas [default: all of them]
    #[arg(long, value_delimiter = ',')]
    fault: Vec<faults::Fault>,
    /// A mistake that all services make: the run must find it
    #[arg(long, hide = true)]
    flaw: Option<flaw::Flaw>,
    /// A mistake in the protocol that all nodes make: the run must find it
    #[arg(long, hide = true)]
    bug: Option<bug::Bug>,
}

#[derive(Subcommand)]
enum What {
    /// One node, for this program itself to start.
    #[command(hide = true)]
    Node(node::NodeArgs),
    /// The mistakes that this build can make on purpose.
    #[command(hide = true)]
    Bugs,
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
        Some(What::Bugs) => {
            bug::Bug::all().for_each(|bug| println!("{bug}"));
            Ok(())
        }
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
    let verdict = parts::run(args.run, args.parts, &args.result).await?;
    verdict.print();
    println!("written to {}", args.result.display());
    if verdict.is_good() {
        Ok(())
    } else {
        Err("what is doubled, lost, misnamed, hung, ran on, wrong or left running must be 0".into())
    }
}

/// How trials ended, what happened to the nodes meanwhile, and how often services moved.
struct Gone {
    ended: Vec<Box<dyn trials::Trial>>,
    injected: faults::Injected,
    outages: Outages,
    moves: usize,
}

impl Run {
    /// What its result depends on, as a name of a file.
    fn name(&self) -> String {
        let Self { seed, chains, nodes, in_flight, fault_every_ms, .. } = self;
        let kinds = self.kind.iter().map(|kind| format!("-{}", kind.name()));
        let faults = self.fault.iter().map(|fault| format!("-{}", fault.name()));
        let mistakes = self.flaw.map(|flaw| format!("-{flaw:?}")).into_iter();
        let mistakes = mistakes.chain(self.bug.map(|bug| format!("-{bug}")));
        let chosen: String = kinds.chain(faults).chain(mistakes).collect();
        format!("{seed}-{chains}-{nodes}-{in_flight}-{fault_every_ms}{chosen}")
    }

    async fn run(&self) -> Result<Verdict, Failure> {
        let (seed, began) = (self.seed, Instant::now());
        // Not among the figures: it is seen even where a test keeps those to itself.
        eprintln!("chaos: seed {seed}: {} chains over {} nodes; run again with --seed {seed}", self.chains, self.nodes);
        let fleet = fleet::Fleet::start(self.nodes, seed, Mistakes { flaw: self.flaw, bug: self.bug }).await?;
        let client = fleet.client().await?;
        let Gone { ended, injected, outages, moves } = self.under_faults(&fleet, &client).await?;
        let left = quiet::wait(&client, self.nodes).await;
        println!("{left}");
        client.close(Duration::from_secs(1)).await;
        let effects = fleet.effects()?;
        fleet.end().await;
        let faults = injected.values().sum();
        let mut verdict = Verdict {
            seed,
            parts: 1,
            faults,
            faults_by_kind: injected,
            moves,
            left_running: left.running(),
            seconds: began.elapsed().as_secs(),
            ..Verdict::default()
        };
        for one in &ended {
            let (tally, finding) = one.hold(&effects, &outages);
            verdict.add(one.kind(), &tally, finding.map(|finding| format!("seed {seed}, {finding}")));
        }
        Ok(verdict)
    }

    /// Runs all trials.
    async fn under_faults(&self, fleet: &fleet::Fleet, client: &catena::Client) -> Result<Gone, Failure> {
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let all = faults::Fault::value_variants();
        let faults = faults::Faults {
            fleet,
            rng: rng::Rng::new(self.seed),
            kinds: if self.fault.is_empty() { all } else { &self.fault },
            every: Duration::from_millis(self.fault_every_ms.max(1)),
        };
        let moves = self.kinds().contains(&kinds::Kind::Moving);
        let mover = if moves { Some(moving::Mover::place(client, self.seed, self.nodes).await) } else { None };
        let to_stop = stopped.clone();
        let moving = async { if let Some(mover) = mover { mover.move_on(&to_stop).await } else { 0 } };
        let trials = async {
            let ended = trials::run(client, self).await;
            let _ = stop.send(true);
            ended
        };
        let (injected, ended, moves) = tokio::join!(faults.inject(stopped), trials, moving);
        let (injected, outages) = injected?;
        Ok(Gone { ended: ended?, injected, outages, moves })
    }
}
