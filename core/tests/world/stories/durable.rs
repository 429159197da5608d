//! Functions whose steps outlive their node (rpc-chains section 3.9).

use catena_wire::names;

use super::*;

/// The node of service 1 dies at its first durable call, and is back at once; another node serves that too.
fn dies_at_its_first(after_effect: bool, kept: bool) -> Plan {
    let mut plan = Plan::simple(5, vec![Op::Call(work(0)), Op::Call(durable(1)), Op::Call(work(2))]);
    plan.served[1] = vec![2, 4];
    // What comes after the lost step may be done twice.
    plan.nodes.repeatable = vec![2];
    plan.crashes = vec![Crash { host: 2, at_service: 1, after_effect, kept, restart_after_us: Some(500) }];
    plan
}

fn at_host(record: &Record, host: usize) -> u32 {
    record.durable.iter().filter(|((at, ..), _)| *at == host).map(|(_, times)| times).sum()
}

#[test]
fn a_durable_step_is_asked_for_again_at_its_node_and_never_done_twice() {
    for seed in 0..50 {
        let plan = |after_effect, kept| Plan { seed, ..dies_at_its_first(after_effect, kept) };
        let untouched = run_rightly(&plan(false, false));
        assert_eq!((at_host(&untouched, 2), untouched.asked_again), (1, 0), "no intent: it is done now");
        let done = run_rightly(&plan(true, true));
        assert_eq!((at_host(&done, 2), done.answered_from_store), (1, 1), "its result is on the disk");
        for (after_effect, kept) in [(false, true), (true, false)] {
            let record = run(&plan(after_effect, kept));
            let why = record.only().exception();
            assert_eq!((why.name.as_str(), why.unknown, why.step), (names::NODE_LOST, true, 2), "an intent alone");
            assert_eq!((at_host(&record, 2), record.asked_again), (u32::from(after_effect), 1));
        }
    }
}

#[test]
fn while_its_node_is_down_no_other_does_a_durable_step() {
    for (after_effect, kept) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut plan = dies_at_its_first(after_effect, kept);
        plan.crashes[0].restart_after_us = None;
        let record = run(&plan);
        let why = record.only().exception();
        assert_eq!((why.name.as_str(), why.unknown, why.step), (names::NODE_LOST, true, 2), "{why}");
        assert_eq!(at_host(&record, 4), 0);
    }
}
