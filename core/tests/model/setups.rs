//! The worlds that are walked.

use crate::{
    guest::Op,
    world::{Faults, Setup},
};

fn call(service: u8) -> Op {
    Op::Call(service)
}

fn split(branches: [Vec<Op>; 2]) -> Op {
    Op::Split(branches.into())
}

/// Small worlds that together hold everything: two chains, a crash, a split in two, a sub-chain, a cancel, and a network
/// that loses, repeats and reorders. The smallest first: a mistake that shows there is found at once.
pub(crate) fn all() -> Vec<Setup> {
    let crash = Faults { crashes: 1, ..Faults::default() };
    let network = Faults { losses: 1, repetitions: 1, ..Faults::default() };
    let world = |name, chains, faults| Setup { name, chains, faults, ..Setup::default() };
    vec![
        Setup {
            hops: 2,
            strained: true,
            ..world("too few hops", vec![(0, vec![call(1), call(2), call(1)])], Faults::default())
        },
        world(
            "a sub-chain with an answer of its own",
            vec![(0, vec![Op::Sub(1, vec![Op::Emit]), call(1)])],
            Faults::default(),
        ),
        world(
            "two splits one after the other, one repetition",
            vec![(0, vec![split([vec![Op::Emit], vec![Op::Emit]]), call(1), split([vec![Op::Emit], vec![]])])],
            Faults { repetitions: 1, ..Faults::default() },
        ),
        world("a sub-chain, one crash", vec![(0, vec![Op::Sub(1, vec![call(2)]), call(1)])], crash),
        world("a split in two, one crash", vec![(0, vec![split([vec![call(1)], vec![call(2)]]), call(1)])], crash),
        Setup {
            hops: 6,
            compose: false,
            strained: true,
            ..world(
                "a sub-chain on its own, too few hops, one loss",
                vec![(0, vec![Op::Sub(1, vec![call(2), call(2)]), call(1), call(2), call(1), call(2)])],
                Faults { losses: 1, ..Faults::default() },
            )
        },
        world("two chains, one crash", vec![(0, vec![call(1), Op::Emit, call(2)]), (1, vec![call(2)])], crash),
        Setup {
            repeatable: Some(1),
            ..world(
                "a step that may be done again, two crashes",
                vec![(0, vec![call(1), call(2)])],
                Faults { crashes: 2, ..Faults::default() },
            )
        },
        world(
            "two chains, one splits in two, one crash",
            vec![(0, vec![call(1), split([vec![call(2)], vec![Op::Emit]])]), (0, vec![call(2)])],
            crash,
        ),
        world(
            "caught, gone on, and thrown: one crash",
            vec![(0, vec![Op::Try(1), call(2), Op::ThrowIfCaught]), (0, vec![call(1), Op::Try(2), Op::ThrowIfCaught])],
            crash,
        ),
        world(
            "a split in two, one loss, one repetition",
            vec![(0, vec![call(1), split([vec![call(2), Op::Emit], vec![call(1)]]), call(2)])],
            network,
        ),
        world(
            "a sub-chain, one loss, one repetition",
            vec![(0, vec![Op::Sub(1, vec![call(2), Op::Emit]), Op::Emit, call(1)])],
            network,
        ),
        world(
            "lines of the console, deadlines that pass early",
            vec![(0, vec![Op::Log, call(1), Op::Log, call(2)])],
            Faults { haste: 2, ..Faults::default() },
        ),
        world("two chains, one loss, one repetition", vec![(0, vec![call(1), Op::Emit]), (1, vec![call(2)])], network),
        world(
            "deadlines that pass early, one loss",
            vec![(0, vec![call(1), call(2)])],
            Faults { haste: 2, losses: 1, ..Faults::default() },
        ),
        world(
            "a split in two, cancelled, one repetition",
            vec![(0, vec![split([vec![call(2)], vec![call(1)]]), call(1)])],
            Faults { cancels: 1, repetitions: 1, ..Faults::default() },
        ),
    ]
}
