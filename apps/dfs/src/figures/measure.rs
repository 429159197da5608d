//! One server, one clerk that goes one way, and what operations cost.

use std::time::Instant;

use catena_dfs::{
    Clerk, ClerkConfig, Way,
    workload::{Activity, BYTES_MAX, DIRECTORY_BYTES, LINK_BYTES, Operation},
};
use catena_files::{Change, FileService, GetattrParams, Handle, LookupParams, ReadParams, Stable, WriteParams};
use serde_bytes::ByteBuf;
use tempfile::TempDir;

use super::{Failure, served::Served};

const FILES: usize = 64;
/// Bytes of attributes, and of the state of a file system, as data that is wanted.
const ATTRIBUTES_BYTES: u64 = 72;
const STATE_BYTES: u64 = 40;

/// What one operation costs.
pub(crate) struct Figure {
    pub(crate) operation: String,
    /// The median, at the clerk.
    pub(crate) latency_us: f64,
    /// Of the server, the mean.
    pub(crate) cpu_us: f64,
}

/// What the mix costs.
pub(crate) struct Mixed {
    pub(crate) cpu_us: f64,
    pub(crate) wire_bytes: u64,
    pub(crate) data_bytes: u64,
    /// Of what went with control, all that is not data, as Table 1b has it: file handles, identifiers, marshaling; no headers of the network's.
    pub(crate) control_bytes: u64,
    pub(crate) asked: u64,
}

impl Mixed {
    /// Control of all bytes, in the sense of Table 1b.
    pub(crate) fn control_pct(&self) -> f64 {
        self.control_bytes as f64 * 100.0 / (self.control_bytes + self.data_bytes).max(1) as f64
    }

    /// Bytes on the wire that are not the data that was asked for, of all.
    pub(crate) fn overhead_pct(&self) -> f64 {
        self.wire_bytes.saturating_sub(self.data_bytes) as f64 * 100.0 / self.wire_bytes.max(1) as f64
    }
}

pub(crate) struct Bench {
    served: Served,
    clerk: Clerk,
    files: Vec<(String, Handle)>,
    links: Vec<Handle>,
    directories: Vec<Handle>,
    _folder: TempDir,
}

impl Bench {
    pub(crate) async fn start(way: Way, shared_memory: bool) -> Result<Self, Failure> {
        let folder = tempfile::tempdir()?;
        lay_out(folder.path())?;
        let served = Served::start(folder.path(), shared_memory)?;
        let clerk = Clerk::connect(ClerkConfig { way, shared_memory, ..ClerkConfig::new(&served.address) }).await?;
        let mut bench =
            Self { served, clerk, files: Vec::new(), links: Vec::new(), directories: Vec::new(), _folder: folder };
        for number in 0..FILES {
            let name = format!("file{number}");
            let handle = bench.find(&name).await?;
            bench.files.push((name, handle));
        }
        for bytes in LINK_BYTES {
            bench.links.push(bench.find(&format!("link{bytes}")).await?);
        }
        for bytes in DIRECTORY_BYTES {
            bench.directories.push(bench.find(&format!("directory{bytes}")).await?);
        }
        Ok(bench)
    }

    async fn find(&self, name: &str) -> Result<Handle, Failure> {
        let params = LookupParams { path: Some(name.to_owned()), ..LookupParams::default() };
        Ok(self.clerk.lookup(params).await?.handle)
    }

    /// Does one operation; gives the bytes of data that it moved.
    async fn perform(&self, operation: Operation) -> Result<u64, Failure> {
        let Operation { activity, bytes, pick } = operation;
        let (name, file) = &self.files[pick as usize % FILES];
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
            Activity::Readlink => self.clerk.readlink(&self.links[larger(LINK_BYTES)]).await?.len() as u64,
            Activity::Readdir => {
                let (names, _) = self.clerk.list(&self.directories[larger(DIRECTORY_BYTES)], 0).await?;
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

    /// Each operation of Figures 2 and 3, cached at the server, so many times.
    pub(crate) async fn each(&mut self, times: usize) -> Result<Vec<Figure>, Failure> {
        let one = |activity, bytes| Operation { activity, bytes, pick: 0 };
        let [few, many] = DIRECTORY_BYTES;
        let operations = [
            ("getattr", one(Activity::Getattr, 0)),
            ("lookup", one(Activity::Lookup, 0)),
            ("readlink", one(Activity::Readlink, LINK_BYTES[0])),
            ("read 1K", one(Activity::Read, 1_024)),
            ("read 4K", one(Activity::Read, 4_096)),
            ("read 8K", one(Activity::Read, BYTES_MAX)),
            ("readdir 256", one(Activity::Readdir, few)),
            ("readdir 2560", one(Activity::Readdir, many)),
        ];
        let mut figures = Vec::new();
        for (name, operation) in operations {
            for _ in 0..100 {
                self.perform(operation).await?;
            }
            let before = self.served.cpu_us()?;
            let mut took = Vec::with_capacity(times);
            for _ in 0..times {
                let begun = Instant::now();
                self.perform(operation).await?;
                took.push(begun.elapsed());
            }
            let cpu_us = (self.served.cpu_us()? - before) / times as f64;
            took.sort_unstable();
            let latency_us = took[times / 2].as_secs_f64() * 1e6;
            figures.push(Figure { operation: name.to_owned(), latency_us, cpu_us });
        }
        Ok(figures)
    }

    /// The mix, one after the other.
    pub(crate) async fn mix(&mut self, operations: impl Iterator<Item = Operation>) -> Result<Mixed, Failure> {
        let (cpu, wire, asked) = (self.served.cpu_us()?, self.clerk.traffic(), self.clerk.counts().asked);
        let control = self.clerk.control_bytes();
        let (mut data_bytes, mut with_control, mut count) = (0, 0, 0_u64);
        for operation in operations {
            let before = self.clerk.counts().asked;
            let moved = self.perform(operation).await?;
            data_bytes += moved;
            with_control += if self.clerk.counts().asked > before { moved } else { 0 };
            count += 1;
        }
        Ok(Mixed {
            cpu_us: (self.served.cpu_us()? - cpu) / count as f64,
            wire_bytes: self.clerk.traffic() - wire,
            data_bytes,
            control_bytes: (self.clerk.control_bytes() - control).saturating_sub(with_control),
            asked: self.clerk.counts().asked - asked,
        })
    }
}

/// What there is to work on: files, links and directories of the sizes that the workload has.
fn lay_out(root: &std::path::Path) -> std::io::Result<()> {
    for number in 0..FILES {
        std::fs::write(root.join(format!("file{number}")), vec![number as u8; BYTES_MAX as usize])?;
    }
    for bytes in LINK_BYTES {
        std::os::unix::fs::symlink("x".repeat(bytes as usize), root.join(format!("link{bytes}")))?;
    }
    for bytes in DIRECTORY_BYTES {
        let dir = root.join(format!("directory{bytes}"));
        std::fs::create_dir(&dir)?;
        // A name takes its bytes and 18 more: so many of 46 bytes are what is wanted.
        for number in 0..bytes / 64 {
            std::fs::write(dir.join(format!("{number:0>46}")), b"")?;
        }
    }
    Ok(())
}
