//! Services that listen to the sub-chains with which they answered.

use catena_core::{Action, Policy};
use catena_wire::{Hop, Message, Part};

use super::*;

/// A service of the node answers a call of this chain with a sub-chain to which it listens.
fn begin(node: &mut Node, at: Time, number: u64) {
    let budget = Budget::new(100_000_000, 10);
    node.on_message(at, &node_ref(2), Message::Hop(Box::new(Hop { budget, ..*hop(number, 1) })));
    let ticket = ticket_of(&actions(node)).unwrap();
    node.on_service_done(at, ticket, Ok(Answer::Chain(heard_sub_chain())), 1);
    actions(node);
}

fn heard_sub_chain() -> SubChain {
    SubChain { number: 77, code: CODE, input: Value::null(), catch: None, hears: true }
}

/// Whether the service hears the sub-chain's first answer.
fn hears(node: &mut Node, at: Time, number: u64) -> bool {
    let key = hop(number, 1).key;
    node.on_message(at, &node_ref(3), Message::Partial { key, number: 0, value: Value::null(), to: 1 });
    actions(node).iter().any(|action| matches!(action, Action::Heard(..)))
}

#[test]
pub(crate) fn who_listens_to_what_has_ended_takes_no_room_from_who_listens_yet() {
    // One begins every three seconds, and ends at once: with the one that goes on, there is never more than fits.
    let mut node = node(Policy { listeners_max: 4, ..Policy::default() });
    begin(&mut node, NOW, 1);
    let mut at = NOW;
    for number in 2..12 {
        for _ in 0..3 {
            at = at.after(1_000_000);
            node.on_timeout(at);
        }
        begin(&mut node, at, number);
        assert!(hears(&mut node, at, number));
        node.on_message(at, &node_ref(3), Message::SubChainEnded(hop(number, 1).key));
    }
    assert!(hears(&mut node, at, 1), "it was forgotten for those that are over");
}

#[test]
fn nobody_listens_to_a_sub_chain_that_does_not_begin_or_is_over() {
    let key = hop(1, 1).key;
    let ended = |actions: &[Action]| actions.contains(&Action::HeardEnd(hop(1, 1).key));
    // It joins the calling chain, or it may not.
    for (stack_depth_max, begins) in [(16, true), (0, false)] {
        let mut node = node(Policy { stack_depth_max, ..Policy::default() });
        node.on_message(NOW, &node_ref(2), Message::Hop(hop(1, 1)));
        let ticket = ticket_of(&actions(&mut node)).unwrap();
        node.on_service_done(NOW, ticket, Ok(Answer::Chain(heard_sub_chain())), 1);
        assert_eq!((node.hears(&key), ended(&actions(&mut node))), (begins, !begins));
    }
    // It runs on its own, or finds no room.
    for (chains_started_max, begins) in [(8, true), (0, false)] {
        let mut node = node(Policy { compose: false, chains_started_max, ..Policy::default() });
        node.on_message(NOW, &node_ref(2), Message::Hop(hop(1, 1)));
        let ticket = ticket_of(&actions(&mut node)).unwrap();
        node.on_service_done(NOW, ticket, Ok(Answer::Chain(heard_sub_chain())), 1);
        let said = actions(&mut node);
        assert_eq!((node.hears(&key), ended(&said)), (begins, !begins), "{said:?}");
        if let Some(Action::Begin { session, .. }) =
            said.into_iter().find(|action| matches!(action, Action::Begin { .. }))
        {
            node.on_turn(NOW, session, Ok(Turn { end: Some(Ok(Value::null())), ..Turn::default() }), 1);
            assert!(ended(&actions(&mut node)) && !node.hears(&key));
        }
    }
}

/// The call that it answers was made before another, which was answered first.
#[test]
fn a_sub_chain_is_heard_at_the_step_that_it_answers() {
    let mut node = node(Policy::default());
    node.serve("here", ["f"], Kinds { chaining: ["f".to_string()].into(), ..Kinds::default() });
    let session = arrived(&mut node, hop(1, 1));
    node.on_turn(NOW, session, calling(vec![call(0, "here"), call(1, "here")]), 1);
    let tickets: Vec<_> = actions(&mut node).into_iter().filter_map(|action| ticket_of(&[action])).collect();
    let [first, second] = tickets[..] else { panic!("{tickets:?}") };
    node.on_service_done(NOW, second, value(), 1);
    actions(&mut node);
    node.on_turn(NOW, session, Ok(Turn::default()), 1);
    node.on_service_done(NOW, first, Ok(Answer::Chain(heard_sub_chain())), 1);
    let key = StepKey { step: 2, ..hop(1, 1).key };
    assert!(node.hears(&key));
    node.on_suspended(NOW, session, Ok((Bytes::new(), None)), 1);
    let Some(Action::Begin { session, .. }) = actions(&mut node).pop() else { panic!("it begins") };
    node.on_turn(NOW, session, Ok(Turn { emits: vec![Value::null()], ..Turn::default() }), 1);
    let heard = actions(&mut node).into_iter().find_map(|action| match action {
        Action::Heard(at, _) => Some(at),
        _ => None,
    });
    assert_eq!(heard, Some(key));
}

#[test]
fn nobody_listens_to_a_sub_chain_whose_caller_is_gone() {
    let mut node = node(Policy::default());
    let key = hop(1, 3).key;
    let Message::Call { service, function, params, budget, .. } = plain_call(1, Budget::new(1_000_000, 5)) else {
        panic!()
    };
    let credentials = None;
    let call = Message::Call {
        id: 1,
        service,
        function,
        params,
        budget,
        key: Some(key.clone()),
        credentials,
        duplicate: None,
        age_us: 0,
    };
    node.on_message(NOW, &node_ref(2), call);
    let ticket = ticket_of(&actions(&mut node)).unwrap();
    node.on_service_done(NOW, ticket, Ok(Answer::Chain(heard_sub_chain())), 1);
    assert!(node.hears(&key), "it runs on its own");
    node.on_message(NOW, &node_ref(2), Message::Cancel(key.chain));
    assert!(actions(&mut node).contains(&Action::HeardEnd(key.clone())) && !node.hears(&key));
    // One that has joined.
    node.on_message(NOW, &node_ref(2), Message::Hop(hop(2, 1)));
    let (ticket, key) = (ticket_of(&actions(&mut node)).unwrap(), hop(2, 1).key);
    node.leave_service(NOW, "here", None);
    node.on_service_done(NOW, ticket, Ok(Answer::Chain(heard_sub_chain())), 1);
    node.on_message(NOW, &node_ref(2), Message::Cancel(key.chain));
    assert!(node.hears(&key), "its answers may be on their way: it may have ended");
    (1..=7).for_each(|second| node.on_timeout(NOW.after(second * 1_000_000)));
    assert!(!node.hears(&key));
}

/// The chain around a sub-chain goes on at the step at which that has ended, and counts its own answers.
#[test]
fn answers_of_one_number_and_step_are_kept_apart_if_one_is_a_sub_chains() {
    let mut node = node(Policy::default());
    let session = arrived(&mut node, Box::new(Hop { stack: vec![heard(5)], ..*hop(1, 2) }));
    let last = Turn { emits: vec![Value::null(); 5], end: Some(Ok(Value::null())), ..Turn::default() };
    node.on_turn(NOW, session, Ok(last), 1);
    let resumed = actions(&mut node).into_iter().find_map(|action| match action {
        Action::Resume { session, .. } | Action::CheckCode { session, .. } => Some(session),
        _ => None,
    });
    node.on_turn(NOW, resumed.unwrap(), Ok(Turn { emits: vec![Value::null()], ..Turn::default() }), 1);
    actions(&mut node);
    let again = |node: &mut Node, times| {
        node.on_timeout(NOW.after(times * Policy::default().accept_timeout_us));
        let fourth = sent(&actions(node)).into_iter().filter_map(|(to, message, _)| match message {
            Message::Partial { number: 4, .. } => Some(to.0),
            _ => None,
        });
        fourth.collect::<Vec<_>>()
    };
    assert_eq!(again(&mut node, 1), [5, 9], "the creator's, and the origin's");
    node.on_message(NOW, &node_ref(5), Message::Received(hop(1, 2).key, Part::ToCreator { number: 4, to: 1 }));
    assert_eq!(again(&mut node, 2), [9]);
}
