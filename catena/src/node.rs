//! A node serves its services, hosts chains that pass through, and is a client itself.

use std::{sync::Arc, time::Duration};

use catena_core::segments::Export;
use catena_wire::{Exception, NodeId, NodeRef, ServiceEntry};

use crate::{Client, Mailbox, NodeBuilder, Segment, Service, shell::Shell};

/// A running node. Cheap to clone; it runs until [`Node::close`], or until the last clone is dropped.
#[derive(Clone)]
pub struct Node {
    shell: Arc<Shell>,
}

impl Node {
    /// Begins the settings of a node. Its name is shown to people, and in the path of hosts in exceptions.
    #[must_use]
    pub fn builder(name: impl Into<String>) -> NodeBuilder {
        NodeBuilder::new(name)
    }

    pub(crate) const fn new(shell: Arc<Shell>) -> Self {
        Self { shell }
    }

    /// The node's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shell.me.name
    }

    /// Where other nodes reach it (`host:port`): the advertised address, else the one on which it listens; `None` if it only dials.
    #[must_use]
    pub fn address(&self) -> Option<&str> {
        self.shell.me.address.as_deref()
    }

    /// A client that calls from this node: chains that it begins have this node as their origin.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::new(Arc::clone(&self.shell))
    }

    /// The ID of this run of the node: owners of segments give rights to this ID.
    #[must_use]
    pub fn id(&self) -> NodeId {
        self.shell.me.id
    }

    /// The node's ID, name and address: what the partner of a grant needs besides the grant.
    #[must_use]
    pub fn me(&self) -> &NodeRef {
        &self.shell.me
    }

    /// Exports `bytes` bytes of zeros as a segment of this name. Everybody's rights are `how.anyone`; [`Segment::allow`] gives one importer its own.
    ///
    /// # Errors
    /// `BadParameters`: the name is taken, empty or longer than 256 bytes; `Overloaded`: a limit of [`crate::SegmentPolicy`].
    pub fn export(&self, name: &str, bytes: u64, how: Export) -> Result<Segment, Exception> {
        Segment::export(&self.shell.segments, name, bytes, how)
    }

    /// Takes messages for a service ID from now on: see [`Client::mailbox`].
    ///
    /// # Errors
    /// As [`Client::mailbox`].
    pub fn mailbox(&self, service: &str) -> Result<Mailbox, Exception> {
        Mailbox::open(&self.shell, service)
    }

    /// How many chains are here, how many plain calls wait, and how many service functions run.
    #[must_use]
    pub fn load(&self) -> (usize, usize, usize) {
        self.shell.load()
    }

    /// Serves one more service from now on, and announces it to all linked nodes and to this node's resolvers.
    ///
    /// # Errors
    /// A service of that name is served here already, or it is one with which a node could not start.
    pub fn offer(&self, service: Service) -> Result<ServiceEntry, Exception> {
        self.shell.offer_service(service)
    }

    /// Stops serving a service. Calls that have begun are finished; new callers are sent to another instance, if there is one.
    ///
    /// # Errors
    /// It is not served here; or it was withdrawn, but some of its functions still run after `drain_max`.
    pub async fn withdraw(&self, service: &str, drain_max: Duration) -> Result<(), Exception> {
        self.shell.withdraw_service(service, drain_max).await.map(drop)
    }

    /// Moves a service to another node. No call is lost, and none is done twice: this node takes no more of its calls, finishes those that have begun, and then
    /// runs `take_over`, which makes the other node offer the service ([`Node::offer`]), with whatever state it has. Then all linked nodes, those that called
    /// meanwhile and the resolvers are told where the service is.
    ///
    /// `take_over` returns what the other node offers. From the first call that has to wait until then, callers see a pause. If `take_over` fails, or calls
    /// that have begun are not finished within `drain_max`, the service stays here.
    ///
    /// # Errors
    /// It is not served here, its calls were not finished in time, or it was not taken over.
    pub async fn migrate_service(
        &self,
        service: &str,
        drain_max: Duration,
        take_over: impl Future<Output = Result<ServiceEntry, Exception>>,
    ) -> Result<(), Exception> {
        self.shell.migrate(service, drain_max, take_over).await
    }

    /// Stops accepting, sends what is queued, and closes the links within `grace`.
    pub async fn close(&self, grace: Duration) {
        self.shell.close(grace).await;
    }
}
