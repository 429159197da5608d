//! Chains that break, or are no longer wanted.

use catena_wire::{Outcome, names};

use super::*;

#[test]
fn a_repeated_hop_does_not_run_twice_but_its_outcome_is_sent_again() {
    let mut plan = Plan::simple(3, vec![Op::Emit, Op::Call(work(0)), Op::Call(work(1))]);
    plan.rules = Rules { duplicate: 100, ..Rules::default() };
    // Nobody is told that it is over: then only that its steps were done would be known.
    let kept = |_| catena_core::Policy { over_gather_us: 3_600_000_000, ..policy() };
    let record = World::with_policy(plan.clone(), kept).run();
    invariants::check(&plan, &record).unwrap();
    assert!(record.effects.values().all(|count| *count == 1), "{:?}", record.effects);
    assert!(record.paths("hop").iter().filter(|path| **path == (1, 2)).count() > 1, "hop on, once more");
    assert!(record.count("end") > 1, "the answer, once more");
    assert_eq!(record.only().partials.len(), 1);
}

#[test]
fn what_answers_its_steps_again_is_kept_until_the_chain_is_over() {
    let mut plan = Plan::simple(4, vec![Op::Call(work(0)), Op::Call(slow(1)), Op::Call(work(2))]);
    plan.slow_us = 1_000_000;
    let mut world = World::new(plan);
    let held = |world: &World| -> Vec<_> { world.hosts.iter().map(|host| host.node.held_bytes() > 0).collect() };
    world.run_until(900_000);
    assert_eq!(held(&world)[..3], [true; 3]);
    world.run_until(3_000_000);
    assert!(world.is_idle());
    assert_eq!(world.record.paths("over"), [(0, 1), (1, 2), (2, 3)], "the way that it took");
    assert_eq!(held(&world), [false; 4]);
}

#[test]
fn a_hop_is_kept_until_it_is_accepted() {
    let mut plan = Plan::simple(3, vec![Op::Call(work(0)), Op::Call(work(1))]);
    // Nothing gets from 1 to 2 for three seconds, and nobody says so: only the timer of the one who has the hop can help.
    plan.cuts = vec![Cut { from: 1, to: 2, at_us: 0, until_us: 3_000_000, noticed_us: 100_000_000 }];
    let record = run(&plan);
    assert!(matches!(record.only().outcome(), Outcome::Done(_)));
    assert_eq!(
        record.paths("hop").iter().filter(|path| **path == (1, 2)).count(),
        3,
        "sent again until it was accepted"
    );
}

#[test]
fn signs_of_life_keep_a_slow_chain_alive() {
    let mut plan = Plan::simple(3, vec![Op::Call(slow(0)), Op::All(vec![slow(1), work(1)])]);
    plan.slow_us = 25_000_000;
    let record = run(&plan);
    assert!(matches!(record.only().outcome(), Outcome::Done(_)));
    assert!(record.count("heartbeat") >= 14, "one every three seconds: {}", record.count("heartbeat"));
}

#[test]
fn silence_ends_a_chain_with_the_step_and_the_host() {
    let mut plan = Plan::simple(3, vec![Op::Call(work(0)), Op::Call(slow(1))]);
    plan.slow_us = 50_000_000;
    // From the fourth second on nothing gets from the last server to the origin, and nobody notices.
    plan.cuts = vec![Cut { from: 2, to: 0, at_us: 4_000_000, until_us: 70_000_000, noticed_us: 100_000_000 }];
    let record = run(&plan);
    let why = record.only().exception();
    assert_eq!((why.name.as_str(), why.unknown), (names::CHAIN_LOST, true));
    assert!(why.message.contains("at step 2 n1 handed it to n2, which took it over"), "{}", why.message);
    assert_eq!((why.step, &why.path[..]), (2, &["n1".into(), "n2".into()][..]), "who had it last, and who has it");
    assert!(why.message.contains("sent again 2 times"), "{}", why.message);
    assert!(!why.path.is_empty() && why.step >= 1, "{why}");
    let ended_at_us = record.only().ended_at_us;
    assert!((20_400_000..21_200_000).contains(&ended_at_us), "6 s after the last sign, twice again: {ended_at_us}");
    assert!(record.paths("hop").iter().filter(|path| **path == (0, 1)).count() >= 3, "{:?}", record.paths("hop"));
    assert!(record.effects.values().all(|count| *count == 1), "nothing was done twice: {:?}", record.effects);
}

#[test]
fn a_silent_branch_is_found_where_it_stopped() {
    let branches = vec![vec![Op::Call(work(0))], vec![Op::Call(work(1)), Op::Call(slow(2))]];
    let mut plan = Plan::simple(5, vec![Op::Call(work(3)), Op::Split(branches, None)]);
    plan.slow_us = 50_000_000;
    plan.cuts = vec![Cut { from: 3, to: 0, at_us: 2_000_000, until_us: 70_000_000, noticed_us: 100_000_000 }];
    let record = run(&plan);
    let why = record.only().exception();
    assert_eq!((why.name.as_str(), &why.path[..]), (names::CHAIN_LOST, &["n2".into(), "n3".into()][..]), "{why}");
    assert!(record.effects.values().all(|count| *count == 1), "looking does nothing twice: {:?}", record.effects);
}

#[test]
fn what_was_logged_before_a_chain_was_lost_is_shown() {
    let program = vec![Op::Log, Op::Call(work(0)), Op::Log, Op::Call(slow(1)), Op::Log];
    let mut plan = Plan::simple(3, program);
    plan.slow_us = 50_000_000;
    plan.cuts = vec![Cut { from: 2, to: 0, at_us: 4_000_000, until_us: 70_000_000, noticed_us: 100_000_000 }];
    let record = run(&plan);
    assert_eq!(record.only().exception().name, names::CHAIN_LOST);
    let lines: Vec<_> = record.only().console.iter().map(|line| (line.number, line.step, line.node.as_str())).collect();
    assert_eq!(lines, [(0, 0, "n0"), (1, 1, "n1")], "they came with the signs of life");
}

#[test]
fn what_was_said_just_before_a_chain_was_lost_is_shown_too() {
    // No sign of life in between: whoever handed it over last still has the lines.
    let mut plan = Plan::simple(3, vec![Op::Log, Op::Call(work(0)), Op::Log, Op::Call(slow(1))]);
    plan.slow_us = 50_000_000;
    plan.cuts = vec![Cut { from: 2, to: 0, at_us: 0, until_us: 70_000_000, noticed_us: 100_000_000 }];
    let record = run(&plan);
    assert_eq!(record.only().exception().name, names::CHAIN_LOST);
    let lines: Vec<_> = record.only().console.iter().map(|line| (line.number, line.node.as_str())).collect();
    assert_eq!(lines, [(0, "n0"), (1, "n1")]);
}

#[test]
fn lines_of_branches_come_once_and_before_what_follows_from_them() {
    let branch = |n| vec![Op::Log, Op::Call(slow(n)), Op::Log];
    let split = Op::Split(vec![branch(0), branch(1)], None);
    let record = run(&Plan::simple(4, vec![Op::Log, Op::Call(work(2)), split, Op::Log]));
    let console = &record.only().console;
    let root: Vec<_> = console.iter().filter(|line| line.branch.is_root()).map(|line| line.number).collect();
    assert_eq!((console.len(), &root[..]), (6, &[0, 1][..]));
    assert!(console.first().unwrap().branch.is_root() && console.last().unwrap().branch.is_root(), "{console:?}");
    assert!(record.count("console") > 0, "the branches were slow enough for signs of life");
}

#[test]
fn a_node_that_allows_fewer_lines_loses_none_that_came_there() {
    let logs = |n| std::iter::repeat_n(Op::Log, n);
    let calls = [Op::Call(slow(0)), Op::Log, Op::Call(work(1)), Op::Log];
    let plan = Plan::simple(3, logs(4).chain(calls).collect());
    let few = |host| catena_core::Policy { console_lines_max: if host == 1 { 2 } else { 100 }, ..policy() };
    let record = World::with_policy(plan.clone(), few).run();
    invariants::check(&plan, &record).unwrap();
    assert!(record.count("console") > 0, "some were sent ahead");
    let lines: Vec<_> = record.only().console.iter().map(|line| (line.number, line.node.as_str())).collect();
    assert_eq!(lines, [(0, "n0"), (1, "n0"), (2, "n0"), (3, "n0"), (4, "n1"), (5, "n2")]);
    assert!(record.only().console[4].text.contains("left out"), "{:?}", record.only().console[4]);
}

#[test]
fn the_timer_of_the_signs_of_life_travels_with_the_chain() {
    // No stay is long enough for a sign of life of its own.
    let calls = (0..8).map(|n| Op::Call(slow(n % 2))).collect();
    let mut plan = Plan::simple(3, calls);
    plan.slow_us = 2_500_000;
    let record = run(&plan);
    assert!(matches!(record.only().outcome(), Outcome::Done(_)));
    assert!(record.count("heartbeat") >= 5, "{}", record.count("heartbeat"));
}

#[test]
fn a_call_beside_fails_as_soon_as_its_node_is_lost() {
    let mut plan = Plan::simple(3, vec![Op::All(vec![slow(0), work(1)])]);
    plan.slow_us = 10_000_000;
    let mut world = World::new(plan);
    world.run_until(2_000_000);
    world.crash(1, None);
    let record = world.run();
    assert_eq!(record.only().exception().name, names::NODE_LOST);
    assert!(record.only().ended_at_us < 3_000_000, "{}", record.only().ended_at_us);
}

#[test]
fn a_service_is_looked_up_again_after_its_node_was_lost() {
    let chain = |at_us| Chain::new(at_us, 0, vec![Op::Call(work(0))]);
    let mut plan = Plan::simple(3, Vec::new());
    plan.served = vec![vec![1, 2]];
    plan.chains = vec![chain(0), chain(2_000_000)];
    let mut world = World::new(plan);
    world.at(1_000_000, Event::Pause);
    world.run_until(1_000_000);
    world.crash(1, None);
    let record = world.run();
    assert!(record.chains.values().all(|seen| matches!(seen.outcome(), Outcome::Done(_))));
    assert_eq!(record.resolves.iter().map(|(service, _)| service.as_str()).collect::<Vec<_>>(), ["s0", "s0"]);
    assert_eq!(record.paths("hop"), [(0, 1), (0, 2)], "without trying the lost node first");
}

#[test]
fn calls_of_a_chain_that_is_stopped_are_stopped_as_well() {
    let mut plan = Plan::simple(4, vec![Op::Call(work(0)), Op::All(vec![slow(1), slow(0), slow(2)])]);
    plan.slow_us = 10_000_000;
    plan.time_us = 3_000_000;
    let record = run(&plan);
    assert_eq!(record.only().exception().name, names::DEADLINE_EXCEEDED);
    let mut withdrawn = record.paths("withdraw");
    withdrawn.sort_unstable();
    assert_eq!(withdrawn, [(1, 2), (1, 3)]);
    assert_eq!(record.cancelled, 3, "one here, one at each node that was asked");
}

#[test]
fn a_caller_that_gives_up_stops_the_call_where_it_runs() {
    let mut plan = Plan::simple(2, Vec::new());
    plan.chains.clear();
    plan.calls = vec![PlainCall { at_us: 0, from: 0, target: slow(0), withdraw_after_us: Some(1_000_000) }];
    let record = run(&plan);
    assert_eq!((record.paths("withdraw"), record.cancelled), (vec![(0, 1)], 1));
    assert!(record.calls.values().all(Vec::is_empty), "no answer comes");

    plan.calls[0].withdraw_after_us = Some(0);
    let record = run(&plan);
    assert!(record.sent.is_empty(), "withdrawn while its name was being looked up: {:?}", record.sent);
}

#[test]
fn a_chain_whose_user_left_goes_on_and_leaves_nothing_behind() {
    let mut world = World::new(Plan::simple(4, three_calls()));
    world.run_until(20_000);
    let chain = *world.record.chains.keys().next().unwrap();
    world.at(20_000, Event::Forget(chain));
    let record = world.run();
    assert!(record.busy.is_empty() && record.restless.is_none());
    assert_eq!(record.effects.len(), 3, "it was under way");
    assert!(record.only().ends.is_empty(), "and nobody is told");
}

#[test]
fn a_state_that_never_arrives_ends_the_chain_or_comes_with_the_next_sending() {
    let mut plan = Plan::simple(3, vec![Op::Call(work(0)), Op::Call(work(1))]);
    plan.rules = Rules { no_tail: 60, ..Rules::default() };
    let mut outcomes = std::collections::BTreeMap::<String, usize>::new();
    for seed in 0..200 {
        plan.seed = seed;
        let name = match run(&plan).only().outcome() {
            Outcome::Done(_) => "done".to_string(),
            Outcome::Threw(why) => why.name.clone(),
        };
        *outcomes.entry(name).or_default() += 1;
    }
    assert!(outcomes.keys().all(|name| name == "done" || name == names::NODE_LOST), "{outcomes:?}");
    assert!(outcomes.contains_key("done") && outcomes.contains_key(names::NODE_LOST), "{outcomes:?}");
}
