//! What is larger than a link carries, and is known so only when it is to go out.

use catena_core::{Action, Policy, Replied, Undelivered};
use catena_wire::{Fault, Listener, Merge, Message, Part, names};

use super::*;

const TOO_LARGE: Undelivered = Undelivered::TooLarge { bytes: 5_000, bytes_max: 4_000 };

/// Ends that go out: to whom, and by which receipt to speak of them.
fn ends(actions: &[Action]) -> Vec<(NodeId, End, Receipt)> {
    let ends = sent(actions).into_iter().filter_map(|(to, message, receipt)| match message {
        Message::End(end) => Some((to, *end, receipt)),
        _ => None,
    });
    ends.collect()
}

fn partials(actions: &[Action]) -> Vec<Receipt> {
    let partials = sent(actions).into_iter().filter_map(|(_, message, receipt)| match message {
        Message::Partial { .. } => Some(receipt),
        _ => None,
    });
    partials.collect()
}

fn cancels(actions: &[Action]) -> Vec<NodeId> {
    let cancels = sent(actions).into_iter().filter(|(_, message, _)| matches!(message, Message::Cancel(_)));
    cancels.map(|(to, ..)| to).collect()
}

fn ending(result: Result<Value, Exception>) -> Turn {
    Turn { end: Some(result), ..Turn::default() }
}

fn limit(end: &End) -> &Exception {
    let Outcome::Threw(why) = &end.outcome else { panic!("{end:?}") };
    assert_eq!(why.name, names::LIMIT_EXCEEDED);
    assert!(why.message.contains("5000 bytes") && why.message.contains("4000"), "{why}");
    why
}

#[test]
fn an_end_too_large_for_a_link_says_so_each_time_it_is_asked_for() {
    let failed = Exception::new("Oops", Fault::Guest, "with much to say");
    for (result, unknown) in [(Ok(Value::null()), true), (Err(failed.clone()), false)] {
        let mut node = node(Policy::default());
        let session = arrived(&mut node, hop(1, 1));
        node.on_turn(NOW, session, Ok(Turn { logs: vec!["said".into()], ..ending(result) }), 1);
        let (_, whole, receipt) = ends(&actions(&mut node)).remove(0);
        assert_eq!(whole.console.len(), 1);

        node.on_undelivered(NOW, receipt, TOO_LARGE);
        let (to, told, receipt) = ends(&actions(&mut node)).remove(0);
        assert_eq!((to, limit(&told).unknown), (NodeId(9), unknown), "{told:?}");
        assert_eq!((told.console.len(), told.emitted, &told.path), (0, whole.emitted, &whole.path));
        node.on_undelivered(NOW, receipt, TOO_LARGE);
        assert!(actions(&mut node).is_empty(), "and that is that");

        node.on_message(NOW, &node_ref(2), Message::Hop(hop(1, 1)));
        let again = actions(&mut node);
        assert_eq!(ends(&again)[0].1, told);
        assert!(ticket_of(&again).is_none());
    }
}

#[test]
fn an_end_too_large_to_be_remembered_is_remembered_by_what_is_said_of_it() {
    let mut node = node(Policy { step_payload_bytes_max: 3_000, ..Policy::default() });
    let session = arrived(&mut node, hop(1, 1));
    node.on_turn(NOW, session, Ok(ending(Ok(Value::encode(&"x".repeat(3_500))))), 1);
    let (_, _, receipt) = ends(&actions(&mut node)).remove(0);
    node.on_undelivered(NOW, receipt, TOO_LARGE);
    actions(&mut node);
    node.on_message(NOW, &node_ref(2), Message::Hop(hop(1, 1)));
    let again = actions(&mut node);
    assert!(ticket_of(&again).is_none(), "it does not run twice: {again:?}");
    limit(&ends(&again)[0].1);
}

/// A chain here that has emitted three answers, the last two of them too large, and what it did next.
fn emitting(next: Turn) -> (Node, SessionId, Vec<Receipt>) {
    let mut node = node(Policy::default());
    let session = arrived(&mut node, hop(1, 1));
    node.on_turn(NOW, session, Ok(Turn { emits: vec![Value::null(); 3], ..next }), 1);
    let receipts = partials(&actions(&mut node));
    (node, session, receipts[1..].to_vec())
}

/// It is stopped here, and its origin told so, once and whenever it is asked for again.
fn is_cut(node: &mut Node, receipts: Vec<Receipt>) -> Vec<Action> {
    receipts.into_iter().for_each(|receipt| node.on_undelivered(NOW, receipt, TOO_LARGE));
    let said = actions(node);
    let told = ends(&said);
    let [(NodeId(9), end, _)] = &told[..] else { panic!("{told:?}") };
    assert!(end.cut && end.emitted == 1 && limit(end).unknown, "after the one that could be sent: {end:?}");
    assert_eq!(end.path, ["n9", "n1"]);
    assert_eq!(node.load(), (0, 0, 0));
    node.on_timeout(NOW.after(Policy::default().accept_timeout_us));
    assert_eq!(partials(&actions(node)).len(), 1, "the one that it counts goes out until it has arrived");
    node.on_message(NOW, &node_ref(2), Message::Hop(hop(1, 1)));
    let again = actions(node);
    assert_eq!(ends(&again)[0].1, *end);
    assert!(ticket_of(&again).is_none());
    said
}

#[test]
fn an_answer_too_large_for_a_link_ends_the_chain_where_it_is() {
    let (mut node, _, receipts) = emitting(Turn { calls: vec![call(0, "there"), call(1, "here")], ..Turn::default() });
    let said = is_cut(&mut node, receipts);
    assert!(said.iter().any(|action| matches!(action, Action::Discard(_))));
    assert!(sent(&said).iter().any(|(to, message, _)| *to == NodeId(2) && matches!(message, Message::Withdraw(_))));
}

#[test]
fn an_answer_too_large_for_a_link_ends_a_chain_that_has_gone_on() {
    for accepted in [false, true] {
        let (mut node, session, receipts) = emitting(Turn { calls: vec![call(0, "there")], ..Turn::default() });
        node.on_suspended(NOW, session, Ok((Bytes::from_static(b"state"), None)), 1);
        if accepted {
            node.on_message(NOW, &node_ref(2), Message::Accepted(StepKey { step: 2, ..hop(1, 1).key }));
        }
        actions(&mut node);
        let said = is_cut(&mut node, receipts);
        assert_eq!(cancels(&said), [NodeId(2)]);
        node.on_message(NOW, &node_ref(2), Message::Hop(hop(1, 3)));
        let refused = sent(&actions(&mut node));
        assert!(matches!(&refused[..], [(_, Message::Refused(_, why), _)] if why.name == names::CANCELLED));
    }
}

#[test]
fn an_answer_too_large_for_a_link_takes_the_place_of_the_end_that_counts_it() {
    let (mut node, _, receipts) = emitting(ending(Ok(Value::null())));
    is_cut(&mut node, receipts);
}

#[test]
fn an_answer_of_a_sub_chain_that_cannot_reach_its_creator_ends_the_whole() {
    let mut node = node(Policy::default());
    let session = arrived(&mut node, Box::new(Hop { stack: vec![heard(5)], ..*hop(1, 2) }));
    let turn = Turn { emits: vec![Value::null()], calls: vec![call(0, "there"), call(1, "there")], ..Turn::default() };
    node.on_turn(NOW, session, Ok(turn), 1);
    let receipt = partials(&actions(&mut node)).remove(0);
    node.on_undelivered(NOW, receipt, TOO_LARGE);
    let (to, end, _) = ends(&actions(&mut node)).remove(0);
    assert!(to == NodeId(9) && end.cut && end.emitted == 4, "after all of the origin's own: {end:?}");
}

/// Its end went to this very node, or to another than the answer: neither says how the origin is reached.
#[test]
fn an_answer_too_large_for_a_link_ends_the_whole_if_its_branch_has_ended() {
    let creator = Listener::Creator((*node_ref(6)).clone(), 1);
    for (host, listener) in [(1, Listener::Origin), (5, Listener::Origin), (5, creator)] {
        let mut node = node(Policy::default());
        let merge = Merge { host: (*node_ref(host)).clone(), at: hop(1, 1).key, listener };
        let branch = StepKey { branch: Branch::root().child(1).unwrap(), ..hop(1, 2).key };
        let session = arrived(&mut node, Box::new(Hop { key: branch.clone(), merge: Some(merge), ..*hop(1, 2) }));
        node.on_turn(NOW, session, Ok(Turn { emits: vec![Value::null()], ..ending(Ok(Value::null())) }), 1);
        let receipt = partials(&actions(&mut node)).remove(0);
        node.on_undelivered(NOW, receipt, TOO_LARGE);
        let said = actions(&mut node);
        let [(NodeId(9), end, _)] = &ends(&said)[..] else { panic!("{said:?}") };
        assert!(end.cut && end.emitted == 0 && limit(end).unknown, "{end:?}");
        assert_eq!(end.key.branch, branch.branch);
    }
}

fn partial(chain: ChainId, number: u32) -> Message {
    Message::Partial { key: key(chain, 1), number, value: Value::null(), to: 0 }
}

/// What the origin's reply set brings: how many answers, and the exception at its end.
fn replies(actions: &[Action]) -> (usize, Option<&Exception>) {
    let answers = actions.iter().filter(|action| matches!(action, Action::Reply(_, Replied::Partial(_)))).count();
    let end = actions.iter().find_map(|action| match action {
        Action::Reply(_, Replied::End { outcome: Outcome::Threw(why), .. }) => Some(why),
        _ => None,
    });
    (answers, end)
}

#[test]
fn a_set_that_is_cut_ends_after_the_answers_before_and_the_chain_is_stopped() {
    let mut node = node(Policy::default());
    let (chain, ..) = handing_off(&mut node);
    node.on_message(NOW, &node_ref(2), Message::Accepted(key(chain, 1)));
    let why = || Outcome::Threw(Exception::new(names::LIMIT_EXCEEDED, Fault::Guest, "5000 bytes, 4000"));
    node.on_message(NOW, &node_ref(2), Message::End(Box::new(End { emitted: 2, ..end(key(chain, 1), None) })));
    assert_eq!(replies(&actions(&mut node)), (0, None), "two are on their way");
    let cut = End { emitted: 1, outcome: why(), cut: true, ..end(key(chain, 1), None) };
    node.on_message(NOW, &node_ref(2), Message::End(Box::new(cut.clone())));
    let stopped = actions(&mut node);
    assert_eq!((replies(&stopped), cancels(&stopped)), ((0, None), vec![NodeId(2)]), "one is on its way");
    node.on_message(NOW, &node_ref(2), Message::Received(StepKey::first(chain), Part::Cancel(NodeId(2))));
    node.on_timeout(NOW.after(Policy::default().heartbeat_timeout_us));
    assert!(sent(&actions(&mut node)).iter().all(|(_, message, _)| !matches!(message, Message::Hop(_))));
    for message in [partial(chain, 1), partial(chain, 0), Message::End(Box::new(cut)), partial(chain, 2)] {
        node.on_message(NOW, &node_ref(2), message);
    }
    let ended = actions(&mut node);
    let (answers, end) = replies(&ended);
    assert_eq!((answers, end.map(|why| why.name.as_str())), (2, Some(names::LIMIT_EXCEEDED)), "{ended:?}");
    assert!(node.is_idle());
}

#[test]
fn a_branch_that_is_cut_ends_the_whole_chain() {
    let mut node = node(Policy::default());
    let (chain, ..) = handing_off(&mut node);
    node.on_message(NOW, &node_ref(2), Message::Accepted(key(chain, 1)));
    let branch = StepKey { branch: Branch::root().child(1).unwrap(), ..key(chain, 3) };
    let outcome = Outcome::Threw(Exception::new(names::LIMIT_EXCEEDED, Fault::Guest, ""));
    for (cut, ends) in [(false, false), (true, true)] {
        let end = End { outcome: outcome.clone(), cut, ..end(branch.clone(), None) };
        node.on_message(NOW, &node_ref(3), Message::End(Box::new(end)));
        let said = actions(&mut node);
        assert_eq!((replies(&said).1.is_some(), cancels(&said).contains(&NodeId(2))), (ends, ends));
    }
}

/// Each of two nodes had an answer that was too large, and counts the answers before its own: those of the later node never all arrive.
#[test]
fn of_two_ends_of_one_chain_that_was_cut_the_one_that_counts_fewer_answers_holds() {
    for counts in [[1, 0], [0, 1]] {
        let mut node = node(Policy::default());
        let (chain, ..) = handing_off(&mut node);
        for (emitted, from) in counts.into_iter().zip([2, 3]) {
            let outcome = Outcome::Threw(Exception::new(names::LIMIT_EXCEEDED, Fault::Guest, ""));
            let cut = End { emitted, outcome, cut: true, ..end(key(chain, 1), None) };
            node.on_message(NOW, &node_ref(from), Message::End(Box::new(cut)));
        }
        assert!(replies(&actions(&mut node)).1.is_some() && node.load().0 == 0, "{counts:?}");
    }
}
