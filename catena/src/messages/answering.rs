//! Answers, each by the way that load decides (`catena_core::messages::carrier`).

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use bytes::Bytes;
use catena_core::messages::{Carrier, Load};
use catena_wire::{Buffer, Completion, Datagram, Exception, Fault, Order, names};

use super::{
    Long, Received,
    lending::For,
    received::imported,
    sending::{Letter, Target},
};
use crate::Wish;

/// The word before an answer in a return buffer, in bytes: the answer's length plus one, little-endian; 0 while there is no answer.
pub(super) const WORD_BYTES: u64 = 8;

impl Received {
    /// Answers a question: in one frame if the answer fits; else into the asker's return buffer; or, without one that is large enough or under load, left here
    /// to be read. Returns which it was. Only a WRITE into the buffer takes time; a service with another request to serve need not await it.
    ///
    /// A message that is not a question is answered by a message to the service that sent it.
    ///
    /// # Errors
    /// `OwnerLost`: the asker cannot be reached any more; `Overloaded`: too much is held for it already.
    pub async fn answer(&self, bytes: impl Into<Bytes>) -> Result<Carrier, Exception> {
        let bytes: Bytes = bytes.into();
        let target = self.sender().await?;
        let room = self.datagram.room.filter(|_| !self.is_local());
        let load = Load {
            bytes: bytes.len() as u64,
            room: room.map(|room| room.bytes.saturating_sub(WORD_BYTES)),
            waiting: 0,
            unflushed: self.shell.segments.machine().importer.unflushed_to(self.node.id),
        };
        let about = self.datagram.asks.then_some(self.datagram.number);
        let letter = Letter { from: &self.datagram.to, target: &target, about };
        let carrier = self.shell.post.machine().answer_by(&self.datagram.to, load);
        match (carrier, room) {
            (Carrier::Short, _) => self.shell.send_short(&letter, vec![bytes]).map(|()| carrier),
            // A return buffer takes one answer: after it, the asker may have reused the room for another question.
            (Carrier::Returned, Some(room))
                if !self.returned.swap(true, Relaxed) && self.put_back(&letter, &room, &bytes).await =>
            {
                Ok(carrier)
            }
            (Carrier::Returned, _) => {
                self.shell.post.machine().note_not_returned();
                self.shell.send_long(&letter, self.left(bytes)).map(|_| Carrier::Long)
            }
            (Carrier::Long, _) => self.shell.send_long(&letter, self.left(bytes)).map(|_| carrier),
        }
    }

    /// An answer that is left here to be read. The reader of a short one need not report at once that it has read it.
    fn left(&self, bytes: Bytes) -> Long {
        let short = bytes.len() as u64 <= self.shell.post.policy.piggybacked_bytes_max;
        Long::of(bytes).completion(if short { Completion::Piggybacked } else { Completion::Told })
    }

    /// The service that sent the message, at the node from which it came.
    async fn sender(&self) -> Result<Target, Exception> {
        let (service, node) = (self.datagram.from.clone(), Arc::clone(&self.node));
        if self.is_local() {
            return Ok(Target { service, node, link: None });
        }
        let gone = || {
            let text = format!("{}, which sent the message, cannot be reached any more", self.node.name);
            Exception::new(names::OWNER_LOST, Fault::Network, text)
        };
        let link = self.shell.dial(&node).await.ok_or_else(gone)?;
        Ok(Target { service, node, link: Some(link) })
    }

    /// Puts the answer into the return buffer. Returns whether it is on its way.
    async fn put_back(&self, letter: &Letter<'_>, room: &Buffer, bytes: &Bytes) -> bool {
        match self.write_lent(letter, room, bytes).await {
            Some(done) => done,
            None => self.write_back(room, bytes).await,
        }
    }

    /// Writes into memory that the asker lends to this node, and sends a message that says so. `None`: that memory is not mapped here.
    async fn write_lent(&self, letter: &Letter<'_>, room: &Buffer, bytes: &Bytes) -> Option<bool> {
        let (lent, grant) = (room.lent?, room.at.grant?);
        let there = self.shell.mapped(&self.node, &room.at, &lent, For::Writing).await?;
        let offset = room.at.offset.saturating_add(WORD_BYTES);
        if there.write_lent((lent.word, grant), offset, bytes)?.is_err() {
            // Nobody waits for the answer any more.
            return Some(true);
        }
        self.shell.post.machine().counts.returned_near += 1;
        let told = Datagram { returned: Some(bytes.len() as u64), ..self.shell.datagram(letter) };
        Some(self.shell.dispatch(letter.target, told))
    }

    /// WRITEs the answer into the return buffer and then the word that announces it, since writes keep their order. Returns whether that was accepted in time.
    async fn write_back(&self, room: &Buffer, bytes: &Bytes) -> bool {
        let time = Duration::from_micros(self.shell.post.policy.return_time_max_us);
        let writing = async {
            let there = imported(&self.shell, &self.node, room).await?;
            let word = bytes.len() as u64 + 1;
            there.write(room.at.offset.saturating_add(WORD_BYTES), bytes.clone()).await?;
            let wish = Wish { notify: true, order: Order::Little(WORD_BYTES as u8) };
            there.write_as(room.at.offset, word.to_le_bytes().to_vec(), wish).await
        };
        matches!(tokio::time::timeout(time, writing).await, Ok(Ok(())))
    }
}
