//! Ends, intermediate answers and cancellations on their way: kept, and sent again, until their receiver has acknowledged them.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec::Vec,
};
use catena_wire::{ChainId, Encoded, NodeId, NodeRef, Part, StepKey};
use core::ops::{Range, RangeBounds};

use crate::{
    Policy, Time,
    collections::{AT_ONCE_MAX, Party, Shares, Timers, leaves_room},
};

/// How often a parcel is sent again after the same pause; the pauses after that grow.
const QUICK_ATTEMPTS: u8 = 3;

/// Of replies no longer than this, in accept timeouts: less than a heartbeat timeout by default, after which the caller gives up the holder of a right that
/// has ended, and sends no heartbeats.
const REPLY_PAUSES_MAX: u64 = 2;

/// What is kept: a part of a chain's outcome, or its cancellation at one node.
type Key = (StepKey, Part);

#[derive(Clone, Debug)]
pub(crate) struct Parcel {
    /// Whose share pays for it.
    by: Party,
    pub(crate) to: Arc<NodeRef>,
    pub(crate) via: Option<Arc<NodeRef>>,
    pub(crate) message: Encoded,
    attempts: u8,
    /// When it is dropped, since nobody waits for it any more.
    until: Time,
    number: u64,
    /// It replaces another message, which was too large.
    replaced: bool,
    /// For replies: the number after the last of them.
    upto: u32,
    /// For a parcel that does not go to the origin: the origin, and the node through which it is reached.
    home: Option<Home>,
}

/// A node, and the node through which it is reached if it cannot be dialled.
type Home = (Arc<NodeRef>, Option<Arc<NodeRef>>);

#[derive(Clone, Debug, Default)]
pub(crate) struct Outgoing {
    next: u64,
    parcels: BTreeMap<Key, Parcel>,
    keys: BTreeMap<u64, Key>,
    by_node: BTreeSet<(NodeId, u64)>,
    timers: Timers<u64>,
    /// The nodes to which what was sent before is sent again soon, since their links have changed; and the numbers of the parcels that are still to go there.
    soon: Timers<NodeId>,
    soon_numbers: BTreeMap<NodeId, Range<u64>>,
    /// What the parcels take that are no cancellations.
    shares: Shares<Party>,
    /// The numbers of the cancellations of each party.
    cancels: BTreeSet<(Party, u64)>,
    cancel_shares: Shares<Party>,
}

impl Outgoing {
    pub(crate) const fn bytes(&self) -> usize {
        self.shares.all_bytes() as usize
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.timers.next().into_iter().chain(self.soon.next()).min()
    }

    pub(crate) fn keeps(&self, key: &Key) -> bool {
        self.parcels.contains_key(key)
    }

    /// Whether `bytes` more bytes can be kept for this party.
    pub(crate) fn has_room(&self, by: Party, bytes: usize, policy: &Policy) -> bool {
        let own_bytes = usize::try_from(self.shares.bytes_of(by)).unwrap_or(usize::MAX);
        leaves_room(policy, by, 1, self.shares.of(by), self.shares.all(), policy.outgoing_max)
            && leaves_room(policy, by, bytes, own_bytes, self.bytes(), policy.outgoing_bytes_max)
    }

    /// Keeps a parcel that has just been sent for the first time. False if there is no room for it.
    pub(crate) fn keep(&mut self, now: Time, key: Key, parcel: Parcel, policy: &Policy) -> bool {
        let bytes = parcel.message.bytes();
        let cancels = is_cancel(&key);
        if cancels {
            self.make_room(parcel.by, policy);
        } else if !self.has_room(parcel.by, bytes, policy) {
            return false;
        }
        self.remove(&key);
        self.next += 1;
        if cancels {
            self.cancels.insert((parcel.by, self.next));
            self.cancel_shares.add_sized(parcel.by, 1);
        } else {
            self.shares.add_sized(parcel.by, bytes as u64);
        }
        let parcel = Parcel { number: self.next, ..parcel };
        self.timers.set(self.next, now.after(policy.accept_timeout_us.max(1)));
        self.by_node.insert((parcel.to.id, self.next));
        self.keys.insert(self.next, key.clone());
        self.parcels.insert(key, parcel);
        true
    }

    /// Nodes that are gone for good never acknowledge, and a peer can name many nodes to be told. So cancellations have room of their own, half as much as the
    /// other parcels, and the oldest of the party that has most makes room for the next.
    fn make_room(&mut self, by: Party, policy: &Policy) {
        if self.cancel_shares.all() < policy.outgoing_max / 2 {
            return;
        }
        let Some(party) = self.cancel_shares.gives_way(by, 1) else { return };
        let oldest = self.cancels.range((party, 0)..).next().and_then(|(_, number)| self.keys.get(number)).cloned();
        oldest.iter().for_each(|key| drop(self.remove(key)));
    }

    /// All replies under this right with lower numbers have arrived.
    pub(crate) fn arrived(&mut self, right: &StepKey, number: u32, from: NodeId) {
        let range = (right.clone(), Part::Partial(0))..(right.clone(), Part::Partial(number));
        self.remove_all(range, |parcel| parcel.upto <= number && parcel.goes_by(from));
    }

    /// Replies under this right from this number on are not sent any more.
    pub(crate) fn forget_from(&mut self, right: &StepKey, first: u32) {
        let range = (right.clone(), Part::Partial(first))..=(right.clone(), Part::Partial(u32::MAX));
        self.remove_all(range, |_| true);
    }

    /// The receiver has this parcel. Only the receiver, or the node that passes its messages on, can say so.
    pub(crate) fn received(&mut self, key: &Key, from: NodeId) {
        if self.parcels.get(key).is_some_and(|parcel| parcel.goes_by(from)) {
            self.remove(key);
        }
    }

    /// Removes a parcel that has arrived, that its receiver cannot take, or for which nobody waits.
    pub(crate) fn remove(&mut self, key: &Key) -> Option<Parcel> {
        let parcel = self.parcels.remove(key)?;
        self.timers.clear(&parcel.number);
        self.keys.remove(&parcel.number);
        let node = parcel.to.id;
        self.by_node.remove(&(node, parcel.number));
        if !self.sends_to(node) {
            self.soon.clear(&node);
            self.soon_numbers.remove(&node);
        }
        if is_cancel(key) {
            self.cancels.remove(&(parcel.by, parcel.number));
            self.cancel_shares.remove_sized(parcel.by, 1);
        } else {
            self.shares.remove_sized(parcel.by, parcel.message.bytes() as u64);
        }
        Some(parcel)
    }

    /// The chain is stopped, which is what its cancellations say. Its answers to its origin are kept as well, since an end that cuts the chain off counts them.
    pub(crate) fn forget_chain(&mut self, chain: ChainId) {
        let first = (StepKey::first(chain), Part::End);
        let of_chain = self.parcels.range(first..).take_while(|(key, _)| key.0.chain == chain);
        let kept = |(key, parcel): &(&Key, &Parcel)| match key.1 {
            Part::Cancel(_) => true,
            Part::Partial(_) => !parcel.is_of_replies(),
            Part::End | Part::ToCreator { .. } => false,
        };
        let keys: Vec<Key> = of_chain.filter(|parcel| !kept(parcel)).map(|(key, _)| key.clone()).collect();
        keys.iter().for_each(|key| drop(self.remove(key)));
    }

    fn remove_all(&mut self, range: impl RangeBounds<Key>, which: impl Fn(&Parcel) -> bool) {
        let keys = self.parcels.range(range).filter(|(_, parcel)| which(parcel)).map(|(key, _)| key.clone());
        keys.collect::<Vec<Key>>().iter().for_each(|key| drop(self.remove(key)));
    }

    /// The parcel did not arrive: it is sent again after a while, and no sooner than it would have been.
    pub(crate) fn failed(&mut self, now: Time, key: &Key, policy: &Policy) {
        let Some(parcel) = self.parcels.get(key) else { return };
        let at = now.after(policy.accept_timeout_us.max(1));
        if self.timers.at(&parcel.number).is_none_or(|before| before < at) {
            self.timers.set(parcel.number, at);
        }
    }

    /// A link has broken, and what was sent over it may be lost; or there is a new one, to a node that may have been asleep. All is sent again soon, but not at
    /// once: a flapping link would be flooded.
    pub(crate) fn link_changed(&mut self, now: Time, node: NodeId, policy: &Policy) {
        if !self.sends_to(node) {
            return;
        }
        self.soon_numbers.insert(node, 0..self.next + 1);
        // What is under way begins anew, after a pause.
        if self.soon.at(&node).is_none_or(|at| at <= now) {
            self.soon.set(node, now.after((policy.accept_timeout_us / 4).max(1)));
        }
    }

    fn sends_to(&self, node: NodeId) -> bool {
        self.by_node.range((node, 0)..=(node, u64::MAX)).next().is_some()
    }

    /// The parcels to be sent again now; each has to wait longer for the next time.
    pub(crate) fn take_due(&mut self, now: Time, policy: &Policy) -> Vec<(Key, Parcel)> {
        let mut due = Vec::new();
        for _ in 0..AT_ONCE_MAX {
            let Some(number) = self.timers.take_due(now).or_else(|| self.take_soon(now)) else { break };
            due.extend(self.send_again(number, now, policy));
        }
        due
    }

    /// The next parcel to a node whose link has changed.
    fn take_soon(&mut self, now: Time) -> Option<u64> {
        while let Some(node) = self.soon.take_due(now) {
            let Some(numbers) = self.soon_numbers.remove(&node) else { continue };
            let Range { start, end } = numbers;
            if let Some((_, number)) = self.by_node.range((node, start)..(node, end)).next() {
                self.soon_numbers.insert(node, number + 1..end);
                self.soon.set(node, now);
                return Some(*number);
            }
        }
        None
    }

    fn send_again(&mut self, number: u64, now: Time, policy: &Policy) -> Option<(Key, Parcel)> {
        let key = self.keys.get(&number).cloned()?;
        let parcel = self.parcels.get_mut(&key)?;
        if parcel.until <= now {
            self.remove(&key);
            return None;
        }
        parcel.attempts = parcel.attempts.saturating_add(1);
        let mut pauses = u64::from(parcel.attempts.saturating_sub(QUICK_ATTEMPTS)).max(1);
        if parcel.is_of_replies() {
            pauses = pauses.min(REPLY_PAUSES_MAX);
        }
        let pause_us = policy.accept_timeout_us.max(1).saturating_mul(pauses);
        // Not after the time at which it is dropped.
        self.timers.set(number, now.after(pause_us).min(parcel.until.max(now.after(1))));
        Some((key, parcel.clone()))
    }
}

fn is_cancel((_, part): &Key) -> bool {
    matches!(part, Part::Cancel(_))
}

impl Parcel {
    pub(crate) const fn new(
        by: Party,
        to: Arc<NodeRef>,
        via: Option<Arc<NodeRef>>,
        message: Encoded,
        until: Time,
    ) -> Self {
        Self { by, to, via, message, attempts: 0, until, number: 0, replaced: false, upto: 0, home: None }
    }

    /// Whether that node receives it, or passes it on.
    fn goes_by(&self, node: NodeId) -> bool {
        self.to.id == node || self.via.as_ref().is_some_and(|via| via.id == node)
    }

    /// The parcel has the replies up to this number, which is not included.
    pub(crate) const fn up_to(mut self, upto: u32) -> Self {
        self.upto = upto;
        self
    }

    const fn is_of_replies(&self) -> bool {
        self.upto > 0
    }

    /// The parcel does not go to the origin, which is reached through `via` if that is given.
    pub(crate) fn away_from(self, origin: Arc<NodeRef>, via: Option<Arc<NodeRef>>) -> Self {
        Self { home: Some((origin, via)), ..self }
    }

    /// The same parcel, to the origin.
    pub(crate) fn homeward(mut self) -> Self {
        match self.home.take() {
            Some((to, via)) => Self { to, via, ..self },
            None => self,
        }
    }

    /// The same parcel with another message, since this one is too large. `None` if it was replaced before.
    pub(crate) fn replaced_by(self, message: Encoded) -> Option<Self> {
        (!self.replaced).then(|| Self { message, replaced: true, ..self })
    }

    /// The same parcel with this message.
    pub(crate) fn with(self, message: Encoded) -> Self {
        Self { message, ..self }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use alloc::format;
    use catena_wire::{Branch, Message};

    use super::*;

    const STRANGER: Party = Party::Node(NodeId(7));

    fn key(number: u128, part: Part) -> Key {
        let chain = ChainId { origin: NodeId(1), number };
        (StepKey { chain, branch: Branch::root(), step: 0 }, part)
    }

    fn parcel(by: Party, to: u64) -> Parcel {
        let node = NodeRef { id: NodeId(to), name: format!("n{to}"), address: None, site: None };
        let message = Message::Cancel(key(0, Part::End).0.chain).encode();
        Parcel::new(by, Arc::new(node), None, message, Time::from_us(u64::MAX))
    }

    #[test]
    fn of_cancellations_that_one_party_causes_its_own_make_room() {
        let policy = Policy { outgoing_max: 8, ..Policy::default() };
        let mut outgoing = Outgoing::default();
        let cancel = Part::Cancel(NodeId(2));
        assert!(outgoing.keep(Time::default(), key(0, cancel), parcel(Party::Own, 2), &policy));
        for number in 1..100 {
            assert!(outgoing.keep(Time::default(), key(number, cancel), parcel(STRANGER, 2), &policy));
        }
        let kept: Vec<u128> = outgoing.parcels.keys().map(|(step, _)| step.chain.number).collect();
        assert_eq!(kept, [0, 97, 98, 99]);
        assert_eq!((outgoing.cancels.len(), outgoing.cancel_shares.all(), outgoing.shares.all()), (4, 4, 0));
    }

    #[test]
    fn what_is_sent_again_over_a_new_link_goes_in_parts_and_what_came_since_waits_its_time() {
        let policy = Policy::default();
        let (soon, kept) = (Time::from_us(policy.accept_timeout_us / 4), AT_ONCE_MAX as u128 + 2);
        let mut outgoing = Outgoing::default();
        for number in 0..kept {
            assert!(outgoing.keep(Time::default(), key(number, Part::End), parcel(Party::Own, 2), &policy));
        }
        assert!(outgoing.keep(Time::default(), key(kept, Part::End), parcel(Party::Own, 3), &policy));
        outgoing.link_changed(Time::default(), NodeId(2), &policy);
        assert!(outgoing.keep(Time::from_us(1), key(kept + 1, Part::End), parcel(Party::Own, 2), &policy));
        assert_eq!(outgoing.next_timeout(), Some(soon));
        let mut parts = || outgoing.take_due(soon, &policy).len();
        assert_eq!([parts(), parts(), parts()], [AT_ONCE_MAX, 2, 0]);
        assert!(
            outgoing.soon_numbers.is_empty()
                && outgoing.next_timeout() == Some(Time::from_us(policy.accept_timeout_us))
        );
        outgoing.link_changed(soon, NodeId(4), &policy);
        assert!(outgoing.soon_numbers.is_empty(), "nothing goes there");
        outgoing.link_changed(soon, NodeId(3), &policy);
        outgoing.remove(&key(kept, Part::End));
        assert!(outgoing.soon_numbers.is_empty() && outgoing.soon.next().is_none(), "nothing goes there any more");
    }

    #[test]
    fn a_link_that_flaps_is_not_flooded_and_holds_up_no_others() {
        let policy = Policy::default();
        let mut outgoing = Outgoing::default();
        for number in 0..3 * AT_ONCE_MAX as u128 {
            assert!(outgoing.keep(Time::default(), key(number, Part::End), parcel(Party::Own, 2), &policy));
        }
        let other = key(1 << 64, Part::End);
        assert!(outgoing.keep(Time::default(), other.clone(), parcel(Party::Own, 3), &policy));
        let (mut sent, mut sent_to_other) = (0, 0);
        for at in (0..10_000_000).step_by(10_000).map(Time::from_us) {
            outgoing.link_changed(at, NodeId(2), &policy);
            let due = outgoing.take_due(at, &policy);
            sent += due.len();
            sent_to_other += due.iter().filter(|(key, _)| *key == other).count();
        }
        let passes = 20;
        assert!(sent <= (passes + 5) * 3 * AT_ONCE_MAX, "{sent}");
        assert!(sent_to_other >= 3, "{sent_to_other}");
    }
}
