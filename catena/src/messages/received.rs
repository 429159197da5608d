//! A message that came. Its buffers stay with their sender: what is not read costs the receiver nothing.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
};

use bytes::{Bytes, BytesMut};
use catena_core::segments::Todo;
use catena_wire::{
    Buffer, Completion, Datagram, Exception, Fault, NodeRef, Order, SegmentMessage, SegmentRefusal, names,
};

use super::post::{Post, offer};
use crate::{
    Granted, Imported, Segment,
    segments::{pieces_of, refused},
    shell::Shell,
};

/// A message of another service. Dropped, its sender is told, as it chose, that its buffers are not needed any more.
pub struct Received {
    pub(super) shell: Arc<Shell>,
    pub(super) node: Arc<NodeRef>,
    pub(super) datagram: Datagram,
    /// How often each buffer that is lent may still be used.
    uses: Arc<[AtomicU32]>,
    /// An answer was put into its return buffer, or is going to be.
    pub(super) returned: AtomicBool,
}

impl std::fmt::Debug for Received {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Received").field("node", &self.node.name).field("message", &self.datagram).finish()
    }
}

impl Received {
    pub(super) fn new(shell: &Arc<Shell>, node: Arc<NodeRef>, datagram: Datagram) -> Self {
        let uses = datagram.buffers.iter().map(|buffer| buffer.lent.map_or(0, |lent| lent.uses).into()).collect();
        Self { shell: Arc::clone(shell), node, datagram, uses, returned: AtomicBool::new(false) }
    }

    /// The service that sent it; empty: one that takes no messages.
    #[must_use]
    pub fn from(&self) -> &str {
        &self.datagram.from
    }

    /// The node that it came from.
    #[must_use]
    pub fn node(&self) -> &NodeRef {
        &self.node
    }

    /// Its items.
    #[must_use]
    pub fn items(&self) -> &[Bytes] {
        &self.datagram.items
    }

    /// Whether that it came is all it says.
    #[must_use]
    pub fn is_signal(&self) -> bool {
        self.datagram.items.is_empty() && self.datagram.buffers.is_empty()
    }

    /// The buffers of a long message. What their sender says of them is not checked by anybody: a range that is not there cannot be read.
    #[must_use]
    pub fn buffers(&self) -> Vec<Buffered> {
        let buffered = |(place, buffer): (usize, &Buffer)| Buffered {
            shell: Arc::clone(&self.shell),
            node: Arc::clone(&self.node),
            buffer: *buffer,
            uses: Arc::clone(&self.uses),
            place,
        };
        self.datagram.buffers.iter().enumerate().map(buffered).collect()
    }

    pub(super) fn is_local(&self) -> bool {
        self.node.id == self.shell.me.id
    }

    fn complete(&self) {
        let Datagram { number, completion, buffers, .. } = &self.datagram;
        if buffers.is_empty() {
            return;
        }
        let numbers = match completion {
            Completion::Timeout => return,
            Completion::Piggybacked if !self.is_local() => self.shell.post.machine().owe(self.node.id, *number),
            Completion::Piggybacked | Completion::Told => vec![*number],
        };
        if numbers.is_empty() {
            return;
        }
        if self.is_local() {
            let ended = self.shell.post.machine().on_taken(self.node.id, &numbers);
            return Post::finish(ended);
        }
        let link = self.shell.endpoint().and_then(|endpoint| endpoint.link_to_node(self.node.id.0));
        if let Some(link) = link {
            // What is not told is over with its time.
            offer(&link, SegmentMessage::Taken(numbers));
        }
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        self.complete();
    }
}

/// A buffer of a long message, at its sender.
#[derive(Clone)]
pub struct Buffered {
    shell: Arc<Shell>,
    node: Arc<NodeRef>,
    buffer: Buffer,
    uses: Arc<[AtomicU32]>,
    /// Its own among them.
    place: usize,
}

impl std::fmt::Debug for Buffered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Buffered").field(&self.buffer).finish()
    }
}

impl Buffered {
    /// Its bytes, as its sender says.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.buffer.bytes
    }

    /// READs so many bytes from `offset` on, into memory of one's own.
    ///
    /// # Errors
    /// `OutOfBounds`; `GrantVoid`: it was read as often as its sender allows, or its time is over; `SegmentRevoked`, `SegmentStale`: it is gone; `OwnerLost`, `OwnerSilent`.
    pub async fn read(&self, offset: u64, count: u64) -> Result<Bytes, Exception> {
        let whole = self.buffer.bytes;
        if offset.checked_add(count).is_none_or(|end| end > whole) {
            return Err(refused("READ of a long message", SegmentRefusal::OutOfBounds(whole)));
        }
        let offset = self.buffer.at.offset.saturating_add(offset);
        if self.node.id == self.shell.me.id {
            return self.read_here(offset, count);
        }
        if let Some(read) = self.read_lent(offset, count).await {
            return read;
        }
        imported(&self.shell, &self.node, &self.buffer).await?.read(offset, count).await
    }

    /// In memory that its sender lends to this node; `None`: it is not there, and has to be asked for. Who keeps to the uses that he was given is not found out
    /// by his partner, whose own bytes these are: so this counts.
    async fn read_lent(&self, offset: u64, count: u64) -> Option<Result<Bytes, Exception>> {
        self.buffer.lent?;
        let (left, needed) = (&self.uses[self.place], pieces_of(count));
        if left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(needed)).is_err() {
            return Some(Err(refused("READ of a long message", SegmentRefusal::GrantVoid)));
        }
        let read = self.shell.copy_lent(&self.node, &self.buffer, (offset, count)).await;
        if read.is_none() {
            left.fetch_add(needed, Relaxed);
        }
        read
    }

    /// READs so many bytes from `offset` on into a segment of this node.
    ///
    /// # Errors
    /// As [`Buffered::read`]; `OutOfBounds`: they do not fit there.
    pub async fn read_to(&self, offset: u64, count: u64, to: &Segment, at: u64) -> Result<(), Exception> {
        to.write(at, &self.read(offset, count).await?)
    }

    /// READs all of it, if it is no more than so many bytes.
    ///
    /// # Errors
    /// As [`Buffered::read`]; `LimitExceeded`: it is more.
    pub async fn fetch(&self, bytes_max: u64) -> Result<Bytes, Exception> {
        if self.buffer.bytes > bytes_max {
            let text = format!("the long message has {} bytes, and {bytes_max} are wanted at most", self.buffer.bytes);
            return Err(Exception::new(names::LIMIT_EXCEEDED, Fault::Caller, text));
        }
        self.read(0, self.buffer.bytes).await
    }

    /// A message of this node to itself: the same grant, without a link.
    fn read_here(&self, offset: u64, count: u64) -> Result<Bytes, Exception> {
        /// No link has this number.
        const HERE: u64 = u64::MAX;
        let (hub, mut whole) = (&self.shell.segments, BytesMut::new());
        let end = offset.saturating_add(count);
        let mut next = offset;
        loop {
            let piece = (end - next).min(crate::segments::PIECE_BYTES);
            let at = catena_wire::At { offset: next, ..self.buffer.at };
            let read = SegmentMessage::Read {
                id: 0,
                at,
                count: piece as u32,
                notify: false,
                order: Order::Bytes,
                after: 0,
                maps: false,
            };
            let todo = hub.machine().owner.on_request(hub.now(), HERE, self.node.id, read);
            match todo {
                Todo::Read { memory, offset, count, .. } => {
                    let from = whole.len();
                    whole.resize(from + count as usize, 0);
                    let read = memory.hold().memory.read(offset, &mut whole[from..]);
                    read.map_err(|_| refused("READ of a long message", SegmentRefusal::OutOfBounds(offset)))?;
                }
                Todo::Answer(SegmentMessage::Refused(_, why)) => return Err(refused("READ of a long message", why)),
                _ => return Err(refused("READ of a long message", SegmentRefusal::BadAnswer)),
            }
            next += piece;
            if next >= end {
                return Ok(whole.freeze());
            }
        }
    }
}

/// A buffer of a partner's, by its grant.
pub(super) async fn imported(shell: &Arc<Shell>, node: &NodeRef, buffer: &Buffer) -> Result<Imported, Exception> {
    let granted = Granted { owner: node.id, at: buffer.at, bytes: buffer.at.offset.saturating_add(buffer.bytes) };
    shell.import_granted(node.clone(), &granted).await
}
