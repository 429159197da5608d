//! The embedded file service: one directory of this machine, and nothing outside it.
//!
//! Confinement: paths are checked component by component before use, and whatever is opened is opened by cap-std below
//! the root's descriptor, so `..`, absolute paths and links cannot lead out even while somebody changes the tree.

mod bounded;
mod data;
mod failure;
mod key;
mod more;
mod names;
mod tree;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use cap_std::ambient_authority;
use cap_std::fs::Dir;

use crate::error::FileError;
use crate::gate::Gate;
use crate::limits::{INLINE_READ_BYTES_MAX, RUNNING_CALLS_MAX, WAITING_CALLS_MAX};
use crate::service::FileService;
use crate::status::Status;
use crate::{
    Attributes, CommitParams, CommitResult, CreateParams, Done, Entry, GetattrParams, LookupParams, MkdirParams,
    ReadParams, ReadResult, ReaddirParams, ReaddirResult, RemoveParams, RenameParams, RootParams, WriteParams,
    WriteResult,
};
pub use more::{Change, FileSystemState, IDENTITY_BYTES, Listed};
use tree::Tree;

/// The directory to serve cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot serve the directory {path:?}: {cause}; make it, or name another one")]
pub struct OpenError {
    path: PathBuf,
    #[source]
    cause: std::io::Error,
}

/// A file service over one directory. Cheap to clone; all clones share the open files.
///
/// Work that may wait for the disk runs on tokio's blocking threads, at most [`RUNNING_CALLS_MAX`](crate::limits::RUNNING_CALLS_MAX) calls at a time. One case
/// is answered at once on the async thread: a small read of an open file whose bytes are in the page cache, because there a change of thread costs several
/// times more than the copy.
#[derive(Clone, Debug)]
pub struct Directory {
    tree: Arc<Tree>,
    gate: Arc<Gate>,
}

impl Directory {
    /// Serves the directory at `root`, which must exist. Blocks for one `open`.
    ///
    /// # Errors
    /// [`OpenError`] with the path, if it cannot be opened as a directory.
    pub fn open(root: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = root.as_ref();
        let dir = Dir::open_ambient_dir(path, ambient_authority())
            .map_err(|cause| OpenError { path: path.to_owned(), cause })?;
        Ok(Self {
            tree: Arc::new(Tree::new(dir, fresh_verifier())),
            gate: Arc::new(Gate::new(RUNNING_CALLS_MAX, WAITING_CALLS_MAX)),
        })
    }

    /// Runs work that may wait for the disk on a blocking thread. The place at the gate is kept until the work ends, even if the caller goes away earlier.
    async fn blocking<T: Send + 'static>(
        &self,
        function: &'static str,
        work: impl FnOnce(&Tree) -> Result<T, FileError> + Send + 'static,
    ) -> Result<T, FileError> {
        let pass = self.gate.enter(function).await?;
        let tree = Arc::clone(&self.tree);
        let task = tokio::task::spawn_blocking(move || {
            let done = work(&tree);
            drop(pass);
            done
        });
        task.await.map_err(|error| FileError::nfs(Status::ServerFault, format!("{function} ({error})")))?
    }
}

/// Differs from run to run: after a crash of this process no write is lost, but after a crash of the machine one may be,
/// and a write done twice does no harm.
fn fresh_verifier() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or_default() ^ (u64::from(std::process::id()) << 32)
}

#[async_trait]
impl FileService for Directory {
    async fn root(&self, _params: RootParams) -> Result<Entry, FileError> {
        self.blocking("root", Tree::root).await
    }

    async fn lookup(&self, params: LookupParams) -> Result<Entry, FileError> {
        self.blocking("lookup", move |tree| tree.lookup(&params)).await
    }

    async fn getattr(&self, params: GetattrParams) -> Result<Attributes, FileError> {
        self.blocking("getattr", move |tree| tree.metadata("getattr", &params.handle).map(|m| tree::attributes(&m)))
            .await
    }

    async fn read(&self, params: ReadParams) -> Result<ReadResult, FileError> {
        if params.count <= INLINE_READ_BYTES_MAX
            && let Some(result) = self.tree.read_without_waiting(&params)
        {
            return Ok(result);
        }
        self.blocking("read", move |tree| tree.read(&params)).await
    }

    async fn write(&self, params: WriteParams) -> Result<WriteResult, FileError> {
        self.blocking("write", move |tree| tree.write(&params)).await
    }

    async fn create(&self, params: CreateParams) -> Result<Entry, FileError> {
        self.blocking("create", move |tree| tree.create(&params)).await
    }

    async fn commit(&self, params: CommitParams) -> Result<CommitResult, FileError> {
        self.blocking("commit", move |tree| tree.commit(&params)).await
    }

    async fn remove(&self, params: RemoveParams) -> Result<Done, FileError> {
        self.blocking("remove", move |tree| tree.remove(&params)).await
    }

    async fn readdir(&self, params: ReaddirParams) -> Result<ReaddirResult, FileError> {
        self.blocking("readdir", move |tree| tree.readdir(&params)).await
    }

    async fn mkdir(&self, params: MkdirParams) -> Result<Entry, FileError> {
        self.blocking("mkdir", move |tree| tree.mkdir(&params)).await
    }

    async fn rename(&self, params: RenameParams) -> Result<Done, FileError> {
        self.blocking("rename", move |tree| tree.rename(&params)).await
    }
}

#[cfg(test)]
mod tests;
