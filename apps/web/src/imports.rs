//! Segments of servers that stay imported: the next response from the same place costs no import.

use std::{
    collections::{HashMap, HashSet},
    sync::Mutex,
    time::{Duration, Instant},
};

use catena::{Client, Imported, NodeId, Way};

use crate::{bodies::lock, fetch::FetchError, frame::Range};

/// How long one that nobody uses stays, at least.
const IDLE: Duration = Duration::from_secs(60);

pub(crate) struct Imports {
    max: usize,
    kept: Mutex<HashMap<String, (Imported, Instant)>>,
    /// Sites whose memory is not shared with this process.
    far: Mutex<HashSet<String>>,
}

impl Imports {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, kept: Mutex::default(), far: Mutex::default() }
    }

    /// The segment of a range, which must be of the node that told of it: a server is not to have its clients read elsewhere.
    pub(crate) async fn of(&self, client: &Client, range: &Range, node: NodeId) -> Result<Imported, FetchError> {
        let kept = lock(&self.kept).get_mut(&range.segment).map(|(far, used)| {
            *used = Instant::now();
            far.clone()
        });
        let far = match kept {
            Some(far) => far,
            None => {
                let far = client.import(&range.segment).await?;
                self.keep(&range.segment, &far);
                far
            }
        };
        if far.owner().id != node {
            return Err(FetchError::Protocol("it tells of a segment that is another node's"));
        }
        if range.offset.checked_add(range.bytes).is_none_or(|end| end > far.bytes()) {
            return Err(FetchError::Protocol("it tells of bytes beyond its segment"));
        }
        Ok(far)
    }

    fn keep(&self, name: &str, far: &Imported) {
        let mut kept = lock(&self.kept);
        kept.retain(|_, (far, used)| used.elapsed() < IDLE && far.generation().is_some_and(|(_, stale)| !stale));
        while kept.len() >= self.max {
            let oldest = kept.iter().min_by_key(|(_, (_, used))| *used).map(|(name, _)| name.clone());
            let Some(oldest) = oldest else { break };
            kept.remove(&oldest);
        }
        kept.insert(name.to_owned(), (far.clone(), Instant::now()));
    }

    /// Says whether a site's memory is shared, as it was found when something was last read there.
    pub(crate) fn is_near(&self, site: &str) -> bool {
        !lock(&self.far).contains(site)
    }

    /// Takes note of whether this one is shared, which its first READ would ask, too: where it is not, the site may send what is small with its head.
    pub(crate) async fn see(&self, site: &str, far: &Imported) {
        if far.way() != Way::SharedMemory {
            let _ = far.map(false).await;
            self.note(site, far);
        }
    }

    /// Takes note of how a read went.
    pub(crate) fn note(&self, site: &str, far: &Imported) {
        let mut sites = lock(&self.far);
        match far.way() {
            Way::SharedMemory => {
                sites.remove(site);
            }
            Way::Link | Way::Rdma => {
                if sites.len() >= self.max {
                    sites.clear();
                }
                sites.insert(site.to_owned());
            }
        }
    }
}
