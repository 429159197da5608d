//! Walks all states of a world, and holds each against the promises.

use catena_wire::names;
use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::{
    guest::{THROWN_UNCERTAIN, WRONG_MERGE, emits, heard, lines},
    setup::{Faults, Kind, Setup},
    world::{Event, Failed, World},
};

/// So that a world in which nothing ever happens does not pass.
const ANSWERED: &str = "a chain is answered";

impl Model for Setup {
    type State = World;
    type Action = Event;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self)]
    }

    fn actions(&self, world: &World, events: &mut Vec<Event>) {
        events.extend(world.events(self));
    }

    fn next_state(&self, world: &World, event: Event) -> Option<World> {
        Some(world.after(self, event))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("nothing is asked for that may not be", |_, world: &World| world.wrong.is_none()),
            // No other function may be done again, and none is when it is unknown whether it was.
            Property::always("no effect twice at all, but where that is allowed", |setup: &Setup, world: &World| {
                let repeatable = |service: &str| {
                    let number: usize = service[1..].parse().unwrap();
                    setup.services[number].kind == Kind::Repeatable
                };
                world.effects.iter().all(|((.., service), runs)| runs.len() == 1 || repeatable(service))
            }),
            Property::always(
                "each line of the console once, in order, and all with the result",
                |setup: &Setup, world: &World| {
                    world.chains.iter().zip(&setup.chains).all(|((_, seen), (_, program))| {
                        let in_order = seen.lines.iter().zip(0..).all(|(number, place)| *number == place);
                        in_order && (seen.ends != [Ok(())] || seen.lines.len() == lines(program))
                    })
                },
            ),
            Property::always("a chain that failed at a step failed before its effect", |_, world: &World| {
                let before = |failed: &Failed| failed.at.as_ref().is_none_or(|at| !world.done.contains(at));
                world.failed().all(|failed| failed.unknown || before(failed))
            }),
            Property::always("an uncertainty is told with whatever is thrown after it", |_, world: &World| {
                world.failed().all(|failed| failed.unknown || failed.name != THROWN_UNCERTAIN)
            }),
            Property::always("every chain ends at most once", |_, world: &World| {
                world.chains.iter().all(|(_, seen)| seen.ends.len() <= 1)
            }),
            Property::always("no answer is lost, or delivered twice", |setup: &Setup, world: &World| {
                world.chains.iter().zip(&setup.chains).all(|((_, seen), (_, program))| {
                    let sent = emits(program);
                    seen.partials <= sent && (seen.ends != [Ok(())] || seen.partials == sent)
                })
            }),
            Property::always("a service hears each answer of its sub-chain once", |setup: &Setup, world: &World| {
                let sent: usize = setup.chains.iter().map(|(_, program)| heard(program)).sum();
                let all = setup.hears && setup.only_the_network_errs() && at_rest(world);
                world.heard <= sent && (!all || world.heard == sent)
            }),
            Property::always("a merge brings every branch's result, once and in order", |_, world: &World| {
                !world.failed().any(|failed| failed.name == WRONG_MERGE)
            }),
            Property::always("no chain makes more calls than its budget", |setup: &Setup, world: &World| {
                let spent = |run: u64| world.effects.iter().filter(|((r, ..), _)| r % 50 == run).count();
                (1..=setup.chains.len() as u64).all(|run| spent(run) <= setup.hops as usize)
            }),
            Property::always("no node has more chains than it has room for", |setup: &Setup, world: &World| {
                world.hosts.iter().all(|host| host.node.load().0 <= setup.activations_max)
            }),
            Property::always("every chain ends, and leaves nothing behind", |_, world: &World| {
                !at_rest(world)
                    || (world.chains.iter().all(|(_, seen)| seen.origin_crashed || seen.ends.len() == 1)
                        && world.hosts.iter().all(|host| host.node.is_idle() && host.guests.is_empty()))
            }),
            // Not only when their time is up, as after a fault.
            Property::always("of chains that have ended nothing goes on", |setup: &Setup, world: &World| {
                let Faults { crashes, losses, haste, sleeps, .. } = setup.faults;
                let open = world.chains.iter().any(|(_, seen)| seen.ends.is_empty());
                let faulty = crashes > 0 || losses > 0 || haste > 0 || sleeps > 0;
                open || faulty || !world.packets.is_empty() || world.hosts.iter().all(|host| host.node.load().0 == 0)
            }),
            Property::always("without a fault every chain is answered", |setup: &Setup, world: &World| {
                world.left != setup.faults || setup.strained || all_answered(world)
            }),
            Property::always("what the network loses or repeats does no harm", |setup: &Setup, world: &World| {
                let harmless = setup.only_hops() && setup.only_the_network_errs();
                !harmless || setup.strained || all_answered(world)
            }),
            Property::always("no chain waits until its time is up", |setup: &Setup, world: &World| {
                let prompt = setup.only_hops() && setup.faults.sleeps == 0;
                !prompt || world.failed().all(|failed| failed.name != names::DEADLINE_EXCEEDED)
            }),
            Property::always("a cancelled chain ends as cancelled, or had ended", |_, world: &World| {
                world.chains.iter().all(|(_, seen)| {
                    let as_cancelled =
                        |end: &Result<(), Failed>| matches!(end, Err(failed) if failed.name == "Cancelled");
                    !seen.cancelled || seen.ends.iter().all(as_cancelled)
                })
            }),
            Property::sometimes(ANSWERED, |setup: &Setup, world: &World| {
                setup.strained || world.chains.iter().any(|(_, seen)| seen.ends == [Ok(())])
            }),
        ]
    }
}

fn at_rest(world: &World) -> bool {
    world.packets.is_empty() && world.next_timeout().is_none()
}

/// Of those that have ended.
fn all_answered(world: &World) -> bool {
    world.chains.iter().all(|(_, seen)| seen.ends.is_empty() || seen.ends == [Ok(())])
}

/// States beyond which a world is not small any more.
const STATES_MAX: usize = 4_000_000;

/// A mistake that shows only later may hide: the walk need not end, since a world with a mistake may have no end.
#[cfg(feature = "seeded-bugs")]
const STATES_WITH_A_BUG_MAX: usize = 400_000;

fn walk(setup: Setup, states_max: usize) -> impl Checker<Setup> {
    let walk = setup.checker().threads(2).target_state_count(states_max).finish_when(HasDiscoveries::AnyFailures);
    walk.spawn_bfs().join()
}

/// Walks all of it; returns how many different states it has, and whether all promises hold.
pub(crate) fn explore(setup: Setup) -> (usize, bool) {
    let (name, started) = (setup.name, std::time::Instant::now());
    let checker = walk(setup, STATES_MAX);
    let (all, different) = (checker.state_count(), checker.unique_state_count());
    println!("{different:>7} states, {all:>7} ways to them, {:>5.1} s: {name}", started.elapsed().as_secs_f32());
    let mut kept = all < STATES_MAX;
    for (promise, path) in checker.discoveries().into_iter().filter(|(promise, _)| *promise != ANSWERED) {
        kept = false;
        println!("broken: {promise}\n{:#?}\n{:#?}", path.clone().into_actions(), path.last_state().chains);
    }
    if checker.discovery(ANSWERED).is_none() {
        kept = false;
        println!("no chain is ever answered");
    }
    (different, kept)
}

/// The promise that is broken, if one is.
#[cfg(feature = "seeded-bugs")]
pub(crate) fn broken_promise(setup: Setup) -> Option<&'static str> {
    let checker = walk(setup, STATES_WITH_A_BUG_MAX);
    checker.discoveries().into_keys().find(|promise| *promise != ANSWERED)
}
