//! The interfaces of everything that finds services, and of what stores functions for nodes that forget them.
//!
//! A service is addressed by its ID, wherever it is (libRIPC, section III). A [`Resolver`] says where that is: a file, a directory, or whoever answers on the
//! local network. Its answer is a hint. The node at the address says itself who it is and what it serves, and a call that reaches a node which does not serve
//! it is sent on with nothing done; so a wrong hint costs time but never has an effect.
#![forbid(unsafe_code)]

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
pub use catena_wire::{Hash, Kinds, NodeId, NodeRef, ServiceEntry};

/// Where a service is, as a resolver has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Location {
    /// All that the node says of itself: used as it is, and verified by use.
    Known(Box<ServiceEntry>),
    /// Some node at this address: it is asked what it is, before anything is sent to it.
    At {
        /// `host:port`.
        address: String,
        /// The node's name, if it is known.
        node: Option<String>,
        /// The node's run, if it is known: a node there with another run is not the one that was meant.
        run: Option<NodeId>,
    },
}

impl Location {
    /// The run of the node, if it is known.
    #[must_use]
    pub fn run(&self) -> Option<NodeId> {
        match self {
            Self::Known(entry) => Some(entry.node.id),
            Self::At { run, .. } => *run,
        }
    }
}

/// What a resolver says of one service.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Answer {
    /// Where it is, the best first; empty if it knows of nobody who serves it.
    pub at: Vec<Location>,
    /// How long ago it learnt that; `None`: it asked just now.
    pub age: Option<Duration>,
    /// How long that may be believed; `None`: as long as the node believes any name.
    pub ttl: Option<Duration>,
    /// What people should know about the answer, for example that the directory is down and this is its last known state.
    pub note: Option<String>,
}

/// Why a resolver cannot say anything: which, what is wrong, and what to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResolveError(pub String);

impl std::fmt::Display for ResolveError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ResolveError {}

/// What a node tells of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Announcement {
    /// The node.
    pub node: NodeRef,
    /// Everything that it serves: services missing from this list are withdrawn.
    pub services: Vec<ServiceEntry>,
}

/// Called with the name of a service about which a resolver has something new to say.
pub type Changed = Arc<dyn Fn(&str) + Send + Sync>;

/// One way to find services. Several are asked in turn, until one knows.
#[async_trait]
pub trait Resolver: Send + Sync + 'static {
    /// A short word for people and for the node's file: `mesh`, `file`, `multicast`, `etcd`.
    fn name(&self) -> &str;

    /// Where a service is. `avoid`: runs that did not answer, or do not serve it; if only those are known, the resolver looks further where it can.
    ///
    /// # Errors
    /// It cannot tell. That nobody serves the service is no error.
    async fn resolve(&self, service: &str, avoid: &[NodeId]) -> Result<Answer, ResolveError>;

    /// Announces what this node serves from now on, replacing earlier announcements, and keeps announcing it for as long as the resolver lives. Without
    /// services, it withdraws everything.
    ///
    /// # Errors
    /// It could not be announced yet; the resolver goes on trying for as long as it lives.
    async fn announce(&self, own: &Announcement) -> Result<(), ResolveError> {
        let _ = own;
        Ok(())
    }

    /// Calls `changed` from now on whenever there is something new about a service.
    fn watch(&self, changed: Changed) {
        let _ = changed;
    }

    /// Whether the addresses it returns were chosen by the node's owner. Of addresses chosen by strangers, only a few are dialled.
    fn is_trusted(&self) -> bool {
        true
    }
}

/// A place that keeps functions by their hash, beyond the life of every node (rpc-chains section 3.2: the repository).
#[async_trait]
pub trait Registry: Send + Sync + 'static {
    /// What it is, for people: its address.
    fn name(&self) -> &str;

    /// A function. Whoever gets it checks it against its hash.
    ///
    /// # Errors
    /// The registry cannot be asked. That it does not have it is no error.
    async fn get(&self, code: Hash, bytes_max: usize) -> Result<Option<Bytes>, ResolveError>;

    /// Keeps a function there.
    ///
    /// # Errors
    /// It was not kept.
    async fn put(&self, code: Hash, bytes: Bytes) -> Result<(), ResolveError>;
}
