//! Messages for the tests: one fixed one of each kind, and any at all.
#![allow(dead_code)] // each test binary uses its part

use bytes::Bytes;
use catena_wire::{
    Asked, At, BRANCH_DEPTH_MAX, Branch, BranchCount, Brought, Budget, Buffer, ChainId, Charter, Completion, Datagram,
    Delegated, End, Exception, Fate, Fault, Frame, Hash, Hop, Kinds, Lent, Listener, LogLine, Merge, Message, Mode,
    NodeId, NodeRef, Order, Outcome, Part, PossibleDuplicate, Recording, Replies, ResolverAnswer, Right, RightEnd,
    Rights, SegmentEntry, SegmentMessage, SegmentRefusal, ServiceEntry, Sighting, StepKey, StepLimits, StepTrace, Told,
    Value, What, Whereabouts, Whither, Window,
};
use proptest::{collection::vec, option, prelude::*};

/// A branch is made by splits only, which come from the wire.
pub(crate) fn branch_of(parts: &[u16]) -> Branch {
    minicbor::decode(&minicbor::to_vec(parts).unwrap()).unwrap()
}

pub(crate) fn key_of(step: u32) -> StepKey {
    StepKey { chain: ChainId { origin: NodeId(0x0102_0304_0506_0708), number: 74 }, branch: branch_of(&[1, 2]), step }
}

pub(crate) fn node_of(name: &str) -> NodeRef {
    NodeRef { id: NodeId(7), name: name.into(), address: Some("10.0.0.1:4700".into()), site: Some("mtv".into()) }
}

pub(crate) fn exception_of(name: &str) -> Exception {
    Exception::new(name, Fault::Service, "no such file; check its name")
        .calling("files.mtv", "read")
        .with_params(Value::encode(&["a", "b"]))
        .at_line(3, 14)
        .at(&StepKey { branch: branch_of(&[1, 2]), ..key_of(2) }, &["bei".into(), "mtv".into()])
}

pub(crate) fn charter_of() -> Charter {
    Charter {
        origin: node_of("bei").into(),
        started_at_ms: 1_700_000_000_000,
        mode: Mode::Adaptive,
        compose: true,
        entry: Some(node_of("mtv").into()),
        credentials: Some(Value::encode(&"alice")),
    }
}

pub(crate) fn frame_of() -> Frame {
    Frame {
        code: Hash([0xcd; 32]),
        call: 4,
        step: 2,
        emitted: 1,
        creator: node_of("mtv"),
        service: "files.mtv".into(),
        catch: Some("recover".into()),
        hears: true,
        limits: StepLimits { step_wall_ms_max: Some(100), ..StepLimits::UNCHANGED },
        continuation_bytes: 2,
        uncertain: true,
        continuation: Bytes::from_static(b"de"),
    }
}

pub(crate) fn hop_of() -> Hop {
    Hop {
        key: key_of(3),
        age_us: 1_500,
        budget: Budget::new(1_000_000, 1_999),
        service: "files.mtv".into(),
        function: "read".into(),
        params: Value::encode(&"params"),
        call: 5,
        code: Hash([0xab; 32]),
        charter: charter_of(),
        stack: vec![frame_of()],
        emitted: 2,
        heartbeat_in_us: 2_800_000,
        path: vec!["bei".into(), "mtv".into()],
        trace: Some(vec![trace_of()]),
        console: vec![line_of()],
        continuation_bytes: 3,
        splits: 4,
        merge: Some(Merge {
            host: node_of("mtv"),
            at: StepKey { branch: branch_of(&[1]), ..key_of(2) },
            listener: Listener::Creator(node_of("mtv"), 2),
        }),
        gather: 2,
        merged: vec![BranchCount { branch: branch_of(&[1, 2, 3]), emitted: 7 }],
        console_told: 1,
        limits: StepLimits { memory_bytes_max: Some(1 << 20), ..StepLimits::UNCHANGED },
        uncertain: true,
        duplicate: Some(PossibleDuplicate { since: key_of(2), way: 40_000 }),
        recording: None,
        continuation: Bytes::from_static(b"abc"),
        code_bytes: Some(Bytes::from_static(b"code")),
    }
}

pub(crate) fn trace_of() -> StepTrace {
    StepTrace {
        step: 1,
        node: "bei".into(),
        site: None,
        target: "files.bei/read".into(),
        arrived_at_us: 10,
        left_at_us: 20,
        service_us: 3,
        guest_us: 4,
        continuation_bytes: 5_000,
        params_bytes: 6,
        in_place: true,
        branch: branch_of(&[2]),
        served_by: Some("cam".into()),
    }
}

pub(crate) fn line_of() -> LogLine {
    LogLine { step: 1, node: "bei".into(), at_us: 15, text: "hello".into(), branch: branch_of(&[2]), number: 1 }
}

fn ask_of() -> Message {
    let window = Window { replies: 64, bytes: 1 << 20 };
    let right = Right { key: key_of(0), caller: node_of("bei"), entry: Some(node_of("mtv")), window };
    Message::Ask {
        id: 9,
        service: "search".into(),
        function: "find".into(),
        params: Value::encode(&"tower"),
        budget: Budget::new(1_000_000, 12),
        credentials: Some(Value::encode(&"alice")),
        right: Box::new(right),
    }
}

fn right_end_of() -> RightEnd {
    let taken = Delegated { target: "search/find".into(), fate: Fate::Taken(node_of("cam")) };
    let failed = Delegated { target: "search/more".into(), fate: Fate::Failed(exception_of("NodeUnreachable")) };
    RightEnd { key: key_of(0), replies: 5, delegated: vec![taken, failed], threw: Some(exception_of("Oops")) }
}

/// One of each, in the order of their numbers.
pub(crate) fn samples() -> Vec<(&'static str, Message)> {
    let end = End {
        key: key_of(4),
        outcome: Outcome::Done(Value::encode(&42)),
        emitted: 2,
        path: vec!["bei".into()],
        trace: Some(vec![trace_of()]),
        console: vec![line_of()],
        at: Some(StepKey { branch: branch_of(&[1]), ..key_of(2) }),
        hops_left: 9,
        merged: vec![BranchCount { branch: branch_of(&[1, 2, 1]), emitted: 3 }],
        cut: true,
        recording: None,
    };
    let call = Message::Call {
        id: 9,
        service: "ads".into(),
        function: "pick".into(),
        params: Value::null(),
        budget: Budget::new(5_000, 1),
        key: Some(key_of(3)),
        credentials: Some(Value::encode(&"alice")),
        duplicate: Some(PossibleDuplicate { since: key_of(1), way: 7 }),
        age_us: 9,
    };
    let entry = ServiceEntry {
        service: "ads".into(),
        functions: vec!["pick".into(), "list".into()],
        node: node_of("bei"),
        kinds: Kinds { repeatable: vec!["list".into()], durable: vec!["pay".into()], chaining: Vec::new() },
        proxy: Some(node_of("mtv")),
    };
    let sighting = Sighting { node: Some("bei".into()), address: Some("bei:1".into()), run: Some(NodeId(8)) };
    let answer =
        ResolverAnswer { resolver: "etcd".into(), age_us: Some(7), at: vec![sighting], note: Some("down".into()) };
    let relay = Message::Relay { to: NodeId(8), head: vec![0x82, 8, 0x81, 9], tail: Bytes::from_static(b"tail") };
    vec![
        ("hop", Message::Hop(Box::new(hop_of()))),
        ("accepted", Message::Accepted(key_of(3))),
        ("refused", Message::Refused(key_of(3), exception_of("Overloaded"))),
        ("partial", Message::Partial { key: key_of(3), number: 1, value: Value::encode(&true), to: 2 }),
        ("end", Message::End(Box::new(end))),
        ("heartbeat", Message::Heartbeat(key_of(3), node_of("mtv"), vec![branch_of(&[1, 2, 3])])),
        ("call", call),
        (
            "return",
            Message::Return(
                9,
                Outcome::Threw(exception_of("NFS3ERR_NOENT").outcome_unknown()),
                Brought { hops_left: 7, service_us: 80, console: vec![line_of()] },
            ),
        ),
        ("withdraw", Message::Withdraw(9)),
        ("want code", Message::WantCode(Hash([1; 32]))),
        ("code", Message::Code(Hash([1; 32]), Bytes::from_static(b"export default"))),
        ("no code", Message::NoCode(Hash([1; 32]))),
        ("list", Message::List(1)),
        ("listing", Message::Listing(1, vec![entry.clone()])),
        ("console", Message::Console(key_of(3), 4, vec![line_of()])),
        ("cancel", Message::Cancel(key_of(3).chain)),
        ("relay", relay),
        ("locate", Message::Locate { key: key_of(3), origin: node_of("bei"), entry: None }),
        ("received", Message::Received(key_of(3), Part::Partial(7))),
        ("sub_chain_ended", Message::SubChainEnded(key_of(3))),
        ("located", Message::Located(key_of(3), "bei".into(), Whereabouts::Went("cam".into()))),
        ("ask", ask_of()),
        (
            "replies",
            Message::Replies(Replies { key: key_of(0), first: 3, values: vec![Value::encode(&1), Value::null()] }),
        ),
        ("right_end", Message::RightEnd(Box::new(right_end_of()))),
        ("took", Message::Took { key: key_of(0), arrived: 9, read: 7 }),
        ("over", Message::Over(vec![key_of(3).chain])),
        ("call elsewhere", Message::CallElsewhere(9, Whither::Moving(250_000))),
        ("hop elsewhere", Message::HopElsewhere(key_of(3), Whither::Unknown)),
        ("moved", Message::Moved("ads".into(), Whither::There(Box::new(entry.clone())))),
        ("offers", Message::Offers(vec![entry])),
        ("resolve", Message::Resolve(4, "ads".into())),
        ("resolved", Message::Resolved(4, vec![answer])),
    ]
    .into_iter()
    .chain(about_segments().into_iter().map(|(kind, about)| (kind, Message::Segment(about))))
    .collect()
}

/// One of each that is said about segments, in the order of their numbers.
fn about_segments() -> Vec<(&'static str, SegmentMessage)> {
    use SegmentMessage as M;
    let at = At { number: 3, generation: 1_000, offset: 64, grant: None };
    let granted = At { grant: Some(5), ..at };
    let entry = SegmentEntry { name: "inbox".into(), number: 3, generation: 1_000, bytes: 4_096, rights: Rights::ALL };
    let data = Bytes::from_static(b"bytes");
    vec![
        ("segment read", M::Read { id: 9, at, count: 64, notify: true, order: Order::Big(4), after: 2, maps: true }),
        ("segment write", M::Write { turn: 2, at: granted, notify: false, order: Order::Bytes, data: data.clone() }),
        ("segment cas", M::Cas { id: 9, at, width: 8, old: 1, new: 2, notify: false, after: 0 }),
        ("segment flush", M::Flush(9, 3)),
        ("segment data", M::Data(9, data.clone())),
        ("segment was", M::Was(9, 1)),
        ("segment flushed", M::Flushed(9)),
        ("segment refused", M::Refused(9, SegmentRefusal::OutOfBounds(4_096))),
        ("segment not written", M::NotWritten(2, SegmentRefusal::NoRight(Rights::WRITE))),
        ("segment import", M::Import(9, "inbox".into())),
        ("segment imported", M::Imported(9, entry.clone())),
        ("segment attach", M::Attach { id: 9, at, host: 7, write: true }),
        ("segment attached", M::Attached(9, 8)),
        ("segment list", M::List(9, 0)),
        ("segment listing", M::Listing(9, vec![entry])),
        (
            "segment short",
            M::Short(Box::new(Datagram {
                from: "mail".into(),
                to: "ads".into(),
                number: 4,
                about: Some(3),
                items: vec![data, Bytes::new()],
                buffers: vec![Buffer { at: granted, bytes: 1 << 20, lent: None }],
                completion: Completion::Piggybacked,
                room: Some(Buffer {
                    at: granted,
                    bytes: 64,
                    lent: Some(Lent { whole: 2, bytes: 1 << 24, word: 128, uses: 1 }),
                }),
                asks: true,
                taken: vec![7, 8],
                returned: Some(9),
            })),
        ),
        ("segment taken", M::Taken(vec![4])),
        ("segment nobody here", M::NobodyHere("ads".into())),
        ("segment lent", M::Lent(9, 4, Buffer { at: granted, bytes: 64, lent: None })),
        ("segment reach", M::Reach { id: 9, at, by: "tcp;ofi_rxm".into(), write: true }),
        ("segment reachable", M::Reachable { id: 9, token: vec![1, 2, 3], write: true }),
    ]
}

fn refusal() -> impl Strategy<Value = SegmentRefusal> {
    use SegmentRefusal as R;
    let plain = vec![
        R::UnknownName,
        R::Revoked,
        R::Stale,
        R::NeverExported,
        R::WriteInhibited,
        R::Unaligned,
        R::Overloaded,
        R::GrantVoid,
        R::NotShared,
        R::NoAnswer,
        R::OwnerLost,
        R::BadAnswer,
    ];
    prop_oneof![
        prop::sample::select(plain),
        any::<u64>().prop_map(R::OutOfBounds),
        any::<u64>().prop_map(R::TooLarge),
        any::<u8>().prop_map(|bits| R::NoRight(Rights::from_bits(bits))),
    ]
}

/// Anything said about segments.
fn about() -> impl Strategy<Value = SegmentMessage> {
    use SegmentMessage as M;
    let at = || {
        (any::<u32>(), any::<u64>(), any::<u64>(), option::of(any::<u64>()))
            .prop_map(|(number, generation, offset, grant)| At { number, generation, offset, grant })
    };
    let order =
        || prop_oneof![Just(Order::Bytes), any::<u8>().prop_map(Order::Little), any::<u8>().prop_map(Order::Big)];
    let entry = || {
        (name(), any::<u32>(), any::<[u64; 2]>(), any::<u8>()).prop_map(|(name, number, [generation, bytes], bits)| {
            SegmentEntry { name, number, generation, bytes, rights: Rights::from_bits(bits) }
        })
    };
    prop_oneof![
        (any::<[u64; 2]>(), at(), any::<u32>(), any::<bool>(), order()).prop_map(
            |([id, after], at, count, notify, order)| {
                let maps = count > 7;
                M::Read { id, at, count, notify, order, after, maps }
            }
        ),
        (any::<u64>(), at(), any::<bool>(), order(), bytes(60)).prop_map(|(turn, at, notify, order, data)| M::Write {
            turn,
            at,
            notify,
            order,
            data
        }),
        (any::<[u64; 4]>(), at(), any::<u8>(), any::<bool>())
            .prop_map(|([id, old, new, after], at, width, notify)| M::Cas { id, at, width, old, new, notify, after }),
        any::<[u64; 2]>().prop_map(|[id, upto]| M::Flush(id, upto)),
        (any::<u64>(), bytes(60)).prop_map(|(id, data)| M::Data(id, data)),
        any::<[u64; 2]>().prop_map(|[id, was]| M::Was(id, was)),
        any::<u64>().prop_map(M::Flushed),
        (any::<u64>(), refusal()).prop_map(|(id, why)| M::Refused(id, why)),
        (any::<u64>(), refusal()).prop_map(|(turn, why)| M::NotWritten(turn, why)),
        (any::<u64>(), name()).prop_map(|(id, name)| M::Import(id, name)),
        (any::<u64>(), entry()).prop_map(|(id, entry)| M::Imported(id, entry)),
        (any::<u64>(), at(), any::<u128>(), any::<bool>()).prop_map(|(id, at, host, write)| M::Attach {
            id,
            at,
            host,
            write
        }),
        (any::<u64>(), any::<u128>()).prop_map(|(id, ticket)| M::Attached(id, ticket)),
        (any::<u64>(), any::<u32>()).prop_map(|(id, first)| M::List(id, first)),
        (any::<u64>(), vec(entry(), 0..4)).prop_map(|(id, entries)| M::Listing(id, entries)),
        datagram().prop_map(|datagram| M::Short(Box::new(datagram))),
        vec(any::<u64>(), 0..4).prop_map(M::Taken),
        name().prop_map(M::NobodyHere),
        (any::<u64>(), any::<u64>(), buffer()).prop_map(|(id, number, buffer)| M::Lent(id, number, buffer)),
        (any::<u64>(), at(), name(), any::<bool>()).prop_map(|(id, at, by, write)| M::Reach { id, at, by, write }),
        (any::<u64>(), vec(any::<u8>(), 0..60), any::<bool>()).prop_map(|(id, token, write)| M::Reachable {
            id,
            token,
            write
        }),
    ]
}

fn buffer() -> impl Strategy<Value = Buffer> {
    let lent =
        (any::<[u64; 3]>(), any::<u32>()).prop_map(|([whole, bytes, word], uses)| Lent { whole, bytes, word, uses });
    (any::<u32>(), any::<[u64; 3]>(), option::of(any::<u64>()), option::of(lent)).prop_map(
        |(number, [generation, offset, bytes], grant, lent)| Buffer {
            at: At { number, generation, offset, grant },
            bytes,
            lent,
        },
    )
}

fn datagram() -> impl Strategy<Value = Datagram> {
    let completion = || prop_oneof![Just(Completion::Told), Just(Completion::Piggybacked), Just(Completion::Timeout)];
    let names = (name(), name(), any::<[u64; 2]>(), option::of(any::<u64>()));
    let rest = (vec(buffer(), 0..4), completion(), option::of(buffer()), vec(any::<u64>(), 0..4), any::<bool>());
    (names, vec(bytes(60), 0..4), rest).prop_map(
        |((from, to, [number, length], about), items, (buffers, completion, room, taken, asks))| Datagram {
            from,
            to,
            number,
            about,
            items,
            buffers,
            completion,
            room,
            taken,
            returned: about.map(|_| length),
            asks,
        },
    )
}

fn name() -> impl Strategy<Value = String> {
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

fn chain() -> impl Strategy<Value = ChainId> {
    (any::<u64>(), any::<u128>()).prop_map(|(origin, number)| ChainId { origin: NodeId(origin), number })
}

fn branch() -> impl Strategy<Value = Branch> {
    vec(any::<u16>(), 0..=BRANCH_DEPTH_MAX).prop_map(|parts| branch_of(&parts))
}

fn key() -> impl Strategy<Value = StepKey> {
    (chain(), branch(), any::<u32>()).prop_map(|(chain, branch, step)| StepKey { chain, branch, step })
}

fn node() -> impl Strategy<Value = NodeRef> {
    (any::<u64>(), name(), option::of(name()), option::of(name())).prop_map(|(id, name, address, site)| NodeRef {
        id: NodeId(id),
        name,
        address,
        site,
    })
}

fn path() -> impl Strategy<Value = Vec<String>> {
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

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![value().prop_map(Outcome::Done), exception().prop_map(Outcome::Threw)]
}

fn trace() -> impl Strategy<Value = Option<Vec<StepTrace>>> {
    let place = (any::<bool>(), branch(), option::of(name()));
    let step = (any::<[u64; 6]>(), any::<u32>(), place, name(), name(), option::of(name())).prop_map(
        |(n, step, (in_place, branch, served_by), node, target, site)| StepTrace {
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
        },
    );
    option::of(vec(step, 0..3))
}

fn console() -> impl Strategy<Value = Vec<LogLine>> {
    let line = (any::<[u32; 2]>(), name(), any::<u64>(), name(), branch())
        .prop_map(|([step, number], node, at_us, text, branch)| LogLine { step, node, at_us, text, branch, number });
    vec(line, 0..3)
}

fn bytes(most: usize) -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..most).prop_map(Bytes::from)
}

fn hash() -> impl Strategy<Value = Hash> {
    any::<[u8; 32]>().prop_map(Hash)
}

fn budget() -> impl Strategy<Value = Budget> {
    (any::<u64>(), any::<u32>()).prop_map(|(time_us, hops)| Budget::new(time_us, hops))
}

fn charter() -> impl Strategy<Value = Charter> {
    let mode = prop::sample::select(vec![Mode::Chain, Mode::Interactive, Mode::Adaptive]);
    (node(), any::<u64>(), mode, any::<bool>(), option::of(node()), option::of(value())).prop_map(
        |(origin, started_at_ms, mode, compose, entry, credentials)| Charter {
            origin: origin.into(),
            started_at_ms,
            mode,
            compose,
            entry: entry.map(Into::into),
            credentials,
        },
    )
}

fn frame() -> impl Strategy<Value = Frame> {
    let numbers = (hash(), any::<[u32; 3]>());
    let creator = (node(), name(), option::of(name()), any::<[bool; 2]>());
    (numbers, creator, limits(), bytes(60)).prop_map(
        |((code, numbers), (creator, service, catch, [hears, doubt]), limits, continuation)| Frame {
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
            uncertain: doubt,
            continuation,
        },
    )
}

fn duplicate() -> impl Strategy<Value = Option<PossibleDuplicate>> {
    option::of((key(), any::<u64>()).prop_map(|(since, way)| PossibleDuplicate { since, way }))
}

fn recording() -> impl Strategy<Value = Option<Recording>> {
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

fn merged() -> impl Strategy<Value = Vec<BranchCount>> {
    vec((branch(), any::<u32>()).prop_map(|(branch, emitted)| BranchCount { branch, emitted }), 0..4)
}

fn hop() -> impl Strategy<Value = Hop> {
    let what = (key(), any::<u64>(), budget(), name(), name(), value(), any::<u32>());
    let whose = (hash(), charter(), vec(frame(), 0..4), any::<u32>(), any::<u64>());
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
        (console(), any::<u32>(), limits(), any::<bool>(), duplicate(), recording()),
        tail,
    )
        .prop_map(
            |(
                what,
                whose,
                split,
                path,
                trace,
                (console, console_told, limits, uncertain, duplicate, recording),
                tail,
            )| {
                let (key, age_us, budget, service, function, params, call) = what;
                let (code, charter, stack, emitted, heartbeat_in_us) = whose;
                let (splits, merge, gather, merged) = split;
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
                    charter,
                    stack,
                    emitted,
                    heartbeat_in_us,
                    path,
                    trace,
                    console,
                    continuation_bytes: continuation.len() as u32,
                    splits,
                    merge,
                    gather,
                    merged,
                    console_told,
                    limits,
                    uncertain,
                    duplicate,
                    recording,
                    continuation,
                    // An empty function is no function.
                    code_bytes: tail.1.filter(|code| !code.is_empty()),
                }
            },
        )
}

fn end() -> impl Strategy<Value = End> {
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

fn entry() -> impl Strategy<Value = ServiceEntry> {
    let kinds =
        (path(), path(), path()).prop_map(|(repeatable, durable, chaining)| Kinds { repeatable, durable, chaining });
    (name(), path(), node(), kinds, option::of(node()))
        .prop_map(|(service, functions, node, kinds, proxy)| ServiceEntry { service, functions, node, kinds, proxy })
}

fn whereabouts() -> impl Strategy<Value = Whereabouts> {
    prop_oneof![name().prop_map(Whereabouts::Handing), name().prop_map(Whereabouts::Went), Just(Whereabouts::Unknown)]
}

fn whither() -> impl Strategy<Value = Whither> {
    let there = entry().prop_map(|entry| Whither::There(Box::new(entry)));
    prop_oneof![Just(Whither::Unknown), any::<u64>().prop_map(Whither::Moving), there]
}

fn answer() -> impl Strategy<Value = ResolverAnswer> {
    let sighting = (option::of(name()), option::of(name()), option::of(any::<u64>()));
    let sighting = sighting.prop_map(|(node, address, run)| Sighting { node, address, run: run.map(NodeId) });
    (name(), option::of(any::<u64>()), vec(sighting, 0..4), option::of(name()))
        .prop_map(|(resolver, age_us, at, note)| ResolverAnswer { resolver, age_us, at, note })
}

fn limits() -> impl Strategy<Value = StepLimits> {
    let numbers = (option::of(any::<u64>()), vec(option::of(any::<u32>()), 4));
    numbers.prop_map(|(memory_bytes_max, rest)| StepLimits {
        memory_bytes_max,
        step_wall_ms_max: rest[0],
        output_bytes_max: rest[1],
        events_max: rest[2],
        continuation_bytes_max: rest[3],
    })
}

/// At the bounds themselves: as many chains around a chain as there may be.
pub(crate) fn deep_hop(depth: usize) -> Hop {
    Hop { stack: vec![frame_of(); depth], ..hop_of() }
}

/// Any message at all.
pub(crate) fn message() -> impl Strategy<Value = Message> {
    let call = (
        any::<u64>(),
        name(),
        name(),
        value(),
        budget(),
        option::of(key()),
        option::of(value()),
        (duplicate(), any::<u64>()),
    );
    let call = call.prop_map(|(id, service, function, params, budget, key, credentials, (duplicate, age_us))| {
        Message::Call { id, service, function, params, budget, key, credentials, duplicate, age_us }
    });
    let relay = (any::<u64>(), bytes(100), bytes(100)).prop_map(|(to, head, tail)| Message::Relay {
        to: NodeId(to),
        head: head.to_vec(),
        tail,
    });
    prop_oneof![
        hop().prop_map(|hop| Message::Hop(Box::new(hop))),
        key().prop_map(Message::Accepted),
        (key(), exception()).prop_map(|(key, why)| Message::Refused(key, why)),
        (key(), any::<u32>(), value(), any::<u32>()).prop_map(|(key, number, value, to)| Message::Partial {
            key,
            number,
            value,
            to
        }),
        end().prop_map(|end| Message::End(Box::new(end))),
        (key(), node(), vec(branch(), 0..4)).prop_map(|(key, host, open)| Message::Heartbeat(key, host, open)),
        call,
        (any::<u64>(), outcome(), any::<u32>(), any::<u64>(), console()).prop_map(
            |(id, outcome, hops_left, service_us, console)| {
                Message::Return(id, outcome, Brought { hops_left, service_us, console })
            }
        ),
        any::<u64>().prop_map(Message::Withdraw),
        hash().prop_map(Message::WantCode),
        (hash(), bytes(300)).prop_map(|(code, bytes)| Message::Code(code, bytes)),
        hash().prop_map(Message::NoCode),
        any::<u64>().prop_map(Message::List),
        (any::<u64>(), vec(entry(), 0..4)).prop_map(|(id, entries)| Message::Listing(id, entries)),
        (key(), any::<u32>(), console()).prop_map(|(key, first, lines)| Message::Console(key, first, lines)),
        (key(), node(), option::of(node())).prop_map(|(key, origin, entry)| Message::Locate { key, origin, entry }),
        (key(), name(), whereabouts()).prop_map(|(key, host, place)| Message::Located(key, host, place)),
        chain().prop_map(Message::Cancel),
        (value(), right()).prop_map(|(params, right)| {
            let (service, function, budget) = ("s".into(), "f".into(), Budget::new(7, 3));
            Message::Ask { id: 1, service, function, params, budget, credentials: None, right: Box::new(right) }
        }),
        (key(), any::<u32>(), vec(value(), 0..4)).prop_map(|(key, first, values)| Message::Replies(Replies {
            key,
            first,
            values
        })),
        (key(), any::<u32>(), vec(delegated(), 0..3), option::of(exception())).prop_map(
            |(key, replies, delegated, threw)| {
                Message::RightEnd(Box::new(RightEnd { key, replies, delegated, threw }))
            }
        ),
        (key(), any::<u32>(), any::<u32>()).prop_map(|(key, arrived, read)| Message::Took { key, arrived, read }),
        relay,
        about().prop_map(Message::Segment),
        (any::<u64>(), whither()).prop_map(|(id, whither)| Message::CallElsewhere(id, whither)),
        (key(), whither()).prop_map(|(key, whither)| Message::HopElsewhere(key, whither)),
        (name(), whither()).prop_map(|(service, whither)| Message::Moved(service, whither)),
        vec(entry(), 0..4).prop_map(Message::Offers),
        (any::<u64>(), name()).prop_map(|(id, service)| Message::Resolve(id, service)),
        (any::<u64>(), vec(answer(), 0..4)).prop_map(|(id, answers)| Message::Resolved(id, answers)),
    ]
}

/// A service with so many functions, whose names are empty.
pub(crate) fn entry_of(functions: usize) -> ServiceEntry {
    let functions = vec![String::new(); functions];
    ServiceEntry { service: String::new(), functions, node: node_of(""), kinds: Kinds::default(), proxy: None }
}

fn right() -> impl Strategy<Value = Right> {
    (key(), node(), option::of(node()), any::<u32>(), any::<u32>()).prop_map(|(key, caller, entry, replies, bytes)| {
        Right { key, caller, entry, window: Window { replies, bytes } }
    })
}

fn delegated() -> impl Strategy<Value = Delegated> {
    let fate = prop_oneof![node().prop_map(Fate::Taken), exception().prop_map(Fate::Failed)];
    (name(), fate).prop_map(|(target, fate)| Delegated { target, fate })
}
