//! Which way an access takes is decided here, and nowhere else: shared memory, else remote memory (RDMA), else the link.

use std::{
    fmt,
    sync::{Arc, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use catena_segment::{Attached, Bell, Reached};
use catena_wire::{Exception, SegmentRefusal};

use super::{
    Imported, Wish, door,
    errors::{of_memory, of_refusal},
    near::{Near, NearResult},
};

/// How long an owner that did not share its memory, or not offer it, is not asked again.
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// The way that accesses take now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Copies and atomic instructions in memory that both nodes have mapped.
    SharedMemory,
    /// Reads and writes in the owner's memory without messages, from another host ([`crate::NodeBuilder::remote_memory`]).
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
    /// It writes, or swaps.
    pub(super) write: bool,
    pub(super) wish: Wish,
}

/// The way that one access takes, where the pages are not mapped here yet.
pub(super) enum Chosen {
    /// They are, as of this moment.
    Near,
    Remote(Arc<dyn Reached>),
    Link,
}

/// What an import has of the two ways beside the link.
#[derive(Default)]
pub(super) struct Ways {
    /// Pages, if those that were mapped first are not the segment's any more.
    near: Option<Arc<Near>>,
    /// When the owner last did not share, or shared less than was wanted.
    near_refused: Option<Instant>,
    remote: Option<Remote>,
    remote_refused: Option<Instant>,
    /// Why it is not remote memory, where that was tried.
    why: Option<String>,
}

/// What an owner lets this node reach, by the link over which it told so.
struct Remote {
    reached: Arc<dyn Reached>,
    writable: bool,
    link: u64,
}

impl Imported {
    /// The way that accesses take now; short ones take the link where long ones take RDMA ([`crate::SegmentPolicy::remote_bytes_min`]).
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

    /// Decides as for a READ of the whole segment, without doing one: the way, and why it is no better one, for people.
    pub async fn explain(&self) -> (Way, String) {
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
    }

    /// Whether the segment is mapped here, or is by asking for it.
    pub(super) async fn near_for(&self, write: bool) -> bool {
        self.on_pages(write, |_| ()).is_some() || Box::pin(self.come_near(write)).await
    }

    /// The decision, for what found no pages that are enough for it.
    pub(super) async fn choose(&self, wants: Wants) -> Chosen {
        if self.come_near(wants.write).await {
            return Chosen::Near;
        }
        match self.remote_for(wants).await {
            Some(reached) => Chosen::Remote(reached),
            None => Chosen::Link,
        }
    }

    fn ways(&self) -> std::sync::RwLockReadGuard<'_, Ways> {
        self.inner.ways.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn ways_mut(&self) -> std::sync::RwLockWriteGuard<'_, Ways> {
        self.inner.ways.write().unwrap_or_else(PoisonError::into_inner)
    }

    // Shared memory.

    /// An access in memory. `None`: nothing came of it, and the pages were left if they are not the segment's any more.
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

    /// Does something with the pages that are mapped here, if they are, and may be written to where that is needed.
    pub(super) fn on_pages<T>(&self, write: bool, act: impl FnOnce(&Arc<Near>) -> T) -> Option<T> {
        let firsts = &self.inner.firsts[usize::from(write)..];
        match firsts.iter().filter_map(OnceLock::get).find(|first| first.is_live()) {
            Some(first) => Some(act(first)),
            None => self.ways().near.as_ref().filter(|near| near.is_writable() || !write).map(act),
        }
    }

    /// The pages, apart from what else is known of the segment: whoever keeps them keeps nothing of this node. `None`: they are not mapped here, and
    /// cannot be.
    pub(crate) async fn pages(&self, write: bool) -> Option<Arc<Near>> {
        let mapped = self.near_for(write).await;
        mapped.then(|| self.on_pages(write, Arc::clone)).flatten()
    }

    /// By asking for it, unless the owner refused a moment ago.
    async fn come_near(&self, write: bool) -> bool {
        let lately = self.ways().near_refused.is_some_and(|since| since.elapsed() < ASK_AGAIN);
        if lately || !self.inner.maps || self.inner.shell.segments.host.is_none() {
            return false;
        }
        // What goes by the link must not be overtaken in memory.
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
    }

    /// The pages are not the segment's any more.
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

    /// Remote memory, if this access can go there: nobody is to be notified of it, it is long enough, and no write by the link is before it.
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
            // Writes are done in the order in which they were made, whichever way they go; and what is known to be stale fails by the link.
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

    /// Remote memory failed: it is not used again before a while.
    pub(super) fn leave_remote(&self, why: &catena_segment::RemoteError) {
        tracing::warn!(segment = %self.inner.shown, %why, "RDMA failed");
        let mut ways = self.ways_mut();
        ways.remote = None;
        (ways.remote_refused, ways.why) = (Some(Instant::now()), Some(why.to_string()));
    }
}
