//! The worlds that are walked.

use catena_wire::Mode;

use crate::{
    guest::Op,
    migration::Migration,
    setup::{Code, Faults, Kind, Setup},
};

fn call(service: u8) -> Op {
    Op::Call(service)
}

fn split(branches: [Vec<Op>; 2]) -> Op {
    Op::Split(branches.into())
}

fn world(name: &'static str, chains: Vec<(usize, Vec<Op>)>, faults: Faults) -> Setup {
    Setup { name, chains, faults, ..Setup::default() }
}

fn crashes(crashes: u8) -> Faults {
    Faults { crashes, ..Faults::default() }
}

fn losses(losses: u8) -> Faults {
    Faults { losses, ..Faults::default() }
}

fn repetitions(repetitions: u8) -> Faults {
    Faults { repetitions, ..Faults::default() }
}

/// Small worlds that together hold everything; those whose name the variable `WALK` has a part of, if it is set.
pub(crate) fn all() -> Vec<Setup> {
    let part = std::env::var("WALK").unwrap_or_default();
    let all = [basic(), placed(), declared(), strained()].into_iter().flatten();
    all.filter(|setup| setup.name.contains(&part)).collect()
}

/// Two chains, a crash, a split in two, a sub-chain, a cancel, and a network that loses, repeats and reorders.
fn basic() -> Vec<Setup> {
    let crash = crashes(1);
    let network = Faults { losses: 1, repetitions: 1, ..Faults::default() };
    vec![
        world(
            "a sub-chain with an answer of its own",
            vec![(0, vec![Op::Sub(1, vec![Op::Emit]), call(1)])],
            Faults::default(),
        ),
        world(
            "two splits one after the other, one repetition",
            vec![(0, vec![split([vec![Op::Emit], vec![Op::Emit]]), call(1), split([vec![Op::Emit], vec![]])])],
            repetitions(1),
        ),
        world("a sub-chain, one crash", vec![(0, vec![Op::Sub(1, vec![call(2)]), call(1)])], crash),
        world("a split in two, one crash", vec![(0, vec![split([vec![call(1)], vec![call(2)]]), call(1)])], crash),
        world("two chains, one crash", vec![(0, vec![call(1), Op::Emit, call(2)]), (1, vec![call(2)])], crash),
        Setup {
            migration: Some(Migration { service: 1, to: 2, told: true }),
            ..world(
                "a service that moves and says where to, one repetition",
                vec![(0, vec![call(1), call(1)])],
                Faults { repetitions: 1, ..Faults::default() },
            )
        },
        Setup {
            migration: Some(Migration { service: 1, to: 2, told: false }),
            ..world(
                "a service that is elsewhere of a sudden, and calls beside each other",
                vec![(0, vec![call(1), split([vec![call(1)], vec![call(2)]]), call(1)]), (2, vec![call(1)])],
                Faults::default(),
            )
        },
        world(
            "a step that may be done again, two crashes",
            vec![(0, vec![call(1), call(2)])],
            Faults { crashes: 2, ..Faults::default() },
        )
        .serving(1, &[1], Kind::Repeatable),
        world(
            "a chain whose hop is lost, and its node: one loss, one crash",
            vec![(0, vec![call(1), call(2)])],
            Faults { losses: 1, crashes: 1, ..Faults::default() },
        ),
        world(
            "a branch whose hop is lost, and its node: one loss, one crash",
            vec![(0, vec![split([vec![call(1), call(2)], vec![]])])],
            Faults { losses: 1, crashes: 1, ..Faults::default() },
        ),
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

/// Other places for what a chain needs: a merge host elsewhere, a proxy, functions that have to be fetched, an origin that nobody can dial.
fn placed() -> Vec<Setup> {
    let split_at = |service, branches: [Vec<Op>; 2]| Op::SplitAt(service, branches.into());
    let proxied = |name, chains, faults| Setup { proxy: Some((1, 2)), ..world(name, chains, faults) };
    let fetched = |name, chains, faults| Setup { code: Code::AtOrigins, hosts: 4, ..world(name, chains, faults) };
    let secluded = |name, chains, faults| Setup { secluded: true, ..world(name, chains, faults) };
    vec![
        world(
            "branches that merge elsewhere, one crash",
            vec![(0, vec![split_at(2, [vec![call(1)], vec![Op::Emit]]), call(1)])],
            crashes(1),
        ),
        world(
            "branches that merge elsewhere, one loss",
            vec![(0, vec![split_at(2, [vec![call(1)], vec![]]), call(1)])],
            losses(1),
        ),
        world(
            "branches that merge elsewhere, one repetition",
            vec![(0, vec![split_at(2, [vec![call(1)], vec![Op::Emit]])])],
            repetitions(1),
        ),
        proxied("a proxy, one crash", vec![(0, vec![call(1), Op::Emit, call(0)])], crashes(1)),
        proxied("a proxy, one repetition", vec![(0, vec![call(1), call(2), call(1)])], repetitions(1)),
        fetched("a function that is fetched, one crash", vec![(0, vec![call(1), call(2)])], crashes(1)),
        fetched(
            "a function that is fetched, one repetition",
            vec![(0, vec![call(1), Op::Emit, call(2)])],
            repetitions(1),
        ),
        secluded("an origin that nobody can dial, one crash", vec![(0, vec![call(1), Op::Emit, call(2)])], crashes(1)),
        secluded("an origin that nobody can dial, one loss", vec![(0, vec![call(1), Op::Emit, call(2)])], losses(1)),
        secluded(
            "an origin that nobody can dial, cancelled",
            vec![(0, vec![call(1), split([vec![call(2)], vec![]])])],
            Faults { cancels: 1, ..Faults::default() },
        ),
    ]
}

/// Functions that are declared to be more than plain ones, and services that several nodes serve.
fn declared() -> Vec<Setup> {
    let program = || vec![(0, vec![call(1), call(2)])];
    vec![
        world("two instances, one crash", program(), crashes(1)).serving(1, &[1, 2], Kind::Plain),
        world("two instances of what may be done again, two crashes", program(), crashes(2)).serving(
            1,
            &[1, 2],
            Kind::Repeatable,
        ),
        world("a durable step, two crashes", program(), crashes(2)).serving(1, &[1], Kind::Durable),
        world("a durable step after one that was lost, two crashes", program(), crashes(2))
            .serving(1, &[1], Kind::Repeatable)
            .serving(2, &[2], Kind::Durable),
        world("two instances of a durable function, one crash", vec![(0, vec![call(1), Op::Try(1)])], crashes(1))
            .serving(1, &[1, 2], Kind::Durable),
        world(
            "two instances of what may be done again, a plain step in between, deadlines that pass early",
            vec![(0, vec![call(1), call(2), call(1)])],
            Faults { haste: 2, losses: 1, ..Faults::default() },
        )
        .serving(1, &[1, 2], Kind::Repeatable),
        Setup {
            mode: Mode::Interactive,
            ..world("calls from where the chain is, one loss", vec![(0, vec![call(1), call(2)])], losses(1))
        },
        Setup {
            hears: true,
            ..world(
                "a sub-chain that its service hears, one repetition",
                vec![(0, vec![Op::Sub(1, vec![call(2), Op::Emit, Op::Emit])])],
                repetitions(1),
            )
        },
    ]
}

/// Too little of something, or too late.
fn strained() -> Vec<Setup> {
    vec![
        Setup {
            hops: 2,
            strained: true,
            ..world("too few hops", vec![(0, vec![call(1), call(2), call(1)])], Faults::default())
        },
        Setup {
            hops: 6,
            compose: false,
            strained: true,
            ..world(
                "a sub-chain on its own, too few hops, one loss",
                vec![(0, vec![Op::Sub(1, vec![call(2), call(2)]), call(1), call(2), call(1), call(2)])],
                losses(1),
            )
        },
        world(
            "a state that comes late, or not",
            vec![(0, vec![call(1), Op::Emit, call(2)])],
            Faults { parted: 1, ..Faults::default() },
        ),
        world(
            "a state that comes late, or not, two chains, one repetition",
            vec![(0, vec![call(1)]), (1, vec![call(2)])],
            Faults { parted: 1, repetitions: 1, ..Faults::default() },
        ),
        Setup {
            records_max: 1,
            in_order: true,
            ..world(
                "nodes that remember one step, one loss, a deadline that passes early",
                vec![(0, vec![call(1), call(2)]), (2, vec![call(1)])],
                Faults { losses: 1, haste: 1, ..Faults::default() },
            )
        },
        world(
            "all are stopped for a minute, one repetition, a deadline that passes early",
            vec![(0, vec![call(1)])],
            Faults { sleeps: 1, repetitions: 1, haste: 1, ..Faults::default() },
        ),
        Setup {
            activations_max: 1,
            strained: true,
            ..world(
                "room for one chain at a node, one repetition",
                vec![(0, vec![call(1), call(2)]), (2, vec![call(1)])],
                repetitions(1),
            )
        },
        Setup {
            hops: 5,
            strained: true,
            ..world(
                "branches that share too few hops",
                vec![(0, vec![split([vec![call(1), call(2), call(1)], vec![call(2), call(1), call(2)]])])],
                Faults::default(),
            )
        },
        Setup {
            partials_held_max: 0,
            payload_bytes_max: 0,
            ..world(
                "no room for answers that come early, or to keep what steps came to, one loss",
                vec![(0, vec![Op::Emit, call(1), Op::Emit, call(2), Op::Emit])],
                losses(1),
            )
        },
    ]
}
