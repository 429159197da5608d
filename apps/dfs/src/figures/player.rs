//! A clerk that performs the workload's operations on files laid out for it.

use std::{path::Path, sync::Arc};

use catena_dfs::{
    Clerk, ClerkConfig,
    workload::{Activity, BYTES_MAX, DIRECTORY_BYTES, LINK_BYTES, Operation},
};
use catena_files::{Change, FileService, GetattrParams, Handle, LookupParams, ReadParams, Stable, WriteParams};
use serde_bytes::ByteBuf;

use super::Failure;

const FILES: usize = 64;
/// Bytes of attributes, and of the state of a file system, that count as requested data.
const ATTRIBUTES_BYTES: u64 = 72;
const STATE_BYTES: u64 = 40;

/// The files, links and directories to work on.
#[derive(Default)]
struct Known {
    files: Vec<(String, Handle)>,
    links: Vec<Handle>,
    directories: Vec<Handle>,
}

pub(crate) struct Player {
    pub(crate) clerk: Clerk,
    known: Arc<Known>,
}

impl Player {
    /// The first clerk of a server whose directory [`lay_out`] made: it looks up everything there.
    pub(crate) async fn open(config: ClerkConfig) -> Result<Self, Failure> {
        let clerk = Clerk::connect(config).await?;
        let mut known = Known::default();
        for number in 0..FILES {
            let name = format!("file{number}");
            let handle = find(&clerk, &name).await?;
            known.files.push((name, handle));
        }
        for bytes in LINK_BYTES {
            known.links.push(find(&clerk, &format!("link{bytes}")).await?);
        }
        for bytes in DIRECTORY_BYTES {
            known.directories.push(find(&clerk, &format!("directory{bytes}")).await?);
        }
        Ok(Self { clerk, known: Arc::new(known) })
    }

    /// Another clerk of the same server, which shares what the first one looked up.
    pub(crate) async fn another(&self, config: ClerkConfig) -> Result<Self, Failure> {
        Ok(Self { clerk: Clerk::connect(config).await?, known: Arc::clone(&self.known) })
    }

    /// Does one operation; returns the bytes of data that it moved.
    pub(crate) async fn perform(&self, operation: Operation) -> Result<u64, Failure> {
        let Operation { activity, bytes, pick } = operation;
        let Known { files, links, directories } = &*self.known;
        let (name, file) = &files[pick as usize % FILES];
        let larger = |sizes: [u32; 2]| usize::from(bytes > sizes[0]);
        Ok(match activity {
            Activity::Getattr => {
                self.clerk.getattr(GetattrParams { handle: file.clone() }).await?;
                ATTRIBUTES_BYTES
            }
            Activity::Lookup => {
                let params = LookupParams { name: Some(name.clone()), ..LookupParams::default() };
                ATTRIBUTES_BYTES + self.clerk.lookup(params).await?.handle.0.len() as u64
            }
            Activity::Read => {
                let read = self.clerk.read(ReadParams { handle: file.clone(), offset: 0, count: bytes }).await?;
                read.data.len() as u64
            }
            Activity::Null => {
                self.clerk.null().await?;
                0
            }
            Activity::Readlink => self.clerk.readlink(&links[larger(LINK_BYTES)]).await?.len() as u64,
            Activity::Readdir => {
                let (names, _) = self.clerk.list(&directories[larger(DIRECTORY_BYTES)], 0).await?;
                names.iter().map(|one| one.name.len() as u64 + 18).sum()
            }
            Activity::Statfs => {
                self.clerk.statfs().await?;
                STATE_BYTES
            }
            Activity::Write => {
                let data = ByteBuf::from(vec![7; bytes as usize]);
                let params = WriteParams { handle: file.clone(), offset: 0, data, stable: Stable::Unstable };
                self.clerk.write(params).await?;
                bytes.into()
            }
            Activity::Setattr => {
                self.clerk.setattr(file, Change { mode: Some(0o644), ..Change::default() }).await?;
                ATTRIBUTES_BYTES
            }
        })
    }
}

async fn find(clerk: &Clerk, name: &str) -> Result<Handle, Failure> {
    let params = LookupParams { path: Some(name.to_owned()), ..LookupParams::default() };
    Ok(clerk.lookup(params).await?.handle)
}

/// What there is to work on: files, links and directories of the sizes that the workload has.
pub(crate) fn lay_out(root: &Path) -> std::io::Result<()> {
    for number in 0..FILES {
        std::fs::write(root.join(format!("file{number}")), vec![number as u8; BYTES_MAX as usize])?;
    }
    for bytes in LINK_BYTES {
        std::os::unix::fs::symlink("x".repeat(bytes as usize), root.join(format!("link{bytes}")))?;
    }
    for bytes in DIRECTORY_BYTES {
        let dir = root.join(format!("directory{bytes}"));
        std::fs::create_dir(&dir)?;
        // A name takes its bytes and 18 more: names of 46 bytes thus take 64 bytes each.
        for number in 0..bytes / 64 {
            std::fs::write(dir.join(format!("{number:0>46}")), b"")?;
        }
    }
    Ok(())
}
