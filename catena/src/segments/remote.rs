//! Accesses by remote memory: in pieces, several under way at one time. What fails is repeated over the link, which knows why.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use catena_segment::{Reached, RemoteError};

use super::far::PIECE_BYTES;

/// Pieces of one access that are under way at one time.
const PIECES_UNDER_WAY_MAX: usize = 8;

/// Offsets and lengths of the pieces of a range.
fn pieces(offset: u64, count: u64) -> impl Iterator<Item = (u64, usize)> {
    let starts = (0..count).step_by(PIECE_BYTES as usize);
    starts.map(move |at| (offset.saturating_add(at), PIECE_BYTES.min(count - at) as usize))
}

pub(super) async fn read(from: &dyn Reached, offset: u64, count: u64) -> Result<Bytes, RemoteError> {
    let (mut next, mut under_way) = (pieces(offset, count), VecDeque::new());
    let mut whole = BytesMut::new();
    loop {
        while under_way.len() < PIECES_UNDER_WAY_MAX
            && let Some((at, bytes)) = next.next()
        {
            under_way.push_back(from.read(at, bytes));
        }
        let Some(first) = under_way.pop_front() else { return Ok(whole.freeze()) };
        let piece = first.await?;
        if piece.len() as u64 == count {
            return Ok(piece.into());
        }
        whole.extend_from_slice(&piece);
    }
}

/// When this returns, the bytes are in the owner's memory.
pub(super) async fn write(to: &dyn Reached, offset: u64, bytes: &[u8]) -> Result<(), RemoteError> {
    let (mut next, mut under_way) = (pieces(offset, bytes.len() as u64), VecDeque::new());
    loop {
        while under_way.len() < PIECES_UNDER_WAY_MAX
            && let Some((at, count)) = next.next()
        {
            let from = (at - offset) as usize;
            under_way.push_back(to.write(at, &bytes[from..from + count]));
        }
        let Some(first) = under_way.pop_front() else { return Ok(()) };
        first.await?;
    }
}
