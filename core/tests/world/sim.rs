//! Virtual time: a queue of events, the nodes, and nothing else. Single-threaded, and the same for the same plan.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    sync::Arc,
};

use bytes::Bytes;
use catena_core::{
    Answer, CallId, HopCopy, Instance, Link, LookupId, Policy, Receipt, SessionId, Tail as HopTail, Ticket, Time, Turn,
    Undelivered,
};
use catena_wire::{Budget, ChainId, Encoded, Exception, Hash, NodeId, NodeRef, StepKey, Value};

use crate::{
    drawn::Rng,
    durable::Store,
    guest::{self, Op},
    host::Host,
    plan::Plan,
    record::{Record, Seen},
    services::{FUNCTIONS, kinds_of, number_of, program_of, service_name},
};

/// More than any run needs: a run that does not come to rest is a failure, not a wait.
const EVENTS_MAX: usize = 400_000;

pub(crate) enum Event {
    Begin(usize),
    Call(usize),
    Withdraw(usize, CallId),
    Forget(ChainId),
    Cancel(ChainId),
    Deliver {
        from: Arc<NodeRef>,
        to: NodeId,
        message: Encoded,
        receipt: Receipt,
        tail: Tail,
    },
    Tail {
        to: NodeId,
        copy: HopCopy,
        tail: Option<HopTail>,
    },
    Undelivered {
        at: NodeId,
        receipt: Receipt,
        why: Undelivered,
    },
    LinkLost {
        at: NodeId,
        with: NodeId,
    },
    ServiceDone {
        at: NodeId,
        ticket: Ticket,
        result: Result<Answer, Exception>,
        took_us: u64,
    },
    /// The result of a durable function is on the disk.
    Keep {
        at: NodeId,
        key: StepKey,
        result: Result<Answer, Exception>,
    },
    TurnDone {
        at: NodeId,
        session: SessionId,
        turn: Turn,
    },
    Suspended {
        at: NodeId,
        session: SessionId,
        continuation: Bytes,
        code: Option<Bytes>,
    },
    Resolved {
        at: NodeId,
        lookup: LookupId,
        service: String,
        avoid: Vec<NodeId>,
    },
    Restart(usize),
    CutNoticed(usize),
    /// Only so that a test can act at that time.
    Pause,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tail {
    With,
    After(u64),
    Never,
}

pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) now: u64,
    sequence: u64,
    queue: BTreeMap<(u64, u64), Event>,
    pub(crate) hosts: Vec<Host>,
    pub(crate) rng: Rng,
    pub(crate) record: Record,
    pub(crate) programs: BTreeMap<Hash, Vec<Op>>,
    pub(crate) last_arrival: BTreeMap<(usize, usize), u64>,
    pub(crate) delays: BTreeMap<(usize, usize), u64>,
    /// Bytes per second, where they take time.
    pub(crate) widths: BTreeMap<(usize, usize), u64>,
    /// Links opened by nodes without an address: from whom, to whom.
    pub(crate) opened: BTreeSet<(NodeId, NodeId)>,
    pub(crate) restarts: u64,
    /// The disk of each host.
    pub(crate) stores: Vec<Store>,
    pub(crate) tracing: bool,
    /// As it happens, so that a panic does not swallow it.
    pub(crate) printing: bool,
}

pub(crate) fn policy() -> Policy {
    let policy = Policy { budget_max: Budget::new(600_000_000, 2_000), ..Policy::default() };
    #[cfg(feature = "seeded-bugs")]
    let policy = crate::bugs::seeded(policy);
    policy
}

impl World {
    pub(crate) fn new(plan: Plan) -> Self {
        Self::with_policy(plan, |_| policy())
    }

    pub(crate) fn with_policy(plan: Plan, policy: impl Fn(usize) -> Policy) -> Self {
        let start = |index| start(&plan, index, 0, policy(index));
        let hosts = (0..plan.hosts).map(start).collect();
        let mut world = Self {
            now: 0,
            sequence: 0,
            queue: BTreeMap::new(),
            hosts,
            rng: Rng::new(plan.seed),
            record: Record::default(),
            programs: BTreeMap::new(),
            last_arrival: BTreeMap::new(),
            delays: BTreeMap::new(),
            widths: BTreeMap::new(),
            opened: BTreeSet::new(),
            restarts: 0,
            stores: vec![Store::new(); plan.hosts],
            tracing: false,
            printing: false,
            plan,
        };
        world.set_up();
        world
    }

    fn set_up(&mut self) {
        let plan = self.plan.clone();
        for (number, chain) in plan.chains.iter().enumerate() {
            let code = guest::compile(&chain.program);
            let hash = guest::hash_of(&code);
            self.programs.insert(hash, chain.program.clone());
            for host in &mut self.hosts {
                let stocked = plan.code.repository == Some(host.index) && plan.code.stocked;
                if host.index == chain.origin || plan.code.everywhere || stocked {
                    host.codes.insert(hash, code.clone());
                }
            }
            self.at(chain.at_us, Event::Begin(number));
        }
        for (number, call) in plan.calls.iter().enumerate() {
            self.at(call.at_us, Event::Call(number));
        }
        for (number, cut) in plan.cuts.iter().enumerate() {
            self.at(cut.noticed_us, Event::CutNoticed(number));
        }
        if let Some(repository) = plan.code.repository {
            let place = (*self.hosts[repository].me).clone();
            self.hosts.iter_mut().for_each(|host| host.node.set_repository(Arc::new(place.clone())));
        }
        for from in 0..plan.hosts {
            for to in 0..plan.hosts {
                let delay = self.rng.range(plan.delay_us.0, plan.delay_us.1);
                self.delays.insert((from, to), delay);
            }
        }
        self.measure();
        for service in 0..plan.services() {
            let programs = FUNCTIONS.iter().filter_map(|function| program_of(service, function, plan.services()));
            self.programs.extend(programs.map(|program| (guest::hash_of(&guest::compile(&program)), program)));
        }
    }

    /// Every link is measured, and each end knows.
    fn measure(&mut self) {
        let Some(least) = self.plan.nodes.bytes_per_s else { return };
        for from in 0..self.hosts.len() {
            for to in 0..self.hosts.len() {
                let drawn = if self.plan.nodes.wider > 1 { self.rng.range(1, self.plan.nodes.wider + 1) } else { 1 };
                let known = self.widths.get(&(to, from)).copied();
                let bytes_per_s = known.unwrap_or(least * drawn);
                self.widths.insert((from, to), bytes_per_s);
                let round_trip_us = self.delays[&(from, to)] + self.delays[&(to, from)];
                let to = self.hosts[to].id();
                self.hosts[from].node.on_link_measured(to, Link { round_trip_us, bytes_per_s });
            }
        }
    }

    pub(crate) fn at(&mut self, at_us: u64, event: Event) {
        self.sequence += 1;
        self.queue.insert((at_us.max(self.now), self.sequence), event);
    }

    pub(crate) fn after(&mut self, us: u64, event: Event) {
        self.at(self.now + us, event);
    }

    pub(crate) fn time(&self) -> Time {
        Time::from_us(self.now)
    }

    /// The host that is this run of a node, if it is up.
    pub(crate) fn index_of(&self, id: NodeId) -> Option<usize> {
        self.hosts.iter().position(|host| host.up && host.id() == id)
    }

    /// Runs until nothing is left to happen.
    pub(crate) fn run(mut self) -> Record {
        self.run_until(u64::MAX);
        let idle = |host: &&Host| host.up && !(host.node.is_idle() && host.guests.is_empty());
        self.record.busy =
            self.hosts.iter().filter(idle).map(|host| format!("{} {:?}", host.me.name, host.node.load())).collect();
        self.record.now_us = self.now;
        self.record
    }

    /// Whether nothing is under way at any node that is up.
    pub(crate) fn is_idle(&self) -> bool {
        self.hosts.iter().filter(|host| host.up).all(|host| host.node.is_idle() && host.guests.is_empty())
    }

    /// Runs what happens until `until_us`.
    pub(crate) fn run_until(&mut self, until_us: u64) {
        for _ in 0..EVENTS_MAX {
            if !self.step(until_us) {
                return;
            }
        }
        self.record.restless = Some(format!("{EVENTS_MAX} events, and at {} us it still goes on", self.now));
    }

    fn step(&mut self, until_us: u64) -> bool {
        let timeout = self
            .hosts
            .iter()
            .filter(|host| host.up)
            .filter_map(|host| host.node.next_timeout().map(|at| (at.as_us(), host.index)))
            .min();
        let event = self.queue.keys().next().map(|key| key.0);
        match (event, timeout) {
            (Some(at), due) if at <= until_us && due.is_none_or(|(due, _)| at <= due) => {
                let Some((_, event)) = self.queue.pop_first() else { return false };
                self.now = at;
                self.happen(event);
            }
            (_, Some((due, host))) if due <= until_us => {
                self.now = self.now.max(due);
                let now = self.time();
                self.note(|| format!("n{host} timeout"));
                self.hosts[host].node.on_timeout(now);
                self.drain(host);
            }
            _ => return false,
        }
        true
    }

    /// A line of the trace, if one is wanted.
    pub(crate) fn note(&mut self, line: impl FnOnce() -> String) {
        if self.printing {
            println!("{:>10} {}", self.now, line());
        } else if self.tracing {
            let _ = writeln!(self.record.trace, "{:>10} {}", self.now, line());
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Begin(number) => self.begin(number),
            Event::Call(number) => self.plain_call(number),
            Event::Withdraw(host, call) => {
                self.record.withdrawn.insert((host, call));
                self.on(self.hosts[host].id(), |node, now| node.withdraw(now, call));
            }
            Event::Forget(chain) => {
                self.record.cancels.insert((chain.origin, chain));
                self.on(chain.origin, |node, now| node.forget(now, chain));
            }
            Event::Cancel(chain) => self.cancel(chain),
            Event::Deliver { from, to, message, receipt, tail } => self.deliver(&from, to, message, receipt, tail),
            Event::Tail { to, copy, tail } => self.on(to, |node, now| node.on_tail(now, &copy, tail)),
            Event::Undelivered { at, receipt, why } => self.on(at, |node, now| node.on_undelivered(now, receipt, why)),
            Event::LinkLost { at, with } => self.on(at, |node, now| node.on_link_lost(now, with, false)),
            Event::ServiceDone { at, ticket, result, took_us } => {
                self.on(at, |node, now| node.on_service_done(now, ticket, result, took_us));
            }
            Event::Keep { at, key, result } => {
                let host = self.index_of(at);
                host.into_iter().for_each(|host| self.keep(host, &key, result.clone()));
            }
            Event::TurnDone { at, session, turn } => {
                self.on(at, |node, now| node.on_turn(now, session, Ok(turn), 1));
            }
            Event::Suspended { at, session, continuation, code } => {
                self.on(at, |node, now| node.on_suspended(now, session, Ok((continuation, code)), 1));
            }
            Event::Resolved { at, lookup, service, avoid } => self.resolved(at, lookup, &service, &avoid),
            Event::Restart(host) => self.restart(host),
            Event::CutNoticed(number) => {
                let cut = &self.plan.cuts[number];
                let (a, b) = (cut.from, cut.to);
                self.break_link(a, b, 0);
            }
            Event::Pause => {}
        }
    }

    /// Lets something happen to a node, if that run of it is still up, and does what it then asks for.
    pub(crate) fn on(&mut self, id: NodeId, what: impl FnOnce(&mut catena_core::Node, Time)) {
        let Some(host) = self.index_of(id) else { return };
        let now = self.time();
        what(&mut self.hosts[host].node, now);
        self.drain(host);
    }

    fn begin(&mut self, number: usize) {
        let chain = self.plan.chains[number].clone();
        if !self.hosts[chain.origin].up {
            return;
        }
        let hash = guest::hash_of(&guest::compile(&chain.program));
        let run = number as u64 + 1;
        let (now, budget) = (self.time(), Budget::new(self.plan.time_us, self.plan.hops));
        let plan = catena_core::Plan {
            mode: chain.mode,
            compose: chain.compose,
            profile: true,
            credentials: self.credentials_of(run),
            limits: chain.limits,
            ..catena_core::Plan::new(budget)
        };
        let host = &mut self.hosts[chain.origin];
        let code = guest::compile(&chain.program);
        host.codes.insert(hash, code);
        let id = host
            .node
            .run(now, u128::from(run), hash, Value::encode(&(run, 0_u64)), plan)
            .expect("the world is never overloaded");
        self.record.chains.insert(id, Seen { run, program: number, ..Seen::default() });
        if let Some(us) = chain.cancel_after_us {
            self.after(us, Event::Cancel(id));
        }
        self.drain(chain.origin);
    }

    fn cancel(&mut self, chain: ChainId) {
        let now = self.now;
        let Some(seen) = self.record.chains.get_mut(&chain) else { return };
        // What has ended goes on being ended.
        if seen.ends.is_empty() {
            seen.cancelled_at_us = Some(now);
            self.record.cancels.insert((chain.origin, chain));
        }
        self.on(chain.origin, |node, now| node.cancel(now, chain));
    }

    fn plain_call(&mut self, number: usize) {
        let call = self.plan.calls[number].clone();
        if !self.hosts[call.from].up {
            return;
        }
        let (now, budget) = (self.time(), Budget::new(20_000_000, 16));
        let params: guest::Params = (1_000 + number as u64, 0, 0);
        let (service, function) = (service_name(call.target.service), FUNCTIONS[usize::from(call.target.function)]);
        let credentials = self.credentials_of(params.0);
        let node = &mut self.hosts[call.from].node;
        let id = node.call(now, &service, function, Value::encode(&params), budget, credentials);
        self.record.issued.insert(params, vec![call.target]);
        self.record.plain.insert((call.from, id), params);
        self.record.calls.insert((call.from, id), Vec::new());
        if let Some(us) = call.withdraw_after_us {
            self.after(us, Event::Withdraw(call.from, id));
        }
        self.drain(call.from);
    }

    fn resolved(&mut self, at: NodeId, lookup: LookupId, service: &str, avoid: &[NodeId]) {
        let number = number_of(service);
        let candidates = self.plan.served.get(usize::from(number)).cloned().unwrap_or_default();
        let stale = self.rng.chance(self.plan.rules.stale_name);
        let wrong = self.rng.chance(self.plan.rules.wrong_name);
        let candidates = if wrong { vec![self.rng.range(0, self.plan.hosts as u64) as usize] } else { candidates };
        let found = candidates.iter().map(|host| &self.hosts[*host]);
        let mut found =
            found.filter(|host| (host.up || stale) && !avoid.contains(&host.id())).map(|host| host.me.clone());
        let nodes = &self.plan.nodes;
        let proxy = nodes.proxies.iter().find(|(service, _)| *service == number).map(|(_, host)| &self.hosts[*host].me);
        let proxy = proxy.filter(|proxy| !avoid.contains(&proxy.id)).cloned();
        let kinds = kinds_of(number, &nodes.repeatable);
        let place = match found.next() {
            Some(node) => Ok(Instance { node, proxy, kinds }),
            None => {
                let why = format!("nobody serves {service}");
                Err(Exception::new(catena_wire::names::UNKNOWN_SERVICE, catena_wire::Fault::Caller, why))
            }
        };
        self.on(at, |node, now| node.on_resolved(now, lookup, place));
    }

    pub(crate) fn crash(&mut self, host: usize, restart_after_us: Option<u64>) {
        self.hosts[host].up = false;
        self.record.crashed.insert(host);
        let id = self.hosts[host].id();
        for (chain, seen) in &mut self.record.chains {
            seen.origin_crashed |= chain.origin == id;
        }
        let others: Vec<_> = self.hosts.iter().filter(|other| other.up).map(Host::id).collect();
        for other in others {
            let noticed = self.rng.range(1_000, 500_000);
            self.after(noticed, Event::LinkLost { at: other, with: id });
        }
        if let Some(us) = restart_after_us {
            self.after(us, Event::Restart(host));
        }
    }

    fn restart(&mut self, host: usize) {
        self.restarts += 1;
        self.hosts[host] = start(&self.plan, host, self.restarts, policy());
        if let Some(repository) = self.plan.code.repository {
            let place = (*self.hosts[repository].me).clone();
            self.hosts[host].node.set_repository(Arc::new(place));
        }
    }

    /// Both ends notice that the link between them has broken.
    pub(crate) fn break_link(&mut self, a: usize, b: usize, after_us: u64) {
        let (a, b) = (self.hosts[a].id(), self.hosts[b].id());
        self.opened.remove(&(a, b));
        self.opened.remove(&(b, a));
        self.after(after_us, Event::LinkLost { at: a, with: b });
        self.after(after_us, Event::LinkLost { at: b, with: a });
    }
}

fn start(plan: &Plan, host: usize, run: u64, policy: Policy) -> Host {
    let services = services_of(plan, host);
    let mut started = Host::start(host, run, &services, plan.nodes.tune(host, policy), plan);
    for service in services.into_iter().filter(|service| plan.served[usize::from(*service)].len() > 1) {
        started.node.note_replica(&service_name(service));
    }
    started
}

fn services_of(plan: &Plan, host: usize) -> Vec<u8> {
    let served = plan.served.iter().enumerate().filter(|(_, hosts)| hosts.contains(&host));
    served.map(|(service, _)| u8::try_from(service).expect("few services")).collect()
}
