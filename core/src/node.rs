//! The node: its parts put together, and its interface to the shell.

use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    format,
    string::{String, ToString},
    sync::Arc,
};
use catena_wire::{Budget, ChainId, Exception, Fault, Hash, Message, NodeId, NodeRef, Outcome, StepKey, Value, names};

use crate::{
    Action, CallId, Policy, Receipt, SessionId, Ticket, Time, Turn, Undelivered, Urgency,
    activation::{Activations, Phase},
    calls::{Asker, Calls, Request, Unresolved},
    code::Codes,
    origin::Origin,
    steps::Steps,
};

/// One participant: origin, hop, caller and callee in one, since a node may be all of them at once.
#[derive(Debug)]
pub struct Node {
    pub(crate) me: Arc<NodeRef>,
    pub(crate) policy: Policy,
    /// Adds up with [`Time`] to microseconds since the Unix epoch: for profiles and logs only.
    pub(crate) epoch_us: u64,
    pub(crate) repository: Option<Arc<NodeRef>>,
    pub(crate) services: BTreeMap<String, BTreeSet<String>>,
    pub(crate) names: BTreeMap<String, Arc<NodeRef>>,
    pub(crate) chains_begun: u64,
    pub(crate) calls_begun: u64,
    pub(crate) origin: Origin,
    pub(crate) activations: Activations,
    pub(crate) steps: Steps,
    pub(crate) calls: Calls,
    pub(crate) codes: Codes,
    pub(crate) actions: VecDeque<Action>,
}

impl Node {
    /// A node that knows nobody yet. `epoch_us` added to a [`Time`] gives microseconds since the Unix epoch.
    #[must_use]
    pub fn new(me: NodeRef, policy: Policy, epoch_us: u64) -> Self {
        Self {
            origin: Origin::new(me.id),
            me: Arc::new(me),
            policy,
            epoch_us,
            repository: None,
            services: BTreeMap::new(),
            names: BTreeMap::new(),
            chains_begun: 0,
            calls_begun: 0,
            activations: Activations::default(),
            steps: Steps::default(),
            calls: Calls::default(),
            codes: Codes::default(),
            actions: VecDeque::new(),
        }
    }

    /// Who this node is.
    #[must_use]
    pub const fn me(&self) -> &Arc<NodeRef> {
        &self.me
    }

    /// Offers a service of this node under `service`, with these functions.
    pub fn serve<'a>(&mut self, service: &str, functions: impl IntoIterator<Item = &'a str>) {
        self.services.insert(service.to_string(), functions.into_iter().map(ToString::to_string).collect());
    }

    /// The node that keeps functions for all, to be asked before the hop before.
    pub fn set_repository(&mut self, repository: NodeRef) {
        self.repository = Some(Arc::new(repository));
    }

    /// Learns, unasked, where a service is. Later news replaces earlier.
    pub fn learn(&mut self, service: &str, place: Arc<NodeRef>) {
        if self.names.len() < self.policy.names_max || self.names.contains_key(service) {
            self.names.insert(service.to_string(), place);
        }
    }

    /// The next thing to do, if there is one.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Begins a chain: the function starts here and hops from its first call on.
    ///
    /// Answers come as [`Action::Reply`]; `profile` asks for a profile of every step. The budget is narrowed to this node's policy.
    ///
    /// # Errors
    /// `Overloaded` when `chains_started_max` or `activations_max` chains are under way.
    pub fn run(
        &mut self,
        now: Time,
        code: Hash,
        input: Value,
        budget: Budget,
        profile: bool,
    ) -> Result<ChainId, Exception> {
        if self.origin.count() >= self.policy.chains_started_max {
            return Err(overloaded(&self.me.name, "chains begun", self.policy.chains_started_max));
        }
        let budget = budget.narrowed_to(self.policy.budget_max);
        let chain = ChainId { origin: self.me.id, number: self.chains_begun + 1 };
        self.begin_chain(now, chain, code, input, budget, profile)?;
        self.chains_begun += 1;
        self.origin.begin(now, chain.number, budget.time_left_us(), &self.me.name, &self.policy);
        Ok(chain)
    }

    /// The holder of the reply set has gone. What still comes of the chain is dropped.
    pub fn forget(&mut self, chain: ChainId) {
        self.origin.forget(chain);
        let here = self.activations.find(|activation| {
            activation.arrived.chain == chain && activation.step == 0 && !matches!(activation.phase, Phase::Handing(_))
        });
        for session in here {
            self.discard(session);
        }
    }

    /// Makes a plain call; its answer comes as [`Action::CallDone`].
    pub fn call(&mut self, now: Time, service: &str, function: &str, params: Value, budget: Budget) -> CallId {
        self.calls_begun += 1;
        let id = CallId(self.calls_begun);
        let (service, function) = (service.to_string(), function.to_string());
        let budget = budget.narrowed_to(self.policy.budget_max);
        self.dispatch(now, Request { asker: Asker::Api(id), service, function, params, budget, budget_at: now });
        id
    }

    /// Withdraws a plain call: no answer will come, and the node that was asked is told to stop.
    pub fn withdraw(&mut self, call: CallId) {
        self.abandon(|asker| matches!(asker, Asker::Api(id) if *id == call));
    }

    /// A service function has ended, after `took_us`.
    pub fn on_service_done(&mut self, now: Time, ticket: Ticket, result: Result<Value, Exception>, took_us: u64) {
        let Some(asker) = self.calls.take_running(ticket) else {
            return;
        };
        match asker {
            Asker::Landing(session) => {
                if let Some(activation) = self.activations.get_mut(session) {
                    activation.profile.service_us = took_us;
                }
            }
            Asker::Guest { session, call } => {
                if let Some(profile) = self.activations.get_mut(session).and_then(|a| a.in_place.get_mut(&call)) {
                    profile.service_us = took_us;
                }
            }
            Asker::Peer { .. } | Asker::Api(_) | Asker::Nobody => {}
        }
        self.answer(now, asker, result);
    }

    /// The guest has run, for `took_us`, and returned with an empty stack; or broke a limit.
    pub fn on_turn(&mut self, now: Time, session: SessionId, turn: Result<Turn, Exception>, took_us: u64) {
        if let Some(activation) = self.activations.get_mut(session) {
            activation.profile.guest_us += took_us;
        }
        match turn {
            Ok(turn) => self.take_turn(now, session, turn),
            Err(broken) if self.activations.is_live(session) => self.end(now, session, Outcome::Threw(broken)),
            Err(_) => {}
        }
    }

    /// A name has been looked up.
    pub fn on_resolved(&mut self, now: Time, service: &str, place: Result<Arc<NodeRef>, Exception>) {
        let place = place.inspect(|place| self.learn(service, place.clone()));
        for unresolved in self.calls.take_aside(service) {
            match (unresolved, &place) {
                (Unresolved::Plain(request), Ok(place)) => self.ask(now, request, place),
                (Unresolved::Plain(request), Err(why)) => {
                    let why = why.clone().calling(&request.service, &request.function);
                    self.answer(now, request.asker, Err(why));
                }
                (Unresolved::Hop { session, call }, Ok(place)) => self.pack(session, call, place.clone()),
                (Unresolved::Hop { session, call }, Err(why)) => {
                    let why = why.clone().calling(&call.service, &call.function);
                    self.settle(session, call.call, Err(why));
                }
            }
        }
    }

    /// A link to this node has broken: what it was asked is lost, what it asked is moot.
    pub fn on_link_lost(&mut self, now: Time, node: NodeId) {
        self.codes.forget_node(node);
        // Another run of it, or another node, may serve them by now: ask again.
        self.names.retain(|_, place| place.id != node);
        for code in self.codes.asked_of(node) {
            self.ask_for_code(now, code);
        }
        self.abandon(|asker| matches!(asker, Asker::Peer { to, .. } if to.id == node));
        for id in self.calls.waiting_for(node) {
            self.call_failed(now, id, Undelivered::Lost);
        }
        for session in self.activations.handing_to(node) {
            self.hand_again(now, session);
        }
    }

    /// A message did not arrive, or may not have.
    pub fn on_undelivered(&mut self, now: Time, receipt: Receipt, why: Undelivered) {
        match (receipt, why) {
            (Receipt::Hop(handed), Undelivered::Unreachable) if self.is_handing(handed) => {
                self.hop_unreachable(handed.session);
            }
            (Receipt::Hop(handed), Undelivered::Lost) if self.is_handing(handed) => {
                self.hand_again(now, handed.session)
            }
            // An earlier sending, which has been followed by another: news of that one counts.
            (Receipt::Hop(_), _) => {}
            (Receipt::Call(id), why) => self.call_failed(now, id, why),
            (Receipt::WantCode(wanted), _) => self.code_unavailable(now, wanted.code, wanted.from),
            // If the origin has gone, the answer is moot (rpc-chains section 3.8); if it lives, it notices the silence.
            (Receipt::Answer(_) | Receipt::None, _) => {}
        }
    }

    /// When [`Node::on_timeout`] must be called at the latest.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        [
            self.origin.next_timeout(),
            self.activations.next_timeout(),
            self.calls.next_timeout(),
            self.codes.next_timeout(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Time has passed.
    pub fn on_timeout(&mut self, now: Time) {
        self.origin.on_timeout(now, &self.policy, &mut self.actions);
        while let Some(session) = self.activations.take_due(now) {
            self.wake(now, session);
        }
        while let Some(late) = self.calls.take_late(now) {
            let message = format!("no answer from {} in time; whether the call took effect is unknown", late.to.name);
            let why = Exception::new(names::DEADLINE_EXCEEDED, Fault::Service, message);
            self.answer(now, late.asker, Err(why.calling(&late.service, &late.function)));
        }
        while let Some(code) = self.codes.take_late(now) {
            self.ask_for_code(now, code);
        }
        self.steps.evict(now, &self.policy);
    }

    /// Whether nothing is under way: no chain begun or present, no call, no service function, no function or name being looked up.
    ///
    /// What is only remembered for a while (steps done, names, functions sent) does not count.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.origin.count() == 0
            && self.activations.count() == 0
            && self.calls.is_idle()
            && self.codes.is_idle()
            && self.next_timeout().is_none()
    }

    /// How many chains are at this node, and how many plain calls and service functions are under way.
    #[must_use]
    pub fn load(&self) -> (usize, usize, usize) {
        (self.activations.count(), self.calls.count_waiting(), self.calls.count_running())
    }

    /// Sends; the shell also takes what a node sends to itself.
    pub(crate) fn send(&mut self, to: &Arc<NodeRef>, message: Message, receipt: Receipt, urgency: Urgency) {
        let message = message.encode();
        self.actions.push_back(Action::Send { to: to.clone(), message, receipt, urgency });
    }

    /// An answer for a chain's origin, wherever that is.
    pub(crate) fn send_to_origin(&mut self, now: Time, origin: &Arc<NodeRef>, message: Message, key: StepKey) {
        if origin.id == self.me.id {
            let me = self.me.clone();
            self.on_message(now, &me, message);
        } else {
            self.send(origin, message, Receipt::Answer(key), Urgency::Now);
        }
    }

    pub(crate) fn unix_us(&self, now: Time) -> u64 {
        self.epoch_us.saturating_add(now.as_us())
    }
}

pub(crate) fn overloaded(host: &str, what: &str, max: usize) -> Exception {
    let message = format!("{host} has {max} {what} under way, which is all it takes on; try again later or elsewhere");
    Exception::new(names::OVERLOADED, Fault::Node, message)
}
