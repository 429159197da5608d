//! One at a time: chains of four hops beside a ring of raw TCP and beside gRPC, in turns, in blocks short enough that a drift of the machine hits all alike.

use std::{sync::Arc, time::Instant};

use crate::{
    Failure,
    peers::{Job, Peers},
    stats::{Spread, append, in_rounds, ratios},
    summary::Summary,
};

/// Repetitions in a block; a block counts with its median.
const IN_A_BLOCK: usize = 100;

/// How many round trips fewer a chain of four makes than four calls: its five ways are two and a half.
const ROUND_TRIPS_SAVED: f64 = 4.0 - 2.5;

#[derive(Default)]
pub(crate) struct Series {
    /// Microseconds, by block: ring, compiled chain, four gRPC calls, chain in JavaScript, one gRPC call, plain call, plain call and chain in JavaScript on one host.
    blocks: [Vec<f64>; 8],
    /// Microseconds, by visit: of medians, since a difference of two single blocks is mostly what moves both.
    break_even: Vec<f64>,
}

impl Series {
    pub(crate) async fn measure(&mut self, peers: &Arc<Peers>, blocks: usize) -> Result<(), Failure> {
        // In a task, as every server is.
        let measured = tokio::spawn(in_turns(Arc::clone(peers), blocks)).await??;
        let [_, _, calls, chain, ..] = measured.each_ref().map(|blocks| Spread::of(blocks.clone()).median);
        self.break_even.push(((chain - calls) / ROUND_TRIPS_SAVED).max(0.0));
        append(&mut self.blocks, measured);
        Ok(())
    }

    pub(crate) fn report(self, summary: &mut Summary) {
        let [ring, chain_wasm, tonic4, chain_js, tonic1, call, call_near, chain_near] = self.blocks;
        summary.put("chain4_ring_wasm", ratios(&chain_wasm, &ring));
        summary.put("chain4_ring_js", ratios(&chain_js, &ring));
        summary.put("chain4_tonic_wasm", ratios(&chain_wasm, &tonic4));
        summary.put("chain4_tonic_js", ratios(&chain_js, &tonic4));
        summary.put("break_even_rtt_us", Spread::of(self.break_even));
        summary.put("call_tonic", ratios(&call, &tonic1));
        summary.put("call_near", ratios(&call_near, &call));
        summary.put("chain4_near_js", ratios(&chain_near, &chain_js));
        summary.put("ring_us", Spread::of(ring));
        summary.put("tonic4_us", Spread::of(tonic4));
        summary.put("chain4_js_us", Spread::of(chain_js));
        summary.put("chain4_wasm_us", Spread::of(chain_wasm));
        summary.put("call_us", Spread::of(call));
    }
}

async fn in_turns(peers: Arc<Peers>, blocks: usize) -> Result<[Vec<f64>; 8], Failure> {
    let of = |job| block_us(&peers, job);
    let block = || async {
        Ok([
            of(Job::Ring).await?,
            of(Job::ChainWasm).await?,
            of(Job::Tonic4).await?,
            of(Job::ChainJs).await?,
            of(Job::Tonic1).await?,
            of(Job::Call).await?,
            of(Job::CallNear).await?,
            of(Job::ChainNear).await?,
        ])
    };
    in_rounds(blocks, block).await
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
