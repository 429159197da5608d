//! Handles what the links bring.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, Weak},
};

use catena_core::HopCopy;
use catena_net::{Handler, Incoming, Link, LinkError, LogLimit};
use catena_wire::{Encoded, Hello, Message, TailCuts, WireError};

use super::{Shell, lock};

/// What peers can cause to be logged is limited.
static DROPPED: LogLimit = LogLimit::new();
static GREETINGS: LogLimit = LogLimit::new();

/// Actions of the machines that may wait before links are read further.
const ACTIONS_WAITING_MAX: usize = 4_096;
/// The same, in bytes of what they carry.
const ACTIONS_BYTES_MAX: usize = 16 << 20;

/// The link layer's access to the shell. Weak, since the shell owns the links.
pub(crate) struct LinkEvents {
    shell: Weak<Shell>,
    /// By link, and the link's number for the message.
    tails: Mutex<HashMap<(u64, u64), Awaiting>>,
}

/// A message whose tail is still arriving.
#[allow(clippy::large_enum_variant, reason = "few tails are on their way at one time")]
enum Awaiting {
    /// The hop has begun, and the machines have the rest of its head.
    Hop { copy: HopCopy, cuts: TailCuts },
    /// Nothing can begin without the tail.
    Other(Message),
}

impl LinkEvents {
    pub(crate) fn new(shell: &Arc<Shell>) -> Self {
        Self { shell: Arc::downgrade(shell), tails: Mutex::default() }
    }

    fn whole(shell: &Arc<Shell>, link: &Arc<Link>, message: Encoded) {
        let Some(from) = shell.peers.of(link) else { return };
        match Message::decode(message) {
            // Answered right here: it needs no chain, call or service.
            Ok(Message::Segment(about)) => shell.on_segment(link, &from, about),
            Ok(message) => {
                if let Message::Over(chains) = &message {
                    shell.blobs.chains_over(chains);
                }
                shell.take_in(|core, now| core.on_message(now, &from, message));
                shell.drive();
            }
            Err(why) => dropped(&from.name, &why),
        }
    }

    /// A message that was carried in shared memory beside the link: only calls and their results come that way.
    pub(crate) fn carried(shell: &Arc<Shell>, link: &Arc<Link>, head: &[u8]) {
        let Some(from) = shell.peers.of(link) else { return };
        match Message::decode_head(head) {
            Ok(message @ (Message::Call { .. } | Message::Return(..))) => {
                shell.take_in(|core, now| core.on_message(now, &from, message));
                shell.drive();
            }
            Ok(_) => link.give_up("what lay beside it was neither a call nor a result"),
            Err(why) => dropped(&from.name, &why),
        }
    }

    fn head(&self, shell: &Arc<Shell>, link: &Arc<Link>, id: u64, head: &[u8]) {
        let Some(from) = shell.peers.of(link) else { return };
        let awaiting = match Message::decode_head(head) {
            Ok(Message::Hop(hop)) => {
                let cuts = hop.tail_cuts();
                let copy = shell.take_in(|core, now| core.on_hop_head(now, &from, hop));
                shell.drive();
                Awaiting::Hop { copy, cuts }
            }
            Ok(other) if other.has_tail() => Awaiting::Other(other),
            Ok(_) => return link.give_up("it announced a tail for what has none"),
            Err(why) => return dropped(&from.name, &why),
        };
        lock(&self.tails).insert((link.id(), id), awaiting);
    }

    fn tail(&self, shell: &Arc<Shell>, link: &Arc<Link>, id: u64, tail: bytes::Bytes) {
        let Some(awaiting) = lock(&self.tails).remove(&(link.id(), id)) else { return };
        match awaiting {
            Awaiting::Hop { copy, cuts } => {
                let tail = cuts.cut(tail).ok();
                shell.take_in(|core, now| core.on_tail(now, &copy, tail));
            }
            Awaiting::Other(mut message) => {
                let Some(from) = shell.peers.of(link) else { return };
                if message.attach_tail(tail).is_ok() {
                    match message {
                        Message::Segment(about) => return shell.on_segment(link, &from, about),
                        message => shell.take_in(|core, now| core.on_message(now, &from, message)),
                    }
                }
            }
        }
        shell.drive();
    }
}

fn dropped(peer: &str, why: &WireError) {
    if let Some(unsaid) = DROPPED.pass() {
        tracing::warn!(peer, %why, unsaid, "a message was dropped");
    }
}

impl Handler for LinkEvents {
    fn on_link(&self, link: &Arc<Link>) {
        let Some(shell) = self.shell.upgrade() else { return };
        let Some(identity) = link.identity() else { return };
        let wrong = match Hello::decode(&identity.hello) {
            Ok(hello) => match shell.may_greet(&hello.node, identity.node) {
                Ok(()) => return shell.greet(link, hello),
                Err(why) => why.to_owned(),
            },
            Err(why) => why.to_string(),
        };
        let peer = link.peer_address();
        if let Some(left_out) = GREETINGS.pass() {
            tracing::warn!(peer, wrong, left_out, "a peer is not listened to");
        }
    }

    fn on_message(&self, link: &Arc<Link>, incoming: Incoming) {
        let Some(shell) = self.shell.upgrade() else { return };
        match incoming {
            Incoming::Whole(message) => Self::whole(&shell, link, Encoded { head: message.head, tail: message.tail }),
            Incoming::Head { id, head, .. } => self.head(&shell, link, id, &head),
            Incoming::Tail { id, tail } => self.tail(&shell, link, id, tail),
        }
    }

    fn is_behind(&self) -> bool {
        self.shell.upgrade().is_some_and(|shell| {
            let (actions, bytes) = shell.core().actions_waiting();
            actions > ACTIONS_WAITING_MAX || bytes > ACTIONS_BYTES_MAX
        })
    }

    fn decoded_bytes_max(&self, head: &[u8]) -> u64 {
        Message::decoded_bytes_max(head.len())
    }

    fn on_link_lost(&self, link: &Arc<Link>, why: &LinkError) {
        let Some(shell) = self.shell.upgrade() else { return };
        let orphans: Vec<_> = lock(&self.tails).extract_if(|(from, _), _| *from == link.id()).collect();
        shell.segments.on_link_lost(link.id());
        shell.messages_lost(link.id());
        let now = shell.now();
        for (_, awaiting) in orphans {
            if let Awaiting::Hop { copy, .. } = awaiting {
                shell.core().on_tail(now, &copy, None);
            }
        }
        if let Some(node) = shell.peers.part(link) {
            tracing::debug!(peer = %node.name, %why, "link lost");
            shell.note_lost(node.id);
        }
        shell.drive();
    }

    fn on_refused(&self, why: &LinkError) {
        if let Some(left_out) = GREETINGS.pass() {
            tracing::warn!(%why, left_out, "a caller was turned away");
        }
    }
}
