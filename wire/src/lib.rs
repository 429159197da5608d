//! Catena's data types and their bytes.
//!
//! Everything that two nodes say to each other is a [`Message`]; every payload in it is a [`Value`] (CBOR, RFC 8949), which nodes carry without looking inside.
//! This crate knows only how these are encoded: no I/O, no clock, no allocation of a length that a peer merely claims.
//!
//! Decoding is total: any bytes give a message or a [`WireError`], never a panic.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod batch;
mod budget;
mod bytes_codec;
mod chain;
mod datagram;
mod exception;
mod guest;
mod hello;
mod hop;
mod id;
mod leaving;
mod limits;
mod message;
mod recording;
mod relocation;
mod replies;
mod segment;
mod value;

pub use batch::{MissingOf, OverOf, batch};
pub use budget::Budget;
pub use chain::{ChainHeader, Frame, Listener, Merge, Mode, StepLimits};
pub use datagram::{
    BUFFERS_MAX, Buffer, COMPLETIONS_MAX, Completion, Datagram, Lent, SHORT_BYTES_MAX, SHORT_ITEMS_MAX,
};
pub use exception::{Exception, Fault, names};
pub use guest::{GuestCall, GuestRead, GuestSplit};
pub use hello::Hello;
pub use hop::{BlobBytes, BranchCount, End, Hop, LogLine, NodeRef, Outcome, PossibleDuplicate, StepTrace, Unreached};
pub use id::{Branch, ChainId, Hash, NodeId, StepKey};
pub use leaving::LeavingHop;
pub use limits::{
    BRANCH_DEPTH_MAX, BRANCHES_MAX, CHAINS_OVER_MAX, CONSOLE_LINES_MAX, DECODED_TIMES_MAX, DELEGATES_MAX,
    FUNCTIONS_MAX, INSTANCES_MAX, LISTING_ENTRIES_MAX, LISTING_NAMES_MAX, LISTS_BYTES_MAX, NAME_BYTES_MAX,
    PATH_HOSTS_MAX, REPLIES_MAX, RESOLVERS_MAX, STACK_DEPTH_MAX, TRACE_STEPS_MAX, VALUE_DEPTH_MAX,
};
pub use message::{Brought, Encoded, Kinds, Message, Part, ServiceEntry, Tail, TailCuts, Whereabouts, WireError};
pub use recording::{Asked, RECORDING_BYTES_MAX, RECORDING_EVENTS_MAX, Recording, Told, What};
pub use relocation::{Relocation, ResolverAnswer, Sighting};
pub use replies::{Delegated, Fate, Replies, Right, RightEnd, Window};
pub use segment::{
    At, Order, REACH_BYTES_MAX, Rights, SEGMENT_LISTING_MAX, SegmentEntry, SegmentMessage, SegmentRefusal,
};
pub use value::{Value, ValueError};
