//! What the servers of these figures do.

use catena::{Context, Service, ServiceError};
use futures_util::{Stream, StreamExt, stream};
use serde_bytes::ByteBuf;

/// Bytes of one reply.
pub(crate) const REPLY_BYTES: usize = 64;
/// Gathered replies go when there are so many bytes of them, which is what tonic gathers; ...
const GATHERED_BYTES: u32 = 32 << 10;
/// ... or so many; ...
const GATHERED_REPLIES: u32 = 512;
/// ... or after so long.
const GATHERED_US: u64 = 200;

/// What is found one by one: each item is known to be there only when the one before has been taken.
pub(crate) fn as_they_come<S: Stream>(all: S) -> impl Stream<Item = S::Item> {
    all.then(async |item| {
        tokio::task::yield_now().await;
        item
    })
}

/// `many` replies as often as it is told to, one by one; `gathered` all in one go; `pass` once, and has the next one
/// reply to whoever asked.
pub(crate) fn service(name: &str) -> Service {
    Service::new(name)
        .stream("many", async |_, count| Ok(as_they_come(replies(count))))
        .stream("gathered", async |context: Context, count| {
            context.gather(GATHERED_REPLIES, GATHERED_BYTES, GATHERED_US);
            Ok(replies(count))
        })
        .replies("pass", async |context: Context, mut rest: Vec<String>| {
            if let Some(next) = rest.pop() {
                context.delegate(&next, &rest)?;
            }
            context.preturn(&0).await?;
            Ok(())
        })
        .function("once", async |(): ()| Ok(0))
}

fn replies(count: u64) -> impl Stream<Item = Result<ByteBuf, ServiceError>> {
    stream::iter((0..count).map(|_| Ok(ByteBuf::from([7; REPLY_BYTES]))))
}
