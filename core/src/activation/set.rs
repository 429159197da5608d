//! A call that is answered many times, as the function that reads its replies has it.

use alloc::{collections::VecDeque, vec::Vec};
use catena_wire::{ChainId, Exception, Fault, OverOf, Value, batch, names};

use crate::Missing;

/// Replies that are handed in together.
const BATCH_REPLIES_MAX: usize = 256;
/// Their bytes, unless it is one reply alone: a function answers with about as much, in one turn.
const BATCH_BYTES_MAX: usize = 64 << 10;
/// Rights whose replies are missing, as a function is told of them.
const MISSING_TOLD_MAX: usize = 64;

/// A set that its function has neither read to the end nor left.
#[derive(Clone, Debug)]
pub(crate) struct OpenSet {
    /// What the node knows it by.
    pub(crate) id: ChainId,
    /// The step at which the call was made.
    pub(crate) step: u32,
    /// The function's number for the wish that is out, if it waits.
    pub(crate) read: Option<u32>,
    /// Hops that were lent to it.
    pub(crate) lent: u32,
    ready: VecDeque<Value>,
    ready_bytes: usize,
    over: Option<Over>,
}

/// How it ended.
#[derive(Clone, Debug)]
pub(crate) struct Over {
    pub(crate) missing: Vec<Missing>,
    /// Why there is less than all.
    pub(crate) why: Option<Exception>,
    /// It could not end; else it ended in time.
    pub(crate) failed: bool,
}

/// What a function is told at once.
pub(crate) struct Batch {
    /// Of so many replies.
    pub(crate) replies: usize,
    /// Nothing more follows.
    pub(crate) last: bool,
    /// `[replies, over]`, as the guest ABI has it.
    pub(crate) told: Result<Value, Exception>,
}

impl OpenSet {
    /// Its function waits for the first replies, under the number that is the set's.
    pub(crate) const fn new(id: ChainId, step: u32, read: u32, lent: u32) -> Self {
        Self { id, step, read: Some(read), lent, ready: VecDeque::new(), ready_bytes: 0, over: None }
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.ready_bytes
    }

    pub(crate) fn push(&mut self, values: Vec<Value>) {
        self.ready_bytes += values.iter().map(Value::len_bytes).sum::<usize>();
        self.ready.extend(values);
    }

    pub(crate) fn end(&mut self, over: Over) {
        self.over = Some(over);
    }

    /// What there is to tell, if there is anything.
    pub(crate) fn take(&mut self) -> Option<Batch> {
        let (mut values, mut bytes) = (Vec::new(), 0);
        while let Some(next) = self.ready.front() {
            let full = values.len() == BATCH_REPLIES_MAX || bytes + next.len_bytes() > BATCH_BYTES_MAX;
            if full && !values.is_empty() {
                break;
            }
            bytes += next.len_bytes();
            values.extend(self.ready.pop_front());
        }
        self.ready_bytes -= bytes;
        let over = self.over.as_ref().filter(|_| self.ready.is_empty());
        if values.is_empty() && over.is_none() {
            return None;
        }
        Some(Batch { replies: values.len(), last: over.is_some(), told: told(&values, over) })
    }
}

fn told(replies: &[Value], over: Option<&Over>) -> Result<Value, Exception> {
    let over = over.map(|Over { missing, why, failed }| {
        let missing = missing.iter().take(MISSING_TOLD_MAX).map(|missing| {
            // What it was called with would be told again with each.
            let why = Exception { params: None, ..missing.why.clone() };
            (missing.target.as_str(), missing.node.as_deref(), why)
        });
        OverOf { missing: missing.collect(), why: why.as_ref(), failed: *failed }
    });
    batch(replies, over).map_err(|_| {
        let message = "a reply is nested deeper than a function can be told, which is two less than a value may be; have the service nest it less, or call it for one answer";
        Exception::new(names::LIMIT_EXCEEDED, Fault::Service, message).outcome_unknown()
    })
}
