//! A hop comes in: seen before? allowed? then its service function runs, and its function goes on as soon as all is there.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet, VecDeque},
    format,
    string::String,
    sync::Arc,
    vec::Vec,
};
use bytes::Bytes;
use catena_wire::{
    Branch, Budget, ChainId, Exception, Fault, Hash, Hop, Message, NodeRef, Outcome, PATH_HOSTS_MAX, StepKey,
    StepTrace, TRACE_STEPS_MAX, Value, names,
};

use crate::{
    Action, Node, Receipt, SessionId, Time, Urgency,
    activation::{Activation, Baggage, Landing, Phase},
    calls::{Asker, Request},
    node::overloaded,
    steps::Done,
};

impl Node {
    /// The head of a hop has arrived, its continuation is still on its way: the service function can begin
    /// (rpc-chains section 7.2). [`Node::on_tail`] must follow, for the key that this returns.
    pub fn on_hop_head(&mut self, now: Time, from: &Arc<NodeRef>, hop: Box<Hop>) -> StepKey {
        let key = hop.key.clone();
        self.land(now, from, hop, None);
        key
    }

    /// The continuation of a hop has arrived, and the function if it rode along; or never will.
    pub fn on_tail(&mut self, now: Time, key: &StepKey, tail: Option<(Bytes, Option<Bytes>)>) {
        let Some(Done::Running(session)) = self.steps.get(key).cloned() else {
            return;
        };
        let Some(activation) = self.activations.get_mut(session) else {
            return;
        };
        let code = activation.baggage.code;
        let Phase::Landing(landing) = &mut activation.phase else {
            return;
        };
        if landing.continuation.is_some() {
            return;
        }
        let Some((continuation, code_bytes)) = tail else {
            landing.tails_due = landing.tails_due.saturating_sub(1);
            // The hop was sent again, and that one's tail is still on its way.
            if landing.tails_due == 0 {
                let why = "the link broke while the chain's state was arriving; its service function may have run";
                self.end(now, session, Outcome::Threw(Exception::new(names::NODE_LOST, Fault::Network, why)));
            }
            return;
        };
        landing.code_here |= code_bytes.is_some();
        activation.profile.continuation_bytes = continuation.len() as u64;
        landing.continuation = Some(continuation);
        self.actions.push_back(Action::CheckCode { code, bytes: code_bytes });
        self.resume_if_ready(session);
    }

    pub(crate) fn land(&mut self, now: Time, from: &Arc<NodeRef>, mut hop: Box<Hop>, tail: Option<Bytes>) {
        let before = StepKey { step: hop.key.step.saturating_sub(1), ..hop.key.clone() };
        self.seen_beyond(now, from.id, &before);
        if let Some(done) = self.steps.get(&hop.key).cloned() {
            return self.repeat(now, from, *hop, tail, done);
        }
        if let Err(why) = self.admit(&hop) {
            return self.refuse(now, from, &hop, why);
        }
        hop.budget = hop.budget.narrowed_to(self.policy.budget_max);
        let code_bytes = hop.code_bytes.take();
        let (key, code, whole) = (hop.key.clone(), hop.code, tail.is_some());
        let request = Request {
            asker: Asker::Nobody,
            service: core::mem::take(&mut hop.service),
            function: core::mem::take(&mut hop.function),
            params: hop.params.clone(),
            budget: hop.budget,
            budget_at: now,
        };
        let session = self.take_in(now, from, *hop, &request, tail);
        self.steps.begin(key.clone(), session);
        self.send(from, Message::Accepted(key), Receipt::None, Urgency::Lazy);
        if whole {
            self.actions.push_back(Action::CheckCode { code, bytes: code_bytes });
        }
        self.run_service(now, Request { asker: Asker::Landing(session), ..request });
    }

    /// Done before: not again (rpc-chains section 3.9). What came of it is sent once more.
    fn repeat(&mut self, now: Time, from: &Arc<NodeRef>, mut hop: Hop, tail: Option<Bytes>, done: Done) {
        let (receipt, urgency) = (Receipt::None, Urgency::Now);
        if let Done::Refused(message) = done {
            return self.actions.push_back(Action::Send { to: from.clone(), message, receipt, urgency });
        }
        self.send(from, Message::Accepted(hop.key.clone()), Receipt::None, Urgency::Lazy);
        match (done, tail) {
            // The first sending's state may never have come.
            (Done::Running(_), Some(tail)) => self.on_tail(now, &hop.key, Some((tail, hop.code_bytes.take()))),
            (Done::Running(session), None) => {
                if let Some(Activation { phase: Phase::Landing(landing), .. }) = self.activations.get_mut(session) {
                    landing.tails_due += 1;
                }
            }
            (Done::Sent { to, message }, _) if to.id != self.me.id => {
                self.actions.push_back(Action::Send { to, message, receipt, urgency });
            }
            (Done::Sent { .. } | Done::Refused(_), _) => {}
        }
    }

    /// Refused once is refused for good: its sender goes on with the exception, so a repetition that comes late must not run.
    fn refuse(&mut self, now: Time, from: &Arc<NodeRef>, hop: &Hop, why: Exception) {
        let path = travelled(hop, &self.me.name);
        let why = why.calling(&hop.service, &hop.function).at_step(hop.key.step, &path);
        let message = Message::Refused(hop.key.clone(), why).encode();
        self.steps.refuse(now, &hop.key, message.clone(), &self.policy);
        let (receipt, urgency) = (Receipt::None, Urgency::Now);
        self.actions.push_back(Action::Send { to: from.clone(), message, receipt, urgency });
    }

    pub(crate) fn admit(&self, hop: &Hop) -> Result<(), Exception> {
        if hop.key.chain.origin != hop.origin.id || matches!(hop.key.step, 0 | u32::MAX) {
            let message = format!(
                "step {} of a chain of {:?} cannot answer to {:?}",
                hop.key.step, hop.key.chain.origin, hop.origin.id
            );
            return Err(Exception::new(names::PROTOCOL, Fault::Network, message));
        }
        self.check_service(&hop.service, &hop.function)?;
        if self.activations.count() >= self.policy.activations_max {
            return Err(overloaded(&self.me.name, "chains", self.policy.activations_max));
        }
        self.check_running()?;
        if hop.budget.time_left_us() == 0 {
            let message = format!("the chain had no time left when it reached {}", self.me.name);
            return Err(Exception::new(names::DEADLINE_EXCEEDED, Fault::Caller, message));
        }
        Ok(())
    }

    pub(crate) fn take_in(
        &mut self,
        now: Time,
        from: &Arc<NodeRef>,
        hop: Hop,
        to: &Request,
        tail: Option<Bytes>,
    ) -> SessionId {
        let profile = StepTrace {
            step: hop.key.step,
            arrived_at_us: self.unix_us(now),
            continuation_bytes: tail.as_ref().map_or(0, |tail| tail.len() as u64),
            params_bytes: hop.params.len_bytes() as u64,
            ..self.profile(&to.service, &to.function)
        };
        let path = travelled(&hop, &self.me.name);
        let (mut trace, mut console) = (hop.trace, hop.console);
        trace.iter_mut().for_each(|trace| trace.truncate(TRACE_STEPS_MAX));
        console.truncate(self.policy.console_lines_max);
        let baggage = Baggage {
            code: hop.code,
            origin: Arc::new(hop.origin),
            started_at_ms: hop.started_at_ms,
            emitted: hop.emitted,
            path,
            trace,
            console,
        };
        let landing = Landing { call: hop.call, result: None, continuation: tail, tails_due: 1, code_here: true };
        self.activations.insert(Activation {
            step: hop.key.step,
            arrived: hop.key,
            baggage,
            budget: hop.budget,
            budget_at: now,
            heartbeat_at: now.after(hop.heartbeat_in_us.min(self.policy.heartbeat_interval_us)),
            before: from.clone(),
            phase: Phase::Landing(landing),
            out: BTreeSet::new(),
            busy: false,
            ready: VecDeque::new(),
            profile,
            in_place: BTreeMap::new(),
        })
    }

    /// Goes on with a landing as soon as result, state and function are all there.
    pub(crate) fn resume_if_ready(&mut self, session: SessionId) {
        let Some(activation) = self.activations.get_mut(session) else {
            return;
        };
        let Phase::Landing(landing) = &mut activation.phase else {
            return;
        };
        if !landing.code_here || landing.continuation.is_none() {
            return;
        }
        let Some(result) = landing.result.take() else {
            return;
        };
        let Some(continuation) = landing.continuation.take() else {
            return;
        };
        let (call, code) = (landing.call, activation.baggage.code);
        activation.busy = true;
        self.activations.set_phase(session, Phase::Live);
        self.actions.push_back(Action::Resume { session, code, continuation, call, result });
    }

    pub(crate) fn begin_chain(
        &mut self,
        now: Time,
        chain: ChainId,
        code: Hash,
        input: Value,
        budget: Budget,
        profile: bool,
    ) -> Result<(), Exception> {
        if self.activations.count() >= self.policy.activations_max {
            return Err(overloaded(&self.me.name, "chains", self.policy.activations_max));
        }
        let started_at_ms = self.unix_us(now) / 1_000;
        let arrived = StepKey { chain, branch: Branch::root(), step: 0 };
        let trace = StepTrace { target: String::new(), ..self.profile("", "") };
        let session = self.activations.insert(Activation {
            step: 0,
            arrived,
            baggage: Baggage {
                code,
                origin: self.me.clone(),
                started_at_ms,
                emitted: 0,
                path: alloc::vec![self.me.name.clone()],
                trace: profile.then(Vec::new),
                console: Vec::new(),
            },
            budget,
            budget_at: now,
            heartbeat_at: now.after(self.policy.heartbeat_interval_us),
            before: self.me.clone(),
            phase: Phase::Live,
            out: BTreeSet::new(),
            busy: true,
            ready: VecDeque::new(),
            profile: StepTrace { arrived_at_us: self.unix_us(now), params_bytes: input.len_bytes() as u64, ..trace },
            in_place: BTreeMap::new(),
        });
        let seed = chain.seed();
        self.actions.push_back(Action::Begin { session, code, input, started_at_ms, seed });
        Ok(())
    }

    pub(crate) fn profile(&self, service: &str, function: &str) -> StepTrace {
        StepTrace {
            node: self.me.name.clone(),
            site: self.me.site.clone(),
            target: [service, "/", function].concat(),
            ..StepTrace::default()
        }
    }
}

/// The hosts behind a hop that has reached `host`. The oldest are kept when it grows too long.
fn travelled(hop: &Hop, host: &str) -> Vec<String> {
    let mut path = hop.path.clone();
    if path.len() < PATH_HOSTS_MAX {
        path.push(host.into());
    }
    path
}
