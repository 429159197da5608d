//! One chain, and no more than the network between its servers.

use catena_core::Policy;
use catena_wire::{Budget, Outcome, names};

use super::*;

#[test]
fn results_go_straight_from_the_last_server_to_the_origin() {
    let plan = Plan::simple(4, three_calls());
    let record = run(&plan);
    assert_eq!(record.paths("hop"), [(0, 1), (1, 2), (2, 3)]);
    assert_eq!(record.paths("end"), [(3, 0)], "nothing goes back over the servers before");
    assert_eq!(record.count("partial") + record.count("return"), 0);
    let seen = record.only();
    assert_eq!(Ok(seen.returned()), expected(&plan.chains[0].program, 1, plan.hops, plan.services()).end);
    assert_eq!(seen.ends[0].1, ["n0", "n1", "n2", "n3"], "the path of hosts");
    let steps: Vec<_> =
        seen.ends[0].2.iter().map(|step| (step.step, step.node.as_str(), step.target.as_str())).collect();
    assert_eq!(steps, [(0, "n0", ""), (1, "n1", "s0/work"), (2, "n2", "s1/work"), (3, "n3", "s2/work")], "the profile");
}

#[test]
fn the_next_hop_depends_on_the_result_before() {
    let plan = Plan::simple(5, vec![Op::Call(work(0)), Op::Dynamic(4), Op::Dynamic(4), Op::Dynamic(4)]);
    let visited = |run_number: u64| {
        let mut plan = plan.clone();
        let chain = plan.chains[0].clone();
        plan.chains = (0..run_number).map(|n| Chain { at_us: n * 1_000_000, ..chain.clone() }).collect();
        run(&plan).chains.values().map(|seen| seen.ends[0].1.clone()).collect::<std::collections::BTreeSet<_>>().len()
    };
    assert!(visited(6) > 3, "six inputs of one program take more than three ways");
}

#[test]
fn a_hop_is_retaken_if_it_is_refused() {
    let mut plan = Plan::simple(4, vec![Op::Call(work(0)), Op::Try(work(1)), Op::Call(work(2))]);
    plan.rules = Rules { duplicate: 100, ..Rules::default() };
    let tight = |host| if host == 2 { Policy { services_running_max: 0, ..policy() } } else { policy() };
    let record = World::with_policy(plan.clone(), tight).run();
    invariants::check(&plan, &record).unwrap();
    assert!(record.count("refused") >= 2, "and a repetition is refused as well");
    assert!(record.only().returned().1, "the program caught it and went on");
    assert!(record.effects.keys().all(|(.., call)| *call != 1), "nothing was done where it was refused");
    assert!(record.paths("hop").contains(&(1, 3)), "from where it happened, on to the next");
}

#[test]
fn try_and_catch_work_where_the_failure_happened() {
    let plan = Plan::simple(4, vec![Op::Call(work(0)), Op::Try(failing(1)), Op::Call(work(2))]);
    let record = run(&plan);
    assert_eq!(record.paths("hop"), [(0, 1), (1, 2), (2, 3)]);
    assert!(
        record.sent.iter().filter(|sent| sent.to == 0).all(|sent| matches!(sent.kind, "accepted" | "end" | "over"))
    );
    assert!(matches!(record.only().outcome(), Outcome::Done(_)));

    let mut down = Plan::simple(4, vec![Op::Call(work(0)), Op::Try(work(1)), Op::Call(work(2))]);
    down.rules = Rules { stale_name: 100, ..Rules::default() };
    let mut world = World::new(down);
    world.crash(2, None);
    let record = world.run();
    assert!(record.only().returned().1, "caught at the node that could not hand the chain over");
    assert!(record.paths("hop").contains(&(1, 3)), "{:?}", record.paths("hop"));
    assert!(
        record.sent.iter().filter(|sent| sent.to == 0).all(|sent| matches!(sent.kind, "accepted" | "end" | "over"))
    );
}

#[test]
fn an_exception_says_its_name_its_parameters_its_target_and_the_path_of_hosts() {
    let record = run(&Plan::simple(3, vec![Op::Call(work(0)), Op::Call(failing(1))]));
    let why = record.only().exception();
    assert_eq!((why.name.as_str(), why.step), ("Oops", 2));
    assert_eq!(why.path, ["n0", "n1", "n2"]);
    assert!(why.params.is_some());
    assert_eq!(why.target.as_deref(), Some("s1/fail"));
}

#[test]
fn an_exception_from_a_call_beside_has_the_path_of_its_chain_before_its_own() {
    let record = run(&Plan::simple(4, vec![Op::Call(work(0)), Op::All(vec![failing(1), work(2)])]));
    let why = record.only().exception();
    assert_eq!((why.name.as_str(), why.target.as_deref()), ("Oops", Some("s1/fail")));
    assert_eq!(why.path, ["n0", "n1", "n2"]);
}

#[test]
fn the_deadline_shrinks_with_the_time_that_is_spent() {
    let mut plan = Plan::simple(4, vec![Op::Call(slow(0)), Op::Call(slow(1)), Op::All(vec![slow(2), slow(0)])]);
    plan.slow_us = 1_000_000;
    let record = run(&plan);
    let left: Vec<_> = record.sent.iter().filter_map(|sent| sent.budget).map(|budget| budget.time_left_us()).collect();
    assert!(left.len() == 4 && left.windows(2).all(|pair| pair[1] <= pair[0]), "{left:?}");
    assert!(left[0] - left[1] >= 1_000_000 && left[1] - left[2] >= 1_000_000, "{left:?}");

    plan.time_us = 2_500_000;
    let why = run(&plan).only().exception().clone();
    assert_eq!(why.name, names::DEADLINE_EXCEEDED);
}

#[test]
fn the_time_that_a_name_takes_is_taken_from_the_deadline() {
    let mut plan = Plan::simple(2, Vec::new());
    plan.chains.clear();
    plan.calls = vec![PlainCall { at_us: 0, from: 0, target: work(0), withdraw_after_us: None }];
    let record = run(&plan);
    let budget = record.sent.iter().find(|sent| sent.kind == "call").and_then(|sent| sent.budget).unwrap();
    assert!(budget.time_left_us() < 20_000_000);
}

#[test]
fn answers_come_once_and_in_order_and_all_of_them_before_the_end() {
    let mut program = vec![Op::Call(work(0))];
    program.extend((0..20).flat_map(|_| [Op::Emit, Op::Call(work(1)), Op::Emit, Op::Call(work(0))]).take(24));
    let mut plan = Plan::simple(3, program);
    plan.rules = Rules { duplicate: 60, reorder: 100, delay: 50, ..Rules::default() };
    for seed in 0..200 {
        plan.seed = seed;
        assert_eq!(run(&plan).only().partials.len(), 12, "seed {seed}");
    }
}

#[test]
fn the_end_waits_for_late_answers() {
    let mut plan = Plan::simple(2, vec![Op::Call(work(0)), Op::Emit, Op::Emit, Op::Emit]);
    plan.rules = Rules { reorder: 100, delay: 50, ..Rules::default() };
    let mut overtaken = 0;
    for seed in 0..200 {
        plan.seed = seed;
        let mut world = World::new(plan.clone());
        world.tracing = true;
        let record = world.run();
        invariants::check(&plan, &record).unwrap();
        let last_answer = record.trace.rfind(r#"n0 <- n1 b"\x82\x03"#).unwrap();
        overtaken += usize::from(record.trace.find(r#"n0 <- n1 b"\x82\x04"#).unwrap() < last_answer);
        assert_eq!(record.only().partials.len(), 3, "seed {seed}");
    }
    assert!(overtaken > 20, "the end came before an answer in {overtaken} runs");
}

#[test]
fn a_call_to_a_service_on_this_node_sends_nothing() {
    let mut plan = Plan::simple(3, vec![Op::Call(work(0)), Op::Call(work(0)), Op::All(vec![work(0), work(0)])]);
    plan.chains[0].origin = 1;
    let record = run(&plan);
    assert!(record.sent.is_empty(), "{:?}", record.sent);
    assert!(matches!(record.only().outcome(), Outcome::Done(_)));
    let places: Vec<_> = record.only().ends[0].2.iter().map(|step| step.in_place).collect();
    assert_eq!(places.iter().filter(|in_place| **in_place).count(), 4);
}

#[test]
fn two_calls_side_by_side_stay_where_they_are() {
    let record = run(&Plan::simple(4, vec![Op::Call(work(0)), Op::All(vec![work(1), work(2)]), Op::Call(work(1))]));
    let mut calls = record.paths("call");
    calls.sort_unstable();
    assert_eq!(calls, [(1, 2), (1, 3)]);
    assert_eq!(record.paths("hop"), [(0, 1), (1, 2)], "and what follows hops again");
}

#[test]
fn a_function_is_fetched_from_the_repository_once() {
    let mut plan = Plan::simple(5, three_calls());
    plan.code = CodePlan { repository: Some(4), stocked: true, ..CodePlan::default() };
    plan.chains.push(Chain { at_us: 1_000_000, ..plan.chains[0].clone() });
    let record = run(&plan);
    assert_eq!(record.paths("want"), [(1, 4), (2, 4), (3, 4)], "the second chain finds it everywhere");
}

#[test]
fn a_function_that_the_repository_lacks_or_spoils_comes_from_the_hop_before() {
    for (stocked, wrong, down) in [(false, false, false), (true, true, false), (true, false, true)] {
        let mut plan = Plan::simple(5, three_calls());
        plan.code = CodePlan { repository: Some(4), stocked, wrong, ..CodePlan::default() };
        let mut world = World::new(plan.clone());
        if down {
            world.crash(4, None);
        }
        let record = world.run();
        invariants::check(&plan, &record).unwrap();
        assert!(matches!(record.only().outcome(), Outcome::Done(_)), "{stocked} {wrong} {down}");
        assert!(record.paths("want").contains(&(1, 0)) && record.paths("want").contains(&(2, 1)));
    }
}

#[test]
fn a_function_that_nobody_has_ends_its_chain_as_code_missing() {
    let mut plan = Plan::simple(4, three_calls());
    plan.code = CodePlan { repository: Some(3), forgetful: true, ..CodePlan::default() };
    let why = run(&plan).only().exception().clone();
    assert_eq!(why.name, names::CODE_MISSING);
    assert_eq!(why.path, ["n0", "n1"]);
}

#[test]
fn a_small_function_rides_along_with_its_first_hop_only() {
    let mut plan = Plan::simple(3, vec![Op::Call(work(0)), Op::Call(work(1))]);
    plan.chains.push(Chain { at_us: 1_000_000, ..plan.chains[0].clone() });
    let mut world = World::new(plan);
    world.tracing = true;
    let record = world.run();
    assert_eq!(record.count("want") + record.count("code"), 0);
    let riding = record.trace.lines().filter(|line| line.contains("CheckCode") && line.contains("bytes: Some")).count();
    assert_eq!(riding, 2, "once over each link");
}

#[test]
fn a_loop_for_ever_ends_when_its_hops_are_spent() {
    let record = run(&Plan::simple(3, vec![Op::Try(work(0)), Op::Try(work(1)), Op::Jump(0)]));
    assert_eq!(record.only().exception().name, names::HOP_BUDGET_EXCEEDED);
    assert_eq!(record.count("hop"), 30);
}

#[test]
fn no_hops_means_no_call() {
    let mut plan = Plan::simple(3, vec![Op::Try(work(0))]);
    plan.hops = 0;
    let record = run(&plan);
    assert_eq!(record.only().exception().name, names::HOP_BUDGET_EXCEEDED);
    assert!(record.sent.is_empty() && record.effects.is_empty());
}

#[test]
fn a_function_that_waits_for_nothing_ends_as_stalled() {
    assert_eq!(run(&Plan::simple(2, vec![Op::Call(work(0)), Op::Stall])).only().exception().name, names::STALLED);
}

#[test]
fn a_call_that_was_started_and_not_awaited_still_takes_effect() {
    // At its end the function has one call out that it started a turn ago, one of this turn, and one that lost a race.
    let program = vec![Op::Start(work(0)), Op::Race(vec![work(1), slow(2)]), Op::Start(work(2))];
    let record = run(&Plan::simple(4, program));
    assert_eq!(record.effects.len(), 4);
    assert_eq!((record.cancelled, record.count("withdraw")), (0, 0));
}

#[test]
fn a_state_that_arrives_late_does_not_hold_up_the_service() {
    let mut plan = Plan::simple(3, vec![Op::Call(work(0)), Op::Call(work(1))]);
    plan.rules = Rules { late_tail: 100, ..Rules::default() };
    for ride in [true, false] {
        plan.code.ride = ride;
        for seed in 0..50 {
            plan.seed = seed;
            let mut world = World::new(plan.clone());
            world.tracing = true;
            let record = world.run();
            assert!(matches!(record.only().outcome(), Outcome::Done(_)));
            for node in ["n1", "n2"] {
                // Its function is looked for as soon as the state has come.
                let (begun, state) = (first_at(&record, node, "RunService"), first_at(&record, node, "CheckCode"));
                let (heard, went_on) = (first_at(&record, node, "<-"), first_at(&record, node, "Resume"));
                assert!(
                    heard == begun && begun < state && state <= went_on,
                    "{node}: {heard} {begun} {state} {went_on}"
                );
            }
        }
    }
}

/// When this was first traced at this node.
fn first_at(record: &Record, node: &str, what: &str) -> u64 {
    let mut lines = record.trace.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let found = lines.find(|words| words[1] == node && words[2].starts_with(what)).expect("it is in the trace");
    found[0].parse().expect("a time")
}

#[test]
fn a_budget_is_narrowed_to_what_the_node_allows() {
    let mut plan = Plan::simple(2, vec![Op::Call(work(0))]);
    plan.hops = 30;
    let low = |_| Policy { budget_max: Budget::new(1_000_000, 5), ..policy() };
    let record = World::with_policy(plan, low).run();
    let budget = record.sent[0].budget.unwrap();
    assert!(budget.hops_left() == 4 && budget.time_left_us() < 1_000_000, "{budget:?}");
}
