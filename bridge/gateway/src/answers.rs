//! What comes back for a browser, whether a call or a chain answers: the one place that knows the difference.

use std::{future::Future, pin::Pin};

use catena::{Client, Exception, Fault, Reply, ReplySet, RunOptions, Value, exceptions};

use crate::asking::{Asked, Target};

/// One thing that came.
#[derive(Debug)]
pub(crate) enum Answer {
    /// A reply while others may come.
    Reply(Value),
    /// The end: with a chain's own result, or why it is partial.
    End(Result<Option<Value>, Exception>),
}

/// The answers to one call or chain. Dropping it cancels what is under way, everywhere.
pub(crate) struct Answers {
    from: From,
}

enum From {
    Chain(ReplySet),
    Call(Pin<Box<dyn Future<Output = Result<Value, Exception>> + Send>>),
    Over(Option<Answer>),
}

impl Answers {
    /// Asks.
    pub(crate) fn of(client: &Client, asked: Asked) -> Self {
        let options = RunOptions { timeout: asked.timeout, ..RunOptions::default() };
        let from = match asked.target {
            Target::Chain(code) => match client.run_with(&code, &asked.params, &options) {
                Ok(replies) => From::Chain(replies),
                Err(why) => From::Over(Some(Answer::End(Err(why)))),
            },
            Target::Call { service, function } => {
                let client = client.clone();
                From::Call(Box::pin(async move {
                    let called = client.call_with(&service, &function, asked.params, &options).await;
                    called.map_err(|why| why.calling(&service, &function))
                }))
            }
        };
        Self { from }
    }

    /// The next; `None` after the end. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<Answer> {
        match &mut self.from {
            From::Chain(replies) => Some(match replies.next().await? {
                Ok(Reply::Partial(value)) => Answer::Reply(value),
                Ok(Reply::Last(value)) => self.ended(Ok(Some(value))),
                Err(why) => self.ended(Err(why)),
            }),
            From::Call(call) => Some(match call.await {
                Ok(value) => {
                    self.from = From::Over(Some(Answer::End(Ok(None))));
                    Answer::Reply(value)
                }
                Err(why) => self.ended(Err(why)),
            }),
            From::Over(last) => last.take(),
        }
    }

    fn ended(&mut self, how: Result<Option<Value>, Exception>) -> Answer {
        self.from = From::Over(None);
        Answer::End(how)
    }

    /// The one answer: a chain's result, or the only reply of a call.
    ///
    /// # Errors
    /// The exception that ended it; `ManyReplies` if a call answered otherwise than once.
    pub(crate) async fn only(mut self) -> Result<Value, Exception> {
        let mut only = None;
        let mut replies = 0_u64;
        while let Some(answer) = self.next().await {
            match answer {
                Answer::Reply(value) => {
                    only = Some(value);
                    replies += 1;
                }
                Answer::End(Ok(Some(result))) => return Ok(result),
                Answer::End(Ok(None)) => break,
                Answer::End(Err(why)) => return Err(why),
            }
        }
        only.filter(|_| replies == 1).ok_or_else(|| {
            let message = format!("{replies} replies came where one was asked for: ask with Accept: text/event-stream");
            Exception::new(MANY_REPLIES, Fault::Caller, message)
        })
    }
}

/// Not one reply, where one was asked for.
const MANY_REPLIES: &str = "ManyReplies";

/// More came than the gateway passes on.
pub(crate) fn beyond(limit: &str, max: impl std::fmt::Display) -> Exception {
    let message = format!(
        "more came than the gateway's {limit}, {max}: it has been cancelled; have the service answer less, or raise the limit there"
    );
    Exception::new(exceptions::LIMIT_EXCEEDED, Fault::Service, message)
}
