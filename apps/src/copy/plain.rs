//! The copy by plain calls: the baseline, as good as it can be made.
//!
//! The bytes arrive in the order in which they were asked for, so that each chunk is on its way to the target while the next
//! ones still arrive. What is left is three round trips and the file's bytes over the client's link once: find the file, read,
//! write. A fourth, for a commit, is needed only if the writes were not stable.

use std::{
    future::Future,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Instant,
};

use catena::{Client, Exception, Fault, RunOptions, to_value};
use catena_files::{
    CommitParams, CreateParams, Entry, Kind, LookupParams, ReadParams, ReadResult, RemoveParams, Stable, WriteParams,
    WriteResult,
};
use futures_util::{
    FutureExt, StreamExt, TryStreamExt,
    future::{BoxFuture, Shared},
    stream,
};
use serde::de::IgnoredAny;

use super::{
    Copied, Copy, Progress,
    told::{Told, is_uncertain, may_be_left},
};

/// Bytes read and written at a time. A read's result and a write fill one frame of a link, and frames of whole messages go one
/// after the other. Larger messages share the link in turns: all reads under way would arrive together, at the very end.
const CHUNK_BYTES: u64 = 15 << 10;
/// The window is chosen to keep a link of this bandwidth busy, in bytes a second.
const LINK_BYTES_PER_S: u64 = 10_000_000;
/// Chunks under way: the least, and as many calls as a file service lets wait ([`catena_files::limits::WAITING_CALLS_MAX`]).
const WINDOW_CHUNKS: (u64, u64) = (16, catena_files::limits::WAITING_CALLS_MAX as u64);

/// When what is written reaches stable storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// Before each write is answered: no commit, and so a round trip less. The best over a distance, for a file of some megabytes:
    /// the disk must keep up.
    Stable,
    /// With one commit at the end.
    Committed,
}

/// When the parts of a copy by plain calls were done, in microseconds after its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// The file was found.
    pub found_us: u64,
    /// The first chunk had been read, and went to the target.
    pub first_read_us: u64,
    /// All chunks had been read.
    pub read_us: u64,
    /// All had been written; a commit, if any, comes after this.
    pub written_us: u64,
}

/// Copies by plain calls with [`Writes::Committed`], which suits files of any size. Chunks and window are chosen for the link, not
/// taken from `copy`.
///
/// # Errors
/// As [`by_rpc_with`].
pub async fn by_rpc(client: &Client, copy: &Copy, progress: impl Fn(Progress)) -> Result<Copied, Exception> {
    by_rpc_with(client, copy, Writes::Committed, progress).await
}

/// Copies by plain calls: the target is made while the first chunks are read, reads and writes overlap.
///
/// # Errors
/// Whatever went wrong, with the path of hosts; the half-written target has been removed, or is named.
pub async fn by_rpc_with(
    client: &Client,
    copy: &Copy,
    writes: Writes,
    progress: impl Fn(Progress),
) -> Result<Copied, Exception> {
    copy.check()?;
    let told = Told::new(client, copy);
    copied(client, copy, writes, &told, progress).await.map_err(|why| told.by_calls(why))
}

async fn copied(
    client: &Client,
    copy: &Copy,
    writes: Writes,
    told: &Told<'_>,
    progress: impl Fn(Progress),
) -> Result<Copied, Exception> {
    let clock = Clock(Instant::now());
    let lookup = LookupParams { path: Some(copy.source.clone()), ..LookupParams::default() };
    let file: Entry = client.call(&copy.from, "lookup", &lookup).await.map_err(|why| told.lost(why))?;
    if file.attributes.kind != Kind::File {
        let message = format!("{}: {} is no file", copy.from, copy.source);
        return Err(Exception::new("NotAFile", Fault::Caller, message).calling(&copy.from, "lookup"));
    }
    let carrying = Carrying::new(client, copy, writes, &file, clock);
    match carrying.all(progress).await {
        Ok(marks) => Ok(Copied { bytes: file.attributes.size, trace: Vec::new(), marks: Some(marks) }),
        Err(why) => Err(carrying.clean_up(told.lost(why)).await),
    }
}

/// How many chunks are asked for before the first is written: a chunk is under way for two round trips.
fn window(round_trip_us: u64) -> u32 {
    let bytes = LINK_BYTES_PER_S.saturating_mul(round_trip_us.saturating_mul(2)) / 1_000_000;
    (bytes / CHUNK_BYTES).clamp(WINDOW_CHUNKS.0, WINDOW_CHUNKS.1) as u32
}

struct Clock(Instant);

impl Clock {
    fn us(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

struct Carrying<'a> {
    client: &'a Client,
    copy: &'a Copy,
    writes: Writes,
    file: &'a Entry,
    /// All writers wait for this single creation of the target. It is never abandoned half-way, so that it is known what was created.
    made: Shared<BoxFuture<'a, Result<Entry, Exception>>>,
    /// Whether anything may have been written to it.
    touched: AtomicBool,
    clock: Clock,
    found_us: u64,
    first_read_us: AtomicU64,
    read_us: AtomicU64,
}

impl<'a> Carrying<'a> {
    fn new(client: &'a Client, copy: &'a Copy, writes: Writes, file: &'a Entry, clock: Clock) -> Self {
        // The target is not truncated yet: an existing file stays as it is until the first bytes to replace it have come.
        let made = create(client, copy, None).boxed().shared();
        let found_us = clock.us();
        let (first_read_us, read_us) = (AtomicU64::new(u64::MAX), AtomicU64::new(found_us));
        Self {
            client,
            copy,
            writes,
            file,
            made,
            touched: AtomicBool::new(false),
            clock,
            found_us,
            first_read_us,
            read_us,
        }
    }

    async fn all(&self, progress: impl Fn(Progress)) -> Result<Marks, Exception> {
        self.chunks(progress).await?;
        let written_us = self.clock.us();
        self.finish().await?;
        let (first_read_us, read_us) =
            (self.first_read_us.load(Ordering::Relaxed), self.read_us.load(Ordering::Relaxed));
        Ok(Marks { found_us: self.found_us, first_read_us: first_read_us.min(read_us), read_us, written_us })
    }

    async fn chunks(&self, progress: impl Fn(Progress)) -> Result<(), Exception> {
        let size = self.file.attributes.size;
        let written = AtomicU64::new(0);
        let carry = |offset: u64| {
            let count = CHUNK_BYTES.min(size - offset) as u32;
            let (written, progress) = (&written, &progress);
            async move {
                self.one(offset, count).await?;
                let written = written.fetch_add(count.into(), Ordering::Relaxed) + u64::from(count);
                progress(Progress { written, size });
                Ok::<_, Exception>(())
            }
        };
        let offsets = (0..size.div_ceil(CHUNK_BYTES)).map(|index| index * CHUNK_BYTES);
        in_window(offsets.map(carry), window(self.found_us)).await
    }

    async fn one(&self, offset: u64, count: u32) -> Result<(), Exception> {
        let Self { client, copy, file, .. } = *self;
        let read = ReadParams { handle: file.handle.clone(), offset, count };
        let read = client.call::<_, ReadResult>(&copy.from, "read", &read);
        let (part, made) = tokio::try_join!(read, self.made.clone())?;
        let data = part.data;
        if data.len() != count as usize {
            let message = format!("{}: {} grew shorter while it was copied", copy.from, copy.source);
            return Err(Exception::new("Changed", Fault::Service, message).calling(&copy.from, "read"));
        }
        let now_us = self.clock.us();
        self.first_read_us.fetch_min(now_us, Ordering::Relaxed);
        self.read_us.fetch_max(now_us, Ordering::Relaxed);
        self.touched.store(true, Ordering::Relaxed);
        let stable = match self.writes {
            Writes::Stable => Stable::FileSync,
            Writes::Committed => Stable::Unstable,
        };
        let write = WriteParams { handle: made.handle, offset, data, stable };
        client.call::<_, WriteResult>(&copy.to, "write", &write).await.map(drop)
    }

    /// Truncates what is left of a longer file that was there before, and commits what is not stable yet.
    async fn finish(&self) -> Result<(), Exception> {
        let Self { client, copy, file, .. } = *self;
        let made = self.made.clone().await?;
        self.touched.store(true, Ordering::Relaxed);
        if made.attributes.size > file.attributes.size {
            create(client, copy, Some(file.attributes.size)).await?;
        }
        if self.writes == Writes::Stable {
            return Ok(());
        }
        let commit = CommitParams { handle: made.handle, offset: 0, count: 0 };
        client.call::<_, IgnoredAny>(&copy.to, "commit", &commit).await.map(drop)
    }

    async fn clean_up(&self, why: Exception) -> Exception {
        let Self { client, copy, .. } = *self;
        let (made, touched) = (self.made.clone().await, self.touched.load(Ordering::Relaxed));
        clean_up(client, copy, &RunOptions::default(), made, touched, why).await
    }
}

/// Removes what was half written, if anything was, and says what became of the target.
pub(super) async fn clean_up(
    client: &Client,
    copy: &Copy,
    options: &RunOptions,
    made: Result<Entry, Exception>,
    touched: bool,
    mut why: Exception,
) -> Exception {
    match made {
        Ok(made) if touched || made.attributes.size == 0 => {
            let remove = RemoveParams { path: Some(copy.target.clone()), ..RemoveParams::default() };
            let removed = match to_value(&remove) {
                Ok(params) => client.call_with(&copy.to, "remove", params, options).await,
                Err(why) => Err(why),
            };
            let outcome = match removed {
                Ok(_) => "has been removed".to_owned(),
                Err(second) => format!("could not be removed ({}): remove it there", second.message),
            };
            why.message = format!("{}; the half-written {} at {} {outcome}", why.message, copy.target, copy.to);
        }
        Err(second) if is_uncertain(&second) => why.message = may_be_left(&why.message, copy),
        Ok(_) => why.message = format!("{}; {} at {} is as it was", why.message, copy.target, copy.to),
        Err(_) => {}
    }
    why
}

async fn create(client: &Client, copy: &Copy, size: Option<u64>) -> Result<Entry, Exception> {
    let create = CreateParams { path: Some(copy.target.clone()), size, ..CreateParams::default() };
    client.call(&copy.to, "create", &create).await
}

pub(super) async fn in_window<F>(chunks: impl Iterator<Item = F>, window: u32) -> Result<(), Exception>
where
    F: Future<Output = Result<(), Exception>>,
{
    stream::iter(chunks).buffer_unordered(window.max(1) as usize).try_collect().await
}
