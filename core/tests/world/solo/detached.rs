//! Lines of the console of chains that run detached: what a call brings back beside its result.

use catena_core::{Action, GuestSplit, Policy, Replied};
use catena_wire::{ChainHeader, Fault, Hop, LogLine, Message, names};

use super::*;

/// A line as another chain had it: at its step 9, in its branch 1, as its eighth.
fn line(node: &str, text: &str) -> LogLine {
    let branch = Branch::root().child(1).unwrap();
    LogLine { step: 9, node: node.into(), at_us: 77, text: text.into(), branch, number: 7 }
}

fn texts(lines: &[LogLine]) -> Vec<&str> {
    lines.iter().map(|line| line.text.as_str()).collect()
}

fn saying(logs: &[&str], turn: Turn) -> Result<Turn, Exception> {
    Ok(Turn { logs: logs.iter().map(ToString::to_string).collect(), ..turn })
}

fn ending(result: Result<Value, Exception>) -> Turn {
    Turn { end: Some(result), ..Turn::default() }
}

fn answering(catch: Option<&str>) -> Result<Answer, Exception> {
    let catch = catch.map(ToString::to_string);
    Ok(Answer::Chain(SubChain { number: 77, code: CODE, input: Value::null(), catch, hears: false }))
}

/// The service function of the call that has come answers with a chain: the session in which that begins.
fn run_detached(node: &mut Node, catch: Option<&str>) -> SessionId {
    let ticket = ticket_of(&actions(node)).unwrap();
    node.on_service_done(NOW, ticket, answering(catch), 1);
    let begun = actions(node);
    let [Action::Begin { session, .. }] = &begun[..] else { panic!("{begun:?}") };
    *session
}

/// A call that a chain of node 9 makes from node 2.
fn keyed(id: u64) -> Message {
    let Message::Call { service, function, params, .. } = plain_call(id, Budget::new(1_000_000, 5)) else { panic!() };
    let (budget, key) = (Budget::new(1_000_000, 5), Some(hop(1, 3).key));
    Message::Call { id, service, function, params, budget, key, credentials: None, duplicate: None, age_us: 0 }
}

/// What this node answered, by the number of the call.
fn returned(node: &mut Node) -> Vec<(u64, Outcome, Vec<LogLine>)> {
    let returns = sent(&actions(node)).into_iter().filter_map(|(_, message, _)| match message {
        Message::Return(id, outcome, brought) => Some((id, outcome, brought.console)),
        _ => None,
    });
    returns.collect()
}

fn brings(lines: Vec<LogLine>) -> Brought {
    Brought { console: lines, ..Brought::default() }
}

/// Lines that the holder of a reply set has been shown.
fn shown(actions: &[Action]) -> Vec<LogLine> {
    let lines = actions.iter().filter_map(|action| match action {
        Action::Reply(_, Replied::Console(lines)) => Some(lines.clone()),
        _ => None,
    });
    lines.flatten().collect()
}

#[test]
fn what_a_chain_that_ran_detached_said_is_brought_with_its_result_each_time_that_is_asked_for() {
    for end in [Ok(Value::null()), Err(Exception::new("Oops", Fault::Guest, ""))] {
        let mut node = node(Policy::default());
        node.on_message(NOW, &node_ref(2), keyed(1));
        let session = run_detached(&mut node, None);
        node.on_turn(NOW, session, saying(&["one", "two"], ending(end.clone())), 1);
        node.on_message(NOW, &node_ref(3), keyed(8));
        let answers = returned(&mut node);
        assert_eq!(answers.len(), 2, "{answers:?}");
        for (_, outcome, lines) in answers {
            assert_eq!(matches!(outcome, Outcome::Done(_)), end.is_ok());
            assert_eq!(texts(&lines), ["one", "two"]);
            assert!(lines.iter().all(|line| line.node == "n1"), "{lines:?}");
        }
    }
}

#[test]
fn lines_of_a_chain_that_threw_come_with_what_its_creator_made_of_it() {
    let mut node = node(Policy::default());
    node.serve("here", ["f", "recover"], Kinds::default());
    node.on_message(NOW, &node_ref(2), keyed(1));
    let session = run_detached(&mut node, Some("recover"));
    node.on_turn(NOW, session, saying(&["one"], ending(Err(Exception::new("Oops", Fault::Guest, "")))), 1);
    // The function that catches it answers with a chain in turn.
    let session = run_detached(&mut node, None);
    node.on_turn(NOW, session, saying(&["two"], ending(Ok(Value::null()))), 1);
    let answers = returned(&mut node);
    let [(1, Outcome::Done(_), lines)] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(texts(lines), ["one", "two"]);
}

#[test]
fn a_call_brings_no_more_lines_than_a_chain_may_carry() {
    for (lines_max, kept) in [(3, 3), (1_000_000, catena_wire::CONSOLE_LINES_MAX - 1)] {
        let mut node = node(Policy { console_lines_max: lines_max, ..Policy::default() });
        node.on_message(NOW, &node_ref(2), keyed(1));
        let session = run_detached(&mut node, None);
        node.on_turn(NOW, session, saying(&["said"; 5_000], ending(Ok(Value::null()))), 1);
        let answers = returned(&mut node);
        let (_, _, lines) = &answers[0];
        assert_eq!(lines.len(), kept + 1);
        assert!(lines[kept].text.contains("left out") && lines[kept - 1].text == "said", "{:?}", lines[kept]);
    }
}

#[test]
fn a_chain_carries_no_more_lines_than_a_message_may_have() {
    let mut node = node(Policy { console_lines_max: 1_000_000, ..Policy::default() });
    let session = arrived(&mut node, hop(1, 1));
    let calls = vec![call(0, "there")];
    node.on_turn(NOW, session, saying(&["said"; 5_000], Turn { calls, ..Turn::default() }), 1);
    node.on_suspended(NOW, session, Ok((Bytes::from_static(b"state"), None)), 1);
    let carried = sent(&actions(&mut node)).into_iter().find_map(|(_, message, _)| match message {
        Message::Hop(hop) => Some(hop.console.len()),
        _ => None,
    });
    assert_eq!(carried, Some(catena_wire::CONSOLE_LINES_MAX));
}

#[test]
fn lines_that_a_call_brings_become_those_of_the_chain_that_made_it() {
    let mut node = node(Policy { console_lines_max: 6, ..Policy::default() });
    let (_, session) = begun(&mut node);
    let calls = vec![call(0, "there"), call(1, "there")];
    node.on_turn(NOW, session, saying(&["before"], Turn { calls, ..Turn::default() }), 1);
    let asked: Vec<_> = sent(&actions(&mut node))
        .into_iter()
        .filter_map(|(_, message, _)| if let Message::Call { id, .. } = message { Some(id) } else { None })
        .collect();
    let back = |id, lines| Message::Return(id, Outcome::Done(Value::null()), brings(lines));
    for _ in 0..2 {
        node.on_message(NOW, &node_ref(2), back(asked[1], vec![line("n7", "second"), line("n8", "too")]));
    }
    node.on_turn(NOW, session, saying(&["between"], Turn::default()), 1);
    node.on_message(NOW, &node_ref(2), back(asked[0], vec![line("n7", "first"); 4_000]));
    node.on_turn(NOW, session, saying(&["after"], ending(Ok(Value::null()))), 1);
    let lines = shown(&actions(&mut node));
    assert_eq!(texts(&lines)[..5], ["before", "second", "too", "between", "first"]);
    assert!(lines.len() == 7 && lines[6].text.contains("left out"), "bounded here as well: {lines:?}");
    assert!(lines.iter().zip(0..).all(|(line, number)| line.branch.is_root() && line.number == number), "{lines:?}");
    let steps: Vec<_> = lines.iter().map(|line| line.step).collect();
    assert_eq!(steps[..5], [0, 2, 2, 2, 1], "that of the call, or where it stands");
    assert_eq!((lines[2].node.as_str(), lines[2].at_us), ("n8", 77));
}

#[test]
fn what_was_brought_where_the_chain_came_for_it_goes_on_with_the_chain() {
    let mut node = node(Policy::default());
    let header = ChainHeader { compose: false, ..header(9) };
    let said = LogLine { branch: Branch::root(), number: 0, ..line("n9", "before") };
    node.on_message(NOW, &node_ref(2), Message::Hop(Box::new(Hop { header, console: vec![said], ..*hop(1, 1) })));
    let ticket = ticket_of(&actions(&mut node)).unwrap();
    node.on_service_done(NOW, ticket, answering(None), 1);
    let Some(Action::Begin { session, .. }) = actions(&mut node).pop() else { panic!("the sub-chain begins") };
    node.on_turn(NOW, session, saying(&["there"], ending(Ok(Value::null()))), 1);
    let Some(Action::Resume { session, .. }) = actions(&mut node).pop() else { panic!("it goes on") };
    node.on_turn(NOW, session, saying(&["after"], ending(Ok(Value::null()))), 1);
    let Some((_, Message::End(end), _)) = sent(&actions(&mut node)).pop() else { panic!("it has ended") };
    assert_eq!(texts(&end.console), ["before", "there", "after"]);
    let tags: Vec<_> = end.console.iter().map(|line| (line.step, line.number)).collect();
    assert_eq!(tags, [(9, 0), (1, 1), (1, 2)]);
}

#[test]
fn lines_that_come_while_branches_are_under_way_take_nothing_from_these() {
    let mut node = node(Policy::default());
    let (_, session) = begun(&mut node);
    let splits = vec![GuestSplit { call: 1, count: 1, at: None, line: 0, column: 0 }];
    let turn = Turn { calls: vec![call(0, "there")], splits, ..Turn::default() };
    node.on_turn(NOW, session, saying(&["before"], turn), 1);
    let asked = sent(&actions(&mut node));
    let [(_, Message::Call { id, .. }, _)] = &asked[..] else { panic!("{asked:?}") };
    node.on_suspended(NOW, session, Ok((Bytes::from_static(b"state"), None)), 1);
    let Some(Action::Branch { session: branch, .. }) = actions(&mut node).pop() else { panic!("a branch begins") };
    let back = Message::Return(*id, Outcome::Done(Value::null()), brings(vec![line("n7", "brought")]));
    node.on_message(NOW, &node_ref(2), back);
    node.on_turn(NOW, branch, saying(&["branch"], ending(Ok(Value::null()))), 1);
    let merged = actions(&mut node);
    let Some(Action::Resume { session, .. }) = merged.last() else { panic!("{merged:?}") };
    node.on_turn(NOW, *session, Ok(Turn::default()), 1);
    node.on_turn(NOW, *session, saying(&["after"], ending(Ok(Value::null()))), 1);
    assert_eq!(texts(&shown(&actions(&mut node))), ["before", "brought", "branch", "after"]);
}

#[test]
fn a_chain_for_which_there_is_no_room_leaves_its_call_unknown_whose_function_has_run() {
    let mut node = node(Policy { activations_max: 1, ..Policy::default() });
    arrived(&mut node, hop(2, 1));
    node.on_message(NOW, &node_ref(3), keyed(1));
    let ticket = ticket_of(&actions(&mut node)).unwrap();
    node.on_service_done(NOW, ticket, answering(None), 1);
    let answers = returned(&mut node);
    let is_unknown = |why: &Exception| why.name == names::OVERLOADED && why.unknown;
    assert!(matches!(&answers[..], [(1, Outcome::Threw(why), _)] if is_unknown(why)), "{answers:?}");
}

#[test]
fn a_call_that_finds_no_room_at_its_own_node_is_named_as_it_would_be_elsewhere() {
    let mut node = node(Policy { services_running_max: 0, ..Policy::default() });
    let (_, session) = begun(&mut node);
    node.on_turn(NOW, session, calling(vec![call(0, "here"), call(1, "there")]), 1);
    let why = exception(&actions(&mut node));
    assert_eq!((why.name.as_str(), why.target.as_deref(), why.step), (names::OVERLOADED, Some("here/f"), 1), "{why}");
}

/// The chain has come for the call, and may wait for what the sub-chain brings or let that take its place.
fn told_where_it_came(compose: bool, why: Exception) -> Exception {
    let mut node = node(Policy::default());
    let header = ChainHeader { compose, ..header(9) };
    node.on_message(NOW, &node_ref(2), Message::Hop(Box::new(Hop { header, ..*hop(1, 1) })));
    let sub_chain = run_detached(&mut node, None);
    node.on_turn(NOW, sub_chain, Ok(ending(Err(why))), 1);
    exception(&actions(&mut node))
}

/// The call is made beside another, at the chain's own node.
fn told_beside(why: Exception) -> Exception {
    let mut node = node(Policy::default());
    let (_, session) = begun(&mut node);
    node.on_turn(NOW, session, calling(vec![call(0, "here"), call(1, "there")]), 1);
    let sub_chain = run_detached(&mut node, None);
    node.on_turn(NOW, sub_chain, Ok(ending(Err(why))), 1);
    exception(&actions(&mut node))
}

/// The same, and another node serves it.
fn told_by_another(why: Exception) -> Exception {
    let mut server = node(Policy::default());
    server.on_message(NOW, &node_ref(4), keyed(1));
    let sub_chain = run_detached(&mut server, None);
    server.on_turn(NOW, sub_chain, Ok(ending(Err(why))), 1);
    let (_, outcome, _) = returned(&mut server).pop().unwrap();
    let mut node = Node::new((*node_ref(4)).clone(), Policy::default(), 0);
    node.learn("here", instance(1));
    let (_, session) = begun(&mut node);
    node.on_turn(NOW, session, calling(vec![call(0, "here"), call(1, "here")]), 1);
    let calls = sent(&actions(&mut node));
    let [(_, Message::Call { id, .. }, _), _] = &calls[..] else { panic!("{calls:?}") };
    node.on_message(NOW, &node_ref(1), Message::Return(*id, outcome, Brought::default()));
    exception(&actions(&mut node))
}

#[test]
fn what_a_sub_chain_throws_names_the_same_target_wherever_it_ran() {
    let own = Exception::new("Oops", Fault::Guest, "");
    let of_a_call = Exception::new("Refused", Fault::Service, "").calling("far", "g");
    for (why, target) in [(own, "here/"), (of_a_call, "far/g")] {
        let told = [
            told_where_it_came(true, why.clone()),
            told_where_it_came(false, why.clone()),
            told_beside(why.clone()),
            told_by_another(why),
        ];
        for why in told {
            assert_eq!((why.target.as_deref(), why.step), (Some(target), 1), "{why}");
        }
    }
}

#[test]
fn the_exception_of_a_chain_that_nobody_can_catch_is_the_calls() {
    let mut node = node(Policy::default());
    node.on_message(NOW, &node_ref(2), keyed(1));
    let session = run_detached(&mut node, Some("f"));
    node.leave_service(NOW, "here", None);
    let why = Exception::new(names::NODE_LOST, Fault::Network, "lost").outcome_unknown();
    node.on_turn(NOW, session, Err(why), 1);
    let asked = actions(&mut node).into_iter().find_map(|action| match action {
        Action::Resolve { lookup, .. } => Some(lookup),
        _ => None,
    });
    let nobody = Exception::new(names::UNKNOWN_SERVICE, Fault::Caller, "here is gone");
    node.on_resolved(NOW, asked.unwrap(), Err(nobody));
    let answers = returned(&mut node);
    let [(1, Outcome::Threw(why), _)] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!((why.name.as_str(), why.unknown), (names::NODE_LOST, true), "{why:?}");
}
