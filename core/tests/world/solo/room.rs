//! What a node keeps beside its chains counts in its memory, and is refused where there is none.

use catena_core::{Action, Gather, GuestAsk, NotSent, Policy, Replied};
use catena_wire::{ChainId, LogLine, Message, NodeId, Part, Replies, Right, Window, names};

use super::*;

const BYTES: usize = 10_000;

fn large() -> Value {
    Value::encode(&"x".repeat(BYTES))
}

/// What the node keeps beyond what it kept before.
fn more(node: &Node, before: usize) -> usize {
    node.held_bytes().saturating_sub(before)
}

fn partial(chain: ChainId, number: u32, to: u32) -> Message {
    Message::Partial { key: key(chain, 1), number, value: large(), to }
}

/// Whether the node has said that it keeps this answer.
fn keeps(node: &mut Node, message: Message) -> bool {
    node.on_message(NOW, &node_ref(2), message);
    let kept = |message: &Message| matches!(message, Message::Received(_, Part::Partial(_) | Part::ToCreator { .. }));
    sent(&actions(node)).iter().any(|(_, message, _)| kept(message))
}

#[test]
fn answers_that_came_too_early_count_at_the_origin_until_they_go() {
    let mut node = node(Policy::default());
    let (chain, ..) = handing_off(&mut node);
    node.on_message(NOW, &node_ref(2), Message::Accepted(key(chain, 1)));
    let before = node.held_bytes();
    assert!(keeps(&mut node, partial(chain, 2, 0)) && keeps(&mut node, partial(chain, 1, 0)));
    assert!(keeps(&mut node, partial(chain, 1, 0)), "a repetition is kept already");
    assert!((2 * BYTES..3 * BYTES).contains(&more(&node, before)), "{}", more(&node, before));
    let outcome = Outcome::Done(large());
    node.on_message(NOW, &node_ref(2), Message::End(Box::new(End { outcome, emitted: 3, ..end(key(chain, 1), None) })));
    assert!((3 * BYTES..4 * BYTES).contains(&more(&node, before)), "an end waits for them");
    node.set_memory_left(BYTES / 2);
    assert!(!keeps(&mut node, partial(chain, 4, 0)), "there is no room");
    assert!(keeps(&mut node, partial(chain, 0, 0)), "the next makes room");
    assert!(node.held_bytes() <= before);
}

#[test]
pub(crate) fn a_function_that_rides_along_counts_until_nobody_needs_it() {
    let mut node = node(Policy::default());
    let (chain, session) = begun(&mut node);
    let before = node.held_bytes();
    node.on_turn(NOW, session, calling(vec![call(0, "there")]), 1);
    node.on_suspended(NOW, session, Ok((Bytes::from_static(b"state"), Some(vec![7; BYTES].into()))), 1);
    actions(&mut node);
    assert!((BYTES..2 * BYTES).contains(&more(&node, before)), "on its way: {}", more(&node, before));
    node.on_message(NOW, &node_ref(2), Message::Accepted(key(chain, 1)));
    assert!((BYTES..2 * BYTES).contains(&more(&node, before)), "to answer its step again: {}", more(&node, before));
    node.on_message(NOW, &node_ref(2), Message::End(Box::new(end(key(chain, 1), None))));
    actions(&mut node);
    assert_eq!(more(&node, before), 0);
}

#[test]
fn results_that_wait_for_their_function_count_and_find_no_room_where_there_is_none() {
    let mut node = node(Policy::default());
    let (_, session) = begun(&mut node);
    node.on_turn(NOW, session, calling((0..3).map(|number| call(number, "there")).collect()), 1);
    let returned = |node: &mut Node, id| {
        node.on_message(NOW, &node_ref(2), Message::Return(id, Outcome::Done(large()), Brought::default()));
    };
    returned(&mut node, 1);
    assert!(matches!(actions(&mut node).last(), Some(Action::Settle { call: 0, .. })), "it runs from now on");
    let before = node.held_bytes();
    returned(&mut node, 2);
    assert!((BYTES..2 * BYTES).contains(&more(&node, before)), "{}", more(&node, before));
    node.set_memory_left(BYTES / 2);
    returned(&mut node, 3);
    assert!((BYTES..2 * BYTES).contains(&more(&node, before)), "{}", more(&node, before));
    let mut next = || {
        node.on_turn(NOW, session, calling(Vec::new()), 1);
        actions(&mut node).into_iter().find_map(|action| match action {
            Action::Settle { call, result, .. } => Some((call, result)),
            _ => None,
        })
    };
    assert_eq!(next(), Some((1, Ok(large()))));
    let told = next();
    let Some((2, Err(why))) = told else { panic!("{told:?}") };
    assert!(why.name == names::OVERLOADED && why.unknown, "the call was made: {why}");
}

#[test]
fn lines_that_came_too_early_count_until_they_are_shown_and_find_no_room_where_there_is_none() {
    let mut node = node(Policy::default());
    let (chain, ..) = handing_off(&mut node);
    node.on_message(NOW, &node_ref(2), Message::Accepted(key(chain, 1)));
    actions(&mut node);
    let before = node.held_bytes();
    let line = |number| LogLine {
        step: 1,
        node: "n2".into(),
        at_us: 0,
        text: "x".repeat(BYTES),
        branch: Branch::root(),
        number,
    };
    let shown = |node: &mut Node, place| {
        node.on_message(NOW, &node_ref(2), Message::Console(key(chain, 1), place, vec![line(place)]));
        let lines = actions(node).into_iter().map(|action| match action {
            Action::Reply(_, Replied::Console(lines)) => lines.len(),
            _ => 0,
        });
        lines.sum::<usize>()
    };
    assert_eq!((shown(&mut node, 1), more(&node, before) / BYTES), (0, 1));
    node.set_memory_left(BYTES / 2);
    assert_eq!((shown(&mut node, 2), more(&node, before) / BYTES), (0, 1), "no room: the chain's end brings it");
    assert_eq!((shown(&mut node, 0), more(&node, before)), (2, 0));
    node.set_memory_left(usize::MAX);
    shown(&mut node, 3);
    node.forget(NOW, chain);
    assert!(node.held_bytes() < BYTES);
}

#[test]
fn answers_of_a_chain_that_is_forgotten_count_no_longer() {
    let mut node = node(Policy::default());
    let (chain, ..) = handing_off(&mut node);
    node.on_message(NOW, &node_ref(2), Message::Accepted(key(chain, 1)));
    assert!(keeps(&mut node, partial(chain, 1, 0)) && node.held_bytes() > BYTES);
    node.forget(NOW, chain);
    assert!(node.held_bytes() < BYTES);
}

#[test]
fn answers_that_came_too_early_count_where_a_service_listens() {
    let mut node = node(Policy::default());
    node.on_message(NOW, &node_ref(2), Message::Hop(hop(1, 1)));
    let ticket = ticket_of(&actions(&mut node)).unwrap();
    let sub = SubChain { number: 77, code: CODE, input: Value::null(), catch: None, hears: true };
    node.on_service_done(NOW, ticket, Ok(Answer::Chain(sub)), 1);
    actions(&mut node);
    let (chain, before) = (hop(1, 1).key.chain, node.held_bytes());
    assert!(keeps(&mut node, partial(chain, 1, 1)) && more(&node, before) > BYTES);
    node.set_memory_left(BYTES / 2);
    assert!(!keeps(&mut node, partial(chain, 2, 1)), "there is no room");
    node.set_memory_left(usize::MAX);
    assert!(keeps(&mut node, partial(chain, 0, 1)));
    assert_eq!(more(&node, before), 0);
    // What is never heard goes with who listens.
    assert!(keeps(&mut node, partial(chain, 3, 1)) && more(&node, before) > BYTES);
    node.on_message(NOW, &node_ref(3), Message::SubChainEnded(key(chain, 1)));
    for after_s in 1..20 {
        node.on_timeout(NOW.after(after_s * 1_000_000));
    }
    assert!(actions(&mut node).iter().any(|action| matches!(action, Action::HeardEnd(_))));
    assert!(node.held_bytes() < BYTES + before);
}

#[test]
fn replies_that_came_too_early_count_and_find_no_room_where_there_is_none() {
    let mut node = node(Policy::default());
    let call = node.ask(NOW, number(), "there", "f", Value::null(), Budget::new(60_000_000, 10), None).unwrap();
    actions(&mut node);
    let right = StepKey { step: 0, ..key(call, 0) };
    let before = node.held_bytes();
    let replies = |first| Message::Replies(Replies { key: right.clone(), first, values: vec![large()] });
    let say = |node: &mut Node, first| {
        node.on_message(NOW, &node_ref(2), replies(first));
        let replied =
            |action| if let Action::Reply(_, Replied::Replies(values)) = action { Some(values.len()) } else { None };
        actions(node).into_iter().filter_map(replied).sum::<usize>()
    };
    assert_eq!((say(&mut node, 1), more(&node, before) / BYTES), (0, 1));
    node.set_memory_left(BYTES / 2);
    assert_eq!((say(&mut node, 2), say(&mut node, 0), more(&node, before) / BYTES), (0, 0, 1), "no room");
    node.set_memory_left(usize::MAX);
    assert_eq!((say(&mut node, 0), more(&node, before)), (2, 0));
    say(&mut node, 3);
    node.forget(NOW, call);
    assert_eq!(more(&node, before) / BYTES, 0);
}

#[test]
fn replies_of_a_service_of_this_node_are_never_lost() {
    // Each of its delegates fills its window, which together is more than may be unread.
    let mut node = node(Policy { reply_window: 4, replies_unread_max: 8, ..Policy::default() });
    let call = node.ask(NOW, number(), "here", "f", Value::null(), Budget::new(60_000_000, 1_000), None).unwrap();
    let right = |actions: &[Action]| {
        let right = |action: &Action| if let Action::RunService { right, .. } = action { right.clone() } else { None };
        actions.iter().find_map(right)
    };
    let root = right(&actions(&mut node)).unwrap();
    for _ in 0..5 {
        node.delegate(NOW, &root, "here", "f", Value::null()).unwrap();
        let child = right(&actions(&mut node)).unwrap();
        for _ in 0..4 {
            node.reply(NOW, &child, Value::null()).unwrap();
        }
        node.let_go(NOW, &child);
    }
    node.let_go(NOW, &root);
    let (mut replies, mut ended) = (0, false);
    for action in actions(&mut node) {
        match action {
            Action::Reply(of, Replied::Replies(values)) if of == call => replies += values.len(),
            Action::Reply(of, Replied::Over { missing, failure }) if of == call => {
                ended = missing.is_empty() && failure.is_none();
            }
            _ => {}
        }
    }
    assert!(ended, "{replies} replies, and no end");
}

#[test]
fn replies_that_wait_to_be_sent_count_and_wait_where_there_is_no_room() {
    let mut node = node(Policy::default());
    let call = ChainId { origin: NodeId(9), number: 1 };
    let right = Right::root(call, (*node_ref(9)).clone(), Window { replies: 64, bytes: 1 << 20 });
    let (service, function, right) = ("here".to_string(), "f".to_string(), Box::new(right));
    let held = right.key.clone();
    let (params, budget) = (Value::null(), Budget::new(10_000_000, 10));
    node.on_message(
        NOW,
        &node_ref(9),
        Message::Ask { id: 1, service, function, params, budget, credentials: None, right },
    );
    node.gather(&held, Gather { replies: 8, bytes: 1 << 20, wait_us: 1_000 });
    node.reply(NOW, &held, Value::null()).unwrap();
    let before = node.held_bytes();
    node.reply(NOW, &held, large()).unwrap();
    assert!(more(&node, before) >= BYTES);
    node.set_memory_left(BYTES / 2);
    assert!(matches!(node.reply(NOW, &held, large()), Err(NotSent::Full(_))), "there is no room");
    node.on_message(NOW, &node_ref(9), Message::Cancel(call));
    assert!(node.rights() == 0 && node.held_bytes() < before + BYTES);
}

#[test]
fn parameters_of_calls_that_wait_count_and_are_refused_where_there_is_no_room() {
    for service in ["there", "elsewhere"] {
        let mut node = node(Policy::default());
        let call = |node: &mut Node| node.call(NOW, service, "f", large(), Budget::new(60_000_000, 1), None);
        let before = node.held_bytes();
        let id = call(&mut node);
        assert!(more(&node, before) > BYTES, "{service}");
        actions(&mut node);
        node.set_memory_left(BYTES / 2);
        call(&mut node);
        let why = |action| if let Action::CallDone(_, Err(why)) = action { Some(why.name) } else { None };
        assert_eq!(actions(&mut node).into_iter().find_map(why).as_deref(), Some(names::OVERLOADED));
        node.withdraw(NOW, id);
        assert_eq!(more(&node, before), 0);
    }
}

/// They came while the function was busy with something else, and have been told as read.
#[test]
fn replies_that_were_read_are_not_lost_for_want_of_room() {
    let mut node = node(Policy::default());
    let credentials = Some(Value::encode(&"x".repeat(2 * BYTES)));
    let session = arrived(&mut node, Box::new(Hop { header: ChainHeader { credentials, ..header(9) }, ..*hop(1, 1) }));
    let asks = vec![GuestAsk { number: number(), call: call(0, "there") }];
    let turn = Turn { asks, calls: vec![call(1, "there")], ..Turn::default() };
    node.on_turn(NOW, session, Ok(turn), 1);
    let messages: Vec<_> = sent(&actions(&mut node)).into_iter().map(|(_, message, _)| message).collect();
    let right =
        messages.iter().find_map(|message| if let Message::Ask { right, .. } = message { Some(right) } else { None });
    let id = messages.iter().find_map(|message| if let Message::Call { id, .. } = message { Some(*id) } else { None });
    let (key, id) = (right.unwrap().key.clone(), id.unwrap());
    node.on_message(NOW, &node_ref(2), Message::Return(id, Outcome::Done(Value::null()), Brought::default()));
    assert!(matches!(actions(&mut node).last(), Some(Action::Settle { call: 1, .. })), "it runs from now on");
    node.set_memory_left(BYTES * 5 / 2);
    node.on_message(NOW, &node_ref(2), Message::Replies(Replies { key, first: 0, values: vec![large()] }));
    node.on_turn(NOW, session, Ok(Turn::default()), 1);
    let told = actions(&mut node);
    let batch = told.iter().find_map(|action| match action {
        Action::Settle { call: 0, result, .. } => Some(result),
        _ => None,
    });
    assert!(matches!(batch, Some(Ok(_))), "{told:?}");
}
