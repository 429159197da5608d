//! One at a time: chains of four hops beside a ring of raw TCP and beside gRPC, in turns, in blocks short enough that a drift of the machine hits all alike.

use std::{sync::Arc, time::Instant};

use crate::{
    Failure,
    peers::{Job, Peers},
    stats::{Spread, ratios},
    summary::Summary,
};

/// Repetitions in a block; a block counts with its median.
const IN_A_BLOCK: usize = 100;

/// Of each chain.
const HOPS: f64 = 4.0;

/// Medians of the blocks, in microseconds.
#[derive(Default)]
struct Blocks {
    ring: Vec<f64>,
    tonic4: Vec<f64>,
    tonic1: Vec<f64>,
    chain_js: Vec<f64>,
    chain_wasm: Vec<f64>,
    call: Vec<f64>,
}

/// Returns how long a hop over loopback takes, in microseconds.
pub(crate) async fn measure(peers: &Arc<Peers>, blocks: usize, summary: &mut Summary) -> Result<f64, Failure> {
    // In a task, as every server is.
    let measured = tokio::spawn(in_turns(Arc::clone(peers), blocks)).await?;
    let measured = measured?;
    let hop_us = Spread::of(measured.chain_wasm.clone()).median / HOPS;
    measured.report(summary);
    Ok(hop_us)
}

async fn in_turns(peers: Arc<Peers>, blocks: usize) -> Result<Blocks, Failure> {
    let mut all = Blocks::default();
    for block in 0..=blocks {
        for job in [Job::Ring, Job::ChainWasm, Job::Tonic4, Job::ChainJs, Job::Tonic1, Job::Call] {
            let us = block_us(&peers, job).await?;
            // The first block warms everything up.
            if block > 0 {
                all.of(job).push(us);
            }
        }
    }
    Ok(all)
}

/// Median microseconds of one repetition.
async fn block_us(peers: &Peers, job: Job) -> Result<f64, Failure> {
    let mut each = Vec::with_capacity(IN_A_BLOCK);
    for _ in 0..IN_A_BLOCK {
        let began = Instant::now();
        peers.once(job).await?;
        each.push(began.elapsed().as_secs_f64() * 1e6);
    }
    Ok(Spread::of(each).median)
}

impl Blocks {
    fn of(&mut self, job: Job) -> &mut Vec<f64> {
        match job {
            Job::Ring => &mut self.ring,
            Job::ChainWasm => &mut self.chain_wasm,
            Job::ChainJs => &mut self.chain_js,
            Job::Tonic4 => &mut self.tonic4,
            Job::Tonic1 => &mut self.tonic1,
            Job::Call => &mut self.call,
        }
    }

    fn report(self, summary: &mut Summary) {
        summary.at_most(
            "chain4_ring_wasm",
            "chain of 4 / raw ring, compiled",
            ratios(&self.chain_wasm, &self.ring),
            2.5,
        );
        summary.at_most("chain4_ring_js", "chain of 4 / raw ring, JavaScript", ratios(&self.chain_js, &self.ring), 5.0);
        summary.at_most(
            "chain4_tonic_wasm",
            "chain of 4 / 4 tonic calls, compiled",
            ratios(&self.chain_wasm, &self.tonic4),
            0.5,
        );
        summary.at_most(
            "chain4_tonic_js",
            "chain of 4 / 4 tonic calls, JavaScript",
            ratios(&self.chain_js, &self.tonic4),
            0.9,
        );
        summary.at_most("call_tonic", "client.call / tonic unary", ratios(&self.call, &self.tonic1), 0.8);
        summary.plain("ring_us", "raw ring, µs", Spread::of(self.ring));
        summary.plain("tonic4_us", "4 tonic calls, µs", Spread::of(self.tonic4));
        summary.plain("chain4_js_us", "chain of 4, JavaScript, µs", Spread::of(self.chain_js));
        summary.plain("chain4_wasm_us", "chain of 4, compiled, µs", Spread::of(self.chain_wasm));
        summary.plain("call_us", "client.call, µs", Spread::of(self.call));
    }
}
