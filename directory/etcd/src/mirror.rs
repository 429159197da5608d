//! The last known contents of etcd: kept up to date by a watch, and there while etcd is not.

use std::{collections::BTreeMap, time::Instant};

use catena_directory::ServiceEntry;

use crate::answer::{Change, Pair};

/// Entries that are kept; services beyond these are not found.
pub(crate) const ENTRIES_MAX: usize = 65_536;

/// All entries, by key.
#[derive(Default)]
pub(crate) struct Mirror {
    entries: BTreeMap<String, (ServiceEntry, i64)>,
    /// When the entries were last known to be complete.
    pub(crate) known_at: Option<Instant>,
    /// Why they may not be complete any more.
    pub(crate) fault: Option<String>,
}

/// `PREFIX/SERVICE/RUN`.
pub(crate) fn key_of(prefix: &str, service: &str, run: u64) -> String {
    format!("{prefix}/{service}/{run:016x}")
}

impl Mirror {
    /// Replaces all entries; returns the services whose instances have changed.
    pub(crate) fn replace(&mut self, pairs: Vec<Pair>) -> Vec<String> {
        let before = std::mem::take(&mut self.entries);
        for pair in pairs {
            self.put(pair);
        }
        let both = before.iter().chain(&self.entries);
        let mut news: Vec<String> = both
            .filter(|(key, _)| before.get(*key) != self.entries.get(*key))
            .map(|(_, (entry, _))| entry.service.clone())
            .collect();
        news.sort();
        news.dedup();
        self.refreshed();
        news
    }

    pub(crate) fn apply(&mut self, changes: Vec<Change>) -> Vec<String> {
        let mut news = Vec::new();
        for change in changes {
            match change {
                Change::Put(pair) => news.extend(self.put(pair)),
                Change::Delete(key) => news.extend(self.entries.remove(&key).map(|(entry, _)| entry.service)),
            }
        }
        self.refreshed();
        news
    }

    fn refreshed(&mut self) {
        self.known_at = Some(Instant::now());
        self.fault = None;
    }

    fn put(&mut self, pair: Pair) -> Option<String> {
        // Anything else under the prefix is not a service entry.
        let entry: ServiceEntry = minicbor::decode(&pair.value).ok()?;
        let fits = pair.key.ends_with(&key_of("", &entry.service, entry.node.id.0));
        if !fits || (self.entries.len() >= ENTRIES_MAX && !self.entries.contains_key(&pair.key)) {
            return None;
        }
        let service = entry.service.clone();
        self.entries.insert(pair.key, (entry, pair.created));
        Some(service)
    }

    /// Whether etcd has something under this key.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// All keys that belong to the same run as this key.
    pub(crate) fn keys_beside(&self, key: &str) -> Vec<String> {
        let run = key.rsplit_once('/').map(|(_, run)| run);
        let of_run = |other: &&String| run.is_some() && other.rsplit_once('/').map(|(_, run)| run) == run;
        self.entries.keys().filter(of_run).cloned().collect()
    }

    /// The instances of a service, the oldest first.
    pub(crate) fn instances(&self, prefix: &str, service: &str) -> Vec<ServiceEntry> {
        let first = format!("{prefix}/{service}/");
        let found = self.entries.range(first.clone()..).take_while(|(key, _)| key.starts_with(&first));
        let mut found: Vec<_> = found.map(|(_, known)| known).filter(|(entry, _)| entry.service == service).collect();
        found.sort_by_key(|(_, created)| *created);
        found.into_iter().map(|(entry, _)| entry.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use catena_directory::{Kinds, NodeId, NodeRef};

    use super::*;

    fn pair(service: &str, run: u64, created: i64) -> Pair {
        let node = NodeRef { id: NodeId(run), name: format!("n{run}"), address: Some("h:1".into()), site: None };
        let entry =
            ServiceEntry { service: service.into(), functions: Vec::new(), node, kinds: Kinds::default(), proxy: None };
        Pair { key: key_of("/p", service, run), value: minicbor::to_vec(entry).unwrap(), created }
    }

    fn runs(mirror: &Mirror, service: &str) -> Vec<u64> {
        mirror.instances("/p", service).iter().map(|entry| entry.node.id.0).collect()
    }

    #[test]
    fn it_says_what_was_said_last_and_nothing_that_is_none() {
        let mut mirror = Mirror::default();
        let nonsense = Pair { key: "/p/x/y".into(), value: b"nonsense".to_vec(), created: 1 };
        let liar = Pair { key: key_of("/p", "bank", 9), ..pair("files", 9, 1) };
        assert_eq!(mirror.replace(vec![pair("files", 9, 5), pair("files", 2, 7), nonsense, liar]), ["files"]);
        assert_eq!(runs(&mirror, "files"), [9, 2], "the oldest first");
        assert!(runs(&mirror, "bank").is_empty() && runs(&mirror, "file").is_empty());
        assert_eq!(
            mirror.apply(vec![Change::Delete(key_of("/p", "files", 9)), Change::Put(pair("ads", 3, 8))]),
            ["files", "ads"]
        );
        assert_eq!((runs(&mirror, "files"), runs(&mirror, "ads")), (vec![2], vec![3]));
        assert_eq!(mirror.replace(vec![pair("ads", 3, 8)]), ["files"], "only what is other than before is news");
    }
}
