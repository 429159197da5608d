//! Operations that change nothing: done on the directory, with their results entered into the caches.

use catena_clerk::Look;
use catena_files::{
    Attributes, Directory, Entry, FileError, FileService, GetattrParams, Handle, LookupParams, ReadParams, RootParams,
    Status, check,
};
use serde_bytes::ByteBuf;

use crate::{
    caches::Identity,
    limits::{BLOCK_BYTES, PAGE_NAME_BYTES_MAX, PAGE_NAMES_MAX, RECHECKED_FILES_MAX, TRANSFER_BYTES_MAX},
    protocol::{Reply, Request},
    server::Shared,
};

impl Shared {
    pub(crate) async fn read(&self, request: Request) -> Reply {
        let look = self.caches.look();
        let done = match request {
            Request::Null => Ok(Reply::Done),
            Request::Root => self.files.root(RootParams {}).await.map(Reply::Entry),
            Request::Getattr(handle) => self.getattr(look, handle).await.map(Reply::Attributes),
            Request::Lookup(params) => self.lookup(look, params).await.map(Reply::Entry),
            Request::Read(params) => self.read_blocks(look, params).await,
            Request::Readlink(handle) => self.readlink(look, handle).await,
            Request::List { dir, from } => self.list(look, dir, from).await,
            Request::Statfs => self.statfs(look).await,
            Request::Commit(params) => self.files.commit(params).await.map(Reply::Committed),
            Request::Find(identity) => self.find(&identity).map(Reply::Found),
            _ => Ok(Reply::Refused { status: Status::ServerFault.number(), what: "this changes something".to_owned() }),
        };
        done.unwrap_or_else(|why| Reply::refused(&why))
    }

    /// Notes the state of a file; returns whether it may be cached.
    fn note(&self, handle: &Handle, now: &Attributes) -> bool {
        let Some(identity) = Directory::identity(handle) else { return false };
        let changed = self.note_all(identity, handle, now);
        if changed {
            // Somebody else changed it: what is cached of it is invalid, and what is being read may be older.
            drop(self.caches.changing(&[identity], &[]));
        }
        !changed
    }

    /// Notes the state of a file; returns whether it has changed. If another file is dropped to make room, nothing of it stays cached, since nobody rechecks it
    /// any more. Cached names in a dropped directory stay: each goes with its own file, which is rechecked by this name.
    pub(crate) fn note_all(&self, identity: Identity, handle: &Handle, now: &Attributes) -> bool {
        let noted = self.known().note(identity, handle, now);
        if let Some(other) = noted.let_go {
            drop(self.caches.changing(&[other], &[]));
        }
        noted.changed
    }

    /// Notes a file at the path where it was found or made; returns whether it may be cached.
    pub(crate) fn note_found(&self, found: &Entry) -> bool {
        let noted = self.note(&found.handle, &found.attributes);
        if let Some(identity) = Directory::identity(&found.handle) {
            self.known().found(&identity, &found.handle);
        }
        noted
    }

    async fn getattr(&self, look: Look, handle: Handle) -> Result<Attributes, FileError> {
        let found = self.files.getattr(GetattrParams { handle: handle.clone() }).await?;
        if self.note(&handle, &found) {
            self.caches.put_attributes(look, &handle, &found);
        }
        Ok(found)
    }

    async fn lookup(&self, look: Look, params: LookupParams) -> Result<Entry, FileError> {
        let found = self.files.lookup(params.clone()).await?;
        if let (Some(dir), Some(name)) = (&params.dir, &params.name) {
            // A name is invalid when its directory changes behind the server's back: so the directory is noted, too.
            let above = self.files.getattr(GetattrParams { handle: dir.clone() }).await?;
            if self.note(dir, &above) && self.note_found(&found) {
                self.caches.put_name(look, dir, name, &found);
                self.caches.put_attributes(look, &found.handle, &found.attributes);
            }
        }
        Ok(found)
    }

    /// Reads whole blocks, and answers with what was asked for.
    async fn read_blocks(&self, look: Look, params: ReadParams) -> Result<Reply, FileError> {
        check::read_count(params.count)?;
        let count = u64::from(params.count).min(TRANSFER_BYTES_MAX);
        let from = params.offset / BLOCK_BYTES * BLOCK_BYTES;
        let before = self.files.getattr(GetattrParams { handle: params.handle.clone() }).await?;
        let whole = (params.offset - from + count).div_ceil(BLOCK_BYTES).max(1) * BLOCK_BYTES;
        let aligned = ReadParams { handle: params.handle.clone(), offset: from, count: whole as u32 };
        let read = self.files.read(aligned).await?;
        if self.note(&params.handle, &before) {
            self.caches.put_blocks(look, &params.handle, from, &read.data, read.eof);
        }
        let skip = ((params.offset - from) as usize).min(read.data.len());
        let end = (skip + count as usize).min(read.data.len());
        let data = ByteBuf::from(&read.data[skip..end]);
        Ok(Reply::Data { end: read.eof && end == read.data.len(), data })
    }

    async fn readlink(&self, look: Look, handle: Handle) -> Result<Reply, FileError> {
        let before = self.files.getattr(GetattrParams { handle: handle.clone() }).await?;
        let to = self.files.readlink(handle.clone()).await?;
        if self.note(&handle, &before) {
            self.caches.put_link(look, &handle, &to);
        }
        Ok(Reply::Link(ByteBuf::from(to)))
    }

    async fn list(&self, look: Look, dir: Handle, from: u64) -> Result<Reply, FileError> {
        let before = self.files.getattr(GetattrParams { handle: dir.clone() }).await?;
        let (names, end) = self.files.list(dir.clone(), from, PAGE_NAMES_MAX, PAGE_NAME_BYTES_MAX).await?;
        if self.note(&dir, &before) {
            self.caches.put_page(look, &dir, from, &names, end);
        }
        Ok(Reply::Page { names, end })
    }

    fn find(&self, identity: &[u8]) -> Result<Handle, FileError> {
        let known = self.known();
        let found = identity.try_into().ok().and_then(|identity| known.handle_of(&identity));
        found.cloned().ok_or_else(|| FileError::nfs(Status::Stale, "a file that the server does not know any more"))
    }

    async fn statfs(&self, look: Look) -> Result<Reply, FileError> {
        let state = self.files.statfs().await?;
        self.caches.put_state(look, &state);
        Ok(Reply::State(state))
    }

    /// Checks whether cached files were changed by others than clerks, and forgets the state of the file system.
    pub(crate) async fn recheck(&self) {
        self.caches.forget_state();
        let due = self.known().next(RECHECKED_FILES_MAX);
        for identity in due {
            let _still = self.paths.read().await;
            let Some(handle) = self.known().handle_of(&identity).cloned() else { continue };
            match self.files.getattr(GetattrParams { handle: handle.clone() }).await {
                Ok(now) => {
                    if self.note(&handle, &now) {
                        continue;
                    }
                    // Somebody changed a directory: any name in it may now belong to another file.
                    if now.kind == catena_files::Kind::Directory {
                        drop(self.caches.moving());
                    }
                }
                Err(FileError::Busy { .. }) => {}
                Err(_) => {
                    drop(self.caches.changing(&[identity], &[]));
                    self.known().forget(&identity);
                }
            }
        }
    }
}
