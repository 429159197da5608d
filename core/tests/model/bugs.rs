//! The tests of the tester: a node that makes a mistake is caught by the walk.

use catena_core::Bug;

use crate::{setups, walk, world::Setup};

#[test]
fn every_seeded_bug_is_caught() {
    let missed: Vec<_> = Bug::ALL.into_iter().filter(|bug| caught_in(*bug).is_none()).collect();
    assert!(missed.is_empty(), "no walk catches {missed:?}");
}

fn caught_in(bug: Bug) -> Option<&'static str> {
    for setup in setups::all() {
        let name = setup.name;
        if let Some(promise) = walk::broken_promise(Setup { bug: Some(bug), ..setup }) {
            println!("{bug:?}: caught in \"{name}\": {promise}");
            return Some(promise);
        }
    }
    None
}
