//! What a chain carries from hop to hop: its header, the chains around it, and where its branches meet.

use alloc::{string::String, sync::Arc};
use bytes::Bytes;
use minicbor::{Decode, Encode};

use crate::{Hash, NodeRef, StepKey, Value};

/// Where a chain's continuation runs (rpc-chains sections 3.7 and 7.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode)]
#[cbor(index_only)]
pub enum Mode {
    /// At the server that was called.
    #[default]
    #[n(0)]
    Chain,
    /// Always where the chain began, as a series of plain calls.
    #[n(1)]
    Interactive,
    /// Decided at each call: whichever is expected to be quicker.
    #[n(2)]
    Adaptive,
}

/// What a chain is given when it begins, and keeps to its end.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
#[cbor(array)]
pub struct ChainHeader {
    /// Who gets the answer.
    #[cbor(n(0), with = "crate::bytes_codec::shared")]
    pub origin: Arc<NodeRef>,
    /// When the chain began, milliseconds since the Unix epoch by the origin's clock: the only clock that the function has.
    #[n(1)]
    pub started_at_ms: u64,
    /// Where its continuation runs.
    #[n(2)]
    pub mode: Mode,
    /// Whether a chain that a service answers with joins this one (rpc-chains section 3.4), or runs on its own.
    #[n(3)]
    pub compose: bool,
    /// The node by which the chain entered; it can reach an origin that nobody can dial.
    #[cbor(n(4), with = "crate::bytes_codec::maybe_shared")]
    pub entry: Option<Arc<NodeRef>>,
    /// On whose behalf it runs, as the services it calls understand it (rpc-chains section 3.5).
    #[n(5)]
    pub credentials: Option<Value>,
}

/// Limits of one step of a chain's function, as lowered by whoever began the chain (rpc-chains section 3.6); `None` leaves a limit as each node has it.
///
/// A node takes the lower of its own limit and this one, so nothing in here can raise a limit. They hold for this function only: a sub-chain has a function and
/// limits of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode)]
#[cbor(map)]
pub struct StepLimits {
    /// Linear memory, the engine's own included.
    #[n(0)]
    pub memory_bytes_max: Option<u64>,
    /// Time for which one step may run.
    #[n(1)]
    pub step_wall_ms_max: Option<u32>,
    /// All events of one step, encoded.
    #[n(2)]
    pub output_bytes_max: Option<u32>,
    /// Events of one step: calls, answers and log lines.
    #[n(3)]
    pub events_max: Option<u32>,
    /// One continuation.
    #[n(4)]
    pub continuation_bytes_max: Option<u32>,
}

impl StepLimits {
    /// As each node has them.
    pub const UNCHANGED: Self = Self {
        memory_bytes_max: None,
        step_wall_ms_max: None,
        output_bytes_max: None,
        events_max: None,
        continuation_bytes_max: None,
    };
}

/// An enclosing chain that waits for its sub-chain: one level of the chain stack (rpc-chains section 3.4).
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
#[cbor(array)]
pub struct Frame {
    /// The enclosing chain's function.
    #[n(0)]
    pub code: Hash,
    /// Its function's number for the call that the sub-chain answers.
    #[n(1)]
    pub call: u32,
    /// The step of that call, at which the sub-chain counts as begun, and by which its creator knows it.
    #[n(2)]
    pub step: u32,
    /// Intermediate answers that the enclosing chain has sent.
    #[n(3)]
    pub emitted: u32,
    /// The node whose service answered with the sub-chain.
    #[n(4)]
    pub creator: NodeRef,
    /// The service that answered with the sub-chain.
    #[cbor(n(5), with = "crate::bytes_codec::name")]
    pub service: String,
    /// That service's function that takes the sub-chain's uncaught exceptions, if it has one (rpc-chains section 3.8).
    #[cbor(n(6), with = "crate::bytes_codec::maybe_name")]
    pub catch: Option<String>,
    /// Whether the creator wants the sub-chain's intermediate answers.
    #[n(7)]
    pub hears: bool,
    /// What the enclosing chain's function may use.
    #[n(9)]
    pub limits: StepLimits,
    /// Bytes of the enclosing chain's continuation, which is in the message's tail.
    #[n(8)]
    pub continuation_bytes: u32,
    /// Whether the enclosing chain's function was told of a call that may have taken effect.
    #[cbor(n(10), default)]
    pub uncertain: bool,
    /// The enclosing chain's continuation; not part of the head.
    #[cbor(skip)]
    pub continuation: Bytes,
}

/// Where the branches of a split meet again (rpc-chains section 3.10).
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
#[cbor(array)]
pub struct Merge {
    /// The merge host.
    #[n(0)]
    pub host: NodeRef,
    /// The step of the parent that split.
    #[n(1)]
    pub at: StepKey,
    /// Who is told of the branches' intermediate answers.
    #[n(2)]
    pub listener: Listener,
}

/// Who is told of the intermediate answers of a branch: the same as for its parent.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Listener {
    /// The origin.
    #[n(0)]
    Origin,
    /// Nobody: its parent is a sub-chain whose creator does not want them.
    #[n(1)]
    Nobody,
    /// The creator of the sub-chain that began at this step (rpc-chains section 7.1).
    #[n(2)]
    Creator(#[n(0)] NodeRef, #[n(1)] u32),
}
