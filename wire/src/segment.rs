//! What nodes say about segments: remote memory (Separating Data and Control Transfer, section 3.1).
//!
//! Bulk bytes are the message's tail. Every request names the segment by number and generation; the owner answers it with the requester's number for it.

use alloc::{boxed::Box, string::String, vec::Vec};
use bytes::Bytes;
use minicbor::{Decode, Encode};

use crate::{Buffer, Datagram, NodeRef};

/// Segments in one listing.
pub const SEGMENT_LISTING_MAX: usize = 1_024;

/// What an owner tells of how its memory is reached, in bytes.
pub const REACH_BYTES_MAX: usize = 512;

/// A place in a segment, and by what right.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
#[cbor(array)]
pub struct At {
    /// The segment's number at its owner.
    #[n(0)]
    pub number: u32,
    /// Which of the segments that had the number: generations only rise.
    #[n(1)]
    pub generation: u64,
    /// The first byte.
    #[n(2)]
    pub offset: u64,
    /// The grant that allows it; `None`: the importer's own rights.
    #[n(3)]
    pub grant: Option<u64>,
}

/// How bytes are meant: as they lie in memory, or as words in this order, which the owner turns if its own is another (section 3.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub enum Order {
    /// Bytes, as they are.
    #[default]
    #[n(0)]
    Bytes,
    /// Words of so many bytes (2, 4 or 8), the lowest byte first.
    #[n(1)]
    Little(#[n(0)] u8),
    /// The same, the highest byte first.
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
    /// What whoever asked may do: see [`Rights`].
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
    /// All of these.
    pub const ALL: Self = Self(7);

    /// These and those.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// These without those.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether all of `other` are among them.
    #[must_use]
    pub const fn include(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The bits, for a table.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0 & 7
    }

    /// From such bits; those that mean nothing are dropped.
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
    /// The range leaves the segment, which has so many bytes, or the grant's range.
    #[n(4)]
    OutOfBounds(#[n(0)] u64),
    /// The importer lacks these rights.
    #[n(5)]
    NoRight(#[n(0)] Rights),
    /// Nobody may write at this time.
    #[n(6)]
    WriteInhibited,
    /// Words begin at multiples of their width, which is 4 or 8 bytes to swap and 2, 4 or 8 to turn.
    #[n(7)]
    Unaligned,
    /// More bytes than one request may ask for, which is so many.
    #[n(8)]
    TooLarge(#[n(0)] u64),
    /// The owner, or this node, has no room for more of it at this time.
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
    /// The answer was not one to what was asked.
    #[n(14)]
    BadAnswer,
    /// These bytes were pushed to whoever asks: they are there, or on their way. Asked for again, they are sent.
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
        /// From here.
        #[n(1)]
        at: At,
        /// So many bytes.
        #[n(2)]
        count: u32,
        /// The owner's notify bit.
        #[n(3)]
        notify: bool,
        /// How they are meant.
        #[n(4)]
        order: Order,
        /// Not before so many writes of this link were done.
        #[n(5)]
        after: u64,
        /// The requester is on the owner's host, as far as it knows, and takes them from memory that is lent to it, too.
        #[n(6)]
        maps: bool,
    },
    /// WRITE: put these bytes there. Not answered: see `Flush` and `NotWritten`.
    #[n(1)]
    Write {
        /// Counts the writes of this link, from 0: they are done in this order.
        #[n(0)]
        turn: u64,
        /// There.
        #[n(1)]
        at: At,
        /// The owner's notify bit.
        #[n(2)]
        notify: bool,
        /// How they are meant.
        #[n(3)]
        order: Order,
        /// In the tail.
        #[cbor(skip)]
        data: Bytes,
    },
    /// CAS: put `new` in the place of `old`.
    #[n(2)]
    Cas {
        /// The requester's number for it.
        #[n(0)]
        id: u64,
        /// There.
        #[n(1)]
        at: At,
        /// 4 or 8 bytes.
        #[n(2)]
        width: u8,
        /// What has to be there, as a number of the owner's byte order.
        #[n(3)]
        old: u64,
        /// What is to be there.
        #[n(4)]
        new: u64,
        /// The owner's notify bit.
        #[n(5)]
        notify: bool,
        /// Not before so many writes of this link were done.
        #[n(6)]
        after: u64,
    },
    /// Tell me when so many writes of this link have been done, or refused.
    #[n(3)]
    Flush(#[n(0)] u64, #[n(1)] u64),
    /// These are the bytes; in the tail.
    #[n(4)]
    Data(#[n(0)] u64, #[cbor(skip)] Bytes),
    /// This was there: the swap was done if it is what was asked for.
    #[n(5)]
    Was(#[n(0)] u64, #[n(1)] u64),
    /// They have been.
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
    /// This one.
    #[n(10)]
    Imported(#[n(0)] u64, #[n(1)] SegmentEntry),
    /// Share the segment's memory with me, on this host.
    #[n(11)]
    Attach {
        /// The requester's number for it.
        #[n(0)]
        id: u64,
        /// The segment; its offset says nothing.
        #[n(1)]
        at: At,
        /// The host that the requester is on.
        #[cbor(n(2), with = "crate::bytes_codec::number")]
        host: u128,
        /// Whether it means to write.
        #[n(3)]
        write: bool,
    },
    /// Fetch it with this ticket, which is good once, at the owner's door.
    #[n(12)]
    Attached(#[n(0)] u64, #[cbor(n(1), with = "crate::bytes_codec::number")] u128),
    /// Which segments are there, from this number on?
    #[n(13)]
    List(#[n(0)] u64, #[n(1)] u32),
    /// These, of which the requester may do something with each.
    #[n(14)]
    Listing(#[n(0)] u64, #[cbor(n(1), with = "crate::bytes_codec::segments")] Vec<SegmentEntry>),
    /// A message between services: dropped in silence where there is no room (libRIPC, section III.A).
    #[n(15)]
    Short(#[n(0)] Box<Datagram>),
    /// The buffers of the long messages of these numbers have been read, or will not be.
    #[n(16)]
    Taken(#[cbor(n(0), with = "crate::bytes_codec::completions")] Vec<u64>),
    /// A message came here for this service, which nobody here takes messages for: look it up anew.
    #[n(17)]
    NobodyHere(#[cbor(n(0), with = "crate::bytes_codec::name")] String),
    /// These are the bytes, in memory that is lent to the requester: held until it says that it has taken what has the second number.
    #[n(18)]
    Lent(#[n(0)] u64, #[n(1)] u64, #[n(2)] Buffer),
    /// Let me reach the segment's memory from another host without messages.
    #[n(19)]
    Reach {
        /// The requester's number for it.
        #[n(0)]
        id: u64,
        /// The segment; its offset says nothing.
        #[n(1)]
        at: At,
        /// By what: both have to have the same.
        #[cbor(n(2), with = "crate::bytes_codec::name")]
        by: String,
        /// Whether it means to write.
        #[n(3)]
        write: bool,
    },
    /// So: what it says is between the two sides of what was asked for.
    #[n(20)]
    Reachable {
        /// The requester's number for it.
        #[n(0)]
        id: u64,
        /// How.
        #[cbor(n(1), with = "crate::bytes_codec::reach")]
        token: Vec<u8>,
        /// Whether the requester may write and swap.
        #[n(2)]
        write: bool,
    },
    /// A call, or what a call returned, lies in memory that is lent to the receiver. It is held until the receiver says that it has taken what has this number.
    #[n(21)]
    Carried(#[n(0)] u64, #[n(1)] Buffer),
    /// What has this number was not looked at, and cannot be mapped here: send it by the link.
    #[n(22)]
    NotMapped(#[n(0)] u64),
    /// The first bytes of a range of yours go beside a call to a node that is about to READ them: send them to it.
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
    /// These bytes of the sender's you are about to READ; in the tail.
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
