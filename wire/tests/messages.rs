//! Whatever is said is understood as it was meant, and whatever else comes is an error and nothing worse.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use bytes::Bytes;
use catena_wire::{
    At, BRANCH_DEPTH_MAX, BRANCHES_MAX, BUFFERS_MAX, Branch, Brought, Budget, Buffer, COMPLETIONS_MAX,
    CONSOLE_LINES_MAX, ChainId, Completion, Datagram, Encoded, Exception, FUNCTIONS_MAX, Fault, Hello, Hop,
    LISTING_ENTRIES_MAX, LISTING_NAMES_MAX, Lent, Message, NAME_BYTES_MAX, NodeId, NodeRef, Outcome, PATH_HOSTS_MAX,
    REPLIES_MAX, Replies, SHORT_BYTES_MAX, SHORT_ITEMS_MAX, STACK_DEPTH_MAX, SegmentMessage, StepKey, StepTrace,
    TRACE_STEPS_MAX, VALUE_DEPTH_MAX, Value, ValueError, WireError,
};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_said_is_understood(message in common::message()) {
        prop_assert_eq!(Message::decode(message.clone().encode()), Ok(message));
    }

    #[test]
    fn an_exception_stays_what_it_is(exception in common::exception()) {
        let bytes = minicbor::to_vec(&exception).unwrap();
        prop_assert_eq!(minicbor::decode::<Exception>(&bytes).unwrap(), exception);
        prop_assert!(Value::from_cbor(bytes.into()).is_ok(), "a guest can read it as a value");
    }

    #[test]
    fn any_bytes_are_a_message_or_an_error(head in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = Message::decode_head(&head);
        let _ = Hello::decode(&head);
        let _ = minicbor::decode::<Exception>(&head);
        if let Ok(value) = Value::from_cbor(head.clone().into()) {
            prop_assert_eq!(value.as_bytes().as_ref(), &head[..]);
            let _ = format!("{value:?}");
        }
    }

    #[test]
    fn a_message_cut_short_is_an_error(message in common::message(), cut in any::<prop::sample::Index>()) {
        let Encoded { head, tail } = message.encode();
        prop_assert!(Message::decode_head(&head[..cut.index(head.len())]).is_err());
        prop_assert!(Message::decode_head(&[&head[..], &[0]].concat()).is_err(), "nor may anything follow it");
        let mut message = Message::decode_head(&head).unwrap();
        let stacked = |hop: &catena_wire::Hop| hop.stack.iter().any(|frame| frame.continuation_bytes > 0);
        let announced = matches!(&message, Message::Hop(hop) if hop.continuation_bytes > 0 || stacked(hop));
        prop_assert_eq!(message.attach_tail(Bytes::new()).is_err(), announced);
        let _ = message.attach_tail(tail);
    }

    #[test]
    fn a_flipped_bit_gives_a_message_or_an_error(
        message in common::message(),
        at in any::<prop::sample::Index>(),
        bit in 0_u32..8,
    ) {
        let mut head = message.encode().head.to_vec();
        let at = at.index(head.len());
        head[at] ^= 1_u8 << bit;
        if let Ok(message) = Message::decode_head(&head) {
            let again = message.encode().head;
            let passed_on = Message::decode_head(&again).map(|message| message.encode().head);
            prop_assert_eq!(passed_on, Ok(again), "and what it became can be passed on");
        }
    }
}

#[test]
fn a_short_message_keeps_its_bounds_and_fits_one_frame() {
    let at = At { number: u32::MAX, generation: u64::MAX, offset: u64::MAX, grant: Some(u64::MAX) };
    let lent = Lent { whole: u64::MAX, bytes: u64::MAX, word: u64::MAX, uses: u32::MAX };
    let buffer = Buffer { at, bytes: u64::MAX, lent: Some(lent) };
    let item = |bytes: usize| Bytes::from(vec![7; bytes]);
    let name = "x".repeat(NAME_BYTES_MAX);
    let largest = Datagram {
        from: name.clone(),
        to: name,
        number: u64::MAX,
        about: Some(u64::MAX),
        items: vec![item(SHORT_BYTES_MAX / SHORT_ITEMS_MAX); SHORT_ITEMS_MAX],
        buffers: vec![buffer; BUFFERS_MAX],
        completion: Completion::Told,
        room: Some(buffer),
        taken: vec![u64::MAX; COMPLETIONS_MAX],
        asks: true,
        returned: Some(u64::MAX),
    };
    let decode = |datagram: &Datagram| {
        Message::decode(Message::Segment(SegmentMessage::Short(Box::new(datagram.clone()))).encode())
    };
    let encoded = Message::Segment(SegmentMessage::Short(Box::new(largest.clone()))).encode();
    assert!(encoded.tail.is_empty() && encoded.head.len() <= 16 << 10, "{}", encoded.head.len());
    assert!(decode(&largest).is_ok());
    for wrong in [
        Datagram { items: vec![item(SHORT_BYTES_MAX + 1)], ..Datagram::default() },
        Datagram { items: vec![item(SHORT_BYTES_MAX), item(1)], ..Datagram::default() },
        Datagram { items: vec![item(0); SHORT_ITEMS_MAX + 1], ..Datagram::default() },
        Datagram { buffers: vec![buffer; BUFFERS_MAX + 1], ..Datagram::default() },
        Datagram { taken: vec![0; COMPLETIONS_MAX + 1], ..Datagram::default() },
        Datagram { from: "x".repeat(NAME_BYTES_MAX + 1), ..Datagram::default() },
    ] {
        assert!(matches!(decode(&wrong), Err(WireError::Head(_))), "{wrong:?}");
    }
}

fn nested(open: &[u8], close: &[u8], depth: usize) -> Bytes {
    [open.repeat(depth), vec![0], close.repeat(depth)].concat().into()
}

#[test]
fn a_value_is_nested_so_deep_and_no_deeper() {
    let shapes: [(&[u8], &[u8]); 6] = [
        (&[0x81], &[]),
        (&[0xa1, 0], &[]),
        (&[0xc1], &[]),
        (&[0x9f], &[0xff]),
        (&[0xbf, 0], &[0xff]),
        (&[0xa1, 1], &[]),
    ];
    for (open, close) in shapes {
        assert!(Value::from_cbor(nested(open, close, VALUE_DEPTH_MAX)).is_ok(), "{open:x?}");
        assert_eq!(Value::from_cbor(nested(open, close, VALUE_DEPTH_MAX + 1)), Err(ValueError::TooDeep), "{open:x?}");
        assert_eq!(Value::from_cbor(nested(open, close, 1_000_000)), Err(ValueError::TooDeep), "{open:x?}");
    }
}

#[test]
fn a_value_is_one_item_and_whole() {
    for (bytes, why) in [
        (&[][..], ValueError::Malformed { at_bytes: 0 }),
        (&[0x00, 0x00], ValueError::Trailing { at_bytes: 1 }),
        (&[0xff], ValueError::Malformed { at_bytes: 0 }),
    ] {
        assert_eq!(Value::from_cbor(Bytes::copy_from_slice(bytes)), Err(why), "{bytes:x?}");
    }
    for bytes in [&[0x82, 0x00][..], &[0x62, b'a'], &[0x9f, 0x00], &[0xbf, 0x00, 0xff], &[0x1c], &[0x18]] {
        assert!(
            matches!(Value::from_cbor(Bytes::copy_from_slice(bytes)), Err(ValueError::Malformed { .. })),
            "{bytes:x?}"
        );
    }
}

#[test]
fn a_message_of_an_unknown_number_is_an_error() {
    for number in [17_u8, 23, 24, 255] {
        let head = minicbor::to_vec((number, (1_u64,))).unwrap();
        assert!(matches!(Message::decode_head(&head), Err(WireError::Head(_))), "{number}");
    }
}

#[test]
fn names_paths_and_branches_have_bounds() {
    let heartbeat = |name_bytes: usize| {
        let mut hop = common::hop_of();
        hop.service = "s".repeat(name_bytes);
        Message::decode(Message::Hop(Box::new(hop)).encode())
    };
    assert!(heartbeat(NAME_BYTES_MAX).is_ok() && heartbeat(NAME_BYTES_MAX + 1).is_err());

    let from = |address: usize, site: usize| {
        let mut hop = common::hop_of();
        let origin = NodeRef {
            address: Some("a".repeat(address)),
            site: Some("s".repeat(site)),
            ..(*hop.header.origin).clone()
        };
        hop.header.origin = origin.into();
        Message::decode(Message::Hop(Box::new(hop)).encode())
    };
    assert!(from(NAME_BYTES_MAX, NAME_BYTES_MAX).is_ok());
    assert!(from(NAME_BYTES_MAX + 1, 1).is_err() && from(1, NAME_BYTES_MAX + 1).is_err());

    let travelled = |hosts: usize| {
        let mut hop = common::hop_of();
        hop.path = vec!["h".into(); hosts];
        Message::decode(Message::Hop(Box::new(hop)).encode())
    };
    assert!(travelled(PATH_HOSTS_MAX).is_ok() && travelled(PATH_HOSTS_MAX + 1).is_err());

    let thrown = |hosts: usize| {
        let path = vec!["h".to_string(); hosts];
        minicbor::decode::<Exception>(&minicbor::to_vec(common::exception_of("X").at_step(1, &path)).unwrap()).is_ok()
            && minicbor::decode::<Exception>(&minicbor::to_vec(Exception { path, ..Exception::default() }).unwrap())
                .is_ok()
    };
    assert!(thrown(PATH_HOSTS_MAX) && !thrown(PATH_HOSTS_MAX + 1));

    let target = |bytes: usize| {
        let trace = Some(vec![StepTrace { target: "x".repeat(bytes), ..common::trace_of() }]);
        Message::decode(Message::Hop(Box::new(Hop { trace, ..common::hop_of() })).encode())
    };
    assert!(target(2 * NAME_BYTES_MAX + 1).is_ok() && target(2 * NAME_BYTES_MAX + 2).is_err());

    let around = |depth: usize| Message::decode(Message::Hop(Box::new(common::deep_hop(depth))).encode());
    assert!(around(STACK_DEPTH_MAX).is_ok() && around(STACK_DEPTH_MAX + 1).is_err());

    let open = |branches: usize| {
        let open = vec![Branch::root(); branches];
        Message::decode(Message::Heartbeat(common::key_of(1), common::node_of("h"), open).encode())
    };
    assert!(open(BRANCHES_MAX).is_ok() && open(BRANCHES_MAX + 1).is_err());

    let returned = |lines: usize| {
        let brought = Brought { console: vec![common::line_of(); lines], ..Brought::default() };
        Message::decode(Message::Return(1, Outcome::Done(Value::null()), brought).encode())
    };
    assert!(returned(CONSOLE_LINES_MAX).is_ok() && returned(CONSOLE_LINES_MAX + 1).is_err());

    let said =
        |lines: usize| Message::decode(Message::Console(common::key_of(1), 0, vec![common::line_of(); lines]).encode());
    assert!(said(CONSOLE_LINES_MAX).is_ok() && said(CONSOLE_LINES_MAX + 1).is_err());

    let hop = |steps: usize, lines: usize| {
        let (trace, console) = (Some(vec![common::trace_of(); steps]), vec![common::line_of(); lines]);
        Message::decode(Message::Hop(Box::new(Hop { trace, console, ..common::hop_of() })).encode())
    };
    assert!(hop(TRACE_STEPS_MAX, 0).is_ok() && hop(TRACE_STEPS_MAX + 1, 0).is_err());
    assert!(hop(0, CONSOLE_LINES_MAX).is_ok() && hop(0, CONSOLE_LINES_MAX + 1).is_err());

    let listed = |entries| Message::decode(Message::Listing(1, entries).encode());
    let entries = |count, names| vec![common::entry_of(names); count];
    assert!(listed(entries(LISTING_ENTRIES_MAX, 0)).is_ok() && listed(entries(LISTING_ENTRIES_MAX + 1, 0)).is_err());
    let services = LISTING_NAMES_MAX / FUNCTIONS_MAX;
    assert!(listed(entries(services, FUNCTIONS_MAX)).is_ok() && listed(entries(services + 1, FUNCTIONS_MAX)).is_err());
    let too_many = Message::listing(1, entries(services + 1, FUNCTIONS_MAX));
    assert!(matches!(Message::decode(too_many.encode()), Ok(Message::Listing(1, told)) if told.len() == services));

    let split = |depth: usize| minicbor::decode::<Branch>(&minicbor::to_vec(vec![1_u16; depth]).unwrap()).is_ok();
    assert!(split(BRANCH_DEPTH_MAX) && !split(BRANCH_DEPTH_MAX + 1));
}

#[test]
fn a_call_that_brings_no_lines_may_leave_them_out() {
    let brought = Brought { hops_left: 7, service_us: 80, ..Brought::default() };
    let answer = Message::Return(1, Outcome::Done(Value::null()), brought);
    let head = answer.clone().encode().head;
    // The last element of the last array: an empty list.
    let (without, lines) = head.split_at(head.len() - 1);
    assert_eq!(lines, [0x80]);
    let at = without.len() - 4;
    assert_eq!(without[at], 0x83, "hops, microseconds, lines");
    let shorter = [&without[..at], &[0x82], &without[at + 1..]].concat();
    assert_eq!(Message::decode_head(&shorter), Ok(answer));
    assert!(Message::decode_head(without).is_err(), "but not where they are announced");
}

#[test]
fn an_exception_with_unknown_words_is_still_understood() {
    let mut bytes = vec![0xbf];
    for (word, value) in [("name", "\u{fe}"), ("colour", "red"), ("fault", "the moon")] {
        bytes.extend(minicbor::to_vec(word).unwrap());
        bytes.extend(minicbor::to_vec(value).unwrap());
    }
    bytes.push(0xff);
    let exception: Exception = minicbor::decode(&bytes).unwrap();
    assert_eq!((exception.name.as_str(), exception.fault), ("\u{fe}", catena_wire::Fault::Guest));
}

#[test]
fn the_states_of_a_chain_stack_come_apart_again_in_their_order() {
    let mut hop = common::deep_hop(3);
    for (number, frame) in hop.stack.iter_mut().enumerate() {
        frame.continuation = vec![number as u8; number + 1].into();
        frame.continuation_bytes = number as u32 + 1;
    }
    let encoded = Message::Hop(Box::new(hop.clone())).encode();
    assert_eq!(encoded.tail.as_ref(), b"abc\0\x01\x01\x02\x02\x02code");
    assert_eq!(Message::decode(encoded.clone()), Ok(Message::Hop(Box::new(hop))));
    let short = Encoded { tail: encoded.tail.slice(..8), ..encoded };
    assert_eq!(Message::decode(short), Err(WireError::Tail { announced_bytes: 9, received_bytes: 8 }));
}

#[test]
fn a_relayed_message_is_passed_on_byte_for_byte() {
    let inner = Message::Hop(Box::new(common::hop_of())).encode();
    let relay = Message::Relay { to: catena_wire::NodeId(8), head: inner.head.to_vec(), tail: inner.tail.clone() };
    let Ok(Message::Relay { head, tail, .. }) = Message::decode(relay.encode()) else { panic!("a relay stays one") };
    assert_eq!(Encoded { head: head.into(), tail }, inner);
}

#[test]
fn a_split_budget_is_shared_and_never_grows() {
    for (hops, parts) in [(10, 3), (3, 4), (0, 1), (u32::MAX, 7), (5, 0)] {
        let (each, rest) = Budget::new(9, hops).shared(parts);
        let total = u64::from(each.hops_left()) * u64::from(parts) + u64::from(rest.hops_left());
        assert_eq!(total, u64::from(hops), "{hops} hops in {parts} parts");
        assert_eq!((each.time_left_us(), rest.time_left_us()), (9, 9));
    }
}

#[test]
fn merged_outcomes_are_an_array_in_the_order_of_the_branches() {
    let why = Exception::new("X", Fault::Guest, "");
    let merged = Value::of_outcomes(&[Outcome::Done(Value::encode(&1)), Outcome::Threw(why.clone())]);
    let mut decoder = minicbor::Decoder::new(merged.as_bytes());
    assert_eq!(decoder.array().unwrap(), Some(2));
    assert_eq!(decoder.decode::<(bool, u8)>().unwrap(), (true, 1));
    assert_eq!(decoder.decode::<(bool, Exception)>().unwrap(), (false, why));
    assert!(Value::from_cbor(merged.as_bytes().clone()).is_ok());
}

#[test]
fn who_keeps_a_short_reply_keeps_no_long_one() {
    let share = |bytes: usize| {
        let key = StepKey { chain: ChainId { origin: NodeId(1), number: 1 }, branch: Branch::root(), step: 0 };
        let values = vec![Value::encode(&"a".repeat(bytes)), Value::null()];
        let Ok(Message::Replies(replies)) =
            Message::decode(Message::Replies(Replies { key, first: 0, values }).encode())
        else {
            panic!("it is understood");
        };
        let [long, null] = &replies.values[..] else { panic!("both are there") };
        // In one piece there is nothing between them but the second one's length.
        null.as_bytes().as_ptr() as usize == long.as_bytes().as_ptr() as usize + long.len_bytes() + 1
    };
    assert!(share(64) && !share(200 << 10));
}

#[test]
fn more_replies_than_a_message_may_have_are_an_error() {
    let decoded = |count| {
        let key = StepKey { chain: ChainId { origin: NodeId(1), number: 1 }, branch: Branch::root(), step: 0 };
        Message::decode(Message::Replies(Replies { key, first: 0, values: vec![Value::null(); count] }).encode())
    };
    assert!(decoded(REPLIES_MAX).is_ok() && decoded(REPLIES_MAX + 1).is_err());
}
