//! Calls that are answered many times: made, answered, delegated, and read.

use alloc::{string::ToString, sync::Arc, vec::Vec};
use catena_wire::{Brought, Budget, ChainId, Exception, Message, NodeRef, Outcome, StepKey, Value};

use super::Node;
use crate::{
    Gather, NotSent, Receipt, Sent, SessionId, Time, Urgency,
    calls::{ReplyTo, Request},
    collections::Party,
    origin::taken,
    replies::Reader,
};

impl Node {
    /// Makes a call that may be answered many times, from wherever it is delegated to (Quatrain). Its answers come as [`crate::Action::Reply`], the last
    /// of which is [`crate::Replied::Over`]; [`Node::on_read`] says how far they have been read. [`Node::cancel`] and [`Node::forget`] stop it.
    ///
    /// Its number has to be drawn at random, so that nobody can guess it.
    ///
    /// # Errors
    /// `Overloaded`, or a number that is in use.
    #[allow(clippy::too_many_arguments, reason = "what a call consists of")]
    pub fn ask(
        &mut self,
        now: Time,
        number: u128,
        service: &str,
        function: &str,
        params: Value,
        budget: Budget,
        credentials: Option<Value>,
    ) -> Result<ChainId, Exception> {
        let call = ChainId { origin: self.ground.me.id, number };
        let budget = budget.narrowed_to(self.ground.policy.budget_max);
        let (by, service, function) = (Party::Own, service.to_string(), function.to_string());
        let request = Request::new(by, ReplyTo::Nobody(call), service, function, params, now, budget);
        self.at(now, |node| node.begin_set(number, Reader::User, Request { credentials, ..request }))?;
        Ok(call)
    }

    /// A chain that is here makes such a call.
    pub(super) fn ask_of_chain(&mut self, session: SessionId, set: u32, number: u128, request: Request) {
        if let Err(why) = self.begin_set(number, Reader::Chain(session, set), request) {
            self.chains.set_over(&mut self.ground, (session, set), Vec::new(), Some(why), 1);
        }
    }

    /// The call goes out, with the right to answer it.
    fn begin_set(&mut self, number: u128, reader: Reader, request: Request) -> Result<(), Exception> {
        let call = ChainId { origin: self.ground.me.id, number };
        if self.sets.awaits(call) || self.origin.awaits(call) {
            return Err(taken(call));
        }
        let request = self.sets.begin(&self.ground, call, reader, request)?;
        self.calls.dispatch(&mut self.ground, request);
        Ok(())
    }

    /// The user of a reply set has read `count` more replies.
    pub fn on_read(&mut self, now: Time, call: ChainId, count: usize) {
        self.at(now, |node| node.sets.on_read(&mut node.ground, call, count));
    }

    /// Replies under a right that is here.
    ///
    /// # Errors
    /// The caller's reader is behind (back-pressure), or the right is over.
    pub fn reply(&mut self, now: Time, right: &StepKey, value: Value) -> Result<Sent, NotSent> {
        self.at(now, |node| node.rights.reply(&mut node.ground, right, value))
    }

    /// No reply follows for now: replies that are held back only to be sent together are sent.
    pub fn flush(&mut self, now: Time) {
        self.at(now, |node| node.rights.flush(&mut node.ground));
    }

    /// Sets how replies under this right are sent together from now on.
    pub fn gather(&mut self, right: &StepKey, gather: Gather) {
        self.rights.gather(right, gather);
    }

    /// Delegates a part of a right: calls a function, wherever it is, whose replies go straight to the caller of this one.
    ///
    /// # Errors
    /// The right is over, or its hop budget is used up. If no node takes the call, the caller is told.
    pub fn delegate(
        &mut self,
        now: Time,
        right: &StepKey,
        service: &str,
        function: &str,
        params: Value,
    ) -> Result<(), Exception> {
        self.at(now, |node| node.rights.delegate(&mut node.ground, right, (service, function), params))
    }

    /// How many rights to reply are here.
    #[must_use]
    pub fn rights(&self) -> usize {
        self.rights.count()
    }

    /// Nobody here can reply under this right any more: the last who could has dropped it.
    pub fn let_go(&mut self, now: Time, right: &StepKey) {
        self.at(now, |node| node.rights.let_go(&mut node.ground, right));
    }

    /// A call that may be answered many times runs here once its right is held; then the node that handed it over may forget it.
    pub(super) fn take_right(&mut self, mut request: Request) {
        let Some(right) = request.right.take() else { return };
        let key = right.key.clone();
        if let Err(why) = self.rights.hold(&mut self.ground, &request, *right) {
            return self.calls.answer(&mut self.ground, request, Err(why));
        }
        match core::mem::replace(&mut request.reply_to, ReplyTo::Right(key)) {
            ReplyTo::Peer { to, id } => {
                let taken = Message::Return(id, Outcome::Done(Value::null()), Brought::default());
                self.ground.out.send(&to, taken, Receipt::None, Urgency::Now);
            }
            ReplyTo::Delegator(right) => {
                let me = self.ground.me.clone();
                self.handed(&right, Ok(me));
            }
            _ => {}
        }
        self.calls.run_service(&mut self.ground, request);
    }

    /// What became of a call with the right to answer it, for the part that made or delegated it.
    pub(super) fn handed(&mut self, right: &StepKey, at: Result<Arc<NodeRef>, Exception>) {
        match right.branch.is_root() {
            true => self.sets.handed(&mut self.ground, right, at),
            false => self.rights.handed(&mut self.ground, right, at),
        }
    }
}
