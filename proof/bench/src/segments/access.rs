//! Small accesses, one at a time: by the link beside raw TCP, and in shared memory beside a copy to memory of one's own.

use std::time::Instant;

use super::{
    each_ns,
    peers::{CELL_BYTES, Job, Peers, Shared},
};
use crate::{
    Failure,
    stats::{Spread, in_rounds, ratios},
    summary::Summary,
};

/// Repetitions in a block; a block counts with its median.
const IN_A_BLOCK: usize = 200;
/// In shared memory: as many together, since looking at the clock takes as long as one; a block counts with its mean.
const TOGETHER: usize = 20_000;
/// Local memory that is written to: as large as the segment.
const LOCAL_BYTES: usize = 4_096;

/// Nanoseconds, by block.
pub(super) struct Accesses {
    raw: Vec<f64>,
    pub(super) read: Vec<f64>,
    /// Half of WRITE and flush: one way.
    pub(super) write: Vec<f64>,
    pub(super) cas: Vec<f64>,
    pub(super) read_shared: Vec<f64>,
    pub(super) write_shared: Vec<f64>,
    pub(super) cas_shared: Vec<f64>,
    local: Vec<f64>,
}

pub(super) async fn measure(peers: &Peers, blocks: usize) -> Result<Accesses, Failure> {
    let block = || async {
        Ok([
            each_ns(peers, Job::Raw, IN_A_BLOCK).await?,
            each_ns(peers, Job::Read, IN_A_BLOCK).await?,
            each_ns(peers, Job::Cas, IN_A_BLOCK).await?,
            each_ns(peers, Job::WriteFlush, IN_A_BLOCK).await? / 2.0,
            together_ns(peers, Shared::Read).await?,
            together_ns(peers, Shared::Write).await?,
            local_write_ns(),
            together_ns(peers, Shared::Cas).await?,
        ])
    };
    let [raw, read, cas, write, read_shared, write_shared, local, cas_shared] = in_rounds(blocks, block).await?;
    Ok(Accesses { raw, read, write, cas, read_shared, write_shared, cas_shared, local })
}

async fn together_ns(peers: &Peers, access: Shared) -> Result<f64, Failure> {
    let began = Instant::now();
    peers.repeat(access, TOGETHER).await?;
    Ok(began.elapsed().as_nanos() as f64 / TOGETHER as f64)
}

/// What a WRITE is compared with: a copy of as many bytes to memory of this process, in its cache.
fn local_write_ns() -> f64 {
    let mut memory = vec![0_u8; LOCAL_BYTES];
    let cell = [7_u8; CELL_BYTES];
    let began = Instant::now();
    for _ in 0..TOGETHER {
        let (memory, cell) = (std::hint::black_box(&mut memory), std::hint::black_box(&cell));
        memory[..CELL_BYTES].copy_from_slice(cell);
    }
    std::hint::black_box(&memory);
    began.elapsed().as_nanos() as f64 / TOGETHER as f64
}

impl Accesses {
    pub(super) fn report(self, summary: &mut Summary) {
        let Self { raw, read, cas, read_shared, write_shared, local, .. } = self;
        summary.put("read_tcp_ratio", ratios(&read, &raw));
        summary.put("cas_read", ratios(&cas, &read));
        summary.put("write_shm_ratio", ratios(&write_shared, &local));
        summary.put("read_shm_ns", Spread::of(read_shared));
    }
}
