//! Reply sets: answers as they come, with an exact end (Quatrain, sections 2 and 3.3; design, section 4).

use std::{
    pin::Pin,
    sync::Arc,
    task::{Poll, ready},
};

use catena_core::{Missing, Replied};
use catena_wire::{ChainId, Exception, Fault, LogLine, Outcome, Recording, StepTrace, Told, Value, names};
use futures_core::Stream;
use futures_util::StreamExt;
use serde::de::DeserializeOwned;

use crate::{
    blobs::{Here, decoded_in},
    incoming::Incoming,
    shell::Shell,
    value::from_value,
};

/// One answer of a reply set.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// A reply to a call, or a value that a chain emitted before its end.
    Partial(Value),
    /// What a chain's function returned: its last answer.
    Last(Value),
}

impl Reply {
    /// The answered value.
    #[must_use]
    pub const fn value(&self) -> &Value {
        match self {
            Self::Partial(value) | Self::Last(value) => value,
        }
    }

    /// The answered value, by move.
    #[must_use]
    pub fn into_value(self) -> Value {
        match self {
            Self::Partial(value) | Self::Last(value) => value,
        }
    }

    /// The answered value, decoded as a `T`.
    ///
    /// # Errors
    /// `BadParameters` if the value is not a `T`.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, Exception> {
        from_value(self.value())
    }
}

/// How a reply set ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// All answers have arrived.
    Complete,
    /// It ended in time, but answers are missing: a function that owed them threw, or its node was lost ([`ReplySet::missing`]).
    Exception,
    /// It was ended from outside: the time ran out, the called node was lost, or the call or chain was cancelled.
    Failure,
}

/// The answers of one call or one chain, as a stream. After the last answer there is at most one exception, which says that answers are missing;
/// without it the set is complete. The last answer of a chain is what its function returned ([`Reply::Last`]).
///
/// Answers that have arrived stay readable after the end, however the set ended. Dropping the set stops the whole tree of calls that answer it; answers that
/// still arrive are discarded. While a call's set is not read, the functions that reply to it are made to wait.
pub struct ReplySet {
    shell: Arc<Shell>,
    chain: ChainId,
    incoming: Incoming,
    state: State,
    /// Replies to a call that have arrived but were not read.
    ready: std::vec::IntoIter<Value>,
    /// An item that [`ReplySet::has_more`] has read ahead.
    next: Option<Result<Reply, Exception>>,
    /// For a call: how many replies were read since its senders were last told.
    unsaid: Option<usize>,
    missing: Vec<Missing>,
    console: Vec<LogLine>,
    trace: Vec<StepTrace>,
    told: Vec<Told>,
    path: Vec<String>,
    last_step: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Ended(Ended),
}

/// Replies that are read before their senders are told, while there are more to read.
const UNSAID_MAX: usize = 64;

impl ReplySet {
    pub(crate) fn new(shell: Arc<Shell>, chain: ChainId, incoming: Incoming) -> Self {
        let (console, trace, told, path) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (state, missing) = (State::Open, Vec::new());
        let (ready, next, unsaid) = (Vec::new().into_iter(), None, None);
        Self { shell, chain, incoming, state, ready, next, unsaid, missing, console, trace, told, path, last_step: 0 }
    }

    /// The reply set of a call that is answered many times.
    pub(crate) fn of_call(shell: Arc<Shell>, call: ChainId, incoming: Incoming) -> Self {
        let mut set = Self::new(shell, call, incoming);
        set.unsaid = Some(0);
        set
    }

    /// The chain or call that this set belongs to.
    #[must_use]
    pub const fn chain(&self) -> ChainId {
        self.chain
    }

    /// Stops the chain at every branch, wherever it is by now (rpc-chains section 6). The set then ends as `Cancelled`,
    /// unless its end has arrived already. Dropping the set stops the chain too.
    pub fn cancel(&self) {
        self.shell.cancel(self.chain);
    }

    /// Waits for the next answer or the end, and says whether there is another answer to read (Quatrain, section 2). Cancel-safe.
    pub async fn has_more(&mut self) -> bool {
        if self.next.is_none() {
            self.next = self.next().await;
        }
        matches!(self.next, Some(Ok(_)))
    }

    /// How the set ended; `None` while it has not.
    #[must_use]
    pub const fn ended(&self) -> Option<Ended> {
        match self.state {
            State::Open => None,
            State::Ended(ended) => Some(ended),
        }
    }

    /// Whether the set ended without all of its answers.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        matches!(self.state, State::Ended(Ended::Exception | Ended::Failure))
    }

    /// After the end of a call: each missing answer by the right to reply under which it was due, with the node that held that right, and the reason.
    #[must_use]
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// The answers as a blocking iterator, for a thread that may block: never use it in an async task.
    #[must_use]
    pub const fn blocking(self) -> BlockingReplies {
        BlockingReplies(self)
    }

    /// Runs `work` on each answer as it arrives, at most `at_once_max` at a time, and waits until all are done. Further answers wait at their senders.
    ///
    /// # Errors
    /// The exception that ended the set without all of its answers; work on those that arrived is complete by then.
    pub async fn in_parallel<F, Fut>(mut self, at_once_max: usize, work: F) -> Result<(), Exception>
    where
        F: Fn(Value) -> Fut,
        Fut: Future<Output = ()>,
    {
        let work = &work;
        let mut ended = Ok(());
        let replies = (&mut self).filter_map(|reply| {
            let value = reply.map(Reply::into_value).map_err(|why| ended = Err(why)).ok();
            std::future::ready(value)
        });
        replies.for_each_concurrent(at_once_max.max(1), work).await;
        ended
    }

    /// The next answer, or `None` after the end. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<Reply, Exception>> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Waits for the end and decodes what the function returned; skips intermediate answers.
    ///
    /// # Errors
    /// The exception that ended the chain, or `BadParameters` if its result is not a `T`.
    pub async fn value<T: DeserializeOwned>(mut self) -> Result<T, Exception> {
        let here = Here::Answer(Arc::clone(&self.shell));
        self.last().await.and_then(|value| decoded_in(here, || from_value(&value)))
    }

    /// Waits for the end and returns the last answer; skips intermediate answers.
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

    /// What the function has logged, as far as it has arrived (rpc-chains section 3.7).
    #[must_use]
    pub fn console(&self) -> &[LogLine] {
        &self.console
    }

    /// The profile of each step, available after the end if the chain was run with [`crate::RunOptions::profile`].
    #[must_use]
    pub fn trace(&self) -> &[StepTrace] {
        &self.trace
    }

    /// What was handed to the chain's guests, and what they asked for, if it was run with [`crate::RunOptions::record`]: in order for each branch, and
    /// a branch after its parent's split. It arrives with the end; what happens at the chain's origin is available at once, in the order of time.
    ///
    /// [`catena_wire::What::Full`] marks a recording that was cut off because it had no more room.
    #[must_use]
    pub fn recording(&self) -> &[Told] {
        &self.told
    }

    /// The hosts that the chain passed through, available after the end.
    #[must_use]
    pub fn path(&self) -> &[String] {
        &self.path
    }

    /// The last step that the chain made, as far as it is known here; available after the end, 0 if it made none.
    ///
    /// An exception names the step where it was thrown. A function that catches one may go on and throw it again later: then this number is beyond
    /// the exception's own step, and the steps in between have taken effect.
    #[must_use]
    pub const fn last_step(&self) -> u32 {
        self.last_step
    }

    fn understand(&mut self, replied: Replied) -> Option<Result<Reply, Exception>> {
        match replied {
            Replied::Partial(value) => Some(Ok(Reply::Partial(value))),
            Replied::Replies(values) => {
                self.ready = values.into_iter();
                self.take_ready()
            }
            Replied::Console(lines) => {
                self.console.extend(lines);
                None
            }
            Replied::Told(told) => {
                self.told.push(told);
                None
            }
            Replied::End { outcome, last_step, path, trace, recording } => {
                // A recording made entirely at this node has arrived already, in the order of time.
                if let Some(Recording(told)) = recording.filter(|Recording(told)| told.len() > self.told.len()) {
                    self.told = told;
                }
                self.path = path;
                self.last_step = last_step;
                self.trace = trace;
                Some(match outcome {
                    Outcome::Done(value) => {
                        self.state = State::Ended(Ended::Complete);
                        Ok(Reply::Last(value))
                    }
                    Outcome::Threw(why) => {
                        self.state = State::Ended(ending_of(&why));
                        Err(why)
                    }
                })
            }
            Replied::Over { missing, failure } => {
                let ended = match (&failure, missing.is_empty()) {
                    (Some(_), _) => Ended::Failure,
                    (None, false) => Ended::Exception,
                    (None, true) => Ended::Complete,
                };
                self.state = State::Ended(ended);
                let why = failure.or_else(|| Missing::exception_of(&missing));
                self.missing = missing;
                why.map(Err)
            }
        }
    }

    fn take_ready(&mut self) -> Option<Result<Reply, Exception>> {
        let value = self.ready.next()?;
        if let Some(unsaid) = &mut self.unsaid {
            *unsaid += 1;
            self.say_read(false);
        }
        Some(Ok(Reply::Partial(value)))
    }

    /// Tells the senders how many replies have been read: at the latest when nothing is left to read.
    fn say_read(&mut self, all: bool) {
        if let Some(unsaid) = &mut self.unsaid
            && (*unsaid >= UNSAID_MAX || (all && *unsaid > 0))
        {
            let count = std::mem::take(unsaid);
            self.shell.read(self.chain, count);
        }
    }
}

/// A chain that was lost, late or cancelled was ended from outside; any other exception comes from its function.
fn ending_of(why: &Exception) -> Ended {
    match why.name.as_str() {
        names::DEADLINE_EXCEEDED | names::CHAIN_LOST | names::NODE_LOST | names::CANCELLED => Ended::Failure,
        _ => Ended::Exception,
    }
}

impl Stream for ReplySet {
    type Item = Result<Reply, Exception>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(next) = self.next.take().or_else(|| self.take_ready()) {
            return Poll::Ready(Some(next));
        }
        while self.state == State::Open {
            let polled = self.incoming.poll_next(cx);
            if polled.is_pending() {
                self.say_read(true);
            }
            match ready!(polled) {
                Some(replied) => {
                    if let Some(reply) = self.understand(replied) {
                        return Poll::Ready(Some(reply));
                    }
                }
                None => {
                    self.state = State::Ended(Ended::Failure);
                    let message = "the answers came faster than they were read, or this node was closed; read the reply set as it fills";
                    let why = Exception::new(names::OVERLOADED, Fault::Caller, message);
                    return Poll::Ready(Some(Err(why.outcome_unknown())));
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

/// The answers of a set as a blocking iterator.
pub struct BlockingReplies(ReplySet);

impl BlockingReplies {
    /// The underlying set, which says how it ended.
    #[must_use]
    pub const fn set(&self) -> &ReplySet {
        &self.0
    }
}

impl Iterator for BlockingReplies {
    type Item = Result<Reply, Exception>;

    #[allow(clippy::disallowed_methods, reason = "for a thread that may block, as it says")]
    fn next(&mut self) -> Option<Self::Item> {
        let runtime = self.0.shell.runtime().clone();
        runtime.block_on(self.0.next())
    }
}
