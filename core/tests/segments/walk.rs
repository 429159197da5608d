//! Walks all states of small worlds of segments: every order in which messages come, every moment for a revocation and
//! for a fault.

use std::time::Instant;

use catena_wire::SegmentRefusal;
use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::{
    setup::{
        By, Does, Faults,
        OwnerDoes::{self, Export, Inhibit, Revoke, TakeRights},
        Setup,
    },
    small::{Event, World},
};

/// States beyond which a world is not small any more.
const STATES_MAX: usize = 500_000;

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
        Some(world.after(self, event))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("every promise", |setup: &Setup, world: &World| broken(setup, world).is_none()),
            // So that a world in which nothing ever happens does not pass.
            Property::sometimes("all is done", |_, world: &World| {
                world.at_rest() && ends(world).all(|end| end == Ok(()))
            }),
        ]
    }
}

/// The first promise that is broken, if one is.
fn broken(setup: &Setup, world: &World) -> Option<&'static str> {
    let Faults { cuts, restarts, haste, .. } = setup.faults;
    let requests = || world.peers.iter().flat_map(|peer| &peer.requests);
    let ended = |why: SegmentRefusal| ends(world).any(|end| end == Err(why));
    match () {
        () if world.wrong.is_some() => world.wrong,
        () if requests().any(|request| request.ends.len() > 1) => Some("a request ends twice"),
        () if world.at_rest() && requests().any(|request| request.ends.is_empty()) => Some("a request never ends"),
        () if world.at_rest() && world.is_waiting() => Some("what has ended is waited for"),
        () if haste == 0 && ended(SegmentRefusal::NoAnswer) => Some("an answer does not come, though no link breaks"),
        () if cuts + restarts == 0 && ended(SegmentRefusal::OwnerLost) => Some("an owner that is there is lost"),
        () if setup.is_calm() && ends(world).any(|end| end.is_err()) => Some("a request fails for no reason"),
        () => None,
    }
}

fn ends(world: &World) -> impl Iterator<Item = Result<(), SegmentRefusal>> {
    world.peers.iter().flat_map(|peer| &peer.requests).flat_map(|request| request.ends.iter().copied())
}

const SHORT: Does = Does::Write { long: false };
const LONG: Does = Does::Write { long: true };
/// The second write overtakes the first on its way; the read and the flush are to wait for both.
const ALL: &[Does] = &[LONG, SHORT, Does::Read, Does::Flush];

/// Small worlds that together hold everything.
fn setups() -> Vec<Setup> {
    let none = Faults::default();
    let again: &[OwnerDoes] = &[Revoke, Export];
    let two: &[Does] = &[SHORT, Does::Read];
    let swaps: &[(By, &[Does])] = &[(By::Rights, &[Does::Swap, Does::Swap]), (By::Rights, &[Does::Swap, Does::Swap])];
    let inhibited: &[OwnerDoes] = &[Inhibit(true), Inhibit(false)];
    let grants: &[(By, &[Does])] = &[(By::Grant, &[Does::Read, Does::Read]), (By::Grant, &[Does::Read])];
    let repetition = Faults { repetitions: 1, ..none };
    vec![
        Setup::new(
            "nothing goes wrong",
            &[],
            &[(By::Name, &[Does::Import, LONG, SHORT, Does::Read, Does::Flush])],
            none,
        ),
        Setup::new("revoked and exported again", again, &[(By::Rights, ALL)], none),
        Setup::new(
            "revoked, exported again and found by its name",
            again,
            &[(By::Name, &[Does::Import, SHORT, Does::Flush, Does::Import, SHORT, Does::Flush])],
            none,
        ),
        Setup::new("revoked and exported again, two importers", again, &[(By::Rights, two), (By::Rights, two)], none),
        Setup::new("revoked and exported again, one cut", again, &[(By::Rights, ALL)], Faults { cuts: 1, ..none }),
        Setup::new("revoked and exported again, one repetition", again, &[(By::Rights, ALL)], repetition),
        Setup::new("revoked, a deadline passes early", &[Revoke], &[(By::Rights, ALL)], Faults { haste: 1, ..none }),
        Setup::new("revoked, one restart", &[Revoke], &[(By::Rights, ALL)], Faults { restarts: 1, ..none }),
        Setup::new(
            "a name is looked up, one restart",
            &[],
            &[(By::Name, &[Does::Import, SHORT, Does::Read, Does::Flush])],
            Faults { restarts: 1, ..none },
        ),
        Setup::new("rights are taken back", &[TakeRights(0)], &[(By::Rights, two), (By::Rights, two)], none),
        Setup::new("a grant of one use, and who overheard it", &[Revoke], grants, none),
        Setup::new("a grant of one use, one repetition", &[Revoke], grants, repetition),
        Setup::new(
            "writes are inhibited and let again",
            inhibited,
            &[(By::Rights, &[LONG, SHORT, Does::Swap, Does::Read, Does::Flush])],
            none,
        ),
        Setup::new(
            "writes are inhibited, one cut",
            inhibited,
            &[(By::Rights, &[SHORT, Does::Swap, Does::Flush])],
            Faults { cuts: 1, ..none },
        ),
        Setup::new("two swap one word", &[], swaps, none),
        Setup::new("two swap one word, one repetition", &[], swaps, repetition),
        Setup::new("two swap one word, one cut", &[], swaps, Faults { cuts: 1, ..none }),
        Setup::new("two swap one word, revoked and exported again", again, swaps, none),
    ]
}

fn walk(setup: Setup) -> impl Checker<Setup> {
    let walk = setup.checker().threads(2).target_state_count(STATES_MAX).finish_when(HasDiscoveries::AnyFailures);
    walk.spawn_bfs().join()
}

#[test]
fn every_state_of_small_worlds_of_segments_keeps_the_promises() {
    for setup in setups() {
        let (name, granted, started) = (setup.name, setup.has_grants(), Instant::now());
        let checker = walk(setup.clone());
        let (all, different) = (checker.state_count(), checker.unique_state_count());
        println!("{different:>7} states, {all:>7} ways to them, {:>5.1} s: {name}", started.elapsed().as_secs_f32());
        assert!(all < STATES_MAX, "{name}: not walked to its end");
        if let Some(path) = checker.discovery("every promise") {
            let last = path.last_state();
            panic!("{name}: {:?}\n{:?}\n{last:#?}", broken(&setup, last), path.clone().into_actions());
        }
        // A grant that is good for one of them refuses the others.
        assert!(granted || checker.discovery("all is done").is_some(), "{name}: never all done");
    }
}

#[cfg(feature = "seeded-bugs")]
#[test]
fn each_mistake_on_purpose_is_found_by_the_walk() {
    use catena_core::segments::SegmentBug;

    use crate::small::judging::{AFTER_REVOKE, GRANT_TWICE, OUT_OF_TURN, STALE, WITHOUT_RIGHTS};

    // With the promise that it breaks, and the world that shows it.
    let shown = [
        (SegmentBug::StaleAccepted, STALE, "revoked and exported again"),
        (SegmentBug::RevokeOvertaken, AFTER_REVOKE, "revoked and exported again"),
        (SegmentBug::GrantTwice, GRANT_TWICE, "a grant of one use, and who overheard it"),
        (SegmentBug::WritesOvertake, OUT_OF_TURN, "nothing goes wrong"),
        (SegmentBug::RightsStay, WITHOUT_RIGHTS, "rights are taken back"),
    ];
    assert_eq!(shown.map(|(bug, ..)| bug), SegmentBug::ALL, "each mistake has a world that shows it");
    for (bug, promise, name) in shown {
        let setup = setups().into_iter().find(|setup| setup.name == name).expect(name);
        let setup = Setup { bug: Some(bug), ..setup };
        let found = walk(setup.clone()).discovery("every promise").and_then(|path| broken(&setup, path.last_state()));
        println!("{bug:?}: {}: {name}", found.unwrap_or("MISSED"));
        assert_eq!(found, Some(promise), "{bug:?}: {name}");
    }
}
