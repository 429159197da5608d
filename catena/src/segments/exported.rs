//! The bytes of a segment of this node, and whoever is notified of what others do with them.

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
};

use catena_core::segments::{Export, Notify};
use catena_segment::{Handles, Memory, MemoryError, Mode, Shared, View};
use catena_wire::Rights;

use super::notices::Notices;

/// A segment's bytes, wherever they lie now.
#[derive(Debug)]
pub(crate) struct Exported {
    how: Export,
    pages: RwLock<Pages>,
    pub(crate) notices: Notices,
}

/// The pages, and what makes them others' too.
#[derive(Debug)]
pub(crate) struct Pages {
    pub(crate) memory: Memory,
    shared: Option<Shared>,
    locked: bool,
    /// How often the pages were taken from others.
    round: u64,
}

/// That somebody was found to have a right to the pages, in this round: whatever is taken back after that is taken from him too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Approved(u64);

/// What those who share the pages have to know of notifications: two bits for reads, two for writes.
pub(super) const fn flags_of(how: &Export) -> u64 {
    const fn bits(notify: Notify) -> u64 {
        match notify {
            Notify::IfAsked => 0,
            Notify::Always => 1,
            Notify::Never => 2,
        }
    }
    bits(how.on_read) | bits(how.on_write) << 2
}

/// Whether an access rings, by those flags.
pub(super) const fn rings(flags: u64, write: bool, asked: bool) -> bool {
    match (flags >> (if write { 2 } else { 0 })) & 3 {
        0 => asked,
        1 => true,
        _ => false,
    }
}

impl Exported {
    pub(crate) fn new(memory: Memory, how: Export) -> Arc<Self> {
        let pages = Pages { memory, shared: None, locked: false, round: 0 };
        Arc::new(Self { how, pages: RwLock::new(pages), notices: Notices::default() })
    }

    /// So many bytes of zeros in pages that are there to be mapped by a partner. They take no room until they are touched.
    pub(crate) fn lent(bytes: u64) -> Result<Arc<Self>, MemoryError> {
        // Not sealed against writing: so they can be given back to the system whatever the partner does, and nobody but that partner reads what it may spoil.
        let (shared, memory) = Shared::zeros(bytes, Mode::Writable, false)?;
        let how = Export::default();
        shared.set_flags(flags_of(&how));
        let pages = Pages { memory, shared: Some(shared), locked: false, round: 0 };
        Ok(Arc::new(Self { how, pages: RwLock::new(pages), notices: Notices::default() }))
    }

    /// Holds the pages as they are: while this is held they are the segment's.
    pub(crate) fn hold(&self) -> RwLockReadGuard<'_, Pages> {
        self.pages.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// To be asked before anybody else may ask the machine that found the right.
    pub(crate) fn approved(&self) -> Approved {
        Approved(self.hold().round)
    }

    /// Moves to pages that others may map, if it is not on such, and gives what another process needs to do so.
    pub(crate) fn share(&self, write: bool, approved: Approved) -> Result<(Handles, OwnedFd), MemoryError> {
        let mut pages = self.pages.write().unwrap_or_else(PoisonError::into_inner);
        if approved != Approved(pages.round) {
            return Err(MemoryError::Foreign("was taken back meanwhile"));
        }
        let enough = pages.shared.as_ref().is_some_and(|shared| !write || shared.mode() == Mode::Writable);
        if !enough {
            if let Some(before) = pages.shared.take() {
                before.retire();
            }
            let mode = if write { Mode::Writable } else { Mode::ReadOnly };
            let (shared, memory) = Shared::of(&pages.memory, mode, pages.locked)?;
            shared.set_flags(flags_of(&self.how));
            pages.memory = memory;
            pages.shared = Some(shared);
        }
        let Some(shared) = &pages.shared else { return Err(MemoryError::Foreign("is not shared")) };
        let bell = self.notices.bell()?.as_fd().try_clone_to_owned()?;
        Ok((shared.handles(write)?, bell))
    }

    /// The pages, in a place that they do not leave when somebody imports them with the rights that everybody has.
    pub(crate) fn view(&self) -> Result<View, MemoryError> {
        let write = self.how.anyone.include(Rights::WRITE) || self.how.anyone.include(Rights::CAS);
        self.share(write, self.approved())?;
        self.hold().memory.view().ok_or(MemoryError::Foreign("is not shared"))
    }

    /// Moves to pages of this process alone, if others map those that it is on: nothing that they do is seen any more. What is under way here is over
    /// when this returns. If there is no room for other pages the bytes are given up.
    pub(crate) fn withdraw(&self) -> Result<(), MemoryError> {
        let mut pages = self.pages.write().unwrap_or_else(PoisonError::into_inner);
        pages.round += 1;
        let Some(shared) = pages.shared.take() else { return Ok(()) };
        shared.retire();
        match pages.memory.fresh(pages.locked) {
            Ok(memory) => {
                pages.memory = memory;
                shared.discard();
                Ok(())
            }
            Err(why) => {
                pages.memory = Memory::own(0)?;
                Err(why)
            }
        }
    }

    /// Nobody here needs the bytes any more: whoever shares the pages learns of it.
    pub(crate) fn retire(&self) {
        let mut pages = self.pages.write().unwrap_or_else(PoisonError::into_inner);
        pages.round += 1;
        if let Some(shared) = pages.shared.take() {
            shared.retire();
            shared.discard();
        }
    }

    /// Keeps the pages in memory, or lets them go.
    pub(crate) fn pin(&self, pinned: bool) -> Result<(), MemoryError> {
        let mut pages = self.pages.write().unwrap_or_else(PoisonError::into_inner);
        let memory = pages.memory.fresh(pinned)?;
        if let Some(shared) = pages.shared.take() {
            shared.retire();
            // What was written until then.
            memory.take_over(&pages.memory);
        }
        pages.memory = memory;
        pages.locked = pinned;
        Ok(())
    }
}
