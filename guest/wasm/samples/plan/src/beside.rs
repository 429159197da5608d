//! Several futures in one, as any executor's `join` and `select` do it.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    task::Poll,
};

/// Their results in order, or the first failure in time.
pub async fn all<T, E>(futures: Vec<impl Future<Output = Result<T, E>> + Unpin>) -> Result<Vec<T>, E> {
    let mut futures: Vec<_> = futures.into_iter().map(|future| (Some(future), None)).collect();
    poll_fn(|cx| {
        for (future, result) in &mut futures {
            if let Some(Poll::Ready(outcome)) = future.as_mut().map(|future| Pin::new(future).poll(cx)) {
                *future = None;
                *result = Some(outcome?);
            }
        }
        if futures.iter().any(|(future, _)| future.is_some()) {
            return Poll::Pending;
        }
        Poll::Ready(Ok(futures.iter_mut().filter_map(|(_, result)| result.take()).collect()))
    })
    .await
}

/// What the quickest comes to. The others are dropped.
pub async fn race<T>(mut futures: Vec<impl Future<Output = T> + Unpin>) -> T {
    poll_fn(|cx| {
        let ready = futures.iter_mut().map(|future| Pin::new(future).poll(cx)).find(Poll::is_ready);
        ready.unwrap_or(Poll::Pending)
    })
    .await
}
