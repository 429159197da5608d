//! Frames: the header's bytes, and nothing about what a frame does.
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
/// What a begin frame's payload starts with.
pub(crate) const BEGIN_BYTES: usize = 8;

const WHOLE: u8 = 1;
const BEGIN: u8 = 2;
const MORE: u8 = 3;
const PING: u8 = 4;
const PONG: u8 = 5;

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Whole = WHOLE as isize,
    Begin = BEGIN as isize,
    More = MORE as isize,
    Ping = PING as isize,
    Pong = PONG as isize,
}

/// A header that was checked against the limits; its payload may not have come yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) payload_bytes: u32,
    pub(crate) head_bytes: u32,
    pub(crate) id: u64,
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = self.kind as u8;
        bytes[1..4].copy_from_slice(&self.payload_bytes.to_le_bytes()[..3]);
        bytes[4..8].copy_from_slice(&self.head_bytes.to_le_bytes());
        bytes[8..].copy_from_slice(&self.id.to_le_bytes());
        bytes
    }

    /// The header at the start of `bytes`, or `None` when it has not come yet.
    pub(crate) fn decode(bytes: &[u8], limits: &Limits) -> Result<Option<Self>, FrameError> {
        let Some(&[code, a, b, c, d, e, f, g, ref id @ ..]) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let kind = match code {
            WHOLE => Kind::Whole,
            BEGIN => Kind::Begin,
            MORE => Kind::More,
            PING => Kind::Ping,
            PONG => Kind::Pong,
            kind => return Err(FrameError::UnknownKind { kind }),
        };
        let header = Self {
            kind,
            payload_bytes: u32::from_le_bytes([a, b, c, 0]),
            head_bytes: u32::from_le_bytes([d, e, f, g]),
            id: u64::from_le_bytes(*id),
        };
        header.check(limits)?;
        Ok(Some(header))
    }

    fn check(&self, limits: &Limits) -> Result<(), FrameError> {
        let malformed = |what| Err(FrameError::Malformed { kind: self.kind as u8, what });
        if self.payload_bytes > limits.frame_bytes_max {
            return Err(FrameError::FrameTooLong { bytes: self.payload_bytes, bytes_max: limits.frame_bytes_max });
        }
        match self.kind {
            Kind::Whole if self.head_bytes > self.payload_bytes => malformed("a head longer than the frame"),
            Kind::Whole if self.id != 0 => malformed("a whole message has no number"),
            Kind::Begin if (self.payload_bytes as usize) < BEGIN_BYTES => malformed("no tail length"),
            // Without this a peer could keep the reader busy with frames that bring nothing.
            Kind::More if self.payload_bytes == 0 => malformed("an empty fragment"),
            Kind::More if self.head_bytes != 0 => malformed("a head length in a later fragment"),
            Kind::Ping | Kind::Pong if self.payload_bytes != 0 || self.head_bytes != 0 => malformed("a payload"),
            _ => Ok(()),
        }
    }

    /// Header and payload together, in bytes.
    pub(crate) fn frame_bytes(&self) -> usize {
        HEADER_BYTES + self.payload_bytes as usize
    }
}

/// The two parts of a whole frame's payload, copied: a slice would keep the whole receive buffer alive for as long as
/// somebody holds the message.
pub(crate) fn whole_message(header: &Header, payload: &[u8]) -> Message {
    let (head, tail) = payload.split_at(payload.len().min(header.head_bytes as usize));
    Message { head: Bytes::copy_from_slice(head), tail: Bytes::copy_from_slice(tail) }
}

/// A begin frame's payload: the tail's length, and the first bytes of head and tail.
pub(crate) fn begin_parts(payload: &[u8]) -> (u64, &[u8]) {
    match payload.split_first_chunk::<BEGIN_BYTES>() {
        Some((tail_bytes, data)) => (u64::from_le_bytes(*tail_bytes), data),
        None => (0, payload),
    }
}

/// A frame taken apart, for tests, fuzzing and tools. The link itself reads payloads in place.
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
    /// The frame's bytes. Lengths beyond 24 bits cannot be said by a header and are cut: limits forbid them.
    pub fn encode(&self) -> Vec<u8> {
        let begin;
        let (kind, id, head_bytes, parts): (_, _, _, [&[u8]; 2]) = match self {
            Self::Whole(m) => (Kind::Whole, 0, m.head.len() as u32, [&m.head, &m.tail]),
            Self::Begin { id, head_bytes, tail_bytes, data } => {
                begin = tail_bytes.to_le_bytes();
                (Kind::Begin, *id, *head_bytes, [&begin, data])
            }
            Self::More { id, data } => (Kind::More, *id, 0, [data, &[]]),
            Self::Ping { nonce } => (Kind::Ping, *nonce, 0, [&[], &[]]),
            Self::Pong { nonce } => (Kind::Pong, *nonce, 0, [&[], &[]]),
        };
        let payload_bytes = (parts[0].len() + parts[1].len()) as u32;
        let mut bytes = Header { kind, payload_bytes, head_bytes, id }.encode().to_vec();
        parts.iter().for_each(|part| bytes.extend_from_slice(part));
        bytes
    }

    fn from_parts(header: &Header, payload: &[u8]) -> Self {
        let id = header.id;
        match header.kind {
            Kind::Whole => Self::Whole(whole_message(header, payload)),
            Kind::Begin => {
                let (tail_bytes, data) = begin_parts(payload);
                let data = Bytes::copy_from_slice(data);
                Self::Begin { id, head_bytes: header.head_bytes, tail_bytes, data }
            }
            Kind::More => Self::More { id, data: Bytes::copy_from_slice(payload) },
            Kind::Ping => Self::Ping { nonce: id },
            Kind::Pong => Self::Pong { nonce: id },
        }
    }
}

/// Takes every complete frame from the front of `bytes` and leaves the rest.
///
/// Pure, total over all inputs, and independent of how the bytes were split: the entry point for fuzzing. Frames are
/// checked one by one; what messages they form is for [`crate::Assembler`] to say.
///
/// # Errors
/// The first frame that breaks the protocol or `limits`; frames before it are dropped with the link.
pub fn decode_frames(bytes: &mut BytesMut, limits: &Limits) -> Result<Vec<Frame>, FrameError> {
    let mut frames = Vec::new();
    while let Some(header) = Header::decode(bytes, limits)? {
        let Some(payload) = bytes.get(HEADER_BYTES..header.frame_bytes()) else { break };
        frames.push(Frame::from_parts(&header, payload));
        bytes.advance(header.frame_bytes());
    }
    Ok(frames)
}
