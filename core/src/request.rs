//! A call on its way to wherever its service is, and who waits for its result.

use alloc::{boxed::Box, string::String, sync::Arc, vec::Vec};
use catena_wire::{
    BlobBytes, Brought, Budget, ChainId, Exception, LogLine, NodeId, NodeRef, PossibleDuplicate, Right, StepKey, Value,
};

use crate::{CallId, SessionId, Time, allowance::Allowance, collections::Party};

/// Who waits for the result of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ReplyTo {
    /// A chain that is suspended here until the call has been made.
    Suspended(SessionId),
    /// A guest that is here: its number for the call, and the step that the call is.
    Guest { session: SessionId, call: u32, step: u32 },
    /// Another node, which made a plain call with its own number.
    Peer { to: Arc<NodeRef>, id: u64 },
    /// Chains at other nodes, for a call whose result is remembered under this step.
    Step(StepKey),
    /// A user of this node.
    Api(CallId),
    /// Nobody: the chain's function ended without awaiting it.
    Nobody(ChainId),
    /// Whoever made the call or delegates it, with this right: they wait to hear which node has taken both.
    Delegator(StepKey),
    /// The caller of a call that is answered many times: under this right, which is here.
    Right(StepKey),
}

/// For whom a call is under way; when the owner is gone, the call is abandoned.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Owner {
    Session(SessionId),
    Peer(NodeId, u64),
    Step(StepKey),
    Api(CallId),
    Chain(ChainId),
    /// A right that is here; also the root right of a call of this node, until it has been taken.
    Right(StepKey),
}

impl ReplyTo {
    pub(crate) fn owner(&self) -> Owner {
        match self {
            Self::Suspended(session) | Self::Guest { session, .. } => Owner::Session(*session),
            Self::Peer { to, id } => Owner::Peer(to.id, *id),
            Self::Step(key) => Owner::Step(key.clone()),
            Self::Api(id) => Owner::Api(*id),
            Self::Nobody(chain) => Owner::Chain(*chain),
            Self::Delegator(right) => {
                let branch = right.branch.parent().unwrap_or_default();
                Owner::Right(StepKey { branch, ..right.clone() })
            }
            Self::Right(right) => Owner::Right(right.clone()),
        }
    }
}

/// A call on its way to wherever its service is.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) reply_to: ReplyTo,
    /// The party that caused the call, whose share it counts for.
    pub(crate) by: Party,
    pub(crate) service: String,
    pub(crate) function: String,
    pub(crate) params: Value,
    pub(crate) budget: Allowance,
    /// The step of a chain that this call is, if it is one.
    pub(crate) key: Option<StepKey>,
    /// On whose behalf.
    pub(crate) credentials: Option<Value>,
    /// Set if the calling chain is a possible duplicate.
    pub(crate) duplicate: Option<Box<PossibleDuplicate>>,
    /// The right to answer it, if it may be answered many times; the node that takes the call gets it.
    pub(crate) right: Option<Box<Right>>,
    /// Hops that the caller lent and that this node's policy does not let the call spend.
    pub(crate) hops_withheld: u32,
    /// How long the service function ran, microseconds, once it has ended here.
    pub(crate) service_us: u64,
    /// What the service function read of blobs, if anything.
    pub(crate) blobs: Option<Box<BlobBytes>>,
    /// What the caller is told if this node knows that the call was not made: the exception that the call was to catch.
    pub(crate) fallback: Option<Box<Exception>>,
    /// Lines logged by chains that ran on their own to answer it.
    pub(crate) console: Vec<LogLine>,
}

impl Request {
    /// A call that has not been sent to anybody.
    #[allow(clippy::too_many_arguments, reason = "what a call consists of")]
    pub(crate) fn new(
        by: Party,
        reply_to: ReplyTo,
        service: String,
        function: String,
        params: Value,
        now: Time,
        budget: Budget,
    ) -> Self {
        Self {
            by,
            reply_to,
            service,
            function,
            params,
            budget: Allowance::new(now, budget),
            key: None,
            credentials: None,
            duplicate: None,
            right: None,
            hops_withheld: 0,
            service_us: 0,
            fallback: None,
            blobs: None,
            console: Vec::new(),
        }
    }

    /// Bytes of what is kept of it until it is answered.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.params.len_bytes() + self.credentials.as_ref().map_or(0, Value::len_bytes)
    }

    /// The hops that are left after this result, if the callee did not say. A call that may have taken effect may have spent them all, any other has spent
    /// none.
    pub(crate) fn hops_after(&self, result: &Result<Value, Exception>) -> u32 {
        match result {
            Err(why) if why.unknown => 0,
            _ => self.budget.hops_left(),
        }
    }

    /// What the call brings back beside its result, if `hops_left` of its hops are left.
    pub(crate) fn brings(&mut self, hops_left: u32) -> Brought {
        let hops_left = hops_left.saturating_add(self.hops_withheld);
        let (console, blobs) = (core::mem::take(&mut self.console), self.blobs.take());
        Brought { hops_left, service_us: self.service_us, console, blobs }
    }
}
