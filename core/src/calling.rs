//! Plain calls, by and for other nodes, users of this one, and chains that stay where they are.

use alloc::{boxed::Box, format, string::String, sync::Arc, vec::Vec};
use catena_wire::{
    Brought, ChainId, Exception, Fault, Message, NodeRef, Outcome, PATH_HOSTS_MAX, StepKey, Value, names,
};

use crate::{
    Action, Answer, Instance, Node, Receipt, SessionId, Time, Undelivered, Urgency,
    action::Again,
    activation::Phase,
    calls::{Asker, Missed, Request, Unresolved, Waiting},
    node::{Served, overloaded},
    oversize::too_large,
    steps::{ASKERS_MAX, Done, print_of},
};

impl Node {
    /// Sends a plain call to wherever its service is.
    pub(crate) fn dispatch(&mut self, now: Time, request: Request) {
        if self.services.contains_key(&request.service) {
            let verdict = check_time(now, &request)
                .and_then(|()| self.check_in_place(now, &request))
                .and_then(|()| self.check_service(&request.service, &request.function))
                .and_then(|()| self.check_running());
            return match verdict {
                Ok(()) => self.run_service(now, request),
                Err(why) => self.answer(now, request, Err(why)),
            };
        }
        if let Some(to) = self.names.get(&request.service).cloned() {
            return self.ask(now, request, &to);
        }
        if self.calls.count_aside() >= self.policy.calls_waiting_max {
            let why = overloaded(&self.me.name, "calls to services being looked up", self.policy.calls_waiting_max);
            return self.answer(now, request, Err(why));
        }
        let service = request.service.clone();
        if self.calls.put_aside(&service, Unresolved::Plain(request)) {
            self.actions.push_back(Action::Resolve { service, avoid: Vec::new() });
        }
    }

    /// Asks that node. Its place is not looked up again, so a full table of names cannot make a call go round in circles.
    pub(crate) fn ask(&mut self, now: Time, request: Request, place: &Instance) {
        // Without a step nobody could remember it.
        let again = if request.key.is_some() { place.again(&request.function) } else { Again::Nowhere };
        self.ask_node(now, Request { again, ..request }, &place.node);
    }

    fn ask_node(&mut self, now: Time, request: Request, to: &Arc<NodeRef>) {
        let budget = request.budget_now(now);
        let verdict = if let Err(why) = check_time(now, &request) {
            Err(why)
        } else if self.calls.count_waiting() >= self.policy.calls_waiting_max {
            Err(overloaded(&self.me.name, "calls", self.policy.calls_waiting_max))
        } else {
            Ok(())
        };
        if let Err(why) = verdict {
            return self.fail(now, request, why);
        }
        self.note_served_by(&request.asker, &to.name);
        let Request { service, function, params, key, credentials, redone, .. } = request.clone();
        let redone = redone.map(|mark| mark.to_wire(now, self.policy.heartbeat_hop_us));
        let id = self.calls.wait(now, Request { attempts: request.attempts + 1, ..request }, to);
        let call = Message::Call { id, service, function, params, budget, key, credentials, redone };
        self.send(to, call, Receipt::Call(id), Urgency::Now);
    }

    pub(crate) fn run_service(&mut self, now: Time, request: Request) {
        let time_left_us = request.budget_now(now).time_left_us();
        let (service, function) = (request.service.clone(), request.function.clone());
        let (params, credentials, key) = (request.params.clone(), request.credentials.clone(), request.key.clone());
        let ticket = self.calls.run(Request { params: Value::null(), ..request });
        let run = Action::RunService { ticket, service, function, params, time_left_us, credentials, key };
        self.actions.push_back(run);
    }

    /// A call that a chain makes from where it is: its result is remembered, so the same call again does not run twice.
    pub(crate) fn serve_step(&mut self, now: Time, request: Request) {
        let (Some(key), Asker::Peer { to, id }) = (request.key.clone(), request.asker.clone()) else {
            return self.serve_call(now, request);
        };
        let mine = print_of(&request.service, &request.function, &request.params);
        if self.cancelled.contains(key.chain, to.id) {
            let why = Exception::new(names::CANCELLED, Fault::Caller, "the chain was cancelled").outcome_unknown();
            return self.answer(now, request, Err(why));
        }
        match self.steps.get_mut(&key) {
            Some(Done::Calling { print, askers }) if *print == mine => {
                if askers.iter().any(|(node, theirs)| node.id == to.id && *theirs == id) {
                    return;
                }
                if askers.len() >= ASKERS_MAX {
                    let why = overloaded(&self.me.name, "callers of one step", ASKERS_MAX).outcome_unknown();
                    return self.answer(now, request, Err(why));
                }
                askers.push((to, id));
            }
            Some(Done::Called { print, result, brought, by }) if *print == mine => {
                if by.len() < ASKERS_MAX && !by.contains(&to.id) {
                    by.push(to.id);
                }
                let (result, brought) = (result.clone(), brought.clone());
                self.answer_with(now, request.asker, result, brought);
            }
            Some(_) => {
                let message = "another call was made under this step; whether this one took effect is unknown";
                let why = Exception::new(names::PROTOCOL, Fault::Caller, message).outcome_unknown();
                self.answer(now, request, Err(why));
            }
            None => {
                if let Some(mark) = &request.redone {
                    self.second_times.note(now, mark, &self.policy);
                }
                let (service, function) = (&request.service, &request.function);
                if let Err(why) = self.check_not_done(now, request.redone.as_deref(), Some(&key), service, function) {
                    return self.fail(now, request, why);
                }
                self.steps.begin_call(key.clone(), mine, (to, id));
                self.serve_call(now, Request { asker: Asker::Step(key), ..request });
            }
        }
    }

    /// A plain call from another node.
    pub(crate) fn serve_call(&mut self, now: Time, mut request: Request) {
        let lent = request.budget.hops_left();
        request.budget = request.budget.narrowed_to(self.policy.budget_max);
        request.hops_withheld = lent - request.budget.hops_left();
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
                self.answer(now, request, Err(why));
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
        let Some(Served { functions, .. }) = self.services.get(service) else {
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

    /// What a service function of this node answered with: a value, or a chain that will bring it.
    pub(crate) fn service_answered(&mut self, now: Time, request: Request, result: Result<Answer, Exception>) {
        let sub = match result {
            Ok(Answer::Value(value)) => return self.answer(now, request, Ok(value)),
            Err(why) => return self.fail(now, request, why),
            Ok(Answer::Chain(sub)) => sub,
        };
        let joins = match &request.asker {
            Asker::Landing(session) => self.activations.get(*session).is_some_and(|a| a.baggage.charter.compose),
            _ => false,
        };
        match request.asker {
            Asker::Landing(session) if joins && self.policy.compose => {
                self.give_back(session, request.budget.hops_left());
                self.join(now, session, request.service, sub);
            }
            Asker::Guest { session, call, step } if self.policy.compose && self.can_join(session, call) => {
                self.give_back(session, request.budget.hops_left());
                // What a chain said before that threw, and which this one is to make good for.
                self.carry(session, Some(step), request.console);
                self.join_in_place(now, session, call, request.service, sub);
            }
            _ => self.run_apart(now, request, sub),
        }
    }

    /// The result of a call, to whoever waits for it.
    pub(crate) fn answer(&mut self, now: Time, mut request: Request, result: Result<Value, Exception>) {
        let brought = request.brings(request.hops_after(&result));
        self.answer_with(now, request.asker, result, brought);
    }

    /// It came to nothing: says which call that was.
    pub(crate) fn fail(&mut self, now: Time, request: Request, why: Exception) {
        let why = request.after_those_missed(why).calling(&request.service, &request.function);
        self.answer(now, request, Err(why));
    }

    /// The result of a call, and what it brings beside that: the lines first, which come before what is said to the result.
    pub(crate) fn answer_with(&mut self, now: Time, asker: Asker, result: Result<Value, Exception>, brought: Brought) {
        match asker {
            Asker::Landing(session) => {
                self.give_back(session, brought.hops_left);
                self.carry(session, None, brought.console);
                if let Some(activation) = self.activations.get_mut(session)
                    && let Phase::Landing(landing) = &mut activation.phase
                {
                    // Of a call that is made from here, not the step by which the chain came.
                    let key = StepKey { step: activation.step, ..activation.arrived.clone() };
                    let (path, target) = (&activation.baggage.path, &activation.profile.target);
                    landing.result = Some(result.map(Answer::Value).map_err(|mut why| {
                        why.target.get_or_insert_with(|| target.clone());
                        why.at(&key, path)
                    }));
                    self.resume_if_ready(now, session);
                }
            }
            Asker::Guest { session, call, step } => {
                self.close_in_place(now, session, call, brought.service_us);
                self.give_back(session, brought.hops_left);
                self.carry(session, Some(step), brought.console);
                let Some(activation) = self.activations.get(session) else { return };
                let (key, path) = (StepKey { step, ..activation.key() }, activation.baggage.path.clone());
                self.settle(session, call, result.map_err(|why| why.at(&key, &path)));
            }
            Asker::Peer { to, id } => {
                let path = [self.me.name.clone()];
                let result = result.map_err(|why| why.at_step(0, &path));
                self.send_return(&to, id, result, brought);
            }
            Asker::Step(key) => {
                let path = [self.me.name.clone()];
                let result = result.map_err(|why| why.at(&key, &path));
                let Some(Done::Calling { print, askers }) = self.steps.get_mut(&key) else { return };
                let (print, askers) = (*print, core::mem::take(askers));
                let by = askers.iter().map(|(node, _)| node.id).collect();
                let called = Done::Called { print, result: result.clone(), brought: brought.clone(), by };
                self.steps.finish(now, &key, called, &self.policy);
                for (to, id) in askers {
                    self.send_return(&to, id, result.clone(), brought.clone());
                }
            }
            Asker::Api(id) => self.actions.push_back(Action::CallDone(id, result)),
            Asker::Nobody => {}
        }
    }

    fn send_return(&mut self, to: &Arc<NodeRef>, id: u64, result: Result<Value, Exception>, brought: Brought) {
        let receipt = Receipt::Return(to.clone(), id);
        self.send(to, Message::Return(id, result.into(), brought), receipt, Urgency::Now);
    }

    pub(crate) fn call_returned(
        &mut self,
        now: Time,
        from: &Arc<NodeRef>,
        id: u64,
        outcome: Outcome,
        brought: Brought,
    ) {
        // Only the node that was asked may answer.
        if self.calls.asked(id) != Some(from.id) {
            return;
        }
        let Some(waiting) = self.calls.take_waiting(id) else {
            return;
        };
        let result = match outcome {
            Outcome::Done(value) => {
                if waiting.request.key.is_some() {
                    let target = [waiting.request.service.as_str(), "/", waiting.request.function.as_str()].concat();
                    self.learn_result(&target, value.len_bytes());
                }
                Ok(value)
            }
            Outcome::Threw(why) => {
                let why = why.calling(&waiting.request.service, &waiting.request.function);
                let why = waiting.request.after_those_missed(why);
                Err(self.behind(&waiting.request.asker, why))
            }
        };
        if matches!(&result, Err(why) if why.name == names::UNKNOWN_SERVICE) {
            self.names.remove(&waiting.request.service);
        }
        // Nobody can bring back more than was lent.
        let hops_left = brought.hops_left.min(waiting.request.budget.hops_left());
        self.answer_with(now, waiting.request.asker, result, Brought { hops_left, ..brought });
    }

    /// The path of an exception from elsewhere continues that of the chain that called.
    pub(crate) fn behind(&self, asker: &Asker, mut why: Exception) -> Exception {
        if let Asker::Guest { session, .. } | Asker::Landing(session) = asker
            && let Some(activation) = self.activations.get(*session)
        {
            let room = PATH_HOSTS_MAX.saturating_sub(activation.baggage.path.len());
            // What ran apart, here, began at the host at which the chain is.
            let here = usize::from(activation.baggage.path.last() == why.path.first());
            let beyond = why.path.into_iter().skip(here).take(room);
            why.path = activation.baggage.path.iter().cloned().chain(beyond).collect();
            why.step = match asker {
                Asker::Guest { step, .. } => *step,
                _ => activation.step,
            };
            why.branch.clone_from(&activation.arrived.branch);
        }
        why
    }

    pub(crate) fn call_withdrawn(&mut self, now: Time, from: &Arc<NodeRef>, id: u64) {
        let is_it = |(to, theirs): &(Arc<NodeRef>, u64)| to.id == from.id && *theirs == id;
        self.abandon(|call| matches!(&call.asker, Asker::Peer { to, id: theirs } if to.id == from.id && *theirs == id));
        let asked = |key: &&StepKey| matches!(self.steps.get(key), Some(Done::Calling { askers, .. }) if askers.iter().any(is_it));
        let Some(key) = self.calls.steps().find(asked).cloned() else { return };
        let Some(Done::Calling { askers, .. }) = self.steps.get_mut(&key) else { return };
        askers.retain(|asker| !is_it(asker));
        if askers.is_empty() {
            self.abandon_step(now, &key);
        }
    }

    /// Nobody waits any more for what these steps' calls bring.
    pub(crate) fn abandon_step(&mut self, now: Time, key: &StepKey) {
        self.abandon(|call| matches!(&call.asker, Asker::Step(step) if step == key));
        let Some(Done::Calling { print, askers }) = self.steps.get(key) else { return };
        let (print, by) = (*print, askers.iter().map(|(node, _)| node.id).collect());
        let why = Exception::new(names::CANCELLED, Fault::Caller, "the chain was cancelled").outcome_unknown();
        let called = Done::Called { print, result: Err(why), brought: Brought::default(), by };
        self.steps.finish(now, key, called, &self.policy);
    }

    /// Stops what is under way for whoever `gone` says is gone, here and at the nodes that were asked.
    pub(crate) fn abandon(&mut self, gone: impl Fn(&Request) -> bool) {
        let abandoned = self.calls.abandon(gone);
        self.actions.extend(abandoned.running.into_iter().map(Action::CancelService));
        for (id, to) in abandoned.asked {
            self.send(&to, Message::Withdraw(id), Receipt::None, Urgency::Now);
        }
        for number in abandoned.apart {
            self.given_up.push(ChainId { origin: self.me.id, number });
        }
    }

    pub(crate) fn call_failed(&mut self, now: Time, id: u64, why: Undelivered) {
        let Some(waiting) = self.calls.take_waiting(id) else {
            return;
        };
        let Waiting { request, to } = waiting;
        if let Undelivered::TooLarge { bytes, bytes_max } = why {
            return self.fail(now, request, too_large(bytes, bytes_max));
        }
        self.names.remove(&request.service);
        let lasting = request.key.is_some() && request.attempts < self.policy.hop_attempts_max;
        match why {
            // The same run of that node remembers the step: asking again cannot double an effect.
            Undelivered::Lost if lasting => self.ask_node(now, request, &to),
            Undelivered::Unreachable if request.attempts <= 1 => {
                self.ask_elsewhere(now, request, &to, unreachable(&to.name), None);
            }
            _ => match request.again {
                Again::Nowhere => self.fail(now, request, lost(&to.name)),
                Again::SameNode => self.ask_elsewhere(now, request, &to, lost(&to.name), Some(to.name.clone())),
                Again::Anywhere => self.ask_elsewhere(now, request, &to, lost(&to.name), None),
            },
        }
    }

    /// Another instance of the service may do it (rpc-chains section 3.9: a logical name is mapped to a backup).
    fn ask_elsewhere(
        &mut self,
        now: Time,
        mut request: Request,
        missed: &NodeRef,
        why: Exception,
        bound_to: Option<String>,
    ) {
        if why.unknown {
            // It may have spent there what it was lent.
            request.budget = request.budget.without_hops(request.budget.hops_left());
        }
        let first = || Box::new(Missed { nodes: Vec::new(), bound_to: None, why: why.clone() });
        let known = request.missed.get_or_insert_with(first);
        if why.unknown && !known.why.unknown {
            known.why = why;
        }
        known.nodes.push(missed.id);
        known.bound_to = known.bound_to.take().or(bound_to);
        if known.nodes.len() >= self.policy.instances_tried_max {
            let why = known.why.clone();
            return self.fail(now, request, why);
        }
        let (service, avoid) = (request.service.clone(), known.nodes.clone());
        request.attempts = 0;
        self.calls.put_aside_again(&service, Unresolved::Plain(request));
        self.actions.push_back(Action::Resolve { service, avoid });
    }

    /// The name of a call's service has been looked up, for the first time or again.
    pub(crate) fn ask_resolved(&mut self, now: Time, request: Request, place: Result<&Instance, &Exception>) {
        let missed = request.missed.as_deref();
        match (place, missed) {
            (Ok(place), Some(missed)) if !missed.allows(&place.node) => {
                let why = missed.why.clone();
                self.fail(now, request, why);
            }
            (Ok(place), _) => {
                let request = self.lend_late(now, request, place);
                self.ask(now, request, place);
            }
            (Err(why), missed) => {
                let why = missed.map_or(why, |missed| &missed.why).clone();
                self.fail(now, request, why);
            }
        }
    }

    /// That the function may answer with a chain is known only now.
    fn lend_late(&mut self, now: Time, mut request: Request, place: &Instance) -> Request {
        if let Asker::Guest { session, .. } | Asker::Landing(session) = &request.asker
            && request.budget.hops_left() == 0
            && place.kinds.chaining.contains(&request.function)
            && let Some(activation) = self.activations.get_mut(*session)
        {
            let share = activation.hops_for_each(now, 0);
            request.budget = request.budget.with_hops_back(activation.lend(now, share).hops_left());
        }
        request
    }

    pub(crate) fn give_back(&mut self, session: SessionId, hops: u32) {
        if let Some(activation) = self.activations.get_mut(session) {
            activation.budget = activation.budget.with_hops_back(hops);
        }
    }

    /// For the profile of a call that a chain makes from where it is.
    fn note_served_by(&mut self, asker: &Asker, host: &str) {
        if let Asker::Guest { session, call, .. } = asker
            && let Some(profile) = self.activations.get_mut(*session).and_then(|a| a.in_place.get_mut(call))
        {
            profile.served_by = Some(String::from(host));
        }
    }
}

fn check_time(now: Time, request: &Request) -> Result<(), Exception> {
    if request.budget_now(now).time_left_us() > 0 {
        return Ok(());
    }
    let why = "no time left before the call went out; nothing was done; allow more time";
    Err(Exception::new(names::DEADLINE_EXCEEDED, Fault::Caller, why))
}

pub(crate) fn unreachable(host: &str) -> Exception {
    let message = format!("{host} cannot be reached; nothing was done there; check that it is up, then run again");
    Exception::new(names::NODE_UNREACHABLE, Fault::Network, message)
}

pub(crate) fn lost(host: &str) -> Exception {
    let message = format!("{host} was lost after the call went out; whether it took effect there is unknown");
    Exception::new(names::NODE_LOST, Fault::Network, message).outcome_unknown()
}
