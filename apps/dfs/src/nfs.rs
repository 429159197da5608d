//! The clerk as an NFSv3 server on loopback, so that any NFS client works: the request comes from the clerk's own machine, over local sockets (section 3.2).
//!
//! NFS handles have at most 64 bytes, and ours contain a path: so NFS clients get the file's identity, and the whole handle is remembered here. Handles not
//! remembered, because this clerk was restarted or there were too many, are asked from the server.

use std::{
    collections::HashMap,
    io,
    ops::Deref,
    os::unix::fs::MetadataExt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use catena_files::{
    Attributes, Change, CommitParams, CreateParams, Directory, Entry, FileError, FileService, GetattrParams, Handle,
    IDENTITY_BYTES, Kind, Listed, LookupParams, MkdirParams, ReadParams, RemoveParams, RenameParams, RootParams,
    Stable, Status, Verifier, WriteParams,
};
use nfs3_server::{
    nfs3_types::{
        nfs3::{
            self as nfs, Nfs3Option, createverf3, fattr3, filename3, ftype3, nfspath3, nfsstat3, nfstime3, sattr3,
            set_atime, set_mtime, stable_how,
        },
        rpc::auth_unix,
    },
    tcp::NFSTcp,
    vfs::{
        DirEntry, DirEntryPlus, FileHandle, NextResult, NfsFileSystem, NfsReadFileSystem, ReadDirIterator,
        ReadDirPlusIterator,
    },
};
use serde_bytes::ByteBuf;
use tokio::task::AbortHandle;

use crate::{clerk::Clerk, listening};

/// Files whose handles are remembered; beyond this, the oldest half is forgotten.
const HANDLES_MAX: usize = 262_144;
/// Files with writes that have not been committed yet; beyond this, writes to further files are on the disk before they are answered.
const UNCOMMITTED_MAX: usize = 65_536;

/// Whose requests are served, by the user that they name (AUTH_SYS). The client claims that user without proof.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Callers {
    /// The user as whom this process runs, and root.
    OwnUser,
    /// Whoever reaches the port, with or without a name.
    AnyUser,
}

impl Callers {
    /// The user who is accepted beside root; `None`: everybody.
    fn only(self) -> io::Result<Option<u32>> {
        match self {
            Self::OwnUser => Ok(Some(std::fs::metadata("/proc/self")?.uid())),
            Self::AnyUser => Ok(None),
        }
    }
}

/// A file's handle, as NFS clients see it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct FileId([u8; IDENTITY_BYTES]);

impl FileHandle for FileId {
    fn len(&self) -> usize {
        IDENTITY_BYTES
    }

    fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

impl FileId {
    /// The inode number; 0 has a special meaning in NFS.
    fn number(&self) -> u64 {
        let inode =
            self.0.get(8..16).and_then(|bytes| bytes.first_chunk()).map_or(1, |bytes| u64::from_le_bytes(*bytes));
        inode.max(1)
    }
}

/// A clerk that speaks NFSv3.
#[derive(Debug)]
pub struct NfsDoor {
    port: u16,
    task: AbortHandle,
}

impl Drop for NfsDoor {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl NfsDoor {
    /// Listens on a port of loopback (0: any), for the user as whom this process runs and for root. The export is `/`; mount and NFS have this one port.
    ///
    /// # Errors
    /// The port is taken, or the server is gone.
    pub async fn open(clerk: Clerk, port: u16) -> io::Result<Self> {
        Self::open_to(Callers::OwnUser, clerk, port).await
    }

    /// Like [`NfsDoor::open`], for the callers given.
    ///
    /// # Errors
    /// Those of [`NfsDoor::open`].
    pub async fn open_to(callers: Callers, clerk: Clerk, port: u16) -> io::Result<Self> {
        let root = clerk.root(RootParams {}).await.map_err(io::Error::other)?;
        let run = clerk.server_run().await.map_err(io::Error::other)?;
        let door = Door::new(clerk, callers.only()?, &root.handle).map_err(io::Error::other)?;
        let listener = listening::bind(door.clone(), port, run).await?;
        let port = listener.get_listen_port();
        let task = tokio::spawn(listening::serve(listener, door, run, listening::RESUMED_MAX));
        Ok(Self { port, task: task.abort_handle() })
    }

    /// The port, of NFS and of mount.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }
}

/// The file system that the listeners serve; a new listener may replace another.
#[derive(Clone)]
pub(crate) struct Door(Arc<Inner>);

impl Deref for Door {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

pub(crate) struct Inner {
    clerk: Clerk,
    /// The user whose requests are served, beside root's; `None`: everybody's.
    only: Option<u32>,
    root: FileId,
    handles: Mutex<Handles>,
    /// The server's verifier of the first write since the last commit: if the verifier of the next commit differs, that write may be lost.
    uncommitted: Mutex<HashMap<FileId, Verifier>>,
}

#[derive(Default)]
struct Handles {
    known: HashMap<FileId, (Handle, u64)>,
    remembered: u64,
}

fn id_of(handle: &Handle) -> Result<FileId, FileError> {
    Directory::identity(handle).map(FileId).ok_or_else(|| FileError::nfs(Status::BadHandle, "the server's handle"))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The status that an NFS client gets.
fn told(why: FileError) -> nfsstat3 {
    use nfsstat3 as N;
    match why {
        FileError::Limit { .. } => N::NFS3ERR_INVAL,
        FileError::Busy { .. } | FileError::Unreachable { .. } => N::NFS3ERR_JUKEBOX,
        FileError::Nfs { status, .. } => match status {
            Status::Perm => N::NFS3ERR_PERM,
            Status::NoEnt => N::NFS3ERR_NOENT,
            Status::NxIo => N::NFS3ERR_NXIO,
            Status::Acces => N::NFS3ERR_ACCES,
            Status::Exist => N::NFS3ERR_EXIST,
            Status::XDev => N::NFS3ERR_XDEV,
            Status::NoDev => N::NFS3ERR_NODEV,
            Status::NotDir => N::NFS3ERR_NOTDIR,
            Status::IsDir => N::NFS3ERR_ISDIR,
            Status::Inval => N::NFS3ERR_INVAL,
            Status::FBig => N::NFS3ERR_FBIG,
            Status::NoSpc => N::NFS3ERR_NOSPC,
            Status::RoFs => N::NFS3ERR_ROFS,
            Status::MLink => N::NFS3ERR_MLINK,
            Status::NameTooLong => N::NFS3ERR_NAMETOOLONG,
            Status::NotEmpty => N::NFS3ERR_NOTEMPTY,
            Status::DQuot => N::NFS3ERR_DQUOT,
            Status::Stale => N::NFS3ERR_STALE,
            Status::BadHandle => N::NFS3ERR_BADHANDLE,
            Status::BadCookie => N::NFS3ERR_BAD_COOKIE,
            Status::NotSupp => N::NFS3ERR_NOTSUPP,
            Status::Jukebox => N::NFS3ERR_JUKEBOX,
            _ => N::NFS3ERR_IO,
        },
        _ => N::NFS3ERR_IO,
    }
}

/// A name; ours are UTF-8.
fn name_of(name: &filename3<'_>) -> Result<String, nfsstat3> {
    std::str::from_utf8(name.as_ref()).map(str::to_owned).map_err(|_| nfsstat3::NFS3ERR_INVAL)
}

fn time(at_ms: u64) -> nfstime3 {
    nfstime3 { seconds: u32::try_from(at_ms / 1_000).unwrap_or(u32::MAX), nseconds: (at_ms % 1_000) as u32 * 1_000_000 }
}

fn time_ns(time: nfstime3) -> u64 {
    u64::from(time.seconds) * 1_000_000_000 + u64::from(time.nseconds)
}

fn now_ns() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(0)
}

fn shown(id: FileId, of: &Attributes) -> fattr3 {
    fattr3 {
        type_: match of.kind {
            Kind::File => ftype3::NF3REG,
            Kind::Directory => ftype3::NF3DIR,
            Kind::Symlink => ftype3::NF3LNK,
            Kind::Other => ftype3::NF3FIFO,
        },
        mode: of.mode,
        nlink: of.links,
        uid: of.uid,
        gid: of.gid,
        size: of.size,
        used: of.used_bytes,
        rdev: nfs::specdata3::default(),
        fsid: 0,
        fileid: id.number(),
        atime: time(of.accessed_at_ms),
        mtime: time(of.modified_at_ms),
        ctime: time(of.changed_at_ms),
    }
}

impl Door {
    fn new(clerk: Clerk, only: Option<u32>, root: &Handle) -> Result<Self, FileError> {
        let (handles, uncommitted) = (Mutex::default(), Mutex::default());
        let door = Self(Arc::new(Inner { clerk, only, root: id_of(root)?, handles, uncommitted }));
        door.remember(root);
        Ok(door)
    }

    fn remember(&self, handle: &Handle) {
        let Ok(id) = id_of(handle) else { return };
        let mut handles = lock(&self.handles);
        handles.remembered += 1;
        let now = handles.remembered;
        if handles.known.len() >= HANDLES_MAX {
            let root = self.root;
            handles.known.retain(|id, (_, since)| *id == root || *since + HANDLES_MAX as u64 / 2 > now);
        }
        handles.known.insert(id, (handle.clone(), now));
    }

    async fn handle(&self, id: &FileId) -> Result<Handle, nfsstat3> {
        let remembered = lock(&self.handles).known.get(id).map(|(handle, _)| handle.clone());
        if let Some(handle) = remembered {
            return Ok(handle);
        }
        let found = self.clerk.handle_of(&id.0).await.map_err(told)?;
        self.remember(&found);
        Ok(found)
    }

    /// The parent of a directory that is not the root. The path remembered here may be from before a move: so the server is asked where the directory is, and
    /// it must be there.
    async fn above(&self, dir: &FileId) -> Result<FileId, nfsstat3> {
        let handle = match self.clerk.handle_of(&dir.0).await {
            Ok(handle) => handle,
            Err(_) => self.handle(dir).await?,
        };
        let path = Directory::path_of(&handle).ok_or(nfsstat3::NFS3ERR_BADHANDLE)?;
        let at = async |path: &str| {
            let params = LookupParams { path: Some(path.to_owned()), ..LookupParams::default() };
            self.entered(&self.clerk.lookup(params).await.map_err(told)?).map(|(id, _)| id)
        };
        if at(&path).await != Ok(*dir) {
            return Err(nfsstat3::NFS3ERR_STALE);
        }
        match path.rsplit_once('/') {
            None => Ok(self.root),
            Some((above, _)) => at(above).await,
        }
    }

    /// Whether it can be remembered that this file has uncommitted writes. Concurrent writes can exceed the bound by at most their number.
    fn has_room_for(&self, id: &FileId) -> bool {
        let uncommitted = lock(&self.uncommitted);
        uncommitted.len() < UNCOMMITTED_MAX || uncommitted.contains_key(id)
    }

    fn entered(&self, entry: &Entry) -> Result<(FileId, fattr3), nfsstat3> {
        self.remember(&entry.handle);
        let id = id_of(&entry.handle).map_err(told)?;
        Ok((id, shown(id, &entry.attributes)))
    }

    async fn find(&self, dir: &FileId, name: &filename3<'_>) -> Result<Entry, nfsstat3> {
        let params = LookupParams { dir: Some(self.handle(dir).await?), name: Some(name_of(name)?), path: None };
        self.clerk.lookup(params).await.map_err(told)
    }

    async fn pages(&self, dir: &FileId, from: u64) -> Result<Pages<'_>, nfsstat3> {
        Ok(Pages { door: self, dir: self.handle(dir).await?, from, names: Vec::new().into_iter(), end: false })
    }
}

/// The names of a directory, page by page.
struct Pages<'a> {
    door: &'a Door,
    dir: Handle,
    from: u64,
    names: std::vec::IntoIter<Listed>,
    end: bool,
}

impl Pages<'_> {
    async fn next_name(&mut self) -> Result<Option<Listed>, nfsstat3> {
        loop {
            if let Some(name) = self.names.next() {
                return Ok(Some(name));
            }
            if self.end {
                return Ok(None);
            }
            let (names, end) = self.door.clerk.list(&self.dir, self.from).await.map_err(told)?;
            self.end = end || names.is_empty();
            self.from = names.last().map_or(self.from, |last| last.next);
            self.names = names.into_iter();
        }
    }
}

impl ReadDirIterator for Pages<'_> {
    async fn next(&mut self) -> NextResult<DirEntry> {
        match self.next_name().await {
            Ok(Some(one)) => {
                NextResult::Ok(DirEntry { fileid: one.number.max(1), name: one.name.into(), cookie: one.next })
            }
            Ok(None) => NextResult::Eof,
            Err(why) => NextResult::Err(why),
        }
    }
}

impl ReadDirPlusIterator<FileId> for Pages<'_> {
    async fn next(&mut self) -> NextResult<DirEntryPlus<FileId>> {
        let one = match self.next_name().await {
            Ok(Some(one)) => one,
            Ok(None) => return NextResult::Eof,
            Err(why) => return NextResult::Err(why),
        };
        // A file that is gone by now, or whose name is not UTF-8, is listed without attributes.
        let dir = Some(self.dir.clone());
        let found = match String::from_utf8(one.name.clone()) {
            Ok(name) => self.door.clerk.lookup(LookupParams { dir, name: Some(name), path: None }).await.ok(),
            Err(_) => None,
        };
        let found = found.and_then(|entry| self.door.entered(&entry).ok());
        NextResult::Ok(DirEntryPlus {
            fileid: one.number.max(1),
            name: one.name.into(),
            cookie: one.next,
            name_attributes: found.as_ref().map(|(_, attributes)| attributes.clone()),
            name_handle: found.map(|(id, _)| id),
        })
    }
}

impl NfsReadFileSystem for Door {
    type Handle = FileId;

    fn root_dir(&self) -> FileId {
        self.root
    }

    fn authorize(&self, caller: Option<&auth_unix>) -> bool {
        self.only.is_none_or(|only| caller.is_some_and(|caller| [0, only].contains(&caller.uid)))
    }

    async fn lookup(&self, dir: &FileId, name: &filename3<'_>) -> Result<FileId, nfsstat3> {
        match name.as_ref() {
            b"." => Ok(*dir),
            b".." if *dir == self.root => Ok(*dir),
            b".." => self.above(dir).await,
            _ => self.entered(&self.find(dir, name).await?).map(|(id, _)| id),
        }
    }

    async fn getattr(&self, id: &FileId) -> Result<fattr3, nfsstat3> {
        let params = GetattrParams { handle: self.handle(id).await? };
        self.clerk.getattr(params).await.map(|of| shown(*id, &of)).map_err(told)
    }

    async fn read(&self, id: &FileId, offset: u64, count: u32) -> Result<(Vec<u8>, bool), nfsstat3> {
        let params = ReadParams {
            handle: self.handle(id).await?,
            offset,
            count: count.min(catena_files::limits::READ_BYTES_MAX),
        };
        let read = self.clerk.read(params).await.map_err(told)?;
        Ok((read.data.into_vec(), read.eof))
    }

    async fn readdir(&self, dir: &FileId, cookie: u64) -> Result<impl ReadDirIterator, nfsstat3> {
        self.pages(dir, cookie).await
    }

    async fn readdirplus(&self, dir: &FileId, cookie: u64) -> Result<impl ReadDirPlusIterator<FileId>, nfsstat3> {
        self.pages(dir, cookie).await
    }

    async fn readlink(&self, id: &FileId) -> Result<nfspath3<'_>, nfsstat3> {
        self.clerk.readlink(&self.handle(id).await?).await.map(nfspath3::from).map_err(told)
    }
}

impl NfsFileSystem for Door {
    async fn setattr(&self, id: &FileId, set: sattr3) -> Result<fattr3, nfsstat3> {
        let handle = self.handle(id).await?;
        if set.uid.is_some() || set.gid.is_some() {
            // Owners are up to the server; but a client that sets the owner a file already has is not refused.
            let now = self.clerk.getattr(GetattrParams { handle: handle.clone() }).await.map_err(told)?;
            let same = |wanted: &Nfs3Option<u32>, is: u32| {
                matches!(wanted, Nfs3Option::None) || matches!(wanted, Nfs3Option::Some(one) if *one == is)
            };
            if !same(&set.uid, now.uid) || !same(&set.gid, now.gid) {
                return Err(nfsstat3::NFS3ERR_PERM);
            }
        }
        let change = Change {
            mode: option(&set.mode).map(|mode| mode & 0o777),
            size: option(&set.size),
            accessed_at_ns: match set.atime {
                set_atime::DONT_CHANGE => None,
                set_atime::SET_TO_SERVER_TIME => Some(now_ns()),
                set_atime::SET_TO_CLIENT_TIME(at) => Some(time_ns(at)),
            },
            modified_at_ns: match set.mtime {
                set_mtime::DONT_CHANGE => None,
                set_mtime::SET_TO_SERVER_TIME => Some(now_ns()),
                set_mtime::SET_TO_CLIENT_TIME(at) => Some(time_ns(at)),
            },
        };
        self.clerk.setattr(&handle, change).await.map(|of| shown(*id, &of)).map_err(told)
    }

    async fn write(
        &self,
        id: &FileId,
        offset: u64,
        data: &[u8],
        stable: stable_how,
    ) -> Result<(fattr3, stable_how), nfsstat3> {
        let handle = self.handle(id).await?;
        let stable = match stable {
            stable_how::UNSTABLE if !self.has_room_for(id) => Stable::FileSync,
            stable_how::UNSTABLE => Stable::Unstable,
            stable_how::DATA_SYNC => Stable::DataSync,
            stable_how::FILE_SYNC => Stable::FileSync,
        };
        let params = WriteParams { handle, offset, data: ByteBuf::from(data), stable };
        let written = self.clerk.write(params).await.map_err(told)?;
        let committed = match written.committed {
            Stable::Unstable => stable_how::UNSTABLE,
            Stable::DataSync => stable_how::DATA_SYNC,
            Stable::FileSync => stable_how::FILE_SYNC,
        };
        if written.committed == Stable::Unstable {
            lock(&self.uncommitted).entry(*id).or_insert(written.verifier);
        }
        self.getattr(id).await.map(|of| (of, committed))
    }

    async fn create(&self, dir: &FileId, name: &filename3<'_>, set: sattr3) -> Result<(FileId, fattr3), nfsstat3> {
        let params = CreateParams {
            dir: Some(self.handle(dir).await?),
            name: Some(name_of(name)?),
            mode: option(&set.mode).map(|mode| mode & 0o777),
            size: option(&set.size),
            ..CreateParams::default()
        };
        self.entered(&self.clerk.create(params).await.map_err(told)?)
    }

    async fn create_exclusive(&self, _: &FileId, _: &filename3<'_>, _: createverf3) -> Result<FileId, nfsstat3> {
        Err(nfsstat3::NFS3ERR_NOTSUPP)
    }

    async fn mkdir(&self, dir: &FileId, name: &filename3<'_>) -> Result<(FileId, fattr3), nfsstat3> {
        let params =
            MkdirParams { dir: Some(self.handle(dir).await?), name: Some(name_of(name)?), ..MkdirParams::default() };
        self.entered(&self.clerk.mkdir(params).await.map_err(told)?)
    }

    /// For files and directories: the library has one function for both.
    async fn remove(&self, dir: &FileId, name: &filename3<'_>) -> Result<(), nfsstat3> {
        let (at, found) = (self.handle(dir).await?, self.find(dir, name).await?);
        let name = name_of(name)?;
        if found.attributes.kind == Kind::Directory {
            return self.clerk.rmdir(Some(at), &name).await.map_err(told);
        }
        let params = RemoveParams { dir: Some(at), name: Some(name), path: None };
        self.clerk.remove(params).await.map_err(told)?;
        // A file with another name left can still be committed.
        if found.attributes.links <= 1
            && let Ok(id) = id_of(&found.handle)
        {
            lock(&self.uncommitted).remove(&id);
        }
        Ok(())
    }

    async fn rename<'a>(
        &self,
        from: &FileId,
        old: &filename3<'a>,
        to: &FileId,
        new: &filename3<'a>,
    ) -> Result<(), nfsstat3> {
        let (from_dir, to_dir) = (Some(self.handle(from).await?), Some(self.handle(to).await?));
        let params = RenameParams { from_dir, from_name: name_of(old)?, to_dir, to_name: name_of(new)? };
        self.clerk.rename(params).await.map_err(told)?;
        // Its handle contains a path, which is the new one from now on.
        if let Ok(found) = self.find(to, new).await {
            self.remember(&found.handle);
        }
        Ok(())
    }

    async fn symlink<'a>(
        &self,
        _: &FileId,
        _: &filename3<'a>,
        _: &nfspath3<'a>,
        _: &sattr3,
    ) -> Result<(FileId, fattr3), nfsstat3> {
        Err(nfsstat3::NFS3ERR_NOTSUPP)
    }

    /// The library's verifier is that of this process; the server's verifier is compared here.
    async fn commit(&self, id: &FileId, offset: u64, count: u32) -> Result<(), nfsstat3> {
        let before = lock(&self.uncommitted).remove(id);
        let done = self.clerk.commit(CommitParams { handle: self.handle(id).await?, offset, count }).await;
        match (done, before) {
            (Ok(done), Some(before)) if done.verifier != before => Err(nfsstat3::NFS3ERR_IO),
            (Ok(_), _) => Ok(()),
            (Err(why), before) => {
                if let Some(before) = before {
                    lock(&self.uncommitted).entry(*id).or_insert(before);
                }
                Err(told(why))
            }
        }
    }
}

fn option<T: Copy + nfs3_server::nfs3_types::xdr_codec::Pack + nfs3_server::nfs3_types::xdr_codec::Unpack>(
    of: &Nfs3Option<T>,
) -> Option<T> {
    match of {
        Nfs3Option::Some(value) => Some(*value),
        Nfs3Option::None => None,
    }
}

#[cfg(test)]
#[path = "nfs_tests.rs"]
pub(crate) mod tests;
