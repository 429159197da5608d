//! One function being run: begun or resumed here, run from event to event, then suspended or ended.

use std::sync::Arc;

use bytes::Bytes;
use catena_wire::{Exception, GuestCall, GuestRead, GuestSplit, StepLimits, Value};

use crate::{
    abi::{self, GuestEnd, Outbox, Start},
    error::{Stop, session_over},
    explicit::Explicit,
    image::Image,
    instance::To,
    limits::Limits,
    ready::Ready,
    sandbox::Inner,
};

/// What a function emitted in one turn. Without an end and without unsettled calls it can never go on; its chain then ends with `Stalled`, which only the
/// sandbox's caller can detect, since it keeps track of the calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turn {
    /// Calls made in this turn, to be settled in any order.
    pub calls: Vec<GuestCall>,
    /// Answers for the origin, to be sent at once.
    pub emits: Vec<Value>,
    /// Lines for the chain's console.
    pub logs: Vec<String>,
    /// Splits asked for in this turn.
    pub splits: Vec<GuestSplit>,
    /// Calls that are answered many times. Each one's number is that of its set, and it is settled with the first replies.
    pub asks: Vec<GuestCall>,
    /// Requests for further replies of such sets.
    pub reads: Vec<GuestRead>,
    /// Sets from which nothing more is wanted; a pending read of one is not settled.
    pub leaves: Vec<u32>,
    /// The function's result or exception, once it has ended.
    pub end: Option<Result<Value, Exception>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Waits for an event.
    Idle,
    /// Ended by itself: its instance can be reset.
    Ended,
    /// Its continuation was taken: its instance can be reset from the differences found then.
    Suspended,
    /// In the middle of a step, or abandoned there: its instance can only be dropped.
    Broken,
}

/// A function that runs here. Dropping it at any point frees what it holds; abandoning a step half-way ends it.
pub struct Session {
    sandbox: Arc<Inner>,
    ready: Option<Box<Ready>>,
    phase: Phase,
    /// For functions with explicit state.
    explicit: Option<Explicit>,
    limits: Limits,
}

impl Session {
    pub(crate) fn new(sandbox: Arc<Inner>, ready: Box<Ready>) -> Self {
        let limits = sandbox.runtime.limits.clone();
        Self { sandbox, ready: Some(ready), phase: Phase::Idle, explicit: None, limits }
    }

    /// Lowers what the function may use at each step.
    ///
    /// # Errors
    /// `LimitExceeded`: it already uses more memory than that.
    pub fn lower(&mut self, by: &StepLimits) -> Result<(), Exception> {
        self.limits = self.limits.lowered_by(by);
        match self.ready.as_mut().is_none_or(|ready| ready.limit(&self.limits)) {
            true => Ok(()),
            false => Err(Stop::limit("memory_bytes_max").into_exception(&self.limits)),
        }
    }

    pub(crate) fn resumed_explicit(mut self, explicit: Explicit) -> Self {
        self.explicit = Some(explicit);
        self
    }

    /// The image that it runs.
    #[must_use]
    pub fn image(&self) -> Option<&Arc<Image>> {
        self.ready.as_ref().map(|ready| &ready.image)
    }

    /// Begins the function.
    ///
    /// # Errors
    /// `LimitExceeded`, or the guest trapped or broke the ABI: the session is then over. [`SESSION_OVER`](crate::SESSION_OVER) if it was over before.
    pub async fn start(&mut self, input: &Value, start: Start) -> Result<Turn, Exception> {
        let output_bytes_max = self.limits.output_bytes_max;
        let ready = self.ready.as_mut().ok_or_else(session_over)?;
        if ready.image.is_explicit() {
            self.explicit = Some(Explicit::new(start));
            abi::put_step(&mut ready.event, None, Ok(input), start, output_bytes_max);
            self.turn(To::Step).await
        } else {
            abi::put_start(&mut ready.event, input, start, output_bytes_max);
            self.turn(To::Start).await
        }
    }

    /// Settles a call, by its number, with its outcome.
    ///
    /// # Errors
    /// As [`Session::start`].
    pub async fn settle(&mut self, call: u32, result: Result<&Value, &Exception>) -> Result<Turn, Exception> {
        let output_bytes_max = self.limits.output_bytes_max;
        let ready = self.ready.as_mut().ok_or_else(session_over)?;
        let Some(explicit) = &self.explicit else {
            abi::put_resume(&mut ready.event, call, result, output_bytes_max);
            return self.turn(To::Resume).await;
        };
        let state = explicit.awaited(call).ok_or_else(session_over)?;
        abi::put_step(&mut ready.event, Some(state), result, explicit.start, output_bytes_max);
        // Each step begins from the image, wherever the last step was done.
        if self.phase == Phase::Idle && !ready.reset(&self.sandbox.runtime) {
            let event = std::mem::take(&mut ready.event);
            let (image, place) = (Arc::clone(&ready.image), ready.set_place(None));
            self.ready = None;
            let mut fresh = self.sandbox.kept_or_new(&image, place)?;
            fresh.limit(&self.limits);
            fresh.event = event;
            self.ready = Some(fresh);
        }
        self.turn(To::Step).await
    }

    /// Begins one branch of a split, by the split's number: this session continues as that branch only (rpc-chains section 3.10).
    ///
    /// # Errors
    /// As [`Session::start`]; functions with explicit state cannot split.
    pub async fn branch(&mut self, call: u32, index: u16) -> Result<Turn, Exception> {
        let output_bytes_max = self.limits.output_bytes_max;
        let ready = self.ready.as_mut().filter(|_| self.explicit.is_none()).ok_or_else(session_over)?;
        abi::put_branch(&mut ready.event, call, index, output_bytes_max);
        self.turn(To::Resume).await
    }

    /// One event in, one outbox out.
    async fn turn(&mut self, to: To) -> Result<Turn, Exception> {
        let ready = self.ready.as_mut().ok_or_else(session_over)?;
        if std::mem::replace(&mut self.phase, Phase::Broken) != Phase::Idle {
            return Err(session_over());
        }
        let outbox = ready.deliver(&self.limits, to).await.and_then(|outbox| self.read(outbox));
        let turn = outbox.and_then(|turn| self.charged(turn)).map_err(|stop| {
            self.sandbox.count_stop();
            stop.into_exception(&self.limits)
        })?;
        self.phase = if turn.end.is_some() { Phase::Ended } else { Phase::Idle };
        Ok(turn)
    }

    /// The turn, once there is room for what the guest keeps while it waits.
    fn charged(&mut self, turn: Turn) -> Result<Turn, Stop> {
        match self.ready.as_mut().filter(|_| turn.end.is_none()) {
            Some(ready) => ready.charge(&self.sandbox.runtime).map(|()| turn),
            None => Ok(turn),
        }
    }

    fn read(&mut self, outbox: Outbox) -> Result<Turn, Stop> {
        let mut turn = Turn {
            calls: outbox.calls,
            emits: outbox.emits,
            logs: outbox.logs,
            splits: outbox.splits,
            asks: outbox.asks,
            reads: outbox.reads,
            leaves: outbox.leaves,
            end: match outbox.end {
                None => None,
                Some(GuestEnd::Done(value)) => Some(Ok(value)),
                Some(GuestEnd::Threw(exception)) => Some(Err(*exception)),
                // A limit has been turned into an error before.
                Some(GuestEnd::Limit { limit, .. }) => return Err(Stop::limit(&limit)),
                Some(GuestEnd::Loaded) => return Err(Stop::abi("it loads when it should run")),
            },
        };
        match (&mut self.explicit, outbox.state) {
            (None, None) => {}
            (None, Some(_)) => {
                return Err(Stop::abi("it hands its state over, and exports no catena_step"));
            }
            (Some(explicit), state) => explicit.take_turn(&mut turn, state)?,
        }
        Ok(turn)
    }

    /// Takes the continuation, which ends the session. The instance is reset when the session is dropped, so that the continuation can be sent before. Ready at
    /// the first poll unless the function has changed much memory.
    ///
    /// # Errors
    /// `LimitExceeded` if the continuation is too large; [`SESSION_OVER`](crate::SESSION_OVER) if there is none.
    pub async fn suspend(&mut self) -> Result<Bytes, Exception> {
        let phase = std::mem::replace(&mut self.phase, Phase::Broken);
        let ready = self.ready.as_mut().filter(|_| phase == Phase::Idle).ok_or_else(session_over)?;
        if ready.image.is_explicit() {
            self.phase = Phase::Ended;
            let continuation = self.explicit.take().and_then(|explicit| explicit.encode(ready.image.digest));
            let continuation = continuation.ok_or_else(session_over)?;
            return match continuation.len() > self.limits.continuation_bytes_max as usize {
                true => Err(Stop::limit("continuation_bytes_max").into_exception(&self.limits)),
                false => Ok(continuation),
            };
        }
        let taken = ready.continuation(&self.sandbox.runtime, &self.limits).await;
        let continuation = taken.map_err(|stop| stop.into_exception(&self.limits))?;
        self.phase = Phase::Suspended;
        Ok(continuation)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let Some(mut ready) = self.ready.take() else { return };
        let clean = match self.phase {
            Phase::Idle | Phase::Ended => ready.reset(&self.sandbox.runtime),
            Phase::Suspended => ready.reset_compared(),
            Phase::Broken => false,
        };
        if clean {
            self.sandbox.keep(ready);
        }
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("image", &self.image()).finish_non_exhaustive()
    }
}
