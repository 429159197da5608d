//! The holder's side: rights to reply that are held here, until their holders let them go.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet, VecDeque},
    format,
    sync::Arc,
    vec::Vec,
};
use catena_wire::{
    ChainId, DELEGATES_MAX, Delegated, Exception, Fate, Fault, Message, NAME_BYTES_MAX, NodeId, NodeRef, Part, Right,
    RightEnd, StepKey, Value, names,
};

use super::exceptions;
use super::held::{Child, Gather, Held, NotSent, Sent, beat, is_from_caller, send_end, send_replies};
use crate::{
    Action, Policy, Time,
    calls::{Owner, ReplyTo, Request},
    collections::{AT_ONCE_MAX, Expiring, Party, Shares, Timers, Unreached},
    ground::Ground,
    outbox::Event,
};

/// A right that has ended: whose it was, and where the rights that it delegated went.
#[derive(Clone, Debug)]
struct Ended {
    by: Party,
    right: Right,
    until: Time,
    /// As many replies as its end counts.
    replies: u32,
    delegated: Vec<Delegated>,
    late: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Rights {
    /// Ordered by call, and therefore by caller.
    held: BTreeMap<StepKey, Held>,
    /// How many are held for each party.
    shares: Shares<Party>,
    /// Bytes of replies that wait to be sent.
    bytes: usize,
    timers: Timers<StepKey>,
    /// Rights whose replies wait for others that follow quickly.
    bursts: BTreeSet<StepKey>,
    ended: Expiring<StepKey, Ended>,
}

impl Rights {
    pub(crate) fn count(&self) -> usize {
        self.held.len()
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    /// Whether this right is held here, or was.
    pub(crate) fn knows(&self, key: &StepKey) -> bool {
        self.held.contains_key(key) || self.ended.contains(key)
    }

    /// A call is taken over, and with it the right to answer it.
    ///
    /// # Errors
    /// `Overloaded`, or `ProtocolError` if it has been here before.
    pub(crate) fn hold(&mut self, ground: &mut Ground, request: &Request, mut right: Right) -> Result<(), Exception> {
        // What is sent and not read is noted here, reply by reply.
        let policy = &ground.policy;
        let replies_max = policy.replies_unread_max.max(policy.reply_window as usize);
        let bytes_max = policy.replies_unread_bytes_max.max(policy.reply_window_bytes as usize);
        right.window.replies = right.window.replies.min(u32::try_from(replies_max).unwrap_or(u32::MAX));
        right.window.bytes = right.window.bytes.min(u32::try_from(bytes_max).unwrap_or(u32::MAX));
        let key = right.key.clone();
        if self.knows(&key) {
            let why = "this right to reply was handed out before; whether its call took effect is unknown";
            return Err(Exception::new(names::PROTOCOL, Fault::Caller, why).outcome_unknown());
        }
        let (own, all) = (self.shares.of(request.by), self.held.len());
        ground.check_share("rights to reply", request.by, own, all, ground.policy.rights_max)?;
        let from = match &request.reply_to {
            ReplyTo::Peer { to, .. } => to.id,
            _ => ground.me.id,
        };
        let beat_at = ground.now.after(ground.policy.heartbeat_interval_us.max(1));
        let held = Held {
            right,
            by: request.by,
            from,
            budget: request.budget,
            credentials: request.credentials.clone(),
            gather: None,
            queue: VecDeque::new(),
            queue_bytes: 0,
            flush_at: None,
            sent: 0,
            next_at: ground.now,
            unread: VecDeque::new(),
            unread_bytes: 0,
            read: 0,
            waits: false,
            children: Vec::new(),
            let_go: false,
            threw: None,
            late: false,
            beat_at,
            unreached: Unreached::default(),
        };
        if !key.branch.is_root() {
            // Its caller may not know of this right yet.
            beat(ground, &held.right);
        }
        self.timers.set(key.clone(), held.next());
        self.shares.add(held.by);
        self.held.insert(key, held);
        Ok(())
    }

    /// Sends a reply under this right. Fails if the caller is behind, or gone.
    pub(crate) fn reply(&mut self, ground: &mut Ground, key: &StepKey, value: Value) -> Result<Sent, NotSent> {
        let Some(held) = self.held.get_mut(key).filter(|held| !held.let_go) else {
            return Err(NotSent::Over(Box::new(over())));
        };
        let (bytes, bytes_max) = (value.len_bytes(), ground.policy.reply_bytes_max);
        if bytes > bytes_max {
            return Err(NotSent::Over(Box::new(too_large(held.sent, bytes as u64, bytes_max as u64))));
        }
        if held.is_full() || !ground.outgoing.has_room(held.by, bytes, &ground.policy) || bytes > ground.room {
            held.waits = true;
            return Err(NotSent::Full(value));
        }
        held.push(value);
        self.bytes += bytes;
        if held.is_due(ground.now, &ground.policy) {
            self.send(ground, key, true);
            return Ok(Sent::Now);
        }
        let first = held.flush_at.is_none();
        if first {
            held.flush_at = Some(held.next_at);
            self.timers.set(key.clone(), held.next());
            if held.gather.is_none() {
                self.bursts.insert(key.clone());
            }
        }
        Ok(Sent::Later { first, gathered: held.gather.is_some() })
    }

    /// No more replies follow for now: those that wait for others are sent.
    pub(crate) fn flush(&mut self, ground: &mut Ground) {
        while let Some(key) = self.bursts.pop_first() {
            self.send(ground, &key, true);
        }
    }

    /// From now on replies under this right are gathered like this.
    pub(crate) fn gather(&mut self, key: &StepKey, gather: Gather) {
        if let Some(held) = self.held.get_mut(key) {
            held.gather = Some(gather);
            self.bursts.remove(key);
        }
    }

    /// Delegates a part of the right to a call, whose replies go to the caller of this one.
    ///
    /// # Errors
    /// The right has ended, or no more can be delegated.
    pub(crate) fn delegate(
        &mut self,
        ground: &mut Ground,
        key: &StepKey,
        (service, function): (&str, &str),
        params: Value,
    ) -> Result<(), Exception> {
        let held = self.held.get_mut(key).filter(|held| !held.let_go).ok_or_else(over)?;
        if [service, function].iter().any(|name| name.len() > NAME_BYTES_MAX) {
            let message = format!("a name of more than {NAME_BYTES_MAX} bytes, which no service or function has");
            return Err(Exception::new(names::BAD_PARAMETERS, Fault::Service, message));
        }
        let number = u16::try_from(held.children.len() + 1).unwrap_or(u16::MAX);
        let deep = "a call delegates to a call that delegates, more than 16 deep; does a service delegate to itself?";
        let too_deep = || Exception::new(names::LIMIT_EXCEEDED, Fault::Service, deep);
        let mut right = held.right.child(number).ok_or_else(too_deep)?;
        if held.children.len() >= DELEGATES_MAX {
            let message = format!("one call delegates to {DELEGATES_MAX} others, which is all it may");
            return Err(Exception::new(names::LIMIT_EXCEEDED, Fault::Service, message));
        }
        let Some(left) = held.budget.left(ground.now).take_hop() else {
            let why =
                "the call has been delegated as often as its hop budget allows; give it more, or look for a circle";
            return Err(Exception::new(names::HOP_BUDGET_EXCEEDED, Fault::Service, why));
        };
        // The hops of a call bound how much it may delegate in all. The first delegation gets half of what is left, the second a third, and so on: a budget of
        // 2,000 is enough for a circle of ten, or for 78 side by side.
        let lent = left.hops_left() / (u32::from(number) + 1);
        held.budget.set(ground.now, left);
        let budget = held.budget.lend(ground.now, lent);
        if right.caller.address.is_none() && right.entry.is_none() && held.from == right.caller.id {
            right.entry = Some((*ground.me).clone());
        }
        held.children.push(Child { target: [service, "/", function].concat(), fate: None });
        let reply_to = ReplyTo::Delegator(right.key.clone());
        let request = Request::new(held.by, reply_to, service.into(), function.into(), params, ground.now, budget);
        let (credentials, right) = (held.credentials.clone(), Some(Box::new(right)));
        ground.out.tell(Event::Call(Request { credentials, right, ..request }));
        Ok(())
    }

    /// A right that was delegated here was taken over, or nobody takes it.
    pub(crate) fn handed(&mut self, ground: &mut Ground, child: &StepKey, at: Result<Arc<NodeRef>, Exception>) {
        let Some(branch) = child.branch.parent() else { return };
        let key = StepKey { branch, ..child.clone() };
        let Some(held) = self.held.get_mut(&key) else { return };
        if at.is_err() {
            held.failed(ground.now);
        }
        if let Some(child) = held.children.get_mut(usize::from(child.branch.number()).wrapping_sub(1)) {
            child.fate = Some(match at {
                Ok(node) => Fate::Taken((*node).clone()),
                Err(why) => Fate::Failed(exceptions::bounded(why)),
            });
        }
        self.end_if_done(ground, &key);
    }

    /// The function that was called has ended. What it returned, if anything, is one more reply, exempt from the window.
    pub(crate) fn function_ended(
        &mut self,
        ground: &mut Ground,
        key: &StepKey,
        result: Result<Option<Value>, Exception>,
    ) {
        let Some(held) = self.held.get_mut(key) else { return };
        match result {
            Ok(Some(value)) => {
                self.bytes += value.len_bytes();
                held.push(value);
            }
            Ok(None) => {}
            Err(why) => {
                held.failed(ground.now);
                held.threw.get_or_insert(why);
            }
        }
        self.send(ground, key, true);
    }

    /// Nobody here can reply under it any more (Quatrain, section 3.2: the reference count is zero).
    pub(crate) fn let_go(&mut self, ground: &mut Ground, key: &StepKey) {
        if let Some(held) = self.held.get_mut(key) {
            held.let_go = true;
            self.send(ground, key, true);
        }
    }

    /// The caller says how many replies have arrived, and how many its reader has read.
    pub(crate) fn took(&mut self, ground: &mut Ground, from: NodeId, key: &StepKey, arrived: u32, read: u32) {
        ground.outgoing.arrived(key, arrived, from);
        let Some(held) = self.held.get_mut(key).filter(|held| held.is_from_caller(from)) else { return };
        held.unreached = Unreached::default();
        while held.read < read.min(held.sent) {
            held.read += 1;
            held.unread_bytes -= held.unread.pop_front().unwrap_or_default();
        }
        let due = held.is_due(ground.now, &ground.policy);
        self.send(ground, key, due);
    }

    /// A reply is too large for the link. A reply set must not have gaps, so the right ends with the replies before this one.
    pub(crate) fn reply_too_large(
        &mut self,
        ground: &mut Ground,
        key: &StepKey,
        first: u32,
        bytes: u64,
        bytes_max: u64,
    ) {
        ground.outgoing.forget_from(key, first);
        let why = too_large(first, bytes, bytes_max).outcome_unknown();
        if let Some(held) = self.held.get_mut(key) {
            (held.sent, held.let_go) = (first, true);
            self.bytes -= held.drop_queue();
            // Calls that are still on their way are stopped with the right.
            held.abandon_children(&why);
            held.threw = Some(why);
            ground.out.tell(Event::Abandoned(Owner::Right(key.clone())));
            ground.out.ask(Action::RightChanged(key.clone()));
            return self.end_if_done(ground, key);
        }
        // If its end has counted this reply, the end is sent again, without this reply.
        let Some(ended) = self.ended.get_mut(key).filter(|ended| first < ended.replies) else { return };
        ended.replies = first;
        let Ended { by, right, until, delegated, late, .. } = ended.clone();
        let end = RightEnd { key: key.clone(), replies: first, delegated, threw: Some(why), late };
        send_end(ground, (by, &right), until, end);
    }

    /// The caller, or the node that handed the right over, wants no more of this call, neither here nor where it was delegated to.
    pub(crate) fn stop(&mut self, ground: &mut Ground, from: NodeId, call: ChainId) {
        let stopped = self.of_call(call).filter(|(_, held)| held.is_from_caller(from) || held.from == from);
        let keys: Vec<StepKey> = stopped.map(|(key, _)| key.clone()).collect();
        let (mut next, mut by) = (Vec::new(), None);
        for key in keys {
            let Some(held) = self.remove(&key) else { continue };
            by = Some(held.by);
            ground.outgoing.forget_from(&key, 0);
            next.extend(held.children.into_iter().filter_map(|child| child.fate));
            ground.out.tell(Event::Abandoned(Owner::Right(key.clone())));
            ground.out.ask(Action::RightChanged(key));
        }
        let gone = self.ended.from(StepKey::first(call)).take_while(|(key, _)| key.chain == call);
        for (key, ended) in gone.filter(|(_, ended)| is_from_caller(&ended.right, from)) {
            ground.outgoing.forget_from(key, 0);
            next.extend(ended.delegated.iter().map(|delegated| delegated.fate.clone()));
            by = Some(ended.by);
        }
        if bug!(ground.policy, CancelMissesDelegate) {
            return;
        }
        let others = next.into_iter().filter_map(|fate| match fate {
            Fate::Taken(node) if node.id != ground.me.id && node.id != from => Some(Arc::new(node)),
            _ => None,
        });
        if let Some(by) = by {
            ground.tell_cancelled(by, call, others.collect());
        }
    }

    fn of_call(&self, call: ChainId) -> impl Iterator<Item = (&StepKey, &Held)> {
        self.held.range(StepKey::first(call)..).take_while(move |(key, _)| key.chain == call)
    }

    /// A link to a caller has broken: the caller must soon hear that this node is alive.
    pub(crate) fn link_lost(&mut self, ground: &Ground, node: NodeId) {
        let soon = ground.now.after((ground.policy.accept_timeout_us / 4).max(1));
        let first = StepKey::first(ChainId { origin: node, number: 0 });
        let of_caller = self.held.range_mut(first..).take_while(|(key, _)| key.chain.origin == node);
        for (key, held) in of_caller {
            held.beat_at = held.beat_at.min(soon);
            self.timers.bring_forward(key, soon);
        }
    }

    /// A sign of life did not reach the caller.
    pub(crate) fn unreached(&mut self, now: Time, key: &StepKey) {
        if let Some(held) = self.held.get_mut(key) {
            held.unreached.note(now);
        }
    }

    pub(crate) fn on_timeout(&mut self, ground: &mut Ground) {
        for _ in 0..AT_ONCE_MAX {
            let Some(key) = self.timers.take_due(ground.now) else { break };
            let Some(held) = self.held.get_mut(&key) else { continue };
            if held.budget.deadline() <= ground.now || held.unreached.is_for_long(ground.now, &ground.policy) {
                self.expire(ground, &key);
                continue;
            }
            if held.beat_at <= ground.now {
                held.beat_at = ground.now.after(ground.policy.heartbeat_interval_us.max(1));
                beat(ground, &held.right);
                if held.waits {
                    // What the function waits for may be room at this node, rather than the reader.
                    ground.out.ask(Action::RightChanged(key.clone()));
                }
            }
            let due = held.flush_at.is_some_and(|at| at <= ground.now);
            self.timers.set(key.clone(), held.next());
            if due {
                self.send(ground, &key, true);
            }
        }
    }

    pub(crate) fn forget_old(&mut self, awake: Time, policy: &Policy) {
        self.ended.expired(awake, policy.step_record_ttl_us);
    }

    /// Its caller's time has run out, or its caller is gone: the right is ended although it is still in use.
    fn expire(&mut self, ground: &mut Ground, key: &StepKey) {
        let Some(held) = self.held.get_mut(key) else { return };
        self.bytes -= held.cut_off(ground.now);
        ground.out.tell(Event::Abandoned(Owner::Right(key.clone())));
        ground.out.ask(Action::RightChanged(key.clone()));
        self.end_if_done(ground, key);
    }

    /// Sends the replies that wait, if `now`, and wakes whoever waits for room.
    fn send(&mut self, ground: &mut Ground, key: &StepKey, now: bool) {
        let Some(held) = self.held.get_mut(key) else { return };
        if now && !held.queue.is_empty() {
            self.bytes -= held.queue_bytes;
            while let Some((first, values)) = held.take_batch() {
                send_replies(ground, (held.by, &held.right), held.budget.deadline(), first, values);
            }
            self.bursts.remove(key);
            held.flush_at = None;
            held.next_at = ground.now.after(held.gather(&ground.policy).wait_us);
        }
        if held.waits && !held.is_full() {
            held.waits = false;
            ground.out.ask(Action::RightChanged(key.clone()));
        }
        self.end_if_done(ground, key);
    }

    /// Ends the right if nobody here has it, all is sent, and the fate of every right that it delegated is known.
    fn end_if_done(&mut self, ground: &mut Ground, key: &StepKey) {
        let done = |held: &Held| {
            held.let_go && held.queue.is_empty() && held.children.iter().all(|child| child.fate.is_some())
        };
        if !self.held.get(key).is_some_and(done) {
            return;
        }
        let Some(held) = self.remove(key) else { return };
        let delegated =
            held.children.into_iter().filter_map(|child| Some(Delegated { target: child.target, fate: child.fate? }));
        let delegated: Vec<Delegated> = delegated.collect();
        let (right, until) = (held.right, held.budget.deadline());
        let late = held.late && !bug!(ground.policy, LateNotTold);
        let by = held.by;
        let replies = held.sent;
        let ended = || Ended { by, right: right.clone(), until, replies, delegated: delegated.clone(), late };
        self.ended.entry(ground.clock.now(), held.by, key.clone(), ground.policy.rights_max, ended);
        let end = RightEnd { key: key.clone(), replies, delegated, threw: held.threw, late };
        send_end(ground, (by, &right), until, end);
    }

    fn remove(&mut self, key: &StepKey) -> Option<Held> {
        let held = self.held.remove(key)?;
        self.shares.remove(held.by);
        self.bytes -= held.queue_bytes;
        self.bursts.remove(key);
        self.timers.clear(key);
        Some(held)
    }
}

/// The end of a right is larger than a link carries: it is sent once more, without what the exceptions in it say.
pub(crate) fn end_too_large(ground: &mut Ground, key: &StepKey, bytes: u64, bytes_max: u64) {
    let Some(parcel) = ground.outgoing.remove(&(key.clone(), Part::End)) else { return };
    let Ok(Message::RightEnd(mut end)) = Message::decode_head(&parcel.message.head) else { return };
    exceptions::leave_out(&mut end, &format!("this end has {bytes} bytes, where a message may have {bytes_max}"));
    if let Some(parcel) = parcel.replaced_by(Message::RightEnd(end).encode()) {
        ground.send_kept(key.clone(), Part::End, parcel);
    }
}

fn over() -> Exception {
    let why = "the right to reply is over: the caller has gone, cancelled or run out of time; stop here";
    Exception::new(names::CANCELLED, Fault::Caller, why)
}

fn too_large(number: u32, bytes: u64, bytes_max: u64) -> Exception {
    let message = format!(
        "reply {number} has {bytes} bytes, where one may have {bytes_max}; reply in parts, or leave it at a service and reply with its name"
    );
    Exception::new(names::LIMIT_EXCEEDED, Fault::Service, message)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use catena_wire::Window;

    use super::{
        super::testing::{node, request},
        *,
    };

    #[test]
    fn a_link_that_breaks_and_a_call_that_is_stopped_concern_their_own_rights_only() {
        const CALLERS: u64 = 100;
        let mut ground = Ground::new(node(1), Policy::default(), 0);
        let mut rights = Rights::default();
        let call = |caller: u64, number: u128| ChainId { origin: NodeId(caller), number };
        for caller in 10..10 + CALLERS {
            for number in 0..3 {
                let right = Right::root(call(caller, number), (*node(caller)).clone(), Window { replies: 1, bytes: 1 });
                let request = request(&ground, ReplyTo::Peer { to: node(2), id: 1 });
                rights.hold(&mut ground, &request, right).unwrap();
            }
        }
        assert_eq!((rights.count(), rights.of_call(call(50, 1)).count()), (300, 1));
        rights.link_lost(&ground, NodeId(50));
        let soon = ground.now.after(ground.policy.accept_timeout_us / 4);
        assert_eq!(rights.next_timeout(), Some(soon));
        assert_eq!(rights.held.values().filter(|held| held.beat_at == soon).count(), 3);
        rights.stop(&mut ground, NodeId(50), call(50, 1));
        assert_eq!((rights.count(), rights.timers.len(), rights.shares.all(), rights.bytes), (299, 299, 299, 0));
    }
}
