//! The tests of the testers: a node that makes a mistake is caught by the walk of one world.

use catena_core::Bug;

use crate::{walk, world::Setup};

/// The world that shows it, by its name.
const SHOWN_IN: &[(Bug, &str)] = &[
    (Bug::EndOvertakes, "two servers, delegation, no fault"),
    (Bug::ReplyAfterEnd, "two servers, delegation, one repetition"),
    (Bug::DelegateNotCounted, "two servers, delegation, no fault"),
    (Bug::CountTwice, "two servers, delegation, one repetition"),
    (Bug::CancelMissesDelegate, "tasks that reply later, delegation, a cancel"),
    (Bug::SetOutlivesReader, "a function that stops early, a task that replies later, a cancel"),
    (Bug::LateNotTold, "a delegate that keeps its right, a server's clock first"),
    (Bug::AnswerTwice, "one reply and what is returned"),
];

#[test]
fn every_seeded_bug_of_replies_is_caught() {
    let missed: Vec<_> = SHOWN_IN.iter().filter(|(bug, name)| !is_caught(*bug, name)).collect();
    assert!(missed.is_empty(), "no walk catches {missed:?}");
}

fn is_caught(bug: Bug, name: &str) -> bool {
    let setup = walk::setups().into_iter().find(|setup| setup.name == name).expect(name);
    let promise = walk::broken_promise(Setup { bug: Some(bug), ..setup });
    println!("{bug:?}: {}: {name}", promise.unwrap_or("MISSED"));
    promise.is_some()
}
