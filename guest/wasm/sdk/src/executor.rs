//! Runs the function's future from event to event.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    future::Future,
    marker::PhantomData,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use minicbor::{Decode, Decoder, Encode, Encoder};

use crate::{Exception, Raw, io, split_target};

type Outcome = Result<Raw, Exception>;

#[derive(Default)]
struct State {
    function: Option<Pin<Box<dyn Future<Output = Outcome>>>>,
    calls: u32,
    pending: BTreeMap<u32, Pending>,
    /// Events of this turn, encoded one after the other.
    events: Vec<u8>,
    events_count: u64,
    started_at_ms: u64,
    seed: u64,
}

enum Pending {
    Waiting(Option<Waker>),
    Settled(Outcome),
}

thread_local! {
    static STATE: RefCell<State> = RefCell::new(State::default());
}

/// The chain's start, in milliseconds since the Unix epoch: the only clock there is.
#[must_use]
pub fn started_at_ms() -> u64 {
    STATE.with_borrow(|state| state.started_at_ms)
}

/// 64 bits derived from the chain's id: the only randomness there is.
#[must_use]
pub fn seed() -> u64 {
    STATE.with_borrow(|state| state.seed)
}

/// Sends an intermediate answer to the chain's origin.
pub fn emit<T: Encode<()>>(value: &T) {
    push(|e| {
        let _ = e.array(2).and_then(|e| e.u8(3)).and_then(|e| e.encode(value));
    });
}

/// Writes a line to the chain's console.
pub fn log(text: &str) {
    push(|e| {
        let _ = e.array(2).and_then(|e| e.u8(4)).and_then(|e| e.str(text));
    });
}

/// Calls `service/function`. The call goes out when this is called, and its result is there when it is awaited.
pub fn call<T: for<'b> Decode<'b, ()>>(target: &str, params: &impl Encode<()>) -> Call<T> {
    let (service, function) = split_target(target);
    let number = STATE.with_borrow_mut(|state| {
        let number = state.calls;
        state.calls += 1;
        state.pending.insert(number, Pending::Waiting(None));
        number
    });
    push(|e| {
        // Writing to memory cannot fail.
        let _ = e
            .array(7)
            .and_then(|e| e.u8(0)?.u32(number)?.str(service)?.str(function))
            .and_then(|e| e.encode(params)?.u32(0)?.u32(0));
    });
    Call { number, result: PhantomData }
}

/// A call under way.
pub struct Call<T> {
    number: u32,
    result: PhantomData<fn() -> T>,
}

impl<T: for<'b> Decode<'b, ()>> Future for Call<T> {
    type Output = Result<T, Exception>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let settled = STATE.with_borrow_mut(|state| match state.pending.get_mut(&self.number) {
            Some(Pending::Waiting(waker)) => {
                *waker = Some(cx.waker().clone());
                None
            }
            _ => state.pending.remove(&self.number),
        });
        match settled {
            Some(Pending::Settled(Ok(value))) => {
                Poll::Ready(value.get().map_err(|error| Exception::bad_value("the call's result", &error)))
            }
            Some(Pending::Settled(Err(exception))) => Poll::Ready(Err(exception)),
            _ => Poll::Pending,
        }
    }
}

impl<T> Drop for Call<T> {
    fn drop(&mut self) {
        // Its result is wanted by no one.
        STATE.with_borrow_mut(|state| state.pending.remove(&self.number));
    }
}

fn push(put: impl FnOnce(&mut Encoder<&mut Vec<u8>>)) {
    STATE.with_borrow_mut(|state| {
        put(&mut Encoder::new(&mut state.events));
        state.events_count += 1;
    });
}

/// `catena_start`.
pub fn start<I, O, F>(length: u32, function: fn(I) -> F) -> u64
where
    I: for<'b> Decode<'b, ()>,
    O: Encode<()>,
    F: Future<Output = Result<O, Exception>> + 'static,
{
    let event = io::event(length);
    let mut d = Decoder::new(&event);
    let started = (|| {
        d.array()?;
        let input: Raw = d.decode()?;
        Ok::<_, minicbor::decode::Error>((input, d.u64()?, d.u64()?))
    })();
    let input = started.and_then(|(input, started_at_ms, seed)| {
        STATE.with_borrow_mut(|state| {
            state.started_at_ms = started_at_ms;
            state.seed = seed;
        });
        input.get()
    });
    match input {
        Ok(input) => {
            let future = function(input);
            let future = async move { future.await.map(|output| Raw::new(&output)) };
            STATE.with_borrow_mut(|state| state.function = Some(Box::pin(future)));
            run()
        }
        Err(error) => {
            let exception = Exception::bad_value("the function's input", &error);
            finish(Err(exception));
            flush()
        }
    }
}

/// `catena_resume`.
pub fn resume(length: u32) -> u64 {
    let event = io::event(length);
    let mut d = Decoder::new(&event);
    let settled = (|| {
        d.array()?;
        let number = d.u32()?;
        let outcome = if d.bool()? { Ok(d.decode::<Raw>()?) } else { Err(d.decode::<Exception>()?) };
        Ok::<_, minicbor::decode::Error>((number, outcome))
    })();
    if let Ok((number, outcome)) = settled {
        let waker = STATE.with_borrow_mut(|state| {
            // A call that nobody waits for any more has no entry.
            let pending = state.pending.get_mut(&number)?;
            match std::mem::replace(pending, Pending::Settled(outcome)) {
                Pending::Waiting(waker) => waker,
                Pending::Settled(_) => None,
            }
        });
        if let Some(waker) = waker {
            waker.wake();
        }
    }
    run()
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Polls the function until it waits for something from outside.
fn run() -> u64 {
    let woken = Arc::new(Woken(AtomicBool::new(true)));
    let waker = Waker::from(Arc::clone(&woken));
    let mut cx = Context::from_waker(&waker);
    let mut function = STATE.with_borrow_mut(|state| state.function.take());
    while woken.0.swap(false, Ordering::Relaxed) {
        let Some(future) = &mut function else { break };
        if let Poll::Ready(outcome) = future.as_mut().poll(&mut cx) {
            function = None;
            finish(outcome);
        }
    }
    STATE.with_borrow_mut(|state| state.function = function);
    flush()
}

fn finish(outcome: Outcome) {
    push(|e| {
        let _ = match outcome {
            Ok(value) => e.array(2).and_then(|e| e.u8(1)?.encode(value)).map(drop),
            Err(exception) => e.array(2).and_then(|e| e.u8(2)?.encode(exception)).map(drop),
        };
    });
}

/// Makes this turn's events the outbox.
fn flush() -> u64 {
    STATE.with_borrow_mut(|state| {
        let mut outbox = Vec::with_capacity(state.events.len() + 9);
        let _ = Encoder::new(&mut outbox).array(state.events_count).map(drop);
        outbox.extend_from_slice(&state.events);
        state.events = Vec::new();
        state.events_count = 0;
        io::outbox(outbox)
    })
}
