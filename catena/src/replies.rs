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

/// One answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// A reply to a call; or emitted while the chain goes on.
    Partial(Value),
    /// What a chain's function returned: the last one.
    Last(Value),
}

impl Reply {
    /// What was answered.
    #[must_use]
    pub const fn value(&self) -> &Value {
        match self {
            Self::Partial(value) | Self::Last(value) => value,
        }
    }

    /// What was answered.
    #[must_use]
    pub fn into_value(self) -> Value {
        match self {
            Self::Partial(value) | Self::Last(value) => value,
        }
    }

    /// What was answered, as a `T`.
    ///
    /// # Errors
    /// `BadParameters` if it is none.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, Exception> {
        from_value(self.value())
    }
}

/// How a reply set has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// All answers have come.
    Complete,
    /// It ended in time, and answers are missing: whoever was to give them threw, or was lost ([`ReplySet::missing`]).
    Exception,
    /// It could not end: time ran out, the node that was called was lost, or it was cancelled.
    Failure,
}

/// The answers of one call or one chain: a stream. After the last there is at most one exception, which says that answers are missing;
/// without one the set is complete. Of a chain the last answer is what its function returned ([`Reply::Last`]).
///
/// What has come stays readable after the end, however that was. Dropping the set stops the whole tree of calls that answer it: what still
/// comes is thrown away. A call's set holds its repliers back when it is not read: they wait.
pub struct ReplySet {
    shell: Arc<Shell>,
    chain: ChainId,
    incoming: Incoming,
    state: State,
    /// Replies to a call that are here, and not yet read.
    ready: std::vec::IntoIter<Value>,
    /// Looked at by [`ReplySet::has_more`], and not yet taken.
    next: Option<Result<Reply, Exception>>,
    /// Of a call: how many replies were read since its repliers were told.
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

/// So many replies are read before their repliers are told, while there are more to read.
const UNSAID_MAX: usize = 64;

impl ReplySet {
    pub(crate) fn new(shell: Arc<Shell>, chain: ChainId, incoming: Incoming) -> Self {
        let (console, trace, told, path) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (state, missing) = (State::Open, Vec::new());
        let (ready, next, unsaid) = (Vec::new().into_iter(), None, None);
        Self { shell, chain, incoming, state, ready, next, unsaid, missing, console, trace, told, path, last_step: 0 }
    }

    /// Of a call that is answered many times.
    pub(crate) fn of_call(shell: Arc<Shell>, call: ChainId, incoming: Incoming) -> Self {
        let mut set = Self::new(shell, call, incoming);
        set.unsaid = Some(0);
        set
    }

    /// The chain that answers, or the call that is answered.
    #[must_use]
    pub const fn chain(&self) -> ChainId {
        self.chain
    }

    /// Stops the chain wherever it is by now, at every branch (rpc-chains section 6). The set then ends as `Cancelled`,
    /// unless its end is here already. Dropping the set stops the chain too.
    pub fn cancel(&self) {
        self.shell.cancel(self.chain);
    }

    /// Waits for the next answer, or the end: whether there is one more (Quatrain, section 2). Cancel-safe.
    pub async fn has_more(&mut self) -> bool {
        if self.next.is_none() {
            self.next = self.next().await;
        }
        matches!(self.next, Some(Ok(_)))
    }

    /// How it has ended, once it has.
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

    /// After the end of a call: which answers are missing, by the right under which they were to come, with the node that had it and the reason.
    #[must_use]
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// The answers one after the other, for a thread that may block: not for a task.
    #[must_use]
    pub const fn blocking(self) -> BlockingReplies {
        BlockingReplies(self)
    }

    /// Has each answer worked on as it comes, so many at the same time; waits until all is done. Others wait with whoever gives them.
    ///
    /// # Errors
    /// What ended the set without all of its answers; those that came have been worked on.
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

    /// Waits for the end and decodes what the function returned; intermediate answers are passed over.
    ///
    /// # Errors
    /// The exception that ended the chain, or `BadParameters` if its result is not a `T`.
    pub async fn value<T: DeserializeOwned>(mut self) -> Result<T, Exception> {
        let here = Here::Answer(Arc::clone(&self.shell));
        self.last().await.and_then(|value| decoded_in(here, || from_value(&value)))
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
                // What was all done here has come already, in the order of time.
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

    /// Tells the repliers how much has been read: at the latest when there is nothing more to read.
    fn say_read(&mut self, all: bool) {
        if let Some(unsaid) = &mut self.unsaid
            && (*unsaid >= UNSAID_MAX || (all && *unsaid > 0))
        {
            let count = std::mem::take(unsaid);
            self.shell.read(self.chain, count);
        }
    }
}

/// A chain that was lost or late could not end; any other exception is its function's.
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

/// The answers of a set, for a thread that may block.
pub struct BlockingReplies(ReplySet);

impl BlockingReplies {
    /// The set, to look at how it has ended.
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
