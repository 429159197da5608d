//! Functions by hash: those that this node can load and pass on. With a folder for them, it also has those from before a restart.

use std::{
    collections::{HashMap, VecDeque},
    fs, io,
    path::{Path, PathBuf},
    sync::Mutex,
    time::SystemTime,
};

use bytes::Bytes;
use catena_wire::{Exception, Fault, Hash, names};

use crate::shell::lock;

/// Files of the folder that are examined; there are no more if only this node writes there.
const FILES_MAX: usize = 65_536;

/// A bounded store of functions; the oldest are evicted first. Every function in it has been checked against its hash.
#[derive(Debug)]
pub(crate) struct Store {
    bytes_max: usize,
    folder: Option<PathBuf>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    by_hash: HashMap<Hash, Bytes>,
    oldest: VecDeque<Hash>,
    bytes: usize,
}

impl Store {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, folder: None, inner: Mutex::default() }
    }

    /// A store that keeps its functions in this folder, which is created if need be. Removes files whose content does not match their name, and those half
    /// written. Blocks on the disk.
    ///
    /// # Errors
    /// The folder cannot be made or read.
    pub(crate) fn open(bytes_max: usize, folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        remove_parts(folder)?;
        let mut store = Self::new(bytes_max);
        for (path, hash) in kept(folder)? {
            let whole = fs::metadata(&path).is_ok_and(|found| found.len() <= bytes_max as u64);
            let bytes = if whole { fs::read(&path).map(Bytes::from).ok() } else { None };
            if bytes.is_none_or(|bytes| store.put(hash, &bytes).is_err()) {
                tracing::warn!(file = %path.display(), "it is not the function that its name says, and is removed");
                let _ = fs::remove_file(&path);
            }
        }
        store.folder = Some(folder.to_owned());
        store.forget_others();
        Ok(store)
    }

    pub(crate) fn get(&self, hash: Hash) -> Option<Bytes> {
        lock(&self.inner).by_hash.get(&hash).cloned()
    }

    /// Keeps a function if it matches its hash. Returns what to do in the folder, if there is one; doing that blocks on the disk.
    pub(crate) fn put(&self, hash: Hash, bytes: &Bytes) -> Result<Option<Filing>, Exception> {
        if bytes.len() > self.bytes_max {
            let message = format!("a function of {} bytes is more than this node keeps", bytes.len());
            return Err(Exception::new(names::BAD_CODE, Fault::Caller, message));
        }
        let actual = Hash(*blake3::hash(bytes).as_bytes());
        if actual != hash {
            let message = format!("a function came whose hash is {actual:?}, where {hash:?} was asked for");
            return Err(Exception::new(names::BAD_CODE, Fault::Node, message));
        }
        let mut inner = lock(&self.inner);
        if inner.by_hash.contains_key(&hash) {
            return Ok(None);
        }
        inner.bytes += bytes.len();
        // Copied, since a slice would keep the whole message that brought it in memory.
        let bytes = Bytes::copy_from_slice(bytes);
        inner.by_hash.insert(hash, bytes.clone());
        inner.oldest.push_back(hash);
        let mut gone = Vec::new();
        while inner.bytes > self.bytes_max {
            let Some(oldest) = inner.oldest.pop_front() else { break };
            let freed = inner.by_hash.remove(&oldest).map_or(0, |bytes| bytes.len());
            inner.bytes -= freed;
            gone.push(oldest);
        }
        Ok(self.folder.clone().map(|folder| Filing { folder, new: (hash, bytes), gone }))
    }

    /// Removes from the folder what found no room in memory.
    fn forget_others(&self) {
        let Some(folder) = &self.folder else { return };
        for (path, hash) in kept(folder).unwrap_or_default() {
            if self.get(hash).is_none() {
                let _ = fs::remove_file(path);
            }
        }
    }
}

/// Changes to be made in the folder.
#[derive(Debug)]
pub(crate) struct Filing {
    folder: PathBuf,
    new: (Hash, Bytes),
    gone: Vec<Hash>,
}

impl Filing {
    /// Makes the changes; blocks on the disk. A file is written atomically.
    pub(crate) fn file(self) {
        let (hash, bytes) = self.new;
        let path = self.folder.join(name_of(hash));
        let part = self.folder.join(format!("{}.{}", name_of(hash), std::process::id()));
        let written = fs::write(&part, &bytes).and_then(|()| fs::rename(&part, &path));
        if let Err(why) = written {
            tracing::warn!(file = %path.display(), %why, "a function is not kept for the next start");
            let _ = fs::remove_file(&part);
        }
        for hash in self.gone {
            let _ = fs::remove_file(self.folder.join(name_of(hash)));
        }
    }
}

/// The files of a folder whose names are those of functions, oldest first.
fn kept(folder: &Path) -> io::Result<Vec<(PathBuf, Hash)>> {
    let mut found: Vec<(SystemTime, PathBuf, Hash)> = Vec::new();
    for entry in fs::read_dir(folder)?.take(FILES_MAX) {
        let entry = entry?;
        let Some(hash) = entry.file_name().to_str().and_then(hash_of) else { continue };
        let at = entry.metadata().and_then(|found| found.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
        found.push((at, entry.path(), hash));
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path, hash)| (path, hash)).collect())
}

/// Removes what was being written when a process ended.
fn remove_parts(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)?.take(FILES_MAX) {
        let entry = entry?;
        let name = entry.file_name();
        let part = name.to_str().and_then(|name| name.rsplit_once('.'));
        if part.is_some_and(|(name, process)| hash_of(name).is_some() && process.parse::<u32>().is_ok()) {
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(())
}

fn name_of(hash: Hash) -> String {
    blake3::Hash::from_bytes(hash.0).to_hex().to_string()
}

fn hash_of(name: &str) -> Option<Hash> {
    blake3::Hash::from_hex(name).ok().map(|hash| Hash(*hash.as_bytes()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn function(text: &str) -> (Hash, Bytes) {
        let bytes = Bytes::from(text.to_owned());
        (Hash(*blake3::hash(&bytes).as_bytes()), bytes)
    }

    fn put(store: &Store, function: &(Hash, Bytes)) {
        store.put(function.0, &function.1).unwrap().into_iter().for_each(Filing::file);
    }

    #[test]
    fn what_was_kept_is_there_after_a_restart_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second, third] = ["1111", "2222", "3333"].map(function);
        let store = Store::open(8, folder.path()).unwrap();
        [&first, &second, &third].into_iter().for_each(|one| put(&store, one));
        drop(store);
        let store = Store::open(8, folder.path()).unwrap();
        assert_eq!(store.get(second.0), Some(second.1.clone()));
        assert_eq!(store.get(third.0), Some(third.1.clone()));
        assert_eq!(store.get(first.0), None, "it had to make room");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);

        // Another program writes there: a file whose content does not match its name is not loaded, and a file that is not a function's is left alone.
        fs::write(folder.path().join(name_of(second.0)), "other").unwrap();
        fs::write(folder.path().join("notes"), "mine").unwrap();
        let part = folder.path().join(format!("{}.77", name_of(first.0)));
        fs::write(&part, "11").unwrap();
        let store = Store::open(8, folder.path()).unwrap();
        assert_eq!(store.get(second.0), None);
        assert!(store.get(third.0).is_some() && folder.path().join("notes").exists());
        assert!(!folder.path().join(name_of(second.0)).exists() && !part.exists());
        let smaller = Store::open(3, folder.path()).unwrap();
        assert!(smaller.get(third.0).is_none());
    }
}
