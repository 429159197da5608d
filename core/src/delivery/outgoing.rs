//! Ends, intermediate answers and cancellations on their way: kept, and sent again, until their receiver has acknowledged them.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec::Vec,
};
use catena_wire::{ChainId, Encoded, NodeId, NodeRef, Part, StepKey};
use core::ops::RangeBounds;

use crate::{
    Policy, Time,
    collections::{DUE_AT_ONCE_MAX, Party, Shares, Timers, leaves_room},
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
    /// The numbers of the parcels that are cancellations.
    cancels: BTreeSet<u64>,
    timers: Timers<u64>,
    shares: Shares<Party>,
}

impl Outgoing {
    pub(crate) const fn bytes(&self) -> usize {
        self.shares.all_bytes() as usize
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.timers.next()
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
        let cancels = matches!(key.1, Part::Cancel(_));
        if cancels {
            self.make_room(policy);
        }
        if !self.has_room(parcel.by, bytes, policy) {
            return false;
        }
        self.remove(&key);
        self.next += 1;
        if cancels {
            self.cancels.insert(self.next);
        }
        let parcel = Parcel { number: self.next, ..parcel };
        self.timers.set(self.next, now.after(policy.accept_timeout_us.max(1)));
        self.by_node.insert((parcel.to.id, self.next));
        self.keys.insert(self.next, key.clone());
        self.shares.add_sized(parcel.by, bytes as u64);
        self.parcels.insert(key, parcel);
        true
    }

    /// Nodes that are gone for good never acknowledge, and a peer can name many nodes to be told. So cancellations have half of the room, and
    /// the one that has been sent for longest makes room for the next.
    fn make_room(&mut self, policy: &Policy) {
        if self.cancels.len() < policy.outgoing_max / 2 {
            return;
        }
        let oldest = self.cancels.first().and_then(|number| self.keys.get(number)).cloned();
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
        self.cancels.remove(&parcel.number);
        self.by_node.remove(&(parcel.to.id, parcel.number));
        self.shares.remove_sized(parcel.by, parcel.message.bytes() as u64);
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
        let soon = now.after((policy.accept_timeout_us / 4).max(1));
        for (_, number) in self.by_node.range((node, 0)..=(node, u64::MAX)) {
            if self.timers.at(number).is_none_or(|at| at > soon) {
                self.timers.set(*number, soon);
            }
        }
    }

    /// The parcels to be sent again now; each has to wait longer for the next time.
    pub(crate) fn take_due(&mut self, now: Time, policy: &Policy) -> Vec<(Key, Parcel)> {
        let mut due = Vec::new();
        for _ in 0..DUE_AT_ONCE_MAX {
            let Some(number) = self.timers.take_due(now) else { break };
            let Some(key) = self.keys.get(&number).cloned() else { continue };
            let Some(parcel) = self.parcels.get_mut(&key) else { continue };
            if parcel.until <= now {
                self.remove(&key);
                continue;
            }
            parcel.attempts = parcel.attempts.saturating_add(1);
            let mut pauses = u64::from(parcel.attempts.saturating_sub(QUICK_ATTEMPTS)).max(1);
            if parcel.is_of_replies() {
                pauses = pauses.min(REPLY_PAUSES_MAX);
            }
            let pause_us = policy.accept_timeout_us.max(1).saturating_mul(pauses);
            // Not after the time at which it is dropped.
            self.timers.set(number, now.after(pause_us).min(parcel.until.max(now.after(1))));
            due.push((key, parcel.clone()));
        }
        due
    }
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
