//! Walks all states of a world, and holds each against the promises.

use catena_wire::NodeId;
use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::{
    guest::{THROWN_IN_DOUBT, WRONG_MERGE, emits, lines},
    world::{Event, Failed, Setup, World},
};

impl Model for Setup {
    type State = World;
    type Action = Event;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self)]
    }

    fn actions(&self, world: &World, events: &mut Vec<Event>) {
        events.extend(world.events());
    }

    fn next_state(&self, world: &World, event: Event) -> Option<World> {
        Some(world.after(event, self.bug))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("nothing is asked for that may not be", |_, world: &World| world.wrong.is_none()),
            // No other function may be done again, and none is when it is unknown whether it was.
            Property::always("no effect twice at all, but where that is allowed", |setup: &Setup, world: &World| {
                let allowed = |node: &NodeId| Some(node.0 as usize % 100) == setup.repeatable;
                world.effects.values().all(|runs| runs.len() == 1 || runs.iter().all(allowed))
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
            Property::always("a doubt is told with whatever is thrown after it", |_, world: &World| {
                world.failed().all(|failed| failed.unknown || failed.name != THROWN_IN_DOUBT)
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
            Property::always("a merge brings every branch's result, once and in order", |_, world: &World| {
                !world.failed().any(|failed| failed.name == WRONG_MERGE)
            }),
            Property::always("no chain makes more calls than its budget", |setup: &Setup, world: &World| {
                let spent = |run: u64| world.effects.iter().filter(|((r, _), _)| r % 50 == run).count();
                (1..=setup.chains.len() as u64).all(|run| spent(run) <= setup.hops as usize)
            }),
            Property::always("every chain ends, and leaves nothing behind", |_, world: &World| {
                let at_rest = world.packets.is_empty() && world.next_timeout().is_none();
                !at_rest
                    || (world.chains.iter().all(|(_, seen)| seen.origin_crashed || seen.ends.len() == 1)
                        && world.hosts.iter().all(|host| host.node.is_idle() && host.guests.is_empty()))
            }),
            Property::always("without a fault every chain is answered", |setup: &Setup, world: &World| {
                world.left != setup.faults
                    || setup.strained
                    || world.chains.iter().all(|(_, seen)| seen.ends.is_empty() || seen.ends == [Ok(())])
            }),
            Property::always("a cancelled chain ends as cancelled, or had ended", |_, world: &World| {
                world.chains.iter().all(|(_, seen)| {
                    let as_cancelled =
                        |end: &Result<(), Failed>| matches!(end, Err(failed) if failed.name == "Cancelled");
                    !seen.cancelled || seen.ends.iter().all(as_cancelled)
                })
            }),
            // So that a world in which nothing ever happens does not pass.
            Property::sometimes("a chain is answered", |setup: &Setup, world: &World| {
                setup.strained || world.chains.iter().any(|(_, seen)| seen.ends == [Ok(())])
            }),
        ]
    }
}

/// States beyond which a world is not small any more.
const STATES_MAX: usize = 4_000_000;

/// A mistake that shows only later may hide: the walk need not end, since a world with a mistake may have no end.
#[cfg(feature = "seeded-bugs")]
const STATES_WITH_A_BUG_MAX: usize = 200_000;

fn walk(setup: Setup, states_max: usize) -> impl Checker<Setup> {
    let walk = setup.checker().threads(2).target_state_count(states_max).finish_when(HasDiscoveries::AnyFailures);
    walk.spawn_bfs().join()
}

/// Walks all of it; says how much that was.
pub(crate) fn explore(setup: Setup) {
    let name = setup.name;
    let checker = walk(setup, STATES_MAX);
    println!("{name}: {} states, {} of them different", checker.state_count(), checker.unique_state_count());
    assert!(checker.state_count() < STATES_MAX, "{name}: not walked to its end");
    checker.assert_properties();
}

/// The promise that is broken, if one is.
#[cfg(feature = "seeded-bugs")]
pub(crate) fn broken_promise(setup: Setup) -> Option<&'static str> {
    let checker = walk(setup, STATES_WITH_A_BUG_MAX);
    let broken = |name: &&'static str| *name != "a chain is answered";
    checker.discoveries().into_keys().find(broken)
}
