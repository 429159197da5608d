//! A segment of another process on this host, mapped here: accesses are copies and atomic instructions.

use catena_segment::{Attached, Bell, MemoryError, View, Width};

use catena_wire::{Exception, SegmentRefusal};

use super::{
    errors::{of_memory, of_refusal},
    exported::rings,
};

/// The mapping, and how to notify the owner.
#[derive(Debug)]
pub(crate) struct Near {
    attached: Attached,
    writable: bool,
    bell: Bell,
}

/// The result of an access to shared pages.
#[derive(Debug)]
pub(crate) enum NearResult<T> {
    /// It is done.
    Done(T),
    /// It cannot be done here: the pages are not the segment's any more, or are read-only. Nothing that was done here counts.
    Elsewhere,
    /// The owner left the pages during the access: it is unknown whether a swap counts.
    Unknown,
    /// The access itself is invalid.
    Wrong(MemoryError),
}

impl Near {
    pub(super) const fn new(attached: Attached, writable: bool, bell: Bell) -> Self {
        Self { attached, writable, bell }
    }

    pub(super) const fn is_writable(&self) -> bool {
        self.writable
    }

    pub(crate) fn is_live(&self) -> bool {
        self.attached.was_live()
    }

    pub(super) fn view(&self) -> Option<View> {
        self.attached.memory().view()
    }

    pub(super) fn read(&self, offset: u64, out: &mut [u8], notify: bool) -> NearResult<()> {
        if let Err(why) = self.attached.memory().read(offset, out) {
            return NearResult::Wrong(why);
        }
        if !self.attached.was_live() {
            return NearResult::Elsewhere;
        }
        self.ring(false, notify);
        NearResult::Done(())
    }

    /// READ from a lent buffer. `holds` is the offset and value of the word that shows that the loan is valid. `None`: the pages are not valid any more.
    pub(crate) fn read_lent(&self, holds: (u64, u64), offset: u64, out: &mut [u8]) -> Option<Result<(), Exception>> {
        lent("READ", self.while_it_holds(holds, |near| near.read(offset, out, false)))
    }

    /// WRITE to a lent buffer, in the same way.
    pub(crate) fn write_lent(&self, holds: (u64, u64), offset: u64, bytes: &[u8]) -> Option<Result<(), Exception>> {
        lent("WRITE", self.while_it_holds(holds, |near| near.write(offset, bytes, false)))
    }

    /// Acts while the word at offset `holds.0` equals `holds.1`. `Done(false)`: it does not, or did not any more afterwards.
    pub(super) fn while_it_holds(
        &self,
        (at, is): (u64, u64),
        act: impl FnOnce(&Self) -> NearResult<()>,
    ) -> NearResult<bool> {
        let mut word = [0; 8];
        let mut holds = || match self.read(at, &mut word, false) {
            NearResult::Done(()) => NearResult::Done(u64::from_ne_bytes(word) == is),
            NearResult::Wrong(why) => NearResult::Wrong(why),
            NearResult::Elsewhere | NearResult::Unknown => NearResult::Elsewhere,
        };
        match holds() {
            NearResult::Done(true) => {}
            other => return other,
        }
        match act(self) {
            NearResult::Done(()) => holds(),
            NearResult::Wrong(why) => NearResult::Wrong(why),
            NearResult::Elsewhere | NearResult::Unknown => NearResult::Elsewhere,
        }
    }

    /// A write to pages that are not the segment's any more may be repeated elsewhere, since it writes the same bytes.
    pub(super) fn write(&self, offset: u64, bytes: &[u8], notify: bool) -> NearResult<()> {
        if !self.writable || !self.attached.was_live() {
            return NearResult::Elsewhere;
        }
        if let Err(why) = self.attached.memory().write(offset, bytes) {
            return NearResult::Wrong(why);
        }
        if !self.attached.is_live() {
            return NearResult::Elsewhere;
        }
        self.ring(true, notify);
        NearResult::Done(())
    }

    pub(super) fn cas(&self, offset: u64, width: Width, old: u64, new: u64, notify: bool) -> NearResult<u64> {
        if !self.writable || !self.attached.was_live() {
            return NearResult::Elsewhere;
        }
        match self.attached.memory().compare_and_swap(offset, width, old, new) {
            Err(why) => NearResult::Wrong(why),
            Ok(was) if self.attached.is_live() => {
                self.ring(true, notify);
                NearResult::Done(was)
            }
            Ok(_) => NearResult::Unknown,
        }
    }

    fn ring(&self, write: bool, asked: bool) {
        if rings(self.attached.flags(), write, asked) {
            self.bell.ring();
        }
    }
}

fn lent(what: &str, done: NearResult<bool>) -> Option<Result<(), Exception>> {
    match done {
        NearResult::Done(true) => Some(Ok(())),
        NearResult::Done(false) => {
            Some(Err(of_refusal(&format!("{what} of what was lent"), SegmentRefusal::GrantVoid)))
        }
        NearResult::Wrong(why) => Some(Err(of_memory(&why))),
        NearResult::Elsewhere | NearResult::Unknown => None,
    }
}
