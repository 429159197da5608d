//! Plain remote calls, both ways, and service functions running here.

use alloc::{
    boxed::Box,
    collections::BTreeMap,
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};
use catena_wire::{Brought, Budget, Exception, Fault, LogLine, NodeId, NodeRef, StepKey, Value};

use crate::{CallId, SessionId, Ticket, Time, action::Again, activation::Cargo, redoing::Mark, timers::Timers};

/// Who waits for the result of a call.
#[derive(Clone, Debug)]
pub(crate) enum Asker {
    /// A chain that came here to make it.
    Landing(SessionId),
    /// A chain that stays where it is: the guest's number for the call, and the step that it is.
    Guest { session: SessionId, call: u32, step: u32 },
    /// Another node, by a plain call with its own number.
    Peer { to: Arc<NodeRef>, id: u64 },
    /// Chains elsewhere, by a call whose result is remembered under this step.
    Step(StepKey),
    /// A user of this node.
    Api(CallId),
    /// Nobody: the function ended without awaiting it.
    Nobody,
}

/// A call on its way to wherever its service is.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) asker: Asker,
    pub(crate) service: String,
    pub(crate) function: String,
    pub(crate) params: Value,
    pub(crate) budget: Budget,
    /// When `budget` was right: waiting for a name costs time too.
    pub(crate) budget_at: Time,
    /// The step of a chain that it is.
    pub(crate) key: Option<StepKey>,
    /// On whose behalf.
    pub(crate) credentials: Option<Value>,
    /// A step before, of the chain that calls, was done again.
    pub(crate) redone: Option<Box<Mark>>,
    /// Sendings so far to the node that is asked.
    pub(crate) attempts: u8,
    /// Where it may be done again when it is unknown whether it was done.
    pub(crate) again: Again,
    /// Hops that the caller lent and that this node's policy does not let it spend.
    pub(crate) hops_withheld: u32,
    /// What the service function took, once it has ended here.
    pub(crate) service_us: u64,
    /// What chains have logged that ran apart to answer it.
    pub(crate) console: Vec<LogLine>,
    /// Instances of the service that did not do it.
    pub(crate) missed: Option<Box<Missed>>,
}

/// Instances of a service that a call did not get through to.
#[derive(Clone, Debug)]
pub(crate) struct Missed {
    pub(crate) nodes: Vec<NodeId>,
    /// It may have been done by the node of this name: no other may try.
    pub(crate) bound_to: Option<String>,
    /// What came of the first of them.
    pub(crate) why: Exception,
}

impl Request {
    /// A call that has not been sent to anybody.
    pub(crate) fn new(
        asker: Asker,
        service: String,
        function: String,
        params: Value,
        now: Time,
        budget: Budget,
    ) -> Self {
        Self {
            asker,
            service,
            function,
            params,
            budget,
            budget_at: now,
            key: None,
            credentials: None,
            redone: None,
            attempts: 0,
            again: Again::Nowhere,
            hops_withheld: 0,
            service_us: 0,
            console: Vec::new(),
            missed: None,
        }
    }

    /// What is left of its hops when it has come to this, and nobody said: a call that may have taken effect may have spent
    /// them all, any other has spent none.
    pub(crate) fn hops_after(&self, result: &Result<Value, Exception>) -> u32 {
        match result {
            Err(why) if why.unknown => 0,
            _ => self.budget.hops_left(),
        }
    }

    /// What it brings back beside its result, if so many of its hops are left.
    pub(crate) fn brings(&mut self, hops_left: u32) -> Brought {
        let hops_left = hops_left.saturating_add(self.hops_withheld);
        Brought { hops_left, service_us: self.service_us, console: core::mem::take(&mut self.console) }
    }

    /// That nothing was done at this instance does not tell what was done at one before.
    pub(crate) fn after_those_missed(&self, why: Exception) -> Exception {
        match self.missed.as_deref() {
            Some(missed) if missed.why.unknown && why.fault == Fault::Service => why.outcome_unknown(),
            Some(missed) if missed.why.unknown => missed.why.clone(),
            _ => why,
        }
    }

    /// What the call may still spend now.
    pub(crate) fn budget_now(&self, now: Time) -> Budget {
        self.budget.after(now.since(self.budget_at))
    }
}

/// What waits for a name to be resolved.
#[derive(Clone, Debug)]
pub(crate) enum Unresolved {
    Plain(Request),
    Hop {
        session: SessionId,
        cargo: Cargo,
    },
    /// A hop in custody that its first node did not take.
    Again {
        session: SessionId,
        step: u32,
    },
}

/// A plain call that another node has been asked to do.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) request: Request,
    pub(crate) to: Arc<NodeRef>,
}

impl Missed {
    /// Whether this node may try.
    pub(crate) fn allows(&self, node: &NodeRef) -> bool {
        let bound_elsewhere = self.bound_to.as_ref().is_some_and(|name| *name != node.name);
        !bound_elsewhere && !self.nodes.contains(&node.id)
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Calls {
    next: u64,
    waiting: BTreeMap<u64, Waiting>,
    timers: Timers<u64>,
    /// Without their parameters.
    running: BTreeMap<Ticket, Request>,
    /// Chains that services of this node answered with and that run on their own, by their number: whom they answer.
    apart: BTreeMap<u64, Apart>,
    resolving: BTreeMap<String, Aside>,
    /// How many wait in `resolving`.
    aside: usize,
}

/// What waits for one name.
#[derive(Clone, Debug, Default)]
struct Aside {
    waiting: Vec<Unresolved>,
    /// Answers that are to come: each says where the service is, other than where it was asked to look.
    lookups: usize,
}

/// A chain that a service answered with, and that did not join the chain that called.
#[derive(Clone, Debug)]
pub(crate) struct Apart {
    pub(crate) request: Request,
    pub(crate) catch: Option<String>,
}

/// What was under way for somebody who is gone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Abandoned {
    /// Service functions running here.
    pub(crate) running: Vec<Ticket>,
    /// Calls that other nodes have been asked to do.
    pub(crate) asked: Vec<(u64, Arc<NodeRef>)>,
    /// Chains running on their own, by number.
    pub(crate) apart: Vec<u64>,
}

impl Calls {
    /// Calls that wait for an answer.
    pub(crate) fn count_waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Calls and hops that wait for a name to be resolved.
    pub(crate) fn count_aside(&self) -> usize {
        self.aside
    }

    pub(crate) fn count_running(&self) -> usize {
        self.running.len()
    }

    /// Remembers a call sent to `to`; the number goes with it.
    pub(crate) fn wait(&mut self, now: Time, request: Request, to: &Arc<NodeRef>) -> u64 {
        self.next += 1;
        self.timers.set(self.next, now.after(request.budget_now(now).time_left_us()));
        self.waiting.insert(self.next, Waiting { request, to: to.clone() });
        self.next
    }

    pub(crate) fn take_waiting(&mut self, id: u64) -> Option<Waiting> {
        self.timers.clear(id);
        self.waiting.remove(&id)
    }

    /// The node asked under number `id`, if that call still waits.
    pub(crate) fn asked(&self, id: u64) -> Option<NodeId> {
        self.waiting.get(&id).map(|waiting| waiting.to.id)
    }

    pub(crate) fn waiting_for(&self, node: NodeId) -> Vec<u64> {
        self.waiting.iter().filter(|(_, waiting)| waiting.to.id == node).map(|(id, _)| *id).collect()
    }

    /// Remembers a service function about to run here.
    pub(crate) fn run(&mut self, request: Request) -> Ticket {
        self.next += 1;
        let ticket = Ticket(self.next);
        self.running.insert(ticket, request);
        ticket
    }

    pub(crate) fn take_running(&mut self, ticket: Ticket) -> Option<Request> {
        self.running.remove(&ticket)
    }

    /// Remembers a chain that runs on its own to answer a call.
    pub(crate) fn run_apart(&mut self, number: u64, apart: Apart) {
        self.apart.insert(number, apart);
    }

    pub(crate) fn take_apart(&mut self, number: u64) -> Option<Apart> {
        self.apart.remove(&number)
    }

    /// Takes out what is under way for whoever `gone` says is gone: running here, asked of others, or waiting for a name.
    pub(crate) fn abandon(&mut self, gone: impl Fn(&Request) -> bool) -> Abandoned {
        let running: Vec<_> =
            self.running.iter().filter(|(_, request)| gone(request)).map(|(ticket, _)| *ticket).collect();
        for ticket in &running {
            self.running.remove(ticket);
        }
        let asked: Vec<_> = self
            .waiting
            .iter()
            .filter(|(_, call)| gone(&call.request))
            .map(|(id, call)| (*id, call.to.clone()))
            .collect();
        for (id, _) in &asked {
            self.take_waiting(*id);
        }
        // The name stays in the table, empty, until it is resolved: somebody has been asked for it.
        for Aside { waiting, .. } in self.resolving.values_mut() {
            let before = waiting.len();
            waiting.retain(|unresolved| !matches!(unresolved, Unresolved::Plain(request) if gone(request)));
            self.aside -= before - waiting.len();
        }
        let apart: Vec<_> =
            self.apart.extract_if(.., |_, apart| gone(&apart.request)).map(|(number, _)| number).collect();
        Abandoned { running, asked, apart }
    }

    /// Steps of chains elsewhere whose calls are under way here.
    pub(crate) fn steps(&self) -> impl Iterator<Item = &StepKey> {
        let asides =
            self.resolving.values().flat_map(|aside| &aside.waiting).filter_map(|unresolved| match unresolved {
                Unresolved::Plain(request) => Some(request),
                Unresolved::Hop { .. } | Unresolved::Again { .. } => None,
            });
        let waiting = self.waiting.values().map(|call| &call.request);
        let apart = self.apart.values().map(|apart| &apart.request);
        self.running.values().chain(waiting).chain(apart).chain(asides).filter_map(|request| match &request.asker {
            Asker::Step(key) => Some(key),
            _ => None,
        })
    }

    /// A function has ended of its own accord: the calls that it started go on, but nobody listens any more.
    pub(crate) fn let_go(&mut self, session: SessionId) {
        let asides = self.resolving.values_mut().flat_map(|aside| &mut aside.waiting);
        let asides = asides.filter_map(|unresolved| match unresolved {
            Unresolved::Plain(request) => Some(&mut request.asker),
            Unresolved::Hop { .. } | Unresolved::Again { .. } => None,
        });
        let waiting = self.waiting.values_mut().map(|call| &mut call.request.asker);
        let running = self.running.values_mut().map(|request| &mut request.asker);
        let apart = self.apart.values_mut().map(|apart| &mut apart.request.asker);
        for asker in running.chain(waiting).chain(asides).chain(apart) {
            if matches!(asker, Asker::Guest { session: s, .. } if *s == session) {
                *asker = Asker::Nobody;
            }
        }
    }

    /// Puts a call aside until its name is resolved; true if nobody has asked for that name yet.
    pub(crate) fn put_aside(&mut self, service: &str, unresolved: Unresolved) -> bool {
        self.aside += 1;
        let aside = self.resolving.entry(service.to_string()).or_default();
        aside.waiting.push(unresolved);
        let first = aside.lookups == 0;
        aside.lookups += usize::from(first);
        first
    }

    /// Puts a call aside that looks for another instance, for which the name is looked up once more.
    pub(crate) fn put_aside_again(&mut self, service: &str, unresolved: Unresolved) {
        if !self.put_aside(service, unresolved)
            && let Some(aside) = self.resolving.get_mut(service)
        {
            aside.lookups += 1;
        }
    }

    /// Takes out what waits for this name, and says whether another answer is still to come.
    pub(crate) fn take_aside(&mut self, service: &str) -> (Vec<Unresolved>, bool) {
        let Some(aside) = self.resolving.get_mut(service) else { return (Vec::new(), false) };
        aside.lookups = aside.lookups.saturating_sub(1);
        let (waiting, more) = (core::mem::take(&mut aside.waiting), aside.lookups > 0);
        if !more {
            self.resolving.remove(service);
        }
        self.aside -= waiting.len();
        (waiting, more)
    }

    /// Puts back what waits for the next answer.
    pub(crate) fn put_back(&mut self, service: &str, unresolved: Unresolved) {
        if let Some(aside) = self.resolving.get_mut(service) {
            aside.waiting.push(unresolved);
            self.aside += 1;
        }
    }

    /// Nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
            && self.apart.is_empty()
            && self.running.is_empty()
            && self.resolving.is_empty()
            && self.timers.next().is_none()
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    pub(crate) fn take_late(&mut self, now: Time) -> Option<Waiting> {
        let id = self.timers.take_due(now)?;
        self.waiting.remove(&id)
    }
}
