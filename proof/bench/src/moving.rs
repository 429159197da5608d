//! A service that moves on from node to node under load: the longest that one of its callers waits.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::{Duration, Instant},
};

use catena::{Client, Node, Place, Service};

use crate::{Failure, cores::Cores, mesh, stats::Spread, summary::Summary};

const SERVICE: &str = "moving";
const NAMES: [&str; 3] = ["here", "there", "elsewhere"];
/// How often it moves.
const EVERY: Duration = Duration::from_millis(100);
/// How long calls that have begun may take to end.
const DRAIN_MAX: Duration = Duration::from_secs(5);
const CALLERS: usize = 8;

fn service() -> Service {
    Service::new(SERVICE).function("call", async |number: u64| Ok(number))
}

/// Three nodes, between which a service moves until they are dropped; says where the first listens.
pub(crate) async fn serve() -> Result<(Vec<Node>, String), Failure> {
    let sandbox = mesh::sandbox()?;
    let mut nodes: Vec<Node> = Vec::new();
    for name in NAMES {
        let node = Node::builder(name).sandbox(sandbox.clone()).without_shared_memory().listen("127.0.0.1:0");
        let first = nodes.first().and_then(Node::address).unwrap_or_default().to_owned();
        let node = if nodes.is_empty() { node.service(service()) } else { node.join(Place::new(first)) };
        nodes.push(node.start().await?);
    }
    let address = nodes[0].address().unwrap_or_default().to_owned();
    tokio::spawn(go_round(nodes.clone()));
    Ok((nodes, address))
}

async fn go_round(nodes: Vec<Node>) {
    let mut ticks = tokio::time::interval(EVERY);
    for turn in 0.. {
        ticks.tick().await;
        let (from, to) = (&nodes[turn % NAMES.len()], &nodes[(turn + 1) % NAMES.len()]);
        if let Err(why) = from.migrate_service(SERVICE, DRAIN_MAX, async { to.offer(service()) }).await {
            eprintln!("the service did not move: {why}");
            return;
        }
    }
}

/// The longest call in the time of one move, for so many of them.
pub(crate) async fn measure(moves: usize, summary: &mut Summary) -> Result<(), Failure> {
    /// Moves of which one value is the mean.
    const TOGETHER: usize = 40;
    let server = crate::server::Server::start(&["moving"]).await?;
    let place = Place::new(server.address.as_str());
    let client =
        Client::builder("callers").sandbox(mesh::sandbox()?).without_shared_memory().join(place).connect().await?;
    let _held = Cores::hold([], server.process())?;
    let mut worst = Vec::new();
    for round in 0..=moves {
        let over = AtomicBool::new(false);
        let callers = futures_util::future::try_join_all((0..CALLERS).map(|_| call_until(&client, &over)));
        let timer = async {
            tokio::time::sleep(EVERY).await;
            over.store(true, Relaxed);
        };
        let (longest, ()) = tokio::join!(callers, timer);
        if round > 0 {
            worst.push(longest?.into_iter().fold(0.0, f64::max));
        }
    }
    let worst_ms = worst.iter().copied().fold(0.0, f64::max);
    eprintln!("  the longest call of {moves} moves: {worst_ms:.1} ms");
    // One move meets a call in its midst or none, so single ones are of two kinds.
    let means = worst.chunks(TOGETHER).map(|some| some.iter().sum::<f64>() / some.len() as f64);
    summary.put("migration_pause_ms", Spread::of(means.collect()));
    Ok(())
}

/// The longest of its calls, in milliseconds.
async fn call_until(client: &Client, over: &AtomicBool) -> Result<f64, Failure> {
    let mut longest: f64 = 0.0;
    while !over.load(Relaxed) {
        let began = Instant::now();
        client.call::<_, u64>(SERVICE, "call", &1).await?;
        longest = longest.max(began.elapsed().as_secs_f64() * 1e3);
    }
    Ok(longest)
}
