//! Service IDs in etcd: a directory for meshes that span several networks.
//!
//! Each node writes what it serves under a lease, which ends when the node does; a watch keeps a local copy of what all nodes wrote, so that finding a service
//! costs no request. While etcd is down, the copy answers, with its age. When etcd is back, its contents replace the copy, and this node writes its own
//! services again, since etcd's data may be old. An entry of a node that is gone does no harm: a node at its address now is another run.
#![forbid(unsafe_code)]

mod answer;
mod api;
mod mirror;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use api::Api;
use async_trait::async_trait;
use catena_directory::{Announcement, Answer, Changed, Location, NodeId, ResolveError, Resolver};
use mirror::{ENTRIES_MAX, Mirror, key_of};
use tokio::{
    sync::{Notify, watch},
    task::AbortHandle,
};

/// The well-known ID under which nodes that know an etcd announce its address by multicast.
pub const WELL_KNOWN: &str = "catena.directory/etcd";
/// How long an entry outlives its node.
const LEASE: Duration = Duration::from_secs(10);
/// How often leases are kept alive.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(3);
/// How long to wait after a failure: at first, and at most.
const PAUSE_MS: u64 = 100;
const PAUSE_MS_MAX: u64 = 5_000;
/// How long a lookup waits until the copy has been filled for the first time.
const FIRST_WAIT: Duration = Duration::from_secs(3);

/// Where etcd is, and where in it the services are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EtcdConfig {
    /// `http://host:port`, one or several of one cluster.
    pub endpoints: Vec<String>,
    /// What all keys begin with.
    pub prefix: String,
    /// How long an entry outlives its node.
    pub lease: Duration,
}

impl EtcdConfig {
    /// At these endpoints, with keys under `/catena/services`.
    #[must_use]
    pub fn new(endpoints: Vec<String>) -> Self {
        Self { endpoints, prefix: "/catena/services".into(), lease: LEASE }
    }
}

/// The services that etcd knows of.
pub struct EtcdResolver {
    inner: Arc<Inner>,
    tasks: [AbortHandle; 2],
}

struct Inner {
    api: OnceLock<Api>,
    prefix: String,
    lease: Duration,
    mirror: Mutex<Mirror>,
    /// Set when the copy has been filled for the first time, or could not be.
    first: watch::Sender<bool>,
    watcher: OnceLock<Changed>,
    /// What is to be written, by key.
    own: Mutex<BTreeMap<String, Vec<u8>>>,
    news: Notify,
    /// Rises each time that everything in `own` has been written.
    written: watch::Sender<u64>,
    /// The lease under which it was written.
    granted: Mutex<Option<String>>,
}

impl EtcdResolver {
    /// Begins; etcd need not be up. Needs a tokio runtime.
    ///
    /// # Errors
    /// An endpoint is no address.
    pub fn open(config: EtcdConfig) -> Result<Self, ResolveError> {
        let api = Api::new(checked(config.endpoints)?)?;
        let inner = Inner::new(config.prefix, config.lease);
        let _ = inner.api.set(api);
        Ok(Self::start(inner, std::future::ready(())))
    }

    /// Begins without knowing where etcd is: `found` finds out, however long that takes.
    pub fn find(found: impl Future<Output = Vec<String>> + Send + 'static) -> Self {
        let EtcdConfig { prefix, lease, .. } = EtcdConfig::new(Vec::new());
        let inner = Inner::new(prefix, lease);
        let finding = Arc::clone(&inner);
        Self::start(inner, async move { finding.take(found.await) })
    }

    fn start(inner: Arc<Inner>, before: impl Future<Output = ()> + Send + 'static) -> Self {
        let (watching, writing) = (Arc::clone(&inner), Arc::clone(&inner));
        let watching = tokio::spawn(async move {
            before.await;
            watching.keep_watching().await;
        });
        let writing = tokio::spawn(async move { writing.keep_writing().await });
        Self { inner, tasks: [watching.abort_handle(), writing.abort_handle()] }
    }
}

impl Drop for EtcdResolver {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

fn checked(endpoints: Vec<String>) -> Result<Vec<String>, ResolveError> {
    if endpoints.is_empty() {
        return Err(ResolveError("no endpoint of etcd is named; write one as http://host:2379".into()));
    }
    match endpoints.iter().find(|endpoint| !is_endpoint(endpoint)) {
        Some(wrong) => Err(ResolveError(format!("{wrong:?} is no endpoint of etcd; write it as http://host:2379"))),
        None => Ok(endpoints),
    }
}

/// Whether this has the form of an endpoint: `http://host:port`.
#[must_use]
pub fn is_endpoint(text: &str) -> bool {
    let parts = text.strip_prefix("http://").and_then(|rest| rest.rsplit_once(':'));
    parts.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inner {
    fn new(prefix: String, lease: Duration) -> Arc<Self> {
        Arc::new(Self {
            api: OnceLock::new(),
            prefix,
            lease,
            mirror: Mutex::default(),
            first: watch::Sender::new(false),
            watcher: OnceLock::new(),
            own: Mutex::default(),
            news: Notify::new(),
            written: watch::Sender::new(0),
            granted: Mutex::default(),
        })
    }

    /// Called when it has been found out where etcd is.
    fn take(&self, endpoints: Vec<String>) {
        match checked(endpoints).and_then(Api::new) {
            Ok(api) => drop(self.api.set(api)),
            Err(why) => self.fault(why.0),
        }
    }

    fn tell(&self, news: &[String]) {
        if let Some(changed) = self.watcher.get() {
            news.iter().for_each(|service| changed(service));
        }
    }

    fn fault(&self, why: String) {
        lock(&self.mirror).fault = Some(why);
        self.first.send_replace(true);
    }

    /// Lists everything, then follows every change; starts over whenever the watch breaks.
    async fn keep_watching(&self) {
        let mut pause_ms = PAUSE_MS;
        loop {
            let Some(api) = self.api.get() else { return };
            let why = match self.list(api).await {
                Err(why) => why,
                Ok(first) => {
                    pause_ms = PAUSE_MS;
                    // etcd's data may be old, and lack what this node wrote: so that is written again.
                    self.news.notify_one();
                    let watched = api.watch(&self.prefix, first, |changes| {
                        let news = lock(&self.mirror).apply(changes);
                        self.tell(&news);
                        true
                    });
                    watched.await.err().unwrap_or_else(|| ResolveError("the watch of etcd ended".into()))
                }
            };
            self.fault(why.0);
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            pause_ms = (2 * pause_ms).min(PAUSE_MS_MAX);
        }
    }

    /// Replaces the copy; returns the first revision that it does not cover.
    async fn list(&self, api: &Api) -> Result<i64, ResolveError> {
        let (pairs, first) = api.list(&self.prefix, ENTRIES_MAX).await?;
        let news = lock(&self.mirror).replace(pairs);
        self.first.send_replace(true);
        self.tell(&news);
        Ok(first)
    }

    /// Writes what this node serves, and keeps its lease alive.
    async fn keep_writing(&self) {
        let mut written: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        loop {
            let wanted = lock(&self.own).clone();
            let done = self.write(&wanted, &mut written).await;
            let wait = match done {
                Ok(()) => {
                    self.written.send_modify(|times| *times += 1);
                    KEEP_ALIVE_EVERY.min(self.lease / 3)
                }
                Err(_) => Duration::from_millis(PAUSE_MS * 5),
            };
            let _ = tokio::time::timeout(wait, self.news.notified()).await;
        }
    }

    async fn write(
        &self,
        wanted: &BTreeMap<String, Vec<u8>>,
        written: &mut BTreeMap<String, Vec<u8>>,
    ) -> Result<(), ResolveError> {
        let Some(api) = self.api.get() else { return Err(ResolveError("where etcd is has not been found yet".into())) };
        let before = lock(&self.granted).clone();
        if wanted.is_empty() && before.is_none() {
            return Ok(());
        }
        let alive = match &before {
            Some(lease) => api.keep_alive(lease).await?,
            None => false,
        };
        let lease = match before.filter(|_| alive) {
            Some(lease) => lease,
            None => {
                // Everything that was written under the previous lease is gone with it.
                written.clear();
                let lease = api.grant(self.lease).await?;
                *lock(&self.granted) = Some(lease.clone());
                lease
            }
        };
        // etcd may have been restored from older data, with entries that have been withdrawn since.
        let (here, mut gone) = {
            let mirror = lock(&self.mirror);
            written.retain(|key, _| mirror.has(key));
            (written.clone(), wanted.keys().next().map(|key| mirror.keys_beside(key)).unwrap_or_default())
        };
        gone.extend(here.keys().cloned());
        gone.retain(|key| !wanted.contains_key(key));
        for (key, value) in wanted.iter().filter(|(key, value)| here.get(*key) != Some(*value)) {
            api.put(key, value, &lease).await?;
            written.insert(key.clone(), value.clone());
        }
        for key in gone {
            api.delete(&key).await?;
            written.remove(&key);
        }
        Ok(())
    }
}

#[async_trait]
impl Resolver for EtcdResolver {
    fn name(&self) -> &str {
        "etcd"
    }

    async fn resolve(&self, service: &str, _: &[NodeId]) -> Result<Answer, ResolveError> {
        // Only the first lookups have something to wait for.
        let mut first = self.inner.first.subscribe();
        let _ = tokio::time::timeout(FIRST_WAIT, first.wait_for(|first| *first)).await;
        let mirror = lock(&self.inner.mirror);
        let Some(known_at) = mirror.known_at else {
            let why = mirror.fault.clone().unwrap_or_else(|| match self.inner.api.get() {
                Some(api) => format!("etcd at {} has not answered yet", api.endpoints()),
                None => "nobody on this network says where etcd is".into(),
            });
            return Err(ResolveError(why));
        };
        let at = mirror.instances(&self.inner.prefix, service);
        let note = mirror.fault.as_ref().map(|why| format!("as it was {} s ago: {why}", known_at.elapsed().as_secs()));
        Ok(Answer {
            at: at.into_iter().map(|entry| Location::Known(Box::new(entry))).collect(),
            age: Some(known_at.elapsed()),
            ttl: None,
            note,
        })
    }

    async fn announce(&self, own: &Announcement) -> Result<(), ResolveError> {
        // Nobody can dial a node without an address.
        let reachable = own.services.iter().filter(|entry| entry.node.address.is_some());
        let mut entries = BTreeMap::new();
        for entry in reachable {
            let mut value = Vec::new();
            // Writing to a `Vec` cannot fail.
            let _ = minicbor::encode(entry, &mut value);
            entries.insert(key_of(&self.inner.prefix, &entry.service, entry.node.id.0), value);
        }
        let gone = entries.is_empty();
        *lock(&self.inner.own) = entries;
        if gone {
            // The node may end now: revoking its lease removes all its entries.
            let lease = lock(&self.inner.granted).take();
            return match (self.inner.api.get(), lease) {
                (Some(api), Some(lease)) => api.revoke(&lease).await,
                _ => Ok(()),
            };
        }
        let mut written = self.inner.written.subscribe();
        let before = *written.borrow_and_update();
        self.inner.news.notify_one();
        let told = tokio::time::timeout(FIRST_WAIT, written.wait_for(|times| *times > before)).await;
        match told {
            Ok(Ok(_)) => Ok(()),
            _ => {
                let fault = lock(&self.inner.mirror).fault.clone();
                Err(ResolveError(fault.unwrap_or_else(|| "etcd does not take it in yet".into())))
            }
        }
    }

    fn watch(&self, changed: Changed) {
        let _ = self.inner.watcher.set(changed);
    }
}
