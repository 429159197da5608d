//! The importer's handle of a segment of another node. Which way an access takes is decided here, and nowhere else.

use std::{
    sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, atomic::AtomicBool},
    time::{Duration, Instant},
};

use bytes::Bytes;
use catena_core::segments::{Import, ImportId};
use catena_net::Link;
use catena_segment::{Attached, Bell, Width};
use catena_wire::{Exception, Fault, NodeRef, Order, SegmentRefusal, names};

use super::{
    door,
    errors::{of_memory, of_refusal},
    mapped::Mapped,
    near::{Near, NearResult},
    serve::{turn, turned},
};
use crate::shell::{Shell, lock};

/// How long an owner that did not share its memory is not asked again.
const ATTACH_AGAIN: Duration = Duration::from_millis(500);

/// The way that accesses take now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Copies and atomic instructions in memory that both nodes have mapped.
    SharedMemory,
    /// Messages over the link between the nodes.
    Link,
}

/// How a READ or WRITE is wished.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wish {
    /// Notify the owner, if it wants to be where asked ([`catena_core::segments::Notify::IfAsked`]).
    pub notify: bool,
    /// What the bytes are: turned by the owner where its words have another order.
    pub order: Order,
}

/// A segment of another node. Cheap to clone; imported until the last clone is dropped.
///
/// Everything may be dropped at any time. A READ that is dropped leaves nothing behind; a WRITE that was taken goes on.
#[derive(Clone)]
pub struct Imported {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) shell: Arc<Shell>,
    pub(super) id: ImportId,
    pub(super) owner: Arc<NodeRef>,
    /// `owner/name`, for people.
    pub(super) shown: String,
    pub(super) bytes: u64,
    /// By a grant, of which each request is a use.
    pub(super) granted: bool,
    /// Its pages may be mapped, as far as this node knows: a grant is for requests, but for one of all that there is.
    maps: bool,
    /// Answers to READs could not be mapped: they come by the link.
    pub(super) plain: AtomicBool,
    link: Mutex<Option<Arc<Link>>>,
    /// The pages as they were mapped first, which is how most segments stay: reached without a lock.
    first: OnceLock<Arc<Near>>,
    /// What came after those.
    near: RwLock<Nearness>,
}

#[derive(Default)]
struct Nearness {
    near: Option<Arc<Near>>,
    /// When the owner last did not share, or shared less than was wanted.
    refused: Option<Instant>,
}

impl std::fmt::Debug for Imported {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Imported").field("segment", &self.inner.shown).field("way", &self.way()).finish()
    }
}

impl Imported {
    pub(super) fn new(shell: &Arc<Shell>, id: ImportId, owner: Arc<NodeRef>, link: Arc<Link>) -> Option<Self> {
        let (bytes, name, granted) = {
            let machine = shell.segments.machine();
            let import: &Import = machine.importer.get(id)?;
            (import.entry.bytes, import.entry.name.clone(), import.grant.is_some())
        };
        let shown = format!("{}/{name}", owner.name);
        let (shell, link, near) = (Arc::clone(shell), Mutex::new(Some(link)), RwLock::default());
        let (maps, plain, first) = (!granted, AtomicBool::new(false), OnceLock::new());
        Some(Self {
            inner: Arc::new(Inner { shell, id, owner, shown, bytes, granted, maps, plain, link, first, near }),
        })
    }

    /// The same, of which the pages may be mapped. To be said before anything is done with it.
    pub(super) fn mappable(mut self) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.maps = true;
        }
        self
    }

    /// Its size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.inner.bytes
    }

    /// The node that owns it.
    #[must_use]
    pub fn owner(&self) -> &NodeRef {
        &self.inner.owner
    }

    /// Its generation at its owner, and whether it is known to be stale.
    #[must_use]
    pub fn generation(&self) -> Option<(u64, bool)> {
        let machine = self.inner.shell.segments.machine();
        let import = machine.importer.get(self.inner.id)?;
        Some((import.entry.generation, import.stale.is_some()))
    }

    /// The way that accesses take now.
    #[must_use]
    pub fn way(&self) -> Way {
        let near = self.on_pages(false, |near| near.is_live());
        if near == Some(true) { Way::SharedMemory } else { Way::Link }
    }

    /// READ: brings `count` bytes from `offset` on. Longer ones go in pieces, several at a time: between pieces the owner may write.
    ///
    /// # Errors
    /// `OutOfBounds`, `NoRight`, `SegmentRevoked`, `SegmentStale`, `OwnerSilent`, `OwnerLost`.
    pub async fn read(&self, offset: u64, count: u64) -> Result<Bytes, Exception> {
        self.read_as(offset, count, Wish::default()).await
    }

    /// READ as wished.
    ///
    /// # Errors
    /// As [`Imported::read`]; `Unaligned`: words do not fill the range.
    pub async fn read_as(&self, offset: u64, count: u64, wish: Wish) -> Result<Bytes, Exception> {
        let room = usize::try_from(count).ok().filter(|_| count <= self.inner.bytes);
        let Some(room) = room else {
            return Err(self.refused("READ", SegmentRefusal::OutOfBounds(self.inner.bytes)));
        };
        if self.near_for(false).await {
            let mut out = vec![0; room];
            match self.pages_do(false, |near| near.read(offset, &mut out, wish.notify)) {
                NearResult::Done(()) => {
                    self.check_order("READ", count, wish.order)?;
                    turn(&mut out, wish.order);
                    return Ok(out.into());
                }
                NearResult::Wrong(why) => return Err(of_memory(&why)),
                NearResult::Elsewhere | NearResult::Unknown => self.leave(),
            }
        }
        Box::pin(self.read_far(offset, count, wish)).await
    }

    /// READ into memory of one's own, for whoever reads again and again.
    ///
    /// # Errors
    /// As [`Imported::read`].
    pub async fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), Exception> {
        if self.near_for(false).await {
            match self.pages_do(false, |near| near.read(offset, out, false)) {
                NearResult::Done(()) => return Ok(()),
                NearResult::Wrong(why) => return Err(of_memory(&why)),
                NearResult::Elsewhere | NearResult::Unknown => self.leave(),
            }
        }
        let data = Box::pin(self.read_far(offset, out.len() as u64, Wish::default())).await?;
        out.copy_from_slice(&data);
        Ok(())
    }

    /// READ into a segment of this node; `notify`: tells whoever listens there that it has come.
    ///
    /// # Errors
    /// As [`Imported::read`]; `OutOfBounds`: it does not fit there.
    pub async fn read_to(
        &self,
        offset: u64,
        count: u64,
        to: &super::Segment,
        at: u64,
        notify: bool,
    ) -> Result<(), Exception> {
        let data = self.read(offset, count).await?;
        to.write(at, &data)?;
        if notify {
            to.exported().notices.tell(self.inner.owner.id, super::Access::Write, at, count);
        }
        Ok(())
    }

    /// WRITE: puts bytes to `offset`. Returns when they are taken, and waits only for room: that they are there is for [`Imported::flush`] to say. Writes
    /// of one node to one owner are done in the order in which they were made, for as long as the link between them lives.
    ///
    /// # Errors
    /// What is known at once: `OutOfBounds`, `SegmentStale`, `OwnerLost`. Everything else is told by the next flush.
    pub async fn write(&self, offset: u64, bytes: impl Into<Bytes>) -> Result<(), Exception> {
        self.write_as(offset, bytes, Wish::default()).await
    }

    /// WRITE as wished.
    ///
    /// # Errors
    /// As [`Imported::write`].
    pub async fn write_as(&self, offset: u64, bytes: impl Into<Bytes>, wish: Wish) -> Result<(), Exception> {
        let bytes: Bytes = bytes.into();
        if self.near_for(true).await {
            self.check_order("WRITE", bytes.len() as u64, wish.order)?;
            // On one host there is one order.
            let turned = turned(&bytes, wish.order);
            let data = turned.as_deref().unwrap_or(&bytes);
            match self.pages_do(true, |near| near.write(offset, data, wish.notify)) {
                NearResult::Done(()) => return Ok(()),
                NearResult::Wrong(why) => return Err(of_memory(&why)),
                NearResult::Elsewhere | NearResult::Unknown => self.leave(),
            }
        }
        Box::pin(self.write_far(offset, bytes, wish)).await
    }

    /// Waits until everything written before has been done.
    ///
    /// # Errors
    /// The first of what was refused since the last flush. `OwnerLost`, `OwnerSilent`: `unknown`.
    pub async fn flush(&self) -> Result<(), Exception> {
        self.flush_far().await
    }

    /// CAS: puts `new` in the place of the aligned word of 8 bytes at `offset` if that is `old`. Gives what was there: `old` if it was done.
    ///
    /// # Errors
    /// `Unaligned`, and as [`Imported::read`]. `OwnerLost`, `OwnerSilent` and `SegmentMoved` are `unknown`: it may have been done.
    pub async fn cas(&self, offset: u64, old: u64, new: u64) -> Result<u64, Exception> {
        self.swap(offset, Width::Eight, old, new, false).await
    }

    /// The same with a word of 4 bytes.
    ///
    /// # Errors
    /// As [`Imported::cas`].
    pub async fn cas4(&self, offset: u64, old: u32, new: u32) -> Result<u32, Exception> {
        Ok(self.swap(offset, Width::Four, old.into(), new.into(), false).await? as u32)
    }

    async fn swap(&self, offset: u64, width: Width, old: u64, new: u64, notify: bool) -> Result<u64, Exception> {
        if self.near_for(true).await {
            match self.pages_do(true, |near| near.cas(offset, width, old, new, notify)) {
                NearResult::Done(was) => return Ok(was),
                NearResult::Wrong(why) => return Err(of_memory(&why)),
                NearResult::Elsewhere => self.leave(),
                NearResult::Unknown => {
                    self.leave();
                    let text = format!(
                        "CAS of {}: its owner left the shared pages at that moment; read the word to see",
                        self.inner.shown
                    );
                    return Err(Exception::new(names::SEGMENT_MOVED, Fault::Node, text).outcome_unknown());
                }
            }
        }
        Box::pin(self.swap_far(offset, width.bytes() as u8, old, new, notify)).await
    }

    /// Where the bytes lie, if they are in shared memory: for whoever reads them in place. They may be written if `write` was asked for and this importer may.
    ///
    /// # Errors
    /// `NoRight`: the memory is not shared, or not for writing.
    pub async fn map(&self, write: bool) -> Result<Mapped, Exception> {
        let mapped = match self.near_for(write).await {
            true => self.on_pages(write, |near| Some(Mapped::of_import(near.view()?, Arc::clone(near)))).flatten(),
            false => None,
        };
        mapped.ok_or_else(|| {
            let how = if write { "for writing" } else { "for reading" };
            let text = format!(
                "{} is not shared {how} with this process: it is on another host, shares no memory, or gives no right; use READ and WRITE",
                self.inner.shown
            );
            Exception::new(names::NO_RIGHT, Fault::Caller, text)
        })
    }

    // The way.

    /// Does something with the pages that are mapped here, if they are, and may be written to where that is needed.
    fn on_pages<T>(&self, write: bool, act: impl FnOnce(&Arc<Near>) -> T) -> Option<T> {
        let enough = |near: &Arc<Near>| near.is_writable() || !write;
        if let Some(first) = self.inner.first.get()
            && enough(first)
            && first.is_live()
        {
            return Some(act(first));
        }
        let nearness = self.inner.near.read().unwrap_or_else(PoisonError::into_inner);
        nearness.near.as_ref().filter(|near| enough(near)).map(act)
    }

    fn pages_do<T>(&self, write: bool, access: impl FnOnce(&Arc<Near>) -> NearResult<T>) -> NearResult<T> {
        self.on_pages(write, access).unwrap_or(NearResult::Elsewhere)
    }

    /// The pages, apart from what else is known of the segment: whoever keeps them keeps nothing of this node. `None`: they are not mapped here, and cannot be.
    pub(crate) async fn pages(&self, write: bool) -> Option<Arc<Near>> {
        let mapped = self.near_for(write).await;
        mapped.then(|| self.on_pages(write, Arc::clone)).flatten()
    }

    /// Whether this access can go to shared memory: to what is mapped, or what is by asking for it, unless the owner refused a moment ago.
    async fn near_for(&self, write: bool) -> bool {
        // Memory never makes anybody wait: whoever only reads it would keep its thread from all others.
        tokio::task::coop::consume_budget().await;
        if self.on_pages(write, |_| ()).is_some() {
            return true;
        }
        let lately = {
            let nearness = self.inner.near.read().unwrap_or_else(PoisonError::into_inner);
            nearness.refused.is_some_and(|since| since.elapsed() < ATTACH_AGAIN)
        };
        if lately || !self.inner.maps || self.inner.shell.segments.host.is_none() {
            return false;
        }
        // The long ways are boxed, here and above: else each access in memory would carry the state of a request in its own, and copy it about.
        Box::pin(self.come_near(write)).await
    }

    async fn come_near(&self, write: bool) -> bool {
        // What goes by the link must not be overtaken in memory.
        if !self.inner.shell.segments.machine().importer.is_flushed(self.inner.id) {
            return false;
        }
        let near = self.attach(write).await;
        let mut nearness = self.inner.near.write().unwrap_or_else(PoisonError::into_inner);
        let Some(near) = near else {
            nearness.refused = Some(Instant::now());
            return false;
        };
        let enough = near.is_writable() || !write;
        nearness.refused = (!enough).then(Instant::now);
        nearness.near = self.inner.first.set(Arc::new(near)).err();
        enough
    }

    /// The pages are not the segment's any more.
    fn leave(&self) {
        let mut nearness = self.inner.near.write().unwrap_or_else(PoisonError::into_inner);
        if nearness.near.as_ref().is_some_and(|near| !near.is_live()) {
            nearness.near = None;
        }
    }

    /// Asks the owner to share its pages, and maps them.
    async fn attach(&self, write: bool) -> Option<Near> {
        let host = self.inner.shell.segments.host?;
        let ticket = self.ask_to_attach(host, write).await?;
        let parcel = door::fetch(self.inner.owner.id, ticket).await.ok()?;
        let (handles, bell, bytes) = (parcel.handles, parcel.bell, self.inner.bytes);
        let attached = match write {
            true => Attached::to(&handles, bytes, true).map(|attached| (attached, true)),
            false => Err(catena_segment::MemoryError::ReadOnly),
        };
        let attached = attached.or_else(|_| Attached::to(&handles, bytes, false).map(|attached| (attached, false)));
        let (attached, writable) = attached.ok()?;
        Some(Near::new(attached, writable, Bell::of(bell)))
    }

    /// The link to the owner: the last one, or a new one to the same run of it.
    pub(super) async fn link(&self, what: &str) -> Result<Arc<Link>, Exception> {
        if let Some(link) = lock(&self.inner.link).as_ref().filter(|link| link.ended().is_none()) {
            return Ok(Arc::clone(link));
        }
        let Some(link) = self.inner.shell.dial(&self.inner.owner).await else {
            return Err(Exception { unknown: false, ..self.refused(what, SegmentRefusal::OwnerLost) });
        };
        *lock(&self.inner.link) = Some(Arc::clone(&link));
        Ok(link)
    }

    pub(super) fn refused(&self, what: &str, why: SegmentRefusal) -> Exception {
        of_refusal(&format!("{what} of {}", self.inner.shown), why)
    }

    fn check_order(&self, what: &str, count: u64, order: Order) -> Result<(), Exception> {
        match order {
            Order::Bytes => Ok(()),
            Order::Little(width @ (2 | 4 | 8)) | Order::Big(width @ (2 | 4 | 8))
                if count.is_multiple_of(width.into()) =>
            {
                Ok(())
            }
            _ => Err(self.refused(what, SegmentRefusal::Unaligned)),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shell.segments.machine().importer.release(self.id);
    }
}
