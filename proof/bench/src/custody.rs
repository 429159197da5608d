//! What custody, signs of life and the step cache cost at each hop, as a part of a hop over loopback: the state machines' own
//! time with them and without, the acceptance's way over a socket, and the hop's part of the signs of life.

use std::{sync::Arc, time::Instant};

use catena::{Policy, Value};
use catena_core::{Action, Answer, GuestCall, Instance, Node, Plan, SessionId, Time, Turn};
use catena_wire::{Budget, Hash, Kinds, Message, NodeId, NodeRef};

use crate::{Failure, lone::Lone, stats::Spread, summary::Summary};

const CODE: Hash = Hash([7; 32]);
/// A small JavaScript function's.
const CONTINUATION_BYTES: usize = 2_000;
const IN_A_BLOCK: usize = 2_000;

pub(crate) async fn measure(blocks: usize, hop_us: f64, summary: &mut Summary) -> Result<(), Failure> {
    let lone = Lone::start().await?;
    lone.message_us(hop_us).await?; // warm
    // A chain says that it lives once in so many hops.
    let beats = hop_us / Policy::default().heartbeat_interval_us as f64;
    let (mut costs, mut all, mut messages) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..blocks {
        let bare = block_us(bare(), false);
        let full = block_us(Policy::default(), true);
        let message = lone.message_us(hop_us).await?;
        costs.push((full - bare + message * (1.0 + beats)) / hop_us * 100.0);
        all.push(full);
        messages.push(message);
    }
    summary.at_most(
        "custody_cost_pct",
        "custody, heartbeats and step cache, % of a loopback hop",
        Spread::of(costs),
        10.0,
    );
    summary.plain("core_hop_us", "the state machines' time for a hop and its end, µs", Spread::of(all));
    summary.plain(
        "accepted_us",
        "an acceptance's way, with others of its kind: both ends' processor time, µs",
        Spread::of(messages),
    );
    Ok(())
}

/// Remembers nothing, and says nothing in between.
fn bare() -> Policy {
    Policy {
        step_cache_entries_max: 0,
        step_cache_bytes_max: 0,
        heartbeat_interval_us: u64::MAX / 4,
        heartbeat_timeout_us: u64::MAX / 4,
        accept_timeout_us: u64::MAX / 4,
        ..Policy::default()
    }
}

fn block_us(policy: Policy, accepts: bool) -> f64 {
    let mut pair = Pair::new(policy);
    // Until the step cache is as full as in a node that has been at work.
    (0..IN_A_BLOCK).for_each(|_| pair.chain(accepts));
    let began = Instant::now();
    (0..IN_A_BLOCK).for_each(|_| pair.chain(accepts));
    began.elapsed().as_secs_f64() * 1e6 / IN_A_BLOCK as f64
}

/// An origin and a server, with nothing between them.
struct Pair {
    origin: Node,
    server: Node,
    state: bytes::Bytes,
    now_us: u64,
}

impl Pair {
    fn new(policy: Policy) -> Self {
        let me = |id: u64| NodeRef { id: NodeId(id), name: format!("n{id}"), address: Some("a:1".into()), site: None };
        let (mut origin, mut server) = (Node::new(me(1), policy.clone(), 0), Node::new(me(2), policy, 0));
        server.serve("s", ["f"], Kinds::default());
        origin.learn("s", Instance { node: Arc::new(me(2)), proxy: None, kinds: Kinds::default() });
        Self { origin, server, state: vec![7; CONTINUATION_BYTES].into(), now_us: 1 }
    }

    /// One chain of one hop, from its beginning to its end.
    fn chain(&mut self, accepts: bool) {
        self.now_us += 1;
        let now = Time::from_us(self.now_us);
        // Cannot be refused: nothing else is under way.
        let _ = self.origin.run(now, CODE, Value::null(), Plan::new(Budget::new(60_000_000, 8)));
        let Some(session) = begun(&mut self.origin) else { return };
        let (service, function) = ("s".to_owned(), "f".to_owned());
        let call = GuestCall { call: 0, service, function, params: Value::null(), line: 0, column: 0 };
        self.origin.on_turn(now, session, Ok(Turn { calls: vec![call], ..Turn::default() }), 1);
        while self.origin.poll_action().is_some() {}
        self.origin.on_suspended(now, session, Ok((self.state.clone(), None)), 1);
        exchange(now, &mut self.origin, &mut self.server, true);
        exchange(now, &mut self.server, &mut self.origin, accepts);
        while self.origin.poll_action().is_some() {}
    }
}

fn begun(node: &mut Node) -> Option<SessionId> {
    let mut session = None;
    while let Some(action) = node.poll_action() {
        if let Action::Begin { session: begun, .. } = action {
            session = Some(begun);
        }
    }
    session
}

/// Does what `from` asks for, and delivers what it says.
fn exchange(now: Time, from: &mut Node, to: &mut Node, accepts: bool) {
    let me = from.me().clone();
    while let Some(action) = from.poll_action() {
        match action {
            Action::Send { message, .. } => match Message::decode(message) {
                Ok(Message::Accepted(_)) if !accepts => {}
                Ok(message) => to.on_message(now, &me, message),
                Err(_) => {}
            },
            Action::RunService { ticket, .. } => {
                from.on_service_done(now, ticket, Ok(Answer::Value(Value::null())), 1);
            }
            Action::Resume { session, .. } => {
                from.on_turn(now, session, Ok(Turn { end: Some(Ok(Value::null())), ..Turn::default() }), 1);
            }
            _ => {}
        }
    }
}
