//! Memory that partners on one host lend each other. Long messages and return buffers lie there, and reach the partner by a copy, without a message.
//!
//! A mapping cannot be taken back, so mapped memory belongs to one partner for ever: its pages only hold what was, is or will be granted to that partner.
//! Before each buffer is a word that holds the number of its grant while the grant is valid; a correct partner checks it before and after each copy. An
//! incorrect one only sees bytes that it was meant to see, or spoils answers that are its own.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use catena_core::messages::{Area, MessagePolicy, is_lent};
use catena_net::Link;
use catena_wire::{At, Buffer, Exception, Lent, NodeId, NodeRef, Rights};

use super::carrying::Mapping;
use crate::{
    Granted, Segment, random,
    segments::Near,
    shell::{Shell, lock},
};

/// Bytes before each buffer: its word, and the rest of the cache line.
const HEAD_BYTES: u64 = 64;
/// The most memories of partners that are mapped at one time, and the most bytes of one.
const MAPPED_MAX: usize = 256;
const MAPPED_BYTES_MAX: u64 = 64 << 20;

/// What a partner may do with the memory lent to it: a partner has at most one memory for each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum For {
    /// The owner writes there, and the partner reads.
    Reading,
    /// The partner writes its answers there.
    Writing,
}

impl For {
    const fn rights(self) -> Rights {
        match self {
            Self::Reading => Rights::READ,
            Self::Writing => Rights::ALL,
        }
    }
}

/// The memory that is lent to partners, and the memory of theirs that is mapped here.
#[derive(Debug, Default)]
pub(super) struct Lending {
    lent: Mutex<HashMap<(NodeId, For), Arc<Memory>>>,
    mapped: Mutex<HashMap<(NodeId, For), Mapped>>,
    pub(super) mapping: Mapping,
}

/// The memory lent to one partner.
#[derive(Debug)]
struct Memory {
    segment: Segment,
    /// The grant for the whole memory.
    whole: u64,
    bytes: u64,
    used_for: For,
    area: Mutex<(Area, Instant)>,
}

#[derive(Debug)]
struct Mapped {
    pages: Arc<Near>,
    at: (u32, u64),
    used: Instant,
}

/// A buffer in lent memory.
#[derive(Debug)]
pub(super) struct Loan {
    of: Arc<Memory>,
    first: u64,
    bytes: u64,
    settled: AtomicBool,
}

impl Loan {
    pub(super) fn segment(&self) -> &Segment {
        &self.of.segment
    }

    /// Where the buffer begins.
    pub(super) const fn offset(&self) -> u64 {
        self.first + HEAD_BYTES
    }

    /// Marks the buffer valid: the partner may use it this many times, by this grant.
    pub(super) fn holds(&self, grant: u64, uses: u32) -> Lent {
        self.set_word(grant);
        Lent { whole: self.of.whole, bytes: self.of.bytes, word: self.first, uses }
    }

    /// The partner has done all that it may do, so the buffer need not be scrubbed or withheld from reuse.
    pub(super) fn settle(&self) {
        self.settled.store(true, Relaxed);
    }

    fn set_word(&self, word: u64) {
        // This cannot fail: the range was allocated.
        let _ = self.of.segment.write(self.first, &word.to_ne_bytes());
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.set_word(0);
        let settled = self.settled.load(Relaxed);
        if !settled && self.of.used_for == For::Reading {
            // The grant has expired: bytes that were not read must not be readable any more.
            scrub(&self.of.segment, self.offset(), self.bytes);
        }
        let mut area = lock(&self.of.area);
        if !settled && self.of.used_for == For::Writing {
            // The partner may be about to write there, so nobody else may use the range for an answer.
            area.0.spoil();
        }
        area.0.give_back(self.first);
        area.1 = Instant::now();
    }
}

fn scrub(segment: &Segment, from: u64, bytes: u64) {
    const ZEROS: [u8; 4_096] = [0; 4_096];
    for at in (0..bytes).step_by(ZEROS.len()) {
        let count = (bytes - at).min(ZEROS.len() as u64);
        let _ = segment.write(from + at, &ZEROS[..count as usize]);
    }
}

impl Lending {
    /// Releases memory that has been idle for long, and that of partners that are gone. Returns whether anything is left.
    pub(super) fn sweep(&self, is_linked: impl Fn(NodeId) -> bool, policy: &MessagePolicy) -> bool {
        let idle = Duration::from_micros(policy.lent_idle_max_us);
        let (mut lent, mut mapped) = (lock(&self.lent), lock(&self.mapped));
        let (mut gone, mut unmapped) = (Vec::new(), Vec::new());
        gone.extend(lent.extract_if(|(to, _), memory| {
            let area = lock(&memory.area);
            !is_linked(*to) || (area.0.is_empty() && area.1.elapsed() >= idle)
        }));
        unmapped.extend(mapped.extract_if(|(of, _), mapped| !is_linked(*of) || mapped.used.elapsed() >= idle));
        let left = !lent.is_empty() || !mapped.is_empty();
        drop((lent, mapped));
        // Revoked and released outside of the locks.
        drop((gone, unmapped));
        left
    }
}

impl Shell {
    /// Whether this node shares memory, and does not simulate distance to other nodes on its host.
    pub(crate) fn lends(&self) -> bool {
        self.segments.host.is_some() && !self.plays_far()
    }

    /// A buffer of this size in memory lent to the partner at the other end of this link, if both are on one host and share memory.
    pub(super) fn loan(self: &Arc<Self>, to: NodeId, link: Option<&Link>, bytes: u64, used_for: For) -> Option<Loan> {
        let near = self.lends() && link.is_some_and(is_near);
        let policy = &self.post.policy;
        if !is_lent(near, bytes, policy) {
            return None;
        }
        let mut lent = lock(&self.post.lending.lent);
        let key = (to, used_for);
        if lent.get(&key).is_some_and(|memory| lock(&memory.area).0.is_spoiled()) {
            lent.remove(&key);
        }
        let memory = match lent.get(&key) {
            Some(memory) => Arc::clone(memory),
            None if lent.len() >= policy.lent_max => return None,
            None => {
                let memory = Arc::new(Memory::lent(self, to, used_for, policy.lent_bytes_per_peer_max)?);
                lent.insert(key, Arc::clone(&memory));
                memory
            }
        };
        drop(lent);
        let mut area = lock(&memory.area);
        let first = area.0.take(bytes + HEAD_BYTES)?;
        area.1 = Instant::now();
        drop(area);
        self.post.machine().counts.lent += 1;
        Some(Loan { of: memory, first, bytes, settled: AtomicBool::new(false) })
    }

    /// A partner's memory, if it is mapped here now.
    pub(super) fn mapped_already(&self, node: NodeId, at: &At, used_for: For) -> Option<Arc<Near>> {
        let mut mapped = lock(&self.post.lending.mapped);
        let known = mapped.get_mut(&(node, used_for))?;
        let is_it = known.at == (at.number, at.generation) && known.pages.is_live();
        is_it.then(|| {
            known.used = Instant::now();
            Arc::clone(&known.pages)
        })
    }

    /// The memory that a partner lends to this node, mapped here; `None`: it is not mapped and cannot be.
    pub(super) async fn mapped(
        self: &Arc<Self>,
        node: &NodeRef,
        at: &At,
        lent: &Lent,
        used_for: For,
    ) -> Option<Arc<Near>> {
        if lent.bytes > MAPPED_BYTES_MAX || self.segments.host.is_none() {
            return None;
        }
        if let Some(known) = self.mapped_already(node.id, at, used_for) {
            return Some(known);
        }
        let key = (node.id, used_for);
        {
            let mapped = lock(&self.post.lending.mapped);
            if mapped.len() >= MAPPED_MAX && !mapped.contains_key(&key) {
                return None;
            }
        }
        let whole = At { offset: 0, grant: Some(lent.whole), ..*at };
        let granted = Granted { owner: node.id, at: whole, bytes: lent.bytes };
        let imported = self.import_lent(node.clone(), &granted).await.ok()?;
        // Keeps the pages alone: an import holds the node, which would hold the import.
        let pages = imported.pages(used_for == For::Writing).await?;
        let known = Mapped { pages: Arc::clone(&pages), at: (at.number, at.generation), used: Instant::now() };
        let before = lock(&self.post.lending.mapped).insert(key, known);
        drop(before);
        self.keep_sweeping();
        Some(pages)
    }
}

impl Memory {
    /// `None`: there is no room for it, and bytes go over the link.
    fn lent(shell: &Arc<Shell>, to: NodeId, used_for: For, bytes: u64) -> Option<Self> {
        let name = format!("lent {:016x}", random::bits64());
        let (segment, granted) = Segment::lend(&shell.segments, &name, (to, used_for.rights()), bytes).ok()?;
        let area = Mutex::new((Area::new(bytes), Instant::now()));
        Some(Self { segment, whole: granted.at.grant?, bytes, used_for, area })
    }
}

impl Shell {
    /// Copies from a buffer in a partner's lent memory, from this offset of its segment on. `None`: it is not mapped here, and the bytes have to be requested.
    pub(crate) async fn copy_lent(
        self: &Arc<Self>,
        node: &NodeRef,
        buffer: &Buffer,
        (offset, count): (u64, u64),
    ) -> Option<Result<Bytes, Exception>> {
        let (lent, grant) = (buffer.lent?, buffer.at.grant?);
        if offset.checked_add(count).is_none_or(|end| end > lent.bytes) {
            return None;
        }
        let there = self.mapped(node, &buffer.at, &lent, For::Reading).await?;
        // At most as much as is mapped, which is bounded.
        let mut out = vec![0; count as usize];
        let read = there.read_lent((lent.word, grant), offset, &mut out)?;
        if read.is_ok() {
            self.post.machine().counts.read_near += 1;
        }
        Some(read.map(|()| out.into()))
    }
}

/// Whether the other end seems to be on this host, by its address. If it is not, it requests the bytes over the link, by the buffer's own grant.
pub(crate) fn is_near(link: &Link) -> bool {
    let address = link.peer_address().parse::<std::net::SocketAddr>();
    address.is_ok_and(|address| address.ip().to_canonical().is_loopback())
}
