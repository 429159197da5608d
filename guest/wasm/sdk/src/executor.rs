//! Runs the function's future from event to event.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use minicbor::{Decode, Decoder, Encode, Encoder, data::Type, decode};

use crate::{Exception, Raw, io, last_words};

/// How a function, a branch, a call or a split ended.
pub(crate) type Outcome = Result<Raw, Exception>;
/// A function under way, or one branch of it.
pub(crate) type Running = Pin<Box<dyn Future<Output = Outcome>>>;

#[derive(Default)]
struct State {
    function: Option<Running>,
    /// Calls and splits made so far.
    calls: u32,
    pending: BTreeMap<u32, Pending>,
    /// Of the splits under way, by their numbers.
    branches: Vec<(u32, Vec<Running>)>,
    /// Nothing that is said now is heard.
    silent: bool,
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

impl State {
    fn take_branches(&mut self, number: u32) -> Option<Vec<Running>> {
        let at = self.branches.iter().position(|(split, _)| *split == number)?;
        Some(self.branches.swap_remove(at).1)
    }
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

/// Says that nothing more of a reply set is wanted.
pub(crate) fn leave(set: u32) {
    push(|e| {
        let _ = e.array(2).and_then(|e| e.u8(11)?.u32(set));
    });
}

/// Says that a call or a split goes out, by the number that `put` is given; what comes of it is waited for.
pub(crate) fn issue(put: impl FnOnce(&mut Encoder<&mut Vec<u8>>, u32)) -> Wait {
    let number = STATE.with_borrow_mut(|state| {
        let number = state.calls;
        state.calls += 1;
        state.pending.insert(number, Pending::Waiting(None));
        number
    });
    push(|e| put(e, number));
    Wait(number)
}

/// As [`issue`], for a split. The host says in which copy of the function which branch begins.
pub(crate) fn issue_split(branches: Vec<Running>, put: impl FnOnce(&mut Encoder<&mut Vec<u8>>, u32)) -> Wait {
    let wait = issue(put);
    STATE.with_borrow_mut(|state| state.branches.push((wait.0, branches)));
    wait
}

/// Waits for what comes of a call or a split.
pub(crate) struct Wait(u32);

impl Wait {
    /// Of the call or split.
    pub(crate) const fn number(&self) -> u32 {
        self.0
    }
}

impl Future for Wait {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let settled = STATE.with_borrow_mut(|state| match state.pending.get_mut(&self.0) {
            Some(Pending::Waiting(waker)) => {
                *waker = Some(cx.waker().clone());
                None
            }
            _ => state.pending.remove(&self.0),
        });
        match settled {
            Some(Pending::Settled(outcome)) => Poll::Ready(outcome),
            _ => Poll::Pending,
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        // Its outcome is wanted by no one.
        STATE.with_borrow_mut(|state| state.pending.remove(&self.0));
    }
}

fn push(put: impl FnOnce(&mut Encoder<&mut Vec<u8>>)) {
    STATE.with_borrow_mut(|state| {
        if !state.silent {
            put(&mut Encoder::new(&mut state.events));
            state.events_count += 1;
        }
    });
}

/// `catena_start`.
pub fn start<I, O, F>(length: u32, function: fn(I) -> F) -> u64
where
    I: for<'b> Decode<'b, ()>,
    O: Encode<()>,
    F: Future<Output = Result<O, Exception>> + 'static,
{
    last_words::listen();
    let event = io::event(length);
    let mut d = Decoder::new(&event);
    let started = (|| {
        d.array()?;
        let input: Raw = d.decode()?;
        Ok::<_, decode::Error>((input, d.u64()?, d.u64()?))
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
    let _ = deliver(&mut d);
    run()
}

fn deliver(d: &mut Decoder<'_>) -> Result<(), decode::Error> {
    d.array()?;
    let number = d.u32()?;
    if d.datatype()? == Type::Null {
        d.null()?;
        begin_branch(number, d.u32()?);
    } else {
        let outcome = if d.bool()? { Ok(d.decode::<Raw>()?) } else { Err(d.decode::<Exception>()?) };
        settle(number, outcome);
    }
    Ok(())
}

fn settle(number: u32, outcome: Outcome) {
    let split = outcome.is_ok();
    let (waker, branches) = STATE.with_borrow_mut(|state| {
        // A call that nobody waits for any more has no entry.
        let waker = state.pending.get_mut(&number).and_then(|pending| {
            match std::mem::replace(pending, Pending::Settled(outcome)) {
                Pending::Waiting(waker) => waker,
                Pending::Settled(_) => None,
            }
        });
        (waker, state.take_branches(number))
    });
    // What the branches hold was theirs, in their copies, unless the split could not be made.
    if split {
        forget(branches)
    } else {
        drop(branches)
    }
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// In this copy of the function only one branch of its split goes on: what that returns is the end.
fn begin_branch(number: u32, index: u32) {
    let (parent, mut branches) = STATE.with_borrow_mut(|state| {
        state.seed = branch_seed(state.seed, number, index);
        (state.function.take(), state.take_branches(number).unwrap_or_default())
    });
    let index = index as usize;
    let branch = (index < branches.len()).then(|| branches.swap_remove(index));
    // The function goes on elsewhere, and so do the other branches: none of their memory is to travel with this one. With the
    // function goes what it waits for; results that came before stay with whatever here awaits them.
    forget((parent, branches));
    if branch.is_none() {
        finish(Err(Exception::new("BadState", "that was no split, or it has no such branch")));
    }
    STATE.with_borrow_mut(|state| state.function = branch);
}

/// Drops what goes on in another copy of the function: there its destructors have their say, and not here.
fn forget<T>(theirs: T) {
    STATE.with_borrow_mut(|state| state.silent = true);
    drop(theirs);
    STATE.with_borrow_mut(|state| state.silent = false);
}

/// Another seed for each branch of each split, for branches within branches, whose indices do not change places, and than that of
/// the function that split; the same if it is done again (SplitMix64: public domain, Vigna 2015).
fn branch_seed(seed: u64, split: u32, index: u32) -> u64 {
    [split, index].into_iter().fold(seed, |seed, number| {
        let z = seed.wrapping_add((u64::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
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
