//! Copying a file between two file services (rpc-chains section 4.1): by a chain, by one chain for each chunk, by a chain that carries references
//! to its parts, and by plain calls.
//!
//! All keep many chunks under way. All leave an existing target unchanged until the first bytes to replace it have come, and when they fail, they remove what
//! they had half written, or name it where they cannot.

mod blobs;
mod chunks;
mod plain;
mod told;

use catena::{
    Client, Code, Exception, Fault, Reply, ReplySet, RunOptions, StepTrace, exceptions, from_value, to_value,
};
use catena_files::{Entry, LookupParams, ReadParams, ReadResult};
use futures_util::{StreamExt, stream};
use serde::{Deserialize, Serialize};

pub use blobs::{BLOB_FUNCTION, blob_code, by_blob};
pub use chunks::{ChunkCode, by_chunks};
pub use plain::{Marks, Writes, by_rpc, by_rpc_with};
use told::Told;

/// The chain's source.
pub const FUNCTION: &str = include_str!("../../functions/copy.ts");

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
    /// Bytes that chains read and write at a time. A chain takes more for a file of more than 900 such chunks, since its calls are counted.
    pub chunk_bytes: u32,
    /// Chunks that chains have under way at once.
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

    /// A file is not copied onto itself: cleaning up after a failure would remove it.
    fn check(&self) -> Result<(), Exception> {
        if self.from != self.to || self.source != self.target {
            return Ok(());
        }
        let message = format!("{} at {} would be copied onto itself; name another target", self.source, self.from);
        Err(Exception::new(exceptions::BAD_PARAMETERS, Fault::Caller, message))
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
    /// The timeline of a copy by plain calls; none of a chain.
    #[serde(skip)]
    pub marks: Option<Marks>,
}

/// How far a copy has come. Reported for the first time when the target exists, with nothing written yet.
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
    copy.check()?;
    let mut told = Told::new(client, copy);
    let options = RunOptions { profile: true, ..RunOptions::default() };
    let mut replies = client.run_with(code, &to_value(copy)?, &options)?;
    let followed = follow(&mut replies, &mut told, progress).await;
    let copied = followed.map_err(|why| told.by_chain(why))?;
    Ok(Copied { trace: replies.trace().to_vec(), ..copied })
}

async fn follow(replies: &mut ReplySet, told: &mut Told<'_>, progress: impl Fn(Progress)) -> Result<Copied, Exception> {
    while let Some(reply) = replies.next().await {
        match reply? {
            Reply::Partial(value) => {
                told.at_target = true;
                progress(from_value(&value)?);
            }
            Reply::Last(value) => return from_value(&value),
        }
    }
    Err(Exception::new(exceptions::CHAIN_LOST, Fault::Network, "the reply set ended without an end"))
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
