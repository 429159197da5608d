//! Any hop, and any end.

use catena_wire::{
    Asked, Branch, BranchCount, ChainHeader, End, Frame, Hop, Listener, Merge, Mode, PossibleDuplicate, Recording,
    Told, Unreached, Value, What,
};
use proptest::{collection::vec, option, prelude::*};

use super::parts::{branch, budget, bytes, console, hash, key, limits, name, node, outcome, path, trace, value};

pub(crate) fn header() -> impl Strategy<Value = ChainHeader> {
    let mode = prop::sample::select(vec![Mode::Chain, Mode::Interactive, Mode::Adaptive]);
    (node(), any::<u64>(), mode, any::<bool>(), option::of(node()), option::of(value())).prop_map(
        |(origin, started_at_ms, mode, compose, entry, credentials)| ChainHeader {
            origin: origin.into(),
            started_at_ms,
            mode,
            compose,
            entry: entry.map(Into::into),
            credentials,
        },
    )
}

pub(crate) fn frame() -> impl Strategy<Value = Frame> {
    let numbers = (hash(), any::<[u32; 3]>());
    let creator = (node(), name(), option::of(name()), any::<[bool; 2]>());
    (numbers, creator, limits(), bytes(60)).prop_map(
        |((code, numbers), (creator, service, catch, [hears, uncertain]), limits, continuation)| Frame {
            code,
            call: numbers[0],
            step: numbers[1],
            emitted: numbers[2],
            creator,
            service,
            catch,
            hears,
            limits,
            continuation_bytes: continuation.len() as u32,
            uncertain,
            continuation,
        },
    )
}

pub(crate) fn duplicate() -> impl Strategy<Value = Option<PossibleDuplicate>> {
    option::of((key(), any::<u64>()).prop_map(|(since, way)| PossibleDuplicate { since, way }))
}

fn unreached() -> impl Strategy<Value = Unreached> {
    (any::<u64>(), any::<u64>()).prop_map(|(since_us, last_us)| Unreached { since_us, last_us })
}

pub(crate) fn recording() -> impl Strategy<Value = Option<Recording>> {
    let asked = (any::<[u32; 4]>(), name(), name(), value(), any::<bool>());
    let asked = asked.prop_map(|(numbers, service, function, params, many)| {
        let [call, branches, line, column] = numbers;
        Asked { call, service, function, params, branches, line, column, many }
    });
    let what = prop_oneof![
        (hash(), value(), any::<[u64; 2]>()).prop_map(|(code, input, [started_at_ms, seed])| What::Begun {
            code,
            input,
            started_at_ms,
            seed
        }),
        (any::<u32>(), outcome()).prop_map(|(call, outcome)| What::Settled(call, outcome)),
        (any::<u32>(), any::<u16>()).prop_map(|(call, index)| What::Branch(call, index)),
        vec(asked, 0..3).prop_map(What::Turned),
        Just(What::Ended),
        Just(What::Full),
    ];
    let told = (branch(), any::<u32>(), any::<u8>(), what).prop_map(|(branch, step, depth, what)| Told {
        branch,
        step,
        depth,
        what,
    });
    option::of(vec(told, 0..4).prop_map(Recording))
}

pub(crate) fn merged() -> impl Strategy<Value = Vec<BranchCount>> {
    vec((branch(), any::<u32>()).prop_map(|(branch, emitted)| BranchCount { branch, emitted }), 0..4)
}

pub(crate) fn hop() -> impl Strategy<Value = Hop> {
    let what = (key(), any::<u64>(), budget(), name(), name(), value(), any::<u32>());
    let whose = (hash(), header(), vec(frame(), 0..4), any::<u32>(), any::<u64>());
    let listener = prop_oneof![
        Just(Listener::Origin),
        Just(Listener::Nobody),
        (node(), any::<u32>()).prop_map(|(creator, step)| Listener::Creator(creator, step)),
    ];
    let merge = (node(), key(), listener).prop_map(|(host, at, listener)| Merge { host, at, listener });
    let merge = option::of(merge);
    let split = (any::<u16>(), merge, any::<u16>(), merged());
    let tail = (bytes(200), option::of(bytes(200)));
    (
        what,
        whose,
        split,
        path(),
        trace(),
        (console(), any::<u32>(), limits(), any::<bool>(), duplicate(), recording(), option::of(unreached())),
        tail,
    )
        .prop_map(
            |(
                what,
                whose,
                split,
                path,
                trace,
                (console, console_told, limits, uncertain, duplicate, recording, unreached),
                tail,
            )| {
                let (key, age_us, budget, service, function, params, call) = what;
                let (code, header, stack, emitted, heartbeat_in_us) = whose;
                let (splits, merge, branches, merged) = split;
                let continuation = tail.0;
                Hop {
                    key,
                    age_us,
                    budget,
                    service,
                    function,
                    params,
                    call,
                    code,
                    header,
                    stack,
                    emitted,
                    heartbeat_in_us,
                    path,
                    trace,
                    console,
                    continuation_bytes: continuation.len() as u32,
                    splits,
                    merge,
                    branches,
                    merged,
                    console_told,
                    limits,
                    uncertain,
                    duplicate,
                    recording,
                    unreached,
                    continuation,
                    // An empty function is no function.
                    code_bytes: tail.1.filter(|code| !code.is_empty()),
                }
            },
        )
}

pub(crate) fn end() -> impl Strategy<Value = End> {
    let split = (option::of(key()), any::<u32>(), merged(), any::<bool>(), recording());
    (key(), outcome(), any::<u32>(), path(), trace(), console(), split).prop_map(
        |(key, outcome, emitted, path, trace, console, (at, hops_left, merged, cut, recording))| End {
            key,
            outcome,
            emitted,
            path,
            trace,
            console,
            at,
            hops_left,
            merged,
            cut,
            recording,
        },
    )
}
