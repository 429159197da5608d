//! Other instances, and what is known of the first ones: what may have been done, and what may have been spent.

use catena_core::{Action, Policy, Undelivered};
use catena_wire::{Fault, Message, Relocation, ServiceEntry, names};

use super::*;

fn of_kind(id: u64, kinds: Kinds) -> Instance {
    Instance { kinds, ..instance(id) }
}

fn again() -> Kinds {
    Kinds { repeatable: vec!["f".into()], ..Kinds::default() }
}

/// The calls and hops among what was sent: to whom, with how many hops, and by which receipt to speak of them.
fn asked(actions: &[Action]) -> Vec<(u64, u32, Receipt)> {
    let asked = sent(actions).into_iter().filter_map(|(to, message, receipt)| match message {
        Message::Call { budget, .. } => Some((to.0, budget.hops_left(), receipt)),
        Message::Hop(hop) => Some((to.0, hop.budget.hops_left(), receipt)),
        _ => None,
    });
    asked.collect()
}

fn unreachable_there() -> Exception {
    Exception::new(names::NODE_UNREACHABLE, Fault::Network, "no other")
}

fn nobody() -> Result<Instance, Exception> {
    Err(Exception::new(names::UNKNOWN_SERVICE, Fault::Caller, "no other"))
}

#[test]
fn a_hop_that_may_have_been_done_at_the_second_instance_is_not_said_to_be_undone() {
    let mut node = node(Policy { hop_attempts_max: 1, ..Policy::default() });
    let (.., receipt) = handing_off(&mut node);
    node.on_undelivered(NOW, receipt, Undelivered::Unreachable);
    actions(&mut node);
    node.on_resolved(NOW, LookupId(1), Ok(instance(3)));
    let (to, _, receipt) = asked(&actions(&mut node)).pop().unwrap();
    assert_eq!(to, 3);
    node.on_undelivered(NOW, receipt, Undelivered::Lost);
    let why = exception(&actions(&mut node));
    assert_eq!((why.name.as_str(), why.unknown), (names::NODE_LOST, true), "{why}");
}

#[test]
fn a_call_that_may_have_been_done_at_the_second_instance_is_not_said_to_be_undone() {
    let mut node = node(Policy { hop_attempts_max: 1, ..Policy::default() });
    node.learn("there", of_kind(2, again()));
    let (_, session) = begun(&mut node);
    node.on_turn(NOW, session, calling(vec![call(0, "there"), call(1, "here")]), 1);
    let first = asked(&actions(&mut node)).remove(0).2;
    node.on_undelivered(NOW, first, Undelivered::Unreachable);
    actions(&mut node);
    node.on_resolved(NOW, LookupId(1), Ok(of_kind(3, again())));
    let second = asked(&actions(&mut node)).remove(0).2;
    node.on_undelivered(NOW, second, Undelivered::Lost);
    actions(&mut node);
    node.on_resolved(NOW, LookupId(2), nobody());
    let why = exception(&actions(&mut node));
    assert_eq!((why.name.as_str(), why.unknown), (names::NODE_LOST, true), "{why}");
}

#[test]
fn what_a_lost_instance_was_lent_is_not_lent_again() {
    let mut node = node(Policy { hop_attempts_max: 1, ..Policy::default() });
    let kinds = Kinds { chaining: vec!["f".into()], ..again() };
    node.learn("there", of_kind(2, kinds.clone()));
    let (_, session) = begun(&mut node);
    node.on_turn(NOW, session, calling(vec![call(0, "there"), call(1, "here")]), 1);
    let (mut lent, mut instance) = (0, 2);
    loop {
        let asked = asked(&actions(&mut node));
        let Some((to, hops, receipt)) = asked.into_iter().next() else { break };
        lent += hops;
        instance += 1;
        assert!(hops > 0 && to + 1 == instance);
        node.on_undelivered(NOW, receipt, Undelivered::Lost);
        actions(&mut node);
        node.on_resolved(NOW, LookupId(instance - 2), Ok(of_kind(instance, kinds.clone())));
    }
    assert_eq!(instance, 2 + 4, "so many were tried");
    assert!(lent <= 100 - 2, "{lent} of the chain's 100, two of which its calls took");
}

#[test]
fn hops_that_a_node_does_not_let_a_call_spend_come_back() {
    let mut node = node(Policy { budget_max: Budget::new(60_000_000, 5), ..Policy::default() });
    for fails in [false, true] {
        node.on_message(NOW, &node_ref(2), plain_call(7, Budget::new(1_000_000, 40)));
        let ticket = ticket_of(&actions(&mut node)).unwrap();
        let unknown = Exception::new(names::NODE_LOST, Fault::Network, "").outcome_unknown();
        node.on_service_done(NOW, ticket, if fails { Err(unknown) } else { value() }, 1);
        let sent = sent(&actions(&mut node));
        let Some((_, Message::Return(7, _, spent), _)) = sent.first() else { panic!("{sent:?}") };
        assert_eq!(spent.hops_left, if fails { 35 } else { 40 });
    }
}

#[test]
fn a_chain_on_its_own_that_throws_to_its_creator_for_ever_spends_its_hops() {
    let mut node = node(Policy { compose: false, ..Policy::default() });
    node.on_message(NOW, &node_ref(2), plain_call(7, Budget::new(1_000_000, 3)));
    let mut caught = 0;
    loop {
        let done = actions(&mut node);
        let Some(ticket) = ticket_of(&done) else {
            assert!(matches!(&sent(&done)[..], [(_, Message::Return(7, Outcome::Threw(_), _), _)]), "{done:?}");
            break;
        };
        caught += 1;
        assert!(caught < 100, "it goes on for ever");
        let sub = SubChain { number: 77, code: CODE, input: Value::null(), catch: Some("f".into()), hears: false };
        node.on_service_done(NOW, ticket, Ok(Answer::Chain(sub)), 1);
        let Some(Action::Begin { session, .. }) = actions(&mut node).pop() else { panic!("a chain begins") };
        node.on_turn(NOW, session, Err(Exception::new("Thrown", Fault::Guest, "")), 1);
    }
    assert_eq!(caught, 1 + 3);
}

#[test]
fn a_name_looked_up_for_another_does_not_end_the_search_for_an_instance() {
    let mut node = node(Policy::default());
    let (.., first) = handing_off(&mut node);
    let (.., second) = handing_off(&mut node);
    node.on_undelivered(NOW, first, Undelivered::Unreachable);
    node.on_resolved(NOW, LookupId(1), Ok(instance(3)));
    let first = asked(&actions(&mut node)).remove(0).2;
    // The second has tried 2, the first both: each asks for an instance other than those, and a third for any.
    node.on_undelivered(NOW, second, Undelivered::Unreachable);
    node.on_undelivered(NOW, first, Undelivered::Unreachable);
    node.call(NOW, "there", "f", Value::null(), Budget::new(1_000_000, 1), None);
    let to = |actions: Vec<Action>| asked(&actions).iter().map(|(to, ..)| *to).collect::<Vec<_>>();
    actions(&mut node);
    node.on_resolved(NOW, LookupId(3), Err(unreachable_there()));
    let told = exception(&actions(&mut node));
    assert_eq!((told.name.as_str(), told.unknown), (names::NODE_UNREACHABLE, false), "the first: {told}");
    node.on_resolved(NOW, LookupId(2), Ok(instance(3)));
    assert_eq!(to(actions(&mut node)), [3], "the second");
    node.on_resolved(NOW, LookupId(4), Ok(instance(2)));
    assert_eq!(to(actions(&mut node)), [2], "whoever avoids nobody is not told that there is nobody else");
    node.on_resolved(NOW, LookupId(5), Ok(instance(5)));
    assert!(actions(&mut node).is_empty());
}

#[test]
fn a_durable_function_behind_a_proxy_that_was_lost_is_not_asked_again() {
    let mut node = node(Policy { hop_attempts_max: 1, ..Policy::default() });
    let kinds = Kinds { durable: vec!["f".into()], ..Kinds::default() };
    node.learn("there", Instance { proxy: Some(node_ref(5)), ..of_kind(2, kinds) });
    let (.., receipt) = handing_off(&mut node);
    node.on_undelivered(NOW, receipt, Undelivered::Lost);
    let why = exception(&actions(&mut node));
    assert!(why.unknown, "which instance the proxy asked is forgotten: {why}");
}

/// While a service is moved from here nobody else may know of it: whoever calls it from here asks nobody, and is told with all others.
#[test]
fn a_service_that_moved_to_a_node_with_a_proxy_is_looked_up_since_its_proxy_is_only_named_by_its_address() {
    let mut node = node(Policy::default());
    node.learn("there", instance(2));
    node.call(NOW, "there", "f", Value::null(), Budget::new(1_000_000, 9), None);
    let sent_to = sent(&actions(&mut node));
    let [(NodeId(2), Message::Call { .. }, Receipt::Call(id))] = &sent_to[..] else { panic!("{sent_to:?}") };
    let (service, to) = ("there".to_string(), (*node_ref(3)).clone());
    let proxy = Some((*node_ref(0)).clone());
    let entry = ServiceEntry { service, functions: vec!["f".into()], node: to, kinds: Kinds::default(), proxy };
    node.on_message(NOW, &node_ref(2), Message::CallElsewhere(*id, Relocation::There(Box::new(entry)), false));
    let asked = actions(&mut node);
    assert!(matches!(asked[..], [Action::Resolve { .. }]), "{asked:?}");
}

#[test]
fn a_node_names_the_place_to_which_a_service_moved_for_as_long_as_its_policy_says() {
    let mut node = node(Policy { moved_ttl_us: 500_000, ..Policy::default() });
    let (service, to) = ("here".to_string(), (*node_ref(2)).clone());
    let there = ServiceEntry { service, functions: vec!["f".into()], node: to, kinds: Kinds::default(), proxy: None };
    node.leave_service(NOW, "here", None);
    node.service_moved(NOW, "here", Some(there), &[]);
    let mut told_after = |us| {
        node.on_timeout(NOW.after(us));
        node.on_message(NOW.after(us), &node_ref(3), plain_call(us, Budget::new(1_000_000, 9)));
        sent(&actions(&mut node)).swap_remove(0).1
    };
    let told = told_after(499_999);
    assert!(matches!(&told, Message::CallElsewhere(_, Relocation::There(_), false)), "{told:?}");
    // What is old is dropped twice a second.
    let told = told_after(1_000_000);
    assert!(matches!(&told, Message::CallElsewhere(_, Relocation::Unknown, false)), "{told:?}");
}

#[test]
fn chains_and_calls_of_a_node_that_moves_a_service_away_wait_for_it() {
    let mut node = node(Policy::default());
    node.leave_service(NOW, "here", Some(1_000_000));
    node.call(NOW, "here", "f", Value::null(), Budget::new(1_000_000, 9), None);
    assert!(actions(&mut node).is_empty(), "it waits");
    let (_, session) = begun(&mut node);
    node.on_turn(NOW, session, calling(vec![call(0, "here")]), 1);
    let waiting = actions(&mut node);
    assert!(!waiting.iter().any(|action| matches!(action, Action::Resolve { .. })), "{waiting:?}");
    let (service, to) = ("here".to_string(), (*node_ref(2)).clone());
    let there = ServiceEntry { service, functions: vec!["f".into()], node: to, kinds: Kinds::default(), proxy: None };
    node.service_moved(NOW, "here", Some(there), &[]);
    let told = actions(&mut node);
    assert!(matches!(sent(&told)[..], [(NodeId(2), Message::Call { .. }, _)]), "{told:?}");
    assert!(told.iter().any(|action| matches!(action, Action::Suspend { .. })), "the chain goes there: {told:?}");
}

/// The service came back to the node between the two sendings of a call: the first was turned away, the second is being done.
#[test]
pub(crate) fn that_a_service_is_elsewhere_is_no_answer_to_a_call_that_was_sent_again_meanwhile() {
    let mut node = node(Policy::default());
    let (_, session) = begun(&mut node);
    node.on_turn(NOW, session, calling(vec![call(0, "there"), call(1, "here")]), 1);
    let Receipt::Call(id) = asked(&actions(&mut node)).remove(0).2 else { panic!("a call") };
    node.on_link_lost(NOW, NodeId(2), false);
    let again = sent(&actions(&mut node));
    assert!(
        matches!(again[..], [(_, Message::Call { age_us: 1.., .. }, _)]),
        "it is sent again, and says so: {again:?}"
    );
    node.on_message(NOW, &node_ref(2), Message::CallElsewhere(id, Relocation::Unknown, false));
    assert!(actions(&mut node).is_empty(), "late news");
    node.on_message(NOW, &node_ref(2), Message::CallElsewhere(id, Relocation::Unknown, true));
    let sought = actions(&mut node);
    assert!(matches!(sought[..], [Action::Resolve { .. }]), "{sought:?}");
    node.on_resolved(NOW, LookupId(1), nobody());
    assert!(!exception(&actions(&mut node)).unknown, "it refused both");
}

#[test]
fn a_hop_that_never_left_goes_to_another_instance_however_often_it_was_sent() {
    let mut node = node(Policy::default());
    let (.., first) = handing_off(&mut node);
    let pause_us = 2 * Policy::default().accept_timeout_us;
    let again = |node: &mut Node, times| {
        node.on_timeout(NOW.after(times * pause_us));
        asked(&actions(node)).pop().expect("it is sent again").2
    };
    let (second, third) = (again(&mut node, 1), again(&mut node, 2));
    for receipt in [first, second, third] {
        node.on_undelivered(NOW.after(3 * pause_us), receipt, Undelivered::Unreachable);
    }
    let sought = actions(&mut node);
    assert!(matches!(sought[..], [Action::Resolve { .. }]), "{sought:?}");
    node.on_resolved(NOW.after(3 * pause_us), LookupId(1), Ok(instance(3)));
    let gone = sent(&actions(&mut node));
    assert!(matches!(&gone[..], [(NodeId(3), Message::Hop(hop), _)] if hop.duplicate.is_none()), "{gone:?}");
}

#[test]
fn a_hop_of_which_one_copy_left_may_have_been_done() {
    let mut node = node(Policy::default());
    let (.., receipt) = handing_off(&mut node);
    node.on_undelivered(NOW, receipt, Undelivered::Lost);
    let second = asked(&actions(&mut node)).pop().unwrap().2;
    node.on_undelivered(NOW, second, Undelivered::Unreachable);
    assert!(exception(&actions(&mut node)).unknown);
}

#[test]
fn a_node_that_says_that_a_service_is_elsewhere_has_not_done_what_was_lost_before_either() {
    let mut node = node(Policy::default());
    let (chain, _, receipt) = handing_off(&mut node);
    node.on_undelivered(NOW, receipt, Undelivered::Lost);
    assert_eq!(asked(&actions(&mut node)).len(), 1, "it is sent again");
    node.on_message(NOW, &node_ref(2), Message::HopElsewhere(key(chain, 1), Relocation::Unknown));
    actions(&mut node);
    node.on_resolved(NOW, LookupId(1), Ok(instance(3)));
    let gone = sent(&actions(&mut node));
    assert!(matches!(&gone[..], [(NodeId(3), Message::Hop(hop), _)] if hop.duplicate.is_none()), "{gone:?}");
}
