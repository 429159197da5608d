//! Plain remote calls, both ways, and service functions running here.

use alloc::{
    collections::BTreeMap,
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};
use catena_wire::{Budget, NodeId, NodeRef, Value};

use crate::{CallId, GuestCall, SessionId, Ticket, Time, timers::Timers};

/// Who waits for the result of a call.
#[derive(Clone, Debug)]
pub(crate) enum Asker {
    /// A chain that came here to make it.
    Landing(SessionId),
    /// A chain that stays where it is.
    Guest { session: SessionId, call: u32 },
    /// Another node, by a plain call with its own number.
    Peer { to: Arc<NodeRef>, id: u64 },
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
}

/// What waits for a name to be resolved.
#[derive(Clone, Debug)]
pub(crate) enum Unresolved {
    Plain(Request),
    Hop { session: SessionId, call: GuestCall },
}

/// A plain call that another node has been asked to do.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) asker: Asker,
    pub(crate) to: NodeId,
    pub(crate) host: String,
    pub(crate) service: String,
    pub(crate) function: String,
}

#[derive(Debug, Default)]
pub(crate) struct Calls {
    next: u64,
    waiting: BTreeMap<u64, Waiting>,
    timers: Timers<u64>,
    running: BTreeMap<Ticket, Asker>,
    resolving: BTreeMap<String, Vec<Unresolved>>,
}

impl Calls {
    pub(crate) fn count_waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn count_running(&self) -> usize {
        self.running.len()
    }

    /// Remembers a call sent to `to`; the number goes with it.
    pub(crate) fn wait(&mut self, now: Time, request: &Request, to: &NodeRef) -> u64 {
        self.next += 1;
        let waiting = Waiting {
            asker: request.asker.clone(),
            to: to.id,
            host: to.name.clone(),
            service: request.service.clone(),
            function: request.function.clone(),
        };
        self.waiting.insert(self.next, waiting);
        self.timers.set(self.next, now.after(request.budget.time_left_us()));
        self.next
    }

    pub(crate) fn take_waiting(&mut self, id: u64) -> Option<Waiting> {
        self.timers.clear(id);
        self.waiting.remove(&id)
    }

    /// The node asked under number `id`, if that call still waits.
    pub(crate) fn asked(&self, id: u64) -> Option<NodeId> {
        self.waiting.get(&id).map(|waiting| waiting.to)
    }

    pub(crate) fn waiting_for(&self, node: NodeId) -> Vec<u64> {
        self.waiting.iter().filter(|(_, waiting)| waiting.to == node).map(|(id, _)| *id).collect()
    }

    /// Remembers a service function about to run here.
    pub(crate) fn run(&mut self, asker: Asker) -> Ticket {
        self.next += 1;
        let ticket = Ticket(self.next);
        self.running.insert(ticket, asker);
        ticket
    }

    pub(crate) fn take_running(&mut self, ticket: Ticket) -> Option<Asker> {
        self.running.remove(&ticket)
    }

    /// Takes out the service functions that run for whoever `gone` says is gone.
    pub(crate) fn abandon(&mut self, gone: impl Fn(&Asker) -> bool) -> Vec<Ticket> {
        let tickets: Vec<_> = self.running.iter().filter(|(_, asker)| gone(asker)).map(|(ticket, _)| *ticket).collect();
        for ticket in &tickets {
            self.running.remove(ticket);
        }
        tickets
    }

    /// Puts a call aside until its name is resolved; true if nobody has asked for that name yet.
    pub(crate) fn put_aside(&mut self, service: &str, unresolved: Unresolved) -> bool {
        let aside = self.resolving.entry(service.to_string()).or_default();
        aside.push(unresolved);
        aside.len() == 1
    }

    pub(crate) fn take_aside(&mut self, service: &str) -> Vec<Unresolved> {
        self.resolving.remove(service).unwrap_or_default()
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    pub(crate) fn take_late(&mut self, now: Time) -> Option<Waiting> {
        let id = self.timers.take_due(now)?;
        self.waiting.remove(&id)
    }
}
