//! Links between nodes: persistent, multiplexed, bounded.
//!
//! `net` knows sockets. It does not know what a message means: a [`Message`] is two opaque byte strings, a head that is
//! delivered as soon as it has arrived and a tail that may come later.
//!
//! What a [`Link`] promises:
//!
//! - **Small is never behind bulk.** A message of at most [`INLINE_BYTES_MAX`] goes as one frame; a larger one is cut into fragments, and small messages
//!   overtake between any two fragments. Medium messages do not wait for large ones either: each [`Lane`] has its own queue, and large messages never take all
//!   of the places under way.
//! - **Order** is kept between small messages of one link only.
//! - **Back-pressure.** [`Link::send`] waits while the lane's queue is full; a message is queued whole or not at all.
//! - **Bounds.** Every queue, wait and size is a named field of [`EndpointConfig`]. Nothing is allocated because a peer
//!   *said* that many bytes would come.
//! - **Blame.** A peer that breaks the protocol loses its link, with a [`LinkError`] that says what came from whom.
//!   Nobody else notices.
//! - **Measured.** [`Link::measured`] says how far the peer is and how fast bytes come from it, shaped or not.
//! - **At most once.** `Ok` from a send means accepted, not delivered. What a lost link had accepted may be lost with it.
//!
//! Not promised: that the peer is who it says. [`Identity::node`] is what the peer claims until a transport proves it.
//!
//! Where things are, from the bottom up, dependencies one way:
//!
//! | module | reason to exist |
//! | --- | --- |
//! | `awake` | for how long nobody attended to a link, and waits that tolerate a stop of the process |
//! | `memory` | the bytes that a whole node may hold, and who holds them |
//! | `frame`, `hello` | bytes to frames and back, pure ([`Frame::decode`] is the entry for fuzzing) |
//! | `assemble` | fragments to messages |
//! | `measure` | round trip and bandwidth, from pongs and from the times at which bytes came, pure |
//! | `outbox` | which frame goes next, pure |
//! | `topology`, `pipe` | shaped links: delay and bandwidth per pair of sites, pure |
//! | `transport`, `near` | byte streams: TCP, and Unix sockets on one host; TLS, QUIC and shared memory fit here |
//! | `ticker` | wakes shaped links on time |
//! | `gather` | one write for all messages that one read has caused |
//! | `burst` | one write for what many senders send right after one another, pure |
//! | `egress` | from the outbox through the shape into the stream |
//! | `link`, `ingress`, `flusher` | one link: its handle and its two tasks |
//! | `endpoint`, `registry`, `slots` | all links of a node: dialling, accepting, closing, and how many there may be |
//! | `log_limit` | log lines that a peer can cause, limited in rate |

mod assemble;
pub mod awake;
mod burst;
mod config;
mod egress;
mod endpoint;
mod error;
mod flusher;
mod frame;
mod gather;
mod hello;
mod ingress;
mod link;
mod log_limit;
mod measure;
mod memory;
mod message;
pub mod near;
mod outbox;
mod pipe;
mod registry;
mod slots;
mod ticker;
mod topology;
pub mod transport;

pub use assemble::{Assembler, NotTaken, Outcome};
pub use config::{EndpointConfig, Limits, MEMORY_BYTES_MIN};
pub use endpoint::{BoundEndpoint, Endpoint};
pub use error::{FrameError, LinkError, NetError, SendRefused};
pub use frame::Frame;
pub use hello::{Hello, VERSION, decode_hello, encode_hello};
pub use link::{Link, LinkStats};
pub use log_limit::LogLimit;
pub use measure::Measured;
pub use memory::{Lease, MemoryBudget, OverBudget};
pub use message::{Handler, INLINE_BYTES_MAX, Identity, Incoming, Lane, MEDIUM_BYTES_MAX, Message, Place};
pub use topology::{LinkShape, Topology};
