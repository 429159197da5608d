//! A question, and the three ways in which its answer may come.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use catena_core::messages::Outcome;
use catena_net::awake;
use catena_wire::{Exception, Fault, names};
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use super::{
    Long, Received,
    answering::WORD_BYTES,
    post::{Came, Post},
    sending::{Letter, Room},
};
use crate::{Granted, shell::Shell};

/// How long an answer is awaited by default.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How many bytes of a long answer [`Answer::bytes`] reads at most.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// What is asked, and where the answer may be put.
#[derive(Debug)]
pub struct Question {
    long: Long,
    room: Option<u64>,
    timeout: Duration,
}

impl Question {
    /// A question of these items.
    pub fn new(items: impl IntoIterator<Item = impl Into<Bytes>>) -> Self {
        Self::of(items.into_iter().fold(Long::default(), Long::item))
    }

    /// A question with buffers of its own, which are held until its answer comes.
    #[must_use]
    pub const fn of(long: Long) -> Self {
        Self { long, room: None, timeout: TIMEOUT }
    }

    /// Adds a return buffer for an answer of up to this many bytes. The server may write the answer there, so that it is here before anybody looks for it.
    #[must_use]
    pub const fn room(mut self, bytes: u64) -> Self {
        self.room = Some(bytes);
        self
    }

    /// How long the answer is awaited. Default: 10 s.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

/// An answer, in the way that its server chose.
#[derive(Debug)]
pub enum Answer {
    /// It arrived in one frame.
    Short(Received),
    /// It was written into the return buffer.
    Returned(Bytes),
    /// It is held at the server, to be read.
    Long(Received),
}

impl Answer {
    /// The bytes of the answer, whichever way it came, up to 64 MiB.
    ///
    /// # Errors
    /// As [`super::Buffered::fetch`].
    pub async fn bytes(self) -> Result<Bytes, Exception> {
        match self {
            Self::Returned(bytes) => Ok(bytes),
            Self::Short(message) => Ok(message.items().first().cloned().unwrap_or_default()),
            Self::Long(message) => match message.buffers().first() {
                Some(buffer) => buffer.fetch(ANSWER_BYTES_MAX).await,
                None => Ok(Bytes::new()),
            },
        }
    }
}

/// Releases what is held for an answer when nobody waits for it any more.
struct Awaiting<'s> {
    shell: &'s Arc<Shell>,
    number: u64,
}

impl Drop for Awaiting<'_> {
    fn drop(&mut self) {
        let ended = self.shell.post.machine().let_go(self.number);
        Post::finish(ended);
    }
}

pub(crate) fn ask<'a>(
    shell: &'a Arc<Shell>,
    from: &'a str,
    to: &'a str,
    question: Question,
) -> BoxFuture<'a, Result<Answer, Exception>> {
    Box::pin(async move {
        let Question { long, room, timeout } = question;
        let target = shell.target(to).await?;
        let letter = Letter { from, target: &target, about: None };
        let room = room.map(|room| room.saturating_add(WORD_BYTES));
        let (number, came, room) = shell.send_held(&letter, long.lasts(timeout), Some(room))?;
        let _awaiting = Awaiting { shell, number };
        let answer = async {
            tokio::select! {
                came = came => answered(shell, to, came, room.as_ref()),
                answer = returned(room.as_ref()) => answer.map(Answer::Returned),
            }
        };
        let answer = awake::timeout(timeout, answer).await.unwrap_or_else(|_| Err(lost(to, Outcome::Late)));
        if answer.is_ok()
            && let Some(loan) = room.as_ref().and_then(|room| room.loan.as_ref())
        {
            // A server that has answered does not write again.
            loan.settle();
        }
        answer
    })
}

fn answered(
    shell: &Arc<Shell>,
    to: &str,
    came: Result<Came, oneshot::error::RecvError>,
    room: Option<&Room>,
) -> Result<Answer, Exception> {
    match came {
        Ok(Came::Answer(from, datagram)) => {
            if let (Some(length), Some(room)) = (datagram.returned, room) {
                return room.taken(length).map(Answer::Returned);
            }
            let message = Received::new(shell, from, *datagram);
            Ok(if message.buffers().is_empty() { Answer::Short(message) } else { Answer::Long(message) })
        }
        Ok(Came::Over(outcome)) => Err(lost(to, outcome)),
        Err(_) => Err(lost(to, Outcome::LetGo)),
    }
}

/// Waits for an answer in the return buffer. The server that writes there is not trusted: nothing is read before the buffer is taken back, and nothing that the
/// server says about it is believed.
async fn returned(room: Option<&Room>) -> Result<Bytes, Exception> {
    let Some(room) = room else { return std::future::pending().await };
    loop {
        let told = room.segment.written();
        if room.word()? != 0 {
            break;
        }
        told.await;
    }
    match room.loan {
        // The partner may still change the bytes, but spoils only its own answer.
        Some(_) => _ = room.segment.take_back(&room.granted()),
        None => room.segment.revoke().await?,
    }
    room.taken(room.word()?.saturating_sub(1))
}

impl Room {
    /// An answer of the length that its server states.
    fn taken(&self, length: u64) -> Result<Bytes, Exception> {
        let capacity = self.buffer.bytes.saturating_sub(WORD_BYTES);
        if length > capacity {
            let text = format!("its server says that an answer of {length} bytes is in a return buffer of {capacity}");
            return Err(Exception::new(names::PROTOCOL, Fault::Service, text));
        }
        let mut bytes = vec![0; length as usize];
        self.segment.read(self.buffer.at.offset + WORD_BYTES, &mut bytes)?;
        Ok(bytes.into())
    }

    fn word(&self) -> Result<u64, Exception> {
        let mut word = [0; WORD_BYTES as usize];
        self.segment.read(self.buffer.at.offset, &mut word)?;
        // The server wrote it in this node's byte order.
        Ok(u64::from_ne_bytes(word))
    }

    fn granted(&self) -> Granted {
        Granted { owner: self.segment.owner(), at: self.buffer.at, bytes: self.buffer.bytes }
    }
}

fn lost(to: &str, outcome: Outcome) -> Exception {
    let (name, why) = match outcome {
        Outcome::LinkLost => (names::OWNER_LOST, "the link to its node was lost"),
        _ => (names::DEADLINE_EXCEEDED, "none came in time; messages may be lost: ask again if that does no harm"),
    };
    Exception::new(name, Fault::Network, format!("answer of {to}: {why}")).outcome_unknown()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use catena_core::segments::{Export, SegmentPolicy};
    use catena_wire::{Buffer, NodeId, Rights};

    use super::*;
    use crate::{
        GrantTerms, Segment,
        segments::{Hub, Sharing},
    };

    /// The result of a return buffer of this size into which the server has written this word first.
    async fn told(bytes: u64, word: u64) -> Result<Bytes, Exception> {
        let sharing = Sharing { memory: false, remote: None };
        let hub = Hub::new(NodeId(1), SegmentPolicy::default(), 0, sharing);
        let segment = Segment::export(&hub, "room", bytes + WORD_BYTES, Export::default())?;
        let terms = GrantTerms { rights: Rights::WRITE, offset: 0, bytes, uses: 1, lasts: TIMEOUT };
        let at = segment.grant(NodeId(2), terms)?.at;
        let room = Room { buffer: Buffer { at, bytes: segment.bytes(), lent: None }, segment, loan: None };
        room.segment.write(WORD_BYTES, b"answer")?;
        room.segment.write(0, &word.to_ne_bytes())?;
        returned(Some(&room)).await
    }

    #[tokio::test]
    async fn a_server_that_lies_about_its_answer_is_at_fault_and_nothing_else_happens() {
        assert_eq!(told(6, 7).await.unwrap().as_ref(), b"answer");
        assert_eq!(told(6, 1).await.unwrap().as_ref(), b"", "nothing is an answer");
        for word in [8, 1 << 40, u64::MAX] {
            let why = told(6, word).await.unwrap_err();
            assert_eq!((why.name.as_str(), why.fault), (names::PROTOCOL, Fault::Service), "{word}");
        }
    }
}
