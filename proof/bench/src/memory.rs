//! What waiting chains take, and that nothing grows: resident memory of this process, which is client and node in one.

use std::time::Duration;

use catena::{Client, Node, Place, ReplySet, RunOptions, Sandbox, Service, to_value};
use futures_util::FutureExt;
use tokio::sync::watch;

use crate::{Failure, stats::Spread, summary::Summary};

const WAITING: usize = 10_000;
/// An hour's worth: ten chains a second.
const SOAK: usize = 36_000;
/// Until the caches are as full as they get.
const WARM_UP: usize = 20_000;
const IN_FLIGHT: usize = 64;
/// Far more than it takes.
const ARRIVAL_MAX: Duration = Duration::from_secs(60);

const WAITS: &str = r#"import { call } from "catena";
export default async (name) => { const kept = { name, list: [1, 2, 3] }; await call("gate/wait", null); return kept.name; };"#;

pub(crate) async fn measure(sandbox: &Sandbox, quick: bool, summary: &mut Summary) -> Result<(), Failure> {
    let (open, gate) = watch::channel(false);
    let service = Service::new("gate")
        .function("wait", move |(): ()| {
            let mut gate = gate.clone();
            async move {
                gate.wait_for(|open| *open).await?;
                Ok(())
            }
        })
        .function_raw("pass", async |_, value| Ok(value));
    let node = Node::builder("gate").listen("127.0.0.1:0").sandbox(sandbox.clone()).service(service).start().await?;
    let place = Place::new(node.address().unwrap_or_default());
    let client = Client::builder("waits").sandbox(sandbox.clone()).join(place).connect().await?;
    let waiting = if quick { WAITING / 10 } else { WAITING };
    let bytes = waiting_bytes(&client, &node, waiting).await?;
    open.send(true)?;
    summary.at_most(
        "waiting_chain_bytes",
        "memory of a waiting chain, at its node and its origin",
        Spread::of(vec![bytes]),
        20_480.0,
    );
    let parts = if quick { 20 } else { 1 };
    let growth = soak(&client, parts).await?;
    summary.at_most("soak_growth_pct", "growth over an hour's worth of chains, %", Spread::of(vec![growth]), 2.0);
    Ok(())
}

async fn waiting_bytes(client: &Client, node: &Node, count: usize) -> Result<f64, Failure> {
    let code = client.javascript("waits.js", WAITS).await?;
    let options = RunOptions { timeout: Duration::from_secs(300), ..RunOptions::default() };
    let input = to_value("a chain that waits")?;
    // Some run through first, so that what is made once is there.
    let mut sets: Vec<ReplySet> = Vec::with_capacity(count + 64);
    for _ in 0..64 {
        sets.push(client.run_with(&code, &input, &options)?);
    }
    until(node, 64, &mut sets).await?;
    let before = resident_bytes()?;
    for _ in 0..count {
        sets.push(client.run_with(&code, &input, &options)?);
        if sets.len().is_multiple_of(64) {
            tokio::task::yield_now().await;
        }
    }
    until(node, count + 64, &mut sets).await?;
    let after = resident_bytes()?;
    for set in sets {
        set.cancel();
    }
    Ok((after - before) / count as f64)
}

/// Until so many chains wait at the node. None of them ends before, unless something is wrong.
async fn until(node: &Node, chains: usize, sets: &mut [ReplySet]) -> Result<(), Failure> {
    let arrived = async {
        while node.load().0 < chains {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    if tokio::time::timeout(ARRIVAL_MAX, arrived).await.is_ok() {
        return Ok(());
    }
    for (index, set) in sets.iter_mut().enumerate() {
        if let Some(ended) = set.next().now_or_never() {
            return Err(format!("chain {index} was to wait, and ended: {ended:?}").into());
        }
    }
    Err(format!("{} of {chains} chains have come to where they wait", node.load().0).into())
}

async fn soak(client: &Client, parts: usize) -> Result<f64, Failure> {
    run(client, WARM_UP / parts).await?;
    let before = resident_bytes()?;
    run(client, SOAK / parts).await?;
    let after = resident_bytes()?;
    Ok((after / before - 1.0) * 100.0)
}

async fn run(client: &Client, count: usize) -> Result<(), Failure> {
    let source = WAITS.replace("gate/wait", "gate/pass");
    let code = client.javascript("passes.js", &source).await?;
    let left = std::sync::atomic::AtomicUsize::new(count);
    let lanes = (0..IN_FLIGHT).map(|_| async {
        use std::sync::atomic::Ordering::Relaxed;
        while left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() {
            let _: String = client.run(&code, "an hour's worth").await?.value().await?;
        }
        Ok::<_, Failure>(())
    });
    futures_util::future::try_join_all(lanes).await?;
    Ok(())
}

/// As the kernel counts it.
fn resident_bytes() -> Result<f64, Failure> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages: f64 = statm.split_whitespace().nth(1).ok_or("no resident pages")?.parse()?;
    Ok(pages * rustix::param::page_size() as f64)
}
