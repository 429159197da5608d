//! One right to reply that is held here: the replies that wait to be sent under it, and how they get to the caller.

use alloc::{boxed::Box, collections::VecDeque, string::String, sync::Arc, vec::Vec};
use catena_wire::{
    Exception, Fate, Fault, Message, NodeId, Part, REPLIES_MAX, Replies, Right, RightEnd, StepKey, Value, names,
};

use super::flow::part_of;
use crate::{
    Policy, Receipt, Time,
    allowance::Allowance,
    collections::{Party, Unreached},
    delivery::Parcel,
    ground::Ground,
    outbox::Event,
};

/// Why a reply was not sent.
#[derive(Clone, PartialEq, Debug)]
pub enum NotSent {
    /// The caller's reader is behind: the value is given back, to be sent again when [`Action::RightChanged`] says so.
    Full(Value),
    /// It can never be sent: the right has ended, or the reply is too large.
    Over(Box<Exception>),
}

/// When a reply that was accepted is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sent {
    /// At once.
    Now,
    /// Together with those that follow, when they are as many as its function gathers. If the function does not say how many, when replies pause, which the
    /// shell notices and reports to [`crate::Node::flush`], and after [`Policy::reply_burst_us`] at the latest.
    Later {
        /// Whether it is the first that waits.
        first: bool,
        /// Whether its function says how replies are gathered: then the shell need not watch for a pause.
        gathered: bool,
    },
}

/// How replies are gathered into messages: at most one message in `wait_us`, unless it is full. So the first reply under a right does not wait, and neither
/// does one that comes after a pause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gather {
    /// This many replies fill a message, or a quarter of the caller's window if that is less: while that part is read, others come.
    pub replies: u32,
    /// About this many bytes fill a message, or a quarter of the window if that is less.
    pub bytes: u32,
    /// Microseconds between two messages that are not full, and so the longest time that a reply waits for others.
    pub wait_us: u64,
}

impl Gather {
    /// For a function that does not say how its replies are gathered.
    pub(super) const fn burst(policy: &Policy) -> Self {
        /// A size that suits one write to a socket.
        const BYTES: u32 = 32 << 10;
        Self { replies: 1_024, bytes: BYTES, wait_us: policy.reply_burst_us }
    }
}

/// A right that was delegated, and its fate once that is known.
#[derive(Clone, Debug)]
pub(super) struct Child {
    pub(super) target: String,
    pub(super) fate: Option<Fate>,
}

/// A right that is held here.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) right: Right,
    /// The peer for which it is held, or this node.
    pub(super) by: Party,
    /// The node that handed it over.
    pub(super) from: NodeId,
    pub(super) budget: Allowance,
    pub(super) credentials: Option<Value>,
    /// How its function wants replies gathered, if it says so.
    pub(super) gather: Option<Gather>,
    /// Replies not yet sent, their bytes, and when they are due.
    pub(super) queue: VecDeque<Value>,
    pub(super) queue_bytes: usize,
    pub(super) flush_at: Option<Time>,
    /// How many replies were sent, and when the next message may go.
    pub(super) sent: u32,
    pub(super) next_at: Time,
    /// Bytes of each reply that was sent and has not been read.
    pub(super) unread: VecDeque<usize>,
    pub(super) unread_bytes: usize,
    pub(super) read: u32,
    /// Somebody here waits until the caller's reader has caught up.
    pub(super) waits: bool,
    pub(super) children: Vec<Child>,
    /// Nobody here can reply under it any more.
    pub(super) let_go: bool,
    pub(super) threw: Option<Exception>,
    /// It ends only because time ran out, or its caller is gone.
    pub(super) late: bool,
    pub(super) beat_at: Time,
    /// For how long its caller could not be reached.
    pub(super) unreached: Unreached,
}

impl Held {
    pub(super) fn push(&mut self, value: Value) {
        self.queue_bytes += value.len_bytes();
        self.queue.push_back(value);
    }

    /// Whether a function that replies has to wait.
    pub(super) fn is_full(&self) -> bool {
        let window = self.right.window;
        let (count, bytes) = (self.unread.len() + self.queue.len(), self.unread_bytes + self.queue_bytes);
        count > 0 && (count >= window.replies as usize || bytes >= window.bytes as usize)
    }

    pub(super) fn gather(&self, policy: &Policy) -> Gather {
        self.gather.unwrap_or_else(|| Gather::burst(policy))
    }

    pub(super) fn is_due(&self, now: Time, policy: &Policy) -> bool {
        let (Gather { replies, bytes, .. }, part) = (self.gather(policy), part_of(self.right.window));
        let much = self.queue.len() >= replies.min(part.replies) as usize
            || self.queue_bytes >= bytes.min(part.bytes) as usize;
        self.sent == 0 || much || self.next_at <= now
    }

    /// Takes the next message: as many of the waiting replies as fit, and the number of the first.
    pub(super) fn take_batch(&mut self) -> Option<(u32, Vec<Value>)> {
        /// A message that has this many bytes takes no more replies.
        const BATCH_BYTES: usize = 64 << 10;
        let (first, mut values, mut bytes) = (self.sent, Vec::new(), 0);
        while values.len() < REPLIES_MAX && bytes < BATCH_BYTES {
            let Some(value) = self.queue.pop_front() else { break };
            bytes += value.len_bytes();
            self.queue_bytes -= value.len_bytes();
            self.unread_bytes += value.len_bytes();
            self.unread.push_back(value.len_bytes());
            self.sent = self.sent.saturating_add(1);
            values.push(value);
        }
        (!values.is_empty()).then_some((first, values))
    }

    pub(super) fn is_from_caller(&self, from: NodeId) -> bool {
        is_from_caller(&self.right, from)
    }

    /// What would have ended the right by itself has failed. Once the deadline has passed, the right counts as ended by the deadline.
    pub(super) fn failed(&mut self, now: Time) {
        self.late |= self.budget.deadline() <= now;
    }

    /// Drops the replies that wait to be sent. Returns how many bytes they had.
    pub(super) fn drop_queue(&mut self) -> usize {
        self.queue.clear();
        core::mem::take(&mut self.queue_bytes)
    }

    /// Ends it although it is still in use: its caller's time has run out, or its caller is gone. Returns how many bytes stay unsent.
    pub(super) fn cut_off(&mut self, now: Time) -> usize {
        let out_of_time = self.budget.deadline() <= now;
        let why = if out_of_time { not_taken() } else { caller_gone() };
        if !out_of_time {
            self.threw.get_or_insert_with(|| why.clone());
        }
        (self.late, self.let_go) = (true, true);
        self.abandon_children(&why);
        self.drop_queue()
    }

    /// Whether a node takes those rights that are being handed over is not awaited any more.
    pub(super) fn abandon_children(&mut self, why: &Exception) {
        for child in &mut self.children {
            child.fate.get_or_insert_with(|| Fate::Failed(why.clone()));
        }
    }

    pub(super) fn next(&self) -> Time {
        self.flush_at.into_iter().fold(self.budget.deadline().min(self.beat_at), Time::min)
    }
}

fn not_taken() -> Exception {
    let why = "nobody had taken the call by the time that the caller's time ran out; whether it took effect is unknown";
    Exception::new(names::DEADLINE_EXCEEDED, Fault::Service, why).outcome_unknown()
}

fn caller_gone() -> Exception {
    let why = "the caller could not be reached any more, so its call was stopped; whether it took effect is unknown; look at the network between the two";
    Exception::new(names::NODE_LOST, Fault::Network, why).outcome_unknown()
}

/// Whether `from` is the caller, or a node that passes on what the caller says.
pub(super) fn is_from_caller(right: &Right, from: NodeId) -> bool {
    right.caller.id == from || right.entry.as_ref().is_some_and(|entry| entry.id == from)
}

pub(super) fn beat(ground: &mut Ground, right: &Right) {
    let key = right.key.clone();
    let beat = Message::Heartbeat(key.clone(), (*ground.me).clone(), Vec::new());
    if right.caller.id == ground.me.id {
        return ground.out.tell(Event::Message(beat));
    }
    let via = ground.way_to(&right.caller, right.entry.as_ref());
    ground.out.send_encoded(Arc::new(right.caller.clone()), beat.encode(), Receipt::Beat(key), via);
}

pub(super) fn send_replies(ground: &mut Ground, of: (Party, &Right), until: Time, first: u32, values: Vec<Value>) {
    let upto = first.saturating_add(u32::try_from(values.len()).unwrap_or(u32::MAX));
    let key = of.1.key.clone();
    let replies = Message::Replies(Replies { key: key.clone(), first, values });
    send_kept(ground, of, until, (key, Part::Partial(first)), upto, replies);
}

pub(super) fn send_end(ground: &mut Ground, of: (Party, &Right), until: Time, end: RightEnd) {
    let key = end.key.clone();
    send_kept(ground, of, until, (key, Part::End), 0, Message::RightEnd(Box::new(end)));
}

fn send_kept(
    ground: &mut Ground,
    (by, right): (Party, &Right),
    until: Time,
    (key, part): (StepKey, Part),
    upto: u32,
    message: Message,
) {
    if right.caller.id == ground.me.id {
        return ground.out.tell(Event::Message(message));
    }
    let via = ground.way_to(&right.caller, right.entry.as_ref());
    let until = until.max(ground.now.after(ground.policy.heartbeat_timeout_us));
    let parcel = Parcel::new(by, Arc::new(right.caller.clone()), via, message.encode(), until).up_to(upto);
    ground.send_kept(key, part, parcel);
}
