//! What goes into the functions of a file service and what comes out: NFSv3's shapes (RFC 1813, section 3.3) as serde types.
//!
//! Numbers that NFS makes 64 bits wide but that nobody calculates with (cookies, verifiers) are opaque bytes here, because
//! a JavaScript number holds 53 bits.

use serde::{Deserialize, Deserializer, Serialize};
use serde_bytes::ByteBuf;

/// A file or directory, as the service that gave it names it: opaque bytes, at most
/// [`HANDLE_BYTES_MAX`](crate::limits::HANDLE_BYTES_MAX).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Handle(pub ByteBuf);

/// Where a `readdir` goes on: opaque bytes, at most [`COOKIE_BYTES_MAX`](crate::limits::COOKIE_BYTES_MAX).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cookie(pub ByteBuf);

/// Eight bytes that change when the server may have lost data that was written but not committed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Verifier(pub ByteBuf);

/// The kinds of things that a directory holds (`ftype3`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link. It is shown, and never followed.
    Symlink,
    /// A device, socket or pipe. It is shown, and never opened.
    Other,
}

/// What is known about a file (`fattr3`). Times are milliseconds since 1970-01-01 UTC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// File, directory or something else.
    pub kind: Kind,
    /// Bytes in the file.
    pub size: u64,
    /// Bytes allocated on the server's disk.
    pub used_bytes: u64,
    /// Permission bits, such as `0o644`.
    pub mode: u32,
    /// Names that this file has.
    pub links: u32,
    /// The owner's number.
    pub uid: u32,
    /// The group's number.
    pub gid: u32,
    /// When it was last read.
    pub accessed_at_ms: u64,
    /// When its data last changed.
    pub modified_at_ms: u64,
    /// When its data or attributes last changed.
    pub changed_at_ms: u64,
}

/// A file or directory that was found or made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its handle.
    pub handle: Handle,
    /// Its attributes.
    pub attributes: Attributes,
}

/// For `root`: nothing. Any value is accepted, so that a caller may leave it out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RootParams {}

impl<'de> Deserialize<'de> for RootParams {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| Self {})
    }
}

/// For `lookup`: a `name` in `dir`, or a relative `path` of several components below it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LookupParams {
    /// The directory to begin at; the root if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<Handle>,
    /// One component. Exactly one of `name` and `path` is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Components with `/` between them. Looked up one by one; links are not followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// For `getattr`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetattrParams {
    /// The file or directory.
    pub handle: Handle,
}

/// For `read`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadParams {
    /// The file.
    pub handle: Handle,
    /// The first byte to read.
    pub offset: u64,
    /// How many bytes; at most [`READ_BYTES_MAX`](crate::limits::READ_BYTES_MAX).
    pub count: u32,
}

/// What `read` gives: as many bytes as were asked for, fewer only at the end of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadResult {
    /// The bytes.
    pub data: ByteBuf,
    /// Whether the file ends with these bytes.
    pub eof: bool,
}

/// How safe a `write` must be before it is answered (`stable_how`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stable {
    /// In the server's memory. Call `commit` later, and compare verifiers.
    #[default]
    Unstable,
    /// The data is on stable storage.
    DataSync,
    /// The data and the file's attributes are on stable storage.
    FileSync,
}

/// For `write`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteParams {
    /// The file.
    pub handle: Handle,
    /// Where the first byte goes; beyond the end leaves a gap of zeros.
    pub offset: u64,
    /// The bytes; at most [`WRITE_BYTES_MAX`](crate::limits::WRITE_BYTES_MAX).
    pub data: ByteBuf,
    /// How safe it must be before the answer.
    #[serde(default)]
    pub stable: Stable,
}

/// What `write` gives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteResult {
    /// Bytes written: all of them, unless an NFS server restarted in the middle; then write the rest again.
    pub count: u32,
    /// How safe they are now: at least as safe as was asked for.
    pub committed: Stable,
    /// Differs from that of `commit` if the server lost unstable data in between: then write it again.
    pub verifier: Verifier,
}

/// What `create` does if the name is taken (`createmode3`). NFS's third way, `EXCLUSIVE`, is left out: it leaves a token
/// in the file's times that only SETATTR, which is not offered here, would put right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CreateHow {
    /// Use the file that is there.
    #[default]
    Unchecked,
    /// Refuse with `NFS3ERR_EXIST`.
    Guarded,
}

/// For `create`: a `name` in `dir`, or a relative `path` whose parents exist.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CreateParams {
    /// The directory to begin at; the root if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<Handle>,
    /// One component. Exactly one of `name` and `path` is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Components with `/` between them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// What to do if the name is taken.
    pub how: CreateHow,
    /// Permission bits, at most `0o777`, also for a file that was there; the server's default for a new file if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
    /// Cut or extend the file to this many bytes; 0 empties a file that was there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

/// For `commit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommitParams {
    /// The file.
    pub handle: Handle,
    /// The first byte to make safe.
    #[serde(default)]
    pub offset: u64,
    /// How many bytes; 0 means to the end of the file.
    #[serde(default)]
    pub count: u32,
}

/// What `commit` gives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitResult {
    /// Compare it with that of each `write`: if they differ, the server may have lost that write.
    pub verifier: Verifier,
}

/// For `remove`: the name of a file, not of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RemoveParams {
    /// The directory to begin at; the root if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<Handle>,
    /// One component. Exactly one of `name` and `path` is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Components with `/` between them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// What `remove` and `rename` give: nothing but that it is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {}

/// For `readdir`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReaddirParams {
    /// The directory; the root if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<Handle>,
    /// `next` of the answer before; absent at the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cookie: Option<Cookie>,
    /// Entries wanted, 1 to [`READDIR_ENTRIES_MAX`](crate::limits::READDIR_ENTRIES_MAX).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
}

/// One name in a directory. `.` and `..` are left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirEntry {
    /// The name. If it is not UTF-8, U+FFFD stands for what is not, and `raw_name` has its bytes.
    pub name: String,
    /// The name's bytes, only if they are not UTF-8. Such a file can be listed, but not looked up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_name: Option<ByteBuf>,
}

/// What `readdir` gives. The order is the server's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReaddirResult {
    /// At most as many names as were asked for, perhaps fewer.
    pub entries: Vec<DirEntry>,
    /// Where to go on; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Cookie>,
    /// Whether the directory ends with these names.
    pub eof: bool,
}

/// For `mkdir`: a `name` in `dir`, or a relative `path` whose parents exist.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MkdirParams {
    /// The directory to begin at; the root if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<Handle>,
    /// One component. Exactly one of `name` and `path` is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Components with `/` between them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Permission bits, at most `0o777`; the server's default if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
}

/// For `rename`. A file at the new name is replaced in one step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RenameParams {
    /// The directory of the old name; the root if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_dir: Option<Handle>,
    /// The old name, one component.
    pub from_name: String,
    /// The directory of the new name; the root if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_dir: Option<Handle>,
    /// The new name, one component.
    pub to_name: String,
}

impl DirEntry {
    /// The entry for a name as the server has it.
    #[must_use]
    pub fn of(name: &[u8]) -> Self {
        match std::str::from_utf8(name) {
            Ok(name) => Self { name: name.to_owned(), raw_name: None },
            Err(_) => Self { name: String::from_utf8_lossy(name).into_owned(), raw_name: Some(ByteBuf::from(name)) },
        }
    }
}
