//! What a chain's end says of the steps before it: the step that could not be made, and uncertainty that is not dropped.

use catena_core::{Action, GuestAsk, GuestSplit, Replied};
use catena_wire::{Fault, Frame, Message, RightEnd, names};

use super::*;

fn unknown() -> Exception {
    Exception::new(names::NODE_LOST, Fault::Network, "").outcome_unknown()
}

fn throws(name: &str) -> Result<Turn, Exception> {
    let why = Exception::new(name, Fault::Guest, "of its own");
    Ok(Turn { end: Some(Err(why)), ..Turn::default() })
}

/// How the chain ended, as it is told to an origin elsewhere.
fn told(node: &mut Node) -> Outcome {
    let ends = sent(&actions(node)).into_iter().find_map(|(_, message, _)| match message {
        Message::End(end) => Some(end.outcome),
        _ => None,
    });
    ends.expect("it has ended")
}

fn is_unknown(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Threw(why) if why.unknown)
}

/// A chain that has come here, and whose service function failed so.
fn came(node: &mut Node, hop: Box<Hop>, why: Exception) -> SessionId {
    node.on_message(NOW, &node_ref(2), Message::Hop(hop));
    let ticket = ticket_of(&actions(node)).unwrap();
    node.on_service_done(NOW, ticket, Err(why), 1);
    let Some(Action::Resume { session, .. }) = actions(node).pop() else { panic!("it goes on") };
    session
}

#[test]
fn a_function_that_catches_an_uncertain_failure_and_throws_its_own_stays_uncertain() {
    for uncertain in [true, false] {
        let mut node = node(Policy::default());
        let why = if uncertain { unknown() } else { Exception::new("Refused", Fault::Service, "") };
        let session = came(&mut node, hop(1, 1), why);
        node.on_turn(NOW, session, throws("Mine"), 1);
        let end = told(&mut node);
        assert_eq!(is_unknown(&end), uncertain, "{end:?}");
        assert!(matches!(end, Outcome::Threw(why) if why.name == "Mine"));
    }
}

/// A call that may be answered many times, as the function of this session makes it: the key of the right to answer it.
fn asked(node: &mut Node, session: SessionId) -> StepKey {
    let asks = vec![GuestAsk { number: number(), call: call(0, "there") }];
    node.on_turn(NOW, session, Ok(Turn { asks, ..Turn::default() }), 1);
    let asked = sent(&actions(node)).into_iter().find_map(|(_, message, _)| match message {
        Message::Ask { right, .. } => Some(right.key),
        _ => None,
    });
    asked.expect("it is asked")
}

fn right_end(key: StepKey, threw: Exception) -> Message {
    Message::RightEnd(Box::new(RightEnd { key, replies: 0, delegated: Vec::new(), threw: Some(threw), late: false }))
}

#[test]
pub(crate) fn a_function_that_misses_replies_and_throws_its_own_is_as_uncertain_as_their_call() {
    for uncertain in [true, false] {
        let mut node = node(Policy::default());
        let session = arrived(&mut node, hop(1, 1));
        let key = asked(&mut node, session);
        let why = if uncertain { unknown() } else { Exception::new("Refused", Fault::Service, "") };
        node.on_message(NOW, &node_ref(2), right_end(key, why));
        assert!(matches!(actions(&mut node).last(), Some(Action::Settle { call: 0, result: Ok(_), .. })));
        node.on_turn(NOW, session, throws("Mine"), 1);
        assert_eq!(is_unknown(&told(&mut node)), uncertain);
    }
}

#[test]
fn uncertainty_travels_with_the_chain() {
    let mut first = node(Policy::default());
    let session = came(&mut first, hop(1, 1), unknown());
    first.on_turn(NOW, session, calling(vec![call(0, "there")]), 1);
    first.on_suspended(NOW, session, Ok((Bytes::from_static(b"state"), None)), 1);
    let on = sent(&actions(&mut first)).into_iter().find_map(|(_, message, _)| match message {
        Message::Hop(hop) => Some(hop),
        _ => None,
    });
    let on = Hop { service: "here".into(), ..*on.unwrap() };
    assert!(on.uncertain);
    let mut second = node(Policy::default());
    let session = arrived(&mut second, Box::new(on));
    second.on_turn(NOW, session, throws("Later"), 1);
    assert!(is_unknown(&told(&mut second)));
}

#[test]
fn a_function_that_answers_has_dealt_with_its_uncertainty() {
    let mut node = node(Policy::default());
    let session = came(&mut node, hop(1, 1), unknown());
    node.on_turn(NOW, session, Ok(Turn { end: Some(Ok(Value::null())), ..Turn::default() }), 1);
    assert_eq!(told(&mut node), Outcome::Done(Value::null()));
}

fn frame(uncertain: bool) -> Frame {
    Frame {
        code: CODE,
        call: 0,
        step: 1,
        emitted: 0,
        creator: (*node_ref(5)).clone(),
        service: "s".into(),
        catch: None,
        hears: false,
        limits: StepLimits::UNCHANGED,
        continuation_bytes: 0,
        uncertain,
        continuation: Bytes::new(),
    }
}

/// The result that the enclosing chain is handed when its sub-chain, told of an uncertain failure or not, has ended like this.
fn handed_up(node: &mut Node, around: bool, within: bool, end: Result<Turn, Exception>) -> (SessionId, bool) {
    let hop = Box::new(Hop { stack: vec![frame(around)], uncertain: within, ..*hop(1, 2) });
    let session = arrived(node, hop);
    node.on_turn(NOW, session, end, 1);
    let resumed = actions(node).into_iter().find_map(|action| match action {
        Action::Resume { session, result, .. } => Some((session, matches!(result, Err(why) if why.unknown))),
        _ => None,
    });
    resumed.expect("the enclosing chain goes on")
}

#[test]
fn each_chain_on_the_stack_has_uncertainty_of_its_own() {
    // The sub-chain's failure is uncertain if its own calls are; what is around it is uncertain if it was, or is told so.
    let answers = || Ok(Turn { end: Some(Ok(Value::null())), ..Turn::default() });
    let cases = [
        (false, true, throws("Sub"), true, true),
        (true, false, throws("Sub"), false, true),
        (false, false, throws("Sub"), false, false),
        (false, true, answers(), false, false),
        (true, true, answers(), false, true),
    ];
    for (around, within, end, told_so, in_the_end) in cases {
        let mut node = node(Policy::default());
        let case = format!("{around} {within} {end:?}");
        let (session, unknown) = handed_up(&mut node, around, within, end);
        assert_eq!(unknown, told_so, "{case}");
        node.on_turn(NOW, session, throws("Outer"), 1);
        assert_eq!(is_unknown(&told(&mut node)), in_the_end, "{case}");
    }
}

#[test]
pub(crate) fn uncertainty_of_a_branch_is_its_parents_once_that_is_told() {
    let mut node = node(Policy::default());
    let (chain, session) = begun(&mut node);
    let splits = vec![catena_core::GuestSplit { call: 0, count: 2, at: None, line: 0, column: 0 }];
    node.on_turn(NOW, session, Ok(Turn { splits, ..Turn::default() }), 1);
    node.on_suspended(NOW, session, Ok((Bytes::new(), None)), 1);
    let branches: Vec<_> = actions(&mut node)
        .into_iter()
        .filter_map(|action| if let Action::Branch { session, .. } = action { Some(session) } else { None })
        .collect();
    node.on_turn(NOW, branches[0], Err(unknown()), 1);
    node.on_turn(NOW, branches[1], Ok(Turn { end: Some(Ok(Value::null())), ..Turn::default() }), 1);
    let Some(Action::Resume { session, .. }) = actions(&mut node).pop() else { panic!("the parent goes on") };
    node.on_turn(NOW, session, throws("Merged"), 1);
    let ended = actions(&mut node).into_iter().find_map(|action| match action {
        Action::Reply(of, Replied::End { outcome, .. }) if of == chain => Some(outcome),
        _ => None,
    });
    assert!(is_unknown(&ended.unwrap()));
}

/// How a chain of this node ends that has too few hops.
fn out_of_hops(hops: u32, turn: Turn) -> Exception {
    let mut node = node(Policy::default());
    let chain = node.run(NOW, number(), CODE, Value::null(), Plan::new(Budget::new(60_000_000, hops))).unwrap();
    let Some(Action::Begin { session, .. }) = actions(&mut node).pop() else { panic!("a chain begins") };
    node.on_turn(NOW, session, Ok(turn), 1);
    let ended = actions(&mut node).into_iter().find_map(|action| match action {
        Action::Reply(of, Replied::End { outcome: Outcome::Threw(why), .. }) if of == chain => Some(why),
        _ => None,
    });
    ended.expect("it has ended")
}

#[test]
fn the_step_that_a_chain_has_no_hops_for_is_named() {
    let moves = Turn { calls: vec![call(0, "there")], ..Turn::default() };
    let beside = Turn { calls: vec![call(0, "there"), call(1, "there")], ..Turn::default() };
    let splits = vec![catena_core::GuestSplit { call: 0, count: 2, at: None, line: 0, column: 0 }];
    let splits = Turn { splits, ..Turn::default() };
    for turn in [moves, beside, splits] {
        let why = out_of_hops(0, turn);
        assert_eq!((why.name.as_str(), why.step, why.unknown), (names::HOP_BUDGET_EXCEEDED, 1, false), "{why:?}");
    }
}

#[test]
fn calls_beside_the_one_that_there_are_no_hops_for_stop_so_that_whether_they_took_effect_is_unknown() {
    let calls = || vec![call(0, "there"), call(1, "there")];
    let beside = Turn { calls: calls(), ..Turn::default() };
    let splits = vec![catena_core::GuestSplit { call: 1, count: 2, at: None, line: 0, column: 0 }];
    let splits = Turn { calls: vec![call(0, "there")], splits, ..Turn::default() };
    let asks = calls().into_iter().map(|call| catena_core::GuestAsk { number: number(), call }).collect();
    let asks = Turn { asks, ..Turn::default() };
    // What it begins as it ends goes on.
    let ends = Turn { calls: calls(), end: Some(Ok(Value::null())), ..Turn::default() };
    for (turn, unknown) in [(beside, true), (splits, true), (asks, true), (ends, false)] {
        let why = out_of_hops(1, turn);
        assert_eq!((why.name.as_str(), why.step, why.unknown), (names::HOP_BUDGET_EXCEEDED, 2, unknown), "{why:?}");
    }
}

#[test]
fn the_end_names_the_last_step_whatever_the_exception_says() {
    let mut node = node(Policy::default());
    let (chain, ..) = handing_off(&mut node);
    let old = Exception::new("Refused", Fault::Service, "").at_step(1, &["n2".into()]);
    let late = End { outcome: Outcome::Threw(old), ..end(key(chain, 4), None) };
    node.on_message(NOW, &node_ref(2), Message::End(Box::new(late)));
    let ended = actions(&mut node).into_iter().find_map(|action| match action {
        Action::Reply(_, Replied::End { outcome: Outcome::Threw(why), last_step, .. }) => Some((why.step, last_step)),
        _ => None,
    });
    assert_eq!(ended, Some((1, 4)));
}

#[test]
fn a_limit_that_ends_a_function_stops_its_calls_so_that_whether_they_took_effect_is_unknown() {
    let broken = || Err(Exception::new(names::LIMIT_EXCEEDED, Fault::Guest, "for too long"));
    let too_many = || calling((4..8).map(|number| call(number, "there")).collect());
    for (beside, limit) in [(0, broken()), (2, broken()), (0, too_many()), (2, too_many())] {
        let mut node = node(Policy { calls_per_chain_max: 3, ..Policy::default() });
        node.learn("there", instance(3));
        let session = arrived(&mut node, hop(1, 1));
        if beside > 0 {
            node.on_turn(NOW, session, calling((0..beside).map(|number| call(number, "there")).collect()), 1);
            let out = sent(&actions(&mut node)).into_iter().find_map(|(_, message, _)| match message {
                Message::Call { id, .. } => Some(id),
                _ => None,
            });
            let done = Message::Return(out.unwrap(), Outcome::Done(Value::null()), Brought::default());
            node.on_message(NOW, &node_ref(3), done);
            actions(&mut node);
        }
        node.on_turn(NOW, session, limit, 1);
        let Outcome::Threw(why) = told(&mut node) else { panic!("it was ended") };
        assert_eq!((why.name.as_str(), why.unknown), (names::LIMIT_EXCEEDED, beside > 0), "{beside} beside");
    }
}

#[test]
fn a_limit_that_is_broken_while_calls_are_out_leaves_their_outcome_unknown() {
    for beside in [true, false] {
        let mut node = node(Policy::default());
        let session = came(&mut node, hop(1, 1), Exception::new("Refused", Fault::Service, ""));
        let split = GuestSplit { call: 4, count: 2, at: None, line: 7, column: 1 };
        let calls = if beside { vec![call(0, "there")] } else { Vec::new() };
        node.on_turn(NOW, session, Ok(Turn { calls, splits: vec![split], ..Turn::default() }), 1);
        actions(&mut node);
        let limit = Exception::new(names::LIMIT_EXCEEDED, Fault::Guest, "continuation_bytes_max");
        node.on_suspended(NOW, session, Err(limit), 1);
        assert_eq!(is_unknown(&told(&mut node)), beside);
    }
}

/// The function that was to catch it is not run: nothing is known that was not known before.
#[test]
fn an_exception_that_cannot_be_caught_is_told_as_it_was() {
    let frame = Frame { service: "here".into(), catch: Some("f".into()), hears: false, ..heard(1) };
    let mut node = node(Policy::default());
    let session = came(&mut node, Box::new(Hop { stack: vec![frame], ..*hop(1, 2) }), unknown());
    node.leave_service(NOW, "here", None);
    node.on_turn(NOW, session, Err(unknown()), 1);
    let asked = actions(&mut node).into_iter().find_map(|action| match action {
        Action::Resolve { lookup, .. } => Some(lookup),
        _ => None,
    });
    let nobody = Exception::new(names::UNKNOWN_SERVICE, Fault::Caller, "here is gone");
    node.on_resolved(NOW, asked.unwrap(), Err(nobody));
    let told = exception(&actions(&mut node));
    assert_eq!((told.name.as_str(), told.unknown), (names::NODE_LOST, true), "{told:?}");
    assert_eq!(told.path, ["n9", "n1"]);
}
