//! A node whose service has effects that can be counted.

use std::{fs::OpenOptions, io::Write, path::PathBuf, sync::Arc, time::Duration};

use catena::{Node, Place, Policy, Service, ServiceError};
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::Failure;

/// What it is started with.
#[derive(Args)]
pub(crate) struct NodeArgs {
    /// Its number
    #[arg(long)]
    pub(crate) number: usize,
    /// Where it listens
    #[arg(long)]
    pub(crate) listen: String,
    /// The others
    #[arg(long)]
    pub(crate) join: Vec<String>,
    /// The file to which each effect adds a line
    #[arg(long)]
    pub(crate) effects: PathBuf,
}

/// One numbered effect.
#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
pub(crate) struct Effect {
    pub(crate) chain: usize,
    pub(crate) index: usize,
    /// How long it takes before it takes place.
    pub(crate) before_ms: u64,
    /// And until it is answered.
    pub(crate) after_ms: u64,
}

/// Signs of life and retransmissions ten times as quick as by default: a run is short, and so are its faults.
pub(crate) fn policy() -> Policy {
    Policy {
        heartbeat_interval_us: 300_000,
        heartbeat_timeout_us: 900_000,
        heartbeat_hop_us: 20_000,
        accept_timeout_us: 300_000,
        ..Policy::default()
    }
}

pub(crate) fn service_name(number: usize) -> String {
    format!("effects.{number}")
}

pub(crate) async fn serve(args: NodeArgs) -> Result<(), Failure> {
    let file = Arc::new(OpenOptions::new().create(true).append(true).open(&args.effects)?);
    let service = Service::new(service_name(args.number)).function("take", move |effect: Effect| {
        let file = Arc::clone(&file);
        async move {
            tokio::time::sleep(Duration::from_millis(effect.before_ms)).await;
            // One write of one line: a process that is killed leaves it whole or not at all.
            let line = format!("{} {}\n", effect.chain, effect.index);
            file.as_ref().write_all(line.as_bytes())?;
            tokio::time::sleep(Duration::from_millis(effect.after_ms)).await;
            Ok::<_, ServiceError>(effect.index)
        }
    });
    let mut builder = Node::builder(format!("n{}", args.number)).listen(&args.listen).policy(policy()).service(service);
    for other in args.join {
        builder = builder.join(Place::new(other));
    }
    let node = builder.start().await?;
    println!("{}", node.address().unwrap_or_default());
    // Until the end of the pipe: a node must not outlive who started it.
    tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink())).await??;
    Ok(())
}
