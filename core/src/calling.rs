//! Plain calls, by and for other nodes, users of this one, and chains that stay where they are.

use alloc::{format, string::String, sync::Arc, vec::Vec};
use catena_wire::{Exception, Fault, Message, NodeRef, Outcome, PATH_HOSTS_MAX, Value, names};

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
            return match self.check_service(&request.service, &request.function).and_then(|()| self.check_running()) {
                Ok(()) => self.run_service(now, request),
                Err(why) => self.answer(now, request.asker, Err(why)),
            };
        }
        if let Some(to) = self.names.get(&request.service).cloned() {
            return self.ask(now, request, &to);
        }
        if self.calls.count_aside() >= self.policy.calls_waiting_max {
            let why = overloaded(&self.me.name, "calls to services being looked up", self.policy.calls_waiting_max);
            return self.answer(now, request.asker, Err(why));
        }
        let service = request.service.clone();
        if self.calls.put_aside(&service, Unresolved::Plain(request)) {
            self.actions.push_back(Action::Resolve(service));
        }
    }

    /// Asks that node. Its place is not looked up again, so a full table of names cannot make a call go round in circles.
    pub(crate) fn ask(&mut self, now: Time, request: Request, to: &Arc<NodeRef>) {
        let budget = request.budget_now(now);
        let verdict = if budget.time_left_us() == 0 {
            let why = "no time left before the call went out; nothing was done; allow more time";
            Err(Exception::new(names::DEADLINE_EXCEEDED, Fault::Caller, why))
        } else if self.calls.count_waiting() >= self.policy.calls_waiting_max {
            Err(overloaded(&self.me.name, "calls", self.policy.calls_waiting_max))
        } else {
            Ok(())
        };
        if let Err(why) = verdict {
            return self.answer(now, request.asker, Err(why.calling(&request.service, &request.function)));
        }
        let id = self.calls.wait(now, &request, to);
        let Request { service, function, params, .. } = request;
        self.send(to, Message::Call { id, service, function, params, budget }, Receipt::Call(id), Urgency::Now);
    }

    pub(crate) fn run_service(&mut self, now: Time, request: Request) {
        let time_left_us = request.budget_now(now).time_left_us();
        let Request { asker, service, function, params, .. } = request;
        let ticket = self.calls.run(asker);
        self.actions.push_back(Action::RunService { ticket, service, function, params, time_left_us });
    }

    /// A plain call from another node.
    pub(crate) fn serve_call(&mut self, now: Time, mut request: Request) {
        request.budget = request.budget.narrowed_to(self.policy.budget_max);
        let verdict = self.check_service(&request.service, &request.function).and_then(|()| {
            if request.budget.time_left_us() == 0 {
                let message = format!("the call had no time left when it reached {}", self.me.name);
                return Err(Exception::new(names::DEADLINE_EXCEEDED, Fault::Caller, message));
            }
            self.check_running()
        });
        match verdict {
            Ok(()) => self.run_service(now, request),
            Err(why) => {
                let path = [self.me.name.clone()];
                let why = why.calling(&request.service, &request.function).at_step(0, &path);
                self.answer(now, request.asker, Err(why));
            }
        }
    }

    /// Whether one more service function may run.
    pub(crate) fn check_running(&self) -> Result<(), Exception> {
        if self.calls.count_running() < self.policy.services_running_max {
            return Ok(());
        }
        Err(overloaded(&self.me.name, "service functions", self.policy.services_running_max))
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
                    let (step, path, target) =
                        (activation.arrived.step, &activation.baggage.path, &activation.profile.target);
                    landing.result = Some(result.map_err(|mut why| {
                        why.target.get_or_insert_with(|| target.clone());
                        why.at_step(step, path)
                    }));
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
            Outcome::Threw(why) => {
                let why = why.calling(&waiting.service, &waiting.function);
                Err(self.behind(&waiting.asker, why))
            }
        };
        if matches!(&result, Err(why) if why.name == names::UNKNOWN_SERVICE) {
            self.names.remove(&waiting.service);
        }
        self.answer(now, waiting.asker, result);
    }

    /// The path of an exception from elsewhere continues that of the chain that called.
    fn behind(&self, asker: &Asker, mut why: Exception) -> Exception {
        if let Asker::Guest { session, .. } = asker
            && let Some(activation) = self.activations.get(*session)
        {
            let room = PATH_HOSTS_MAX.saturating_sub(activation.baggage.path.len());
            let beyond = why.path.into_iter().take(room);
            why.path = activation.baggage.path.iter().cloned().chain(beyond).collect();
            why.step = activation.step;
        }
        why
    }

    pub(crate) fn call_withdrawn(&mut self, from: &Arc<NodeRef>, id: u64) {
        self.abandon(|asker| matches!(asker, Asker::Peer { to, id: theirs } if to.id == from.id && *theirs == id));
    }

    /// Stops what is under way for whoever `gone` says is gone, here and at the nodes that were asked.
    pub(crate) fn abandon(&mut self, gone: impl Fn(&Asker) -> bool) {
        let abandoned = self.calls.abandon(gone);
        self.actions.extend(abandoned.running.into_iter().map(Action::CancelService));
        for (id, to) in abandoned.asked {
            self.send(&to, Message::Withdraw(id), Receipt::None, Urgency::Now);
        }
    }

    pub(crate) fn call_failed(&mut self, now: Time, id: u64, why: Undelivered) {
        let Some(waiting) = self.calls.take_waiting(id) else {
            return;
        };
        self.names.remove(&waiting.service);
        let why = match why {
            Undelivered::Unreachable => unreachable(&waiting.to.name),
            Undelivered::Lost => lost(&waiting.to.name),
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
