//! The bytes of a segment of this node, and whoever is notified of what others do with them.

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
};

use catena_core::segments::{Export, Notify};
use catena_segment::{Allow, Handles, Memory, MemoryError, Mode, Offer, RemoteError, RemoteMemory, Shared, View};
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
    pub(crate) memory: Arc<Memory>,
    shared: Option<Shared>,
    /// Who may reach the pages from another host, by the link over which he asked. An offer that is dropped has ended.
    offers: Vec<(u64, Offer)>,
    locked: bool,
    /// How often the pages were taken from others.
    round: u64,
}

/// That somebody was found to have a right to the pages, in this round: whatever is taken back after that is taken from him too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Approved(u64);

impl Pages {
    /// Takes the pages from all others who reach them. Says whether somebody may still hold them.
    fn take_back(&mut self) -> bool {
        self.round += 1;
        self.offers.clear();
        Arc::strong_count(&self.memory) > 1
    }
}

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
        let pages = Pages { memory: Arc::new(memory), shared: None, offers: Vec::new(), locked: false, round: 0 };
        Arc::new(Self { how, pages: RwLock::new(pages), notices: Notices::default() })
    }

    /// So many bytes of zeros in pages that are there to be mapped by a partner. They take no room until they are touched.
    pub(crate) fn lent(bytes: u64) -> Result<Arc<Self>, MemoryError> {
        // Not sealed against writing: so they can be given back to the system whatever the partner does, and nobody but that partner reads what it may spoil.
        let (shared, memory) = Shared::zeros(bytes, Mode::Writable, false)?;
        let how = Export::default();
        shared.set_flags(flags_of(&how));
        let pages =
            Pages { memory: Arc::new(memory), shared: Some(shared), offers: Vec::new(), locked: false, round: 0 };
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
            // Whoever reached the pages before asks anew, and finds those that come now.
            pages.offers.clear();
            if let Some(before) = pages.shared.take() {
                before.retire();
            }
            let mode = if write { Mode::Writable } else { Mode::ReadOnly };
            let (shared, memory) = Shared::of(&pages.memory, mode, pages.locked)?;
            shared.set_flags(flags_of(&self.how));
            pages.memory = Arc::new(memory);
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

    /// Lets a partner on another host reach the pages as they are now; in the place of what he had by the same link. Gives what to tell him.
    /// `None`: it was taken back meanwhile.
    pub(crate) fn offer(
        &self,
        link: u64,
        by: &dyn RemoteMemory,
        allow: Allow,
        approved: Approved,
    ) -> Option<Result<Vec<u8>, RemoteError>> {
        let mut pages = self.pages.write().unwrap_or_else(PoisonError::into_inner);
        if approved != Approved(pages.round) {
            return None;
        }
        pages.offers.retain(|(of, _)| *of != link);
        let mut offer = match by.offer(Arc::clone(&pages.memory), allow) {
            Ok(offer) => offer,
            Err(why) => return Some(Err(why)),
        };
        let token = std::mem::take(&mut offer.token);
        pages.offers.push((link, offer));
        Some(Ok(token))
    }

    /// Ends what was offered by a link.
    pub(crate) fn no_more_by(&self, link: u64) {
        let mut pages = self.pages.write().unwrap_or_else(PoisonError::into_inner);
        pages.offers.retain(|(of, _)| *of != link);
    }

    /// Moves to pages of this process alone, if others map those that it is on: nothing that they do is seen any more. What is under way here is over
    /// when this returns. If there is no room for other pages the bytes are given up.
    pub(crate) fn withdraw(&self) -> Result<(), MemoryError> {
        let mut pages = self.pages.write().unwrap_or_else(PoisonError::into_inner);
        let (held, shared) = (pages.take_back(), pages.shared.take());
        match &shared {
            Some(shared) => shared.retire(),
            None if held => {}
            None => return Ok(()),
        }
        match pages.memory.fresh(pages.locked) {
            Ok(memory) => {
                pages.memory = Arc::new(memory);
                shared.iter().for_each(Shared::discard);
                Ok(())
            }
            Err(why) => {
                pages.memory = Arc::new(Memory::own(0)?);
                Err(why)
            }
        }
    }

    /// The same where nothing is to be left or waited for; says whether it is so.
    pub(crate) fn withdraw_at_once(&self) -> bool {
        let Ok(mut pages) = self.pages.try_write() else { return false };
        let alone = pages.shared.is_none() && pages.offers.is_empty();
        // Whoever still holds them must not find what comes later.
        alone && !pages.take_back()
    }

    /// Nobody here needs the bytes any more: whoever shares the pages learns of it.
    pub(crate) fn retire(&self) {
        let mut pages = self.pages.write().unwrap_or_else(PoisonError::into_inner);
        pages.take_back();
        if let Some(shared) = pages.shared.take() {
            shared.retire();
            shared.discard();
        }
    }

    /// Keeps the pages in memory, or lets them go.
    pub(crate) fn pin(&self, pinned: bool) -> Result<(), MemoryError> {
        let mut pages = self.pages.write().unwrap_or_else(PoisonError::into_inner);
        pages.offers.clear();
        let memory = pages.memory.fresh(pinned)?;
        if let Some(shared) = pages.shared.take() {
            shared.retire();
            // What was written until then.
            memory.take_over(&pages.memory);
        }
        pages.memory = Arc::new(memory);
        pages.locked = pinned;
        Ok(())
    }
}
