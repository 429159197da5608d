//! Segments: accesses by the link and in shared memory, beside raw TCP, a local copy, plain calls and gRPC.

mod access;
mod held;
mod messages;
mod naming;
mod notified;
mod owner;
mod owner_cpu;
mod peers;
mod rdma;
mod stream;
mod table;

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
pub(crate) use held::{export_bytes, import_bytes};
pub(crate) use owner::{monotonic_ns, serve};
use peers::{Job, Peers};

use crate::{Failure, stats::Spread, summary::Summary};

/// How much of each is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// Blocks of accesses by the link, and as many of imports.
    pub(crate) blocks: usize,
    /// Rounds of 20,000 accesses for processor time, and of streams.
    pub(crate) rounds: usize,
    /// Bytes of one stream.
    pub(crate) stream_bytes: usize,
}

pub(crate) async fn measure(scale: Scale, summary: &mut Summary) -> Result<(), Failure> {
    let peers = Arc::new(Peers::start().await?);
    // In a task, as every server is.
    let measured = tokio::spawn(async move {
        let access = access::measure(&peers, scale.blocks).await?;
        let notified = notified::measure(&peers, scale.blocks).await?;
        let naming = naming::measure(&peers, scale.blocks).await?;
        let streams = stream::measure(&peers, scale).await?;
        let messages = messages::measure(&peers, scale.blocks).await?;
        let cpu = owner_cpu::measure(&peers, scale.rounds).await?;
        let rdma = rdma::measure(&peers, scale.blocks).await?;
        Ok::<_, Failure>((access, notified, naming, streams, messages, cpu, rdma))
    });
    let (access, notified, naming, streams, messages, cpu, rdma) = measured.await??;
    summary.put_table("table-2", table::of_operations(&access, &notified, &streams));
    summary.put_table("table-3", table::of_names(&naming));
    access.report(summary);
    summary.put("notify_us", Spread::of(notified.by_link));
    naming.report(summary);
    streams.report(summary);
    messages.report(summary);
    cpu.report(summary);
    if let Some(rdma) = rdma {
        summary.put("read_rdma_tcp_ratio", rdma);
    }
    Ok(())
}

/// One thing over and over, for a profiler.
pub(crate) async fn profile(what: &'static str, rounds: usize) -> Result<(), Failure> {
    /// Of single accesses, and bytes of a stream.
    const TOGETHER: usize = 50_000;
    const STREAM_BYTES: usize = 256 << 20;
    let peers = Arc::new(Peers::start().await?);
    let block = Bytes::from(vec![7; 64 << 10]);
    let blocks = STREAM_BYTES / block.len();
    for _ in 0..rounds {
        let (peers, block, began) = (Arc::clone(&peers), block.clone(), Instant::now());
        let job = match what {
            "read" => Some(Job::Read),
            "raw" => Some(Job::Raw),
            "write_shared" => Some(Job::WriteShared),
            "read_shared" => Some(Job::ReadShared),
            _ => None,
        };
        let work = async move {
            match (job, what == "stream") {
                (Some(job), _) => each_ns(&peers, job, TOGETHER).await,
                (None, true) => peers.write_blocks(&peers.bulk, &block, blocks).await.map(|()| 0.0),
                (None, false) => peers.stream_blocks(&block, blocks).await.map(|()| 0.0),
            }
        };
        let each_ns = tokio::spawn(work).await??;
        println!("{what}: {each_ns:.0} ns each, {:.3} s in all", began.elapsed().as_secs_f64());
    }
    Ok(())
}

/// Median of what each of so many takes, in nanoseconds, one at a time.
async fn each_ns(peers: &Peers, job: Job, count: usize) -> Result<f64, Failure> {
    let mut each = Vec::with_capacity(count);
    for _ in 0..count {
        let began = Instant::now();
        peers.once(job).await?;
        each.push(began.elapsed().as_nanos() as f64);
    }
    Ok(Spread::of(each).median)
}
