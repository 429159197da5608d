//! A chain's own timer, and its end.

use alloc::{boxed::Box, format, sync::Arc, vec::Vec};
use catena_wire::{Charter, End, Exception, Fault, Message, Outcome, StepTrace, What, names};

use crate::{
    Action, Ended, Node, Receipt, SessionId, Time, Urgency,
    activation::{Activation, Phase},
    calls::Asker,
    recording::Recording,
    splitting::open_branches,
    steps::{Done, Sent},
};

impl Node {
    /// A chain's own timer: its deadline, its sign of life, its custody.
    pub(crate) fn wake(&mut self, now: Time, session: SessionId) {
        let Some(activation) = self.activations.get_mut(session) else {
            return;
        };
        if activation.budget_now(now).time_left_us() == 0 {
            let message = format!("no time left, at step {} on {}; allow more time", activation.step, self.me.name);
            let why = Exception::new(names::DEADLINE_EXCEEDED, Fault::Caller, message);
            let why = if activation.has_call_out() { why.outcome_unknown() } else { why };
            return self.end(now, session, Outcome::Threw(why));
        }
        if activation.heartbeat_at <= now && self.is_orphan(now, session) {
            return self.drop_orphan(now, session);
        }
        let Some(activation) = self.activations.get_mut(session) else { return };
        if activation.heartbeat_at <= now {
            // Later than now, whatever the policy says: a timer that is due at once for ever would never let go.
            activation.heartbeat_at = now.after(self.policy.heartbeat_interval_us.max(1));
            let (key, charter) = (activation.key(), activation.baggage.charter.clone());
            // The merge host beats for branches that have ended, and names those that have not (rpc-chains section 3.10).
            let open = match &activation.phase {
                Phase::Gathering(gathering) => open_branches(gathering),
                _ => Vec::new(),
            };
            let beat = Message::Heartbeat(key.clone(), self.me.name.clone(), open);
            self.send_to_origin(now, &charter, beat, key);
            self.tell_lines(now, session);
        }
        self.activations.reset_timer(session);
        if let Some(Phase::Handing(custody)) = self.activations.get(session).map(|activation| &activation.phase)
            && custody.retry_at <= now
        {
            self.hand_again(now, session);
        }
    }

    pub(crate) fn close_profile(&mut self, now: Time, session: SessionId) {
        let left_at_us = self.unix_us(now);
        let Some(activation) = self.activations.get_mut(session) else { return };
        let profile = StepTrace { left_at_us, ..core::mem::take(&mut activation.profile) };
        activation.note(profile);
    }

    /// The end of the whole chain, or of a branch: straight from here to the origin, or to the merge host (design, section 2).
    pub(crate) fn end(&mut self, now: Time, session: SessionId, outcome: Outcome) {
        self.close_profile(now, session);
        self.record(session, What::Ended);
        let Some(activation) = self.activations.remove(session) else {
            return;
        };
        let (key, hops_left) = (activation.key(), activation.budget_now(now).hops_left());
        let outcome = match bug!(self.policy, DoubtForgotten) {
            true => outcome,
            false => activation.baggage.in_doubt_with_all_around(outcome),
        };
        let outcome = match outcome {
            Outcome::Threw(why) => Outcome::Threw(why.at(&key, &activation.baggage.path)),
            done @ Outcome::Done(_) => done,
        };
        if !bug!(self.policy, GuestLeaks) {
            self.actions.push_back(Action::Discard(session));
        }
        self.abandon_calls(session, &activation);
        let baggage = activation.baggage;
        let end = Message::End(Box::new(End {
            key,
            outcome,
            emitted: baggage.answers(),
            path: baggage.path,
            trace: baggage.trace,
            recording: baggage.recording.as_ref().map(Recording::to_wire),
            console: baggage.console,
            at: baggage.merge.as_ref().map(|merge| merge.at.clone()),
            hops_left,
            merged: baggage.merged,
            cut: false,
        }));
        let (to, via) = match baggage.merge {
            Some(merge) => {
                let home = merge.host.id == baggage.charter.origin.id;
                let via = self.way_to(&baggage.charter.origin, baggage.charter.entry.as_ref()).filter(|_| home);
                (Arc::new(merge.host), via)
            }
            None => {
                let Charter { origin, entry, .. } = &baggage.charter;
                (Arc::new(origin.clone()), self.way_to(origin, entry.as_ref()))
            }
        };
        let message = end.clone().encode();
        let sent = Sent { before: activation.before.id, to: to.clone(), message: message.clone(), via: via.clone() };
        self.steps.finish(now, &activation.arrived, Done::Sent(sent.clone()), &self.policy);
        if to.id == self.me.id {
            let me = self.me.clone();
            self.on_message(now, &me, end);
        } else {
            let receipt = Receipt::End(Box::new(Ended { arrived: activation.arrived, sent }));
            self.actions.push_back(Action::Send { to, message, receipt, urgency: Urgency::Now, via });
        }
    }

    pub(crate) fn discard(&mut self, session: SessionId) {
        if let Some(activation) = self.activations.remove(session) {
            self.steps.forget(&activation.arrived);
            self.actions.push_back(Action::Discard(session));
            self.abandon_calls(session, &activation);
        }
    }

    fn abandon_calls(&mut self, session: SessionId, activation: &Activation) {
        // Most chains end with nothing under way: those must not pay for a look at all the others.
        if matches!(activation.phase, Phase::Landing(_)) || !activation.out.is_empty() {
            self.abandon(
                |call| matches!(call.asker, Asker::Landing(s) | Asker::Guest { session: s, .. } if s == session),
            );
        }
    }
}
