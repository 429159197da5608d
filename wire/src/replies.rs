//! Calls that are answered many times (Quatrain): the right to reply, the replies, and how a right ended.
//!
//! A call and its rights are named like a chain and its branches: the caller draws the number, each right is a branch, and its step is 0.

use alloc::{string::String, vec::Vec};
use minicbor::{Decode, Encode};

use crate::{ChainId, Exception, NodeRef, StepKey, Value};

/// The right to reply to a call: whoever serves the call has it, and may delegate parts of it (Quatrain, section 3.2, across servers).
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
#[cbor(array)]
pub struct Right {
    /// The call, and which right to answer it this is: the root is the call's own, its children are those that it delegated.
    #[n(0)]
    pub key: StepKey,
    /// Who made the call, and gets the replies.
    #[n(1)]
    pub caller: NodeRef,
    /// The node by which the call entered; it can reach a caller that nobody can dial.
    #[n(2)]
    pub entry: Option<NodeRef>,
    /// How much may be on its way to the caller's reader under this right.
    #[n(3)]
    pub window: Window,
}

/// How far a right may be ahead of the caller's reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
#[cbor(array)]
pub struct Window {
    /// Replies that were sent and have not been read.
    #[n(0)]
    pub replies: u32,
    /// Their bytes; one reply may be on its way whatever its size.
    #[n(1)]
    pub bytes: u32,
}

/// Replies under one right, numbered from `first` on.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
#[cbor(array)]
pub struct Replies {
    /// The right.
    #[n(0)]
    pub key: StepKey,
    /// The number of the first of them under this right, counted from 0.
    #[n(1)]
    pub first: u32,
    /// At most [`crate::REPLIES_MAX`].
    #[cbor(n(2), with = "crate::bytes_codec::replies")]
    pub values: Vec<Value>,
}

impl Replies {
    /// Bytes of all values, each with the prefix that a short one has.
    pub(crate) fn len_bytes(&self) -> usize {
        self.values.iter().map(|value| value.len_bytes() + 2).sum()
    }
}

/// How a right ended. By what it counts, the caller knows exactly what is still to come.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
#[cbor(array)]
pub struct RightEnd {
    /// The right.
    #[n(0)]
    pub key: StepKey,
    /// How many replies were sent under this right.
    #[n(1)]
    pub replies: u32,
    /// The rights that it delegated, the first of them child number 1; at most [`crate::DELEGATES_MAX`].
    #[cbor(n(2), with = "crate::bytes_codec::delegates")]
    pub delegated: Vec<Delegated>,
    /// Why replies of this right may be missing.
    #[n(3)]
    pub threw: Option<Exception>,
    /// Whether it ended only because its call's time ran out at its holder (Quatrain, section 3.3): then the call has failed.
    #[cbor(n(4), default)]
    pub late: bool,
}

/// A right that was delegated.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
#[cbor(array)]
pub struct Delegated {
    /// `service/function`.
    #[cbor(n(0), with = "crate::bytes_codec::target")]
    pub target: String,
    /// What became of it.
    #[n(1)]
    pub fate: Fate,
}

/// The fate of a right that was delegated.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub enum Fate {
    /// This node has taken it over.
    #[n(0)]
    Taken(#[n(0)] NodeRef),
    /// Nobody took it: its replies are missing.
    #[n(1)]
    Failed(#[n(0)] Exception),
}

impl Right {
    /// The right of the call itself.
    #[must_use]
    pub const fn root(call: ChainId, caller: NodeRef, window: Window) -> Self {
        Self { key: StepKey::first(call), caller, entry: None, window }
    }

    /// The right that is delegated as child `number`, from 1; `None` if that is too deep.
    #[must_use]
    pub fn child(&self, number: u16) -> Option<Self> {
        let branch = self.key.branch.child(number)?;
        Some(Self { key: StepKey { branch, ..self.key.clone() }, ..self.clone() })
    }
}
