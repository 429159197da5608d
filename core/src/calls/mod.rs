//! Plain remote calls, both ways, and service functions running here: the table of all that is under way, found by number, by whom it is
//! for, and by the node that was asked.

mod answer;
mod ask;
mod serve;

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec::Vec,
};
use catena_wire::{ChainId, Message, NodeId, StepKey};

pub(crate) use crate::request::{Owner, ReplyTo, Request};
use crate::{
    Action, Receipt, SessionId, Ticket, Time, Urgency, collections::Timers, delivery::Delivery, ground::Ground,
    outbox::Event,
};
pub(crate) use answer::result_too_large;
pub(crate) use ask::too_large;

/// How far a call has got.
#[derive(Clone, Debug)]
enum Stage {
    /// Its service is being looked up; with the instances that were asked before.
    LookingUp(Option<Delivery>),
    /// A node has been asked to do it.
    Asked(Delivery),
    /// Its service function runs here.
    Running,
    /// The chain with which a service of this node answered it runs on its own; with the function that takes its exceptions.
    Detached(ChainId, Option<String>),
}

#[derive(Clone, Debug)]
struct Call {
    request: Request,
    stage: Stage,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Calls {
    next: u64,
    /// Boxed: they are large, and a map has room for twice as many as it holds.
    calls: BTreeMap<u64, Box<Call>>,
    owners: BTreeSet<(Owner, u64)>,
    asked: BTreeSet<(NodeId, u64)>,
    detached: BTreeMap<ChainId, u64>,
    /// Steps whose calls other nodes asked for, by the numbers that those nodes gave them.
    asking: BTreeMap<(NodeId, u64), StepKey>,
    timers: Timers<u64>,
}

impl Calls {
    /// Calls that wait for an answer.
    pub(crate) fn count_waiting(&self) -> usize {
        self.asked.len()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.calls.is_empty() && self.timers.next().is_none()
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    fn insert(&mut self, ground: &mut Ground, request: Request, stage: Stage) -> u64 {
        self.next += 1;
        self.owners.insert((request.reply_to.owner(), self.next));
        self.put(ground, self.next, Call { request, stage });
        self.next
    }

    fn put(&mut self, ground: &mut Ground, id: u64, call: Call) {
        match &call.stage {
            Stage::Asked(delivery) => drop(self.asked.insert((delivery.to().id, id))),
            Stage::Running => ground.services_running += 1,
            Stage::Detached(chain, _) => drop(self.detached.insert(*chain, id)),
            Stage::LookingUp(_) => {}
        }
        self.calls.insert(id, Box::new(call));
    }

    /// Takes a call out of the table, whatever becomes of it: it has its owner until [`Calls::over`].
    fn take(&mut self, ground: &mut Ground, id: u64, is: impl Fn(&Stage) -> bool) -> Option<Call> {
        if !is(&self.calls.get(&id)?.stage) {
            return None;
        }
        let call = *self.calls.remove(&id)?;
        match &call.stage {
            Stage::Asked(delivery) => drop(self.asked.remove(&(delivery.to().id, id))),
            Stage::Running => ground.services_running -= 1,
            Stage::Detached(chain, _) => drop(self.detached.remove(chain)),
            Stage::LookingUp(_) => {}
        }
        Some(call)
    }

    /// Nothing is under way for this call any more.
    fn over(&mut self, id: u64, request: Request) -> Request {
        self.owners.remove(&(request.reply_to.owner(), id));
        self.timers.clear(id);
        request
    }

    /// Numbers of the calls under way for this owner.
    fn of(&self, owner: &Owner) -> Vec<u64> {
        self.owners.range((owner.clone(), 0)..=(owner.clone(), u64::MAX)).map(|(_, id)| *id).collect()
    }

    /// Stops what is under way for an owner that is gone, here and at the nodes that were asked.
    pub(crate) fn abandon(&mut self, ground: &mut Ground, owner: &Owner) {
        for id in self.of(owner) {
            let Some(Call { request, stage }) = self.take(ground, id, |_| true) else { continue };
            let request = self.over(id, request);
            match stage {
                Stage::Running => ground.out.ask(Action::CancelService(Ticket(id))),
                Stage::Asked(delivery) => {
                    ground.out.send(delivery.to(), Message::Withdraw(id), Receipt::None, Urgency::Now);
                    // It may have been taken over, though nobody has said so yet.
                    if let Some(right) = &request.right
                        && !bug!(ground.policy, CancelMissesDelegate)
                    {
                        let cancel = Message::Cancel(right.key.chain);
                        ground.out.send(delivery.to(), cancel, Receipt::None, Urgency::Now);
                    }
                }
                Stage::Detached(chain, _) => ground.out.tell(Event::Unwanted(chain)),
                // The name is looked up all the same: somebody has been asked for it.
                Stage::LookingUp(_) => {}
            }
        }
    }

    /// All that a node asked for, whose link has broken.
    pub(crate) fn abandon_peer(&mut self, ground: &mut Ground, node: NodeId) {
        let first = (Owner::Peer(node, 0), 0);
        let of_node = |(owner, _): &&(Owner, u64)| matches!(owner, Owner::Peer(of, _) if *of == node);
        let owners: Vec<Owner> =
            self.owners.range(first..).take_while(of_node).map(|(owner, _)| owner.clone()).collect();
        owners.iter().for_each(|owner| self.abandon(ground, owner));
    }

    /// A function has ended of its own accord: the calls that it started go on, but nobody listens any more.
    pub(crate) fn let_go(&mut self, session: SessionId, chain: ChainId) {
        for id in self.of(&Owner::Session(session)) {
            let Some(call) = self.calls.get_mut(&id) else { continue };
            call.request.reply_to = ReplyTo::Nobody(chain);
            self.owners.remove(&(Owner::Session(session), id));
            self.owners.insert((Owner::Chain(chain), id));
        }
    }
}
