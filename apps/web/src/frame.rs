//! What goes in messages. A question's first item says what is asked; an answer is one byte string.
//!
//! | question | items |
//! | --- | --- |
//! | fetch | `F`, or `f` where a part cannot lie in memory that is shared; the head, the body if it is small; a large one is the long message's buffer |
//! | next part | `N`, or `n` likewise; the body's number |
//! | no more | `L`, the body's number; nothing answers it |
//!
//! Numbers are little-endian. An answer to a fetch: a byte for the place of its body, the head's length in 4 bytes, the head, and what the place needs. An answer to a next
//! part: a byte for what it is, and that.

use bytes::{BufMut, Bytes, BytesMut};

/// Asks for something, whose body's first part may lie in shared memory.
pub(crate) const FETCH: &[u8] = b"F";
/// Asks for something, whose body's first part is to come in the answer.
pub(crate) const FETCH_BY_MESSAGE: &[u8] = b"f";
/// Asks for the next part of a body, in shared memory if it can be.
pub(crate) const NEXT: &[u8] = b"N";
/// Asks for the next part of a body, in the answer.
pub(crate) const NEXT_BY_MESSAGE: &[u8] = b"n";
/// Wants no more of a body.
pub(crate) const LEAVE: &[u8] = b"L";

/// Bytes in a segment that is exported.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Range {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    /// `OWNER/NAME`, as it is imported.
    pub(crate) segment: String,
}

/// Where a response's body is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// Here, all of it.
    Here(Bytes),
    /// In a segment.
    Lies(Range),
    /// It is asked for, part by part, by this number.
    Pulled(u64),
    /// The same, and its first part came with its head.
    Begun(u64, Part),
}

/// The next part of a body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// These bytes; whether they are the last.
    Here { bytes: Bytes, last: bool },
    /// In a segment, until the part after the next is asked for.
    Lies { range: Range, last: bool },
    /// The body failed, or is not there any more.
    Failed(String),
}

impl Range {
    const fn len(&self) -> usize {
        16 + self.segment.len()
    }

    fn put(&self, out: &mut BytesMut) {
        out.put_u64_le(self.offset);
        out.put_u64_le(self.bytes);
        out.put_slice(self.segment.as_bytes());
    }

    fn get(bytes: &[u8]) -> Option<Self> {
        let (offset, rest) = bytes.split_first_chunk::<8>()?;
        let (count, name) = rest.split_first_chunk::<8>()?;
        let segment = std::str::from_utf8(name).ok()?.to_owned();
        Some(Self { offset: u64::from_le_bytes(*offset), bytes: u64::from_le_bytes(*count), segment })
    }
}

/// An answer to a fetch.
pub(crate) fn answer(head: &[u8], place: &Place) -> Bytes {
    let (kind, body_bytes) = match place {
        Place::Here(body) => (0, body.len()),
        Place::Lies(range) => (1, range.len()),
        Place::Pulled(_) => (2, 8),
        Place::Begun(_, part) => (3, 8 + part.len()),
    };
    let mut out = BytesMut::with_capacity(5 + head.len() + body_bytes);
    out.put_u8(kind);
    out.put_u32_le(u32::try_from(head.len()).unwrap_or(u32::MAX));
    out.put_slice(head);
    match place {
        Place::Here(body) => out.put_slice(body),
        Place::Lies(range) => range.put(&mut out),
        Place::Pulled(number) => out.put_u64_le(*number),
        Place::Begun(number, part) => {
            out.put_u64_le(*number);
            part.put(&mut out);
        }
    }
    out.freeze()
}

/// The head and the place of a body; `None`: it is no such answer.
pub(crate) fn answered(mut frame: Bytes) -> Option<(Bytes, Place)> {
    let (kind, rest) = frame.split_first()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (kind, length) = (*kind, u32::from_le_bytes(*length) as usize);
    if length > rest.len() {
        return None;
    }
    let mut rest = frame.split_off(5);
    let head = rest.split_to(length);
    let place = match kind {
        0 => Place::Here(rest),
        1 => Place::Lies(Range::get(&rest)?),
        2 => Place::Pulled(number(&rest)?),
        3 if rest.len() > 8 => {
            let part = rest.split_off(8);
            Place::Begun(number(&rest)?, Part::decode(part)?)
        }
        _ => return None,
    };
    Some((head, place))
}

/// A body's number in 8 bytes.
pub(crate) fn number(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_le_bytes)
}

impl Part {
    const fn len(&self) -> usize {
        1 + match self {
            Self::Here { bytes, .. } => bytes.len(),
            Self::Lies { range, .. } => range.len(),
            Self::Failed(why) => why.len(),
        }
    }

    fn put(&self, out: &mut BytesMut) {
        match self {
            Self::Here { bytes, last } => {
                out.put_u8(u8::from(*last));
                out.put_slice(bytes);
            }
            Self::Lies { range, last } => {
                out.put_u8(2 + u8::from(*last));
                range.put(out);
            }
            Self::Failed(why) => {
                out.put_u8(4);
                out.put_slice(why.as_bytes());
            }
        }
    }

    pub(crate) fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(self.len());
        self.put(&mut out);
        out.freeze()
    }

    pub(crate) fn decode(mut frame: Bytes) -> Option<Self> {
        let kind = *frame.first()?;
        let rest = frame.split_off(1);
        Some(match kind {
            0 | 1 => Self::Here { bytes: rest, last: kind == 1 },
            2 | 3 => Self::Lies { range: Range::get(&rest)?, last: kind == 3 },
            4 => Self::Failed(String::from_utf8_lossy(&rest).into_owned()),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn answers_come_back_as_they_went_and_no_cut_one_passes_for_another() {
        let range = Range { offset: 1, bytes: u64::MAX, segment: "a/b".to_owned() };
        let begun = Place::Begun(7, Part::Lies { range: range.clone(), last: false });
        for place in [Place::Here(Bytes::from("body")), Place::Lies(range.clone()), Place::Pulled(7), begun] {
            let frame = answer(b"head", &place);
            assert_eq!(answered(frame.clone()).unwrap(), (Bytes::from("head"), place));
            for end in 0..9 {
                assert!(answered(frame.slice(..end)).is_none(), "{end}");
            }
        }
        let parts = [
            Part::Here { bytes: Bytes::from("part"), last: true },
            Part::Lies { range, last: false },
            Part::Failed("why".to_owned()),
        ];
        for part in parts {
            assert_eq!(Part::decode(part.encode()).unwrap(), part);
        }
        for bad in [&b""[..], b"\x02short", b"\x09", b"\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\xff"] {
            assert!(Part::decode(Bytes::from_static(bad)).is_none());
        }
    }
}
