//! The handle of a blob.

use std::{fmt, ops::Range, sync::Arc};

use bytes::{Bytes, BytesMut};
use catena_wire::{Exception, Fault, NodeRef, names};
use futures_core::Stream;
use futures_util::{StreamExt, stream};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::{
    early::{self, Known},
    pieces::Pieces,
    reference::Reference,
};
use crate::{Client, segments::PIECE_BYTES, shell::Shell};

/// The most bytes that are read into one value; larger blobs are streamed ([`Blob::copy_to`]) or read in parts.
const READ_BYTES_MAX: u64 = 128 << 20;

/// A value by reference: the bytes stay with their owner until somebody reads them, and then come straight from there.
///
/// Use it as a type in an API: parameters, results and answers contain it, through serde, and a chain carries only the reference. Cheap to clone; each part is
/// read where it is used.
#[derive(Clone)]
pub struct Blob {
    reference: Reference,
    known: Known,
}

impl Blob {
    pub(super) const fn new(reference: Reference, shell: Option<Arc<Shell>>) -> Self {
        Self { reference, known: Known { shell, early: None, tally: None } }
    }

    /// The blob's size in bytes.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.reference.size
    }

    /// Its media type, such as `image/png`, as its creator states it; may be empty.
    #[must_use]
    pub fn media_type(&self) -> &str {
        &self.reference.media_type
    }

    /// The node that holds the bytes.
    #[must_use]
    pub const fn owner(&self) -> &NodeRef {
        &self.reference.owner
    }

    /// The bytes from `from` up to `to`, clamped to the blob's size, again by reference.
    #[must_use]
    pub fn slice(&self, from: u64, to: u64) -> Self {
        let from = from.min(self.size());
        let size = to.min(self.size()).saturating_sub(from);
        let reference = Reference { first: self.reference.first + from, size, ..self.reference.clone() };
        Self { reference, ..self.clone() }
    }

    /// The same blob, to be read at this client. Needed if it was decoded outside a call, as by [`crate::from_value`] and [`crate::Reply::decode`].
    #[must_use]
    pub fn on(mut self, client: &Client) -> Self {
        self.known.shell = Some(Arc::clone(client.shell()));
        self
    }

    /// Reads the whole blob.
    ///
    /// # Errors
    /// `BlobLost`: its owner, which is named, is lost or does not have it any more. `LimitExceeded`: it has more than 128 MiB; read parts, or stream it.
    pub async fn bytes(&self) -> Result<Bytes, Exception> {
        self.read(0..self.size()).await
    }

    /// Reads the whole blob as text; invalid UTF-8 is replaced by U+FFFD.
    ///
    /// # Errors
    /// As [`Blob::bytes`].
    pub async fn text(&self) -> Result<String, Exception> {
        Ok(String::from_utf8_lossy(&self.bytes().await?).into_owned())
    }

    /// Reads these bytes, clamped to the blob's size.
    ///
    /// # Errors
    /// As [`Blob::bytes`].
    pub async fn read(&self, range: Range<u64>) -> Result<Bytes, Exception> {
        let part = self.slice(range.start, range.end);
        if part.size() > READ_BYTES_MAX {
            let message = format!("{}: more than {READ_BYTES_MAX} bytes are not read at once", part.reference);
            return Err(Exception::new(names::LIMIT_EXCEEDED, Fault::Caller, message));
        }
        let mut pieces = part.pieces()?;
        let mut whole = BytesMut::new();
        while let Some(piece) = pieces.next().await {
            let piece = piece?;
            if whole.is_empty() && piece.len() as u64 == part.size() {
                return Ok(piece);
            }
            // Not reserved in advance, since the size is only what the reference claims.
            whole.extend_from_slice(&piece);
        }
        Ok(whole.freeze())
    }

    /// The blob in pieces of at most 256 KiB, in order, with many under way at a time. What a lost link cut off is read again. An exception ends the stream.
    pub fn stream(&self) -> impl Stream<Item = Result<Bytes, Exception>> + Send + use<> {
        let (pieces, failed) = match self.pieces() {
            Ok(pieces) => (Some(pieces), None),
            Err(why) => (None, Some(Err(why))),
        };
        let pieces = stream::unfold(pieces, async |pieces| {
            let mut pieces = pieces?;
            let piece = pieces.next().await?;
            Some((piece, Some(pieces)))
        });
        // Bytes that were fetched early come as one piece, but users of the stream may need small ones, as a file service does.
        stream::iter(failed).chain(pieces).flat_map(|piece| {
            stream::iter(match piece {
                Ok(piece) => in_parts(piece).map(Ok).collect(),
                Err(why) => vec![Err(why)],
            })
        })
    }

    /// Streams the whole blob into a writer, with many pieces under way at a time, and reports after each how many bytes are written. What a lost link cut off
    /// is read again. May be dropped at any time.
    ///
    /// # Errors
    /// `BlobLost`, and `ServiceFailed` if the writer fails.
    pub async fn copy_to(
        &self,
        to: &mut (impl AsyncWrite + Unpin + ?Sized),
        mut progress: impl FnMut(u64),
    ) -> Result<(), Exception> {
        let failed = |why: std::io::Error| {
            Exception::new(names::SERVICE_FAILED, Fault::Service, format!("{}: writing failed: {why}", self.reference))
        };
        let mut pieces = self.pieces()?;
        let mut written = 0;
        while let Some(piece) = pieces.next().await {
            let piece = piece?;
            to.write_all(&piece).await.map_err(failed)?;
            written += piece.len() as u64;
            progress(written);
        }
        to.flush().await.map_err(failed)
    }

    /// Makes the owner, which must be this node, release the blob: it cannot be read any more. Returns whether it was still there.
    pub fn release(&self) -> bool {
        let shell = self.known.shell.as_ref().filter(|shell| shell.me.id == self.owner().id);
        shell.is_some_and(|shell| shell.blobs.release(&self.reference))
    }

    fn pieces(&self) -> Result<Pieces, Exception> {
        let Known { shell, early, tally } = &self.known;
        let Some(shell) = shell else {
            let message = format!("{} was decoded apart from a call: say with `on` where it is read", self.reference);
            return Err(Exception::new(names::BAD_PARAMETERS, Fault::Caller, message));
        };
        Ok(Pieces::new(shell, &self.reference, early.clone(), tally.clone()))
    }
}

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.reference, self.owner().name)
    }
}

/// Equal if they are the same range of the same blob.
impl PartialEq for Blob {
    fn eq(&self, other: &Self) -> bool {
        self.reference == other.reference
    }
}

impl Eq for Blob {}

fn in_parts(mut piece: Bytes) -> impl Iterator<Item = Bytes> {
    std::iter::from_fn(move || (!piece.is_empty()).then(|| piece.split_to(piece.len().min(PIECE_BYTES as usize))))
}

impl Serialize for Blob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.reference.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let reference = Reference::deserialize(deserializer)?;
        let known = early::here(&reference);
        Ok(Self { reference, known })
    }
}
