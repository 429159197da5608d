//! Outgoing calls: to this node's own service, or to whichever node serves it.

use alloc::{format, vec::Vec};
use catena_wire::{Exception, Fault, Message, NodeId, Relocation, Value, names};

use super::{Call, Calls, ReplyTo, Request, Stage};
use crate::{
    Action, Instance, Receipt, RetryScope, Ticket, Time, Undelivered, Urgency,
    collections::AT_ONCE_MAX,
    delivery::{Delivery, Next},
    directory::{Known, Waiter},
    ground::Ground,
    outbox::Event,
};

impl Calls {
    /// Makes a call, wherever its service is.
    pub(crate) fn dispatch(&mut self, ground: &mut Ground, request: Request) {
        if ground.directory.serves(&request.service) {
            return self.call_here(ground, request);
        }
        if let Err(why) = self.check_bytes(ground, &request) {
            return self.answer(ground, request, Err(why));
        }
        match ground.directory.names.get(ground.now, &request.service).cloned() {
            Some(Known::At(place)) => return self.ask(ground, request, &place),
            Some(Known::Absent(why)) => return self.answer(ground, request, Err(why)),
            None => {}
        }
        let (own, all) = (self.looking_up.of(request.by), ground.directory.lookups.waiting());
        let (what, max) = ("calls to services being looked up", ground.policy.calls_waiting_max);
        if let Err(why) = ground.check_share(what, request.by, own, all, max) {
            return self.answer(ground, request, Err(why));
        }
        let service = request.service.clone();
        let id = self.insert(ground, request, Stage::LookingUp(None));
        ground.look_up(&service, Waiter::Call(id));
    }

    fn call_here(&mut self, ground: &mut Ground, request: Request) {
        let Request { service, function, duplicate, key, .. } = &request;
        let verdict = check_time(ground.now, &request)
            .and_then(|()| match key {
                Some(key) => ground.check_not_done(duplicate.as_deref(), key, service, function),
                None => Ok(()),
            })
            .and_then(|()| ground.directory.check(&ground.me.name, service, function))
            .and_then(|()| ground.check_running(request.by))
            .and_then(|()| match request.reply_to {
                // What came with the chain was weighed when the chain was taken in.
                ReplyTo::Suspended(_) => Ok(()),
                _ => self.check_bytes(ground, &request),
            });
        match verdict {
            Ok(()) => self.run_service(ground, request),
            Err(why) => self.answer(ground, request, Err(why)),
        }
    }

    pub(crate) fn run_service(&mut self, ground: &mut Ground, mut request: Request) {
        let right = match &request.reply_to {
            ReplyTo::Right(right) => Some(right.clone()),
            _ if request.right.is_some() => return ground.out.tell(Event::Take(request)),
            _ => None,
        };
        let budget = request.budget.left(ground.now);
        let bytes = request.kept_bytes();
        let params = core::mem::replace(&mut request.params, Value::null());
        let (service, function) = (request.service.clone(), request.function.clone());
        let (credentials, key) = (request.credentials.clone(), request.key.clone());
        let duplicate = request.duplicate.as_deref().cloned();
        let (ticket, by) = (Ticket(self.number()), request.by);
        self.put(ground, ticket.0, Call { request, stage: Stage::Running, bytes });
        let run =
            Action::RunService { ticket, service, function, params, budget, credentials, key, duplicate, right, by };
        ground.out.ask(run);
    }

    /// Asks the node at `place`. The name is not looked up again, so a full table of names cannot make a call go round in circles.
    fn ask(&mut self, ground: &mut Ground, request: Request, place: &Instance) {
        let (own, all) = (self.waiting.of(request.by), self.waiting.all());
        let room = ground.check_share("calls", request.by, own, all, ground.policy.calls_waiting_max);
        if let Err(why) = check_time(ground.now, &request).and(room) {
            return self.answer(ground, request, Err(why));
        }
        let delivery = Delivery::new(place.node.clone(), scope_of(&request, place));
        let id = self.number();
        self.send(ground, id, request, delivery);
    }

    /// Sends a call to the node at which it is to be done, for the first time or again.
    fn send(&mut self, ground: &mut Ground, id: u64, request: Request, mut delivery: Delivery) {
        if let Err(why) = check_time(ground.now, &request) {
            let why = delivery.conclude(why);
            // If it was sent before, it may have been done: having no time to ask again does not rule that out.
            let sent = delivery.attempts() > 0 && !bug!(ground.policy, LateCallDenied);
            let why = if sent { why.outcome_unknown() } else { why };
            return self.answer(ground, request, Err(why));
        }
        if let ReplyTo::Guest { session, call, .. } = &request.reply_to {
            ground.out.tell(Event::ServedBy(*session, *call, delivery.to().clone()));
        }
        let age_us = delivery.send(ground.now);
        let to = delivery.to().clone();
        let budget = request.budget.left(ground.now);
        let Request { service, function, params, key, credentials, duplicate, right, .. } = request.clone();
        let duplicate = duplicate.map(|duplicate| *duplicate);
        self.put(ground, id, Call::new(request, Stage::Asked(delivery)));
        let call = match right {
            Some(right) => Message::Ask { id, service, function, params, budget, credentials, right },
            None => Message::Call { id, service, function, params, budget, key, credentials, duplicate, age_us },
        };
        ground.out.send(&to, call, Receipt::Call(id), Urgency::Now);
    }

    /// The link to a node is lost: the outcome of the calls that it was asked for is unknown, unless the node is still the same run and remembers them.
    pub(crate) fn link_lost(&mut self, ground: &mut Ground, node: NodeId) {
        let asked: Vec<u64> = self.asked.range((node, 0)..=(node, u64::MAX)).map(|(_, id)| *id).collect();
        asked.into_iter().for_each(|id| self.undelivered(ground, id, Undelivered::Lost));
    }

    /// Whether a call that has not gone out yet is still meant for node `to`.
    pub(crate) fn is_to_go(&self, to: NodeId, id: u64) -> bool {
        self.asked.contains(&(to, id))
    }

    pub(crate) fn undelivered(&mut self, ground: &mut Ground, id: u64, how: Undelivered) {
        let Some(Call { mut request, stage: Stage::Asked(mut delivery), .. }) =
            self.take(ground, id, |stage| matches!(stage, Stage::Asked(_)))
        else {
            return;
        };
        let next = match how {
            Undelivered::TooLarge { bytes, bytes_max } => Next::GiveUp(delivery.too_large(bytes, bytes_max)),
            Undelivered::Unreachable | Undelivered::Lost => {
                ground.directory.names.forget(&request.service);
                delivery.failed(how, request.key.is_some(), &ground.policy)
            }
        };
        if delivery.may_be_done() && !matches!(next, Next::SendAgain) {
            // The other node may have spent the hops that it was lent.
            request.budget.lend(ground.now, u32::MAX);
            if let Some(key) = &request.key {
                ground.give_up(request.by, key.chain, delivery.nodes());
            }
        }
        match next {
            Next::SendAgain => self.send(ground, id, request, delivery),
            Next::Seek => {
                let (service, avoid) = (request.service.clone(), delivery.excluded());
                self.put(ground, id, Call::new(request, Stage::LookingUp(Some(delivery))));
                ground.directory.lookups.look_up(&mut ground.out, &service, Waiter::Call(id), avoid);
            }
            Next::GiveUp(why) => self.answer(ground, request, Err(why)),
        }
    }

    /// The node that was asked does not serve the service, and has not begun the call. Unless the call came to it `again`, the node does not
    /// remember the refusal: if the call was sent once more meanwhile, the node may be doing it by now, and answers that sending.
    pub(crate) fn elsewhere(
        &mut self,
        ground: &mut Ground,
        from: NodeId,
        id: u64,
        relocation: Relocation,
        again: bool,
    ) {
        let late = |delivery: &Delivery| delivery.attempts() > 1 && !again;
        let counts = bug!(ground.policy, LateNewsCounts);
        let asked = |stage: &Stage| matches!(stage, Stage::Asked(delivery) if delivery.to().id == from && (counts || !late(delivery)));
        let Some(Call { request, stage: Stage::Asked(mut delivery), .. }) = self.take(ground, id, asked) else {
            return;
        };
        let service = request.service.clone();
        match delivery.elsewhere(&service, false, &ground.policy) {
            Err(why) => self.answer(ground, request, Err(why)),
            Ok(()) => {
                let excluded = delivery.excluded();
                self.put(ground, id, Call::new(request, Stage::LookingUp(Some(delivery))));
                if let Some(place) = ground.follow(&service, from, relocation, Waiter::Call(id), excluded) {
                    ground.out.tell(Event::Resolved(id, place));
                }
            }
        }
    }

    /// The name of a call's service has been looked up, for the first time or again.
    pub(crate) fn resolved(&mut self, ground: &mut Ground, id: u64, place: &Result<Instance, Exception>) {
        let looking_up = |stage: &Stage| matches!(stage, Stage::LookingUp(_));
        let Some(Call { request, stage: Stage::LookingUp(delivery), .. }) = self.take(ground, id, looking_up) else {
            return;
        };
        match (place, delivery) {
            (Ok(place), None) => self.ask(ground, request, place),
            (Ok(place), Some(mut delivery)) if delivery.allows(&place.node) => {
                delivery.redirect(place.node.clone(), scope_of(&request, place));
                self.send(ground, id, request, delivery);
            }
            (place, delivery) => {
                let why = place.as_ref().err().cloned().unwrap_or_else(|| nobody_else(&request.service));
                let why = delivery.map_or(why.clone(), |delivery| delivery.exhausted(&why));
                self.answer(ground, request, Err(why));
            }
        }
    }

    /// The call with this number, if its service is being looked up and the call may go to `place`.
    pub(crate) fn going_to(&mut self, id: u64, place: &Instance) -> Option<&mut Request> {
        let call = self.calls.get_mut(&id)?;
        let Stage::LookingUp(delivery) = &call.stage else { return None };
        let fits = delivery.as_ref().is_none_or(|delivery| delivery.allows(&place.node));
        fits.then_some(&mut call.request)
    }

    pub(crate) fn on_timeout(&mut self, ground: &mut Ground) {
        for _ in 0..AT_ONCE_MAX {
            let Some(id) = self.timers.take_due(ground.now) else { break };
            let Some(Call { request, stage, .. }) = self.take(ground, id, |_| true) else { continue };
            let why = match stage {
                Stage::Asked(delivery) => late(&delivery.to().name),
                Stage::LookingUp(Some(delivery)) if delivery.may_be_done() => late(&delivery.to().name),
                _ => no_time(),
            };
            self.answer(ground, request, Err(why));
        }
    }
}

fn scope_of(request: &Request, place: &Instance) -> RetryScope {
    // Without a step no node could remember the call.
    if request.key.is_some() { RetryScope::of(&place.kinds, &request.function) } else { RetryScope::Nowhere }
}

fn nobody_else(service: &str) -> Exception {
    let message = format!("no other node serves {service}; nothing was done; check that one is up");
    Exception::new(names::NODE_UNREACHABLE, Fault::Network, message)
}

pub(super) fn check_time(now: Time, request: &Request) -> Result<(), Exception> {
    if request.budget.left(now).time_left_us() > 0 {
        return Ok(());
    }
    Err(no_time())
}

fn no_time() -> Exception {
    let why = "no time left before the call went out; nothing was done; allow more time";
    Exception::new(names::DEADLINE_EXCEEDED, Fault::Caller, why)
}

fn late(host: &str) -> Exception {
    let message = format!("no answer from {host} in time; whether the call took effect is unknown");
    Exception::new(names::DEADLINE_EXCEEDED, Fault::Service, message).outcome_unknown()
}
