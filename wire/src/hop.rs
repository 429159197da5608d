//! What travels: the chain's next call, and its end.

use alloc::{string::String, vec::Vec};
use bytes::Bytes;
use minicbor::{Decode, Encode};

use crate::{Budget, Exception, Hash, NodeId, StepKey, Value};

/// A node, and how to reach it.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
#[cbor(array)]
pub struct NodeRef {
    /// This run of it.
    #[n(0)]
    pub id: NodeId,
    /// For people, and for the path of hosts.
    #[cbor(n(1), with = "crate::bytes_codec::name")]
    pub name: String,
    /// Where it listens (`host:port`), if it can be dialled.
    #[n(2)]
    pub address: Option<String>,
    /// Its site, if sites are told apart.
    #[n(3)]
    pub site: Option<String>,
}

/// One hop (design, section 2): call this service function, then resume the chain's function with its result.
///
/// Parameters are in the head of the message, the continuation in its tail: the service function starts while the state is still arriving.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
#[cbor(array)]
pub struct Hop {
    /// Which step of which chain this is.
    #[n(0)]
    pub key: StepKey,
    /// 0 for the first sending; higher for a repetition after a loss.
    #[n(1)]
    pub attempt: u8,
    /// What is left to spend.
    #[n(2)]
    pub budget: Budget,
    /// Service to call.
    #[cbor(n(3), with = "crate::bytes_codec::name")]
    pub service: String,
    /// Its function.
    #[cbor(n(4), with = "crate::bytes_codec::name")]
    pub function: String,
    /// The parameters.
    #[n(5)]
    pub params: Value,
    /// The guest's number for this call, by which its result is handed in.
    #[n(6)]
    pub call: u32,
    /// The chain's function.
    #[n(7)]
    pub code: Hash,
    /// Who gets the answer.
    #[n(8)]
    pub origin: NodeRef,
    /// When the chain began, milliseconds since the Unix epoch by the origin's clock: the only clock that the function has.
    #[n(9)]
    pub started_at_ms: u64,
    /// Intermediate answers sent so far on this branch.
    #[n(10)]
    pub emitted: u32,
    /// Microseconds until the next sign of life is due at the origin (rpc-chains section 3.9).
    #[n(11)]
    pub heartbeat_in_us: u64,
    /// Hosts traversed, oldest first, bounded by [`crate::PATH_HOSTS_MAX`].
    #[cbor(n(12), with = "crate::bytes_codec::path")]
    pub path: Vec<String>,
    /// The profile so far, if the origin asked for one, bounded by [`crate::TRACE_STEPS_MAX`].
    #[n(13)]
    pub trace: Option<Vec<StepTrace>>,
    /// Lines logged since the last answer to the origin (rpc-chains section 3.7).
    #[n(14)]
    pub console: Vec<LogLine>,
    /// Bytes of the continuation; what follows it in the tail is the function itself, if it rides along.
    #[n(15)]
    pub continuation_bytes: u32,
    /// The continuation; not part of the head.
    #[cbor(skip)]
    pub continuation: Bytes,
    /// The function's own bytes, riding along with its first hop over a link (rpc-chains section 3.2); not part of the head.
    #[cbor(skip)]
    pub code_bytes: Option<Bytes>,
}

/// How a branch ended.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub enum Outcome {
    /// The function returned.
    #[n(0)]
    Done(#[n(0)] Value),
    /// It threw, or could not go on.
    #[n(1)]
    Threw(#[n(0)] Exception),
}

impl From<Result<Value, Exception>> for Outcome {
    fn from(result: Result<Value, Exception>) -> Self {
        match result {
            Ok(value) => Self::Done(value),
            Err(exception) => Self::Threw(exception),
        }
    }
}

/// The end notice, from the last server straight to the origin: with the count of answers, so that the end is exact.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
#[cbor(array)]
pub struct End {
    /// The last step.
    #[n(0)]
    pub key: StepKey,
    /// How it ended.
    #[n(1)]
    pub outcome: Outcome,
    /// How many intermediate answers this branch sent.
    #[n(2)]
    pub emitted: u32,
    /// Hosts traversed.
    #[cbor(n(3), with = "crate::bytes_codec::path")]
    pub path: Vec<String>,
    /// The profile, if it was asked for.
    #[n(4)]
    pub trace: Option<Vec<StepTrace>>,
    /// Lines logged that no earlier answer brought.
    #[n(5)]
    pub console: Vec<LogLine>,
}

/// The profile of one step (rpc-chains section 3.7).
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode)]
#[cbor(array)]
pub struct StepTrace {
    /// The step.
    #[n(0)]
    pub step: u32,
    /// Where it ran.
    #[n(1)]
    pub node: String,
    /// That node's site.
    #[n(2)]
    pub site: Option<String>,
    /// `service/function` called there; empty for the origin's own turn.
    #[n(3)]
    pub target: String,
    /// Arrival, microseconds since the Unix epoch by that node's clock.
    #[n(4)]
    pub arrived_at_us: u64,
    /// Departure, by the same clock.
    #[n(5)]
    pub left_at_us: u64,
    /// Microseconds in the service function.
    #[n(6)]
    pub service_us: u64,
    /// Microseconds in the guest: lay over, resume, difference.
    #[n(7)]
    pub guest_us: u64,
    /// Bytes of the continuation that arrived.
    #[n(8)]
    pub continuation_bytes: u64,
    /// Bytes of parameters that arrived.
    #[n(9)]
    pub params_bytes: u64,
    /// The call was made where the chain already was: nothing travelled.
    #[n(10)]
    pub in_place: bool,
}

/// A line of the virtual console (rpc-chains section 3.7).
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
#[cbor(array)]
pub struct LogLine {
    /// The step that said it.
    #[n(0)]
    pub step: u32,
    /// The node it ran on.
    #[n(1)]
    pub node: String,
    /// When, microseconds since the Unix epoch by that node's clock.
    #[n(2)]
    pub at_us: u64,
    /// What it said.
    #[n(3)]
    pub text: String,
}
