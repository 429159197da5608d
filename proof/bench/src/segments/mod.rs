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
pub(crate) use owner::{STORE, monotonic_ns, serve};
use peers::{Job, Peers, Shared};

use crate::{Failure, cores::Cores, stats::Spread, summary::Summary};

/// How much of each is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// Blocks of accesses by the link, and as many of imports.
    pub(crate) blocks: usize,
    /// Owners, one after the other, for processor time and streams, ...
    pub(crate) processes: usize,
    /// ... and rounds with each: of 20,000 accesses, and of streams.
    pub(crate) rounds: usize,
    /// Bytes of one stream.
    pub(crate) stream_bytes: usize,
}

pub(crate) async fn measure(scale: Scale, summary: &mut Summary) -> Result<(), Failure> {
    // In tasks, as every server is.
    let (access, notified, naming, short, long, rdma) = tokio::spawn(one_at_a_time(scale)).await??;
    let (mut streams, mut cpu) = (stream::Streams::default(), owner_cpu::OwnerCpu::default());
    for _ in 0..scale.processes {
        (streams, cpu) = tokio::spawn(many(scale, streams, cpu)).await??;
    }
    summary.put_table("table-2", table::of_operations(&access, &notified, &streams));
    summary.put_table("table-3", table::of_names(&naming));
    access.report(summary);
    summary.put("notify_us", Spread::of(notified.shared));
    naming.report(summary);
    streams.report(summary);
    summary.put("short_ratio", short);
    let [long, long_near] = long;
    summary.put("long_tonic", long);
    summary.put("long_tonic_near", long_near);
    cpu.report(summary);
    if let Some(rdma) = rdma {
        summary.put("read_rdma_tcp_ratio", rdma);
    }
    Ok(())
}

async fn one_at_a_time(
    Scale { blocks, .. }: Scale,
) -> Result<(access::Accesses, notified::Notified, naming::Naming, Spread, [Spread; 2], Option<Spread>), Failure> {
    let peers = Peers::start().await?;
    let _held = Cores::hold([], peers.processes())?;
    Ok((
        access::measure(&peers, blocks).await?,
        notified::measure(&peers, blocks).await?,
        naming::measure(&peers, blocks).await?,
        messages::short_ratio(&peers, blocks).await?,
        messages::long_ratios(&peers, blocks).await?,
        rdma::measure(&peers, blocks).await?,
    ))
}

/// By processes that have not been used: one has its memory laid out well or badly for as long as it lives.
async fn many(
    scale: Scale,
    mut streams: stream::Streams,
    mut cpu: owner_cpu::OwnerCpu,
) -> Result<(stream::Streams, owner_cpu::OwnerCpu), Failure> {
    let peers = Peers::start().await?;
    let _held = Cores::hold([], peers.processes())?;
    stream::measure(&peers, scale, &mut streams).await?;
    owner_cpu::measure(&peers, scale.rounds, &mut cpu).await?;
    Ok((streams, cpu))
}

/// What [`profile`] knows.
pub(crate) const PROFILED: [&str; 9] =
    ["read", "raw", "read_shared", "write_shared", "long", "long_near", "tonic_long", "stream", "raw_stream"];

/// One thing over and over, for a profiler.
pub(crate) async fn profile(what: &str, rounds: usize) -> Result<(), Failure> {
    /// Of single accesses, and bytes of a stream.
    const TOGETHER: usize = 50_000;
    const LONG: usize = 2_000;
    const STREAM_BYTES: usize = 256 << 20;
    let peers = Arc::new(Peers::start().await?);
    let block = Bytes::from(vec![7; 64 << 10]);
    let blocks = STREAM_BYTES / block.len();
    for _ in 0..rounds {
        let (peers, block, job, began) = (Arc::clone(&peers), block.clone(), what.to_owned(), Instant::now());
        let work = async move {
            let ((), count) = match &*job {
                "read" => (each_ns(&peers, Job::Read, TOGETHER).await.map(drop)?, TOGETHER),
                "raw" => (each_ns(&peers, Job::Raw, TOGETHER).await.map(drop)?, TOGETHER),
                "long" => (each_ns(&peers, Job::Long, LONG).await.map(drop)?, LONG),
                "long_near" => (each_ns(&peers, Job::LongNear, LONG).await.map(drop)?, LONG),
                "tonic_long" => (each_ns(&peers, Job::TonicLong, LONG).await.map(drop)?, LONG),
                "write_shared" => (peers.repeat(Shared::Write, 20 * TOGETHER).await?, 20 * TOGETHER),
                "read_shared" => (peers.repeat(Shared::Read, 20 * TOGETHER).await?, 20 * TOGETHER),
                "stream" => (peers.write_blocks(&peers.bulk, &block, blocks).await?, blocks),
                _ => (peers.stream_blocks(&block, blocks).await?, blocks),
            };
            Ok::<_, Failure>(count)
        };
        let count = tokio::spawn(work).await??;
        let took = began.elapsed();
        println!("{what}: {:.1} ns each, {:.3} s in all", took.as_nanos() as f64 / count as f64, took.as_secs_f64());
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
