//! What a directory can do beyond [`FileService`](crate::FileService): the rest of NFSv3 that a whole file server needs.

use std::os::fd::AsFd;

use cap_std::fs::{Dir, Permissions, PermissionsExt};
use rustix::fs::{AtFlags, Mode, OFlags, Timespec, Timestamps};

use super::Directory;
use super::failure::failed;
use super::key::{FileKey, Place};
use super::tree::{OpenDir, Tree, attributes};
use crate::check::{self, Target};
use crate::error::FileError;
use crate::status::Status;
use crate::{Attributes, Handle, Kind, WriteParams, WriteResult};

/// Bytes of [`Directory::identity`].
pub const IDENTITY_BYTES: usize = 24;

/// The attributes to change (`sattr3`); absent ones stay as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Change {
    /// Permission bits, at most `0o777`.
    pub mode: Option<u32>,
    /// Cut or extend to so many bytes.
    pub size: Option<u64>,
    /// When it was last read, nanoseconds since 1970.
    pub accessed_at_ns: Option<u64>,
    /// When its data last changed, nanoseconds since 1970.
    pub modified_at_ns: Option<u64>,
}

/// The state of the file system that holds the directory (`FSSTAT3resok`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FileSystemState {
    /// Total size in bytes.
    pub total_bytes: u64,
    /// Bytes that are free.
    pub free_bytes: u64,
    /// Free bytes that unprivileged users may use.
    pub available_bytes: u64,
    /// Files that it has room for in total.
    pub total_files: u64,
    /// Files that may still be created.
    pub free_files: u64,
}

/// A name in a directory, and where to go on after it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Listed {
    /// The name's bytes.
    #[serde(with = "serde_bytes")]
    pub name: Vec<u8>,
    /// The number of its file on this file system.
    pub number: u64,
    /// Where to continue after this name.
    pub next: u64,
}

impl Directory {
    /// Tells the file of a handle from every other that this server ever had, whatever its name is now; `None` if `handle` is not a valid handle.
    #[must_use]
    pub fn identity(handle: &Handle) -> Option<[u8; IDENTITY_BYTES]> {
        Place::of("identity", handle).ok().map(|place| place.key.bytes())
    }

    /// The path in a handle, from the root; `None` if it is not a valid handle.
    #[must_use]
    pub fn path_of(handle: &Handle) -> Option<String> {
        Place::of("path", handle).ok().map(|place| place.path)
    }

    /// The handle of the same file after it was moved to another path together with a directory above it; `None` for an invalid handle or path.
    #[must_use]
    pub fn handle_at(handle: &Handle, path: &str) -> Option<Handle> {
        let moved = Place { path: path.to_owned(), ..Place::of("path", handle).ok()? }.handle();
        Place::of("path", &moved).is_ok().then_some(moved)
    }

    /// Reads where a symbolic link points (READLINK). It is never followed.
    ///
    /// # Errors
    /// `NFS3ERR_INVAL`: it is no link; `NFS3ERR_STALE`, `NFS3ERR_BADHANDLE`.
    pub async fn readlink(&self, handle: Handle) -> Result<Vec<u8>, FileError> {
        self.blocking("readlink", move |tree| tree.readlink(&handle)).await
    }

    /// The state of the file system (FSSTAT).
    ///
    /// # Errors
    /// The system's.
    pub async fn statfs(&self) -> Result<FileSystemState, FileError> {
        self.blocking("statfs", Tree::statfs).await
    }

    /// Removes an empty directory (RMDIR).
    ///
    /// # Errors
    /// `NFS3ERR_NOTEMPTY`, `NFS3ERR_NOTDIR`, `NFS3ERR_NOENT` and the others of `remove`.
    pub async fn rmdir(&self, dir: Option<Handle>, name: String) -> Result<(), FileError> {
        self.blocking("rmdir", move |tree| tree.rmdir(dir.as_ref(), &name)).await
    }

    /// Changes attributes (SETATTR), and returns the new ones. Symbolic links cannot be changed.
    ///
    /// # Errors
    /// `NFS3ERR_INVAL` for a mode over `0o777`, or a size for something that is not a file; the system's.
    pub async fn setattr(&self, handle: Handle, change: Change) -> Result<Attributes, FileError> {
        self.blocking("setattr", move |tree| tree.setattr(&handle, change)).await
    }

    /// Writes (WRITE), and returns the file's attributes afterwards. `before` is called with its size before anything is written, on the writing thread.
    ///
    /// # Errors
    /// Those of `write`: `before` may have been called all the same, and something may have been written.
    pub async fn write_between(
        &self,
        params: WriteParams,
        before: impl FnOnce(u64) + Send + 'static,
    ) -> Result<(WriteResult, Attributes), FileError> {
        self.blocking("write", move |tree| tree.write_between(&params, before)).await
    }

    /// Lists names from `from` on (a [`Listed::next`]; 0: the start): at most `count`, and at most so many bytes of names, but at least one name. Also returns
    /// whether the directory ends with them.
    ///
    /// # Errors
    /// `NFS3ERR_NOTDIR`, `NFS3ERR_STALE`, `NFS3ERR_BADHANDLE`, `NFS3ERR_BAD_COOKIE`.
    pub async fn list(
        &self,
        dir: Handle,
        from: u64,
        count: usize,
        name_bytes: usize,
    ) -> Result<(Vec<Listed>, bool), FileError> {
        self.blocking("readdir", move |tree| tree.list(&dir, from, count, name_bytes)).await
    }
}

impl FileKey {
    fn bytes(&self) -> [u8; IDENTITY_BYTES] {
        let mut bytes = [0; IDENTITY_BYTES];
        for (to, part) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(self.parts()) {
            *to = part.to_le_bytes();
        }
        bytes
    }
}

impl Tree {
    fn readlink(&self, handle: &Handle) -> Result<Vec<u8>, FileError> {
        let place = Place::of("readlink", handle)?;
        if !self.metadata("readlink", handle)?.is_symlink() {
            return Err(FileError::nfs(Status::Inval, format!("readlink of {:?}: it is no link", place.path)));
        }
        // The target is shown as it is, even if it is outside the directory, since nobody follows it here.
        self.at_either_path("readlink", &place, |path| {
            let (above, name) = path.rsplit_once('/').unwrap_or((".", path));
            let dir = self.root_dir().open_dir(above)?;
            let metadata = dir.symlink_metadata(name)?;
            let link = rustix::fs::readlinkat(dir.as_fd(), name, Vec::new())?;
            Ok((FileKey::of(&metadata), link.into_bytes()))
        })
    }

    fn statfs(&self) -> Result<FileSystemState, FileError> {
        let state =
            rustix::fs::fstatvfs(self.root_dir().as_fd()).map_err(|why| failed("statfs".to_owned(), &why.into()))?;
        let bytes = |blocks: u64| blocks.saturating_mul(state.f_frsize);
        Ok(FileSystemState {
            total_bytes: bytes(state.f_blocks),
            free_bytes: bytes(state.f_bfree),
            available_bytes: bytes(state.f_bavail),
            total_files: state.f_files,
            free_files: state.f_ffree,
        })
    }

    fn rmdir(&self, dir: Option<&Handle>, name: &str) -> Result<(), FileError> {
        let target = Target::of("rmdir", dir, Some(name), None)?;
        let at = self.walk("rmdir", &target)?;
        let path = at.place.below(target.name);
        at.dir.remove_dir(target.name).map_err(|why| failed(format!("rmdir of {path:?}"), &why))
    }

    fn setattr(&self, handle: &Handle, change: Change) -> Result<Attributes, FileError> {
        check::mode("setattr", change.mode)?;
        check::size("setattr", change.size.unwrap_or(0))?;
        let place = Place::of("setattr", handle)?;
        let fail = |why: std::io::Error| failed(format!("setattr of {:?}", place.path), &why);
        let kind = attributes(&self.metadata("setattr", handle)?).kind;
        if let Some(size) = change.size {
            let (file, _) = self.open_file("setattr", handle, true)?;
            file.set_len(size).map_err(fail)?;
        }
        if matches!(kind, Kind::Symlink | Kind::Other) {
            return Err(FileError::nfs(
                Status::NotSupp,
                format!("setattr of {:?}: neither file nor directory", place.path),
            ));
        }
        self.at_either_path("setattr", &place, |path| {
            let (above, name) = path.rsplit_once('/').unwrap_or((".", path));
            let (dir, name) = match name {
                "" => (self.root_dir().try_clone()?, "."),
                name => (self.root_dir().open_dir(above)?, name),
            };
            let found = if name == "." { dir.dir_metadata()? } else { dir.symlink_metadata(name)? };
            let key = FileKey::of(&found);
            if key == place.key {
                change_there(&dir, name, change)?;
            }
            Ok((key, ()))
        })?;
        self.metadata("setattr", handle).map(|metadata| attributes(&metadata))
    }

    fn list(&self, dir: &Handle, from: u64, count: usize, name_bytes: usize) -> Result<(Vec<Listed>, bool), FileError> {
        let OpenDir { dir, place } = self.open_dir("readdir", Some(dir))?;
        let fail = |error: rustix::io::Errno| failed(format!("readdir of {:?}", place.path), &error.into());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let readable = rustix::fs::openat(dir.as_fd(), c".", flags, Mode::empty()).map_err(fail)?;
        let mut stream = rustix::fs::Dir::new(readable).map_err(fail)?;
        if from != 0 {
            let bad = |_| FileError::nfs(Status::BadCookie, format!("readdir of {:?}", place.path));
            stream.seek(from.cast_signed()).map_err(bad)?;
        }
        let (mut listed, mut bytes) = (Vec::new(), 0);
        while let Some(found) = stream.read() {
            let found = found.map_err(fail)?;
            let name = found.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            bytes += name.len();
            if !listed.is_empty() && (listed.len() >= count || bytes > name_bytes) {
                return Ok((listed, false));
            }
            listed.push(Listed { name: name.to_vec(), number: found.ino(), next: found.offset().cast_unsigned() });
        }
        Ok((listed, true))
    }
}

/// Changes the attributes that can be set without opening the file.
fn change_there(dir: &Dir, name: &str, change: Change) -> std::io::Result<()> {
    if let Some(mode) = change.mode {
        dir.set_permissions(name, Permissions::from_mode(mode))?;
    }
    if change.accessed_at_ns.is_some() || change.modified_at_ns.is_some() {
        let times =
            Timestamps { last_access: time(change.accessed_at_ns), last_modification: time(change.modified_at_ns) };
        rustix::fs::utimensat(dir.as_fd(), name, &times, AtFlags::SYMLINK_NOFOLLOW)?;
    }
    Ok(())
}

fn time(at_ns: Option<u64>) -> Timespec {
    const SECOND_NS: u64 = 1_000_000_000;
    match at_ns {
        Some(at) => Timespec { tv_sec: (at / SECOND_NS).cast_signed(), tv_nsec: (at % SECOND_NS).cast_signed() },
        None => Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT },
    }
}
