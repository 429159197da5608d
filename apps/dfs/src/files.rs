//! The clerk's operations: those of a file service, and the rest of NFSv3.

use async_trait::async_trait;
use bytes::Bytes;
use catena_files::{
    Attributes, Change, CommitParams, CommitResult, Cookie, CreateParams, DirEntry, Directory, Done, Entry, FileError,
    FileService, FileSystemState, GetattrParams, Handle, Kind, Listed, LookupParams, MkdirParams, ReadParams,
    ReadResult, ReaddirParams, ReaddirResult, RemoveParams, RenameParams, RootParams, Status, WriteParams, WriteResult,
    check::{self, Target},
};
use futures_util::{StreamExt, TryStreamExt, stream};
use serde_bytes::ByteBuf;

use crate::{
    caches::{Identity, keys},
    clerk::Clerk,
    limits::{BLOCK_BYTES, REQUESTS_AT_ONCE_MAX, TRANSFER_BYTES_MAX},
    packed,
    protocol::{Reply, Request},
};

/// Takes the reply that belongs to a request.
macro_rules! reply {
    ($clerk:expr, $request:expr, $variant:pat => $value:expr) => {
        match $clerk.ask($request).await? {
            $variant => Ok($value),
            other => Err(other.unexpected()),
        }
    };
}

impl Clerk {
    /// Whether the server is there (NULL): one READ of a word, if this clerk reads.
    ///
    /// # Errors
    /// [`FileError::Unreachable`]
    pub async fn null(&self) -> Result<(), FileError> {
        if self.find(async |session| session.attributes.beat().await.ok()).await.is_some() {
            return Ok(());
        }
        reply!(self, Request::Null, Reply::Done => ())
    }

    /// Where a symbolic link points (READLINK).
    ///
    /// # Errors
    /// `NFS3ERR_INVAL`: it is no link; `NFS3ERR_STALE`, `NFS3ERR_BADHANDLE`; the server is gone.
    pub async fn readlink(&self, handle: &Handle) -> Result<Vec<u8>, FileError> {
        if let Some(identity) = Directory::identity(handle) {
            let found = self.find(async |session| session.entries.get(keys::link(&identity), 64).await.ok()?).await;
            if let Some(to) = found {
                return Ok(to);
            }
        }
        reply!(self, Request::Readlink(handle.clone()), Reply::Link(to) => to.into_vec())
    }

    /// The state of the file system (FSSTAT), as it was at most a second ago.
    ///
    /// # Errors
    /// The server is gone, or its system refuses.
    pub async fn statfs(&self) -> Result<FileSystemState, FileError> {
        let read =
            self.find(async |session| packed::to_state(&session.attributes.get(keys::state(), 40).await.ok()??)).await;
        match read {
            Some(state) => Ok(state),
            None => reply!(self, Request::Statfs, Reply::State(state) => state),
        }
    }

    /// One page of a directory from `from` on (0: its start), and whether it is the last.
    ///
    /// # Errors
    /// `NFS3ERR_NOTDIR`, `NFS3ERR_STALE`, `NFS3ERR_BADHANDLE`, `NFS3ERR_BAD_COOKIE`; the server is gone.
    pub async fn list(&self, dir: &Handle, from: u64) -> Result<(Vec<Listed>, bool), FileError> {
        if let Some(identity) = Directory::identity(dir) {
            let key = keys::page(&identity, from);
            let read = self
                .find(async |session| {
                    packed::to_page(&session.entries.get(key, packed::PAGE_BYTES_EXPECTED).await.ok()??)
                })
                .await;
            if let Some(page) = read {
                return Ok(page);
            }
        }
        reply!(self, Request::List { dir: dir.clone(), from }, Reply::Page { names, end } => (names, end))
    }

    /// Removes an empty directory (RMDIR).
    ///
    /// # Errors
    /// `NFS3ERR_NOTEMPTY`, `NFS3ERR_NOTDIR`, `NFS3ERR_NOENT`; [`FileError::OutcomeUnknown`].
    pub async fn rmdir(&self, dir: Option<Handle>, name: &str) -> Result<(), FileError> {
        check::name("rmdir", name)?;
        reply!(self, Request::Rmdir { dir, name: name.to_owned() }, Reply::Done => ())
    }

    /// Changes attributes (SETATTR).
    ///
    /// # Errors
    /// `NFS3ERR_INVAL`, `NFS3ERR_STALE`; [`FileError::OutcomeUnknown`].
    pub async fn setattr(&self, handle: &Handle, change: Change) -> Result<Attributes, FileError> {
        reply!(self, Request::Setattr { handle: handle.clone(), change }, Reply::Attributes(attributes) => attributes)
    }

    /// The handle of the file with this identity, if the server still knows the file.
    pub(crate) async fn handle_of(&self, identity: &Identity) -> Result<Handle, FileError> {
        reply!(self, Request::Find(ByteBuf::from(identity)), Reply::Found(handle) => handle)
    }

    /// One name in a directory.
    async fn below(&self, dir: &Handle, name: &str) -> Result<Entry, FileError> {
        if let Some(identity) = Directory::identity(dir) {
            let key = keys::name(&identity, name);
            let expected = packed::ENTRY_BYTES_EXPECTED;
            let read =
                self.find(async |session| packed::to_entry(&session.names.get(key, expected).await.ok()??)).await;
            if let Some(found) = read {
                return Ok(found);
            }
        }
        let params = LookupParams { dir: Some(dir.clone()), name: Some(name.to_owned()), path: None };
        reply!(self, Request::Lookup(params), Reply::Entry(found) => found)
    }

    /// Bytes within one block, if the table has it: the bytes, and whether the file ends with them.
    async fn block(&self, handle: &Handle, offset: u64, count: u64) -> Option<(Bytes, bool)> {
        let identity = Directory::identity(handle)?;
        let within = (offset % BLOCK_BYTES) as usize;
        let wanted = within + count as usize;
        let key = keys::block(&identity, offset / BLOCK_BYTES);
        let brought = packed::BLOCK_HEAD_BYTES + wanted;
        self.find(async |session| {
            let value = session.data.begin(key, brought).await.ok()??;
            let (length, end, data) = packed::to_block(&value)?;
            let (from, to) = (within.min(length), wanted.min(length));
            if data.len() < to {
                return None;
            }
            let wanted = packed::BLOCK_HEAD_BYTES + from..packed::BLOCK_HEAD_BYTES + to;
            Some((Bytes::from(value).slice(wanted), end && to == length))
        })
        .await
    }

    /// Bytes within one block or transfer.
    async fn piece(&self, handle: &Handle, offset: u64, count: u64) -> Result<(Bytes, bool), FileError> {
        if let Some(found) = self.block(handle, offset, count).await {
            return Ok(found);
        }
        let params = ReadParams { handle: handle.clone(), offset, count: count as u32 };
        reply!(self, Request::Read(params), Reply::Data { data, end } => (data.into_vec().into(), end))
    }

    /// Writes what fits into one request; also returns how many bytes that are.
    async fn write_part(&self, part: WriteParams) -> Result<(usize, WriteResult), FileError> {
        let bytes = part.data.len();
        reply!(self, Request::Write(part), Reply::Written(done) => (bytes, done))
    }

    /// The pieces of a read: blocks where the tables are read, transfers where the server is asked.
    fn pieces(&self, offset: u64, count: u64) -> Vec<(u64, u64)> {
        let step = if self.way() == crate::Way::Data { BLOCK_BYTES } else { TRANSFER_BYTES_MAX };
        let (mut at, end) = (offset, offset.saturating_add(count));
        let mut pieces = Vec::new();
        while at < end {
            let next = (at / step + 1).saturating_mul(step).min(end);
            pieces.push((at, next - at));
            at = next;
        }
        if pieces.is_empty() { vec![(offset, 0)] } else { pieces }
    }
}

#[async_trait]
impl FileService for Clerk {
    async fn root(&self, _params: RootParams) -> Result<Entry, FileError> {
        let handle = self.session().await?.root.handle.clone();
        let attributes = self.getattr(GetattrParams { handle: handle.clone() }).await;
        match attributes {
            Ok(attributes) => Ok(Entry { handle, attributes }),
            Err(_) => reply!(self, Request::Root, Reply::Entry(root) => root),
        }
    }

    async fn lookup(&self, params: LookupParams) -> Result<Entry, FileError> {
        let target = Target::of("lookup", params.dir.as_ref(), params.name.as_deref(), params.path.as_deref())?;
        let mut dir = match target.dir {
            Some(dir) => dir.clone(),
            None => self.session().await?.root.handle.clone(),
        };
        for parent in &target.parents {
            let found = self.below(&dir, parent).await?;
            if found.attributes.kind != Kind::Directory {
                return Err(FileError::nfs(Status::NotDir, format!("lookup of {:?}", target.path())));
            }
            dir = found.handle;
        }
        self.below(&dir, target.name).await
    }

    async fn getattr(&self, params: GetattrParams) -> Result<Attributes, FileError> {
        if let Some(identity) = Directory::identity(&params.handle) {
            let key = keys::attributes(&identity);
            let expected = packed::ATTRIBUTES_BYTES;
            let read =
                self.find(async |session| packed::to_attributes(&session.attributes.get(key, expected).await.ok()??));
            if let Some(found) = read.await {
                return Ok(found);
            }
        }
        check::handle("getattr", &params.handle)?;
        reply!(self, Request::Getattr(params.handle), Reply::Attributes(found) => found)
    }

    async fn read(&self, params: ReadParams) -> Result<ReadResult, FileError> {
        check::read_count(params.count)?;
        check::handle("read", &params.handle)?;
        let pieces = self.pieces(params.offset, params.count.into());
        let reads = pieces.into_iter().map(|(offset, count)| {
            let (clerk, handle) = (self.clone(), params.handle.clone());
            async move { Ok::<_, FileError>((count, clerk.piece(&handle, offset, count).await?)) }
        });
        let mut reads = stream::iter(reads).buffered(REQUESTS_AT_ONCE_MAX);
        // Allocated at once: a growing vector would be copied repeatedly. The amount was bounded above.
        let (mut data, mut eof) = (Vec::with_capacity(params.count as usize), false);
        while let Some((count, (piece, end))) = reads.try_next().await? {
            data.extend_from_slice(&piece);
            eof = end;
            if end || (piece.len() as u64) < count {
                break;
            }
        }
        Ok(ReadResult { data: ByteBuf::from(data), eof })
    }

    async fn write(&self, params: WriteParams) -> Result<WriteResult, FileError> {
        check::write_range(params.offset, params.data.len())?;
        check::handle("write", &params.handle)?;
        let starts = (0..params.data.len().max(1)).step_by(TRANSFER_BYTES_MAX as usize);
        let parts: Vec<WriteParams> = starts.map(|from| part_of(&params, from)).collect();
        let mut parts = stream::iter(parts).map(|part| self.write_part(part)).buffered(REQUESTS_AT_ONCE_MAX);
        let mut written: Option<WriteResult> = None;
        while let Some((bytes, done)) = parts.try_next().await? {
            let short = (done.count as usize) < bytes;
            // Parts that two runs of the server took have two verifiers: the first is told, so that a commit shows that something may be lost.
            written = Some(match written {
                None => done,
                Some(before) => WriteResult { count: before.count + done.count, ..before },
            });
            if short {
                break;
            }
        }
        written.ok_or_else(|| FileError::nfs(Status::Io, "write"))
    }

    async fn create(&self, params: CreateParams) -> Result<Entry, FileError> {
        Target::of("create", params.dir.as_ref(), params.name.as_deref(), params.path.as_deref())?;
        reply!(self, Request::Create(params), Reply::Entry(made) => made)
    }

    async fn commit(&self, params: CommitParams) -> Result<CommitResult, FileError> {
        check::handle("commit", &params.handle)?;
        reply!(self, Request::Commit(params), Reply::Committed(done) => done)
    }

    async fn remove(&self, params: RemoveParams) -> Result<Done, FileError> {
        Target::of("remove", params.dir.as_ref(), params.name.as_deref(), params.path.as_deref())?;
        reply!(self, Request::Remove(params), Reply::Done => Done {})
    }

    async fn readdir(&self, params: ReaddirParams) -> Result<ReaddirResult, FileError> {
        let count = check::readdir_count(params.count)? as usize;
        let mut from = params.cookie.as_ref().map(check::cookie::<8>).transpose()?.map_or(0, u64::from_le_bytes);
        let dir = match params.dir {
            Some(dir) => dir,
            None => self.session().await?.root.handle.clone(),
        };
        check::handle("readdir", &dir)?;
        let mut entries: Vec<DirEntry> = Vec::new();
        loop {
            let (mut names, mut end) = self.list(&dir, from).await?;
            if names.len() > count - entries.len() {
                names.truncate(count - entries.len());
                end = false;
            }
            from = names.last().map_or(from, |last| last.next);
            let none = names.is_empty();
            entries.extend(names.iter().map(|one| DirEntry::of(&one.name)));
            if end || none {
                return Ok(ReaddirResult { entries, next: None, eof: true });
            }
            if entries.len() >= count {
                return Ok(ReaddirResult {
                    entries,
                    next: Some(Cookie(ByteBuf::from(from.to_le_bytes()))),
                    eof: false,
                });
            }
        }
    }

    async fn mkdir(&self, params: MkdirParams) -> Result<Entry, FileError> {
        Target::of("mkdir", params.dir.as_ref(), params.name.as_deref(), params.path.as_deref())?;
        reply!(self, Request::Mkdir(params), Reply::Entry(made) => made)
    }

    async fn rename(&self, params: RenameParams) -> Result<Done, FileError> {
        check::name("rename", &params.from_name)?;
        check::name("rename", &params.to_name)?;
        reply!(self, Request::Rename(params), Reply::Done => Done {})
    }
}

/// The part of a write that one request carries: its bytes from `from` on.
fn part_of(whole: &WriteParams, from: usize) -> WriteParams {
    let end = whole.data.len().min(from + TRANSFER_BYTES_MAX as usize);
    WriteParams {
        handle: whole.handle.clone(),
        offset: whole.offset + from as u64,
        data: ByteBuf::from(&whole.data[from..end]),
        stable: whole.stable,
    }
}
