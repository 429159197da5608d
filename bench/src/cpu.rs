//! Chains per second of processor time, 64 in flight, beside the same calls by tonic. Clients and servers are all in this process, so its processor time is all there is.

use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::time::{ClockId, clock_gettime};

use crate::{
    Failure,
    grpc::Grpc,
    mesh::Mesh,
    stats::{Spread, ratios},
    summary::Summary,
};

const IN_FLIGHT: usize = 64;
const IN_A_ROUND: usize = 4_000;

pub(crate) async fn measure(mesh: &Mesh, rounds: usize, summary: &mut Summary) -> Result<(), Failure> {
    let grpc = Grpc::start().await?;
    let (mut js, mut wasm, mut tonic) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=rounds {
        let one_js = per_cpu_second(async || mesh.chain_js().await).await?;
        let one_tonic = per_cpu_second(async || grpc.four().await).await?;
        let one_wasm = per_cpu_second(async || mesh.chain_wasm().await).await?;
        if round > 0 {
            js.push(one_js);
            tonic.push(one_tonic);
            wasm.push(one_wasm);
        }
    }
    summary.at_least("cpu_tonic_js", "chains per CPU-second / tonic's, JavaScript", ratios(&js, &tonic), 0.6);
    summary.at_least("cpu_tonic_wasm", "chains per CPU-second / tonic's, compiled", ratios(&wasm, &tonic), 1.5);
    summary.plain("cpu_js", "chains of 4 per CPU-second, JavaScript", Spread::of(js));
    summary.plain("cpu_wasm", "chains of 4 per CPU-second, compiled", Spread::of(wasm));
    summary.plain("cpu_tonic", "4 tonic calls per CPU-second", Spread::of(tonic));
    Ok(())
}

async fn per_cpu_second(once: impl AsyncFn() -> Result<(), Failure>) -> Result<f64, Failure> {
    let before = cpu_s();
    let done = AtomicUsize::new(0);
    let lanes = (0..IN_FLIGHT).map(|_| async {
        while done.fetch_add(1, Ordering::Relaxed) < IN_A_ROUND {
            once().await?;
        }
        Ok::<_, Failure>(())
    });
    futures_util::future::try_join_all(lanes).await?;
    Ok(IN_A_ROUND as f64 / (cpu_s() - before))
}

fn cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
