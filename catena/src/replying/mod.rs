//! How a service function replies: the right to reply is a value that can be cloned and dropped (Quatrain, sections 2 and 3.2).
//!
//! The paper counts threads and replies by hand, in pairs of operations that no thread may forget. Here every task or thread that may still reply holds a clone
//! of the [`Context`], without which it could not reply; and no clone can be forgotten, since it is dropped with its owner. The last drop is the end.

mod bursts;
mod counted;
mod ground;
mod mistake;
mod teller;

use std::sync::{Arc, Mutex};

pub(crate) use bursts::Bursts;
use catena_core::{Gather, NotSent};
use catena_wire::{Exception, Fault, StepKey, Value, names};
pub(crate) use counted::Counted;
use counted::Ends;
use serde::Serialize;
pub(crate) use teller::Teller;
use tokio::sync::{Notify, oneshot};

use crate::{
    Context, ReplySet, RunOptions,
    shell::{Shell, lock},
    value::to_value,
};

/// Where replies are sent.
#[derive(Clone)]
pub(crate) enum Right {
    /// To the caller's reply set, also if the call was delegated here.
    Set(Counted<Held>),
    /// Into the single result of a plain call.
    Gathered(Counted<Gathered>),
    /// Nowhere: the caller waits only for what the function returns.
    Nowhere,
}

impl Right {
    /// The right of whoever runs the function, whose return value is a reply too.
    pub(crate) fn beside(&self) -> Self {
        match self {
            Self::Set(held) => Self::Set(held.clone()),
            // This ends when the last holder is gone, and whoever runs the function waits for that end, so it must not hold the right itself.
            Self::Gathered(_) | Self::Nowhere => Self::Nowhere,
        }
    }
}

/// A right to reply; its end is reported when the last clone is gone.
pub(crate) struct Held {
    shell: Arc<Shell>,
    key: StepKey,
    /// Notified when there may be room again, or the right is over.
    changed: Arc<Notify>,
}

impl Held {
    pub(crate) const fn new(shell: Arc<Shell>, key: StepKey, changed: Arc<Notify>) -> Self {
        Self { shell, key, changed }
    }

    /// Sends a reply; waits while the caller's reader is behind.
    async fn send(&self, mut value: Value) -> Result<(), Box<Exception>> {
        while let Some(back) = self.try_send(value)? {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            // There may be room again since the last attempt.
            let Some(back) = self.try_send(back)? else { return Ok(()) };
            changed.await;
            value = back;
        }
        Ok(())
    }

    /// Sends a reply, or returns it if the caller's reader is behind.
    fn try_send(&self, value: Value) -> Result<Option<Value>, Box<Exception>> {
        match self.shell.reply_under(&self.key, value) {
            Ok(()) => Ok(None),
            Err(NotSent::Full(back)) => Ok(Some(back)),
            Err(NotSent::Over(why)) => Err(why),
        }
    }
}

impl Ends for Held {
    fn end(&self) {
        let (shell, key) = (Arc::clone(&self.shell), self.key.clone());
        self.shell.ends.tell(move || shell.let_go(&key));
    }
}

/// All replies to a plain call, or why some are missing.
pub(crate) type Complete = Result<Vec<Value>, Exception>;

/// Gathers the replies to a plain call, until the last holder of the right is gone.
pub(crate) struct Gathered {
    ends: Teller,
    replies: Mutex<Complete>,
    done: Mutex<Option<oneshot::Sender<Complete>>>,
    hops: Mutex<Hops>,
}

/// The most bytes that one plain call may gather.
const GATHERED_BYTES_MAX: usize = 16 << 20;

impl Gathered {
    pub(crate) fn new(ends: Teller, hops_left: u32) -> (Self, oneshot::Receiver<Complete>) {
        let (done, all) = oneshot::channel();
        let (replies, hops) = (Mutex::new(Ok(Vec::new())), Mutex::new(Hops::new(hops_left)));
        (Self { ends, replies, done: Mutex::new(Some(done)), hops }, all)
    }

    /// Whether the caller has stopped waiting.
    fn is_over(&self) -> bool {
        lock(&self.done).as_ref().is_none_or(oneshot::Sender::is_closed)
    }

    fn add(&self, value: Value) -> Result<(), Exception> {
        if self.is_over() {
            return Err(over());
        }
        let mut replies = lock(&self.replies);
        // Some replies are missing already, so the caller gets an exception and none of the others.
        let Ok(values) = &mut *replies else { return Ok(()) };
        let bytes: usize = values.iter().map(|value| value.len_bytes() + 1).sum();
        if bytes + value.len_bytes() > GATHERED_BYTES_MAX {
            let message = format!(
                "the replies have more than {GATHERED_BYTES_MAX} bytes together, which is all that a plain call returns; ask for replies as they come"
            );
            return Err(Exception::new(names::LIMIT_EXCEEDED, Fault::Caller, message));
        }
        values.push(value);
        Ok(())
    }

    /// Notes that a reply is missing. The first reason is the one that the caller gets.
    fn note_missing(&self, why: Exception) {
        let mut replies = lock(&self.replies);
        if replies.is_ok() {
            *replies = Err(why);
        }
    }
}

impl Ends for Gathered {
    fn end(&self) {
        let Some(done) = lock(&self.done).take() else { return };
        let replies = std::mem::replace(&mut *lock(&self.replies), Ok(Vec::new()));
        self.ends.tell(move || {
            let _ = done.send(replies);
        });
    }
}

/// The hops of a call that has no right to hand on, for the calls that it delegates nevertheless.
struct Hops {
    left: u32,
    delegated: u32,
}

impl Hops {
    const fn new(left: u32) -> Self {
        Self { left, delegated: 0 }
    }

    /// As many hops as a delegated right gets: one is for the call itself; of what is then left, the first gets half, the second a third, and so on.
    fn lend(&mut self) -> Result<u32, Exception> {
        let Some(left) = self.left.checked_sub(1) else {
            let why =
                "the call has been delegated as often as its hop budget allows; give it more, or look for a circle";
            return Err(Exception::new(names::HOP_BUDGET_EXCEEDED, Fault::Service, why));
        };
        self.delegated = self.delegated.saturating_add(1);
        let lent = left / self.delegated.saturating_add(1);
        self.left = left - lent;
        Ok(lent)
    }
}

impl Context {
    /// Whether the caller reads replies as they arrive, instead of waiting for one answer.
    #[must_use]
    pub const fn reads_replies(&self) -> bool {
        matches!(self.right, Right::Set(_))
    }

    /// Sends a reply and goes on (Quatrain, section 2): at any point, any number of times, in any task or thread that has a clone of this context. The caller's
    /// set ends when the last clone is dropped, so keep no clone longer than it may reply.
    ///
    /// Waits while the caller's reader is behind, until the call's deadline. A caller that made a plain call gets all replies as one list if the function is
    /// one of [`crate::Service::replies`]; else it gets only what the function returns.
    ///
    /// # Errors
    /// `Cancelled` when nobody waits for replies any more: stop then. `LimitExceeded` if the value is too large.
    pub async fn preturn<T: Serialize + ?Sized>(&self, value: &T) -> Result<(), Exception> {
        self.preturn_value(to_value(value)?).await
    }

    /// Like [`Context::preturn`], with an encoded payload.
    ///
    /// # Errors
    /// As [`Context::preturn`].
    pub async fn preturn_value(&self, value: Value) -> Result<(), Exception> {
        match &self.right {
            Right::Set(held) => held.send(value).await.map_err(|why| *why),
            Right::Gathered(gathered) => gathered.add(value),
            Right::Nowhere => Ok(()),
        }
    }

    /// Like [`Context::preturn`], from a thread that may block: never use it in an async task.
    ///
    /// # Errors
    /// As [`Context::preturn`].
    #[allow(clippy::disallowed_methods, reason = "for a thread that may block, as it says")]
    pub fn preturn_blocking<T: Serialize + ?Sized>(&self, value: &T) -> Result<(), Exception> {
        self.shell.runtime().block_on(self.preturn(value))
    }

    /// Batches the replies of this call: at most one message in `wait_us` microseconds, unless `replies` replies or `bytes` bytes fill one earlier. The first
    /// reply never waits, nor does one after a pause. Without this each reply is sent at once, except that replies which follow another within 50 µs are sent
    /// together as soon as they pause.
    pub fn gather(&self, replies: u32, bytes: u32, wait_us: u64) {
        if let Right::Set(held) = &self.right {
            self.shell.core().gather(&held.key, Gather { replies, bytes, wait_us });
        }
    }

    /// Delegates a part of the right to reply: calls `service/function`, wherever that is, whose replies go straight to this call's caller. The end stays
    /// exact: it counts that function's replies, and those of whatever it delegates in turn.
    ///
    /// Returns at once. If nobody takes the call, the caller learns of it as a missing branch; a plain call ends with that exception.
    ///
    /// # Errors
    /// The right is over, the name is not `service/function`, or the call has been delegated too often or too deeply.
    pub fn delegate<T: Serialize + ?Sized>(&self, target: &str, params: &T) -> Result<(), Exception> {
        let (service, function) = split_target(target)?;
        let params = to_value(params)?;
        match &self.right {
            Right::Set(held) => self.shell.delegate(&held.key, service, function, params),
            Right::Gathered(gathered) if gathered.is_over() => Err(over()),
            Right::Gathered(_) | Right::Nowhere => {
                // A plain call has no reply set to which another server could reply, so the replies are gathered here.
                let context = self.clone();
                let options = RunOptions { hops_max: self.lend_hops()?, ..self.options() };
                let replies = self.client().replies_with(target, params, &options)?;
                self.shell.runtime().spawn(async move {
                    let passed_on = context.pass_on(replies).await;
                    if let (Err(why), Right::Gathered(gathered)) = (passed_on, &context.right) {
                        gathered.note_missing(why);
                    }
                });
                Ok(())
            }
        }
    }

    /// Hops for one more delegate of a plain call. Where nobody waits for replies, hops are not shared: each delegate gets what the first would.
    fn lend_hops(&self) -> Result<u32, Exception> {
        match &self.right {
            Right::Gathered(gathered) => lock(&gathered.hops).lend(),
            Right::Set(_) | Right::Nowhere => Hops::new(self.hops_left).lend(),
        }
    }

    /// Forwards each reply of another call as it arrives.
    ///
    /// # Errors
    /// The exception that ended that call without all of its replies; those that arrived have been forwarded.
    pub async fn pass_on(&self, mut replies: ReplySet) -> Result<(), Exception> {
        while let Some(reply) = replies.next().await {
            self.preturn_value(reply?.into_value()).await?;
        }
        Ok(())
    }
}

fn over() -> Exception {
    let why = "nobody waits for the replies to this call: its caller has gone, cancelled or run out of time; stop here";
    Exception::new(names::CANCELLED, Fault::Caller, why)
}

/// Splits `service/function` into its two parts.
pub(crate) fn split_target(target: &str) -> Result<(&str, &str), Exception> {
    let parts = target.rsplit_once('/').filter(|(service, function)| !service.is_empty() && !function.is_empty());
    parts.ok_or_else(|| {
        let message = format!("{target:?} names no function; write service/function");
        Exception::new(names::BAD_PARAMETERS, Fault::Caller, message)
    })
}

/// The values as one list.
pub(crate) fn list_of(values: &[Value]) -> Result<Value, Exception> {
    /// The head of an array whose length is in the following eight bytes (RFC 8949, section 3).
    const ARRAY: u8 = 0x9b;
    let mut bytes = Vec::with_capacity(9 + values.iter().map(Value::len_bytes).sum::<usize>());
    bytes.push(ARRAY);
    bytes.extend_from_slice(&(values.len() as u64).to_be_bytes());
    values.iter().for_each(|value| bytes.extend_from_slice(value.as_bytes()));
    Value::from_cbor(bytes.into()).map_err(|why| {
        let message = format!("the replies cannot be gathered: {why}");
        Exception::new(names::LIMIT_EXCEEDED, Fault::Service, message)
    })
}
