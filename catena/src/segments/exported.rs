//! The bytes of a segment of this node, and who is notified of other nodes' accesses to them.

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
};

use catena_core::segments::{Export, Notify};
use catena_segment::{Allow, Handles, Memory, MemoryError, Mode, Offer, RemoteError, RemoteMemory, Shared, View};
use catena_wire::Rights;

use super::notices::Notices;

/// From the start, segments of at least this many bytes are on pages that others may map. This takes two descriptors of the process, so it is for few.
const SHARED_BYTES_MIN: u64 = 64 << 20;

/// A segment's bytes, in whichever pages they are now.
#[derive(Debug)]
pub(crate) struct Exported {
    how: Export,
    pages: RwLock<Pages>,
    pub(crate) notices: Notices,
}

/// The pages, and the means by which others reach them.
#[derive(Debug)]
pub(crate) struct Pages {
    pub(crate) memory: Arc<Memory>,
    shared: Option<Shared>,
    /// The offers by which partners on other hosts reach the pages, with the link over which each asked. Dropping an offer ends it.
    offers: Vec<(u64, Offer)>,
    locked: bool,
    /// How often access to the pages was taken back from others.
    round: u64,
}

/// Proof that in this round somebody had a right to the pages: if rights are taken back after it was checked, the round has changed and it does not count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Approved(u64);

impl Pages {
    /// Takes the pages back from everybody else who reaches them. Returns whether somebody may still hold them.
    fn take_back(&mut self) -> bool {
        self.round += 1;
        self.offers.clear();
        Arc::strong_count(&self.memory) > 1
    }
}

/// What everybody may do with the pages.
fn mode_of(how: &Export) -> Mode {
    match how.anyone.include(Rights::WRITE) || how.anyone.include(Rights::CAS) {
        true => Mode::Writable,
        false => Mode::ReadOnly,
    }
}

/// How processes that share the pages see what to notify of: two bits for reads, two for writes.
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

/// Whether an access notifies the owner, according to these flags.
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

    /// A segment of zeros. A large one that others may map (`may_share`) is on pages for that from the start: to move it there once they import it would take
    /// long, and whoever used it meanwhile would wait.
    pub(crate) fn zeros(bytes: u64, how: Export, may_share: bool) -> Result<Arc<Self>, MemoryError> {
        if may_share
            && bytes >= SHARED_BYTES_MIN
            && let Ok(mapped) = Self::mapped(bytes, mode_of(&how), how)
        {
            return Ok(mapped);
        }
        Ok(Self::new(Memory::own(bytes)?, how))
    }

    /// Zeroed pages of this size, to be mapped by a partner.
    pub(crate) fn lent(bytes: u64) -> Result<Arc<Self>, MemoryError> {
        // Not sealed against writing, so that they can be given back to the system whatever the partner does; what it may spoil is read by that partner alone.
        Self::mapped(bytes, Mode::Writable, Export::default())
    }

    /// Zeroed pages that others may map. They take no memory until they are touched.
    fn mapped(bytes: u64, mode: Mode, how: Export) -> Result<Arc<Self>, MemoryError> {
        let (shared, memory) = Shared::zeros(bytes, mode, false)?;
        shared.set_flags(flags_of(&how));
        let pages =
            Pages { memory: Arc::new(memory), shared: Some(shared), offers: Vec::new(), locked: false, round: 0 };
        Ok(Arc::new(Self { how, pages: RwLock::new(pages), notices: Notices::default() }))
    }

    /// Read-locks the pages: while the guard is held the segment does not move to other pages.
    pub(crate) fn hold(&self) -> RwLockReadGuard<'_, Pages> {
        self.pages.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Must be called before anybody else can reach the machine that granted the right.
    pub(crate) fn approved(&self) -> Approved {
        Approved(self.hold().round)
    }

    /// Moves the bytes to pages that others may map, unless they are on such already, and returns the handles by which another process maps them.
    pub(crate) fn share(&self, write: bool, approved: Approved) -> Result<(Handles, OwnedFd), MemoryError> {
        let mut pages = self.pages.write().unwrap_or_else(PoisonError::into_inner);
        if approved != Approved(pages.round) {
            return Err(MemoryError::Foreign("was taken back meanwhile"));
        }
        let enough = pages.shared.as_ref().is_some_and(|shared| !write || shared.mode() == Mode::Writable);
        if !enough {
            // Whoever reached the old pages has to ask again, and then gets the new ones.
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

    /// A view of the pages, already placed where they stay when others import them with everybody's rights.
    pub(crate) fn view(&self) -> Result<View, MemoryError> {
        self.share(mode_of(&self.how) == Mode::Writable, self.approved())?;
        self.hold().memory.view().ok_or(MemoryError::Foreign("is not shared"))
    }

    /// Lets a partner on another host reach the current pages, in place of what it had by the same link. Returns the token for that partner. `None`: the right
    /// was taken back meanwhile.
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

    /// Ends the offer that was made over a link.
    pub(crate) fn no_more_by(&self, link: u64) {
        let mut pages = self.pages.write().unwrap_or_else(PoisonError::into_inner);
        pages.offers.retain(|(of, _)| *of != link);
    }

    /// Moves the bytes to private pages of this process if others map the current ones, so that nothing they do is seen any more. When this returns, accesses
    /// under way here are over. Without memory for new pages the bytes are lost.
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

    /// The same without waiting, where nobody shares the pages; returns whether that was so.
    pub(crate) fn withdraw_at_once(&self) -> bool {
        let Ok(mut pages) = self.pages.try_write() else { return false };
        let alone = pages.shared.is_none() && pages.offers.is_empty();
        // Whoever still holds the pages must not see what is written later.
        alone && !pages.take_back()
    }

    /// The bytes are not needed here any more; those who share the pages can see that.
    pub(crate) fn retire(&self) {
        let mut pages = self.pages.write().unwrap_or_else(PoisonError::into_inner);
        pages.take_back();
        if let Some(shared) = pages.shared.take() {
            shared.retire();
            shared.discard();
        }
    }

    /// Pins the pages in memory, or unpins them.
    pub(crate) fn pin(&self, pinned: bool) -> Result<(), MemoryError> {
        let mut pages = self.pages.write().unwrap_or_else(PoisonError::into_inner);
        pages.offers.clear();
        let memory = pages.memory.fresh(pinned)?;
        if let Some(shared) = pages.shared.take() {
            shared.retire();
            // Includes what was written until the pages were locked.
            memory.take_over(&pages.memory);
        }
        pages.memory = Arc::new(memory);
        pages.locked = pinned;
        Ok(())
    }
}
