//! The caller's side: what has arrived for each call that is answered many times, and whether that is everything.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet, VecDeque},
    format,
    sync::Arc,
};
use catena_wire::{
    BRANCHES_MAX, Branch, ChainId, Exception, Fate, Fault, NodeId, NodeRef, Replies, Right, RightEnd, StepKey, Value,
    Window, names,
};

use super::{
    flow::part_of,
    known::{Known, Reader, Set},
};
use crate::{
    Action, Replied, Time, Urgency,
    calls::{Owner, ReplyTo, Request},
    collections::{AT_ONCE_MAX, Party, Shares, Tally, Timers},
    ground::Ground,
    outbox::Event,
};

/// Calls made here that are answered many times.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sets {
    sets: BTreeMap<ChainId, Set>,
    /// Each is due no later than the next thing that its set has to do.
    timers: Timers<ChainId>,
    /// How many calls were made for each party.
    shares: Shares<Party>,
    /// The rights, by the node from which their messages come.
    by_way: BTreeSet<(NodeId, ChainId, Branch)>,
    /// Bytes of replies that wait for earlier ones, and of what the ends of rights say.
    bytes: usize,
}

impl Sets {
    /// For whom this call was made.
    pub(crate) fn party_of(&self, call: ChainId) -> Party {
        self.sets.get(&call).map_or(Party::Own, |set| set.by)
    }

    /// Bytes of replies that wait for earlier ones, and of what the ends of rights say. Replies handed out are counted by whoever holds them.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    pub(crate) fn awaits(&self, call: ChainId) -> bool {
        self.sets.contains_key(&call)
    }

    /// A call is about to go out. Returns it with the right to answer it.
    ///
    /// # Errors
    /// `Overloaded`.
    pub(crate) fn begin(
        &mut self,
        ground: &Ground,
        call: ChainId,
        reader: Reader,
        request: Request,
    ) -> Result<Request, Exception> {
        let (policy, by, deadline) = (&ground.policy, request.by, request.budget.deadline());
        let (own, all) = (self.shares.of(by), self.sets.len());
        ground.check_share("calls with many answers", by, own, all, policy.chains_started_max)?;
        let window = Window { replies: policy.reply_window, bytes: policy.reply_window_bytes };
        let target = [request.service.as_str(), "/", &request.function].concat();
        let mut set = Set {
            by,
            reader,
            deadline,
            window,
            tally: Tally::default(),
            rights: BTreeMap::new(),
            unread: VecDeque::new(),
            unread_replies: 0,
            unread_bytes: 0,
            said_bytes: 0,
            tell_at: None,
        };
        let root = Branch::root();
        set.tally.await_end(&root);
        // Until some node has taken the call over, the fate of the call itself decides that of the right.
        let holder = Some(ground.me.clone());
        set.rights.insert(root, Known { target, holder, silent_at: deadline, ..Known::default() });
        self.timers.set(call, deadline);
        self.shares.add(by);
        self.sets.insert(call, set);
        let right = Right::root(call, (*ground.me).clone(), window);
        Ok(Request { reply_to: ReplyTo::Delegator(right.key.clone()), right: Some(Box::new(right)), ..request })
    }

    /// The call was taken over, or no node takes it.
    pub(crate) fn handed(&mut self, ground: &mut Ground, key: &StepKey, at: Result<Arc<NodeRef>, Exception>) {
        let Some(set) = self.sets.get_mut(&key.chain) else { return };
        let Some(root) = set.rights.get_mut(&key.branch) else { return };
        match at {
            Ok(node) => {
                if root.way.is_none() {
                    root.way = Some(node.clone());
                    self.by_way.insert((node.id, key.chain, key.branch.clone()));
                }
                root.holder = Some(node);
                root.silent_at = ground.now.after(ground.policy.heartbeat_timeout_us);
                self.timers.bring_forward(&key.chain, root.silent_at);
            }
            // A holder that has been heard from has the call, even if the outcome of the call itself is unknown.
            Err(_) if root.way.is_some() => {}
            Err(why) => {
                set.lose(&key.branch, why);
                self.end_if_complete(ground, key.chain);
            }
        }
    }

    pub(crate) fn on_replies(&mut self, ground: &mut Ground, from: &Arc<NodeRef>, replies: Replies) {
        let Replies { key, first, values } = replies;
        let (call, branch) = (key.chain, &key.branch);
        if !self.hear(ground, from, None, &key) {
            return;
        }
        let Some(set) = self.sets.get_mut(&call) else { return };
        let bytes = values.iter().map(Value::len_bytes).sum();
        // Replies of this node itself are not sent again, and need no check: its rights are bounded already.
        if from.id != ground.me.id && !set.has_room(branch, first, (values.len(), bytes), ground) {
            // Its holder is alive, and will send them again.
            let deadline = set.deadline;
            set.rights.entry(branch.clone()).and_modify(|known| known.silent_at = deadline);
            return;
        }
        if bug!(ground.policy, AnswerTwice) {
            let repeats = set.tally.delivered(branch).saturating_sub(first) as usize;
            set.reader.hear(ground, call, values.iter().take(repeats).cloned().collect());
        }
        self.bytes -= set.tally.held_bytes();
        let ready = set.tally.take_all(branch, first, values, &ground.policy);
        self.bytes += set.tally.held_bytes();
        if !ready.is_empty() {
            set.hand_out(branch, &ready);
            set.reader.hear(ground, call, ready);
        }
        self.tell(ground, &key);
        self.end_if_complete(ground, call);
    }

    pub(crate) fn on_end(&mut self, ground: &mut Ground, from: &Arc<NodeRef>, mut end: RightEnd) {
        let key = end.key.clone();
        let (call, branch) = (key.chain, key.branch.clone());
        if !self.awaits(call) {
            // The rights that it delegated are not wanted either.
            let taken = end.delegated.iter().filter_map(|delegated| match &delegated.fate {
                Fate::Taken(node) => Some(Arc::new(node.clone())),
                Fate::Failed(_) => None,
            });
            return ground.answer_cancelled(call, taken.chain([from.clone()]));
        }
        if !self.hear(ground, from, None, &key) {
            return;
        }
        let Some(set) = self.sets.get_mut(&call) else { return };
        let total = match bug!(ground.policy, EndOvertakes) {
            true => set.tally.delivered(&branch),
            false => end.replies,
        };
        let Some(known) = set.rights.get_mut(&branch) else { return };
        let again = core::mem::replace(&mut known.ended, true);
        if again && bug!(ground.policy, CountTwice) {
            let open = set.rights.keys().find(|other| set.tally.is_open(other)).cloned();
            open.into_iter().for_each(|other| set.tally.give_up(&other));
        }
        let silent_at = ground.now.after(ground.policy.heartbeat_timeout_us);
        // The end has come before: it is news only if fewer replies were sent than it counted.
        if !again || end.threw.is_some() || bug!(ground.policy, CountTwice) {
            self.bytes -= set.said_bytes;
            set.weigh(&branch, &mut end, ground);
            self.bytes += set.said_bytes;
            set.tally.ended(&branch, total);
            if !set.ended(&branch, end, silent_at, ground) {
                return self.fail(ground, call, too_many_rights());
            }
        }
        self.timers.bring_forward(&call, silent_at);
        self.tell(ground, &key);
        self.end_if_complete(ground, call);
    }

    pub(crate) fn on_beat(&mut self, ground: &mut Ground, from: &Arc<NodeRef>, key: &StepKey, host: NodeRef) {
        // What the holder was told before may have been lost with a link.
        if self.hear(ground, from, Some(host), key)
            && let Some(set) = self.sets.get_mut(&key.chain)
            && let Some(known) = set.rights.get_mut(&key.branch)
            && known.reported != (0, 0)
        {
            known.tell(ground, &set.tally, key, Urgency::Lazy);
        }
    }

    pub(crate) fn on_read(&mut self, ground: &mut Ground, call: ChainId, count: usize) {
        let Some(set) = self.sets.get_mut(&call) else { return };
        for branch in set.read(count) {
            self.tell(ground, &StepKey { chain: call, branch, step: 0 });
        }
    }

    /// The reader wants no more. False if there is nothing to cancel.
    pub(crate) fn cancel(&mut self, ground: &mut Ground, call: ChainId) -> bool {
        let awaited = self.awaits(call);
        if awaited {
            let why = "the call was cancelled; what had come before can be read; what its services did by then is done";
            self.fail(ground, call, Exception::new(names::CANCELLED, Fault::Caller, why).outcome_unknown());
        }
        awaited
    }

    /// Nobody holds the reply set any more. False if there is nothing to forget.
    pub(crate) fn forget(&mut self, ground: &mut Ground, call: ChainId) -> bool {
        let awaited = self.awaits(call);
        if awaited {
            self.stop(ground, call);
            self.remove(call);
        }
        awaited
    }

    /// A link to a holder has broken: if the holder is alive, it will be heard from soon.
    pub(crate) fn link_lost(&mut self, ground: &Ground, node: NodeId) {
        let soon = ground.now.after(ground.policy.accept_timeout_us.max(1));
        for (call, branch) in by_way(&self.by_way, node) {
            let known = self.sets.get_mut(call).and_then(|set| set.rights.get_mut(branch));
            if let Some(known) = known.filter(|known| known.silent_at > soon) {
                known.silent_at = soon;
                self.timers.bring_forward(call, soon);
            }
        }
    }

    pub(crate) fn on_timeout(&mut self, ground: &mut Ground) {
        for _ in 0..AT_ONCE_MAX {
            let Some(call) = self.timers.take_due(ground.now) else { break };
            let Some(set) = self.sets.get_mut(&call) else { continue };
            if set.deadline <= ground.now {
                set.run_out();
                self.stop(ground, call);
                self.finish(ground, call, None);
                continue;
            }
            if set.tell_at.is_some_and(|at| at <= ground.now) {
                set.tell_at = None;
                let Set { rights, tally, .. } = set;
                for (branch, known) in rights {
                    let key = StepKey { chain: call, branch: branch.clone(), step: 0 };
                    if known.reported != (tally.delivered(branch), known.read) {
                        known.tell(ground, tally, &key, Urgency::Lazy);
                    }
                }
            }
            set.lose_silent(ground);
            self.timers.set(call, set.next().max(ground.now.after(1)));
            self.end_if_complete(ground, call);
        }
    }

    /// The holder of a right is heard from: the right is awaited, even if it was unknown or given up. False if the set is gone or has no room.
    fn hear(&mut self, ground: &mut Ground, from: &Arc<NodeRef>, host: Option<NodeRef>, key: &StepKey) -> bool {
        if !self.awaits(key.chain) {
            if !bug!(ground.policy, CancelMissesDelegate) {
                ground.answer_cancelled(key.chain, [from.clone()]);
            }
            if bug!(ground.policy, ReplyAfterEnd) {
                ground.out.ask(Action::Reply(key.chain, Replied::Replies(alloc::vec![Value::null()])));
            }
            return false;
        }
        let silent_at = ground.now.after(ground.policy.heartbeat_timeout_us.max(1));
        let Some(set) = self.sets.get_mut(&key.chain) else { return false };
        if !set.has_room_for(&key.branch) {
            self.fail(ground, key.chain, too_many_rights());
            return false;
        }
        let new = || Known { silent_at, ..Known::default() };
        let known = set.rights.entry(key.branch.clone()).or_insert_with(new);
        if known.way.as_ref().is_none_or(|way| way.id != from.id) {
            let place = |node| (node, key.chain, key.branch.clone());
            self.by_way.insert(place(from.id));
            if let Some(before) = known.way.replace(from.clone()) {
                self.by_way.remove(&place(before.id));
            }
        }
        if let Some(host) = host {
            known.holder = Some(Arc::new(host));
        } else if known.holder.as_ref().is_none_or(|holder| holder.id == ground.me.id) {
            // A node that replies has taken the call, even if that was not reported.
            known.holder = Some(from.clone());
        }
        known.silent_at = silent_at;
        if core::mem::take(&mut known.lost) {
            known.missing = None;
        }
        set.tally.await_end(&key.branch);
        self.timers.bring_forward(&key.chain, silent_at);
        true
    }

    /// Tells the holder what has arrived and been read: at once if it may be waiting for that, else after a while.
    fn tell(&mut self, ground: &mut Ground, key: &StepKey) {
        let Some(set) = self.sets.get_mut(&key.chain) else { return };
        let Some(known) = set.rights.get_mut(&key.branch) else { return };
        // No holder waits to hear that replies have arrived; those that were read make room.
        let (news, part) = (known.read.saturating_sub(known.reported.1), part_of(set.window));
        if news >= part.replies || known.unreported_bytes >= part.bytes as usize {
            return known.tell(ground, &set.tally, key, Urgency::Now);
        }
        if set.tell_at.is_none() {
            let at = ground.now.after((ground.policy.accept_timeout_us / 4).max(1));
            set.tell_at = Some(at);
            self.timers.bring_forward(&key.chain, at);
        }
    }

    fn end_if_complete(&mut self, ground: &mut Ground, call: ChainId) {
        if self.sets.get(&call).is_some_and(|set| set.tally.is_complete()) {
            self.finish(ground, call, None);
        }
    }

    /// The set fails before everything that is awaited has come.
    fn fail(&mut self, ground: &mut Ground, call: ChainId, why: Exception) {
        self.stop(ground, call);
        self.finish(ground, call, Some(why));
    }

    fn finish(&mut self, ground: &mut Ground, call: ChainId, stopped: Option<Exception>) {
        let Some(mut set) = self.remove(call) else { return };
        let failure = stopped.or_else(|| set.failure(ground.now));
        let Set { rights, tally, .. } = &mut set;
        for (branch, known) in rights {
            if tally.delivered(branch) > known.reported.0 {
                known.tell(ground, tally, &StepKey { chain: call, branch: branch.clone(), step: 0 }, Urgency::Lazy);
            }
        }
        set.reader.hear_end(ground, call, set.missing(), failure, set.rights.len());
    }

    /// Stops the call everywhere: at each node that is known to hold a right, and where the call is still on its way.
    fn stop(&self, ground: &mut Ground, call: ChainId) {
        let Some(set) = self.sets.get(&call) else { return };
        let open = set.rights.iter().filter(|(branch, _)| set.tally.is_open(branch));
        let nodes = open.flat_map(|(_, known)| known.way.iter().chain(&known.holder).cloned()).collect();
        ground.out.tell(Event::Abandoned(Owner::Right(StepKey::first(call))));
        ground.tell_cancelled(set.by, call, nodes);
    }

    fn remove(&mut self, call: ChainId) -> Option<Set> {
        self.timers.clear(&call);
        let set = self.sets.remove(&call)?;
        self.bytes -= set.tally.held_bytes() + set.said_bytes;
        self.shares.remove(set.by);
        for (branch, known) in &set.rights {
            if let Some(way) = &known.way {
                self.by_way.remove(&(way.id, call, branch.clone()));
            }
        }
        Some(set)
    }
}

fn by_way(ways: &BTreeSet<(NodeId, ChainId, Branch)>, node: NodeId) -> impl Iterator<Item = (&ChainId, &Branch)> {
    let first = (node, ChainId { origin: NodeId(0), number: 0 }, Branch::root());
    let from_it = ways.range(first..).take_while(move |(way, ..)| *way == node);
    from_it.map(|(_, call, branch)| (call, branch))
}

fn too_many_rights() -> Exception {
    let message = format!(
        "the call was delegated more than {BRANCHES_MAX} times in all; it was stopped; what had come before can be read; does a service delegate to itself?"
    );
    Exception::new(names::LIMIT_EXCEEDED, Fault::Service, message).outcome_unknown()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use alloc::vec::Vec;

    use super::{
        super::testing::{node, request},
        *,
    };
    use crate::{Missing, Policy};

    #[test]
    fn a_link_that_breaks_concerns_the_rights_only_whose_messages_come_by_it() {
        let mut ground = Ground::new(node(1), Policy::default(), 0);
        let mut sets = Sets::default();
        let key = |number| StepKey::first(ChainId { origin: NodeId(1), number });
        for number in 0..100 {
            let call = key(number).chain;
            sets.begin(&ground, call, Reader::User, request(&ground, ReplyTo::Nobody(call))).unwrap();
            sets.handed(&mut ground, &key(number), Ok(node(number as u64 % 50 + 10)));
        }
        let looked_at = |sets: &Sets, node| by_way(&sets.by_way, NodeId(node)).count();
        assert_eq!((sets.sets.len(), looked_at(&sets, 11), looked_at(&sets, 9)), (100, 2, 0));
        // Another node is heard from for one of them; and one is forgotten.
        sets.on_beat(&mut ground, &node(9), &key(1), (*node(9)).clone());
        assert_eq!((looked_at(&sets, 11), looked_at(&sets, 9), sets.by_way.len()), (1, 1, 100));
        sets.link_lost(&ground, NodeId(9));
        let soon = ground.now.after(ground.policy.accept_timeout_us);
        let rights = sets.sets.values().flat_map(|set| set.rights.values());
        assert_eq!((rights.filter(|known| known.silent_at == soon).count(), sets.next_timeout()), (1, Some(soon)));
        sets.forget(&mut ground, key(1).chain);
        assert_eq!((looked_at(&sets, 9), sets.by_way.len()), (0, 99));
    }

    #[test]
    fn exceptions_of_ends_are_left_out_where_there_is_no_room_and_forgotten_with_their_set() {
        let mut ground = Ground::new(node(1), Policy { replies_unread_bytes_max: 3_000, ..Policy::default() }, 0);
        let mut sets = Sets::default();
        let key = StepKey::first(ChainId { origin: NodeId(1), number: 1 });
        sets.begin(&ground, key.chain, Reader::User, request(&ground, ReplyTo::Nobody(key.chain))).unwrap();
        let threw = Exception::new("Large", Fault::Service, "x".repeat(2_000)).outcome_unknown();
        let taken = catena_wire::Delegated { target: "s/f".into(), fate: Fate::Taken((*node(3)).clone()) };
        let end = |key: &StepKey, delegated| RightEnd {
            key: key.clone(),
            replies: 0,
            delegated,
            threw: Some(threw.clone()),
            late: false,
        };
        sets.on_end(&mut ground, &node(2), end(&key, alloc::vec![taken.clone(), taken]));
        let first_bytes = sets.bytes();
        assert!((2_000..3_000).contains(&first_bytes));
        let child = StepKey { branch: key.branch.child(1).unwrap(), ..key.clone() };
        sets.on_end(&mut ground, &node(3), end(&child, Vec::new()));
        assert!(sets.bytes() < first_bytes + 500);
        let missing = sets.sets[&key.chain].missing();
        let [root, child] = <[Missing; 2]>::try_from(missing).unwrap();
        assert!(root.why == threw && child.why.name == names::LIMIT_EXCEEDED && child.why.unknown);
        // An end that comes again replaces what it said before, and one that is no news says nothing.
        let before = sets.bytes();
        let failed = catena_wire::Delegated { target: "s/f".into(), fate: Fate::Failed(threw.clone()) };
        for _ in 0..9 {
            sets.on_end(&mut ground, &node(2), end(&key, alloc::vec![failed.clone()]));
            let quiet = RightEnd { threw: None, ..end(&key, alloc::vec![failed.clone(); 9]) };
            sets.on_end(&mut ground, &node(2), quiet);
        }
        assert!(sets.bytes() <= before + 500, "{} and {before}", sets.bytes());
        sets.forget(&mut ground, key.chain);
        assert_eq!(sets.bytes(), 0);
    }
}
