//! The recording of what a chain's guests were told, which the chain carries along.

use catena_wire::{RECORDING_BYTES_MAX, RECORDING_EVENTS_MAX, Recording as Wire, Told, What};

/// One place is reserved for [`What::Full`], which must fit when nothing else does.
const EVENTS_MAX: usize = RECORDING_EVENTS_MAX - 1;

/// What a chain has been told so far, on this branch and on those that have merged into it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recording {
    told: Wire,
    events: usize,
    payload_bytes: usize,
}

impl Recording {
    pub(crate) fn from_wire(wire: Wire) -> Self {
        let mut recording = Self::default();
        recording.merge(wire);
        recording
    }

    pub(crate) const fn as_wire(&self) -> &Wire {
        &self.told
    }

    pub(crate) fn into_wire(self) -> Wire {
        self.told
    }

    /// Bytes that keeping the recording takes.
    pub(crate) fn bytes(&self) -> usize {
        self.events * size_of::<Told>() + self.payload_bytes
    }

    /// Adds what a branch recorded.
    pub(crate) fn merge(&mut self, more: Wire) {
        more.0.into_iter().for_each(|told| self.push(told));
    }

    /// Removes the last event, which the guest was not told after all.
    pub(crate) fn pop(&mut self) {
        if let Some(told) = self.told.0.pop() {
            self.events -= told.events().min(self.events);
            self.payload_bytes -= told.payload_bytes().min(self.payload_bytes);
        }
    }

    /// Adds an event. If there is no room, the recording ends with [`What::Full`], and the chain goes on.
    pub(crate) fn push(&mut self, told: Told) {
        if matches!(self.told.0.last(), Some(Told { what: What::Full, .. })) {
            return;
        }
        let (events, bytes) = (told.events(), told.payload_bytes());
        let fits = self.events + events <= EVENTS_MAX && self.payload_bytes + bytes <= RECORDING_BYTES_MAX;
        if fits {
            self.events += events;
            self.payload_bytes += bytes;
            self.told.0.push(told);
        } else {
            self.told.0.push(Told { what: What::Full, ..told });
        }
    }
}
