//! The blobs that this node owns: each is a segment that ends when it expires or its owner releases it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, Weak},
    time::{Duration, Instant},
};

use bytes::Bytes;
use catena_net::{Lease, MemoryBudget, OverBudget};
use catena_wire::{At, ChainId, Exception, Fault, NAME_BYTES_MAX, Rights, names};

use super::{Blob, beside::Beside, reference::Reference};
use crate::{
    GrantTerms, Segment,
    shell::{Shell, lock},
};

/// Blobs of one node at one time.
const BLOBS_MAX: usize = 16_384;
/// The divisor of the node's memory for all bytes that are fetched early, together.
const EARLY_PART: u64 = 16;
/// How often to look for blobs that have expired.
const SWEEP: Duration = Duration::from_secs(1);

/// The state of this node's blobs.
#[derive(Debug)]
pub(crate) struct Blobs {
    held: Mutex<Held>,
    memory: MemoryBudget,
    /// The memory for bytes that are fetched early.
    pub(super) early: MemoryBudget,
    /// The bytes pushed beside calls.
    pub(super) beside: Beside,
    grace: Duration,
}

#[derive(Debug, Default)]
struct Held {
    by_grant: HashMap<u64, Owned>,
    /// The grants of blobs that were made for a chain that may still be under way.
    of_chain: HashMap<ChainId, Vec<u64>>,
    offered: u64,
    swept: bool,
}

#[derive(Debug)]
struct Owned {
    segment: Segment,
    chain: Option<ChainId>,
    until: Instant,
    memory: Lease,
}

impl Held {
    fn put(&mut self, grant: u64, owned: Owned) {
        if let Some(chain) = owned.chain {
            self.of_chain.entry(chain).or_default().push(grant);
        }
        self.by_grant.insert(grant, owned);
    }

    fn take(&mut self, grant: u64) -> Option<Owned> {
        let owned = self.by_grant.remove(&grant)?;
        if let Some(chain) = owned.chain
            && let Some(grants) = self.of_chain.get_mut(&chain)
        {
            grants.retain(|other| *other != grant);
            if grants.is_empty() {
                self.of_chain.remove(&chain);
            }
        }
        Some(owned)
    }
}

impl Blobs {
    /// `bytes_max` limits all blobs of the node, within its memory. Blobs outlive the chain for which they were made by `grace`.
    pub(crate) fn new(memory: &MemoryBudget, bytes_max: u64, grace: Duration) -> Self {
        let early = memory.part(memory.bytes_max() / EARLY_PART);
        Self { held: Mutex::default(), memory: memory.part(bytes_max), early, beside: Beside::default(), grace }
    }

    /// Keeps bytes for `lasts` plus the grace. If they are for a chain that is reported to be over, only the grace remains from then on.
    pub(crate) fn offer(
        &self,
        shell: &Arc<Shell>,
        bytes: &[u8],
        media_type: &str,
        (lasts, chain): (Duration, Option<ChainId>),
    ) -> Result<Blob, Exception> {
        if media_type.len() > NAME_BYTES_MAX {
            let message = format!("a media type has at most {NAME_BYTES_MAX} bytes");
            return Err(Exception::new(names::BAD_PARAMETERS, Fault::Caller, message));
        }
        let size = bytes.len() as u64;
        let memory = self.memory.lease(size).map_err(|why| full(&why))?;
        let lasts = lasts.saturating_add(self.grace(size));
        let mut held = lock(&self.held);
        if held.by_grant.len() >= BLOBS_MAX {
            let message = format!("this node has {BLOBS_MAX} blobs, which is all that it holds; release some");
            return Err(Exception::new(names::OVERLOADED, Fault::Node, message));
        }
        held.offered += 1;
        let name = format!("blob {}", held.offered);
        drop(held);
        let segment = Segment::of_bytes(&shell.segments, &name, Bytes::copy_from_slice(bytes))?;
        let terms = GrantTerms { rights: Rights::READ, offset: 0, bytes: size, uses: u32::MAX, lasts };
        let granted = segment.grant_any(None, terms)?;
        let until = Instant::now().checked_add(lasts).unwrap_or_else(|| Instant::now() + Duration::from_secs(86_400));
        let owned = Owned { segment, chain, until, memory };
        let mut held = lock(&self.held);
        held.put(granted.at.grant.unwrap_or_default(), owned);
        if !std::mem::replace(&mut held.swept, true) {
            shell.runtime().spawn(sweep(Arc::downgrade(shell)));
        }
        let media_type = media_type.to_owned();
        let reference = Reference { owner: shell.me.clone(), at: granted.at, held: size, first: 0, size, media_type };
        Ok(Blob::new(reference, Some(Arc::clone(shell))))
    }

    /// How long a blob outlives what it was made for: enough to read it at a megabyte a second.
    const fn grace(&self, size: u64) -> Duration {
        self.grace.saturating_add(Duration::from_micros(size))
    }

    /// The segment of a blob that this node still has.
    pub(super) fn segment(&self, reference: &Reference) -> Option<Segment> {
        self.granted(&reference.at, 0)
    }

    /// The segment of a blob that this node still has, if its grant covers this many bytes from there on.
    pub(super) fn granted(&self, at: &At, bytes: u64) -> Option<Segment> {
        let held = lock(&self.held);
        let owned = held.by_grant.get(&at.grant?)?;
        let id = owned.segment.id();
        let same = (id.number, id.generation) == (at.number, at.generation);
        let inside = at.offset.checked_add(bytes).is_some_and(|end| end <= owned.memory.bytes());
        (same && inside && owned.until > Instant::now()).then(|| owned.segment.clone())
    }

    /// Whether a grant belongs to a blob of this node.
    pub(super) fn is_held(&self, grant: u64) -> bool {
        lock(&self.held).by_grant.contains_key(&grant)
    }

    /// The bytes pushed beside calls, from here and to here.
    pub(crate) const fn beside(&self) -> &Beside {
        &self.beside
    }

    /// Releases a blob; returns whether it was still there.
    pub(super) fn release(&self, reference: &Reference) -> bool {
        let is_there = self.segment(reference).is_some();
        let owned = reference.at.grant.filter(|_| is_there).and_then(|grant| lock(&self.held).take(grant));
        // The segment is revoked with its last handle, outside of the lock.
        owned.is_some()
    }

    /// These chains are over, so what was made for them now lasts only for the grace.
    pub(crate) fn chains_over(&self, chains: &[ChainId]) {
        let mut held = lock(&self.held);
        if held.of_chain.is_empty() {
            return;
        }
        let now = Instant::now();
        for grant in chains.iter().filter_map(|chain| held.of_chain.remove(chain)).flatten().collect::<Vec<_>>() {
            if let Some(owned) = held.by_grant.get_mut(&grant) {
                owned.until = owned.until.min(now + self.grace(owned.memory.bytes()));
                owned.chain = None;
            }
        }
    }

    /// Releases blobs that have expired. Returns whether there are others.
    fn sweep(&self) -> bool {
        let now = Instant::now();
        let (over, more) = {
            let mut held = lock(&self.held);
            let over: Vec<u64> =
                held.by_grant.iter().filter(|(_, owned)| owned.until <= now).map(|(grant, _)| *grant).collect();
            let over: Vec<Owned> = over.into_iter().filter_map(|grant| held.take(grant)).collect();
            held.swept = !held.by_grant.is_empty();
            (over, held.swept)
        };
        // Revoked outside of the lock.
        drop(over);
        more
    }

    /// How many blobs are here, and their bytes.
    pub(crate) fn load(&self) -> (usize, u64) {
        (lock(&self.held).by_grant.len(), self.memory.used())
    }
}

async fn sweep(shell: Weak<Shell>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        let Some(shell) = shell.upgrade() else { return };
        if !shell.blobs.sweep() {
            return;
        }
    }
}

fn full(why: &OverBudget) -> Exception {
    let message =
        format!("no room for another blob (blob_bytes_max, or the node's memory): {why}; release some, or wait");
    Exception::new(names::OVERLOADED, Fault::Node, message)
}
