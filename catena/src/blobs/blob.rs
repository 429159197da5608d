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

/// Bytes that are read into one value; more are streamed ([`Blob::copy_to`]) or read in parts.
const READ_BYTES_MAX: u64 = 128 << 20;

/// A value by reference: bytes that stay with their owner until somebody reads them, and then come straight from there.
///
/// It is a type of an API: parameters, results and answers hold it, by serde, and a chain carries the reference alone. Cheap to clone; the bytes of its
/// parts are read where they are used.
#[derive(Clone)]
pub struct Blob {
    reference: Reference,
    known: Known,
}

impl Blob {
    pub(super) const fn new(reference: Reference, shell: Option<Arc<Shell>>) -> Self {
        Self { reference, known: Known { shell, early: None, tally: None } }
    }

    /// How many bytes it has.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.reference.size
    }

    /// Its media type, such as `image/png`, as whoever made it says; may be empty.
    #[must_use]
    pub fn media_type(&self) -> &str {
        &self.reference.media_type
    }

    /// The node that has the bytes.
    #[must_use]
    pub const fn owner(&self) -> &NodeRef {
        &self.reference.owner
    }

    /// A part of it, by reference as well: from `from` up to `to`, and no further than it reaches.
    #[must_use]
    pub fn slice(&self, from: u64, to: u64) -> Self {
        let from = from.min(self.size());
        let size = to.min(self.size()).saturating_sub(from);
        let reference = Reference { first: self.reference.first + from, size, ..self.reference.clone() };
        Self { reference, ..self.clone() }
    }

    /// The same to be read at this client: needed where it was decoded apart from a call, as by [`crate::from_value`] and [`crate::Reply::decode`].
    #[must_use]
    pub fn on(mut self, client: &Client) -> Self {
        self.known.shell = Some(Arc::clone(client.shell()));
        self
    }

    /// All of it.
    ///
    /// # Errors
    /// `BlobLost`: the owner is lost, which is named, or has it no longer. `LimitExceeded`: it has more than 128 MiB; read parts, or stream it.
    pub async fn bytes(&self) -> Result<Bytes, Exception> {
        self.read(0..self.size()).await
    }

    /// All of it as text; what is not UTF-8 is replaced by U+FFFD.
    ///
    /// # Errors
    /// As [`Blob::bytes`].
    pub async fn text(&self) -> Result<String, Exception> {
        Ok(String::from_utf8_lossy(&self.bytes().await?).into_owned())
    }

    /// These bytes of it, no further than it reaches.
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
            // Not all at once: how much there is, is only said.
            whole.extend_from_slice(&piece);
        }
        Ok(whole.freeze())
    }

    /// All of it in pieces of at most 256 KiB, in their order and many under way at a time. What a cut left out is read again. After an exception there are none.
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
        // What came early came as one, and whoever streams has bounds of its own, such as those of a file service.
        stream::iter(failed).chain(pieces).flat_map(|piece| {
            stream::iter(match piece {
                Ok(piece) => in_parts(piece).map(Ok).collect(),
                Err(why) => vec![Err(why)],
            })
        })
    }

    /// Streams all of it into a writer, many pieces under way at a time, and tells after each how many bytes are written. What a cut left out is read
    /// again. May be dropped at any time.
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

    /// Has its owner, which must be this node, give it up: nobody reads it any more. Says whether it was still there.
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

/// The same bytes of the same blob.
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
