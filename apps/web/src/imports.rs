//! Segments of servers that stay imported: the next response from the same place costs no import.

use std::{
    collections::{HashMap, HashSet},
    sync::Mutex,
    time::{Duration, Instant},
};

use catena::{Client, Imported, NodeId, Way};

use crate::{bodies::lock, fetch::FetchError, frame::Range};

/// The least time for which an unused import is kept.
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

    /// The segment of a range, which must belong to the node that announced it: a server must not make its clients read elsewhere.
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

    /// Whether a site's memory is shared, as found out when something was last read there.
    pub(crate) fn is_near(&self, site: &str) -> bool {
        !lock(&self.far).contains(site)
    }

    /// Records whether this segment is shared, as its first READ would find out, too: if not, the site may send small bodies with the head.
    pub(crate) async fn see(&self, site: &str, far: &Imported) {
        if far.way() != Way::SharedMemory {
            let _ = far.map(false).await;
            self.note(site, far);
        }
    }

    /// Records in which way a read went.
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use catena::{Export, Node, Rights, Segment};

    use super::*;

    fn segment(node: &Node, name: &str) -> Segment {
        let how = Export { anyone: Rights::READ, ..Export::default() };
        let segment = node.export(name, 10, how).unwrap();
        segment.write(0, &[*name.as_bytes().last().unwrap(); 10]).unwrap();
        segment
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn beyond_so_many_the_one_that_was_not_used_for_longest_goes_and_who_reads_it_goes_on() {
        let node = Node::builder("server").listen("127.0.0.1:0").start().await.unwrap();
        let _segments = ["a", "b", "c", "d"].map(|name| segment(&node, name));
        let client = Client::connect(node.address().unwrap()).await.unwrap();
        let imports = Imports::new(2);
        let of = async |name: &str| {
            let range = Range { offset: 0, bytes: 10, segment: format!("server/{name}") };
            imports.of(&client, &range, node.id()).await.unwrap()
        };
        let kept = || {
            let mut kept: Vec<_> = lock(&imports.kept).keys().map(|name| name["server/".len()..].to_owned()).collect();
            kept.sort_unstable();
            kept.concat()
        };
        let first = of("a").await;
        for (name, left) in [("b", "ab"), ("a", "ab"), ("c", "ac"), ("d", "cd"), ("c", "cd"), ("b", "bc")] {
            let far = of(name).await;
            assert_eq!(far.read(0, 10).await.unwrap(), name.repeat(10), "{name}");
            assert_eq!(kept(), left, "after {name}");
        }
        assert_eq!(first.read(0, 10).await.unwrap(), "a".repeat(10));
    }
}
