//! A right to reply at its holder: who may say something of it, and how its replies go together.

use catena_core::{Action, Gather, NotSent, Policy, Undelivered};
use catena_wire::{ChainId, Fault, Message, NodeId, Right, RightEnd, Window, names};

use super::*;

/// A right to answer a call of node 9, handed over by node 2.
fn held(node: &mut Node, replies: u32) -> StepKey {
    running(node, replies).0
}

/// The same, and the ticket of the service function that has it.
fn running(node: &mut Node, replies: u32) -> (StepKey, Ticket) {
    let call = ChainId { origin: NodeId(9), number: 1 };
    let right = Right::root(call, (*node_ref(9)).clone(), Window { replies, bytes: 4_096 });
    let (service, function, key) = ("here".to_string(), "f".to_string(), right.key.clone());
    let (budget, right) = (Budget::new(10_000_000, 10), Box::new(right));
    let ask = Message::Ask { id: 1, service, function, params: Value::null(), budget, credentials: None, right };
    node.on_message(NOW, &node_ref(2), ask);
    (key, ticket_of(&actions(node)).unwrap())
}

/// How many replies each message brings that is sent.
fn batches(actions: &[Action]) -> Vec<usize> {
    let count = |(_, message, _)| match message {
        Message::Replies(replies) => Some(replies.values.len()),
        _ => None,
    };
    sent(actions).into_iter().filter_map(count).collect()
}

#[test]
fn nobody_but_its_caller_and_who_handed_it_over_stops_a_right_and_its_caller_alone_makes_room() {
    for (by, stops) in [(3, false), (2, true), (9, true)] {
        let mut node = node(Policy::default());
        let key = held(&mut node, 8);
        for _ in 0..8 {
            node.reply(NOW, &key, Value::null()).unwrap();
        }
        node.flush(NOW);
        let took = Message::Took { key: key.clone(), arrived: 8, read: 8 };
        node.on_message(NOW, &node_ref(by), took);
        let full = matches!(node.reply(NOW, &key, Value::null()), Err(NotSent::Full(_)));
        assert_eq!(full, by != 9, "node {by} says that all was read");
        node.flush(NOW);
        node.on_message(NOW, &node_ref(by), Message::Cancel(key.chain));
        assert_eq!(node.rights() == 0, stops, "node {by} cancels");
        actions(&mut node);
        node.on_timeout(NOW.after(Policy::default().accept_timeout_us));
        assert_eq!(batches(&actions(&mut node)).is_empty(), stops, "nobody wants what was sent");
    }
}

#[test]
fn gathered_replies_go_when_they_are_enough_or_their_time_has_come_and_the_first_at_once() {
    let mut node = node(Policy::default());
    let key = held(&mut node, 64);
    node.gather(&key, Gather { replies: 3, bytes: 100, wait_us: 1_000 });
    let reply = |node: &mut Node, after_us, value: Value| {
        node.reply(NOW.after(after_us), &key, value).unwrap();
        batches(&actions(node))
    };
    let mut small = |after_us| reply(&mut node, after_us, Value::null());
    assert_eq!(small(0), [1], "the first");
    assert_eq!([small(1), small(2), small(3)], [vec![], vec![], vec![3]], "so many");
    let large = Value::encode(&"x".repeat(120));
    assert_eq!(reply(&mut node, 4, large), [1], "so many bytes");
    assert!(reply(&mut node, 5, Value::null()).is_empty());
    node.on_timeout(NOW.after(1_003));
    assert!(batches(&actions(&mut node)).is_empty());
    node.on_timeout(NOW.after(1_004));
    assert_eq!(batches(&actions(&mut node)), [1], "so long");
    assert_eq!(reply(&mut node, 9_000, Value::null()), [1], "after a pause");
}

fn ends(actions: &[Action]) -> Vec<(RightEnd, Receipt)> {
    let ends = sent(actions).into_iter().filter_map(|(_, message, receipt)| match message {
        Message::RightEnd(end) => Some((*end, receipt)),
        _ => None,
    });
    ends.collect()
}

#[test]
fn an_end_too_large_for_a_link_says_so_in_place_of_its_exception() {
    for unknown in [false, true] {
        let mut node = node(Policy::default());
        let (key, ticket) = running(&mut node, 8);
        let params = Value::encode(&"x".repeat(5_000));
        let why = Exception { unknown, ..Exception::new("Oops", Fault::Service, "").with_params(params) };
        node.on_service_done(NOW, ticket, Err(why), 1);
        node.let_go(NOW, &key);
        let (_, receipt) = ends(&actions(&mut node)).remove(0);
        node.on_undelivered(NOW, receipt, Undelivered::TooLarge { bytes: 5_000, bytes_max: 4_000 });
        let (end, receipt) = ends(&actions(&mut node)).remove(0);
        let why = end.threw.unwrap();
        assert!(why.name == names::LIMIT_EXCEEDED && why.message.contains("5000 bytes") && why.unknown == unknown);
        node.on_undelivered(NOW, receipt, Undelivered::TooLarge { bytes: 5_000, bytes_max: 4_000 });
        assert!(ends(&actions(&mut node)).is_empty(), "and that is that");
    }
}

/// Its holder notes each reply that has not been read.
#[test]
fn a_window_is_no_larger_than_what_may_be_unread() {
    let mut node = node(Policy { replies_unread_max: 16, reply_window: 8, ..Policy::default() });
    let key = held(&mut node, u32::MAX);
    let sent = (0..100).take_while(|_| node.reply(NOW, &key, Value::null()).is_ok()).count();
    assert_eq!(sent, 16);
}
