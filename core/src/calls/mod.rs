//! Plain remote calls in both directions, and service functions running here. One table holds all calls under way; they are found by number, by owner (for whom
//! they are made), and by the node that was asked.

mod answer;
mod ask;
mod detached;
mod serve;

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec::Vec,
};
use catena_wire::{Brought, ChainId, Exception, Fault, Message, NodeId, StepKey, names};

pub(crate) use crate::request::{Owner, ReplyTo, Request};
use crate::{
    Action, Receipt, SessionId, Ticket, Time, Urgency,
    collections::{Party, Shares, Timers},
    delivery::Delivery,
    directory::Waiter,
    ground::Ground,
    outbox::Event,
};
pub(crate) use answer::result_too_large;

/// How far a call has got.
#[derive(Clone, Debug)]
enum Stage {
    /// Its service is being looked up. The delivery, if any, knows the instances that were asked before.
    LookingUp(Option<Delivery>),
    /// A node has been asked to do it.
    Asked(Delivery),
    /// Its service function runs here.
    Running,
    /// A service of this node answered it with a chain, which runs on its own. The string names the function that takes the chain's exceptions.
    Detached(ChainId, Option<String>),
}

#[derive(Clone, Debug)]
struct Call {
    request: Request,
    stage: Stage,
    /// Of its parameters and credentials, also while the service function has them.
    bytes: usize,
}

impl Call {
    fn new(request: Request, stage: Stage) -> Self {
        let bytes = request.kept_bytes();
        Self { request, stage, bytes }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Calls {
    next: u64,
    /// Boxed: calls are large, and a map has room for twice as many as it holds.
    calls: BTreeMap<u64, Box<Call>>,
    owners: BTreeSet<(Owner, u64)>,
    asked: BTreeSet<(NodeId, u64)>,
    detached: BTreeMap<ChainId, u64>,
    /// Steps whose calls other nodes asked for, by the asking node and its number for the call.
    asking: BTreeMap<(NodeId, u64), StepKey>,
    timers: Timers<u64>,
    /// Calls of each party: whose service is being looked up, that wait for another node, and that a chain of their own answers.
    looking_up: Shares<Party>,
    waiting: Shares<Party>,
    detached_for: Shares<Party>,
    /// How many functions of each service run here.
    running: BTreeMap<String, usize>,
    /// Parameters and credentials of calls that have not been answered, by bytes.
    kept: Shares<Party>,
}

impl Calls {
    /// Calls that wait for an answer from another node.
    pub(crate) fn count_waiting(&self) -> usize {
        self.asked.len()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.calls.is_empty()
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    const fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn insert(&mut self, ground: &mut Ground, request: Request, stage: Stage) -> u64 {
        let id = self.number();
        self.put(ground, id, Call::new(request, stage));
        id
    }

    /// How many chains run on their own to answer calls of this peer.
    pub(crate) fn detached_for(&self, by: Party) -> usize {
        self.detached_for.of(by)
    }

    /// Bytes of parameters of calls that have not been answered.
    pub(crate) const fn bytes(&self) -> usize {
        self.kept.all_bytes() as usize
    }

    /// Whether this may be kept for the call's party until the call has been answered.
    fn check_bytes(&self, ground: &Ground, request: &Request) -> Result<(), Exception> {
        ground.check_bytes(request.by, self.kept.bytes_of(request.by), request.kept_bytes())
    }

    /// Counts one more function of this service as running here, or one fewer, and for whom it runs.
    fn count_running(&mut self, ground: &mut Ground, request: &Request, more: bool) {
        if more {
            ground.running.add(request.by);
            return match self.running.get_mut(&request.service) {
                Some(running) => *running += 1,
                None => drop(self.running.insert(request.service.clone(), 1)),
            };
        }
        ground.running.remove(request.by);
        if let Some(running) = self.running.get_mut(&request.service) {
            *running -= 1;
            if *running == 0 {
                self.running.remove(&request.service);
            }
        }
    }

    fn put(&mut self, ground: &mut Ground, id: u64, call: Call) {
        let by = call.request.by;
        self.owners.insert((call.request.reply_to.owner(), id));
        // The other stages need no timer: a function that runs here ends in time by itself.
        if let Stage::Asked(_) | Stage::LookingUp(_) = &call.stage {
            self.timers.set(id, call.request.budget.deadline());
        }
        match &call.stage {
            Stage::Asked(delivery) => {
                self.asked.insert((delivery.to().id, id));
                self.waiting.add(by);
            }
            Stage::Running => self.count_running(ground, &call.request, true),
            Stage::Detached(chain, _) => {
                self.detached.insert(*chain, id);
                self.detached_for.add(by);
            }
            Stage::LookingUp(_) => self.looking_up.add(by),
        }
        self.kept.add_sized(by, call.bytes as u64);
        // One event may make many calls.
        ground.room = ground.room.saturating_sub(call.bytes);
        self.calls.insert(id, Box::new(call));
    }

    fn take(&mut self, ground: &mut Ground, id: u64, is: impl Fn(&Stage) -> bool) -> Option<Call> {
        if !is(&self.calls.get(&id)?.stage) {
            return None;
        }
        let call = *self.calls.remove(&id)?;
        let by = call.request.by;
        self.owners.remove(&(call.request.reply_to.owner(), id));
        self.timers.clear(&id);
        match &call.stage {
            Stage::Asked(delivery) => {
                self.asked.remove(&(delivery.to().id, id));
                self.waiting.remove(by);
            }
            Stage::Running => self.count_running(ground, &call.request, false),
            Stage::Detached(chain, _) => {
                self.detached.remove(chain);
                self.detached_for.remove(by);
            }
            Stage::LookingUp(_) => {
                ground.directory.lookups.forget(&mut ground.out, Waiter::Call(id));
                self.looking_up.remove(by);
            }
        }
        self.kept.remove_sized(by, call.bytes as u64);
        ground.room = ground.room.saturating_add(call.bytes);
        Some(call)
    }

    /// Numbers of the calls under way for this owner.
    fn of(&self, owner: &Owner) -> Vec<u64> {
        self.owners.range((owner.clone(), 0)..=(owner.clone(), u64::MAX)).map(|(_, id)| *id).collect()
    }

    /// Stops what is under way for an owner that is gone, here and at the nodes that were asked.
    pub(crate) fn abandon(&mut self, ground: &mut Ground, owner: &Owner) {
        for id in self.of(owner) {
            let Some(Call { request, stage, .. }) = self.take(ground, id, |_| true) else { continue };
            match stage {
                Stage::Running => ground.out.ask(Action::CancelService(Ticket(id))),
                Stage::Asked(delivery) => {
                    ground.out.send(delivery.to(), Message::Withdraw(id), Receipt::None, Urgency::Now);
                    // This message may be lost. With its chain, the call is stopped for certain.
                    if let Some(key) = &request.key
                        && ground.fences.is_stopped(key.chain, ground.me.id)
                    {
                        ground.tell_cancelled(request.by, key.chain, alloc::vec![delivery.to().clone()]);
                    }
                    // The node may have taken over the call with its right to reply, without having said so yet.
                    if let Some(right) = &request.right
                        && !bug!(ground.policy, CancelMissesDelegate)
                    {
                        ground.tell_cancelled(request.by, right.key.chain, alloc::vec![delivery.to().clone()]);
                    }
                }
                Stage::Detached(chain, _) => ground.out.tell(Event::Unwanted(chain)),
                // `take` has let go of the look-up, which ends when nobody else waits for it.
                Stage::LookingUp(_) => {}
            }
        }
        if let Owner::Step(key) = owner {
            self.step_done(ground, key, Err(stopped()), Brought::default());
        }
    }

    /// Stops everything that a node asked for: its link has broken.
    pub(crate) fn abandon_peer(&mut self, ground: &mut Ground, node: NodeId) {
        let first = (Owner::Peer(node, 0), 0);
        let of_node = |(owner, _): &&(Owner, u64)| matches!(owner, Owner::Peer(of, _) if *of == node);
        let owners: Vec<Owner> =
            self.owners.range(first..).take_while(of_node).map(|(owner, _)| owner.clone()).collect();
        owners.iter().for_each(|owner| self.abandon(ground, owner));
    }

    /// A function has ended by itself: the calls that it started go on, but nobody listens for their results any more.
    pub(crate) fn let_go(&mut self, session: SessionId, chain: ChainId) {
        for id in self.of(&Owner::Session(session)) {
            let Some(call) = self.calls.get_mut(&id) else { continue };
            call.request.reply_to = ReplyTo::Nobody(chain);
            self.owners.remove(&(Owner::Session(session), id));
            self.owners.insert((Owner::Chain(chain), id));
        }
    }
}

fn stopped() -> Exception {
    Exception::new(names::CANCELLED, Fault::Caller, "the chain was cancelled").outcome_unknown()
}
