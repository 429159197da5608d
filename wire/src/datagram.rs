//! Messages between services (libRIPC, section III.A): short ones, and the control messages of long ones.

use alloc::{string::String, vec::Vec};
use bytes::Bytes;
use minicbor::{Decode, Encode};

use crate::At;

/// Bytes of all items of a short message together: with names and descriptors it still fits one frame, which overtakes all bulk.
pub const SHORT_BYTES_MAX: usize = 12 << 10;
/// Items of a short message.
pub const SHORT_ITEMS_MAX: usize = 64;
/// Buffers of a long message.
pub const BUFFERS_MAX: usize = 16;
/// Limit on the long messages that one message reports as read.
pub const COMPLETIONS_MAX: usize = 64;

/// A range of one of the sender's segments, which a grant lets the receiver read or write.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
#[cbor(array)]
pub struct Buffer {
    /// Where it begins, and the grant by which it is used.
    #[n(0)]
    pub at: At,
    /// How many bytes.
    #[n(1)]
    pub bytes: u64,
    /// How a partner on the same host reaches it without asking.
    #[n(2)]
    pub lent: Option<Lent>,
}

/// The segment of a buffer, exported for one partner alone, which may map its pages and do there what the buffer's grant allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
#[cbor(array)]
pub struct Lent {
    /// The grant of the whole segment, by which the partner maps it.
    #[n(0)]
    pub whole: u64,
    /// The segment's size.
    #[n(1)]
    pub bytes: u64,
    /// The offset of a word that holds the number of the buffer's grant for as long as the grant is valid.
    #[n(2)]
    pub word: u64,
    /// How many requests may use the buffer's grant.
    #[n(3)]
    pub uses: u32,
}

/// How the sender of a long message learns that its buffers have been read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub enum Completion {
    /// By a message of its own, at once.
    #[default]
    #[n(0)]
    Told,
    /// With the next message that goes to the sender from there.
    #[n(1)]
    Piggybacked,
    /// Not at all: its grants last until their time is over.
    #[n(2)]
    Timeout,
}

/// A message between services, in one frame: its items, and descriptors of its sender's buffers. It is neither acknowledged nor sent again.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode)]
#[cbor(array)]
pub struct Datagram {
    /// The service that sends it.
    #[cbor(n(0), with = "crate::bytes_codec::name")]
    pub from: String,
    /// The service that it is for.
    #[cbor(n(1), with = "crate::bytes_codec::name")]
    pub to: String,
    /// The sender's number for it: by this it is answered, and reported as read.
    #[n(2)]
    pub number: u64,
    /// It answers the message that has this number at the receiver.
    #[n(3)]
    pub about: Option<u64>,
    /// Its items. A message without items, and without anything else, is a bare signal.
    #[cbor(n(4), with = "crate::bytes_codec::items")]
    pub items: Vec<Bytes>,
    /// What the receiver may read: a long message's bytes.
    #[cbor(n(5), with = "crate::bytes_codec::buffers")]
    pub buffers: Vec<Buffer>,
    /// How the sender learns that the buffers have been read.
    #[n(6)]
    pub completion: Completion,
    /// A return buffer: the receiver may write its answer there.
    #[n(7)]
    pub room: Option<Buffer>,
    /// Whether its sender awaits an answer.
    #[n(9)]
    pub asks: bool,
    /// Long messages of the receiver that the sender has read.
    #[cbor(n(8), with = "crate::bytes_codec::completions")]
    pub taken: Vec<u64>,
    /// An answer of this many bytes lies in the return buffer: the sender wrote it there through memory that both map.
    #[n(10)]
    pub returned: Option<u64>,
}
