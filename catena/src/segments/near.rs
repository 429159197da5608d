//! A segment of another process on this host, mapped here: accesses are copies and atomic instructions.

use catena_segment::{Attached, Bell, MemoryError, View, Width};

use catena_wire::{Exception, SegmentRefusal};

use super::{
    errors::{of_memory, of_refusal},
    exported::rings,
};

/// The mapping, and how to ring.
#[derive(Debug)]
pub(crate) struct Near {
    attached: Attached,
    writable: bool,
    bell: Bell,
}

/// What came of an access to shared pages.
#[derive(Debug)]
pub(crate) enum NearResult<T> {
    /// It is done.
    Done(T),
    /// It cannot be done here: the pages are not the segment's any more, or may only be read. Nothing was done that counts.
    Elsewhere,
    /// The owner left the pages at that moment: whether a swap counts is unknown.
    Unknown,
    /// It is wrong.
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

    /// READ of what its owner lent, whose word at the first of `holds` is the second for as long as that holds. `None`: the pages count no more.
    pub(crate) fn read_lent(&self, holds: (u64, u64), offset: u64, out: &mut [u8]) -> Option<Result<(), Exception>> {
        lent("READ", self.while_it_holds(holds, |near| near.read(offset, out, false)))
    }

    /// WRITE to what its owner lent, in the same way.
    pub(crate) fn write_lent(&self, holds: (u64, u64), offset: u64, bytes: &[u8]) -> Option<Result<(), Exception>> {
        lent("WRITE", self.while_it_holds(holds, |near| near.write(offset, bytes, false)))
    }

    /// Acts while the word at the first of `holds` is the second. `Done(false)`: it is not, or was not any more when it was done.
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

    /// What was written to pages that are not the segment's any more may be written again elsewhere: it is the same bytes.
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
