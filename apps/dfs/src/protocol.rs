//! What a clerk asks its server when the tables do not have what it needs, and the replies.

use catena::{Exception, Fault, NodeId, Value, from_value, to_value};
use catena_files::{
    Attributes, Change, CommitParams, CommitResult, CreateParams, Entry, FileError, FileSystemState, Handle, Listed,
    LookupParams, MkdirParams, ReadParams, RemoveParams, RenameParams, Status, WriteParams, WriteResult,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_bytes::ByteBuf;

/// The service's name at its node.
pub(crate) const SERVICE: &str = "dfs";
/// The names of its tables: data, names, attributes, entries.
pub(crate) const TABLES: [&str; 4] = ["dfs.data", "dfs.names", "dfs.attributes", "dfs.entries"];

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Request {
    Null,
    Root,
    Getattr(Handle),
    Lookup(LookupParams),
    Read(ReadParams),
    Readlink(Handle),
    List {
        dir: Handle,
        from: u64,
    },
    Statfs,
    Write(WriteParams),
    Create(CreateParams),
    Remove(RemoveParams),
    Rename(RenameParams),
    Mkdir(MkdirParams),
    Rmdir {
        dir: Option<Handle>,
        name: String,
    },
    Setattr {
        handle: Handle,
        change: Change,
    },
    Commit(CommitParams),
    /// The handle of a file whose identity this is.
    Find(ByteBuf),
}

impl Request {
    /// The handles in it.
    pub(crate) fn handles(&mut self) -> [Option<&mut Handle>; 2] {
        let handle = match self {
            Self::Null | Self::Root | Self::Statfs | Self::Find(_) => None,
            Self::Getattr(handle) | Self::Readlink(handle) => Some(handle),
            Self::List { dir, .. } => Some(dir),
            Self::Setattr { handle, .. } => Some(handle),
            Self::Read(params) => Some(&mut params.handle),
            Self::Write(params) => Some(&mut params.handle),
            Self::Commit(params) => Some(&mut params.handle),
            Self::Lookup(params) => params.dir.as_mut(),
            Self::Create(params) => params.dir.as_mut(),
            Self::Remove(params) => params.dir.as_mut(),
            Self::Mkdir(params) => params.dir.as_mut(),
            Self::Rmdir { dir, .. } => dir.as_mut(),
            Self::Rename(params) => return [params.from_dir.as_mut(), params.to_dir.as_mut()],
        };
        [handle, None]
    }

    /// Whether repeating it does no harm.
    pub(crate) const fn is_repeatable(&self) -> bool {
        !matches!(
            self,
            Self::Write(_)
                | Self::Create(_)
                | Self::Remove(_)
                | Self::Rename(_)
                | Self::Mkdir(_)
                | Self::Rmdir { .. }
                | Self::Setattr { .. }
        )
    }
}

/// The result of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Reply {
    Done,
    Entry(Entry),
    Attributes(Attributes),
    Data { data: ByteBuf, end: bool },
    Link(ByteBuf),
    Page { names: Vec<Listed>, end: bool },
    State(FileSystemState),
    Written(WriteResult),
    Committed(CommitResult),
    Found(Handle),
    Refused { status: u32, what: String },
}

impl Reply {
    /// Whether the file is not at the handle's path: then nothing was done.
    pub(crate) fn is_stale(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if *status == Status::Stale.number())
    }

    pub(crate) fn refused(why: &FileError) -> Self {
        match why {
            FileError::Nfs { status, what } => Self::Refused { status: status.number(), what: what.clone() },
            FileError::Busy { .. } => Self::Refused { status: Status::Jukebox.number(), what: why.to_string() },
            _ => Self::Refused { status: Status::Inval.number(), what: why.to_string() },
        }
    }

    /// The error for a server whose reply does not match the request.
    pub(crate) fn unexpected(&self) -> FileError {
        match self {
            Self::Refused { status, what } => {
                FileError::nfs(Status::from_number(*status).unwrap_or(Status::ServerFault), what.clone())
            }
            _ => FileError::nfs(Status::ServerFault, "the server's reply is not to what was asked"),
        }
    }
}

/// A clerk introduces itself: its number, and where answers go.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) clerk: u64,
    pub(crate) answers: String,
}

impl Hello {
    pub(crate) const fn node(&self) -> NodeId {
        NodeId(self.clerk)
    }
}

/// The server's answer to that: where requests go, the root, and a number that rises from run to run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Welcome {
    pub(crate) requests: String,
    pub(crate) root: Entry,
    pub(crate) run: u64,
}

pub(crate) fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    // Nothing here can fail to be encoded; if it did, the other side refuses the empty request.
    to_value(value).map(|value| value.as_bytes().to_vec()).unwrap_or_default()
}

pub(crate) fn decode<T: DeserializeOwned>(bytes: Vec<u8>) -> Result<T, Exception> {
    let value = Value::from_cbor(bytes.into())
        .map_err(|why| Exception::new("BadRequest", Fault::Caller, format!("no CBOR: {why:?}")))?;
    from_value(&value)
}
