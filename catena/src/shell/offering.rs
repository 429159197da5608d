//! What this node serves, and how that changes while it runs: services come, go, and move to other nodes (libRIPC, section III:
//! reconfiguration is the common case).
//!
//! A node that moves a service first stops taking its calls. Calls that have begun are finished; new callers are told to wait, and later where the service is,
//! by a message on the same link, so that nobody has to ask again. So a call never begins at two nodes.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
    time::Duration,
};

use catena_directory::Announcement;
use catena_wire::{Exception, Fault, Hello, Message, NodeRef, ServiceEntry, names};
use futures_util::future::BoxFuture;
use tokio::sync::{Notify, watch};

use super::{Shell, entry_of};
use crate::{Service, blobs, builder::check_service};

/// The most services that one node serves.
const SERVICES_MAX: usize = 4_096;
/// How long a resolver may take to be told what this node serves, before the others are told.
const ANNOUNCE_TIMEOUT: Duration = Duration::from_secs(5);

/// The services of this node.
pub(super) struct Offering {
    services: RwLock<HashMap<String, Arc<Service>>>,
    /// The services that every node offers to its own guests, and announces to nobody.
    built_in: Arc<Service>,
    /// Notified whenever a function of a service that is leaving has ended.
    pub(super) done: Notify,
    /// Signals that resolvers are to be told of a change.
    news: watch::Sender<()>,
}

impl Offering {
    pub(super) fn new(services: HashMap<String, Service>) -> Self {
        let services = services.into_iter().map(|(name, service)| (name, Arc::new(service))).collect();
        let built_in = Arc::new(blobs::service());
        Self { services: RwLock::new(services), built_in, done: Notify::new(), news: watch::Sender::new(()) }
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<String, Arc<Service>>> {
        self.services.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, service: &str) -> Option<Arc<Service>> {
        let own = self.read().get(service).cloned();
        own.or_else(|| (service == self.built_in.name()).then(|| Arc::clone(&self.built_in)))
    }

    fn remove(&self, service: &str) {
        let gone = self.services.write().unwrap_or_else(PoisonError::into_inner).remove(service);
        // Without the lock: the service's functions may own what uses this node when it is dropped.
        drop(gone);
    }

    fn insert(&self, service: Arc<Service>) -> Result<(), Exception> {
        let mut services = self.services.write().unwrap_or_else(PoisonError::into_inner);
        let name = service.name().to_owned();
        if services.contains_key(&name) || name == self.built_in.name() {
            let message = format!("{name} is served here already; withdraw it first");
            return Err(Exception::new(names::PROTOCOL, Fault::Caller, message));
        }
        if services.len() >= SERVICES_MAX {
            let message = format!("this node serves {SERVICES_MAX} services, which is all it takes on");
            return Err(Exception::new(names::OVERLOADED, Fault::Node, message));
        }
        services.insert(name, service);
        Ok(())
    }
}

impl Shell {
    /// The services that this node itself serves.
    pub(crate) fn own_services(&self) -> Vec<ServiceEntry> {
        let entry = |service: &Arc<Service>| entry_of(service, &self.me, self.settings.proxy.as_deref());
        self.offering.read().values().map(entry).collect()
    }

    /// One of them.
    pub(super) fn own_service(&self, name: &str) -> Option<ServiceEntry> {
        self.offering.read().get(name).map(|service| entry_of(service, &self.me, self.settings.proxy.as_deref()))
    }

    /// Their names.
    pub(super) fn own_names(&self) -> Vec<String> {
        self.offering.read().keys().cloned().collect()
    }

    /// Serves one more service from now on, and announces it.
    pub(crate) fn offer_service(self: &Arc<Self>, service: Service) -> Result<ServiceEntry, Exception> {
        check_service(&service).map_err(|why| Exception::new(names::BAD_PARAMETERS, Fault::Caller, why.to_string()))?;
        let entry = entry_of(&service, &self.me, self.settings.proxy.as_deref());
        if service.durable_functions().next().is_some() && self.settings.steps.is_none() {
            let message = format!("{} has durable functions, and this node has no step store", service.name());
            return Err(Exception::new(names::PROTOCOL, Fault::Caller, message));
        }
        let service = Arc::new(service);
        self.offering.insert(Arc::clone(&service))?;
        self.take_calls_of(&service);
        self.tell_of_services();
        Ok(entry)
    }

    fn take_calls_of(&self, service: &Service) {
        let mut core = self.core();
        core.serve(service.name(), service.functions(), service.kinds());
        if self.peers.serve(service.name()) {
            core.note_replica(service.name());
        }
    }

    /// Moves a service away. `take_over` begins when no function of it runs here any more, and returns where the service is then; until that is known, callers
    /// wait. If the service does not drain within `drain_max`, or is not taken over, it stays here.
    pub(crate) async fn migrate(
        self: &Arc<Self>,
        name: &str,
        drain_max: Duration,
        take_over: impl Future<Output = Result<ServiceEntry, Exception>>,
    ) -> Result<(), Exception> {
        let service = self.served(name)?;
        self.leave(name, Some(drain_max));
        // However this ends, even if it is dropped, the service must be served somewhere.
        let mut back = ServeAgain { shell: self, service: Some(service) };
        if !self.drained(name, drain_max).await {
            let message = format!("{name} still runs after {} ms, and stays here", drain_max.as_millis());
            return Err(Exception::new(names::DEADLINE_EXCEEDED, Fault::Service, message));
        }
        let entry = take_over.await?;
        back.service = None;
        self.offering.remove(name);
        self.moved(name, Some(entry));
        Ok(())
    }

    /// Stops serving a service. Waits up to `drain_max` until calls that have begun are finished; if some still run after that, returns an error.
    pub(crate) fn withdraw_service<'a>(
        self: &'a Arc<Self>,
        name: &'a str,
        drain_max: Duration,
    ) -> BoxFuture<'a, Result<Arc<Service>, Exception>> {
        Box::pin(async move {
            let service = self.served(name)?;
            self.stop_serving(name);
            let drained = self.drained(name, drain_max).await;
            self.no_longer_here(name);
            if !drained {
                let message = format!("{name} is withdrawn, and still runs after {} ms", drain_max.as_millis());
                return Err(Exception::new(names::DEADLINE_EXCEEDED, Fault::Service, message));
            }
            Ok(service)
        })
    }

    /// The same for a service without functions, of which nothing can run; unless it was withdrawn before, and another may have its name.
    pub(crate) fn withdraw_at_once(self: &Arc<Self>, service: &Arc<Service>) {
        let name = service.name();
        if self.offering.get(name).is_some_and(|known| Arc::ptr_eq(&known, service)) {
            self.stop_serving(name);
            self.no_longer_here(name);
        }
    }

    fn stop_serving(self: &Arc<Self>, name: &str) {
        self.leave(name, None);
        self.moved(name, None);
    }

    fn no_longer_here(self: &Arc<Self>, name: &str) {
        self.offering.remove(name);
        self.tell_of_services();
    }

    fn served(&self, name: &str) -> Result<Arc<Service>, Exception> {
        let nobody = || {
            let message = format!("{} does not serve {name}", self.me.name);
            Exception::new(names::UNKNOWN_SERVICE, Fault::Caller, message)
        };
        self.offering.get(name).ok_or_else(nobody)
    }

    fn leave(self: &Arc<Self>, name: &str, moving: Option<Duration>) {
        let now = self.now();
        let moving_us = moving.map(|moving| u64::try_from(moving.as_micros()).unwrap_or(u64::MAX));
        self.core().leave_service(now, name, moving_us);
        self.drive();
    }

    /// Waits until no function of the service runs here.
    async fn drained(&self, name: &str, drain_max: Duration) -> bool {
        let drained = async {
            loop {
                let next = self.offering.done.notified();
                tokio::pin!(next);
                // Registered before looking, so that no end is missed in between.
                next.as_mut().enable();
                if self.core().running(name) == 0 {
                    return;
                }
                next.await;
            }
        };
        tokio::time::timeout(drain_max, drained).await.is_ok()
    }

    /// Tells those who may have called the service here, and the resolvers.
    fn moved(self: &Arc<Self>, name: &str, to: Option<ServiceEntry>) {
        let (now, peers) = (self.now(), self.peers.linked());
        self.core().service_moved(now, name, to, &peers);
        self.drive();
        self.tell_of_services();
    }

    /// Announces what this node serves to linked nodes, in the greeting of later links, and to the resolvers.
    fn tell_of_services(self: &Arc<Self>) {
        let services = self.own_services();
        let told = self.endpoint().map_or(Ok(()), |endpoint| endpoint.set_hello(self.hello(&services).into()));
        if let Err(why) = told {
            tracing::warn!(%why, "whoever links from now on is not told of all services");
        }
        for peer in self.peers.linked() {
            self.tell(peer, Message::Offers(services.clone()));
        }
        self.offering.news.send_replace(());
    }

    /// The bytes of this node's greeting.
    pub(crate) fn hello(&self, services: &[ServiceEntry]) -> Vec<u8> {
        let services = services.to_vec();
        Hello { node: self.me.clone(), services, repository: self.settings.repository }.encode()
    }

    /// Keeps the resolvers informed of what this node serves, for as long as the node lives.
    pub(super) fn begin_announcing(self: &Arc<Self>) {
        let (weak, mut news) = (Arc::downgrade(self), self.offering.news.subscribe());
        self.runtime.spawn(async move {
            loop {
                let Some(shell) = weak.upgrade() else { return };
                news.mark_unchanged();
                shell.announce(shell.own_services()).await;
                // Not held while waiting, so that the node can end.
                drop(shell);
                if news.changed().await.is_err() {
                    return;
                }
            }
        });
    }

    /// Tells all resolvers concurrently.
    pub(super) fn announce<'a>(self: &'a Arc<Self>, services: Vec<ServiceEntry>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let own = Announcement { node: self.me.clone(), services };
            let telling = self.resolvers().into_iter().map(|resolver| {
            let own = own.clone();
            async move {
                let told = tokio::time::timeout(ANNOUNCE_TIMEOUT, resolver.announce(&own)).await;
                match told {
                    Ok(Ok(())) => {}
                    Ok(Err(why)) => {
                        tracing::warn!(resolver = resolver.name(), %why, "not told what is served here; trying again")
                    }
                    Err(_) => tracing::warn!(resolver = resolver.name(), "does not take what is served here in time"),
                }
            }
        });
            futures_util::future::join_all(telling).await;
        })
    }

    /// A peer announces what it serves from now on.
    pub(super) fn offered(self: &Arc<Self>, from: &Arc<NodeRef>, entries: Vec<ServiceEntry>) {
        let news = self.peers.offers(from, entries);
        self.learn_services(from, &news);
    }
}

/// When dropped, serves a service again that was about to leave, unless it has left.
struct ServeAgain<'s> {
    shell: &'s Arc<Shell>,
    service: Option<Arc<Service>>,
}

impl Drop for ServeAgain<'_> {
    fn drop(&mut self) {
        let Some(service) = self.service.take() else { return };
        let shell = self.shell;
        shell.take_calls_of(&service);
        let entry = entry_of(&service, &shell.me, shell.settings.proxy.as_deref());
        // Tells the callers that wait that it is here.
        shell.moved(service.name(), Some(entry));
    }
}
