#![allow(clippy::unwrap_used, reason = "a test may panic")]
use catena::Exception;

use crate::{
    chains::{Ended, Ending},
    faults::Fault,
    kinds::Kind,
    ledger::{Effects, Run},
    outages::{Outage, Outages},
    plan::{Effect, Function, Input, Plan, Step},
    tally::Tally,
    trials::Trial,
};

/// When its end was told; it began 9 s before.
const END_MS: u64 = 10_000;

/// A straight chain of three effects that ended so.
fn three(function: Function, ending: Ending) -> Ended {
    let step = |index| {
        let effect = Effect { chain: 7, index, before_ms: 0, after_ms: 0 };
        Step::Effect { service: "effects.0".into(), function, effect }
    };
    let plan = Plan { input: Input { steps: (0..3).map(step).collect(), emits: false }, ..Plan::default() };
    let (id, answers) = (String::from("id"), Vec::new());
    Ended { chain: 7, kind: Kind::Straight, plan, ending, id, answers, began_ms: 1_000, at_ms: END_MS }
}

/// The effects took place one after the other, the last at this time.
fn effects(took_place: &[usize], last_ms: u64) -> Effects {
    let mut effects = Effects::new();
    for (at, index) in took_place.iter().enumerate() {
        let key = Some(("id".into(), String::new(), u32::try_from(index + 1).unwrap()));
        let at_ms = last_ms - (took_place.len() - at) as u64 + 1;
        effects.entry((7, *index)).or_default().push(Run { node: 0, by_twin: false, at_ms, key });
    }
    effects
}

fn held(ended: &Ended, effects: &Effects) -> Tally {
    ended.hold(effects, &Outages::default()).0
}

fn audit(ending: Ending, took_place: &[usize]) -> Tally {
    held(&three(Function::Take, ending), &effects(took_place, 9_000))
}

fn at_step(step: u32) -> Exception {
    let path = ["n0".to_owned()];
    Exception::new("NodeUnreachable", catena::Fault::Network, "").calling("effects.0", "take").at_step(step, &path)
}

fn unknown(step: u32) -> Ending {
    Ending::Unknown(at_step(step).outcome_unknown())
}

fn cancelled() -> Ending {
    Ending::Unknown(Exception { name: "Cancelled".into(), target: None, ..at_step(1).outcome_unknown() })
}

#[test]
fn what_was_answered_took_place_before_and_was_counted() {
    assert!(audit(Ending::Answered(3), &[0, 1, 2]).is_good());
    assert_eq!(audit(Ending::Answered(3), &[0, 1]).lost, 1);
    assert_eq!(audit(Ending::Answered(2), &[0, 1, 2]).lost, 1);
    assert_eq!(audit(Ending::Answered(3), &[0, 1, 1, 2]).doubled, 1);
    let after = effects(&[0, 1, 2], END_MS + 1);
    assert_eq!(held(&three(Function::Take, Ending::Answered(3)), &after).lost, 1, "told before it took place");
}

#[test]
fn what_failed_before_a_step_did_those_before_it_and_no_other() {
    assert!(audit(Ending::Failed(at_step(2)), &[0]).is_good());
    assert_eq!(audit(Ending::Failed(at_step(2)), &[]).lost, 1);
    assert_eq!(audit(Ending::Failed(at_step(2)), &[0, 1]).lost, 1);
}

#[test]
fn what_is_unknown_after_a_step_did_those_before_it() {
    for took_place in [&[0][..], &[0, 1], &[0, 1, 2]] {
        assert!(audit(unknown(2), took_place).is_good());
    }
    assert_eq!(audit(unknown(2), &[]).lost, 1);
    assert_eq!(audit(unknown(1), &[1]).lost, 1, "the second without the first");
    assert_eq!(audit(unknown(1), &[1, 0]).lost, 1, "the second before the first");
}

#[test]
fn only_what_is_declared_repeatable_may_take_place_twice() {
    let twice = effects(&[0, 0, 1, 2], 9_000);
    let counted = |function: Function| {
        let plan = three(function, Ending::Answered(3));
        held(&plan, &twice)
    };
    assert!(counted(Function::Repeat).is_good());
    assert_eq!(counted(Function::Repeat).repeated, 1);
    assert_eq!(counted(Function::Keep).doubled, 1);
}

#[test]
fn effects_have_the_key_of_their_step_and_chain() {
    for key in [
        None,
        Some(("id".into(), ".1".into(), 1)),
        Some(("id".into(), String::new(), 2)),
        Some(("other".into(), String::new(), 1)),
    ] {
        let mut effects = effects(&[0, 1, 2], 9_000);
        effects.get_mut(&(7, 0)).unwrap()[0].key = key.clone();
        assert_eq!(held(&three(Function::Take, Ending::Answered(3)), &effects).misnamed, 1, "{key:?}");
    }
}

#[test]
fn intermediate_answers_come_all_once_and_in_order() {
    let counted = |answers: &[usize]| {
        let mut ended = three(Function::Take, Ending::Answered(3));
        ended.plan.input.emits = true;
        ended.answers = answers.to_vec();
        held(&ended, &effects(&[0, 1, 2], 9_000))
    };
    assert!(counted(&[0, 1, 2]).is_good());
    assert_eq!(counted(&[0, 2]).lost, 1);
    assert_eq!(counted(&[0, 2, 1]).lost, 1);
    assert_eq!(counted(&[0, 1, 1, 2]).doubled, 1);
}

#[test]
fn an_effect_long_after_the_end_shows_that_a_chain_ran_on() {
    for ending in [unknown, |_| cancelled()] {
        let at = |at_ms| held(&three(Function::Take, ending(1)), &effects(&[0], at_ms)).ran_on;
        assert_eq!((at(END_MS + 1_400), at(END_MS + 1_600)), (0, 1));
    }
}

#[test]
fn time_for_which_nodes_were_gone_does_not_count() {
    let gone = |node, from_ms, to_ms| Outage { fault: Fault::Stop, node, from_ms, to_ms };
    let at =
        |outage, at_ms| three(Function::Take, unknown(1)).hold(&effects(&[0], at_ms), &Outages(vec![outage])).0.ran_on;
    assert_eq!(at(gone(0, END_MS, END_MS + 7_000), END_MS + 8_000), 0, "it slept");
    assert_eq!(at(gone(1, END_MS, END_MS + 7_000), END_MS + 8_000), 0, "another held the chain, and slept");
    assert_eq!(at(gone(1, END_MS, END_MS + 7_000), END_MS + 9_000), 1, "and woke long ago");
    assert_eq!(at(gone(1, END_MS + 3_000, END_MS + 7_000), END_MS + 8_000), 1, "and had the word before");
}

#[test]
fn a_sub_chain_on_its_own_whose_creator_died_ends_with_its_budget() {
    let mut ended = three(Function::Take, cancelled());
    ended.plan.detached = true;
    ended.plan.input.steps = vec![Step::Sub { service: "effects.3".into(), steps: ended.plan.input.steps }];
    let mut late = effects(&[0], END_MS + 2_500);
    late.get_mut(&(7, 0)).unwrap()[0].key = Some(("other".into(), String::new(), 1));
    let died = |node, at_ms| Outages(vec![Outage { fault: Fault::Kill, node, from_ms: at_ms, to_ms: at_ms }]);
    assert_eq!(ended.hold(&late, &died(2, END_MS)).0.ran_on, 1, "its creator was told to stop it");
    assert_eq!(ended.hold(&late, &died(3, END_MS)).0.ran_on, 0, "it runs to its deadline, 12 s after it began");
    late.get_mut(&(7, 0)).unwrap()[0].at_ms = END_MS + 5_000;
    assert_eq!(ended.hold(&late, &died(3, END_MS)).0.ran_on, 1, "and no further");
    late.get_mut(&(7, 0)).unwrap()[0].at_ms = END_MS + 2_500;
    let stopped = |to_ms| Outages(vec![Outage { fault: Fault::LongStop, node: 3, from_ms: END_MS - 100, to_ms }]);
    assert_eq!(ended.hold(&late, &stopped(END_MS + 6_000)).0.ran_on, 0, "its creator is stopped, and cannot be told");
    assert_eq!(ended.hold(&late, &stopped(END_MS + 500)).0.ran_on, 1, "it has gone on since, and was told");
    late.get_mut(&(7, 0)).unwrap()[0].at_ms = END_MS + 5_000;
    let mut slept = died(3, END_MS);
    slept.0.push(Outage { fault: Fault::Stop, node: late[&(7, 0)][0].node, from_ms: END_MS, to_ms: END_MS + 2_500 });
    assert_eq!(
        ended.hold(&late, &slept).0.ran_on,
        0,
        "but for the time that its hop waited at a node that was stopped"
    );
}
