//! The encoding of frames, and nothing about what a frame does.
//!
//! Sixteen bytes, little-endian, before each payload:
//!
//! | bytes | field |
//! | --- | --- |
//! | 0 | kind: 1 whole, 2 begin, 3 more, 4 ping, 5 pong |
//! | 1..4 | payload length in bytes |
//! | 4..8 | length of the message's head in bytes (whole, begin; else 0) |
//! | 8..16 | message number (begin, more), nonce (ping, pong), 0 (whole) |
//!
//! A *begin* payload starts with the length of the tail (8 bytes). Head and tail follow as one stream of bytes, through
//! the *more* frames of the same number.

use bytes::{Buf, Bytes, BytesMut};

use crate::config::Limits;
use crate::{FrameError, Message};

/// Length of a frame header.
pub(crate) const HEADER_BYTES: usize = 16;
/// What precedes the data in a begin frame's payload: the length of the tail.
pub(crate) const BEGIN_BYTES: usize = 8;
/// The most that precedes the bytes of the message.
pub(crate) const PREFIX_BYTES: usize = HEADER_BYTES + BEGIN_BYTES;

const WHOLE: u8 = 1;
const BEGIN: u8 = 2;
const MORE: u8 = 3;
const PING: u8 = 4;
const PONG: u8 = 5;

/// What goes over a link, one after another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A whole message.
    Whole(Message),
    /// The first fragment of a message.
    Begin {
        /// The message's number.
        id: u64,
        /// Length of the head, in bytes.
        head_bytes: u32,
        /// Length of the tail, in bytes.
        tail_bytes: u64,
        /// The first bytes of head and tail.
        data: Bytes,
    },
    /// A later fragment.
    More {
        /// The message's number.
        id: u64,
        /// The next bytes; never empty.
        data: Bytes,
    },
    /// Asks for a pong with the same nonce.
    Ping {
        /// Chosen by the sender.
        nonce: u64,
    },
    /// Answers a ping.
    Pong {
        /// Copied from the ping.
        nonce: u64,
    },
}

impl Frame {
    /// What precedes the message's own bytes (the last eight bytes are for begin frames only), how many of these bytes are used, and the message's bytes.
    /// Lengths beyond 24 bits do not fit into a header and are cut: limits forbid them.
    pub(crate) fn into_parts(self) -> ([u8; PREFIX_BYTES], usize, [Bytes; 2]) {
        let (kind, id, head_bytes, begins, parts) = match self {
            Self::Whole(m) => (WHOLE, 0, m.head.len() as u32, None, [m.head, m.tail]),
            Self::Begin { id, head_bytes, tail_bytes, data } => {
                (BEGIN, id, head_bytes, Some(tail_bytes), [data, Bytes::new()])
            }
            Self::More { id, data } => (MORE, id, 0, None, [data, Bytes::new()]),
            Self::Ping { nonce } => (PING, nonce, 0, None, [Bytes::new(), Bytes::new()]),
            Self::Pong { nonce } => (PONG, nonce, 0, None, [Bytes::new(), Bytes::new()]),
        };
        let begin_bytes = if begins.is_some() { BEGIN_BYTES } else { 0 };
        let payload_bytes = (begin_bytes + parts[0].len() + parts[1].len()) as u32;
        let mut prefix = [0; PREFIX_BYTES];
        prefix[0] = kind;
        prefix[1..4].copy_from_slice(&payload_bytes.to_le_bytes()[..3]);
        prefix[4..8].copy_from_slice(&head_bytes.to_le_bytes());
        prefix[8..16].copy_from_slice(&id.to_le_bytes());
        prefix[16..].copy_from_slice(&begins.unwrap_or_default().to_le_bytes());
        (prefix, HEADER_BYTES + begin_bytes, parts)
    }

    /// The frame's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let (prefix, prefix_bytes, [head, tail]) = self.clone().into_parts();
        [&prefix[..prefix_bytes], &head, &tail].concat()
    }

    /// Takes the frame at the front of `bytes`; `None` if it has not come whole.
    ///
    /// Pure, total over all inputs, and independent of how the bytes were split. Frames are checked one by one; [`crate::Assembler`] checks what messages they
    /// form.
    ///
    /// # Errors
    /// As soon as the header has come: the frame breaks the protocol or `limits`.
    pub fn decode(bytes: &mut BytesMut, limits: &Limits) -> Result<Option<Self>, FrameError> {
        let Some(&[kind, a, b, c, d, e, f, g, ref id @ ..]) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let (payload_bytes, head_bytes) = (u32::from_le_bytes([a, b, c, 0]), u32::from_le_bytes([d, e, f, g]));
        let id = u64::from_le_bytes(*id);
        check(kind, payload_bytes, head_bytes, id, limits)?;
        let payload_bytes = payload_bytes as usize;
        let Some(payload) = bytes.get(HEADER_BYTES..HEADER_BYTES + payload_bytes) else { return Ok(None) };
        if kind == WHOLE {
            // Copied: a slice would keep the whole receive buffer alive for as long as somebody holds the message.
            let (head, tail) = payload.split_at(payload.len().min(head_bytes as usize));
            let message = Message { head: Bytes::copy_from_slice(head), tail: Bytes::copy_from_slice(tail) };
            bytes.advance(HEADER_BYTES + payload_bytes);
            return Ok(Some(Self::Whole(message)));
        }
        bytes.advance(HEADER_BYTES);
        let mut data = bytes.split_to(payload_bytes).freeze();
        Ok(Some(match kind {
            BEGIN => Self::Begin { id, head_bytes, tail_bytes: data.try_get_u64_le().unwrap_or_default(), data },
            MORE => Self::More { id, data },
            PING => Self::Ping { nonce: id },
            _ => Self::Pong { nonce: id },
        }))
    }
}

fn check(kind: u8, payload_bytes: u32, head_bytes: u32, id: u64, limits: &Limits) -> Result<(), FrameError> {
    let malformed = |what| Err(FrameError::Malformed { kind, what });
    match kind {
        0 | 6.. => Err(FrameError::UnknownKind { kind }),
        _ if payload_bytes > limits.frame_bytes_max => {
            let (came, max) = (payload_bytes.into(), limits.frame_bytes_max.into());
            Err(FrameError::TooMuch { limit: "frame_bytes_max", came, max })
        }
        WHOLE if head_bytes > payload_bytes => malformed("a head longer than the frame"),
        WHOLE if id != 0 => malformed("a whole message has no number"),
        BEGIN if (payload_bytes as usize) < BEGIN_BYTES => malformed("no tail length"),
        // Otherwise a peer could keep the reader busy with frames that bring nothing.
        MORE if payload_bytes == 0 => malformed("an empty fragment"),
        MORE if head_bytes != 0 => malformed("a head length in a later fragment"),
        PING | PONG if payload_bytes != 0 || head_bytes != 0 => malformed("a payload"),
        _ => Ok(()),
    }
}
