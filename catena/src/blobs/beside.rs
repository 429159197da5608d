//! Bytes pushed beside a hop or call, straight from their owner to the callee that will read them. `catena_core::beside` tracks what was pushed and what
//! arrived; this provides links and memory.

use std::{
    iter,
    net::IpAddr,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use catena_core::beside::{Arrivals, Came, Piece, Pushed, is_pushed};
use catena_net::{Lease, Message as Frame, awake};
use catena_wire::{At, Encoded, Message, NodeId, NodeRef, SegmentMessage};
use tokio::sync::{Semaphore, oneshot};

use super::reference::Reference;
use crate::{
    messages::{is_near, offer},
    segments::PIECE_BYTES,
    shell::{Shell, lock},
};

/// Blobs of one call whose bytes are pushed beside it.
const BLOBS_PER_CALL_MAX: usize = 8;
/// How much of a call is searched for blobs, in bytes: parameters come first.
const SEARCHED_BYTES_MAX: usize = 16 << 10;
/// The beginning of a blob's reference in CBOR: its tag.
const MARK: [u8; 5] = [0xda, 0x43, 0x42, 0x4c, 0x42];
/// Ranges that are pushed at one time; others wait until their callees READ them.
const PUSHES_AT_ONCE_MAX: usize = 64;
/// How long to wait for bytes that their owner says it has pushed.
const ON_THEIR_WAY_MAX: Duration = Duration::from_secs(5);
/// How often to look for pushed bytes that have expired, while any wait to be read.
const SWEEP: Duration = Duration::from_secs(1);

/// The bytes pushed from here, and those pushed to here.
pub(crate) struct Beside {
    pushed: Mutex<Pushed>,
    arrivals: Mutex<Arrivals<(Bytes, Lease), oneshot::Sender<Bytes>>>,
    pushes: Arc<Semaphore>,
    sweeping: Mutex<bool>,
    /// Bytes that were pushed from here.
    sent_bytes: AtomicU64,
    /// Bytes that were pushed to here, and read.
    used_bytes: AtomicU64,
}

impl Default for Beside {
    fn default() -> Self {
        Self {
            pushed: Mutex::default(),
            arrivals: Mutex::default(),
            pushes: Arc::new(Semaphore::new(PUSHES_AT_ONCE_MAX)),
            sweeping: Mutex::default(),
            sent_bytes: AtomicU64::default(),
            used_bytes: AtomicU64::default(),
        }
    }
}

impl std::fmt::Debug for Beside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Beside").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

impl Beside {
    /// Bytes that were pushed from here, and bytes that were pushed to here and read.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.sent_bytes.load(Relaxed), self.used_bytes.load(Relaxed))
    }

    /// See [`Pushed::on_linked`], [`Arrivals::on_linked`].
    pub(crate) fn on_linked(&self, node: NodeId, from: impl Fn() -> Option<IpAddr>) {
        lock(&self.pushed).on_linked(node, from());
        lock(&self.arrivals).on_linked(node, from());
    }

    /// Whatever was being pushed to a node is lost with its link.
    pub(crate) fn link_lost(&self, node: NodeId) {
        lock(&self.pushed).on_link_lost(node);
    }
}

/// The first few blobs that a call names.
fn references_in(head: &[u8]) -> impl Iterator<Item = Reference> {
    let searched = &head[..head.len().min(SEARCHED_BYTES_MAX)];
    // Most calls name no blob, and most of those do not contain this byte.
    let mut from = if searched.contains(&MARK[0]) { 0 } else { searched.len() };
    let found = iter::from_fn(move || {
        loop {
            let at = from + searched.get(from..)?.windows(MARK.len()).position(|bytes| bytes == MARK)?;
            from = at + MARK.len();
            if let Ok(reference) = minicbor_serde::from_slice(&head[at..]) {
                return Some(reference);
            }
        }
    });
    found.take(BLOBS_PER_CALL_MAX)
}

impl Shell {
    /// Before a call is sent: asks the owners of the blobs that it names to push their bytes to the callee.
    pub(crate) fn push_beside(self: &Arc<Self>, callee: &Arc<NodeRef>, head: &[u8]) {
        if !Message::has_params(head) {
            return;
        }
        for Reference { owner, at, first, size, .. } in references_in(head) {
            let at = At { offset: first, ..at };
            if owner.id == self.me.id {
                self.push(Arc::clone(callee), at, size);
            } else if owner.id != callee.id
                && let Some(link) = self.endpoint().and_then(|endpoint| endpoint.link_to_node(owner.id.0))
            {
                // If this message is lost, the callee READs the bytes as usual.
                offer(&link, SegmentMessage::Push { at, bytes: size, to: (**callee).clone() });
            }
        }
    }

    /// Pushes the first bytes of a range of a blob that this node owns to the node that is about to read them.
    pub(crate) fn push(self: &Arc<Self>, to: Arc<NodeRef>, at: At, bytes: u64) {
        let beside = &self.blobs.beside;
        let Ok(place) = Arc::clone(&beside.pushes).try_acquire_owned() else { return };
        let Some(segment) = self.blobs.granted(&at, bytes).filter(|_| to.id != self.me.id) else { return };
        let shell = Arc::clone(self);
        self.runtime().spawn(async move {
            let _place = place;
            let Some(link) = shell.dial(&to).await else { return };
            if !is_pushed(shell.lends() && is_near(&link), bytes) {
                return;
            }
            let beside = &shell.blobs.beside;
            for piece in Piece::pushed_of(at, bytes, PIECE_BYTES as u32) {
                // The push may have been given up meanwhile.
                let Ok(data) = segment.part(piece.offset, piece.count.into()) else { return };
                if !lock(&beside.pushed).push(shell.segments.now(), to.id, piece) {
                    continue;
                }
                beside.sent_bytes.fetch_add(piece.count.into(), Relaxed);
                let Encoded { head, tail } = Message::Segment(SegmentMessage::Pushed(piece.at(), data)).encode();
                if link.send(Frame::new(head, tail)).await.is_err() {
                    return;
                }
            }
        });
    }

    /// Whether the range that a READ asks for was pushed before the READ arrived.
    pub(crate) fn was_pushed(&self, from: NodeId, at: &At, count: u32) -> bool {
        let piece = Piece::of(at, count).filter(|piece| self.blobs.is_held(piece.grant));
        piece.is_some_and(|piece| !lock(&self.blobs.beside.pushed).read(self.segments.now(), from, piece))
    }

    /// Bytes arrived that this node is expected to read soon.
    pub(crate) fn on_pushed(self: &Arc<Self>, from: NodeId, at: &At, data: Bytes) {
        let Some(piece) = u32::try_from(data.len()).ok().and_then(|count| Piece::of(at, count)) else { return };
        let (beside, now) = (&self.blobs.beside, self.segments.now());
        let keep = |data: Bytes| Some((data, self.blobs.early.lease(piece.count.into()).ok()?));
        let came = lock(&beside.arrivals).came(now, (from, piece), data, keep);
        match came {
            Came::For(data, waiting) => {
                beside.used_bytes.fetch_add(piece.count.into(), Relaxed);
                // The waiting task may be gone.
                waiting.into_iter().for_each(|waiter| drop(waiter.send(data.clone())));
            }
            Came::Kept => {
                if !std::mem::replace(&mut *lock(&beside.sweeping), true) {
                    self.runtime().spawn(sweep(Arc::downgrade(self)));
                }
            }
            Came::Dropped => {}
        }
    }

    /// Registers a READ of this piece, so that it also waits for a push.
    pub(super) fn awaited(self: &Arc<Self>, owner: NodeId, piece: Piece) -> Awaited {
        let (waiter, coming) = oneshot::channel();
        let taken = lock(&self.blobs.beside.arrivals).take(self.segments.now(), owner, piece, waiter);
        let coming = match taken {
            Ok((bytes, _memory)) => {
                self.blobs.beside.used_bytes.fetch_add(piece.count.into(), Relaxed);
                Coming::Here(bytes)
            }
            Err(number) => Coming::Later(number, coming),
        };
        Awaited { shell: Arc::clone(self), owner, piece, coming }
    }
}

/// A piece that may be pushed. Dropping this stops waiting for it.
pub(super) struct Awaited {
    shell: Arc<Shell>,
    owner: NodeId,
    piece: Piece,
    coming: Coming,
}

enum Coming {
    Here(Bytes),
    Later(u64, oneshot::Receiver<Bytes>),
}

impl Awaited {
    /// Waits until the piece arrives. Cancel-safe.
    pub(super) async fn came(&mut self) -> Option<Bytes> {
        match &mut self.coming {
            Coming::Here(bytes) => Some(bytes.clone()),
            Coming::Later(_, coming) => coming.await.ok(),
        }
    }

    /// Waits for the piece after its owner said that it was pushed. `None`: it will not arrive, or takes too long.
    pub(super) async fn on_its_way(&mut self) -> Option<Bytes> {
        if lock(&self.shell.blobs.beside.arrivals).was_dropped(self.owner, self.piece) {
            return None;
        }
        awake::timeout(ON_THEIR_WAY_MAX, self.came()).await.ok()?
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        if let Coming::Later(number, _) = self.coming {
            lock(&self.shell.blobs.beside.arrivals).give_up(self.owner, self.piece, number);
        }
    }
}

async fn sweep(shell: Weak<Shell>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        let Some(shell) = shell.upgrade() else { return };
        let beside = &shell.blobs.beside;
        let mut sweeping = lock(&beside.sweeping);
        let (over, left) = {
            let mut arrivals = lock(&beside.arrivals);
            (arrivals.on_timeout(shell.segments.now()), arrivals.load().0)
        };
        drop(over);
        *sweeping = left > 0;
        if !*sweeping {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    fn reference(name: &str) -> Reference {
        let owner = NodeRef { id: NodeId(7), name: name.into(), address: Some("[::1]:1".into()), site: None };
        let at = At { number: 1, generation: 2, offset: 0, grant: Some(3) };
        Reference { owner, at, held: 100, first: 10, size: 20, media_type: "image/png".into() }
    }

    #[test]
    fn a_calls_blobs_are_found_and_nothing_is_mistaken_for_one() {
        let found = |head: &[u8]| references_in(head).collect::<Vec<_>>();
        let blob = minicbor_serde::to_vec(reference("owner")).unwrap();
        assert_eq!(blob[..5], MARK);
        let head = [&b"\xda\xda\x43"[..], &blob, &MARK, &blob, b"CBLB", &blob[..20]].concat();
        assert_eq!(found(&head), [reference("owner"), reference("owner")]);
        assert!(found(&blob[1..]).is_empty() && found(&MARK.repeat(5_000)).is_empty());
        assert_eq!(found(&blob.repeat(20)).len(), BLOBS_PER_CALL_MAX);
        let far = [vec![0; SEARCHED_BYTES_MAX], blob.clone()].concat();
        assert!(found(&far).is_empty(), "no further than that");
        // At the edge of the searched part, a blob is found whole or not at all.
        let edge = [vec![0; SEARCHED_BYTES_MAX - 5], blob].concat();
        assert_eq!(found(&edge).len(), 1);
    }
}
