//! A reply set, as the function that reads it sees it.

use alloc::{collections::VecDeque, vec::Vec};
use catena_wire::{ChainId, Exception, Fault, OverOf, Value, batch, names};

use crate::Missing;

/// How many replies are handed in together.
const BATCH_REPLIES_MAX: usize = 256;
/// Their bytes, unless a single reply has more: about as many as a function answers with in one turn.
const BATCH_BYTES_MAX: usize = 64 << 10;
/// How many rights with missing replies a function is told of.
const MISSING_TOLD_MAX: usize = 64;

/// A set that its function has neither read to the end nor left.
#[derive(Clone, Debug)]
pub(crate) struct OpenSet {
    /// The node's own name for the set.
    pub(crate) id: ChainId,
    /// The step at which the call was made.
    pub(crate) step: u32,
    /// The function's number for the read that is under way, if there is one.
    pub(crate) read: Option<u32>,
    /// Hops that were lent to it.
    pub(crate) lent: u32,
    ready: VecDeque<Value>,
    ready_bytes: usize,
    over: Option<Over>,
}

/// How a set ended.
#[derive(Clone, Debug)]
pub(crate) struct Over {
    pub(crate) missing: Vec<Missing>,
    /// Why replies are missing.
    pub(crate) why: Option<Exception>,
    /// It did not reach its exact end in time.
    pub(crate) failed: bool,
}

/// Replies that are handed to a function together.
pub(crate) struct Batch {
    /// How many replies there are.
    pub(crate) replies: usize,
    /// Nothing more follows.
    pub(crate) last: bool,
    /// The function is told that what was asked for may have been done, and may not.
    pub(crate) unknown: bool,
    /// `[replies, over]`, as the guest ABI defines it.
    pub(crate) outcome: Result<Value, Exception>,
}

impl OpenSet {
    /// A new set: its function waits for the first replies, under the set's own number.
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

    /// The next batch, if there is anything to tell.
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
        let unknown = over.is_some_and(|over| {
            let missing = over.missing.iter().map(|missing| &missing.why);
            over.why.iter().chain(missing).any(|why| why.unknown)
        });
        Some(Batch { replies: values.len(), last: over.is_some(), unknown, outcome: outcome(&values, over) })
    }
}

fn outcome(replies: &[Value], over: Option<&Over>) -> Result<Value, Exception> {
    let over = over.map(|Over { missing, why, failed }| {
        let missing = missing.iter().take(MISSING_TOLD_MAX).map(|missing| {
            // The parameters are left out: they would be repeated for each missing right.
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
