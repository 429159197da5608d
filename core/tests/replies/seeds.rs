//! Long random ways through larger worlds: drawn trees, drawn faults, in whatever order.

use std::cell::Cell;

use crate::{
    drawn::{Rng, all_hold, seeds},
    promises::broken,
    tree::Tree,
    world::{Clocks, Event, Faults, Setup, World},
};

const SEEDS: u64 = 4_000;
/// Events of one way: more, and it has no end.
const EVENTS_MAX: usize = 100_000;

fn draw_tree(rng: &mut Rng, hosts: u8, depth: u8) -> Tree {
    let delegates = if depth == 0 { 0 } else { rng.below(4) };
    let mut count = |bound| u8::try_from(rng.below(bound)).unwrap();
    let (host, replies, later) = (count(u64::from(hosts)), count(6), count(4));
    Tree {
        host,
        replies,
        returns: rng.one_in(2),
        throws: rng.one_in(12),
        later: rng.one_in(2).then_some(later),
        keeps: rng.one_in(40),
        delegates: (0..delegates).map(|_| draw_tree(rng, hosts, depth - 1)).collect(),
    }
}

fn draw(rng: &mut Rng) -> Setup {
    let hosts = 2 + u8::try_from(rng.below(5)).unwrap();
    let calls = (0..=rng.below(3)).map(|_| draw_tree(rng, hosts, 3)).collect();
    let mut count = |bound| u8::try_from(rng.below(bound)).unwrap();
    let all = Faults { crashes: count(3), losses: count(6), repetitions: count(6), cancels: count(2), haste: count(3) };
    let faults = if rng.one_in(4) { Faults::default() } else { all };
    let window = 1 + u32::try_from(rng.below(5)).unwrap();
    Setup {
        hosts,
        calls,
        faults,
        window,
        lazy: rng.one_in(2),
        bursts: rng.one_in(2),
        in_functions: rng.one_in(3),
        clocks: [Clocks::CallerFirst, Clocks::ServerFirst, Clocks::ServerShort][rng.below(3)],
        ..Setup::default()
    }
}

/// What happens next: deliveries mostly, faults now and then.
fn choose(rng: &mut Rng, events: &[Event]) -> Event {
    for _ in 0..100 {
        let event = events[rng.below(events.len())];
        let rare = match event {
            Event::Deliver(_) | Event::Go(..) | Event::Read(_) => 1,
            Event::Repeat(_) | Event::Lose(_) | Event::Time => 10,
            Event::Crash(_) | Event::Cancel(_) | Event::Forget(_) => 60,
        };
        if rng.one_in(rare) {
            return event;
        }
    }
    events[0]
}

/// How many events it has.
fn go(seed: u64) -> Result<usize, String> {
    let mut rng = Rng::new(seed);
    let setup = &draw(&mut rng);
    let mut world = World::new(setup);
    for count in 0..EVENTS_MAX {
        if let Some(promise) = broken(setup, &world) {
            return Err(format!("after {count} events: {promise}\n{setup:#?}\n{world:#?}"));
        }
        let events = world.events(setup);
        if world.at_rest(setup) {
            return Ok(count);
        }
        let event = choose(&mut rng, &events);
        world.happen(setup, event);
    }
    Err(format!("{EVENTS_MAX} events, and it still goes on\n{setup:#?}"))
}

#[test]
fn whatever_goes_wrong_every_call_ends_exactly() {
    let events = Cell::new(0);
    all_hold(seeds(SEEDS), |seed| {
        events.set(events.get() + go(seed)?);
        Ok(())
    });
    println!("{} ways, {} events", seeds(SEEDS).count(), events.get());
}
