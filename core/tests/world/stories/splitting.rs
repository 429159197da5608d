//! Splits and merges (rpc-chains section 3.10).

use catena_core::Policy;
use catena_wire::{Branch, Outcome, names};

use super::*;

fn branches(of: &[Op]) -> Vec<Vec<Op>> {
    of.iter().map(|op| vec![op.clone()]).collect()
}

#[test]
fn branches_run_side_by_side_and_their_results_come_in_order() {
    let mut plan =
        Plan::simple(4, vec![Op::Split(branches(&[Op::Call(slow(0)), Op::Call(slow(1)), Op::Call(work(2))]), None)]);
    plan.slow_us = 2_000_000;
    let record = run_rightly(&plan);
    assert!(record.paths("hop").len() == 3 && record.paths("hop").iter().all(|(from, _)| *from == 0));
    assert_eq!(record.paths("end")[0], (3, 0), "the third is the first to end");
    assert!(record.only().ended_at_us < 2_200_000, "two slow ones in the time of one");
}

#[test]
fn branches_merge_at_the_host_of_ones_choice_and_the_parent_goes_on_there() {
    let split = Op::Split(branches(&[Op::Call(work(0)), Op::Call(work(1))]), Some(2));
    let record = run_rightly(&Plan::simple(5, vec![split, Op::Call(work(3))]));
    assert_eq!(record.paths("hop")[0], (0, 3), "the parent goes to the merge host");
    assert!(record.paths("hop")[1..3].iter().all(|(from, _)| *from == 0), "the branches begin where it was");
    let mut ends = record.paths("end");
    ends.sort_unstable();
    assert_eq!(ends, [(1, 3), (2, 3), (4, 0)]);
    assert_eq!(record.paths("hop").last(), Some(&(3, 4)));
}

#[test]
fn a_split_within_a_split_numbers_its_branches_within_the_number_of_its_own() {
    let inner = Op::Split(branches(&[Op::Call(work(0)), Op::Call(work(1))]), None);
    let record = run_rightly(&Plan::simple(4, vec![Op::Split(vec![vec![inner.clone(), inner], vec![]], None)]));
    let keys = record.sent.iter().filter(|sent| sent.kind == "hop").filter_map(|sent| sent.key.clone());
    let mut numbers: Vec<_> = keys.map(|key| key.branch.to_string()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [".1.1", ".1.2", ".1.3", ".1.4"], "no number is used twice");
}

#[test]
fn a_branch_that_throws_leaves_the_others_alone() {
    let split = vec![vec![Op::Call(work(0))], vec![Op::Call(failing(1))], vec![Op::Throw], vec![Op::Call(work(2))]];
    let record = run_rightly(&Plan::simple(4, vec![Op::Split(split, None), Op::Call(work(0))]));
    assert_eq!(record.effects.len(), 4);
}

#[test]
fn the_branches_share_the_hops_and_bring_back_what_is_left() {
    let forever = vec![Op::Call(work(0)), Op::Jump(0)];
    let mut plan =
        Plan::simple(3, vec![Op::Split(vec![forever.clone(), forever], None), Op::Call(work(1)), Op::Jump(1)]);
    plan.hops = 10;
    let record = run(&plan);
    // One for the split, four for each branch, and one remains.
    assert_eq!(record.effects.len(), 9);
    assert_eq!(record.only().exception().name, names::HOP_BUDGET_EXCEEDED);

    let mut plan = Plan::simple(
        3,
        vec![Op::Split(branches(&[Op::Call(work(0)), Op::Call(work(0))]), None), Op::Call(work(1)), Op::Jump(1)],
    );
    plan.hops = 10;
    assert_eq!(run(&plan).effects.len(), 9, "nothing is lost of what the branches did not use");
}

#[test]
fn answers_of_branches_come_in_order_and_all_before_the_end() {
    let branch = || vec![Op::Emit, Op::Call(work(0)), Op::Emit, Op::Call(work(1)), Op::Emit];
    let split = |at| Op::Split(vec![branch(), branch(), branch()], at);
    let mut plan = Plan::simple(4, vec![Op::Emit, split(Some(2)), Op::Emit, split(None), Op::Emit]);
    plan.rules = Rules { duplicate: 50, reorder: 100, delay: 50, ..Rules::default() };
    for seed in 0..200 {
        plan.seed = seed;
        assert_eq!(run(&plan).only().partials.len(), 21, "seed {seed}");
    }
}

#[test]
fn every_open_branch_shows_signs_of_life_and_the_merge_host_for_those_that_have_ended() {
    let mut plan = Plan::simple(4, vec![Op::Split(branches(&[Op::Call(slow(0)), Op::Call(work(1))]), Some(2))]);
    plan.slow_us = 20_000_000;
    let record = run_rightly(&plan);
    let beats: Vec<_> = record.sent.iter().filter(|sent| sent.kind == "heartbeat").collect();
    let of = |branch: &str| beats.iter().filter(|sent| sent.key.as_ref().unwrap().branch.to_string() == branch).count();
    assert!(of(".1") >= 5, "the slow branch itself: {}", of(".1"));
    assert_eq!(of(".2"), 0, "it has ended");
    let open: Vec<Vec<Branch>> = beats.iter().filter(|sent| sent.from == 3).map(|sent| sent.open.clone()).collect();
    assert!(
        open.len() >= 5 && open.iter().all(|open| open.iter().map(Branch::to_string).eq([".1".to_string()])),
        "{open:?}"
    );
}

#[test]
fn a_branch_that_falls_silent_is_taken_up_where_it_was_last_and_its_parent_learns_of_it() {
    let mut plan = Plan::simple(3, vec![Op::Split(branches(&[Op::Call(slow(0)), Op::Call(work(1))]), None)]);
    plan.slow_us = 20_000_000;
    let mut world = World::new(plan.clone());
    world.run_until(5_000_000);
    world.crash(1, None);
    let record = world.run();
    invariants::check(&plan, &record).unwrap();
    let returned = record.only().returned();
    assert!(returned.1, "one of two outcomes is an exception");
    assert!(record.only().ended_at_us < 12_000_000, "{}", record.only().ended_at_us);
}

#[test]
fn a_merge_host_that_is_gone_is_an_exception_before_any_branch_begins() {
    let mut plan = Plan::simple(4, vec![Op::Split(branches(&[Op::Call(work(0)), Op::Call(work(1))]), Some(2))]);
    plan.rules = Rules { stale_name: 100, ..Rules::default() };
    let mut world = World::new(plan);
    world.crash(3, None);
    let record = world.run();
    let why = record.only().exception();
    assert_eq!((why.name.as_str(), why.target.as_deref()), (names::NODE_UNREACHABLE, Some("s2/split")));
    assert!(record.effects.is_empty() && !why.unknown);
}

#[test]
fn a_merge_host_that_dies_ends_the_chain_and_leaves_no_branch_behind() {
    let mut plan = Plan::simple(4, vec![Op::Split(branches(&[Op::Call(slow(0)), Op::Call(work(1))]), Some(2))]);
    plan.slow_us = 3_000_000;
    let mut world = World::new(plan.clone());
    world.run_until(1_000_000);
    world.crash(3, None);
    let record = world.run();
    invariants::check(&plan, &record).unwrap();
    let why = record.only().exception();
    assert!(why.unknown && matches!(why.name.as_str(), names::CHAIN_LOST | names::NODE_LOST), "{why}");
}

#[test]
fn a_merge_host_that_runs_no_guests_leaves_the_merge_where_the_chain_is() {
    let split = Op::Split(branches(&[Op::Call(work(0)), Op::Call(work(1))]), Some(2));
    let mut plan = Plan::simple(4, vec![split]);
    plan.nodes.no_guests = vec![3];
    let record = run_rightly(&plan);
    assert_eq!(record.count("refused"), 1);
    assert!(record.paths("end").iter().all(|(_, to)| *to == 0));
}

#[test]
fn a_branch_that_is_quicker_than_its_parents_state_is_not_lost() {
    let split = Op::Split(vec![vec![], vec![Op::Call(work(0))]], Some(1));
    let mut plan = Plan::simple(3, vec![split]);
    plan.rules = Rules { late_tail: 100, ..Rules::default() };
    for seed in 0..50 {
        plan.seed = seed;
        assert!(run_rightly(&plan).only().ended_at_us < 1_000_000, "without waiting for a silence, seed {seed}");
    }
}

#[test]
fn a_split_beside_a_call_stays_and_the_call_is_not_lost() {
    // The loser of the race is still out when the function splits, and when it has merged.
    let race = Op::Race(vec![work(0), slow(1)]);
    let split = Op::Split(branches(&[Op::Call(work(0)), Op::Call(work(2))]), Some(2));
    let record = run_rightly(&Plan::simple(4, vec![race, split, Op::Call(work(2)), Op::All(vec![work(0), slow(1)])]));
    assert!(
        record.paths("end").iter().all(|(_, to)| *to == 0),
        "it does not go to the merge host, since it waits here"
    );
}

#[test]
fn branches_count_as_chains_at_their_node() {
    let plan = Plan::simple(2, vec![Op::TrySplit(5), Op::TrySplit(4)]);
    let tight = |_| Policy { activations_max: 5, ..policy() };
    let record = World::with_policy(plan.clone(), tight).run();
    invariants::check(&plan, &record).unwrap();
    assert!(record.only().returned().1, "the first is refused as overload, the second is not");
    let low = |_| Policy { branches_max: 4, ..policy() };
    let record = World::with_policy(plan, low).run();
    assert!(matches!(record.only().outcome(), Outcome::Done(_)) && record.only().returned().1);
}
