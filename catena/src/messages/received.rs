//! A message that has arrived. Its buffers stay with their sender, so a buffer that is not read costs the receiver nothing.

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

/// A message of another service. When it is dropped, its sender is told, in the way that it chose, that its buffers are not needed any more.
pub struct Received {
    pub(super) shell: Arc<Shell>,
    pub(super) node: Arc<NodeRef>,
    pub(super) datagram: Datagram,
    /// How many more uses each lent buffer allows.
    uses: Arc<[AtomicU32]>,
    /// Whether an answer was put into its return buffer, or is being put there.
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

    /// The service that sent it; empty if the sender takes no messages.
    #[must_use]
    pub fn from(&self) -> &str {
        &self.datagram.from
    }

    /// The node that it came from.
    #[must_use]
    pub fn node(&self) -> &NodeRef {
        &self.node
    }

    /// The small items that came with the message.
    #[must_use]
    pub fn items(&self) -> &[Bytes] {
        &self.datagram.items
    }

    /// Whether the message is empty, so that its arrival is all that it says.
    #[must_use]
    pub fn is_signal(&self) -> bool {
        self.datagram.items.is_empty() && self.datagram.buffers.is_empty()
    }

    /// The buffers of a long message. What their sender says about them is not verified here; reading a range that does not exist fails.
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
            // If the link has no room to report these, their buffers are released when they expire.
            offer(&link, SegmentMessage::Taken(numbers));
        }
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        self.complete();
    }
}

/// A buffer of a long message, held at its sender.
#[derive(Clone)]
pub struct Buffered {
    shell: Arc<Shell>,
    node: Arc<NodeRef>,
    buffer: Buffer,
    uses: Arc<[AtomicU32]>,
    /// The index of this buffer in the message.
    place: usize,
}

impl std::fmt::Debug for Buffered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Buffered").field(&self.buffer).finish()
    }
}

impl Buffered {
    /// Its size in bytes, as its sender states.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.buffer.bytes
    }

    /// READs `count` bytes from `offset` on, into newly allocated memory.
    ///
    /// # Errors
    /// `OutOfBounds`; `GrantVoid`: the sender allows no more uses, or time is up; `SegmentRevoked`, `SegmentStale`: it is gone; `OwnerLost`, `OwnerSilent`.
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

    /// Reads from memory that the sender lends to this node; `None`: it is not mapped, and the bytes have to be requested. The sender cannot see such reads, so
    /// this node counts the uses itself.
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

    /// READs `count` bytes from `offset` on into a segment of this node, at `at`.
    ///
    /// # Errors
    /// As [`Buffered::read`]; `OutOfBounds`: the bytes do not fit there.
    pub async fn read_to(&self, offset: u64, count: u64, to: &Segment, at: u64) -> Result<(), Exception> {
        to.write(at, &self.read(offset, count).await?)
    }

    /// READs the whole buffer, if it has at most `bytes_max` bytes.
    ///
    /// # Errors
    /// As [`Buffered::read`]; `LimitExceeded`: it is larger.
    pub async fn fetch(&self, bytes_max: u64) -> Result<Bytes, Exception> {
        if self.buffer.bytes > bytes_max {
            let text = format!("the long message has {} bytes, and {bytes_max} are wanted at most", self.buffer.bytes);
            return Err(Exception::new(names::LIMIT_EXCEEDED, Fault::Caller, text));
        }
        self.read(0, self.buffer.bytes).await
    }

    /// Reads a message of this node to itself: with the same grant, but without a link.
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
                Todo::Do(_, memory) => {
                    let from = whole.len();
                    whole.resize(from + piece as usize, 0);
                    let read = memory.hold().memory.read(next, &mut whole[from..]);
                    read.map_err(|_| refused("READ of a long message", SegmentRefusal::OutOfBounds(next)))?;
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

/// Imports a partner's buffer by its grant.
pub(super) async fn imported(shell: &Arc<Shell>, node: &NodeRef, buffer: &Buffer) -> Result<Imported, Exception> {
    let granted = Granted { owner: node.id, at: buffer.at, bytes: buffer.at.offset.saturating_add(buffer.bytes) };
    shell.import_granted(node.clone(), &granted).await
}
