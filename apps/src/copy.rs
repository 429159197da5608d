//! Copying a file between two file services (rpc-chains section 4.1): by a chain, and by plain calls.
//!
//! Both keep the same number of chunks under way, and both remove what they had half written when they fail.

use std::{
    future::Future,
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

use catena::{
    Client, Code, Exception, Fault, Reply, ReplySet, RunOptions, StepTrace, exceptions, from_value, to_value,
};
use catena_files::{
    CommitParams, CreateParams, Entry, Kind, LookupParams, ReadParams, ReadResult, RemoveParams, Stable, WriteParams,
    WriteResult,
};
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize, de::IgnoredAny};
use tokio::sync::OnceCell;

/// The chain's source.
pub const FUNCTION: &str = include_str!("../functions/copy.ts");

/// What to copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copy {
    /// The service that has the file.
    pub from: String,
    /// Its path there.
    pub source: String,
    /// The service that gets it.
    pub to: String,
    /// Its path there.
    pub target: String,
    /// Bytes read and written at a time.
    pub chunk_bytes: u32,
    /// Chunks under way at once.
    pub window: u32,
}

impl Copy {
    /// A copy in 32 KiB chunks, 16 of them under way at once.
    #[must_use]
    pub fn new(from: &str, source: &str, to: &str, target: &str) -> Self {
        Self {
            from: from.into(),
            source: source.into(),
            to: to.into(),
            target: target.into(),
            chunk_bytes: 32 << 10,
            window: 16,
        }
    }
}

/// What was copied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copied {
    /// Bytes in the file.
    pub bytes: u64,
    /// The chain's profile; empty for a copy by plain calls.
    #[serde(skip)]
    pub trace: Vec<StepTrace>,
    /// When, microseconds after its beginning, the copy by plain calls had looked the file up, and had written all of it; empty for a chain.
    #[serde(skip)]
    pub marks_us: Vec<u64>,
}

/// How far a copy has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Bytes written.
    pub written: u64,
    /// Bytes in the file.
    pub size: u64,
}

/// Loads the chain.
///
/// # Errors
/// Whatever the sandbox says.
pub async fn code(client: &Client) -> Result<Code, Exception> {
    crate::shipped(client, "copy.ts", FUNCTION).await
}

/// Copies by a chain.
///
/// # Errors
/// The exception that ended it, with the path of hosts; the half-written target has been removed, or is named.
pub async fn by_chain(
    client: &Client,
    code: &Code,
    copy: &Copy,
    progress: impl Fn(Progress),
) -> Result<Copied, Exception> {
    let options = RunOptions { profile: true, ..RunOptions::default() };
    let mut replies = client.run_with(code, &to_value(copy)?, &options)?;
    let copied = follow(&mut replies, progress).await.map_err(|why| name_target(why, copy))?;
    Ok(Copied { trace: replies.trace().to_vec(), ..copied })
}

async fn follow(replies: &mut ReplySet, progress: impl Fn(Progress)) -> Result<Copied, Exception> {
    while let Some(reply) = replies.next().await {
        match reply? {
            Reply::Partial(value) => progress(from_value(&value)?),
            Reply::Last(value) => return from_value(&value),
        }
    }
    Err(Exception::new(exceptions::CHAIN_LOST, Fault::Network, "the reply set ended without an end"))
}

/// When the chain itself was lost, nobody was left to remove the target.
fn name_target(mut why: Exception, copy: &Copy) -> Exception {
    if [exceptions::CHAIN_LOST, exceptions::DEADLINE_EXCEEDED].contains(&why.name.as_str()) {
        why.message = format!("{}; {} may be left half-written at {}", why.message, copy.target, copy.to);
    }
    why
}

/// Copies by plain calls, as well pipelined as they can be: the target is made while the first chunks are read, reads and writes overlap.
///
/// # Errors
/// Whatever went wrong; the half-written target has been removed, or is named.
pub async fn by_rpc(client: &Client, copy: &Copy, progress: impl Fn(Progress)) -> Result<Copied, Exception> {
    let began = Instant::now();
    let mark = || u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
    let lookup = LookupParams { path: Some(copy.source.clone()), ..LookupParams::default() };
    let file: Entry = client.call(&copy.from, "lookup", &lookup).await?;
    let found_us = mark();
    if file.attributes.kind != Kind::File {
        let message = format!("{}: {} is no file", copy.from, copy.source);
        return Err(Exception::new("NotAFile", Fault::Caller, message));
    }
    let made = OnceCell::new();
    let carried = async {
        carry_all(client, copy, &file, &made, progress).await?;
        let written_us = mark();
        commit(client, copy, &made).await.map(|()| written_us)
    };
    match carried.await {
        Ok(written_us) => {
            Ok(Copied { bytes: file.attributes.size, trace: Vec::new(), marks_us: vec![found_us, written_us] })
        }
        Err(why) if made.initialized() => Err(clean_up(client, copy, why).await),
        Err(why) => Err(why),
    }
}

async fn carry_all(
    client: &Client,
    copy: &Copy,
    file: &Entry,
    made: &OnceCell<Entry>,
    progress: impl Fn(Progress),
) -> Result<(), Exception> {
    let size = file.attributes.size;
    let (written, chunk) = (AtomicU64::new(0), u64::from(copy.chunk_bytes.max(1)));
    let carry = |offset: u64| {
        let count = u32::try_from(chunk.min(size - offset)).unwrap_or(u32::MAX);
        let (written, progress) = (&written, &progress);
        async move {
            carry_one(client, copy, file, made, offset, count).await?;
            let written = written.fetch_add(count.into(), Ordering::Relaxed) + u64::from(count);
            progress(Progress { written, size });
            Ok::<_, Exception>(())
        }
    };
    let offsets = (0..size.div_ceil(chunk)).map(|index| index * chunk);
    in_window(offsets.map(carry), copy.window).await
}

async fn commit(client: &Client, copy: &Copy, made: &OnceCell<Entry>) -> Result<(), Exception> {
    let made = made.get_or_try_init(|| create(client, copy)).await?;
    let commit = CommitParams { handle: made.handle.clone(), offset: 0, count: 0 };
    client.call::<_, IgnoredAny>(&copy.to, "commit", &commit).await.map(drop)
}

async fn create(client: &Client, copy: &Copy) -> Result<Entry, Exception> {
    let create = CreateParams { path: Some(copy.target.clone()), size: Some(0), ..CreateParams::default() };
    client.call(&copy.to, "create", &create).await
}

async fn in_window<F>(chunks: impl Iterator<Item = F>, window: u32) -> Result<(), Exception>
where
    F: Future<Output = Result<(), Exception>>,
{
    stream::iter(chunks).buffer_unordered(window.max(1) as usize).try_collect().await
}

async fn carry_one(
    client: &Client,
    copy: &Copy,
    file: &Entry,
    made: &OnceCell<Entry>,
    offset: u64,
    count: u32,
) -> Result<(), Exception> {
    let read = ReadParams { handle: file.handle.clone(), offset, count };
    let (part, made) = tokio::try_join!(
        client.call::<_, ReadResult>(&copy.from, "read", &read),
        made.get_or_try_init(|| create(client, copy)),
    )?;
    let data = part.data;
    if data.len() != count as usize {
        let message = format!("{}: {} grew shorter while it was copied", copy.from, copy.source);
        return Err(Exception::new("Changed", Fault::Service, message));
    }
    let write = WriteParams { handle: made.handle.clone(), offset, data, stable: Stable::Unstable };
    client.call::<_, WriteResult>(&copy.to, "write", &write).await.map(drop)
}

async fn clean_up(client: &Client, copy: &Copy, mut why: Exception) -> Exception {
    let remove = RemoveParams { path: Some(copy.target.clone()), ..RemoveParams::default() };
    if let Err(second) = client.call::<_, IgnoredAny>(&copy.to, "remove", &remove).await {
        let left =
            format!("and the half-written {}: {} could not be removed: {}", copy.to, copy.target, second.message);
        why.message = format!("{} ({left})", why.message);
    }
    why
}

/// BLAKE3 of a file, read whole through its service: what a copy is checked by.
///
/// # Errors
/// Whatever went wrong, by name.
pub async fn hash(client: &Client, service: &str, path: &str) -> Result<[u8; 32], Exception> {
    let lookup = LookupParams { path: Some(path.to_owned()), ..LookupParams::default() };
    let file: Entry = client.call(service, "lookup", &lookup).await?;
    let chunk: u64 = 256 << 10;
    let offsets = (0..file.attributes.size.div_ceil(chunk)).map(|index| index * chunk);
    let reads = offsets.map(|offset| {
        let read = ReadParams { handle: file.handle.clone(), offset, count: chunk as u32 };
        async move { client.call::<_, ReadResult>(service, "read", &read).await }
    });
    let mut hasher = blake3::Hasher::new();
    let mut parts = stream::iter(reads).buffered(16);
    while let Some(part) = parts.next().await {
        hasher.update(&part?.data);
    }
    Ok(*hasher.finalize().as_bytes())
}
