//! One call that is answered many times, as its caller knows it: the rights it has heard of, and what has come under each.

use alloc::{
    collections::{BTreeMap, VecDeque},
    format,
    string::String,
    sync::Arc,
    vec::Vec,
};
use catena_wire::{
    BRANCHES_MAX, Branch, ChainId, Exception, Fate, Fault, Message, NodeRef, RightEnd, StepKey, Value, Window, names,
};

use super::exceptions;
use crate::{
    Action, Missing, Policy, Receipt, Replied, SessionId, Time, Urgency,
    collections::{Party, Tally},
    ground::Ground,
    outbox::Event,
};

/// A right that the caller knows of.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// `service/function`; empty if the right is known only by its messages.
    pub(super) target: String,
    pub(super) holder: Option<Arc<NodeRef>>,
    /// The node from which its messages come: its holder, or a node that passes them on.
    pub(super) way: Option<Arc<NodeRef>>,
    /// When it counts as silent for too long.
    pub(super) silent_at: Time,
    pub(super) ended: bool,
    /// Why replies are missing, if any are.
    pub(super) missing: Option<Exception>,
    /// It was given up; cleared if it is heard of again.
    pub(super) lost: bool,
    /// It ended, or was ended, only because time ran out.
    pub(super) late: bool,
    /// Replies that have been read.
    pub(super) read: u32,
    /// What its holder was told last: how many replies have arrived, and how many have been read.
    pub(super) reported: (u32, u32),
    /// Bytes read since its holder was told.
    pub(super) unreported_bytes: usize,
    /// Bytes of what its end says.
    pub(super) said_bytes: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Reader {
    /// A user of this node.
    User,
    /// A chain that is here, with its guest's number for the set.
    Chain(SessionId, u32),
}

/// A call that is answered many times, and has not ended.
#[derive(Clone, Debug)]
pub(super) struct Set {
    /// The peer for which the call was made, or this node.
    pub(super) by: Party,
    pub(super) reader: Reader,
    pub(super) deadline: Time,
    pub(super) window: Window,
    pub(super) tally: Tally,
    pub(super) rights: BTreeMap<Branch, Known>,
    /// Replies that have been handed out and not read, in the order in which they were handed out.
    pub(super) unread: VecDeque<Run>,
    pub(super) unread_replies: usize,
    pub(super) unread_bytes: usize,
    /// Bytes of what the ends of its rights say.
    pub(super) said_bytes: usize,
    /// When holders are to be told what they do not know yet.
    pub(super) tell_at: Option<Time>,
}

/// Consecutive replies under one right.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) branch: Branch,
    /// The size of each reply.
    pub(super) bytes: VecDeque<usize>,
}

impl Set {
    pub(super) fn hand_out(&mut self, branch: &Branch, values: &[Value]) {
        let bytes: VecDeque<usize> = values.iter().map(Value::len_bytes).collect();
        self.unread_replies += bytes.len();
        self.unread_bytes += bytes.iter().sum::<usize>();
        self.unread.push_back(Run { branch: branch.clone(), bytes });
    }

    /// The reader has read `count` more replies. Returns under which rights they came.
    pub(super) fn read(&mut self, count: usize) -> Vec<Branch> {
        let mut branches: Vec<Branch> = Vec::new();
        let mut left = count.min(self.unread_replies);
        self.unread_replies -= left;
        while left > 0 {
            let Some(run) = self.unread.front_mut() else { break };
            let read = left.min(run.bytes.len());
            let bytes: usize = run.bytes.drain(..read).sum();
            left -= read;
            self.unread_bytes -= bytes;
            if let Some(known) = self.rights.get_mut(&run.branch) {
                known.read = known.read.saturating_add(u32::try_from(read).unwrap_or(u32::MAX));
                known.unreported_bytes += bytes;
            }
            if !branches.contains(&run.branch) {
                branches.push(run.branch.clone());
            }
            if run.bytes.is_empty() {
                self.unread.pop_front();
            }
        }
        branches
    }

    /// Whether these replies may come under this right. A holder that keeps to its window finds room, unless too many holders use theirs up.
    pub(super) fn has_room(
        &self,
        branch: &Branch,
        first: u32,
        (count, bytes): (usize, usize),
        ground: &Ground,
    ) -> bool {
        let read = self.rights.get(branch).map_or(0, |known| known.read);
        let end = u64::from(first) + count as u64;
        let repeat = end <= u64::from(self.tally.delivered(branch));
        // The value that a function returns is exempt from its window.
        let in_window = end <= u64::from(read) + u64::from(self.window.replies) + 1;
        let policy = &ground.policy;
        let few = self.unread_replies + count <= policy.replies_unread_max || self.unread.is_empty();
        let small = self.unread_bytes < self.reader.unread_bytes_max(policy) && bytes <= ground.room;
        repeat || (in_window && few && small)
    }

    /// The end of a right has come: what it says is kept until the set is over, in place of what an earlier end of this right said. If there is no room for its
    /// exceptions, they are left out.
    pub(super) fn weigh(&mut self, branch: &Branch, end: &mut RightEnd, ground: &Ground) {
        let Some(known) = self.rights.get_mut(branch) else { return };
        self.said_bytes -= core::mem::take(&mut known.said_bytes);
        let room = self.reader.unread_bytes_max(&ground.policy).saturating_sub(self.said_bytes).min(ground.room);
        let bytes = exceptions::kept_bytes(end);
        if bytes > room {
            let because = format!("the end of this right has {bytes} bytes, for which {} has no room", ground.me.name);
            exceptions::leave_out(end, &because);
        }
        known.said_bytes = exceptions::kept_bytes(end);
        self.said_bytes += known.said_bytes;
    }

    /// What the end of a right says beside its number of replies. False if it was delegated too often to keep track of.
    pub(super) fn ended(&mut self, branch: &Branch, end: RightEnd, silent_at: Time, ground: &Ground) -> bool {
        if let (Some(why), Some(known)) = (end.threw, self.rights.get_mut(branch)) {
            known.missing = Some(why);
        }
        if end.late {
            self.note_late(branch);
        }
        let numbered = (1_u16..).zip(end.delegated).filter(|_| !bug!(ground.policy, DelegateNotCounted));
        numbered
            .map_while(|(number, delegated)| Some((branch.child(number)?, delegated)))
            .fold(true, |room, (child, delegated)| {
                room & self.delegated(&child, delegated.target, delegated.fate, silent_at)
            })
    }

    /// A right was delegated as branch `child`. False if there are too many to keep track of.
    fn delegated(&mut self, child: &Branch, target: String, fate: Fate, silent_at: Time) -> bool {
        if !self.has_room_for(child) {
            return false;
        }
        let known = self.rights.entry(child.clone());
        let known = known.or_insert_with(|| Known { silent_at, ..Known::default() });
        known.target = target;
        match fate {
            Fate::Taken(node) => {
                known.holder.get_or_insert_with(|| Arc::new(node));
                self.tally.await_end(child);
            }
            Fate::Failed(why) if known.way.is_none() => {
                (known.lost, known.missing) = (true, Some(why));
            }
            // The right was heard of before, so some node has it.
            Fate::Failed(_) => {}
        }
        true
    }

    /// Whether one more right can be kept track of.
    pub(super) fn has_room_for(&self, branch: &Branch) -> bool {
        self.rights.contains_key(branch) || (self.rights.len() < BRANCHES_MAX && self.tally.has_room(branch))
    }

    /// All that is missing.
    pub(super) fn missing(&self) -> Vec<Missing> {
        let missing = self.rights.iter().filter_map(|(branch, known)| {
            let node = known.holder.as_ref().map(|node| node.name.clone());
            Some(Missing { branch: branch.clone(), target: known.target.clone(), node, why: known.missing.clone()? })
        });
        missing.collect()
    }

    /// Nothing more is awaited under this right: its replies are missing.
    pub(super) fn lose(&mut self, branch: &Branch, why: Exception) {
        // If it threw before, that exception says more.
        if let Some(known) = self.rights.get_mut(branch).filter(|known| known.missing.is_none()) {
            (known.lost, known.missing) = (true, Some(why));
        }
        self.tally.give_up(branch);
    }

    pub(super) fn lose_silent(&mut self, ground: &Ground) {
        let silent = |(branch, known): &(&Branch, &Known)| known.silent_at <= ground.now && self.tally.is_open(branch);
        let silent: Vec<Branch> = self.rights.iter().filter(silent).map(|(branch, _)| branch.clone()).collect();
        for branch in silent {
            let why = self.rights[&branch].lost(self.tally.delivered(&branch), ground.policy.heartbeat_timeout_us);
            self.lose(&branch, why);
        }
    }

    pub(super) fn next(&self) -> Time {
        let open = self.rights.iter().filter(|(branch, _)| self.tally.is_open(branch));
        open.map(|(_, known)| known.silent_at).chain(self.tell_at).chain([self.deadline]).min().unwrap_or(self.deadline)
    }
}

impl Reader {
    pub(super) const fn unread_bytes_max(self, policy: &Policy) -> usize {
        match self {
            Self::User => policy.replies_unread_bytes_max,
            Self::Chain(..) => policy.set_unread_bytes_max,
        }
    }

    /// Passes on replies that have come, each once and in order.
    pub(super) fn hear(self, ground: &mut Ground, call: ChainId, values: Vec<Value>) {
        match self {
            _ if values.is_empty() => {}
            Self::User => ground.out.ask(Action::Reply(call, Replied::Replies(values))),
            Self::Chain(session, set) => ground.out.tell(Event::Replied(session, set, values)),
        }
    }

    /// Passes on the end of the set, which had `rights` rights.
    pub(super) fn hear_end(
        self,
        ground: &mut Ground,
        call: ChainId,
        missing: Vec<Missing>,
        failure: Option<Exception>,
        rights: usize,
    ) {
        match self {
            Self::User => ground.out.ask(Action::Reply(call, Replied::Over { missing, failure })),
            Self::Chain(session, set) => {
                ground.out.tell(Event::SetOver { session, set, missing, failure, rights });
            }
        }
    }
}

impl Known {
    pub(super) fn tell(&mut self, ground: &mut Ground, tally: &Tally, key: &StepKey, urgency: Urgency) {
        let Some(way) = &self.way else { return };
        let (arrived, read) = (tally.delivered(&key.branch), self.read);
        (self.reported, self.unreported_bytes) = ((arrived, read), 0);
        ground.out.send(way, Message::Took { key: key.clone(), arrived, read }, Receipt::None, urgency);
    }

    pub(super) fn host(&self) -> &str {
        self.holder.as_ref().map_or("its node", |node| &node.name)
    }

    pub(super) fn lost(&self, delivered: u32, timeout_us: u64) -> Exception {
        let (host, what) = (self.host(), self.what());
        let message = format!(
            "{host}, which had the right to reply{what}, was lost: no sign of life for up to {} ms; {delivered} replies had come, others are missing; whether it took effect is unknown; check {host}",
            timeout_us / 1_000
        );
        Exception::new(names::NODE_LOST, Fault::Network, message).outcome_unknown()
    }

    pub(super) fn what(&self) -> String {
        if self.target.is_empty() { String::new() } else { format!(" for {}", self.target) }
    }
}
