//! Requests and answers as they lie in a lane: `number | bytes | check | the bytes`. Numbers only rise, from 1.

use crate::layout::{Key, check};

/// Bytes before those of the request or answer.
pub const FRAME_HEAD_BYTES: usize = 24;

/// How many lanes there are, and how long each is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lanes {
    /// Requests that one clerk may have under way.
    pub count: u32,
    /// Bytes of a lane: the longest request or answer, and its head. A multiple of 8.
    pub bytes: u32,
}

impl Lanes {
    /// Bytes of the segment.
    #[must_use]
    pub const fn segment_bytes(&self) -> u64 {
        self.at(self.count)
    }

    /// Where a lane begins.
    #[must_use]
    pub const fn at(&self, lane: u32) -> u64 {
        lane as u64 * self.bytes as u64
    }

    /// The longest request or answer.
    #[must_use]
    pub const fn content_bytes(&self) -> usize {
        (self.bytes as usize).saturating_sub(FRAME_HEAD_BYTES)
    }
}

fn key_of(number: u64) -> Key {
    Key([number, !number])
}

/// The frame of a request or answer.
#[must_use]
pub fn frame(number: u64, bytes: &[u8]) -> Vec<u8> {
    let length = bytes.len() as u64;
    let mut frame = Vec::with_capacity(FRAME_HEAD_BYTES + bytes.len());
    for word in [number, length, check(key_of(number), length, 0, bytes)] {
        frame.extend_from_slice(&word.to_le_bytes());
    }
    frame.extend_from_slice(bytes);
    frame
}

/// The number, length and check in a head. `None`: the length is more than a lane can hold.
#[must_use]
pub(crate) fn head_of(head: &[u8], content_bytes_max: usize) -> Option<(u64, usize, u64)> {
    let mut words = head.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    let (number, length, check) = (words.next()?, words.next()?, words.next()?);
    let length = usize::try_from(length).ok().filter(|length| *length <= content_bytes_max)?;
    Some((number, length, check))
}

/// Whether these bytes are the content that the head describes.
#[must_use]
pub(crate) fn is_whole(head: (u64, usize, u64), bytes: &[u8]) -> bool {
    let (number, length, told) = head;
    bytes.len() == length && check(key_of(number), length as u64, 0, bytes) == told
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_frame_comes_back_and_no_other_bytes_do(bytes in proptest::collection::vec(any::<u8>(), 0..200), at in 0_usize..224, by in 1_u8..) {
            let mut laid = frame(7, &bytes);
            let head = head_of(&laid, 200).unwrap();
            prop_assert!(head.0 == 7 && is_whole(head, &laid[FRAME_HEAD_BYTES..]));
            let at = at % laid.len();
            laid[at] ^= by;
            let head = head_of(&laid, 200);
            prop_assert!(head.is_none_or(|head| !is_whole(head, &laid[FRAME_HEAD_BYTES..])));
        }

        #[test]
        fn any_head_is_within_its_lane(head in proptest::collection::vec(any::<u8>(), 0..40)) {
            prop_assert!(head_of(&head, 100).is_none_or(|(_, length, _)| length <= 100));
        }
    }
}
