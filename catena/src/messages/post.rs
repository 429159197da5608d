//! The messages' state machine under its own lock, and what the links bring for it.

use std::{
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, Weak},
    time::Duration,
};

use catena_core::messages::{Delivered, Ended, MessageCounts, MessagePolicy, Messages, Outcome};
use catena_net::{Link, Message as Frame, awake};
use catena_wire::{Datagram, Encoded, Message, NodeId, NodeRef, SegmentMessage};
use tokio::sync::{Notify, oneshot};

use super::{
    carrying::Carried,
    lending::{Lending, Loan},
};
use crate::{
    Granted, Segment,
    shell::{Shell, lock},
};

/// How often to look for held messages that have expired, while any are held.
const SWEEP_EVERY: Duration = Duration::from_millis(250);

/// The result of something that was held for a partner.
#[derive(Debug)]
pub(super) enum Came {
    /// The partner's answer.
    Answer(Arc<NodeRef>, Box<Datagram>),
    /// It ended without an answer.
    Over(Outcome),
}

/// Ranges of segments that a partner may use. A segment made for this partner alone is dropped with this; of any other only the grant ends.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) ranges: Vec<(Segment, Granted, Option<Loan>)>,
    /// A message that lies there instead of going over a link.
    pub(super) carried: Option<Carried>,
}

impl Held {
    /// Called when the partner has done all that it may.
    fn settle(&self) {
        self.ranges.iter().filter_map(|(.., loan)| loan.as_ref()).for_each(Loan::settle);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        for (segment, granted, _) in &self.ranges {
            segment.take_back(granted);
        }
    }
}

type Machine = Messages<Held, oneshot::Sender<Came>, Arc<Notify>>;

/// The state of a node's messages between services.
#[derive(Debug)]
pub(crate) struct Post {
    machine: Mutex<Machine>,
    pub(super) policy: MessagePolicy,
    pub(super) lending: Lending,
    /// Whether a task checks the time.
    sweeping: Mutex<bool>,
}

impl Post {
    pub(crate) fn new(policy: MessagePolicy) -> Self {
        Self {
            machine: Mutex::new(Messages::new(policy.clone())),
            policy,
            lending: Lending::default(),
            sweeping: Mutex::default(),
        }
    }

    pub(crate) const fn lent_read_bytes_min(&self) -> u64 {
        self.policy.lent_read_bytes_min
    }

    pub(super) fn machine(&self) -> MutexGuard<'_, Machine> {
        lock(&self.machine)
    }

    /// See [`Messages::on_linked`].
    pub(crate) fn on_linked(&self, node: NodeId, from: impl Fn() -> Option<IpAddr>) {
        self.machine().on_linked(node, from());
    }

    pub(crate) fn counts(&self) -> MessageCounts {
        self.machine().counts
    }

    /// See [`Messages::load`].
    pub(crate) fn load(&self) -> (usize, usize, u64) {
        self.machine().load()
    }

    /// Tells waiting tasks, and releases segments; called without any lock, since that takes others.
    pub(super) fn finish(ended: impl IntoIterator<Item = Ended<Held, oneshot::Sender<Came>>>) {
        for Ended { held, waiter, outcome } in ended {
            if outcome == Outcome::Taken
                && let Some(held) = &held
            {
                held.settle();
            }
            if outcome == Outcome::Late
                && let Some(carried) = held.as_ref().and_then(|held| held.carried.as_ref())
            {
                carried.is_lost();
            }
            drop(held);
            if let Some(waiter) = waiter {
                // The waiting task may be gone.
                let _ = waiter.send(Came::Over(outcome));
            }
        }
    }
}

/// Sends a small message that must arrive if the link stays up. Returns whether the link took it.
pub(super) fn is_posted(link: &Link, about: SegmentMessage) -> bool {
    let Encoded { head, tail } = Message::Segment(about).encode();
    link.post(Frame::new(head, tail)).is_ok()
}

/// Sends a small message about messages, if the link has room for it.
pub(crate) fn offer(link: &Link, about: SegmentMessage) -> bool {
    let Encoded { head, tail } = Message::Segment(about).encode();
    link.try_send(Frame::new(head, tail)).is_ok()
}

impl Shell {
    /// Handles a message from a link about segments or about messages.
    pub(crate) fn on_segment(self: &Arc<Self>, link: &Arc<Link>, from: &Arc<NodeRef>, about: SegmentMessage) {
        match about {
            SegmentMessage::Short(datagram) => {
                if let Some(service) = self.deliver(from, *datagram) {
                    offer(link, SegmentMessage::NobodyHere(service));
                }
            }
            SegmentMessage::Taken(numbers) => {
                let ended = self.post.machine().on_taken(from.id, &numbers);
                Post::finish(ended);
            }
            SegmentMessage::Carried(number, buffer) => self.on_carried(link, from, number, buffer),
            SegmentMessage::NotMapped(number) => self.not_mapped(link, from.id, number),
            SegmentMessage::Push { at, bytes, to } => self.push(Arc::new(to), at, bytes),
            SegmentMessage::Pushed(at, data) => self.on_pushed(from.id, &at, data),
            SegmentMessage::NobodyHere(service) => self.core().on_not_there(&service, from.id),
            about => self.segments.on_message(self, link, from, about),
        }
    }

    /// Delivers a message. Returns the service if nobody here takes messages for it.
    pub(super) fn deliver(&self, from: &Arc<NodeRef>, mut datagram: Datagram) -> Option<String> {
        let taken = std::mem::take(&mut datagram.taken);
        let (ended, delivered) = {
            let mut machine = self.post.machine();
            (machine.on_taken(from.id, &taken), machine.deliver(from, datagram))
        };
        Post::finish(ended);
        match delivered {
            // Wakes the task that waited last: its data are most likely still in the processor's caches.
            Delivered::Queued(bell) => bell.notify_last(),
            Delivered::Answers(Ended { held, waiter, .. }, datagram) => {
                drop(held);
                if let Some(waiter) = waiter {
                    let _ = waiter.send(Came::Answer(Arc::clone(from), Box::new(datagram)));
                }
            }
            Delivered::Nobody(service) => return Some(service),
            Delivered::Dropped => {}
        }
        None
    }

    /// No answer can come by this link any more.
    pub(crate) fn messages_lost(&self, link: u64) {
        let ended = self.post.machine().on_link_lost(link);
        Post::finish(ended);
    }

    /// Checks for expired messages for as long as anything is held.
    pub(super) fn keep_sweeping(self: &Arc<Self>) {
        let mut sweeping = lock(&self.post.sweeping);
        if !std::mem::replace(&mut *sweeping, true) {
            self.runtime().spawn(sweep(Arc::downgrade(self)));
        }
    }
}

async fn sweep(shell: Weak<Shell>) {
    loop {
        awake::sleep(SWEEP_EVERY).await;
        let Some(shell) = shell.upgrade() else { return };
        let late = shell.post.machine().on_timeout(shell.segments.now());
        Post::finish(late);
        let is_linked = |node: NodeId| shell.endpoint().is_some_and(|endpoint| endpoint.link_to_node(node.0).is_some());
        let lends = shell.post.lending.sweep(is_linked, &shell.post.policy);
        let mut sweeping = lock(&shell.post.sweeping);
        if shell.post.machine().load().1 == 0 && !lends {
            *sweeping = false;
            return;
        }
    }
}
