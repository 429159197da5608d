//! Plain calls, by and for other nodes, users of this one, and chains that stay where they are.

use alloc::{format, string::String, sync::Arc, vec::Vec};
use catena_wire::{Exception, Fault, Message, NodeRef, Outcome, Value, names};

use crate::{
    Action, Node, Receipt, Time, Undelivered, Urgency,
    activation::Phase,
    calls::{Asker, Request, Unresolved},
    node::overloaded,
};

impl Node {
    /// Sends a plain call to wherever its service is.
    pub(crate) fn dispatch(&mut self, now: Time, request: Request) {
        if self.services.contains_key(&request.service) {
            return match self.check_service(&request.service, &request.function) {
                Ok(()) => self.run_service(request),
                Err(why) => self.answer(now, request.asker, Err(why)),
            };
        }
        let Some(to) = self.names.get(&request.service).cloned() else {
            let service = request.service.clone();
            if self.calls.put_aside(&service, Unresolved::Plain(request)) {
                self.actions.push_back(Action::Resolve(service));
            }
            return;
        };
        if self.calls.count_waiting() >= self.policy.calls_waiting_max {
            let why = overloaded(&self.me.name, "calls", self.policy.calls_waiting_max);
            return self.answer(now, request.asker, Err(why));
        }
        let id = self.calls.wait(now, &request, &to);
        let Request { service, function, params, budget, .. } = request;
        self.send(&to, Message::Call { id, service, function, params, budget }, Receipt::Call(id), Urgency::Now);
    }

    pub(crate) fn run_service(&mut self, request: Request) {
        let Request { asker, service, function, params, budget } = request;
        let ticket = self.calls.run(asker);
        let time_left_us = budget.time_left_us();
        self.actions.push_back(Action::RunService { ticket, service, function, params, time_left_us });
    }

    pub(crate) fn serve_call(&mut self, now: Time, request: Request) {
        let verdict = self.check_service(&request.service, &request.function).and_then(|()| {
            if self.calls.count_running() < self.policy.services_running_max {
                return Ok(());
            }
            Err(overloaded(&self.me.name, "service functions", self.policy.services_running_max))
        });
        match verdict {
            Ok(()) => self.run_service(request),
            Err(why) => {
                let path = [self.me.name.clone()];
                let why = why.calling(&request.service, &request.function).at_step(0, &path);
                self.answer(now, request.asker, Err(why));
            }
        }
    }

    /// Whether this node has that function, or who is mistaken.
    pub(crate) fn check_service(&self, service: &str, function: &str) -> Result<(), Exception> {
        let Some(functions) = self.services.get(service) else {
            let message = format!("{} does not serve {service}", self.me.name);
            return Err(Exception::new(names::UNKNOWN_SERVICE, Fault::Caller, message));
        };
        if functions.contains(function) {
            return Ok(());
        }
        let known = functions.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let message = format!("{service} has no function {function}; it has {known}");
        Err(Exception::new(names::UNKNOWN_FUNCTION, Fault::Caller, message))
    }

    /// The result of a call, to whoever waits for it.
    pub(crate) fn answer(&mut self, now: Time, asker: Asker, result: Result<Value, Exception>) {
        match asker {
            Asker::Landing(session) => {
                if let Some(activation) = self.activations.get_mut(session)
                    && let Phase::Landing(landing) = &mut activation.phase
                {
                    let (step, path) = (activation.arrived.step, &activation.baggage.path);
                    landing.result = Some(result.map_err(|why| why.at_step(step, path)));
                    self.resume_if_ready(session);
                }
            }
            Asker::Guest { session, call } => {
                self.close_in_place(now, session, call);
                self.settle(session, call, result);
            }
            Asker::Peer { to, id } => {
                let path = [self.me.name.clone()];
                let result = result.map_err(|why| why.at_step(0, &path));
                self.send(&to, Message::Return(id, result.into()), Receipt::None, Urgency::Now);
            }
            Asker::Api(id) => self.actions.push_back(Action::CallDone(id, result)),
            Asker::Nobody => {}
        }
    }

    pub(crate) fn call_returned(&mut self, now: Time, from: &Arc<NodeRef>, id: u64, outcome: Outcome) {
        // Only the node that was asked may answer.
        if self.calls.asked(id) != Some(from.id) {
            return;
        }
        let Some(waiting) = self.calls.take_waiting(id) else {
            return;
        };
        let result = match outcome {
            Outcome::Done(value) => Ok(value),
            Outcome::Threw(why) => Err(why.calling(&waiting.service, &waiting.function)),
        };
        if matches!(&result, Err(why) if why.name == names::UNKNOWN_SERVICE) {
            self.names.remove(&waiting.service);
        }
        self.answer(now, waiting.asker, result);
    }

    pub(crate) fn call_withdrawn(&mut self, from: &Arc<NodeRef>, id: u64) {
        let moot = |asker: &Asker| matches!(asker, Asker::Peer { to, id: theirs } if to.id == from.id && *theirs == id);
        for ticket in self.calls.abandon(moot) {
            self.actions.push_back(Action::CancelService(ticket));
        }
    }

    pub(crate) fn call_failed(&mut self, now: Time, id: u64, why: Undelivered) {
        let Some(waiting) = self.calls.take_waiting(id) else {
            return;
        };
        self.names.remove(&waiting.service);
        let why = match why {
            Undelivered::Unreachable => unreachable(&waiting.host),
            Undelivered::Lost => lost(&waiting.host),
        };
        self.answer(now, waiting.asker, Err(why.calling(&waiting.service, &waiting.function)));
    }
}

pub(crate) fn unreachable(host: &str) -> Exception {
    let message = format!("{host} cannot be reached; nothing was done there; check that it is up, then run again");
    Exception::new(names::NODE_UNREACHABLE, Fault::Network, message)
}

pub(crate) fn lost(host: &str) -> Exception {
    let message = format!("{host} was lost after the call went out; whether it took effect there is unknown");
    Exception::new(names::NODE_LOST, Fault::Network, message)
}
