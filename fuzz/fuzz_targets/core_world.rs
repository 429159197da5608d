//! One node, and everything that can happen to it in any order: no panic, its tables within their bounds, and it comes to rest.
#![no_main]

use std::sync::Arc;

use arbitrary::Arbitrary;
use bytes::Bytes;
use catena_core::{Action, CallId, GuestCall, Node, Policy, Receipt, SessionId, Ticket, Time, Turn, Undelivered};
use catena_wire::{
    Branch, Budget, ChainId, End, Exception, Fault, Hash, Hop, Message, NodeId, NodeRef, Outcome, StepKey, Value,
};
use libfuzzer_sys::fuzz_target;

/// Small numbers everywhere, so that what happens concerns something that exists.
#[derive(Arbitrary, Debug)]
enum Operation {
    Advance(u32),
    Run,
    Forget(u8),
    Call { service: u8, time_us: u16 },
    Withdraw(u8),
    Bytes { from: u8, head: Vec<u8>, tail: Vec<u8> },
    Hop { from: u8, chain: u8, step: u8, service: u8, emitted: u8, hops: u8, head_only: bool },
    Tail { chain: u8, step: u8, came: bool, code: bool },
    Accepted { from: u8, own: bool, chain: u8, step: u8 },
    Refused { from: u8, own: bool, chain: u8, step: u8 },
    Partial { chain: u8, step: u8, number: u8 },
    End { chain: u8, step: u8, emitted: u8 },
    Heartbeat { chain: u8, step: u8 },
    Return { from: u8, id: u8, fails: bool },
    Code { from: u8, code: u8, here: bool },
    LinkLost(u8),
    Undelivered { which: u8, lost: bool },
    ServiceDone { ticket: u8, fails: bool, took_us: u64 },
    Turn { session: u8, calls: Vec<(u8, u8)>, emits: u8, ends: Option<bool> },
    Broken { session: u8 },
    Suspended { session: u8, fails: bool, code: bool },
    Resolved { service: u8, at: Option<u8> },
    CodeMissing(u8),
    CodeStored { code: u8, good: bool },
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
    let chain = ChainId { origin, number: u64::from(chain % 4) + 1 };
    StepKey { chain, branch: Branch::root(), step: edge(step) }
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

fn hop(chain: u8, step: u8, target: u8, emitted: u8, hops: u8) -> Box<Hop> {
    Box::new(Hop {
        key: key(false, chain, step),
        attempt: 0,
        budget: Budget::new(1_000_000 * u64::from(hops), u32::from(hops)),
        service: service(target),
        function: "f".into(),
        params: Value::null(),
        call: 0,
        code: code(chain),
        origin: (*place(1)).clone(),
        started_at_ms: 0,
        emitted: edge(emitted),
        heartbeat_in_us: 1_000,
        path: Vec::new(),
        trace: Some(Vec::new()),
        console: Vec::new(),
        continuation_bytes: 0,
        continuation: Bytes::new(),
        code_bytes: None,
    })
}

struct World {
    node: Node,
    now: Time,
    receipts: Vec<Receipt>,
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
            Operation::Run => drop(self.node.run(now, code(0), Value::null(), Budget::new(9_000_000, 9), true)),
            Operation::Forget(chain) => self.node.forget(key(true, chain, 0).chain),
            Operation::Call { service: s, time_us } => {
                let budget = Budget::new(u64::from(time_us), 1);
                self.node.call(now, &service(s), "f", Value::null(), budget);
            }
            Operation::Withdraw(call) => self.node.withdraw(CallId(u64::from(call % 16))),
            Operation::ServiceDone { ticket, fails, took_us } => {
                let ticket = newest(&self.tickets, ticket, Ticket(u64::from(ticket)));
                self.node.on_service_done(now, ticket, result(fails), took_us);
            }
            Operation::Turn { session, calls, emits, ends } => self.turn(session, &calls, emits, ends),
            Operation::Broken { session } => self.node.on_turn(now, self.session(session), Err(failure()), 1),
            Operation::Suspended { session, fails, code } => {
                let taken = (Bytes::from_static(b"state"), code.then(|| Bytes::from_static(b"code")));
                let taken = if fails { Err(failure()) } else { Ok(taken) };
                self.node.on_suspended(now, self.session(session), taken, 1);
            }
            Operation::Resolved { service: s, at } => {
                self.node.on_resolved(now, &service(s), at.map(place).ok_or_else(failure));
            }
            Operation::CodeMissing(which) => self.node.on_code_missing(now, code(which)),
            Operation::CodeStored { code: which, good } => {
                self.node.on_code_stored(now, code(which), result(!good).map(drop));
            }
            Operation::LinkLost(with) => self.node.on_link_lost(now, place(with).id),
            Operation::Undelivered { which, lost } => {
                if let Some(receipt) = self.receipts.iter().rev().nth(usize::from(which % 8)) {
                    let why = if lost { Undelivered::Lost } else { Undelivered::Unreachable };
                    self.node.on_undelivered(now, receipt.clone(), why);
                }
            }
            Operation::Tail { chain, step, came, code } => {
                let tail = (Bytes::from_static(b"state"), code.then(|| Bytes::from_static(b"code")));
                self.node.on_tail(now, &key(false, chain, step), came.then_some(tail));
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
            Operation::Hop { from, chain, step, service, emitted, hops, head_only } => {
                let hop = hop(chain, step, service, emitted, hops);
                if head_only {
                    self.node.on_hop_head(self.now, &place(from), hop);
                    return;
                }
                (from, Message::Hop(hop))
            }
            Operation::Accepted { from, own, chain, step } => (from, Message::Accepted(key(own, chain, step))),
            Operation::Refused { from, own, chain, step } => (from, Message::Refused(key(own, chain, step), failure())),
            Operation::Partial { chain, step, number } => {
                (1, Message::Partial { key: key(true, chain, step), number: edge(number), value: Value::null() })
            }
            Operation::End { chain, step, emitted } => {
                let (key, outcome) = (key(true, chain, step), Outcome::Done(Value::null()));
                let end =
                    End { key, outcome, emitted: edge(emitted), path: Vec::new(), trace: None, console: Vec::new() };
                (1, Message::End(Box::new(end)))
            }
            Operation::Heartbeat { chain, step } => (1, Message::Heartbeat(key(true, chain, step), "n1".into())),
            Operation::Return { from, id, fails } => {
                (from, Message::Return(newest(&self.asked, id, u64::from(id)), result(fails).into()))
            }
            Operation::Code { from, code: which, here: true } => (from, Message::Code(code(which), Bytes::new())),
            Operation::Code { from, code: which, here: false } => (from, Message::NoCode(code(which))),
            _ => return,
        };
        self.node.on_message(self.now, &place(from), message);
    }

    fn session(&self, which: u8) -> SessionId {
        newest(&self.sessions, which, SessionId(u64::from(which)))
    }

    fn turn(&mut self, session: u8, calls: &[(u8, u8)], emits: u8, ends: Option<bool>) {
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
            end: ends.map(result),
        };
        self.node.on_turn(self.now, self.session(session), Ok(turn), 1);
    }

    /// Takes the actions; there are not more of them than there is reason for.
    fn drain(&mut self, of: usize) {
        let mut count = 0;
        while let Some(action) = self.node.poll_action() {
            count += 1;
            assert!(count <= 64 * (of + 8), "{count} actions");
            match action {
                Action::Send { receipt, .. } => {
                    self.asked.extend(if let Receipt::Call(id) = receipt { Some(id) } else { None });
                    self.receipts.push(receipt);
                }
                Action::RunService { ticket, .. } => self.tickets.push(ticket),
                Action::Begin { session, .. } | Action::Resume { session, .. } => self.sessions.push(session),
                _ => {}
            }
        }
        let (chains, waiting, running) = self.node.load();
        assert!(chains <= 8 && waiting <= 16 && running <= 8, "{chains} {waiting} {running}");
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
        ..Policy::default()
    };
    let mut node = Node::new((*place(0)).clone(), policy, 0);
    node.serve("s0", ["f"]);
    node.serve("s1", ["f"]);
    let mut world = World {
        node,
        now: Time::from_us(0),
        receipts: Vec::new(),
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
