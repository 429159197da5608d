//! Broken chains: sent again, failed over, or failed with the step named (rpc-chains section 3.9).

use catena_core::Policy;
use catena_wire::{Outcome, names};

use super::*;

/// The node of service 1 dies when it has done its first work.
fn dies_after_the_effect(program: Vec<Op>) -> Plan {
    let mut plan = Plan::simple(4, program);
    plan.crashes = vec![Crash { host: 2, at_service: 1, after_effect: true, kept: true, restart_after_us: None }];
    plan
}

fn effects_of(record: &Record, call: u32) -> u32 {
    record.effects.iter().filter(|((.., number), _)| *number == call).map(|(_, count)| count).sum()
}

#[test]
fn an_end_that_was_lost_is_sent_again_by_whoever_has_it() {
    let mut plan = Plan::simple(4, three_calls());
    // Nothing gets from the last server to the origin for four seconds, and nobody notices.
    plan.cuts = vec![Cut { from: 3, to: 0, at_us: 0, until_us: 4_000_000, noticed_us: 100_000_000 }];
    let record = run_rightly(&plan);
    assert!((4_000_000..4_500_000).contains(&record.only().ended_at_us), "{}", record.only().ended_at_us);
    assert!(record.effects.values().all(|count| *count == 1) && record.ran.len() == 3);
    assert_eq!(record.paths("hop"), [(0, 1), (1, 2), (2, 3)], "the chain is not sent on its way again");
    assert_eq!(record.paths("end"), [(3, 0); 3]);
}

#[test]
fn a_chain_that_is_silent_is_sent_again_and_does_nothing_twice() {
    let mut plan = Plan::simple(4, three_calls());
    // Nothing gets from the last server to the origin for seven seconds, and nobody notices.
    plan.cuts = vec![Cut { from: 3, to: 0, at_us: 0, until_us: 7_000_000, noticed_us: 100_000_000 }];
    let record = run_rightly(&plan);
    assert!(record.effects.values().all(|count| *count == 1) && record.ran.len() == 3);
    assert!(record.paths("hop").iter().filter(|path| **path == (0, 1)).count() > 1, "{:?}", record.paths("hop"));
}

#[test]
fn a_chain_that_gets_on_again_is_as_good_as_new() {
    let mut plan = Plan::simple(3, vec![Op::Call(slow(0)), Op::Call(slow(1)), Op::Call(slow(0)), Op::Call(slow(1))]);
    plan.slow_us = 12_000_000;
    // Three silences, each of them long enough for one more sending.
    plan.cuts = (0..3)
        .flat_map(|n| [1, 2].map(|from| (n, from)))
        .map(|(n, from)| {
            let at_us = 1_000_000 + n * 13_000_000;
            Cut { from, to: 0, at_us, until_us: at_us + 9_500_000, noticed_us: 200_000_000 }
        })
        .collect();
    let again = |record: &Record| record.paths("hop").iter().filter(|path| **path == (0, 1)).count();
    let record = run(&plan);
    assert!(again(&record) > 3, "{}", again(&record));
    assert!(record.effects.values().all(|count| *count == 1), "{:?}", record.effects);
}

#[test]
fn a_node_that_takes_a_chain_over_and_dies_ends_it_as_unknown_after_that_step() {
    let record = run(&dies_after_the_effect(three_calls()));
    let why = record.only().exception();
    assert_eq!((why.name.as_str(), why.unknown, why.step), (names::NODE_LOST, true, 2));
    assert_eq!(why.target.as_deref(), Some("s1/work"));
    assert_eq!(why.path, ["n0", "n1"], "the last that had it");
    assert_eq!(effects_of(&record, 1), 1);
}

#[test]
fn the_function_may_catch_that_an_outcome_is_unknown() {
    let mut plan = dies_after_the_effect(vec![Op::Call(work(0)), Op::Try(work(1)), Op::Call(work(2))]);
    let why = run(&plan).only().exception().clone();
    assert_eq!(
        (why.name.as_str(), why.unknown, why.step),
        (names::NODE_LOST, true, 3),
        "what follows may be done twice"
    );
    plan.nodes.repeatable = vec![2];
    let record = run(&plan);
    assert!(record.only().returned().1);
    assert!(record.paths("hop").contains(&(1, 3)), "it goes on from the node that had it last");
}

#[test]
fn what_may_be_done_again_is_done_again_elsewhere() {
    let mut plan = dies_after_the_effect(three_calls());
    plan.hosts = 5;
    plan.served[1] = vec![2, 4];
    let why = run(&plan).only().exception().clone();
    assert_eq!((why.name.as_str(), why.unknown), (names::NODE_LOST, true), "unless it may not");

    plan.nodes.repeatable = vec![1, 2];
    let record = run_rightly(&plan);
    assert_eq!(effects_of(&record, 1), 2, "at the first, which died after it, and at the second");
    assert!(record.paths("hop").contains(&(1, 4)) && record.paths("hop").contains(&(4, 3)));
    assert!(
        record.resolves.iter().any(|(service, avoid)| service == "s1" && avoid.len() == 1),
        "{:?}",
        record.resolves
    );
}

#[test]
fn an_unreachable_primary_fails_over_to_its_backup() {
    let mut plan = Plan::simple(5, three_calls());
    plan.served[1] = vec![2, 4];
    plan.rules = Rules { stale_name: 100, ..Rules::default() };
    let mut world = World::new(plan.clone());
    world.crash(2, None);
    let record = world.run();
    invariants::check(&plan, &record).unwrap();
    assert_eq!(Ok(record.only().returned()), expected(&plan.chains[0].program, 1, plan.hops, plan.services()).end);
    assert!(record.paths("hop").contains(&(1, 4)) && record.paths("hop").contains(&(4, 3)));
    assert!(record.effects.values().all(|count| *count == 1), "nothing was done at the first, so any function will do");
}

#[test]
fn so_many_instances_are_tried_and_no_more() {
    let mut plan = Plan::simple(7, vec![Op::Call(work(0))]);
    plan.served = vec![vec![1, 2, 3, 4, 5, 6]];
    plan.rules = Rules { stale_name: 100, ..Rules::default() };
    let few = |_| Policy { instances_tried_max: 3, ..policy() };
    let mut world = World::with_policy(plan, few);
    (1..7).for_each(|host| world.crash(host, None));
    let record = world.run();
    assert_eq!(record.resolves.len(), 3, "{:?}", record.resolves);
    let why = record.only().exception();
    assert_eq!((why.name.as_str(), why.unknown), (names::NODE_UNREACHABLE, false));
}

#[test]
fn a_chains_calls_are_remembered_by_their_step() {
    let mut plan = Plan::simple(4, vec![Op::All(vec![work(0), work(1), work(2)]), Op::All(vec![work(0), work(1)])]);
    plan.rules = Rules { duplicate: 100, ..Rules::default() };
    let record = run_rightly(&plan);
    assert!(record.effects.values().all(|count| *count == 1), "{:?}", record.effects);
    assert!(record.count("return") > 5, "but each is answered again");
}

#[test]
fn a_call_of_a_chain_whose_link_breaks_is_asked_again_of_the_same_run_of_that_node() {
    let mut plan = Plan::simple(3, vec![Op::All(vec![slow(0), work(1)])]);
    plan.slow_us = 2_000_000;
    let mut world = World::new(plan.clone());
    world.run_until(500_000);
    world.break_link(0, 1, 0);
    let record = world.run();
    invariants::check(&plan, &record).unwrap();
    assert!(matches!(record.only().outcome(), Outcome::Done(_)));
    assert_eq!((record.paths("call").len(), effects_of(&record, 0)), (3, 1));
}
