//! What happened in a run, for the invariants to look at.

use std::collections::{BTreeMap, BTreeSet};

use catena_core::CallId;
use catena_wire::{Branch, Budget, ChainId, Exception, LogLine, NodeId, Outcome, StepKey, StepTrace, Value};

use crate::{
    guest::{Params, Who},
    services::Target,
    told::Uncaught,
};

/// A chain as its user sees it.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) run: u64,
    pub(crate) partials: Vec<Value>,
    pub(crate) console: Vec<LogLine>,
    pub(crate) ends: Vec<(Outcome, Vec<String>, Vec<StepTrace>)>,
    /// The last step that it made, as its end tells.
    pub(crate) last_step: u32,
    pub(crate) after_end: usize,
    pub(crate) ended_at_us: u64,
    pub(crate) origin_crashed: bool,
    pub(crate) program: usize,
    pub(crate) cancelled_at_us: Option<u64>,
}

/// One message that was sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) kind: &'static str,
    pub(crate) key: Option<StepKey>,
    pub(crate) budget: Option<Budget>,
    /// Of a sign of life: the branches that its merge host still waits for.
    pub(crate) open: Vec<Branch>,
}

/// Where the service function of one step ran.
#[derive(Debug, Default)]
pub(crate) struct Ran {
    pub(crate) on: BTreeSet<NodeId>,
    pub(crate) run: u64,
    pub(crate) repeatable: bool,
    /// It outlives its node on a disk.
    pub(crate) durable: bool,
    /// How often it did something by itself.
    pub(crate) effects: u32,
}

/// Where one call took effect.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// The hosts, once for each time.
    pub(crate) at: Vec<usize>,
    /// Its function is declared to be neither repeatable nor durable.
    pub(crate) plain: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) chains: BTreeMap<ChainId, Seen>,
    pub(crate) calls: BTreeMap<(usize, CallId), Vec<Result<Value, Exception>>>,
    pub(crate) withdrawn: BTreeSet<(usize, CallId)>,
    /// How often the effect of each call took place, by who called.
    pub(crate) effects: BTreeMap<Params, u32>,
    /// Where that was.
    pub(crate) places: BTreeMap<Params, Places>,
    /// Calls of functions that do something by themselves, and did.
    pub(crate) took: BTreeSet<Params>,
    /// What functions called, by who called.
    pub(crate) issued: BTreeMap<Params, Vec<Target>>,
    /// Calls that do something by themselves, whose results were handed to functions.
    pub(crate) given: BTreeSet<Params>,
    /// Calls of which functions were told that they had failed, and not that this was unknown.
    pub(crate) denied: BTreeMap<Params, Exception>,
    /// What functions threw.
    pub(crate) uncaught: Vec<Uncaught>,
    /// Continuations as they were taken, by whose they are.
    pub(crate) taken: BTreeMap<Who, BTreeSet<Vec<u8>>>,
    /// Plain calls, by what their services are told.
    pub(crate) plain: BTreeMap<(usize, CallId), Params>,
    /// How often each step of a durable function took effect, and at which host.
    pub(crate) durable: BTreeMap<(usize, StepKey, Params), u32>,
    /// Steps of durable functions that were asked for again after a crash; those of them that were answered from the store.
    pub(crate) asked_again: usize,
    pub(crate) answered_from_store: usize,
    /// Where service functions ran for each step of a chain; of what run, and whether that may be done again.
    pub(crate) ran: BTreeMap<StepKey, Ran>,
    /// Intermediate answers of sub-chains, as the services heard them that answered with these.
    pub(crate) heard: BTreeMap<(NodeId, StepKey), Vec<Value>>,
    pub(crate) cancelled: usize,
    pub(crate) sent: Vec<Sent>,
    /// Runs that went on after a hop whose outcome was unknown, or that were done again elsewhere.
    pub(crate) went_on: BTreeSet<u64>,
    /// Runs some part of which caught an exception that came of a fault.
    pub(crate) hurt: BTreeSet<u64>,
    /// Nodes that a cancellation has reached, of a chain that they knew.
    pub(crate) cancels: BTreeSet<(NodeId, ChainId)>,
    pub(crate) known: BTreeSet<(NodeId, ChainId, NodeId)>,
    /// Hosts that did, at some time.
    pub(crate) crashed: BTreeSet<usize>,
    /// What the state machines asked for that they never may.
    pub(crate) violations: Vec<String>,
    pub(crate) resolves: Vec<(String, Vec<NodeId>)>,
    pub(crate) trace: String,
    pub(crate) now_us: u64,
    pub(crate) restless: Option<String>,
    /// Nodes alive at the end that have something under way.
    pub(crate) busy: Vec<String>,
}

impl Record {
    pub(crate) fn count(&self, kind: &str) -> usize {
        self.sent.iter().filter(|sent| sent.kind == kind).count()
    }

    pub(crate) fn paths(&self, kind: &str) -> Vec<(usize, usize)> {
        self.sent.iter().filter(|sent| sent.kind == kind).map(|sent| (sent.from, sent.to)).collect()
    }

    pub(crate) fn only(&self) -> &Seen {
        self.chains.values().next().expect("a chain was begun")
    }
}

impl Seen {
    pub(crate) fn outcome(&self) -> &Outcome {
        &self.ends.first().expect("the chain has ended").0
    }

    pub(crate) fn exception(&self) -> &Exception {
        match self.outcome() {
            Outcome::Threw(why) => why,
            Outcome::Done(value) => panic!("returned {value:?} where an exception was expected"),
        }
    }

    pub(crate) fn returned(&self) -> crate::guest::Returned {
        match self.outcome() {
            Outcome::Done(value) => minicbor::decode(value.as_bytes()).expect("what a program returns"),
            Outcome::Threw(why) => panic!("threw where a result was expected: {why}"),
        }
    }
}
