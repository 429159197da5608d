//! Doing a step twice (rpc-chains section 3.9): what came of it goes out again, its effect does not take place again.

use alloc::{boxed::Box, sync::Arc, vec::Vec};
use catena_wire::{Branch, ChainId, Exception, Fault, Hop, Message, NodeRef, Part, StepKey, names};

use super::{
    Chains,
    activation::{Activation, Continuation, Phase, Suspended},
    arrive::refuse,
    hand_off::hop_of,
};
use crate::{
    Receipt, SessionId, Urgency,
    delivery::Parcel,
    ground::Ground,
    memory::{DoneStep, Fate, StepRecord},
};

impl Chains {
    /// A hop has come again. What came of it is sent once more.
    pub(super) fn repeat(&mut self, ground: &mut Ground, from: &Arc<NodeRef>, hop: Hop, whole: bool) {
        let key = hop.key.clone();
        let accepted = Message::Accepted(key.clone());
        match ground.dedup.get(&key) {
            Some(StepRecord::Running { session, .. }) => {
                let session = *session;
                if self.repeat_arriving(ground, session, hop, whole) {
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
                // That call is remembered as it is: whoever made it waits for its result.
                let message = "another call was made under this step";
                refuse(ground, from, &hop, Exception::new(names::PROTOCOL, Fault::Caller, message));
            }
        }
    }

    /// Of a hop whose state has not come, the state may come now: it is not accepted before. False if nothing was missing.
    fn repeat_arriving(&mut self, ground: &mut Ground, session: SessionId, hop: Hop, whole: bool) -> bool {
        let Some(activation) = self.get_mut(session) else { return false };
        let Phase::Suspended(Suspended { continuation: Continuation::Coming(_, due), .. }) = &mut activation.phase
        else {
            return false;
        };
        *due = None;
        self.reset_timer(session);
        if whole {
            let key = hop.key.clone();
            self.tail(ground, &key, Some(hop.into_tail()));
        }
        true
    }

    fn repeat_done(&mut self, ground: &mut Ground, key: &StepKey) {
        let Some(StepRecord::Done(done)) = ground.dedup.get(key) else { return };
        match done.fate.clone() {
            Fate::Ended(Some(sent)) if sent.to.id != ground.me.id => {
                let until = ground.now.after(ground.policy.step_record_ttl_us);
                let parcel = Parcel::new(sent.to, sent.via, sent.message, until);
                ground.send_kept(sent.key, Part::End, parcel);
            }
            Fate::Forwarded(_, Some((activation, children))) if children.is_empty() => {
                self.hand_once_more(ground, key, activation);
            }
            Fate::Forwarded(_, Some((activation, children))) => {
                // Once, and not kept: the branches that began here are what counts.
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

    /// Some of its branches may be broken: each goes on its way again that began here and has not ended.
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
        // It was stopped, and answers are awaited that were sent before.
        if !ground.fences.is_stopped(chain, ground.me.id) {
            self.repeat_step(ground, &StepKey { chain, branch: Branch::root(), step: 0 });
        }
    }

    /// It is handed over again: this time it is known to have been taken over once.
    fn hand_once_more(&mut self, ground: &mut Ground, key: &StepKey, mut activation: Box<Activation>) {
        let at = activation.key();
        let Phase::HandingOff(hand_off) = &activation.phase else { return };
        if self.handing(&at, hand_off.to().id).is_some() {
            return;
        }
        activation.heartbeat_at = ground.now.after(ground.policy.heartbeat_interval_us);
        // A node that is full does without: the origin will ask again, or give it up.
        let (by, own) = (activation.by, self.brought.of(activation.by));
        let full = !ground.has_room(by, 1, own, self.count(), ground.policy.activations_max);
        if full || activation.budget_now(ground.now).time_left_us() == 0 {
            return;
        }
        let session = self.insert(activation);
        ground.dedup.reopen(key, session);
        self.send_hop(ground, session);
    }
}
