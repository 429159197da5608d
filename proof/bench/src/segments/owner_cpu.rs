//! Processor time that an access takes from the owner of the memory, beside what the same bytes take from a server that is called.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::peers::{Job, Peers, Shared};
use crate::{
    Failure,
    cpu::IN_FLIGHT,
    stats::{Spread, append, in_rounds, ratios},
    summary::Summary,
};

const IN_A_ROUND: usize = 20_000;

/// Microseconds of processor time for one, by round: READ, plain call, gRPC call, READ in shared memory.
#[derive(Default)]
pub(super) struct OwnerCpu([Vec<f64>; 4]);

pub(super) async fn measure(peers: &Peers, rounds: usize, all: &mut OwnerCpu) -> Result<(), Failure> {
    let round = || async {
        Ok([
            each_us(peers, Job::Read).await?,
            each_us(peers, Job::Call).await?,
            each_us(peers, Job::Tonic).await?,
            shared_us(peers).await?,
        ])
    };
    append(&mut all.0, in_rounds(rounds, round).await?);
    Ok(())
}

async fn each_us(peers: &Peers, job: Job) -> Result<f64, Failure> {
    let before = peers.cpu_s(job).await?;
    let begun = AtomicUsize::new(0);
    let lanes = (0..IN_FLIGHT).map(|_| async {
        while begun.fetch_add(1, Relaxed) < IN_A_ROUND {
            peers.once(job).await?;
        }
        Ok::<_, Failure>(())
    });
    futures_util::future::try_join_all(lanes).await?;
    Ok((peers.cpu_s(job).await? - before) * 1e6 / IN_A_ROUND as f64)
}

/// Of READs in shared memory, which nobody can have in flight.
async fn shared_us(peers: &Peers) -> Result<f64, Failure> {
    let before = peers.owner_cpu_s().await?;
    peers.repeat(Shared::Read, IN_A_ROUND).await?;
    Ok((peers.owner_cpu_s().await? - before) * 1e6 / IN_A_ROUND as f64)
}

impl OwnerCpu {
    pub(super) fn report(self, summary: &mut Summary) {
        let [read, call, tonic, shared] = self.0;
        summary.put("read_cpu_call", ratios(&read, &call));
        summary.put("read_cpu_tonic", ratios(&read, &tonic));
        summary.put("read_cpu_shm", ratios(&shared, &read));
        summary.put("read_cpu_us", Spread::of(read));
    }
}
