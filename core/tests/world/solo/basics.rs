//! Handing off, calls, functions and answers.

use std::{sync::mpsc, thread, time::Duration};

use bytes::Bytes;
use catena_core::{Action, GuestCall, Policy, Replied, SessionId, Time, Turn, Undelivered};
use catena_wire::{Budget, ChainId, Exception, Fault, Hop, Message, NodeId, Outcome, Value, names};

use super::*;

#[test]
pub(crate) fn only_the_node_that_was_asked_may_accept_or_refuse_a_hop() {
    let mut node = node(Policy::default());
    let (chain, ..) = handing_off(&mut node);
    let why = Exception::new("No", Fault::Node, "");
    node.on_message(NOW, &node_ref(3), Message::Accepted(key(chain, 1)));
    node.on_message(NOW, &node_ref(3), Message::Refused(key(chain, 1), why));
    node.on_message(NOW, &node_ref(2), Message::Accepted(key(chain, 2)));
    assert!(actions(&mut node).is_empty() && node.load().0 == 1, "still responsible");
    node.on_message(NOW, &node_ref(2), Message::Accepted(key(chain, 1)));
    assert_eq!(node.load().0, 0);
}

#[test]
fn a_refusal_that_comes_after_the_acceptance_changes_nothing() {
    let mut node = node(Policy::default());
    let (chain, ..) = handing_off(&mut node);
    node.on_message(NOW, &node_ref(2), Message::Accepted(key(chain, 1)));
    node.on_message(NOW, &node_ref(2), Message::Refused(key(chain, 1), Exception::new("No", Fault::Node, "")));
    node.on_message(NOW, &node_ref(2), Message::Accepted(key(chain, 1)));
    assert!(actions(&mut node).is_empty() && node.load().0 == 0);
}

#[test]
fn only_the_node_that_was_asked_may_answer_a_call() {
    let mut node = node(Policy::default());
    node.call(NOW, "there", "f", Value::null(), Budget::new(1_000_000, 1), None);
    let (_, message, _) = sent(&actions(&mut node)).pop().unwrap();
    let Message::Call { id, .. } = message else { panic!("a call goes out") };
    node.on_message(NOW, &node_ref(3), Message::Return(id, Outcome::Done(Value::null()), Brought::default()));
    assert!(actions(&mut node).is_empty());
    node.on_message(NOW, &node_ref(2), Message::Return(id, Outcome::Done(Value::null()), Brought::default()));
    assert!(matches!(actions(&mut node)[..], [Action::CallDone(..)]));
}

#[test]
fn news_of_an_earlier_sending_is_not_taken_for_news_of_this_one() {
    let mut node = node(Policy::default());
    let (_, session, first) = handing_off(&mut node);
    node.on_link_lost(NOW, NodeId(2), false);
    let (.., second) = sent(&actions(&mut node)).pop().unwrap();
    node.on_undelivered(NOW, first.clone(), Undelivered::Lost);
    assert!(actions(&mut node).is_empty(), "the second sending is on its way");
    node.on_undelivered(NOW, second, Undelivered::Unreachable);
    assert!(resumed(&actions(&mut node)));

    // The next hop of the same stay at this node.
    node.learn("there", instance(2));
    node.on_turn(NOW, session, calling(vec![call(1, "there")]), 1);
    node.on_suspended(NOW, session, Ok((Bytes::new(), None)), 1);
    actions(&mut node);
    node.on_undelivered(NOW, first, Undelivered::Unreachable);
    assert!(actions(&mut node).is_empty(), "that was about the hop before");
}

#[test]
fn a_chain_seen_at_a_later_step_is_no_longer_kept_by_its_sender() {
    let mut node = node(Policy::default());
    let (chain, ..) = handing_off(&mut node);
    node.on_message(NOW, &node_ref(3), Message::Heartbeat(key(chain, 2), (*node_ref(3)).clone(), Vec::new()));
    assert_eq!(node.load().0, 0);

    let (chain, ..) = handing_off(&mut node);
    let mut back = hop(0, 2);
    (back.key, back.header) = (key(chain, 2), header(1));
    node.on_message(NOW, &node_ref(2), Message::Hop(back));
    assert_eq!(node.load().0, 1, "the chain that came back, and not the hop that led to it");
}

#[test]
pub(crate) fn a_later_step_of_another_chain_or_branch_accepts_no_hop() {
    let mut node = node(Policy::default());
    let (chain, ..) = handing_off(&mut node);
    let beat = |key| Message::Heartbeat(key, (*node_ref(2)).clone(), Vec::new());
    let others = [
        StepKey { branch: Branch::root().child(1).unwrap(), ..key(chain, 2) },
        key(ChainId { number: chain.number ^ 1, ..chain }, 2),
        key(ChainId { origin: NodeId(2), ..chain }, 2),
    ];
    for other in others {
        node.on_message(NOW, &node_ref(2), beat(other.clone()));
        assert_eq!(node.load().0, 1, "{other:?}");
    }
    node.on_message(NOW, &node_ref(2), beat(key(chain, 2)));
    assert_eq!(node.load().0, 0);
}

#[test]
fn a_nodes_own_signs_of_life_release_no_hop() {
    let mut node = node(Policy { accept_timeout_us: 60_000_000, ..Policy::default() });
    handing_off(&mut node);
    node.on_timeout(NOW.after(3_100_000));
    assert_eq!(node.load().0, 1);
}

#[test]
fn a_step_that_was_refused_stays_refused() {
    let mut node = node(Policy { services_running_max: 1, ..Policy::default() });
    node.on_message(NOW, &node_ref(2), Message::Hop(hop(1, 1)));
    let ticket = ticket_of(&actions(&mut node)).unwrap();
    node.on_message(NOW, &node_ref(2), Message::Hop(hop(2, 1)));
    assert!(matches!(sent(&actions(&mut node))[..], [(_, Message::Refused(..), _)]));
    node.on_service_done(NOW, ticket, value(), 1);
    actions(&mut node);
    node.on_message(NOW, &node_ref(2), Message::Hop(hop(2, 1)));
    assert!(matches!(sent(&actions(&mut node))[..], [(_, Message::Refused(..), _)]), "though there is room now");
}

#[test]
fn a_lost_tail_of_a_repeated_hop_does_not_end_the_chain() {
    let mut node = node(Policy::default());
    arrived(&mut node, hop(1, 1));
    let repeated = node.on_hop_head(NOW, &node_ref(2), hop(1, 1));
    node.on_tail(NOW, &repeated, None);
    assert!(sent(&actions(&mut node)).iter().all(|(_, message, _)| matches!(message, Message::Accepted(_))));
    assert_eq!(node.load().0, 1);
}

#[test]
fn a_tail_may_come_with_any_sending_of_its_hop() {
    for whole in [false, true] {
        let mut node = node(Policy::default());
        let key = node.on_hop_head(NOW, &node_ref(2), hop(1, 1));
        let ticket = ticket_of(&actions(&mut node)).unwrap();
        node.on_service_done(NOW, ticket, value(), 1);
        if whole {
            node.on_message(NOW, &node_ref(2), Message::Hop(hop(1, 1)));
        } else {
            node.on_hop_head(NOW, &node_ref(2), hop(1, 1));
            node.on_tail(NOW, &key, None);
            assert_eq!(node.load().0, 1, "the other is still on its way");
            node.on_tail(NOW, &key, Some(tail()));
        }
        let actions = actions(&mut node);
        assert!(resumed(&actions) && ticket_of(&actions).is_none(), "goes on, and the service function ran once");
    }
}

#[test]
fn a_chain_waits_for_its_function_even_if_all_else_was_there_before() {
    let mut node = node(Policy::default());
    let key = node.on_hop_head(NOW, &node_ref(2), hop(1, 1));
    let ticket = ticket_of(&actions(&mut node)).unwrap();
    node.on_service_done(NOW, ticket, value(), 1);
    node.on_tail(NOW, &key, Some(tail()));
    let asked = without_code(&mut node);
    assert!(sent(&asked).iter().any(|sent| matches!(sent, (NodeId(2), Message::WantCode(_), _))), "{asked:?}");
    node.on_message(NOW, &node_ref(2), Message::Code(CODE, Bytes::new()));
    node.on_code_stored(NOW, CODE, Ok(()));
    assert!(resumed(&actions(&mut node)));
}

#[test]
fn a_lost_link_is_not_held_against_the_next_source_of_a_function() {
    let mut node = node(Policy::default());
    node.set_repository(node_ref(5));
    node.on_message(NOW, &node_ref(2), Message::Hop(hop(1, 1)));
    let (to, _, receipt) = sent(&without_code(&mut node)).pop().unwrap();
    assert_eq!(to, NodeId(5));
    node.on_link_lost(NOW, NodeId(5), false);
    assert!(matches!(sent(&actions(&mut node))[..], [(NodeId(2), Message::WantCode(_), _)]));
    node.on_undelivered(NOW, receipt, Undelivered::Lost);
    assert!(actions(&mut node).is_empty() && node.load().0 == 1, "the hop before has been asked");
}

#[test]
fn what_was_asked_over_a_link_that_crossed_another_goes_on_while_that_lasts() {
    let mut node = node(Policy::default());
    let (service, function) = ("here".to_owned(), "f".to_owned());
    let (params, budget) = (Value::null(), Budget::new(1_000_000, 1));
    let (key, credentials, duplicate) = (None, None, None);
    let call = Message::Call { id: 1, service, function, params, budget, key, credentials, duplicate, age_us: 0 };
    node.on_message(NOW, &node_ref(2), call);
    let ticket = ticket_of(&actions(&mut node)).unwrap();
    node.on_link_lost(NOW, NodeId(2), true);
    assert!(actions(&mut node).is_empty(), "whoever asked hears the answer");
    node.on_link_lost(NOW, NodeId(2), false);
    assert!(matches!(actions(&mut node)[..], [Action::CancelService(cancelled)] if cancelled == ticket));
}

#[test]
fn a_step_of_a_chain_cannot_answer_to_another_origin() {
    let mut node = node(Policy::default());
    let mut forged = hop(1, 1);
    forged.header = header(8);
    node.on_message(NOW, &node_ref(2), Message::Hop(forged));
    let refused = sent(&actions(&mut node));
    assert!(matches!(&refused[..], [(_, Message::Refused(_, why), _)] if why.name == names::PROTOCOL), "{refused:?}");
}

#[test]
fn counters_at_their_end_do_not_overflow() {
    let mut node = node(Policy::default());
    let mut last = hop(1, u32::MAX - 1);
    last.emitted = u32::MAX;
    let session = arrived(&mut node, last);
    let emits = vec![Value::null(), Value::null()];
    let calls = vec![call(0, "here"), call(1, "here")];
    node.on_turn(NOW, session, Ok(Turn { emits, calls, ..Turn::default() }), u64::MAX);
    actions(&mut node);
    for step in [0, u32::MAX] {
        node.on_message(NOW, &node_ref(2), Message::Hop(hop(u64::from(step) + 2, step)));
        assert!(matches!(sent(&actions(&mut node))[..], [(_, Message::Refused(..), _)]));
    }
}

#[test]
fn a_peers_budget_is_narrowed_for_its_service_functions_too() {
    let mut node = node(Policy { budget_max: Budget::new(5_000, 3), ..Policy::default() });
    let budget = Budget::new(u64::MAX, u32::MAX);
    node.on_message(NOW, &node_ref(2), plain_call(1, budget));
    node.on_message(NOW, &node_ref(2), Message::Hop(Box::new(Hop { budget, ..*hop(1, 1) })));
    let given = |action| if let Action::RunService { budget, .. } = action { Some(budget) } else { None };
    let budgets: Vec<_> = actions(&mut node).into_iter().filter_map(given).collect();
    assert!(budgets.iter().all(|budget| budget.time_left_us() == 5_000 && budget.hops_left() <= 3), "{budgets:?}");
    assert_eq!(budgets.len(), 2);
}

#[test]
fn a_call_with_no_time_left_is_not_run() {
    let mut node = node(Policy::default());
    node.on_message(NOW, &node_ref(2), plain_call(1, Budget::new(0, 1)));
    let answer = sent(&actions(&mut node));
    assert!(
        matches!(&answer[..], [(_, Message::Return(1, Outcome::Threw(why), _), _)] if why.name == names::DEADLINE_EXCEEDED)
    );
}

#[test]
pub(crate) fn the_next_answer_in_order_finds_room_when_all_the_room_is_taken() {
    let mut node = node(Policy { partials_held_max: 2, ..Policy::default() });
    let (chain, ..) = handing_off(&mut node);
    let partial = |number| Message::Partial { key: key(chain, 1), number, value: Value::encode(&number), to: 0 };
    for number in [1, 2, 3, 0] {
        node.on_message(NOW, &node_ref(2), partial(number));
    }
    let delivered =
        actions(&mut node).into_iter().filter(|a| matches!(a, Action::Reply(_, Replied::Partial(_)))).count();
    assert_eq!(delivered, 3, "0, 1 and 2; 3 lay too far ahead");
}

#[test]
pub(crate) fn what_is_held_back_is_weighed_as_well_as_counted() {
    let value = Value::encode(&"x".repeat(1_000));
    let mut node = node(Policy { partials_held_bytes_max: 3_000, ..Policy::default() });
    let (chain, ..) = handing_off(&mut node);
    let kept = (1..10).filter(|number| {
        let partial = Message::Partial { key: key(chain, 1), number: *number, value: value.clone(), to: 0 };
        node.on_message(NOW, &node_ref(2), partial);
        let sent = sent(&actions(&mut node));
        sent.iter().any(|(_, message, _)| matches!(message, Message::Received(..)))
    });
    assert_eq!(kept.count(), 3, "the sender keeps the others");
}

#[test]
pub(crate) fn branches_are_heard_of_only_as_far_as_there_is_room() {
    let mut node = node(Policy::default());
    let (chain, ..) = handing_off(&mut node);
    node.on_message(NOW, &node_ref(2), Message::Accepted(key(chain, 1)));
    let mut beat = |branch: &Branch, step, at, open| {
        let key = StepKey { branch: branch.clone(), ..key(chain, step) };
        node.on_message(NOW, &node_ref(at), Message::Heartbeat(key, (*node_ref(at)).clone(), open));
    };
    let root = Branch::root();
    let child = |number| root.child(number).unwrap();
    let grandchild = child(1).child(1).unwrap();
    beat(&root, 1, 2, (1..=4_095).map(child).collect());
    beat(&child(4_095), 2, 3, Vec::new());
    beat(&child(1), 2, 2, vec![grandchild.clone()]);
    beat(&grandchild, 3, 4, Vec::new());
    beat(&root, 4, 2, (1..=4_095).map(child).collect());
    node.cancel(NOW, chain);
    let cancels = sent(&actions(&mut node)).into_iter().filter(|(_, message, _)| matches!(message, Message::Cancel(_)));
    let told: Vec<_> = cancels.map(|(to, ..)| to).collect();
    assert_eq!(told, [NodeId(2), NodeId(3)], "4 says that it has one more");
}

#[test]
fn a_foreign_chain_of_the_same_number_is_not_forgotten() {
    let mut node = node(Policy::default());
    let (chain, ..) = handing_off(&mut node);
    node.forget(NOW, ChainId { origin: NodeId(99), number: chain.number });
    node.on_message(NOW, &node_ref(2), Message::End(Box::new(end(key(chain, 1), None))));
    assert!(actions(&mut node).iter().any(|action| matches!(action, Action::Reply(_, Replied::End { .. }))));
}

#[test]
fn calls_numbered_alike_do_not_confuse_a_chain() {
    let mut node = node(Policy::default());
    let (_, session) = begun(&mut node);
    node.on_turn(NOW, session, calling(vec![call(5, "there"), call(5, "there")]), 1);
    let calls = sent(&actions(&mut node));
    assert!(calls.len() == 2 && calls.iter().all(|(_, message, _)| matches!(message, Message::Call { .. })));
    node.on_message(NOW, &node_ref(2), Message::Return(1, Outcome::Done(Value::null()), Brought::default()));
    node.on_message(NOW, &node_ref(2), Message::Return(2, Outcome::Done(Value::null()), Brought::default()));
    let settled = actions(&mut node).iter().filter(|action| matches!(action, Action::Settle { .. })).count();
    assert_eq!(settled, 1, "one number, one result");
}

#[test]
fn results_are_handed_in_one_at_a_time_and_none_is_taken_for_a_standstill() {
    let mut node = node(Policy::default());
    let (_, session) = begun(&mut node);
    node.on_turn(NOW, session, calling(vec![call(0, "there"), call(1, "there")]), 1);
    actions(&mut node);
    for id in [1, 2] {
        node.on_message(NOW, &node_ref(2), Message::Return(id, Outcome::Done(Value::null()), Brought::default()));
    }
    assert!(matches!(actions(&mut node)[..], [Action::Settle { call: 0, .. }]));
    node.on_turn(NOW, session, calling(Vec::new()), 1);
    assert!(matches!(actions(&mut node)[..], [Action::Settle { call: 1, .. }]));
}

#[test]
fn a_full_table_of_names_does_not_make_a_call_go_round_in_circles() {
    let mut node = node(Policy { names_max: 1, ..Policy::default() });
    node.call(NOW, "elsewhere", "f", Value::null(), Budget::new(1_000_000, 1), None);
    assert!(matches!(actions(&mut node)[..], [Action::Resolve { .. }]));
    node.on_resolved(NOW, LookupId(1), Ok(instance(3)));
    assert!(matches!(sent(&actions(&mut node))[..], [(NodeId(3), Message::Call { .. }, _)]));
}

#[test]
fn a_call_ends_at_its_deadline_although_its_name_is_still_looked_up() {
    let mut node = node(Policy::default());
    node.call(NOW, "elsewhere", "f", Value::null(), Budget::new(1_000_000, 1), None);
    let asked = actions(&mut node);
    let [Action::Resolve { lookup, .. }] = asked[..] else { panic!("{asked:?}") };
    node.on_timeout(NOW.after(1_000_000));
    let ended = actions(&mut node);
    let late = |why: &Exception| why.name == names::DEADLINE_EXCEEDED && !why.unknown;
    assert!(ended.iter().any(|action| matches!(action, Action::CallDone(_, Err(why)) if late(why))), "{ended:?}");
    assert!(ended.contains(&Action::AbandonLookup(lookup)) && node.is_idle(), "{ended:?}");
}

#[test]
fn a_name_that_only_a_stopped_chain_needed_is_not_looked_up_any_more() {
    let mut node = node(Policy::default());
    let (chain, session) = begun(&mut node);
    node.on_turn(NOW, session, calling(vec![call(0, "nowhere")]), 1);
    let asked = actions(&mut node);
    let [Action::Resolve { lookup, .. }] = asked[..] else { panic!("{asked:?}") };
    node.cancel(NOW, chain);
    let stopped = actions(&mut node);
    assert!(stopped.iter().any(|action| matches!(action, Action::AbandonLookup(id) if *id == lookup)), "{stopped:?}");
    assert!(node.is_idle());
}

#[test]
fn what_waits_for_a_name_is_bounded() {
    let mut node = node(Policy { calls_waiting_max: 2, ..Policy::default() });
    for _ in 0..3 {
        node.call(NOW, "elsewhere", "f", Value::null(), Budget::new(1_000_000, 1), None);
    }
    let refused = actions(&mut node);
    assert!(
        matches!(&refused[..], [Action::Resolve { .. }, Action::CallDone(_, Err(why))] if why.name == names::OVERLOADED)
    );
}

#[test]
fn local_service_functions_are_bounded_whoever_calls_them() {
    let mut node = node(Policy { services_running_max: 1, ..Policy::default() });
    for _ in 0..2 {
        node.call(NOW, "here", "f", Value::null(), Budget::new(1_000_000, 1), None);
    }
    let refused = actions(&mut node);
    assert!(
        matches!(&refused[..], [Action::RunService { .. }, Action::CallDone(_, Err(why))] if why.name == names::OVERLOADED)
    );
}

#[test]
fn a_turn_that_nobody_waits_for_changes_nothing() {
    let mut node = node(Policy::default());
    let (_, session, _) = handing_off(&mut node);
    node.on_turn(NOW, session, calling(vec![call(9, "here")]), 1);
    node.on_turn(NOW, session, Err(Exception::new("Late", Fault::Guest, "")), 1);
    node.on_turn(NOW, SessionId(77), calling(vec![call(9, "here")]), 1);
    assert!(actions(&mut node).is_empty() && node.load() == (1, 0, 0));
}

#[test]
fn timers_of_no_length_let_go() {
    const TIMES: [Time; 3] = [NOW, NOW.after(1), NOW.after(60_000_000)];
    let policy = Policy {
        heartbeat_interval_us: 0,
        heartbeat_timeout_us: 0,
        accept_timeout_us: 0,
        code_fetch_timeout_us: 0,
        step_record_ttl_us: 0,
        ..Policy::default()
    };
    let mut node = node(policy);
    handing_off(&mut node);
    node.on_message(NOW, &node_ref(2), Message::Hop(hop(1, 1)));
    without_code(&mut node);
    let (tell, rests) = mpsc::sync_channel(TIMES.len());
    // On a thread of its own: a timer that is due for ever would keep the node from coming back.
    thread::spawn(move || {
        for at in TIMES {
            // What one timer sets off may be due at once, as often as something is tried.
            for _ in 0..20 {
                node.on_timeout(at);
                without_code(&mut node);
            }
            let _ = tell.send(node.next_timeout().is_none_or(|next| next > at));
        }
    });
    for _ in TIMES {
        assert_eq!(rests.recv_timeout(Duration::from_secs(20)), Ok(true), "a timer is due for ever");
    }
}

#[test]
fn a_step_is_forgotten_after_a_while_and_not_before() {
    let policy = Policy { step_record_ttl_us: 1_000_000, link_silence_us_max: 100_000, ..Policy::default() };
    let mut node = node(policy);
    let session = arrived(&mut node, hop(1, 1));
    let end = Turn { end: Some(Ok(Value::null())), ..Turn::default() };
    node.on_turn(NOW, session, Ok(end), 1);
    actions(&mut node);
    let again = |node: &mut Node, at: Time, age_us: u64| {
        node.on_message(at, &node_ref(2), Message::Hop(Box::new(Hop { age_us, ..*hop(1, 1) })));
        let actions = actions(node);
        assert!(ticket_of(&actions).is_none(), "it never runs twice");
        sent(&actions).into_iter().find_map(|(_, message, _)| match message {
            Message::End(_) => Some(None),
            Message::Refused(_, why) => Some(Some((why.name, why.unknown))),
            _ => None,
        })
    };
    assert_eq!(again(&mut node, NOW.after(900_000), 900_000), Some(None), "its end goes out again");
    // A node that was stopped for an hour remembers what it knew.
    let mut at = NOW.after(3_600_000_000);
    assert_eq!(again(&mut node, at, 900_000), Some(None));
    for _ in 0..4 {
        at = at.after(500_000);
        node.on_timeout(at);
    }
    actions(&mut node);
    assert_eq!(again(&mut node, at, 2_000_000), Some(Some((names::NODE_LOST.into(), true))), "forgotten is not new");
}

#[test]
fn a_hop_that_is_sent_again_is_new_where_it_cannot_have_been_forgotten() {
    let policy = Policy { step_records_max: 4, ..Policy::default() };
    let mut node = node(policy);
    let runs = |node: &mut Node, from: u64, number: u64, age_us: u64| {
        let hop = Hop { age_us, ..*hop(number, 1) };
        node.on_message(NOW, &node_ref(from), Message::Hop(Box::new(hop)));
        ticket_of(&actions(node)).is_some()
    };
    assert!(runs(&mut node, 2, 1, 500_000), "its first sending did not come");
    for number in 10..30 {
        // A stranger's hops are refused, and take all the room that there is.
        let nobody = Hop { function: "nobody".into(), ..*hop(number, 1) };
        node.on_message(NOW, &node_ref(7), Message::Hop(Box::new(nobody)));
    }
    actions(&mut node);
    assert!(runs(&mut node, 2, 2, 500_000), "a stranger's refusals make nobody else's steps forgotten");
    assert!(!runs(&mut node, 7, 3, 500_000), "but his own");
    assert!(runs(&mut node, 7, 4, 0), "what is sent for the first time is new");
}

#[test]
fn an_exception_that_a_function_catches_says_where_it_happened() {
    let mut node = node(Policy::default());
    let (_, session) = begun(&mut node);
    let unknown = GuestCall { function: "g".into(), ..call(0, "here") };
    node.on_turn(NOW, session, calling(vec![unknown]), 1);
    let settled = actions(&mut node);
    let [Action::Settle { result: Err(why), .. }] = &settled[..] else { panic!("{settled:?}") };
    assert_eq!((why.name.as_str(), why.step), (names::UNKNOWN_FUNCTION, 1));
    assert_eq!(why.path, ["n1"]);
}

#[test]
fn a_chain_that_moves_makes_room_before_the_next_begins() {
    let mut node = node(Policy::default());
    let mut begin = || node.run(NOW, number(), CODE, Value::null(), Plan::new(Budget::new(60_000_000, 100))).unwrap();
    for _ in 0..3 {
        begin();
    }
    let Some(Action::Begin { session: first, .. }) = node.poll_action() else { panic!("a chain begins") };
    node.on_turn(NOW, first, calling(vec![call(0, "there")]), 1);
    let next = node.poll_action();
    assert!(matches!(next, Some(Action::Suspend { session, .. }) if session == first), "{next:?}");
}
