//! Does what a node asks for.

use catena_core::{Action, CallId, Replied, SessionId, Ticket, Turn};
use catena_wire::{ChainId, Exception, Fault, Hash, Message, NodeRef, PossibleDuplicate, StepKey, Value};
use std::sync::Arc;

use crate::{
    guest::{self, Guest, Params},
    services::{self, is_effect, number_of, target_of},
    sim::{Event, World},
};

impl World {
    /// Takes actions until there are none, in the order in which they come.
    pub(crate) fn drain(&mut self, host: usize) {
        while self.hosts[host].up
            && let Some(action) = self.hosts[host].node.poll_action()
        {
            self.note(|| format!("n{host} {action:?}"));
            self.act(host, action);
        }
    }

    fn act(&mut self, host: usize, action: Action) {
        let id = self.hosts[host].id();
        match action {
            Action::Send { to, message, receipt, via, .. } => self.send(host, &to, message, receipt, via),
            Action::RunService { ticket, service, function, params, budget, credentials, key, duplicate, .. } => {
                self.must_act_for(host, &params, credentials.as_ref());
                if budget.time_left_us() == 0 {
                    self.record.violations.push(format!("n{host}: {service}/{function} runs with no time left"));
                }
                self.run_service(host, ticket, (&service, &function), &params, key, duplicate.as_ref());
            }
            Action::CancelService(ticket) => {
                self.record.cancelled += 1;
                self.hosts[host].cancelled.insert(ticket);
            }
            Action::Resolve { lookup, service, avoid } => {
                self.record.resolves.push((service.clone(), avoid.clone()));
                let us = self.rng.range(100, 5_000);
                self.after(us, Event::Resolved { at: id, lookup, service, avoid });
            }
            Action::CheckCode { session, code, bytes } => {
                if let Some(bytes) = bytes.filter(|bytes| guest::hash_of(bytes) == code) {
                    self.hosts[host].codes.insert(code, bytes);
                }
                if !self.hosts[host].codes.contains_key(&code) {
                    let now = self.time();
                    self.hosts[host].node.on_code_missing(now, session, code);
                }
            }
            Action::StoreCode { code, bytes } => {
                let stored = if guest::hash_of(&bytes) == code {
                    self.hosts[host].codes.insert(code, bytes);
                    Ok(())
                } else {
                    Err(Exception::new(catena_wire::names::BAD_CODE, Fault::Node, "other bytes"))
                };
                let now = self.time();
                self.hosts[host].node.on_code_stored(now, code, stored);
            }
            Action::ServeCode { code, to } => self.serve_code(host, code, &to),
            Action::Reply(chain, replied) => self.reply(chain, replied),
            Action::Heard(at, value) => self.record.heard.entry((id, at)).or_default().push(value),
            Action::CallDone(call, result) => self.call_done(host, call, result),
            Action::ServeListing { .. }
            | Action::Listing { .. }
            | Action::Offered { .. }
            | Action::FetchCode(_)
            | Action::ServeResolvers { .. }
            | Action::ResolversSaid { .. }
            | Action::HeardEnd(_)
            | Action::AbandonLookup(_)
            | Action::RightChanged(_) => {}
            Action::Resume { code, .. } | Action::Branch { code, .. }
                if !self.hosts[host].codes.contains_key(&code) =>
            {
                let now = self.time();
                self.hosts[host].node.on_code_absent(now, action);
            }
            action => self.act_on_guest(host, action),
        }
    }

    fn act_on_guest(&mut self, host: usize, action: Action) {
        match action {
            Action::Begin { session, code, input, limits, .. } => {
                self.must_be_new(host, session, "Begin");
                let guest = Guest::begin(&input);
                self.must_be_limited(host, guest.who(), limits);
                // A service brings the function of the chain with which it answers.
                let bytes = guest::compile(&self.programs[&code]);
                self.hosts[host].codes.insert(code, bytes);
                self.hosts[host].guests.insert(session, (code, guest));
                self.turn(host, session, |guest, program| guest.turn(program, None));
            }
            Action::Branch { session, code, continuation, call, index, limits, .. } => {
                self.must_be_new(host, session, "Branch");
                self.must_have(host, session, code);
                let guest = self.must_be_as_taken(host, &continuation, limits);
                self.hosts[host].guests.insert(session, (code, guest));
                self.turn(host, session, |guest, program| guest.branch(program, call, index));
            }
            Action::Resume { session, code, continuation, call, result, limits, .. } => {
                self.must_be_new(host, session, "Resume");
                self.must_have(host, session, code);
                let guest = self.must_be_as_taken(host, &continuation, limits);
                self.note_unknown(&guest, &result);
                self.note_told(host, &guest, call, &result);
                self.hosts[host].guests.insert(session, (code, guest));
                self.turn(host, session, |guest, program| guest.turn(program, Some((call, result))));
            }
            Action::Settle { session, call, result } => {
                self.must_be_here(host, session, "Settle");
                if let Some((_, guest)) = self.hosts[host].guests.get(&session).cloned() {
                    self.note_told(host, &guest, call, &result);
                }
                self.turn(host, session, |guest, program| guest.turn(program, Some((call, result))));
            }
            Action::Suspend { session, with_code } => {
                self.must_be_here(host, session, "Suspend");
                let Some((_, guest)) = self.hosts[host].guests.remove(&session) else { return };
                self.note_taken(&guest);
                let code = with_code.filter(|_| self.plan.code.ride);
                let code = code.and_then(|code| self.hosts[host].codes.get(&code).cloned());
                // A shell keeps the functions of the chains that are at its node.
                if self.plan.code.forgetful && self.hosts[host].node.load().0 <= 1 {
                    self.hosts[host].codes.clear();
                }
                let event =
                    Event::Suspended { at: self.hosts[host].id(), session, continuation: guest.continuation(), code };
                let us = self.rng.range(1, 100);
                self.after(us, event);
            }
            Action::Discard(session) => {
                self.hosts[host].guests.remove(&session);
                self.hosts[host].dead.insert(session);
            }
            other => panic!("the world does not know {other:?}"),
        }
    }

    fn must_be_new(&mut self, host: usize, session: SessionId, what: &str) {
        if self.hosts[host].dead.contains(&session) || self.hosts[host].guests.contains_key(&session) {
            self.record.violations.push(format!("n{host}: {what} of {session:?}, which is live or dead"));
        }
    }

    fn must_be_here(&mut self, host: usize, session: SessionId, what: &str) {
        if !self.hosts[host].guests.contains_key(&session) {
            self.record.violations.push(format!("n{host}: {what} of {session:?}, which is not here"));
        }
    }

    fn must_have(&mut self, host: usize, session: SessionId, code: Hash) {
        if !self.hosts[host].codes.contains_key(&code) {
            self.record.violations.push(format!("n{host}: {session:?} goes on without its function"));
        }
    }

    /// Whoever goes on although the outcome is unknown may do twice what comes after it.
    fn note_unknown(&mut self, guest: &Guest, result: &Result<Value, Exception>) {
        if matches!(result, Err(why) if why.unknown) {
            self.record.went_on.insert(guest.run());
        }
    }

    fn turn(&mut self, host: usize, session: SessionId, run: impl FnOnce(&mut Guest, &[guest::Op]) -> Turn) {
        let id = self.hosts[host].id();
        let Some((code, guest)) = self.hosts[host].guests.get_mut(&session) else { return };
        let turn = run(guest, &self.programs[code]);
        if guest.caught() {
            self.record.hurt.insert(guest.run());
        }
        let guest = guest.clone();
        self.note_turn(&guest, &turn);
        let us = self.rng.range(1, 200);
        self.after(us, Event::TurnDone { at: id, session, turn });
    }

    fn run_service(
        &mut self,
        host: usize,
        ticket: Ticket,
        (service, function): (&str, &str),
        params: &Value,
        key: Option<StepKey>,
        duplicate: Option<&PossibleDuplicate>,
    ) {
        self.hosts[host].services_run += 1;
        let count = self.hosts[host].services_run;
        let kept = key.clone().filter(|_| function == "keeps");
        if let Some(result) = kept.as_ref().and_then(|key| self.kept_of(host, key, params, duplicate)) {
            return self.after(1, Event::ServiceDone { at: self.hosts[host].id(), ticket, result, took_us: 1 });
        }
        let crash = self.plan.crashes.iter().find(|crash| crash.host == host && crash.at_service == count).cloned();
        // A restarted node does not crash again at the same count.
        let crash = crash.filter(|_| self.hosts[host].id().0 < 1_000);
        if let Some(key) = kept.clone().filter(|_| crash.as_ref().is_none_or(|crash| crash.after_effect || crash.kept))
        {
            self.begin_to_keep(host, key, params.clone(), duplicate);
        }
        if let Some(crash) = &crash
            && !crash.after_effect
        {
            return self.crash(host, crash.restart_after_us);
        }
        self.take_effect(host, service, function, params, key);
        let number = number_of(service);
        let result = services::answer(number, function, params, self.plan.services());
        let more = self.plan.nodes.result_bytes.get(usize::from(number)).copied();
        let result = result.map(|answer| services::enlarged(answer, more.unwrap_or_default()));
        let result = result.map(|answer| services::numbered(answer, u128::from(self.rng.range(1_000, u64::MAX))));
        if let Some(crash) = crash {
            if let Some(key) = kept.filter(|_| crash.kept) {
                self.keep(host, &key, result);
            }
            return self.crash(host, crash.restart_after_us);
        }
        let took_us = match function {
            "slow" => self.plan.slow_us,
            _ => self.rng.range(self.plan.service_us.0, self.plan.service_us.1),
        };
        let at = self.hosts[host].id();
        if let Some(key) = kept {
            self.after(took_us, Event::Keep { at, key, result: result.clone() });
        }
        self.after(took_us, Event::ServiceDone { at, ticket, result, took_us });
    }

    fn take_effect(&mut self, host: usize, service: &str, function: &str, params: &Value, key: Option<StepKey>) {
        let id = self.hosts[host].id();
        let params_bytes = params.as_bytes();
        let params: Result<Params, _> = minicbor::decode(params_bytes);
        let repeatable = self.plan.nodes.repeatable.contains(&number_of(service))
            && services::repeatable_functions().iter().any(|repeatable| repeatable == function);
        if let Ok(params) = params {
            *self.record.effects.entry(params).or_default() += 1;
            let places = self.record.places.entry(params).or_default();
            places.at.push(host);
            places.plain = !repeatable && function != "keeps";
        }
        let effect = is_effect(&target_of(service, function));
        if let (Ok(params), Some(key), "keeps") = (&params, &key, function) {
            *self.record.durable.entry((host, key.clone(), *params)).or_default() += 1;
        }
        self.record.took.extend(params.as_ref().ok().filter(|_| effect));
        let Some(key) = key else { return };
        let thrown: Result<Exception, _> = minicbor::decode(params_bytes);
        if let (true, Some(seen)) = (thrown.is_ok_and(|why| why.unknown), self.record.chains.get(&key.chain)) {
            self.record.went_on.insert(seen.run);
        }
        if self.record.cancels.contains(&(id, key.chain)) {
            let begun = format!("n{host}: {service}/{function} begins for {} after its cancellation", key.chain);
            self.record.violations.push(begun);
        }
        let known = self.record.chains.get(&key.chain).map(|seen| seen.run);
        let ran = self.record.ran.entry(key).or_default();
        ran.on.insert(id);
        ran.effects += u32::from(effect);
        // A function that catches what a chain threw is not told whose it is.
        ran.run = params.ok().map(|(run, ..)| run).or(known).unwrap_or(ran.run);
        (ran.repeatable, ran.durable) = (repeatable, function == "keeps");
        if ran.repeatable && ran.on.len() > 1 {
            // Where the first went on as well, there are two of it from here.
            self.record.went_on.insert(ran.run);
        }
    }

    fn serve_code(&mut self, host: usize, code: Hash, to: &Arc<NodeRef>) {
        let wrong = self.plan.code.wrong && self.plan.code.repository == Some(host);
        let message = match self.hosts[host].codes.get(&code) {
            Some(_) if wrong => Message::Code(code, bytes::Bytes::from_static(b"something else")),
            Some(bytes) => Message::Code(code, bytes.clone()),
            None => Message::NoCode(code),
        };
        self.send(host, to, message.encode(), catena_core::Receipt::None, None);
    }

    fn reply(&mut self, chain: ChainId, replied: Replied) {
        let now = self.now;
        let Some(seen) = self.record.chains.get_mut(&chain) else {
            return self.record.violations.push(format!("{replied:?} for {chain}, which no user began"));
        };
        seen.after_end += usize::from(!seen.ends.is_empty());
        match replied {
            Replied::Partial(value) => seen.partials.push(value),
            Replied::Replies(values) => seen.partials.extend(values),
            Replied::Console(lines) => seen.console.extend(lines),
            Replied::Told(_) | Replied::Over { .. } => {}
            Replied::End { outcome, last_step, path, trace, .. } => {
                seen.ends.push((outcome, path, trace));
                seen.last_step = last_step;
                seen.ended_at_us = now;
            }
        }
    }

    fn call_done(&mut self, host: usize, call: CallId, result: Result<Value, Exception>) {
        self.record.calls.entry((host, call)).or_default().push(result);
    }
}
