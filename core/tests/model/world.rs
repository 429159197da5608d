//! A world in one of its states, and what can happen to it next.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use catena_core::{HopCopy, Node, Plan, SessionId, Time};
use catena_wire::{Budget, ChainId, Encoded, Message, NodeId, NodeRef, Outcome, StepKey, Tail, Value};

use crate::{
    durable::Disk,
    fingerprint::{fingerprint_of, told_by_fingerprint},
    guest::{Guest, service_name},
    migration::Stage,
    setup::{Code, Faults, Setup},
    sharing::Common,
};

/// A message on its way.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Packet {
    pub(crate) to: NodeId,
    pub(crate) from: NodeId,
    pub(crate) what: What,
}

/// What arrives.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum What {
    /// That a part of an outcome has come.
    Acknowledgement(Vec<u8>),
    Message {
        head: Vec<u8>,
        tail: Vec<u8>,
    },
    /// The rest of a hop whose head is there.
    Tail {
        head: Vec<u8>,
        tail: Vec<u8>,
    },
    /// The link to this node has broken.
    LinkLost(NodeId),
}

/// What can happen next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    Deliver(usize),
    Lose(usize),
    /// It arrives, and will arrive again.
    Repeat(usize),
    /// The head of a hop arrives ahead of the rest.
    DeliverHead(usize),
    /// The rest of a hop never comes: its link breaks.
    Break(usize),
    /// The node dies before it has seen any of what is on its way to it.
    Crash(usize),
    /// The node does what the message asks, and dies before it has said so.
    DeliverAndCrash(usize),
    /// The next deadline of any node.
    Time,
    /// Everybody was stopped.
    Sleep,
    Cancel(usize),
    /// The service that moves goes on its way, or arrives.
    Migrate,
}

#[derive(Clone, Debug)]
pub(crate) struct Host {
    pub(crate) me: Arc<NodeRef>,
    pub(crate) node: Node,
    pub(crate) guests: BTreeMap<SessionId, Guest>,
    pub(crate) has_code: bool,
}

/// A chain as its user sees it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) partials: usize,
    /// Numbers of the console's lines.
    pub(crate) lines: Vec<u32>,
    pub(crate) ends: Vec<Result<(), Failed>>,
    pub(crate) origin_crashed: bool,
    pub(crate) cancelled: bool,
}

/// How a chain failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Failed {
    pub(crate) name: String,
    pub(crate) unknown: bool,
    /// The step whose call failed.
    pub(crate) at: Option<StepKey>,
}

/// One call of one run, and the service that it calls.
pub(crate) type Call = (u64, u32, String);

#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) hosts: Vec<Common<Host>>,
    pub(crate) packets: Vec<Packet>,
    pub(crate) left: Faults,
    pub(crate) chains: Vec<(ChainId, Seen)>,
    /// Effects, and in which run of a node they took place.
    pub(crate) effects: BTreeMap<Call, Vec<NodeId>>,
    /// Steps that took effect by themselves, and not by a chain that they answered with.
    pub(crate) done: BTreeSet<StepKey>,
    /// What services heard of their sub-chains.
    pub(crate) heard: usize,
    /// Who has heard that which chain is cancelled.
    pub(crate) cancelled: Vec<(NodeId, ChainId)>,
    /// Nodes to which host 0 has a link, where it cannot be dialled.
    pub(crate) linked: BTreeSet<NodeId>,
    /// What durable functions did, by host.
    pub(crate) disks: Vec<Disk>,
    /// How far the service has got that moves.
    pub(crate) stage: Stage,
    /// What no state machine may ask for.
    pub(crate) wrong: Option<String>,
    fingerprint: u128,
}

told_by_fingerprint!(World);

/// Longer than any node remembers a step, shorter than chains may take.
const SLEEP_US: u64 = 61_000_000;

/// Where host `index` is after `crashes`.
pub(crate) fn reference(setup: &Setup, index: usize, crashes: u64) -> NodeRef {
    let address = (!setup.secluded || index > 0).then(|| format!("n{index}:1"));
    NodeRef { id: NodeId(crashes * 100 + index as u64), name: format!("n{index}"), address, site: None }
}

fn start(setup: &Setup, index: usize, crashes: u64) -> Host {
    let me = reference(setup, index, crashes);
    let mut node = Node::new(me.clone(), setup.policy(index), 0);
    for (number, service) in setup.services.iter().enumerate().filter(|(_, service)| service.by.contains(&index)) {
        let name = service_name(u8::try_from(number).unwrap());
        node.serve(&name, ["f"], setup.kinds(number));
        if service.by.len() > 1 {
            node.note_replica(&name);
        }
    }
    let has_code = setup.code == Code::Everywhere || setup.chains.iter().any(|(origin, _)| *origin == index);
    if setup.code == Code::AtOrigins {
        // Restarts of it are found by its name, and have had nothing either.
        node.set_repository(Arc::new(reference(setup, setup.hosts - 1, 0)));
    }
    Host { me: Arc::new(me), node, guests: BTreeMap::new(), has_code }
}

impl World {
    pub(crate) fn new(setup: &Setup) -> Self {
        let mut world = Self {
            now: Time::from_us(1),
            hosts: (0..setup.hosts).map(|index| start(setup, index, 0).into()).collect(),
            packets: Vec::new(),
            left: setup.faults,
            chains: Vec::new(),
            effects: BTreeMap::new(),
            done: BTreeSet::new(),
            heard: 0,
            cancelled: Vec::new(),
            linked: BTreeSet::new(),
            disks: vec![Disk::new(); setup.hosts],
            stage: Stage::default(),
            wrong: None,
            fingerprint: 0,
        };
        for (number, (origin, program)) in setup.chains.iter().enumerate() {
            let input = Value::encode(&(number as u64 + 1, program.clone()));
            let time_us = if setup.faults.sleeps > 0 { 10 * SLEEP_US } else { 60_000_000 };
            let plan = Plan { mode: setup.mode, ..Plan::new(Budget::new(time_us, setup.hops)) };
            let host = &mut world.hosts[*origin];
            let chain = host.node.run(world.now, number as u128 + 1, crate::shell::CODE, input, plan).unwrap();
            world.chains.push((chain, Seen::default()));
            world.drain(setup, *origin, true);
        }
        world.settle();
        world
    }

    /// Everything that can happen next.
    ///
    /// An acknowledgement of a part of an outcome only lets its sender forget that part, and nobody is told: it commutes with whatever else may
    /// happen. So nothing else happens before it has arrived, or was lost; one that comes late is like one that was lost.
    pub(crate) fn events(&self, setup: &Setup) -> Vec<Event> {
        let acknowledges = |packet: &Packet| matches!(packet.what, What::Acknowledgement(_));
        if let Some(index) = self.packets.iter().position(acknowledges) {
            let lost = (self.left.losses > 0).then_some(Event::Lose(index));
            return [Event::Deliver(index)].into_iter().chain(lost).collect();
        }
        let mut events = Vec::new();
        let mut before = None;
        for (index, packet) in self.packets.iter().enumerate() {
            // The same message twice: it is all one which of them comes first.
            if before == Some(packet) {
                continue;
            }
            before = Some(packet);
            if setup.in_order && self.overtakes(packet) {
                continue;
            }
            self.events_of(index, packet, &mut events);
        }
        if self.left.crashes > 0 {
            // The crash of a node that nothing is on its way to is the same a little later, but for one that has to send again what was lost.
            let busy = |host: &usize| {
                let host = &self.hosts[*host];
                let wakes = setup.faults.losses > 0 && self.packets.is_empty() && host.node.next_timeout().is_some();
                wakes || self.packets.iter().any(|packet| packet.to == host.me.id)
            };
            events.extend((0..self.hosts.len()).filter(busy).map(Event::Crash));
        }
        if self.left.cancels > 0 {
            let open = |(_, (_, seen)): &(usize, &(ChainId, Seen))| seen.ends.is_empty() && !seen.origin_crashed;
            events.extend(self.chains.iter().enumerate().filter(open).map(|(number, _)| Event::Cancel(number)));
        }
        if self.left.sleeps > 0 && !self.packets.is_empty() {
            events.push(Event::Sleep);
        }
        if self.may_migrate(setup) {
            events.push(Event::Migrate);
        }
        // What moves arrives before anybody loses patience.
        let still = self.packets.is_empty() && self.stage != Stage::Between;
        if (still || self.left.haste > 0) && self.next_timeout().is_some() {
            events.push(Event::Time);
        }
        events
    }

    /// Whether it is a repetition of a hop that is still on its way.
    fn overtakes(&self, packet: &Packet) -> bool {
        let Some((key, age_us)) = hop_in(packet) else { return false };
        let earlier = |other: &Packet| hop_in(other).is_some_and(|(same, age)| same == key && age < age_us);
        self.packets.iter().any(|other| (other.to, other.from) == (packet.to, packet.from) && earlier(other))
    }

    fn events_of(&self, index: usize, packet: &Packet, events: &mut Vec<Event>) {
        events.push(Event::Deliver(index));
        if matches!(packet.what, What::Tail { .. }) {
            events.push(Event::Break(index));
        }
        let What::Message { head, .. } = &packet.what else { return };
        if self.left.losses > 0 {
            events.push(Event::Lose(index));
        }
        let left = self.left;
        if left.repetitions > 0 || left.parted > 0 {
            let message = Message::decode_head(head);
            // A plain call of its own has no memory of what was done; those of chains have.
            if left.repetitions > 0 && !matches!(message, Ok(Message::Call { key: None, .. })) {
                events.push(Event::Repeat(index));
            }
            if left.parted > 0 && matches!(message, Ok(Message::Hop(_))) {
                events.push(Event::DeliverHead(index));
            }
        }
        if left.crashes > 0 {
            events.push(Event::DeliverAndCrash(index));
        }
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.hosts.iter().filter_map(|host| host.node.next_timeout()).min()
    }

    pub(crate) fn after(&self, setup: &Setup, event: Event) -> Self {
        let mut next = self.clone();
        match event {
            Event::Deliver(index) => next.deliver(setup, index, true),
            Event::Lose(index) => {
                next.left.losses -= 1;
                next.packets.remove(index);
            }
            Event::Repeat(index) => {
                next.left.repetitions -= 1;
                let copy = next.packets[index].clone();
                next.deliver(setup, index, true);
                next.packets.push(copy);
            }
            Event::DeliverHead(index) => next.deliver_head(setup, index),
            Event::Break(index) => next.break_link(setup, index),
            Event::Crash(host) => next.crash(setup, host),
            Event::DeliverAndCrash(index) => {
                let to = next.packets[index].to;
                let host = next.index_of(to);
                next.deliver(setup, index, false);
                host.into_iter().for_each(|host| next.crash(setup, host));
            }
            Event::Time => {
                if !next.packets.is_empty() {
                    next.left.haste -= 1;
                }
                next.pass_time(setup);
            }
            Event::Sleep => {
                next.left.sleeps -= 1;
                next.now = next.now.after(SLEEP_US);
            }
            Event::Cancel(number) => next.cancel(setup, number),
            Event::Migrate => next.migrate(setup),
        }
        next.settle();
        next
    }

    fn cancel(&mut self, setup: &Setup, number: usize) {
        self.left.cancels -= 1;
        let (chain, seen) = &mut self.chains[number];
        seen.cancelled = true;
        let chain = *chain;
        self.on(setup, chain.origin, true, |node, now| node.cancel(now, chain));
    }

    pub(crate) fn index_of(&self, id: NodeId) -> Option<usize> {
        self.hosts.iter().position(|host| host.me.id == id)
    }

    /// Lets something happen to this run of a node, if there still is one, and does what it then asks for.
    fn on(&mut self, setup: &Setup, id: NodeId, heard: bool, happen: impl FnOnce(&mut Node, Time)) {
        let Some(host) = self.index_of(id) else { return };
        happen(&mut self.hosts[host].node, self.now);
        self.drain(setup, host, heard);
    }

    fn deliver(&mut self, setup: &Setup, index: usize, heard: bool) {
        let packet = self.packets.remove(index);
        let (to, from) = (packet.to, sender(setup, packet.from));
        // For a run that is no more: its links have broken, which is told by packets of its own.
        match packet.what {
            What::LinkLost(node) => self.on(setup, to, heard, |host, now| host.on_link_lost(now, node, false)),
            What::Tail { head, tail } => {
                let (copy, tail) = hop_of(&from, head, tail);
                self.on(setup, to, heard, |host, now| host.on_tail(now, &copy, Some(tail)));
            }
            What::Acknowledgement(head) => self.deliver_message(setup, to, &from, (head, Vec::new()), heard),
            What::Message { head, tail } => self.deliver_message(setup, to, &from, (head, tail), heard),
        }
    }

    fn deliver_message(
        &mut self,
        setup: &Setup,
        to: NodeId,
        from: &Arc<NodeRef>,
        (head, tail): (Vec<u8>, Vec<u8>),
        heard: bool,
    ) {
        let message = Message::decode(Encoded { head: head.into(), tail: tail.into() }).unwrap();
        if let Message::Cancel(chain) = &message {
            self.cancelled.push((to, *chain));
        }
        self.on(setup, to, heard, |host, now| host.on_message(now, from, message));
    }

    fn deliver_head(&mut self, setup: &Setup, index: usize) {
        self.left.parted -= 1;
        let packet = self.packets.remove(index);
        let What::Message { head, tail } = packet.what else { return };
        let Ok(Message::Hop(hop)) = Message::decode_head(&head) else { return };
        self.packets.push(Packet { what: What::Tail { head, tail }, ..packet });
        let from = sender(setup, packet.from);
        self.on(setup, packet.to, true, |host, now| drop(host.on_hop_head(now, &from, hop)));
    }

    /// Nothing more comes over it, and both ends are told.
    fn break_link(&mut self, setup: &Setup, index: usize) {
        let Packet { to, from, what: What::Tail { head, tail } } = self.packets.remove(index) else { return };
        let (copy, _) = hop_of(&sender(setup, from), head, tail);
        self.on(setup, to, true, |host, now| {
            host.on_tail(now, &copy, None);
            host.on_link_lost(now, from, false);
        });
        self.packets.push(Packet { to: from, from, what: What::LinkLost(to) });
    }

    fn pass_time(&mut self, setup: &Setup) {
        let Some(next) = self.next_timeout() else { return };
        self.now = self.now.max(next);
        for host in 0..self.hosts.len() {
            if self.hosts[host].node.next_timeout().is_some_and(|at| at <= self.now) {
                let now = self.now;
                self.hosts[host].node.on_timeout(now);
                self.drain(setup, host, true);
            }
        }
    }

    /// The node comes back as another run of itself, which remembers nothing but what is on its disk.
    fn crash(&mut self, setup: &Setup, host: usize) {
        self.left.crashes -= 1;
        let gone = self.hosts[host].me.id;
        for (chain, seen) in &mut self.chains {
            seen.origin_crashed |= chain.origin == gone;
        }
        self.packets.retain(|packet| packet.to != gone);
        self.linked.remove(&gone);
        if host == 0 {
            self.linked.clear();
        }
        let others: Vec<_> = self.hosts.iter().map(|host| host.me.id).filter(|id| *id != gone).collect();
        self.packets.extend(others.into_iter().map(|to| Packet { to, from: to, what: What::LinkLost(gone) }));
        self.hosts[host] = start(setup, host, gone.0 / 100 + 1).into();
    }

    /// One order for what has none, and one number for all of it.
    fn settle(&mut self) {
        self.packets.sort();
        self.fingerprint = 0;
        self.fingerprint = fingerprint_of(self);
    }

    pub(crate) fn ended(&mut self, chain: ChainId, outcome: &Outcome) {
        let Some((_, seen)) = self.chains.iter_mut().find(|(id, _)| *id == chain) else { return };
        seen.ends.push(match outcome {
            Outcome::Done(_) => Ok(()),
            Outcome::Threw(why) => {
                let at = StepKey { chain, branch: why.branch.clone(), step: why.step };
                Err(Failed { name: why.name.clone(), unknown: why.unknown, at: why.target.as_ref().map(|_| at) })
            }
        });
    }

    /// How chains failed.
    pub(crate) fn failed(&self) -> impl Iterator<Item = &Failed> {
        self.chains.iter().flat_map(|(_, seen)| seen.ends.iter().filter_map(|end| end.as_ref().err()))
    }
}

fn sender(setup: &Setup, id: NodeId) -> Arc<NodeRef> {
    Arc::new(reference(setup, (id.0 % 100) as usize, id.0 / 100))
}

/// The step of the hop that this is, and its age.
fn hop_in(packet: &Packet) -> Option<(StepKey, u64)> {
    let What::Message { head, .. } = &packet.what else { return None };
    match Message::decode_head(head) {
        Ok(Message::Hop(hop)) => Some((hop.key, hop.age_us)),
        _ => None,
    }
}

/// The step of a hop, and what comes after its head.
fn hop_of(from: &NodeRef, head: Vec<u8>, tail: Vec<u8>) -> (HopCopy, Tail) {
    let Ok(Message::Hop(hop)) = Message::decode(Encoded { head: head.into(), tail: tail.into() }) else {
        panic!("only hops come in two parts")
    };
    (HopCopy::of(from, &hop), hop.into_tail())
}
