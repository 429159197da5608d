//! From handles to open directories and files: the only place where a path becomes something open.

use std::io::ErrorKind;
use std::sync::{Arc, Mutex, PoisonError};

use cap_std::fs::{Dir, File, Metadata, MetadataExt, OpenOptions, OpenOptionsExt};
use rustix::fs::OFlags;

use super::bounded::Bounded;
use super::failure::failed;
use super::key::{FileKey, Place};
use crate::check::Target;
use crate::error::FileError;
use crate::limits::{MOVES_MAX, OPEN_FILES_MAX, PATH_BYTES_MAX, PATH_DEPTH_MAX};
use crate::status::Status;
use crate::{Attributes, Entry, Handle, Kind, Verifier};

/// The directory that is served, and its state between calls. The methods block.
#[derive(Debug)]
pub(super) struct Tree {
    root: Dir,
    open_files: Mutex<Bounded<FileKey, OpenFile>>,
    moves: Mutex<Bounded<FileKey, String>>,
    verifier: u64,
}

/// A file kept open, so that the next call on it needs no path.
#[derive(Clone, Debug)]
struct OpenFile {
    file: Arc<File>,
    writable: bool,
}

/// A directory that a handle stands for, open.
pub(super) struct OpenDir {
    pub(super) dir: Dir,
    pub(super) place: Place,
}

impl Tree {
    pub(super) fn new(root: Dir, verifier: u64) -> Self {
        Self {
            root,
            open_files: Mutex::new(Bounded::new(OPEN_FILES_MAX)),
            moves: Mutex::new(Bounded::new(MOVES_MAX)),
            verifier,
        }
    }

    /// The directory that is served.
    pub(super) const fn root_dir(&self) -> &Dir {
        &self.root
    }

    pub(super) fn verifier(&self) -> Verifier {
        Verifier(serde_bytes::ByteBuf::from(self.verifier.to_be_bytes()))
    }

    /// Opens the directory that `handle` stands for, or the root.
    pub(super) fn open_dir(&self, function: &str, handle: Option<&Handle>) -> Result<OpenDir, FileError> {
        let fail = |error: &std::io::Error| failed(format!("{function} of the root"), error);
        let Some(handle) = handle else {
            let dir = self.root.try_clone().map_err(|error| fail(&error))?;
            let key = FileKey::of(&dir.dir_metadata().map_err(|error| fail(&error))?);
            return Ok(OpenDir { dir, place: Place { key, path: String::new() } });
        };
        let place = Place::of(function, handle)?;
        let opened = self.at_either_path(function, &place, |path| {
            let dir = if path.is_empty() { self.root.try_clone()? } else { self.root.open_dir(path)? };
            let key = FileKey::of(&dir.dir_metadata()?);
            Ok((key, OpenDir { dir, place: Place { key, path: path.to_owned() } }))
        });
        match opened {
            Err(_) if self.metadata(function, handle).is_ok_and(|metadata| !metadata.is_dir()) => {
                Err(FileError::nfs(Status::NotDir, format!("{function} of {:?}", place.path)))
            }
            opened => opened,
        }
    }

    /// Goes down from the target's directory to the one that holds its last name. No link is followed.
    pub(super) fn walk(&self, function: &str, target: &Target<'_>) -> Result<OpenDir, FileError> {
        let mut at = self.open_dir(function, target.dir)?;
        for name in &target.parents {
            let path = at.place.below(name);
            let fail = |error: &std::io::Error| failed(format!("{function} of {path:?}"), error);
            let metadata = at.dir.symlink_metadata(name).map_err(|error| fail(&error))?;
            if !metadata.is_dir() {
                return Err(FileError::nfs(Status::NotDir, format!("{function} of {path:?}")));
            }
            let dir = at.dir.open_dir(name).map_err(|error| fail(&error))?;
            let key = FileKey::of(&dir.dir_metadata().map_err(|error| fail(&error))?);
            at = OpenDir { dir, place: Place { key, path } };
        }
        let path = at.place.below(target.name);
        if path.len() > PATH_BYTES_MAX || path.split('/').count() > PATH_DEPTH_MAX {
            let what = format!(
                "{function}: from the root, the path has {} bytes in {} components, over path_bytes_max = \
                 {PATH_BYTES_MAX} or path_depth_max = {PATH_DEPTH_MAX}",
                path.len(),
                path.split('/').count()
            );
            return Err(FileError::nfs(Status::NameTooLong, what));
        }
        Ok(at)
    }

    /// The attributes of whatever a handle stands for.
    pub(super) fn metadata(&self, function: &str, handle: &Handle) -> Result<Metadata, FileError> {
        let place = Place::of(function, handle)?;
        if let Some((_, metadata)) = self.cached(&place.key, false) {
            return Ok(metadata);
        }
        self.at_either_path(function, &place, |path| {
            let metadata =
                if path.is_empty() { self.root.dir_metadata()? } else { self.root.symlink_metadata(path)? };
            Ok((FileKey::of(&metadata), metadata))
        })
    }

    /// Opens the regular file that a handle stands for, or returns it if it is already open.
    pub(super) fn open_file(
        &self,
        function: &str,
        handle: &Handle,
        writable: bool,
    ) -> Result<(Arc<File>, Metadata), FileError> {
        let place = Place::of(function, handle)?;
        if let Some(found) = self.cached(&place.key, writable) {
            return Ok(found);
        }
        // Its type is checked before it is opened: opening a device or a pipe can have effects or block.
        let metadata = self.metadata(function, handle)?;
        match kind(&metadata) {
            Kind::File => {}
            Kind::Directory => return Err(FileError::nfs(Status::IsDir, format!("{function} of {:?}", place.path))),
            Kind::Symlink | Kind::Other => {
                let what = format!("{function} of {:?}: it is not a regular file", place.path);
                return Err(FileError::nfs(Status::Inval, what));
            }
        }
        let (file, metadata) = self.at_either_path(function, &place, |path| {
            let mut options = OpenOptions::new();
            options.read(!writable || metadata.mode() & 0o400 != 0).write(writable).custom_flags(safe_flags());
            let file = self.root.open_with(path, &options)?;
            let metadata = file.metadata()?;
            Ok((FileKey::of(&metadata), (file, metadata)))
        })?;
        let file = Arc::new(file);
        self.keep_open(place.key, Arc::clone(&file), writable);
        Ok((file, metadata))
    }

    /// Tries the path in the handle, then the path a rename gave the file, and makes sure that it is the same file.
    pub(super) fn at_either_path<T>(
        &self,
        function: &str,
        place: &Place,
        mut open: impl FnMut(&str) -> std::io::Result<(FileKey, T)>,
    ) -> Result<T, FileError> {
        let moved = self.moves.lock().unwrap_or_else(PoisonError::into_inner).get(&place.key).cloned();
        for path in [Some(place.path.clone()), moved].into_iter().flatten() {
            match open(&path) {
                Ok((key, opened)) if key == place.key => return Ok(opened),
                Ok(_) => {}
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
                Err(error) if rustix::io::Errno::from_io_error(&error) == Some(rustix::io::Errno::LOOP) => {}
                Err(error) => return Err(failed(format!("{function} of {path:?}"), &error)),
            }
        }
        Err(FileError::nfs(Status::Stale, format!("{function} of {:?}", place.path)))
    }

    /// An open file that still has a name, with its current attributes.
    pub(super) fn cached(&self, key: &FileKey, writable: bool) -> Option<(Arc<File>, Metadata)> {
        let open = self.open_files.lock().unwrap_or_else(PoisonError::into_inner).get(key)?.clone();
        if writable && !open.writable {
            return None;
        }
        match open.file.metadata() {
            Ok(metadata) if metadata.nlink() > 0 => Some((open.file, metadata)),
            _ => {
                self.forget(key);
                None
            }
        }
    }

    /// Keeps a file open for later calls; `writable`: it is open for writing, too.
    pub(super) fn keep_open(&self, key: FileKey, file: Arc<File>, writable: bool) {
        let mut open_files = self.open_files.lock().unwrap_or_else(PoisonError::into_inner);
        open_files.insert(key, OpenFile { file, writable });
    }

    /// Closes a file that was removed, so that its space is free at once.
    pub(super) fn forget(&self, key: &FileKey) {
        self.open_files.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    /// Remembers where a rename put a file, so that handles from before go on working.
    pub(super) fn moved(&self, key: FileKey, path: String) {
        self.moves.lock().unwrap_or_else(PoisonError::into_inner).insert(key, path);
    }
}

/// Flags for every open: links are not followed, and nothing blocks (opening a pipe with no other end would).
pub(super) fn safe_flags() -> i32 {
    (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed()
}

/// The handle and attributes of a file found at `path`.
pub(super) fn entry(path: String, metadata: &Metadata) -> Entry {
    Entry { handle: Place { key: FileKey::of(metadata), path }.handle(), attributes: attributes(metadata) }
}

fn kind(metadata: &Metadata) -> Kind {
    if metadata.is_file() {
        Kind::File
    } else if metadata.is_dir() {
        Kind::Directory
    } else if metadata.is_symlink() {
        Kind::Symlink
    } else {
        Kind::Other
    }
}

pub(super) fn attributes(metadata: &Metadata) -> Attributes {
    Attributes {
        kind: kind(metadata),
        size: metadata.size(),
        used_bytes: metadata.blocks().saturating_mul(512),
        mode: metadata.mode() & 0o7777,
        links: u32::try_from(metadata.nlink()).unwrap_or(u32::MAX),
        uid: metadata.uid(),
        gid: metadata.gid(),
        accessed_at_ms: ms(metadata.atime(), metadata.atime_nsec()),
        modified_at_ms: ms(metadata.mtime(), metadata.mtime_nsec()),
        changed_at_ms: ms(metadata.ctime(), metadata.ctime_nsec()),
    }
}

/// Milliseconds since 1970; 0 for what was before.
fn ms(seconds: i64, nanoseconds: i64) -> u64 {
    u64::try_from(seconds.saturating_mul(1000).saturating_add(nanoseconds / 1_000_000)).unwrap_or(0)
}
