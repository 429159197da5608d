//! One node and its partners, message by message.

use std::sync::Arc;

use catena_core::{
    Time,
    messages::{
        Carrier, Delivered, Load, MailboxError, MessagePolicy, Messages, Outcome, Terms, Until, can_be_carried,
        carrier, is_carried,
    },
};
use catena_wire::{At, Buffer, COMPLETIONS_MAX, Datagram, Lent, NodeId, NodeRef, SHORT_BYTES_MAX};

const ALICE: NodeId = NodeId(1);
const MALLORY: NodeId = NodeId(2);
const LINK: u64 = 10;
const NOW: Time = Time::from_us(5);

type Machine = Messages<&'static str, u32, u8>;

fn to(service: &str) -> Datagram {
    Datagram { to: service.into(), ..Datagram::default() }
}

fn terms(to: NodeId, bytes: u64) -> Terms {
    Terms { to, until: Until::Read, bytes, lasts_us: 1_000 }
}

fn node(id: NodeId) -> Arc<NodeRef> {
    Arc::new(NodeRef { id, name: String::new(), address: None, site: None })
}

fn is_queued(delivered: Delivered<&str, u32, u8>) -> bool {
    matches!(delivered, Delivered::Queued(7))
}

#[test]
fn a_mailbox_is_bounded_and_a_flood_leaves_room_for_others() {
    let policy = MessagePolicy {
        mailboxes_max: 2,
        mailbox_messages_max: 5,
        mailbox_messages_per_peer_max: 3,
        ..MessagePolicy::default()
    };
    let mut machine = Machine::new(policy);
    for (name, why) in [("", MailboxError::Name), ("a/b", MailboxError::Name)] {
        assert_eq!(machine.open(name, 7), Err(why));
    }
    assert_eq!(machine.open(&"x".repeat(257), 7), Err(MailboxError::Name));
    machine.open("a", 7).unwrap();
    assert_eq!(machine.open("a", 8), Err(MailboxError::Twice));
    machine.open("b", 8).unwrap();
    assert_eq!(machine.open("c", 9), Err(MailboxError::TooMany));
    for number in 0..100 {
        assert_eq!(is_queued(machine.deliver(&node(MALLORY), to("a"))), number < 3, "{number}");
    }
    assert!(is_queued(machine.deliver(&node(ALICE), to("a"))) && is_queued(machine.deliver(&node(ALICE), to("a"))));
    assert!(!is_queued(machine.deliver(&node(ALICE), to("a"))), "it is full");
    assert!(matches!(machine.deliver(&node(ALICE), to("nobody")), Delivered::Nobody(name) if name == "nobody"));
    let counts = machine.counts;
    assert_eq!((counts.received, counts.no_room, counts.nobody_here), (5, 98, 1), "what is dropped is counted");
    assert_eq!(machine.take("a").unwrap().0.id, MALLORY, "in the order in which they came");
    assert!(is_queued(machine.deliver(&node(MALLORY), to("a"))), "what was taken makes room");
    assert_eq!(machine.close("a").len(), 5);
    assert!(machine.take("a").is_none() && !machine.is_open("a"));
    assert_eq!(machine.load(), (0, 0, 0));
}

#[test]
fn bytes_count_too() {
    let mut machine = Machine::new(MessagePolicy { mailbox_bytes_max: 20_000, ..MessagePolicy::default() });
    machine.open("a", 7).unwrap();
    let long = Datagram { items: vec![vec![0; SHORT_BYTES_MAX].into()], ..to("a") };
    assert!(is_queued(machine.deliver(&node(ALICE), long.clone())));
    assert!(!is_queued(machine.deliver(&node(ALICE), long)));
    assert!(is_queued(machine.deliver(&node(ALICE), to("a"))));
}

#[test]
fn what_is_held_for_one_partner_is_his_part_and_ends_with_its_time() {
    let policy = MessagePolicy {
        held_per_peer_max: 2,
        held_bytes_max: 300,
        held_bytes_per_peer_max: 100,
        held_time_max_us: 500,
        ..MessagePolicy::default()
    };
    let mut machine = Machine::new(policy);
    assert_eq!(machine.hold(NOW, terms(MALLORY, 101), Some(1)), Err(("held_bytes_per_peer_max", Some(1))));
    let first = machine.hold(NOW, terms(MALLORY, 100), Some(1)).unwrap();
    assert_eq!(machine.hold(NOW, terms(MALLORY, 1), None), Err(("held_bytes_per_peer_max", None)));
    machine.hold(NOW, terms(MALLORY, 0), None).unwrap();
    assert_eq!(machine.hold(NOW, terms(MALLORY, 0), None), Err(("held_per_peer_max", None)));
    let his = machine.hold(NOW, terms(ALICE, 100), Some(2)).unwrap();
    assert_eq!(machine.hold(NOW, terms(NodeId(3), 101), None), Err(("held_bytes_max", None)));
    machine.hold(NOW, terms(NodeId(3), 100), None).unwrap();
    assert_eq!(machine.hold(NOW, terms(NodeId(4), 1), None), Err(("held_bytes_max", None)));
    assert_eq!(machine.attach(first, "buffers"), None);
    assert!(machine.on_taken(MALLORY, &[his, 999, u64::MAX]).is_empty(), "only its partner can say so");
    let ended = machine.on_taken(ALICE, &[his, his]);
    assert_eq!(ended.len(), 1, "once");
    assert_eq!((ended[0].waiter, ended[0].outcome), (Some(2), Outcome::Taken));
    assert!(machine.on_timeout(NOW.after(499)).is_empty());
    let late = machine.on_timeout(NOW.after(500));
    assert!(late.iter().all(|ended| ended.outcome == Outcome::Late) && late.len() == 3);
    assert!(late.iter().any(|ended| (ended.held, ended.waiter) == (Some("buffers"), Some(1))));
    assert_eq!(machine.load(), (0, 0, 0), "nothing is left, however few of them read");
    assert_eq!(machine.attach(first, "late"), Some("late"), "who comes after the end is told to let go himself");
}

/// Nodes of one address, which is whoever chooses their numbers.
fn crowd(machine: &mut Machine) -> impl Iterator<Item = NodeId> + use<> {
    let numbers = (100..150).map(NodeId);
    numbers.clone().for_each(|node| machine.on_linked(node, Some([192, 0, 2, 1].into())));
    numbers
}

#[test]
fn the_nodes_of_one_address_have_one_share_together_of_a_mailbox() {
    let policy =
        MessagePolicy { mailbox_messages_max: 10, mailbox_messages_per_peer_max: 3, ..MessagePolicy::default() };
    let mut machine = Machine::new(policy);
    machine.open("a", 7).unwrap();
    let crowd: Vec<_> = crowd(&mut machine).collect();
    let all_put =
        |machine: &mut Machine| crowd.iter().filter(|from| is_queued(machine.deliver(&node(**from), to("a")))).count();
    assert_eq!(all_put(&mut machine), 3);
    assert!(is_queued(machine.deliver(&node(ALICE), to("a"))));
    // The share stays with the address, even if a node's link to it is known no more.
    machine.on_linked(crowd[0], None);
    assert_eq!(machine.take("a").map(|(from, _)| from.id), Some(crowd[0]));
    machine.on_linked(crowd[0], Some([192, 0, 2, 1].into()));
    assert_eq!(all_put(&mut machine), 1, "one was taken");
}

#[test]
fn the_nodes_of_one_address_have_one_share_together_of_what_is_held() {
    for (policy, bytes) in [
        (MessagePolicy { held_per_peer_max: 3, ..MessagePolicy::default() }, 0),
        (MessagePolicy { held_bytes_per_peer_max: 300, ..MessagePolicy::default() }, 100),
    ] {
        let mut machine = Machine::new(policy);
        let crowd: Vec<_> = crowd(&mut machine).collect();
        let all_held = |machine: &mut Machine| {
            crowd.iter().filter_map(|to| machine.hold(NOW, terms(*to, bytes), None).ok()).collect::<Vec<_>>()
        };
        let held = all_held(&mut machine);
        assert_eq!(held.len(), 3);
        machine.hold(NOW, terms(ALICE, bytes), None).unwrap();
        machine.on_linked(crowd[0], None);
        assert_eq!(machine.on_taken(crowd[0], &held).len(), 1, "only its own");
        machine.on_linked(crowd[0], Some([192, 0, 2, 1].into()));
        assert_eq!(all_held(&mut machine).len(), 1, "one was taken");
    }
}

#[test]
fn an_answer_is_the_partners_and_comes_once() {
    let mut machine = Machine::new(MessagePolicy::default());
    let asking = Terms { until: Until::Answered(LINK), ..terms(ALICE, 10) };
    let number = machine.hold(NOW, asking, Some(1)).unwrap();
    let about = |number| Datagram { about: Some(number), ..to("a") };
    assert!(matches!(machine.deliver(&node(MALLORY), about(number)), Delivered::Dropped));
    assert!(machine.on_taken(ALICE, &[number]).is_empty(), "the return buffer stays until the answer is there");
    let Delivered::Answers(ended, _) = machine.deliver(&node(ALICE), about(number)) else { panic!() };
    assert_eq!((ended.waiter, ended.outcome), (Some(1), Outcome::Answered));
    assert!(matches!(machine.deliver(&node(ALICE), about(number)), Delivered::Dropped));
    assert_eq!(machine.counts.late, 2);
    let long = machine.hold(NOW, terms(ALICE, 10), None).unwrap();
    assert!(matches!(machine.deliver(&node(ALICE), about(long)), Delivered::Dropped), "it was no question");
    let number = machine.hold(NOW, asking, Some(2)).unwrap();
    assert!(machine.on_link_lost(LINK + 1).is_empty());
    assert_eq!(machine.on_link_lost(LINK)[0].outcome, Outcome::LinkLost);
    assert!(machine.let_go(number).is_none());
    assert_eq!(machine.load(), (0, 1, 10), "a long message outlives its link");
}

#[test]
fn completions_ride_along_or_go_when_they_are_many() {
    let mut machine = Machine::new(MessagePolicy::default());
    assert!(machine.owed(ALICE).is_empty());
    assert!(machine.owe(ALICE, 5).is_empty() && machine.owe(MALLORY, 6).is_empty());
    assert_eq!(machine.owed(ALICE), [5]);
    assert!(machine.owed(ALICE).is_empty(), "once");
    for number in 1..COMPLETIONS_MAX as u64 {
        assert!(machine.owe(ALICE, number).is_empty());
    }
    assert_eq!(machine.owe(ALICE, 0).len(), COMPLETIONS_MAX, "a message has room for no more");
}

#[test]
fn who_works_is_decided_by_load() {
    let policy = MessagePolicy { loaded_waiting_min: 4, loaded_unflushed_bytes_min: 1_000, ..MessagePolicy::default() };
    let short = SHORT_BYTES_MAX as u64;
    let load = |bytes, room, waiting, unflushed| Load { bytes, room, waiting, unflushed };
    for (load, expected) in [
        (load(0, None, 0, 0), Carrier::Short),
        (load(short, Some(1 << 20), 100, 1 << 40), Carrier::Short),
        (load(short + 1, None, 0, 0), Carrier::Long),
        (load(short + 1, Some(short), 0, 0), Carrier::Long),
        (load(short + 1, Some(short + 1), 3, 999), Carrier::Returned),
        (load(short + 1, Some(short + 1), 4, 0), Carrier::Long),
        (load(short + 1, Some(short + 1), 0, 1_000), Carrier::Long),
    ] {
        assert_eq!(carrier(load, &policy), expected, "{load:?}");
    }
}

#[test]
fn a_call_lies_in_lent_memory_where_it_is_long_and_its_receiver_near() {
    let policy = MessagePolicy { carried_bytes_min: 1_000, lent_bytes_per_peer_max: 8_000, ..MessagePolicy::default() };
    for (near, bytes, expected) in
        [(true, 999, false), (true, 1_000, true), (true, 2_000, true), (true, 2_001, false), (false, 1_500, false)]
    {
        assert_eq!(is_carried(near, bytes, &policy), expected, "{near} {bytes}");
    }
}

#[test]
fn what_is_said_of_such_a_call_is_not_believed() {
    let at = |offset, grant| At { number: 1, generation: 2, offset, grant };
    let lent = Lent { whole: 3, bytes: 1_000, word: 0, uses: 1 };
    let told = |offset, bytes| Buffer { at: at(offset, Some(5)), bytes, lent: Some(lent) };
    assert!(can_be_carried(&told(64, 936), 1_000) && can_be_carried(&told(0, 1), 1));
    for (what, wrong) in [
        ("past the end", told(64, 937)),
        ("begins there", told(1_000, 1)),
        ("from beyond all memory", told(u64::MAX, 2)),
        ("more than there can be", told(0, u64::MAX)),
        ("nothing at all", told(64, 0)),
        ("not lent", Buffer { lent: None, ..told(64, 100) }),
        ("by no grant", Buffer { at: at(64, None), ..told(64, 100) }),
    ] {
        assert!(!can_be_carried(&wrong, 1 << 30), "{what}");
    }
    assert!(!can_be_carried(&told(64, 100), 99), "longer than the receiver takes");
}

#[test]
fn a_call_beside_its_link_is_taken_or_goes_by_the_link_or_is_lost_with_it() {
    let mut machine = Machine::new(MessagePolicy::default());
    let beside = |link| Terms { until: Until::Taken(link), ..terms(ALICE, 10) };
    let carried = |machine: &mut Machine, link| machine.hold(NOW, beside(link), None).unwrap();
    let taken = carried(&mut machine, LINK);
    assert!(machine.on_taken(MALLORY, &[taken]).is_empty() && machine.on_not_mapped(MALLORY, LINK, taken).is_none());
    assert!(machine.on_not_mapped(ALICE, LINK + 1, taken).is_none(), "by another link");
    assert_eq!(machine.on_taken(ALICE, &[taken, taken]).len(), 1);
    assert!(machine.on_not_mapped(ALICE, LINK, taken).is_none(), "it was taken");
    assert_eq!(machine.counts.carried, 1);
    let long = machine.hold(NOW, terms(ALICE, 10), None).unwrap();
    assert!(machine.on_not_mapped(ALICE, LINK, long).is_none(), "a long message was not to go by a link");
    assert_eq!(machine.on_taken(ALICE, &[long]).len(), 1);
    assert_eq!(machine.counts.carried, 1, "nor is it a call");
    for times in 0..4 {
        assert!(machine.maps(LINK), "{times}");
        let number = carried(&mut machine, LINK);
        assert_eq!(machine.on_not_mapped(ALICE, LINK, number).unwrap().outcome, Outcome::NotMapped);
        assert!(machine.on_not_mapped(ALICE, LINK, number).is_none(), "once");
        assert!(machine.on_taken(ALICE, &[number]).is_empty());
    }
    assert!(!machine.maps(LINK) && machine.maps(LINK + 1), "who cannot map is asked no more, by that link");
    let number = carried(&mut machine, LINK);
    let lost = machine.on_link_lost(LINK);
    assert!(lost.len() == 1 && lost[0].outcome == Outcome::LinkLost);
    assert!(machine.on_taken(ALICE, &[number]).is_empty() && machine.maps(LINK), "a new link is another chance");
    assert_eq!((machine.load(), machine.counts.carried), ((0, 0, 0), 1));
}
