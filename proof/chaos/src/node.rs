//! A node whose services have effects that can be counted.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};

use catena::{Context, Node, Place, Policy, Service, ServiceError, StepKey, SubChain};
use clap::Args;

use crate::{
    Failure, blobs, board,
    bug::Bug,
    flaw::{self, Flaw},
    ledger::Ledger,
    messages, moving,
    plan::{Effect, Input, Step, TAKE},
    replies,
};

/// The service that every node is an instance of.
pub(crate) const ANYWHERE: &str = "effects";

/// What it is started with.
#[derive(Args)]
pub(crate) struct NodeArgs {
    /// Its number
    #[arg(long)]
    pub(crate) number: usize,
    /// Where it listens
    #[arg(long)]
    pub(crate) listen: String,
    /// Where others reach it
    #[arg(long)]
    pub(crate) advertise: String,
    /// The others
    #[arg(long)]
    pub(crate) join: Vec<String>,
    /// Where it keeps its files, and finds what all have in common
    #[arg(long)]
    pub(crate) folder: PathBuf,
    /// It is the second of its name
    #[arg(long)]
    pub(crate) twin: bool,
    /// The mistake its services make
    #[arg(long)]
    pub(crate) flaw: Option<Flaw>,
    /// The mistake it makes itself
    #[arg(long)]
    pub(crate) bug: Option<Bug>,
}

/// Intervals of the protocol at a tenth of their defaults, or little more: a run is short, and so are its faults.
pub(crate) fn policy(bug: Option<Bug>) -> Policy {
    let policy = Policy {
        heartbeat_interval_us: 300_000,
        heartbeat_timeout_us: 900_000,
        heartbeat_hop_us: 20_000,
        accept_timeout_us: 300_000,
        step_record_ttl_us: 6_000_000,
        orphan_timeout_us: 6_000_000,
        ..Policy::default()
    };
    bug.map_or(policy.clone(), |bug| bug.put_into(policy))
}

pub(crate) fn service_name(number: usize) -> String {
    format!("{ANYWHERE}.{number}")
}

/// The number of the node that alone serves this.
pub(crate) fn number_of(service: &str) -> Option<usize> {
    service.strip_prefix(ANYWHERE)?.strip_prefix('.')?.parse().ok()
}

pub(crate) async fn serve(args: NodeArgs) -> Result<(), Failure> {
    let itself = Arc::new(OnceLock::new());
    let ledger = Arc::new(Ledger::open(&args.folder.join(ledger_name(args.number, args.twin)))?);
    let (flaw, of_name) = (args.flaw, Arc::clone(&ledger));
    let service = move |name: String| service(name, &of_name, flaw);
    let own = with_load(service(service_name(args.number)), &itself);
    let mut builder = Node::builder(format!("n{}", args.number))
        .listen(&args.listen)
        .advertise(args.advertise)
        .policy(policy(args.bug))
        .cache_dir(cache_dir(&args.folder))
        .step_store(args.folder.join(step_store_name(args.number, args.twin)))
        .service(moving::functions(own, &itself, service.clone()))
        .service(service(ANYWHERE.to_owned()));
    for other in args.join {
        builder = builder.join(Place::new(other));
    }
    if args.number % 2 == 1 {
        builder = builder.without_shared_memory();
    }
    let node = builder.start().await?;
    let _ = itself.set(node.clone());
    let _board = board::export(&node, flaw)?;
    messages::serve(&node, args.number, flaw)?;
    println!("{}", node.address().unwrap_or_default());
    // Runs until the pipe closes: a node must not outlive the process that started it.
    tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink())).await??;
    Ok(())
}

pub(crate) fn ledger_name(number: usize, twin: bool) -> String {
    format!("{number}{}.effects", if twin { ".twin" } else { "" })
}

fn step_store_name(number: usize, twin: bool) -> String {
    format!("{number}{}.steps", if twin { ".twin" } else { "" })
}

/// Shared by all nodes and all their lives, so that modules are compiled only once: compile time is not what is tested.
pub(crate) fn cache_dir(folder: &Path) -> PathBuf {
    folder.join("cache")
}

/// The same effect by three functions that are declared differently, and a function that answers with a chain.
fn service(name: String, ledger: &Arc<Ledger>, flaw: Option<Flaw>) -> Service {
    let ledger = Arc::clone(ledger);
    let service = replies::functions(blobs::functions(Service::new(name), flaw), &ledger, flaw);
    let take = move |context: Context, effect: Effect| take(Arc::clone(&ledger), context.step, effect, flaw);
    service
        .function_in("take", take.clone())
        .function_in("repeat", take.clone())
        .repeatable("repeat")
        .function_in("keep", take)
        .durable("keep")
        .chain("sub", async |context: Context, steps: Vec<Step>| {
            let code = context.client().javascript("take.js", TAKE).await?;
            SubChain::new(&code, &Input { steps, emits: false })
        })
}

async fn take(
    ledger: Arc<Ledger>,
    key: Option<StepKey>,
    effect: Effect,
    flaw: Option<Flaw>,
) -> Result<usize, ServiceError> {
    tokio::time::sleep(Duration::from_millis(effect.before_ms)).await;
    flaw::note(flaw, &ledger, &effect, key.as_ref())?;
    tokio::time::sleep(Duration::from_millis(effect.after_ms)).await;
    Ok(effect.index)
}

/// Says what is under way at the node: chains, calls that wait, and service functions, this one not counted.
fn with_load(service: Service, node: &Arc<OnceLock<Node>>) -> Service {
    let node = Arc::clone(node);
    service.function("load", move |()| {
        let (chains, waiting, running) = node.get().map_or((0, 0, 1), Node::load);
        async move { Ok((chains, waiting, running.saturating_sub(1))) }
    })
}
