//! A repeated step (rpc-chains section 3.9): its outcome is sent again, but its effect does not take place again.

use alloc::{boxed::Box, sync::Arc, vec::Vec};
use catena_wire::{Branch, ChainId, Exception, Fault, Hop, Message, NodeRef, Part, StepKey, names};

use super::{
    Chains, HopCopy,
    activation::{Activation, Continuation, Phase, Suspended},
    arrive::refuse,
    hand_off::hop_of,
};
use crate::{
    Receipt, SessionId, Urgency,
    collections::leaves_room,
    delivery::Parcel,
    ground::Ground,
    memory::{DoneStep, Fate, StepRecord, Telling},
};

impl Chains {
    /// A hop has arrived again: what became of its step is sent again.
    pub(super) fn repeat(&mut self, ground: &mut Ground, from: &Arc<NodeRef>, hop: Hop, whole: bool) {
        let key = hop.key.clone();
        let accepted = Message::Accepted(key.clone());
        match ground.dedup.get(&key) {
            Some(StepRecord::Running { session, .. }) => {
                let session = *session;
                if self.repeat_arriving(ground, session, (from, hop), whole) {
                    return;
                }
                ground.out.send(from, accepted, Receipt::None, Urgency::Lazy);
                self.repeat_branches(ground, session);
            }
            Some(StepRecord::Done(DoneStep { fate: Fate::Ended(_) | Fate::Forwarded(..), .. })) => {
                ground.out.send(from, accepted, Receipt::None, Urgency::Lazy);
                self.repeat_done(ground, &key);
            }
            Some(StepRecord::Done(DoneStep { fate: Fate::Refused(refusal), .. })) => match refusal {
                Some(refusal) => {
                    ground.out.send_encoded(from.clone(), (**refusal).clone(), Receipt::None, None);
                }
                None => {
                    let message = "refused before, for a reason that is no longer kept";
                    let why = Exception::new(names::OVERLOADED, Fault::Node, message).outcome_unknown();
                    refuse(ground, from, &hop, why);
                }
            },
            _ => {
                // The record of that call is left as it is, since its caller waits for the result.
                let message = "another call was made under this step; whether this one took effect is unknown";
                let why = Exception::new(names::PROTOCOL, Fault::Caller, message).outcome_unknown();
                refuse(ground, from, &hop, why);
            }
        }
    }

    /// If the state of the hop has not arrived, it may come when the same copy is sent again; until then no copy is accepted. False if nothing was missing.
    fn repeat_arriving(
        &mut self,
        ground: &mut Ground,
        session: SessionId,
        (from, hop): (&NodeRef, Hop),
        whole: bool,
    ) -> bool {
        let copy = HopCopy::of(from, &hop);
        let Some(activation) = self.get_mut(session) else { return false };
        let is_same = copy.brought(activation);
        let Phase::Suspended(Suspended { continuation: Continuation::Coming(_, due), .. }) = &mut activation.phase
        else {
            return false;
        };
        if !is_same {
            return true;
        }
        *due = None;
        self.reset_timer(session);
        if whole {
            self.tail(ground, &copy, Some(hop.into_tail()));
        }
        true
    }

    fn repeat_done(&mut self, ground: &mut Ground, key: &StepKey) {
        let Some(StepRecord::Done(done)) = ground.dedup.get(key) else { return };
        if !ground.retold.is_due(ground.now, done.from.party, key, Telling::Outcome, &ground.policy) {
            return;
        }
        match done.fate.clone() {
            Fate::Ended(Some(sent)) if sent.to.id != ground.me.id => {
                let until = ground.now.after(ground.policy.step_record_ttl_us);
                let parcel = Parcel::new(done.from.party, sent.to, sent.via, sent.message, until);
                ground.send_kept(sent.key, Part::End, parcel);
            }
            Fate::Forwarded(_, Some((activation, children))) if children.is_empty() => {
                self.hand_once_more(ground, key, activation);
            }
            Fate::Forwarded(_, Some((activation, children))) => {
                // Sent once, without awaiting acceptance: what counts is to repeat the branches that began here.
                if let Phase::HandingOff(hand_off) = &activation.phase
                    && let Some(message) = hop_of(ground, &activation)
                {
                    ground.out.send_encoded(hand_off.to().clone(), message, Receipt::None, None);
                }
                children.iter().for_each(|child| self.repeat_step(ground, child));
            }
            _ => {}
        }
    }

    /// Some branches may be broken: repeats the step of each that began here and has not ended.
    fn repeat_branches(&mut self, ground: &mut Ground, session: SessionId) {
        let Some(Activation { phase: Phase::Merging(merging), .. }) = self.get(session) else { return };
        let (at, open): (StepKey, Vec<Branch>) = (merging.at.clone(), merging.open_branches());
        for branch in open {
            self.repeat_step(ground, &StepKey { branch, ..at.clone() });
        }
    }

    fn repeat_step(&mut self, ground: &mut Ground, key: &StepKey) {
        match ground.dedup.get(key).map(StepRecord::session) {
            Some(Some(session)) => self.repeat_branches(ground, session),
            Some(None) => self.repeat_done(ground, key),
            None => {}
        }
    }

    /// A chain of this node has been silent for too long: its first hop goes out again, with the same id.
    pub(crate) fn retransmit(&mut self, ground: &mut Ground, chain: ChainId) {
        // A stopped chain is not sent again: only answers that were sent before are awaited.
        if !ground.fences.is_stopped(chain, ground.me.id) {
            self.repeat_step(ground, &StepKey::first(chain));
        }
    }

    /// Sends the hop again, now with the knowledge that it was accepted once.
    fn hand_once_more(&mut self, ground: &mut Ground, key: &StepKey, mut activation: Box<Activation>) {
        let at = activation.key();
        let Phase::HandingOff(hand_off) = &activation.phase else { return };
        if self.handing_off(&at, hand_off.to().id).is_some() {
            return;
        }
        activation.heartbeat_at = ground.now.after(ground.policy.heartbeat_interval_us);
        // A full node does not send it again: the origin will retransmit, or give the chain up.
        let (by, own) = (activation.by, self.brought.of(activation.by));
        let full = !leaves_room(&ground.policy, by, 1, own, self.count(), ground.policy.activations_max);
        if full || activation.budget.left(ground.now).time_left_us() == 0 {
            return;
        }
        let session = self.insert(activation);
        ground.dedup.reopen(key, session);
        self.send_hop(ground, session);
    }
}
