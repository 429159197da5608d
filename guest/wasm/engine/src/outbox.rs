//! The events of a turn, as the CBOR array that the host reads.

use alloc::vec::Vec;

use minicbor::Encoder;
use minicbor::encode::{self, Write};

/// Room for the array's header, which is known last.
const HEAD_BYTES: usize = 5;
/// Kept free of the host's bound, so that a broken limit can still be told.
const LAST_WORDS_BYTES: usize = 512;

/// Why nothing more can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// More than the host takes.
    Bound,
    /// The heap has no room.
    Memory,
}

/// What writing a CBOR item gives.
pub(crate) type Written<T> = Result<T, encode::Error<Full>>;

/// Bytes that are written from the front and read when the turn ends.
pub(crate) struct Outbox {
    /// Never moves and never grows: its address is declared as scratch.
    fixed: Vec<u8>,
    /// Takes over when `fixed` is full; given back after the turn.
    large: Vec<u8>,
    bytes_max: usize,
    events: u32,
}

/// A place to go back to.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    bytes: usize,
    events: u32,
}

impl Outbox {
    pub(crate) const fn new() -> Self {
        Outbox { fixed: Vec::new(), large: Vec::new(), bytes_max: 0, events: 0 }
    }

    /// Reserves the fixed part: (address, length).
    pub(crate) fn reserve(&mut self, bytes: usize) -> (usize, usize) {
        self.fixed.reserve_exact(bytes);
        (self.fixed.as_ptr() as usize, bytes)
    }

    /// Empties it for a new turn.
    pub(crate) fn begin(&mut self, bytes_max: usize) {
        self.release();
        self.fixed.extend_from_slice(&[0; HEAD_BYTES]);
        self.bytes_max = bytes_max.max(LAST_WORDS_BYTES);
    }

    /// Gives back what the last turn needed beyond the fixed part.
    pub(crate) fn release(&mut self) {
        self.fixed.clear();
        self.large = Vec::new();
        self.bytes_max = 0;
        self.events = 0;
    }

    fn buffer(&mut self) -> &mut Vec<u8> {
        if self.large.capacity() > 0 { &mut self.large } else { &mut self.fixed }
    }

    pub(crate) fn mark(&mut self) -> Mark {
        Mark { bytes: self.buffer().len(), events: self.events }
    }

    pub(crate) fn back_to(&mut self, mark: Mark) {
        self.buffer().truncate(mark.bytes);
        self.events = mark.events;
    }

    /// Writes one event, whole or not at all.
    pub(crate) fn event(&mut self, write: impl FnOnce(&mut Encoder<&mut Outbox>) -> Written<()>) -> Result<(), Full> {
        let mark = self.mark();
        let written = write(&mut Encoder::new(self));
        match written {
            Ok(()) => {
                self.events += 1;
                Ok(())
            }
            Err(error) => {
                self.back_to(mark);
                Err(full(error))
            }
        }
    }

    /// Moves what was written since `middle` in front of what was written between `from` and `middle`.
    pub(crate) fn rotate(&mut self, from: Mark, middle: Mark) {
        self.buffer()[from.bytes..].rotate_left(middle.bytes - from.bytes);
    }

    /// An event that was written by hand is complete.
    pub(crate) fn count_event(&mut self) {
        self.events += 1;
    }

    /// Makes room for one last short event, at the price of the others if need be: the chain is over anyway.
    pub(crate) fn make_room(&mut self) {
        if self.buffer().len() + LAST_WORDS_BYTES > self.bytes_max {
            self.back_to(Mark { bytes: HEAD_BYTES, events: 0 });
        }
    }

    /// The whole array: (address, length). What is in the fixed part stays there until the next turn, and nothing else does.
    pub(crate) fn finish(&mut self) -> (usize, usize) {
        let events = self.events;
        let buffer = self.buffer();
        let mut head = [0u8; HEAD_BYTES];
        let mut space = &mut head[..];
        let room = space.len();
        // An array header of up to 2^32 - 1 items takes at most HEAD_BYTES.
        let written = Encoder::new(&mut space).array(u64::from(events)).is_ok();
        debug_assert!(written);
        let used = room - space.len();
        let start = HEAD_BYTES - used;
        buffer[start..HEAD_BYTES].copy_from_slice(&head[..used]);
        let whole = (buffer.as_ptr() as usize + start, buffer.len() - start);
        if self.large.capacity() == 0 {
            self.release();
        }
        whole
    }

    fn spill(&mut self, more: usize) -> Result<(), Full> {
        let wanted = (self.fixed.len() + more).saturating_mul(2);
        self.large.try_reserve_exact(wanted).map_err(|_| Full::Memory)?;
        self.large.extend_from_slice(&self.fixed);
        Ok(())
    }
}

impl Write for Outbox {
    type Error = Full;

    fn write_all(&mut self, bytes: &[u8]) -> Result<(), Full> {
        if self.buffer().len() + bytes.len() > self.bytes_max {
            return Err(Full::Bound);
        }
        if self.large.capacity() == 0 && self.fixed.len() + bytes.len() > self.fixed.capacity() {
            self.spill(bytes.len())?;
        }
        let buffer = self.buffer();
        if buffer.capacity() - buffer.len() < bytes.len() {
            buffer.try_reserve(bytes.len()).map_err(|_| Full::Memory)?;
        }
        buffer.extend_from_slice(bytes);
        Ok(())
    }
}

/// The reason inside an encoder's error; the encoder itself has none of its own.
pub(crate) fn full(error: encode::Error<Full>) -> Full {
    error.into_write().unwrap_or(Full::Memory)
}
