//! A chain that is recorded: what its guests are told is told at home at once, goes along, and comes home with the end.

use catena_core::Replied;
use catena_wire::{RECORDING_BYTES_MAX, Recording, Told, What};

use super::*;

fn recorded(node: &mut Node) -> (ChainId, SessionId, Vec<Action>) {
    let plan = Plan { record: true, ..Plan::new(Budget::new(60_000_000, 100)) };
    let chain = node.run(NOW, number(), CODE, Value::null(), plan).unwrap();
    let actions = actions(node);
    let Some(Action::Begin { session, .. }) = actions.first() else { panic!("a chain begins") };
    (chain, *session, actions)
}

fn told(actions: &[Action]) -> Vec<&What> {
    let told = actions.iter().filter_map(|action| match action {
        Action::Reply(_, Replied::Told(Told { what, .. })) => Some(what),
        _ => None,
    });
    told.collect()
}

#[test]
fn what_a_guest_is_told_goes_along_and_comes_home() {
    let mut node = node(Policy::default());
    let (chain, session, begun) = recorded(&mut node);
    assert!(matches!(told(&begun)[..], [What::Begun { code: CODE, .. }]), "{begun:?}");
    node.on_turn(NOW, session, calling(vec![call(0, "there")]), 1);
    node.on_suspended(NOW, session, Ok((Bytes::from_static(b"state"), None)), 1);
    let went = actions(&mut node);
    assert!(matches!(told(&went)[..], [What::Turned(asked)] if asked[0].service == "there"), "{went:?}");
    let Some((_, Message::Hop(hop), _)) = sent(&went).pop() else { panic!("it moves") };
    let carried = hop.recording.clone().unwrap();
    assert_eq!(carried.0.len(), 2);

    // There it is told the outcome of its call, and ends.
    let mut there = Node::new((*node_ref(2)).clone(), Policy::default(), 0);
    there.serve("there", ["f"], Kinds::default());
    there.on_message(NOW, &node_ref(1), Message::Hop(hop));
    let arrived = actions(&mut there);
    let ticket = arrived.iter().find_map(|action| match action {
        Action::RunService { ticket, .. } => Some(*ticket),
        _ => None,
    });
    there.on_service_done(NOW, ticket.unwrap(), value(), 1);
    let resumed = actions(&mut there);
    let session = resumed.iter().find_map(|action| match action {
        Action::Resume { session, .. } => Some(*session),
        _ => None,
    });
    there.on_turn(NOW, session.unwrap(), Ok(Turn { end: Some(Ok(Value::null())), ..Turn::default() }), 1);
    let ended = actions(&mut there);
    assert!(told(&ended).is_empty() && told(&resumed).is_empty(), "the origin is elsewhere");
    let Some((_, Message::End(end), _)) = sent(&ended).pop() else { panic!("it ends") };
    node.on_message(NOW, &node_ref(2), Message::End(end));
    let home = actions(&mut node);
    let Some(Action::Reply(of, Replied::End { recording: Some(Recording(all)), .. })) = home.first() else {
        panic!("{home:?}")
    };
    let what: Vec<_> = all.iter().map(|told| (told.step, &told.what)).collect();
    assert!(*of == chain && all[..2] == carried.0[..], "{what:?}");
    assert!(
        matches!(what[2..], [(1, What::Settled(0, _)), (1, What::Turned(asked)), (1, What::Ended)] if asked.is_empty()),
        "{what:?}"
    );
}

#[test]
fn what_does_not_fit_is_left_out_once_and_for_all() {
    let mut node = node(Policy::default());
    let (_, session, _) = recorded(&mut node);
    let long = Value::encode(&"x".repeat(RECORDING_BYTES_MAX / 2));
    for number in 0..3 {
        let asked = GuestCall { params: long.clone(), ..call(number, "here") };
        node.on_turn(NOW, session, calling(vec![asked]), 1);
        let ticket = actions(&mut node).iter().find_map(|action| match action {
            Action::RunService { ticket, .. } => Some(*ticket),
            _ => None,
        });
        node.on_service_done(NOW, ticket.unwrap(), value(), 1);
        assert!(actions(&mut node).iter().any(|action| matches!(action, Action::Settle { .. })), "the chain goes on");
    }
    node.on_turn(NOW, session, Ok(Turn { end: Some(Ok(Value::null())), ..Turn::default() }), 1);
    let ended = actions(&mut node);
    let recording = ended.iter().find_map(|action| match action {
        Action::Reply(_, Replied::End { recording, .. }) => recording.clone(),
        _ => None,
    });
    let Recording(all) = recording.unwrap();
    assert!(matches!(all.last().map(|told| &told.what), Some(What::Full)), "{}", all.len());
    assert_eq!(all.iter().filter(|told| told.what == What::Full).count(), 1);
    let bytes: usize = all.iter().map(Told::payload_bytes).sum();
    assert!(bytes <= RECORDING_BYTES_MAX && all.len() == 4, "{bytes} bytes in {} events", all.len());
}
