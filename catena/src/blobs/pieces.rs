//! The bytes of a blob in their order, with many READs under way at once.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use catena_wire::{Exception, Fault, names};
use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesOrdered};

use super::{early::Early, reference::Reference};
use crate::{Granted, Imported, Segment, segments::PIECE_BYTES, shell::Shell};

/// READs under way at the beginning, and at most.
const WINDOW_FIRST: usize = 8;
const WINDOW_MAX: usize = 64;
/// A READ that took longer waited behind others: fewer are begun then.
const SLOW: Duration = Duration::from_secs(1);
/// How often one READ is tried that was lost with its link, or in its owner's silence.
const TRIES_MAX: u32 = 2;

type Piece = Result<(Bytes, Duration), Exception>;

/// Reads from first to last.
pub(super) struct Pieces {
    shell: Arc<Shell>,
    reference: Reference,
    early: Option<Arc<Early>>,
    source: Option<Source>,
    /// The first byte that has not been asked for, and where it ends, within the segment.
    next: u64,
    end: u64,
    window: usize,
    under_way: FuturesOrdered<BoxFuture<'static, Piece>>,
}

#[derive(Clone)]
enum Source {
    /// The bytes are this node's own.
    Here(Segment),
    There(Imported),
}

impl Pieces {
    pub(super) fn new(shell: &Arc<Shell>, reference: &Reference, early: Option<Arc<Early>>) -> Self {
        let (shell, reference) = (Arc::clone(shell), reference.clone());
        let (next, end) = (reference.first, reference.first + reference.size);
        let under_way = FuturesOrdered::new();
        Self { shell, reference, early, source: None, next, end, window: WINDOW_FIRST, under_way }
    }

    /// The next bytes. After an exception there are none.
    pub(super) async fn next(&mut self) -> Option<Result<Bytes, Exception>> {
        let early = self.early.take();
        if let Some(early) = early
            && let Some(bytes) = early.from(self.next, self.end).await
        {
            self.next += bytes.len() as u64;
            return Some(Ok(bytes));
        }
        if self.next == self.end && self.under_way.is_empty() {
            return None;
        }
        let done = match self.source().await {
            Ok(source) => self.read(&source).await,
            Err(why) => Err(why),
        };
        Some(done.map_err(|why| {
            self.next = self.end;
            self.under_way.clear();
            self.reference.told(&why)
        }))
    }

    async fn read(&mut self, source: &Source) -> Result<Bytes, Exception> {
        while self.next < self.end && self.under_way.len() < self.window {
            let count = PIECE_BYTES.min(self.end - self.next);
            self.under_way.push_back(source.clone().read(self.next, count).boxed());
            self.next += count;
        }
        let Some(done) = self.under_way.next().await else { return Ok(Bytes::new()) };
        let (bytes, took) = done?;
        // By one: all that were begun before are as slow.
        self.window =
            if took > SLOW { self.window.saturating_sub(1).max(1) } else { (self.window + 1).min(WINDOW_MAX) };
        Ok(bytes)
    }

    /// Where the bytes are, found out once.
    async fn source(&mut self) -> Result<Source, Exception> {
        if let Some(source) = &self.source {
            return Ok(source.clone());
        }
        let Reference { owner, at, held, .. } = &self.reference;
        let source = if owner.id == self.shell.me.id {
            let gone = || Exception::new(names::GRANT_VOID, Fault::Caller, "it is over");
            Source::Here(self.shell.blobs.segment(&self.reference).ok_or_else(gone)?)
        } else {
            let granted = Granted { owner: owner.id, at: *at, bytes: *held };
            Source::There(self.shell.import_granted(owner.clone(), &granted).await?)
        };
        self.source = Some(source.clone());
        Ok(source)
    }
}

impl Source {
    async fn read(self, first: u64, count: u64) -> Piece {
        let imported = match self {
            Self::Here(segment) => {
                let mut bytes = vec![0; count as usize];
                segment.read(first, &mut bytes)?;
                return Ok((bytes.into(), Duration::ZERO));
            }
            Self::There(imported) => imported,
        };
        let began = Instant::now();
        let mut tries = 0;
        loop {
            tries += 1;
            match imported.read(first, count).await {
                Ok(bytes) if bytes.len() as u64 == count => return Ok((bytes, began.elapsed())),
                Ok(_) => {
                    return Err(Exception::new(names::PROTOCOL, Fault::Node, "its owner answered with other bytes"));
                }
                // A READ changes nothing: it may be made again, by another link if need be.
                Err(why)
                    if tries < TRIES_MAX && matches!(why.name.as_str(), names::OWNER_LOST | names::OWNER_SILENT) => {}
                Err(why) => return Err(why),
            }
        }
    }
}
