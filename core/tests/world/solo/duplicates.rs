//! A chain that may be under way twice: only its first way, which is not a possible duplicate, does what must not be done twice.

use catena_core::Undelivered;
use catena_wire::{PossibleDuplicate, names};

use super::*;

fn kinds(kind: &str) -> Kinds {
    let named = |of: &str| if kind == of { vec!["f".to_string()] } else { Vec::new() };
    Kinds { repeatable: named("repeatable"), durable: named("durable"), chaining: Vec::new() }
}

fn serving(kind: &str) -> Node {
    let mut node = node(Policy::default());
    node.serve("here", ["f"], kinds(kind));
    node
}

fn since(step: u32) -> Option<PossibleDuplicate> {
    Some(PossibleDuplicate { since: hop(1, step).key, way: 7 })
}

/// A hop of a chain of which step 1 may have been done twice.
fn duplicate(step: u32) -> Box<Hop> {
    Box::new(Hop { duplicate: since(1), ..*hop(1, step) })
}

/// Whether the node does the step of this hop.
fn does(node: &mut Node, hop: Box<Hop>) -> bool {
    node.on_message(NOW, &node_ref(2), Message::Hop(hop));
    let actions = actions(node);
    let refused = sent(&actions).into_iter().find_map(|(_, message, _)| match message {
        Message::Refused(_, why) => Some(why),
        _ => None,
    });
    if let Some(why) = &refused {
        assert!(why.name == names::NODE_LOST && why.unknown && why.message.contains("done twice"), "{why:?}");
    }
    assert_eq!(ticket_of(&actions).is_some(), refused.is_none(), "{actions:?}");
    refused.is_none()
}

#[test]
fn only_what_is_declared_repeatable_or_durable_is_done() {
    for (kind, replica, may) in [
        ("plain", false, false),
        ("plain", true, false),
        ("repeatable", true, true),
        ("durable", false, true),
        // What another instance has on its disk is not known here.
        ("durable", true, false),
    ] {
        let mut node = serving(kind);
        if replica {
            node.note_replica("here");
        }
        assert_eq!(does(&mut node, duplicate(2)), may, "{kind} {replica}");
        assert!(does(&mut node, hop(3, 2)), "a chain that is not a possible duplicate: {kind}");
    }
}

#[test]
fn the_step_itself_is_done_again_only_where_its_service_says_that_it_may_be() {
    for (kind, may) in [("plain", false), ("repeatable", true)] {
        let again = Hop { duplicate: since(2), ..*hop(1, 2) };
        assert_eq!(does(&mut serving(kind), Box::new(again)), may, "{kind}");
    }
}

#[test]
fn a_durable_function_is_told_which_way_of_the_chain_calls_it() {
    let mut node = serving("durable");
    node.on_message(NOW, &node_ref(2), Message::Hop(duplicate(2)));
    let told = actions(&mut node).into_iter().find_map(|action| match action {
        Action::RunService { duplicate, .. } => duplicate,
        _ => None,
    });
    assert_eq!(told, since(1));
}

#[test]
fn a_call_beside_is_judged_like_a_hop() {
    for (kind, may) in [("plain", false), ("repeatable", true)] {
        let mut node = serving(kind);
        let (service, function) = ("here".to_string(), "f".to_string());
        let (params, budget, duplicate) = (Value::null(), Budget::new(1_000_000, 1), since(1));
        let key = Some(hop(1, 2).key);
        let call =
            Message::Call { id: 7, service, function, params, budget, key, credentials: None, duplicate, age_us: 0 };
        node.on_message(NOW, &node_ref(2), call);
        assert_eq!(ticket_of(&actions(&mut node)).is_some(), may);
    }
}

/// A possible duplicate of a chain that has come here, whose function goes on.
fn came(node: &mut Node) -> SessionId {
    node.on_message(NOW, &node_ref(2), Message::Hop(duplicate(2)));
    let ticket = ticket_of(&actions(node)).unwrap();
    node.on_service_done(NOW, ticket, value(), 1);
    let Some(Action::Resume { session, .. }) = actions(node).pop() else { panic!("it goes on") };
    session
}

#[test]
fn a_call_in_place_is_judged_too() {
    for (kind, may) in [("plain", false), ("repeatable", true)] {
        let mut node = serving("repeatable");
        node.serve("own", ["f"], kinds(kind));
        let session = came(&mut node);
        node.on_turn(NOW, session, calling(vec![call(0, "own")]), 1);
        assert_eq!(ticket_of(&actions(&mut node)).is_some(), may);
    }
}

#[test]
fn a_possible_duplicate_stays_one() {
    let mut node = serving("repeatable");
    let session = came(&mut node);
    node.on_turn(NOW, session, calling(vec![call(0, "there"), call(1, "there")]), 1);
    let calls = sent(&actions(&mut node)).into_iter().filter_map(|(_, message, _)| match message {
        Message::Call { duplicate, .. } => Some(duplicate),
        _ => None,
    });
    assert_eq!(calls.collect::<Vec<_>>(), [since(1), since(1)]);
}

#[test]
fn whatever_fails_after_it_is_unknown() {
    let mut node = serving("repeatable");
    let session = came(&mut node);
    node.on_turn(NOW, session, calling(vec![call(0, "there")]), 1);
    node.on_suspended(NOW, session, Ok((Bytes::from_static(b"state"), None)), 1);
    let (.., receipt) = sent(&actions(&mut node)).pop().unwrap();
    // Nothing was done there now; it may have been before.
    node.on_undelivered(NOW, receipt, Undelivered::Unreachable);
    let resolving = |action: &Action| matches!(action, Action::Resolve { .. });
    assert!(actions(&mut node).iter().any(resolving));
    let nobody = Exception::new(names::UNKNOWN_SERVICE, catena_wire::Fault::Caller, "");
    node.on_resolved(NOW, LookupId(1), Err(nobody));
    let Some(Action::Resume { session, result: Err(why), .. }) = actions(&mut node).pop() else { panic!("told") };
    assert!(why.name == names::NODE_UNREACHABLE && why.unknown, "{why:?}");
    let own = Exception::new("Mine", catena_wire::Fault::Guest, "");
    node.on_turn(NOW, session, Ok(Turn { end: Some(Err(own)), ..Turn::default() }), 1);
    let end = sent(&actions(&mut node)).into_iter().find_map(|(_, message, _)| match message {
        Message::End(end) => Some(end.outcome),
        _ => None,
    });
    assert!(matches!(end, Some(Outcome::Threw(why)) if why.unknown));
}

/// What the hops to that node say of duplicates.
fn duplicates(node: &mut Node, to: u64) -> Vec<Option<PossibleDuplicate>> {
    let hops = sent(&actions(node)).into_iter().filter_map(|(node, message, _)| match message {
        Message::Hop(hop) if node == NodeId(to) => Some(hop.duplicate),
        _ => None,
    });
    hops.collect()
}

#[test]
fn a_hop_that_may_have_been_done_is_a_possible_duplicate_where_it_goes_next() {
    for (undelivered, is_duplicate) in [(Undelivered::Lost, true), (Undelivered::Unreachable, false)] {
        let mut node = node(Policy { hop_attempts_max: 1, ..Policy::default() });
        node.learn("there", Instance { kinds: kinds("repeatable"), ..instance(2) });
        let (chain, _, receipt) = handing_off(&mut node);
        node.on_undelivered(NOW, receipt, undelivered);
        actions(&mut node);
        node.on_resolved(NOW, LookupId(1), Ok(Instance { kinds: kinds("repeatable"), ..instance(3) }));
        let duplicates = duplicates(&mut node, 3);
        assert!(
            matches!(&duplicates[..], [duplicate] if duplicate.is_some() == is_duplicate),
            "{undelivered:?}: {duplicates:?}"
        );
        assert!(duplicates[0].as_ref().is_none_or(|duplicate| duplicate.since == key(chain, 1) && duplicate.way != 0));
    }
}

#[test]
fn a_function_that_is_told_of_a_loss_and_goes_on_is_a_possible_duplicate_too() {
    for (undelivered, is_duplicate) in [(Undelivered::Lost, true), (Undelivered::Unreachable, false)] {
        let mut node = node(Policy { hop_attempts_max: 1, instances_tried_max: 1, ..Policy::default() });
        let (chain, _, receipt) = handing_off(&mut node);
        node.on_undelivered(NOW, receipt, undelivered);
        let Some(Action::Resume { session, result: Err(why), .. }) = actions(&mut node).pop() else { panic!("told") };
        assert_eq!(why.unknown, is_duplicate);
        node.learn("there", instance(3));
        node.on_turn(NOW, session, calling(vec![call(1, "there")]), 1);
        node.on_suspended(NOW, session, Ok((Bytes::from_static(b"state"), None)), 1);
        let duplicates = duplicates(&mut node, 3);
        assert!(
            matches!(&duplicates[..], [duplicate] if duplicate.is_some() == is_duplicate),
            "{undelivered:?}: {duplicates:?}"
        );
        assert!(duplicates[0].as_ref().is_none_or(|duplicate| duplicate.since == key(chain, 1)));
    }
}

#[test]
pub(crate) fn the_earliest_step_stays_and_the_way_changes() {
    let mut node = serving("repeatable");
    node.learn("there", Instance { kinds: kinds("repeatable"), ..instance(3) });
    let session = came(&mut node);
    node.on_turn(NOW, session, calling(vec![call(0, "there")]), 1);
    node.on_suspended(NOW, session, Ok((Bytes::from_static(b"state"), None)), 1);
    assert_eq!(duplicates(&mut node, 3), [since(1)]);
    for _ in 0..3 {
        node.on_link_lost(NOW, NodeId(3), false);
    }
    actions(&mut node);
    node.on_resolved(NOW, LookupId(1), Ok(Instance { kinds: kinds("repeatable"), ..instance(4) }));
    let duplicates = duplicates(&mut node, 4);
    assert!(
        matches!(&duplicates[..], [Some(duplicate)] if duplicate.since == hop(1, 1).key && duplicate.way != 7),
        "{duplicates:?}"
    );
}

#[test]
pub(crate) fn what_the_first_instance_may_have_done_is_told_although_the_second_did_nothing() {
    // Unreachable at first, which is harmless; lost at the second; refused by the third.
    let mut node = node(Policy { hop_attempts_max: 1, ..Policy::default() });
    let repeatable = |id| Instance { kinds: kinds("repeatable"), ..instance(id) };
    node.learn("there", repeatable(2));
    let (chain, _, receipt) = handing_off(&mut node);
    node.on_undelivered(NOW, receipt, Undelivered::Unreachable);
    node.on_resolved(NOW, LookupId(1), Ok(repeatable(3)));
    let (.., receipt) = sent(&actions(&mut node)).pop().unwrap();
    node.on_undelivered(NOW, receipt, Undelivered::Lost);
    node.on_resolved(NOW, LookupId(2), Ok(repeatable(4)));
    actions(&mut node);
    let full = Exception::new(names::OVERLOADED, catena_wire::Fault::Node, "full");
    node.on_message(NOW, &node_ref(4), Message::Refused(key(chain, 1), full));
    let Some(Action::Resume { session, result: Err(why), .. }) = actions(&mut node).pop() else { panic!("told") };
    assert!(why.unknown && why.name == names::NODE_LOST, "{why:?}");
    node.learn("there", repeatable(5));
    node.on_turn(NOW, session, calling(vec![call(1, "there")]), 1);
    node.on_suspended(NOW, session, Ok((Bytes::from_static(b"state"), None)), 1);
    assert!(matches!(&duplicates(&mut node, 5)[..], [Some(_)]), "whatever comes after it may be done twice");
}

#[test]
pub(crate) fn the_first_way_that_comes_after_a_possible_duplicate_is_refused() {
    let branched = |step: u32, branch: Branch| {
        let mut hop = hop(1, step);
        hop.merge = branch.parent().map(|parent| catena_wire::Merge {
            host: (*node_ref(4)).clone(),
            at: StepKey { branch: parent, step: 1, ..hop.key.clone() },
            listener: catena_wire::Listener::Origin,
        });
        hop.key.branch = branch;
        hop
    };
    let root = Branch::root();
    for (first, may) in [
        (branched(3, root.clone()), false),
        (branched(3, root.child(1).unwrap()), false),
        // Before the step that may have been done twice both ways are one.
        (branched(1, root), true),
        (hop(2, 3), true),
    ] {
        let mut node = serving("plain");
        node.serve("safe", ["f"], kinds("repeatable"));
        let second = Hop { service: "safe".into(), ..*duplicate(2) };
        assert!(does(&mut node, Box::new(second)));
        let what = format!("{:?}", first.key);
        node.on_message(NOW, &node_ref(2), Message::Hop(first));
        assert_eq!(ticket_of(&actions(&mut node)).is_some(), may, "{what}");
    }
}

#[test]
fn a_sign_of_life_of_a_chain_that_has_ended_stops_it() {
    let mut node = node(Policy::default());
    let (chain, ..) = handing_off(&mut node);
    let beat = || Message::Heartbeat(key(chain, 1), (*node_ref(2)).clone(), Vec::new());
    let stops = |node: &mut Node| {
        node.on_message(NOW, &node_ref(2), beat());
        let sent = sent(&actions(node));
        sent.iter().any(|(to, message, _)| *to == NodeId(2) && *message == Message::Cancel(chain))
    };
    assert!(!stops(&mut node), "it is under way");
    node.cancel(NOW, chain);
    actions(&mut node);
    assert!(stops(&mut node), "the first word did not reach it");
}

#[test]
fn a_hop_that_looks_for_another_instance_is_not_sent_to_the_one_before() {
    let mut node = node(Policy::default());
    let (_, _, receipt) = handing_off(&mut node);
    node.on_undelivered(NOW, receipt, Undelivered::Unreachable);
    actions(&mut node);
    node.on_link_lost(NOW, catena_wire::NodeId(2), false);
    node.on_timeout(NOW.after(2_500_000));
    let hops = sent(&actions(&mut node)).into_iter().filter(|(_, message, _)| matches!(message, Message::Hop(_)));
    assert_eq!(hops.count(), 0);
    node.on_resolved(NOW.after(2_600_000), LookupId(1), Ok(instance(3)));
    let hops = sent(&actions(&mut node));
    assert!(matches!(&hops[..], [(NodeId(3), Message::Hop(hop), _)] if hop.duplicate.is_none()), "{hops:?}");
}

#[test]
fn a_hop_that_was_taken_while_another_instance_was_looked_for_can_go_out_again() {
    let mut node = node(Policy::default());
    let (chain, _, receipt) = handing_off(&mut node);
    node.on_undelivered(NOW, receipt, Undelivered::Unreachable);
    node.on_message(NOW, &node_ref(2), Message::Accepted(key(chain, 1)));
    actions(&mut node);
    // Silence: the origin sends it on its way again.
    node.on_timeout(NOW.after(6_000_001));
    let again = sent(&actions(&mut node));
    assert!(again.iter().any(|(to, message, _)| *to == NodeId(2) && matches!(message, Message::Hop(_))), "{again:?}");
}
