//! What nodes say about segments: remote memory (Separating Data and Control Transfer, section 3.1).
//!
//! Bulk bytes are the message's tail. Every request names the segment by number and generation; the owner answers it with the requester's number for it.

use alloc::{boxed::Box, string::String, vec::Vec};
use bytes::Bytes;
use minicbor::{Decode, Encode};

use crate::{Buffer, Datagram, NodeRef};

/// Segments in one listing.
pub const SEGMENT_LISTING_MAX: usize = 1_024;

/// Limit on what an owner says about how its memory is reached, in bytes.
pub const REACH_BYTES_MAX: usize = 512;

/// A place in a segment, and the right by which it is accessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
#[cbor(array)]
pub struct At {
    /// The segment's number at its owner.
    #[n(0)]
    pub number: u32,
    /// Distinguishes this segment from others that had the number: generations only rise.
    #[n(1)]
    pub generation: u64,
    /// The first byte.
    #[n(2)]
    pub offset: u64,
    /// The grant that allows it; `None`: the importer's own rights.
    #[n(3)]
    pub grant: Option<u64>,
}

/// How bytes are meant: as they lie in memory, or as words in this byte order, which the owner converts if its own is another (section 3.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub enum Order {
    /// Bytes, as they are.
    #[default]
    #[n(0)]
    Bytes,
    /// Words of this many bytes (2, 4 or 8), little-endian.
    #[n(1)]
    Little(#[n(0)] u8),
    /// The same, big-endian.
    #[n(2)]
    Big(#[n(0)] u8),
}

/// A segment as its owner describes it.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
#[cbor(array)]
pub struct SegmentEntry {
    /// Its name at its owner.
    #[cbor(n(0), with = "crate::bytes_codec::name")]
    pub name: String,
    /// Its number.
    #[n(1)]
    pub number: u32,
    /// Its generation.
    #[n(2)]
    pub generation: u64,
    /// Its size.
    #[n(3)]
    pub bytes: u64,
    /// What the importer that asked may do: see [`Rights`].
    #[n(4)]
    pub rights: Rights,
}

/// What an importer may do, in bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Encode, Decode)]
#[cbor(transparent)]
pub struct Rights(#[n(0)] u8);

impl Rights {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Read bytes.
    pub const READ: Self = Self(1);
    /// Write bytes.
    pub const WRITE: Self = Self(2);
    /// Compare and swap words.
    pub const CAS: Self = Self(4);
    /// All of the above.
    pub const ALL: Self = Self(7);

    /// The rights that are in either.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// These rights without those of `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether these rights include all of `other`.
    #[must_use]
    pub const fn include(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The bits, for a table.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0 & 7
    }

    /// The rights of such bits; bits without a meaning are dropped.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & 7)
    }
}

/// Why something was not done with a segment. Unless it says otherwise, no byte was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub enum SegmentRefusal {
    /// Nobody exports this name here.
    #[n(0)]
    UnknownName,
    /// The owner has revoked the segment.
    #[n(1)]
    Revoked,
    /// The generation is an old one: another segment has the number now.
    #[n(2)]
    Stale,
    /// The owner never exported what was asked for.
    #[n(3)]
    NeverExported,
    /// The range leaves the grant's range, or the segment. The number is how many bytes that has.
    #[n(4)]
    OutOfBounds(#[n(0)] u64),
    /// The importer lacks these rights.
    #[n(5)]
    NoRight(#[n(0)] Rights),
    /// Nobody may write at this time.
    #[n(6)]
    WriteInhibited,
    /// Words begin at multiples of their width: 4 or 8 bytes to swap, 2, 4 or 8 to convert.
    #[n(7)]
    Unaligned,
    /// More bytes than one request may ask for; the limit.
    #[n(8)]
    TooLarge(#[n(0)] u64),
    /// The owner, or this node, has no room for more at this time.
    #[n(9)]
    Overloaded,
    /// The grant is unknown, spent, over, or for somebody else.
    #[n(10)]
    GrantVoid,
    /// The two nodes do not share memory: they are on different hosts, or the owner does not share.
    #[n(11)]
    NotShared,
    /// No answer came in time. What was to be done may have been done.
    #[n(12)]
    NoAnswer,
    /// The link to the owner was lost. What was to be done may have been done.
    #[n(13)]
    OwnerLost,
    /// The answer does not fit the request.
    #[n(14)]
    BadAnswer,
    /// These bytes were pushed to the node that asks: they are there, or on their way. If they are asked for again, they are sent.
    #[n(15)]
    Pushed,
}

/// One thing said about segments.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum SegmentMessage {
    /// READ: send me these bytes.
    #[n(0)]
    Read {
        /// The requester's number for it.
        #[n(0)]
        id: u64,
        /// The first byte to read.
        #[n(1)]
        at: At,
        /// How many bytes.
        #[n(2)]
        count: u32,
        /// Whether the owner is to be notified.
        #[n(3)]
        notify: bool,
        /// How the bytes are meant.
        #[n(4)]
        order: Order,
        /// Not before this many writes of this link are done.
        #[n(5)]
        after: u64,
        /// Whether the requester also accepts the bytes in memory lent to it: it is on the owner's host, as far as it knows.
        #[n(6)]
        maps: bool,
    },
    /// WRITE: put these bytes there. Not answered: see `Flush` and `NotWritten`.
    #[n(1)]
    Write {
        /// Counts the writes of this link, from 0: they are done in this order.
        #[n(0)]
        turn: u64,
        /// The first byte to write.
        #[n(1)]
        at: At,
        /// Whether the owner is to be notified.
        #[n(2)]
        notify: bool,
        /// How the bytes are meant.
        #[n(3)]
        order: Order,
        /// The bytes; in the tail.
        #[cbor(skip)]
        data: Bytes,
    },
    /// CAS: put `new` in place of `old`, if `old` is there.
    #[n(2)]
    Cas {
        /// The requester's number for it.
        #[n(0)]
        id: u64,
        /// Where the word is.
        #[n(1)]
        at: At,
        /// 4 or 8 bytes.
        #[n(2)]
        width: u8,
        /// The value that must be there, as a number in the owner's byte order.
        #[n(3)]
        old: u64,
        /// The value to put there.
        #[n(4)]
        new: u64,
        /// Whether the owner is to be notified.
        #[n(5)]
        notify: bool,
        /// Not before this many writes of this link are done.
        #[n(6)]
        after: u64,
    },
    /// Tell me when this many writes of this link have been done, or refused.
    #[n(3)]
    Flush(#[n(0)] u64, #[n(1)] u64),
    /// The bytes that were requested; in the tail.
    #[n(4)]
    Data(#[n(0)] u64, #[cbor(skip)] Bytes),
    /// What was there before: the swap was done if that is the `old` value of the request.
    #[n(5)]
    Was(#[n(0)] u64, #[n(1)] u64),
    /// The writes that a flush is about have been done, or refused.
    #[n(6)]
    Flushed(#[n(0)] u64),
    /// The request of this number is not done.
    #[n(7)]
    Refused(#[n(0)] u64, #[n(1)] SegmentRefusal),
    /// The write of this turn is not done.
    #[n(8)]
    NotWritten(#[n(0)] u64, #[n(1)] SegmentRefusal),
    /// Which segment has this name? (Section 4.2: a look-up with control transfer.)
    #[n(9)]
    Import(#[n(0)] u64, #[cbor(n(1), with = "crate::bytes_codec::name")] String),
    /// The segment that was asked for.
    #[n(10)]
    Imported(#[n(0)] u64, #[n(1)] SegmentEntry),
    /// Share the segment's memory with me, on this host.
    #[n(11)]
    Attach {
        /// The requester's number for it.
        #[n(0)]
        id: u64,
        /// The segment; the offset has no meaning.
        #[n(1)]
        at: At,
        /// The host that the requester is on.
        #[cbor(n(2), with = "crate::bytes_codec::number")]
        host: u128,
        /// Whether it means to write.
        #[n(3)]
        write: bool,
    },
    /// Fetch the memory at the owner's door with this ticket, which is valid once.
    #[n(12)]
    Attached(#[n(0)] u64, #[cbor(n(1), with = "crate::bytes_codec::number")] u128),
    /// Which segments are there, from this number on?
    #[n(13)]
    List(#[n(0)] u64, #[n(1)] u32),
    /// Segments, on each of which the requester has some right.
    #[n(14)]
    Listing(#[n(0)] u64, #[cbor(n(1), with = "crate::bytes_codec::segments")] Vec<SegmentEntry>),
    /// A message between services: dropped in silence where there is no room (libRIPC, section III.A).
    #[n(15)]
    Short(#[n(0)] Box<Datagram>),
    /// The buffers of the long messages of these numbers have been read, or will not be.
    #[n(16)]
    Taken(#[cbor(n(0), with = "crate::bytes_codec::completions")] Vec<u64>),
    /// A message came for this service, but nobody here takes its messages: look the service up anew.
    #[n(17)]
    NobodyHere(#[cbor(n(0), with = "crate::bytes_codec::name")] String),
    /// The bytes are in memory that is lent to the requester; held until the requester reports the second number as taken.
    #[n(18)]
    Lent(#[n(0)] u64, #[n(1)] u64, #[n(2)] Buffer),
    /// Let me reach the segment's memory from another host without messages.
    #[n(19)]
    Reach {
        /// The requester's number for it.
        #[n(0)]
        id: u64,
        /// The segment; the offset has no meaning.
        #[n(1)]
        at: At,
        /// The remote memory by which to reach it; both nodes need to have it.
        #[cbor(n(2), with = "crate::bytes_codec::name")]
        by: String,
        /// Whether it means to write.
        #[n(3)]
        write: bool,
    },
    /// How the memory is reached: the token concerns only the two sides of the remote memory that was asked for.
    #[n(20)]
    Reachable {
        /// The requester's number for it.
        #[n(0)]
        id: u64,
        /// What to tell the requester's side.
        #[cbor(n(1), with = "crate::bytes_codec::reach")]
        token: Vec<u8>,
        /// Whether the requester may write and swap.
        #[n(2)]
        write: bool,
    },
    /// A call, or the result of one, lies in memory that is lent to the receiver; held until the receiver reports this number as taken.
    #[n(21)]
    Carried(#[n(0)] u64, #[n(1)] Buffer),
    /// The message of this number cannot be mapped here, and was not looked at: send it by the link.
    #[n(22)]
    NotMapped(#[n(0)] u64),
    /// A call goes to a node that is about to READ a range of yours: send it the range's first bytes.
    #[n(23)]
    Push {
        /// Where the range begins, and the grant by which it will be read.
        #[n(0)]
        at: At,
        /// How many bytes it has.
        #[n(1)]
        bytes: u64,
        /// Where the call goes.
        #[n(2)]
        to: NodeRef,
    },
    /// Bytes of the sender that you are about to READ; in the tail.
    #[n(24)]
    Pushed(#[n(0)] At, #[cbor(skip)] Bytes),
}

impl SegmentMessage {
    /// The bytes that are the message's tail.
    pub(crate) fn into_tail(self) -> Bytes {
        match self {
            Self::Write { data, .. } | Self::Data(_, data) | Self::Pushed(_, data) => data,
            _ => Bytes::new(),
        }
    }

    pub(crate) const fn has_tail(&self) -> bool {
        matches!(self, Self::Write { .. } | Self::Data(..) | Self::Pushed(..))
    }

    pub(crate) fn attach_tail(&mut self, tail: Bytes) {
        if let Self::Write { data, .. } | Self::Data(_, data) | Self::Pushed(_, data) = self {
            *data = tail;
        }
    }
}
