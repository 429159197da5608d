//! Where a blob is decoded, and which of its bytes are fetched before anybody asks: those of a parameter arrive beside the call, not after it.

use std::{cell::RefCell, sync::Arc};

use bytes::{Bytes, BytesMut};
use catena_core::{Ticket, beside::PUSH_BYTES_MAX};
use catena_net::Lease;
use catena_wire::Exception;
use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use tokio::task::AbortHandle;

use super::{pieces::Pieces, reference::Reference, tally::Tally};
use crate::shell::Shell;

/// The context in which a value is decoded.
#[derive(Clone)]
pub(crate) enum Here {
    /// The parameters of a function that has begun at this node.
    Parameters(Arc<Shell>, Ticket),
    /// An answer.
    Answer(Arc<Shell>),
}

thread_local! {
    static HERE: RefCell<Option<Here>> = const { RefCell::new(None) };
}

/// Decodes a value, with its blobs bound to this context.
pub(crate) fn decoded_in<T>(here: Here, decode: impl FnOnce() -> T) -> T {
    /// Restores the context before, even if a type's own `Deserialize` panics.
    struct Before(Option<Here>);
    impl Drop for Before {
        fn drop(&mut self) {
            HERE.replace(self.0.take());
        }
    }
    let _before = Before(HERE.replace(Some(here)));
    decode()
}

/// What a blob knows from its decoding.
#[derive(Clone, Default)]
pub(super) struct Known {
    /// Where it is read; `None`: it was decoded outside a call.
    pub(super) shell: Option<Arc<Shell>>,
    /// The bytes that are fetched before anybody asks.
    pub(super) early: Option<Arc<Early>>,
    /// Where the bytes read are counted.
    pub(super) tally: Option<Arc<Tally>>,
}

/// The current context for the blob that is being decoded; begins to fetch its first bytes.
pub(super) fn here(reference: &Reference) -> Known {
    match HERE.with_borrow(Clone::clone) {
        None => Known::default(),
        Some(Here::Answer(shell)) => Known { shell: Some(shell), ..Known::default() },
        Some(Here::Parameters(shell, ticket)) => {
            let tally = shell.tally_of(ticket);
            let early = Early::begin(&shell, reference, tally.clone());
            Known { shell: Some(shell), early: early.map(Arc::new), tally }
        }
    }
}

/// The first bytes of a blob, being fetched. If the last handle is dropped, the fetch is given up.
pub(super) struct Early {
    /// The offset in the whole segment.
    first: u64,
    size: u64,
    bytes: Shared<BoxFuture<'static, Result<Bytes, Exception>>>,
    task: AbortHandle,
    _memory: Lease,
}

impl Early {
    /// `None`: there is nothing to fetch, or no room for it now.
    fn begin(shell: &Arc<Shell>, reference: &Reference, tally: Option<Arc<Tally>>) -> Option<Self> {
        let size = reference.size.min(PUSH_BYTES_MAX);
        if size == 0 || reference.owner.id == shell.me.id {
            return None;
        }
        let memory = shell.blobs.early.lease(size).ok()?;
        let mut pieces = Pieces::new(shell, &Reference { size, ..reference.clone() }, None, tally);
        let fetched = async move {
            let mut whole = BytesMut::with_capacity(size as usize);
            while let Some(piece) = pieces.next().await {
                whole.extend_from_slice(&piece?);
            }
            Ok(whole.freeze())
        };
        let bytes = fetched.boxed().shared();
        let task = shell.runtime().spawn(bytes.clone().map(drop)).abort_handle();
        Some(Self { first: reference.first, size, bytes, task, _memory: memory })
    }

    /// Where the fetched bytes end, or `end` if that is before. `None`: the byte at this offset of the segment is not among them.
    pub(super) fn end(&self, first: u64, end: u64) -> Option<u64> {
        let ends = (self.first + self.size).min(end);
        (first >= self.first && first < ends).then_some(ends)
    }

    /// These bytes of the segment, all of which are being fetched. `None`: the fetch failed.
    pub(super) async fn read(&self, first: u64, end: u64) -> Option<Bytes> {
        let bytes = self.bytes.clone().await.ok()?;
        let range = first.checked_sub(self.first)? as usize..end.checked_sub(self.first)? as usize;
        (range.end <= bytes.len()).then(|| bytes.slice(range))
    }
}

impl Drop for Early {
    fn drop(&mut self) {
        self.task.abort();
    }
}
