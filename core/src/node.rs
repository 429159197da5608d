//! The node: its parts put together, and its interface to the shell.

use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    format,
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};
use catena_wire::{
    Budget, ChainId, Charter, Exception, Fault, Hash, Kinds, Message, Mode, NodeId, NodeRef, Outcome, StepKey,
    StepLimits, Value, names,
};

use crate::{
    Action, Answer, CallId, Instance, Policy, Receipt, SessionId, Ticket, Time, Turn, Undelivered, Urgency,
    activation::Activations,
    calls::{Asker, Calls, Request, Unresolved},
    cancelling::Cancelled,
    code::Codes,
    hearing::Hearings,
    origin::Origin,
    oversize::too_large,
    placement::Links,
    redoing::SecondTimes,
    steps::Steps,
    trials::{Trial, Trials},
};

/// How a chain is to run.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// What it may spend.
    pub budget: Budget,
    /// Where its continuation runs.
    pub mode: Mode,
    /// Whether chains that services answer with join it (rpc-chains section 3.4).
    pub compose: bool,
    /// Whether every step is profiled.
    pub profile: bool,
    /// On whose behalf it runs.
    pub credentials: Option<Value>,
    /// What its function may use at each step, if that is less than each node allows.
    pub limits: StepLimits,
    /// Whether what its guests are told is recorded, and comes home with its end.
    pub record: bool,
    /// The clock and randomness that its function has, where another chain is to be run again.
    pub start: Option<Start>,
}

/// The only clock and randomness that a function has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Start {
    /// Milliseconds since the Unix epoch.
    pub started_at_ms: u64,
    /// What its random numbers follow from.
    pub seed: u64,
}

impl Start {
    pub(crate) fn of(chain: ChainId, unix_us: u64) -> Self {
        Self { started_at_ms: unix_us / 1_000, seed: chain.seed() }
    }
}

impl Plan {
    /// The ordinary way, within `budget`.
    #[must_use]
    pub const fn new(budget: Budget) -> Self {
        let limits = StepLimits::UNCHANGED;
        let (mode, compose) = (Mode::Chain, true);
        Self { budget, mode, compose, profile: false, credentials: None, limits, record: false, start: None }
    }
}

/// A service of this node.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    pub(crate) functions: BTreeSet<String>,
    pub(crate) kinds: Kinds,
}

/// One participant: origin, hop, caller and callee in one, since a node may be all of them at once.
#[derive(Clone, Debug)]
pub struct Node {
    pub(crate) me: Arc<NodeRef>,
    pub(crate) policy: Policy,
    /// Adds up with [`Time`] to microseconds since the Unix epoch: for profiles and logs only.
    pub(crate) epoch_us: u64,
    pub(crate) repository: Option<Arc<NodeRef>>,
    pub(crate) services: BTreeMap<String, Served>,
    pub(crate) names: BTreeMap<String, Instance>,
    pub(crate) chains_begun: u64,
    pub(crate) calls_begun: u64,
    pub(crate) origin: Origin,
    pub(crate) activations: Activations,
    pub(crate) steps: Steps,
    pub(crate) calls: Calls,
    pub(crate) codes: Codes,
    pub(crate) cancelled: Cancelled,
    pub(crate) hearings: Hearings,
    pub(crate) links: Links,
    pub(crate) trials: Trials,
    /// Chains of this node that nobody waits for any more, to be cancelled.
    pub(crate) given_up: Vec<ChainId>,
    pub(crate) second_times: SecondTimes,
    /// Before this it remembers nothing; `None` if its clock began later.
    pub(crate) born: Option<Time>,
    /// Services of this node that others serve too, or did.
    pub(crate) shared: BTreeSet<String>,
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
            cancelled: Cancelled::default(),
            hearings: Hearings::default(),
            links: Links::default(),
            trials: Trials::default(),
            given_up: Vec::new(),
            second_times: SecondTimes::default(),
            born: None,
            shared: BTreeSet::new(),
            actions: VecDeque::new(),
        }
    }

    /// Who this node is.
    #[must_use]
    pub const fn me(&self) -> &Arc<NodeRef> {
        &self.me
    }

    /// Offers a service of this node under `service`, with these functions, of these kinds.
    pub fn serve<'a>(&mut self, service: &str, functions: impl IntoIterator<Item = &'a str>, kinds: Kinds) {
        let functions = functions.into_iter().map(ToString::to_string).collect();
        self.services.insert(service.to_string(), Served { functions, kinds });
    }

    /// Whether this function may answer with a chain, as far as is known here.
    pub(crate) fn may_answer_with_chain(&self, service: &str, function: &str) -> bool {
        let served = self.services.get(service).map(|served| &served.kinds);
        let kinds = served.or_else(|| self.names.get(service).map(|place| &place.kinds));
        kinds.is_some_and(|kinds| kinds.chaining.iter().any(|known| known == function))
    }

    /// The node that keeps functions for all, to be asked before the hop before.
    pub fn set_repository(&mut self, repository: NodeRef) {
        self.repository = Some(Arc::new(repository));
    }

    /// Learns, unasked, where a service is. Later news replaces earlier.
    pub fn learn(&mut self, service: &str, place: Instance) {
        if self.names.len() < self.policy.names_max || self.names.contains_key(service) {
            self.names.insert(service.to_string(), place);
        }
    }

    /// Whether it is known where this service is.
    #[must_use]
    pub fn knows(&self, service: &str) -> bool {
        self.names.contains_key(service)
    }

    /// Whether there is anything to do.
    #[must_use]
    pub fn has_actions(&self) -> bool {
        !self.actions.is_empty()
    }

    /// The next thing to do, if there is one.
    pub fn poll_action(&mut self) -> Option<Action> {
        let action = self.actions.pop_front()?;
        self.record_told(&action);
        Some(action)
    }

    /// Begins a chain: the function starts here and hops from its first call on.
    ///
    /// Answers come as [`Action::Reply`]. The budget is narrowed to this node's policy.
    ///
    /// # Errors
    /// `Overloaded` when `chains_started_max` or `activations_max` chains are under way.
    pub fn run(&mut self, now: Time, code: Hash, input: Value, plan: Plan) -> Result<ChainId, Exception> {
        if self.origin.count() >= self.policy.chains_started_max {
            return Err(overloaded(&self.me.name, "chains begun", self.policy.chains_started_max));
        }
        let budget = plan.budget.narrowed_to(self.policy.budget_max);
        let chain = ChainId { origin: self.me.id, number: self.chains_begun + 1 };
        let adaptive = plan.mode == Mode::Adaptive;
        let mode = if adaptive { self.trials.choose(code) } else { plan.mode };
        self.begin_chain(now, chain, code, input, Plan { budget, mode, ..plan })?;
        self.chains_begun += 1;
        self.origin.begin(now, chain.number, budget.time_left_us(), &self.me.name, &self.policy);
        if adaptive {
            self.origin.set_trial(chain.number, Trial { code, arm: mode, began: now, last: now });
        }
        Ok(chain)
    }

    /// Makes a plain call; its answer comes as [`Action::CallDone`].
    pub fn call(
        &mut self,
        now: Time,
        service: &str,
        function: &str,
        params: Value,
        budget: Budget,
        credentials: Option<Value>,
    ) -> CallId {
        self.calls_begun += 1;
        let id = CallId(self.calls_begun);
        let (service, function) = (service.to_string(), function.to_string());
        let budget = budget.narrowed_to(self.policy.budget_max);
        let asker = Asker::Api(id);
        let request = Request::new(asker, service, function, params, now, budget);
        self.dispatch(now, Request { credentials, ..request });
        id
    }

    /// Withdraws a plain call: no answer will come, and the node that was asked is told to stop.
    pub fn withdraw(&mut self, now: Time, call: CallId) {
        self.abandon(|request| matches!(request.asker, Asker::Api(id) if id == call));
        self.give_up(now);
    }

    /// A service function has ended, after `took_us`.
    pub fn on_service_done(&mut self, now: Time, ticket: Ticket, result: Result<Answer, Exception>, took_us: u64) {
        let Some(running) = self.calls.take_running(ticket) else {
            return;
        };
        let running = Request { service_us: took_us, ..running };
        if let Asker::Landing(session) = &running.asker
            && let Some(activation) = self.activations.get_mut(*session)
        {
            activation.profile.service_us = took_us;
        }
        self.service_answered(now, running, result);
        self.give_up(now);
    }

    /// The guest has run, for `took_us`, and returned with an empty stack; or broke a limit.
    pub fn on_turn(&mut self, now: Time, session: SessionId, turn: Result<Turn, Exception>, took_us: u64) {
        if let Some(activation) = self.activations.get_mut(session) {
            activation.profile.guest_us += took_us;
        }
        self.record_turn(session, turn.as_ref().ok());
        match turn {
            Ok(turn) => self.take_turn(now, session, turn),
            Err(broken) if self.activations.is_live(session) => self.finish(now, session, Outcome::Threw(broken)),
            Err(_) => {}
        }
        self.give_up(now);
    }

    /// A name has been looked up.
    pub fn on_resolved(&mut self, now: Time, service: &str, place: Result<Instance, Exception>) {
        let place = place.inspect(|place| self.learn(service, place.clone()));
        let (waiting, more) = self.calls.take_aside(service);
        for unresolved in waiting {
            // What was looked up for another may be what this one has tried.
            if more && !self.is_served_by(&unresolved, place.as_ref().ok()) {
                self.calls.put_back(service, unresolved);
                continue;
            }
            match (unresolved, &place) {
                (Unresolved::Plain(request), place) => self.ask_resolved(now, request, place.as_ref()),
                (Unresolved::Hop { session, cargo }, Ok(place)) => self.pack(session, cargo, place.clone()),
                (Unresolved::Hop { session, cargo }, Err(why)) => {
                    let why = why.clone().calling(cargo.service(), cargo.function());
                    // It is the step that could not be made.
                    let Some(chain) = self.activations.get_mut(session) else { continue };
                    chain.step = chain.step.saturating_add(1);
                    let why = why.at_step(chain.step, &chain.baggage.path);
                    self.settle(session, cargo.number(), Err(why));
                }
                (Unresolved::Again { session, step }, place) => {
                    self.hand_elsewhere(now, session, step, place.as_ref().ok())
                }
            }
        }
    }

    fn is_served_by(&self, unresolved: &Unresolved, place: Option<&Instance>) -> bool {
        match unresolved {
            Unresolved::Plain(Request { missed: Some(missed), .. }) => {
                place.is_some_and(|place| missed.allows(&place.node))
            }
            Unresolved::Plain(_) | Unresolved::Hop { .. } => true,
            Unresolved::Again { session, .. } => self.may_hand_to(*session, place),
        }
    }

    /// A link to this node has broken: what it was asked is lost, what it asked is moot.
    pub fn on_link_lost(&mut self, now: Time, node: NodeId) {
        self.codes.forget_node(node);
        self.links.forget(node);
        // Another run of it, or another node, may serve them by now: ask again.
        self.names.retain(|_, place| place.node.id != node);
        for code in self.codes.asked_of(node) {
            self.ask_for_code(now, code);
        }
        self.abandon(|call| matches!(&call.asker, Asker::Peer { to, .. } if to.id == node));
        for id in self.calls.waiting_for(node) {
            self.call_failed(now, id, Undelivered::Lost);
        }
        for session in self.activations.handing_to(node) {
            self.hand_again(now, session);
        }
        self.give_up(now);
    }

    /// A message did not arrive, or may not have.
    pub fn on_undelivered(&mut self, now: Time, receipt: Receipt, why: Undelivered) {
        match (receipt, why) {
            (Receipt::Hop(handed), Undelivered::Unreachable) if self.is_handing(handed) => {
                self.hop_unreachable(now, handed.session);
            }
            (Receipt::Hop(handed), Undelivered::Lost) if self.is_handing(handed) => {
                self.hand_again(now, handed.session)
            }
            (Receipt::Hop(handed), Undelivered::TooLarge { bytes, bytes_max }) if self.is_handing(handed) => {
                self.take_back(now, handed.session, too_large(bytes, bytes_max));
            }
            (Receipt::Return(to, id), Undelivered::TooLarge { bytes, bytes_max }) => {
                self.result_too_large(&to, id, bytes, bytes_max);
            }
            (Receipt::Partial(lost), Undelivered::TooLarge { bytes, bytes_max }) => {
                self.answer_too_large(now, *lost, bytes, bytes_max);
            }
            (Receipt::End(ended), Undelivered::TooLarge { bytes, bytes_max }) => {
                self.end_too_large(now, *ended, bytes, bytes_max);
            }
            // An earlier sending, which has been followed by another: news of that one counts.
            (Receipt::Hop(_), _) => {}
            (Receipt::Call(id), why) => self.call_failed(now, id, why),
            (Receipt::WantCode(wanted), _) => self.code_unavailable(now, wanted.code, wanted.from),
            (Receipt::Answer(key), Undelivered::Unreachable | Undelivered::Lost) => self.origin_unreached(now, &key),
            // If the origin has gone, the answer is moot (rpc-chains section 3.8); if it lives, it notices the silence.
            (Receipt::Partial(_) | Receipt::End(_) | Receipt::Answer(_) | Receipt::Return(..) | Receipt::None, _) => {}
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
        let overdue = self.origin.on_timeout(now, &self.policy, &mut self.actions);
        // Ahead of the hops that go out again: what is known of the first time is asked for.
        overdue.sought.into_iter().for_each(|chain| self.seek(now, chain));
        overdue.silent.into_iter().for_each(|chain| self.retransmit(now, chain));
        // Nobody waits for them any more.
        overdue.lost.into_iter().for_each(|(chain, last_node)| self.stop(now, chain, last_node));
        while let Some(session) = self.activations.take_due(now) {
            self.wake(now, session);
        }
        while let Some(late) = self.calls.take_late(now) {
            let message = format!("no answer from {} in time; whether the call took effect is unknown", late.to.name);
            let why = Exception::new(names::DEADLINE_EXCEEDED, Fault::Service, message).outcome_unknown();
            self.fail(now, late.request, why);
        }
        while let Some(code) = self.codes.take_late(now) {
            self.ask_for_code(now, code);
        }
        self.settle_apart(now);
        self.give_up(now);
        self.steps.evict(now, &self.policy);
        self.cancelled.evict(now, &self.policy);
        self.second_times.evict(now, &self.policy);
        self.hearings.evict(now, &self.policy);
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
        self.actions.push_back(Action::Send { to: to.clone(), message, receipt, urgency, via: None });
    }

    /// An answer for a chain's origin, wherever that is.
    pub(crate) fn send_to_origin(&mut self, now: Time, charter: &Charter, message: Message, key: StepKey) {
        self.send_home(now, &charter.origin, charter.entry.as_ref(), message, key);
    }

    /// To the origin of a chain, or to who can pass it on.
    pub(crate) fn send_home(
        &mut self,
        now: Time,
        origin: &NodeRef,
        entry: Option<&NodeRef>,
        message: Message,
        key: StepKey,
    ) {
        if origin.id == self.me.id {
            let me = self.me.clone();
            return self.on_message(now, &me, message);
        }
        self.actions.push_back(Action::Send {
            to: Arc::new(origin.clone()),
            message: message.encode(),
            receipt: Receipt::Answer(key),
            urgency: Urgency::Now,
            via: self.way_to(origin, entry),
        });
    }

    /// Who can pass a message on to an origin that cannot be dialled.
    pub(crate) fn way_to(&self, origin: &NodeRef, entry: Option<&NodeRef>) -> Option<Arc<NodeRef>> {
        let entry = entry.filter(|entry| origin.address.is_none() && entry.id != self.me.id);
        entry.cloned().map(Arc::new)
    }

    pub(crate) fn unix_us(&self, now: Time) -> u64 {
        self.epoch_us.saturating_add(now.as_us())
    }
}

pub(crate) fn overloaded(host: &str, what: &str, max: usize) -> Exception {
    let message = format!("{host} has {max} {what} under way, which is all it takes on; try again later or elsewhere");
    Exception::new(names::OVERLOADED, Fault::Node, message)
}
