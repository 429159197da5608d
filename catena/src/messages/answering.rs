//! Answers: by the way that load decides (`catena_core::messages::carrier`).

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

/// The word before an answer in a return buffer, in bytes: the answer's length and one, lowest byte first; 0 while it is not there.
pub(super) const WORD_BYTES: u64 = 8;

impl Received {
    /// Answers a question: in one frame if it fits; else written into the return buffer of whoever asked; or left here to be read, if there is none, it is too small, or
    /// this service is loaded. Returns which it was, and need not be awaited by whoever has a next request to serve but for the WRITE.
    ///
    /// A message that asks nothing is answered by a message to the service that sent it.
    ///
    /// # Errors
    /// `OwnerLost`: who asked cannot be reached any more; `Overloaded`: too much is held for him already.
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
            // Into one return buffer goes one answer: whoever asked may have given the room to another question after it.
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

    /// An answer that is left here to be read. That a short one has been read need not be told at once.
    fn left(&self, bytes: Bytes) -> Long {
        let short = bytes.len() as u64 <= self.shell.post.policy.piggybacked_bytes_max;
        Long::of(bytes).completion(if short { Completion::Piggybacked } else { Completion::Told })
    }

    /// The service that sent it, at the node where it was then.
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

    /// Puts the answer into the return buffer. Says whether it is on its way.
    async fn put_back(&self, letter: &Letter<'_>, room: &Buffer, bytes: &Bytes) -> bool {
        match self.write_lent(letter, room, bytes).await {
            Some(done) => done,
            None => self.write_back(room, bytes).await,
        }
    }

    /// In memory that whoever asked lends to this node, who is told so by a message. `None`: it is not mapped here.
    async fn write_lent(&self, letter: &Letter<'_>, room: &Buffer, bytes: &Bytes) -> Option<bool> {
        let (lent, grant) = (room.lent?, room.at.grant?);
        let there = self.shell.mapped(&self.node, &room.at, &lent, For::Writing).await?;
        let offset = room.at.offset.saturating_add(WORD_BYTES);
        if there.write_lent((lent.word, grant), offset, bytes)?.is_err() {
            // Nobody waits for it any more.
            return Some(true);
        }
        self.shell.post.machine().counts.returned_near += 1;
        let told = Datagram { returned: Some(bytes.len() as u64), ..self.shell.datagram(letter) };
        Some(self.shell.dispatch(letter.target, told))
    }

    /// WRITEs the answer to where whoever asked wants it, and then the word that says so: writes keep their order. Says whether that was taken in time.
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
