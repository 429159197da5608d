//! Messages between services (libRIPC, section III.A): short ones in bounded mailboxes; long ones, whose bytes stay with their sender until they are read;
//! return buffers, into which the answer is written.
//!
//! [`Messages`] decides and copies nothing. The bytes of a long message and a return buffer are ranges of segments, each with a grant to one partner:
//! [`crate::segments`] says who may read and write them.
//!
//! | part | what it knows |
//! | --- | --- |
//! | `mailboxes` | what came for the services of this node and has not been taken: so much, of each partner so much |
//! | `held` | what this node holds for others: buffers of long messages and return buffers, so many bytes for each partner, until a time; who waits for an answer |
//! | `carrier` | by which way an answer goes, where a buffer's bytes lie, and which calls and results lie there too |
//! | `area` | what lies where in the memory that is lent to a partner on the same host |
//!
//! `H` is whatever is let go when nobody needs a message's buffers any more, `W` whoever waits for what becomes of it, `B` wakes who reads a mailbox.

mod area;
mod carrier;
mod held;
mod mailboxes;
mod policy;

use alloc::{collections::BTreeMap, string::String, sync::Arc, vec::Vec};
use catena_wire::{Datagram, NodeId, NodeRef};

pub use area::Area;
pub use carrier::{Carrier, Load, can_be_carried, carrier, is_carried, is_lent};
pub use held::{Ended, Outcome, Terms, Until};
pub use mailboxes::{Letter, MailboxError};
pub use policy::MessagePolicy;

#[cfg(feature = "seeded-bugs")]
pub use crate::bug::MessageBug;

use crate::Time;
use held::AllHeld;
use mailboxes::Mailboxes;

/// By a link whose other end could not map so many messages, no more go so.
const NOT_MAPPED_MAX: u32 = 4;

/// What became of the messages of this node, and of those that came: counted, since nobody is told of what is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MessageCounts {
    /// Messages that came into a mailbox.
    pub received: u64,
    /// Came for a service that has no mailbox here.
    pub nobody_here: u64,
    /// Came to a full mailbox, or beyond one partner's part of it.
    pub no_room: u64,
    /// Answers that came after nobody waited for them.
    pub late: u64,
    /// Short messages that this node's link had no room for.
    pub not_sent: u64,
    /// Answers of this node that went in one frame.
    pub answered_short: u64,
    /// Answers of this node that were written into a return buffer.
    pub answered_returned: u64,
    /// Answers of this node that were left to the partner to read.
    pub answered_long: u64,
    /// Buffers that were lent to a partner on this host, to map.
    pub lent: u64,
    /// Reads of such buffers of partners: without asking them.
    pub read_near: u64,
    /// Answers that were put into a return buffer so.
    pub returned_near: u64,
    /// Calls and results of this node that their receivers took from memory that was lent to them.
    pub carried: u64,
    /// Calls and results of partners that this node took so.
    pub carried_here: u64,
}

/// What is to be done with a message that came.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "it lives no longer than it takes to look at it")]
pub enum Delivered<H, W, B> {
    /// It is in the mailbox: wake its reader.
    Queued(B),
    /// It ends this: who waits gets the message.
    Answers(Ended<H, W>, Datagram),
    /// Nobody here takes messages for this service.
    Nobody(String),
    /// It is dropped.
    Dropped,
}

/// All that a node does with messages between services.
#[derive(Debug)]
pub struct Messages<H, W, B> {
    policy: MessagePolicy,
    mailboxes: Mailboxes<B>,
    held: AllHeld<H, W>,
    /// How often the other end of a link could not map what it was lent.
    not_mapped: BTreeMap<u64, u32>,
    /// What became of messages so far. What became of their bytes, whoever drives this counts.
    pub counts: MessageCounts,
}

impl<H, W, B: Clone> Messages<H, W, B> {
    /// Nothing has come, and nothing is held.
    #[must_use]
    pub fn new(policy: MessagePolicy) -> Self {
        let (mailboxes, held) = (Mailboxes::default(), AllHeld::default());
        Self { policy, mailboxes, held, not_mapped: BTreeMap::new(), counts: MessageCounts::default() }
    }

    /// Takes messages for a service from now on.
    ///
    /// # Errors
    /// See [`MailboxError`].
    pub fn open(&mut self, service: &str, bell: B) -> Result<(), MailboxError> {
        self.mailboxes.open(service, bell, &self.policy)
    }

    /// Takes no more, and drops what was not taken: it is returned.
    pub fn close(&mut self, service: &str) -> Vec<Letter> {
        self.mailboxes.close(service)
    }

    /// Whether messages are taken for this service.
    #[must_use]
    pub fn is_open(&self, service: &str) -> bool {
        self.mailboxes.is_open(service)
    }

    /// The next message for a service.
    pub fn take(&mut self, service: &str) -> Option<Letter> {
        self.mailboxes.take(service)
    }

    /// A message came. What it says of completion is apart: [`Messages::on_taken`].
    pub fn deliver(&mut self, from: &Arc<NodeRef>, datagram: Datagram) -> Delivered<H, W, B> {
        if let Some(number) = datagram.about {
            return match self.held.answered(from.id, number, &self.policy) {
                Some(ended) => Delivered::Answers(ended, datagram),
                None => {
                    self.counts.late += 1;
                    Delivered::Dropped
                }
            };
        }
        if !self.mailboxes.is_open(&datagram.to) {
            self.counts.nobody_here += 1;
            return Delivered::Nobody(datagram.to);
        }
        let Some(bell) = self.mailboxes.put(from, datagram, &self.policy) else {
            self.counts.no_room += 1;
            return Delivered::Dropped;
        };
        self.counts.received += 1;
        Delivered::Queued(bell)
    }

    /// A number that no message of this node has.
    pub const fn number(&mut self) -> u64 {
        self.held.number()
    }

    /// Takes room for what a message holds for a partner, until its time. Its number comes back.
    ///
    /// # Errors
    /// The limit that is reached, by its name; the waiter comes back.
    pub fn hold(&mut self, now: Time, terms: Terms, waiter: Option<W>) -> Result<u64, (&'static str, Option<W>)> {
        self.held.hold(now, terms, waiter, &self.policy)
    }

    /// What is to be let go of at the end. It comes back if that has come already.
    pub fn attach(&mut self, number: u64, held: H) -> Option<H> {
        self.held.attach(number, held)
    }

    /// A partner has read the buffers of these messages, or will not.
    pub fn on_taken(&mut self, from: NodeId, numbers: &[u64]) -> Vec<Ended<H, W>> {
        let mut ended = Vec::new();
        for number in numbers {
            let carried = self.held.is_carried(*number);
            let taken = self.held.taken(from, *number, &self.policy);
            self.counts.carried += u64::from(carried && taken.is_some());
            ended.extend(taken);
        }
        ended
    }

    /// This node wants nothing of it any more.
    pub fn let_go(&mut self, number: u64) -> Option<Ended<H, W>> {
        self.held.let_go(number)
    }

    /// Time has passed.
    pub fn on_timeout(&mut self, now: Time) -> Vec<Ended<H, W>> {
        self.held.on_timeout(now, &self.policy)
    }

    /// A link is gone: no answer comes by it, and what went beside it is lost. Long messages stay, since their partner may come back by another.
    pub fn on_link_lost(&mut self, link: u64) -> Vec<Ended<H, W>> {
        self.not_mapped.remove(&link);
        self.held.on_link_lost(link)
    }

    /// This node has read a partner's long message, and says so with the next message that goes there. Too many of them are given back, to be told
    /// at once.
    pub fn owe(&mut self, to: NodeId, number: u64) -> Vec<u64> {
        self.held.owe(to, number)
    }

    /// What is to be said of completion in a message to this partner.
    pub fn owed(&mut self, to: NodeId) -> Vec<u64> {
        self.held.owed(to)
    }

    /// By which way an answer of so many bytes goes, from a service with this mailbox: counted.
    pub fn answer_by(&mut self, service: &str, load: Load) -> Carrier {
        let carrier =
            carrier(Load { waiting: load.waiting.max(self.mailboxes.waiting(service)), ..load }, &self.policy);
        match carrier {
            Carrier::Short => self.counts.answered_short += 1,
            Carrier::Returned => self.counts.answered_returned += 1,
            Carrier::Long => self.counts.answered_long += 1,
        }
        carrier
    }

    /// A return buffer could not be written to: the answer went long.
    pub const fn note_not_returned(&mut self) {
        self.counts.answered_returned -= 1;
        self.counts.answered_long += 1;
    }

    /// Whether the other end of a link maps what is lent to it, as far as is known: one that said too often that it cannot is not asked again.
    #[must_use]
    pub fn maps(&self, link: u64) -> bool {
        self.not_mapped.get(&link).is_none_or(|times| *times < NOT_MAPPED_MAX)
    }

    /// A partner cannot map a message that was to go beside this link, and did not look at it: it goes by the link. Says so only who it is for, once.
    pub fn on_not_mapped(&mut self, from: NodeId, link: u64, number: u64) -> Option<Ended<H, W>> {
        let ended = self.held.not_mapped(from, link, number, &self.policy)?;
        *self.not_mapped.entry(link).or_default() += 1;
        Some(ended)
    }

    /// Messages that wait in mailboxes, messages that something is held for, and how many bytes that is.
    #[must_use]
    pub fn load(&self) -> (usize, usize, u64) {
        (self.mailboxes.all_waiting(), self.held.count(), self.held.bytes())
    }
}
