//! The importer's handle of a segment of another node.

use std::{
    cell::Cell,
    sync::{Arc, Mutex, OnceLock, RwLock, atomic::AtomicBool},
};

use bytes::Bytes;
use catena_core::segments::{Import, ImportId};
use catena_net::Link;
use catena_segment::{Reached, Width};
use catena_wire::{Exception, Fault, NodeRef, Order, SegmentRefusal, names};

use super::{
    errors::of_refusal,
    mapped::Mapped,
    near::Near,
    remote,
    serve::{turn, turned},
    way::{Chosen, Wants, Way, Ways},
};
use crate::shell::{Shell, lock};

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
    pub(super) maps: bool,
    /// Answers to READs could not be mapped: they come by the link.
    pub(super) plain: AtomicBool,
    link: Mutex<Option<Arc<Link>>>,
    /// The pages as they were mapped first, for reading and for writing, which is how most segments stay: reached without a lock.
    pub(super) firsts: [OnceLock<Arc<Near>>; 2],
    /// What came after those, and the ways beside.
    pub(super) ways: RwLock<Ways>,
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
            let import: &Import = machine.importer.imports.get(id)?;
            (import.entry.bytes, import.entry.name.clone(), import.grant.is_some())
        };
        let shown = format!("{}/{name}", owner.name);
        let (shell, link, ways) = (Arc::clone(shell), Mutex::new(Some(link)), RwLock::default());
        let (maps, plain, firsts) = (!granted, AtomicBool::new(false), Default::default());
        Some(Self {
            inner: Arc::new(Inner { shell, id, owner, shown, bytes, granted, maps, plain, link, firsts, ways }),
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
        let import = machine.importer.imports.get(self.inner.id)?;
        Some((import.entry.generation, import.stale.is_some()))
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
        self.read_by(offset, count, wish).await.map(|(data, _)| data)
    }

    /// READ as wished, and the way by which the bytes came.
    pub(crate) async fn read_by(&self, offset: u64, count: u64, wish: Wish) -> Result<(Bytes, Way), Exception> {
        let room = usize::try_from(count).ok().filter(|_| count <= self.inner.bytes);
        let Some(room) = room else {
            return Err(self.refused("READ", SegmentRefusal::OutOfBounds(self.inner.bytes)));
        };
        let mapped = || self.read_mapped(offset, room, wish).map(|read| read.map(|data| (data, Way::SharedMemory)));
        give_way(count).await;
        if let Some(read) = mapped() {
            return read;
        }
        match Box::pin(self.choose(Wants { bytes: count, write: false, wish })).await {
            Chosen::Near => {
                if let Some(read) = mapped() {
                    return read;
                }
            }
            Chosen::Remote(from) => {
                if let Some(data) = Box::pin(self.read_remote(&*from, offset, count, wish)).await? {
                    return Ok((data, Way::Rdma));
                }
            }
            Chosen::Link => {}
        }
        Box::pin(self.read_far(offset, count, wish)).await
    }

    /// `None`: it cannot be read in memory.
    fn read_mapped(&self, offset: u64, room: usize, wish: Wish) -> Option<Result<Bytes, Exception>> {
        self.on_pages(false, |_| ())?;
        let mut out = vec![0; room];
        Some(self.read_near(offset, &mut out, wish)?.map(|()| out.into()))
    }

    fn read_near(&self, offset: u64, out: &mut [u8], wish: Wish) -> Option<Result<(), Exception>> {
        if let Err(why) = self.check_order("READ", out.len() as u64, wish.order) {
            return Some(Err(why));
        }
        let read = self.in_memory(false, |near| near.read(offset, out, wish.notify))?;
        turn(out, wish.order);
        Some(read)
    }

    /// `None`: it has to go by the link.
    async fn read_remote(
        &self,
        from: &dyn Reached,
        offset: u64,
        count: u64,
        wish: Wish,
    ) -> Result<Option<Bytes>, Exception> {
        self.check_range("READ", offset, count)?;
        self.check_order("READ", count, wish.order)?;
        match remote::read(from, offset, count).await {
            Ok(data) => Ok(Some(match turned(&data, wish.order) {
                Some(turned) => turned.into(),
                None => data,
            })),
            Err(why) => {
                self.leave_remote(&why);
                Ok(None)
            }
        }
    }

    fn check_range(&self, what: &str, offset: u64, count: u64) -> Result<(), Exception> {
        match offset.checked_add(count) {
            Some(end) if end <= self.inner.bytes => Ok(()),
            _ => Err(self.refused(what, SegmentRefusal::OutOfBounds(self.inner.bytes))),
        }
    }

    /// READ into memory of one's own, for whoever reads again and again.
    ///
    /// # Errors
    /// As [`Imported::read`]. Some pieces may have come by then.
    pub async fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), Exception> {
        let (count, wish) = (out.len() as u64, Wish::default());
        give_way(count).await;
        if let Some(read) = self.read_near(offset, out, wish) {
            return read;
        }
        match Box::pin(self.choose(Wants { bytes: count, write: false, wish })).await {
            Chosen::Near => {
                if let Some(read) = self.read_near(offset, out, wish) {
                    return read;
                }
            }
            Chosen::Remote(from) => {
                if let Some(data) = Box::pin(self.read_remote(&*from, offset, count, wish)).await? {
                    out.copy_from_slice(&data);
                    return Ok(());
                }
            }
            Chosen::Link => {}
        }
        let mut left = out;
        let take = |piece: &[u8]| {
            // No answer has more bytes than were asked for.
            let (first, rest) = std::mem::take(&mut left).split_at_mut(piece.len());
            first.copy_from_slice(piece);
            left = rest;
        };
        Box::pin(self.read_pieces(offset, count, wish, take)).await.map(|_| ())
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
        self.deposit(&data, to, at, notify)
    }

    /// Puts what came of a request into a segment of this node.
    fn deposit(&self, data: &[u8], to: &super::Segment, at: u64, notify: bool) -> Result<(), Exception> {
        to.write(at, data)?;
        if notify {
            to.exported().notices.tell(self.inner.owner.id, super::Access::Write, at, data.len() as u64);
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
        give_way(bytes.len() as u64).await;
        if let Some(written) = self.write_near(offset, &bytes, wish) {
            return written;
        }
        // The long ways are boxed: else each access in memory would carry the state of a request in its own, and copy it about.
        Box::pin(self.write_anew(offset, bytes, wish)).await
    }

    async fn write_anew(&self, offset: u64, bytes: Bytes, wish: Wish) -> Result<(), Exception> {
        match self.choose(Wants { bytes: bytes.len() as u64, write: true, wish }).await {
            Chosen::Near => {
                if let Some(written) = self.write_near(offset, &bytes, wish) {
                    return written;
                }
            }
            Chosen::Remote(to) => {
                if Box::pin(self.write_remote(&*to, offset, &bytes, wish)).await? {
                    return Ok(());
                }
            }
            Chosen::Link => {}
        }
        Box::pin(self.write_far(offset, bytes, wish)).await
    }

    fn write_near(&self, offset: u64, bytes: &[u8], wish: Wish) -> Option<Result<(), Exception>> {
        if wish.order == Order::Bytes {
            return self.in_memory(true, |near| near.write(offset, bytes, wish.notify));
        }
        if let Err(why) = self.check_order("WRITE", bytes.len() as u64, wish.order) {
            return Some(Err(why));
        }
        // On one host there is one order.
        let turned = turned(bytes, wish.order);
        self.in_memory(true, |near| near.write(offset, turned.as_deref().unwrap_or(bytes), wish.notify))
    }

    /// `false`: it has to go by the link. What was written there is written again then: it is the same bytes.
    async fn write_remote(&self, to: &dyn Reached, offset: u64, bytes: &[u8], wish: Wish) -> Result<bool, Exception> {
        self.check_range("WRITE", offset, bytes.len() as u64)?;
        self.check_order("WRITE", bytes.len() as u64, wish.order)?;
        let turned = turned(bytes, wish.order);
        let done = remote::write(to, offset, turned.as_deref().unwrap_or(bytes)).await;
        if let Err(why) = &done {
            self.leave_remote(why);
        }
        Ok(done.is_ok())
    }

    /// Waits until everything written before has been done.
    ///
    /// # Errors
    /// Why the first write was refused, of those since the last flush; its parameters are all that were, each with its offset, how many bytes, and the name of why
    /// (16 at most, of which the last stands for those after it). `OwnerLost`, `OwnerSilent`: `unknown`.
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

    /// CAS that notifies the owner, if it wants to be where asked.
    ///
    /// # Errors
    /// As [`Imported::cas`].
    pub async fn cas_and_notify(&self, offset: u64, old: u64, new: u64) -> Result<u64, Exception> {
        self.swap(offset, Width::Eight, old, new, true).await
    }

    /// CAS, and what was there is put into a segment of this node, in this machine's order; `notify`: tells whoever listens there that it has come.
    ///
    /// # Errors
    /// As [`Imported::cas`]; `OutOfBounds`: it does not fit there, and nothing was done.
    pub async fn cas_to(
        &self,
        offset: u64,
        (old, new): (u64, u64),
        to: &super::Segment,
        at: u64,
        notify: bool,
    ) -> Result<u64, Exception> {
        if at.checked_add(Width::Eight.bytes()).is_none_or(|end| end > to.bytes()) {
            return Err(self.refused("CAS", SegmentRefusal::OutOfBounds(to.bytes())));
        }
        let was = self.cas(offset, old, new).await?;
        self.deposit(&was.to_ne_bytes(), to, at, notify)?;
        Ok(was)
    }

    /// CAS of a word of 4 bytes.
    ///
    /// # Errors
    /// As [`Imported::cas`].
    pub async fn cas4(&self, offset: u64, old: u32, new: u32) -> Result<u32, Exception> {
        Ok(self.swap(offset, Width::Four, old.into(), new.into(), false).await? as u32)
    }

    async fn swap(&self, offset: u64, width: Width, old: u64, new: u64, notify: bool) -> Result<u64, Exception> {
        let wish = Wish { notify, ..Wish::default() };
        let near = || self.in_memory(true, |near| near.cas(offset, width, old, new, notify));
        give_way(width.bytes()).await;
        if let Some(swapped) = near() {
            return swapped;
        }
        match Box::pin(self.choose(Wants { bytes: width.bytes(), write: true, wish })).await {
            Chosen::Near => {
                if let Some(swapped) = near() {
                    return swapped;
                }
            }
            Chosen::Remote(at) => {
                self.check_range("CAS", offset, width.bytes())?;
                if let Some(swap) = at.compare_and_swap(offset, width, old, new) {
                    return swap.await.map_err(|why| {
                        self.leave_remote(&why);
                        self.moved(&why.to_string())
                    });
                }
            }
            Chosen::Link => {}
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

    /// Whether a swap was done is not known.
    pub(super) fn moved(&self, why: &str) -> Exception {
        let text = format!("CAS of {}: {why}; read the word to see", self.inner.shown);
        Exception::new(names::SEGMENT_MOVED, Fault::Node, text).outcome_unknown()
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

/// Accesses in memory that count as one step of a task: one takes some 30 ns, and what the runtime counts as a step takes a microsecond.
const ACCESSES_A_STEP: u64 = 32;
/// So many bytes count as another access.
const BYTES_AN_ACCESS: u64 = 1_024;

/// Memory never makes anybody wait: whoever only reads it would keep its thread from all others.
async fn give_way(bytes: u64) {
    thread_local!(static MADE: Cell<u64> = const { Cell::new(0) });
    let made = MADE.get().saturating_add(1).saturating_add(bytes / BYTES_AN_ACCESS);
    let is_step = made >= ACCESSES_A_STEP;
    MADE.set(if is_step { 0 } else { made });
    if is_step {
        tokio::task::coop::consume_budget().await;
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shell.segments.machine().importer.imports.release(self.id);
    }
}
