//! Splitting (rpc-chains section 3.10): the function is forked, and each branch goes its own way.

use std::{
    future::Future,
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll},
};

use minicbor::{Decode, Decoder, Encode, decode};

use crate::{
    Exception, Raw,
    executor::{Outcome, Running, Wait, issue_split},
};

/// Forks the function into one copy of it for each branch. Each copy runs its branch alone and hops on its own; when all have
/// ended, the function goes on with what they returned, in the order of the branches.
///
/// ```ignore
/// // The same code for each:
/// let sizes: Vec<u64> = split(names.into_iter().map(|name| async move {
///     let file: File = call("files/find", &name).await?;
///     call(&format!("{}/size", file.server), &file.id).await
/// }))
/// .at("index")
/// .await?;
///
/// // Another for each, and their failures one by one:
/// let outcomes: Vec<Result<u64, Exception>> =
///     split([branch(async { call("prices.a/of", &1).await }), branch(async { fallback().await })]).settled().await?;
/// ```
///
/// - It goes out when it is first polled. The output is an exception if the split cannot be made (`LimitExceeded`: too many
///   branches, or too deep; beside another split), else the first failure in the order of the branches, if any.
/// - **Branches share no memory.** Each has a copy of everything as it was when the function began to wait. What is assigned in
///   one is seen by no other, and not by the function that split: `Rc<Cell<_>>` is no way out of a branch, its result and
///   [`emit`](crate::emit) are. A call that was started before the split, and has not been answered, is answered to the
///   function that split only.
/// - What a branch does not run is dropped in its copy without a word: destructors run, but what they call, emit and log there
///   goes nowhere, for the function that owns them goes on elsewhere.
/// - A split costs one hop, and the branches share what is left of the hop budget.
pub fn split<T, B>(branches: impl IntoIterator<Item = B>) -> Split<T>
where
    T: Encode<()> + for<'b> Decode<'b, ()> + 'static,
    B: Future<Output = Result<T, Exception>> + 'static,
{
    let branches = branches.into_iter().map(|branch| -> Running { Box::pin(encoded(branch)) });
    Split { phase: Phase::Asked { branches: branches.collect(), at: None }, result: PhantomData }
}

async fn encoded<T: Encode<()>>(branch: impl Future<Output = Result<T, Exception>>) -> Outcome {
    branch.await.map(|value| Raw::new(&value))
}

/// A branch of its own type, to be split beside others.
pub type Branch<T> = Pin<Box<dyn Future<Output = Result<T, Exception>>>>;

/// Makes futures of different types one, for [`split`].
pub fn branch<T>(future: impl Future<Output = Result<T, Exception>> + 'static) -> Branch<T> {
    Box::pin(future)
}

/// A split; see [`split()`].
#[must_use = "a split goes out when it is awaited"]
pub struct Split<T> {
    phase: Phase,
    result: PhantomData<fn() -> T>,
}

enum Phase {
    Asked { branches: Vec<Running>, at: Option<String> },
    Out(Wait),
}

impl<T> Split<T> {
    /// The branches merge at the node of this service, and the function goes on there. Without it, and beside calls that are
    /// under way, they merge where the function is.
    pub fn at(mut self, service: &str) -> Self {
        if let Phase::Asked { at, .. } = &mut self.phase {
            *at = Some(service.to_owned());
        }
        self
    }

    /// The outcome of each branch as it is, where one failure would else stand for all.
    pub const fn settled(self) -> Settled<T> {
        Settled(self)
    }
}

impl<T: for<'b> Decode<'b, ()>> Split<T> {
    fn poll_outcomes(&mut self, cx: &mut Context<'_>) -> Poll<Result<Vec<Result<T, Exception>>, Exception>> {
        if let Phase::Asked { branches, at } = &mut self.phase {
            if branches.is_empty() {
                return Poll::Ready(Err(Exception::new("TypeError", "split takes at least one branch")));
            }
            // More than the host takes in any case.
            let count = u32::try_from(branches.len()).unwrap_or(u32::MAX);
            let wait = issue_split(std::mem::take(branches), |e, number| {
                // Writing to memory cannot fail.
                let _ = e
                    .array(6)
                    .and_then(|e| e.u8(8)?.u32(number)?.u32(count)?.encode(&*at))
                    .and_then(|e| e.u32(0)?.u32(0));
            });
            self.phase = Phase::Out(wait);
        }
        let Phase::Out(wait) = &mut self.phase else { return Poll::Pending };
        Pin::new(wait)
            .poll(cx)
            .map(|merged| outcomes(&merged?).map_err(|error| Exception::bad_value("what the branches brought", &error)))
    }
}

/// What the merge host says: `[true, value]` or `[false, exception]` for each branch.
fn outcomes<T: for<'b> Decode<'b, ()>>(merged: &Raw) -> Result<Vec<Result<T, Exception>>, decode::Error> {
    let merged: Vec<Merged> = merged.get()?;
    let decoded = |value: Raw| value.get().map_err(|error| Exception::bad_value("a branch's result", &error));
    Ok(merged.into_iter().map(|Merged(outcome)| outcome.and_then(decoded)).collect())
}

struct Merged(Outcome);

impl<'b, C> Decode<'b, C> for Merged {
    fn decode(d: &mut Decoder<'b>, ctx: &mut C) -> Result<Self, decode::Error> {
        d.array()?;
        Ok(Self(if d.bool()? { Ok(d.decode_with(ctx)?) } else { Err(d.decode_with(ctx)?) }))
    }
}

impl<T: for<'b> Decode<'b, ()>> Future for Split<T> {
    type Output = Result<Vec<T>, Exception>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // The first in their order, whichever was first in time: a step done twice must take the same path.
        self.poll_outcomes(cx).map(|outcomes| outcomes?.into_iter().collect())
    }
}

/// A split whose outcomes are wanted one by one; see [`Split::settled`].
#[must_use = "a split goes out when it is awaited"]
pub struct Settled<T>(Split<T>);

impl<T: for<'b> Decode<'b, ()>> Future for Settled<T> {
    type Output = Result<Vec<Result<T, Exception>>, Exception>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll_outcomes(cx)
    }
}
