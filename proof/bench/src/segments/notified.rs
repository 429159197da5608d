//! How long a WRITE takes on its one way, and how long after it the owner's waiting task runs.

use bytes::Bytes;
use catena::{Imported, Wish};

use super::{
    owner::{NOTIFIED_AT, STAMP_AT, monotonic_ns},
    peers::{Job, Peers},
};
use crate::{Failure, stats::Spread};

const IN_A_BLOCK: usize = 50;

/// Microseconds, by block.
#[derive(Default)]
pub(super) struct Notified {
    /// From a WRITE by the link until its bytes are in the owner's memory.
    pub(super) write: Vec<f64>,
    /// From then until the task that waits for the notification runs.
    pub(super) by_link: Vec<f64>,
    /// The same after a WRITE in shared memory.
    pub(super) shared: Vec<f64>,
}

pub(super) async fn measure(peers: &Peers, blocks: usize) -> Result<Notified, Failure> {
    let mut all = Notified::default();
    for block in 0..=blocks {
        let (write, told) = one_block(peers, &peers.words).await?;
        let (write_shared, told_shared) = one_block(peers, &peers.words_shared).await?;
        if block > 0 {
            all.write.push(write);
            all.by_link.push(told - write);
            all.shared.push(told_shared - write_shared);
        }
    }
    Ok(all)
}

/// From a WRITE until its bytes are there, and from one with a notification until the task runs.
async fn one_block(peers: &Peers, writer: &Imported) -> Result<(f64, f64), Failure> {
    let (mut writes, mut notified) = (Vec::new(), Vec::new());
    for _ in 0..IN_A_BLOCK {
        // The owner has done all that was before.
        peers.once(Job::Read).await?;
        writes.push(arrives_after_us(peers, writer).await?);
        peers.once(Job::Read).await?;
        notified.push(notified_after_us(peers, writer).await?);
    }
    Ok((Spread::of(writes).median, Spread::of(notified).median))
}

async fn arrives_after_us(peers: &Peers, writer: &Imported) -> Result<f64, Failure> {
    let stamp = write_stamp(writer, Wish::default()).await?;
    let mut there = [0; 8];
    while there != stamp.to_ne_bytes() {
        peers.words_shared.read_into(STAMP_AT, &mut there).await?;
    }
    Ok(us_since(stamp, monotonic_ns()))
}

async fn notified_after_us(peers: &Peers, writer: &Imported) -> Result<f64, Failure> {
    let stamp = write_stamp(writer, Wish { notify: true, ..Wish::default() }).await?;
    let mut answer = [0; 16];
    while answer[8..] != stamp.to_ne_bytes() {
        peers.words_shared.read_into(NOTIFIED_AT, &mut answer).await?;
    }
    let (notified, _) = answer.split_first_chunk().ok_or("an answer has 16 bytes")?;
    Ok(us_since(stamp, u64::from_ne_bytes(*notified)))
}

/// What comes of it is watched for in the pages that both have: looking there takes nothing from the owner.
async fn write_stamp(writer: &Imported, wish: Wish) -> Result<u64, Failure> {
    let stamp = monotonic_ns();
    writer.write_as(STAMP_AT, Bytes::copy_from_slice(&stamp.to_ne_bytes()), wish).await?;
    // What sends has its turn before whoever watches, and would take all of this thread's.
    tokio::task::yield_now().await;
    Ok(stamp)
}

fn us_since(stamp: u64, at: u64) -> f64 {
    at.saturating_sub(stamp) as f64 / 1e3
}
