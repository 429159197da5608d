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

use futures_util::future::BoxFuture;

use super::{
    errors::of_refusal,
    mapped::Mapped,
    near::Near,
    remote,
    serve::{turn, turned},
    way::{Chosen, Wants, Way, Ways},
};
use crate::shell::{Shell, lock};

/// Options of a READ or WRITE.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wish {
    /// Notifies the owner, if it asked for notifications where the access requests them ([`catena_core::segments::Notify::IfAsked`]).
    pub notify: bool,
    /// What kind of words the bytes are; the owner converts them where its byte order differs.
    pub order: Order,
}

/// A segment of another node. Cheap to clone; it stays imported until the last clone is dropped.
///
/// Every future may be dropped at any time. A READ that is dropped leaves nothing behind; a WRITE that was accepted goes on.
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
    /// Imported by a grant, where each request counts as a use.
    pub(super) granted: bool,
    /// Whether its pages may be mapped, as far as this node knows. A grant allows requests only, unless it covers a whole lent segment.
    pub(super) maps: bool,
    /// Set once answers to READs could not be mapped: from then on they come by the link.
    pub(super) plain: AtomicBool,
    link: Mutex<Option<Arc<Link>>>,
    /// The first mapping for reading and for writing, reached without a lock; most segments never get another.
    pub(super) firsts: [OnceLock<Arc<Near>>; 2],
    /// Later mappings, and the state of the other ways.
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

    /// The same import, with pages that may be mapped. Must be called before the import is used.
    pub(super) fn mappable(mut self) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.maps = true;
        }
        self
    }

    /// The segment's size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.inner.bytes
    }

    /// The node that owns it.
    #[must_use]
    pub fn owner(&self) -> &NodeRef {
        &self.inner.owner
    }

    /// The segment's generation at its owner, and whether it is known to be stale.
    #[must_use]
    pub fn generation(&self) -> Option<(u64, bool)> {
        let machine = self.inner.shell.segments.machine();
        let import = machine.importer.imports.get(self.inner.id)?;
        Some((import.entry.generation, import.stale.is_some()))
    }

    /// READ: fetches `count` bytes from `offset` on. A long range goes in pieces, several at a time; the owner may write between pieces.
    ///
    /// # Errors
    /// `OutOfBounds`, `NoRight`, `SegmentRevoked`, `SegmentStale`, `OwnerSilent`, `OwnerLost`.
    pub async fn read(&self, offset: u64, count: u64) -> Result<Bytes, Exception> {
        self.read_as(offset, count, Wish::default()).await
    }

    /// READ with options.
    ///
    /// # Errors
    /// As [`Imported::read`]; `Unaligned`: the range does not consist of whole words.
    pub async fn read_as(&self, offset: u64, count: u64, wish: Wish) -> Result<Bytes, Exception> {
        self.read_by(offset, count, wish).await.map(|(data, _)| data)
    }

    /// READ with options; also returns the way by which the bytes came.
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
        match self.choose(Wants { bytes: count, write: false, wish }).await {
            Chosen::Near => {
                if let Some(read) = mapped() {
                    return read;
                }
            }
            Chosen::Remote(from) => {
                if let Some(data) = self.read_remote(&*from, offset, count, wish).await? {
                    return Ok((data, Way::Rdma));
                }
            }
            Chosen::Link => {}
        }
        self.read_far(offset, count, wish).await
    }

    /// `None`: it cannot be read in mapped memory.
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

    /// `None`: it has to be read over the link.
    fn read_remote<'a>(
        &'a self,
        from: &'a dyn Reached,
        offset: u64,
        count: u64,
        wish: Wish,
    ) -> BoxFuture<'a, Result<Option<Bytes>, Exception>> {
        Box::pin(async move {
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
        })
    }

    fn check_range(&self, what: &str, offset: u64, count: u64) -> Result<(), Exception> {
        match offset.checked_add(count) {
            Some(end) if end <= self.inner.bytes => Ok(()),
            _ => Err(self.refused(what, SegmentRefusal::OutOfBounds(self.inner.bytes))),
        }
    }

    /// READ into the caller's own memory, for repeated reads.
    ///
    /// # Errors
    /// As [`Imported::read`]. Some pieces may have been written to `out` by then.
    pub async fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), Exception> {
        let (count, wish) = (out.len() as u64, Wish::default());
        give_way(count).await;
        if let Some(read) = self.read_near(offset, out, wish) {
            return read;
        }
        match self.choose(Wants { bytes: count, write: false, wish }).await {
            Chosen::Near => {
                if let Some(read) = self.read_near(offset, out, wish) {
                    return read;
                }
            }
            Chosen::Remote(from) => {
                if let Some(data) = self.read_remote(&*from, offset, count, wish).await? {
                    out.copy_from_slice(&data);
                    return Ok(());
                }
            }
            Chosen::Link => {}
        }
        let mut left = out;
        let mut take = |piece: &[u8]| {
            // No answer has more bytes than were requested.
            let (first, rest) = std::mem::take(&mut left).split_at_mut(piece.len());
            first.copy_from_slice(piece);
            left = rest;
        };
        self.read_pieces(offset, count, wish, &mut take).await.map(|_| ())
    }

    /// READ into a segment of this node; with `notify`, listeners of that segment are told when the bytes are there.
    ///
    /// # Errors
    /// As [`Imported::read`]; `OutOfBounds`: the bytes do not fit there.
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

    /// Puts the result of a request into a segment of this node.
    fn deposit(&self, data: &[u8], to: &super::Segment, at: u64, notify: bool) -> Result<(), Exception> {
        to.write(at, data)?;
        if notify {
            to.exported().notices.tell(self.inner.owner.id, super::Access::Write, at, data.len() as u64);
        }
        Ok(())
    }

    /// WRITE: writes bytes at `offset`. Returns when they are accepted, and waits only for room; [`Imported::flush`] says whether they were written. Writes of
    /// one node to one owner are done in the order in which they were made, for as long as the link between them lives.
    ///
    /// # Errors
    /// What is known at once: `OutOfBounds`, `SegmentStale`, `OwnerLost`. The next flush reports everything else.
    pub async fn write(&self, offset: u64, bytes: impl Into<Bytes>) -> Result<(), Exception> {
        self.write_as(offset, bytes, Wish::default()).await
    }

    /// WRITE with options.
    ///
    /// # Errors
    /// As [`Imported::write`].
    pub async fn write_as(&self, offset: u64, bytes: impl Into<Bytes>, wish: Wish) -> Result<(), Exception> {
        let bytes: Bytes = bytes.into();
        give_way(bytes.len() as u64).await;
        if let Some(written) = self.write_near(offset, &bytes, wish) {
            return written;
        }
        // The slow ways are boxed, or each access in memory would carry and copy the state of a request in its own future.
        self.write_anew(offset, bytes, wish).await
    }

    fn write_anew<'a>(&'a self, offset: u64, bytes: Bytes, wish: Wish) -> BoxFuture<'a, Result<(), Exception>> {
        Box::pin(async move {
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
            self.write_far(offset, bytes, wish).await
        })
    }

    fn write_near(&self, offset: u64, bytes: &[u8], wish: Wish) -> Option<Result<(), Exception>> {
        if wish.order == Order::Bytes {
            return self.in_memory(true, |near| near.write(offset, bytes, wish.notify));
        }
        if let Err(why) = self.check_order("WRITE", bytes.len() as u64, wish.order) {
            return Some(Err(why));
        }
        // On one host there is one byte order.
        let turned = turned(bytes, wish.order);
        self.in_memory(true, |near| near.write(offset, turned.as_deref().unwrap_or(bytes), wish.notify))
    }

    /// `false`: it has to be written over the link. Bytes that were written here already are then written again, which is harmless.
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

    /// Waits until all earlier writes have been done.
    ///
    /// # Errors
    /// The reason for which the first write since the last flush was refused. Its parameters list all refused writes, each with its offset, its length in bytes
    /// and the name of its reason (16 at most; the last stands for those after it). `OwnerLost`, `OwnerSilent`: `unknown`.
    pub async fn flush(&self) -> Result<(), Exception> {
        self.flush_far().await
    }

    /// CAS: replaces the aligned word of 8 bytes at `offset` by `new` if it equals `old`. Returns the word before: `old` if it was replaced.
    ///
    /// # Errors
    /// `Unaligned`, and as [`Imported::read`]. `OwnerLost`, `OwnerSilent` and `SegmentMoved` are `unknown`: the swap may have been done.
    pub async fn cas(&self, offset: u64, old: u64, new: u64) -> Result<u64, Exception> {
        self.swap(offset, Width::Eight, old, new, false).await
    }

    /// CAS that notifies the owner, if it asked for notifications where the access requests them.
    ///
    /// # Errors
    /// As [`Imported::cas`].
    pub async fn cas_and_notify(&self, offset: u64, old: u64, new: u64) -> Result<u64, Exception> {
        self.swap(offset, Width::Eight, old, new, true).await
    }

    /// CAS; stores the word before in a segment of this node, in this machine's byte order. With `notify`, listeners of that segment are told.
    ///
    /// # Errors
    /// As [`Imported::cas`]; `OutOfBounds`: the word does not fit there, and nothing was done.
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

    /// CAS on a word of 4 bytes.
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
        match self.choose(Wants { bytes: width.bytes(), write: true, wish }).await {
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
        self.swap_far(offset, width.bytes() as u8, old, new, notify).await
    }

    /// The segment's bytes in shared memory, to be read in place; writable if `write` is set and this importer has the right.
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

    /// It is not known whether a swap was done.
    pub(super) fn moved(&self, why: &str) -> Exception {
        let text = format!("CAS of {}: {why}; read the word to see", self.inner.shown);
        Exception::new(names::SEGMENT_MOVED, Fault::Node, text).outcome_unknown()
    }

    /// The link to the owner: the last one used, or a new one to the same run of it.
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

/// Accesses in memory that count as one step of a task's budget: one takes about 30 ns, and what the runtime counts as a step about a microsecond.
const ACCESSES_A_STEP: u64 = 32;
/// This many bytes count as another access.
const BYTES_AN_ACCESS: u64 = 1_024;

/// Yields now and then: access to memory never waits, so a task that only reads it would keep its thread from all other tasks.
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
