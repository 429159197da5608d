//! Intermediate data: the counted words of a block lie in a blob of the worker that mapped it. Answers, replies and pushes carry the reference alone,
//! and a reduce reads its partition's range straight from the owner.

use std::time::Duration;

use catena::{Blob, Client, Exception, Fault, Value, exceptions, from_value, to_value};
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};

use crate::map::{Part, Piece};

/// How long a blob lasts if the end of its job is never announced.
const LASTS_MAX: Duration = Duration::from_secs(600);
/// Parts of one map task that are read at once.
pub const READS_MAX: usize = 8;

/// A part whose words stay with the worker that counted them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Kept {
    map: u32,
    block: u32,
    piece: Piece,
    words: Blob,
}

/// Puts the parts of one block, one for each partition, into one blob.
///
/// # Errors
/// `Overloaded`: this worker has no room for them.
pub fn keep(client: &Client, parts: &[Part]) -> Result<Vec<Kept>, Exception> {
    let encoded = parts.iter().map(|part| to_value(&part.words)).collect::<Result<Vec<_>, _>>()?;
    let bytes: Vec<_> = encoded.iter().map(|words| words.as_bytes().as_ref()).collect();
    let blob = client.blob_for(&bytes.concat(), "application/cbor", LASTS_MAX)?;
    let mut from = 0;
    let kept = parts.iter().zip(bytes).map(|(part, words)| {
        let to = from + words.len() as u64;
        let words = blob.slice(std::mem::replace(&mut from, to), to);
        Kept { map: part.map, block: part.block, piece: part.piece, words }
    });
    Ok(kept.collect())
}

impl Kept {
    /// Reads the words from their owner.
    ///
    /// # Errors
    /// `BlobLost`: the owner is lost, or the job is over.
    pub async fn fetch(self, client: &Client) -> Result<Part, Exception> {
        let Self { map, block, piece, words } = self;
        let bytes = words.on(client).bytes().await?;
        let malformed =
            |why| Exception::new(exceptions::PROTOCOL, Fault::Service, format!("the words of a block: {why:?}"));
        let words = Value::from_cbor(bytes).map_err(malformed)?;
        Ok(Part { map, block, piece, words: from_value(&words)? })
    }

    /// Releases the blob that contains this part, and with it all parts of the block.
    pub fn release(&self) {
        self.words.release();
    }
}

/// Reads many, in their order.
///
/// # Errors
/// As [`Kept::fetch`], of the first that fails.
pub async fn fetch_all(client: &Client, kept: Vec<Kept>) -> Result<Vec<Part>, Exception> {
    stream::iter(kept).map(|kept| kept.fetch(client)).buffered(READS_MAX).try_collect().await
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use catena::Node;

    use super::*;
    use crate::{map::count, store::Made};

    #[tokio::test]
    async fn a_reduce_reads_its_words_from_their_owner_until_the_job_is_over() {
        let node = Node::builder("worker").listen("127.0.0.1:0").start().await.unwrap();
        let at = catena::Place { address: node.address().unwrap().to_owned(), site: None };
        let reduce = Client::builder("reduce").join(at).connect().await.unwrap();
        let parts = count("a a b c d e f g", 2).whole(3, 4);

        let made = Made::new(2);
        made.add(keep(&node.client(), &parts).unwrap());
        assert_eq!(node.client().blobs_held().0, 1, "one blob for all partitions");
        for (partition, part) in (0..).zip(&parts) {
            let kept = made.parts(partition, 0);
            assert_eq!(fetch_all(&reduce, kept).await.unwrap(), std::slice::from_ref(part));
        }

        let late = made.parts(1, 0);
        drop(made);
        assert_eq!(node.client().blobs_held().0, 0);
        let why = fetch_all(&reduce, late).await.unwrap_err();
        assert_eq!(why.name, exceptions::BLOB_LOST);
    }
}
