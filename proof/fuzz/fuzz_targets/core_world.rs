//! One node, and everything that can happen to it in any order: no panic, its tables within their bounds, and it comes to rest.
#![no_main]

use std::sync::Arc;

use arbitrary::Arbitrary;
use bytes::Bytes;
use catena_core::{
    Action, Answer, CallId, GuestCall, GuestSplit, HopCopy, Instance, Link, LookupId, Node, Plan, Policy, Receipt,
    SessionId, SubChain, Tail, Ticket, Time, Turn, Undelivered,
};
use catena_wire::{
    Branch, BranchCount, Brought, Budget, ChainHeader, ChainId, End, Exception, Fault, Frame, Hash, Hop, Kinds,
    Listener, LogLine, Merge, Message, Mode, NodeId, NodeRef, Outcome, PossibleDuplicate, StepKey, StepLimits, Value,
    Whereabouts,
};
use libfuzzer_sys::fuzz_target;

/// Small numbers everywhere, so that what happens concerns something that exists.
#[derive(Arbitrary, Debug)]
enum Operation {
    Advance(u32),
    Run { mode: u8, compose: bool },
    Forget(u8),
    Cancel(u8),
    Call { service: u8, time_us: u16 },
    Withdraw(u8),
    Bytes { from: u8, head: Vec<u8>, tail: Vec<u8> },
    Hop { from: u8, chain: u8, step: u8, service: u8, emitted: u8, hops: u8, head_only: bool, shape: Shape },
    Tail { which: u8, came: bool, code: bool },
    Accepted { from: u8, own: bool, chain: u8, step: u8, branch: u8 },
    Refused { from: u8, own: bool, chain: u8, step: u8, branch: u8, no_guests: bool },
    Partial { own: bool, chain: u8, step: u8, branch: u8, number: u8, to: u8 },
    End { own: bool, chain: u8, step: u8, branch: u8, emitted: u8, at: Option<u8>, merged: u8 },
    Heartbeat { chain: u8, step: u8, branch: u8, open: u8 },
    KeyedCall { from: u8, id: u8, chain: u8, step: u8, service: u8, params: u8 },
    Located { from: u8, chain: u8, step: u8, branch: u8, whereabouts: u8 },
    Locate { from: u8, own: bool, chain: u8, step: u8, branch: u8 },
    Console { chain: u8, step: u8, branch: u8, first: u8, lines: u8 },
    Cancelled { from: u8, own: bool, chain: u8 },
    Withdrawn { from: u8, id: u8 },
    Relayed { to: u8, head: Vec<u8> },
    Return { from: u8, id: u8, fails: bool },
    Code { from: u8, code: u8, here: bool },
    LinkLost(u8),
    Undelivered { which: u8, why: u8 },
    ServiceDone { ticket: u8, fails: bool, took_us: u64 },
    ServiceChain { ticket: u8, catch: bool, hears: bool },
    Turn { session: u8, calls: Vec<(u8, u8)>, splits: Vec<(u8, u8)>, emits: u8, ends: Option<bool> },
    Measured { node: u8, round_trip_us: u64, bytes_per_s: u64 },
    Broken { session: u8 },
    Suspended { session: u8, fails: bool, code: bool },
    Resolved { lookup: u8, at: Option<u8>, proxy: Option<u8>, kind: u8 },
    CodeMissing(u8),
    CodeStored { code: u8, good: bool },
}

/// What a hop carries besides its call.
#[derive(Arbitrary, Debug)]
struct Shape {
    branch: u8,
    stack: u8,
    branches: u8,
    mode: u8,
    compose: bool,
    listener: u8,
}

const ME: u64 = 0;

fn place(id: u8) -> Arc<NodeRef> {
    Arc::new(NodeRef { id: NodeId(u64::from(id % 4)), name: format!("n{}", id % 4), address: None, site: None })
}

/// Small numbers, and those at the very end.
fn edge(number: u8) -> u32 {
    if number < 192 { u32::from(number % 32) } else { u32::MAX - u32::from(number % 3) }
}

fn key(own: bool, chain: u8, step: u8) -> StepKey {
    let origin = NodeId(if own { ME } else { 1 });
    let chain = ChainId { origin, number: u128::from(chain % 4) + 1 };
    StepKey { chain, branch: Branch::root(), step: edge(step) }
}

/// None, 1 to 3, or 1.1 to 1.3 and so on.
fn branch(number: u8) -> Branch {
    let parts = [number % 4, (number / 4) % 4, (number / 16) % 4];
    parts
        .iter()
        .take_while(|part| **part > 0)
        .fold(Branch::root(), |branch, part| branch.child(u16::from(*part)).unwrap_or(branch))
}

fn branched(own: bool, chain: u8, step: u8, of: u8) -> StepKey {
    StepKey { branch: branch(of), ..key(own, chain, step) }
}

fn mode(number: u8) -> Mode {
    [Mode::Chain, Mode::Interactive, Mode::Adaptive][usize::from(number % 3)]
}

fn listener(number: u8) -> Listener {
    match number % 3 {
        0 => Listener::Origin,
        1 => Listener::Nobody,
        _ => Listener::Creator((*place(number)).clone(), edge(number)),
    }
}

fn frame(number: u8) -> Frame {
    Frame {
        code: code(number),
        call: 0,
        step: u32::from(number % 8),
        emitted: 0,
        creator: (*place(number)).clone(),
        service: service(number),
        catch: number.is_multiple_of(2).then(|| "f".into()),
        hears: number.is_multiple_of(3),
        limits: StepLimits::UNCHANGED,
        continuation_bytes: 0,
        uncertain: number.is_multiple_of(5),
        continuation: Bytes::new(),
    }
}

/// Any choice of the three kinds for the one function that there is.
fn kinds(kind: u8) -> Kinds {
    let of = |bit: u8| if kind & bit == 0 { Vec::new() } else { vec!["f".into()] };
    Kinds { repeatable: of(1), durable: of(2), chaining: of(4) }
}

fn code(code: u8) -> Hash {
    Hash([code % 2; 32])
}

/// Services 0 and 1 are here; 2 to 5 are elsewhere.
fn service(service: u8) -> String {
    format!("s{}", service % 6)
}

fn failure() -> Exception {
    Exception::new("Oops", Fault::Service, "as drawn")
}

fn result(fails: bool) -> Result<Value, Exception> {
    if fails { Err(failure()) } else { Ok(Value::null()) }
}

fn hop(chain: u8, step: u8, target: u8, emitted: u8, hops: u8, shape: &Shape) -> Box<Hop> {
    let key = branched(false, chain, step, shape.branch);
    let duplicate = shape.compose.then(|| PossibleDuplicate { since: key.clone(), way: 7 });
    let merge = key.branch.parent().map(|parent| Merge {
        host: (*place(shape.listener)).clone(),
        at: StepKey { branch: parent, step: key.step / 2, ..key.clone() },
        listener: listener(shape.listener),
    });
    let branches = u16::from(if shape.branches > 200 { shape.branches % 4 } else { 0 });
    Box::new(Hop {
        key,
        age_us: u64::from(shape.branches) * 1_000_000,
        budget: Budget::new(1_000_000 * u64::from(hops), u32::from(hops)),
        service: service(target),
        function: "f".into(),
        params: Value::null(),
        call: 0,
        code: code(chain),
        header: ChainHeader {
            origin: place(1),
            started_at_ms: 0,
            mode: mode(shape.mode),
            compose: shape.compose,
            entry: None,
            credentials: None,
        },
        stack: (0..shape.stack % 4).map(frame).collect(),
        emitted: edge(emitted),
        heartbeat_in_us: 1_000,
        path: Vec::new(),
        trace: Some(Vec::new()),
        console: Vec::new(),
        continuation_bytes: 0,
        splits: branches,
        merge,
        branches,
        merged: Vec::new(),
        console_told: edge(emitted),
        limits: StepLimits::UNCHANGED,
        uncertain: shape.compose,
        duplicate,
        recording: None,
        unreached: None,
        continuation: Bytes::new(),
        code_bytes: None,
    })
}

struct World {
    node: Node,
    now: Time,
    receipts: Vec<Receipt>,
    /// Hops of which heads have come.
    copies: Vec<HopCopy>,
    /// What the node has named: operations speak of these, the newest first.
    sessions: Vec<SessionId>,
    tickets: Vec<Ticket>,
    asked: Vec<u64>,
}

/// The `which`th from the end; `other` where there are not so many.
fn newest<T: Copy>(list: &[T], which: u8, other: T) -> T {
    list.iter().rev().nth(usize::from(which % 8)).copied().unwrap_or(other)
}

impl World {
    fn apply(&mut self, operation: Operation) {
        let now = self.now;
        match operation {
            Operation::Advance(us) => {
                self.now = now.after(u64::from(us));
                self.node.on_timeout(self.now);
            }
            Operation::Run { mode: how, compose } => {
                let plan = Plan { mode: mode(how), compose, profile: true, ..Plan::new(Budget::new(9_000_000, 9)) };
                drop(self.node.run(now, u128::from(self.now.as_us()) % 4 + 1, code(0), Value::null(), plan));
            }
            Operation::Forget(chain) => self.node.forget(now, key(true, chain, 0).chain),
            Operation::Cancel(chain) => self.node.cancel(now, key(true, chain, 0).chain),
            Operation::Measured { node, round_trip_us, bytes_per_s } => {
                self.node.on_link_measured(place(node).id, Link { round_trip_us, bytes_per_s });
            }
            Operation::Call { service: s, time_us } => {
                let budget = Budget::new(u64::from(time_us), 1);
                self.node.call(now, &service(s), "f", Value::null(), budget, None);
            }
            Operation::Withdraw(call) => self.node.withdraw(now, CallId(u64::from(call % 16))),
            Operation::ServiceDone { ticket, fails, took_us } => {
                let ticket = newest(&self.tickets, ticket, Ticket(u64::from(ticket)));
                self.node.on_service_done(now, ticket, result(fails).map(Answer::Value), took_us);
            }
            Operation::ServiceChain { ticket, catch, hears } => {
                let ticket = newest(&self.tickets, ticket, Ticket(u64::from(ticket)));
                let catch = catch.then(|| "f".into());
                let sub = SubChain {
                    number: u128::from(self.now.as_us()) << 8 | 7,
                    code: code(1),
                    input: Value::null(),
                    catch,
                    hears,
                };
                self.node.on_service_done(now, ticket, Ok(Answer::Chain(sub)), 1);
            }
            Operation::Turn { session, calls, splits, emits, ends } => self.turn(session, &calls, &splits, emits, ends),
            Operation::Broken { session } => self.node.on_turn(now, self.session(session), Err(failure()), 1),
            Operation::Suspended { session, fails, code } => {
                let taken = (Bytes::from_static(b"state"), code.then(|| Bytes::from_static(b"code")));
                let taken = if fails { Err(failure()) } else { Ok(taken) };
                self.node.on_suspended(now, self.session(session), taken, 1);
            }
            Operation::Resolved { lookup, at, proxy, kind } => {
                let at = at.map(|at| Instance { node: place(at), proxy: proxy.map(place), kinds: kinds(kind) });
                self.node.on_resolved(now, LookupId(u64::from(lookup)), at.ok_or_else(failure));
            }
            Operation::CodeMissing(which) => {
                self.node.on_code_missing(now, SessionId(u64::from(which % 8)), code(which))
            }
            Operation::CodeStored { code: which, good } => {
                self.node.on_code_stored(now, code(which), result(!good).map(drop));
            }
            Operation::LinkLost(with) => self.node.on_link_lost(now, place(with).id, false),
            Operation::Undelivered { which, why } => {
                if let Some(receipt) = self.receipts.iter().rev().nth(usize::from(which % 8)) {
                    let why = match why % 3 {
                        0 => Undelivered::Lost,
                        1 => Undelivered::Unreachable,
                        _ => Undelivered::TooLarge { bytes: 2, bytes_max: 1 },
                    };
                    self.node.on_undelivered(now, receipt.clone(), why);
                }
            }
            Operation::Tail { which, came, code } => {
                let code_bytes = code.then(|| Bytes::from_static(b"code"));
                let tail = Tail { continuation: Bytes::from_static(b"state"), stacked: Vec::new(), code_bytes };
                if let Some(copy) = self.copies.iter().rev().nth(usize::from(which % 8)) {
                    self.node.on_tail(now, copy, came.then_some(tail));
                }
            }
            message => self.message(message),
        }
    }

    fn message(&mut self, operation: Operation) {
        let (from, message) = match operation {
            Operation::Bytes { from, head, tail } => {
                let Ok(mut message) = Message::decode_head(&head) else { return };
                let Ok(()) = message.attach_tail(tail.into()) else { return };
                (from, message)
            }
            Operation::Hop { from, chain, step, service, emitted, hops, head_only, shape } => {
                let hop = hop(chain, step, service, emitted, hops, &shape);
                if head_only {
                    let copy = self.node.on_hop_head(self.now, &place(from), hop);
                    return self.copies.push(copy);
                }
                (from, Message::Hop(hop))
            }
            Operation::Accepted { from, own, chain, step, branch } => {
                (from, Message::Accepted(branched(own, chain, step, branch)))
            }
            Operation::Refused { from, own, chain, step, branch, no_guests } => {
                let name = if no_guests { catena_wire::names::RUNS_NO_GUESTS } else { "Oops" };
                let why = Exception::new(name, Fault::Node, "as drawn");
                (from, Message::Refused(branched(own, chain, step, branch), why))
            }
            Operation::Partial { own, chain, step, branch, number, to } => {
                let (key, number, to) = (branched(own, chain, step, branch), edge(number), u32::from(to % 8));
                (1, Message::Partial { key, number, value: Value::null(), to })
            }
            Operation::End { own, chain, step, branch: of, emitted, at, merged } => {
                let key = branched(own, chain, step, of);
                let parent = key.branch.parent().unwrap_or_default();
                let at = at.map(|at| StepKey { branch: parent, step: edge(at), ..key.clone() });
                let end = End {
                    key,
                    outcome: Outcome::Done(Value::null()),
                    emitted: edge(emitted),
                    path: Vec::new(),
                    trace: None,
                    console: Vec::new(),
                    at,
                    hops_left: edge(emitted),
                    merged: vec![BranchCount { branch: branch(merged), emitted: u32::from(merged % 2) }],
                    cut: merged % 4 == 3,
                    recording: None,
                };
                (1, Message::End(Box::new(end)))
            }
            Operation::Heartbeat { chain, step, branch: of, open } => {
                let open = (0..open % 8).map(branch).collect();
                (1, Message::Heartbeat(branched(true, chain, step, of), (*place(1)).clone(), open))
            }
            Operation::KeyedCall { from, id, chain, step, service: target, params } => {
                let call = Message::Call {
                    id: u64::from(id % 8),
                    service: service(target),
                    function: "f".into(),
                    params: Value::encode(&(params % 2)),
                    budget: Budget::new(5_000_000, 5),
                    key: Some(key(false, chain, step)),
                    credentials: None,
                    duplicate: (params % 3 == 0).then(|| PossibleDuplicate { since: key(false, chain, 1), way: 3 }),
                    age_us: u64::from(params) * 1_000_000,
                };
                (from, call)
            }
            Operation::Located { from, chain, step, branch: of, whereabouts } => {
                let whereabouts = match whereabouts % 3 {
                    0 => Whereabouts::HandingOff("n2".into()),
                    1 => Whereabouts::Went("n2".into()),
                    _ => Whereabouts::Unknown,
                };
                (from, Message::Located(branched(true, chain, step, of), "n1".into(), whereabouts))
            }
            Operation::Locate { from, own, chain, step, branch: of } => {
                let locate =
                    Message::Locate { key: branched(own, chain, step, of), origin: (*place(1)).clone(), entry: None };
                (from, locate)
            }
            Operation::Console { chain, step, branch: of, first, lines } => {
                let key = branched(true, chain, step, of);
                let line = |number: u8| LogLine {
                    step: key.step,
                    node: "n1".into(),
                    at_us: 0,
                    text: "said".into(),
                    branch: key.branch.clone(),
                    number: u32::from(number),
                };
                let lines = (0..lines % 4).map(line).collect();
                (1, Message::Console(key, edge(first), lines))
            }
            Operation::Cancelled { from, own, chain } => (from, Message::Cancel(key(own, chain, 0).chain)),
            Operation::Withdrawn { from, id } => (from, Message::Withdraw(u64::from(id % 8))),
            Operation::Relayed { to, head } => (1, Message::Relay { to: place(to).id, head, tail: Bytes::new() }),
            Operation::Return { from, id, fails } => (
                from,
                Message::Return(
                    newest(&self.asked, id, u64::from(id)),
                    result(fails).into(),
                    Brought { hops_left: u32::from(id), service_us: 1, ..Brought::default() },
                ),
            ),
            Operation::Code { from, code: which, here: true } => (from, Message::Code(code(which), Bytes::new())),
            Operation::Code { from, code: which, here: false } => (from, Message::NoCode(code(which))),
            _ => return,
        };
        self.node.on_message(self.now, &place(from), message);
    }

    fn session(&self, which: u8) -> SessionId {
        newest(&self.sessions, which, SessionId(u64::from(which)))
    }

    fn turn(&mut self, session: u8, calls: &[(u8, u8)], splits: &[(u8, u8)], emits: u8, ends: Option<bool>) {
        let splits = splits.iter().map(|(call, how)| GuestSplit {
            call: u32::from(call % 8),
            count: u32::from(how % 6),
            at: (how / 6).is_multiple_of(2).then(|| service(how / 12)),
            line: 1,
            column: 1,
        });
        let calls = calls.iter().map(|(call, target)| GuestCall {
            call: u32::from(call % 8),
            service: service(*target),
            function: "f".into(),
            params: Value::null(),
            line: 1,
            column: 1,
        });
        let turn = Turn {
            calls: calls.collect(),
            emits: vec![Value::null(); usize::from(emits % 4)],
            logs: vec!["said".into()],
            splits: splits.collect(),
            end: ends.map(result),
            ..Turn::default()
        };
        self.node.on_turn(self.now, self.session(session), Ok(turn), 1);
    }

    /// Takes the actions; there are not more of them than there is reason for.
    fn drain(&mut self, of: usize) {
        let mut count = 0;
        while let Some(action) = self.node.poll_action() {
            count += 1;
            assert!(count <= 512 * (of + 8), "{count} actions");
            match action {
                Action::Send { receipt, .. } => {
                    self.asked.extend(if let Receipt::Call(id) = receipt { Some(id) } else { None });
                    self.receipts.push(receipt);
                }
                Action::RunService { ticket, .. } => self.tickets.push(ticket),
                Action::Begin { session, .. } | Action::Resume { session, .. } | Action::Branch { session, .. } => {
                    self.sessions.push(session);
                }
                _ => {}
            }
        }
        let (chains, waiting, running) = self.node.load();
        // Each of eight chains may be about to split into four when the table of chains fills up.
        assert!(chains <= 8 + 8 * 4 && waiting <= 16 && running <= 8, "{chains} {waiting} {running}");
    }
}

fuzz_target!(|operations: Vec<Operation>| {
    let policy = Policy {
        activations_max: 8,
        services_running_max: 8,
        calls_waiting_max: 16,
        chains_started_max: 8,
        partials_held_max: 4,
        names_max: 4,
        branches_max: 4,
        stack_depth_max: 4,
        stopped_chains_max: 4,
        listeners_max: 4,
        step_records_max: 32,
        chaining_proxy: true,
        ..Policy::default()
    };
    let mut node = Node::new((*place(0)).clone(), policy, 0);
    node.serve("s0", ["f"], kinds(0));
    node.serve("s1", ["f"], kinds(4));
    let mut world = World {
        node,
        now: Time::from_us(0),
        receipts: Vec::new(),
        copies: Vec::new(),
        sessions: Vec::new(),
        tickets: Vec::new(),
        asked: Vec::new(),
    };
    let count = operations.len();
    for operation in operations {
        world.apply(operation);
        world.drain(count);
    }
    // Left alone, nothing waits for ever but for the shell: every timer runs out.
    for _ in 0..10_000 {
        let Some(at) = world.node.next_timeout() else { return };
        world.now = world.now.max(at);
        world.node.on_timeout(world.now);
        world.drain(count);
    }
    panic!("it does not come to rest");
});
