//! Messages between services (libRIPC, section III.A): short ones in bounded mailboxes; long ones, whose bytes stay with their sender until they are read;
//! return buffers, into which the answer is written.
//!
//! [`Messages`] decides and copies nothing. The bytes of a long message and a return buffer are ranges of segments, each with a grant to one partner:
//! [`crate::segments`] says who may read and write them.
//!
//! | part | what it knows |
//! | --- | --- |
//! | `mailboxes` | what came for services of this node and was not taken, bounded in all and for each party |
//! | `held` | what this node holds for others, and what ends that: buffers of long messages and return buffers, bounded for each party in bytes and time |
//! | `carrier` | which way an answer goes, where a buffer's bytes lie, and which calls and results lie there too |
//! | `area` | which ranges are in use in the memory that is lent to a partner on the same host |
//!
//! `H` is what is released when nobody needs a message's buffers any more, `W` whoever waits for its outcome, `B` the bell that wakes a mailbox's reader.

mod area;
mod carrier;
mod held;
mod mailboxes;
mod policy;

use alloc::{collections::BTreeMap, string::String, sync::Arc, vec::Vec};
use core::net::IpAddr;

use catena_wire::{COMPLETIONS_MAX, Datagram, NodeId, NodeRef};

pub use area::Area;
pub use carrier::{Carrier, Load, can_be_carried, carrier, is_carried, is_lent};
pub use held::{Ended, Outcome, Terms, Until};
pub use mailboxes::{Letter, MailboxError};
pub use policy::MessagePolicy;

#[cfg(feature = "seeded-bugs")]
pub use crate::bug::MessageBug;

use crate::{
    Time,
    collections::{Parties, Party, Shares},
};
use held::Held;
use mailboxes::Mailboxes;

/// After this many messages that the other end of a link could not map, no more are sent that way over the link.
const NOT_MAPPED_MAX: u32 = 4;
/// Limit on partners that this node owes notice that it has read their messages: beyond it, notice is given at once.
const OWED_PEERS_MAX: usize = 4_096;

/// Counts of what became of messages sent by this node, and of those that came: nobody is told of what is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MessageCounts {
    /// Messages that came into a mailbox.
    pub received: u64,
    /// Messages that came for a service that has no mailbox here.
    pub nobody_here: u64,
    /// Messages that came to a full mailbox, or beyond one partner's share of it.
    pub no_room: u64,
    /// Answers that came when nobody waited for them any more.
    pub late: u64,
    /// Short messages for which this node's link had no room.
    pub not_sent: u64,
    /// Answers of this node that went in one frame.
    pub answered_short: u64,
    /// Answers of this node that were written into a return buffer.
    pub answered_returned: u64,
    /// Answers of this node that were left to the partner to read.
    pub answered_long: u64,
    /// Buffers lent to a partner on this host, for it to map.
    pub lent: u64,
    /// Reads of partners' buffers that this node maps, without requests to them.
    pub read_near: u64,
    /// Answers written into a return buffer through memory that both map.
    pub returned_near: u64,
    /// Calls and results of this node that their receivers took from memory that was lent to them.
    pub carried: u64,
    /// Calls and results of partners that this node took from memory lent to it.
    pub carried_here: u64,
}

/// What is to be done with a message that came.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "it lives no longer than it takes to look at it")]
pub enum Delivered<H, W, B> {
    /// It is in the mailbox: wake its reader.
    Queued(B),
    /// It ends something that is held, whose waiter gets the message.
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
    parties: Parties,
    mailboxes: Mailboxes<B>,
    last_number: u64,
    held: BTreeMap<u64, Held<H, W>>,
    /// How much is held for the partners of each party.
    shares: Shares<Party>,
    /// Messages of partners that this node has read, without having told them yet.
    owed: BTreeMap<NodeId, Vec<u64>>,
    /// How often the other end of a link could not map what it was lent.
    not_mapped: BTreeMap<u64, u32>,
    /// What became of messages so far. The driver counts what became of their bytes.
    pub counts: MessageCounts,
}

impl<H, W, B: Clone> Messages<H, W, B> {
    /// Nothing has come, and nothing is held.
    #[must_use]
    pub fn new(policy: MessagePolicy) -> Self {
        Self {
            policy,
            parties: Parties::default(),
            mailboxes: Mailboxes::default(),
            last_number: 0,
            held: BTreeMap::new(),
            shares: Shares::default(),
            owed: BTreeMap::new(),
            not_mapped: BTreeMap::new(),
            counts: MessageCounts::default(),
        }
    }

    /// From which address a node is linked from now on; `None`: it is a process of this machine, or not linked any more. See [`crate::Node::on_linked`].
    pub fn on_linked(&mut self, node: NodeId, address: Option<IpAddr>) {
        self.parties.linked(node, address);
    }

    /// Takes messages for a service from now on.
    ///
    /// # Errors
    /// See [`MailboxError`].
    pub fn open(&mut self, service: &str, bell: B) -> Result<(), MailboxError> {
        self.mailboxes.open(service, bell, &self.policy)
    }

    /// Closes a mailbox, and returns the messages that were not taken.
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

    /// A message came. What it says about messages that its sender has read goes to [`Messages::on_taken`].
    pub fn deliver(&mut self, from: &Arc<NodeRef>, datagram: Datagram) -> Delivered<H, W, B> {
        if let Some(number) = datagram.about {
            let anybody = bug!(self.policy, MessageBug::StrangersAnswer);
            return match self.end_by(from.id, number, anybody, Until::is_question, Outcome::Answered) {
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
        let party = self.parties.of(from.id);
        let Some(bell) = self.mailboxes.put((party, from), datagram, &self.policy) else {
            self.counts.no_room += 1;
            return Delivered::Dropped;
        };
        self.counts.received += 1;
        Delivered::Queued(bell)
    }

    /// A number that no other message of this node has.
    pub const fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Reserves room for what a message holds for a partner, until its time is over. Returns its number.
    ///
    /// # Errors
    /// The limit that is reached, by its name; the waiter is given back.
    pub fn hold(&mut self, now: Time, terms: Terms, waiter: Option<W>) -> Result<u64, (&'static str, Option<W>)> {
        let Self { shares, policy, .. } = self;
        let party = self.parties.of(terms.to);
        let with = |bytes: u64| bytes.saturating_add(terms.bytes);
        let limit = match () {
            () if shares.all() >= policy.held_max => Some("held_max"),
            () if with(shares.all_bytes()) > policy.held_bytes_max => Some("held_bytes_max"),
            () if bug!(policy, MessageBug::OnePeerHoldsAll) => None,
            () if shares.of(party) >= policy.held_per_peer_max => Some("held_per_peer_max"),
            () if with(shares.bytes_of(party)) > policy.held_bytes_per_peer_max => Some("held_bytes_per_peer_max"),
            () => None,
        };
        if let Some(limit) = limit {
            return Err((limit, waiter));
        }
        shares.add_sized(party, terms.bytes);
        let until = now.after(terms.lasts_us.min(policy.held_time_max_us));
        let number = self.number();
        self.held.insert(number, Held { terms, party, until, held: None, waiter });
        Ok(number)
    }

    /// Sets what is released when the holding ends; returns it if that has happened already.
    pub fn attach(&mut self, number: u64, held: H) -> Option<H> {
        match self.held.get_mut(&number) {
            Some(place) => place.held.replace(held),
            None => Some(held),
        }
    }

    /// A partner has read the buffers of these messages, or will not. What is held for an answer stays until the answer comes.
    pub fn on_taken(&mut self, from: NodeId, numbers: &[u64]) -> Vec<Ended<H, W>> {
        let mut ended = Vec::new();
        for number in numbers {
            let anybody = bug!(self.policy, MessageBug::StrangersTake);
            let carried = self.held.get(number).is_some_and(|held| matches!(held.terms.until, Until::Taken(_)));
            let taken = self.end_by(from, *number, anybody, |until| !until.is_question(), Outcome::Taken);
            self.counts.carried += u64::from(carried && taken.is_some());
            ended.extend(taken);
        }
        ended
    }

    /// This node does not want it any more.
    pub fn let_go(&mut self, number: u64) -> Option<Ended<H, W>> {
        self.end(number, Outcome::LetGo)
    }

    /// Ends what has been held for its full time.
    pub fn on_timeout(&mut self, now: Time) -> Vec<Ended<H, W>> {
        if bug!(self.policy, MessageBug::HeldForEver) {
            return Vec::new();
        }
        self.end_all(|held| held.until <= now, Outcome::Late)
    }

    /// A link is gone: no answer comes by it, and messages beside it are lost. Long messages stay, since their partner may come back by another link.
    pub fn on_link_lost(&mut self, link: u64) -> Vec<Ended<H, W>> {
        self.not_mapped.remove(&link);
        self.end_all(|held| held.terms.until.link() == Some(link), Outcome::LinkLost)
    }

    /// This node has read a partner's long message, and says so with the next message that goes there. If too many such notices wait, they are returned, to be
    /// sent at once.
    pub fn owe(&mut self, to: NodeId, number: u64) -> Vec<u64> {
        if self.owed.len() >= OWED_PEERS_MAX && !self.owed.contains_key(&to) {
            return alloc::vec![number];
        }
        let owed = self.owed.entry(to).or_default();
        owed.push(number);
        if owed.len() < COMPLETIONS_MAX { Vec::new() } else { self.owed(to) }
    }

    /// The notices of messages read that go with a message to this partner.
    pub fn owed(&mut self, to: NodeId) -> Vec<u64> {
        // No look-up where nothing is owed, which is the common case.
        if self.owed.is_empty() { Vec::new() } else { self.owed.remove(&to).unwrap_or_default() }
    }

    /// Which way an answer goes under this load, from a service with this mailbox. Counts the answer.
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

    /// A return buffer could not be written to: the answer went as a long message.
    pub const fn note_not_returned(&mut self) {
        self.counts.answered_returned -= 1;
        self.counts.answered_long += 1;
    }

    /// Whether the other end of a link maps what is lent to it, as far as is known: an end that has failed too often is not tried again.
    #[must_use]
    pub fn maps(&self, link: u64) -> bool {
        self.not_mapped.get(&link).is_none_or(|times| *times < NOT_MAPPED_MAX)
    }

    /// A partner cannot map a message beside this link, and did not look at it: the message goes by the link instead. Only its receiver can say so, once.
    pub fn on_not_mapped(&mut self, from: NodeId, link: u64, number: u64) -> Option<Ended<H, W>> {
        let anybody = bug!(self.policy, MessageBug::StrangersSendBack);
        let ended = self.end_by(from, number, anybody, |until| until == Until::Taken(link), Outcome::NotMapped)?;
        *self.not_mapped.entry(link).or_default() += 1;
        Some(ended)
    }

    /// How many messages wait in mailboxes, for how many messages something is held, and how many bytes that is.
    #[must_use]
    pub fn load(&self) -> (usize, usize, u64) {
        (self.mailboxes.all_waiting(), self.shares.all(), self.shares.all_bytes())
    }

    /// A partner says something that may end a holding. Only the partner for whom it is held can end it.
    fn end_by(
        &mut self,
        from: NodeId,
        number: u64,
        anybody: bool,
        ends: impl Fn(Until) -> bool,
        outcome: Outcome,
    ) -> Option<Ended<H, W>> {
        let terms = self.held.get(&number)?.terms;
        let his = terms.to == from || anybody;
        if his && ends(terms.until) { self.end(number, outcome) } else { None }
    }

    fn end_all(&mut self, which: impl Fn(&Held<H, W>) -> bool, outcome: Outcome) -> Vec<Ended<H, W>> {
        let over = self.held.iter().filter(|(_, held)| which(held)).map(|(number, _)| *number);
        let over: Vec<u64> = over.collect();
        over.into_iter().filter_map(|number| self.end(number, outcome)).collect()
    }

    fn end(&mut self, number: u64, outcome: Outcome) -> Option<Ended<H, W>> {
        let Held { terms, party, held, waiter, .. } = self.held.remove(&number)?;
        self.shares.remove_sized(party, terms.bytes);
        Some(Ended { held, waiter, outcome })
    }
}
