//! One fixed message of each kind.

use bytes::Bytes;
use catena_wire::{
    At, BlobBytes, Branch, BranchCount, Brought, Budget, Buffer, ChainHeader, ChainId, Completion, Datagram, Delegated,
    End, Exception, Fate, Fault, Frame, Hash, Hop, Kinds, Lent, Listener, LogLine, Merge, Message, Mode, NodeId,
    NodeRef, Order, Outcome, Part, PossibleDuplicate, Relocation, Replies, ResolverAnswer, Right, RightEnd, Rights,
    SegmentEntry, SegmentMessage, SegmentRefusal, ServiceEntry, Sighting, StepKey, StepLimits, StepTrace, Value,
    Whereabouts, Window,
};

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

pub(crate) fn header() -> ChainHeader {
    ChainHeader {
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
        header: header(),
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
        branches: 2,
        merged: vec![BranchCount { branch: branch_of(&[1, 2, 3]), emitted: 7 }],
        console_told: 1,
        limits: StepLimits { memory_bytes_max: Some(1 << 20), ..StepLimits::UNCHANGED },
        uncertain: true,
        duplicate: Some(PossibleDuplicate { since: key_of(2), way: 40_000 }),
        recording: None,
        unreached: None,
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
        blobs: Some(Box::new(blobs_of())),
    }
}

pub(crate) fn blobs_of() -> BlobBytes {
    BlobBytes { own: 1, shared_memory: 2, rdma: 3, link: 300, pushed: 70_000 }
}

pub(crate) fn line_of() -> LogLine {
    LogLine { step: 1, node: "bei".into(), at_us: 15, text: "hello".into(), branch: branch_of(&[2]), number: 1 }
}

pub(crate) fn ask_of() -> Message {
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

pub(crate) fn right_end_of() -> RightEnd {
    let taken = Delegated { target: "search/find".into(), fate: Fate::Taken(node_of("cam")) };
    let failed = Delegated { target: "search/more".into(), fate: Fate::Failed(exception_of("NodeUnreachable")) };
    RightEnd {
        key: key_of(0),
        replies: 5,
        delegated: vec![taken, failed],
        threw: Some(exception_of("Oops")),
        late: true,
    }
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
                Brought { hops_left: 7, service_us: 80, console: vec![line_of()], blobs: Some(Box::new(blobs_of())) },
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
        ("received cancel", Message::Received(key_of(0), Part::Cancel(NodeId(5)))),
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
        ("call elsewhere", Message::CallElsewhere(9, Relocation::Moving(250_000), true)),
        ("hop elsewhere", Message::HopElsewhere(key_of(3), Relocation::Unknown)),
        ("moved", Message::Moved("ads".into(), Relocation::There(Box::new(entry.clone())))),
        ("offers", Message::Offers(vec![entry])),
        ("resolve", Message::Resolve(4, "ads".into())),
        ("resolved", Message::Resolved(4, vec![answer])),
    ]
    .into_iter()
    .chain(about_segments().into_iter().map(|(kind, about)| (kind, Message::Segment(about))))
    .collect()
}

/// One of each that is said about segments, in the order of their numbers.
pub(crate) fn about_segments() -> Vec<(&'static str, SegmentMessage)> {
    use SegmentMessage as M;
    let at = At { number: 3, generation: 1_000, offset: 64, grant: None };
    let granted = At { grant: Some(5), ..at };
    let entry = SegmentEntry { name: "inbox".into(), number: 3, generation: 1_000, bytes: 4_096, rights: Rights::ALL };
    let data = Bytes::from_static(b"bytes");
    let pushed = data.clone();
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
        ("segment carried", M::Carried(4, Buffer { at: granted, bytes: 64, lent: None })),
        ("segment not mapped", M::NotMapped(4)),
        ("segment push", M::Push { at: granted, bytes: 4_096, to: node_of("mtv") }),
        ("segment pushed", M::Pushed(granted, pushed)),
    ]
}

/// At the bounds themselves: as many chains around a chain as there may be.
pub(crate) fn deep_hop(depth: usize) -> Hop {
    Hop { stack: vec![frame_of(); depth], ..hop_of() }
}

/// A service with so many functions, whose names are empty.
pub(crate) fn entry_of(functions: usize) -> ServiceEntry {
    let functions = vec![String::new(); functions];
    ServiceEntry { service: String::new(), functions, node: node_of(""), kinds: Kinds::default(), proxy: None }
}
