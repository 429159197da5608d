//! Exceptions that a service passes on from calls of its own.

use catena_core::{Action, GuestAsk, Policy};
use catena_wire::{Fault, Message, names};

use super::*;

/// What came of a call that a service function at node 1 made of another: it is that function's by now.
fn passed_on() -> Exception {
    Exception::new(names::NODE_UNREACHABLE, Fault::Service, "").at_step(0, &["n7".into()])
}

/// What a function is told that has come here, at its step 3, for a call whose service function throws this.
fn told_where_it_came(why: Exception) -> Exception {
    let mut node = node(Policy::default());
    node.on_message(NOW, &node_ref(2), Message::Hop(hop(1, 3)));
    let ticket = ticket_of(&actions(&mut node)).unwrap();
    node.on_service_done(NOW, ticket, Err(why), 1);
    exception(&actions(&mut node))
}

/// What a function of node 1 is told that has made two calls of node 2 from where it is, the second of which brings this.
fn told_beside(why: Exception) -> Exception {
    let mut node = node(Policy::default());
    let (_, session) = begun(&mut node);
    node.on_turn(NOW, session, calling(vec![call(0, "there"), call(1, "there")]), 1);
    let calls = sent(&actions(&mut node));
    let [_, (_, Message::Call { id, .. }, _)] = &calls[..] else { panic!("{calls:?}") };
    node.on_message(NOW, &node_ref(2), Message::Return(*id, Outcome::Threw(why), Brought::default()));
    exception(&actions(&mut node))
}

/// What node 1 answers to a call of another node whose service function throws this.
fn answered(why: Exception) -> Exception {
    let mut node = node(Policy::default());
    node.on_message(NOW, &node_ref(2), plain_call(1, Budget::new(1_000_000, 5)));
    let ticket = ticket_of(&actions(&mut node)).unwrap();
    node.on_service_done(NOW, ticket, Err(why), 1);
    match sent(&actions(&mut node)).pop() {
        Some((_, Message::Return(_, Outcome::Threw(why), _), _)) => why,
        other => panic!("{other:?}"),
    }
}

/// Whose it is, and where.
fn whose(why: &Exception) -> (Fault, Option<&str>, u32, Vec<&str>) {
    (why.fault, why.target.as_deref(), why.step, why.path.iter().map(String::as_str).collect())
}

#[test]
fn what_a_service_passes_on_is_of_the_call_that_it_answers_and_its_path_goes_on_to_where_it_began() {
    // Of a chain that it ran at its own node, too.
    let of_a_chain = Exception { step: 9, path: vec!["n1".into(), "n7".into()], ..passed_on() };
    for passed in [passed_on(), of_a_chain] {
        let why = told_where_it_came(passed.clone());
        assert_eq!(whose(&why), (Fault::Service, Some("here/f"), 3, vec!["n9", "n1", "n7"]), "{why}");
        let why = answered(passed);
        assert_eq!(whose(&why), (Fault::Service, Some("here/f"), 0, vec!["n1", "n7"]), "{why}");
    }
}

#[test]
fn what_comes_back_of_a_call_beside_is_of_its_step_and_behind_the_path_of_its_chain() {
    let why = Exception::new("Refused", Fault::Service, "").calling("there", "f");
    let why = told_beside(why.at_step(0, &["n2".into(), "n7".into()]));
    assert_eq!(whose(&why), (Fault::Service, Some("there/f"), 2, vec!["n1", "n2", "n7"]), "{why}");
}

#[test]
fn why_replies_are_missing_is_of_the_step_that_asked_for_them() {
    let mut node = node(Policy::default());
    let (_, session) = begun(&mut node);
    let ask = |call| GuestAsk { number: number(), call };
    let asks = [call(0, "there"), call(1, "there")].map(ask).to_vec();
    node.on_turn(NOW, session, Ok(Turn { asks, ..Turn::default() }), 1);
    let asked = sent(&actions(&mut node));
    let [(_, Message::Ask { id, .. }, _), _] = &asked[..] else { panic!("{asked:?}") };
    let why = Exception::new("Refused", Fault::Service, "").at_step(0, &["n2".into(), "n7".into()]);
    node.on_message(NOW, &node_ref(2), Message::Return(*id, Outcome::Threw(why), Brought::default()));
    let told = actions(&mut node);
    let [Action::Settle { call: 0, result: Ok(batch), .. }] = &told[..] else { panic!("{told:?}") };
    let why = why_missing(batch);
    assert_eq!(whose(&why), (Fault::Service, Some("there/f"), 1, vec!["n1", "n2", "n7"]), "{why}");
}

/// Out of `[replies, [missing, why, failed]]`.
fn why_missing(batch: &Value) -> Exception {
    let mut batch = minicbor::Decoder::new(batch.as_bytes());
    batch.array().unwrap();
    batch.skip().unwrap();
    batch.array().unwrap();
    batch.skip().unwrap();
    batch.decode().unwrap()
}

#[test]
fn what_a_service_throws_itself_stays_what_it_is() {
    let own = Exception::new(names::BAD_PARAMETERS, Fault::Caller, "a number");
    assert_eq!(whose(&told_where_it_came(own.clone())), (Fault::Caller, Some("here/f"), 3, vec!["n9", "n1"]));
    assert_eq!(whose(&answered(own)), (Fault::Caller, Some("here/f"), 0, vec!["n1"]));
}
