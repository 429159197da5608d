//! Calls that a chain makes from where it is, remembered by their step.

use catena_core::{Action, Policy, Replied};
use catena_wire::{Hop, Message, Whereabouts, names};

use super::*;

fn keyed(id: u64, params: u8) -> Message {
    let (service, function) = ("here".to_string(), "f".to_string());
    let (params, budget) = (Value::encode(&params), Budget::new(1_000_000, 5));
    Message::Call {
        id,
        service,
        function,
        params,
        budget,
        key: Some(hop(1, 3).key),
        credentials: None,
        duplicate: None,
        age_us: 0,
    }
}

fn returns(actions: &[Action]) -> Vec<(NodeId, u64, Outcome)> {
    let returns = sent(actions).into_iter().filter_map(|(to, message, _)| match message {
        Message::Return(id, outcome, _) => Some((to, id, outcome)),
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
    without.on_message(NOW, &node_ref(2), Message::Hop(Box::new(Hop { age_us: 1, ..*hop(1, 3) })));
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

#[test]
fn who_asked_for_a_call_may_stop_the_chain_after_it_has_ended() {
    for (from, stops) in [(2, true), (3, false)] {
        let mut node = node(Policy::default());
        node.on_message(NOW, &node_ref(2), keyed(1, 7));
        let ticket = ticket_of(&actions(&mut node)).unwrap();
        node.on_service_done(NOW, ticket, value(), 1);
        node.on_message(NOW, &node_ref(from), Message::Cancel(hop(1, 3).key.chain));
        actions(&mut node);
        node.on_message(NOW, &node_ref(4), Message::Hop(hop(1, 4)));
        assert_eq!(ticket_of(&actions(&mut node)).is_none(), stops, "node {from}");
    }
}

#[test]
fn so_many_may_ask_for_a_step_at_one_time_and_no_more() {
    let mut node = node(Policy::default());
    for id in 0..100 {
        node.on_message(NOW, &node_ref(2), keyed(id, 7));
    }
    let turned_away = returns(&actions(&mut node));
    assert_eq!(turned_away.len(), 100 - 64);
    let full = |why: &Exception| why.name == names::OVERLOADED && why.unknown;
    assert!(turned_away.iter().all(|(.., outcome)| matches!(outcome, Outcome::Threw(why) if full(why))));
}

/// Whoever knows a step could otherwise have its end, which may be large, sent as often as it likes to an origin that acknowledges it each time.
#[test]
pub(crate) fn what_became_of_a_step_is_told_again_once_in_a_while() {
    let mut node = node(Policy::default());
    let session = arrived(&mut node, hop(1, 1));
    node.on_turn(NOW, session, Ok(Turn { end: Some(Ok(Value::null())), ..Turn::default() }), 1);
    let key = hop(1, 1).key.clone();
    let mut ends_at = |now: Time, asks: fn(StepKey) -> Message| -> usize {
        let mut ends = 0;
        for _ in 0..3 {
            node.on_message(now, &node_ref(2), asks(key.clone()));
            let sent = sent(&actions(&mut node));
            for (to, message, receipt) in sent {
                if let (NodeId(9), Message::End(_), Receipt::Part(key, part)) = (to, message, receipt) {
                    ends += 1;
                    node.on_message(now, &node_ref(9), Message::Received(key, part));
                }
            }
        }
        ends
    };
    let repeat = |_| Message::Hop(hop(1, 1));
    assert_eq!(ends_at(NOW, repeat), 2, "as it ended, and once more");
    assert_eq!(ends_at(NOW.after(1_000_000), repeat), 0);
    assert_eq!(ends_at(NOW.after(Policy::default().accept_timeout_us), repeat), 1);
}

#[test]
fn where_a_chain_went_is_told_once_in_a_while() {
    let mut node = node(Policy::default());
    let session = arrived(&mut node, hop(1, 1));
    node.on_turn(NOW, session, calling(vec![call(0, "there")]), 1);
    node.on_suspended(NOW, session, Ok((Bytes::from_static(b"state"), None)), 1);
    actions(&mut node);
    let key = hop(1, 1).key.clone();
    let mut told = |now| {
        let locate = Message::Locate { key: key.clone(), origin: (*node_ref(9)).clone(), entry: None };
        node.on_message(now, &node_ref(9), locate);
        located(&actions(&mut node)).len()
    };
    assert_eq!([NOW, NOW, NOW.after(Policy::default().accept_timeout_us)].map(&mut told), [1, 0, 1]);
}

fn located(actions: &[Action]) -> Vec<(NodeId, u32, Whereabouts)> {
    let told = sent(actions).into_iter().filter_map(|(to, message, _)| match message {
        Message::Located(key, _, whereabouts) => Some((to, key.step, whereabouts)),
        _ => None,
    });
    told.collect()
}

/// Asks `asked` for the first, second, ... time; so much later that it may be answered again.
fn locate(node: &mut Node, asked: u64, from: u64, key: StepKey) -> Vec<Action> {
    let locate = Message::Locate { key, origin: (*node_ref(9)).clone(), entry: None };
    node.on_message(NOW.after(asked * Policy::default().accept_timeout_us), &node_ref(from), locate);
    actions(node)
}

#[test]
fn a_node_tells_the_origin_what_it_knows_of_a_step() {
    let mut node = node(Policy::default());
    let key = hop(1, 1).key.clone();
    let unknown = locate(&mut node, 0, 9, key.clone());
    assert_eq!(located(&unknown), [(NodeId(9), 1, Whereabouts::Unknown)]);

    let session = arrived(&mut node, hop(1, 1));
    let here = sent(&locate(&mut node, 1, 9, key.clone()));
    assert!(matches!(&here[..], [(NodeId(9), Message::Heartbeat(..), _)]), "a sign of life: {here:?}");

    node.on_turn(NOW, session, calling(vec![call(0, "there")]), 1);
    node.on_suspended(NOW, session, Ok((Bytes::from_static(b"state"), None)), 1);
    actions(&mut node);
    let handing = locate(&mut node, 2, 9, key.clone());
    assert_eq!(located(&handing), [(NodeId(9), 2, Whereabouts::HandingOff("n2".into()))]);

    node.on_message(NOW, &node_ref(2), Message::Accepted(StepKey { step: 2, ..key.clone() }));
    actions(&mut node);
    assert!(locate(&mut node, 3, 8, key.clone()).is_empty(), "it neither began the chain nor brought it");
    let went = locate(&mut node, 3, 2, key.clone());
    assert_eq!(located(&went), [(NodeId(9), 2, Whereabouts::Went("n2".into()))], "to the origin, by whom it came");
    assert!(sent(&went).iter().any(|(to, message, _)| *to == NodeId(2) && matches!(message, Message::Locate { .. })));

    let elsewhere = NodeRef { address: Some("n8:1".into()), ..(*node_ref(9)).clone() };
    let astray = Message::Locate { key: key.clone(), origin: elsewhere, entry: Some((*node_ref(8)).clone()) };
    node.on_message(NOW.after(4 * Policy::default().accept_timeout_us), &node_ref(2), astray);
    let home = |action: &Action| match action {
        Action::Send { to, via, .. } => to.address.is_none() && via.as_ref().is_none_or(|via| via.id != NodeId(8)),
        _ => true,
    };
    let told = actions(&mut node);
    assert!(!located(&told).is_empty() && told.iter().all(home), "by the way that the chain knows");

    let forged = Message::Locate { key, origin: (*node_ref(8)).clone(), entry: None };
    node.on_message(NOW, &node_ref(8), forged);
    assert!(actions(&mut node).is_empty(), "it is not the origin of this chain");
}

#[test]
fn a_chain_that_a_node_has_forgotten_is_said_to_be_forgotten_there() {
    let policy = Policy::default();
    let (timeout_us, rounds) = (policy.heartbeat_timeout_us, policy.retransmissions_max);
    let mut node = node(policy);
    let (chain, ..) = handing_off(&mut node);
    node.on_message(NOW, &node_ref(2), Message::Accepted(key(chain, 1)));
    let mut now = NOW;
    for _ in 0..rounds {
        now = now.after(timeout_us);
        node.on_timeout(now);
    }
    let asked = sent(&actions(&mut node));
    assert!(asked.iter().any(|(to, message, _)| *to == NodeId(2) && matches!(message, Message::Locate { .. })));
    node.on_message(now, &node_ref(2), Message::Located(key(chain, 1), "n2".into(), Whereabouts::Unknown));
    node.on_message(now, &node_ref(2), Message::Accepted(key(chain, 1)));
    node.on_timeout(now.after(timeout_us));
    let ended = actions(&mut node).into_iter().find_map(|action| match action {
        Action::Reply(_, Replied::End { outcome: Outcome::Threw(why), .. }) => Some(why),
        _ => None,
    });
    let why = ended.expect("it is given up");
    assert_eq!((why.name.as_str(), &why.path[..]), (names::CHAIN_LOST, &["n2".to_string()][..]));
    assert!(why.message.contains("n2, which was to have it at step 1, does not know of it"), "{why}");
}

/// Silences count in a row: however many there are in the life of a chain, it goes on if it is heard of after each.
#[test]
pub(crate) fn a_chain_that_is_heard_of_after_each_silence_is_never_given_up() {
    let mut node = node(Policy::default());
    let Policy { heartbeat_timeout_us: timeout_us, retransmissions_max: rounds, .. } = Policy::default();
    let (chain, ..) = handing_off(&mut node);
    node.on_message(NOW, &node_ref(2), Message::Accepted(key(chain, 1)));
    let mut now = NOW;
    for silence in 0..=2 * u32::from(rounds) {
        now = now.after(timeout_us);
        node.on_timeout(now);
        let said = actions(&mut node);
        assert!(!sent(&said).is_empty(), "{silence}: nobody is asked");
        assert!(!said.iter().any(|action| matches!(action, Action::Reply(..))), "{silence}: {said:?}");
        node.on_message(now, &node_ref(2), Message::Heartbeat(key(chain, 1), (*node_ref(2)).clone(), Vec::new()));
    }
    for _ in 0..=rounds {
        now = now.after(timeout_us);
        node.on_timeout(now);
    }
    let ended = actions(&mut node);
    assert!(ended.iter().any(|action| matches!(action, Action::Reply(_, Replied::End { .. }))), "{ended:?}");
}

/// Two branches fall silent one after the other. Nodes do not answer a second search that comes soon, so what the first one has found stays.
#[test]
fn a_chain_with_several_silent_branches_is_searched_for_once() {
    let policy = Policy::default();
    let (timeout_us, rounds) = (policy.heartbeat_timeout_us, u64::from(policy.retransmissions_max));
    let mut node = node(policy);
    let (chain, ..) = handing_off(&mut node);
    node.on_message(NOW, &node_ref(2), Message::Accepted(key(chain, 1)));
    let branch = |number| StepKey { branch: Branch::root().child(number).unwrap(), ..key(chain, 2) };
    let merging =
        Message::Heartbeat(key(chain, 1), (*node_ref(2)).clone(), [1, 2].map(|of| branch(of).branch).to_vec());
    node.on_message(NOW, &node_ref(2), merging.clone());
    let apart_us = 1_000_000;
    for number in [1, 2] {
        let at = NOW.after(u64::from(number) * apart_us);
        let beat = Message::Heartbeat(branch(number), (*node_ref(3)).clone(), Vec::new());
        node.on_message(at, &node_ref(3), beat);
    }
    let mut searches = 0;
    for round in 1..=rounds + 1 {
        for branch_us in [apart_us, 2 * apart_us] {
            let at = NOW.after(branch_us + round * timeout_us);
            node.on_message(at, &node_ref(2), merging.clone());
            node.on_timeout(at);
            let said = actions(&mut node);
            let found = sent(&said).iter().any(|(_, message, _)| matches!(message, Message::Locate { .. }));
            searches += u32::from(found);
            if found {
                let located = Message::Located(branch(1), "n2".into(), Whereabouts::Went("n3".into()));
                node.on_message(at, &node_ref(2), located);
            }
            let ended = said.iter().find_map(|action| match action {
                Action::Reply(_, Replied::End { outcome: Outcome::Threw(why), .. }) => Some(why),
                _ => None,
            });
            if let Some(why) = ended {
                assert!(why.message.contains("n2 handed it to n3"), "{why}");
                return assert_eq!(searches, 1);
            }
        }
    }
    panic!("it is not given up");
}
