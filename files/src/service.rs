//! The interface that every file service implements.

use async_trait::async_trait;

use crate::error::FileError;
use crate::types::{
    Attributes, CommitParams, CommitResult, CreateParams, Done, Entry, GetattrParams, LookupParams, MkdirParams,
    ReadParams, ReadResult, ReaddirParams, ReaddirResult, RemoveParams, RenameParams, RootParams, WriteParams,
    WriteResult,
};

/// NFSv3's procedures (RFC 1813, section 3.3) as functions: one params value in, one result value out. Links are never
/// followed, so what is outside the service's directory or export cannot be named.
///
/// Every call is bounded (see [`limits`](crate::limits)) and may be dropped at any time; a dropped call that changes
/// something may still take effect.
#[async_trait]
pub trait FileService: Send + Sync + 'static {
    /// The root directory.
    async fn root(&self, params: RootParams) -> Result<Entry, FileError>;
    /// Finds a name or path (LOOKUP).
    async fn lookup(&self, params: LookupParams) -> Result<Entry, FileError>;
    /// Reads attributes (GETATTR).
    async fn getattr(&self, params: GetattrParams) -> Result<Attributes, FileError>;
    /// Reads bytes of a file (READ).
    async fn read(&self, params: ReadParams) -> Result<ReadResult, FileError>;
    /// Writes bytes to a file (WRITE).
    async fn write(&self, params: WriteParams) -> Result<WriteResult, FileError>;
    /// Makes a file, or opens the one that is there (CREATE).
    async fn create(&self, params: CreateParams) -> Result<Entry, FileError>;
    /// Puts what was written on stable storage (COMMIT).
    async fn commit(&self, params: CommitParams) -> Result<CommitResult, FileError>;
    /// Removes a file (REMOVE).
    async fn remove(&self, params: RemoveParams) -> Result<Done, FileError>;
    /// Lists names in a directory (READDIR).
    async fn readdir(&self, params: ReaddirParams) -> Result<ReaddirResult, FileError>;
    /// Makes a directory (MKDIR).
    async fn mkdir(&self, params: MkdirParams) -> Result<Entry, FileError>;
    /// Renames a file or directory (RENAME).
    async fn rename(&self, params: RenameParams) -> Result<Done, FileError>;
}

/// The names of the functions, as chains call them: each is the name of a method of [`FileService`].
#[must_use]
pub const fn functions() -> &'static [&'static str] {
    &["root", "lookup", "getattr", "read", "write", "create", "commit", "remove", "readdir", "mkdir", "rename"]
}
