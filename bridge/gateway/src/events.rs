//! Replies as Server-Sent Events (HTML standard, section 9.2): `reply`, `missing`, and one `end`, the last.
//!
//! The bytes of a stream are produced only when the connection has room for them: a slow browser slows down whoever answers it.

use std::{convert::Infallible, sync::Arc};

use bytes::{Bytes, BytesMut};
use catena::{Missing, Value};
use futures_util::{FutureExt, stream};
use http_body_util::{BodyExt, StreamBody};
use hyper::{Response, StatusCode, body::Frame};
use serde_json::json;

use crate::{
    answers::{Answer, Answers, End, beyond},
    blobs::Giver,
    charge::Memory,
    limits::Limits,
    problem::Problem,
    reply::{self, Body},
    visitors::Pass,
};

/// What is ready at once is sent at once, up to this many bytes together.
const GATHERED_BYTES_MAX: usize = 16 << 10;

/// A stream of events under way.
pub(crate) struct Events {
    /// `None` after the end.
    answers: Option<Answers>,
    /// An event that came while earlier ones were still to be sent.
    ahead: Option<Bytes>,
    replies: u64,
    bytes: u64,
    limits: Arc<Limits>,
    memory: Memory,
    blobs: Giver,
    _pass: Pass,
}

impl Events {
    pub(crate) fn response(
        answers: Answers,
        limits: Arc<Limits>,
        (memory, blobs): (Memory, Giver),
        pass: Pass,
    ) -> Response<Body> {
        let events =
            Self { answers: Some(answers), ahead: None, replies: 0, bytes: 0, limits, memory, blobs, _pass: pass };
        let chunks = stream::unfold(events, async |mut events| {
            let bytes = events.chunk().await?;
            Some((Ok::<_, Infallible>(Frame::data(bytes)), events))
        });
        reply::of(StatusCode::OK, Some("text/event-stream"), StreamBody::new(chunks).boxed_unsync())
    }

    /// What is to be sent next; `None` after the end.
    async fn chunk(&mut self) -> Option<Bytes> {
        let first = match self.ahead.take() {
            Some(ahead) => ahead,
            None => self.event().await?,
        };
        if first.len() >= GATHERED_BYTES_MAX {
            return Some(first);
        }
        let mut gathered = BytesMut::from(first);
        while let Some(Some(answer)) = self.answers.as_mut().and_then(|answers| answers.next().now_or_never()) {
            let next = self.told(answer).await;
            if gathered.len() + next.len() > GATHERED_BYTES_MAX {
                self.ahead = Some(next);
                break;
            }
            gathered.extend_from_slice(&next);
        }
        Some(gathered.freeze())
    }

    /// Waits for the next event.
    async fn event(&mut self) -> Option<Bytes> {
        let answers = self.answers.as_mut()?;
        match tokio::time::timeout(self.limits.heartbeat(), answers.next()).await {
            Ok(answer) => Some(self.told(answer?).await),
            // A comment: it keeps proxies in between from giving up, and finds out whether the browser is still there.
            Err(_) => Some(Bytes::from_static(b":\n\n")),
        }
    }

    async fn told(&mut self, answer: Answer) -> Bytes {
        match answer {
            Answer::Reply(value) => self.reply(&value).await,
            Answer::Missing(missing) => self.missing(&missing),
            Answer::End(how) => self.end(how).await,
        }
    }

    async fn reply(&mut self, value: &Value) -> Bytes {
        if self.replies >= self.limits.replies_max {
            return self.beyond("replies_max", self.limits.replies_max).await;
        }
        let bytes_max = self.limits.reply_bytes_max;
        let Some(json) = self.memory.json(value, bytes_max, ["event: reply\ndata: ", "\n\n"], &self.blobs).await else {
            return self.beyond("reply_bytes_max", bytes_max as u64).await;
        };
        self.bytes += json.len() as u64;
        if self.bytes > self.limits.stream_bytes_max {
            return self.beyond("stream_bytes_max", self.limits.stream_bytes_max).await;
        }
        self.replies += 1;
        json
    }

    fn missing(&self, missing: &Missing) -> Bytes {
        let Missing { branch, target, node, why } = missing;
        let told =
            json!({ "branch": branch.to_string(), "target": target, "node": node, "problem": Problem::from(why) });
        format!("event: missing\ndata: {told}\n\n").into()
    }

    async fn beyond(&mut self, limit: &str, max: u64) -> Bytes {
        self.end(End::Partial { failure: false, why: beyond(limit, max) }).await
    }

    /// The last event. What is still under way is cancelled.
    async fn end(&mut self, how: End) -> Bytes {
        self.answers = None;
        let replies = self.replies;
        let (failure, why) = match how {
            End::Complete(None) => return event(&json!({ "complete": true, "replies": replies })),
            End::Complete(Some(result)) => {
                let before = format!("event: end\ndata: {{\"complete\":true,\"replies\":{replies},\"result\":");
                let bytes_max = self.limits.reply_bytes_max;
                match self.memory.json(&result, bytes_max, [&before, "}\n\n"], &self.blobs).await {
                    Some(end) => return end,
                    None => (false, beyond("reply_bytes_max", bytes_max)),
                }
            }
            End::Partial { failure, why } => (failure, why),
        };
        let kind = if failure { "failure" } else { "exception" };
        event(&json!({ "complete": false, "replies": replies, "kind": kind, "problem": Problem::from(&why) }))
    }
}

fn event(end: &serde_json::Value) -> Bytes {
    format!("event: end\ndata: {end}\n\n").into()
}
