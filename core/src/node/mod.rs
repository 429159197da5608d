//! The node: its parts put together, and its interface to the shell. It only routes events: to the part that they concern, and from one part to another.

mod begin;
mod calls;
mod links;
mod messages;
mod names;
mod news;
mod replies;
mod route;

use alloc::sync::Arc;
use catena_wire::NodeRef;

use crate::{
    Action, Policy, Time,
    calls::Calls,
    chain::Chains,
    ground::Ground,
    origin::Origin,
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
            origin: Origin::default(),
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

    /// Names the repository, the node that keeps functions for all. It is asked before the previous hop's node.
    pub fn set_repository(&mut self, repository: Arc<NodeRef>) {
        self.ground.codes.set_repository(repository);
    }

    /// There is a registry that keeps functions, to be asked when no node has one ([`Action::FetchCode`]).
    pub const fn set_registry(&mut self) {
        self.ground.codes.set_registry();
    }

    /// Whether there is anything to do.
    #[must_use]
    pub fn has_actions(&self) -> bool {
        self.ground.out.has_actions()
    }

    /// How many things there are to do, and the bytes of messages that they carry.
    #[must_use]
    pub fn actions_waiting(&self) -> (usize, usize) {
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
        // All else that is under way has a timer; a name is looked up only for a call or a chain.
        self.origin.count() == 0 && self.calls.is_idle() && self.next_due().is_none()
    }

    /// How many chains are at this node, and how many plain calls and service functions are under way.
    #[must_use]
    pub fn load(&self) -> (usize, usize, usize) {
        (self.chains.count(), self.calls.count_waiting(), self.ground.running.all())
    }

    /// Bytes kept here, for the memory budget of the whole node: chains, payloads that answer repeats of their steps, ends and answers that
    /// are on their way, answers that wait for those before them, and parameters of calls. Bounded by [`Policy::held_bytes_max`].
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let Ground { dedup, outgoing, listeners, .. } = &self.ground;
        let steps = self.chains.bytes() + dedup.payload_bytes() + self.calls.bytes();
        let answers = outgoing.bytes() + self.origin.bytes() + listeners.bytes();
        steps + answers + self.sets.bytes() + self.rights.bytes()
    }

    /// Sets how many more bytes may be kept here: a hop or call that brings more is refused as `Overloaded`, and answers have to be sent again. If this is
    /// never called, [`Policy::held_bytes_max`] alone is the bound.
    pub fn set_memory_left(&mut self, bytes: usize) {
        self.memory_left = bytes;
        self.note_room();
    }
}
