//! A merge host, driven by hand.

use catena_core::{Action, GuestSplit, Policy, Replied, Undelivered};
use catena_wire::{Asked, BRANCHES_MAX, BranchCount, ChainId, Message, Part, Recording, Told, What, names};

use super::*;

fn splitting(call: u32, count: u32) -> Result<Turn, Exception> {
    let split = GuestSplit { call, count, at: None, line: 7, column: 1 };
    Ok(Turn { splits: vec![split], ..Turn::default() })
}

/// A chain that has split into two here; its branches' sessions.
fn split(node: &mut Node) -> (ChainId, Vec<SessionId>) {
    let (chain, session) = begun(node);
    node.on_turn(NOW, session, splitting(4, 2), 1);
    node.on_suspended(NOW, session, Ok((Bytes::from_static(b"state"), None)), 1);
    let begun = actions(node).into_iter().filter_map(|action| match action {
        Action::Branch { session, call: 4, .. } => Some(session),
        _ => None,
    });
    (chain, begun.collect())
}

fn branch_end(chain: ChainId, number: u16, at_step: u32) -> End {
    let key = StepKey { branch: Branch::root().child(number).unwrap(), ..key(chain, at_step + 1) };
    end(key, Some(self::key(chain, at_step)))
}

fn say(node: &mut Node, end: End) -> bool {
    node.on_message(NOW, &node_ref(2), Message::End(Box::new(end)));
    resumed(&actions(node))
}

#[test]
fn a_stale_or_forged_outcome_of_a_branch_is_dropped() {
    let mut node = node(Policy::default());
    let (chain, sessions) = split(&mut node);
    assert_eq!(sessions.len(), 2);
    let other = ChainId { origin: NodeId(9), ..chain };
    let nested = StepKey { branch: Branch::root().child(1).unwrap().child(1).unwrap(), ..key(chain, 2) };
    for (what, end) in [
        ("another split of the chain", branch_end(chain, 2, 5)),
        ("a branch that there never was", branch_end(chain, 3, 1)),
        ("a branch with no number", end(key(chain, 2), Some(key(chain, 1)))),
        ("another chain's branch, at its own split", branch_end(other, 2, 1)),
        ("another chain's branch, at this split", End { at: Some(key(chain, 1)), ..branch_end(other, 2, 1) }),
        ("a branch of a branch", end(nested, Some(key(chain, 1)))),
    ] {
        assert!(!say(&mut node, end), "{what}");
    }
    assert!(!say(&mut node, branch_end(chain, 2, 1)), "the first of two");
    assert!(!say(&mut node, branch_end(chain, 2, 1)), "the same once more");
    assert!(say(&mut node, branch_end(chain, 1, 1)), "the second");
    assert!(!say(&mut node, branch_end(chain, 1, 1)), "what comes when it is over");
}

#[test]
pub(crate) fn branches_that_find_no_room_when_they_begin_end_as_overloaded() {
    let mut node = node(Policy { activations_max: 3, ..Policy::default() });
    node.learn("merge", instance(3));
    let (chain, session) = begun(&mut node);
    // There is room for both when the split is asked for; then two chains come, while it is handed over.
    let split = GuestSplit { call: 4, count: 2, at: Some("merge".into()), line: 7, column: 1 };
    node.on_turn(NOW, session, Ok(Turn { splits: vec![split], ..Turn::default() }), 1);
    node.on_suspended(NOW, session, Ok((Bytes::from_static(b"state"), None)), 1);
    for number in [1, 2] {
        node.on_message(NOW, &node_ref(2), Message::Hop(hop(number, 1)));
    }
    actions(&mut node);
    node.on_message(NOW, &node_ref(3), Message::Accepted(key(chain, 1)));
    assert_eq!(node.load().0, 3, "the two that came, and one branch");
    let ended: Vec<_> = sent(&actions(&mut node))
        .into_iter()
        .filter_map(|(to, message, _)| if let Message::End(end) = message { Some((to, end.outcome)) } else { None })
        .collect();
    let overloaded = |why: &Exception| why.name == catena_wire::names::OVERLOADED && !why.unknown;
    assert!(matches!(&ended[..], [(NodeId(3), Outcome::Threw(why))] if overloaded(why)), "{ended:?}");
}

#[test]
fn no_branch_brings_back_more_hops_than_it_was_given() {
    let mut node = node(Policy::default());
    let (chain, session) = begun(&mut node);
    node.on_turn(NOW, session, splitting(4, 2), 1);
    node.on_suspended(NOW, session, Ok((Bytes::new(), None)), 1);
    actions(&mut node);
    for number in [1, 2] {
        let hops_left = u32::MAX;
        node.on_message(NOW, &node_ref(2), Message::End(Box::new(End { hops_left, ..branch_end(chain, number, 1) })));
    }
    assert!(resumed(&actions(&mut node)));
    node.on_turn(NOW, session, calling(vec![call(5, "there")]), 1);
    node.on_suspended(NOW, session, Ok((Bytes::new(), None)), 1);
    let hops = sent(&actions(&mut node));
    let [(_, Message::Hop(hop), _)] = &hops[..] else { panic!("{hops:?}") };
    assert_eq!(hop.budget.hops_left(), 98, "of a hundred, one for the split and one for this");
}

#[test]
fn a_result_that_comes_while_branches_are_under_way_is_handed_in_after_the_merge() {
    let mut node = node(Policy::default());
    let (chain, session) = begun(&mut node);
    let turn = Turn { calls: vec![call(0, "there")], ..splitting(4, 2).unwrap() };
    node.on_turn(NOW, session, Ok(turn), 1);
    let [(_, Message::Call { id, .. }, _)] = &sent(&actions(&mut node))[..] else { panic!("a call beside the split") };
    node.on_message(NOW, &node_ref(2), Message::Return(*id, Outcome::Done(Value::null()), Brought::default()));
    assert!(actions(&mut node).is_empty(), "its continuation is being taken");
    node.on_suspended(NOW, session, Ok((Bytes::new(), None)), 1);
    actions(&mut node);
    assert!(!say(&mut node, branch_end(chain, 1, 2)) && say(&mut node, branch_end(chain, 2, 2)));
    node.on_turn(NOW, session, Ok(Turn::default()), 1);
    assert!(matches!(actions(&mut node)[..], [Action::Settle { call: 0, .. }]));
}

/// What is small on the wire, and takes much memory.
#[test]
fn an_end_weighs_what_its_counts_and_its_recording_take() {
    const MANY: usize = 4_096;
    let end = branch_end(hop(1, 1).key.chain, 1, 1);
    let light = end.kept_bytes();
    let counts = vec![BranchCount { branch: Branch::root().child(1).unwrap(), emitted: 0 }; MANY];
    let counted = End { merged: counts, ..end.clone() }.kept_bytes();
    assert!(counted - light >= MANY * (size_of::<BranchCount>() + size_of::<u16>()), "{counted}");
    let (service, function, params) = (String::new(), String::new(), Value::null());
    let asked = Asked { call: 0, service, function, params, branches: 0, line: 0, column: 0, many: false };
    let told = Told { branch: Branch::root(), step: 1, depth: 0, what: What::Turned(vec![asked; MANY]) };
    let recorded = End { recording: Some(Recording(vec![told])), ..end }.kept_bytes();
    assert!(recorded - light >= MANY * size_of::<Asked>(), "{recorded}");
}

/// As many branches as this have answered, and merged into the first.
fn counts(many: usize) -> Vec<BranchCount> {
    let nested = |number| Branch::root().child(1).unwrap().child(number).unwrap();
    (1..=u16::try_from(many).unwrap()).map(|number| BranchCount { branch: nested(number), emitted: 1 }).collect()
}

#[test]
pub(crate) fn a_chain_whose_branches_answers_cannot_all_be_counted_is_cut_off_at_the_merge() {
    let mut node = node(Policy::default());
    let merges = Hop { branches: 2, splits: 2, ..*hop(1, 1) };
    let (chain, at) = (merges.key.chain, merges.key.clone());
    node.on_message(NOW, &node_ref(2), Message::Hop(Box::new(merges)));
    for (number, merged) in [(1, counts(BRANCHES_MAX - 1)), (2, Vec::new())] {
        actions(&mut node);
        let end = End { at: Some(at.clone()), emitted: 1, merged, ..branch_end(chain, number, 1) };
        node.on_message(NOW, &node_ref(2), Message::End(Box::new(end)));
    }
    let sent = sent(&actions(&mut node));
    let ends: Vec<_> = sent.iter().filter(|(_, message, _)| matches!(message, Message::End(_))).collect();
    let [(NodeId(9), Message::End(end), _)] = &ends[..] else { panic!("{sent:?}") };
    assert!(end.cut && end.at.is_none() && end.merged.is_empty() && end.emitted == 0);
    assert!(matches!(&end.outcome, Outcome::Threw(why) if why.name == names::LIMIT_EXCEEDED && why.unknown));
    assert_eq!(node.load().0, 0, "nothing is left of it");
}

/// At the origin, which is the merge host as well.
#[test]
fn a_chain_that_is_cut_off_waits_for_no_answers() {
    let mut node = node(Policy::default());
    let (chain, _) = split(&mut node);
    assert!(!say(&mut node, End { emitted: 1, merged: counts(BRANCHES_MAX - 1), ..branch_end(chain, 1, 1) }));
    node.on_message(NOW, &node_ref(2), Message::End(Box::new(End { emitted: 1, ..branch_end(chain, 2, 1) })));
    let ended = actions(&mut node).into_iter().find_map(|action| match action {
        Action::Reply(_, Replied::End { outcome: Outcome::Threw(why), .. }) => Some(why),
        _ => None,
    });
    assert!(ended.is_some_and(|why| why.name == names::LIMIT_EXCEEDED && why.unknown));
    assert!(node.is_idle());
}

/// As much as each branch has a copy of.
#[test]
fn a_split_is_refused_if_its_branches_would_carry_more_than_there_is_room_for() {
    const BYTES: usize = 10_000;
    let mut node = node(Policy { held_bytes_max: 10 * BYTES, ..Policy::default() });
    let credentials = Some(Value::encode(&"x".repeat(BYTES)));
    let session = arrived(&mut node, Box::new(Hop { header: ChainHeader { credentials, ..header(9) }, ..*hop(1, 1) }));
    node.on_turn(NOW, session, splitting(4, 9), 1);
    let refused = actions(&mut node);
    let [Action::Settle { call: 4, result: Err(why), .. }] = &refused[..] else { panic!("{refused:?}") };
    assert!(why.name == names::OVERLOADED && !why.unknown, "{why}");
    node.on_turn(NOW, session, splitting(5, 3), 1);
    assert!(matches!(actions(&mut node)[..], [Action::Suspend { .. }]));
}

/// Their answers go to the service that hears them.
#[test]
fn a_sub_chain_that_is_heard_splits_into_no_more_branches_than_can_be_counted() {
    for (splits, refused) in [(BRANCHES_MAX - 1, true), (BRANCHES_MAX - 2, false)] {
        let mut node = node(Policy::default());
        let splits = u16::try_from(splits).unwrap();
        let session = arrived(&mut node, Box::new(Hop { stack: vec![heard(5)], splits, ..*hop(1, 1) }));
        node.on_turn(NOW, session, splitting(4, 2), 1);
        let limit = |why: &Exception| why.name == names::LIMIT_EXCEEDED && !why.unknown;
        let told = actions(&mut node);
        assert_eq!(matches!(&told[..], [Action::Settle { result: Err(why), .. }] if limit(why)), refused, "{told:?}");
    }
}

#[test]
fn a_split_is_refused_if_answers_of_its_branches_could_not_be_counted() {
    let mut node = node(Policy::default());
    let (chain, session) = begun(&mut node);
    node.on_turn(NOW, session, splitting(4, 2), 1);
    node.on_suspended(NOW, session, Ok((Bytes::from_static(b"state"), None)), 1);
    actions(&mut node);
    let end = |number| End { hops_left: 10, ..branch_end(chain, number, 1) };
    let counted = End { emitted: 1, merged: counts(BRANCHES_MAX - 2), ..end(1) };
    assert!(!say(&mut node, counted) && say(&mut node, end(2)));
    node.on_turn(NOW, session, splitting(5, 2), 1);
    let refused = actions(&mut node);
    let [Action::Settle { call: 5, result: Err(why), .. }] = &refused[..] else { panic!("{refused:?}") };
    assert!(why.name == names::LIMIT_EXCEEDED && !why.unknown, "{why}");
    node.on_turn(NOW, session, splitting(6, 1), 1);
    assert!(matches!(actions(&mut node)[..], [Action::Suspend { .. }]), "there is room for one more");
}

/// Of the branches of a stranger's chain, before the state of their parent has come and after that.
#[test]
pub(crate) fn ends_of_branches_are_kept_only_where_there_is_room() {
    const BYTES: usize = 10_000;
    let merges = Hop { branches: 3, splits: 3, ..*hop(1, 1) };
    let heads = Hop { continuation: Bytes::new(), continuation_bytes: 5, ..merges.clone() };
    let (chain, at) = (merges.key.chain, merges.key.clone());
    let large = |number| {
        let outcome = Outcome::Done(Value::encode(&"x".repeat(BYTES)));
        End { outcome, at: Some(at.clone()), ..branch_end(chain, number, 1) }
    };
    let is_kept = |node: &mut Node, number| {
        node.on_message(NOW, &node_ref(3), Message::End(Box::new(large(number))));
        let told = |message: &Message| matches!(message, Message::Received(_, Part::End));
        sent(&actions(node)).iter().any(|(_, message, _)| told(message))
    };
    for early in [false, true] {
        let mut node = node(Policy::default());
        match early {
            true => drop(node.on_hop_head(NOW, &node_ref(2), Box::new(heads.clone()))),
            false => node.on_message(NOW, &node_ref(2), Message::Hop(Box::new(merges.clone()))),
        }
        actions(&mut node);
        let before = node.held_bytes();
        assert!(is_kept(&mut node, 1), "{early}");
        assert!((BYTES..2 * BYTES).contains(&(node.held_bytes() - before)), "{early}: it counts");
        node.set_memory_left(2 * BYTES);
        assert!(!is_kept(&mut node, 2), "{early}: there is no room");
        node.set_memory_left(usize::MAX);
        assert!(is_kept(&mut node, 2), "{early}: it comes again");
    }
    let mut node = node(Policy::default());
    node.on_message(NOW, &node_ref(2), Message::Hop(Box::new(Hop { branches: 257, splits: 257, ..*hop(1, 1) })));
    let refused = |message: &Message| matches!(message, Message::Refused(_, why) if why.name == names::LIMIT_EXCEEDED);
    assert!(
        sent(&actions(&mut node)).iter().any(|(_, message, _)| refused(message)),
        "more than a function may ask for"
    );
}

#[test]
fn the_branches_functions_are_fetched_again_if_the_shell_has_dropped_them() {
    let mut node = node(Policy::default());
    let session = arrived(&mut node, hop(1, 1));
    node.on_turn(NOW, session, splitting(4, 2), 1);
    actions(&mut node);
    node.on_suspended(NOW, session, Ok((Bytes::new(), None)), 1);
    let asked = without_code(&mut node);
    assert_eq!(sent(&asked).iter().filter(|(_, message, _)| matches!(message, Message::WantCode(_))).count(), 1);
    node.on_message(NOW, &node_ref(2), Message::Code(CODE, Bytes::new()));
    node.on_code_stored(NOW, CODE, Ok(()));
    let begun = actions(&mut node).iter().filter(|action| matches!(action, Action::Branch { .. })).count();
    assert_eq!(begun, 2);
}

/// A chain of node 9 that has split here, where its two branches merge.
fn merging() -> Node {
    let budget = Budget::new(600_000_000, 100);
    let mut node = node(Policy { budget_max: budget, ..Policy::default() });
    let session = arrived(&mut node, Box::new(Hop { budget, ..*hop(1, 1) }));
    let splits = vec![GuestSplit { call: 0, count: 2, at: None, line: 0, column: 0 }];
    node.on_turn(NOW, session, Ok(Turn { splits, ..Turn::default() }), 1);
    node.on_suspended(NOW, session, Ok((Bytes::from_static(b"state"), None)), 1);
    actions(&mut node);
    node
}

/// The signs of life at this time, if the merge host gives one: its own, and those of the branches.
fn beats(node: &mut Node, at: Time) -> Option<Vec<Receipt>> {
    node.on_timeout(at);
    let beats = sent(&actions(node)).into_iter().filter_map(|(_, message, receipt)| match message {
        Message::Heartbeat(key, _, open) => Some((key.branch.is_root() && !open.is_empty(), receipt)),
        _ => None,
    });
    let (parents, receipts): (Vec<_>, Vec<_>) = beats.unzip();
    parents.contains(&true).then_some(receipts)
}

#[test]
fn outcomes_whose_origin_is_gone_are_collected_after_a_minute() {
    for gone in [Undelivered::Unreachable, Undelivered::Lost] {
        let mut node = merging();
        let mut at = NOW;
        let mut rounds = 0;
        while let Some(receipts) = beats(&mut node, at.after(3_000_000)) {
            at = at.after(3_000_000);
            receipts.into_iter().for_each(|receipt| node.on_undelivered(at, receipt, gone));
            rounds += 1;
            assert!(rounds < 100, "it is kept for ever");
        }
        // The first fails at 3 s; a minute of failures later it is over.
        assert_eq!((rounds, node.load().0), (20, 0), "so are its branches: nobody can be told of them");
        // Whoever sends it once more is not told that nothing was done.
        node.on_message(at, &node_ref(2), Message::Hop(hop(1, 1)));
        let refused = sent(&actions(&mut node)).into_iter().find_map(|(_, message, _)| match message {
            Message::Refused(_, why) => Some(why.unknown),
            _ => None,
        });
        assert_eq!(refused, Some(true));
    }
}

#[test]
fn an_origin_that_is_reached_again_keeps_its_outcomes() {
    let mut node = merging();
    for count in 1..=100 {
        let at = NOW.after(3_000_000 * count);
        let receipts = beats(&mut node, at).expect("it is still there");
        // Three get through after every fifteen that do not.
        if count % 18 < 15 {
            receipts.into_iter().for_each(|receipt| node.on_undelivered(at, receipt, Undelivered::Lost));
        }
    }
}
