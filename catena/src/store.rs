//! Functions by hash: what this node can load, and hand on.

use std::{
    collections::{HashMap, VecDeque},
    sync::Mutex,
};

use bytes::Bytes;
use catena_wire::{Exception, Fault, Hash, names};

use crate::shell::lock;

/// A bounded store of functions, oldest out first. What is in it has been checked against its hash.
#[derive(Debug)]
pub(crate) struct Store {
    bytes_max: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    by_hash: HashMap<Hash, Bytes>,
    oldest: VecDeque<Hash>,
    bytes: usize,
}

impl Store {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, inner: Mutex::default() }
    }

    pub(crate) fn get(&self, hash: Hash) -> Option<Bytes> {
        lock(&self.inner).by_hash.get(&hash).cloned()
    }

    /// Keeps a function, if it is what its hash says.
    pub(crate) fn put(&self, hash: Hash, bytes: Bytes) -> Result<(), Exception> {
        let actual = Hash(*blake3::hash(&bytes).as_bytes());
        if actual != hash {
            let message = format!("a function came whose hash is {actual:?}, where {hash:?} was asked for");
            return Err(Exception::new(names::BAD_CODE, Fault::Node, message));
        }
        if bytes.len() > self.bytes_max {
            let message = format!("a function of {} bytes is more than this node keeps", bytes.len());
            return Err(Exception::new(names::BAD_CODE, Fault::Caller, message));
        }
        let mut inner = lock(&self.inner);
        if inner.by_hash.contains_key(&hash) {
            return Ok(());
        }
        inner.bytes += bytes.len();
        // A slice would pin the whole message that brought it.
        inner.by_hash.insert(hash, Bytes::copy_from_slice(&bytes));
        inner.oldest.push_back(hash);
        while inner.bytes > self.bytes_max {
            let Some(gone) = inner.oldest.pop_front() else { break };
            let freed = inner.by_hash.remove(&gone).map_or(0, |bytes| bytes.len());
            inner.bytes -= freed;
        }
        Ok(())
    }
}
