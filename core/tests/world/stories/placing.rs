//! Where a chain runs, and how its answers find an origin that nobody can dial (rpc-chains sections 3.7 and 7.3).

use catena_wire::{Mode, Outcome};

use super::*;
use crate::drawn::Rng;

#[test]
fn a_service_without_guests_is_called_from_where_the_chain_stands() {
    let mut plan = Plan::simple(4, three_calls());
    plan.nodes.no_guests = vec![2];
    let record = run_rightly(&plan);
    assert_eq!(record.paths("hop"), [(0, 1), (1, 2), (1, 3)]);
    assert_eq!((record.paths("refused"), record.paths("call")), (vec![(2, 1)], vec![(1, 2)]));
}

#[test]
fn a_late_copy_of_a_refused_hop_does_not_disturb_the_call_in_its_place() {
    let mut plan = Plan::simple(4, three_calls());
    plan.nodes.no_guests = vec![1, 2, 3];
    plan.rules = Rules { duplicate: 100, delay: 50, ..Rules::default() };
    for seed in 0..100 {
        plan.seed = seed;
        let record = run(&plan);
        assert!(matches!(record.only().outcome(), Outcome::Done(_)), "seed {seed}: {:?}", record.only().outcome());
    }
}

#[test]
fn a_proxy_hosts_the_chain_in_the_place_of_the_server() {
    let mut plan = Plan::simple(5, three_calls());
    plan.nodes.no_guests = vec![2];
    plan.nodes.proxies = vec![(1, 4)];
    let record = run_rightly(&plan);
    assert_eq!(record.paths("hop"), [(0, 1), (1, 4), (4, 3)]);
    assert_eq!(record.paths("call"), [(4, 2)]);
}

#[test]
fn without_its_proxy_a_service_is_called_from_where_the_chain_stands() {
    let mut plan = Plan::simple(5, three_calls());
    plan.nodes.no_guests = vec![2];
    plan.nodes.proxies = vec![(1, 4)];
    let mut world = World::new(plan);
    world.crash(4, None);
    let record = world.run();
    assert!(matches!(record.only().outcome(), Outcome::Done(_)));
    assert_eq!((record.paths("hop").last(), record.paths("call")), (Some(&(1, 3)), vec![(1, 2)]));
}

#[test]
fn an_interactive_chain_is_a_series_of_plain_calls_from_its_origin() {
    let mut plan = Plan::simple(5, three_calls());
    plan.chains[0].program.push(Op::Split(vec![vec![Op::Call(work(0))], vec![Op::Call(work(3))]], Some(1)));
    plan.chains[0].mode = Mode::Interactive;
    let record = run_rightly(&plan);
    assert_eq!((record.count("hop"), record.count("end")), (0, 0));
    assert_eq!(record.paths("call"), [(0, 1), (0, 2), (0, 3), (0, 1), (0, 4)], "and its branches too");
}

#[test]
fn answers_find_an_origin_that_nobody_can_dial_by_the_node_of_its_entry() {
    let mut plan = Plan::simple(4, vec![Op::Call(work(0)), Op::Emit, Op::Call(work(1)), Op::Emit, Op::Call(work(2))]);
    plan.nodes.undialled = Some(0);
    let record = run_rightly(&plan);
    assert_eq!(record.paths("partial"), [(1, 0), (1, 0)], "from the entry itself, and passed on by it");
    assert_eq!((record.paths("relay"), record.paths("end")), (vec![(2, 1), (3, 1)], vec![(1, 0)]));
}

#[test]
fn branches_end_at_an_origin_that_nobody_can_dial() {
    let branch = |n| vec![Op::Call(work(n)), Op::Call(work(2))];
    let mut plan = Plan::simple(4, vec![Op::Split(vec![branch(0), branch(1)], None)]);
    plan.nodes.undialled = Some(0);
    let record = run_rightly(&plan);
    let mut relays = record.paths("relay");
    relays.sort_unstable();
    assert_eq!(relays, [(3, 1), (3, 2)], "each by the node where it entered");
}

#[test]
fn signs_of_life_find_an_origin_that_nobody_can_dial() {
    let mut plan = Plan::simple(3, vec![Op::Call(work(0)), Op::Call(slow(1))]);
    plan.nodes.undialled = Some(0);
    plan.slow_us = 20_000_000;
    let record = run_rightly(&plan);
    assert_eq!(record.count("hop"), 2, "nothing was sent again");
    assert!(record.count("relay") >= 5);
}

/// A world with links, state and results of drawn sizes, in which the same function runs again and again.
fn drawn(seed: u64, mode: Mode) -> Plan {
    let mut rng = Rng::new(seed);
    let mut program = vec![Op::Keep(rng.range(0, 60_000) as u32)];
    program.extend((0..rng.range(2, 6)).map(|_| Op::Call(work(rng.range(0, 3) as u8))));
    let mut plan = Plan::simple(4, Vec::new());
    plan.seed = seed;
    plan.delay_us = (2_000, [10_000, 60_000][rng.range(0, 2) as usize]);
    plan.service_us = (500, 501);
    plan.nodes.bytes_per_s = Some([100_000, 1_000_000, 10_000_000][rng.range(0, 3) as usize]);
    plan.nodes.wider = 8;
    plan.nodes.result_bytes = (0..3).map(|_| [0, rng.range(0, 100_000)][rng.range(0, 2) as usize] as u32).collect();
    plan.chains = (0..RUNS).map(|run| Chain { mode, ..Chain::new(run * 20_000_000, 0, program.clone()) }).collect();
    plan
}

const RUNS: u64 = 14;
/// Each of three modes twice.
const LEARNING_RUNS: usize = 6;

/// How long the runs take on average, once the names are known and the function is everywhere.
fn took_us(seed: u64, mode: Mode) -> u64 {
    let plan = drawn(seed, mode);
    let record = run(&plan);
    let late = record.chains.values().skip(LEARNING_RUNS);
    assert!(record.chains.values().all(|seen| matches!(seen.outcome(), Outcome::Done(_))), "{:?}", record.only());
    let took: Vec<u64> = late.map(|seen| seen.ended_at_us - plan.chains[seen.program].at_us).collect();
    took.iter().sum::<u64>() / took.len() as u64
}

#[test]
fn an_adaptive_chain_is_as_quick_as_the_better_of_both_ways() {
    let (mut chains, mut calls, mut better, mut worst) = (0, 0, 0, 0);
    for seed in 0..300 {
        let [chain, interactive, adaptive] =
            [Mode::Chain, Mode::Interactive, Mode::Adaptive].map(|mode| took_us(seed, mode));
        let best = chain.min(interactive);
        assert!(
            adaptive * 100 <= best * 105,
            "seed {seed}: {adaptive} us, where a chain took {chain} and calls {interactive}: {:?}",
            drawn(seed, Mode::Adaptive)
        );
        chains += usize::from(chain < interactive);
        calls += usize::from(interactive < chain);
        better += usize::from(adaptive * 105 < best * 100);
        worst = worst.max(adaptive * 1_000 / best);
    }
    println!("chain {chains}, calls {calls}, better than both {better}; at worst {worst} of 1,000");
    assert!(chains > 50 && calls > 50 && better > 10, "chain {chains}, calls {calls}, better than both {better}");
}
