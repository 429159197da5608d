//! Stopping a chain (rpc-chains section 6), and releasing one that is over: both follow the pointers that it left behind, along every branch.

use alloc::{sync::Arc, vec::Vec};
use catena_wire::{ChainId, NodeId, NodeRef, StepKey};

use super::{
    Chains,
    activation::{Activation, Phase},
};
use crate::{
    Action, SessionId,
    calls::Owner,
    collections::Party,
    ground::Ground,
    memory::{DoneStep, Fate, StepRecord},
    origin::Ending,
    outbox::Event,
};

impl Chains {
    /// Another node says that the chain is stopped.
    pub(crate) fn stopped_by(&mut self, ground: &mut Ground, from: &NodeRef, chain: ChainId) {
        if self.may_stop(ground, from.id, chain) || bug!(ground.policy, StrangersCancel) {
            return self.stop(ground, ground.party_of(from.id, Some(chain)), chain, Vec::new());
        }
        // The cancellation may have overtaken the hop. Only the hop's sender may stop it, so this tombstone refuses hops from this node alone.
        ground.fences.stop(
            ground.clock.now(),
            ground.party_of(from.id, Some(chain)),
            chain,
            Some(from.id),
            &ground.policy,
        );
    }

    /// Whether that node may stop the chain here: its origin, a node by which the chain came here, or the entry node that can reach its origin.
    fn may_stop(&self, ground: &Ground, from: NodeId, chain: ChainId) -> bool {
        let entered_by_it = |record: &StepRecord| {
            let here = match record {
                StepRecord::Running { session, .. } => self.get(*session),
                StepRecord::Done(DoneStep { fate: Fate::Forwarded(_, Some((activation, _))), .. }) => {
                    Some(&**activation)
                }
                StepRecord::Done(_) | StepRecord::Calling { .. } => None,
            };
            here.and_then(|activation| activation.state.header.entry.as_ref()).is_some_and(|entry| entry.id == from)
        };
        from == chain.origin
            || ground.dedup.of_chain(chain).any(|(_, record)| record.came_from(from) || entered_by_it(record))
    }

    /// A node says that the chain is over; this counts only if that node may stop it.
    pub(crate) fn over_says(&mut self, ground: &mut Ground, from: NodeId, chain: ChainId) {
        if self.may_stop(ground, from, chain) {
            self.over(ground, chain);
        }
    }

    /// The end of a chain has come to its origin, this node; it was last heard of at `hosts`.
    pub(crate) fn chain_ended(
        &mut self,
        ground: &mut Ground,
        chain: ChainId,
        ending: Ending,
        hosts: Vec<Arc<NodeRef>>,
    ) {
        // The chain may also have gone on here, after another node was taken for lost.
        let here = || chain.origin == ground.me.id && ground.dedup.runs(chain);
        let by = ground.bringer_of(chain);
        match ending {
            Ending::Cut => self.stop(ground, by, chain, hosts),
            Ending::Unknown if here() => self.stop(ground, by, chain, hosts),
            Ending::Last => self.over(ground, chain),
            Ending::Early | Ending::Unknown => {}
        }
    }

    /// The chain is over: payloads that answer repeats of its steps are released, here and at every node that it went to from here.
    pub(crate) fn over(&mut self, ground: &mut Ground, chain: ChainId) {
        self.hand_over_all(ground, chain);
        self.stop_strays(ground, chain);
        let mut next = ground.dedup.release(chain);
        next.extend(ground.relays.take_hosts(chain));
        next.sort_by_key(|node| node.id);
        next.dedup_by_key(|node| node.id);
        for node in next.iter().filter(|node| ![ground.me.id, chain.origin].contains(&node.id)) {
            ground.over.tell(ground.now, &mut ground.out, node, chain, &ground.policy);
        }
    }

    /// Once the chain is over, it must go on neither here, by another way than the one that has ended it, nor at a node that was given up, which may still have
    /// the chain, or find it in its socket when the node wakes.
    fn stop_strays(&mut self, ground: &mut Ground, chain: ChainId) {
        let (runs, strays) = (ground.dedup.runs(chain), ground.fences.given_up(chain));
        if (!runs && strays.is_empty()) || bug!(ground.policy, StraysGoOn) {
            return;
        }
        let by = ground.bringer_of(chain);
        if runs {
            self.stop(ground, by, chain, strays);
        } else if ground.fences.stop(ground.clock.now(), by, chain, None, &ground.policy) {
            self.tell_stopped(ground, by, chain, strays);
        }
    }

    /// The latest step of a chain among its sessions at this node.
    pub(crate) fn last_step(&self, ground: &Ground, chain: ChainId) -> Option<StepKey> {
        let here = ground.dedup.of_chain(chain).filter_map(|(_, record)| self.get(record.session()?));
        here.map(Activation::key).max_by_key(|key| key.step)
    }

    /// Ends what is here of the chain on behalf of `by`, and tells the nodes that it went to and those in `also`.
    pub(crate) fn stop(&mut self, ground: &mut Ground, by: Party, chain: ChainId, also: Vec<Arc<NodeRef>>) {
        if !ground.fences.stop(ground.clock.now(), by, chain, None, &ground.policy) {
            return self.tell_stopped(ground, by, chain, also);
        }
        ground.outgoing.forget_chain(chain);
        ground.listeners.end_chain(ground.clock.now(), by, chain, &ground.policy);
        let mut next = also;
        next.extend(ground.fences.given_up(chain));
        // For an origin that cannot be dialled, this node has passed heartbeats on, and knows the nodes that they came from.
        next.extend(ground.relays.hosts(chain));
        let (mut sessions, mut calls): (Vec<SessionId>, Vec<StepKey>) = (Vec::new(), Vec::new());
        for (key, record) in ground.dedup.of_chain(chain) {
            match record {
                StepRecord::Running { session, .. } => sessions.push(*session),
                StepRecord::Calling { .. } => calls.push(key.clone()),
                StepRecord::Done(done) => next.extend(done.to.iter().cloned()),
            }
        }
        for session in sessions {
            if let Some(Activation { phase: Phase::HandingOff(hand_off), .. }) = self.get(session) {
                next.extend(hand_off.delivery.nodes());
            }
            self.discard(ground, session);
        }
        // Calls that its functions started without awaiting them stop as well.
        ground.out.tell(Event::Abandoned(Owner::Chain(chain)));
        calls.into_iter().for_each(|key| ground.out.tell(Event::Abandoned(Owner::Step(key))));
        self.tell_stopped(ground, by, chain, next);
    }

    pub(super) fn tell_stopped(&self, ground: &mut Ground, by: Party, chain: ChainId, mut next: Vec<Arc<NodeRef>>) {
        // The origin need not be told: it knows first, and drops answers that still arrive.
        next.retain(|node| ![ground.me.id, chain.origin, NodeId(0)].contains(&node.id));
        if !bug!(ground.policy, CancelNotPassedOn) {
            ground.tell_cancelled(by, chain, next);
        }
    }

    /// Removes a session that came to nothing, with its step record and its calls.
    pub(super) fn discard(&mut self, ground: &mut Ground, session: SessionId) {
        if let Some(activation) = self.remove(ground, session) {
            ground.dedup.forget(&activation.arrived);
            ground.out.ask(Action::Discard(session));
            ground.out.tell(Event::Abandoned(Owner::Session(session)));
        }
    }

    /// A heartbeat that the chain sent at this step did not reach the origin. Other branches of the chain send their own.
    pub(crate) fn origin_unreached(&mut self, ground: &Ground, key: &StepKey) {
        let here = ground.dedup.stay_of(key).and_then(|(_, record)| self.get_mut(record.session()?));
        if let Some(activation) = here {
            activation.unreached.note(ground.now);
        }
    }
}
