//! Many clerks in one process, each replaying the mix of Table 1a from a seed of its own.

use std::{
    io::BufRead as _,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use catena_dfs::{ClerkConfig, Way, workload::Workload};
use futures_util::future::try_join_all;
use tokio::{sync::oneshot, task::JoinSet};

use super::{Failure, player::Player};

/// What a process of clerks is told.
#[derive(clap::Args)]
pub(crate) struct Replaying {
    /// The server's address
    server: String,
    #[arg(long, value_enum)]
    way: Way,
    #[arg(long)]
    without_shared_memory: bool,
    /// How many clerks
    #[arg(long)]
    clerks: u64,
    /// The first one's; the next has the next
    #[arg(long)]
    seed: u64,
}

/// Replays until its parent closes its input; for each line of input it prints how many operations are done.
pub(crate) async fn replay(arguments: Replaying) -> Result<(), Failure> {
    let Replaying { server, way, without_shared_memory, clerks, seed } = arguments;
    let config = ClerkConfig { way, shared_memory: !without_shared_memory, ..ClerkConfig::new(server) };
    let first = Player::open(config.clone()).await?;
    let mut players = try_join_all((1..clerks).map(|_| first.another(config.clone()))).await?;
    players.push(first);
    let done = Arc::new(AtomicU64::new(0));
    let mut replaying = JoinSet::new();
    for (player, seed) in players.into_iter().zip(seed..) {
        replaying.spawn(play(player, Workload::new(seed), Arc::clone(&done)));
    }
    println!("replaying");
    let ended = told(done)?;
    tokio::select! {
        _ = ended => Ok(()),
        Some(over) = replaying.join_next() => over?,
    }
}

async fn play(player: Player, mix: Workload, done: Arc<AtomicU64>) -> Result<(), Failure> {
    for operation in mix {
        player.perform(operation).await?;
        done.fetch_add(1, Ordering::Relaxed);
        // A READ in shared memory never waits: yielding gives the other clerks a turn.
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// Answers the parent, on a separate thread that may still be blocked on the parent's next line when this process ends.
fn told(done: Arc<AtomicU64>) -> Result<oneshot::Receiver<()>, Failure> {
    let (ending, ended) = oneshot::channel();
    std::thread::Builder::new().name("parent".to_owned()).spawn(move || {
        for _line in std::io::stdin().lock().lines().map_while(Result::ok) {
            println!("{}", done.load(Ordering::Relaxed));
        }
        let _ = ending.send(());
    })?;
    Ok(ended)
}
