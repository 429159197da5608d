//! What leaves a part: actions for the shell, and events for the other parts of the node.

use alloc::{collections::VecDeque, sync::Arc, vec::Vec};
use catena_wire::{Brought, ChainId, Encoded, Exception, LogLine, Message, NodeRef, Outcome, StepKey, Value};

use crate::{
    Action, Instance, Missing, Receipt, SessionId, SubChain, Urgency,
    request::{Owner, ReplyTo, Request},
};

/// A chain that ran on its own and has ended.
#[derive(Clone, Debug)]
pub(crate) struct EndedDetached {
    pub(crate) chain: ChainId,
    pub(crate) outcome: Outcome,
    /// Hops that it did not spend.
    pub(crate) hops_left: u32,
    pub(crate) console: Vec<LogLine>,
}

/// What one part of a node has to say to another. The node takes events in turn, so that no part calls back into its caller.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A message from this node to itself.
    Message(Message),
    /// A chain makes a call without moving.
    Call(Request),
    /// The instance that the call of this number goes to is known.
    Resolved(u64, Instance),
    /// This call of a guest goes to the node given here.
    ServedBy(SessionId, u32, Arc<NodeRef>),
    /// A call that may be answered many times is about to run here: its right has to be held first.
    Take(Request),
    /// What became of a call with the right to answer it: the node that has it, or why nobody has.
    Handed { right: StepKey, at: Result<Arc<NodeRef>, Exception> },
    /// The function that was called with this right has ended; what it returned is one more reply.
    FunctionEnded { right: StepKey, result: Result<Option<Value>, Exception> },
    /// A chain makes a call that is answered many times: `number` is the node's number for it, `set` the guest's.
    Ask { session: SessionId, set: u32, number: u128, request: Request },
    /// Replies to such a call have come.
    Replied(SessionId, u32, Vec<Value>),
    /// Such a call has ended, after `rights` rights to answer it were given out.
    SetOver { session: SessionId, set: u32, missing: Vec<Missing>, failure: Option<Exception>, rights: usize },
    /// The guest has been handed this many replies.
    Read(ChainId, usize),
    /// A call has ended, for the chain that made it.
    Answered { to: ReplyTo, result: Result<Value, Exception>, brought: Brought },
    /// A service of this node answered a call with a chain.
    SubChain { request: Request, sub: SubChain },
    /// A chain that ran on its own has ended.
    DetachedEnded(EndedDetached),
    /// A chain's function has ended of its own accord: the calls that it started go on, and nobody awaits them.
    Unawaited(SessionId, ChainId),
    /// Nobody waits for the calls of this owner any more.
    Abandoned(Owner),
    /// Nobody waits any more for this chain, which was begun here.
    Unwanted(ChainId),
    /// A chain begun here is at that node.
    Seen(StepKey, Arc<NodeRef>),
}

#[derive(Clone, Debug)]
pub(crate) struct Outbox {
    me: Arc<NodeRef>,
    actions: VecDeque<Action>,
    /// What they carry.
    bytes: usize,
    events: VecDeque<Event>,
}

impl Outbox {
    pub(crate) const fn new(me: Arc<NodeRef>) -> Self {
        Self { me, actions: VecDeque::new(), bytes: 0, events: VecDeque::new() }
    }

    pub(crate) fn has_actions(&self) -> bool {
        !self.actions.is_empty()
    }

    pub(crate) fn actions_waiting(&self) -> (usize, usize) {
        (self.actions.len(), self.bytes)
    }

    pub(crate) fn poll_action(&mut self) -> Option<Action> {
        let action = self.actions.pop_front()?;
        self.bytes -= action.carried_bytes();
        Some(action)
    }

    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Queues an action for the shell.
    pub(crate) fn ask(&mut self, action: Action) {
        self.bytes += action.carried_bytes();
        self.actions.push_back(action);
    }

    /// Queues an action ahead of those that wait: a guest that makes room goes before guests that need room.
    pub(crate) fn ask_first(&mut self, action: Action) {
        self.bytes += action.carried_bytes();
        self.actions.push_front(action);
    }

    /// Queues an event for another part of this node.
    pub(crate) fn tell(&mut self, event: Event) {
        self.events.push_back(event);
    }

    /// Sends a message to that node, by its link or by dialling it; a message for this node itself becomes an event.
    pub(crate) fn send(&mut self, to: &Arc<NodeRef>, message: Message, receipt: Receipt, urgency: Urgency) {
        if to.id == self.me.id {
            return self.tell(Event::Message(message));
        }
        self.ask(Action::Send { to: to.clone(), message: message.encode(), receipt, urgency, via: None });
    }

    /// Sends a message that is encoded already: one that was sent before, or that `via` may have to pass on.
    pub(crate) fn send_encoded(
        &mut self,
        to: Arc<NodeRef>,
        message: Encoded,
        receipt: Receipt,
        via: Option<Arc<NodeRef>>,
    ) {
        // A service may have come here while a hop to it was on its way.
        if to.id == self.me.id
            && let Ok(message) = Message::decode(message.clone())
        {
            return self.tell(Event::Message(message));
        }
        self.ask(Action::Send { to, message, receipt, urgency: Urgency::Now, via });
    }
}
