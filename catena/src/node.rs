//! A node: serves its services, hosts chains that pass, and is a client itself.

use std::{sync::Arc, time::Duration};

use catena_core::segments::Export;
use catena_wire::{Exception, NodeId, NodeRef};

use crate::{Client, NodeBuilder, Segment, shell::Shell};

/// A running node. Cheap to clone; it runs until [`Node::close`], or until the last clone is dropped.
#[derive(Clone)]
pub struct Node {
    shell: Arc<Shell>,
}

impl Node {
    /// Begins the settings of a node. Its name is for people, and for the path of hosts in exceptions.
    #[must_use]
    pub fn builder(name: impl Into<String>) -> NodeBuilder {
        NodeBuilder::new(name)
    }

    pub(crate) const fn new(shell: Arc<Shell>) -> Self {
        Self { shell }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shell.me.name
    }

    /// Where other nodes reach it (`host:port`): what it advertises, else where it listens; `None` if it only dials.
    #[must_use]
    pub fn address(&self) -> Option<&str> {
        self.shell.me.address.as_deref()
    }

    /// A client that calls from this node: chains begun with it begin here.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::new(Arc::clone(&self.shell))
    }

    /// This run of it: what owners of segments give rights to.
    #[must_use]
    pub fn id(&self) -> NodeId {
        self.shell.me.id
    }

    /// Who it is and where it is reached: what a grant's partner needs beside the grant.
    #[must_use]
    pub fn me(&self) -> &NodeRef {
        &self.shell.me
    }

    /// Exports so many bytes of zeros by a name. Rights are `how.anyone`'s, or each importer's own: [`Segment::allow`].
    ///
    /// # Errors
    /// `BadParameters`: the name is taken, empty or longer than 256 bytes; `Overloaded`: a limit of [`crate::SegmentPolicy`].
    pub fn export(&self, name: &str, bytes: u64, how: Export) -> Result<Segment, Exception> {
        Segment::export(&self.shell.segments, name, bytes, how)
    }

    /// Chains here, plain calls waiting, service functions running.
    #[must_use]
    pub fn load(&self) -> (usize, usize, usize) {
        self.shell.load()
    }

    /// Stops accepting, sends what is queued, and closes the links within `grace`.
    pub async fn close(&self, grace: Duration) {
        self.shell.close(grace).await;
    }
}
