//! Service IDs from a file that people write: where each service is, by address.
//!
//! ```toml
//! [services]
//! "files.mtv" = ["10.0.0.7:7400", "10.0.0.8:7400"]
//! ads = "10.0.0.9:7400"
//! ```
//!
//! The file is read again when it has changed. If it cannot be read, or is invalid, the last valid contents stay in force, and a note says so.
#![forbid(unsafe_code)]

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use async_trait::async_trait;
use catena_directory::{Answer, Changed, Location, NodeId, ResolveError, Resolver};
use serde::Deserialize;

/// Longest file.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Services in one file.
const SERVICES_MAX: usize = 65_536;
/// Addresses of one service.
const ADDRESSES_MAX: usize = 64;
/// How often to look whether the file has changed.
const LOOK_EVERY: Duration = Duration::from_millis(500);

type Table = BTreeMap<String, Vec<String>>;

/// The services of one file.
pub struct FileResolver {
    state: Arc<State>,
}

struct State {
    path: PathBuf,
    inner: Mutex<Inner>,
    watcher: OnceLock<Changed>,
}

struct Inner {
    services: Table,
    read_at: Instant,
    /// The file's modification time and length when it was last looked at.
    stamp: Option<(SystemTime, u64)>,
    /// Why the contents in force are not those of the file as it is now.
    fault: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    services: BTreeMap<String, Addresses>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "an address \"host:port\", or a list of them")]
enum Addresses {
    One(String),
    Several(Vec<String>),
}

impl FileResolver {
    /// Reads the file.
    ///
    /// # Errors
    /// It is not there or not what it should be: at the start that is a mistake.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, ResolveError> {
        let path = path.into();
        let stamp = stamp_of(&path);
        let services = read(&path).map_err(ResolveError)?;
        let inner = Inner { services, read_at: Instant::now(), stamp, fault: None };
        Ok(Self { state: Arc::new(State { path, inner: Mutex::new(inner), watcher: OnceLock::new() }) })
    }
}

impl State {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the file if it has changed, and reports the services whose addresses are different now.
    fn refresh(&self) {
        let news = self.read_again();
        if let Some(changed) = self.watcher.get() {
            news.iter().for_each(|service| changed(service));
        }
    }

    fn read_again(&self) -> Vec<String> {
        let stamp = stamp_of(&self.path);
        if self.lock().stamp == stamp {
            return Vec::new();
        }
        let services = read(&self.path);
        let mut inner = self.lock();
        inner.stamp = stamp;
        match services {
            Err(why) => {
                inner.fault = Some(why);
                Vec::new()
            }
            Ok(services) => {
                let of_both = inner.services.keys().chain(services.keys());
                let mut changed: Vec<_> =
                    of_both.filter(|name| inner.services.get(*name) != services.get(*name)).cloned().collect();
                changed.sort();
                changed.dedup();
                (inner.services, inner.read_at, inner.fault) = (services, Instant::now(), None);
                changed
            }
        }
    }
}

fn stamp_of(path: &Path) -> Option<(SystemTime, u64)> {
    let found = std::fs::metadata(path).ok()?;
    Some((found.modified().ok()?, found.len()))
}

fn read(path: &Path) -> Result<Table, String> {
    let file = path.display();
    let bytes =
        std::fs::metadata(path).map_err(|why| format!("the file of services {file} cannot be read: {why}"))?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(format!("the file of services {file} has {bytes} bytes; it may have {FILE_BYTES_MAX}"));
    }
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|why| format!("the file of services {file} cannot be read: {why}"))?;
    let parsed: File = toml::from_str(&text).map_err(|why| {
        let line = why.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        format!("{file}:{line}: {}", why.message().trim())
    })?;
    if parsed.services.len() > SERVICES_MAX {
        return Err(format!("{file} names {} services; it may name {SERVICES_MAX}", parsed.services.len()));
    }
    parsed.services.into_iter().map(|(service, addresses)| checked(&file.to_string(), service, addresses)).collect()
}

fn checked(file: &str, service: String, addresses: Addresses) -> Result<(String, Vec<String>), String> {
    let addresses = match addresses {
        Addresses::One(address) => vec![address],
        Addresses::Several(addresses) => addresses,
    };
    if addresses.len() > ADDRESSES_MAX {
        return Err(format!("{file}: {service} has {} addresses; it may have {ADDRESSES_MAX}", addresses.len()));
    }
    let is_address = |address: &&String| {
        let parts = address.rsplit_once(':');
        !parts.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
    };
    match addresses.iter().find(is_address) {
        Some(wrong) => Err(format!("{file}: {service} is said to be at {wrong:?}, which is no host:port")),
        None => Ok((service, addresses)),
    }
}

#[async_trait]
impl Resolver for FileResolver {
    fn name(&self) -> &str {
        "file"
    }

    async fn resolve(&self, service: &str, _: &[NodeId]) -> Result<Answer, ResolveError> {
        let state = Arc::clone(&self.state);
        let _ = tokio::task::spawn_blocking(move || state.refresh()).await;
        let inner = self.state.lock();
        let at = |address: &String| Location::At { address: address.clone(), node: None, run: None };
        Ok(Answer {
            at: inner.services.get(service).into_iter().flatten().map(at).collect(),
            age: Some(inner.read_at.elapsed()),
            ttl: None,
            note: inner.fault.as_ref().map(|why| format!("as the file was before: {why}")),
        })
    }

    fn watch(&self, changed: Changed) {
        let _ = self.state.watcher.set(changed);
        let state = Arc::downgrade(&self.state);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(LOOK_EVERY).await;
                let Some(state) = state.upgrade() else { return };
                let _ = tokio::task::spawn_blocking(move || state.refresh()).await;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn addresses(answer: &Answer) -> Vec<&str> {
        fn address(location: &Location) -> Option<&str> {
            match location {
                Location::At { address, .. } => Some(address.as_str()),
                Location::Known(_) => None,
            }
        }
        answer.at.iter().filter_map(address).collect()
    }

    #[tokio::test]
    async fn what_the_file_says_now_counts_and_a_broken_one_leaves_what_it_said_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("names.toml");
        std::fs::write(&path, "[services]\n\"files.mtv\" = [\"a:1\", \"b:2\"]\nads = \"c:3\"\n").unwrap();
        let file = FileResolver::open(&path).unwrap();
        assert_eq!(addresses(&file.resolve("files.mtv", &[]).await.unwrap()), ["a:1", "b:2"]);
        assert!(file.resolve("nobody", &[]).await.unwrap().at.is_empty());

        std::fs::write(&path, "[services]\nads = \"d:4\"\n").unwrap();
        assert_eq!(file.state.read_again(), ["ads", "files.mtv"], "both are other than before");
        assert_eq!(addresses(&file.resolve("ads", &[]).await.unwrap()), ["d:4"]);

        std::fs::write(&path, "[services]\n\nads = 7 # broken\n").unwrap();
        let answer = file.resolve("ads", &[]).await.unwrap();
        assert_eq!(addresses(&answer), ["d:4"]);
        assert!(answer.note.as_ref().is_some_and(|note| note.contains(":3: ")), "{answer:?}");
        std::fs::remove_file(&path).unwrap();
        assert!(file.resolve("ads", &[]).await.unwrap().note.is_some_and(|note| note.contains("cannot be read")));
    }

    #[test]
    fn what_is_wrong_at_the_start_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("names.toml");
        for (text, part) in
            [("services = 1", ":1: "), ("[services]\na = \"here\"", "no host:port"), ("[service]\n", "unknown field")]
        {
            std::fs::write(&path, text).unwrap();
            let why = FileResolver::open(&path).err().map(|why| why.to_string()).unwrap_or_default();
            assert!(why.contains(part), "{part:?} is not in {why:?}");
        }
    }
}
