//! Waits that end: clocks that jump, states that never come, deadlines; and the choice whether to move at all.

use catena_core::{Action, GuestSplit, Link, Policy, Replied, Undelivered};
use catena_wire::{Fault, Hop, Message, PossibleDuplicate, names};

use super::*;

fn ends(actions: &[Action]) -> Vec<Exception> {
    let replied = actions.iter().filter_map(|action| match action {
        Action::Reply(_, Replied::End { outcome: Outcome::Threw(why), .. }) => Some(why.clone()),
        _ => None,
    });
    let said = sent(actions).into_iter().filter_map(|(_, message, _)| match message {
        Message::End(end) => match end.outcome {
            Outcome::Threw(why) => Some(why),
            Outcome::Done(_) => None,
        },
        _ => None,
    });
    replied.chain(said).collect()
}

#[test]
fn a_clock_that_jumps_ends_every_wait_once() {
    for jump_us in [u64::MAX, u64::MAX - 1, 10_000_000_000] {
        let mut node = node(Policy::default());
        // Being handed off; waiting for a call; split; arrived with its function on its way; a plain call; a name.
        handing_off(&mut node);
        let (_, beside) = begun(&mut node);
        node.on_turn(NOW, beside, calling(vec![call(0, "there"), call(1, "nowhere")]), 1);
        let (_, split) = begun(&mut node);
        let splits = vec![GuestSplit { call: 0, count: 2, at: None, line: 0, column: 0 }];
        node.on_turn(NOW, split, Ok(Turn { splits, ..Turn::default() }), 1);
        node.on_suspended(NOW, split, Ok((Bytes::new(), None)), 1);
        node.on_message(NOW, &node_ref(2), Message::Hop(hop(1, 1)));
        let early = ends(&without_code(&mut node));
        assert!(early.is_empty(), "{early:?}");
        node.call(NOW, "there", "f", Value::null(), Budget::new(1_000_000, 1), None);
        let early = ends(&actions(&mut node));
        assert!(early.is_empty(), "{early:?}");

        let then = Time::from_us(jump_us);
        node.on_timeout(then);
        let late = actions(&mut node);
        let mine = late.iter().filter(|action| matches!(action, Action::Reply(_, Replied::End { .. }))).count();
        assert_eq!(mine, 3, "each chain of this node once: {late:?}");
        assert_eq!(late.iter().filter(|action| matches!(action, Action::CallDone(_, Err(_)))).count(), 1);
        node.on_timeout(then);
        assert!(ends(&actions(&mut node)).is_empty() && node.load() == (0, 0, 0), "{:?}", node.load());
    }
}

/// As after a stop of the process: no event takes as long as all of them.
#[test]
fn deadlines_of_very_many_calls_are_dealt_with_in_several_events() {
    const CALLS: usize = 3_000;
    let mut node = node(Policy::default());
    for _ in 0..CALLS {
        node.call(NOW, "there", "f", Value::null(), Budget::new(1_000, 1), None);
    }
    actions(&mut node);
    let late = NOW.after(1_000);
    let mut ended = || {
        node.on_timeout(late);
        let due = node.next_timeout().is_some_and(|at| at <= late);
        (actions(&mut node).iter().filter(|action| matches!(action, Action::CallDone(..))).count(), due)
    };
    let ((first, more), (rest, none)) = (ended(), ended());
    assert!(first < CALLS && more, "{first}");
    assert!(first + rest == CALLS && !none, "{rest}");
}

#[test]
fn a_clock_that_stands_or_goes_back_changes_nothing() {
    let mut node = node(Policy::default());
    handing_off(&mut node);
    for _ in 0..10 {
        node.on_timeout(NOW);
        node.on_timeout(Time::from_us(0));
    }
    assert!(actions(&mut node).is_empty() && node.load().0 == 1);
}

#[test]
pub(crate) fn a_hop_whose_state_never_comes_is_its_senders() {
    let mut node = node(Policy::default());
    let key = node.on_hop_head(NOW, &node_ref(2), hop(1, 1));
    let accepted = |node: &mut Node| {
        let said = sent(&actions(node));
        said.iter()
            .any(|(_, message, _)| matches!(message, Message::Accepted(_) | Message::End(_) | Message::Heartbeat(..)))
    };
    assert!(!accepted(&mut node), "not before its state is here");
    node.on_tail(NOW, &key, None);
    let patience_us = Policy::default().accept_timeout_us * u64::from(Policy::default().hop_attempts_max);
    node.on_timeout(NOW.after(patience_us - 1));
    assert_eq!(node.load().0, 1, "it may be sent again");
    node.on_timeout(NOW.after(patience_us));
    assert!(!accepted(&mut node) && node.load().0 == 0, "its origin is told nothing: the sender goes on");
    node.on_message(NOW, &node_ref(2), Message::Hop(hop(1, 1)));
    let said = sent(&actions(&mut node));
    assert!(matches!(&said[..], [(_, Message::Refused(_, why), _)] if why.unknown), "{said:?}");
}

#[test]
fn a_hop_whose_state_comes_with_its_repetition_goes_on() {
    let mut node = node(Policy::default());
    let key = node.on_hop_head(NOW, &node_ref(2), hop(1, 1));
    let ticket = ticket_of(&actions(&mut node)).unwrap();
    node.on_tail(NOW, &key, None);
    node.on_service_done(NOW, ticket, value(), 1);
    node.on_message(NOW, &node_ref(2), Message::Hop(hop(1, 1)));
    let actions = actions(&mut node);
    assert!(resumed(&actions) && ticket_of(&actions).is_none(), "its service function ran once");
    assert!(sent(&actions).iter().any(|(_, message, _)| matches!(message, Message::Accepted(_))));
}

/// Two nodes made the step before, and what they hand on is not the same call.
#[test]
fn a_head_is_completed_by_a_tail_of_its_own_copy_only() {
    let mut node = node(Policy::default());
    let first = node.on_hop_head(NOW, &node_ref(2), hop(1, 1));
    let ticket = ticket_of(&actions(&mut node)).unwrap();
    node.on_service_done(NOW, ticket, value(), 1);
    actions(&mut node);
    let key = hop(1, 1).key;
    let flagged = || Hop { duplicate: Some(PossibleDuplicate { since: key.clone(), way: 7 }), ..*hop(1, 1) };
    for (from, other) in [(3, *hop(1, 1)), (3, flagged()), (2, flagged())] {
        node.on_message(NOW, &node_ref(from), Message::Hop(Box::new(other.clone())));
        let copy = node.on_hop_head(NOW, &node_ref(from), Box::new(other));
        node.on_tail(NOW, &copy, Some(tail()));
        assert_eq!(actions(&mut node), []);
    }
    node.on_tail(NOW, &first, Some(tail()));
    let said = actions(&mut node);
    let [(to, Message::Accepted(_), _)] = &sent(&said)[..] else { panic!("{said:?}") };
    assert!(resumed(&said) && *to == NodeId(2));
}

#[test]
fn an_answer_and_an_end_are_sent_again_until_their_origin_has_them() {
    let mut node = node(Policy::default());
    let session = arrived(&mut node, hop(1, 1));
    let end = Some(Ok(Value::null()));
    node.on_turn(NOW, session, Ok(Turn { emits: vec![Value::null()], end, ..Turn::default() }), 1);
    let parts = |node: &mut Node| -> Vec<_> {
        let sent = sent(&actions(node)).into_iter();
        sent.filter_map(
            |(to, _, receipt)| if let Receipt::Part(key, part) = receipt { Some((to, key, part)) } else { None },
        )
        .collect()
    };
    let both = parts(&mut node);
    assert_eq!(both.len(), 2);
    let later = |seconds: u64| NOW.after(seconds * 1_000_000);
    node.on_timeout(later(3));
    assert_eq!(parts(&mut node), both, "nobody has said that they came");
    for (_, key, part) in &both {
        node.on_message(later(3), &node_ref(5), Message::Received(key.clone(), *part));
    }
    node.on_timeout(later(6));
    assert_eq!(parts(&mut node), both, "who it did not go to cannot have it");
    let (to, key, part) = &both[0];
    node.on_message(later(6), &node_ref(to.0), Message::Received(key.clone(), *part));
    node.on_timeout(later(9));
    assert_eq!(parts(&mut node), both[1..]);
    assert!(!node.is_idle());
}

#[test]
pub(crate) fn a_call_that_went_out_and_has_no_time_for_another_try_may_have_been_made() {
    let mut node = node(Policy::default());
    let (_, session) = begun(&mut node);
    node.on_turn(NOW, session, calling(vec![call(0, "there"), call(1, "there")]), 1);
    assert_eq!(sent(&actions(&mut node)).len(), 2);
    node.on_link_lost(NOW.after(60_000_000), NodeId(2), false);
    let told = actions(&mut node).into_iter().find_map(|action| match action {
        Action::Settle { result: Err(why), .. } => Some(why),
        _ => None,
    });
    assert!(told.as_ref().is_some_and(|why| why.unknown), "{told:?}");
}

#[test]
fn a_deadline_says_whether_the_outcome_is_known() {
    let later = NOW.after(60_000_000);
    let mut waiting = node(Policy::default());
    let session = arrived(&mut waiting, hop(1, 1));
    waiting.on_timeout(NOW.after(10_000_000));
    let ended = ends(&actions(&mut waiting));
    assert!(matches!(&ended[..], [why] if why.name == names::DEADLINE_EXCEEDED && !why.unknown), "{ended:?}");
    waiting.on_turn(later, session, calling(Vec::new()), 1);
    assert!(actions(&mut waiting).is_empty());

    let mut running = node(Policy::default());
    running.on_message(NOW, &node_ref(2), Message::Hop(hop(1, 1)));
    actions(&mut running);
    running.on_timeout(NOW.after(10_000_000));
    let ended = ends(&actions(&mut running));
    assert!(matches!(&ended[..], [why] if why.unknown), "its service function runs: {ended:?}");
}

#[test]
fn a_function_that_nobody_has_ends_its_chain_when_its_parents_states_are_there() {
    let mut node = node(Policy::default());
    let parent = catena_wire::Frame {
        code: Hash([8; 32]),
        call: 2,
        step: 1,
        emitted: 0,
        creator: (*node_ref(3)).clone(),
        service: "s".into(),
        catch: None,
        hears: false,
        limits: StepLimits::UNCHANGED,
        continuation_bytes: 6,
        uncertain: false,
        continuation: Bytes::new(),
    };
    let key = node.on_hop_head(NOW, &node_ref(2), Box::new(Hop { stack: vec![parent], ..*hop(1, 2) }));
    let ticket = ticket_of(&actions(&mut node)).unwrap();
    node.on_code_missing(NOW, SessionId(1), CODE);
    for from in [2, 3, 9] {
        node.on_message(NOW, &node_ref(from), Message::NoCode(CODE));
    }
    assert!(!resumed(&actions(&mut node)), "the parent's state is still on its way");
    node.on_tail(NOW, &key, Some(Tail { stacked: vec![Bytes::from_static(b"parent")], ..tail() }));
    let gone = actions(&mut node);
    let goes_on = gone.iter().any(|action| {
        matches!(action, Action::Resume { continuation, call: 2, result: Err(why), .. }
            if continuation.as_ref() == b"parent" && why.name == names::CODE_MISSING)
    });
    assert!(goes_on, "{gone:?}");
    let mut stopped = node.clone();
    stopped.on_message(NOW, &node_ref(9), Message::Cancel(hop(1, 2).key.chain));
    assert!(actions(&mut stopped).contains(&Action::CancelService(ticket)), "whoever stops the chain stops it as well");
    node.on_service_done(NOW, ticket, value(), 1);
    assert!(actions(&mut node).is_empty());
}

#[test]
fn an_adaptive_chain_moves_only_if_that_is_expected_to_be_quicker() {
    let moves = |link: Option<Link>| {
        let mut node = node(Policy::default());
        if let Some(link) = link {
            node.on_link_measured(NodeId(2), link);
        }
        let header = ChainHeader { mode: Mode::Adaptive, ..header(9) };
        let session = arrived(&mut node, Box::new(Hop { header, ..*hop(1, 1) }));
        node.on_turn(NOW, session, calling(vec![call(0, "there")]), 1);
        actions(&mut node).iter().any(|action| matches!(action, Action::Suspend { .. }))
    };
    assert!(moves(None), "of what is not known the best is hoped");
    assert!(moves(Some(Link { round_trip_us: 100_000, bytes_per_s: 10_000_000 })), "far, and wide enough");
    assert!(!moves(Some(Link { round_trip_us: 100, bytes_per_s: 100_000 })), "near, and too narrow for its state");
}

#[test]
fn what_a_call_was_is_known_when_it_could_not_be_sent() {
    let mut node = node(Policy::default());
    let (_, session) = begun(&mut node);
    node.on_turn(NOW, session, calling(vec![call(0, "there"), call(1, "there")]), 1);
    let receipts: Vec<_> = sent(&actions(&mut node)).into_iter().map(|(.., receipt)| receipt).collect();
    node.on_undelivered(NOW, receipts[0].clone(), Undelivered::Unreachable);
    assert!(avoids(&actions(&mut node), &[2]), "another instance may do it");
    node.on_resolved(NOW, LookupId(1), Err(Exception::new(names::UNKNOWN_SERVICE, Fault::Caller, "no other")));
    let settled = actions(&mut node);
    assert!(matches!(&settled[..], [Action::Settle { call: 0, result: Err(why), .. }] if !why.unknown), "{settled:?}");
}

#[test]
fn what_was_given_up_before_it_went_out_does_not_go() {
    let (there, other) = (NodeId(2), NodeId(3));
    let mut moved = node(Policy::default());
    let (.., hop) = handing_off(&mut moved);
    assert!(moved.is_to_go(there, &hop) && !moved.is_to_go(other, &hop));
    moved.on_undelivered(NOW, hop.clone(), Undelivered::Unreachable);
    assert!(!moved.is_to_go(there, &hop), "another instance is looked for");
    moved.on_resolved(NOW, LookupId(1), Ok(instance(3)));
    let (.., again) = sent(&actions(&mut moved)).pop().unwrap();
    assert!(moved.is_to_go(other, &again) && !moved.is_to_go(there, &hop), "another was found");

    let mut stopped = node(Policy::default());
    let (chain, _, hop) = handing_off(&mut stopped);
    assert!(stopped.is_to_go(there, &hop));
    stopped.cancel(NOW, chain);
    assert!(!stopped.is_to_go(there, &hop), "the chain is over");

    let mut calls = node(Policy::default());
    let budget = Budget::new(1_000_000, 1);
    let ids: Vec<_> = (0..2).map(|_| calls.call(NOW, "there", "f", Value::null(), budget, None)).collect();
    let receipts: Vec<_> = sent(&actions(&mut calls)).into_iter().map(|(.., receipt)| receipt).collect();
    assert!(receipts.iter().all(|receipt| calls.is_to_go(there, receipt) && !calls.is_to_go(other, receipt)));
    calls.withdraw(NOW, ids[0]);
    assert!(!calls.is_to_go(there, &receipts[0]) && calls.is_to_go(there, &receipts[1]), "one was withdrawn");
    calls.on_timeout(NOW.after(1_000_000));
    assert!(!calls.is_to_go(there, &receipts[1]), "there was no time for it");
    assert!(calls.is_to_go(there, &Receipt::None), "all else goes, such as the word that it was withdrawn");
}

fn avoids(actions: &[Action], nodes: &[u64]) -> bool {
    let nodes: Vec<_> = nodes.iter().copied().map(NodeId).collect();
    matches!(actions, [Action::Resolve { service, avoid, .. }] if service == "there" && *avoid == nodes)
}

/// What becomes of a call made beside another when its node is lost: all that follows, up to whether it is sent elsewhere.
fn lost_beside(kinds: Kinds, other: Instance) -> Vec<Action> {
    let mut node = node(Policy { hop_attempts_max: 1, ..Policy::default() });
    node.learn("there", Instance { kinds, ..instance(2) });
    let (_, session) = begun(&mut node);
    node.on_turn(NOW, session, calling(vec![call(0, "there"), call(1, "here")]), 1);
    let receipts: Vec<_> = sent(&actions(&mut node)).into_iter().map(|(.., receipt)| receipt).collect();
    node.on_undelivered(NOW, receipts[0].clone(), Undelivered::Lost);
    let asked = actions(&mut node);
    if !avoids(&asked, &[2]) {
        return asked;
    }
    node.on_resolved(NOW, LookupId(1), Ok(other));
    actions(&mut node)
}

#[test]
fn a_call_beside_fails_over_only_where_it_cannot_double_an_effect() {
    let again = || vec!["f".to_string()];
    let is_lost = |actions: &[Action]| matches!(actions, [Action::Settle { result: Err(why), .. }] if why.unknown);
    let goes_to = |actions: &[Action], id| sent(actions).iter().any(|(to, ..)| *to == NodeId(id));

    assert!(is_lost(&lost_beside(Kinds::default(), instance(3))), "it may have been done");
    let repeatable = Kinds { repeatable: again(), ..Kinds::default() };
    assert!(goes_to(&lost_beside(repeatable, instance(3)), 3), "it may be done twice");

    let durable = || Kinds { durable: again(), ..Kinds::default() };
    assert!(is_lost(&lost_beside(durable(), instance(3))), "another node does not have what this one wrote down");
    let restarted = Arc::new(NodeRef { id: NodeId(4), ..(*node_ref(2)).clone() });
    assert!(goes_to(&lost_beside(durable(), Instance { node: restarted, ..instance(2) }), 4), "the same one has");
}

#[test]
fn a_plain_call_that_was_lost_is_not_made_again_elsewhere() {
    let mut node = node(Policy::default());
    let kinds = Kinds { repeatable: vec!["f".into()], durable: vec!["f".into()], ..Kinds::default() };
    node.learn("there", Instance { kinds, ..instance(2) });
    node.call(NOW, "there", "f", Value::null(), Budget::new(10_000_000, 1), None);
    let (.., receipt) = sent(&actions(&mut node)).pop().unwrap();
    node.on_undelivered(NOW, receipt, Undelivered::Lost);
    let ended = actions(&mut node);
    assert!(
        matches!(&ended[..], [Action::CallDone(_, Err(why))] if why.unknown),
        "no step, no memory of it: {ended:?}"
    );
}

#[test]
fn hops_are_lent_to_calls_that_may_become_chains_and_come_back() {
    let mut node = node(Policy::default());
    let kinds = Kinds { chaining: vec!["f".into()], ..Kinds::default() };
    node.learn("chains", Instance { kinds, ..instance(2) });
    let (_, session) = begun(&mut node);
    let calls = vec![call(0, "chains"), call(1, "chains"), call(2, "there")];
    node.on_turn(NOW, session, calling(calls), 1);
    let lent: Vec<_> = sent(&actions(&mut node))
        .into_iter()
        .filter_map(|(_, message, _)| match message {
            Message::Call { id, budget, .. } => Some((id, budget.hops_left())),
            _ => None,
        })
        .collect();
    let hops: Vec<_> = lent.iter().map(|(_, hops)| *hops).collect();
    assert_eq!(
        hops,
        [12, 12, 0],
        "of 100: one for each call, half stays, and of the other half a part for each and one more"
    );
    // It says that it brings back more than it was lent.
    node.on_message(
        NOW,
        &node_ref(2),
        Message::Return(lent[0].0, Outcome::Done(Value::null()), Brought { hops_left: 1_000, ..Brought::default() }),
    );
    node.on_message(
        NOW,
        &node_ref(2),
        Message::Return(lent[1].0, Outcome::Done(Value::null()), Brought { hops_left: 6, ..Brought::default() }),
    );
    node.on_message(NOW, &node_ref(2), Message::Return(lent[2].0, Outcome::Done(Value::null()), Brought::default()));
    for _ in 0..2 {
        node.on_turn(NOW, session, calling(vec![]), 1);
    }
    actions(&mut node);
    node.on_turn(NOW, session, calling(vec![call(4, "chains"), call(5, "here")]), 1);
    let left = sent(&actions(&mut node)).into_iter().find_map(|(_, message, _)| match message {
        Message::Call { budget, .. } => Some(budget.hops_left()),
        _ => None,
    });
    // 100, less 3 calls before, the 6 that the second has spent, and these 2 calls.
    let left_then = 100 - 3 - 6 - 2;
    assert_eq!(left, Some((left_then - left_then / 2) / 3));
}

#[test]
fn a_proxy_that_hosts_no_chains_for_others_leaves_the_call_to_be_made_from_here() {
    let mut node = node(Policy::default());
    node.learn("there", Instance { proxy: Some(node_ref(3)), ..instance(2) });
    let (chain, session) = begun(&mut node);
    node.on_turn(NOW, session, calling(vec![call(0, "there")]), 1);
    node.on_suspended(NOW, session, Ok((Bytes::from_static(b"state"), None)), 1);
    assert!(sent(&actions(&mut node)).iter().any(|(to, ..)| *to == NodeId(3)), "to the proxy");
    let why = Exception::new(names::UNKNOWN_SERVICE, Fault::Caller, "n3 does not serve there");
    node.on_message(NOW, &node_ref(3), Message::Refused(key(chain, 1), why));
    let asked = actions(&mut node);
    assert!(matches!(asked.last(), Some(Action::Resolve { .. })), "it is looked up anew: {asked:?}");
    node.on_resolved(NOW, LookupId(1), Ok(instance(2)));
    let calls = sent(&actions(&mut node));
    assert!(matches!(&calls[..], [(NodeId(2), Message::Call { key: Some(_), .. }, _)]), "{calls:?}");
}
