//! Any of the parts that messages of several kinds have.

use bytes::Bytes;
use catena_wire::{
    BRANCH_DEPTH_MAX, BlobBytes, Branch, Budget, ChainId, Delegated, Exception, Fate, Fault, Hash, Kinds, LogLine,
    NodeId, NodeRef, Outcome, Relocation, ResolverAnswer, Right, ServiceEntry, Sighting, StepKey, StepLimits,
    StepTrace, Value, Whereabouts, Window,
};
use proptest::{collection::vec, option, prelude::*};

use super::fixed::branch_of;

pub(crate) fn name() -> impl Strategy<Value = String> {
    prop_oneof![3 => "[a-z.]{0,12}", 1 => "\\PC{0,40}"]
}

/// Any payload: a random tree of CBOR.
pub(crate) fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(vec![0xf6]),
        any::<i64>().prop_map(|n| minicbor::to_vec(n).unwrap()),
        any::<f64>().prop_map(|x| minicbor::to_vec(x).unwrap()),
        any::<bool>().prop_map(|b| minicbor::to_vec(b).unwrap()),
        name().prop_map(|text| minicbor::to_vec(text).unwrap()),
        vec(any::<u8>(), 0..40).prop_map(|bytes| minicbor::to_vec(minicbor::bytes::ByteVec::from(bytes)).unwrap()),
    ];
    let tree = leaf.prop_recursive(5, 40, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(|items| [vec![0x80 | items.len() as u8], items.concat()].concat()),
            vec(inner.clone(), 0..5).prop_map(|items| [vec![0x9f], items.concat(), vec![0xff]].concat()),
            vec((inner.clone(), inner.clone()), 0..4).prop_map(|items| {
                let entries = items.iter().map(|(key, value)| [key.clone(), value.clone()].concat());
                [vec![0xa0 | items.len() as u8], entries.collect::<Vec<_>>().concat()].concat()
            }),
            inner.prop_map(|item| [vec![0xc1], item].concat()),
        ]
    });
    tree.prop_map(|bytes| Value::from_cbor(bytes.into()).expect("the strategy makes CBOR"))
}

pub(crate) fn chain() -> impl Strategy<Value = ChainId> {
    (any::<u64>(), any::<u128>()).prop_map(|(origin, number)| ChainId { origin: NodeId(origin), number })
}

pub(crate) fn branch() -> impl Strategy<Value = Branch> {
    vec(any::<u16>(), 0..=BRANCH_DEPTH_MAX).prop_map(|parts| branch_of(&parts))
}

pub(crate) fn key() -> impl Strategy<Value = StepKey> {
    (chain(), branch(), any::<u32>()).prop_map(|(chain, branch, step)| StepKey { chain, branch, step })
}

pub(crate) fn node() -> impl Strategy<Value = NodeRef> {
    (any::<u64>(), name(), option::of(name()), option::of(name())).prop_map(|(id, name, address, site)| NodeRef {
        id: NodeId(id),
        name,
        address,
        site,
    })
}

pub(crate) fn path() -> impl Strategy<Value = Vec<String>> {
    vec(name(), 0..6)
}

/// Any exception: a place in the source has a line, and a step has a path.
pub(crate) fn exception() -> impl Strategy<Value = Exception> {
    let fault = prop::sample::select(vec![Fault::Caller, Fault::Guest, Fault::Service, Fault::Node, Fault::Network]);
    let words = (name(), name(), option::of(name()), option::of(name()));
    let place = prop_oneof![Just((0, 0)), (1..u32::MAX, any::<u32>())];
    let step = prop_oneof![Just((0, Branch::root(), vec![])), (any::<u32>(), branch(), vec(name(), 1..5)),];
    (words, option::of(value()), place, fault, step, any::<bool>()).prop_map(
        |((name, message, stack, target), params, (line, column), fault, (step, branch, path), unknown)| Exception {
            name,
            message,
            params,
            stack,
            line,
            column,
            fault,
            target,
            step,
            branch,
            path,
            unknown,
        },
    )
}

pub(crate) fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![value().prop_map(Outcome::Done), exception().prop_map(Outcome::Threw)]
}

pub(crate) fn trace() -> impl Strategy<Value = Option<Vec<StepTrace>>> {
    let place = (any::<bool>(), branch(), option::of(name()), blobs());
    let step = (any::<[u64; 6]>(), any::<u32>(), place, name(), name(), option::of(name())).prop_map(
        |(n, step, (in_place, branch, served_by, blobs), node, target, site)| StepTrace {
            step,
            node,
            site,
            target,
            arrived_at_us: n[0],
            left_at_us: n[1],
            service_us: n[2],
            guest_us: n[3],
            continuation_bytes: n[4],
            params_bytes: n[5],
            in_place,
            branch,
            served_by,
            blobs,
        },
    );
    option::of(vec(step, 0..3))
}

pub(crate) fn blobs() -> impl Strategy<Value = Option<Box<BlobBytes>>> {
    let blobs = any::<[u64; 5]>().prop_map(|[own, shared_memory, rdma, link, pushed]| BlobBytes {
        own,
        shared_memory,
        rdma,
        link,
        pushed,
    });
    option::of(blobs.prop_map(Box::new))
}

pub(crate) fn console() -> impl Strategy<Value = Vec<LogLine>> {
    let line = (any::<[u32; 2]>(), name(), any::<u64>(), name(), branch())
        .prop_map(|([step, number], node, at_us, text, branch)| LogLine { step, node, at_us, text, branch, number });
    vec(line, 0..3)
}

pub(crate) fn bytes(most: usize) -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..most).prop_map(Bytes::from)
}

pub(crate) fn hash() -> impl Strategy<Value = Hash> {
    any::<[u8; 32]>().prop_map(Hash)
}

pub(crate) fn budget() -> impl Strategy<Value = Budget> {
    (any::<u64>(), any::<u32>()).prop_map(|(time_us, hops)| Budget::new(time_us, hops))
}

pub(crate) fn entry() -> impl Strategy<Value = ServiceEntry> {
    let kinds =
        (path(), path(), path()).prop_map(|(repeatable, durable, chaining)| Kinds { repeatable, durable, chaining });
    (name(), path(), node(), kinds, option::of(node()))
        .prop_map(|(service, functions, node, kinds, proxy)| ServiceEntry { service, functions, node, kinds, proxy })
}

pub(crate) fn whereabouts() -> impl Strategy<Value = Whereabouts> {
    prop_oneof![
        name().prop_map(Whereabouts::HandingOff),
        name().prop_map(Whereabouts::Went),
        Just(Whereabouts::Unknown)
    ]
}

pub(crate) fn relocation() -> impl Strategy<Value = Relocation> {
    let there = entry().prop_map(|entry| Relocation::There(Box::new(entry)));
    prop_oneof![Just(Relocation::Unknown), any::<u64>().prop_map(Relocation::Moving), there]
}

pub(crate) fn answer() -> impl Strategy<Value = ResolverAnswer> {
    let sighting = (option::of(name()), option::of(name()), option::of(any::<u64>()));
    let sighting = sighting.prop_map(|(node, address, run)| Sighting { node, address, run: run.map(NodeId) });
    (name(), option::of(any::<u64>()), vec(sighting, 0..4), option::of(name()))
        .prop_map(|(resolver, age_us, at, note)| ResolverAnswer { resolver, age_us, at, note })
}

pub(crate) fn limits() -> impl Strategy<Value = StepLimits> {
    let numbers = (option::of(any::<u64>()), vec(option::of(any::<u32>()), 4));
    numbers.prop_map(|(memory_bytes_max, rest)| StepLimits {
        memory_bytes_max,
        step_wall_ms_max: rest[0],
        output_bytes_max: rest[1],
        events_max: rest[2],
        continuation_bytes_max: rest[3],
    })
}

pub(crate) fn right() -> impl Strategy<Value = Right> {
    (key(), node(), option::of(node()), any::<u32>(), any::<u32>()).prop_map(|(key, caller, entry, replies, bytes)| {
        Right { key, caller, entry, window: Window { replies, bytes } }
    })
}

pub(crate) fn delegated() -> impl Strategy<Value = Delegated> {
    let fate = prop_oneof![node().prop_map(Fate::Taken), exception().prop_map(Fate::Failed)];
    (name(), fate).prop_map(|(target, fate)| Delegated { target, fate })
}
