//! Sub-chains: a service answers with a chain (rpc-chains section 3.4).

use catena_core::Policy;
use catena_wire::{Mode, Outcome, names};

use super::*;

/// Service 0 answers with a chain that goes to services 1 and 2.
fn sub_chain() -> Plan {
    Plan::simple(5, vec![Op::Call(at(0, CHAIN)), Op::Call(work(3))])
}

#[test]
fn a_sub_chains_end_resumes_its_parent_where_it_ended() {
    let record = run_rightly(&sub_chain());
    assert_eq!(record.paths("hop"), [(0, 1), (1, 2), (2, 3), (3, 4)], "never back over the creator at 1");
    assert_eq!(record.paths("end"), [(4, 0)]);
    assert!(record.sent.iter().all(|sent| sent.to != 1 || sent.from == 0 || matches!(sent.kind, "accepted" | "want")));
}

#[test]
fn sub_chains_of_sub_chains_end_where_they_end() {
    let record = run_rightly(&Plan::simple(6, vec![Op::Call(at(0, NESTED)), Op::Call(work(4))]));
    // 0 answers with a chain that calls 1, which answers with a chain that calls 2 and 3; then the first calls 2.
    assert_eq!(record.paths("hop"), [(0, 1), (1, 2), (2, 3), (3, 4), (4, 3), (3, 5)]);
}

#[test]
fn without_composition_the_result_is_the_same_with_the_extra_trips() {
    let mut by_chain = sub_chain();
    by_chain.chains[0].compose = false;
    let mut by_node = sub_chain();
    by_node.nodes.separate = vec![1];
    for plan in [by_chain, by_node] {
        let record = run_rightly(&plan);
        assert_eq!(record.paths("hop"), [(0, 1), (1, 2), (2, 3), (1, 4)], "the parent waits at 1");
        assert_eq!(record.paths("end"), [(3, 1), (4, 0)], "the sub-chain's end goes back to 1");
    }
}

#[test]
fn a_service_at_the_chains_own_node_may_answer_with_a_chain_too() {
    let record = run_rightly(&Plan::simple(5, vec![Op::Call(work(0)), Op::Call(at(0, CHAIN)), Op::Call(work(3))]));
    assert_eq!(record.paths("hop"), [(0, 1), (1, 2), (2, 3), (3, 4)], "and does not come back either");
    let record = run_rightly(&Plan::simple(5, vec![Op::Call(work(0)), Op::Call(at(0, HEARS)), Op::Emit]));
    assert_eq!((heard(&record), record.only().partials.len()), (4, 1));
}

#[test]
fn a_sub_chain_of_a_call_beside_others_runs_on_its_own() {
    let record = run_rightly(&Plan::simple(5, vec![Op::All(vec![at(0, CHAIN), work(3)])]));
    assert_eq!(record.paths("call"), [(0, 1), (0, 4)]);
    assert_eq!(record.paths("end"), [(3, 1)]);
    assert_eq!(record.count("return"), 2);
}

#[test]
fn a_sub_chain_of_a_plain_call_answers_it() {
    let mut plan = Plan::simple(4, Vec::new());
    plan.chains.clear();
    plan.calls = vec![PlainCall { at_us: 0, from: 0, target: at(0, CHAIN), withdraw_after_us: None }];
    let record = run(&plan);
    assert!(record.calls.values().all(|results| matches!(results[..], [Ok(_)])), "{:?}", record.calls);
    assert_eq!(record.paths("return"), [(1, 0)]);
}

/// Each line of the console, without where it was said.
fn texts(record: &Record) -> Vec<String> {
    record.only().console.iter().map(|line| line.text.clone()).collect()
}

#[test]
fn what_a_sub_chain_says_is_heard_in_its_place_wherever_it_runs() {
    let program = vec![Op::Log, Op::Call(at(0, CHAIN)), Op::Log, Op::Call(at(1, CHAIN)), Op::Call(work(3)), Op::Log];
    let composed = Plan::simple(5, program);
    let all = texts(&run_rightly(&composed));
    assert_eq!(all.len(), 5, "three of its own, one of each sub-chain");

    let mut by_chain = composed.clone();
    by_chain.chains[0].compose = false;
    let mut by_node = composed.clone();
    by_node.nodes.separate = vec![1];
    let mut from_home = composed;
    from_home.chains[0].mode = Mode::Interactive;
    for plan in [by_chain, by_node, from_home] {
        let record = run_rightly(&plan);
        assert_eq!(texts(&record), all);
        let lines = &record.only().console;
        assert!(
            lines.iter().zip(0..).all(|(line, number)| line.number == number && line.branch.is_root()),
            "{lines:?}"
        );
        assert!(lines.windows(2).all(|two| two[0].at_us <= two[1].at_us), "as they were said: {lines:?}");
        assert_eq!(lines[1].node, "n2", "where the sub-chain said it");
    }
}

#[test]
fn what_a_sub_chain_on_its_own_says_comes_once_whatever_the_network_does() {
    let program = vec![Op::Log, Op::Call(at(0, CHAIN)), Op::Log, Op::All(vec![at(1, CHAIN), work(3)]), Op::Log];
    let mut plan = Plan::simple(5, program);
    plan.chains[0].compose = false;
    let all = texts(&run_rightly(&plan));
    assert_eq!(all.len(), 5);
    plan.rules = Rules { duplicate: 60, reorder: 100, delay: 50, drop: 5, flap: 5, ..Rules::default() };
    let mut answered = 0;
    for seed in 0..300 {
        plan.seed = seed;
        let record = run(&plan);
        if matches!(record.only().outcome(), Outcome::Done(_)) {
            answered += 1;
            assert_eq!(texts(&record), all, "seed {seed}");
        }
    }
    assert!(answered > 100, "{answered}");
}

#[test]
fn what_a_sub_chain_on_its_own_said_before_it_threw_is_heard() {
    let program = vec![Op::Call(at(0, CAUGHT)), Op::Try(at(0, THROWS)), Op::Log, Op::Call(at(1, THROWS))];
    let mut plan = Plan::simple(5, program);
    plan.chains[0].compose = false;
    let record = run(&plan);
    assert_eq!(record.only().exception().name, "Oops");
    let lines: Vec<_> = record.only().console.iter().map(|line| (line.node.as_str(), line.text.as_str())).collect();
    assert_eq!(lines, [("n2", "at 1"), ("n2", "at 1"), ("n1", "at 2"), ("n3", "at 1")]);
}

#[test]
fn chains_around_a_chain_are_bounded() {
    let plan = Plan::simple(2, vec![Op::Call(at(0, FOREVER))]);
    let low = |_| Policy { stack_depth_max: 3, ..policy() };
    let record = World::with_policy(plan.clone(), low).run();
    invariants::check(&plan, &record).unwrap();
    let why = record.only().exception();
    assert_eq!(why.name, names::LIMIT_EXCEEDED);
    assert!(why.message.contains("stack_depth_max is 3"), "{why}");
    assert_eq!(record.effects.len(), 4, "three chains around a chain, and the call that was one too many");
}

#[test]
fn an_uncaught_exception_goes_to_the_creators_catching_function() {
    let record = run_rightly(&Plan::simple(5, vec![Op::Call(at(0, CAUGHT)), Op::Call(work(3))]));
    assert_eq!(record.paths("hop"), [(0, 1), (1, 2), (2, 1), (1, 4)], "back to 1, where the parent then goes on");
    assert!(!record.only().returned().1 && !recovered("Thrown").1);
}

#[test]
fn a_sub_chain_on_its_own_is_caught_by_its_creator_too() {
    let mut plan = Plan::simple(5, vec![Op::Call(at(0, CAUGHT)), Op::Call(work(3))]);
    plan.chains[0].compose = false;
    let record = run_rightly(&plan);
    assert_eq!(record.paths("hop"), [(0, 1), (1, 2), (1, 4)]);
}

#[test]
fn if_the_creator_is_gone_the_exception_goes_to_the_parent() {
    let plan = Plan::simple(5, vec![Op::Try(at(0, CAUGHT)), Op::Call(work(3))]);
    let mut world = World::new(plan.clone());
    world.plan.service_us = (100_000, 100_001);
    world.run_until(160_000);
    world.crash(1, None);
    let record = world.run();
    assert!(!record.only().returned().1, "it caught what the sub-chain threw, not that its creator was gone");
    assert_eq!(record.paths("hop").last(), Some(&(2, 4)), "and goes on from where the sub-chain threw");
}

#[test]
fn without_a_catching_function_the_parents_try_and_catch_has_it() {
    let record = run_rightly(&Plan::simple(5, vec![Op::Try(at(0, THROWS)), Op::Call(work(3))]));
    assert_eq!(record.paths("hop"), [(0, 1), (1, 2), (2, 3), (3, 4)], "caught at 3, where the sub-chain threw");
}

#[test]
fn uncaught_by_all_it_reaches_the_origin_with_name_parameters_and_path() {
    let record = run(&Plan::simple(5, vec![Op::Call(at(0, THROWS)), Op::Call(work(3))]));
    let why = record.only().exception();
    assert_eq!((why.name.as_str(), why.step), ("Oops", 3));
    assert!(why.params.is_some() && why.target.as_deref() == Some("s2/fail"), "{why}");
    assert_eq!(why.path, ["n0", "n1", "n2", "n3"]);
    assert_eq!(record.paths("end"), [(3, 0)], "straight from there");
}

#[test]
fn a_sub_chains_answers_go_to_its_creator_and_its_parents_to_the_origin() {
    let plan = Plan::simple(5, vec![Op::Emit, Op::Call(at(0, HEARS)), Op::Emit]);
    let record = run_rightly(&plan);
    assert_eq!((record.only().partials.len(), heard(&record)), (2, 4));
    assert_eq!(record.paths("partial"), [(2, 1), (2, 1), (3, 1), (3, 0)]);

    let mut plan = plan;
    plan.rules = Rules { duplicate: 60, reorder: 100, delay: 50, ..Rules::default() };
    for seed in 0..200 {
        plan.seed = seed;
        let record = run(&plan);
        assert_eq!((record.only().partials.len(), heard(&record)), (2, 4), "in order and once, seed {seed}");
    }
}

#[test]
fn answers_that_no_creator_wants_are_not_sent() {
    let record = run_rightly(&Plan::simple(4, vec![Op::Call(at(0, QUIET))]));
    assert_eq!((record.count("partial"), heard(&record)), (0, 0));
}

#[test]
fn answers_of_a_sub_chains_branches_go_to_its_creator() {
    let record = run_rightly(&Plan::simple(4, vec![Op::Emit, Op::Call(at(0, FORKS)), Op::Emit]));
    assert_eq!(heard(&record), 6, "two of its own, two of each branch");
    assert_eq!(record.only().partials.len(), 2, "and the end of the whole is exact");
    let creators: Vec<_> = record.heard.keys().map(|(_, key)| key.step).collect();
    assert_eq!(creators, [1], "all under the step at which the sub-chain began");
}

#[test]
fn a_creator_hears_a_sub_chain_that_runs_on_its_own_too() {
    let mut plan = Plan::simple(4, vec![Op::Call(at(0, HEARS)), Op::Call(at(0, FORKS))]);
    plan.chains[0].compose = false;
    let record = run_rightly(&plan);
    assert_eq!((heard(&record), record.only().partials.len()), (10, 0));
    assert!(record.heard.keys().all(|(_, key)| key.chain == *record.chains.keys().next().unwrap()));
}
