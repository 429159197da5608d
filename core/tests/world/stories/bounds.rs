//! Programs that would go on for ever. (Clocks that jump: `a_clock_that_jumps_ends_every_wait_once` in `solo/waits.rs`.)

use catena_wire::names;

use super::*;

/// How many service functions ran before the hops were spent.
fn spends_its_hops(program: Vec<Op>) -> usize {
    let plan = Plan { hops: 12, ..Plan::simple(4, program) };
    let record = run(&plan);
    assert_eq!(record.only().exception().name, names::HOP_BUDGET_EXCEEDED);
    assert!(record.only().ended_at_us < 2_000_000, "by its hops and not by its time");
    record.ran.len()
}

#[test]
fn a_chain_that_calls_itself_for_ever_ends_when_its_hops_are_spent() {
    assert_eq!(spends_its_hops(vec![Op::Call(at(0, FOREVER))]), 12);
}

#[test]
fn a_chain_that_calls_itself_for_ever_on_its_own_ends_too() {
    let mut plan = Plan { hops: 12, ..Plan::simple(4, vec![Op::Call(at(0, FOREVER))]) };
    plan.chains[0].compose = false;
    let record = run(&plan);
    assert_eq!(record.only().exception().name, names::HOP_BUDGET_EXCEEDED);
    assert!((5..=12).contains(&record.ran.len()), "each is lent what its caller can spare: {}", record.ran.len());
}

#[test]
fn chains_on_their_own_that_call_themselves_twice_spend_no_more_hops_than_there_are() {
    for program in [vec![Op::Call(at(0, TWICE))], vec![Op::All(vec![at(0, TWICE), at(1, TWICE)])]] {
        let mut plan = Plan { hops: 200, ..Plan::simple(4, program) };
        plan.nodes.separate = (0..4).collect();
        let record = run(&plan);
        assert!((40..=200).contains(&record.ran.len()), "{}", record.ran.len());
    }
}

#[test]
fn a_chain_that_splits_for_ever_ends_when_its_hops_are_spent() {
    let branch = || vec![Op::Call(work(0))];
    assert!(spends_its_hops(vec![Op::Split(vec![branch(), branch()], None), Op::Jump(0)]) <= 12);
    assert_eq!(spends_its_hops(vec![Op::Split(vec![vec![], vec![]], Some(1)), Op::Jump(0)]), 0);
    // Each half splits again.
    let mut split = Op::Split(vec![branch(), branch()], None);
    for _ in 0..8 {
        split = Op::Split(vec![vec![split.clone()], vec![split]], None);
    }
    assert!(spends_its_hops(vec![split, Op::Call(work(0)), Op::Jump(1)]) <= 12);
}

#[test]
fn a_chain_that_catches_and_loops_ends_when_its_hops_are_spent() {
    assert_eq!(spends_its_hops(vec![Op::Try(failing(0)), Op::Jump(0)]), 12);
    assert_eq!(spends_its_hops(vec![Op::Try(at(0, THROWS)), Op::Jump(0)]), 12);
    assert_eq!(spends_its_hops(vec![Op::Try(at(0, CAUGHT)), Op::Jump(0)]), 12);
    assert_eq!(spends_its_hops(vec![Op::Try(at(9, CHAIN)), Op::Jump(0)]), 0, "of a service that nobody serves");
}

#[test]
fn a_split_that_cannot_be_made_costs_a_hop_all_the_same() {
    for count in [0, 300] {
        assert_eq!(spends_its_hops(vec![Op::TrySplit(count), Op::Jump(0)]), 0, "into {count}");
    }
}

#[test]
fn sub_chains_spend_the_hops_of_the_chain_that_they_join() {
    let plan = Plan { hops: 3, ..Plan::simple(5, vec![Op::Call(at(0, CHAIN)), Op::Call(work(3))]) };
    let record = run(&plan);
    assert_eq!(record.only().exception().name, names::HOP_BUDGET_EXCEEDED);
    assert_eq!(record.ran.len(), 3);
    assert!(record.effects.keys().filter(|(_, own, _)| of_sub_chain(*own)).count() == 2);
}

#[test]
fn an_end_that_no_link_carries_is_told_as_such_whatever_the_network_does() {
    let mut program = vec![Op::Emit, Op::Call(work(0)), Op::Emit, Op::Call(work(1))];
    program.extend(std::iter::repeat_n(Op::Log, 300));
    let mut plan = Plan::simple(3, program);
    plan.nodes.message_bytes_max = Some(4_000);
    let too_large = |record: &Record| {
        assert_eq!((record.only().ends.len(), record.only().after_end), (1, 0));
        assert!(record.busy.is_empty() && record.effects.values().all(|count| *count == 1), "{:?}", record.effects);
        let why = record.only().exception();
        why.name == names::LIMIT_EXCEEDED && why.unknown && record.only().partials.len() == 2
    };
    let record = World::new(plan.clone()).run();
    assert!(too_large(&record), "{}", record.only().exception());
    assert!(record.only().ended_at_us < 3_000_000, "not by silence: {} us", record.only().ended_at_us);
    plan.rules = Rules { duplicate: 30, reorder: 50, delay: 20, drop: 10, ..Rules::default() };
    let told = (0..300).filter(|seed| {
        plan.seed = *seed;
        too_large(&World::new(plan.clone()).run())
    });
    let told = told.count();
    assert!(told > 200, "else a node or the chain was lost: {told} of 300");
}
