//! A cache of files' content, and for how long it is trusted without looking.

use std::{
    collections::HashMap,
    io::{self, Read as _, Seek as _},
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Instant, SystemTime},
};

use bytes::Bytes;
use cap_std::{
    ambient_authority,
    fs::{Dir, File},
};
use catena::{Export, Node, Notify, Rights, Segment};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, openat2};

use super::Keep;
use crate::{bodies::lock, limits::FileLimits, staging::unguessable};

/// Files that are loaded into the cache at one time.
const LOADS_MAX: usize = 2;
/// How often loading is tried again if the file has changed while it was read.
const READS_MAX: usize = 3;

/// Which version of a file it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stamp {
    pub(super) bytes: u64,
    modified: Option<SystemTime>,
}

impl Stamp {
    fn of(about: &std::fs::Metadata) -> Self {
        Self { bytes: about.len(), modified: about.modified().ok() }
    }

    /// As an entity tag.
    pub(super) fn tag(&self) -> String {
        let since = self.modified.and_then(|modified| modified.duration_since(SystemTime::UNIX_EPOCH).ok());
        format!("\"{:x}-{:x}\"", self.bytes, since.unwrap_or_default().as_nanos())
    }

    pub(super) const fn modified(&self) -> Option<SystemTime> {
        self.modified
    }
}

/// A file's bytes, wherever they are.
#[derive(Debug)]
pub(super) enum Content {
    Segment(Segment),
    Memory(Bytes),
    /// Not in the cache; read in pieces of this many bytes.
    Disk(Arc<std::fs::File>, usize),
}

/// A file as it is now.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) stamp: Stamp,
    pub(super) content: Content,
}

#[derive(Clone, Debug)]
enum Kept {
    Segment(Segment),
    Memory(Bytes),
}

impl Kept {
    fn content(&self) -> Content {
        match self {
            Self::Segment(segment) => Content::Segment(segment.clone()),
            Self::Memory(bytes) => Content::Memory(bytes.clone()),
        }
    }
}

#[derive(Debug)]
struct Entry {
    stamp: Stamp,
    kept: Kept,
    looked: Instant,
    used: u64,
}

#[derive(Debug, Default)]
struct Entries {
    all: HashMap<String, Entry>,
    bytes: u64,
}

#[derive(Debug)]
pub(super) struct Cache {
    folder: Arc<Dir>,
    keep: Keep,
    limits: FileLimits,
    entries: Mutex<Entries>,
    uses: AtomicU64,
    loads: tokio::sync::Semaphore,
}

impl Cache {
    pub(super) fn open(folder: &Path, keep: Keep, limits: FileLimits) -> io::Result<Self> {
        let folder = Arc::new(Dir::open_ambient_dir(folder, ambient_authority())?);
        let loads = tokio::sync::Semaphore::new(LOADS_MAX);
        Ok(Self { folder, keep, limits, entries: Mutex::default(), uses: AtomicU64::new(0), loads })
    }

    pub(super) fn load(&self) -> (usize, u64) {
        let entries = lock(&self.entries);
        (entries.all.len(), entries.bytes)
    }

    /// The file of this name.
    pub(super) async fn find(&self, name: &str) -> io::Result<Found> {
        if let Some(found) = self.known(name, |entry| entry.looked.elapsed() < self.limits.believed) {
            return Ok(found);
        }
        let (file, stamp) = self.look(name).await?;
        if let Some(found) = self.looked(name, stamp) {
            return Ok(found);
        }
        let disk = |file| Found { stamp, content: Content::Disk(file, self.limits.read_bytes) };
        if matches!(self.keep, Keep::Nothing) || stamp.bytes > self.limits.kept_file_bytes_max {
            return Ok(disk(file));
        }
        let Ok(_turn) = self.loads.acquire().await else { return Ok(disk(file)) };
        // Another request may have loaded it meanwhile.
        if let Some(found) = self.known(name, |entry| entry.stamp == stamp) {
            return Ok(found);
        }
        self.take_in(name, &file, stamp).await
    }

    fn known(&self, name: &str, good: impl FnOnce(&Entry) -> bool) -> Option<Found> {
        let mut entries = lock(&self.entries);
        let entry = entries.all.get_mut(name).filter(|entry| good(entry))?;
        entry.used = self.uses.fetch_add(1, Ordering::Relaxed);
        Some(Found { stamp: entry.stamp, content: entry.kept.content() })
    }

    /// Trusts the cached content again, if it is of this version.
    fn looked(&self, name: &str, stamp: Stamp) -> Option<Found> {
        if let Some(entry) = lock(&self.entries).all.get_mut(name).filter(|entry| entry.stamp == stamp) {
            entry.looked = Instant::now();
        }
        self.known(name, |entry| entry.stamp == stamp)
    }

    async fn look(&self, name: &str) -> io::Result<(Arc<std::fs::File>, Stamp)> {
        if let Some(found) = look_at_once(&self.folder, name) {
            return Ok(found);
        }
        let (folder, name) = (Arc::clone(&self.folder), name.to_owned());
        apart(move || {
            let about = folder.metadata(&name)?;
            if about.is_dir() {
                return Err(io::ErrorKind::IsADirectory.into());
            }
            // Checked before it is opened: opening something that is not a file may block for ever.
            if !about.is_file() {
                return Err(io::ErrorKind::NotFound.into());
            }
            let file: File = folder.open(&name)?;
            let file = file.into_std();
            let stamp = Stamp::of(&file.metadata()?);
            Ok((Arc::new(file), stamp))
        })
        .await
    }

    /// Reads a file into the cache: in the version that was looked at, or a newer one.
    async fn take_in(&self, name: &str, file: &Arc<std::fs::File>, stamp: Stamp) -> io::Result<Found> {
        let (file, keep, step) = (Arc::clone(file), self.keep.clone(), self.limits.read_bytes);
        let bytes_max = self.limits.kept_file_bytes_max;
        let read = apart(move || {
            read_settled(&file, stamp, bytes_max, |stamp| match &keep {
                Keep::InSegments(node) => in_segment(node, &file, stamp, step),
                _ => in_memory(&file, stamp).map(Kept::Memory),
            })
        });
        let (kept, stamp) = read.await?;
        let found = Found { stamp, content: kept.content() };
        let used = self.uses.fetch_add(1, Ordering::Relaxed);
        let mut entries = lock(&self.entries);
        entries.bytes += stamp.bytes;
        let entry = Entry { stamp, kept, looked: Instant::now(), used };
        if let Some(before) = entries.all.insert(name.to_owned(), entry) {
            entries.bytes -= before.stamp.bytes;
        }
        while entries.bytes > self.limits.kept_bytes_max || entries.all.len() > self.limits.kept_files_max {
            let oldest = entries.all.iter().min_by_key(|(_, entry)| entry.used).map(|(name, _)| name.clone());
            let Some(gone) = oldest.and_then(|oldest| entries.all.remove(&oldest)) else { break };
            entries.bytes -= gone.stamp.bytes;
        }
        Ok(found)
    }
}

/// Opens a file, if the system has its whole path cached: then no other thread is needed, which would take longer to wake. `None`: it has to be looked up by a
/// thread that may block, which also reports errors.
fn look_at_once(folder: &Dir, name: &str) -> Option<(Arc<std::fs::File>, Stamp)> {
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::CACHED;
    let open = |how: OFlags| openat2(folder, name, how | OFlags::CLOEXEC, Mode::empty(), within).ok();
    let is_file = |mode| FileType::from_raw_mode(mode) == FileType::RegularFile;
    // Opening something that is not a file may have effects.
    if !is_file(fstat(open(OFlags::PATH)?).ok()?.st_mode) {
        return None;
    }
    // Does not block either, whatever has taken the file's place since.
    let file = std::fs::File::from(open(OFlags::RDONLY | OFlags::NONBLOCK)?);
    let about = file.metadata().ok()?;
    about.is_file().then(|| (Arc::new(file), Stamp::of(&about)))
}

/// Reads a file that is one version all the while: of one that is cut or written to meanwhile, what was read has a length that it never had, or bytes of two versions.
fn read_settled<T>(
    mut file: &std::fs::File,
    mut stamp: Stamp,
    bytes_max: u64,
    read: impl Fn(Stamp) -> io::Result<T>,
) -> io::Result<(T, Stamp)> {
    for _ in 0..READS_MAX {
        if stamp.bytes > bytes_max {
            break;
        }
        file.rewind()?;
        let read = read(stamp);
        let now = Stamp::of(&file.metadata()?);
        if now == stamp {
            return Ok((read?, stamp));
        }
        stamp = now;
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}

fn in_segment(node: &Node, mut file: &std::fs::File, stamp: Stamp, step: usize) -> io::Result<Kept> {
    let how = Export { anyone: Rights::READ, on_read: Notify::Never, ..Export::default() };
    let name = format!("web file {:016x}", unguessable());
    let segment = node.export(&name, stamp.bytes, how).map_err(|why| io::Error::other(why.message))?;
    let mut piece = vec![0; step.min(usize::try_from(stamp.bytes).unwrap_or(step)).max(1)];
    let mut at = 0;
    while at < stamp.bytes {
        let count = usize::try_from(stamp.bytes - at).unwrap_or(step).min(piece.len());
        // It may have shrunk since it was looked at.
        file.read_exact(&mut piece[..count])?;
        segment.write(at, &piece[..count]).map_err(|why| io::Error::other(why.message))?;
        at += count as u64;
    }
    Ok(Kept::Segment(segment))
}

fn in_memory(file: &std::fs::File, stamp: Stamp) -> io::Result<Bytes> {
    let mut bytes = Vec::new();
    file.take(stamp.bytes).read_to_end(&mut bytes)?;
    if (bytes.len() as u64) < stamp.bytes {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes.into())
}

/// Runs in a thread that may wait for a disk.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use std::{cell::Cell, os::unix::fs::symlink};

    use super::*;

    const READ_BYTES: usize = 4_096;
    const LONG_BYTES: usize = 4 * READ_BYTES;

    /// The length that it says, and all of its bytes.
    fn whole(found: &Found) -> (u64, Vec<u8>) {
        let bytes = match &found.content {
            Content::Memory(bytes) => bytes.to_vec(),
            Content::Segment(segment) => {
                let mut bytes = vec![0; segment.bytes() as usize];
                segment.read(0, &mut bytes).unwrap();
                bytes
            }
            Content::Disk(..) => panic!("it is not kept"),
        };
        (found.stamp.bytes, bytes)
    }

    #[tokio::test]
    async fn a_file_that_is_cut_or_written_after_it_was_looked_at_is_kept_as_it_is_then() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let node = Node::builder("server").listen("127.0.0.1:0").start().await.unwrap();
        for keep in [Keep::InSegments(node), Keep::InMemory] {
            // Cut within the last read, between two, within the first and before it; and longer.
            for bytes in [LONG_BYTES - 1, LONG_BYTES - READ_BYTES, 1, 0, LONG_BYTES + 1, 2 * LONG_BYTES] {
                let limits = FileLimits {
                    read_bytes: READ_BYTES,
                    kept_file_bytes_max: 2 * LONG_BYTES as u64 - 1,
                    ..FileLimits::default()
                };
                let cache = Cache::open(folder.path(), keep.clone(), limits).unwrap();
                std::fs::write(&path, vec![1; LONG_BYTES]).unwrap();
                let (file, stamp) = cache.look("file").await.unwrap();
                std::fs::write(&path, vec![2; bytes]).unwrap();
                let taken = cache.take_in("file", &file, stamp).await;
                if bytes == 2 * LONG_BYTES {
                    assert_eq!(taken.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
                    assert!(matches!(cache.find("file").await.unwrap().content, Content::Disk(..)), "too long to keep");
                    assert_eq!(cache.load(), (0, 0));
                } else {
                    assert_eq!(whole(&taken.unwrap()), (bytes as u64, vec![2; bytes]));
                    assert_eq!(whole(&cache.find("file").await.unwrap()), (bytes as u64, vec![2; bytes]));
                    assert_eq!(cache.load(), (1, bytes as u64));
                }
            }
        }
    }

    #[test]
    fn a_file_that_is_another_each_time_it_was_read_is_given_up() {
        let file = tempfile::tempfile().unwrap();
        let stamp = Stamp::of(&file.metadata().unwrap());
        let reads = Cell::new(0);
        let changing = |stamp: Stamp| {
            reads.set(reads.get() + 1);
            file.set_len(stamp.bytes + 1)
        };
        let why = read_settled(&file, stamp, u64::MAX, changing).unwrap_err();
        assert_eq!((why.kind(), reads.get()), (io::ErrorKind::UnexpectedEof, READS_MAX));
        let (told, now) = read_settled(&file, stamp, u64::MAX, |stamp| Ok(stamp.bytes)).unwrap();
        assert_eq!((told, now.bytes), (READS_MAX as u64, READS_MAX as u64));
    }

    /// Tries while somebody on this machine moves or mounts something: the system may say then that it cannot tell at once.
    const TRIES: u32 = 10_000;

    #[tokio::test]
    async fn files_within_the_folder_are_opened_at_once_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("sub")).unwrap();
        std::fs::write(at("sub/file"), "seven b").unwrap();
        symlink("sub/file", at("within")).unwrap();
        symlink("/etc/passwd", at("out")).unwrap();
        symlink("../../etc/passwd", at("up")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        let cache = Cache::open(folder.path(), Keep::Nothing, FileLimits::default()).unwrap();
        let mut tries = (0..TRIES).map(|_| look_at_once(&cache.folder, "sub/file"));
        assert_eq!(tries.find_map(|found| found).map(|(_, stamp)| stamp.bytes), Some(7));
        // Whether a link is followed at once is up to the file system: some never do, others not while its time of access is to be written.
        assert!(look_at_once(&cache.folder, "within").is_none_or(|(_, stamp)| stamp.bytes == 7));
        assert_eq!(cache.look("within").await.map(|(_, stamp)| stamp.bytes).unwrap(), 7);
        for name in ["sub", "out", "up", "socket", "none", "../etc/passwd", "/etc/passwd"] {
            assert!(look_at_once(&cache.folder, name).is_none(), "{name}");
            assert!(cache.look(name).await.is_err(), "{name}");
        }
    }
}
