//! Where to find a service that is not, or no longer, where somebody looked for it.

use minicbor::{Decode, Encode};

use crate::ServiceEntry;

/// What a node says about a service that it does not serve.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Relocation {
    /// It does not know.
    #[n(0)]
    Unknown,
    /// It served the service and is moving it: within this many microseconds it will say where the service is ([`crate::Message::Moved`]).
    #[n(1)]
    Moving(#[n(0)] u64),
    /// It knows where the service is.
    #[n(2)]
    There(#[n(0)] alloc::boxed::Box<ServiceEntry>),
}

/// What one resolver says about a service, for people.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
#[cbor(array)]
pub struct ResolverAnswer {
    /// The resolver: `mesh`, `file`, `multicast`, `etcd`.
    #[cbor(n(0), with = "crate::bytes_codec::name")]
    pub resolver: alloc::string::String,
    /// Microseconds since it learnt this; `None`: it asked just now.
    #[n(1)]
    pub age_us: Option<u64>,
    /// Where the service is, best first; empty if, as far as it knows, nobody serves it.
    #[cbor(n(2), with = "crate::bytes_codec::sightings")]
    pub at: alloc::vec::Vec<Sighting>,
    /// Why it could not say, or what its answer is based on.
    #[n(3)]
    pub note: Option<alloc::string::String>,
}

/// Where a service is said to be.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
#[cbor(array)]
pub struct Sighting {
    /// The node's name, if it is known.
    #[n(0)]
    pub node: Option<alloc::string::String>,
    /// Where it listens (`host:port`), if it does.
    #[n(1)]
    pub address: Option<alloc::string::String>,
    /// Its run, if it is known.
    #[n(2)]
    pub run: Option<crate::NodeId>,
}
