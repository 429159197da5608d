//! What cached functions and waiting chains take, and that nothing grows: resident memory of one process, which is client and nodes.

use std::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::{Duration, Instant},
};

use catena::{Client, FunctionKind, Node, ReplySet, RunOptions, Sandbox, SandboxConfig, Service, to_value};
use futures_util::FutureExt;

use crate::{Failure, guests::five_kilobytes, mesh, segments, soak::Soak};

const FUNCTIONS: usize = 1_000;
/// Twice as many chains wait in all, from one peer, whose share of the 20,000 that a node takes on is 8,750.
const WAITING: usize = 4_000;
/// An hour's worth: ten chains a second.
const SOAK: usize = 36_000;
/// Until the caches are as full as they get: [`IMAGES_MAX`] functions are kept.
const WARM_UP: usize = 100_000;
/// The warm-up also lasts at least this long: steps are remembered for a minute awake (`step_record_ttl_us`), and their number grows until then.
const REMEMBERED: Duration = Duration::from_secs(75);
const IMAGES_MAX: usize = 256;
const IN_FLIGHT: usize = 64;
/// Far more than it takes.
const ARRIVAL_MAX: Duration = Duration::from_secs(60);

const WAITS: &str = r#"import { call } from "catena";
export default async (name) => { const kept = { name, list: [1, 2, 3] }; await call("gate/wait", null); return kept.name; };"#;

/// One measurement, in a process where nothing else was measured, with one of `parts` of the work.
pub(crate) async fn value(key: &str, parts: usize) -> Result<f64, Failure> {
    match key {
        "cached_js_bytes" => cached_bytes(FUNCTIONS / parts).await,
        "waiting_chain_bytes" => waiting_bytes(WAITING / parts).await,
        "soak_growth_pct" => soak_growth_pct(parts).await,
        "segment_bytes" => segments::export_bytes(parts).await,
        "import_bytes" => segments::import_bytes(parts).await,
        _ => Err(format!("{key} is not measured alone").into()),
    }
}

/// All that the process keeps for a function that is loaded and not running.
async fn cached_bytes(count: usize) -> Result<f64, Failure> {
    // Instances kept ready are no part of a function.
    let config = SandboxConfig { warm_instances_max: 1, images_max: 2 * FUNCTIONS, ..SandboxConfig::default() };
    let sandbox = Sandbox::new(config)?;
    let load = async |number: usize| -> Result<(), Failure> {
        let function = sandbox.function(FunctionKind::JavaScript, "five.js", five_kilobytes(number).into_bytes());
        sandbox.load(function.hash(), &function.encode()).await?;
        Ok(())
    };
    // As many come first: what is made once is there, and what compiling the engine left free in the heap has been used up.
    for number in 0..count {
        load(number).await?;
    }
    let before = resident_bytes()?;
    for number in count..2 * count {
        load(number).await?;
    }
    Ok((resident_bytes()? - before) / count as f64)
}

async fn waiting_bytes(count: usize) -> Result<f64, Failure> {
    let sandbox = mesh::sandbox()?;
    let gate = Service::new("gate").function("wait", async |(): ()| {
        std::future::pending::<()>().await;
        Ok(())
    });
    let node = Node::builder("gate").listen("127.0.0.1:0").sandbox(sandbox.clone()).service(gate).start().await?;
    let client = Client::builder("waits").sandbox(sandbox.clone());
    let client = mesh::joined(client, &[node.address().unwrap_or_default()], None).connect().await?;
    let code = client.javascript("waits.js", WAITS).await?;
    let options = RunOptions { timeout: Duration::from_secs(300), ..RunOptions::default() };
    let input = to_value("a chain that waits")?;
    // Allocated in advance, so that the spare room of a growing list is not counted.
    let mut sets: Vec<ReplySet> = Vec::with_capacity(2 * count);
    let mut begin = async |until_there: usize| {
        // Few at a time: thousands that begin at once take more memory than when they wait.
        while sets.len() < until_there {
            for _ in sets.len()..until_there.min(sets.len() + IN_FLIGHT) {
                sets.push(client.run_with(&code, &input, &options)?);
            }
            let there = sets.len();
            until(&node, there, &mut sets).await?;
        }
        resident_bytes()
    };
    // As many come first, so that what is made once, or in proportion to what is under way at once, is there.
    let before = begin(count).await?;
    Ok((begin(2 * count).await? - before) / count as f64)
}

/// Until so many chains wait at the node. None of them ends before, unless something is wrong.
async fn until(node: &Node, chains: usize, sets: &mut [ReplySet]) -> Result<(), Failure> {
    let arrived = async {
        while node.load().0 < chains {
            tokio::time::sleep(Duration::from_millis(1)).await;
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

async fn soak_growth_pct(parts: usize) -> Result<f64, Failure> {
    let sandbox = Sandbox::new(SandboxConfig { images_max: IMAGES_MAX, ..SandboxConfig::default() })?;
    let soak = Soak::start(&sandbox).await?;
    let begun = AtomicUsize::new(0);
    let run = async |until: usize| {
        let lanes = (0..IN_FLIGHT).map(|_| async {
            while let Ok(number) = begun.fetch_update(Relaxed, Relaxed, |begun| (begun < until).then_some(begun + 1)) {
                soak.chain(number).await?;
            }
            Ok::<_, Failure>(())
        });
        futures_util::future::try_join_all(lanes).await
    };
    let (warming, mut warm) = (Instant::now(), WARM_UP / parts);
    run(warm).await?;
    while warming.elapsed() < REMEMBERED / u32::try_from(parts)? {
        warm += IN_FLIGHT;
        run(warm).await?;
    }
    let before = resident_bytes()?;
    run(warm + SOAK / parts).await?;
    Ok((resident_bytes()? / before - 1.0) * 100.0)
}

/// As the kernel counts it.
pub(crate) fn resident_bytes() -> Result<f64, Failure> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages: f64 = statm.split_whitespace().nth(1).ok_or("no resident pages")?.parse()?;
    Ok(pages * rustix::param::page_size() as f64)
}
