//! Services of this node that listen to the intermediate answers of the sub-chains with which they answered, in order and once
//! (rpc-chains section 7.1).

use alloc::vec::Vec;
use catena_wire::{Branch, ChainId, StepKey, Value};

use crate::{
    Action, Policy, Time,
    collections::{Expiring, Party, Taken, Tally},
    outbox::Outbox,
};

#[derive(Clone, Debug, Default)]
pub(crate) struct Listeners {
    /// By the step at which the sub-chain began.
    streams: Expiring<StepKey, Tally>,
    /// Those that have ended: answers may still be on their way.
    ended: Expiring<StepKey, ()>,
    /// Bytes of answers held back.
    bytes: usize,
}

impl Listeners {
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn listens(&self, key: &StepKey) -> bool {
        self.streams.contains(key)
    }

    /// A service answers this step with a sub-chain, to which it listens; `by` is the party that brought its chain.
    pub(crate) fn begin(&mut self, out: &mut Outbox, awake: Time, by: Party, key: StepKey, policy: &Policy) {
        while !self.streams.contains(&key)
            && let Some((gone, stream)) = self.streams.make_room(by, policy.listeners_max)
        {
            self.gone(out, gone, &stream);
        }
        self.streams.entry(awake, by, key, policy.listeners_max, Tally::default);
    }

    /// An answer of a sub-chain that began at step `to`; `room`: how many bytes may be kept for it. False if there is none, so that it has to be sent again.
    #[allow(clippy::too_many_arguments, reason = "what an answer consists of")]
    pub(crate) fn on_partial(
        &mut self,
        out: &mut Outbox,
        key: &StepKey,
        to: u32,
        number: u32,
        value: Value,
        room: Option<usize>,
        policy: &Policy,
    ) -> bool {
        let Some(at) = self.begun_at(key, to) else { return true };
        let Some(stream) = self.streams.get_mut(&at) else { return true };
        self.bytes -= stream.held_bytes();
        let taken = stream.take(&key.branch, number, value, room, policy);
        while let Some(value) = stream.pop(&key.branch) {
            out.ask(Action::Heard(at.clone(), value));
        }
        self.bytes += stream.held_bytes();
        taken != Taken::NoRoom
    }

    /// The step at which the sub-chain that made this step, itself or in one of its branches, began.
    fn begun_at(&self, key: &StepKey, step: u32) -> Option<StepKey> {
        let ancestors = core::iter::successors(Some(key.branch.clone()), Branch::parent);
        let mut beginnings = ancestors.map(|branch| StepKey { branch, step, ..key.clone() });
        beginnings.find(|at| self.streams.contains(at))
    }

    /// The sub-chain has ended: its listener is dropped later, when answers that are on their way have had time to arrive.
    pub(crate) fn end(&mut self, awake: Time, by: Party, key: StepKey, policy: &Policy) {
        if bug!(policy, ListenerGoneAtOnce) {
            self.bytes -= self.streams.remove(&key).map_or(0, |stream| stream.held_bytes());
        } else if self.streams.contains(&key) {
            self.ended.entry(awake, by, key, policy.listeners_max, || ());
        }
    }

    /// The sub-chain does not begin, or has ended and all of its answers are here.
    pub(crate) fn forget(&mut self, out: &mut Outbox, key: &StepKey) {
        if let Some(stream) = self.streams.remove(key) {
            self.gone(out, key.clone(), &stream);
        }
    }

    /// The chain is stopped: perhaps because it has ended, and then answers may still be on their way.
    pub(crate) fn end_chain(&mut self, awake: Time, by: Party, chain: ChainId, policy: &Policy) {
        let of_chain = self.streams.from(StepKey::first(chain)).take_while(|(key, _)| key.chain == chain);
        let keys: Vec<StepKey> = of_chain.map(|(key, _)| key.clone()).collect();
        keys.into_iter().for_each(|key| self.end(awake, by, key, policy));
    }

    pub(crate) fn expire(&mut self, out: &mut Outbox, awake: Time, policy: &Policy) {
        let ended_us = match bug!(policy, EndedListenersStay) {
            true => policy.budget_max.time_left_us(),
            false => policy.heartbeat_timeout_us,
        };
        for (key, ()) in self.ended.expired(awake, ended_us) {
            if let Some(stream) = self.streams.remove(&key) {
                self.gone(out, key, &stream);
            }
        }
        // Listeners whose sub-chains are never said to have ended are dropped too: no chain lasts longer than this.
        for (key, stream) in self.streams.expired(awake, policy.budget_max.time_left_us()) {
            self.gone(out, key, &stream);
        }
    }

    fn gone(&mut self, out: &mut Outbox, key: StepKey, stream: &Tally) {
        self.bytes -= stream.held_bytes();
        out.ask(Action::HeardEnd(key));
    }
}
