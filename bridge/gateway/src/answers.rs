//! The answers that go to a browser, from a call or from a chain: the one place that knows the difference.

use std::collections::VecDeque;

use catena::{Client, Ended, Exception, Fault, Missing, Reply, ReplySet, RunOptions, Value, exceptions};

use crate::asking::{Asked, Target};

/// An item of an answer.
#[derive(Debug)]
pub(crate) enum Answer {
    /// A reply; others may follow.
    Reply(Value),
    /// Replies that will not come, with the reason.
    Missing(Missing),
    /// The end, after everything else.
    End(End),
}

/// How a call or chain ended.
#[derive(Debug)]
pub(crate) enum End {
    /// All replies came; of a chain, with what its function returned.
    Complete(Option<Value>),
    /// Replies are missing: whether that is due to a failure or to time (Quatrain section 3.3), and why.
    Partial { failure: bool, why: Exception },
}

/// The answers to one call or chain. Dropping it cancels what is under way, everywhere.
pub(crate) struct Answers {
    /// `None` after the end.
    replies: Option<ReplySet>,
    /// What is known about the end, in the order in which it is to be delivered.
    last: VecDeque<Answer>,
}

impl Answers {
    /// Begins the call or chain.
    pub(crate) fn of(client: &Client, asked: &Asked) -> Self {
        let options = options(asked);
        let began = match &asked.target {
            Target::Chain(code) => client.run_with(code, &asked.params, &options),
            Target::Call { service, function } => {
                client.replies_with(&format!("{service}/{function}"), asked.params.clone(), &options)
            }
        };
        match began {
            Ok(replies) => Self { replies: Some(replies), last: VecDeque::new() },
            Err(why) => Self { replies: None, last: [partial(None, why)].into() },
        }
    }

    /// The next item; `None` after the end. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<Answer> {
        if let Some(replies) = &mut self.replies {
            let next = replies.next().await;
            if let Some(Ok(Reply::Partial(value))) = next {
                return Some(Answer::Reply(value));
            }
            self.last = match next {
                Some(Ok(reply)) => [Answer::End(End::Complete(Some(reply.into_value())))].into(),
                None => [Answer::End(End::Complete(None))].into(),
                Some(Err(why)) => {
                    // Replies missing from the call itself are reported by the end.
                    let missing = replies.missing().iter().filter(|missing| !missing.branch.is_root());
                    missing.cloned().map(Answer::Missing).chain([partial(replies.ended(), why)]).collect()
                }
            };
            self.replies = None;
        }
        self.last.pop_front()
    }
}

/// The one answer: a chain's result, or what a call returns. A function that replies many times gives them as one list.
///
/// # Errors
/// The exception that ended it.
pub(crate) async fn only(client: &Client, asked: Asked) -> Result<Value, Exception> {
    let options = options(&asked);
    match asked.target {
        Target::Chain(code) => client.run_with(&code, &asked.params, &options)?.last().await,
        Target::Call { service, function } => {
            let called = client.call_with(&service, &function, asked.params, &options).await;
            called.map_err(|why| why.calling(&service, &function))
        }
    }
}

fn options(asked: &Asked) -> RunOptions {
    RunOptions { timeout: asked.timeout, ..RunOptions::default() }
}

fn partial(ended: Option<Ended>, why: Exception) -> Answer {
    Answer::End(End::Partial { failure: ended == Some(Ended::Failure), why })
}

/// The exception for an answer that exceeds what the gateway passes on.
pub(crate) fn beyond(limit: &str, max: impl std::fmt::Display) -> Exception {
    let message = format!(
        "more came than the gateway's {limit}, {max}: it has been cancelled; have the service answer less, or raise the limit there"
    );
    Exception::new(exceptions::LIMIT_EXCEEDED, Fault::Service, message)
}
