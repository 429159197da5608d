//! Decides which way an access takes, here and nowhere else: shared memory, else remote memory (RDMA), else the link.

use std::{
    fmt,
    sync::{Arc, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use catena_segment::{Attached, Bell, Reached};
use catena_wire::{Exception, SegmentRefusal};

use futures_util::future::BoxFuture;

use super::{
    Imported, Wish, door,
    errors::{of_memory, of_refusal},
    near::{Near, NearResult},
};

/// How long to wait before asking an owner again that did not share or offer its memory.
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// A way that accesses take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Copies and atomic instructions in memory that both nodes have mapped.
    SharedMemory,
    /// Reads and writes in the memory of an owner on another host, without messages ([`crate::NodeBuilder::remote_memory`]).
    Rdma,
    /// Messages over the link between the nodes.
    Link,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SharedMemory => "shared memory",
            Self::Rdma => "RDMA",
            Self::Link => "the link",
        })
    }
}

/// What an access wants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wants {
    pub(super) bytes: u64,
    /// Whether it writes or swaps.
    pub(super) write: bool,
    pub(super) wish: Wish,
}

/// The way of one access, for which the mapped pages do not suffice.
pub(super) enum Chosen {
    /// The pages have just been mapped.
    Near,
    Remote(Arc<dyn Reached>),
    Link,
}

/// The state of an import's ways other than the link.
#[derive(Default)]
pub(super) struct Ways {
    /// The mapped pages, once the first mapping is not the segment's any more.
    near: Option<Arc<Near>>,
    /// When the owner last refused to share its memory, or shared less than was wanted.
    near_refused: Option<Instant>,
    remote: Option<Remote>,
    remote_refused: Option<Instant>,
    /// Why remote memory is not used, if it was tried.
    why: Option<String>,
}

/// Remote memory that an owner lets this node reach, and the link over which the owner offered it.
struct Remote {
    reached: Arc<dyn Reached>,
    writable: bool,
    link: u64,
}

impl Imported {
    /// The way that accesses take now; short ones take the link even where long ones take RDMA ([`crate::SegmentPolicy::remote_bytes_min`]).
    #[must_use]
    pub fn way(&self) -> Way {
        let near = self.on_pages(false, |near| near.is_live());
        let ways = self.ways();
        match () {
            () if near == Some(true) => Way::SharedMemory,
            () if ways.remote.as_ref().is_some_and(|remote| remote.reached.is_live()) => Way::Rdma,
            () => Way::Link,
        }
    }

    /// The way that a READ of the whole segment would take, without doing one, and why it is not a faster one, as text for people.
    pub fn explain<'a>(&'a self) -> BoxFuture<'a, (Way, String)> {
        Box::pin(async move {
            let wants = Wants { bytes: self.inner.bytes, write: false, wish: Wish::default() };
            let chosen = match self.near_for(false).await {
                true => Chosen::Near,
                false => self.choose(wants).await,
            };
            let way = match chosen {
                Chosen::Near => Way::SharedMemory,
                Chosen::Remote(_) => Way::Rdma,
                Chosen::Link => Way::Link,
            };
            let hub = &self.inner.shell.segments;
            let elsewhere = || match hub.host {
                None => "this node shares no memory",
                Some(_) => "its owner is on another host, or shares no memory",
            };
            let least = hub.policy.remote_bytes_min;
            let text = match (way, &hub.remote) {
                (Way::SharedMemory, _) => "mapped on this host".to_owned(),
                (Way::Rdma, Some(remote)) => {
                    format!("{}, {}; accesses below {least} bytes go by the link", elsewhere(), remote.name())
                }
                (_, None) => format!("{}; no RDMA here", elsewhere()),
                (_, Some(_)) if self.inner.bytes < least => {
                    format!("{}; shorter than what goes by RDMA, {least} bytes", elsewhere())
                }
                (_, Some(remote)) => {
                    let why = self.ways().why.clone();
                    format!("{}; {}: {}", elsewhere(), remote.name(), why.as_deref().unwrap_or("not now"))
                }
            };
            (way, text)
        })
    }

    /// Whether the segment is mapped here; asks the owner for it if need be.
    pub(super) async fn near_for(&self, write: bool) -> bool {
        self.on_pages(write, |_| ()).is_some() || self.come_near(write).await
    }

    /// Chooses the way of an access for which the mapped pages, if there are any, do not suffice.
    pub(super) fn choose<'a>(&'a self, wants: Wants) -> BoxFuture<'a, Chosen> {
        Box::pin(async move {
            if self.come_near(wants.write).await {
                return Chosen::Near;
            }
            match self.remote_for(wants).await {
                Some(reached) => Chosen::Remote(reached),
                None => Chosen::Link,
            }
        })
    }

    fn ways(&self) -> std::sync::RwLockReadGuard<'_, Ways> {
        self.inner.ways.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn ways_mut(&self) -> std::sync::RwLockWriteGuard<'_, Ways> {
        self.inner.ways.write().unwrap_or_else(PoisonError::into_inner)
    }

    // Shared memory.

    /// Makes an access in mapped memory. `None`: it was not done; if the pages are not the segment's any more, they were left.
    pub(super) fn in_memory<T>(
        &self,
        write: bool,
        access: impl FnOnce(&Near) -> NearResult<T>,
    ) -> Option<Result<T, Exception>> {
        match self.on_pages(write, |near| access(near))? {
            NearResult::Done(done) => Some(Ok(done)),
            NearResult::Wrong(why) => Some(Err(of_memory(&why))),
            NearResult::Elsewhere => {
                self.leave();
                None
            }
            NearResult::Unknown => {
                self.leave();
                Some(Err(self.moved("its owner left the shared pages at that moment")))
            }
        }
    }

    /// Calls `act` with the pages, if they are mapped here, and are writable where `write` requires it.
    pub(super) fn on_pages<T>(&self, write: bool, act: impl FnOnce(&Arc<Near>) -> T) -> Option<T> {
        let firsts = &self.inner.firsts[usize::from(write)..];
        match firsts.iter().filter_map(OnceLock::get).find(|first| first.is_live()) {
            Some(first) => Some(act(first)),
            None => self.ways().near.as_ref().filter(|near| near.is_writable() || !write).map(act),
        }
    }

    /// The pages alone, without the import: keeping them keeps nothing else of this node alive. `None`: they are not mapped here, and cannot be.
    pub(crate) async fn pages(&self, write: bool) -> Option<Arc<Near>> {
        let mapped = self.near_for(write).await;
        mapped.then(|| self.on_pages(write, Arc::clone)).flatten()
    }

    /// Asks the owner to share its memory, unless it refused a moment ago.
    fn come_near<'a>(&'a self, write: bool) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let lately = self.ways().near_refused.is_some_and(|since| since.elapsed() < ASK_AGAIN);
            if lately || !self.inner.maps || self.inner.shell.segments.host.is_none() {
                return false;
            }
            // An access in memory must not overtake writes that are under way over the link.
            if !self.inner.shell.segments.machine().importer.imports.is_flushed(self.inner.id) {
                return false;
            }
            let near = self.attach(write).await;
            let mut ways = self.ways_mut();
            let Some(near) = near else {
                ways.near_refused = Some(Instant::now());
                return false;
            };
            let enough = near.is_writable() || !write;
            ways.near_refused = (!enough).then(Instant::now);
            ways.near = self.inner.firsts[usize::from(near.is_writable())].set(Arc::new(near)).err();
            enough
        })
    }

    /// Unmaps pages that are not the segment's any more.
    #[cold]
    fn leave(&self) {
        let mut ways = self.ways_mut();
        if ways.near.as_ref().is_some_and(|near| !near.is_live()) {
            ways.near = None;
        }
    }

    /// Asks the owner to share its pages, and maps them.
    async fn attach(&self, write: bool) -> Option<Near> {
        let host = self.inner.shell.segments.host?;
        let ticket = self.ask_to_attach(host, write).await?;
        let parcel = door::fetch(self.inner.owner.id, ticket).await.ok()?;
        let (handles, bell, bytes) = (parcel.handles, parcel.bell, self.inner.bytes);
        let attached = match write {
            true => Attached::to(&handles, bytes, true).map(|attached| (attached, true)),
            false => Err(catena_segment::MemoryError::ReadOnly),
        };
        let attached = attached.or_else(|_| Attached::to(&handles, bytes, false).map(|attached| (attached, false)));
        let (attached, writable) = attached.ok()?;
        Some(Near::new(attached, writable, Bell::of(bell)))
    }

    // Remote memory.

    /// The remote memory, if this access may use it: it is long enough, it notifies nobody, and no earlier write is under way over the link.
    async fn remote_for(&self, wants: Wants) -> Option<Arc<dyn Reached>> {
        let hub = &self.inner.shell.segments;
        let remote = hub.remote.as_ref()?;
        let suits = !self.inner.granted && !wants.wish.notify && wants.bytes >= hub.policy.remote_bytes_min;
        if !suits || wants.bytes == 0 {
            return None;
        }
        {
            let machine = hub.machine();
            let importer = &machine.importer;
            // Writes are done in the order in which they were made, whichever way they take; and an import that is known to be stale fails over the link.
            let stale = importer.imports.get(self.inner.id).is_none_or(|import| import.stale.is_some());
            if stale || !importer.imports.is_flushed(self.inner.id) || importer.unflushed_to(self.inner.owner.id) > 0 {
                return None;
            }
        }
        let link = self.link("import").await.ok()?.id();
        {
            let ways = self.ways();
            if let Some(now) = ways.remote.as_ref().filter(|now| now.link == link && now.reached.is_live())
                && (now.writable || !wants.write)
            {
                return Some(Arc::clone(&now.reached));
            }
            if ways.remote_refused.is_some_and(|since| since.elapsed() < ASK_AGAIN) {
                return None;
            }
        }
        let reached = match self.ask_to_reach(remote.name(), wants.write).await {
            Ok((token, writable)) => {
                let (remote, bytes) = (Arc::clone(remote), self.inner.bytes);
                // Opening an endpoint takes a while.
                match tokio::task::spawn_blocking(move || remote.reach(&token, bytes)).await {
                    Ok(reached) => reached.map(|reached| (reached, writable)).map_err(|why| why.to_string()),
                    Err(why) => Err(why.to_string()),
                }
            }
            Err(SegmentRefusal::NotShared) => {
                Err("its owner does not offer it: it has another provider or none, or is told of each access"
                    .to_owned())
            }
            Err(why) => Err(of_refusal("RDMA", why).message),
        };
        let mut ways = self.ways_mut();
        match reached {
            Ok((reached, writable)) => {
                let enough = writable || !wants.write;
                ways.remote = Some(Remote { reached: Arc::clone(&reached), writable, link });
                ways.remote_refused = (!enough).then(Instant::now);
                ways.why = (!enough).then(|| "its owner offers it for reading".to_owned());
                enough.then_some(reached)
            }
            Err(why) => {
                tracing::debug!(segment = %self.inner.shown, %why, "by the link, not by RDMA");
                (ways.remote_refused, ways.why) = (Some(Instant::now()), Some(why));
                None
            }
        }
    }

    /// Remote memory failed: does not use it again for a while.
    pub(super) fn leave_remote(&self, why: &catena_segment::RemoteError) {
        tracing::warn!(segment = %self.inner.shown, %why, "RDMA failed");
        let mut ways = self.ways_mut();
        ways.remote = None;
        (ways.remote_refused, ways.why) = (Some(Instant::now()), Some(why.to_string()));
    }
}
