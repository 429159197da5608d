//! What a chain says, as it comes. A reply set takes in logged lines while it waits for answers, and has no answer to give for them.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
};

use catena::{Exception, Reply, ReplySet};

/// What has come of a chain.
pub(crate) enum Heard {
    /// An answer, or the end; `None` after that.
    Reply(Option<Result<Reply, Exception>>),
    /// Lines, ahead of the next answer.
    Lines,
}

/// Waits for an answer, or for more lines than the first `lines_known`. Cancel-safe.
pub(crate) async fn next(replies: &mut ReplySet, lines_known: usize) -> Heard {
    poll_fn(|context| {
        // Nothing is lost by asking for it anew at each waking.
        let reply = pin!(replies.next()).poll(context);
        match reply {
            Poll::Ready(reply) => Poll::Ready(Heard::Reply(reply)),
            Poll::Pending if replies.console().len() > lines_known => Poll::Ready(Heard::Lines),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
