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
    Branch, ChainId, Charter, Encoded, Exception, Fault, Hash, Hop, Message, NodeRef, Outcome, PATH_HOSTS_MAX, StepKey,
    StepTrace, TRACE_STEPS_MAX, Value, names,
};

use crate::{
    Action, Answer, Node, Plan, Receipt, SessionId, Time, Urgency,
    activation::{Activation, Baggage, Landing, Phase},
    calls::{Asker, Request},
    node::{Start, overloaded},
    recording::Recording,
    redoing::Mark,
    steps::Done,
};

impl Node {
    /// The head of a hop has arrived, its continuation is still on its way: the service function can begin
    /// (rpc-chains section 7.2). [`Node::on_tail`] must follow, for the key that this returns.
    pub fn on_hop_head(&mut self, now: Time, from: &Arc<NodeRef>, hop: Box<Hop>) -> StepKey {
        let key = hop.key.clone();
        self.land(now, from, hop, false);
        key
    }

    /// The continuation of a hop has arrived, and the function if it rode along; or never will.
    pub fn on_tail(&mut self, now: Time, key: &StepKey, tail: Option<Tail>) {
        let Some(Done::Running(session)) = self.steps.get(key) else {
            return;
        };
        let session = *session;
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
        let Some(Tail { continuation, stacked, code_bytes }) = tail else {
            landing.tails_due = landing.tails_due.saturating_sub(1);
            // The hop was sent again, and that one's tail is still on its way.
            if landing.tails_due == 0 {
                let why = "the link broke while the chain's state was arriving; its service function may have run";
                let why = Exception::new(names::NODE_LOST, Fault::Network, why).outcome_unknown();
                self.end(now, session, Outcome::Threw(why));
            }
            return;
        };
        landing.code_here |= code_bytes.is_some();
        activation.profile.continuation_bytes = continuation.len() as u64;
        landing.continuation = Some(continuation);
        activation.baggage.stack.iter_mut().zip(stacked).for_each(|(frame, state)| frame.continuation = state);
        self.actions.push_back(Action::CheckCode { code, bytes: code_bytes });
        self.resume_if_ready(now, session);
    }

    pub(crate) fn land(&mut self, now: Time, from: &Arc<NodeRef>, mut hop: Box<Hop>, whole: bool) {
        let before = StepKey { step: hop.key.step.saturating_sub(1), ..hop.key.clone() };
        self.seen_beyond(now, from.id, &before);
        // What a chain ended with is told again, stopped or not: it may have been stopped for that.
        let over = matches!(self.steps.get(&hop.key), Some(Done::Sent(_)));
        if !over && self.cancelled.contains(hop.key.chain, from.id) && !bug!(self.policy, CancelForgotten) {
            // Not remembered as refused: what is known of the step leads a cancellation on.
            // What was under way here when it was stopped is forgotten: it may have been this.
            let why = Exception::new(names::CANCELLED, Fault::Caller, "the chain was cancelled").outcome_unknown();
            let refusal = self.refusal(&hop, why);
            return self.again(from.clone(), refusal, None);
        }
        if let Some(done) = self.steps.get(&hop.key).cloned()
            && !bug!(self.policy, RepeatRuns)
        {
            return self.repeat(now, from, *hop, whole, done);
        }
        if let Some(redone) = hop.redone.clone() {
            self.second_times.note(now, &Mark::from_wire(now, redone), &self.policy);
        }
        if let Err(why) = self.admit(now, &hop) {
            return self.refuse(now, from, &hop, why);
        }
        hop.budget = hop.budget.narrowed_to(self.policy.budget_max);
        let code_bytes = hop.code_bytes.take();
        let (key, code, gather) = (hop.key.clone(), hop.code, hop.gather > 0);
        let (service, function) = (core::mem::take(&mut hop.service), core::mem::take(&mut hop.function));
        let request = Request::new(Asker::Nobody, service, function, hop.params.clone(), now, hop.budget);
        let credentials = hop.charter.credentials.clone();
        let redone = hop.redone.clone().map(|redone| Mark::from_wire(now, redone));
        let request = Request { key: Some(key.clone()), credentials, redone, ..request };
        let session = self.take_in(now, from, *hop, &request, whole);
        self.steps.begin(key.clone(), session);
        self.send(from, Message::Accepted(key), Receipt::None, Urgency::Lazy);
        if whole {
            self.actions.push_back(Action::CheckCode { code, bytes: code_bytes });
        }
        if gather {
            return self.resume_if_ready(now, session);
        }
        let may_chain = self.may_answer_with_chain(&request.service, &request.function);
        let lent = self.activations.get_mut(session).map(|activation| activation.lend_all(now, may_chain));
        let budget = lent.unwrap_or(request.budget);
        if bug!(self.policy, HopsKept) {
            self.give_back(session, budget.hops_left());
        }
        let request = Request { asker: Asker::Landing(session), budget, ..request };
        match self.services.contains_key(&request.service) {
            true => self.run_service(now, request),
            // For another node: this one is its chaining proxy.
            false => self.dispatch(now, request),
        }
    }

    /// Refused once is refused for good: its sender goes on with the exception, so a repetition that comes late must not run.
    fn refuse(&mut self, now: Time, from: &Arc<NodeRef>, hop: &Hop, why: Exception) {
        // Who is told that no guests run here calls instead, under the same step.
        let lasting = why.name != names::RUNS_NO_GUESTS;
        let message = self.refusal(hop, why);
        if lasting {
            self.steps.remember(now, &hop.key, Done::Refused(message.clone()), &self.policy);
        }
        self.again(from.clone(), message, None);
    }

    pub(crate) fn refusal(&self, hop: &Hop, why: Exception) -> Encoded {
        let path = travelled(hop, &self.me.name);
        let why = why.calling(&hop.service, &hop.function).at_step(hop.key.step, &path);
        Message::Refused(hop.key.clone(), why).encode()
    }

    fn admit(&self, now: Time, hop: &Hop) -> Result<(), Exception> {
        check_identity(hop)?;
        let mark = hop.redone.clone().map(|redone| Mark::from_wire(now, redone));
        self.check_not_done(now, mark.as_deref(), Some(&hop.key), &hop.service, &hop.function)?;
        if !self.policy.runs_guests {
            let message = format!("{} runs no foreign code; call its services from where the chain is", self.me.name);
            return Err(Exception::new(names::RUNS_NO_GUESTS, Fault::Node, message));
        }
        let proxied = self.policy.chaining_proxy && !self.services.contains_key(&hop.service);
        if hop.gather == 0 && !proxied {
            self.check_service(&hop.service, &hop.function)?;
        }
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

    pub(crate) fn take_in(&mut self, now: Time, from: &Arc<NodeRef>, hop: Hop, to: &Request, whole: bool) -> SessionId {
        let profile = StepTrace {
            step: hop.key.step,
            arrived_at_us: self.unix_us(now),
            continuation_bytes: u64::from(hop.continuation_bytes),
            params_bytes: hop.params.len_bytes() as u64,
            ..self.profile(&to.service, &to.function)
        };
        let path = travelled(&hop, &self.me.name);
        let mut trace = hop.trace;
        trace.iter_mut().for_each(|trace| trace.truncate(TRACE_STEPS_MAX));
        let entry = hop.charter.entry.or_else(|| (hop.charter.origin.address.is_none()).then(|| (*self.me).clone()));
        let baggage = Baggage {
            code: hop.code,
            charter: Charter { entry, ..hop.charter },
            stack: hop.stack,
            emitted: if bug!(self.policy, AnswersRenumbered) { 0 } else { hop.emitted },
            splits: hop.splits,
            merge: hop.merge,
            merged: hop.merged,
            path,
            trace,
            recording: hop.recording.map(Recording::from_wire),
            // All of it, where this node allows fewer lines, too: the origin knows each by its place.
            console: hop.console,
            console_told: hop.console_told,
            limits: hop.limits,
            doubt: hop.doubt,
            redone: hop.redone.map(|redone| Mark::from_wire(now, redone)),
        };
        let landing = Landing {
            call: hop.call,
            service: String::new(),
            result: None,
            continuation: whole.then_some(hop.continuation),
            tails_due: 1,
            code_here: true,
            in_vain: None,
            gather: hop.gather,
            early: Vec::new(),
            branch: None,
        };
        self.activations.insert(Activation {
            step: hop.key.step,
            arrived: hop.key,
            baggage,
            budget: hop.budget,
            budget_at: now,
            heartbeat_at: now.after(hop.heartbeat_in_us.min(self.policy.heartbeat_interval_us)),
            before: from.clone(),
            creator: None,
            phase: Phase::Landing(landing),
            out: BTreeSet::new(),
            busy: false,
            ready: VecDeque::new(),
            profile,
            in_place: BTreeMap::new(),
        })
    }

    /// Goes on with a landing as soon as result, state and function are all there.
    pub(crate) fn resume_if_ready(&mut self, now: Time, session: SessionId) {
        let Some(activation) = self.activations.get_mut(session) else {
            return;
        };
        let Phase::Landing(landing) = &mut activation.phase else {
            return;
        };
        if !landing.code_here && landing.continuation.is_some() {
            if let Some(why) = landing.in_vain.take() {
                self.finish(now, session, Outcome::Threw(why));
            }
            return;
        }
        let awaits_result = landing.result.is_none() && landing.gather == 0 && landing.branch.is_none();
        if landing.continuation.is_none() || awaits_result {
            return;
        }
        let Some(continuation) = landing.continuation.take() else {
            return;
        };
        let (call, gather, code) = (landing.call, landing.gather, activation.baggage.code);
        let limits = activation.baggage.limits;
        if gather > 0 {
            let early = core::mem::take(&mut landing.early);
            self.become_merge_host(now, session, call, gather, continuation);
            return early.into_iter().for_each(|end| self.branch_ended(now, end));
        }
        if let Some(index) = landing.branch {
            activation.busy = true;
            self.activations.set_phase(session, Phase::Live);
            return self.actions.push_back(Action::Branch { session, code, continuation, call, index, limits });
        }
        let result = match landing.result.take() {
            None => return,
            Some(Ok(Answer::Chain(sub))) => {
                let service = core::mem::take(&mut landing.service);
                return self.push_frame(now, session, call, service, sub, continuation);
            }
            Some(Ok(Answer::Value(value))) => Ok(value),
            Some(Err(why)) => Err(why),
        };
        let result = activation.baggage.told(result);
        activation.busy = true;
        self.activations.set_phase(session, Phase::Live);
        self.actions.push_back(Action::Resume { session, code, continuation, call, result, limits });
    }

    pub(crate) fn begin_chain(
        &mut self,
        now: Time,
        chain: ChainId,
        code: Hash,
        input: Value,
        plan: Plan,
    ) -> Result<(), Exception> {
        if self.activations.count() >= self.policy.activations_max {
            return Err(overloaded(&self.me.name, "chains", self.policy.activations_max));
        }
        let Start { started_at_ms, seed } = plan.start.unwrap_or_else(|| Start::of(chain, self.unix_us(now)));
        let arrived = StepKey { chain, branch: Branch::root(), step: 0 };
        let trace = StepTrace { target: String::new(), ..self.profile("", "") };
        let charter = Charter {
            origin: (*self.me).clone(),
            started_at_ms,
            mode: plan.mode,
            compose: plan.compose,
            entry: None,
            credentials: plan.credentials,
        };
        let session = self.activations.insert(Activation {
            step: 0,
            arrived: arrived.clone(),
            baggage: Baggage {
                code,
                charter,
                stack: Vec::new(),
                emitted: 0,
                splits: 0,
                merge: None,
                merged: Vec::new(),
                path: alloc::vec![self.me.name.clone()],
                trace: plan.profile.then(Vec::new),
                recording: plan.record.then(Recording::default),
                console: Vec::new(),
                console_told: 0,
                limits: plan.limits,
                doubt: false,
                redone: None,
            },
            budget: plan.budget,
            budget_at: now,
            heartbeat_at: now.after(self.policy.heartbeat_interval_us),
            before: self.me.clone(),
            creator: None,
            phase: Phase::Live,
            out: BTreeSet::new(),
            busy: true,
            ready: VecDeque::new(),
            profile: StepTrace { arrived_at_us: self.unix_us(now), params_bytes: input.len_bytes() as u64, ..trace },
            in_place: BTreeMap::new(),
        });
        self.steps.begin(arrived, session);
        self.actions.push_back(Action::Begin { session, code, input, started_at_ms, seed, limits: plan.limits });
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

/// The tail of a hop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tail {
    /// The continuation.
    pub continuation: Bytes,
    /// Those of the chain stack, outermost first.
    pub stacked: Vec<Bytes>,
    /// The function, if it rode along.
    pub code_bytes: Option<Bytes>,
}

impl Tail {
    /// Out of a hop whose tail has been attached.
    #[must_use]
    pub fn of(hop: Hop) -> Self {
        let stacked = hop.stack.into_iter().map(|frame| frame.continuation).collect();
        Self { continuation: hop.continuation, stacked, code_bytes: hop.code_bytes }
    }
}

/// Whether a hop is of the chain that it claims to be of: a branch has a parent of the same chain to which it answers.
fn check_identity(hop: &Hop) -> Result<(), Exception> {
    let (key, origin) = (&hop.key, hop.charter.origin.id);
    let home = match &hop.merge {
        None => key.branch.is_root(),
        Some(merge) => merge.at.chain == key.chain && key.branch.parent().as_ref() == Some(&merge.at.branch),
    };
    let numbered = hop.gather <= hop.splits;
    if key.chain.origin == origin && home && numbered && !matches!(key.step, 0 | u32::MAX) {
        return Ok(());
    }
    let message = format!("step {} of a chain of {:?} cannot answer to {origin:?}", key.step, key.chain.origin);
    Err(Exception::new(names::PROTOCOL, Fault::Network, message))
}

/// The hosts behind a hop that has reached `host`. The oldest are kept when it grows too long.
fn travelled(hop: &Hop, host: &str) -> Vec<String> {
    let mut path = hop.path.clone();
    if path.len() < PATH_HOSTS_MAX {
        path.push(host.into());
    }
    path
}
