//! Everything that two nodes say to each other.

use alloc::{boxed::Box, string::String, vec::Vec};
use bytes::Bytes;
use core::fmt;
use minicbor::{Decode, Encode};

use crate::{
    BlobBytes, Branch, Budget, ChainId, End, Exception, Hash, Hop, LogLine, NodeId, NodeRef, Outcome,
    PossibleDuplicate, Relocation, Replies, ResolverAnswer, Right, RightEnd, SegmentMessage, StepKey, Value,
};

/// One message. The numbers of the variants belong to the protocol: none is ever reused for something else.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub enum Message {
    /// Go on with this chain.
    #[n(0)]
    Hop(#[n(0)] alloc::boxed::Box<Hop>),
    /// The hop has been taken over; its sender may forget it.
    #[n(1)]
    Accepted(#[n(0)] StepKey),
    /// The hop has not been taken over, and nothing was done: the chain goes on at the hop's sender, with this exception.
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
        /// 0: for the origin; else for the creator of the sub-chain that began at this step.
        #[n(3)]
        to: u32,
    },
    /// The end of a branch.
    #[n(4)]
    End(#[n(0)] alloc::boxed::Box<End>),
    /// The chain is alive, at this step, on this host (rpc-chains section 3.9). A merge host names the branches that it still waits for (section 3.10).
    #[n(5)]
    Heartbeat(#[n(0)] StepKey, #[n(1)] NodeRef, #[cbor(n(2), with = "crate::bytes_codec::branches")] Vec<Branch>),
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
        /// The step of a chain that makes the call, under which its result is remembered; `None` for a call outside of chains.
        #[n(5)]
        key: Option<StepKey>,
        /// On whose behalf.
        #[n(6)]
        credentials: Option<Value>,
        /// Whether the chain that calls is a possible duplicate.
        #[n(7)]
        duplicate: Option<PossibleDuplicate>,
        /// Microseconds since the call first went out; 0 the first time.
        #[n(8)]
        age_us: u64,
    },
    /// The answer to a call, and what it brings back besides.
    #[n(7)]
    Return(#[n(0)] u64, #[n(1)] Outcome, #[n(2)] Brought),
    /// The caller no longer wants the answer.
    #[n(8)]
    Withdraw(#[n(0)] u64),
    /// Send me this function.
    #[n(9)]
    WantCode(#[n(0)] Hash),
    /// Here is a function, in the tail: for a repository an offer, else an answer.
    #[n(10)]
    Code(#[n(0)] Hash, #[cbor(skip)] Bytes),
    /// I do not have it.
    #[n(11)]
    NoCode(#[n(0)] Hash),
    /// Which services do you know of?
    #[n(12)]
    List(#[n(0)] u64),
    /// These services.
    #[n(13)]
    Listing(#[n(0)] u64, #[cbor(n(1), with = "crate::bytes_codec::listing")] Vec<ServiceEntry>),
    /// Lines of the virtual console, ahead of the end: this branch's lines from this number on, counted from 0.
    #[n(14)]
    Console(#[n(0)] StepKey, #[n(1)] u32, #[cbor(n(2), with = "crate::bytes_codec::console")] Vec<LogLine>),
    /// Stop this chain, here and wherever it went from here (rpc-chains section 6).
    #[n(15)]
    Cancel(#[n(0)] ChainId),
    /// Pass this message on: it is for a node that cannot be dialled, and to which its sender has no link.
    #[n(16)]
    Relay {
        /// Who it is for.
        #[n(0)]
        to: NodeId,
        /// The message's head.
        #[cbor(n(1), with = "minicbor::bytes")]
        head: Vec<u8>,
        /// The message's tail; not part of the head.
        #[cbor(skip)]
        tail: Bytes,
    },
    /// Where has this chain got to, from this step on? (The second timeout of rpc-chains section 3.9.)
    #[n(17)]
    Locate {
        /// The step.
        #[n(0)]
        key: StepKey,
        /// Who is to be told.
        #[n(1)]
        origin: NodeRef,
        /// The node by which the chain entered; it can reach an origin that nobody can dial.
        #[n(2)]
        entry: Option<NodeRef>,
    },
    /// What the node of this name knows about this step.
    #[n(18)]
    Located(#[n(0)] StepKey, #[cbor(n(1), with = "crate::bytes_codec::name")] String, #[n(2)] Whereabouts),
    /// This has arrived; its sender may forget it.
    #[n(19)]
    Received(#[n(0)] StepKey, #[n(1)] Part),
    /// The sub-chain that began at this step has ended: its creator need not listen any more.
    #[n(20)]
    SubChainEnded(#[n(0)] StepKey),
    /// A call that may be answered many times. [`Message::Return`] only says whether it was taken over: replies go straight to the caller (Quatrain).
    #[n(21)]
    Ask {
        /// The asker's number for it.
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
        /// On whose behalf.
        #[n(5)]
        credentials: Option<Value>,
        /// The right to reply, which passes to whoever takes the call over.
        #[n(6)]
        right: alloc::boxed::Box<Right>,
    },
    /// Answers to a call, to its caller.
    #[n(22)]
    Replies(#[n(0)] Replies),
    /// A right to reply has ended, to the caller.
    #[n(23)]
    RightEnd(#[n(0)] alloc::boxed::Box<RightEnd>),
    /// To the holder of this right: what has come under it.
    #[n(24)]
    Took {
        /// The right.
        #[n(0)]
        key: StepKey,
        /// All replies of lower numbers have arrived: their sender may forget them.
        #[n(1)]
        arrived: u32,
        /// This many have been read: the holder may send as many more.
        #[n(2)]
        read: u32,
    },
    /// These chains are over. The receiver, to which they went from the sender, need not keep the records of their steps any more, and passes this on.
    #[n(25)]
    Over(#[cbor(n(0), with = "crate::bytes_codec::chains")] Vec<ChainId>),
    /// About segments.
    #[n(30)]
    Segment(#[n(0)] SegmentMessage),
    /// The call of this number was not begun: its service is not here. Nothing was done. True if the call had been sent before: the sender remembers that it
    /// refused this step, whose copies it will refuse as well.
    #[n(60)]
    CallElsewhere(#[n(0)] u64, #[n(1)] Relocation, #[n(2)] bool),
    /// The hop has not been taken over: its service is not here. Nothing was done.
    #[n(61)]
    HopElsewhere(#[n(0)] StepKey, #[n(1)] Relocation),
    /// A service that the sender served is served no longer, or elsewhere (libRIPC, section III: endpoints migrate during normal operation).
    #[n(62)]
    Moved(#[cbor(n(0), with = "crate::bytes_codec::name")] String, #[n(1)] Relocation),
    /// What the sender serves from now on, instead of what it said before.
    #[n(63)]
    Offers(#[cbor(n(0), with = "crate::bytes_codec::listing")] Vec<ServiceEntry>),
    /// Where is this service, according to each of your resolvers?
    #[n(64)]
    Resolve(#[n(0)] u64, #[cbor(n(1), with = "crate::bytes_codec::name")] String),
    /// What each resolver says.
    #[n(65)]
    Resolved(#[n(0)] u64, #[cbor(n(1), with = "crate::bytes_codec::answers")] Vec<ResolverAnswer>),
}

/// What a node keeps, and sends again, until it has arrived: a part of a chain's outcome, or its cancellation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Encode, Decode)]
pub enum Part {
    /// The end of the chain or of a branch, sent at this step.
    #[n(0)]
    End,
    /// The intermediate answer of this number, sent at this step.
    #[n(1)]
    Partial(#[n(0)] u32),
    /// The cancellation of the chain at this node; the step is the chain's first.
    #[n(2)]
    Cancel(#[n(0)] NodeId),
    /// The intermediate answer of this number, sent at this step to the creator of the sub-chain that began at step `to`. Its number counts the answers of that
    /// sub-chain; the chain around it may emit others at the same step.
    #[n(3)]
    ToCreator {
        /// From 0.
        #[n(0)]
        number: u32,
        /// Never 0.
        #[n(1)]
        to: u32,
    },
}

impl Part {
    /// The intermediate answer of this number; `to` as in [`Message::Partial`].
    #[must_use]
    pub const fn answer(number: u32, to: u32) -> Self {
        if to == 0 { Self::Partial(number) } else { Self::ToCreator { number, to } }
    }
}

/// What a call brings back with its result.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode)]
#[cbor(array)]
pub struct Brought {
    /// What is left of the hops that it was lent.
    #[n(0)]
    pub hops_left: u32,
    /// Microseconds in the service function; 0 where unknown.
    #[n(1)]
    pub service_us: u64,
    /// What a chain that ran on its own to answer the call has logged, in the order in which that chain carried it, bounded by [`crate::CONSOLE_LINES_MAX`].
    /// Step, branch and number are that chain's.
    #[cbor(n(2), with = "crate::bytes_codec::console", default)]
    pub console: Vec<LogLine>,
    /// What the service function read of blobs, if anything.
    #[n(3)]
    pub blobs: Option<Box<BlobBytes>>,
}

/// What a node knows about a step of a chain that has been silent. If the step is under way there, the node sends a sign of life instead.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Whereabouts {
    /// It is to be handed off to the node of this name, which has not taken it over yet.
    #[n(0)]
    HandingOff(#[cbor(n(0), with = "crate::bytes_codec::name")] String),
    /// It went to the node of this name, which took it over.
    #[n(1)]
    Went(#[cbor(n(0), with = "crate::bytes_codec::name")] String),
    /// It is not known: it never came, or was forgotten.
    #[n(2)]
    Unknown,
}

/// A service and where it is.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
#[cbor(array)]
pub struct ServiceEntry {
    /// Its name.
    #[cbor(n(0), with = "crate::bytes_codec::name")]
    pub service: String,
    /// Its functions.
    #[cbor(n(1), with = "crate::bytes_codec::functions")]
    pub functions: Vec<String>,
    /// The node that serves it.
    #[n(2)]
    pub node: NodeRef,
    /// What it says about its functions.
    #[n(3)]
    pub kinds: Kinds,
    /// Where chains that call it run instead, if its node runs no foreign code (rpc-chains section 7.3).
    #[n(4)]
    pub proxy: Option<NodeRef>,
}

/// What a service says about its functions: which of them are of these kinds.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode)]
#[cbor(array)]
pub struct Kinds {
    /// May be done again, anywhere, when it is unknown whether they were done (rpc-chains section 3.9): declared idempotent.
    #[cbor(n(0), with = "crate::bytes_codec::functions")]
    pub repeatable: Vec<String>,
    /// May be asked again at the same node, which remembers the step across a crash.
    #[cbor(n(1), with = "crate::bytes_codec::functions")]
    pub durable: Vec<String>,
    /// Answer with a chain (rpc-chains section 3.4), which needs hops.
    #[cbor(n(2), with = "crate::bytes_codec::functions")]
    pub chaining: Vec<String>,
}

impl ServiceEntry {
    /// Bytes that it takes up in memory.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        let Kinds { repeatable, durable, chaining } = &self.kinds;
        let names = [&self.functions, repeatable, durable, chaining].into_iter().flatten();
        let names = names.map(|name| size_of::<String>() + name.len()).sum::<usize>();
        let places = [Some(&self.node), self.proxy.as_ref()].into_iter().flatten();
        let places = places.map(NodeRef::kept_bytes).sum::<usize>();
        size_of::<Self>() + self.service.len() + names + places
    }

    /// How many names it has in all.
    #[must_use]
    pub fn names(&self) -> usize {
        let Kinds { repeatable, durable, chaining } = &self.kinds;
        self.functions.len() + repeatable.len() + durable.len() + chaining.len()
    }
}

/// A message as its two parts (the tail may arrive after the head).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Encoded {
    /// What is needed to begin.
    pub head: Bytes,
    /// The rest; empty for most messages.
    pub tail: Bytes,
}

impl Encoded {
    /// Bytes of both.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.head.len() + self.tail.len()
    }
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

pub(crate) fn encoded_head(message: &impl Encode<()>, bytes_min: usize) -> Bytes {
    /// Most heads are shorter than this: they are written on the stack first, and then kept in exactly as much memory as they need.
    const SHORT_BYTES: usize = 768;
    if bytes_min < SHORT_BYTES {
        let mut short = minicbor::encode::write::Cursor::new([0; SHORT_BYTES]);
        if minicbor::encode(message, &mut short).is_ok() {
            return Bytes::copy_from_slice(short.get_ref().get(..short.position()).unwrap_or_default());
        }
    }
    let mut head = Vec::with_capacity(bytes_min + 2 * SHORT_BYTES);
    // Writing to a `Vec` cannot fail.
    let _ = minicbor::encode(message, &mut head);
    head.into()
}

/// The number of a message's kind.
fn kind_of(head: &[u8]) -> Option<u32> {
    let mut decoder = minicbor::Decoder::new(head);
    decoder.array().and_then(|_| decoder.u32()).ok()
}

impl Message {
    /// Answers [`Message::List`], with the first of these if they are too many.
    #[must_use]
    pub fn listing(id: u64, mut entries: Vec<ServiceEntry>) -> Self {
        entries.truncate(crate::LISTING_ENTRIES_MAX);
        let mut names = 0;
        entries.retain(|entry| {
            names += entry.names();
            names <= crate::LISTING_NAMES_MAX
        });
        Self::Listing(id, entries)
    }

    /// The most memory that a message takes when decoded, in bytes, by the length of its head: every list in it is bounded.
    #[must_use]
    pub fn decoded_bytes_max(head_bytes: usize) -> u64 {
        let lists = head_bytes.saturating_mul(crate::DECODED_TIMES_MAX).min(crate::LISTS_BYTES_MAX);
        head_bytes.saturating_add(lists) as u64
    }

    /// Whether a head is that of a call or of its answer, judged by its first bytes: neither has a tail.
    #[must_use]
    pub fn is_of_call(head: &[u8]) -> bool {
        matches!(kind_of(head), Some(6 | 7))
    }

    /// Whether a head is that of a message with parameters, judged by its first bytes: a hop, a call, a call that is answered many times.
    #[must_use]
    pub fn has_params(head: &[u8]) -> bool {
        matches!(kind_of(head), Some(0 | 6 | 21))
    }

    /// The message's bytes.
    #[must_use]
    pub fn encode(self) -> Encoded {
        let bytes_min = if let Self::Replies(replies) = &self { replies.len_bytes() } else { 0 };
        let head = encoded_head(&self, bytes_min);
        let tail = match self {
            Self::Hop(hop) => hop.leaving().tail(),
            Self::Code(_, code) => code,
            Self::Relay { tail, .. } => tail,
            Self::Segment(about) => about.into_tail(),
            _ => Bytes::new(),
        };
        Encoded { head, tail }
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

    /// Whether it is of a kind that has a tail.
    #[must_use]
    pub const fn has_tail(&self) -> bool {
        match self {
            Self::Hop(_) | Self::Code(..) | Self::Relay { .. } => true,
            Self::Segment(about) => about.has_tail(),
            _ => false,
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
            Self::Relay { tail: place, .. } => {
                *place = tail;
                Ok(())
            }
            Self::Segment(about) => {
                about.attach_tail(tail);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Decodes both parts at once.
    ///
    /// # Errors
    /// See [`WireError`].
    pub fn decode(encoded: Encoded) -> Result<Self, WireError> {
        let mut message = Self::decode_head(&encoded.head)?;
        message.attach_tail(encoded.tail)?;
        Ok(message)
    }
}

/// The tail of a hop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tail {
    /// The continuation.
    pub continuation: Bytes,
    /// The continuations of the chain stack, outermost first.
    pub stacked: Vec<Bytes>,
    /// The function, if it rode along.
    pub code_bytes: Option<Bytes>,
}

/// How the tail of a hop is cut, according to its head: all that has to be kept of a hop that has begun until its tail is here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TailCuts {
    continuation_bytes: u32,
    stacked_bytes: Vec<u32>,
}

impl TailCuts {
    /// Cuts the tail into the continuation, those of the chain stack and, if it rides along, the function.
    ///
    /// # Errors
    /// [`WireError::Tail`] if it is shorter than the head says.
    pub fn cut(&self, mut tail: Bytes) -> Result<Tail, WireError> {
        let stacked: u64 = self.stacked_bytes.iter().copied().map(u64::from).sum();
        let announced = u64::from(self.continuation_bytes) + stacked;
        if (tail.len() as u64) < announced {
            return Err(WireError::Tail { announced_bytes: announced, received_bytes: tail.len() as u64 });
        }
        let continuation = tail.split_to(self.continuation_bytes as usize);
        let stacked = self.stacked_bytes.iter().map(|bytes| tail.split_to(*bytes as usize)).collect();
        Ok(Tail { continuation, stacked, code_bytes: (!tail.is_empty()).then_some(tail) })
    }
}

impl Hop {
    /// How its tail is to be cut.
    #[must_use]
    pub fn tail_cuts(&self) -> TailCuts {
        let stacked_bytes = self.stack.iter().map(|frame| frame.continuation_bytes).collect();
        TailCuts { continuation_bytes: self.continuation_bytes, stacked_bytes }
    }

    /// Puts its tail in its place.
    ///
    /// # Errors
    /// As [`TailCuts::cut`].
    pub fn attach_tail(&mut self, tail: Bytes) -> Result<(), WireError> {
        let Tail { continuation, stacked, code_bytes } = self.tail_cuts().cut(tail)?;
        (self.continuation, self.code_bytes) = (continuation, code_bytes);
        for (frame, continuation) in self.stack.iter_mut().zip(stacked) {
            frame.continuation = continuation;
        }
        Ok(())
    }

    /// Its tail, which must have been attached.
    #[must_use]
    pub fn into_tail(self) -> Tail {
        let stacked = self.stack.into_iter().map(|frame| frame.continuation).collect();
        Tail { continuation: self.continuation, stacked, code_bytes: self.code_bytes }
    }
}
