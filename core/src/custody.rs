//! The hop out: kept here until the next node accepts it, taken back if it does not (design, section 2).

use alloc::{boxed::Box, sync::Arc};
use bytes::Bytes;
use catena_wire::{Exception, Hop, Message, NodeId, NodeRef, Outcome, StepKey, StepTrace};

use crate::{
    Action, GuestCall, Handed, Node, Receipt, SessionId, Time, Urgency,
    activation::{Custody, Phase},
    calling::{lost, unreachable},
};

impl Node {
    pub(crate) fn pack(&mut self, session: SessionId, call: GuestCall, to: Arc<NodeRef>) {
        let Some(activation) = self.activations.get_mut(session) else {
            return;
        };
        let code = activation.baggage.code;
        let with_code = !self.codes.was_sent(to.id, code);
        self.activations.set_phase(session, Phase::Packing { call, to, with_code });
        self.actions.push_back(Action::Suspend { session, with_code: with_code.then_some(code) });
    }

    /// The continuation has been taken, in `took_us`: the hop goes out, and stays in custody until it is accepted.
    pub fn on_suspended(
        &mut self,
        now: Time,
        session: SessionId,
        continuation: Result<(Bytes, Option<Bytes>), Exception>,
        took_us: u64,
    ) {
        let Some(activation) = self.activations.get_mut(session) else {
            return;
        };
        let Phase::Packing { call, to, with_code } = &activation.phase else {
            return;
        };
        let (call, to, with_code) = (call.clone(), to.clone(), *with_code);
        activation.profile.guest_us += took_us;
        let (continuation, code_bytes) = match continuation {
            Ok(taken) => taken,
            Err(why) => {
                let why = if why.line == 0 { why.at_line(call.line, call.column) } else { why };
                return self.end(now, session, Outcome::Threw(why));
            }
        };
        if with_code && code_bytes.is_some() {
            self.codes.note_sent(to.id, activation.baggage.code, &self.policy);
        }
        self.close_profile(now, session);
        let Some(hop) = self.hop(now, session, &call, continuation.clone(), code_bytes) else {
            return;
        };
        let receipt = Receipt::Hop(Handed { session, step: hop.key.step, attempt: 1 });
        let (key, message) = (hop.key.clone(), Message::Hop(Box::new(hop)).encode());
        let custody = Custody {
            to: to.clone(),
            key,
            call,
            continuation,
            message: message.clone(),
            attempts: 1,
            retry_at: now.after(self.policy.accept_timeout_us),
        };
        self.activations.set_phase(session, Phase::Handing(custody));
        self.actions.push_back(Action::Send { to, message, receipt, urgency: Urgency::Now });
    }

    pub(crate) fn hop(
        &mut self,
        now: Time,
        session: SessionId,
        call: &GuestCall,
        continuation: Bytes,
        code_bytes: Option<Bytes>,
    ) -> Option<Hop> {
        let heartbeat_hop_us = self.policy.heartbeat_hop_us;
        let activation = self.activations.get_mut(session)?;
        activation.step = activation.step.saturating_add(1);
        let baggage = &activation.baggage;
        Some(Hop {
            key: activation.key(),
            attempt: 0,
            budget: activation.budget_now(now),
            service: call.service.clone(),
            function: call.function.clone(),
            params: call.params.clone(),
            call: call.call,
            code: baggage.code,
            origin: (*baggage.origin).clone(),
            started_at_ms: baggage.started_at_ms,
            emitted: baggage.emitted,
            heartbeat_in_us: activation.heartbeat_at.since(now).saturating_sub(heartbeat_hop_us),
            path: baggage.path.clone(),
            trace: baggage.trace.clone(),
            console: baggage.console.clone(),
            continuation_bytes: u32::try_from(continuation.len()).unwrap_or(u32::MAX),
            continuation,
            code_bytes,
        })
    }

    /// The next node has taken the hop over. Only the node to which it was handed can say so.
    pub(crate) fn hop_accepted(&mut self, now: Time, from: NodeId, key: &StepKey) {
        if let Some(session) = self.activations.handing(key, from) {
            self.hand_over(now, session);
        }
    }

    /// The chain has been seen at a later step elsewhere: whoever was to take this hop over has done so, though it has not said so yet.
    pub(crate) fn seen_beyond(&mut self, now: Time, at: NodeId, key: &StepKey) {
        if at == self.me.id {
            return;
        }
        for session in self.activations.handing_up_to(key) {
            self.hand_over(now, session);
        }
    }

    fn hand_over(&mut self, now: Time, session: SessionId) {
        let Some(activation) = self.activations.remove(session) else {
            return;
        };
        if let Phase::Handing(custody) = activation.phase {
            self.steps.finish(now, &activation.arrived, custody.to, custody.message, &self.policy);
        }
    }

    /// Nothing was done there, and the continuation is still here: so is the `try/catch` around the call (design, section 2).
    pub(crate) fn hop_refused(&mut self, from: NodeId, key: &StepKey, why: Exception) {
        if let Some(session) = self.activations.handing(key, from) {
            self.take_back(session, why);
        }
    }

    /// Whether this is the latest sending of a hop that is still in custody.
    pub(crate) fn is_handing(&self, handed: Handed) -> bool {
        matches!(self.activations.get(handed.session).map(|activation| &activation.phase), Some(Phase::Handing(custody))
            if custody.key.step == handed.step && custody.attempts == handed.attempt)
    }

    pub(crate) fn hop_unreachable(&mut self, session: SessionId) {
        let Some(activation) = self.activations.get(session) else {
            return;
        };
        let Phase::Handing(custody) = &activation.phase else {
            return;
        };
        let host = custody.to.name.clone();
        let why = match custody.attempts {
            1 => unreachable(&host),
            // It went out once: that one may have arrived.
            _ => lost(&host),
        };
        self.take_back(session, why);
    }

    /// The hop may or may not have arrived: the same hop again cannot double an effect, since the node remembers its step.
    pub(crate) fn hand_again(&mut self, now: Time, session: SessionId) {
        let (attempts_max, timeout_us) = (self.policy.hop_attempts_max, self.policy.accept_timeout_us);
        let Some(activation) = self.activations.get_mut(session) else {
            return;
        };
        let Phase::Handing(custody) = &mut activation.phase else {
            return;
        };
        if custody.attempts >= attempts_max {
            let why = lost(&custody.to.name);
            return self.take_back(session, why);
        }
        custody.attempts += 1;
        custody.retry_at = now.after(timeout_us);
        let (to, message) = (custody.to.clone(), custody.message.clone());
        let receipt = Receipt::Hop(Handed { session, step: custody.key.step, attempt: custody.attempts });
        self.activations.reset_timer(session);
        self.actions.push_back(Action::Send { to, message, receipt, urgency: Urgency::Now });
    }

    pub(crate) fn take_back(&mut self, session: SessionId, why: Exception) {
        let Some(Phase::Handing(custody)) = self.activations.set_phase(session, Phase::Live) else {
            return;
        };
        // The name may lead elsewhere next time (design, section 5).
        self.names.remove(&custody.call.service);
        let profile = self.profile("", "");
        let Some(activation) = self.activations.get_mut(session) else {
            return;
        };
        activation.out.remove(&custody.call.call);
        activation.busy = true;
        activation.profile = StepTrace { step: activation.step, ..profile };
        let why = why
            .calling(&custody.call.service, &custody.call.function)
            .at_step(custody.key.step, &activation.baggage.path);
        let code = activation.baggage.code;
        let (continuation, call) = (custody.continuation, custody.call.call);
        // The shell may have dropped the function in the meantime.
        self.actions.push_back(Action::CheckCode { code, bytes: None });
        self.actions.push_back(Action::Resume { session, code, continuation, call, result: Err(why) });
    }
}
