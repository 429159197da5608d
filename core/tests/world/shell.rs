//! Does what a node asks for.

use catena_core::{Action, CallId, Replied, Ticket};
use catena_wire::{ChainId, Exception, Fault, Hash, Message, NodeRef, Value};
use std::sync::Arc;

use crate::{
    guest::{self, Guest, Params},
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
            Action::Send { to, message, receipt, .. } => self.send(host, &to, message, receipt),
            Action::RunService { ticket, service, function, params, time_left_us } => {
                self.run_service(host, ticket, &service, &function, &params, time_left_us);
            }
            Action::CancelService(ticket) => {
                self.record.cancelled += 1;
                self.hosts[host].cancelled.insert(ticket);
            }
            Action::Resolve(service) => {
                self.record.resolves.push(service.clone());
                let us = self.rng.range(100, 5_000);
                self.after(us, Event::Resolved { at: id, service });
            }
            Action::CheckCode { code, bytes } => {
                if let Some(bytes) = bytes.filter(|bytes| guest::hash_of(bytes) == code) {
                    self.hosts[host].codes.insert(code, bytes);
                }
                if !self.hosts[host].codes.contains_key(&code) {
                    let now = self.time();
                    self.hosts[host].node.on_code_missing(now, code);
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
            Action::CallDone(call, result) => self.call_done(host, call, result),
            Action::ServeListing { .. } | Action::Listing { .. } => {}
            action => self.act_on_guest(host, action),
        }
    }

    fn act_on_guest(&mut self, host: usize, action: Action) {
        match action {
            Action::Begin { session, code, input, .. } => {
                self.must_be_new(host, session, "Begin");
                let guest = Guest::begin(&input);
                self.hosts[host].guests.insert(session, (code, guest));
                self.turn(host, session, None);
            }
            Action::Resume { session, code, continuation, call, result } => {
                self.must_be_new(host, session, "Resume");
                if !self.hosts[host].codes.contains_key(&code) {
                    self.record.violations.push(format!("n{host}: Resume of {session:?} without its function"));
                }
                let guest = Guest::lay_over(&continuation);
                if matches!(&result, Err(why) if why.name == catena_wire::names::NODE_LOST) {
                    self.record.went_on.insert(guest.run());
                }
                self.hosts[host].guests.insert(session, (code, guest));
                self.turn(host, session, Some((call, result)));
            }
            Action::Settle { session, call, result } => {
                self.must_be_here(host, session, "Settle");
                self.turn(host, session, Some((call, result)));
            }
            Action::Suspend { session, with_code } => {
                self.must_be_here(host, session, "Suspend");
                let Some((_, guest)) = self.hosts[host].guests.remove(&session) else { return };
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

    fn must_be_new(&mut self, host: usize, session: catena_core::SessionId, what: &str) {
        if self.hosts[host].dead.contains(&session) || self.hosts[host].guests.contains_key(&session) {
            self.record.violations.push(format!("n{host}: {what} of {session:?}, which is live or dead"));
        }
    }

    fn must_be_here(&mut self, host: usize, session: catena_core::SessionId, what: &str) {
        if !self.hosts[host].guests.contains_key(&session) {
            self.record.violations.push(format!("n{host}: {what} of {session:?}, which is not here"));
        }
    }

    fn turn(&mut self, host: usize, session: catena_core::SessionId, settled: Option<(u32, Result<Value, Exception>)>) {
        let id = self.hosts[host].id();
        let Some((code, guest)) = self.hosts[host].guests.get_mut(&session) else { return };
        let turn = guest.turn(&self.programs[code], settled);
        let us = self.rng.range(1, 200);
        self.after(us, Event::TurnDone { at: id, session, turn });
    }

    fn run_service(
        &mut self,
        host: usize,
        ticket: Ticket,
        service: &str,
        function: &str,
        params: &Value,
        time_left_us: u64,
    ) {
        if time_left_us == 0 {
            self.record.violations.push(format!("n{host}: {service}/{function} runs with no time left"));
        }
        self.hosts[host].services_run += 1;
        let count = self.hosts[host].services_run;
        let crash = self.plan.crashes.iter().find(|crash| crash.host == host && crash.at_service == count).cloned();
        // A restarted node does not crash again at the same count.
        let crash = crash.filter(|_| self.hosts[host].id().0 < 1_000);
        if let Some(crash) = &crash
            && !crash.after_effect
        {
            return self.crash(host, crash.restart_after_us);
        }
        let params: Params = minicbor::decode(params.as_bytes()).expect("parameters");
        *self.record.effects.entry(params).or_default() += 1;
        if let Some(crash) = crash {
            return self.crash(host, crash.restart_after_us);
        }
        let number: u8 = service[1..].parse().expect("a service");
        let took_us = match function {
            "slow" => self.plan.slow_us,
            _ => self.rng.range(self.plan.service_us.0, self.plan.service_us.1),
        };
        let result = match function {
            "fail" => Err(guest::oops()),
            _ => Ok(Value::encode(&guest::result_of(number, params))),
        };
        self.after(took_us, Event::ServiceDone { at: self.hosts[host].id(), ticket, result, took_us });
    }

    fn serve_code(&mut self, host: usize, code: Hash, to: &Arc<NodeRef>) {
        let wrong = self.plan.code.wrong && self.plan.code.repository == Some(host);
        let message = match self.hosts[host].codes.get(&code) {
            Some(_) if wrong => Message::Code(code, bytes::Bytes::from_static(b"something else")),
            Some(bytes) => Message::Code(code, bytes.clone()),
            None => Message::NoCode(code),
        };
        self.send(host, to, message.encode(), catena_core::Receipt::None);
    }

    fn reply(&mut self, chain: ChainId, replied: Replied) {
        let now = self.now;
        let seen = self.record.chains.entry(chain).or_default();
        seen.after_end += usize::from(!seen.ends.is_empty());
        match replied {
            Replied::Partial(value) => seen.partials.push(value),
            Replied::Console(lines) => seen.console.extend(lines),
            Replied::End { outcome, path, trace } => {
                seen.ends.push((outcome, path, trace));
                seen.ended_at_us = now;
            }
        }
    }

    fn call_done(&mut self, host: usize, call: CallId, result: Result<Value, Exception>) {
        self.record.calls.entry((host, call)).or_default().push(result);
    }
}
