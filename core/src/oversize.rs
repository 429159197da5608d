//! What is larger than a link carries, and is known so only when it is to go out: whoever waits for it is told instead.

use alloc::{boxed::Box, format, string::String, sync::Arc, vec::Vec};
use catena_wire::{BranchCount, Brought, Encoded, End, Exception, Fault, Message, NodeRef, Outcome, StepKey, names};

use crate::{
    Action, Node, Receipt, Time, Urgency,
    activation::Activation,
    steps::{Done, Sent},
};

/// An intermediate answer on its way, and whose it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Emitted {
    /// The step under which the chain came here.
    pub(crate) arrived: StepKey,
    pub(crate) key: StepKey,
    pub(crate) number: u32,
    /// Whether the origin is to have it, not the creator of a sub-chain.
    pub(crate) to_origin: bool,
    pub(crate) origin: NodeRef,
    pub(crate) entry: Option<NodeRef>,
}

/// The end of a chain or branch on its way, and the step under which it is remembered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ended {
    pub(crate) arrived: StepKey,
    pub(crate) sent: Sent,
}

/// What a chain has come to, where its answers end early.
#[derive(Default)]
struct SoFar {
    emitted: u32,
    merged: Vec<BranchCount>,
    path: Vec<String>,
}

impl SoFar {
    fn of(activation: &Activation) -> Self {
        let baggage = &activation.baggage;
        Self { emitted: baggage.answers(), merged: baggage.merged.clone(), path: baggage.path.clone() }
    }

    fn of_end(message: &Encoded) -> Self {
        match Message::decode_head(&message.head) {
            Ok(Message::End(end)) => Self { emitted: end.emitted, merged: end.merged, path: end.path },
            _ => Self::default(),
        }
    }
}

impl Node {
    /// A result that is larger than a link to the caller carries: the caller is told so instead.
    pub(crate) fn result_too_large(&mut self, to: &Arc<NodeRef>, id: u64, bytes: u64, bytes_max: u64) {
        let message = format!(
            "the result has {bytes} bytes, where a message may have {bytes_max}; the function has taken effect; let it answer in parts"
        );
        let why = Exception::new(names::LIMIT_EXCEEDED, Fault::Service, message).outcome_unknown();
        let why = why.at_step(0, core::slice::from_ref(&self.me.name));
        self.send(to, Message::Return(id, Err(why).into(), Brought::default()), Receipt::None, Urgency::Now);
    }

    /// The end of a chain or branch, likewise: what it ended with stays here, and each repetition of its step tells the same.
    pub(crate) fn end_too_large(&mut self, now: Time, ended: Ended, bytes: u64, bytes_max: u64) {
        let Ended { arrived, sent } = ended;
        let Ok(Message::End(end)) = Message::decode_head(&sent.message.head) else { return };
        let why = end_exception(&end.outcome, bytes, bytes_max).at(&end.key, &end.path);
        let key = end.key.clone();
        let end = End {
            outcome: Outcome::Threw(why),
            trace: end.trace.map(|_| Vec::new()),
            recording: None,
            // Lines may be what is too much. Those that went ahead have been shown.
            console: Vec::new(),
            ..*end
        };
        let sent = Sent { message: Message::End(Box::new(end)).encode(), ..sent };
        let Sent { to, message, via, .. } = sent.clone();
        self.remember_end(now, &arrived, sent);
        let (receipt, urgency) = (Receipt::Answer(key), Urgency::Now);
        self.actions.push_back(Action::Send { to, message, receipt, urgency, via });
    }

    /// An intermediate answer, likewise. No answer can be missing from a reply set, so the chain ends with the ones before
    /// this: here, at the origin, and wherever it has gone on meanwhile.
    pub(crate) fn answer_too_large(&mut self, now: Time, lost: Emitted, bytes: u64, bytes_max: u64) {
        let Emitted { arrived, key, number, to_origin, origin, entry } = lost;
        // An answer before it was too large as well, or nobody waits any more.
        if self.cancelled.contains(key.chain, self.me.id) {
            return;
        }
        let SoFar { emitted, merged, path } = self.so_far(&arrived);
        let message = format!(
            "intermediate answer {number} has {bytes} bytes, where a message may have {bytes_max}; the chain was stopped, since none can be missing; earlier calls took effect, and one under way may have; emit it in parts, or leave it at a service and emit its name"
        );
        let why = Exception::new(names::LIMIT_EXCEEDED, Fault::Guest, message).outcome_unknown().at(&key, &path);
        let end = Message::End(Box::new(End {
            key: key.clone(),
            outcome: Outcome::Threw(why),
            emitted: if to_origin { number } else { emitted },
            path,
            trace: None,
            console: Vec::new(),
            at: None,
            hops_left: 0,
            merged,
            cut: true,
            recording: None,
        }));
        let (to, via) = (Arc::new(origin.clone()), self.way_to(&origin, entry.as_ref()));
        self.stop(now, key.chain, None);
        self.remember_end(now, &arrived, Sent { before: self.me.id, to, message: end.clone().encode(), via });
        self.send_home(now, &origin, entry.as_ref(), end, key);
    }

    fn so_far(&self, arrived: &StepKey) -> SoFar {
        let known = match self.steps.get(arrived) {
            Some(Done::Running(session)) => self.activations.get(*session).map(SoFar::of),
            Some(Done::Forwarded(activation) | Done::Split { handed: activation, .. }) => Some(SoFar::of(activation)),
            Some(Done::Sent(sent)) => Some(SoFar::of_end(&sent.message)),
            _ => None,
        };
        known.unwrap_or_else(|| SoFar { path: alloc::vec![self.me.name.clone()], ..SoFar::default() })
    }

    /// Unless the step has been begun again since: its end may have been too large to be remembered, too.
    fn remember_end(&mut self, now: Time, arrived: &StepKey, sent: Sent) {
        if !matches!(self.steps.get(arrived), Some(Done::Running(_) | Done::Calling { .. } | Done::Called { .. })) {
            self.steps.remember(now, arrived, Done::Sent(sent), &self.policy);
        }
    }
}

/// Why nothing else is known of how a chain ended.
fn end_exception(outcome: &Outcome, bytes: u64, bytes_max: u64) -> Exception {
    let (what, unknown) = match outcome {
        Outcome::Done(value) => {
            (format!("returned; its calls have taken effect; {} bytes are its result", value.len_bytes()), true)
        }
        Outcome::Threw(why) => (format!("ended with {}", why.name), why.unknown),
    };
    let message = format!(
        "the function {what}, but its end, with its lines and profile, has {bytes} bytes, where a message may have {bytes_max}; answer in parts, or leave what is large at a service and answer with its name"
    );
    let why = Exception::new(names::LIMIT_EXCEEDED, Fault::Guest, message);
    if unknown { why.outcome_unknown() } else { why }
}

/// A hop or call, which has not gone out.
pub(crate) fn too_large(bytes: u64, bytes_max: u64) -> Exception {
    let message = format!(
        "the call has {bytes} bytes with all that it carries, where a message may have {bytes_max}; nothing was done; carry less, or call in parts"
    );
    Exception::new(names::LIMIT_EXCEEDED, Fault::Guest, message)
}
