//! Stopping a running chain (rpc-chains section 6).

use catena_wire::{Outcome, names};

use super::*;

/// Ends it at that time; what is left 200 ms later, which is more than any of its messages takes.
fn cancel_at(plan: &Plan, at_us: u64) -> Record {
    let mut world = World::new(plan.clone());
    world.run_until(at_us);
    let chain = *world.record.chains.keys().next().unwrap();
    world.at(at_us, Event::Cancel(chain));
    world.run_until(at_us + 200_000);
    assert!(world.is_idle(), "everything has come to rest: {:?}", world.record.cancelled);
    let record = world.run();
    invariants::check(plan, &record).unwrap();
    record
}

#[test]
fn a_cancelled_chain_stops_where_it_is() {
    let plan = Plan::simple(4, vec![Op::Call(work(0)), Op::Call(slow(1)), Op::Call(work(2))]);
    let record = cancel_at(&plan, 1_000_000);
    let why = record.only().exception();
    assert_eq!((why.name.as_str(), why.unknown), (names::CANCELLED, true));
    assert_eq!((record.effects.len(), record.cancelled), (2, 1));
    assert_eq!(record.paths("cancel")[0], (0, 1), "along the way that the chain took");
    assert!(record.paths("cancel").contains(&(1, 2)));
}

#[test]
pub(crate) fn a_cancellation_reaches_every_branch() {
    let inner = Op::Split(vec![vec![Op::Call(slow(0))], vec![Op::Call(slow(1))]], Some(2));
    let split = Op::Split(
        vec![vec![inner], vec![Op::Call(work(0)), Op::Call(slow(3))], vec![Op::All(vec![slow(1), slow(2)])]],
        Some(4),
    );
    let plan = Plan::simple(6, vec![split]);
    let record = cancel_at(&plan, 1_000_000);
    assert_eq!(record.only().exception().name, names::CANCELLED);
    assert_eq!(record.cancelled, 5, "each of the slow functions");
}

#[test]
fn a_cancellation_reaches_sub_chains_that_joined_and_those_that_did_not() {
    for compose in [true, false] {
        let mut plan = Plan::simple(4, vec![Op::Call(at(0, CHAIN))]);
        plan.chains[0].compose = compose;
        plan.service_us = (400_000, 400_001);
        let record = cancel_at(&plan, 700_000);
        assert_eq!((record.effects.len(), record.cancelled), (2, 1), "composed: {compose}");
    }
}

#[test]
fn a_cancellation_stops_a_series_of_plain_calls() {
    let mut plan = Plan::simple(4, vec![Op::Call(work(0)), Op::Call(slow(1)), Op::Call(work(2))]);
    plan.chains[0].mode = catena_wire::Mode::Interactive;
    let record = cancel_at(&plan, 1_000_000);
    assert_eq!((record.effects.len(), record.cancelled, record.count("withdraw")), (2, 1, 1));
}

#[test]
pub(crate) fn a_cancellation_that_a_cut_link_loses_is_sent_again() {
    let mut plan = Plan::simple(2, vec![Op::Call(slow(0))]);
    plan.chains[0].mode = catena_wire::Mode::Interactive;
    plan.slow_us = 60_000_000;
    // Nobody notices that nothing gets through before both messages, to withdraw the call and to stop the chain, are lost.
    plan.cuts = vec![Cut { from: 0, to: 1, at_us: 900_000, until_us: 3_000_000, noticed_us: 2_000_000 }];
    let mut world = World::new(plan);
    world.run_until(1_000_000);
    let chain = *world.record.chains.keys().next().unwrap();
    world.at(1_000_000, Event::Cancel(chain));
    world.run_until(10_000_000);
    assert_eq!(world.record.cancelled, 1, "it is stopped in mid-call");
    assert!(world.is_idle(), "and nothing is sent any more");
}

#[test]
fn a_cancellation_stops_calls_that_a_branch_started_and_did_not_await() {
    let branch = vec![Op::Start(slow(0))];
    let plan = Plan::simple(3, vec![Op::Split(vec![branch, vec![Op::Call(slow(1))]], None)]);
    assert_eq!(cancel_at(&plan, 1_000_000).cancelled, 2);
}

#[test]
fn cancelling_what_has_ended_does_nothing() {
    let plan = Plan::simple(4, vec![Op::Call(work(0)), Op::Call(work(1))]);
    let record = cancel_at(&plan, 2_000_000);
    assert!(matches!(record.only().outcome(), Outcome::Done(_)));
    assert_eq!((record.only().ends.len(), record.count("cancel")), (1, 0));
}

#[test]
fn a_chain_may_be_cancelled_before_its_first_hop() {
    let plan = Plan::simple(3, vec![Op::Call(work(0))]);
    let record = cancel_at(&plan, 10);
    assert_eq!(record.only().exception().name, names::CANCELLED);
    assert!(record.effects.is_empty() && record.sent.is_empty());
}

#[test]
fn at_whatever_moment_it_is_cancelled_nothing_is_left_of_a_chain() {
    let split = Op::Split(vec![vec![Op::Call(at(0, NESTED))], vec![Op::Call(work(1)), Op::Emit]], Some(3));
    let plan = Plan::simple(6, vec![Op::Call(at(4, CHAIN)), split, Op::All(vec![at(0, CHAIN), work(2)])]);
    let ended_at_us = run(&plan).only().ended_at_us;
    for at_us in (1..ended_at_us).step_by(997) {
        let record = cancel_at(&plan, at_us);
        assert_eq!(record.only().exception().name, names::CANCELLED, "at {at_us} us");
    }
}
