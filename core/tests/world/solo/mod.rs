//! One node, driven by hand: what it makes of messages and news that no honest world produces, or only once in a million runs.

pub(crate) mod basics;
mod detached;
pub(crate) mod duplicates;
pub(crate) mod elsewhere;
pub(crate) mod forged;
pub(crate) mod listening;
mod oversize;
mod passing;
mod recording;
mod rights;
pub(crate) mod room;
pub(crate) mod shares;
pub(crate) mod splits;
pub(crate) mod steps;
pub(crate) mod strays;
pub(crate) mod uncertainty;
pub(crate) mod waits;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use catena_core::{
    Action, Answer, GuestCall, Instance, LookupId, Node, Plan, Policy, Receipt, SessionId, SubChain, Tail, Ticket,
    Time, Turn,
};
use catena_wire::{
    Branch, Brought, Budget, ChainHeader, ChainId, End, Exception, Hash, Hop, Kinds, Message, Mode, NodeId, NodeRef,
    Outcome, StepKey, StepLimits, Value,
};

const NOW: Time = Time::from_us(1_000_000);
const CODE: Hash = Hash([7; 32]);

/// The number of the next chain that begins here.
fn number() -> u128 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed).into()
}

fn node_ref(id: u64) -> Arc<NodeRef> {
    Arc::new(NodeRef { id: NodeId(id), name: format!("n{id}"), address: None, site: None })
}

fn instance(id: u64) -> Instance {
    Instance { node: node_ref(id), proxy: None, kinds: Kinds::default() }
}

fn value() -> Result<Answer, Exception> {
    Ok(Answer::Value(Value::null()))
}

fn tail() -> Tail {
    Tail { continuation: Bytes::from_static(b"state"), stacked: Vec::new(), code_bytes: None }
}

/// A call that is no chain's.
fn plain_call(id: u64, budget: Budget) -> Message {
    let (service, function) = ("here".to_string(), "f".to_string());
    Message::Call {
        id,
        service,
        function,
        params: Value::null(),
        budget,
        key: None,
        credentials: None,
        duplicate: None,
        age_us: 0,
    }
}

fn header(origin: u64) -> ChainHeader {
    ChainHeader {
        origin: node_ref(origin),
        started_at_ms: 0,
        mode: Mode::Chain,
        compose: true,
        entry: None,
        credentials: None,
    }
}

/// The end of a chain, or of the branch that answers to the split `at`.
fn end(key: StepKey, at: Option<StepKey>) -> End {
    End {
        key,
        outcome: Outcome::Done(Value::null()),
        emitted: 0,
        path: vec!["n2".into()],
        trace: None,
        console: Vec::new(),
        at,
        hops_left: 0,
        merged: Vec::new(),
        cut: false,
        recording: None,
    }
}

fn node(policy: Policy) -> Node {
    #[cfg(feature = "seeded-bugs")]
    let policy = crate::bugs::seeded(policy);
    let mut node = Node::new((*node_ref(1)).clone(), policy, 0);
    node.serve("here", ["f"], Kinds::default());
    node.learn("there", instance(2));
    node
}

fn actions(node: &mut Node) -> Vec<Action> {
    std::iter::from_fn(|| node.poll_action()).collect()
}

/// What else is asked of a shell that has no functions.
fn without_code(node: &mut Node) -> Vec<Action> {
    let mut others = Vec::new();
    while let Some(action) = node.poll_action() {
        match action {
            Action::CheckCode { session, code, .. } => node.on_code_missing(NOW, session, code),
            Action::Resume { .. } | Action::Branch { .. } => node.on_code_absent(NOW, action),
            other => others.push(other),
        }
    }
    others
}

fn sent(actions: &[Action]) -> Vec<(NodeId, Message, Receipt)> {
    let sends = actions.iter().filter_map(|action| match action {
        Action::Send { to, message, receipt, .. } => Some((to.id, message, receipt)),
        _ => None,
    });
    sends.map(|(to, message, receipt)| (to, Message::decode(message.clone()).unwrap(), receipt.clone())).collect()
}

fn call(call: u32, service: &str) -> GuestCall {
    let (service, function) = (service.to_string(), "f".to_string());
    GuestCall { call, service, function, params: Value::null(), line: 0, column: 0 }
}

fn calling(calls: Vec<GuestCall>) -> Result<Turn, Exception> {
    Ok(Turn { calls, ..Turn::default() })
}

fn begun(node: &mut Node) -> (ChainId, SessionId) {
    let chain = node.run(NOW, number(), CODE, Value::null(), Plan::new(Budget::new(60_000_000, 100))).unwrap();
    let Some(Action::Begin { session, .. }) = actions(node).pop() else { panic!("a chain begins") };
    (chain, session)
}

/// A chain whose first hop, to node 2, is being handed off.
fn handing_off(node: &mut Node) -> (ChainId, SessionId, Receipt) {
    let (chain, session) = begun(node);
    node.on_turn(NOW, session, calling(vec![call(0, "there")]), 1);
    node.on_suspended(NOW, session, Ok((Bytes::from_static(b"state"), None)), 1);
    let (.., receipt) = sent(&actions(node)).pop().unwrap();
    (chain, session, receipt)
}

fn key(chain: ChainId, step: u32) -> StepKey {
    StepKey { chain, branch: Branch::root(), step }
}

/// The frame of a chain around one that began at step 1, to which the service at that node listens. The former has emitted 4 answers.
fn heard(creator: u64) -> catena_wire::Frame {
    catena_wire::Frame {
        code: CODE,
        call: 0,
        step: 1,
        emitted: 4,
        creator: (*node_ref(creator)).clone(),
        service: "s".into(),
        catch: None,
        hears: true,
        limits: StepLimits::UNCHANGED,
        continuation_bytes: 0,
        uncertain: false,
        continuation: Bytes::new(),
    }
}

fn hop(number: u64, step: u32) -> Box<Hop> {
    Box::new(Hop {
        key: key(ChainId { origin: NodeId(9), number: u128::from(number) }, step),
        age_us: 0,
        budget: Budget::new(10_000_000, 10),
        service: "here".into(),
        function: "f".into(),
        params: Value::null(),
        call: 0,
        code: CODE,
        header: header(9),
        stack: Vec::new(),
        emitted: 0,
        heartbeat_in_us: 1_000_000,
        path: vec!["n9".into()],
        trace: None,
        console: Vec::new(),
        continuation_bytes: 5,
        splits: 0,
        merge: None,
        branches: 0,
        merged: Vec::new(),
        console_told: 0,
        limits: StepLimits::UNCHANGED,
        uncertain: false,
        duplicate: None,
        recording: None,
        unreached: None,
        continuation: Bytes::from_static(b"state"),
        code_bytes: None,
    })
}

fn resumed(actions: &[Action]) -> bool {
    actions.iter().any(|action| matches!(action, Action::Resume { .. }))
}

/// What a function is told whose call failed.
fn exception(actions: &[Action]) -> Exception {
    let ended = actions.iter().find_map(|action| match action {
        Action::Settle { result: Err(why), .. } | Action::Resume { result: Err(why), .. } => Some(why.clone()),
        _ => None,
    });
    ended.unwrap_or_else(|| panic!("no exception: {actions:?}"))
}

/// A hop arrives. Runs its service function; the chain is live here then.
fn arrived(node: &mut Node, hop: Box<Hop>) -> SessionId {
    node.on_message(NOW, &node_ref(2), Message::Hop(hop));
    let ticket = ticket_of(&actions(node)).unwrap();
    node.on_service_done(NOW, ticket, value(), 1);
    let Some(Action::Resume { session, .. }) = actions(node).pop() else { panic!("it goes on") };
    session
}

fn ticket_of(actions: &[Action]) -> Option<Ticket> {
    actions.iter().find_map(|action| if let Action::RunService { ticket, .. } = action { Some(*ticket) } else { None })
}
