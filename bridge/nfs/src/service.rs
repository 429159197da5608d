//! The functions of the file service, each by the NFS procedure of the same name.

use std::sync::Arc;

use async_trait::async_trait;
use catena_files::check::{self, Target};
use catena_files::{
    Attributes, CommitParams, CommitResult, CreateHow, CreateParams, DirEntry, Done, Entry, FileError, FileService,
    GetattrParams, LookupParams, MkdirParams, ReadParams, ReadResult, ReaddirParams, ReaddirResult, RemoveParams,
    RenameParams, RootParams, Status, WriteParams, WriteResult,
};
use nfs3_client::nfs3_types::nfs3::{self as wire, NFS_PROGRAM, fattr3, nfs_fh3};
use nfs3_client::nfs3_types::xdr_codec::{Opaque, Void};
use serde_bytes::ByteBuf;

use crate::call::{Call, Caller};
use crate::config::{ConnectError, Credentials, NfsConfig};
use crate::convert::{
    at, attributes, from_cookie, from_fh, from_stable, from_verifier, to_cookie, to_fh, to_sattr, to_stable,
};
use crate::mount::mount;
use crate::pool::{Dialer, Pool};
use crate::reply::{Data, Found, Made, Page, given};

/// Bytes that a directory page asks of the server: at least room for the longest name, at most what an answer may have.
const READDIR_BYTES: std::ops::RangeInclusive<u32> = 1_024..=65_536;
/// Bytes that one name takes in such a page, as a guess: a wrong guess costs one more call, nothing else.
const READDIR_BYTES_PER_ENTRY: u32 = 56;
/// Pages in a row that may hold nothing but `.` and `..`.
const EMPTY_PAGES_MAX: u32 = 8;
/// Bytes that a write or read carries if the server does not say what it can take (RFC 1813 demands no minimum).
const TRANSFER_BYTES_MIN: u32 = 4_096;

/// A file service over an export of an NFSv3 server. Cheap to clone; all clones share the connections.
#[derive(Clone, Debug)]
pub struct NfsBridge {
    caller: Caller,
    root: nfs_fh3,
    read_bytes_max: u32,
    write_bytes_max: u32,
}

impl NfsBridge {
    /// Mounts the export, and learns what the server can take in one call.
    ///
    /// # Errors
    /// [`ConnectError`]: the configuration, the server or the export is at fault; it says which.
    pub async fn connect(config: NfsConfig) -> Result<Self, ConnectError> {
        config.check()?;
        let dialer = Dialer::new(&config);
        let (root, nfs_port) = mount(&dialer, &config).await?;
        let pool = Arc::new(Pool::new(dialer, nfs_port, config.connections_max));
        let mut bridge = Self {
            caller: Caller::new(pool, &config),
            root,
            read_bytes_max: TRANSFER_BYTES_MIN,
            write_bytes_max: TRANSFER_BYTES_MIN,
        };
        bridge.learn_sizes().await.map_err(|error| ConnectError::Unreachable {
            service: "NFS",
            server: bridge.caller.pool.server(),
            cause: error.to_string(),
        })?;
        Ok(bridge)
    }

    /// The same export and connections, acting as another user: cheap enough to do for each call.
    ///
    /// # Errors
    /// [`ConnectError::Config`] if AUTH_UNIX has no room for these credentials.
    pub fn with_credentials(&self, credentials: Credentials) -> Result<Self, ConnectError> {
        credentials.check()?;
        Ok(Self { caller: self.caller.acting_as(credentials), ..self.clone() })
    }

    /// The name of this machine, as the server's log has it.
    pub(crate) fn machine(&self) -> &str {
        self.caller.machine()
    }

    async fn learn_sizes(&mut self) -> Result<(), FileError> {
        let call = Call { procedure: NFS_PROGRAM::NFSPROC3_FSINFO, what: "fsinfo".to_owned(), repeatable: true };
        let args = wire::FSINFO3args { fsroot: self.root.clone() };
        let info = self.caller.call::<_, wire::FSINFO3resok, wire::FSINFO3resfail>(&call, &args).await?;
        self.read_bytes_max = info.rtmax.max(TRANSFER_BYTES_MIN);
        self.write_bytes_max = info.wtmax.max(TRANSFER_BYTES_MIN);
        Ok(())
    }

    async fn attributes_of(&self, function: &str, object: &nfs_fh3) -> Result<Attributes, FileError> {
        let call = Call { procedure: NFS_PROGRAM::NFSPROC3_GETATTR, what: function.to_owned(), repeatable: true };
        let args = wire::GETATTR3args { object: object.clone() };
        let got = self.caller.call::<_, wire::GETATTR3resok, Void>(&call, &args).await?;
        Ok(attributes(&got.obj_attributes))
    }

    async fn lookup_one(
        &self,
        function: &str,
        dir: &nfs_fh3,
        name: &str,
    ) -> Result<(nfs_fh3, Option<fattr3>), FileError> {
        let what = format!("{function} of {name:?}");
        let call = Call { procedure: NFS_PROGRAM::NFSPROC3_LOOKUP, what, repeatable: true };
        let args = wire::LOOKUP3args { what: at(dir, name) };
        let found = self.caller.call::<_, Found, wire::LOOKUP3resfail>(&call, &args).await?;
        Ok((found.object.0, given(found.attributes)))
    }

    /// Goes down from the target's directory to the one that holds its last name.
    async fn walk(&self, function: &str, target: &Target<'_>) -> Result<nfs_fh3, FileError> {
        let mut dir = match target.dir {
            Some(dir) => to_fh(function, dir)?,
            None => self.root.clone(),
        };
        for name in &target.parents {
            (dir, _) = self.lookup_one(function, &dir, name).await?;
        }
        Ok(dir)
    }

    /// An entry from what CREATE or MKDIR gave, which may lack either half (RFC 1813, section 3.3.8).
    async fn made(&self, function: &str, dir: &nfs_fh3, name: &str, made: Made) -> Result<Entry, FileError> {
        let (handle, attributes) = match made.object.0 {
            Some(handle) => (handle, given(made.attributes)),
            None => self.lookup_one(function, dir, name).await?,
        };
        self.entry(function, handle, attributes).await
    }

    async fn entry(&self, function: &str, handle: nfs_fh3, given: Option<fattr3>) -> Result<Entry, FileError> {
        let attributes = match given {
            Some(given) => attributes(&given),
            None => self.attributes_of(function, &handle).await?,
        };
        Ok(Entry { handle: from_fh(handle), attributes })
    }

    /// One READ: the bytes, and whether the file ends with them.
    async fn read_once(&self, file: &nfs_fh3, offset: u64, count: u32) -> Result<(Vec<u8>, bool), FileError> {
        let what = format!("read of {count} bytes at byte {offset}");
        let call = Call { procedure: NFS_PROGRAM::NFSPROC3_READ, what, repeatable: true };
        let args = wire::READ3args { file: file.clone(), offset, count };
        let got = self.caller.call::<_, Data, wire::READ3resfail>(&call, &args).await?;
        if got.data.0.len() > count as usize {
            return Err(broken(&call, "the server gave more bytes than were asked for"));
        }
        Ok((got.data.0, got.eof))
    }

    /// One WRITE.
    async fn write_once(&self, file: &nfs_fh3, params: &WriteParams, from: usize) -> Result<WriteResult, FileError> {
        let left = &params.data[from..];
        let data = &left[..left.len().min(self.write_bytes_max as usize)];
        let offset = params.offset + from as u64;
        let what = format!("write at byte {offset}, after {from} of {} bytes", params.data.len());
        let call = Call { procedure: NFS_PROGRAM::NFSPROC3_WRITE, what, repeatable: false };
        let args = wire::WRITE3args {
            file: file.clone(),
            offset,
            count: u32::try_from(data.len()).unwrap_or(u32::MAX),
            stable: to_stable(params.stable),
            data: Opaque::borrowed(data),
        };
        let got = self.caller.call::<_, wire::WRITE3resok, wire::WRITE3resfail>(&call, &args).await?;
        if got.count as usize > data.len() || (got.count == 0 && !data.is_empty()) {
            return Err(broken(&call, &format!("the server says that it wrote {} of {}", got.count, data.len())));
        }
        Ok(WriteResult { count: got.count, committed: from_stable(got.committed), verifier: from_verifier(got.verf) })
    }
}

/// The error for a server whose answer violates the protocol.
fn broken(call: &Call, why: &str) -> FileError {
    FileError::nfs(Status::ServerFault, format!("{} ({why})", call.what))
}

#[async_trait]
impl FileService for NfsBridge {
    async fn root(&self, _params: RootParams) -> Result<Entry, FileError> {
        self.entry("root", self.root.clone(), None).await
    }

    async fn lookup(&self, params: LookupParams) -> Result<Entry, FileError> {
        let target = Target::of("lookup", params.dir.as_ref(), params.name.as_deref(), params.path.as_deref())?;
        let dir = self.walk("lookup", &target).await?;
        let (handle, attributes) = self.lookup_one("lookup", &dir, target.name).await?;
        self.entry("lookup", handle, attributes).await
    }

    async fn getattr(&self, params: GetattrParams) -> Result<Attributes, FileError> {
        self.attributes_of("getattr", &to_fh("getattr", &params.handle)?).await
    }

    async fn read(&self, params: ReadParams) -> Result<ReadResult, FileError> {
        check::read_count(params.count)?;
        let file = to_fh("read", &params.handle)?;
        let (mut data, mut eof) = self.read_once(&file, params.offset, params.count.min(self.read_bytes_max)).await?;
        // A server may give less than was asked for (RFC 1813, section 3.3.6); the rest is fetched here, once for all callers.
        while !eof && data.len() < params.count as usize {
            let left = params.count - u32::try_from(data.len()).unwrap_or(params.count);
            let Some(offset) = params.offset.checked_add(data.len() as u64) else { break };
            let (more, end) = self.read_once(&file, offset, left.min(self.read_bytes_max)).await?;
            if more.is_empty() && !end {
                return Err(FileError::nfs(
                    Status::ServerFault,
                    format!("read at byte {offset} (neither bytes nor end)"),
                ));
            }
            data.extend_from_slice(&more);
            eof = end;
        }
        Ok(ReadResult { data: ByteBuf::from(data), eof })
    }

    async fn write(&self, params: WriteParams) -> Result<WriteResult, FileError> {
        check::write_range(params.offset, params.data.len())?;
        let file = to_fh("write", &params.handle)?;
        let mut done = self.write_once(&file, &params, 0).await?;
        while (done.count as usize) < params.data.len() {
            let more = self.write_once(&file, &params, done.count as usize).await?;
            if more.verifier != done.verifier {
                // The server restarted in between, so one verifier cannot cover both parts: the caller writes the rest again.
                break;
            }
            done.count += more.count;
            done.committed =
                if (more.committed as u8) < done.committed as u8 { more.committed } else { done.committed };
        }
        Ok(done)
    }

    async fn create(&self, params: CreateParams) -> Result<Entry, FileError> {
        let target = Target::of("create", params.dir.as_ref(), params.name.as_deref(), params.path.as_deref())?;
        check::mode("create", params.mode)?;
        check::size("create", params.size.unwrap_or(0))?;
        let dir = self.walk("create", &target).await?;
        let what = format!("create of {:?}", target.path());
        let call = Call { procedure: NFS_PROGRAM::NFSPROC3_CREATE, what, repeatable: false };
        let set = to_sattr(params.mode, params.size);
        let how = match params.how {
            CreateHow::Unchecked => wire::createhow3::UNCHECKED(set),
            CreateHow::Guarded => wire::createhow3::GUARDED(set),
        };
        let args = wire::CREATE3args { where_: at(&dir, target.name), how };
        let made = self.caller.call::<_, Made, wire::CREATE3resfail>(&call, &args).await?;
        self.made("create", &dir, target.name, made).await
    }

    async fn commit(&self, params: CommitParams) -> Result<CommitResult, FileError> {
        let file = to_fh("commit", &params.handle)?;
        check::size("commit", params.offset.saturating_add(u64::from(params.count)))?;
        let what = format!("commit of {} bytes at byte {}", params.count, params.offset);
        let call = Call { procedure: NFS_PROGRAM::NFSPROC3_COMMIT, what, repeatable: true };
        let args = wire::COMMIT3args { file, offset: params.offset, count: params.count };
        let done = self.caller.call::<_, wire::COMMIT3resok, wire::COMMIT3resfail>(&call, &args).await?;
        Ok(CommitResult { verifier: from_verifier(done.verf) })
    }

    async fn remove(&self, params: RemoveParams) -> Result<Done, FileError> {
        let target = Target::of("remove", params.dir.as_ref(), params.name.as_deref(), params.path.as_deref())?;
        let dir = self.walk("remove", &target).await?;
        let what = format!("remove of {:?}", target.path());
        let call = Call { procedure: NFS_PROGRAM::NFSPROC3_REMOVE, what, repeatable: false };
        let args = wire::REMOVE3args { object: at(&dir, target.name) };
        self.caller.call::<_, wire::REMOVE3resok, wire::REMOVE3resfail>(&call, &args).await?;
        Ok(Done {})
    }

    async fn readdir(&self, params: ReaddirParams) -> Result<ReaddirResult, FileError> {
        let count = check::readdir_count(params.count)?;
        let (mut position, mut verifier) = from_cookie(params.cookie.as_ref())?;
        let dir = match &params.dir {
            Some(dir) => to_fh("readdir", dir)?,
            None => self.root.clone(),
        };
        let bytes = (count * READDIR_BYTES_PER_ENTRY).clamp(*READDIR_BYTES.start(), *READDIR_BYTES.end());
        let call = Call { procedure: NFS_PROGRAM::NFSPROC3_READDIR, what: "readdir".to_owned(), repeatable: true };
        for _ in 0..EMPTY_PAGES_MAX {
            let args = wire::READDIR3args { dir: dir.clone(), cookie: position, cookieverf: verifier, count: bytes };
            let page = self.caller.call::<_, Page, wire::READDIR3resfail>(&call, &args).await?;
            verifier = page.verifier;
            let (mut entries, mut all) = (Vec::new(), true);
            for found in page.names.0 {
                if matches!(found.name.0.as_slice(), b"." | b"..") {
                    position = found.cookie;
                } else if entries.len() < count as usize {
                    position = found.cookie;
                    entries.push(DirEntry::of(&found.name.0));
                } else {
                    all = false;
                    break;
                }
            }
            let eof = page.eof && all;
            if eof || !entries.is_empty() {
                let next = (!eof).then(|| to_cookie(position, verifier));
                return Ok(ReaddirResult { entries, next, eof });
            }
        }
        Err(broken(&call, &format!("{EMPTY_PAGES_MAX} pages in a row without a name")))
    }

    async fn mkdir(&self, params: MkdirParams) -> Result<Entry, FileError> {
        let target = Target::of("mkdir", params.dir.as_ref(), params.name.as_deref(), params.path.as_deref())?;
        check::mode("mkdir", params.mode)?;
        let dir = self.walk("mkdir", &target).await?;
        let what = format!("mkdir of {:?}", target.path());
        let call = Call { procedure: NFS_PROGRAM::NFSPROC3_MKDIR, what, repeatable: false };
        let args = wire::MKDIR3args { where_: at(&dir, target.name), attributes: to_sattr(params.mode, None) };
        let made = self.caller.call::<_, Made, wire::MKDIR3resfail>(&call, &args).await?;
        self.made("mkdir", &dir, target.name, made).await
    }

    async fn rename(&self, params: RenameParams) -> Result<Done, FileError> {
        let from = Target::of("rename", params.from_dir.as_ref(), Some(&params.from_name), None)?;
        let to = Target::of("rename", params.to_dir.as_ref(), Some(&params.to_name), None)?;
        let (from_dir, to_dir) = (self.walk("rename", &from).await?, self.walk("rename", &to).await?);
        let what = format!("rename of {:?} to {:?}", from.name, to.name);
        let call = Call { procedure: NFS_PROGRAM::NFSPROC3_RENAME, what, repeatable: false };
        let args = wire::RENAME3args { from: at(&from_dir, from.name), to: at(&to_dir, to.name) };
        self.caller.call::<_, wire::RENAME3resok, wire::RENAME3resfail>(&call, &args).await?;
        Ok(Done {})
    }
}
