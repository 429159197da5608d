//! Messages for the tests: one fixed one of each kind, and any at all.
#![allow(dead_code)] // each test binary uses its part

use bytes::Bytes;
use catena_wire::{
    Branch, Budget, ChainId, End, Exception, Fault, Hash, Hop, LogLine, Message, NodeId, NodeRef, Outcome,
    ServiceEntry, StepKey, StepTrace, Value,
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
        .at_step(2, &["bei".into(), "mtv".into()])
}

pub(crate) fn hop_of() -> Hop {
    Hop {
        key: key_of(3),
        attempt: 1,
        budget: Budget::new(1_000_000, 1_999),
        service: "files.mtv".into(),
        function: "read".into(),
        params: Value::encode(&"params"),
        call: 5,
        code: Hash([0xab; 32]),
        origin: node_of("bei"),
        started_at_ms: 1_700_000_000_000,
        emitted: 2,
        heartbeat_in_us: 2_800_000,
        path: vec!["bei".into(), "mtv".into()],
        trace: Some(vec![trace_of()]),
        console: vec![line_of()],
        continuation_bytes: 3,
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
    }
}

pub(crate) fn line_of() -> LogLine {
    LogLine { step: 1, node: "bei".into(), at_us: 15, text: "hello".into() }
}

/// One of each, in the order of their numbers.
pub(crate) fn samples() -> Vec<(&'static str, Message)> {
    let path = vec!["bei".into()];
    let outcome = Outcome::Done(Value::encode(&42));
    let end =
        End { key: key_of(4), outcome, emitted: 2, path, trace: Some(vec![trace_of()]), console: vec![line_of()] };
    let (service, function) = ("ads".to_string(), "pick".to_string());
    let call = Message::Call { id: 9, service, function, params: Value::null(), budget: Budget::new(5_000, 1) };
    let functions = vec!["pick".into(), "list".into()];
    let entry = ServiceEntry { service: "ads".into(), functions, node: node_of("bei") };
    vec![
        ("hop", Message::Hop(Box::new(hop_of()))),
        ("accepted", Message::Accepted(key_of(3))),
        ("refused", Message::Refused(key_of(3), exception_of("Overloaded"))),
        ("partial", Message::Partial { key: key_of(3), number: 1, value: Value::encode(&true) }),
        ("end", Message::End(Box::new(end))),
        ("heartbeat", Message::Heartbeat(key_of(3), "mtv".into())),
        ("call", call),
        ("return", Message::Return(9, Outcome::Threw(exception_of("NFS3ERR_NOENT")))),
        ("withdraw", Message::Withdraw(9)),
        ("want code", Message::WantCode(Hash([1; 32]))),
        ("code", Message::Code(Hash([1; 32]), Bytes::from_static(b"export default"))),
        ("no code", Message::NoCode(Hash([1; 32]))),
        ("list", Message::List(1)),
        ("listing", Message::Listing(1, vec![entry])),
        ("console", Message::Console(key_of(3), vec![line_of()])),
    ]
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

fn key() -> impl Strategy<Value = StepKey> {
    (any::<u64>(), any::<u64>(), vec(any::<u16>(), 0..=16), any::<u32>()).prop_map(|(origin, number, parts, step)| {
        StepKey { chain: ChainId { origin: NodeId(origin), number }, branch: branch_of(&parts), step }
    })
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
    let step = prop_oneof![Just((0, vec![])), (any::<u32>(), vec(name(), 1..5))];
    (words, option::of(value()), place, fault, step).prop_map(
        |((name, message, stack, target), params, (line, column), fault, (step, path))| Exception {
            name,
            message,
            params,
            stack,
            line,
            column,
            fault,
            target,
            step,
            path,
        },
    )
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![value().prop_map(Outcome::Done), exception().prop_map(Outcome::Threw)]
}

fn trace() -> impl Strategy<Value = Option<Vec<StepTrace>>> {
    let step = (any::<[u64; 6]>(), any::<u32>(), any::<bool>(), name(), name(), option::of(name())).prop_map(
        |(n, step, in_place, node, target, site)| StepTrace {
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
        },
    );
    option::of(vec(step, 0..3))
}

fn console() -> impl Strategy<Value = Vec<LogLine>> {
    let line = (any::<u32>(), name(), any::<u64>(), name()).prop_map(|(step, node, at_us, text)| LogLine {
        step,
        node,
        at_us,
        text,
    });
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

fn hop() -> impl Strategy<Value = Hop> {
    let what = (key(), any::<u8>(), budget(), name(), name(), value(), any::<u32>());
    let whose = (hash(), node(), any::<u64>(), any::<u32>(), any::<u64>());
    let tail = (bytes(200), option::of(bytes(200)));
    (what, whose, path(), trace(), console(), tail).prop_map(|(what, whose, path, trace, console, tail)| {
        let (key, attempt, budget, service, function, params, call) = what;
        let (code, origin, started_at_ms, emitted, heartbeat_in_us) = whose;
        let continuation = tail.0;
        Hop {
            key,
            attempt,
            budget,
            service,
            function,
            params,
            call,
            code,
            origin,
            started_at_ms,
            emitted,
            heartbeat_in_us,
            path,
            trace,
            console,
            continuation_bytes: continuation.len() as u32,
            continuation,
            // An empty function is no function.
            code_bytes: tail.1.filter(|code| !code.is_empty()),
        }
    })
}

fn end() -> impl Strategy<Value = End> {
    (key(), outcome(), any::<u32>(), path(), trace(), console())
        .prop_map(|(key, outcome, emitted, path, trace, console)| End { key, outcome, emitted, path, trace, console })
}

fn entry() -> impl Strategy<Value = ServiceEntry> {
    (name(), path(), node()).prop_map(|(service, functions, node)| ServiceEntry { service, functions, node })
}

/// Any message at all.
pub(crate) fn message() -> impl Strategy<Value = Message> {
    let call = (any::<u64>(), name(), name(), value(), budget())
        .prop_map(|(id, service, function, params, budget)| Message::Call { id, service, function, params, budget });
    prop_oneof![
        hop().prop_map(|hop| Message::Hop(Box::new(hop))),
        key().prop_map(Message::Accepted),
        (key(), exception()).prop_map(|(key, why)| Message::Refused(key, why)),
        (key(), any::<u32>(), value()).prop_map(|(key, number, value)| Message::Partial { key, number, value }),
        end().prop_map(|end| Message::End(Box::new(end))),
        (key(), name()).prop_map(|(key, host)| Message::Heartbeat(key, host)),
        call,
        (any::<u64>(), outcome()).prop_map(|(id, outcome)| Message::Return(id, outcome)),
        any::<u64>().prop_map(Message::Withdraw),
        hash().prop_map(Message::WantCode),
        (hash(), bytes(300)).prop_map(|(code, bytes)| Message::Code(code, bytes)),
        hash().prop_map(Message::NoCode),
        any::<u64>().prop_map(Message::List),
        (any::<u64>(), vec(entry(), 0..4)).prop_map(|(id, entries)| Message::Listing(id, entries)),
        (key(), console()).prop_map(|(key, lines)| Message::Console(key, lines)),
    ]
}
