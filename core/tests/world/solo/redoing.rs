//! A step was done again, and the chain may have gone on from its first time: who may do the steps after it?

use catena_core::Undelivered;
use catena_wire::{Redone, names};

use super::*;

const AGE_US: u64 = 400_000;
/// Half a second after [`NOW`], by when the step before was first sent.
const LATER: Time = Time::from_us(10_000_000);

fn kinds(kind: &str) -> Kinds {
    let named = |of: &str| if kind == of { vec!["f".to_string()] } else { Vec::new() };
    Kinds { repeatable: named("repeatable"), durable: named("durable"), chaining: Vec::new() }
}

fn serving(kind: &str) -> Node {
    let mut node = node(Policy::default());
    node.serve("here", ["f"], kinds(kind));
    node
}

fn after_one_redone(age_us: u64) -> Box<Hop> {
    let redone = Redone { key: hop(1, 1).key, age_us };
    Box::new(Hop { redone: Some(redone), ..*hop(1, 2) })
}

/// Whether the node does the step of this hop.
fn does(node: &mut Node, hop: Box<Hop>) -> bool {
    node.on_message(LATER, &node_ref(2), Message::Hop(hop));
    let actions = actions(node);
    let refused = sent(&actions).into_iter().find_map(|(_, message, _)| match message {
        Message::Refused(_, why) => Some(why),
        _ => None,
    });
    if let Some(why) = &refused {
        assert!(why.name == names::NODE_LOST && why.unknown && why.message.contains("done again"), "{why:?}");
    }
    assert_eq!(ticket_of(&actions).is_some(), refused.is_none(), "{actions:?}");
    refused.is_none()
}

#[test]
fn who_has_been_there_all_the_time_and_alone_may_do_it() {
    for (kind, restarted, shared, may) in [
        ("plain", false, false, true),
        ("plain", true, false, false),
        ("plain", false, true, false),
        ("repeatable", true, true, true),
        ("durable", true, false, true),
        ("durable", false, true, false),
    ] {
        let mut node = serving(kind);
        if restarted {
            node.set_born(Time::from_us(LATER.as_us() - AGE_US + 1));
        }
        if shared {
            node.note_shared("here");
        }
        assert_eq!(does(&mut node, after_one_redone(AGE_US)), may, "{kind} {restarted} {shared}");
    }
}

#[test]
fn the_step_itself_is_done_again_wherever_it_is_declared_harmless() {
    let mut node = serving("plain");
    node.set_born(LATER);
    let again = Hop { redone: Some(Redone { key: hop(1, 2).key, age_us: AGE_US }), ..*hop(1, 2) };
    assert!(does(&mut node, Box::new(again)));
}

#[test]
fn who_has_forgotten_steps_since_may_not() {
    assert!(!does(&mut serving("plain"), after_one_redone(60_000_000)), "older than steps are remembered");
    assert!(!does(&mut serving("plain"), after_one_redone(u64::MAX)));
    let mut full = node(Policy { step_cache_entries_max: 1, ..Policy::default() });
    for number in 2..5 {
        // Refused and remembered: that takes room.
        let nobody = Hop { function: "nobody".into(), ..*hop(number, 1) };
        full.on_message(LATER, &node_ref(2), Message::Hop(Box::new(nobody)));
    }
    actions(&mut full);
    assert!(!does(&mut full, after_one_redone(AGE_US)), "it forgot steps for want of room");
}

#[test]
fn a_call_beside_is_judged_like_a_hop() {
    for (restarted, may) in [(false, true), (true, false)] {
        let mut node = serving("plain");
        node.set_born(if restarted { LATER } else { Time::default() });
        let redone = Some(Redone { key: hop(1, 1).key, age_us: AGE_US });
        let (service, function) = ("here".to_string(), "f".to_string());
        let (params, budget) = (Value::null(), Budget::new(1_000_000, 1));
        let key = Some(hop(1, 2).key);
        let call = Message::Call { id: 7, service, function, params, budget, key, credentials: None, redone };
        node.on_message(LATER, &node_ref(2), call);
        assert_eq!(ticket_of(&actions(&mut node)).is_some(), may);
    }
}

/// A chain that has come here after such a step, whose function goes on.
fn came(node: &mut Node) -> SessionId {
    node.on_message(LATER, &node_ref(2), Message::Hop(after_one_redone(AGE_US)));
    let ticket = ticket_of(&actions(node)).unwrap();
    node.on_service_done(LATER, ticket, value(), 1);
    let Some(Action::Resume { session, .. }) = actions(node).pop() else { panic!("it goes on") };
    session
}

#[test]
fn a_call_in_place_is_judged_too() {
    for (restarted, may) in [(false, true), (true, false)] {
        let mut node = serving("repeatable");
        node.serve("own", ["f"], Kinds::default());
        node.set_born(if restarted { LATER } else { Time::default() });
        let session = came(&mut node);
        node.on_turn(LATER, session, calling(vec![call(0, "own")]), 1);
        assert_eq!(ticket_of(&actions(&mut node)).is_some(), may);
    }
}

#[test]
fn the_mark_travels_on_and_grows_older() {
    let mut node = serving("plain");
    let session = came(&mut node);
    let later = LATER.after(50_000);
    node.on_turn(later, session, calling(vec![call(0, "there"), call(1, "there")]), 1);
    let calls = sent(&actions(&mut node));
    let ages = calls.iter().map(|(_, message, _)| match message {
        Message::Call { redone: Some(Redone { age_us, .. }), .. } => *age_us,
        other => panic!("{other:?}"),
    });
    // 200 ms for the way, which nobody measures.
    assert_eq!(ages.collect::<Vec<_>>(), [AGE_US + 50_000 + 200_000; 2]);
}

#[test]
fn whatever_fails_after_it_is_unknown() {
    let mut node = serving("plain");
    let session = came(&mut node);
    node.on_turn(LATER, session, calling(vec![call(0, "there")]), 1);
    node.on_suspended(LATER, session, Ok((Bytes::from_static(b"state"), None)), 1);
    let (.., receipt) = sent(&actions(&mut node)).pop().unwrap();
    // Nothing was done there now; it may have been before.
    node.on_undelivered(LATER, receipt, Undelivered::Unreachable);
    let resolving = |action: &Action| matches!(action, Action::Resolve { .. });
    assert!(actions(&mut node).iter().any(resolving));
    let nobody = Exception::new(names::UNKNOWN_SERVICE, catena_wire::Fault::Caller, "");
    node.on_resolved(LATER, "there", Err(nobody));
    let Some(Action::Resume { session, result: Err(why), .. }) = actions(&mut node).pop() else { panic!("told") };
    assert!(why.name == names::NODE_UNREACHABLE && why.unknown, "{why:?}");
    let own = Exception::new("Mine", catena_wire::Fault::Guest, "");
    node.on_turn(LATER, session, Ok(Turn { end: Some(Err(own)), ..Turn::default() }), 1);
    let end = sent(&actions(&mut node)).into_iter().find_map(|(_, message, _)| match message {
        Message::End(end) => Some(end.outcome),
        _ => None,
    });
    assert!(matches!(end, Some(Outcome::Threw(why)) if why.unknown));
}

#[test]
fn a_hop_that_may_have_been_done_is_marked_when_it_goes_out_again() {
    for (undelivered, marked) in [(Undelivered::Lost, true), (Undelivered::Unreachable, false)] {
        let mut node = node(Policy { hop_attempts_max: 1, ..Policy::default() });
        node.learn("there", Instance { kinds: kinds("repeatable"), ..instance(2) });
        let (chain, _, receipt) = handing(&mut node);
        let later = NOW.after(30_000);
        node.on_undelivered(later, receipt, undelivered);
        actions(&mut node);
        node.on_resolved(later, "there", Ok(Instance { kinds: kinds("repeatable"), ..instance(3) }));
        let hops = sent(&actions(&mut node)).into_iter().filter_map(|(to, message, _)| match message {
            Message::Hop(hop) if to == NodeId(3) => Some(hop.redone),
            _ => None,
        });
        let redone = marked.then(|| Redone { key: key(chain, 1), age_us: 230_000 });
        assert_eq!(hops.collect::<Vec<_>>(), [redone], "{undelivered:?}");
    }
}

#[test]
fn a_sign_of_life_of_a_chain_that_has_ended_stops_it() {
    let mut node = node(Policy::default());
    let (chain, ..) = handing(&mut node);
    let beat = || Message::Heartbeat(key(chain, 1), "n2".into(), Vec::new());
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
fn where_the_chain_has_been_since_it_may_have_been_done_in_place() {
    for (number, step, may) in [(1, 1, false), (1, 3, false), (2, 1, true)] {
        let mut node = serving("plain");
        // Its first time, which came by another link and is not marked.
        landed(&mut node, hop(number, step));
        assert_eq!(does(&mut node, after_one_redone(AGE_US)), may, "chain {number}, step {step}");
    }
}

#[test]
fn a_hop_that_looks_for_another_instance_is_not_sent_to_the_one_before() {
    let mut node = node(Policy::default());
    let (_, _, receipt) = handing(&mut node);
    node.on_undelivered(NOW, receipt, Undelivered::Unreachable);
    actions(&mut node);
    node.on_link_lost(NOW, catena_wire::NodeId(2));
    node.on_timeout(NOW.after(2_500_000));
    let hops = sent(&actions(&mut node)).into_iter().filter(|(_, message, _)| matches!(message, Message::Hop(_)));
    assert_eq!(hops.count(), 0);
    node.on_resolved(NOW.after(2_600_000), "there", Ok(instance(3)));
    let hops = sent(&actions(&mut node));
    assert!(matches!(&hops[..], [(NodeId(3), Message::Hop(hop), _)] if hop.redone.is_none()), "{hops:?}");
}

#[test]
fn a_function_that_is_told_of_a_loss_and_goes_on_is_marked_too() {
    for (undelivered, marked) in [(Undelivered::Lost, true), (Undelivered::Unreachable, false)] {
        let mut node = node(Policy { hop_attempts_max: 1, instances_tried_max: 1, ..Policy::default() });
        let (chain, _, receipt) = handing(&mut node);
        node.on_undelivered(NOW.after(30_000), receipt, undelivered);
        let Some(Action::Resume { session, result: Err(why), .. }) = actions(&mut node).pop() else { panic!("told") };
        assert_eq!(why.unknown, marked);
        node.learn("there", instance(3));
        node.on_turn(NOW.after(30_000), session, calling(vec![call(1, "there")]), 1);
        node.on_suspended(NOW.after(30_000), session, Ok((Bytes::from_static(b"state"), None)), 1);
        let hops = sent(&actions(&mut node)).into_iter().filter_map(|(_, message, _)| match message {
            Message::Hop(hop) => Some(hop.redone),
            _ => None,
        });
        let redone = marked.then(|| Redone { key: key(chain, 1), age_us: 230_000 });
        assert_eq!(hops.collect::<Vec<_>>(), [redone], "{undelivered:?}");
    }
}

#[test]
fn a_first_time_that_comes_after_the_second_is_refused() {
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
        // Before the step that was done again both ways are one.
        (branched(1, root), true),
        (hop(2, 3), true),
    ] {
        let mut node = serving("plain");
        let second = Hop { redone: Some(Redone { key: hop(1, 1).key, age_us: AGE_US }), ..*hop(1, 2) };
        assert!(does(&mut node, Box::new(second)));
        let what = format!("{:?}", first.key);
        let first = Hop { attempt: 1, ..*first };
        assert_eq!(does(&mut node, Box::new(first)), may, "{what}");
    }
}

#[test]
fn a_hop_that_was_taken_while_another_instance_was_looked_for_can_go_out_again() {
    let mut node = node(Policy::default());
    let (chain, _, receipt) = handing(&mut node);
    node.on_undelivered(NOW, receipt, Undelivered::Unreachable);
    node.on_message(NOW, &node_ref(2), Message::Accepted(key(chain, 1)));
    actions(&mut node);
    // Silence: the origin sends it on its way again.
    node.on_timeout(NOW.after(6_000_001));
    let again = sent(&actions(&mut node));
    assert!(again.iter().any(|(to, message, _)| *to == NodeId(2) && matches!(message, Message::Hop(_))), "{again:?}");
}
