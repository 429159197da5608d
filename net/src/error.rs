//! What can go wrong, who is at fault, and what to do next.

use std::io;

use crate::{Message, OverBudget};

/// An endpoint could not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NetError {
    /// Another process (or this one) listens there already.
    #[error("port in use: cannot listen on {address}; stop what listens there or choose another port")]
    AddressInUse {
        /// The address asked for.
        address: String,
    },
    /// The system refused to listen.
    #[error("cannot listen on {address}: {reason}")]
    Listen {
        /// The address asked for.
        address: String,
        /// What the system said.
        reason: String,
    },
    /// The peer could not be reached.
    #[error("cannot reach {address}: {reason}; is the node up, and is the address right?")]
    Unreachable {
        /// The address dialled.
        address: String,
        /// What the system said.
        reason: String,
    },
    /// The peer did not answer the dial in time.
    #[error("cannot reach {address}: no answer within {connect_timeout_ms} ms")]
    ConnectTimeout {
        /// The address dialled.
        address: String,
        /// The limit that was reached.
        connect_timeout_ms: u64,
    },
    /// The endpoint has as many links as it may have.
    #[error("cannot open a link to {address}: this node already has links_max = {links_max} links")]
    TooManyLinks {
        /// The address dialled.
        address: String,
        /// The limit that was reached.
        links_max: usize,
    },
    /// There is no memory for another link.
    #[error("cannot open a link to {address}: {why}")]
    NoMemory {
        /// The address dialled.
        address: String,
        /// How much there is, and was asked for.
        why: OverBudget,
    },
    /// The link ended before the peer had said who it is.
    #[error(transparent)]
    Lost(#[from] LinkError),
    /// The endpoint was closed.
    #[error("this endpoint was closed")]
    Closed,
    /// The configuration or the identity contradicts itself.
    #[error("bad link configuration: {what}")]
    Config {
        /// Which field, and what it should be.
        what: String,
    },
}

/// A link ended, or cannot take this message. `peer` is the peer's address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// This side closed the link.
    #[error("the link to {peer} was closed by this node")]
    Closed {
        /// The peer's address.
        peer: String,
    },
    /// The peer closed the link.
    #[error("{peer} closed the link{}", if *.mid_message { " in the middle of a message" } else { "" })]
    PeerClosed {
        /// The peer's address.
        peer: String,
        /// Whether a message was under way.
        mid_message: bool,
    },
    /// The socket failed.
    #[error("the link to {peer} broke: {reason}")]
    Io {
        /// The peer's address.
        peer: String,
        /// The kind of failure.
        kind: io::ErrorKind,
        /// What the system said.
        reason: String,
    },
    /// The peer stopped answering pings.
    #[error("{peer} has been silent for {silent_ms} ms: the link is given up")]
    Silent {
        /// The peer's address.
        peer: String,
        /// How long nothing came.
        silent_ms: u64,
    },
    /// The peer sent what no correct node sends.
    #[error("{peer} broke the link protocol: {what}")]
    Misbehaved {
        /// The peer's address.
        peer: String,
        /// What came.
        what: FrameError,
    },
    /// The peer said nothing, or not enough, after connecting.
    #[error("{peer} did not introduce itself within {hello_timeout_ms} ms")]
    NoHello {
        /// The peer's address.
        peer: String,
        /// The limit that was reached.
        hello_timeout_ms: u64,
    },
    /// The endpoint had no room for another caller.
    #[error("{peer} was turned away: this node already has {limit} = {links_max} links")]
    TooManyLinks {
        /// The peer's address.
        peer: String,
        /// Which limit was reached.
        limit: &'static str,
        /// The limit.
        links_max: usize,
    },
    /// There was no memory for what the peer sends, or for what is to be sent to it. If sending failed, the link lives on.
    #[error("no memory for the link to {peer}: {why}; try again when this node has less to do")]
    NoMemory {
        /// The peer's address.
        peer: String,
        /// How much there is, and was asked for.
        why: OverBudget,
    },
    /// A message that had come in part, or the queue to the peer, advanced too slowly.
    #[error(
        "{peer} {what} less than progress_bytes_per_s_min = {bytes_per_s_min} bytes per second: the link is given up"
    )]
    Stalled {
        /// The peer's address.
        peer: String,
        /// What it did too slowly.
        what: &'static str,
        /// The limit, in bytes per second.
        bytes_per_s_min: u64,
    },
    /// Another link leads to the same node already.
    #[error("{peer} says that it is node {node:016x}, which is linked already")]
    Taken {
        /// The peer's address.
        peer: String,
        /// The node.
        node: u64,
    },
    /// This node was stopped for so long that what lies in the socket is too old.
    #[error("this node was stopped for {stopped_ms} ms: the link to {peer} is opened anew")]
    Slept {
        /// The peer's address.
        peer: String,
        /// For how long.
        stopped_ms: u64,
    },
    /// This side wants to send more than the peer accepts. The link lives on.
    #[error("a message of {bytes} bytes is too large for {peer}: message_bytes_max = {bytes_max}")]
    TooLarge {
        /// The peer's address.
        peer: String,
        /// Size of the message, in bytes.
        bytes: usize,
        /// The smaller of both sides' limits, in bytes.
        bytes_max: u64,
    },
    /// The small lane is full, so a lazy message cannot be kept. The link lives on.
    #[error("the queue to {peer} is full (small_queue_bytes_max): wait with `send` instead")]
    QueueFull {
        /// The peer's address.
        peer: String,
    },
}

/// Why [`crate::Link::try_send`] did not accept a message.
#[derive(Debug, thiserror::Error)]
pub enum SendRefused {
    /// No room now, or the peer's limits are not known yet. The message is given back; `send` waits.
    #[error("the queue is full")]
    Full(Message),
    /// The link is gone, or the message can never be sent over it ([`LinkError::TooLarge`], with the sizes): then the link lives on.
    #[error(transparent)]
    Broken(#[from] LinkError),
}

/// What was wrong with the bytes a peer sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// Not this protocol at all.
    #[error("not a catena node: the first bytes were {got:02x?}")]
    Magic {
        /// The first bytes that came.
        got: [u8; 6],
    },
    /// Another version of the protocol.
    #[error("it speaks link protocol version {theirs}, this node speaks version {ours}: upgrade the older one")]
    Version {
        /// What this build speaks.
        ours: u16,
        /// What the peer speaks.
        theirs: u16,
    },
    /// More of something than allowed.
    #[error("{limit} = {max}, and {came} came")]
    TooMuch {
        /// The limit's name, with its unit.
        limit: &'static str,
        /// What came or was announced.
        came: u64,
        /// The limit.
        max: u64,
    },
    /// The hello's fields do not fit its length, or break a rule.
    #[error("a malformed hello: {what}")]
    Hello {
        /// Which field.
        what: &'static str,
    },
    /// A frame kind that does not exist.
    #[error("a frame of unknown kind {kind}")]
    UnknownKind {
        /// The kind byte.
        kind: u8,
    },
    /// A frame whose fields contradict each other.
    #[error("a malformed frame of kind {kind}: {what}")]
    Malformed {
        /// The kind byte.
        kind: u8,
        /// What contradicts.
        what: &'static str,
    },
    /// A fragment that does not fit those of its message that came before.
    #[error("message {id} {what}")]
    Fragment {
        /// The message's number.
        id: u64,
        /// What does not fit.
        what: &'static str,
    },
    /// A pong that answers no ping: no ping with its nonce was sent, or that one or a later one was answered already.
    #[error("a pong with nonce {nonce}, for which no ping waits")]
    UnexpectedPong {
        /// Its nonce.
        nonce: u64,
    },
}

impl LinkError {
    pub(crate) fn io(peer: &str, error: &io::Error) -> Self {
        Self::Io { peer: peer.to_owned(), kind: error.kind(), reason: error.to_string() }
    }

    pub(crate) fn misbehaved(peer: &str, what: FrameError) -> Self {
        Self::Misbehaved { peer: peer.to_owned(), what }
    }
}
