//! Doing a step twice (rpc-chains section 3.9): what came of it goes out again, its effect does not take place again.

use alloc::{boxed::Box, sync::Arc, vec::Vec};
use catena_wire::{Branch, ChainId, Encoded, Exception, Fault, Hop, NodeRef, StepKey, names};

use crate::{
    Action, Node, Receipt, SessionId, Tail, Time, Urgency,
    activation::{Activation, Phase},
    splitting::open_branches,
    steps::{Done, Sent},
};

impl Node {
    /// A hop has come again. What came of it is sent once more.
    pub(crate) fn repeat(&mut self, now: Time, from: &Arc<NodeRef>, hop: Hop, whole: bool, done: Done) {
        match done {
            Done::Refused(message) => return self.again(from.clone(), message, None),
            Done::Calling { .. } | Done::Called { .. } => {
                let message = "another call was made under this step";
                // That call is remembered as it is: whoever made it waits for its result.
                let refusal = self.refusal(&hop, Exception::new(names::PROTOCOL, Fault::Caller, message));
                return self.again(from.clone(), refusal, None);
            }
            _ => {}
        }
        let key = hop.key.clone();
        self.send(from, catena_wire::Message::Accepted(key.clone()), Receipt::None, Urgency::Lazy);
        match done {
            Done::Running(session) => self.repeat_running(now, session, hop, whole),
            other => self.repeat_done(now, &key, other),
        }
    }

    fn repeat_running(&mut self, now: Time, session: SessionId, hop: Hop, whole: bool) {
        let landing = match self.activations.get_mut(session) {
            Some(Activation { phase: Phase::Landing(landing), .. }) => landing,
            Some(Activation { phase: Phase::Gathering(_), .. }) => return self.repeat_branches(now, session),
            _ => return,
        };
        if whole {
            // The first sending's state may never have come.
            let key = hop.key.clone();
            return self.on_tail(now, &key, Some(Tail::of(hop)));
        }
        landing.tails_due += 1;
    }

    fn repeat_done(&mut self, now: Time, key: &StepKey, done: Done) {
        match done {
            Done::Sent(Sent { to, message, via, .. }) if to.id != self.me.id => self.again(to, message, via),
            Done::Forwarded(activation) => self.hand_once_more(now, key, *activation),
            Done::Split { handed, children } => {
                self.resend(now, *handed);
                children.iter().for_each(|child| self.repeat_step(now, child));
            }
            _ => {}
        }
    }

    /// Some of its branches may be broken: each goes on its way again that began here and has not ended.
    fn repeat_branches(&mut self, now: Time, session: SessionId) {
        let Some(Activation { phase: Phase::Gathering(gathering), .. }) = self.activations.get(session) else { return };
        let at = gathering.at.clone();
        let open: Vec<Branch> = open_branches(gathering);
        for branch in open {
            self.repeat_step(now, &StepKey { branch, ..at.clone() });
        }
    }

    fn repeat_step(&mut self, now: Time, key: &StepKey) {
        match self.steps.get(key).cloned() {
            Some(Done::Running(session)) => self.repeat_branches(now, session),
            Some(done) => self.repeat_done(now, key, done),
            None => {}
        }
    }

    /// A chain of this node has been silent for too long: its first hop goes out again, with the same id.
    pub(crate) fn retransmit(&mut self, now: Time, chain: ChainId) {
        // It was stopped, and answers are awaited that were sent before.
        if self.cancelled.contains(chain, self.me.id) {
            return;
        }
        self.repeat_step(now, &StepKey { chain, branch: Branch::root(), step: 0 });
    }

    /// Into custody again, from which it came: this time it is known to have been accepted once.
    fn hand_once_more(&mut self, now: Time, key: &StepKey, mut activation: Activation) {
        let Phase::Handing(custody) = &mut activation.phase else { return };
        if self.activations.handing(&custody.key, custody.to.id).is_some() {
            return;
        }
        custody.accepted = true;
        custody.seeks = false;
        custody.attempts = 0;
        custody.retry_at = now;
        activation.heartbeat_at = now.after(self.policy.heartbeat_interval_us);
        // A node that is full does without: the origin will ask again, or give it up.
        let full = self.activations.count() >= self.policy.activations_max;
        if full || activation.budget_now(now).time_left_us() == 0 {
            return;
        }
        let session = self.activations.insert(activation);
        self.steps.reopen(key, session);
        self.hand_again(now, session);
    }

    /// Once, without custody: the branches that began here are what counts.
    fn resend(&mut self, now: Time, activation: Activation) {
        let Phase::Handing(custody) = &activation.phase else { return };
        let message = self.hop_of(now, &activation, custody);
        self.again(custody.to.clone(), message, None);
    }

    pub(crate) fn again(&mut self, to: Arc<NodeRef>, message: Encoded, via: Option<Arc<NodeRef>>) {
        let (receipt, urgency) = (Receipt::None, Urgency::Now);
        self.actions.push_back(Action::Send { to, message, receipt, urgency, via });
    }

    /// What became of a hop that was handed over.
    pub(crate) fn handed_over(&mut self, now: Time, activation: Box<Activation>) {
        let (arrived, split) = match &activation.phase {
            Phase::Handing(custody) => (activation.arrived.clone(), custody.cargo.split()),
            _ => return,
        };
        let Some((call, count, continuation, host)) = split.and_then(|split| split_parts(&activation, split)) else {
            return self.steps.finish(now, &arrived, Done::Forwarded(activation), &self.policy);
        };
        let children = if self.is_split(&arrived) {
            Vec::new()
        } else {
            self.begin_branches(now, &activation, &host, call, count, &continuation)
        };
        self.steps.finish(now, &arrived, Done::Split { handed: activation, children }, &self.policy);
    }

    fn is_split(&self, arrived: &StepKey) -> bool {
        matches!(self.steps.get(arrived), Some(Done::Split { .. }))
    }
}

fn split_parts(activation: &Activation, split: &crate::GuestSplit) -> Option<(u32, u16, bytes::Bytes, NodeRef)> {
    let Phase::Handing(custody) = &activation.phase else { return None };
    let count = u16::try_from(split.count).ok()?;
    Some((split.call, count, custody.continuation.clone(), (*custody.to).clone()))
}
