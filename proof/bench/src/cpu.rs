//! Chains per second of processor time, 64 in flight, beside the same calls by tonic: that of the servers and of the client together.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use rustix::time::{ClockId, clock_gettime};

use crate::{
    Failure,
    peers::{Job, Peers},
    stats::{Spread, append, in_rounds, ratios},
    summary::Summary,
};

pub(crate) const IN_FLIGHT: usize = 64;
const IN_A_ROUND: usize = 4_000;

/// Chains for a second of processor time, by round: in JavaScript, four gRPC calls, compiled.
#[derive(Default)]
pub(crate) struct Series([Vec<f64>; 3]);

impl Series {
    pub(crate) async fn measure(&mut self, peers: &Arc<Peers>, rounds: usize) -> Result<(), Failure> {
        let of = |job| per_cpu_second(peers, job, IN_FLIGHT);
        let round = || async { Ok([of(Job::ChainJs).await?, of(Job::Tonic4).await?, of(Job::ChainWasm).await?]) };
        append(&mut self.0, in_rounds(rounds, round).await?);
        Ok(())
    }

    pub(crate) fn report(self, summary: &mut Summary) {
        let [js, tonic, wasm] = self.0;
        summary.put("cpu_tonic_js", ratios(&js, &tonic));
        summary.put("cpu_tonic_wasm", ratios(&wasm, &tonic));
        summary.put("cpu_js", Spread::of(js));
        summary.put("cpu_wasm", Spread::of(wasm));
        summary.put("cpu_tonic", Spread::of(tonic));
    }
}

pub(crate) async fn per_cpu_second(peers: &Arc<Peers>, job: Job, in_flight: usize) -> Result<f64, Failure> {
    let before = cpu_s() + peers.cpu_s(job).await?;
    // One task that has them all in flight: among the runtime's workers, as the servers are.
    tokio::spawn(round(Arc::clone(peers), job, in_flight)).await??;
    Ok(IN_A_ROUND as f64 / (cpu_s() + peers.cpu_s(job).await? - before))
}

async fn round(peers: Arc<Peers>, job: Job, in_flight: usize) -> Result<(), Failure> {
    let done = AtomicUsize::new(0);
    let lanes: Vec<_> = (0..in_flight).map(|_| lane(&peers, job, &done)).collect();
    futures_util::future::try_join_all(lanes).await.map(drop)
}

async fn lane(peers: &Peers, job: Job, done: &AtomicUsize) -> Result<(), Failure> {
    while done.fetch_add(1, Ordering::Relaxed) < IN_A_ROUND {
        peers.once(job).await?;
    }
    Ok(())
}

/// Of this process.
pub(crate) fn cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
