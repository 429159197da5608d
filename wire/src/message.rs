//! Everything that two nodes say to each other.

use alloc::{string::String, vec::Vec};
use bytes::Bytes;
use core::fmt;
use minicbor::{Decode, Encode};

use crate::{Budget, End, Exception, Hash, Hop, LogLine, NodeRef, Outcome, StepKey, Value};

/// One message. The numbers are the protocol's: they are never used again for something else.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub enum Message {
    /// Go on with this chain.
    #[n(0)]
    Hop(#[n(0)] alloc::boxed::Box<Hop>),
    /// The hop has been taken over; its sender may forget it.
    #[n(1)]
    Accepted(#[n(0)] StepKey),
    /// The hop has not been taken over, and nothing was done: its sender goes on with this exception.
    #[n(2)]
    Refused(#[n(0)] StepKey, #[n(1)] Exception),
    /// An intermediate answer, straight to the origin (rpc-chains section 7.1).
    #[n(3)]
    Partial {
        /// The step that emitted it.
        #[n(0)]
        key: StepKey,
        /// Its number on this branch, from 0.
        #[n(1)]
        number: u32,
        /// The answer.
        #[n(2)]
        value: Value,
    },
    /// The end of a branch.
    #[n(4)]
    End(#[n(0)] alloc::boxed::Box<End>),
    /// The chain is alive, at this step, on this host (rpc-chains section 3.9).
    #[n(5)]
    Heartbeat(#[n(0)] StepKey, #[n(1)] String),
    /// A plain remote procedure call.
    #[n(6)]
    Call {
        /// The caller's number for it.
        #[n(0)]
        id: u64,
        /// Service.
        #[cbor(n(1), with = "crate::bytes_codec::name")]
        service: String,
        /// Function.
        #[cbor(n(2), with = "crate::bytes_codec::name")]
        function: String,
        /// Parameters.
        #[n(3)]
        params: Value,
        /// What it may spend.
        #[n(4)]
        budget: Budget,
    },
    /// Its answer.
    #[n(7)]
    Return(#[n(0)] u64, #[n(1)] Outcome),
    /// The caller no longer wants the answer.
    #[n(8)]
    Withdraw(#[n(0)] u64),
    /// Send me this function.
    #[n(9)]
    WantCode(#[n(0)] Hash),
    /// Here is a function; in the tail. To a repository it is an offer, else an answer.
    #[n(10)]
    Code(#[n(0)] Hash, #[cbor(skip)] Bytes),
    /// I do not have it.
    #[n(11)]
    NoCode(#[n(0)] Hash),
    /// What services do you know of?
    #[n(12)]
    List(#[n(0)] u64),
    /// These.
    #[n(13)]
    Listing(#[n(0)] u64, #[n(1)] Vec<ServiceEntry>),
    /// Lines of the virtual console, ahead of the end.
    #[n(14)]
    Console(#[n(0)] StepKey, #[n(1)] Vec<LogLine>),
}

/// A service and where it is.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
#[cbor(array)]
pub struct ServiceEntry {
    /// Its name.
    #[cbor(n(0), with = "crate::bytes_codec::name")]
    pub service: String,
    /// Its functions.
    #[cbor(n(1), with = "crate::bytes_codec::path")]
    pub functions: Vec<String>,
    /// The node that serves it.
    #[n(2)]
    pub node: NodeRef,
}

/// A message as its two parts (the tail may arrive after the head).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Encoded {
    /// What is needed to begin.
    pub head: Bytes,
    /// The rest; empty for most messages.
    pub tail: Bytes,
}

/// Why bytes are not a message: always the peer's fault.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WireError {
    /// The head is not a message of this version.
    Head(String),
    /// The tail is shorter than the head says.
    Tail {
        /// Bytes that the head announced.
        announced_bytes: u64,
        /// Bytes that came.
        received_bytes: u64,
    },
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Head(why) => write!(f, "not a message of this version: {why}"),
            Self::Tail { announced_bytes, received_bytes } => {
                write!(f, "{received_bytes} bytes of state came where {announced_bytes} were announced")
            }
        }
    }
}

impl core::error::Error for WireError {}

impl Message {
    /// The message's bytes.
    #[must_use]
    pub fn encode(self) -> Encoded {
        let mut head = Vec::with_capacity(256);
        // Writing to a `Vec` cannot fail.
        let _ = minicbor::encode(&self, &mut head);
        let tail = match self {
            Self::Hop(hop) => match hop.code_bytes {
                None => hop.continuation,
                Some(code) => [hop.continuation.as_ref(), code.as_ref()].concat().into(),
            },
            Self::Code(_, code) => code,
            _ => Bytes::new(),
        };
        Encoded { head: head.into(), tail }
    }

    /// Reads a head; the parts that a tail brings are empty until [`Message::attach_tail`].
    ///
    /// # Errors
    /// [`WireError::Head`]: anything but exactly one message of this version.
    pub fn decode_head(head: &[u8]) -> Result<Self, WireError> {
        let mut decoder = minicbor::Decoder::new(head);
        let message: Self = decoder.decode().map_err(|why| WireError::Head(alloc::format!("{why}")))?;
        match head.len() - decoder.position() {
            0 => Ok(message),
            trailing => Err(WireError::Head(alloc::format!("{trailing} bytes follow it"))),
        }
    }

    /// Puts the tail in its place.
    ///
    /// # Errors
    /// [`WireError::Tail`] if it is shorter than the head says.
    pub fn attach_tail(&mut self, tail: Bytes) -> Result<(), WireError> {
        match self {
            Self::Hop(hop) => hop.attach_tail(tail),
            Self::Code(_, code) => {
                *code = tail;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Both at once.
    ///
    /// # Errors
    /// See [`WireError`].
    pub fn decode(encoded: Encoded) -> Result<Self, WireError> {
        let mut message = Self::decode_head(&encoded.head)?;
        message.attach_tail(encoded.tail)?;
        Ok(message)
    }
}

impl Hop {
    /// Splits the tail into the continuation and, if it rides along, the function.
    ///
    /// # Errors
    /// [`WireError::Tail`] if it is shorter than the head says.
    pub fn attach_tail(&mut self, mut tail: Bytes) -> Result<(), WireError> {
        let announced = self.continuation_bytes as usize;
        if tail.len() < announced {
            return Err(WireError::Tail { announced_bytes: announced as u64, received_bytes: tail.len() as u64 });
        }
        self.continuation = tail.split_to(announced);
        self.code_bytes = (!tail.is_empty()).then_some(tail);
        Ok(())
    }
}
