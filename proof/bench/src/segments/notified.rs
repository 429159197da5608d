//! How long after a WRITE the owner's waiting task runs. Each WRITE finds both processes asleep, as a notification does.

use std::time::Duration;

use bytes::Bytes;
use catena::{Imported, Wish};

use super::{
    owner::{NOTIFIED_AT, STAMP_AT, monotonic_ns},
    peers::Peers,
};
use crate::{
    Failure,
    stats::{Spread, in_rounds},
};

const IN_A_BLOCK: usize = 20;
/// Between two accesses. Nobody spins in the meantime, which would take a core from the processes that are measured.
const APART: Duration = Duration::from_millis(1);

/// Microseconds, by block.
pub(super) struct Notified {
    /// From a WRITE by the link until the task that waits for the notification runs: its bytes' way included.
    pub(super) by_link: Vec<f64>,
    /// The same after a WRITE in shared memory, which itself takes no time to speak of.
    pub(super) shared: Vec<f64>,
}

pub(super) async fn measure(peers: &Peers, blocks: usize) -> Result<Notified, Failure> {
    let block = || async {
        let (mut by_link, mut shared) = (Vec::new(), Vec::new());
        for _ in 0..IN_A_BLOCK {
            by_link.push(notified_after_us(peers, &peers.words).await?);
            shared.push(notified_after_us(peers, &peers.words_shared).await?);
        }
        Ok([Spread::of(by_link).median, Spread::of(shared).median])
    };
    let [by_link, shared] = in_rounds(blocks, block).await?;
    Ok(Notified { by_link, shared })
}

async fn notified_after_us(peers: &Peers, writer: &Imported) -> Result<f64, Failure> {
    tokio::time::sleep(APART).await;
    let stamp = monotonic_ns();
    let wish = Wish { notify: true, ..Wish::default() };
    writer.write_as(STAMP_AT, Bytes::copy_from_slice(&stamp.to_ne_bytes()), wish).await?;
    let mut answer = [0; 16];
    while answer[8..] != stamp.to_ne_bytes() {
        tokio::time::sleep(APART).await;
        peers.words_shared.read_into(NOTIFIED_AT, &mut answer).await?;
    }
    let (notified, _) = answer.split_first_chunk().ok_or("an answer has 16 bytes")?;
    Ok(u64::from_ne_bytes(*notified).saturating_sub(stamp) as f64 / 1e3)
}
