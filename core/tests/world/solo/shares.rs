//! What one peer brings takes no room that others need: not in what runs here, nor in what is remembered.

use core::net::IpAddr;

use catena_core::{Action, GuestAsk, GuestSplit, Policy};
use catena_wire::{ChainId, Message, NodeId, Outcome, PossibleDuplicate, Right, Window, names};

use super::*;

/// Whoever does harm, and whoever comes to it.
const STRANGER: u64 = 7;

fn overloaded(actions: &[Action]) -> bool {
    sent(actions).iter().any(|(_, message, _)| match message {
        Message::Refused(_, why) | Message::Return(_, Outcome::Threw(why), _) => why.name == names::OVERLOADED,
        _ => false,
    })
}

fn of_stranger(number: u64) -> ChainId {
    ChainId { origin: NodeId(STRANGER), number: number.into() }
}

/// A hop of a chain of the stranger's own.
fn strange(number: u64, duplicate: Option<PossibleDuplicate>) -> Hop {
    Hop { key: key(of_stranger(number), 2), header: header(STRANGER), duplicate, ..*hop(number, 2) }
}

fn duplicate(chain: ChainId) -> PossibleDuplicate {
    PossibleDuplicate { since: key(chain, 1), way: 7 }
}

/// A node that does again what may have been done, and has room for so few tombstones and fences.
fn forgetful() -> Node {
    let mut node = node(Policy { stopped_chains_max: 8, ..Policy::default() });
    let kinds = Kinds { repeatable: vec!["again".into()], ..Kinds::default() };
    node.serve("here", ["f", "again"], kinds);
    node
}

fn why_refused(node: &mut Node, from: u64, hop: Box<Hop>) -> Option<Exception> {
    node.on_message(NOW, &node_ref(from), Message::Hop(hop));
    let refused = |(_, message, _)| if let Message::Refused(_, why) = message { Some(why) } else { None };
    sent(&actions(node)).into_iter().find_map(refused)
}

#[test]
pub(crate) fn a_strangers_cancellations_make_nobody_elses_forgotten() {
    let mut node = forgetful();
    // One by the origin, and one that has overtaken its hop.
    node.on_message(NOW, &node_ref(9), Message::Cancel(hop(1, 2).key.chain));
    node.on_message(NOW, &node_ref(2), Message::Cancel(hop(2, 2).key.chain));
    for number in 10..40 {
        node.on_message(NOW, &node_ref(STRANGER), Message::Cancel(of_stranger(number)));
        node.on_message(NOW, &node_ref(STRANGER), Message::Cancel(hop(number, 2).key.chain));
    }
    for number in [1, 2] {
        let why = why_refused(&mut node, 2, hop(number, 2)).expect("it runs although it was stopped");
        assert_eq!(why.name, names::CANCELLED, "{why:?}");
    }
}

#[test]
pub(crate) fn a_strangers_possible_duplicates_make_no_fence_of_others_forgotten() {
    let mut node = forgetful();
    let chain = hop(1, 2).key.chain;
    let possible = Hop { function: "again".into(), duplicate: Some(duplicate(chain)), ..*hop(1, 2) };
    assert_eq!(why_refused(&mut node, 2, Box::new(possible)), None);
    for number in 10..40 {
        let possible = strange(number, Some(duplicate(of_stranger(number))));
        let again = Hop { function: "again".into(), ..possible };
        assert_eq!(why_refused(&mut node, STRANGER, Box::new(again)), None);
    }
    let why = why_refused(&mut node, 3, hop(1, 3)).expect("the first way runs where the possible duplicate has been");
    assert!(why.name == names::NODE_LOST && why.unknown, "{why:?}");
}

#[test]
pub(crate) fn what_is_refused_fences_nobody() {
    let chain = hop(1, 3).key.chain;
    let (service, duplicate) = ("here".to_string(), Some(duplicate(chain)));
    let nobody = Message::Hop(Box::new(Hop { function: "nobody".into(), ..strange(5, duplicate.clone()) }));
    let call = |function: &str, age_us| Message::Call {
        id: 1,
        service: service.clone(),
        function: function.into(),
        params: Value::null(),
        budget: Budget::new(1_000_000, 1),
        key: Some(key(of_stranger(5), 2)),
        credentials: None,
        duplicate: duplicate.clone(),
        age_us,
    };
    // A function that nobody serves; one that is not declared repeatable; a call that may have been done and forgotten.
    for refused in [nobody, call("nobody", 0), call("f", 0), call("again", u64::MAX)] {
        let mut node = forgetful();
        node.on_message(NOW, &node_ref(STRANGER), refused.clone());
        assert!(ticket_of(&actions(&mut node)).is_none(), "{refused:?} is not refused");
        assert_eq!(why_refused(&mut node, 2, hop(1, 3)), None, "{refused:?}");
    }
    let mut node = forgetful();
    node.on_message(NOW, &node_ref(2), call("again", 0));
    assert!(ticket_of(&actions(&mut node)).is_some() && why_refused(&mut node, 2, hop(1, 3)).is_some());
}

/// The stranger's plain calls, each of which sleeps.
fn sleeping_calls(node: &mut Node, calls: u64) -> usize {
    let budget = Budget::new(1_000_000, 1);
    (0..calls).for_each(|id| node.on_message(NOW, &node_ref(STRANGER), plain_call(id, budget)));
    actions(node).iter().filter(|action| matches!(action, Action::RunService { .. })).count()
}

#[test]
pub(crate) fn one_peers_sleeping_calls_leave_room_for_others_and_for_this_node() {
    let mut node = node(Policy { services_running_max: 8, ..Policy::default() });
    assert_eq!(sleeping_calls(&mut node, 100), 4, "no more once it has as much as is left");
    node.on_message(NOW, &node_ref(2), Message::Hop(hop(1, 1)));
    assert!(ticket_of(&actions(&mut node)).is_some(), "another peer's hop");
    node.on_message(NOW, &node_ref(STRANGER), Message::Hop(Box::new(strange(5, None))));
    assert!(overloaded(&actions(&mut node)), "its hops take of the same share");
    node.on_message(NOW, &node_ref(3), plain_call(1, Budget::new(1_000_000, 1)));
    assert!(ticket_of(&actions(&mut node)).is_some(), "another peer's call");
    for _ in 0..2 {
        node.call(NOW, "here", "f", Value::null(), Budget::new(1_000_000, 1), None);
        assert!(ticket_of(&actions(&mut node)).is_some(), "this node's own, to the last place");
    }
    node.call(NOW, "here", "f", Value::null(), Budget::new(1_000_000, 1), None);
    assert!(ticket_of(&actions(&mut node)).is_none() && node.load().2 == 8);
    node.on_link_lost(NOW, NodeId(STRANGER), false);
    actions(&mut node);
    assert_eq!((sleeping_calls(&mut node, 100), node.load().2), (2, 6), "what it had is free again");
}

#[test]
pub(crate) fn numbers_of_one_address_have_one_share_and_none_takes_what_is_the_nodes_own() {
    let mut node = node(Policy { services_running_max: 64, ..Policy::default() });
    let [stranger, neighbour] = [1, 2].map(|last| IpAddr::from([10, 0, 0, last]));
    let runs = |node: &mut Node, from: u64, calls: u64| {
        (0..calls).for_each(|id| node.on_message(NOW, &node_ref(from), plain_call(id, Budget::new(1_000_000, 1))));
        actions(node).iter().filter(|action| matches!(action, Action::RunService { .. })).count()
    };
    let mut ran = 0;
    for number in 1_000..1_256 {
        node.on_linked(NodeId(number), Some(stranger));
        ran += runs(&mut node, number, 64);
    }
    assert_eq!(ran, 29, "half of what is not the node's own, under whatever numbers");
    node.on_linked(NodeId(2), Some(neighbour));
    assert_eq!(runs(&mut node, 2, 64), 14, "half of what is left");
    for number in 3_000..3_064 {
        runs(&mut node, number, 64);
    }
    assert_eq!(node.load().2, 56, "all that are not the node's own");
    node.call(NOW, "here", "f", Value::null(), Budget::new(1_000_000, 1), None);
    assert!(ticket_of(&actions(&mut node)).is_some(), "this node's own");
    // Once its links have gone, so has what they had.
    (1_000..1_256).for_each(|number| node.on_link_lost(NOW, NodeId(number), false));
    actions(&mut node);
    assert_eq!(runs(&mut node, 4_000, 64), 15);
}

/// A service may say of another that this very node has it, so that the stranger's hop comes from here.
#[test]
fn what_comes_by_way_of_this_node_itself_stays_the_strangers() {
    let mut node = node(Policy { services_running_max: 64, ..Policy::default() });
    let strangers = strange(1, None);
    let key = strangers.key.clone();
    node.on_hop_head(NOW, &node_ref(STRANGER), Box::new(strangers));
    actions(&mut node);
    let own = node_ref(1);
    for step in 3..64 {
        let again = Hop { key: StepKey { step, ..key.clone() }, ..strange(1, None) };
        node.on_message(NOW, &own, Message::Hop(Box::new(again)));
        actions(&mut node);
    }
    assert!(node.load().2 <= 29, "{} run", node.load().2);
}

/// The record is that of an address, and what was forgotten that of a node: which may be linked from elsewhere by then.
#[test]
fn what_was_forgotten_of_a_node_is_not_taken_for_new_when_it_comes_from_another_address() {
    let mut node = node(Policy { step_records_max: 8, ..Policy::default() });
    let [old, new] = [1, 2].map(|last| IpAddr::from([10, 0, 0, last]));
    node.on_linked(NodeId(STRANGER), Some(old));
    for number in 0..20 {
        let refused = Hop { function: "nobody".into(), ..strange(number, None) };
        assert!(why_refused(&mut node, STRANGER, Box::new(refused)).is_some());
    }
    node.on_link_lost(NOW, NodeId(STRANGER), false);
    node.on_linked(NodeId(STRANGER), Some(new));
    let again = Hop { age_us: 1, ..strange(0, None) };
    let why = why_refused(&mut node, STRANGER, Box::new(again)).expect("it runs although it may have been done");
    assert!(why.name == names::NODE_LOST && why.unknown, "{why:?}");
    let again = Hop { age_us: 1, ..*hop(1, 2) };
    assert_eq!(why_refused(&mut node, 2, Box::new(again)), None, "of another nothing was forgotten");
}

#[test]
fn calls_that_a_peers_chains_make_take_of_its_share() {
    let mut node = node(Policy { services_running_max: 8, calls_waiting_max: 8, ..Policy::default() });
    let session = arrived(&mut node, Box::new(Hop { budget: Budget::new(10_000_000, 100), ..*hop(1, 1) }));
    let all = |service: &str, first: u32| (first..first + 20).map(|id| call(id, service)).collect::<Vec<_>>();
    node.on_turn(NOW, session, calling([all("here", 0), all("there", 20), all("elsewhere", 40)].concat()), 1);
    let done = actions(&mut node);
    let ran = done.iter().filter(|action| matches!(action, Action::RunService { .. })).count();
    let asked = sent(&done).iter().filter(|(_, message, _)| matches!(message, Message::Call { .. })).count();
    assert_eq!((ran, asked), (4, 4));
    node.call(NOW, "elsewhere", "f", Value::null(), Budget::new(1_000_000, 1), None);
    node.call(NOW, "there", "f", Value::null(), Budget::new(1_000_000, 1), None);
    node.call(NOW, "here", "f", Value::null(), Budget::new(1_000_000, 1), None);
    let refused = |action: &Action| matches!(action, Action::CallDone(..));
    assert!(!actions(&mut node).iter().any(refused), "there is room for others");
}

#[test]
fn rights_to_reply_that_one_peer_has_handed_over_leave_room_for_others() {
    let mut node = node(Policy { rights_max: 8, ..Policy::default() });
    let ask = |from: u64, number: u128| {
        let call = ChainId { origin: NodeId(from), number };
        let right = Right::root(call, (*node_ref(from)).clone(), Window { replies: 8, bytes: 4_096 });
        let (service, function) = ("here".to_string(), "f".to_string());
        let (params, budget, right) = (Value::null(), Budget::new(10_000_000, 10), Box::new(right));
        let id = u64::try_from(number).unwrap();
        Message::Ask { id, service, function, params, budget, credentials: None, right }
    };
    for number in 0..100 {
        node.on_message(NOW, &node_ref(STRANGER), ask(STRANGER, number));
    }
    assert!(overloaded(&actions(&mut node)) && node.rights() == 4);
    node.on_message(NOW, &node_ref(2), ask(2, 1));
    assert!(ticket_of(&actions(&mut node)).is_some());
}

#[test]
fn chains_with_which_a_peers_calls_are_answered_take_of_its_share() {
    for policy in
        [Policy { activations_max: 8, ..Policy::default() }, Policy { chains_started_max: 8, ..Policy::default() }]
    {
        let mut node = node(policy);
        let mut begun = 0;
        for id in 0..20 {
            node.on_message(NOW, &node_ref(STRANGER), plain_call(id, Budget::new(10_000_000, 10)));
            let ticket = ticket_of(&actions(&mut node)).unwrap();
            let sub = SubChain { number: number(), code: CODE, input: Value::null(), catch: None, hears: false };
            node.on_service_done(NOW, ticket, Ok(Answer::Chain(sub)), 1);
            begun += actions(&mut node).iter().filter(|action| matches!(action, Action::Begin { .. })).count();
        }
        assert_eq!(begun, 4);
        self::begun(&mut node);
    }
}

#[test]
fn branches_of_a_peers_chain_take_of_its_share() {
    let refused = |node: &mut Node, session, count| {
        let split = GuestSplit { call: 4, count, at: None, line: 7, column: 1 };
        node.on_turn(NOW, session, Ok(Turn { splits: vec![split], ..Turn::default() }), 1);
        let why = |action| if let Action::Settle { result: Err(why), .. } = action { Some(why.name) } else { None };
        actions(node).into_iter().find_map(why).is_some_and(|why| why == names::OVERLOADED)
    };
    for (count, is_refused) in [(3, false), (4, true)] {
        let mut node = node(Policy { activations_max: 8, ..Policy::default() });
        let session = arrived(&mut node, hop(1, 1));
        assert_eq!(refused(&mut node, session, count), is_refused, "{count}");
        let (_, own) = begun(&mut node);
        assert!(!refused(&mut node, own, 5), "this node's own");
    }
}

#[test]
fn functions_that_one_peers_chains_lack_leave_others_room_to_fetch_theirs() {
    let mut node = node(Policy { codes_fetching_max: 8, ..Policy::default() });
    let wanted = |node: &mut Node| {
        let others = without_code(node);
        sent(&others).iter().filter(|(_, message, _)| matches!(message, Message::WantCode(_))).count()
    };
    for number in 1..=20 {
        let lacks = Hop { code: Hash([number; 32]), ..strange(number.into(), None) };
        node.on_message(NOW, &node_ref(STRANGER), Message::Hop(Box::new(lacks)));
    }
    assert_eq!(wanted(&mut node), 4);
    node.on_message(NOW, &node_ref(2), Message::Hop(hop(1, 1)));
    assert_eq!(wanted(&mut node), 1);
}

#[test]
fn calls_with_many_answers_that_a_peers_chain_makes_take_of_its_share() {
    let mut node = node(Policy { chains_started_max: 8, ..Policy::default() });
    let session = arrived(&mut node, Box::new(Hop { budget: Budget::new(10_000_000, 1_000), ..*hop(1, 1) }));
    let asks = (0..20).map(|id| GuestAsk { number: number(), call: call(id, "there") }).collect();
    node.on_turn(NOW, session, Ok(Turn { asks, ..Turn::default() }), 1);
    let asked =
        sent(&actions(&mut node)).iter().filter(|(_, message, _)| matches!(message, Message::Ask { .. })).count();
    assert_eq!(asked, 4);
    assert!(node.ask(NOW, number(), "there", "f", Value::null(), Budget::new(1_000_000, 1), None).is_ok());
}

/// Its service functions run here, and hold what they were called with.
#[test]
fn parameters_of_one_peers_running_calls_leave_room_for_those_of_others() {
    const BYTES: usize = 10_000;
    let mut first = node(Policy { held_bytes_max: 10 * BYTES, ..Policy::default() });
    let mut runs = |from: u64| {
        for id in 0..9 {
            let Message::Call { service, function, budget, key, credentials, duplicate, age_us, .. } =
                plain_call(id, Budget::new(1_000_000, 1))
            else {
                panic!("a call")
            };
            let params = Value::encode(&"x".repeat(BYTES));
            let call = Message::Call { id, service, function, params, budget, key, credentials, duplicate, age_us };
            first.on_message(NOW, &node_ref(from), call);
        }
        actions(&mut first).iter().filter(|action| matches!(action, Action::RunService { .. })).count()
    };
    assert_eq!((runs(STRANGER), runs(3)), (5, 2), "no more than is left");
    // The same of calls that a chain makes where it is.
    let mut node = node(Policy { held_bytes_max: 10 * BYTES, ..Policy::default() });
    let session = arrived(&mut node, hop(1, 1));
    let params = Value::encode(&"x".repeat(BYTES));
    let calls = (0..9).map(|id| GuestCall { params: params.clone(), ..call(id, "here") }).collect();
    node.on_turn(NOW, session, calling(calls), 1);
    assert_eq!(actions(&mut node).iter().filter(|action| matches!(action, Action::RunService { .. })).count(), 5);
}

/// The chains stay here, and wait for node 2.
#[test]
pub(crate) fn parameters_of_one_peers_waiting_calls_leave_room_for_those_of_others() {
    const BYTES: usize = 10_000;
    let mut node = node(Policy { held_bytes_max: 10 * BYTES, ..Policy::default() });
    let mut asked = |from: u64, hop: Hop, calls: u32| {
        node.on_message(NOW, &node_ref(from), Message::Hop(Box::new(hop)));
        let ticket = ticket_of(&actions(&mut node)).unwrap();
        node.on_service_done(NOW, ticket, value(), 1);
        let Some(Action::Resume { session, .. }) = actions(&mut node).pop() else { panic!("it goes on") };
        let params = Value::encode(&"x".repeat(BYTES));
        let calls = (0..calls).map(|id| GuestCall { params: params.clone(), ..call(id, "there") }).collect();
        node.on_turn(NOW, session, calling(calls), 1);
        sent(&actions(&mut node)).iter().filter(|(_, message, _)| matches!(message, Message::Call { .. })).count()
    };
    assert_eq!(asked(STRANGER, strange(1, None), 9), 5, "no more once it has as much as is left");
    assert_eq!(asked(3, *hop(1, 2), 2), 2, "another peer's");
}

/// The stranger's origin acknowledges none of them.
#[test]
fn answers_of_a_strangers_chain_leave_others_room_to_be_sent_again() {
    let mut node = node(Policy { outgoing_max: 64, outgoing_bytes_max: 8_000, ..Policy::default() });
    let mut emits = |from: u64, hop: Hop, answers: usize| {
        node.on_message(NOW, &node_ref(from), Message::Hop(Box::new(hop)));
        let ticket = ticket_of(&actions(&mut node)).unwrap();
        node.on_service_done(NOW, ticket, value(), 1);
        let Some(Action::Resume { session, .. }) = actions(&mut node).pop() else { panic!("it goes on") };
        let emits = vec![Value::encode(&"x".repeat(500)); answers];
        node.on_turn(NOW, session, Ok(Turn { emits, calls: vec![call(0, "here")], ..Turn::default() }), 1);
        actions(&mut node);
    };
    emits(STRANGER, strange(1, None), 100);
    emits(2, *hop(1, 2), 3);
    node.on_timeout(NOW.after(Policy::default().accept_timeout_us));
    let again =
        sent(&actions(&mut node)).into_iter().filter(|(_, message, _)| matches!(message, Message::Partial { .. }));
    let (strangers, others): (Vec<_>, Vec<_>) = again.partition(|(to, ..)| *to == NodeId(STRANGER));
    assert!((2..=7).contains(&strangers.len()), "{}", strangers.len());
    assert_eq!(others.len(), 3);
}
