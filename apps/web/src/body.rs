//! A response's body, wherever it is: it is read as it is wanted.

use std::{
    pin::Pin,
    ptr::NonNull,
    task::{Context, Poll, ready},
};

use bytes::{Bytes, BytesMut};
use catena::{Imported, Mapped, Segment};
use futures_util::{Stream, StreamExt as _, stream::try_unfold};
use hyper::body::{Body, Frame, SizeHint};

use crate::{
    fetch::FetchError,
    frame::Range,
    pulling::{Piece, Pulling},
};

/// Bytes of a body that are read from a segment at one time, where it is read piece by piece.
const PIECE_BYTES: u64 = 1 << 20;

/// An extension of a response that says where its body lies. [`crate::mount`] tells the client, which reads it there; the body itself is then not polled.
/// Clients must have the right to read the segment.
#[derive(Clone, Debug)]
pub struct Lying {
    /// In this segment, which nobody changes any more.
    pub segment: Segment,
    /// From this byte on.
    pub offset: u64,
    /// So many bytes.
    pub bytes: u64,
}

/// A body in its server's memory, mapped by this process without a copy. The mapping stays valid as long as this lives, whatever becomes of the server.
#[derive(Debug)]
pub struct InPlace {
    mapped: Mapped,
    offset: usize,
    far: Imported,
    range: Range,
}

impl InPlace {
    async fn of(far: &Imported, range: &Range) -> Option<Self> {
        let mapped = far.map(false).await.ok()?;
        let offset = usize::try_from(range.offset).ok()?;
        Some(Self { mapped, offset, far: far.clone(), range: range.clone() })
    }

    /// The first byte's address, for reading. Only the server's promise keeps it from changing the bytes: read them like memory of a device.
    #[must_use]
    pub fn address(&self) -> NonNull<u8> {
        let first = self.mapped.address();
        // Within the segment, as was checked when the body was fetched: so never null.
        NonNull::new(first.as_ptr().wrapping_add(self.offset)).unwrap_or(first)
    }

    /// How many bytes there are.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.range.bytes
    }

    /// Whether the server still lends these pages. Bytes read before this returned true are the body's.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.mapped.is_current()
    }

    /// Copies bytes from `offset` on.
    ///
    /// # Errors
    /// [`FetchError::TooLarge`]: there are not so many. Those of [`Imported::read`]: the server lends them no more.
    pub async fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), FetchError> {
        let end = offset.checked_add(out.len() as u64).filter(|end| *end <= self.range.bytes);
        end.ok_or(FetchError::TooLarge { bytes_max: self.range.bytes })?;
        Ok(self.far.read_into(self.range.offset + offset, out).await?)
    }
}

/// Frame by frame, for who reads it as a stream.
type Frames = Pin<Box<dyn Stream<Item = Result<Bytes, FetchError>> + Send>>;

enum Source {
    Here(Bytes),
    Lies { far: Imported, range: Range },
    Pulled(Box<Pulling>),
    Frames { frames: Frames, bytes: Option<u64> },
}

impl Source {
    /// The next bytes of what comes in parts.
    async fn next(&mut self) -> Result<Option<Piece>, FetchError> {
        match self {
            Self::Pulled(pulling) => pulling.next().await,
            Self::Frames { frames, .. } => Ok(frames.next().await.transpose()?.map(Piece::Here)),
            Self::Here(_) | Self::Lies { .. } => Ok(None),
        }
    }
}

/// A body that was fetched, or is still where it lies.
pub struct FetchBody(Source);

impl std::fmt::Debug for FetchBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FetchBody").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

impl FetchBody {
    pub(crate) const fn here(bytes: Bytes) -> Self {
        Self(Source::Here(bytes))
    }

    pub(crate) const fn lying(far: Imported, range: Range) -> Self {
        Self(Source::Lies { far, range })
    }

    pub(crate) fn pulled(pulling: Pulling) -> Self {
        Self(Source::Pulled(Box::new(pulling)))
    }

    /// Bytes that are left; `None`: nobody knows.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        match &self.0 {
            Source::Here(bytes) => Some(bytes.len() as u64),
            Source::Lies { range, .. } => Some(range.bytes),
            Source::Pulled(pulling) => pulling.declared().bytes(),
            Source::Frames { bytes, .. } => *bytes,
        }
    }

    /// All of it, if it is no more than so many bytes.
    ///
    /// # Errors
    /// [`FetchError::TooLarge`], and whatever goes wrong on the way.
    pub async fn whole(self, bytes_max: u64) -> Result<Bytes, FetchError> {
        if self.bytes().is_some_and(|bytes| bytes > bytes_max) {
            return Err(FetchError::TooLarge { bytes_max });
        }
        match self.0 {
            Source::Here(bytes) => Ok(bytes),
            Source::Lies { far, range } => Ok(far.read(range.offset, range.bytes).await?),
            mut source => {
                let mut whole = BytesMut::new();
                while let Some(piece) = source.next().await? {
                    let (at, end) = (whole.len(), whole.len() as u64 + piece.bytes());
                    if end > bytes_max {
                        return Err(FetchError::TooLarge { bytes_max });
                    }
                    whole.resize(end as usize, 0);
                    piece.read_into(&mut whole[at..]).await?;
                }
                Ok(whole.freeze())
            }
        }
    }

    /// The body where it lies, without a copy; `None`: it is not in memory shared with this process. The returned future borrows nothing, so that a task that
    /// moves between threads can await it.
    pub fn in_place(&self) -> impl Future<Output = Option<InPlace>> + Send + use<> {
        let lies = match &self.0 {
            Source::Lies { far, range } => Some((far.clone(), range.clone())),
            Source::Here(_) | Source::Pulled(_) | Source::Frames { .. } => None,
        };
        async move {
            let (far, range) = lies?;
            InPlace::of(&far, &range).await
        }
    }

    /// All of it, into memory of one's own; gives how many bytes there were.
    ///
    /// # Errors
    /// [`FetchError::TooLarge`]: there are more than `out` has room for. Whatever goes wrong on the way.
    pub async fn read_into(self, out: &mut [u8]) -> Result<usize, FetchError> {
        let bytes_max = out.len() as u64;
        let too_large = || FetchError::TooLarge { bytes_max };
        match self.0 {
            Source::Here(bytes) => {
                out.get_mut(..bytes.len()).ok_or_else(too_large)?.copy_from_slice(&bytes);
                Ok(bytes.len())
            }
            Source::Lies { far, range } => {
                let room = usize::try_from(range.bytes).ok().and_then(|bytes| out.get_mut(..bytes));
                let room = room.ok_or_else(too_large)?;
                far.read_into(range.offset, room).await?;
                Ok(room.len())
            }
            mut source => {
                let mut at = 0_usize;
                while let Some(piece) = source.next().await? {
                    let end = usize::try_from(piece.bytes()).ok().and_then(|bytes| at.checked_add(bytes));
                    let room = end.and_then(|end| out.get_mut(at..end)).ok_or_else(too_large)?;
                    at += room.len();
                    piece.read_into(room).await?;
                }
                Ok(at)
            }
        }
    }
}

/// The pieces of a range, as they are wanted.
fn pieces(far: Imported, range: &Range) -> impl Stream<Item = Result<Bytes, FetchError>> + use<> {
    let end = range.offset.saturating_add(range.bytes);
    try_unfold((far, range.offset), move |(far, at)| async move {
        if at >= end {
            return Ok(None);
        }
        let count = PIECE_BYTES.min(end - at);
        let bytes = far.read(at, count).await?;
        Ok(Some((bytes, (far, at + count))))
    })
}

/// The parts of a body that is pulled, each read before the next is asked for.
fn read(pulling: Box<Pulling>) -> impl Stream<Item = Result<Bytes, FetchError>> {
    try_unfold(pulling, |mut pulling| async move {
        let Some(piece) = pulling.next().await? else { return Ok(None) };
        Ok(Some((piece.read().await?, pulling)))
    })
}

impl Body for FetchBody {
    type Data = Bytes;
    type Error = FetchError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, FetchError>>> {
        if !matches!(self.0, Source::Here(_) | Source::Frames { .. }) {
            let bytes = self.bytes();
            self.0 = match std::mem::replace(&mut self.0, Source::Here(Bytes::new())) {
                Source::Lies { far, range } => Source::Frames { frames: Box::pin(pieces(far, &range)), bytes },
                Source::Pulled(pulling) => Source::Frames { frames: Box::pin(read(pulling)), bytes },
                source => source,
            };
        }
        match &mut self.0 {
            Source::Here(bytes) => {
                let whole = std::mem::take(bytes);
                Poll::Ready((!whole.is_empty()).then(|| Ok(Frame::data(whole))))
            }
            Source::Frames { frames, bytes } => {
                let frame = ready!(frames.as_mut().poll_next(cx));
                if let (Some(Ok(frame)), Some(left)) = (&frame, bytes) {
                    *left = left.saturating_sub(frame.len() as u64);
                }
                Poll::Ready(frame.map(|frame| frame.map(Frame::data)))
            }
            // These were turned into frames above.
            Source::Lies { .. } | Source::Pulled(_) => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.0, Source::Here(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        self.bytes().map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
