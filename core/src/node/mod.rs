//! The node: its parts put together, and its interface to the shell. It does nothing itself but bring what happened to the part that it
//! concerns, and what one part says to another.

mod begin;
mod calls;
mod messages;
mod news;
mod replies;

use alloc::{string::ToString, sync::Arc};
use catena_wire::{ChainId, Exception, Kinds, NodeId, NodeRef};

use crate::{
    Action, Instance, Link, Policy, Time,
    calls::Calls,
    chain::Chains,
    directory::Known,
    ground::Ground,
    origin::Origin,
    outbox::Event,
    replies::{Rights, Sets},
};

/// One participant: origin, hop, caller and callee in one, since a node may be all of them at once.
#[derive(Clone, Debug)]
pub struct Node {
    ground: Ground,
    chains: Chains,
    calls: Calls,
    origin: Origin,
    /// Calls made here that are answered many times, and rights to answer such calls.
    sets: Sets,
    rights: Rights,
    calls_begun: u64,
    expired_at: Time,
    /// Bytes that the rest of the node leaves for what is kept here.
    memory_left: usize,
}

impl Node {
    /// A node that knows nobody yet. `epoch_us` added to a [`Time`] gives microseconds since the Unix epoch.
    #[must_use]
    pub fn new(me: NodeRef, policy: Policy, epoch_us: u64) -> Self {
        let me = Arc::new(me);
        Self {
            origin: Origin::new(me.id),
            ground: Ground::new(me, policy, epoch_us),
            chains: Chains::default(),
            calls: Calls::default(),
            sets: Sets::default(),
            rights: Rights::default(),
            calls_begun: 0,
            expired_at: Time::default(),
            memory_left: usize::MAX,
        }
    }

    /// Who this node is.
    #[must_use]
    pub const fn me(&self) -> &Arc<NodeRef> {
        &self.ground.me
    }

    /// Offers a service of this node under `service`, with these functions, of these kinds.
    pub fn serve<'a>(&mut self, service: &str, functions: impl IntoIterator<Item = &'a str>, kinds: Kinds) {
        self.ground.directory.serve(service, functions, kinds);
    }

    /// Some other node serves this too, or did: what a durable function of it did may have been done there.
    pub fn note_replica(&mut self, service: &str) {
        self.ground.directory.note_replica(service);
    }

    /// The node that keeps functions for all, to be asked before the hop before.
    pub fn set_repository(&mut self, repository: NodeRef) {
        self.ground.codes.set_repository(repository);
    }

    /// There is a registry that keeps functions, to be asked when nobody else has one ([`Action::FetchCode`]).
    pub const fn set_registry(&mut self) {
        self.ground.codes.set_registry();
    }

    /// Learns, unasked, where a service is. Later news replaces earlier.
    pub fn learn(&mut self, service: &str, place: Instance) {
        let Ground { directory, policy, .. } = &mut self.ground;
        directory.learn(service, place, policy);
    }

    /// Whether it is known where this service is.
    #[must_use]
    pub fn knows(&self, service: &str) -> bool {
        self.place_of(service).is_some()
    }

    /// Where this service is, if that is known.
    #[must_use]
    pub fn place_of(&self, service: &str) -> Option<&Instance> {
        match self.ground.directory.known(self.ground.now, service) {
            Some(Known::At(place)) => Some(place),
            _ => None,
        }
    }

    /// This service is not at that node, or no longer: it is to be looked up anew.
    pub fn on_not_there(&mut self, service: &str, node: NodeId) {
        self.ground.directory.forget_at(service, node);
    }

    /// How far a node is, as measured.
    pub fn on_link_measured(&mut self, node: NodeId, link: Link) {
        self.ground.directory.placement.learn_link(node, link);
    }

    /// Whether there is anything to do.
    #[must_use]
    pub fn has_actions(&self) -> bool {
        self.ground.out.has_actions()
    }

    /// How many things there are to do.
    #[must_use]
    pub fn actions_waiting(&self) -> usize {
        self.ground.out.actions_waiting()
    }

    /// The next thing to do, if there is one.
    pub fn poll_action(&mut self) -> Option<Action> {
        let action = self.ground.out.poll_action()?;
        self.chains.record_told(&mut self.ground, &action);
        Some(action)
    }

    /// When [`Node::on_timeout`] must be called at the latest.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        [self.next_due(), self.ground.over.next_timeout()].into_iter().flatten().min()
    }

    /// When something that is under way needs attention.
    fn next_due(&self) -> Option<Time> {
        let timers = [
            self.origin.next_timeout(),
            self.chains.next_timeout(),
            self.calls.next_timeout(),
            self.sets.next_timeout(),
            self.rights.next_timeout(),
            self.ground.codes.next_timeout(),
            self.ground.outgoing.next_timeout(),
            self.ground.directory.lookups.next_timeout(),
        ];
        timers.into_iter().flatten().min()
    }

    /// Whether nothing is under way: no chain begun or present, no call, no service function, no function or name being looked up,
    /// nothing sent that has not arrived.
    ///
    /// What is only remembered for a while (steps done, names, functions sent) does not count.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.origin.count() == 0
            && self.chains.count() == 0
            && self.calls.is_idle()
            && self.sets.count() + self.rights.count() == 0
            && self.ground.codes.is_idle()
            && self.ground.directory.lookups.is_idle()
            && self.ground.outgoing.is_idle()
            && self.next_due().is_none()
    }

    /// How many chains are at this node, and how many plain calls and service functions are under way.
    #[must_use]
    pub fn load(&self) -> (usize, usize, usize) {
        (self.chains.count(), self.calls.count_waiting(), self.ground.running.all())
    }

    /// Bytes that chains take here, what is needed to answer their steps again, answers that are on their way or wait for those before them, and
    /// parameters of calls that wait: for the budget of the whole node. Bounded by [`Policy::held_bytes_max`].
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let Ground { dedup, outgoing, listeners, .. } = &self.ground;
        let steps = self.chains.bytes() + dedup.payload_bytes() + self.calls.bytes();
        let answers = outgoing.bytes() + self.origin.bytes() + listeners.bytes();
        steps + answers + self.sets.bytes() + self.rights.bytes()
    }

    /// How many bytes more may be kept here: a hop or call that brings more is refused as `Overloaded`, and answers have to come again. Without it,
    /// [`Policy::held_bytes_max`] alone counts.
    pub fn set_memory_left(&mut self, bytes: usize) {
        self.memory_left = bytes;
        self.note_room();
    }

    fn note_room(&mut self) {
        let room = self.ground.policy.held_bytes_max.saturating_sub(self.held_bytes());
        self.ground.room = room.min(self.memory_left);
    }

    /// What the parts have to say to each other, until they have nothing more to say. Sets whose reader has gone are stopped.
    fn route(&mut self) {
        loop {
            self.route_events();
            let Some(set) = self.chains.take_left_set() else { break };
            if !bug!(self.ground.policy, SetOutlivesReader) {
                self.sets.forget(&mut self.ground, set);
            }
        }
    }

    fn route_events(&mut self) {
        while let Some(event) = self.ground.out.poll_event() {
            let ground = &mut self.ground;
            match event {
                Event::Message(message) => {
                    let me = ground.me.clone();
                    self.take_message(&me, message);
                }
                Event::Take(request) => self.take_right(request),
                Event::Handed { right, at } => self.handed(&right, at),
                Event::FunctionEnded { right, result } => self.rights.function_ended(ground, &right, result),
                Event::Call(request) => self.calls.dispatch(ground, request),
                Event::Resolved(id, place) => {
                    if let Some(request) = self.calls.request_mut(id) {
                        self.chains.lend_late(ground.now, request, &place);
                    }
                    self.calls.proceed(ground, id, &place);
                }
                Event::ServedBy(session, call, node) => self.chains.served_by(session, call, &node),
                Event::Ask { session, set, number, request } => self.ask_of_chain(session, set, number, request),
                Event::Replied(session, set, values) => self.chains.replied(ground, (session, set), values),
                Event::SetOver { session, set, missing, failure, rights } => {
                    self.chains.set_over(ground, (session, set), missing, failure, rights);
                }
                Event::Read(set, count) => self.sets.on_read(ground, set, count),
                Event::Answered { to, result, brought } => self.chains.answered(ground, &to, result, brought),
                Event::SubChain { request, sub } => self.sub_chain(request, sub),
                Event::Unawaited(session, chain) => self.calls.let_go(session, chain),
                Event::Abandoned(owner) => self.calls.abandon(ground, &owner),
                Event::StepAbandoned(key) => self.calls.abandon_step(ground, &key),
                Event::Unwanted(chain) => self.forget_chain(chain),
                Event::Seen(key, node) => self.origin.heard_at(&key, &node),
            }
        }
    }

    /// Something has happened: what it leads to happens before the next.
    fn at(&mut self, now: Time, happen: impl FnOnce(&mut Self)) {
        self.ground.advance(now);
        happen(self);
        self.route();
        self.settle_detached();
        self.note_room();
    }

    fn forget_chain(&mut self, chain: ChainId) {
        if self.sets.forget(&mut self.ground, chain) {
            return;
        }
        let hosts = self.origin.hosts(chain);
        if self.origin.forget(chain) {
            let me = self.ground.me.id;
            self.chains.stop(&mut self.ground, me, chain, hosts);
        }
    }

    /// Drops what has been remembered for long enough; twice a second is often enough.
    fn expire(&mut self) {
        const EVERY_US: u64 = 500_000;
        let awake = self.ground.clock.now();
        if awake.since(self.expired_at) < EVERY_US {
            return;
        }
        self.expired_at = awake;
        self.rights.forget_old(awake, &self.ground.policy);
        let Ground { dedup, fences, listeners, relays, out, policy, .. } = &mut self.ground;
        dedup.expire(awake, policy);
        fences.expire(awake, policy);
        listeners.expire(out, awake, policy);
        relays.expire(awake, policy);
    }
}

/// A chain of this node may not be begun.
fn taken(chain: ChainId) -> Exception {
    let message = ["a chain of number ", &chain.number.to_string(), " is under way already; draw another"].concat();
    Exception::new(catena_wire::names::PROTOCOL, catena_wire::Fault::Caller, message)
}
