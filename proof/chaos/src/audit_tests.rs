use catena::{Exception, Fault};

use super::hold;
use crate::{
    chains::{Ended, Ending},
    kinds::Kind,
    ledger::Effects,
    plan::{Effect, Function, Plan, Step},
    tally::Tally,
};

/// A straight chain of three effects that ended so, at 10 s.
fn three(function: Function, ending: Ending) -> Ended {
    let step = |index| {
        let effect = Effect { chain: 7, index, before_ms: 0, after_ms: 0 };
        Step::Effect { service: "s".into(), function, effect }
    };
    let plan = Plan { steps: (0..3).map(step).collect(), ..Plan::default() };
    Ended { chain: 7, kind: Kind::Straight, plan, ending, at_ms: 10_000 }
}

fn audit(ending: Ending, took_place: &[usize]) -> Tally {
    hold(&three(Function::Take, ending), &effects(took_place, 9_000))
}

fn effects(took_place: &[usize], at_ms: u64) -> Effects {
    let mut effects = Effects::new();
    for index in took_place {
        effects.entry((7, *index)).or_default().push(at_ms);
    }
    effects
}

fn at_step(step: u32) -> Exception {
    let path = ["n0".to_owned()];
    Exception::new("NodeUnreachable", Fault::Network, "").calling("s", "take").at_step(step, &path)
}

#[test]
fn what_was_answered_took_place_and_was_counted() {
    assert!(audit(Ending::Answered(3), &[0, 1, 2]).is_good());
    assert_eq!(audit(Ending::Answered(3), &[0, 1]).lost, 1);
    assert_eq!(audit(Ending::Answered(2), &[0, 1, 2]).lost, 1);
    assert_eq!(audit(Ending::Answered(3), &[0, 1, 1, 2]).doubled, 1);
}

#[test]
fn what_failed_before_a_step_did_those_before_it_and_no_other() {
    assert!(audit(Ending::Failed(at_step(2)), &[0]).is_good());
    assert_eq!(audit(Ending::Failed(at_step(2)), &[]).lost, 1);
    assert_eq!(audit(Ending::Failed(at_step(2)), &[0, 1]).lost, 1);
}

#[test]
fn an_exception_of_the_function_s_own_comes_after_its_step() {
    let own = || Ending::Failed(Exception { target: None, ..at_step(2) });
    assert!(audit(own(), &[0, 1]).is_good());
    assert_eq!(audit(own(), &[0]).lost, 1);
}

#[test]
fn what_is_unknown_after_a_step_did_those_before_it() {
    let unknown = |step| Ending::Unknown(at_step(step).outcome_unknown());
    for took_place in [&[0][..], &[0, 1], &[0, 1, 2]] {
        assert!(audit(unknown(2), took_place).is_good());
    }
    assert_eq!(audit(unknown(2), &[]).lost, 1);
    assert_eq!(audit(unknown(0), &[1]).lost, 1, "the second without the first");
}

#[test]
fn only_what_is_declared_repeatable_may_take_place_twice() {
    let twice = effects(&[0, 0, 1, 2], 9_000);
    assert!(hold(&three(Function::Repeat, Ending::Answered(3)), &twice).is_good());
    assert_eq!(hold(&three(Function::Keep, Ending::Answered(3)), &twice).doubled, 1);
}

#[test]
fn an_effect_long_after_it_was_cancelled_shows_that_a_chain_ran_on() {
    let ended = |name| {
        let why = Exception { name: String::from(name), ..at_step(0).outcome_unknown() };
        three(Function::Take, Ending::Unknown(why))
    };
    assert!(hold(&ended("Cancelled"), &effects(&[0], 12_000)).is_good());
    assert_eq!(hold(&ended("Cancelled"), &effects(&[0], 14_000)).ran_on, 1);
    assert!(hold(&ended("NodeLost"), &effects(&[0], 14_000)).is_good());
}
