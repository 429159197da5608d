//! The bytes of a blob in order, with many READs under way at once.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use catena_core::beside::Piece;
use catena_wire::{At, Exception, Fault, NodeId, names};
use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesOrdered};

use super::{
    early::Early,
    reference::Reference,
    tally::{By, Tally},
};
use crate::{Granted, Imported, Segment, Wish, segments::PIECE_BYTES, shell::Shell};

/// The number of READs under way at first, and the maximum.
const WINDOW_FIRST: usize = 8;
const WINDOW_MAX: usize = 64;
/// A READ that took longer than this must have waited behind others, so fewer are started afterwards.
const SLOW: Duration = Duration::from_secs(1);
/// How often a READ is tried if its link is lost or its owner is silent.
const TRIES_MAX: u32 = 2;

type Done = Result<(Bytes, Duration), Exception>;

/// Reads a range from first byte to last.
pub(super) struct Pieces {
    shell: Arc<Shell>,
    reference: Reference,
    early: Option<Arc<Early>>,
    tally: Option<Arc<Tally>>,
    source: Option<Source>,
    /// The first byte that has not been requested, and the end of the range, as offsets in the segment.
    next: u64,
    end: u64,
    window: usize,
    under_way: FuturesOrdered<BoxFuture<'static, Done>>,
}

#[derive(Clone)]
enum Source {
    /// This node owns the bytes.
    Here(Segment),
    There(There),
}

/// Another node owns the bytes.
#[derive(Clone)]
struct There {
    shell: Arc<Shell>,
    owner: NodeId,
    at: At,
    imported: Imported,
}

impl Pieces {
    /// Bytes fetched `early` have been counted by whoever fetched them; the rest is counted in `tally`.
    pub(super) fn new(
        shell: &Arc<Shell>,
        reference: &Reference,
        early: Option<Arc<Early>>,
        tally: Option<Arc<Tally>>,
    ) -> Self {
        let (shell, reference) = (Arc::clone(shell), reference.clone());
        let (next, end) = (reference.first, reference.first + reference.size);
        let under_way = FuturesOrdered::new();
        Self { shell, reference, early, tally, source: None, next, end, window: WINDOW_FIRST, under_way }
    }

    /// The next bytes. An exception ends them.
    pub(super) async fn next(&mut self) -> Option<Result<Bytes, Exception>> {
        self.take_early();
        if self.next == self.end && self.under_way.is_empty() {
            return None;
        }
        let done = self.read().await;
        Some(done.map_err(|why| {
            self.next = self.end;
            self.under_way.clear();
            self.reference.told(&why)
        }))
    }

    /// Takes the bytes that are being fetched already, and requests those behind them at once.
    fn take_early(&mut self) {
        let Some(early) = self.early.take() else { return };
        let Some(end) = early.end(self.next, self.end) else { return };
        let (first, shell, reference) = (self.next, Arc::clone(&self.shell), self.reference.clone());
        let tally = self.tally.clone();
        self.next = end;
        self.under_way.push_back(
            async move {
                if let Some(bytes) = early.read(first, end).await {
                    return Ok((bytes, Duration::ZERO));
                }
                let mut pieces = Self::new(&shell, &Reference { first, size: end - first, ..reference }, None, tally);
                let mut whole = BytesMut::new();
                while let Some(piece) = pieces.next().await {
                    whole.extend_from_slice(&piece?);
                }
                Ok((whole.freeze(), Duration::ZERO))
            }
            .boxed(),
        );
    }

    async fn read(&mut self) -> Result<Bytes, Exception> {
        if self.next < self.end {
            let source = self.source().await?;
            while self.next < self.end && self.under_way.len() < self.window {
                let count = PIECE_BYTES.min(self.end - self.next);
                self.under_way.push_back(source.clone().read(self.next, count, self.tally.clone()).boxed());
                self.next += count;
            }
        }
        let Some(done) = self.under_way.next().await else { return Ok(Bytes::new()) };
        let (bytes, took) = done?;
        // Shrinks by one only: all READs that were started before are as slow.
        self.window =
            if took > SLOW { self.window.saturating_sub(1).max(1) } else { (self.window + 1).min(WINDOW_MAX) };
        Ok(bytes)
    }

    /// Where the bytes are; looked up once.
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
            let imported = self.shell.import_granted(owner.clone(), &granted).await?;
            Source::There(There { shell: Arc::clone(&self.shell), owner: owner.id, at: *at, imported })
        };
        self.source = Some(source.clone());
        Ok(source)
    }
}

impl Source {
    async fn read(self, first: u64, count: u64, tally: Option<Arc<Tally>>) -> Done {
        let came = |by| tally.iter().for_each(|tally| tally.add(by, count));
        let there = match self {
            Self::Here(segment) => {
                let mut bytes = vec![0; count as usize];
                segment.read(first, &mut bytes)?;
                came(By::Own);
                return Ok((bytes.into(), Duration::ZERO));
            }
            Self::There(there) => there,
        };
        let began = Instant::now();
        let mut tries = 0;
        loop {
            tries += 1;
            match there.read(first, count).await {
                Ok((bytes, by)) if bytes.len() as u64 == count => {
                    came(by);
                    return Ok((bytes, began.elapsed()));
                }
                Ok(_) => {
                    return Err(Exception::new(names::PROTOCOL, Fault::Node, "its owner answered with other bytes"));
                }
                // A READ changes nothing, so it may be repeated, by another link if need be.
                Err(why) if tries < TRIES_MAX && is_passing(&why) => {}
                Err(why) => return Err(why),
            }
        }
    }
}

impl There {
    /// Requests a piece, which may also be pushed beside the call that brought the reference: takes whichever is first.
    async fn read(&self, first: u64, count: u64) -> Result<(Bytes, By), Exception> {
        let piece = Piece::of(&At { offset: first, ..self.at }, count as u32);
        let Some(piece) = piece else { return self.ask(first, count).await };
        let mut awaited = self.shell.awaited(self.owner, piece);
        let read = tokio::select! {
            // Always requested, so that the owner learns that the piece was needed.
            biased;
            read = self.ask(first, count) => read,
            Some(bytes) = awaited.came() => return Ok((bytes, By::Push)),
        };
        match read {
            Err(why) if why.name == names::BYTES_PUSHED => {
                awaited.on_its_way().await.map(|bytes| (bytes, By::Push)).ok_or(why)
            }
            read => read,
        }
    }

    async fn ask(&self, first: u64, count: u64) -> Result<(Bytes, By), Exception> {
        let (bytes, way) = self.imported.read_by(first, count, Wish::default()).await?;
        Ok((bytes, By::Read(way)))
    }
}

fn is_passing(why: &Exception) -> bool {
    matches!(why.name.as_str(), names::OWNER_LOST | names::OWNER_SILENT | names::BYTES_PUSHED)
}
