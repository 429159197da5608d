//! The three endings: answered, failed before the effect of a step, or unknown (rpc-chains section 3.9).

use catena_wire::{Mode, Outcome, names};

use super::*;

/// What is thrown at last, after service 1 was lost when it had done its work.
fn after_a_loss(program: Vec<Op>) -> Plan {
    let mut plan = Plan::simple(5, program);
    plan.crashes = vec![Crash { host: 2, at_service: 1, after_effect: true, kept: true, restart_after_us: None }];
    // What comes after the loss may be done twice.
    plan.nodes.repeatable = vec![0, 2, 3];
    plan
}

#[test]
fn an_exception_that_is_thrown_again_names_its_step_and_the_end_the_last_one_made() {
    let program = vec![Op::Hold(failing(0)), Op::Call(work(1)), Op::Call(work(2)), Op::Rethrow];
    let record = run(&Plan::simple(4, program));
    let why = record.only().exception();
    assert_eq!((why.name.as_str(), why.step, why.unknown), ("Oops", 1, false));
    assert_eq!(record.only().last_step, 3, "it had gone on");
    assert_eq!(record.took.len(), 2);
}

#[test]
fn an_uncertainty_that_was_caught_is_told_with_whatever_is_thrown_after_it() {
    let lost = || vec![Op::Call(work(0)), Op::Hold(work(1)), Op::Call(work(2))];
    let ends = [vec![Op::ThrowOwn], vec![Op::Rethrow], vec![Op::Call(failing(3))], vec![Op::Stall]];
    let names = ["Thrown", names::NODE_LOST, "Oops", names::STALLED];
    for (end, name) in ends.into_iter().zip(names) {
        let record = run(&after_a_loss([lost(), end].concat()));
        let why = record.only().exception();
        assert_eq!((why.name.as_str(), why.unknown), (name, true), "{why}");
        assert_eq!(record.took.len(), 3);
    }
    let record = run(&after_a_loss(lost()));
    assert!(record.only().returned().1, "one that answers has dealt with it");
}

#[test]
fn an_uncertainty_of_a_sub_chain_or_of_a_branch_is_told_to_its_parent() {
    let mut of_sub_chain = after_a_loss(vec![Op::Call(at(0, UNCERTAIN))]);
    let of_branch = after_a_loss(vec![Op::Split(vec![vec![Op::Hold(work(1)), Op::ThrowOwn]], None), Op::Throw]);
    let mut plans = vec![of_branch, of_sub_chain.clone()];
    of_sub_chain.chains[0].compose = false;
    plans.push(of_sub_chain.clone());
    of_sub_chain.chains[0].mode = Mode::Interactive;
    plans.push(of_sub_chain);
    for plan in plans {
        let record = run(&plan);
        let why = record.only().exception();
        assert_eq!((why.name.as_str(), why.unknown), ("Thrown", true), "{why}");
    }
}

#[test]
fn out_of_hops_names_the_step_that_could_not_be_made() {
    let split = vec![Op::Call(work(0)), Op::Split(vec![vec![], vec![]], None)];
    let beside = vec![Op::Call(work(0)), Op::All(vec![work(1), work(2)])];
    // A call beside it stops, perhaps half-way.
    for (program, step, unknown) in [(three_calls(), 3, false), (split, 2, false), (beside, 3, true)] {
        let record = run(&Plan { hops: 2, ..Plan::simple(4, program) });
        let why = record.only().exception();
        assert_eq!((why.name.as_str(), why.step, why.unknown), (names::HOP_BUDGET_EXCEEDED, step, unknown), "{why}");
        assert!(record.took.len() < step as usize);
    }
}

#[test]
fn of_calls_side_by_side_the_one_that_failed_is_named() {
    let calls = || [failing(1), work(2), work(0)].to_vec();
    for (place, mode) in [(0, Mode::Chain), (0, Mode::Interactive), (1, Mode::Chain), (2, Mode::Chain)] {
        let mut targets = calls();
        targets.rotate_right(place);
        let mut plan = Plan::simple(4, vec![Op::Call(work(0)), Op::All(targets)]);
        plan.chains[0].mode = mode;
        let record = run(&plan);
        let why = record.only().exception();
        assert_eq!((why.step as usize, why.target.as_deref()), (place + 2, Some("s1/fail")), "{why}");
    }
}

#[test]
fn a_call_that_could_not_be_made_has_a_step_of_its_own() {
    // Nobody serves the service: that is caught, the function goes on, and throws it in the end.
    let mut plan = Plan::simple(4, vec![Op::Call(work(0)), Op::Hold(work(1)), Op::Call(work(2)), Op::Rethrow]);
    plan.served[1].clear();
    let record = run(&plan);
    let why = record.only().exception();
    assert_eq!((why.name.as_str(), why.step, why.unknown), (names::UNKNOWN_SERVICE, 2, false));
    assert_eq!((record.only().last_step, record.took.len()), (3, 2));
}

#[test]
fn an_instance_that_does_not_know_does_not_tell_what_another_did() {
    // Service 1 may be done again elsewhere; where it then is, nobody serves it.
    let mut plan = after_a_loss(vec![Op::All(vec![work(1), work(2)])]);
    plan.nodes.repeatable = vec![1];
    plan.rules.wrong_name = 50;
    let mut refused = 0;
    for seed in 0..200 {
        plan.seed = seed;
        let record = run(&plan);
        let lost =
            record.took.contains(&(1, 0, 0)) && record.ran.values().all(|ran| !ran.repeatable || ran.on.len() < 2);
        if let (Outcome::Threw(why), true) = (record.only().outcome(), lost) {
            assert!(why.unknown || why.target.as_deref() != Some("s1/work"), "seed {seed}: {why}");
            refused += usize::from(record.resolves.iter().any(|(service, avoid)| service == "s1" && !avoid.is_empty()));
        }
    }
    assert!(refused > 0);
}
