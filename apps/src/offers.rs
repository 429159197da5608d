//! A file's bytes by reference: the source *offers* a part of it, the target *takes* it. The bytes do not pass through whoever connects the two.

use std::{sync::Arc, time::Duration};

use catena::{Blob, Context, Exception, Fault, Service, ServiceError, exceptions};
use catena_files::{FileService, Handle, ReadParams, Stable, WriteParams};
use futures_util::{StreamExt, TryStreamExt, future, stream};
use serde::{Deserialize, Serialize};

use crate::files::told;

/// Bytes of one part: it stays in its node's memory until it is taken. Files of any size are offered part by part.
pub const OFFER_BYTES_MAX: u64 = 64 << 20;
/// How long a part can be taken, unless it is released earlier.
const OFFER_LASTS: Duration = Duration::from_secs(120);
/// Bytes of one read, and reads and writes under way at one time.
const READ_BYTES: u64 = 512 << 10;
const AT_ONCE: usize = 8;
/// The type of a file's bytes: what they are is not looked at.
const MEDIA_TYPE: &str = "application/octet-stream";

/// What is asked of `offer`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Offer {
    /// The file.
    pub handle: Handle,
    /// From this byte on.
    pub offset: u64,
    /// So many bytes, or as many as there are.
    pub count: u64,
    /// A part that was offered before, and has been taken.
    #[serde(default)]
    pub done: Option<Blob>,
}

/// What is asked of `take`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Take {
    /// The file to write to.
    pub handle: Handle,
    /// From this byte on.
    pub offset: u64,
    /// What to write.
    pub part: Blob,
}

/// Adds `offer` (gives a blob), `take` (gives the bytes written) and `release` (of what was offered).
pub(crate) fn with_offers(service: Service, files: &Arc<dyn FileService>) -> Service {
    let (source, target) = (Arc::clone(files), Arc::clone(files));
    service
        .function_in("offer", move |context, params| offer(Arc::clone(&source), context, params))
        .function("take", move |params| take(Arc::clone(&target), params))
        .function("release", async |parts: Vec<Blob>| Ok(parts.iter().filter(|part| part.release()).count()))
        .repeatable("offer")
        .repeatable("take")
        .repeatable("release")
}

async fn offer(files: Arc<dyn FileService>, context: Context, params: Offer) -> Result<Blob, ServiceError> {
    let Offer { handle, offset, count, done } = params;
    if let Some(done) = done {
        done.release();
    }
    if count > OFFER_BYTES_MAX {
        let message = format!("a part has at most {OFFER_BYTES_MAX} bytes; ask for several");
        return Err(Exception::new(exceptions::LIMIT_EXCEEDED, Fault::Caller, message).into());
    }
    let offsets = (0..count.div_ceil(READ_BYTES)).map(|index| index * READ_BYTES);
    let reads = offsets.map(|at| {
        let read = ReadParams { handle: handle.clone(), offset: offset + at, count: READ_BYTES.min(count - at) as u32 };
        files.read(read)
    });
    let mut bytes = Vec::new();
    let mut parts = stream::iter(reads).buffered(AT_ONCE);
    while let Some(part) = parts.next().await {
        let part = part.map_err(told)?;
        bytes.extend_from_slice(&part.data);
        if part.eof {
            break;
        }
    }
    Ok(context.blob_for(&bytes, MEDIA_TYPE, OFFER_LASTS)?)
}

async fn take(files: Arc<dyn FileService>, params: Take) -> Result<u64, ServiceError> {
    let Take { handle, offset, part } = params;
    let pieces = part.stream().scan(offset, |at, piece| {
        let piece = piece.map(|piece| {
            let here = *at;
            *at += piece.len() as u64;
            (here, piece)
        });
        future::ready(Some(piece))
    });
    let writes = pieces.map_err(ServiceError::from).map_ok(|(offset, piece)| {
        let data = piece.to_vec().into();
        let write = WriteParams { handle: handle.clone(), offset, data, stable: Stable::Unstable };
        let files = Arc::clone(&files);
        async move {
            let asked = write.data.len();
            let written = files.write(write).await.map_err(told)?.count as usize;
            if written < asked {
                return Err(ServiceError::named("ShortWrite", format!("{written} of {asked} bytes were written")));
            }
            Ok(asked as u64)
        }
    });
    writes.try_buffer_unordered(AT_ONCE).try_fold(0, |sum, bytes| future::ready(Ok(sum + bytes))).await
}
