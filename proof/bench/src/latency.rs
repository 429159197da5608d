//! One at a time: chains of four hops beside a ring of raw TCP and beside gRPC, in turns, in blocks short enough that a drift of the machine hits all alike.

use std::{sync::Arc, time::Instant};

use crate::{
    Failure,
    peers::{Job, Peers},
    stats::{Spread, pairs, ratios},
    summary::Summary,
};

/// Repetitions in a block; a block counts with its median.
const IN_A_BLOCK: usize = 100;

/// How many round trips fewer a chain of four makes than four calls: its five ways are two and a half.
const ROUND_TRIPS_SAVED: f64 = 4.0 - 2.5;

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

pub(crate) async fn measure(peers: &Arc<Peers>, blocks: usize, summary: &mut Summary) -> Result<(), Failure> {
    // In a task, as every server is.
    let measured = tokio::spawn(in_turns(Arc::clone(peers), blocks)).await?;
    measured?.report(summary);
    Ok(())
}

async fn in_turns(peers: Arc<Peers>, blocks: usize) -> Result<Blocks, Failure> {
    let mut all = Blocks::default();
    for block in 0..=blocks {
        for job in [Job::Ring, Job::ChainWasm, Job::Tonic4, Job::ChainJs, Job::Tonic1, Job::Call] {
            let us = block_us(&peers, job).await?;
            // The first block warms everything up.
            if block > 0 {
                all.of(job).into_iter().for_each(|blocks| blocks.push(us));
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
    fn of(&mut self, job: Job) -> Option<&mut Vec<f64>> {
        match job {
            Job::Ring => Some(&mut self.ring),
            Job::ChainWasm => Some(&mut self.chain_wasm),
            Job::ChainJs => Some(&mut self.chain_js),
            Job::Tonic4 => Some(&mut self.tonic4),
            Job::Tonic1 => Some(&mut self.tonic1),
            Job::Call => Some(&mut self.call),
            Job::ChainBare => None,
        }
    }

    fn report(self, summary: &mut Summary) {
        let Self { ring, tonic4, tonic1, chain_js, chain_wasm, call } = self;
        summary.put("chain4_ring_wasm", ratios(&chain_wasm, &ring));
        summary.put("chain4_ring_js", ratios(&chain_js, &ring));
        summary.put("chain4_tonic_wasm", ratios(&chain_wasm, &tonic4));
        summary.put("chain4_tonic_js", ratios(&chain_js, &tonic4));
        let break_even = |chain: f64, calls: f64| ((chain - calls) / ROUND_TRIPS_SAVED).max(0.0);
        summary.put("break_even_rtt_us", pairs(&chain_js, &tonic4, break_even));
        summary.put("call_tonic", ratios(&call, &tonic1));
        summary.put("ring_us", Spread::of(ring));
        summary.put("tonic4_us", Spread::of(tonic4));
        summary.put("chain4_js_us", Spread::of(chain_js));
        summary.put("chain4_wasm_us", Spread::of(chain_wasm));
        summary.put("call_us", Spread::of(call));
    }
}
