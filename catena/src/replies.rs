//! Reply sets: answers as they come, with an exact end (Quatrain; design, section 4).

use std::{
    pin::Pin,
    sync::Arc,
    task::{Poll, ready},
};

use catena_core::Replied;
use catena_wire::{ChainId, Exception, Fault, LogLine, Outcome, Recording, StepTrace, Told, Value, names};
use futures_core::Stream;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use crate::{shell::Shell, value::from_value};

/// One answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Emitted while the chain goes on.
    Partial(Value),
    /// What the function returned: the last one.
    Last(Value),
}

/// The answers of one chain: a stream that ends after exactly one [`Reply::Last`] or one exception.
///
/// Dropping it stops the chain: what still comes is thrown away.
pub struct ReplySet {
    shell: Arc<Shell>,
    chain: ChainId,
    incoming: mpsc::Receiver<Replied>,
    state: State,
    console: Vec<LogLine>,
    trace: Vec<StepTrace>,
    told: Vec<Told>,
    path: Vec<String>,
    last_step: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Complete,
    Partial,
}

impl ReplySet {
    pub(crate) fn new(shell: Arc<Shell>, chain: ChainId, incoming: mpsc::Receiver<Replied>) -> Self {
        let (console, trace, told, path) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { shell, chain, incoming, state: State::Open, console, trace, told, path, last_step: 0 }
    }

    /// The chain that answers.
    #[must_use]
    pub const fn chain(&self) -> ChainId {
        self.chain
    }

    /// Stops the chain wherever it is by now, at every branch (rpc-chains section 6). The set then ends as `Cancelled`,
    /// unless its end is here already. Dropping the set stops the chain too.
    pub fn cancel(&self) {
        self.shell.cancel(self.chain);
    }

    /// Whether an answer, or the end, is still to come.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.state == State::Open
    }

    /// Whether the set ended without all of its answers.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.state == State::Partial
    }

    /// The next answer, or `None` after the end. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<Reply, Exception>> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Waits for the end and decodes what the function returned; intermediate answers are passed over.
    ///
    /// # Errors
    /// The exception that ended the chain, or `BadParameters` if its result is not a `T`.
    pub async fn value<T: DeserializeOwned>(mut self) -> Result<T, Exception> {
        self.last().await.and_then(|value| from_value(&value))
    }

    /// Waits for the end; intermediate answers are passed over.
    ///
    /// # Errors
    /// The exception that ended the chain.
    pub async fn last(&mut self) -> Result<Value, Exception> {
        loop {
            match self.next().await {
                Some(Ok(Reply::Partial(_))) => {}
                Some(Ok(Reply::Last(value))) => return Ok(value),
                Some(Err(why)) => return Err(why),
                None => return Err(Exception::new(names::CANCELLED, Fault::Caller, "this reply set had ended before")),
            }
        }
    }

    /// What the function logged, as far as it has come (rpc-chains section 3.7).
    #[must_use]
    pub fn console(&self) -> &[LogLine] {
        &self.console
    }

    /// The profile of each step, after the end, if the chain was run with one.
    #[must_use]
    pub fn trace(&self) -> &[StepTrace] {
        &self.trace
    }

    /// What the chain's guests were told, and what they asked for, if it was run with a recording: of each branch in order, and of a
    /// branch after its parent's split. It comes with the end; what happens where the chain began comes at once, in the order of time.
    ///
    /// [`catena_wire::What::Full`] says that there was more.
    #[must_use]
    pub fn recording(&self) -> &[Told] {
        &self.told
    }

    /// The hosts that the chain went through, after the end.
    #[must_use]
    pub fn path(&self) -> &[String] {
        &self.path
    }

    /// The last step that the chain made, after the end, as far as is known here; 0 if it made none.
    ///
    /// An exception says where it happened. A function that catches one may go on, and throw it later: then this is beyond the
    /// exception's own step, and the steps between have taken effect.
    #[must_use]
    pub const fn last_step(&self) -> u32 {
        self.last_step
    }

    fn take(&mut self, replied: Replied) -> Option<Result<Reply, Exception>> {
        match replied {
            Replied::Partial(value) => Some(Ok(Reply::Partial(value))),
            Replied::Console(lines) => {
                self.console.extend(lines);
                None
            }
            Replied::Told(told) => {
                self.told.push(told);
                None
            }
            Replied::End { outcome, last_step, path, trace, recording } => {
                // What was all done here has come already, in the order of time.
                if let Some(Recording(told)) = recording.filter(|Recording(told)| told.len() > self.told.len()) {
                    self.told = told;
                }
                self.path = path;
                self.last_step = last_step;
                self.trace = trace;
                Some(match outcome {
                    Outcome::Done(value) => {
                        self.state = State::Complete;
                        Ok(Reply::Last(value))
                    }
                    Outcome::Threw(why) => {
                        self.state = State::Partial;
                        Err(why)
                    }
                })
            }
        }
    }
}

impl Stream for ReplySet {
    type Item = Result<Reply, Exception>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Option<Self::Item>> {
        while self.state == State::Open {
            match ready!(self.incoming.poll_recv(cx)) {
                Some(replied) => {
                    if let Some(reply) = self.take(replied) {
                        return Poll::Ready(Some(reply));
                    }
                }
                None => {
                    self.state = State::Partial;
                    let message = "the answers came faster than they were read, or this node was closed; read the reply set as it fills";
                    return Poll::Ready(Some(Err(Exception::new(names::OVERLOADED, Fault::Caller, message))));
                }
            }
        }
        Poll::Ready(None)
    }
}

impl Drop for ReplySet {
    fn drop(&mut self) {
        if self.state == State::Open {
            self.shell.forget(self.chain);
        }
    }
}
