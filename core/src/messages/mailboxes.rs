//! Messages that came for services of this node. A flood from one partner leaves room for the others; what finds no room is dropped.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    vec::Vec,
};
use core::fmt;

use catena_wire::{Datagram, NAME_BYTES_MAX, NodeRef};

use super::policy::MessagePolicy;
use crate::collections::{Party, Shares};

/// What a message costs its mailbox beyond its items, in bytes.
const OVERHEAD_BYTES: usize = 256;

/// Why there is no mailbox.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MailboxError {
    /// Another mailbox here takes the messages of this service already.
    Twice,
    /// Names have 1 to 256 bytes and no slash.
    Name,
    /// The node has as many mailboxes as it allows.
    TooMany,
}

impl fmt::Display for MailboxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Twice => "this node has a mailbox of this name; use that one, or drop it first",
            Self::Name => "a service's name has 1 to 256 bytes and no slash",
            Self::TooMany => "the node's limit mailboxes_max is reached; drop some, or raise it",
        })
    }
}

impl core::error::Error for MailboxError {}

/// A message, and the node that it came from.
pub type Letter = (Arc<NodeRef>, Datagram);

#[derive(Debug)]
struct Mailbox<B> {
    bell: B,
    /// Each message with the party whose share it takes.
    queue: VecDeque<(Party, Letter)>,
    shares: Shares<Party>,
}

#[derive(Debug)]
pub(super) struct Mailboxes<B> {
    by_service: BTreeMap<Box<str>, Mailbox<B>>,
}

impl<B> Default for Mailboxes<B> {
    fn default() -> Self {
        Self { by_service: BTreeMap::new() }
    }
}

impl<B: Clone> Mailboxes<B> {
    pub(super) fn open(&mut self, service: &str, bell: B, policy: &MessagePolicy) -> Result<(), MailboxError> {
        match () {
            () if service.is_empty() || service.len() > NAME_BYTES_MAX || service.contains('/') => {
                return Err(MailboxError::Name);
            }
            () if self.is_open(service) => return Err(MailboxError::Twice),
            () if self.by_service.len() >= policy.mailboxes_max => return Err(MailboxError::TooMany),
            () => {}
        }
        let mailbox = Mailbox { bell, queue: VecDeque::new(), shares: Shares::default() };
        self.by_service.insert(service.into(), mailbox);
        Ok(())
    }

    pub(super) fn close(&mut self, service: &str) -> Vec<Letter> {
        let letters = self.by_service.remove(service).map(|mailbox| mailbox.queue).unwrap_or_default();
        letters.into_iter().map(|(_, letter)| letter).collect()
    }

    pub(super) fn is_open(&self, service: &str) -> bool {
        self.by_service.contains_key(service)
    }

    /// Puts a message into its mailbox. Returns that mailbox's bell; `None` if there is no room.
    pub(super) fn put(
        &mut self,
        (party, from): (Party, &Arc<NodeRef>),
        datagram: Datagram,
        policy: &MessagePolicy,
    ) -> Option<B> {
        let mailbox = self.by_service.get_mut(datagram.to.as_str())?;
        let (bytes, shares) = (cost(&datagram), &mut mailbox.shares);
        let full = shares.all() >= policy.mailbox_messages_max
            || shares.all_bytes() + bytes > policy.mailbox_bytes_max as u64
            || shares.of(party) >= policy.mailbox_messages_per_peer_max;
        if full && !bug!(policy, MessageBug::NoRoomNeeded) {
            return None;
        }
        shares.add_sized(party, bytes);
        mailbox.queue.push_back((party, (Arc::clone(from), datagram)));
        Some(mailbox.bell.clone())
    }

    pub(super) fn take(&mut self, service: &str) -> Option<Letter> {
        let mailbox = self.by_service.get_mut(service)?;
        let (party, letter) = mailbox.queue.pop_front()?;
        mailbox.shares.remove_sized(party, cost(&letter.1));
        Some(letter)
    }

    pub(super) fn waiting(&self, service: &str) -> usize {
        self.by_service.get(service).map_or(0, |mailbox| mailbox.queue.len())
    }

    pub(super) fn all_waiting(&self) -> usize {
        self.by_service.values().map(|mailbox| mailbox.queue.len()).sum()
    }
}

fn cost(datagram: &Datagram) -> u64 {
    let items: usize = datagram.items.iter().map(|item| item.len() + size_of::<bytes::Bytes>()).sum();
    let buffers = datagram.buffers.len() * size_of::<catena_wire::Buffer>();
    (OVERHEAD_BYTES + datagram.from.len() + datagram.to.len() + items + buffers) as u64
}
