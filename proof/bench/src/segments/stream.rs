//! WRITEs one behind the other: by the link beside a raw TCP stream, and in shared memory beside copies within this process.

use std::time::Instant;

use bytes::Bytes;

use super::{Scale, owner::BULK_BYTES, peers::Peers};
use crate::{Failure, stats::ratios, summary::Summary};

const BLOCK_BYTES: usize = 64 << 10;
/// What the paper's throughput was measured with (Table 2).
const PAPERS_BLOCK_BYTES: usize = 4 << 10;

/// Bytes per second, by round.
#[derive(Default)]
pub(super) struct Streams {
    link: Vec<f64>,
    /// The best round with each owner: for a whole round a raw reader may fall asleep between blocks, and then takes twice the time.
    raw: Vec<f64>,
    shared: Vec<f64>,
    copied: Vec<f64>,
    pub(super) link_4k: Vec<f64>,
    pub(super) shared_4k: Vec<f64>,
}

pub(super) async fn measure(peers: &Peers, scale: Scale, all: &mut Streams) -> Result<(), Failure> {
    let bytes = scale.stream_bytes;
    let (block, small) = (Bytes::from(vec![7; BLOCK_BYTES]), Bytes::from(vec![7; PAPERS_BLOCK_BYTES]));
    let (blocks, smalls) = (bytes / BLOCK_BYTES, bytes / PAPERS_BLOCK_BYTES);
    let (mut own, mut raw_best) = (vec![0; BULK_BYTES as usize], 0.0_f64);
    for round in 0..=scale.rounds {
        let began = Instant::now();
        peers.write_blocks(&peers.bulk, &block, blocks).await?;
        let link = speed(bytes, began);
        let began = Instant::now();
        peers.stream_blocks(&block, blocks).await?;
        let raw = speed(bytes, began);
        let began = Instant::now();
        peers.write_blocks(&peers.bulk_shared, &block, blocks).await?;
        let shared = speed(bytes, began);
        let began = Instant::now();
        copy_blocks(&mut own, &block, blocks);
        let copied = speed(bytes, began);
        let began = Instant::now();
        peers.write_blocks(&peers.bulk, &small, smalls).await?;
        let link_4k = speed(bytes, began);
        let began = Instant::now();
        peers.write_blocks(&peers.bulk_shared, &small, smalls).await?;
        let shared_4k = speed(bytes, began);
        if round > 0 {
            all.link.push(link);
            raw_best = raw_best.max(raw);
            all.shared.push(shared);
            all.copied.push(copied);
            all.link_4k.push(link_4k);
            all.shared_4k.push(shared_4k);
        }
    }
    all.raw.extend(std::iter::repeat_n(raw_best, scale.rounds));
    Ok(())
}

fn speed(bytes: usize, began: Instant) -> f64 {
    bytes as f64 / began.elapsed().as_secs_f64()
}

/// What a WRITE in shared memory is compared with: the same blocks, to as much memory of this process.
fn copy_blocks(own: &mut [u8], block: &[u8], blocks: usize) {
    for number in 0..blocks {
        let at = number * block.len() % own.len();
        own[at..at + block.len()].copy_from_slice(std::hint::black_box(block));
        std::hint::black_box(&mut *own);
    }
}

impl Streams {
    pub(super) fn report(self, summary: &mut Summary) {
        summary.put("write_stream_ratio", ratios(&self.link, &self.raw));
        summary.put("write_memcpy_ratio", ratios(&self.shared, &self.copied));
    }
}
