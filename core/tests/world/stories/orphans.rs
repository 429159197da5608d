//! Chains whose origin is gone: nobody can be told how they end, and nobody is there to stop them (rpc-chains section 3.10).

use super::*;

const SECOND: u64 = 1_000_000;
const DIES_AT: u64 = 101 * SECOND;

/// Host 1 answers a call, after 100 s, with a chain that runs on its own, and dies when that has gone on to host 2, for a call of 100 s.
fn orphaned(restart_after_us: Option<u64>) -> World {
    let mut plan = Plan::simple(4, vec![Op::Call(at(0, CHAIN))]);
    plan.chains[0].compose = false;
    plan.service_us = (100 * SECOND, 100 * SECOND + 1);
    plan.time_us = 600 * SECOND;
    let mut world = World::new(plan);
    world.at(DIES_AT, Event::Pause);
    world.run_until(DIES_AT);
    world.crash(1, restart_after_us);
    world
}

#[test]
pub(crate) fn a_sub_chain_on_its_own_whose_creator_died_ends_a_minute_later() {
    for restart_after_us in [None, Some(SECOND)] {
        let mut world = orphaned(restart_after_us);
        world.run_until(DIES_AT + 55 * SECOND);
        let held = world.hosts[2].node.held_bytes();
        assert_eq!(world.hosts[2].node.load(), (1, 0, 1), "its creator may be out of reach for a while");
        // A minute after the first sign of life that did not arrive, at the next one: long before its deadline.
        world.run_until(DIES_AT + 70 * SECOND);
        let host = &world.hosts[2];
        assert_eq!((host.node.load(), host.guests.len(), world.record.cancelled), ((0, 0, 0), 0, 1));
        assert!(host.node.held_bytes() < held / 2, "that it was dropped is remembered, and no more");
        world.run_until(DIES_AT + 140 * SECOND);
        assert!(world.is_idle(), "no other node has anything of it");
    }
}
