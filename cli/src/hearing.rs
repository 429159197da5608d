//! What a chain says, as it comes. A reply set takes in logged lines, and what is recorded, while it waits for answers.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
};

use catena::{Exception, Fault, Reply, ReplySet, exceptions as names};

/// What has come of a chain.
pub(crate) enum Heard {
    /// An answer, or the end.
    Reply(Result<Reply, Exception>),
    /// Lines or events, ahead of the next answer.
    More,
}

/// Waits for the next answer, or for more than `lines_known` lines or `events_known` events. Cancel-safe.
pub(crate) async fn next(replies: &mut ReplySet, lines_known: usize, events_known: usize) -> Heard {
    poll_fn(|context| {
        // A new future at each wake-up loses nothing: the set keeps its state.
        let reply = pin!(replies.next()).poll(context);
        match reply {
            Poll::Ready(reply) => {
                let over = || Err(Exception::new(names::CANCELLED, Fault::Caller, "the chain had ended before"));
                Poll::Ready(Heard::Reply(reply.unwrap_or_else(over)))
            }
            Poll::Pending if replies.console().len() > lines_known => Poll::Ready(Heard::More),
            Poll::Pending if replies.recording().len() > events_known => Poll::Ready(Heard::More),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
