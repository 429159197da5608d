//! Crash garbage (rpc-chains section 3.10): a merge host that cannot reach the origin has outcomes that nobody may ever ask for.
//!
//! The origin notices a branch that is lost, and cancels: that reaches the merge host. If the origin is gone too, the merge host is
//! the only one left who knows of the merge, and drops it after a while.

use alloc::format;
use catena_wire::{Exception, Fault, Message, StepKey, names};

use crate::{Node, SessionId, Time, activation::Phase, steps::Done};

/// Signs of life that did not get through, one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unreached {
    since: Time,
    last: Time,
}

impl Node {
    /// Something for the origin of this chain did not get there.
    pub(crate) fn origin_unreached(&mut self, now: Time, at: &StepKey) {
        let Some(session) = self.activations.gathering(at) else { return };
        let Some(activation) = self.activations.get_mut(session) else { return };
        let Phase::Gathering(gathering) = &mut activation.phase else { return };
        let since = gathering.unreached.map_or(now, |unreached| unreached.since);
        gathering.unreached = Some(Unreached { since, last: now });
    }

    /// Its step is remembered as one of which nobody knows any more what came.
    pub(crate) fn drop_orphan(&mut self, now: Time, session: SessionId) {
        let Some(activation) = self.activations.get(session) else { return };
        let (key, path) = (activation.arrived.clone(), activation.baggage.path.clone());
        let message = format!("{} dropped the merge: for a while it could not reach the origin", self.me.name);
        let why = Exception::new(names::NODE_LOST, Fault::Node, message).outcome_unknown().at(&key, &path);
        self.discard(session);
        let refusal = Message::Refused(key.clone(), why).encode();
        self.steps.remember(now, &key, Done::Refused(refusal), &self.policy);
    }

    /// Whether the next sign of life is not worth sending: none has got through for `orphan_timeout_us`.
    pub(crate) fn is_orphan(&mut self, now: Time, session: SessionId) -> bool {
        let (interval_us, timeout_us) = (self.policy.heartbeat_interval_us, self.policy.orphan_timeout_us);
        let Some(activation) = self.activations.get_mut(session) else { return false };
        let Phase::Gathering(gathering) = &mut activation.phase else { return false };
        // News of a failure may take longer than to the next sign of life: it counts for two.
        gathering.unreached = gathering.unreached.filter(|it| now.since(it.last) <= interval_us.saturating_mul(2));
        gathering.unreached.is_some_and(|it| now.since(it.since) >= timeout_us)
    }
}
