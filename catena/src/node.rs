//! A node: serves its services, hosts chains that pass, and is a client itself.

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

    /// Takes messages for a service ID from now on: [`Client::mailbox`].
    ///
    /// # Errors
    /// As there.
    pub fn mailbox(&self, service: &str) -> Result<Mailbox, Exception> {
        Mailbox::open(&self.shell, service)
    }

    /// Chains here, plain calls waiting, service functions running.
    #[must_use]
    pub fn load(&self) -> (usize, usize, usize) {
        self.shell.load()
    }

    /// Serves one more service from now on, and tells everybody who is linked, and its resolvers.
    ///
    /// # Errors
    /// One of that name is served here already; or it is no service that a node can start with.
    pub fn offer(&self, service: Service) -> Result<ServiceEntry, Exception> {
        self.shell.offer_service(service)
    }

    /// Serves it no longer. What has begun is finished; whoever calls it now is sent to where else it is.
    ///
    /// # Errors
    /// It is not served here; or it is withdrawn, and something of it still runs after `drain_max`.
    pub async fn withdraw(&self, service: &str, drain_max: Duration) -> Result<(), Exception> {
        self.shell.withdraw_service(service, drain_max).await.map(drop)
    }

    /// Moves a service to another node. No call of it is lost, and none is done twice: this node takes no more of its calls, finishes what has begun, and has
    /// `take_over` make the other node offer it ([`Node::offer`]), with whatever state it has; then whoever called it meanwhile, or is linked, is told where it is,
    /// and so are the resolvers.
    ///
    /// `take_over` returns what the other node offers; the time until then, from the first call that waits, is the pause that callers see. If it fails, or what has
    /// begun is not finished within `drain_max`, the service stays here.
    ///
    /// # Errors
    /// It is not served here, did not come to rest, or was not taken over.
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
