//! A world in one of its states, and what can happen to it next.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use catena_core::{Action, Answer, Instance, Missing, Node, NotSent, Policy, Replied, Ticket, Time, Undelivered};
use catena_wire::{
    Branch, Budget, ChainId, Encoded, Exception, Fault, Kinds, Message, NodeId, NodeRef, StepKey, Value,
};

use crate::{
    fingerprint::{fingerprint_of, told_by_fingerprint},
    reader::Function,
    sharing::Common,
    tree::Tree,
};

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

/// Of a function that makes a call: a fourth of them goes with it, enough for the widest tree that is drawn.
const HOPS_MAX: u32 = 8_000;
/// That a call is given.
const CALL_US: u64 = 60_000_000;

/// By whose clock a deadline passes first.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) enum Clocks {
    /// The caller's: others hear of it before they look at theirs.
    #[default]
    CallerFirst,
    /// A server's: what it says arrives before the caller looks at its own.
    ServerFirst,
    /// Servers give a call half of the time that it was given.
    ServerShort,
}

#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) name: &'static str,
    /// Host `n` serves service `n`; host 0 calls.
    pub(crate) hosts: u8,
    pub(crate) calls: Vec<Tree>,
    pub(crate) faults: Faults,
    pub(crate) window: u32,
    /// The reader reads when it likes; else at once.
    pub(crate) lazy: bool,
    /// Functions make the calls, and read the replies.
    pub(crate) in_functions: bool,
    /// Replies that follow each other quickly go together; else each by itself.
    pub(crate) bursts: bool,
    pub(crate) clocks: Clocks,
    #[cfg(feature = "seeded-bugs")]
    pub(crate) bug: Option<catena_core::Bug>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            name: "",
            hosts: 3,
            calls: Vec::new(),
            faults: Faults::default(),
            window: 8,
            lazy: false,
            in_functions: false,
            bursts: false,
            clocks: Clocks::CallerFirst,
            #[cfg(feature = "seeded-bugs")]
            bug: None,
        }
    }
}

impl Setup {
    fn policy(&self, host: u8) -> Policy {
        let short = self.clocks == Clocks::ServerShort && host > 0;
        let time_us = if short { CALL_US / 2 } else { Policy::default().budget_max.time_left_us() };
        Policy {
            reply_window: self.window,
            budget_max: Budget::new(time_us, HOPS_MAX),
            reply_burst_us: if self.bursts { Policy::default().reply_burst_us } else { 0 },
            #[cfg(feature = "seeded-bugs")]
            bug: self.bug,
            ..Policy::default()
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

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum What {
    Message(Vec<u8>),
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
    Crash(usize),
    /// The next deadline of any node.
    Time,
    Cancel(usize),
    /// The user drops the reply set.
    Forget(usize),
    /// The user reads all that there is.
    Read(usize),
    /// A task that has a right at this host goes on: it does one thing.
    Go(usize, usize),
}

/// One thing that a function, or a task that it started, does with its right.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Act {
    Reply,
    Delegate(Tree),
    End(Ticket, Result<bool, ()>),
    LetGo,
}

/// A function, or a task that it started, which has a right.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Holding {
    key: StepKey,
    ticket: Ticket,
    /// Replies so far, which tells them apart.
    replied: u32,
    function: VecDeque<Act>,
    task: VecDeque<Act>,
    /// It waits until there is room.
    full: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Host {
    pub(crate) me: Arc<NodeRef>,
    pub(crate) node: Node,
    holding: Vec<Holding>,
}

/// A call as its user sees it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// By right, the numbers of its replies.
    pub(crate) replies: BTreeMap<Branch, Vec<u32>>,
    pub(crate) unread: usize,
    pub(crate) ends: Vec<(Vec<Missing>, Option<Exception>)>,
    pub(crate) forgotten: bool,
    pub(crate) caller_crashed: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) hosts: Vec<Common<Host>>,
    pub(crate) packets: Vec<Packet>,
    pub(crate) left: Faults,
    pub(crate) calls: Vec<(ChainId, Seen)>,
    /// Those that make the calls, in their order, if functions do.
    pub(crate) functions: Vec<Function>,
    /// What no state machine may ask for.
    pub(crate) wrong: Option<String>,
    pub(crate) fingerprint: u128,
}

told_by_fingerprint!(World);

fn start(setup: &Setup, index: u8, run: u64) -> Host {
    let id = NodeId(run * 100 + u64::from(index));
    let me = NodeRef { id, name: format!("n{index}"), address: Some(format!("n{index}:1")), site: None };
    let mut node = Node::new(me.clone(), setup.policy(index), 0);
    node.serve(&format!("s{index}"), ["f"], Kinds::default());
    Host { me: Arc::new(me), node, holding: Vec::new() }
}

impl World {
    pub(crate) fn new(setup: &Setup) -> Self {
        let mut world = Self {
            now: Time::from_us(1),
            hosts: (0..setup.hosts).map(|index| start(setup, index, 0).into()).collect(),
            packets: Vec::new(),
            left: setup.faults,
            calls: Vec::new(),
            functions: Vec::new(),
            wrong: None,
            fingerprint: 0,
        };
        for (number, tree) in (1_u128..).zip(&setup.calls) {
            let budget = Budget::new(CALL_US, 1_000);
            if setup.in_functions {
                // A part of its hops goes with the call.
                let budget = Budget::new(budget.time_left_us(), HOPS_MAX);
                let chain = world.begin_function(number, budget);
                world.calls.push((chain, Seen::default()));
                world.drain(setup, 0);
                continue;
            }
            let (service, params) = (format!("s{}", tree.host), Value::encode(tree));
            let call = world.hosts[0].node.ask(world.now, number, &service, "f", params, budget, None).unwrap();
            world.calls.push((call, Seen::default()));
            world.drain(setup, 0);
        }
        world.settle();
        world
    }

    /// Everything that can happen next.
    pub(crate) fn events(&self, setup: &Setup) -> Vec<Event> {
        let mut events = Vec::new();
        let mut before = None;
        for (index, packet) in self.packets.iter().enumerate() {
            if before == Some(packet) {
                continue;
            }
            before = Some(packet);
            events.push(Event::Deliver(index));
            let What::Message(head) = &packet.what else { continue };
            if self.left.losses > 0 {
                events.push(Event::Lose(index));
            }
            // A call is sent once: its right tells a repetition, but who asked takes the first answer.
            if self.left.repetitions > 0 && !matches!(Message::decode_head(head), Ok(Message::Ask { .. })) {
                events.push(Event::Repeat(index));
            }
        }
        if self.left.crashes > 0 {
            events.extend((1..self.hosts.len()).map(Event::Crash));
        }
        for (number, (_, seen)) in self.calls.iter().enumerate() {
            if self.left.cancels > 0 && seen.is_open() {
                events.extend([Event::Cancel(number), Event::Forget(number)]);
            }
            if setup.lazy && seen.unread > 0 {
                events.push(Event::Read(number));
            }
        }
        for (host, at) in self.hosts.iter().enumerate() {
            events.extend(
                (0..at.holding.len()).filter(|task| at.holding[*task].can_go()).map(|task| Event::Go(host, task)),
            );
        }
        let calm =
            self.packets.is_empty() && !events.iter().any(|event| matches!(event, Event::Go(..) | Event::Read(_)));
        if (calm || self.left.haste > 0) && self.next_timeout().is_some() {
            events.push(Event::Time);
        }
        events
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.hosts.iter().filter_map(|host| host.node.next_timeout()).min()
    }

    /// Nothing can happen any more.
    pub(crate) fn at_rest(&self, setup: &Setup) -> bool {
        self.packets.is_empty() && self.events(setup).iter().all(|event| matches!(event, Event::Crash(_)))
    }

    pub(crate) fn after(&self, setup: &Setup, event: Event) -> Self {
        let mut next = self.clone();
        next.happen(setup, event);
        next.settle();
        next
    }

    pub(crate) fn happen(&mut self, setup: &Setup, event: Event) {
        let now = self.now;
        match event {
            Event::Deliver(index) => self.deliver(setup, index),
            Event::Lose(index) => {
                self.left.losses -= 1;
                self.packets.remove(index);
            }
            Event::Repeat(index) => {
                self.left.repetitions -= 1;
                let copy = self.packets[index].clone();
                self.deliver(setup, index);
                self.packets.push(copy);
            }
            Event::Crash(host) => self.crash(setup, host),
            Event::Time => {
                let calm = self.packets.is_empty();
                if !calm && self.left.haste > 0 {
                    self.left.haste -= 1;
                }
                self.pass_time(setup);
            }
            Event::Cancel(number) | Event::Forget(number) if setup.in_functions => {
                self.left.cancels -= 1;
                self.stop_function(setup, number, matches!(event, Event::Forget(_)));
            }
            Event::Read(number) if setup.in_functions => self.function_reads(setup, number),
            Event::Cancel(number) => {
                self.left.cancels -= 1;
                self.hosts[0].node.cancel(now, self.calls[number].0);
                self.drain(setup, 0);
            }
            Event::Forget(number) => {
                self.left.cancels -= 1;
                self.calls[number].1.forgotten = true;
                self.hosts[0].node.forget(now, self.calls[number].0);
                self.drain(setup, 0);
            }
            Event::Read(number) => {
                let count = std::mem::take(&mut self.calls[number].1.unread);
                self.hosts[0].node.on_read(now, self.calls[number].0, count);
                self.drain(setup, 0);
            }
            Event::Go(host, task) => self.go(setup, host, task),
        }
    }

    fn index_of(&self, id: NodeId) -> Option<usize> {
        self.hosts.iter().position(|host| host.me.id == id)
    }

    fn deliver(&mut self, setup: &Setup, index: usize) {
        let packet = self.packets.remove(index);
        let Some(host) = self.index_of(packet.to) else { return };
        match packet.what {
            What::LinkLost(node) => self.hosts[host].node.on_link_lost(self.now, node, false),
            What::Message(head) => {
                let message = Message::decode(Encoded { head: head.into(), tail: bytes::Bytes::new() }).unwrap();
                let name = format!("n{}", packet.from.0 % 100);
                let from = Arc::new(NodeRef { id: packet.from, address: Some(format!("{name}:1")), name, site: None });
                self.hosts[host].node.on_message(self.now, &from, message);
            }
        }
        self.drain(setup, host);
    }

    fn pass_time(&mut self, setup: &Setup) {
        let Some(next) = self.next_timeout() else { return };
        self.now = self.now.max(next);
        let is_due = |host: &usize| self.hosts[*host].node.next_timeout().is_some_and(|at| at <= self.now);
        let mut due: Vec<usize> = (0..self.hosts.len()).filter(is_due).collect();
        if setup.clocks == Clocks::ServerFirst {
            // The caller is the first host.
            due.drain(..due.len() - 1);
        }
        for host in due {
            self.hosts[host].node.on_timeout(self.now);
            self.drain(setup, host);
        }
    }

    /// The node comes back as another run of itself, which remembers nothing.
    fn crash(&mut self, setup: &Setup, host: usize) {
        self.left.crashes -= 1;
        let gone = self.hosts[host].me.id;
        self.packets.retain(|packet| packet.to != gone);
        let others: Vec<_> = self.hosts.iter().map(|host| host.me.id).filter(|id| *id != gone).collect();
        self.packets.extend(others.into_iter().map(|to| Packet { to, from: to, what: What::LinkLost(gone) }));
        self.hosts[host] = start(setup, u8::try_from(host).unwrap(), gone.0 / 100 + 1).into();
    }

    pub(crate) fn drain(&mut self, setup: &Setup, host: usize) {
        while let Some(action) = self.hosts[host].node.poll_action() {
            self.act(setup, host, action);
        }
    }

    fn act(&mut self, setup: &Setup, host: usize, action: Action) {
        let now = self.now;
        match action {
            Action::Send { to, message, receipt, .. } => match self.index_of(to.id) {
                Some(_) => {
                    let what = What::Message(message.head.to_vec());
                    self.packets.push(Packet { to: to.id, from: self.hosts[host].me.id, what });
                }
                None => self.hosts[host].node.on_undelivered(now, receipt, Undelivered::Unreachable),
            },
            Action::Resolve { lookup, service, avoid } => {
                let number: usize = service[1..].parse().unwrap();
                let gone = || Exception::new(catena_wire::names::NODE_UNREACHABLE, Fault::Network, "nobody else");
                let node = self.hosts.get(number).map(|host| host.me.clone()).filter(|me| !avoid.contains(&me.id));
                let place = node.map(|node| Instance { node, proxy: None, kinds: Kinds::default() }).ok_or_else(gone);
                self.hosts[host].node.on_resolved(now, lookup, place);
            }
            Action::RunService { ticket, params, right: Some(key), .. } => {
                self.begin(setup, host, ticket, &params, key)
            }
            Action::RightChanged(key) => {
                for holding in self.hosts[host].holding.iter_mut().filter(|holding| holding.key == key) {
                    holding.full = false;
                }
            }
            // It is dropped, and what it holds with it; a task that it started goes on.
            Action::CancelService(ticket) => {
                for holding in self.hosts[host].holding.iter_mut().filter(|holding| holding.ticket == ticket) {
                    holding.function.clear();
                }
            }
            Action::Begin { session, .. } => self.function_begins(setup, session),
            Action::Settle { session, call, result } => match self.has_stopped(session) {
                Some(_) if call > 0 => self.end_function(setup, session),
                _ => self.function_told(setup, session, result),
            },
            Action::Discard(_) if setup.in_functions => {}
            Action::Reply(chain, replied) if setup.in_functions => {
                let number = self.calls.iter().position(|(id, _)| *id == chain).unwrap();
                self.function_ended(number, replied);
            }
            Action::Reply(call, replied) => self.reply(setup, call, replied),
            other => self.wrong = Some(format!("{other:?}, which nobody asked for")),
        }
    }

    fn begin(&mut self, setup: &Setup, host: usize, ticket: Ticket, params: &Value, key: StepKey) {
        let tree: Tree = minicbor::decode(params.as_bytes()).unwrap();
        let mut function = VecDeque::new();
        function.extend((0..tree.replies.min(1)).map(|_| Act::Reply));
        function.extend(tree.delegates.iter().cloned().map(Act::Delegate));
        function.extend((1..tree.replies).map(|_| Act::Reply));
        function.push_back(Act::End(ticket, if tree.throws { Err(()) } else { Ok(tree.returns) }));
        let mut task: VecDeque<Act> = (0..tree.later.unwrap_or(0)).map(|_| Act::Reply).collect();
        if !tree.keeps {
            task.push_back(Act::LetGo);
        }
        let at_once = tree.later.is_none();
        self.hosts[host].holding.push(Holding { key, ticket, replied: 0, function, task, full: false });
        // What a function does between two messages commutes with all else, unless it has to wait.
        let index = self.hosts[host].holding.len() - 1;
        self.run_function(setup, host, index);
        if at_once {
            self.run_all(setup, host, index);
        }
    }

    fn run_function(&mut self, setup: &Setup, host: usize, index: usize) {
        while let Some(holding) = self.hosts[host].holding.get(index)
            && !holding.function.is_empty()
            && !holding.full
        {
            self.go(setup, host, index);
        }
        self.pause(setup, host);
    }

    /// What runs at this host replies no more for now.
    fn pause(&mut self, setup: &Setup, host: usize) {
        self.hosts[host].node.flush(self.now);
        self.drain(setup, host);
    }

    fn run_all(&mut self, setup: &Setup, host: usize, index: usize) {
        let Some(key) = self.hosts[host].holding.get(index).map(|holding| holding.key.clone()) else { return };
        while let Some(holding) = self.hosts[host].holding.get(index)
            && holding.key == key
            && holding.can_go()
        {
            self.go(setup, host, index);
        }
        self.pause(setup, host);
    }

    /// One thing more.
    fn go(&mut self, setup: &Setup, host: usize, index: usize) {
        let now = self.now;
        let Host { node, holding, .. } = &mut *self.hosts[host];
        let Some(held) = holding.get_mut(index) else { return };
        let acts = if held.function.is_empty() { &mut held.task } else { &mut held.function };
        let Some(act) = acts.front().cloned() else { return };
        match act {
            Act::Reply => match node.reply(now, &held.key, Value::encode(&(parts(&held.key.branch), held.replied))) {
                Ok(_) => {
                    held.replied += 1;
                    acts.pop_front();
                }
                Err(NotSent::Full(_)) => held.full = true,
                // Nobody waits: it stops, as it is told to.
                Err(NotSent::Over(_)) => {
                    held.function.clear();
                    held.task.clear();
                    held.task.push_back(Act::LetGo);
                }
            },
            Act::Delegate(tree) => {
                acts.pop_front();
                drop(node.delegate(now, &held.key, &format!("s{}", tree.host), "f", Value::encode(&tree)));
            }
            Act::End(ticket, result) => {
                acts.pop_front();
                let value = Value::encode(&(parts(&held.key.branch), held.replied));
                let answer = match result {
                    Ok(true) => {
                        held.replied += 1;
                        Ok(Answer::Value(value))
                    }
                    Ok(false) => Ok(Answer::Nothing),
                    Err(()) => Err(Exception::new("Oops", Fault::Service, "as the tree says")),
                };
                node.on_service_done(now, ticket, answer, 1);
            }
            Act::LetGo => {
                let held = holding.remove(index);
                node.let_go(now, &held.key);
            }
        }
        self.drain(setup, host);
    }

    fn reply(&mut self, setup: &Setup, call: ChainId, replied: Replied) {
        let Some((_, seen)) = self.calls.iter_mut().find(|(id, _)| *id == call) else {
            self.wrong = Some(format!("{replied:?} for {call}, which nobody made"));
            return;
        };
        if !seen.ends.is_empty() || seen.forgotten {
            self.wrong = Some(format!("{replied:?} of {call} after its end"));
        }
        match replied {
            Replied::Replies(values) => {
                for value in values {
                    let Ok((branch, number)) = minicbor::decode::<(Vec<u16>, u32)>(value.as_bytes()) else {
                        self.wrong = Some(format!("{value:?}, which nobody replied"));
                        return;
                    };
                    let branch = branch.into_iter().fold(Branch::root(), |branch, part| branch.child(part).unwrap());
                    seen.replies.entry(branch).or_default().push(number);
                    seen.unread += 1;
                }
            }
            Replied::Over { missing, failure } => seen.ends.push((missing, failure)),
            other => self.wrong = Some(format!("{other:?} for a call")),
        }
        if !setup.lazy {
            let count = std::mem::take(&mut seen.unread);
            let (call, now) = (call, self.now);
            self.hosts[0].node.on_read(now, call, count);
        }
    }

    /// One order for what has none, and one number for all of it.
    fn settle(&mut self) {
        self.packets.sort();
        self.fingerprint = 0;
        self.fingerprint = fingerprint_of(self);
    }

    /// Nodes that have rights, or anything else under way.
    pub(crate) fn busy(&self) -> BTreeSet<&str> {
        let busy = |host: &&Common<Host>| !host.node.is_idle();
        self.hosts.iter().filter(busy).map(|host| host.me.name.as_str()).collect()
    }

    /// Whether any node has a right to answer.
    pub(crate) fn has_rights(&self) -> bool {
        self.hosts.iter().any(|host| host.node.rights() > 0)
    }
}

impl Holding {
    fn can_go(&self) -> bool {
        !self.full && (!self.function.is_empty() || !self.task.is_empty())
    }
}

impl Seen {
    pub(crate) fn is_open(&self) -> bool {
        self.ends.is_empty() && !self.forgotten && !self.caller_crashed
    }
}

fn parts(branch: &Branch) -> Vec<u16> {
    branch.to_string().split('.').skip(1).map(|part| part.parse().unwrap()).collect()
}
