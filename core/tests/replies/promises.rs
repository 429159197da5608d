//! What holds in every state, whatever has happened.

use catena_wire::{Branch, names};

use crate::{
    tree::Tree,
    world::{Faults, Seen, Setup, World},
};

/// A promise, by what it says.
pub(crate) type Promise = (&'static str, fn(&Setup, &World) -> bool);

pub(crate) const PROMISES: &[Promise] = &[
    ("nothing is asked for that may not be, and no reply comes after the end", |_, world| world.wrong.is_none()),
    ("every call ends at most once", |_, world| each(world, |seen| seen.ends.len() <= 1)),
    ("each reply of a right once, and in order", |_, world| {
        let in_order = |numbers: &Vec<u32>| (0..).zip(numbers).all(|(place, number)| place == *number);
        each(world, |seen| seen.replies.values().all(in_order))
    }),
    ("a complete set has all replies of the whole tree", |setup, world| {
        of(setup, world).all(|(tree, seen)| {
            let complete = seen.ends.iter().any(|(missing, failure)| missing.is_empty() && failure.is_none());
            !complete || short(tree, seen).is_empty()
        })
    }),
    ("whose replies are missing is named, or handed it on and is", |setup, world| {
        of(setup, world).all(|(tree, seen)| {
            seen.ends.iter().all(|(missing, failure)| {
                let named = |branch: &Branch| missing.iter().any(|missing| missing.branch == *branch);
                let covered = |branch: &Branch| {
                    std::iter::successors(Some(branch.clone()), Branch::parent).any(|branch| named(&branch))
                };
                failure.is_some() || short(tree, seen).iter().all(covered)
            })
        })
    }),
    ("what ends only because time ran out is a failure, whoever says so", |setup, world| {
        each(world, |seen| {
            seen.ends.iter().all(|(missing, failure)| {
                failure.is_some() || missing.iter().all(|missing| missing.why.name != names::DEADLINE_EXCEEDED)
            })
        }) && (setup.faults != Faults::default()
            || of(setup, world).all(|(tree, seen)| {
                let kept = tree.rights().iter().any(|(_, right)| right.keeps);
                seen.ends.iter().all(|(_, failure)| failure.is_some() == kept)
            }))
    }),
    ("every call ends, and leaves nothing behind", |setup, world| {
        !world.at_rest(setup) || (each(world, |seen| !seen.is_open()) && world.busy().is_empty())
    }),
    // Not only when their time is up, as after a fault.
    ("of calls that are over nothing goes on", |setup, world| {
        let Faults { crashes, losses, haste, .. } = setup.faults;
        let faulty = crashes > 0 || losses > 0 || haste > 0;
        let open = !each(world, |seen| !seen.is_open());
        open || faulty || !world.packets.is_empty() || !world.has_rights()
    }),
    ("without a fault nothing is missing but what throws or is kept", |setup, world| {
        let Faults { crashes, losses, cancels, haste, .. } = setup.faults;
        let faulty = crashes > 0 || losses > 0 || haste > 0 || cancels > 0;
        of(setup, world).all(|(tree, seen)| {
            let hindered = tree.rights().iter().any(|(_, right)| right.throws || right.keeps);
            let complete = |(missing, failure): &(Vec<_>, Option<_>)| missing.is_empty() && failure.is_none();
            faulty || hindered || seen.ends.iter().all(complete)
        })
    }),
    ("what the network loses or repeats of replies and ends costs nothing but time", |setup, world| {
        let Faults { crashes, cancels, haste, losses, .. } = setup.faults;
        let faulty = crashes > 0 || cancels > 0 || haste > 0;
        // A call that is lost without its link is answered when its time is up.
        of(setup, world).all(|(tree, seen)| {
            let kept = tree.rights().iter().any(|(_, right)| right.keeps);
            let failed = seen.ends.iter().any(|(_, failure)| failure.is_some());
            faulty || kept || losses > 0 || !failed
        })
    }),
];

/// The first that does not hold.
pub(crate) fn broken(setup: &Setup, world: &World) -> Option<&'static str> {
    PROMISES.iter().find(|(_, holds)| !holds(setup, world)).map(|(name, _)| *name)
}

fn each(world: &World, holds: impl Fn(&Seen) -> bool) -> bool {
    world.calls.iter().all(|(_, seen)| holds(seen))
}

fn of<'a>(setup: &'a Setup, world: &'a World) -> impl Iterator<Item = (&'a Tree, &'a Seen)> {
    setup.calls.iter().zip(world.calls.iter().map(|(_, seen)| seen))
}

/// Rights of which not all replies have come.
fn short(tree: &Tree, seen: &Seen) -> Vec<Branch> {
    let came = |branch: &Branch| seen.replies.get(branch).map_or(0, Vec::len);
    let rights = tree.rights().into_iter();
    rights.filter(|(branch, tree)| came(branch) < tree.own() || tree.throws).map(|(branch, _)| branch).collect()
}
