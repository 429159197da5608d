//! How a service function replies: the right to do so is a value that clones and drops (Quatrain, sections 2 and 3.2).
//!
//! The paper counts threads and replies by hand, in pairs of operations that no thread may forget. Here every task or thread that may
//! still reply has a clone of the [`Context`], or it could not reply; and no clone can be forgotten, since its owner's end drops it. The last
//! drop is the end.

mod bursts;
mod counted;
mod ground;
mod mistake;

use std::sync::{Arc, Mutex};

pub(crate) use bursts::Bursts;
use catena_core::{Gather, NotSent};
use catena_wire::{Exception, Fault, StepKey, Value, names};
pub(crate) use counted::Counted;
use counted::Ends;
use serde::Serialize;
use tokio::{
    runtime::Handle,
    sync::{Notify, oneshot},
};

use crate::{
    Context, ReplySet, RunOptions,
    shell::{Shell, lock},
    value::to_value,
};

/// Where replies go.
#[derive(Clone)]
pub(crate) enum Right {
    /// To the reply set of whoever called, or whose call was delegated here.
    Set(Counted<Held>),
    /// Into the one result of a plain call.
    Gathered(Counted<Gathered>),
    /// The caller waits for what the function returns, and nothing else.
    Nowhere,
}

impl Right {
    /// One for whoever runs the function that has it: what the function returns is a reply too.
    pub(crate) fn beside(&self) -> Self {
        match self {
            Self::Set(held) => Self::Set(held.clone()),
            // It ends with the last that may reply: whoever runs the function waits for that.
            Self::Gathered(_) | Self::Nowhere => Self::Nowhere,
        }
    }
}

/// A right to reply, whose end is told when nobody has it any more.
pub(crate) struct Held {
    shell: Arc<Shell>,
    key: StepKey,
    /// There may be room again, or the right is over.
    changed: Arc<Notify>,
}

impl Held {
    pub(crate) const fn new(shell: Arc<Shell>, key: StepKey, changed: Arc<Notify>) -> Self {
        Self { shell, key, changed }
    }

    /// Waits while the caller's reader is behind.
    async fn send(&self, mut value: Value) -> Result<(), Box<Exception>> {
        while let Some(back) = self.try_send(value)? {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            // There may be room since.
            let Some(back) = self.try_send(back)? else { return Ok(()) };
            changed.await;
            value = back;
        }
        Ok(())
    }

    /// Here it is again if the caller's reader is behind.
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
        while_running(self.shell.runtime(), move || shell.let_go(&key));
    }
}

/// Says it by a task. A runtime that is shut down drops tasks that had more to say, and those that a function starts by then; and it takes no more. So nobody is told
/// that this was all, and the caller finds that the node is lost.
fn while_running(runtime: &Handle, say: impl FnOnce() + Send + 'static) {
    runtime.spawn(async move { say() });
}

/// All replies to a plain call; or why some are missing.
pub(crate) type Complete = Result<Vec<Value>, Exception>;

/// What is gathered for a plain call, until the last that may reply has gone.
pub(crate) struct Gathered {
    runtime: Handle,
    replies: Mutex<Complete>,
    done: Mutex<Option<oneshot::Sender<Complete>>>,
    hops: Mutex<Hops>,
}

/// Bytes that one plain call may gather.
const GATHERED_BYTES_MAX: usize = 16 << 20;

impl Gathered {
    pub(crate) fn new(runtime: Handle, hops_left: u32) -> (Self, oneshot::Receiver<Complete>) {
        let (done, all) = oneshot::channel();
        let (replies, hops) = (Mutex::new(Ok(Vec::new())), Mutex::new(Hops::new(hops_left)));
        (Self { runtime, replies, done: Mutex::new(Some(done)), hops }, all)
    }

    /// Whether nobody waits for them any more.
    fn is_over(&self) -> bool {
        lock(&self.done).as_ref().is_none_or(oneshot::Sender::is_closed)
    }

    fn add(&self, value: Value) -> Result<(), Exception> {
        if self.is_over() {
            return Err(over());
        }
        let mut replies = lock(&self.replies);
        // Some are missing: the caller is told that, and gets none.
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

    /// Whoever was to reply does not. The first reason is the one that is told.
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
        while_running(&self.runtime, move || {
            let _ = done.send(replies);
        });
    }
}

/// The hops of a call that has no right to hand on, for what it delegates all the same.
struct Hops {
    left: u32,
    delegated: u32,
}

impl Hops {
    const fn new(left: u32) -> Self {
        Self { left, delegated: 0 }
    }

    /// As many as a right lends that is delegated: one is the call itself, and of the others the first gets half, the second a third, and so on.
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
    /// Whether the caller reads replies as they come; else it waits for one answer.
    #[must_use]
    pub const fn reads_replies(&self) -> bool {
        matches!(self.right, Right::Set(_))
    }

    /// Replies with a value and goes on (Quatrain, section 2): at any position, any number of times, in any task or thread that has a clone of
    /// this context. The caller's set ends when the last clone is gone, so keep none for longer than it may reply.
    ///
    /// It waits while the caller's reader is behind, until the call's time is out. A caller that made a plain call gets what is replied
    /// as one list if the function is one of [`crate::Service::replies`]; else only what the function returns.
    ///
    /// # Errors
    /// `Cancelled` when nobody waits for replies any more: stop then. `LimitExceeded` if the value is too large.
    pub async fn preturn<T: Serialize + ?Sized>(&self, value: &T) -> Result<(), Exception> {
        self.preturn_value(to_value(value)?).await
    }

    /// Replies with a payload as it is.
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

    /// Replies from a thread of its own that may block: not from a task.
    ///
    /// # Errors
    /// As [`Context::preturn`].
    #[allow(clippy::disallowed_methods, reason = "for a thread that may block, as it says")]
    pub fn preturn_blocking<T: Serialize + ?Sized>(&self, value: &T) -> Result<(), Exception> {
        self.shell.runtime().block_on(self.preturn(value))
    }

    /// Has the replies of this call sent together: one message in so many microseconds, unless so many, or so many bytes of them, fill one
    /// before. So the first reply never waits, nor does one after a pause. Without this each is sent at once, but for those which follow another
    /// within 50 µs: these go together as soon as they pause.
    pub fn gather(&self, replies: u32, bytes: u32, wait_us: u64) {
        if let Right::Set(held) = &self.right {
            self.shell.core().gather(&held.key, Gather { replies, bytes, wait_us });
        }
    }

    /// Hands a part of the right to reply on: calls `service/function`, wherever that is, and what it replies goes straight to this call's
    /// caller. The exact end still holds: it counts that function's replies, and those of whatever it delegates in turn.
    ///
    /// This returns at once. That nobody takes the call is told to the caller, as a branch that is missing; a plain call throws that.
    ///
    /// # Errors
    /// The right is over, the name is not `service/function`, or the call has been delegated too often or too deep.
    pub fn delegate<T: Serialize + ?Sized>(&self, target: &str, params: &T) -> Result<(), Exception> {
        let (service, function) = split_target(target)?;
        let params = to_value(params)?;
        match &self.right {
            Right::Set(held) => self.shell.delegate(&held.key, service, function, params),
            Right::Gathered(gathered) if gathered.is_over() => Err(over()),
            Right::Gathered(_) | Right::Nowhere => {
                // There is no set that another server could reply to: they are gathered here.
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

    /// Hops for one more delegate of a plain call. Where nobody waits for replies nothing is shared: each gets what the first would.
    fn lend_hops(&self) -> Result<u32, Exception> {
        match &self.right {
            Right::Gathered(gathered) => lock(&gathered.hops).lend(),
            Right::Set(_) | Right::Nowhere => Hops::new(self.hops_left).lend(),
        }
    }

    /// Passes each reply of another call on as it comes.
    ///
    /// # Errors
    /// What ended that call without all of its replies; those that came have been passed on.
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

/// The two parts of `service/function`.
pub(crate) fn split_target(target: &str) -> Result<(&str, &str), Exception> {
    let parts = target.rsplit_once('/').filter(|(service, function)| !service.is_empty() && !function.is_empty());
    parts.ok_or_else(|| {
        let message = format!("{target:?} names no function; write service/function");
        Exception::new(names::BAD_PARAMETERS, Fault::Caller, message)
    })
}

/// All of them in one list.
pub(crate) fn list_of(values: &[Value]) -> Result<Value, Exception> {
    /// Begins an array whose length is in the eight bytes that follow (RFC 8949, section 3).
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
