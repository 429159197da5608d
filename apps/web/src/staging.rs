//! Segments that hold parts of bodies, one body at a time, each for one client alone. They are reused: a client keeps them mapped, and pages that were touched
//! stay warm.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    sync::{Arc, Mutex},
};

use catena::{Export, Node, NodeId, Notify, Rights, Segment};

use crate::bodies::lock;

pub(crate) struct Staging {
    node: Node,
    part_bytes: u64,
    bytes_max: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    free: HashMap<NodeId, Vec<Segment>>,
    /// Of all, free or not.
    bytes: u64,
}

/// A segment for one body: parts go into its two halves alternately, so that one can be written while the other is read.
pub(crate) struct Staged {
    pool: Arc<Staging>,
    client: NodeId,
    segment: Segment,
    second: bool,
    again: bool,
}

/// An unguessable number.
pub(crate) fn unguessable() -> u64 {
    RandomState::new().hash_one(std::time::Instant::now())
}

impl Staging {
    pub(crate) fn new(node: &Node, part_bytes: u64, bytes_max: u64) -> Arc<Self> {
        Arc::new(Self { node: node.clone(), part_bytes, bytes_max, state: Mutex::default() })
    }

    /// A segment that this client alone may read; `None`: there is no room, or it cannot be had.
    pub(crate) async fn take(self: &Arc<Self>, client: NodeId) -> Option<Staged> {
        let staged = |segment| Staged { pool: Arc::clone(self), client, segment, second: false, again: false };
        let bytes = self.part_bytes * 2;
        {
            let mut state = lock(&self.state);
            if let Some(segment) = state.free.get_mut(&client).and_then(Vec::pop) {
                return Some(staged(segment));
            }
            if state.bytes + bytes > self.bytes_max {
                // Frees the segments of clients that currently need none.
                let freed: usize = state.free.drain().map(|(_, segments)| segments.len()).sum();
                state.bytes = state.bytes.saturating_sub(bytes * freed as u64);
            }
            if state.bytes + bytes > self.bytes_max {
                return None;
            }
            state.bytes += bytes;
        }
        let how = Export { on_read: Notify::Never, ..Export::default() };
        let made = self.node.export(&format!("web part {:016x}", unguessable()), bytes, how);
        let Ok(segment) = made else {
            lock(&self.state).bytes -= bytes;
            return None;
        };
        // From here on, dropping `staged` returns or frees it.
        let staged = staged(segment);
        staged.segment.allow(client, Rights::READ).await.ok()?;
        Some(staged)
    }
}

impl Staged {
    /// Lays a part there; gives its offset and the segment's name.
    pub(crate) fn lay(&mut self, bytes: &[u8]) -> Option<(u64, String)> {
        let offset = if self.second { self.pool.part_bytes } else { 0 };
        self.second = !self.second;
        self.segment.write(offset, bytes).ok()?;
        Some((offset, self.segment.name().to_owned()))
    }

    /// For when nobody reads the segment any more. If it is only dropped, it is not reused: somebody may still read it, and must not see another body's bytes.
    pub(crate) fn give_back(mut self) {
        self.again = true;
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        let mut state = lock(&self.pool.state);
        match self.again {
            true => state.free.entry(self.client).or_default().push(self.segment.clone()),
            false => state.bytes = state.bytes.saturating_sub(self.pool.part_bytes * 2),
        }
    }
}
