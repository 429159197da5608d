//! A world in one of its states, and what can happen to it next.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{Hash, Hasher},
    sync::Arc,
};

use catena_core::{CallId, Instance, Node, Plan, Policy, SessionId, Time, Undelivered};
use catena_wire::{Budget, ChainId, Encoded, Exception, Kinds, Message, NodeId, NodeRef, Outcome, StepKey, Value};

use crate::guest::{Guest, Op, service_name};

/// How many of each kind may happen.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct Faults {
    pub(crate) crashes: u8,
    pub(crate) losses: u8,
    pub(crate) repetitions: u8,
    pub(crate) cancels: u8,
    /// A deadline of a node passes while messages are still on their way.
    pub(crate) haste: u8,
}

/// What a world consists of.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) name: &'static str,
    /// Host `n` serves service `n`.
    pub(crate) hosts: usize,
    /// Origin and program.
    pub(crate) chains: Vec<(usize, Vec<Op>)>,
    pub(crate) faults: Faults,
    pub(crate) hops: u32,
    /// Those are too few on purpose.
    pub(crate) strained: bool,
    /// Whether chains that services answer with join the chain that called.
    pub(crate) compose: bool,
    /// The host whose function may be done again.
    pub(crate) repeatable: Option<usize>,
    pub(crate) bug: Bug,
}

/// The seeded bug that the nodes have, if this is a test of the tester.
#[cfg(feature = "seeded-bugs")]
pub(crate) type Bug = Option<catena_core::Bug>;
#[cfg(not(feature = "seeded-bugs"))]
pub(crate) type Bug = NoBug;

/// Without the feature there is none to choose.
#[cfg(not(feature = "seeded-bugs"))]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NoBug;

impl Default for Setup {
    fn default() -> Self {
        Self {
            name: "",
            hosts: 3,
            chains: Vec::new(),
            faults: Faults::default(),
            hops: 8,
            strained: false,
            compose: true,
            repeatable: None,
            bug: Bug::default(),
        }
    }
}

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
    Message {
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
    /// The node dies before it has seen any of what is on its way to it.
    Crash(usize),
    /// The node does what the message asks, and dies before it has said so.
    DeliverAndCrash(usize),
    /// The next deadline of any node.
    Time,
    Cancel(usize),
}

#[derive(Clone, Debug)]
pub(crate) struct Host {
    pub(crate) me: Arc<NodeRef>,
    pub(crate) node: Node,
    pub(crate) guests: BTreeMap<SessionId, Guest>,
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

#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) hosts: Vec<Host>,
    pub(crate) packets: Vec<Packet>,
    pub(crate) left: Faults,
    pub(crate) chains: Vec<(ChainId, Seen)>,
    /// Effects by (run, call), and in which run of a node they took place.
    pub(crate) effects: BTreeMap<(u64, u32), Vec<NodeId>>,
    /// Steps that took effect by themselves, and not by a chain that they answered with.
    pub(crate) done: BTreeSet<StepKey>,
    /// Who has heard that which chain is cancelled.
    pub(crate) cancelled: Vec<(NodeId, ChainId)>,
    /// What no state machine may ask for.
    pub(crate) wrong: Option<String>,
    compose: bool,
    pub(crate) repeatable: Option<usize>,
    pub(crate) print: u128,
}

impl PartialEq for World {
    fn eq(&self, other: &Self) -> bool {
        self.print == other.print
    }
}

impl Eq for World {}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.print.hash(state);
    }
}

#[cfg_attr(not(feature = "seeded-bugs"), allow(unused_variables))]
fn policy(compose: bool, bug: Bug) -> Policy {
    Policy {
        compose,
        budget_max: Budget::new(600_000_000, 2_000),
        hop_attempts_max: 2,
        #[cfg(feature = "seeded-bugs")]
        bug,
        ..Policy::default()
    }
}

/// Any function may answer with a chain.
fn kinds(index: usize, repeatable: Option<usize>) -> Kinds {
    let again = repeatable.filter(|host| *host == index).map(|_| "f".to_string());
    Kinds { chaining: vec!["f".into()], repeatable: again.into_iter().collect(), ..Kinds::default() }
}

fn start(index: usize, run: u64, compose: bool, repeatable: Option<usize>, bug: Bug) -> Host {
    let id = NodeId(run * 100 + index as u64);
    let me = NodeRef { id, name: format!("n{index}"), address: Some(format!("n{index}:1")), site: None };
    let mut node = Node::new(me.clone(), policy(compose, bug), 0);
    node.serve(&service_name(u8::try_from(index).unwrap()), ["f"], kinds(index, repeatable));
    Host { me: Arc::new(me), node, guests: BTreeMap::new() }
}

impl World {
    pub(crate) fn new(setup: &Setup) -> Self {
        let mut world = Self {
            now: Time::from_us(1),
            hosts: (0..setup.hosts).map(|index| start(index, 0, setup.compose, setup.repeatable, setup.bug)).collect(),
            packets: Vec::new(),
            left: setup.faults,
            chains: Vec::new(),
            effects: BTreeMap::new(),
            done: BTreeSet::new(),
            cancelled: Vec::new(),
            wrong: None,
            compose: setup.compose,
            repeatable: setup.repeatable,
            print: 0,
        };
        for (number, (origin, program)) in setup.chains.iter().enumerate() {
            let input = Value::encode(&(number as u64 + 1, program.clone()));
            let plan = Plan::new(Budget::new(60_000_000, setup.hops));
            let host = &mut world.hosts[*origin];
            let chain = host.node.run(world.now, number as u128 + 1, crate::shell::CODE, input, plan).unwrap();
            world.chains.push((chain, Seen::default()));
            world.drain(*origin, true);
        }
        world.settle();
        world
    }

    /// Everything that can happen next.
    pub(crate) fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        let mut before = None;
        for (index, packet) in self.packets.iter().enumerate() {
            // The same message twice: it is all one which of them comes first.
            if before == Some(packet) {
                continue;
            }
            before = Some(packet);
            events.push(Event::Deliver(index));
            let message = matches!(packet.what, What::Message { .. });
            if message && self.left.losses > 0 {
                events.push(Event::Lose(index));
            }
            if message && self.left.repetitions > 0 && self.may_repeat(packet) {
                events.push(Event::Repeat(index));
            }
            if message && self.left.crashes > 0 {
                events.push(Event::DeliverAndCrash(index));
            }
        }
        if self.left.crashes > 0 {
            // The crash of a node that nothing is on its way to is the same a little later.
            let busy = |host: &usize| self.packets.iter().any(|packet| packet.to == self.hosts[*host].me.id);
            events.extend((0..self.hosts.len()).filter(busy).map(Event::Crash));
        }
        if self.left.cancels > 0 {
            let open = |(_, (_, seen)): &(usize, &(ChainId, Seen))| seen.ends.is_empty() && !seen.origin_crashed;
            events.extend(self.chains.iter().enumerate().filter(open).map(|(number, _)| Event::Cancel(number)));
        }
        if (self.packets.is_empty() || self.left.haste > 0) && self.next_timeout().is_some() {
            events.push(Event::Time);
        }
        events
    }

    /// A plain call of its own has no memory of what was done; those of chains have.
    fn may_repeat(&self, packet: &Packet) -> bool {
        let What::Message { head, .. } = &packet.what else { return false };
        !matches!(Message::decode_head(head), Ok(Message::Call { key: None, .. }))
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.hosts.iter().filter_map(|host| host.node.next_timeout()).min()
    }

    pub(crate) fn after(&self, event: Event, bug: Bug) -> Self {
        let mut next = self.clone();
        match event {
            Event::Deliver(index) => next.deliver(index, true),
            Event::Lose(index) => {
                next.left.losses -= 1;
                next.packets.remove(index);
            }
            Event::Repeat(index) => {
                next.left.repetitions -= 1;
                let copy = next.packets[index].clone();
                next.deliver(index, true);
                next.packets.push(copy);
            }
            Event::Crash(host) => next.crash(host, bug),
            Event::DeliverAndCrash(index) => {
                let to = next.packets[index].to;
                let host = next.index_of(to);
                next.deliver(index, false);
                host.into_iter().for_each(|host| next.crash(host, bug));
            }
            Event::Time => {
                if !next.packets.is_empty() {
                    next.left.haste -= 1;
                }
                next.pass_time();
            }
            Event::Cancel(number) => {
                next.left.cancels -= 1;
                let (chain, seen) = &mut next.chains[number];
                seen.cancelled = true;
                let chain = *chain;
                if let Some(host) = next.index_of(chain.origin) {
                    let now = next.now;
                    next.hosts[host].node.cancel(now, chain);
                    next.drain(host, true);
                }
            }
        }
        next.settle();
        next
    }

    pub(crate) fn index_of(&self, id: NodeId) -> Option<usize> {
        self.hosts.iter().position(|host| host.me.id == id)
    }

    fn deliver(&mut self, index: usize, heard: bool) {
        let packet = self.packets.remove(index);
        // For a run that is no more: its links have broken, which is told by packets of its own.
        let Some(host) = self.index_of(packet.to) else { return };
        let now = self.now;
        match packet.what {
            What::LinkLost(node) => self.hosts[host].node.on_link_lost(now, node),
            What::Message { head, tail } => {
                let message = Message::decode(Encoded { head: head.into(), tail: tail.into() }).unwrap();
                let name = format!("n{}", packet.from.0 % 100);
                let from = Arc::new(NodeRef { id: packet.from, address: Some(format!("{name}:1")), name, site: None });
                if let Message::Cancel(chain) = &message {
                    self.cancelled.push((packet.to, *chain));
                }
                self.hosts[host].node.on_message(now, &from, message);
            }
        }
        self.drain(host, heard);
    }

    fn pass_time(&mut self) {
        let Some(next) = self.next_timeout() else { return };
        self.now = self.now.max(next);
        for host in 0..self.hosts.len() {
            if self.hosts[host].node.next_timeout().is_some_and(|at| at <= self.now) {
                let now = self.now;
                self.hosts[host].node.on_timeout(now);
                self.drain(host, true);
            }
        }
    }

    /// The node comes back as another run of itself, which remembers nothing.
    fn crash(&mut self, host: usize, bug: Bug) {
        self.left.crashes -= 1;
        let gone = self.hosts[host].me.id;
        for (chain, seen) in &mut self.chains {
            seen.origin_crashed |= chain.origin == gone;
        }
        self.packets.retain(|packet| packet.to != gone);
        let others: Vec<_> = self.hosts.iter().map(|host| host.me.id).filter(|id| *id != gone).collect();
        self.packets.extend(others.into_iter().map(|to| Packet { to, from: to, what: What::LinkLost(gone) }));
        let compose = self.compose;
        self.hosts[host] = start(host, gone.0 / 100 + 1, compose, self.repeatable, bug);
    }

    /// One order for what has none, and one number for all of it.
    fn settle(&mut self) {
        self.packets.sort();
        self.print = 0;
        let text = format!("{self:?}");
        let half = |salt: u64| {
            let mut hasher = std::collections::hash_map::DefaultHasher::new();
            salt.hash(&mut hasher);
            text.hash(&mut hasher);
            u128::from(hasher.finish())
        };
        self.print = (half(1) << 64) | half(2);
    }

    pub(crate) fn place(&self, service: &str) -> Result<Instance, Exception> {
        let index: usize = service[1..].parse().unwrap();
        Ok(Instance { node: self.hosts[index].me.clone(), proxy: None, kinds: kinds(index, self.repeatable) })
    }

    pub(crate) fn undelivered(&mut self, host: usize, receipt: catena_core::Receipt) {
        let now = self.now;
        self.hosts[host].node.on_undelivered(now, receipt, Undelivered::Unreachable);
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

    pub(crate) fn no_plain_calls(&mut self, call: CallId) {
        self.wrong = Some(format!("{call:?} ended, and nobody made it"));
    }
}
