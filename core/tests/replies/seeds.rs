//! Long random ways through larger worlds: drawn trees, drawn faults, in whatever order.

use crate::{
    promises::broken,
    tree::Tree,
    world::{Event, Faults, Setup, World},
};

/// Ways, unless `CATENA_SEEDS` says otherwise.
const SEEDS: u64 = 4_000;
/// Events of one way: more, and it has no end.
const EVENTS_MAX: usize = 100_000;

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    fn one_in(&mut self, parts: u64) -> bool {
        self.below(parts) == 0
    }
}

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
        ..Setup::default()
    }
}

/// What happens next: deliveries mostly, faults now and then.
fn choose(rng: &mut Rng, events: &[Event]) -> Event {
    for _ in 0..100 {
        let event = events[rng.below(events.len() as u64) as usize];
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

fn go(seed: u64, setup: &Setup, rng: &mut Rng) -> usize {
    let mut world = World::new(setup);
    for count in 0..EVENTS_MAX {
        if let Some(promise) = broken(setup, &world) {
            panic!("seed {seed}, after {count} events: {promise}\n{setup:#?}\n{world:#?}");
        }
        let events = world.events(setup);
        if world.at_rest(setup) {
            return count;
        }
        let event = choose(rng, &events);
        world.happen(setup, event);
    }
    panic!("seed {seed}: {EVENTS_MAX} events, and it still goes on\n{setup:#?}");
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn whatever_goes_wrong_every_call_ends_exactly() {
    let seeds = number("CATENA_SEED").map_or(0..number("CATENA_SEEDS").unwrap_or(SEEDS), |seed| seed..seed + 1);
    let mut events = 0;
    for seed in seeds.clone() {
        let mut rng = Rng(seed);
        let setup = draw(&mut rng);
        events += go(seed, &setup, &mut rng);
    }
    println!("{} ways, {events} events", seeds.count());
}
