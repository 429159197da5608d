//! `catena.blob`: how functions read blobs. Every node serves it to the guests that it runs, and announces it to nobody.

use catena_wire::{Exception, Fault, names};
use serde_bytes::ByteBuf;

use super::Blob;
use crate::{Context, Service, ServiceError};

/// The name that the engine uses (`guest/wasm/engine/src/layers.js`).
pub(crate) const SERVICE: &str = "catena.blob";

/// The most bytes that a function reads at once: more would not fit into its memory together with what it makes of them.
const GUEST_READ_BYTES_MAX: u64 = 16 << 20;

pub(crate) fn service() -> Service {
    Service::new(SERVICE)
        .function_in("bytes", async |_: Context, blob: Blob| {
            check(&blob)?;
            Ok(ByteBuf::from(blob.bytes().await?))
        })
        .function_in("text", async |_: Context, blob: Blob| {
            check(&blob)?;
            Ok(blob.text().await?)
        })
        .repeatable("bytes")
        .repeatable("text")
}

fn check(blob: &Blob) -> Result<(), ServiceError> {
    if blob.size() <= GUEST_READ_BYTES_MAX {
        return Ok(());
    }
    let message = format!(
        "the blob has {} bytes, and a function reads at most {GUEST_READ_BYTES_MAX} at once; read slices of it",
        blob.size()
    );
    Err(Exception::new(names::LIMIT_EXCEEDED, Fault::Guest, message).into())
}
