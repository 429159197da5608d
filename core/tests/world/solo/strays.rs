//! What is over does not go on: not at a node where it was given up, which may have it, nor at one that did not hear the first time.

use catena_core::{Action, GuestSplit, Undelivered};
use catena_wire::{Fault, Listener, Merge, Part, names};

use super::*;

/// Node 2 was sent the hop as often as it may be, and does not say that it has it: the function is told so.
fn lost(node: &mut Node, mut receipt: Receipt) {
    loop {
        node.on_undelivered(NOW, receipt, Undelivered::Lost);
        let actions = actions(node);
        match sent(&actions).pop() {
            Some((NodeId(2), Message::Hop(_), again)) => receipt = again,
            _ => return assert!(resumed(&actions), "{actions:?}"),
        }
    }
}

fn throws() -> Result<Turn, Exception> {
    let why = Exception::new(names::NODE_LOST, Fault::Network, "").outcome_unknown();
    Ok(Turn { end: Some(Err(why)), ..Turn::default() })
}

/// Nodes that are told to stop it.
fn stopped(node: &mut Node, chain: ChainId) -> Vec<NodeId> {
    let cancels = sent(&actions(node)).into_iter().filter(|(_, message, _)| *message == Message::Cancel(chain));
    cancels.map(|(to, ..)| to).collect()
}

#[test]
pub(crate) fn a_chain_that_is_over_is_stopped_where_it_was_given_up() {
    for end in [throws(), Ok(Turn { end: Some(Ok(Value::null())), ..Turn::default() })] {
        let mut node = node(Policy::default());
        let (chain, session, receipt) = handing_off(&mut node);
        lost(&mut node, receipt);
        node.on_turn(NOW, session, end, 1);
        assert_eq!(stopped(&mut node, chain), [NodeId(2)]);
        // That word did not get there, and the hop was still in the node's socket when it woke.
        node.on_message(NOW, &node_ref(2), Message::Accepted(key(chain, 1)));
        assert_eq!(stopped(&mut node, chain), [NodeId(2)]);
    }
}

#[test]
fn it_is_not_stopped_before_it_is_over() {
    let mut node = node(Policy::default());
    let (chain, session, receipt) = handing_off(&mut node);
    lost(&mut node, receipt);
    node.learn("elsewhere", instance(3));
    node.on_turn(NOW, session, calling(vec![call(1, "elsewhere")]), 1);
    node.on_message(NOW, &node_ref(2), Message::Accepted(key(chain, 1)));
    assert_eq!(stopped(&mut node, chain), [], "its first way may do what no other may");
    node.cancel(NOW, chain);
    assert!(stopped(&mut node, chain).contains(&NodeId(2)));
}

#[test]
fn whoever_gave_it_up_elsewhere_stops_it_when_it_hears_that_it_is_over() {
    let mut node = node(Policy::default());
    let session = arrived(&mut node, hop(1, 1));
    let chain = hop(1, 1).key.chain;
    node.learn("there", instance(3));
    node.on_turn(NOW, session, calling(vec![call(0, "there"), call(1, "there")]), 1);
    let receipts: Vec<_> = sent(&actions(&mut node)).into_iter().map(|(.., receipt)| receipt).collect();
    for receipt in receipts {
        (0..3).for_each(|_| node.on_undelivered(NOW, receipt.clone(), Undelivered::Lost));
    }
    actions(&mut node);
    node.on_turn(NOW, session, throws(), 1);
    assert_eq!(stopped(&mut node, chain), [], "its origin has not heard of the end yet");
    node.on_message(NOW, &node_ref(2), Message::Over(vec![chain]));
    assert_eq!(stopped(&mut node, chain), [NodeId(3)]);
}

#[test]
fn nor_does_it_go_on_where_it_was_given_up_by_itself() {
    let mut node = node(Policy::default());
    let session = arrived(&mut node, hop(1, 1));
    let chain = hop(1, 1).key.chain;
    node.learn("there", instance(3));
    node.on_turn(NOW, session, calling(vec![call(0, "there"), call(1, "here")]), 1);
    let receipt = sent(&actions(&mut node)).pop().unwrap().2;
    (0..3).for_each(|_| node.on_undelivered(NOW, receipt.clone(), Undelivered::Lost));
    // The function catches it and goes on, while the way by node 3 has ended the chain.
    actions(&mut node);
    node.on_message(NOW, &node_ref(2), Message::Over(vec![chain]));
    assert_eq!((stopped(&mut node, chain), node.load().0), (vec![NodeId(3)], 0));
}

#[test]
fn a_call_with_many_answers_is_stopped_until_its_node_has_heard() {
    let mut node = node(Policy::default());
    let pause_us = Policy::default().accept_timeout_us;
    let call = node.ask(NOW, number(), "there", "f", Value::null(), Budget::new(60_000_000, 10), None).unwrap();
    actions(&mut node);
    node.forget(NOW, call);
    assert_eq!(stopped(&mut node, call), [NodeId(2)]);
    node.on_timeout(NOW.after(pause_us));
    assert_eq!(stopped(&mut node, call), [NodeId(2)], "once more");
    let heard = Message::Received(StepKey::first(call), Part::Cancel(NodeId(2)));
    node.on_message(NOW, &node_ref(3), heard.clone());
    node.on_timeout(NOW.after(2 * pause_us));
    assert_eq!(stopped(&mut node, call), [NodeId(2)], "another node cannot say so");
    node.on_message(NOW, &node_ref(2), heard);
    node.on_timeout(NOW.after(10 * pause_us));
    assert_eq!(stopped(&mut node, call), []);
}

#[test]
fn calls_beside_each_other_are_stopped_by_one_word_to_their_node() {
    let mut node = node(Policy::default());
    let session = arrived(&mut node, hop(1, 1));
    let chain = hop(1, 1).key.chain;
    node.learn("there", instance(3));
    node.on_turn(NOW, session, calling((0..8).map(|number| call(number, "there")).collect()), 1);
    actions(&mut node);
    node.on_message(NOW, &node_ref(2), Message::Cancel(chain));
    assert_eq!(stopped(&mut node, chain), [NodeId(3)]);
}

#[test]
fn a_node_that_is_gone_is_told_more_and_more_seldom_and_not_for_ever() {
    let mut node = node(Policy::default());
    let call = node.ask(NOW, number(), "there", "f", Value::null(), Budget::new(60_000_000, 10), None).unwrap();
    actions(&mut node);
    node.forget(NOW, call);
    let mut told = Vec::new();
    for second in 0..900 {
        let now = NOW.after(second * 1_000_000);
        node.on_timeout(now);
        for (_, message, receipt) in sent(&actions(&mut node)) {
            node.on_undelivered(now, receipt, Undelivered::Unreachable);
            told.extend((message == Message::Cancel(call)).then_some(second));
        }
    }
    // As long as a chain may last: it may be asleep, and go on when it wakes.
    assert!((20..=30).contains(&told.len()) && (540..601).contains(told.last().unwrap()), "{told:?}");
}

/// It slept, and goes on with what it was doing.
#[test]
fn a_node_that_is_linked_again_is_told_soon() {
    let mut node = node(Policy::default());
    let call = node.ask(NOW, number(), "there", "f", Value::null(), Budget::new(60_000_000, 10), None).unwrap();
    actions(&mut node);
    node.forget(NOW, call);
    let mut now = NOW;
    let mut told = |node: &mut Node, for_s: u64| {
        let until = now.after(for_s * 1_000_000);
        let mut times = 0;
        while now < until {
            now = now.after(500_000);
            node.on_timeout(now);
            times += stopped(node, call).len();
        }
        times
    };
    assert!(told(&mut node, 300) > 10);
    while told(&mut node, 1) == 0 {}
    assert_eq!(told(&mut node, 10), 0, "its turn comes after a long pause");
    node.on_linked(NodeId(2), None);
    assert_eq!(told(&mut node, 1), 1);
}

#[test]
fn of_cancellations_beyond_half_of_the_room_the_oldest_is_given_up() {
    let mut node = node(Policy { outgoing_max: 4, ..Policy::default() });
    let calls = [(); 3].map(|()| {
        let call = node.ask(NOW, number(), "there", "f", Value::null(), Budget::new(60_000_000, 10), None).unwrap();
        node.forget(NOW, call);
        call
    });
    actions(&mut node);
    node.on_timeout(NOW.after(Policy::default().accept_timeout_us));
    let again = actions(&mut node);
    let told = |call: &ChainId| sent(&again).iter().any(|(_, message, _)| *message == Message::Cancel(*call));
    assert_eq!(calls.map(|call| told(&call)), [false, true, true]);
}

#[test]
fn a_heartbeat_after_the_end_of_its_chain_is_told_to_stop() {
    let mut node = node(Policy::default());
    let (chain, ..) = handing_off(&mut node);
    node.on_message(NOW, &node_ref(2), Message::End(Box::new(end(key(chain, 1), None))));
    actions(&mut node);
    let beat = Message::Heartbeat(key(chain, 1), (*node_ref(3)).clone(), Vec::new());
    node.on_message(NOW, &node_ref(3), beat);
    assert_eq!(stopped(&mut node, chain), [NodeId(3)]);
}

/// It was on a way that had been given up, and comes to its origin once another has ended the chain.
#[test]
pub(crate) fn an_origin_takes_no_new_step_of_a_chain_of_its_own_that_is_over() {
    let late = |chain| Box::new(Hop { key: key(chain, 2), header: header(1), ..*hop(1, 2) });
    let mut node = node(Policy::default());
    let (chain, ..) = handing_off(&mut node);
    node.on_message(NOW, &node_ref(2), Message::End(Box::new(end(key(chain, 1), None))));
    actions(&mut node);
    let whole = |node: &mut Node| node.on_message(NOW, &node_ref(3), Message::Hop(late(chain)));
    let head = |node: &mut Node| drop(node.on_hop_head(NOW, &node_ref(3), late(chain)));
    for comes in [&whole as &dyn Fn(&mut Node), &head] {
        comes(&mut node);
        let said = actions(&mut node);
        assert_eq!(ticket_of(&said), None);
        let [(NodeId(3), Message::Cancel(_), _), (NodeId(3), Message::Refused(_, why), _)] = &sent(&said)[..] else {
            panic!("{said:?}")
        };
        assert_eq!((why.name.as_str(), why.unknown), (names::CANCELLED, true));
    }
    let (chain, ..) = handing_off(&mut node);
    node.on_message(NOW, &node_ref(3), Message::Hop(late(chain)));
    assert!(ticket_of(&actions(&mut node)).is_some(), "that one is not over");
}

#[test]
fn a_chain_that_is_over_stops_where_it_runs_and_calls_that_it_did_not_await_go_on() {
    let mut node = node(Policy::default());
    let session = arrived(&mut node, hop(1, 1));
    let chain = hop(1, 1).key.chain;
    node.on_message(NOW, &node_ref(9), Message::Over(vec![chain]));
    assert!(actions(&mut node).contains(&Action::Discard(session)) && node.load().0 == 0);

    let session = arrived(&mut node, hop(2, 1));
    let ends = Turn { calls: vec![call(0, "there")], end: Some(Ok(Value::null())), ..Turn::default() };
    node.on_turn(NOW, session, Ok(ends), 1);
    actions(&mut node);
    node.on_message(NOW, &node_ref(9), Message::Over(vec![hop(2, 1).key.chain]));
    let said = sent(&actions(&mut node));
    assert!(said.is_empty() && node.load().1 == 1, "{said:?}");
}

#[test]
fn an_entry_tells_those_that_it_has_heard_of_once_that_a_chain_is_over() {
    let mut node = node(Policy::default());
    let mine = hop(1, 4).key;
    let beat = Message::Heartbeat(mine.clone(), (*node_ref(3)).clone(), Vec::new()).encode();
    node.on_message(NOW, &node_ref(3), Message::Relay { to: NodeId(9), head: beat.head.to_vec(), tail: beat.tail });
    actions(&mut node);
    for times in 0..3 {
        node.on_message(NOW, &node_ref(9), Message::Over(vec![mine.chain]));
        node.on_timeout(NOW.after(1_000_000));
        let told: Vec<_> = sent(&actions(&mut node)).into_iter().map(|(to, ..)| to).collect();
        assert_eq!(told, if times == 0 { vec![NodeId(3)] } else { Vec::new() }, "two entries tell each other");
    }
}

/// The acceptance of its hop was lost, and its end came by another link: the hop is not sent again, and the next node is told that the chain is over.
#[test]
fn a_chain_that_has_ended_further_on_is_not_cancelled_there() {
    let chain = hop(1, 2).key.chain;
    let merge = Merge { host: (*node_ref(9)).clone(), at: key(chain, 1), listener: Listener::Origin };
    let branch = StepKey { branch: Branch::root().child(1).unwrap(), ..key(chain, 2) };
    for hop in [*hop(1, 2), Hop { key: branch, merge: Some(merge), ..*hop(1, 2) }] {
        let mut node = node(Policy::default());
        let session = arrived(&mut node, Box::new(hop));
        node.on_turn(NOW, session, calling(vec![call(0, "there")]), 1);
        node.on_suspended(NOW, session, Ok((Bytes::new(), None)), 1);
        actions(&mut node);
        node.on_message(NOW, &node_ref(9), Message::Over(vec![chain]));
        node.on_timeout(NOW.after(5_000_000));
        let said: Vec<_> = sent(&actions(&mut node)).into_iter().map(|(to, message, _)| (to, message)).collect();
        assert_eq!((said, node.load().0), (vec![(NodeId(2), Message::Over(vec![chain]))], 0));
    }
}

/// Its branches begin once it is acknowledged, and would run on.
#[test]
fn a_split_that_is_being_handed_off_is_stopped_when_its_chain_is_over() {
    let mut node = node(Policy::default());
    node.learn("merge", instance(3));
    let session = arrived(&mut node, hop(1, 1));
    let split = GuestSplit { call: 4, count: 2, at: Some("merge".into()), line: 7, column: 1 };
    node.on_turn(NOW, session, Ok(Turn { splits: vec![split], ..Turn::default() }), 1);
    node.on_suspended(NOW, session, Ok((Bytes::new(), None)), 1);
    actions(&mut node);
    let chain = hop(1, 1).key.chain;
    node.on_message(NOW, &node_ref(9), Message::Over(vec![chain]));
    let said = actions(&mut node);
    let begun = said.iter().any(|action| matches!(action, Action::Branch { .. }));
    let cancelled =
        sent(&said).into_iter().any(|(to, message, _)| to == NodeId(3) && message == Message::Cancel(chain));
    assert!(!begun && cancelled && node.load().0 == 0, "{said:?}");
}

#[test]
fn a_chain_whose_end_was_here_before_its_last_answer_is_over_with_that() {
    let mut node = node(Policy::default());
    let (chain, ..) = handing_off(&mut node);
    node.on_message(NOW, &node_ref(2), Message::Accepted(key(chain, 1)));
    let early = catena_wire::End { emitted: 1, ..end(key(chain, 1), None) };
    node.on_message(NOW, &node_ref(2), Message::End(Box::new(early)));
    let answer = Message::Partial { key: key(chain, 1), number: 0, value: Value::null(), to: 0 };
    node.on_message(NOW, &node_ref(2), answer);
    node.on_timeout(NOW.after(1_000_000));
    let over = |(to, message, _)| to == NodeId(2) && message == Message::Over(vec![chain]);
    assert!(sent(&actions(&mut node)).into_iter().any(over));
}
