//! Chains whose origin is gone: nobody can be told how they end, and nobody is there to stop them (rpc-chains section 3.10).

use super::*;

const SECOND: u64 = 1_000_000;

/// Host 1 answers a call with a chain that runs on its own. A second after that has gone on to host 2, host 1 dies. Each call lasts so long.
fn orphaned(call_us: u64, restart_after_us: Option<u64>) -> World {
    let mut plan = Plan::simple(4, vec![Op::Call(at(0, CHAIN))]);
    plan.chains[0].compose = false;
    plan.service_us = (call_us, call_us + 1);
    plan.time_us = 600 * SECOND;
    let mut world = World::new(plan);
    world.at(call_us + SECOND, Event::Pause);
    world.run_until(call_us + SECOND);
    world.crash(1, restart_after_us);
    world
}

/// It is at this host 55 s after its creator died, and nowhere 70 s after: a minute after the first sign of life that did not arrive, at the next one.
fn ends_in_time_at(host: usize, mut world: World) {
    let died_at = world.now;
    world.run_until(died_at + 55 * SECOND);
    let held = world.hosts[host].node.held_bytes();
    assert_eq!(world.hosts[host].node.load(), (1, 0, 1), "its creator may be out of reach for a while");
    world.run_until(died_at + 70 * SECOND);
    let at = &world.hosts[host];
    assert_eq!((at.node.load(), at.guests.len(), world.record.cancelled), ((0, 0, 0), 0, 1));
    assert!(at.node.held_bytes() < held / 2, "that it was dropped is remembered, and no more");
    // For so long its creator is told that it was dropped: it might be asleep.
    world.run_until(died_at + 700 * SECOND);
    assert!(world.is_idle(), "no other node has anything of it");
}

#[test]
pub(crate) fn a_sub_chain_on_its_own_whose_creator_died_ends_a_minute_later() {
    for restart_after_us in [None, Some(SECOND)] {
        ends_in_time_at(2, orphaned(100 * SECOND, restart_after_us));
    }
}

#[test]
pub(crate) fn an_orphan_that_moves_on_ends_no_later() {
    ends_in_time_at(3, orphaned(50 * SECOND, None));
}

#[test]
fn an_origin_that_is_back_keeps_a_chain_that_moves() {
    let mut plan = Plan::simple(3, (0..30).map(|n| Op::Call(work(n % 2))).collect());
    (plan.service_us, plan.hops, plan.time_us) = ((5 * SECOND, 5 * SECOND + 1), 40, 600 * SECOND);
    let (at_us, until_us) = (10 * SECOND, 17 * SECOND);
    plan.cuts = [1, 2].map(|from| Cut { from, to: 0, at_us, until_us, noticed_us: at_us }).to_vec();
    assert!(run_rightly(&plan).only().ended_at_us > 140 * SECOND);
}
