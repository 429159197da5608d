//! The tests of the tester: a node that makes a mistake is caught by the walk of one world.

use catena_core::Bug;

use crate::{
    setup::Setup,
    setups,
    shown_by::{Suite, shown_by},
    walk,
};

#[test]
fn every_seeded_bug_is_caught() {
    let shown = Bug::ALL.map(|bug| (bug, shown_by(bug)));
    let shown_here = shown.into_iter().filter(|(_, (suite, _))| *suite == Suite::Model);
    let missed: Vec<_> = shown_here.filter(|(bug, (_, begins))| !is_caught(*bug, begins)).map(|(bug, _)| bug).collect();
    assert!(missed.is_empty(), "no walk catches {missed:?}");
}

fn is_caught(bug: Bug, begins: &str) -> bool {
    let setup = setups::all().into_iter().find(|setup| setup.name.starts_with(begins)).expect(begins);
    let name = setup.name;
    let promise = walk::broken_promise(Setup { bug: Some(bug), ..setup });
    println!("{bug:?}: {}: {name}", promise.unwrap_or("MISSED"));
    promise.is_some()
}
