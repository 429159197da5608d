//! Stopping a chain (rpc-chains section 6), and letting go of one that is over: along the pointers that it left behind, at every branch.

use alloc::{sync::Arc, vec::Vec};
use catena_wire::{Branch, ChainId, NodeId, NodeRef, StepKey};

use super::{
    Chains,
    activation::{Activation, Phase},
};
use crate::{Action, SessionId, calls::Owner, collections::Party, ground::Ground, memory::StepRecord, outbox::Event};

impl Chains {
    /// Another node says so: the origin itself, one by which the chain came here, or the entry node that can reach its origin.
    pub(crate) fn stopped_by(&mut self, ground: &mut Ground, from: &NodeRef, chain: ChainId) {
        let brought = ground.dedup.of_chain(chain).any(|(_, record)| record.came_from(from.id));
        if from.id == chain.origin || brought || bug!(ground.policy, StrangersCancel) {
            return self.stop(ground, ground.party_of(from.id, Some(chain)), chain, Vec::new());
        }
        // It has overtaken the hop that it follows; whoever sent that may stop it, and nobody else.
        ground.fences.stop(
            ground.clock.now(),
            ground.party_of(from.id, Some(chain)),
            chain,
            Some(from.id),
            &ground.policy,
        );
    }

    /// The node by which it came here says that the chain is over.
    pub(crate) fn over_says(&mut self, ground: &mut Ground, from: NodeId, chain: ChainId) {
        if ground.dedup.of_chain(chain).any(|(_, record)| record.came_from(from)) {
            self.over(ground, chain);
        }
    }

    /// The chain is over: what answers its steps once more may go, here and wherever it went from here.
    pub(crate) fn over(&mut self, ground: &mut Ground, chain: ChainId) {
        self.stop_strays(ground, chain);
        // Whoever took it over last has not said so yet.
        self.implicit_ack(ground, chain.origin, &StepKey { chain, branch: Branch::root(), step: u32::MAX });
        let mut next = ground.dedup.release(chain);
        next.sort_by_key(|node| node.id);
        next.dedup_by_key(|node| node.id);
        for node in next.iter().filter(|node| ![ground.me.id, chain.origin].contains(&node.id)) {
            ground.over.tell(ground.now, &mut ground.out, node, chain, &ground.policy);
        }
    }

    /// A node that was given up may have the chain yet, or get it out of its socket when it wakes: it must not go on there when it is over.
    fn stop_strays(&self, ground: &mut Ground, chain: ChainId) {
        let strays = ground.fences.given_up(chain);
        if strays.is_empty() || bug!(ground.policy, StraysGoOn) {
            return;
        }
        let by = ground.bringer_of(chain);
        if ground.fences.stop(ground.clock.now(), by, chain, None, &ground.policy) {
            self.tell_stopped(ground, chain, strays);
        }
    }

    /// The last step that a chain has made which is here.
    pub(crate) fn last_step(&self, ground: &Ground, chain: ChainId) -> Option<StepKey> {
        let here = ground.dedup.of_chain(chain).filter_map(|(_, record)| self.get(record.session()?));
        here.map(Activation::key).max_by_key(|key| key.step)
    }

    /// Ends what is here of the chain, as this peer says or this node itself, and tells the nodes to which it went, and `also` those.
    pub(crate) fn stop(&mut self, ground: &mut Ground, by: Party, chain: ChainId, also: Vec<Arc<NodeRef>>) {
        if !ground.fences.stop(ground.clock.now(), by, chain, None, &ground.policy) {
            return;
        }
        ground.outgoing.forget_chain(chain);
        let mut next = also;
        next.extend(ground.fences.given_up(chain));
        // For an origin that cannot dial: this node has passed on what was heard of it.
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
        // Calls that its functions started and did not await, too.
        ground.out.tell(Event::Abandoned(Owner::Chain(chain)));
        calls.into_iter().for_each(|key| ground.out.tell(Event::Abandoned(Owner::Step(key))));
        self.tell_stopped(ground, chain, next);
    }

    pub(super) fn tell_stopped(&self, ground: &mut Ground, chain: ChainId, mut next: Vec<Arc<NodeRef>>) {
        // The origin has heard it first; an answer on its way there is dropped there.
        next.retain(|node| ![ground.me.id, chain.origin, NodeId(0)].contains(&node.id));
        if !bug!(ground.policy, CancelNotPassedOn) {
            ground.tell_cancelled(chain, next);
        }
    }

    /// Nothing of it is here any more, and nothing came of it.
    pub(super) fn discard(&mut self, ground: &mut Ground, session: SessionId) {
        if let Some(activation) = self.remove(ground, session) {
            ground.dedup.forget(&activation.arrived);
            ground.out.ask(Action::Discard(session));
            ground.out.tell(Event::Abandoned(Owner::Session(session)));
        }
    }

    /// A sign of life of the chain of this step did not get to its origin.
    pub(crate) fn origin_unreached(&mut self, ground: &Ground, key: &StepKey) {
        for (_, record) in ground.dedup.of_chain(key.chain) {
            if let Some(activation) = record.session().and_then(|session| self.get_mut(session)) {
                activation.unreached.note(ground.now);
            }
        }
    }
}
