//! Segments by RDMA: [`catena_segment::RemoteMemory`] through libfabric, which is loaded when a program runs and may be missing.
//!
//! | file | what it does |
//! | --- | --- |
//! | `fabric` | the seam's two sides: what is offered, what is reached |
//! | `token` | what an owner tells a partner, and what of it is believed |
//! | `port` | an endpoint in a domain of its own for each partner and segment; accesses, and how they end |
//! | `operation` | an access under way, and who waits for it |
//! | `pump` | the thread that lets providers go on |
//! | `provider`, `library`, `ffi` | libfabric: a provider opened, the library loaded, its tables |
//!
//! A partner reaches one registration and nothing else: each has an endpoint and a domain of its own, a key drawn at random where the provider lets us choose,
//! and no more access than was allowed. Access is revoked by closing the endpoint, which also ends transfers that are half received.

mod fabric;
#[doc(hidden)]
pub mod ffi;
mod library;
mod operation;
mod port;
mod provider;
mod pump;
mod token;

pub use fabric::{Fabric, Terms};
