//! Where a blob is decoded, and what is fetched of it before anybody asks: a parameter's bytes come beside the call and not after it.

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

/// In what a value is decoded.
#[derive(Clone)]
pub(crate) enum Here {
    /// The parameters of a function at this node, which has begun.
    Parameters(Arc<Shell>, Ticket),
    /// An answer.
    Answer(Arc<Shell>),
}

thread_local! {
    static HERE: RefCell<Option<Here>> = const { RefCell::new(None) };
}

/// Decodes; what is a blob in it knows where it is.
pub(crate) fn decoded_in<T>(here: Here, decode: impl FnOnce() -> T) -> T {
    /// Also if a type's own `Deserialize` panics.
    struct Before(Option<Here>);
    impl Drop for Before {
        fn drop(&mut self) {
            HERE.replace(self.0.take());
        }
    }
    let _before = Before(HERE.replace(Some(here)));
    decode()
}

/// What a blob knows of where it was decoded.
#[derive(Clone, Default)]
pub(super) struct Known {
    /// Where it is read; `None`: it was decoded apart from any call.
    pub(super) shell: Option<Arc<Shell>>,
    /// What is fetched of it before anybody asks.
    pub(super) early: Option<Arc<Early>>,
    /// Where what is read of it is counted.
    pub(super) tally: Option<Arc<Tally>>,
}

/// Where the blob that is decoded now is read, and what is fetched of it from now on.
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

/// The first bytes of a blob, on their way. Dropped with the last handle, they are given up.
pub(super) struct Early {
    /// As in the whole segment.
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

    /// Where it ends, as far as that is before `end`. `None`: it has nothing from this byte of the segment on.
    pub(super) fn end(&self, first: u64, end: u64) -> Option<u64> {
        let ends = (self.first + self.size).min(end);
        (first >= self.first && first < ends).then_some(ends)
    }

    /// These bytes of the segment, of which it has all. `None`: they cannot be had so.
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
