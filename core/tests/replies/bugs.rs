//! The tests of the testers: a node that makes a mistake is caught by the walk of one world.

use catena_core::Bug;

use crate::{
    shown_by::{Suite, shown_by},
    walk,
    world::Setup,
};

/// The model shows this one as well.
const SHOWN_TWICE: (Bug, &str) = (Bug::AnswerTwice, "one reply and what is returned");

#[test]
fn every_seeded_bug_of_replies_is_caught() {
    let shown = Bug::ALL.map(|bug| (bug, shown_by(bug)));
    let shown_here = shown.into_iter().filter(|(_, (suite, _))| *suite == Suite::Replies);
    let shown_here = shown_here.map(|(bug, (_, name))| (bug, name)).chain([SHOWN_TWICE]);
    let missed: Vec<_> = shown_here.filter(|(bug, name)| !is_caught(*bug, name)).collect();
    assert!(missed.is_empty(), "no walk catches {missed:?}");
}

fn is_caught(bug: Bug, name: &str) -> bool {
    let setup = walk::setups().into_iter().find(|setup| setup.name == name).expect(name);
    let promise = walk::broken_promise(Setup { bug: Some(bug), ..setup });
    println!("{bug:?}: {}: {name}", promise.unwrap_or("MISSED"));
    promise.is_some()
}
