//! What every part of a node uses.

use alloc::{boxed::Box, format, string::String, sync::Arc, vec::Vec};
use catena_wire::{
    ChainHeader, ChainId, Exception, Fault, Message, NAME_BYTES_MAX, NodeId, NodeRef, Part, PossibleDuplicate,
    Relocation, StepKey, StepTrace, names,
};

use crate::{
    Instance, Policy, Receipt, Time, Urgency,
    code::Codes,
    collections::{AwakeClock, Parties, Party, Shares, leaves_room},
    delivery::{Outgoing, Parcel},
    directory::{Directory, NotHere, Waiter},
    memory::{DedupTable, Fences, Listeners, Over, Relays, Retold, Senders, possibly_done},
    outbox::{Event, Outbox},
};

/// The parts that know nothing of chains and calls under way, each behind its own methods.
#[derive(Clone, Debug)]
pub(crate) struct Ground {
    pub(crate) me: Arc<NodeRef>,
    pub(crate) policy: Policy,
    /// Added to a [`Time`], it gives microseconds since the Unix epoch: for profiles and logs only.
    pub(crate) epoch_us: u64,
    /// The time of the event that is being handled.
    pub(crate) now: Time,
    pub(crate) clock: AwakeClock,
    pub(crate) out: Outbox,
    pub(crate) directory: Directory,
    pub(crate) dedup: DedupTable,
    pub(crate) fences: Fences,
    pub(crate) outgoing: Outgoing,
    pub(crate) listeners: Listeners,
    pub(crate) relays: Relays,
    pub(crate) retold: Retold,
    pub(crate) over: Over,
    pub(crate) codes: Codes,
    pub(crate) parties: Parties,
    /// Service functions under way, by the parties that caused them.
    pub(crate) running: Shares<Party>,
    /// How many more bytes may be kept here.
    pub(crate) room: usize,
}

impl Ground {
    pub(crate) fn new(me: Arc<NodeRef>, policy: Policy, epoch_us: u64) -> Self {
        Self {
            out: Outbox::new(me.clone()),
            me,
            policy,
            epoch_us,
            now: Time::default(),
            clock: AwakeClock::default(),
            directory: Directory::default(),
            dedup: DedupTable::default(),
            fences: Fences::default(),
            outgoing: Outgoing::default(),
            listeners: Listeners::default(),
            relays: Relays::default(),
            retold: Retold::default(),
            over: Over::default(),
            codes: Codes::default(),
            parties: Parties::default(),
            running: Shares::default(),
            room: usize::MAX,
        }
    }

    pub(crate) fn advance(&mut self, now: Time) {
        self.now = now;
        self.clock.advance(now, if bug!(self.policy, AgesAsleep) { u64::MAX } else { AwakeClock::GAP_US_MAX });
    }

    pub(crate) fn unix_us(&self) -> u64 {
        self.epoch_us.saturating_add(self.now.as_us())
    }

    /// The profile of a step that begins here now, if the origin of its chain asked for one.
    pub(crate) fn profile(&self, wanted: bool, step: u32, service: &str, function: &str) -> Option<Box<StepTrace>> {
        wanted.then(|| {
            Box::new(StepTrace {
                step,
                node: self.me.name.clone(),
                site: self.me.site.clone(),
                target: target(service, function),
                arrived_at_us: self.unix_us(),
                ..StepTrace::default()
            })
        })
    }

    pub(crate) fn overloaded(&self, what: &str, max: usize) -> Exception {
        let me = &self.me.name;
        let message =
            format!("{me} has {max} {what} under way, which is all it takes on; try again later or elsewhere");
        Exception::new(names::OVERLOADED, Fault::Node, message)
    }

    /// Whether a party may have one more of these.
    ///
    /// # Errors
    /// `Overloaded`: there is no room, or the party takes too much of it.
    pub(crate) fn check_share(
        &self,
        what: &str,
        by: Party,
        own: usize,
        all: usize,
        max: usize,
    ) -> Result<(), Exception> {
        if leaves_room(&self.policy, by, 1, own, all, max) {
            return Ok(());
        }
        if own == 0 || all >= max {
            return Err(self.overloaded(what, all));
        }
        Err(self.overloaded(&format!("{what} for this peer and others of its address"), own))
    }

    /// Whether one more service function may run for this party.
    pub(crate) fn check_running(&self, by: Party) -> Result<(), Exception> {
        let (own, all) = (self.running.of(by), self.running.all());
        self.check_share("service functions", by, own, all, self.policy.services_running_max)
    }

    /// Whether this party, which holds `own` bytes of a kind, may hold `more` of them: a peer no more in all than is still free, this node itself all that is.
    pub(crate) fn check_bytes(&self, by: Party, own: u64, more: usize) -> Result<(), Exception> {
        let own = if by == Party::Own || bug!(self.policy, PeerTakesAll) { 0 } else { own as usize };
        if own.saturating_add(more) <= self.room {
            return Ok(());
        }
        Err(self.overloaded("bytes kept", self.policy.held_bytes_max.saturating_sub(self.room)))
    }

    /// The party whose share pays for what `node` sends. If `node` is this node and the message belongs to a chain, that is whoever brought the chain here.
    pub(crate) fn party_of(&self, node: NodeId, chain: Option<ChainId>) -> Party {
        match (node, chain) {
            (own, Some(chain)) if own == self.me.id => self.bringer_of(chain),
            (own, None) if own == self.me.id => Party::Own,
            (peer, _) if bug!(self.policy, NumbersHaveShares) => Party::Node(peer),
            (peer, _) => self.parties.of(peer),
        }
    }

    /// `node` and its party, for the record of a step that it sends.
    pub(crate) fn senders(&self, node: NodeId, chain: ChainId) -> Senders {
        Senders { nodes: alloc::vec![node], party: self.party_of(node, Some(chain)) }
    }

    /// The party that brought a chain here, whose share pays for what is remembered of it.
    pub(crate) fn bringer_of(&self, chain: ChainId) -> Party {
        self.dedup.of_chain(chain).next().map_or(Party::Own, |(_, record)| record.party())
    }

    /// Checks that a step without a record here, which `from` first sent `age_us` ago, is new.
    ///
    /// # Errors
    /// `NodeLost`, unknown: it may have been done and forgotten.
    pub(crate) fn check_remembered(&self, key: &StepKey, from: NodeId, age_us: u64) -> Result<(), Exception> {
        let forgotten = self.dedup.may_have_forgotten(self.clock.now(), from, age_us, &self.policy);
        if !forgotten || bug!(self.policy, ForgottenIsNew) {
            return Ok(());
        }
        let (me, step) = (&self.me.name, key.step);
        let message = format!(
            "{me} no longer knows what became of step {step}, which was first sent long ago; whether it was done is unknown"
        );
        Err(Exception::new(names::NODE_LOST, Fault::Network, message).outcome_unknown())
    }

    /// Checks that a step without a record here may be done here.
    ///
    /// # Errors
    /// `NodeLost`, unknown: another way of its chain may have done it.
    pub(crate) fn check_not_done(
        &self,
        duplicate: Option<&PossibleDuplicate>,
        key: &StepKey,
        service: &str,
        function: &str,
    ) -> Result<(), Exception> {
        let Some((scope, has_replicas)) = self.directory.scope_here(service, function) else { return Ok(()) };
        let known = self.fences.check(duplicate, key, scope, has_replicas);
        let (duplicate_runs, first_runs) = (bug!(self.policy, DuplicateRuns), bug!(self.policy, FirstWayNotFenced));
        if duplicate_runs || (first_runs && duplicate.is_none()) {
            return Ok(());
        }
        known.map_err(|why| possibly_done(&self.me.name, service, function, why))
    }

    /// A possible duplicate of a chain is here, brought by this party. Hops of the chain's other ways are told apart from it from now on.
    pub(crate) fn note_duplicate(&mut self, by: Party, duplicate: Option<&PossibleDuplicate>) {
        if let Some(duplicate) = duplicate {
            self.fences.note(self.clock.now(), by, duplicate, &self.policy);
        }
    }

    /// These nodes may have a step of a chain that this party brought. The chain goes on without them.
    pub(crate) fn give_up(&mut self, by: Party, chain: ChainId, nodes: Vec<Arc<NodeRef>>) {
        self.fences.give_up(self.clock.now(), by, chain, nodes, &self.policy);
    }

    /// Tells each of these nodes that nobody waits for this chain or call of `by` any more, until the node acknowledges that, or
    /// everything that the cancellation could stop has run out of time: a node that wakes from a long stop goes on with what it was doing.
    pub(crate) fn tell_cancelled(&mut self, by: Party, chain: ChainId, mut nodes: Vec<Arc<NodeRef>>) {
        nodes.sort_by_key(|node| node.id);
        nodes.dedup_by_key(|node| node.id);
        let until = self.now.after(self.policy.budget_max.time_left_us());
        for node in nodes {
            let (key, part) = (StepKey::first(chain), Part::Cancel(node.id));
            // If this is kept already, the node has been told, and is told again until it acknowledges.
            if !self.outgoing.keeps(&(key.clone(), part)) {
                let cancel = Message::Cancel(chain).encode();
                self.send_kept(key, part, Parcel::new(by, node, None, cancel, until));
            }
        }
    }

    /// Tells these nodes the same once, in answer to what they sent about the chain or call: a node that misses the answer sends more, and is answered again.
    pub(crate) fn answer_cancelled(&mut self, chain: ChainId, nodes: impl IntoIterator<Item = Arc<NodeRef>>) {
        for node in nodes {
            self.out.send(&node, Message::Cancel(chain), Receipt::None, Urgency::Now);
        }
    }

    /// Where the service is, if it is not here.
    pub(crate) fn relocation(&self, service: &str, function: &str) -> Option<Relocation> {
        match self.directory.find(self.now, service, function) {
            Err(NotHere::Elsewhere(relocation)) => Some(relocation),
            Err(NotHere::For(_)) | Ok(()) => None,
        }
    }

    /// Looks up a service that is not known here. A service that this node itself is moving away is waited for: others may not know about the move yet.
    pub(crate) fn look_up(&mut self, service: &str, waiter: Waiter) {
        match self.directory.moving_until(self.now, service) {
            Some(until) => {
                let until = until.min(self.now.after(self.policy.moving_wait_us_max));
                self.directory.lookups.wait_for(&mut self.out, service, self.me.id, waiter, until);
            }
            None => self.directory.lookups.look_up(&mut self.out, service, waiter, Vec::new()),
        }
    }

    /// Follows a service that is not at `from`, which says where it went. Returns its place if that is known now; otherwise the waiter is told later.
    pub(crate) fn follow(
        &mut self,
        service: &str,
        from: NodeId,
        relocation: Relocation,
        waiter: Waiter,
        mut excluded: Vec<NodeId>,
    ) -> Option<Instance> {
        self.directory.names.forget_at(service, from);
        match relocation {
            Relocation::There(entry) if entry.service == service && entry.node.id != from => {
                if let Some(place) = Instance::of(*entry) {
                    self.directory.names.learn(service, place.clone(), &self.policy);
                    return Some(place);
                }
                self.directory.lookups.look_up(&mut self.out, service, waiter, excluded);
            }
            Relocation::Moving(us) => {
                let until = self.now.after(us.min(self.policy.moving_wait_us_max));
                self.directory.lookups.wait_for(&mut self.out, service, from, waiter, until);
            }
            Relocation::There(_) | Relocation::Unknown => {
                if !bug!(self.policy, LeftNodeFound) {
                    excluded.push(from);
                }
                self.directory.lookups.look_up(&mut self.out, service, waiter, excluded);
            }
        }
        None
    }

    /// Sends a message to the origin of a chain, or to the node that can pass it on.
    pub(crate) fn send_home(&mut self, header: &ChainHeader, message: Message, receipt: Receipt) {
        if header.origin.id == self.me.id {
            return self.out.tell(Event::Message(message));
        }
        let via = self.way_home(header);
        self.out.send_encoded(header.origin.clone(), message.encode(), receipt, via);
    }

    /// The node that can pass a message on to the origin, if the origin cannot be dialled.
    pub(crate) fn way_home(&self, header: &ChainHeader) -> Option<Arc<NodeRef>> {
        self.way_to(&header.origin, header.entry.as_deref())
    }

    /// The entry node, if `node` can be reached only through it.
    pub(crate) fn way_to(&self, node: &NodeRef, entry: Option<&NodeRef>) -> Option<Arc<NodeRef>> {
        entry.filter(|entry| node.address.is_none() && entry.id != self.me.id).cloned().map(Arc::new)
    }

    /// Sends this to another node, and keeps it until it has arrived.
    pub(crate) fn send_kept(&mut self, key: StepKey, part: Part, parcel: Parcel) {
        let (to, message, via) = (parcel.to.clone(), parcel.message.clone(), parcel.via.clone());
        let once = match part {
            Part::End => bug!(self.policy, EndSentOnce),
            Part::Partial(_) | Part::ToCreator { .. } => bug!(self.policy, AnswerSentOnce),
            Part::Cancel(_) => bug!(self.policy, CancelSentOnce),
        };
        if !once && to.id != self.me.id {
            self.outgoing.keep(self.now, (key.clone(), part), parcel, &self.policy);
        }
        self.out.send_encoded(to, message, Receipt::Part(key, part), via);
    }
}

/// `service/function`, for a profile: of names as long as those that can be called.
fn target(service: &str, function: &str) -> String {
    let cut = |name: &str| -> String {
        let fits = |(at, char): &(usize, char)| at + char.len_utf8() <= NAME_BYTES_MAX;
        name.char_indices().take_while(fits).map(|(_, char)| char).collect()
    };
    [&cut(service), "/", &cut(function)].concat()
}
