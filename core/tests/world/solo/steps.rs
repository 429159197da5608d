//! Calls that a chain makes from where it is, remembered by their step.

use catena_core::{Action, Policy};
use catena_wire::{Hop, Message, names};

use super::*;

fn keyed(id: u64, params: u8) -> Message {
    let (service, function) = ("here".to_string(), "f".to_string());
    let (params, budget) = (Value::encode(&params), Budget::new(1_000_000, 5));
    Message::Call { id, service, function, params, budget, key: Some(hop(1, 3).key), credentials: None }
}

fn returns(actions: &[Action]) -> Vec<(NodeId, u64, Outcome)> {
    let returns = sent(actions).into_iter().filter_map(|(to, message, _)| match message {
        Message::Return(id, outcome) => Some((to, id, outcome)),
        _ => None,
    });
    returns.collect()
}

#[test]
fn a_call_made_again_under_its_step_is_answered_from_memory() {
    let mut node = node(Policy::default());
    node.on_message(NOW, &node_ref(2), keyed(1, 7));
    let ticket = ticket_of(&actions(&mut node)).unwrap();
    node.on_message(NOW, &node_ref(2), keyed(1, 7));
    node.on_message(NOW, &node_ref(3), keyed(5, 7));
    assert!(actions(&mut node).is_empty(), "it runs already");
    node.on_service_done(NOW, ticket, value(), 1);
    let done = Outcome::Done(Value::null());
    let answered = returns(&actions(&mut node));
    assert_eq!(answered, [(NodeId(2), 1, done.clone()), (NodeId(3), 5, done.clone())], "whoever has asked, once each");
    node.on_message(NOW, &node_ref(2), keyed(8, 7));
    let again = actions(&mut node);
    assert!(ticket_of(&again).is_none());
    assert_eq!(returns(&again), [(NodeId(2), 8, done)]);
}

#[test]
fn another_call_under_the_same_step_is_not_answered_with_its_result() {
    let mut node = node(Policy::default());
    node.on_message(NOW, &node_ref(2), keyed(1, 7));
    let ticket = ticket_of(&actions(&mut node)).unwrap();
    for done in [false, true] {
        node.on_message(NOW, &node_ref(3), keyed(2, 8));
        let refused = actions(&mut node);
        assert!(ticket_of(&refused).is_none());
        assert!(
            matches!(&returns(&refused)[..], [(NodeId(3), 2, Outcome::Threw(why))] if why.name == names::PROTOCOL && why.unknown)
        );
        if !done {
            node.on_service_done(NOW, ticket, value(), 1);
            assert_eq!(returns(&actions(&mut node)).len(), 1, "the first is answered all the same");
        }
    }
}

#[test]
fn a_hop_under_the_step_of_a_call_is_refused_and_the_call_goes_on() {
    let mut node = node(Policy::default());
    node.on_message(NOW, &node_ref(2), keyed(1, 7));
    let ticket = ticket_of(&actions(&mut node)).unwrap();
    node.on_message(NOW, &node_ref(2), Message::Hop(hop(1, 3)));
    let refused = sent(&actions(&mut node));
    assert!(matches!(&refused[..], [(_, Message::Refused(_, why), _)] if why.name == names::PROTOCOL), "{refused:?}");
    node.on_service_done(NOW, ticket, value(), 1);
    assert_eq!(returns(&actions(&mut node)).len(), 1, "whoever called is answered");
}

#[test]
fn a_call_under_the_step_of_a_hop_is_refused_unless_that_came_where_no_guests_run() {
    let mut with_guests = node(Policy::default());
    with_guests.on_message(NOW, &node_ref(2), Message::Hop(hop(1, 3)));
    actions(&mut with_guests);
    with_guests.on_message(NOW, &node_ref(2), keyed(1, 7));
    assert!(matches!(&returns(&actions(&mut with_guests))[..], [(_, 1, Outcome::Threw(_))]));

    let mut without = node(Policy { runs_guests: false, ..Policy::default() });
    without.on_message(NOW, &node_ref(2), Message::Hop(Box::new(Hop { attempt: 1, ..*hop(1, 3) })));
    let refused = sent(&actions(&mut without));
    assert!(matches!(&refused[..], [(_, Message::Refused(_, why), _)] if why.name == names::RUNS_NO_GUESTS));
    without.on_message(NOW, &node_ref(2), keyed(1, 7));
    assert!(ticket_of(&actions(&mut without)).is_some(), "it is called instead, under the same step");
}

#[test]
fn a_call_of_a_chain_stops_when_the_last_who_asked_withdraws() {
    let mut node = node(Policy::default());
    node.on_message(NOW, &node_ref(2), keyed(1, 7));
    node.on_message(NOW, &node_ref(3), keyed(2, 7));
    actions(&mut node);
    node.on_message(NOW, &node_ref(2), Message::Withdraw(1));
    node.on_message(NOW, &node_ref(3), Message::Withdraw(1));
    assert!(actions(&mut node).is_empty(), "somebody else waits, under another number");
    node.on_message(NOW, &node_ref(3), Message::Withdraw(2));
    assert!(matches!(actions(&mut node)[..], [Action::CancelService(_)]) && node.load() == (0, 0, 0));
}
