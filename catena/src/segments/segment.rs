//! The owner's handle of a segment.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use catena_core::segments::{Export, Grant, SegmentId};
use catena_segment::{Memory, Width};
use catena_wire::{At, Exception, NodeId, Rights, SegmentRefusal};

use super::{
    errors::{of_export, of_memory, of_refusal},
    exported::Exported,
    hub::Hub,
    mapped::Mapped,
    notices::{Notice, Notifications},
};
use crate::random;

/// Memory of this node that other nodes may use. Cheap to clone; it is exported until [`Segment::revoke`], or until the last clone is dropped.
///
/// The owner itself may always read and write it, even while writes are inhibited.
#[derive(Clone, Debug)]
pub struct Segment {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    hub: Arc<Hub>,
    name: Box<str>,
    id: SegmentId,
    exported: Arc<Exported>,
}

/// What a grant allows one partner: a number of requests within a range, for a limited time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GrantTerms {
    /// The operations that it allows.
    pub rights: Rights,
    /// The first byte of the range.
    pub offset: u64,
    /// The length of the range in bytes.
    pub bytes: u64,
    /// How many requests it allows. Reads and writes of more than a piece (256 KiB) take several.
    pub uses: u32,
    /// How long it lasts.
    pub lasts: Duration,
}

/// A grant, to be passed to its partner in any way: it is valid for that node alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Granted {
    /// The owner.
    pub owner: NodeId,
    /// The segment's place, with the number of the grant.
    pub at: At,
    /// The segment's size.
    pub bytes: u64,
}

impl Segment {
    pub(crate) fn export(hub: &Arc<Hub>, name: &str, bytes: u64, how: Export) -> Result<Self, Exception> {
        // Checked before memory is taken: a request that is too large must cost nothing.
        if bytes > hub.policy.segment_bytes_max {
            let limit = catena_core::segments::ExportError::Limit("segment_bytes_max");
            return Err(of_export(name, &limit));
        }
        let exported = Exported::zeros(bytes, how, hub.host.is_some()).map_err(|why| of_memory(&why))?;
        Self::of(hub, name, exported, how)
    }

    /// A segment of these bytes, which never change: for partners that get grants of parts of it.
    pub(crate) fn of_bytes(hub: &Arc<Hub>, name: &str, bytes: Bytes) -> Result<Self, Exception> {
        let how = Export::default();
        Self::of(hub, name, Exported::new(Memory::frozen(bytes), how), how)
    }

    fn of(hub: &Arc<Hub>, name: &str, exported: Arc<Exported>, how: Export) -> Result<Self, Exception> {
        let id = hub.export(name, how, &exported).map_err(|why| of_export(name, &why))?;
        Ok(Self { inner: Arc::new(Inner { hub: Arc::clone(hub), name: name.into(), id, exported }) })
    }

    /// Makes a segment for one partner alone, which may map it, and the grant by which it may.
    pub(crate) fn lend(
        hub: &Arc<Hub>,
        name: &str,
        (to, rights): (NodeId, Rights),
        bytes: u64,
    ) -> Result<(Self, Granted), Exception> {
        /// The grant ends with the segment.
        const EVER: Duration = Duration::from_secs(1 << 40);
        let exported = Exported::lent(bytes).map_err(|why| of_memory(&why))?;
        let segment = Self::of(hub, name, exported, Export::default())?;
        let terms = GrantTerms { rights, offset: 0, bytes, uses: u32::MAX, lasts: EVER };
        let granted = segment.grant(to, terms)?;
        Ok((segment, granted))
    }

    /// The segment's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The segment's number and generation.
    #[must_use]
    pub fn id(&self) -> SegmentId {
        self.inner.id
    }

    /// The node that owns the segment: this one.
    #[must_use]
    pub fn owner(&self) -> NodeId {
        self.inner.hub.me
    }

    /// The segment's bytes in pages that importers on this host share, to be written or read in place.
    ///
    /// # Errors
    /// The system has no memory or no descriptor left.
    pub fn map(&self) -> Result<Mapped, Exception> {
        let view = self.inner.exported.view().map_err(|why| of_memory(&why))?;
        Ok(Mapped::of_segment(view, Arc::clone(&self.inner.exported)))
    }

    /// The segment's size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.inner.exported.hold().memory.bytes()
    }

    pub(super) fn exported(&self) -> &Arc<Exported> {
        &self.inner.exported
    }

    /// Copies `out.len()` bytes from `offset` on.
    ///
    /// # Errors
    /// `OutOfBounds`
    pub fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), Exception> {
        self.inner.exported.hold().memory.read(offset, out).map_err(|why| of_memory(&why))
    }

    /// Copies `bytes` to `offset`. Aligned words of 8 bytes are written whole.
    ///
    /// # Errors
    /// `OutOfBounds`
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Exception> {
        self.inner.exported.hold().memory.write(offset, bytes).map_err(|why| of_memory(&why))
    }

    /// `count` bytes from `offset` on, without copying if they never change.
    pub(crate) fn part(&self, offset: u64, count: u64) -> Result<Bytes, Exception> {
        let pages = self.inner.exported.hold();
        if let Some(part) = pages.memory.part(offset, count) {
            return Ok(part);
        }
        let mut copy = vec![0; count as usize];
        pages.memory.read(offset, &mut copy).map_err(|why| of_memory(&why))?;
        Ok(copy.into())
    }

    /// Copies a range of other memory to `offset`.
    pub(crate) fn write_from(
        &self,
        offset: u64,
        from: &Memory,
        (at, count): (u64, u64),
    ) -> Result<(), catena_segment::MemoryError> {
        /// Bytes copied at one time, through a buffer in the first-level cache.
        const STEP: usize = 4_096;
        let (mut step, pages) = ([0; STEP], self.inner.exported.hold());
        for done in (0..count).step_by(STEP) {
            let step = &mut step[..STEP.min((count - done) as usize)];
            from.read(at + done, step)?;
            pages.memory.write(offset + done, step)?;
        }
        Ok(())
    }

    /// Replaces the aligned word of 8 bytes at `offset` by `new` if it equals `old`; returns the word before. Atomic towards every other CAS on it.
    ///
    /// # Errors
    /// `OutOfBounds`, `Unaligned`
    pub fn cas(&self, offset: u64, old: u64, new: u64) -> Result<u64, Exception> {
        let pages = self.inner.exported.hold();
        pages.memory.compare_and_swap(offset, Width::Eight, old, new).map_err(|why| of_memory(&why))
    }

    /// Like [`Segment::cas`], on a word of 4 bytes.
    ///
    /// # Errors
    /// `OutOfBounds`, `Unaligned`
    pub fn cas4(&self, offset: u64, old: u32, new: u32) -> Result<u32, Exception> {
        let pages = self.inner.exported.hold();
        let was = pages.memory.compare_and_swap(offset, Width::Four, old.into(), new.into());
        was.map(|was| was as u32).map_err(|why| of_memory(&why))
    }

    /// Gives one importer rights of its own instead of those that everybody has; [`Rights::NONE`] takes all rights from it. When this returns, no access that
    /// is now forbidden is under way any more.
    ///
    /// # Errors
    /// `SegmentRevoked`; `Overloaded`: too many have rights of their own.
    pub async fn allow(&self, importer: NodeId, rights: Rights) -> Result<(), Exception> {
        let fewer = self.inner.hub.machine().owner.exports.set_rights(self.inner.id, importer, rights);
        match fewer.map_err(|why| self.refused("change of rights", why))? {
            true => self.withdraw().await,
            false => Ok(()),
        }
    }

    /// Stops writes and swaps by all other nodes, or allows them again to those with the right. When this returns, no write of others is under way.
    ///
    /// # Errors
    /// `SegmentRevoked`
    pub async fn inhibit_writes(&self, inhibited: bool) -> Result<(), Exception> {
        let changed = self.inner.hub.machine().owner.exports.inhibit_writes(self.inner.id, inhibited);
        match changed.map_err(|why| self.refused("write inhibit", why))? {
            // Needed when writes are allowed again, too: those who share the memory then ask for writable pages.
            true => self.withdraw().await,
            false => Ok(()),
        }
    }

    /// Grants a partner what `terms` say.
    ///
    /// # Errors
    /// `SegmentRevoked`, `OutOfBounds`; `Overloaded`: too many grants exist.
    pub fn grant(&self, to: NodeId, terms: GrantTerms) -> Result<Granted, Exception> {
        self.grant_any(Some(to), terms)
    }

    /// Like [`Segment::grant`]; `None`: to whoever knows the grant's number.
    pub(crate) fn grant_any(&self, to: Option<NodeId>, terms: GrantTerms) -> Result<Granted, Exception> {
        let Inner { hub, id, .. } = &*self.inner;
        let until = hub.now().after(u64::try_from(terms.lasts.as_micros()).unwrap_or(u64::MAX));
        let GrantTerms { rights, offset, bytes, uses, .. } = terms;
        let grant = Grant { to, rights, offset, bytes, uses, until };
        let granted = hub.machine().owner.grant(hub.now(), *id, random::bits64(), grant);
        let granted = granted.map_err(|why| self.refused("grant", why))?;
        let at = At { number: id.number, generation: id.generation, offset, grant: Some(granted) };
        Ok(Granted { owner: hub.me, at, bytes: self.bytes() })
    }

    /// Takes a grant back; returns whether it was still valid.
    pub fn take_back(&self, granted: &Granted) -> bool {
        granted.at.grant.is_some_and(|grant| self.inner.hub.machine().owner.take_back(grant))
    }

    /// Pins the segment's pages in memory, or lets them be swapped out again.
    ///
    /// # Errors
    /// `LimitExceeded`: the node may not pin more (`pinned_bytes_max`); `Overloaded`: the system refuses to (`RLIMIT_MEMLOCK`).
    pub async fn pin(&self, pinned: bool) -> Result<(), Exception> {
        let Inner { hub, id, .. } = &*self.inner;
        let changed = hub.machine().owner.exports.pin(*id, pinned).map_err(|why| self.refused("pinning", why))?;
        if !changed {
            return Ok(());
        }
        let exported = Arc::clone(&self.inner.exported);
        let done = apart(move || exported.pin(pinned)).await;
        if done.is_err() {
            let _ = hub.machine().owner.exports.pin(*id, !pinned);
        }
        done
    }

    /// Revokes the segment. When this returns, others neither read nor change any byte of it any more; this node keeps the bytes.
    ///
    /// # Errors
    /// `Overloaded`: others share the pages, and there was no memory to move to private ones: the bytes are lost.
    pub async fn revoke(&self) -> Result<(), Exception> {
        self.inner.hub.revoke(&self.inner.name, self.inner.id);
        self.withdraw().await
    }

    /// Waits for accesses under way, and leaves pages that others share.
    async fn withdraw(&self) -> Result<(), Exception> {
        // The usual case, above all for buffers of a single answer; waking a thread would take longer.
        if self.inner.exported.withdraw_at_once() {
            return Ok(());
        }
        let exported = Arc::clone(&self.inner.exported);
        apart(move || exported.withdraw()).await
    }

    /// A stream of what others do with the segment, as far as the owner asked to be notified ([`Export::on_read`], [`Export::on_write`]).
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn notifications(&self) -> Result<Notifications, Exception> {
        Notifications::of(Arc::clone(&self.inner.exported))
    }

    /// Completes at the next access over a link, after this call, that notifies the owner.
    pub(crate) fn written(&self) -> tokio::sync::futures::Notified<'_> {
        self.inner.exported.notices.told.notified()
    }

    /// A descriptor that is readable when there is a notification, for other event loops: [`Notifications::try_next`] takes the notification.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn notify_fd(&self) -> Result<std::os::fd::OwnedFd, Exception> {
        use std::os::fd::AsFd;
        let bell = self.inner.exported.notices.bell().map_err(|why| of_memory(&why))?;
        bell.as_fd().try_clone_to_owned().map_err(|why| of_memory(&why.into()))
    }

    /// Spawns a task that calls `handler` with each notification, until the segment is dropped.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn on_notice(&self, handler: impl Fn(Notice) + Send + 'static) -> Result<(), Exception> {
        let mut notifications = self.notifications()?;
        let alive = Arc::downgrade(&self.inner);
        self.inner.hub.runtime.spawn(async move {
            /// How often to check whether the segment still exists.
            const IDLE: Duration = Duration::from_secs(1);
            while alive.strong_count() > 0 {
                if let Ok(Some(notice)) = tokio::time::timeout(IDLE, notifications.next()).await {
                    handler(notice);
                }
            }
        });
        Ok(())
    }

    fn refused(&self, what: &str, why: SegmentRefusal) -> Exception {
        of_refusal(&format!("{what} of segment {}", self.inner.name), why)
    }
}

/// Copies a segment on a blocking thread.
async fn apart(
    work: impl FnOnce() -> Result<(), catena_segment::MemoryError> + Send + 'static,
) -> Result<(), Exception> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|why| of_memory(&std::io::Error::other(why).into()))?.map_err(|why| of_memory(&why))
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.hub.revoke(&self.name, self.id) {
            self.exported.retire();
        }
    }
}
