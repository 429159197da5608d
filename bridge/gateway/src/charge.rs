//! Memory used on behalf of browsers: what is charged is released when the last byte has been handed on.

use std::{
    io::{self, Write},
    sync::Arc,
};

use bytes::Bytes;
use catena::Value;
use catena_json::Addressed;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::blobs::Giver;

/// Bytes of JSON per byte of CBOR, at most: the worst is an unassigned simple value, `"simple(5)",`.
const JSON_PER_CBOR: usize = 16;

/// Bytes of CBOR per byte of JSON, hardly more (a float of eight bytes, `1.0`); larger CBOR is not even looked at.
const CBOR_PER_JSON: usize = 4;

/// Bytes that have been paid for.
struct Charged {
    bytes: Bytes,
    _paid: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The memory of a gateway.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    left: Arc<Semaphore>,
}

impl Memory {
    pub(crate) fn new(bytes: usize) -> Self {
        Self { left: Arc::new(Semaphore::new(bytes)) }
    }

    /// Takes memory if enough is free.
    pub(crate) fn try_take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.left).try_acquire_many_owned(u32::try_from(bytes).ok()?).ok()
    }

    /// Takes memory, waiting until enough is free; `None`: there will never be enough.
    pub(crate) async fn take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.left).acquire_many_owned(u32::try_from(bytes).ok()?).await.ok()
    }

    /// A payload as JSON, between `before` and `after`, with the addresses of its blobs; waits for memory. `None` if the JSON has more than `bytes_max`.
    pub(crate) async fn json(
        &self,
        value: &Value,
        bytes_max: usize,
        around: [&str; 2],
        blobs: &Giver,
    ) -> Option<Bytes> {
        if value.as_bytes().len() / CBOR_PER_JSON > bytes_max {
            return None;
        }
        let framing = around[0].len() + around[1].len();
        let most = value.as_bytes().len().saturating_mul(JSON_PER_CBOR).min(bytes_max) + framing;
        let paid = self.take(most).await?;
        let mut bounded = Bounded { bytes: around[0].as_bytes().to_vec(), bytes_max: bytes_max + around[0].len() };
        serde_json::to_writer(&mut bounded, &Addressed(value, &|blob| blobs.address(blob))).ok()?;
        let mut bytes = bounded.bytes;
        bytes.extend_from_slice(around[1].as_bytes());
        bytes.shrink_to_fit();
        Some(Self::charged(bytes, paid))
    }

    /// Bytes together with the memory taken for them; memory taken beyond their length is released.
    pub(crate) fn charged(bytes: impl Into<Bytes>, mut paid: OwnedSemaphorePermit) -> Bytes {
        let bytes = bytes.into();
        drop(paid.split(paid.num_permits().saturating_sub(bytes.len())));
        Bytes::from_owner(Charged { bytes, _paid: paid })
    }
}

/// A writer that fails beyond a bound, so that a large payload is given up early.
struct Bounded {
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl Write for Bounded {
    fn write(&mut self, more: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + more.len() > self.bytes_max {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(more);
        Ok(more.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn memory_comes_back_when_the_bytes_are_gone() {
        let memory = Memory::new(100);
        let value = catena::to_value(&[1, 2, 3]).unwrap();
        let giver = Giver::to_nobody();
        let json = memory.json(&value, 90, ["<", ">"], &giver).await.unwrap();
        assert_eq!(json.as_ref(), b"<[1,2,3]>");
        assert_eq!(memory.left.available_permits(), 91);
        drop(json);
        assert_eq!(memory.left.available_permits(), 100);
        assert_eq!(memory.json(&value, 6, ["", ""], &giver).await, None);
        assert_eq!(memory.left.available_permits(), 100);
    }
}
