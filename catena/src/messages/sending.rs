//! Outgoing messages, to whichever node takes those of a service.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use catena_core::{
    messages::{Outcome, Terms, Until},
    segments::Export,
};
use catena_net::Link;
use catena_wire::{
    BUFFERS_MAX, Buffer, Completion, Datagram, Exception, Fault, NodeRef, Rights, SHORT_BYTES_MAX, SHORT_ITEMS_MAX,
    SegmentMessage, names,
};
use tokio::sync::oneshot;

use super::{
    lending::{For, Loan},
    post::{Came, Held, Post, offer},
};
use crate::{GrantTerms, Granted, Segment, random, segments::pieces_of, shell::Shell};

/// How long the buffers of a message are held by default.
const LASTS: Duration = Duration::from_secs(10);

/// A long message: its receiver may read it when it likes, and the sender need not wait for that.
#[derive(Debug)]
pub struct Long {
    pub(super) items: Vec<Bytes>,
    contents: Vec<Content>,
    completion: Completion,
    requests: Option<u32>,
    lasts: Duration,
}

#[derive(Debug)]
enum Content {
    Bytes(Bytes),
    Part(Segment, u64, u64),
}

impl Content {
    /// How many bytes of its own this node holds for it.
    const fn held(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Part(..) => 0,
        }
    }
}

impl Default for Long {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            contents: Vec::new(),
            completion: Completion::default(),
            requests: None,
            lasts: LASTS,
        }
    }
}

impl Long {
    /// A message with one buffer, of these bytes.
    pub fn of(bytes: impl Into<Bytes>) -> Self {
        Self::default().and(bytes)
    }

    /// Adds a buffer of these bytes. They are not copied before they are sent, except for a partner on this host, into whose memory they are copied.
    #[must_use]
    pub fn and(mut self, bytes: impl Into<Bytes>) -> Self {
        self.contents.push(Content::Bytes(bytes.into()));
        self
    }

    /// Adds a buffer: this range of a segment, as it is when it is read. Changes made before that are sent.
    #[must_use]
    pub fn and_part(mut self, segment: &Segment, offset: u64, bytes: u64) -> Self {
        self.contents.push(Content::Part(segment.clone(), offset, bytes));
        self
    }

    /// Adds a small item that travels with the message itself.
    #[must_use]
    pub fn item(mut self, item: impl Into<Bytes>) -> Self {
        self.items.push(item.into());
        self
    }

    /// How the sender learns that the message has been read. Default: by a message of its own.
    #[must_use]
    pub const fn completion(mut self, completion: Completion) -> Self {
        self.completion = completion;
        self
    }

    /// How many requests may read each buffer. Default: as many as it takes to read it once, in pieces of 256 KiB.
    #[must_use]
    pub const fn requests(mut self, requests: u32) -> Self {
        self.requests = Some(requests);
        self
    }

    /// How long the message is held. Default: 10 s; at most [`crate::MessagePolicy::held_time_max_us`].
    #[must_use]
    pub const fn lasts(mut self, lasts: Duration) -> Self {
        self.lasts = lasts;
        self
    }
}

/// A long message under way. Dropping this does not take the message back.
pub struct Sent {
    shell: Arc<Shell>,
    number: u64,
    outcome: oneshot::Receiver<Came>,
}

impl std::fmt::Debug for Sent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sent").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Sent {
    /// Waits until the receiver has read the message, or does not want more of it.
    ///
    /// # Errors
    /// `DeadlineExceeded`, `unknown`: the receiver did not report completion in time. If completion is left to the timeout, it always ends like this.
    pub async fn completed(self) -> Result<(), Exception> {
        match self.outcome.await {
            Ok(Came::Over(Outcome::Taken)) => Ok(()),
            _ => {
                let text = "nobody said in its time that the long message was read; what was not read is gone";
                Err(Exception::new(names::DEADLINE_EXCEEDED, Fault::Network, text).outcome_unknown())
            }
        }
    }

    /// Takes the message back: from now on it cannot be read. Returns whether it was still held.
    #[must_use]
    pub fn take_back(self) -> bool {
        let ended = self.shell.post.machine().let_go(self.number);
        let held = ended.is_some();
        Post::finish(ended);
        held
    }
}

/// The node that a service was found at.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) service: String,
    pub(super) node: Arc<NodeRef>,
    /// `None`: it is this node.
    pub(super) link: Option<Arc<Link>>,
}

/// Checks the items of a message, which must fit into one frame.
pub(super) fn checked(items: Vec<Bytes>) -> Result<Vec<Bytes>, Exception> {
    let bytes: usize = items.iter().map(Bytes::len).sum();
    if bytes <= SHORT_BYTES_MAX && items.len() <= SHORT_ITEMS_MAX {
        return Ok(items);
    }
    let text = format!(
        "a short message has at most {SHORT_ITEMS_MAX} items of {SHORT_BYTES_MAX} bytes together, and this one has {} of {bytes}; send it as a long message",
        items.len()
    );
    Err(Exception::new(names::LIMIT_EXCEEDED, Fault::Caller, text))
}

/// A question's return buffer: its segment, and how it is described to the partner.
pub(super) struct Room {
    pub(super) segment: Segment,
    pub(super) buffer: Buffer,
    /// Set if the partner may map it.
    pub(super) loan: Option<Loan>,
}

/// The sender and recipient of a message.
pub(super) struct Letter<'m> {
    pub(super) from: &'m str,
    pub(super) target: &'m Target,
    /// The message that this one answers.
    pub(super) about: Option<u64>,
}

impl Shell {
    /// Finds the node that takes a service's messages.
    pub(super) async fn target(self: &Arc<Self>, service: &str) -> Result<Target, Exception> {
        let found = |node, link| Target { service: service.to_owned(), node, link };
        if self.post.machine().is_open(service) {
            return Ok(found(Arc::new(self.me.clone()), None));
        }
        let (node, link) = self.locate(service).await?;
        Ok(found(node, Some(link)))
    }

    /// Sends a short message; if it finds no room on the way it is dropped and counted.
    pub(super) fn send_short(self: &Arc<Self>, letter: &Letter<'_>, items: Vec<Bytes>) -> Result<(), Exception> {
        let datagram = Datagram { items: checked(items)?, ..self.datagram(letter) };
        if !self.dispatch(letter.target, datagram) {
            self.post.machine().counts.not_sent += 1;
        }
        Ok(())
    }

    pub(super) fn datagram(&self, letter: &Letter<'_>) -> Datagram {
        let Letter { from, target, about } = letter;
        Datagram { from: (*from).to_owned(), to: target.service.clone(), about: *about, ..Datagram::default() }
    }

    /// Returns whether the message was sent. Pending completion reports go with it.
    pub(super) fn dispatch(self: &Arc<Self>, target: &Target, mut datagram: Datagram) -> bool {
        let Some(link) = &target.link else {
            self.deliver(&target.node, datagram);
            return true;
        };
        datagram.taken = self.post.machine().owed(target.node.id);
        offer(link, SegmentMessage::Short(Box::new(datagram)))
    }

    /// Sends a long message.
    pub(super) fn send_long(self: &Arc<Self>, letter: &Letter<'_>, long: Long) -> Result<Sent, Exception> {
        let (number, outcome, _) = self.send_held(letter, long, None)?;
        Ok(Sent { shell: Arc::clone(self), number, outcome })
    }

    /// Sends a message for which something is held: buffers to be read and, if `asks` is set, room for an answer that is awaited.
    pub(super) fn send_held(
        self: &Arc<Self>,
        letter: &Letter<'_>,
        mut long: Long,
        asks: Option<Option<u64>>,
    ) -> Result<(u64, oneshot::Receiver<Came>, Option<Room>), Exception> {
        let target = letter.target;
        let items = checked(std::mem::take(&mut long.items))?;
        if long.contents.len() > BUFFERS_MAX {
            let text =
                format!("a long message has at most {BUFFERS_MAX} buffers, and this one {}", long.contents.len());
            return Err(Exception::new(names::LIMIT_EXCEEDED, Fault::Caller, text));
        }
        let room_bytes = asks.flatten();
        let held = long.contents.iter().map(Content::held).sum::<u64>().saturating_add(room_bytes.unwrap_or_default());
        let lasts_us = u64::try_from(long.lasts.as_micros()).unwrap_or(u64::MAX);
        let until = match asks {
            Some(_) => Until::Answered(target.link.as_ref().map_or(u64::MAX, |link| link.id())),
            None => Until::Read,
        };
        let terms = Terms { to: target.node.id, until, bytes: held, lasts_us };
        let (waiter, outcome) = oneshot::channel();
        let number = self.post.machine().hold(self.segments.now(), terms, Some(waiter));
        let number = number.map_err(|(limit, _)| full(&target.node, limit))?;
        self.keep_sweeping();
        let sent = self.lend(target, &long, room_bytes).and_then(|(held, buffers, room)| {
            // The buffers must be held before the message is sent.
            drop(self.post.machine().attach(number, held));
            let datagram = Datagram {
                number,
                items,
                buffers,
                completion: long.completion,
                room: room.as_ref().map(|room| room.buffer),
                asks: asks.is_some(),
                ..self.datagram(letter)
            };
            if self.dispatch(target, datagram) { Ok(room) } else { Err(busy(&target.node)) }
        });
        match sent {
            Ok(room) => Ok((number, outcome, room)),
            Err(why) => {
                let ended = self.post.machine().let_go(number);
                Post::finish(ended);
                Err(why)
            }
        }
    }

    /// Makes segments of the buffers, and grants them to the partner alone.
    fn lend(
        self: &Arc<Self>,
        target: &Target,
        long: &Long,
        room_bytes: Option<u64>,
    ) -> Result<(Held, Vec<Buffer>, Option<Room>), Exception> {
        let (mut held, mut buffers) = (Held::default(), Vec::new());
        let grant = |segment: &Segment, rights, offset, bytes, uses| {
            segment.grant(target.node.id, GrantTerms { rights, offset, bytes, uses, lasts: long.lasts })
        };
        for content in &long.contents {
            let (segment, offset, bytes, loan) = match content {
                Content::Bytes(bytes) => self.place(target, bytes)?,
                Content::Part(segment, offset, bytes) => (segment.clone(), *offset, *bytes, None),
            };
            let requests = long.requests.unwrap_or_else(|| pieces_of(bytes));
            let granted = grant(&segment, Rights::READ, offset, bytes, requests)?;
            buffers.push(described(&granted, bytes, loan.as_ref(), requests));
            held.ranges.push((segment, granted, loan));
        }
        let room = match room_bytes {
            Some(bytes) => {
                let loan = self.loan(target.node.id, target.link.as_deref(), bytes, For::Writing);
                let (segment, offset) = match &loan {
                    Some(loan) => (loan.segment().clone(), loan.offset()),
                    None => (Segment::export(&self.segments, &unfound(), bytes, Export::default())?, 0),
                };
                segment.write(offset, &[0; super::answering::WORD_BYTES as usize])?;
                // The bytes of the answer, and the word that announces them.
                let uses = pieces_of(bytes).saturating_add(1);
                let granted = grant(&segment, Rights::WRITE, offset, bytes, uses)?;
                let buffer = described(&granted, bytes, loan.as_ref(), 1);
                held.ranges.push((segment.clone(), granted, None));
                Some(Room { segment, buffer, loan })
            }
            None => None,
        };
        Ok((held, buffers, room))
    }

    /// Where these bytes are placed for this partner: in memory that it may map, or where they are.
    fn place(
        self: &Arc<Self>,
        target: &Target,
        content: &Bytes,
    ) -> Result<(Segment, u64, u64, Option<Loan>), Exception> {
        let bytes = content.len() as u64;
        let Some(loan) = self.loan(target.node.id, target.link.as_deref(), bytes, For::Reading) else {
            return Ok((Segment::of_bytes(&self.segments, &unfound(), content.clone())?, 0, bytes, None));
        };
        loan.segment().write(loan.offset(), content)?;
        Ok((loan.segment().clone(), loan.offset(), bytes, Some(loan)))
    }
}

/// A random name for a segment that is not looked up by name: its partner is told of it.
fn unfound() -> String {
    format!("message {:016x}", random::bits64())
}

/// Describes a buffer for its partner; from now on it may be used.
pub(super) fn described(granted: &Granted, bytes: u64, loan: Option<&Loan>, uses: u32) -> Buffer {
    let lent = loan.zip(granted.at.grant).map(|(loan, grant)| loan.holds(grant, uses));
    Buffer { at: granted.at, bytes, lent }
}

fn full(to: &NodeRef, limit: &str) -> Exception {
    let text = format!(
        "the node's limit {limit} is reached by what is held for {}; nothing was sent; wait until some of it has been read, or its time is over",
        to.name
    );
    Exception::new(names::OVERLOADED, Fault::Node, text)
}

fn busy(to: &NodeRef) -> Exception {
    let text = format!("the link to {} has no room; nothing was sent; send it again later", to.name);
    Exception::new(names::OVERLOADED, Fault::Network, text)
}
