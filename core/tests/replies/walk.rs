//! Walks all states of small worlds.

use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::{
    promises::broken,
    tree::Tree,
    world::{Clocks, Event, Faults, Setup, World},
};

/// States beyond which a world is not small any more.
const STATES_MAX: usize = 2_000_000;

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
            Property::always("every promise", |setup: &Setup, world: &World| broken(setup, world).is_none()),
            // So that a world in which nothing ever happens does not pass.
            Property::sometimes("a set is complete", |_, world: &World| {
                world
                    .calls
                    .iter()
                    .any(|(_, seen)| seen.ends.iter().any(|(missing, failure)| missing.is_empty() && failure.is_none()))
            }),
        ]
    }
}

/// Small worlds that together hold everything: two servers and one to which both delegate, a crash, a loss, a cancel.
pub(crate) fn setups() -> Vec<Setup> {
    let world = |name, tree: Tree, faults| Setup { name, calls: vec![tree], faults, ..Setup::default() };
    let delegating = || Tree::new(1, 1).delegating(Tree::new(2, 1));
    let crash = Faults { crashes: 1, ..Faults::default() };
    let network = Faults { losses: 1, repetitions: 1, ..Faults::default() };
    let cancel = Faults { cancels: 1, ..Faults::default() };
    let back = Tree { returns: true, ..Tree::new(1, 0) };
    vec![
        world("one reply and what is returned", Tree { returns: true, ..Tree::new(1, 1) }, network),
        world("two servers, delegation, no fault", delegating(), Faults::default()),
        world("two servers, delegation, one crash", delegating(), crash),
        world("two servers, delegation, one repetition", delegating(), Faults { repetitions: 1, ..Faults::default() }),
        world("two servers, delegation, one loss", delegating(), Faults { losses: 1, ..Faults::default() }),
        world(
            "tasks that reply later, delegation, a cancel",
            Tree::new(1, 0).later(1).delegating(Tree::new(2, 0).kept()),
            cancel,
        ),
        world(
            "a delegate that delegates back",
            Tree::new(1, 0).delegating(Tree::new(2, 1).delegating(back)),
            Faults::default(),
        ),
        world(
            "a delegate that throws beside one that replies",
            Tree::new(1, 0).delegating(Tree { throws: true, ..Tree::new(2, 1) }).delegating(Tree::new(1, 1)),
            Faults::default(),
        ),
        world("a right that is kept until time is up", Tree::new(1, 1).kept(), Faults::default()),
        Setup {
            clocks: Clocks::ServerFirst,
            ..world(
                "a delegate that keeps its right, a server's clock first",
                Tree::new(1, 1).delegating(Tree::new(2, 1).kept()),
                Faults::default(),
            )
        },
        Setup {
            clocks: Clocks::ServerShort,
            ..world(
                "a right that is kept beside one that throws, by servers that give less time",
                Tree { throws: true, ..Tree::new(1, 1) }.delegating(Tree::new(2, 1).kept()),
                Faults::default(),
            )
        },
        world(
            "a deadline that passes early",
            Tree::new(1, 0).delegating(Tree::new(2, 1)),
            Faults { haste: 1, ..Faults::default() },
        ),
        world(
            "a service of the caller's own node",
            Tree::new(0, 1).delegating(Tree::new(1, 1).delegating(Tree::new(0, 1))),
            Faults::default(),
        ),
        Setup { in_functions: true, ..world("a function reads, delegation, one crash", delegating(), crash) },
        Setup {
            in_functions: true,
            lazy: true,
            ..world(
                "a function that stops early, a task that replies later, a cancel",
                Tree::new(1, 1).later(2),
                cancel,
            )
        },
        Setup {
            bursts: true,
            ..world(
                "replies that follow each other quickly",
                Tree::new(1, 3),
                Faults { repetitions: 1, ..Faults::default() },
            )
        },
        Setup { window: 1, lazy: true, ..world("a reader behind", Tree::new(1, 2).later(1), Faults::default()) },
    ]
}

fn walk(setup: Setup) -> impl Checker<Setup> {
    let walk = setup.checker().threads(2).target_state_count(STATES_MAX).finish_when(HasDiscoveries::AnyFailures);
    walk.spawn_bfs().join()
}

#[test]
fn every_state_of_small_worlds_keeps_the_promises() {
    for setup in setups() {
        let (name, kept) = (setup.name, setup.calls[0].rights().iter().any(|(_, right)| right.keeps || right.throws));
        let checker = walk(setup.clone());
        println!("{name}: {} states, {} of them different", checker.state_count(), checker.unique_state_count());
        assert!(checker.state_count() < STATES_MAX, "{name}: not walked to its end");
        if let Some(path) = checker.discovery("every promise") {
            let last = path.last_state();
            panic!("{name}: {:?}\n{:?}\n{last:#?}", broken(&setup, last), path.clone().into_actions());
        }
        assert!(
            kept || setup.faults.cancels > 0 || checker.discovery("a set is complete").is_some(),
            "{name}: never complete"
        );
    }
}

/// The promise that is broken, if one is.
#[cfg(feature = "seeded-bugs")]
pub(crate) fn broken_promise(setup: Setup) -> Option<&'static str> {
    let checker = walk(setup.clone());
    let path = checker.discovery("every promise")?;
    broken(&setup, path.last_state())
}
