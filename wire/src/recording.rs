//! The recording of a chain (rpc-chains section 3.7): what each of its guests was told, and what it asked for then.
//!
//! A guest has no clock, no randomness and no I/O of its own: the same function does the same if it is told the same.

use alloc::{string::String, vec::Vec};
use minicbor::{Decode, Encode};

use crate::{Branch, GuestCall, GuestSplit, Hash, Outcome, Value};

/// Limit on the events of one recording.
pub const RECORDING_EVENTS_MAX: usize = 16_384;
/// Limit on the bytes of their payloads and names.
pub const RECORDING_BYTES_MAX: usize = 8 << 20;

/// One event in a guest's life, on whichever node.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
#[cbor(array)]
pub struct Told {
    /// The branch whose guest it is.
    #[n(0)]
    pub branch: Branch,
    /// The last step that it had made.
    #[n(1)]
    pub step: u32,
    /// How many chains enclose its own (rpc-chains section 3.4); 0 for the chain that was begun.
    #[n(2)]
    pub depth: u8,
    /// What happened.
    #[n(3)]
    pub what: What,
}

/// What a guest was told, or did.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub enum What {
    /// It begins.
    #[n(0)]
    Begun {
        /// Its function.
        #[n(0)]
        code: Hash,
        /// Its input.
        #[n(1)]
        input: Value,
        /// Its clock, milliseconds since the Unix epoch.
        #[n(2)]
        started_at_ms: u64,
        /// Its randomness.
        #[n(3)]
        seed: u64,
    },
    /// The outcome of one of its calls, by its own number for the call; for a split, the outcomes of all branches.
    #[n(1)]
    Settled(#[n(0)] u32, #[n(1)] Outcome),
    /// It is the branch of this index of the split to which its parent gave this number.
    #[n(2)]
    Branch(#[n(0)] u32, #[n(1)] u16),
    /// It ran, and asked for these. Each is a step of its own, in this order.
    #[n(3)]
    Turned(#[cbor(n(0), with = "crate::bytes_codec::asked")] Vec<Asked>),
    /// Its branch is over; for the root, the chain.
    #[n(4)]
    Ended,
    /// What follows did not fit.
    #[n(5)]
    Full,
}

/// A call that a guest made, or a split.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
#[cbor(array)]
pub struct Asked {
    /// The guest's number for it.
    #[n(0)]
    pub call: u32,
    /// Its service; of a split, the one at whose node the branches merge, empty if that is where the chain is.
    #[cbor(n(1), with = "crate::bytes_codec::name")]
    pub service: String,
    /// Its function.
    #[cbor(n(2), with = "crate::bytes_codec::name")]
    pub function: String,
    /// The parameters.
    #[n(3)]
    pub params: Value,
    /// Branches of a split; 0 for a call.
    #[n(4)]
    pub branches: u32,
    /// Line in the source; 0 where unknown.
    #[n(5)]
    pub line: u32,
    /// Column in the source; 0 where unknown.
    #[n(6)]
    pub column: u32,
    /// Whether it is answered many times: what comes is handed in under its number, and under those of later reads, which are not listed.
    #[n(7)]
    pub many: bool,
}

impl Told {
    /// How many events it counts as.
    #[must_use]
    pub const fn events(&self) -> usize {
        match &self.what {
            What::Turned(asked) => 1 + asked.len(),
            _ => 1,
        }
    }

    /// Bytes of its payloads and names.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        match &self.what {
            What::Begun { input, .. } => input.len_bytes(),
            What::Settled(_, outcome) => outcome.kept_bytes(),
            What::Turned(asked) => asked.iter().map(Asked::payload_bytes).sum(),
            What::Branch(..) | What::Ended | What::Full => 0,
        }
    }
}

impl From<GuestSplit> for Asked {
    fn from(split: GuestSplit) -> Self {
        let GuestSplit { call, count: branches, at, line, column } = split;
        let (service, function, params) = (at.unwrap_or_default(), String::new(), Value::null());
        Self { call, service, function, params, branches, line, column, many: false }
    }
}

impl Asked {
    /// A call; `many`: it is answered many times.
    #[must_use]
    pub fn call(call: GuestCall, many: bool) -> Self {
        let GuestCall { call, service, function, params, line, column } = call;
        Self { call, service, function, params, branches: 0, line, column, many }
    }

    /// `service/function`.
    #[must_use]
    pub fn target(&self) -> String {
        [self.service.as_str(), "/", self.function.as_str()].concat()
    }

    fn payload_bytes(&self) -> usize {
        self.params.len_bytes() + self.service.len() + self.function.len()
    }
}

/// The recording that a chain carries home.
#[derive(Clone, PartialEq, Debug, Default, Encode, Decode)]
#[cbor(transparent)]
pub struct Recording(#[cbor(n(0), with = "crate::bytes_codec::told")] pub Vec<Told>);

impl Recording {
    /// About how many bytes of memory it takes.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.0.iter().map(|told| told.events() * size_of::<Told>().max(size_of::<Asked>()) + told.payload_bytes()).sum()
    }
}
