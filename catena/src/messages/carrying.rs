//! Long calls and results between nodes on one host: their bytes are put into memory lent to the receiver, and a small message says where. Callers do not see
//! this; `catena_core::messages::is_carried` decides which messages go that way.
//!
//! A link promises that every message it accepted arrives, or that the link breaks. The same holds here: a receiver that cannot map the memory says so before
//! it has looked at any byte, and the message goes over the link after all; a message that is lost otherwise ends its link.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, Weak},
    time::{Duration, Instant},
};

use catena_core::messages::{Ended, can_be_carried, is_carried};
use catena_net::{Lease, Link, Message as Frame};
use catena_wire::{Buffer, Message, NodeId, NodeRef, SegmentMessage};

use super::{
    lending::{For, is_near},
    post::is_posted,
};
use crate::{
    segments::Near,
    shell::{LinkEvents, Shell, lock},
};

/// How long a message is held for a receiver that does not look: no shorter than anything else is held.
const CARRIED_LASTS: Duration = Duration::from_secs(60);
/// Messages of one partner that wait until its memory is mapped: it cannot hold more that are long enough to be carried.
const WAITING_MAX: usize = 256;
/// A byte is copied into the lent memory and out of it again; the receiver sees half of that.
const COPIES: u64 = 2;

/// A message in lent memory, until its receiver has taken it.
#[derive(Debug)]
pub(super) struct Carried {
    link: Weak<Link>,
    /// Sent over the link if the receiver cannot map the memory.
    message: Frame,
    _memory: Lease,
}

impl Carried {
    /// Called when nobody took it in time.
    pub(super) fn is_lost(&self) {
        if let Some(link) = self.link.upgrade() {
            link.give_up("a message beside it was not taken in its time");
        }
    }
}

/// Messages that wait for a partner's memory to be mapped, which is done once for each partner.
#[derive(Debug, Default)]
pub(super) struct Mapping {
    waiting: Mutex<HashMap<NodeId, Waiting>>,
}

/// The link by which each message was announced, and where it lies.
type Waiting = Vec<(Arc<Link>, There)>;

/// Where a message lies, according to its sender.
#[derive(Debug)]
struct There {
    number: u64,
    buffer: Buffer,
}

impl Shell {
    /// Puts the message into memory that its receiver maps, if it is to go that way; if not, returns it.
    pub(crate) fn carry(self: &Arc<Self>, link: &Arc<Link>, message: Frame) -> Result<(), Frame> {
        if self.is_carried(link, &message) && self.is_lying_there(link, &message).is_some() {
            return Ok(());
        }
        Err(message)
    }

    fn is_carried(&self, link: &Link, message: &Frame) -> bool {
        let bytes = message.bytes() as u64;
        is_carried(true, bytes, &self.post.policy)
            && Message::is_of_call(&message.head)
            && is_carried(self.lends() && is_near(link), bytes, &self.post.policy)
            && link.takes(bytes)
            && self.post.machine().maps(link.id())
    }

    /// `None`: there is no room for it in lent memory.
    fn is_lying_there(self: &Arc<Self>, link: &Arc<Link>, message: &Frame) -> Option<()> {
        let to = self.peers.of(link)?;
        let bytes = message.bytes() as u64;
        let memory = self.endpoint()?.memory().lease(bytes).ok()?;
        let carried = Carried { link: Arc::downgrade(link), message: message.clone(), _memory: memory };
        let offer = self.offer_for(to.id, link, bytes, (CARRIED_LASTS, Some(carried)))?;
        if !offer.put(&message.head) || !is_posted(link, offer.message()) {
            return None;
        }
        offer.keep();
        tracing::trace!(to = %to.name, bytes, "lies in memory that its receiver maps");
        Some(())
    }

    /// The receiver could not map the memory of a message.
    pub(super) fn not_mapped(&self, link: &Link, from: NodeId, number: u64) {
        let ended = self.post.machine().on_not_mapped(from, link.id(), number);
        let Some(Ended { held: Some(mut held), .. }) = ended else { return };
        if let Some(Carried { message, .. }) = held.carried.take()
            && let Err(why) = link.post(message)
        {
            link.give_up(&format!("a message could not go by it: {why}"));
        }
    }

    /// A partner announced a message in lent memory.
    pub(super) fn on_carried(self: &Arc<Self>, link: &Arc<Link>, from: &Arc<NodeRef>, number: u64, buffer: Buffer) {
        if !can_be_carried(&buffer, link.message_bytes_max()) {
            return link.give_up("what was said of a message beside it cannot be");
        }
        let there = There { number, buffer };
        match self.mapped_already(from.id, &buffer.at, For::Reading) {
            Some(pages) => self.take_carried(link, &there, &pages),
            None => self.take_when_mapped(link, from, there),
        }
    }

    fn take_when_mapped(self: &Arc<Self>, link: &Arc<Link>, from: &Arc<NodeRef>, there: There) {
        let Some(lent) = there.buffer.lent else { return is_not_mapped(link, &there) };
        let at = there.buffer.at;
        let left_out = {
            let mut waiting = lock(&self.post.lending.mapping.waiting);
            match waiting.get_mut(&from.id) {
                Some(others) if others.len() < WAITING_MAX => return others.push((Arc::clone(link), there)),
                Some(_) => Some(there),
                None => {
                    waiting.insert(from.id, vec![(Arc::clone(link), there)]);
                    None
                }
            }
        };
        if let Some(there) = left_out {
            return is_not_mapped(link, &there);
        }
        let (shell, from) = (Arc::clone(self), Arc::clone(from));
        self.runtime().spawn(async move {
            shell.mapped(&from, &at, &lent, For::Reading).await;
            let waiting = lock(&shell.post.lending.mapping.waiting).remove(&from.id).unwrap_or_default();
            for (link, there) in waiting {
                match shell.mapped_already(from.id, &there.buffer.at, For::Reading) {
                    Some(pages) => shell.take_carried(&link, &there, &pages),
                    None => is_not_mapped(&link, &there),
                }
            }
        });
    }

    /// Copies the message out of lent memory, and handles it.
    fn take_carried(self: &Arc<Self>, link: &Arc<Link>, there: &There, pages: &Near) {
        let There { number, buffer } = there;
        let (Some(lent), Some(grant)) = (buffer.lent, buffer.at.grant) else { return };
        let count = buffer.bytes as usize;
        let needed = buffer.bytes.saturating_add(Message::decoded_bytes_max(count));
        let Some(_memory) = self.endpoint().and_then(|endpoint| endpoint.memory().lease(needed).ok()) else {
            return is_not_mapped(link, there);
        };
        let (mut head, began) = (vec![0; count], Instant::now());
        match pages.read_lent((lent.word, grant), buffer.at.offset, &mut head) {
            // The message has not been looked at.
            None => is_not_mapped(link, there),
            Some(Err(_)) => link.give_up("a message beside it was gone before it was taken"),
            Some(Ok(())) => {
                let took_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX).max(1);
                link.suppose_rate(buffer.bytes.saturating_mul(1_000_000) / took_us / COPIES);
                is_posted(link, SegmentMessage::Taken(vec![*number]));
                self.post.machine().counts.carried_here += 1;
                LinkEvents::carried(self, link, &head);
            }
        }
    }
}

fn is_not_mapped(link: &Link, there: &There) {
    is_posted(link, SegmentMessage::NotMapped(there.number));
}

#[cfg(test)]
#[path = "carrying_tests.rs"]
mod tests;
