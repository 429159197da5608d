//! One at a time: chains of four hops beside a ring of raw TCP and beside gRPC, in turns, in blocks short enough that a drift of the machine hits all alike.

use std::time::Instant;

use crate::{
    Failure,
    grpc::Grpc,
    mesh::Mesh,
    ring::Ring,
    stats::{Spread, ratios},
    summary::Summary,
};

/// Repetitions in a block; a block counts with its median.
const IN_A_BLOCK: usize = 100;

#[derive(Default)]
struct Blocks {
    ring: Vec<f64>,
    tonic4: Vec<f64>,
    tonic1: Vec<f64>,
    chain_js: Vec<f64>,
    chain_wasm: Vec<f64>,
    call: Vec<f64>,
}

pub(crate) async fn measure(mesh: &Mesh, blocks: usize, summary: &mut Summary) -> Result<(), Failure> {
    let (mut ring, grpc) = (Ring::start().await?, Grpc::start().await?);
    let mut all = Blocks::default();
    for block in 0..=blocks {
        let mut one = Blocks::default();
        one.ring.push(block_us(async || ring.round().await).await?);
        one.chain_wasm.push(block_us(async || mesh.chain_wasm().await).await?);
        one.tonic4.push(block_us(async || grpc.four().await).await?);
        one.chain_js.push(block_us(async || mesh.chain_js().await).await?);
        one.tonic1.push(block_us(async || grpc.one().await).await?);
        one.call.push(block_us(async || mesh.call().await).await?);
        // The first block warms everything up.
        if block > 0 {
            all.extend(one);
        }
    }
    all.report(summary);
    Ok(())
}

/// Median microseconds of one repetition.
async fn block_us(mut once: impl AsyncFnMut() -> Result<(), Failure>) -> Result<f64, Failure> {
    let mut each = Vec::with_capacity(IN_A_BLOCK);
    for _ in 0..IN_A_BLOCK {
        let began = Instant::now();
        once().await?;
        each.push(began.elapsed().as_secs_f64() * 1e6);
    }
    Ok(Spread::of(each).median)
}

impl Blocks {
    fn extend(&mut self, one: Self) {
        self.ring.extend(one.ring);
        self.tonic4.extend(one.tonic4);
        self.tonic1.extend(one.tonic1);
        self.chain_js.extend(one.chain_js);
        self.chain_wasm.extend(one.chain_wasm);
        self.call.extend(one.call);
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
