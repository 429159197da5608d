//! Calls that are answered many times (Quatrain): replies as they come, with an exact end.

use std::{
    future::poll_fn,
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll, ready},
};

use minicbor::{Decode, Decoder, Encode, data::Type, decode};

use crate::{
    Exception, Raw,
    executor::{Outcome, Wait, issue, leave},
    split_target,
};

/// Calls `service/function`, which may answer many times, from wherever it delegates to. The call goes out when this is called.
///
/// ```ignore
/// let mut hits = replies::<Hit>("search/find", &query);
/// while let Some(hit) = hits.next().await {
///     let hit = hit?;
///     emit(&hit);                                             // while others still search
///     if hit.score > 0.9 {
///         drop(hits);                                         // stops all searches
///         return call("shop/details", &hit.id).await;         // and moves there
///     }
/// }
/// ```
///
/// The function stays where it is while a set is open: a call meanwhile goes out from there. The host bounds how many sets are open
/// (`sets_per_chain_max`) and how much of each is unread (`set_unread_bytes_max`): whoever replies waits while the function is busy.
/// Asking costs one hop. A [`split()`](crate::split()) leaves all open sets, and a later read says so.
pub fn replies<T: for<'b> Decode<'b, ()>>(target: &str, params: &impl Encode<()>) -> ReplySet<T> {
    let (service, function) = split_target(target);
    let first = issue(|e, number| {
        // Writing to memory cannot fail.
        let _ = e
            .array(7)
            .and_then(|e| e.u8(9)?.u32(number)?.str(service)?.str(function))
            .and_then(|e| e.encode(params)?.u32(0)?.u32(0));
    });
    ReplySet { set: first.number(), coming: Some(first), batch: Batch::default(), over: None, reply: PhantomData }
}

/// The replies to one call; see [`replies`]. Dropping it before its end leaves it: whatever still works on it, anywhere, is cancelled.
#[must_use = "a set that is dropped is cancelled"]
pub struct ReplySet<T> {
    set: u32,
    /// What comes next from the host, if that was asked for.
    coming: Option<Wait>,
    batch: Batch,
    over: Option<Over>,
    reply: PhantomData<fn() -> T>,
}

/// How a reply set has ended (Quatrain, section 3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All replies have come.
    Complete,
    /// It ended in time, and replies are missing: whoever was to give them threw, or was lost ([`ReplySet::missing`]).
    Exception,
    /// It could not end: time ran out, the node that was called was lost, or the host does not have the set.
    Failure,
}

/// Replies of one right to reply that will not come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// `service/function`; empty if that is not known.
    pub target: String,
    /// The node that had the right, if that is known.
    pub node: Option<String>,
    /// Why.
    pub why: Exception,
}

impl<T: for<'b> Decode<'b, ()>> ReplySet<T> {
    /// The next reply, or `None` after the last one of the whole tree of calls. After the last there is at most one exception, which says
    /// that replies are missing: that of the call, or of the one right that is missing, or `RepliesMissing`. A reply that is no `T` is a
    /// `BadParameters` in its place, and those after it can be read. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<T, Exception>> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The same, for a stream of one's own.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T, Exception>>> {
        loop {
            if let Some(reply) = self.batch.take() {
                let reply = reply.and_then(|reply| reply.get());
                return Poll::Ready(Some(reply.map_err(|error| Exception::bad_value("a reply", &error))));
            }
            if let Some(over) = &mut self.over {
                return Poll::Ready(over.untold.take().map(Err));
            }
            let set = self.set;
            let coming = self.coming.get_or_insert_with(|| read(set));
            let told = ready!(Pin::new(coming).poll(cx));
            self.coming = None;
            self.told(told);
        }
    }

    fn told(&mut self, told: Outcome) {
        let told = told.and_then(|told| {
            Batch::new(told).map_err(|error| Exception::bad_value("what the host says of a reply set", &error))
        });
        match told {
            Ok((batch, over)) => (self.batch, self.over) = (batch, over),
            // The host does not have the set, or not any more.
            Err(why) => self.over = Some(Over { missing: Vec::new(), ended: Ended::Failure, untold: Some(why) }),
        }
    }
}

impl<T> ReplySet<T> {
    /// How it has ended, once the host has said so: replies that came together with the end can still be read.
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        self.over.as_ref().map(|over| over.ended)
    }

    /// Whether it has ended without all of its replies.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        matches!(self.ended(), Some(Ended::Exception | Ended::Failure))
    }

    /// After the end: whose replies are missing, and why; at most 64 of them.
    #[must_use]
    pub fn missing(&self) -> &[Missing] {
        self.over.as_ref().map_or(&[], |over| &over.missing)
    }
}

impl<T> Drop for ReplySet<T> {
    fn drop(&mut self) {
        if self.over.is_none() {
            leave(self.set);
        }
    }
}

fn read(set: u32) -> Wait {
    issue(|e, number| {
        let _ = e.array(3).and_then(|e| e.u8(10)?.u32(number)?.u32(set));
    })
}

/// Replies that came together, and have not all been read.
#[derive(Default)]
struct Batch {
    told: Vec<u8>,
    at: usize,
    left: u64,
}

impl Batch {
    /// `[replies, over]`, as the guest ABI has it.
    fn new(told: Raw) -> Result<(Self, Option<Over>), decode::Error> {
        let told = told.into_bytes();
        let mut d = Decoder::new(&told);
        d.array()?;
        let left = d.array()?.ok_or_else(|| decode::Error::message("an array of definite length is expected"))?;
        let at = d.position();
        for _ in 0..left {
            d.skip()?;
        }
        let over = if d.datatype()? == Type::Null { None } else { Some(d.decode()?) };
        Ok((Self { told, at, left }, over))
    }

    fn take(&mut self) -> Option<Result<Raw, decode::Error>> {
        self.left = self.left.checked_sub(1)?;
        let mut d = Decoder::new(&self.told);
        d.set_position(self.at);
        let reply = d.decode();
        self.at = d.position();
        if self.left == 0 {
            // It is not to travel.
            *self = Self::default();
        }
        Some(reply)
    }
}

/// How a set has ended.
struct Over {
    missing: Vec<Missing>,
    ended: Ended,
    /// Why, until that is told.
    untold: Option<Exception>,
}

impl<'b, C> Decode<'b, C> for Over {
    fn decode(d: &mut Decoder<'b>, ctx: &mut C) -> Result<Self, decode::Error> {
        d.array()?;
        let (missing, untold) = (d.decode_with(ctx)?, d.decode_with::<_, Option<Exception>>(ctx)?);
        let ended = match (&untold, d.bool()?) {
            (None, _) => Ended::Complete,
            (Some(_), false) => Ended::Exception,
            (Some(_), true) => Ended::Failure,
        };
        Ok(Self { missing, ended, untold })
    }
}

impl<'b, C> Decode<'b, C> for Missing {
    fn decode(d: &mut Decoder<'b>, ctx: &mut C) -> Result<Self, decode::Error> {
        d.array()?;
        Ok(Self { target: d.decode_with(ctx)?, node: d.decode_with(ctx)?, why: d.decode_with(ctx)? })
    }
}
