//! Accesses over the link.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use bytes::{Bytes, BytesMut};
use catena_core::segments::{Answer, Asked, Direct, RefusedWrite, WriteRefused};
use catena_net::{INLINE_BYTES_MAX, Link, Message as Frame};
use catena_wire::{Buffer, Encoded, Exception, Message, Order, SegmentMessage, SegmentRefusal};
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use super::{
    Granted, Imported, Wish,
    errors::of_refusal,
    hub::{Hub, Outcome, Waiter, post, try_post},
    way::Way,
};
use crate::{messages::is_near, to_value};

/// Longer accesses are split into pieces of this many bytes: the most that fits into a link's medium lane and leaves room for others.
pub(crate) const PIECE_BYTES: u64 = 256 << 10;
/// A longer WRITE is split into parts of this many bytes, unless its pieces are counted. Each is a single frame, even with the largest head, and whole words.
const PART_BYTES: usize = INLINE_BYTES_MAX - 128;
/// What a READ reserves before any data has arrived, in bytes. This is address space, for which the system provides memory only as it is filled.
const RESERVED_BYTES_MAX: u64 = 64 << 20;
/// Pieces of one READ that are under way at one time.
const PIECES_UNDER_WAY_MAX: usize = 8;

/// How many requests it takes to read or write this many bytes.
pub(crate) fn pieces_of(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(PIECE_BYTES).max(1)).unwrap_or(u32::MAX)
}

/// A request under way; dropping it gives it up.
pub(super) struct UnderWay {
    hub: Arc<Hub>,
    id: u64,
    answer: oneshot::Receiver<Outcome>,
}

impl UnderWay {
    pub(super) async fn outcome(&mut self) -> Outcome {
        (&mut self.answer).await.unwrap_or(Err(SegmentRefusal::OwnerLost))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        // An answered request is not registered any more.
        if self.answer.try_recv() == Err(oneshot::error::TryRecvError::Empty) {
            self.hub.machine().importer.give_up(self.id);
        }
    }
}

/// Sends a request over the link, as the machine says.
pub(super) fn ask(
    hub: &Arc<Hub>,
    link: &Link,
    begin: impl FnOnce(&mut super::hub::Machine, Waiter) -> Result<Asked, SegmentRefusal>,
) -> Result<UnderWay, SegmentRefusal> {
    let (sender, answer) = oneshot::channel();
    let Asked { id, message } = begin(&mut hub.machine(), sender)?;
    let under_way = UnderWay { hub: Arc::clone(hub), id, answer };
    let Encoded { head, tail } = Message::Segment(message).encode();
    link.post(Frame::new(head, tail)).map_err(|_| SegmentRefusal::OwnerLost)?;
    Ok(under_way)
}

impl Imported {
    fn hub(&self) -> &Arc<Hub> {
        &self.inner.shell.segments
    }

    /// The bytes, and the way by which they came, since the answer to a request over the link may lie in memory that this node maps. If pieces came both ways,
    /// this is the link.
    pub(super) fn read_far<'a>(
        &'a self,
        offset: u64,
        count: u64,
        wish: Wish,
    ) -> BoxFuture<'a, Result<(Bytes, Way), Exception>> {
        Box::pin(async move {
            if count <= PIECE_BYTES {
                return self.piece(offset, count, wish).await;
            }
            // The owner may claim any size, so beyond this bound memory is taken only for bytes that have arrived.
            let mut whole = BytesMut::with_capacity(count.min(RESERVED_BYTES_MAX) as usize);
            let way = self.read_pieces(offset, count, wish, &mut |piece| whole.extend_from_slice(piece)).await?;
            Ok((whole.freeze(), way))
        })
    }

    /// Passes on each piece in order as it arrives; returns the way by which they came.
    pub(super) fn read_pieces<'a>(
        &'a self,
        offset: u64,
        count: u64,
        wish: Wish,
        take: &'a mut (dyn FnMut(&[u8]) + Send),
    ) -> BoxFuture<'a, Result<Way, Exception>> {
        Box::pin(async move {
            if count > self.inner.bytes {
                return Err(self.refused("READ", SegmentRefusal::OutOfBounds(self.inner.bytes)));
            }
            let link = self.link("READ").await?;
            let (mut under_way, mut way) = (VecDeque::new(), Way::SharedMemory);
            // An empty range has one piece too, since the owner may refuse it.
            let (mut next, mut more) = (0, true);
            loop {
                while more && under_way.len() < PIECES_UNDER_WAY_MAX {
                    let piece = PIECE_BYTES.min(count - next);
                    let maps = self.maps_answers(&link, piece);
                    under_way.push_back(self.begin_read(&link, (offset.saturating_add(next), piece), wish, maps)?);
                    next += piece;
                    more = next < count;
                }
                let Some(mut first) = under_way.pop_front() else { return Ok(way) };
                let (data, by) = self.data_of(&link, first.outcome().await).await?;
                take(&data);
                if by == Way::Link {
                    way = by;
                }
            }
        })
    }

    async fn piece(&self, offset: u64, count: u64, wish: Wish) -> Result<(Bytes, Way), Exception> {
        let link = self.link("READ").await?;
        let maps = self.maps_answers(&link, count);
        let answer = self.begin_read(&link, (offset, count), wish, maps)?.outcome().await;
        self.data_of(&link, answer).await
    }

    /// Whether the owner may put bytes requested over this link into memory that this node maps: on one host, if there are enough of them.
    fn maps_answers(&self, link: &Link, count: u64) -> bool {
        let shell = &self.inner.shell;
        let many = count >= shell.post.lent_read_bytes_min();
        many && shell.lends() && !self.inner.plain.load(Relaxed) && is_near(link)
    }

    /// The bytes of an answer, wherever they are, and the way by which they came.
    async fn data_of(&self, link: &Link, answer: Outcome) -> Result<(Bytes, Way), Exception> {
        let (number, buffer) = match answer {
            Ok(Answer::Data(data)) => return Ok((data, Way::Link)),
            Ok(Answer::Lent(number, buffer)) => (number, buffer),
            Ok(_) => return Err(self.refused("READ", SegmentRefusal::BadAnswer)),
            Err(why) => return Err(self.refused("READ", why)),
        };
        let (owner, range) = (&self.inner.owner, (buffer.at.offset, buffer.bytes));
        let read = match Box::pin(self.inner.shell.copy_lent(owner, &buffer, range)).await {
            Some(read) => read.map(|data| (data, Way::SharedMemory)),
            None => Box::pin(self.ask_for_lent(link, &buffer)).await.map(|data| (data, Way::Link)),
        };
        post(link, SegmentMessage::Taken(vec![number]));
        read
    }

    /// Requests over the link what cannot be mapped here, and from then on everything else too.
    async fn ask_for_lent(&self, link: &Link, buffer: &Buffer) -> Result<Bytes, Exception> {
        self.inner.plain.store(true, Relaxed);
        let Buffer { at, bytes, .. } = *buffer;
        let granted = Granted { owner: self.inner.owner.id, at, bytes: at.offset.saturating_add(bytes) };
        let there = self.inner.shell.import_granted((*self.inner.owner).clone(), &granted).await?;
        match there.begin_read(link, (at.offset, bytes), Wish::default(), false)?.outcome().await {
            Ok(Answer::Data(data)) => Ok(data),
            Ok(_) => Err(self.refused("READ", SegmentRefusal::BadAnswer)),
            Err(why) => Err(self.refused("READ", why)),
        }
    }

    fn begin_read(
        &self,
        link: &Link,
        (offset, count): (u64, u64),
        wish: Wish,
        maps: bool,
    ) -> Result<UnderWay, Exception> {
        let hub = self.hub();
        let by = (self.inner.id, link.id());
        let asked = ask(hub, link, |machine, waiter| {
            let how = (wish.notify, wish.order);
            let mut asked = machine.importer.read(hub.now(), by, (offset, count as u32), how, waiter)?;
            if let SegmentMessage::Read { maps: said, .. } = &mut asked.message {
                *said = maps;
            }
            Ok(asked)
        });
        asked.map_err(|why| self.refused("READ", why))
    }

    pub(super) fn write_far<'a>(
        &'a self,
        offset: u64,
        mut bytes: Bytes,
        wish: Wish,
    ) -> BoxFuture<'a, Result<(), Exception>> {
        Box::pin(async move {
            if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > self.inner.bytes) {
                return Err(self.refused("WRITE", SegmentRefusal::OutOfBounds(self.inner.bytes)));
            }
            let part = bytes.len() > PART_BYTES;
            let mut at = offset;
            loop {
                // With a grant each piece counts as one use.
                let next = match self.inner.granted {
                    true => bytes.len().min(PIECE_BYTES as usize),
                    false => part_bytes(at, bytes.len(), wish.order),
                };
                let piece = bytes.split_to(next);
                let (written, last) = (piece.len() as u64, bytes.is_empty());
                // Only the last part notifies, when all of them have arrived.
                self.write_piece(at, piece, part, Wish { notify: wish.notify && last, ..wish }).await?;
                if last {
                    return Ok(());
                }
                at += written;
            }
        })
    }

    async fn write_piece(&self, at: u64, piece: Bytes, part: bool, wish: Wish) -> Result<(), Exception> {
        loop {
            let link = self.link("WRITE").await?;
            let room = self.hub().room.notified();
            tokio::pin!(room);
            // Registers before trying, so that no notice of room is missed in between.
            room.as_mut().enable();
            match self.try_write_piece(&link, at, piece.clone(), part, wish) {
                Ok(()) => return Ok(()),
                Err(WriteRefused::Never(why)) => return Err(self.refused("WRITE", why)),
                Err(WriteRefused::NoRoom(flush)) => {
                    if let Some(Asked { message, .. }) = flush {
                        post(&link, message);
                    }
                    room.await;
                }
            }
        }
    }

    fn try_write_piece(&self, link: &Link, at: u64, piece: Bytes, part: bool, wish: Wish) -> Result<(), WriteRefused> {
        let hub = self.hub();
        let by = (self.inner.id, link.id());
        let bytes = piece.len() as u64;
        let written = hub.machine().importer.write(hub.now(), by, at, piece, (wish.notify, wish.order));
        let (message, flush) = written?;
        if let SegmentMessage::Write { turn, at, notify, order, .. } = message
            && !try_post(link, message.clone(), part)
        {
            // If this turn never came, all later ones would wait for it.
            hub.machine().importer.imports.not_sent(self.inner.id, (at.offset, bytes));
            post(link, SegmentMessage::Write { turn, at, notify, order, data: Bytes::new() });
        }
        if let Some(Asked { message, .. }) = flush {
            post(link, message);
        }
        Ok(())
    }

    pub(super) fn flush_far<'a>(&'a self) -> BoxFuture<'a, Result<(), Exception>> {
        Box::pin(async move {
            let hub = self.hub();
            let (sender, answer) = oneshot::channel();
            let begun = hub.machine().importer.flush(hub.now(), self.inner.id, sender);
            let begun = begun.map_err(|why| self.not_written(why))?;
            let Some(Asked { id, message }) = begun else { return Ok(()) };
            let link = self.link("WRITE").await?;
            post(&link, message);
            let mut under_way = UnderWay { hub: Arc::clone(hub), id, answer };
            under_way.outcome().await.map(drop).map_err(|why| self.not_written(why))
        })
    }

    /// The exception for a flush: the first reason, with every refused write and its own reason as parameters.
    fn not_written(&self, first: SegmentRefusal) -> Exception {
        let mut why = self.refused("WRITE", first);
        let mut refused = self.hub().machine().importer.imports.take_told(self.inner.id);
        // For a link that was lost, it is not known which of its writes were done.
        refused.retain(|write| write.bytes > 0);
        if refused.is_empty() {
            return why;
        }
        let named = |write: &RefusedWrite| (write.offset, write.bytes, of_refusal("WRITE", write.why).name);
        let shown = |write: &RefusedWrite| format!("{} bytes at {}", write.bytes, write.offset);
        why.message += "; not done: ";
        why.message += &refused.iter().map(shown).collect::<Vec<_>>().join(", ");
        let params = to_value(&refused.iter().map(named).collect::<Vec<_>>());
        params.map_or(why.clone(), |params| why.with_params(params))
    }

    pub(super) fn swap_far<'a>(
        &'a self,
        offset: u64,
        width: u8,
        old: u64,
        new: u64,
        notify: bool,
    ) -> BoxFuture<'a, Result<u64, Exception>> {
        Box::pin(async move {
            let hub = self.hub();
            let link = self.link("CAS").await?;
            let by = (self.inner.id, link.id());
            let asked = ask(hub, &link, |machine, waiter| {
                machine.importer.cas(hub.now(), by, (offset, width), (old, new), notify, waiter)
            });
            match asked.map_err(|why| self.refused("CAS", why))?.outcome().await {
                Ok(Answer::Was(was)) => Ok(was),
                Ok(_) => Err(self.refused("CAS", SegmentRefusal::BadAnswer)),
                Err(why) => Err(self.refused("CAS", why)),
            }
        })
    }

    /// Requests a ticket for the owner's memory, if the owner shares it with this host.
    pub(super) async fn ask_to_attach(&self, host: u128, write: bool) -> Option<u128> {
        let hub = self.hub();
        let link = self.link("import").await.ok()?;
        let by = (self.inner.id, link.id());
        let asked = ask(hub, &link, |machine, waiter| {
            machine.importer.attach(hub.now(), by, Direct::Pages(host), write, waiter)
        });
        match asked.ok()?.outcome().await {
            Ok(Answer::Ticket(ticket)) => Some(ticket),
            _ => None,
        }
    }

    /// Requests what is needed to reach the owner's memory from this host, if it offers that, and whether it may be written.
    pub(super) async fn ask_to_reach(&self, by: &str, write: bool) -> Result<(Vec<u8>, bool), SegmentRefusal> {
        let hub = self.hub();
        let link = self.link("import").await.map_err(|_| SegmentRefusal::OwnerLost)?;
        let asked_by = (self.inner.id, link.id());
        let asked = ask(hub, &link, |machine, waiter| {
            machine.importer.attach(hub.now(), asked_by, Direct::Remote(by), write, waiter)
        });
        match asked?.outcome().await? {
            Answer::Reachable { token, write } => Ok((token, write)),
            _ => Err(SegmentRefusal::BadAnswer),
        }
    }
}

/// How many of the remaining bytes go into the next part: about as many as into later ones, up to the end of an aligned word, or of a word of `order`.
fn part_bytes(at: u64, bytes: usize, order: Order) -> usize {
    if bytes <= PART_BYTES {
        return bytes;
    }
    let even = bytes.div_ceil(bytes.div_ceil(PART_BYTES)).next_multiple_of(8).min(PART_BYTES);
    match order {
        Order::Bytes => even - (at % 8) as usize,
        Order::Little(_) | Order::Big(_) => even,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_end_where_words_end_and_are_about_as_long_as_each_other() {
        for (at, bytes, order) in [(0, 65_536, Order::Bytes), (3, 65_536, Order::Bytes), (5, 90_000, Order::Big(8))] {
            let (mut offset, mut left, mut parts) = (at, bytes, Vec::new());
            while left > 0 {
                let part = part_bytes(offset, left, order);
                assert!(part > 0 && part <= PART_BYTES.min(left), "{part} of {left}");
                (offset, left) = (offset + part as u64, left - part);
                let ends = if order == Order::Bytes { offset } else { offset - at };
                assert!(left == 0 || ends.is_multiple_of(8), "a part ends within a word, at {offset}");
                parts.push(part);
            }
            assert!(parts.iter().all(|part| *part > PART_BYTES / 2), "{parts:?}");
        }
        assert_eq!(part_bytes(1, 100, Order::Bytes), 100);
    }
}
