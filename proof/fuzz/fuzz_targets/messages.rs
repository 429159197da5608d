//! Messages of partners who say whatever they like: no mailbox takes more than it has room for, no partner is held more for than its part, and what is held for one ends
//! once, by him alone, in time.
#![no_main]

use std::{collections::BTreeMap, sync::Arc};

use arbitrary::Arbitrary;
use bytes::Bytes;
use catena_core::{
    Time,
    messages::{Carrier, Delivered, Ended, Load, MessagePolicy, Messages, Outcome, Terms, Until, can_be_carried},
};
use catena_wire::{Datagram, Encoded, Message, NodeId, NodeRef, SegmentMessage};
use libfuzzer_sys::fuzz_target;

/// Small numbers everywhere, so that what happens concerns something that exists.
#[derive(Arbitrary, Debug)]
enum Operation {
    Advance(u32),
    Open(u8),
    Close(u8),
    Take(u8),
    Bytes { from: u8, head: Vec<u8> },
    Deliver { from: u8, to: u8, about: Option<u8>, bytes: u16 },
    Hold { to: u8, link: Option<(bool, u8)>, bytes: u32, lasts_us: u64 },
    Taken { from: u8, numbers: Vec<u8> },
    NotMapped { from: u8, link: u8, number: u8 },
    LetGo(u8),
    LinkLost(u8),
    Owe { to: u8, number: u8 },
    Owed(u8),
    Answer { to: u8, bytes: u32, room: Option<u32> },
}

const POLICY: MessagePolicy = MessagePolicy {
    mailboxes_max: 3,
    mailbox_messages_max: 8,
    mailbox_messages_per_peer_max: 4,
    mailbox_bytes_max: 100_000,
    held_max: 12,
    held_per_peer_max: 6,
    held_bytes_max: 1 << 31,
    held_bytes_per_peer_max: 1 << 30,
    held_time_max_us: 1_000_000,
    piggybacked_bytes_max: 1 << 10,
    lent_bytes_per_peer_max: 1 << 20,
    lent_max: 2,
    lent_read_bytes_min: 1 << 10,
    carried_bytes_min: 1 << 10,
    lent_idle_max_us: 1_000_000,
    loaded_waiting_min: 4,
    loaded_unflushed_bytes_min: 1 << 20,
    return_time_max_us: 1_000,
};

/// Whoever waits is the number itself: nobody else is told.
type Machine = Messages<u64, u64, u8>;

#[derive(Default)]
struct World {
    now: u64,
    /// What is held: for whom, what ends it, how many bytes, and until when.
    held: BTreeMap<u64, (NodeId, Until, u64, u64)>,
    waiting: BTreeMap<u8, usize>,
}

impl World {
    fn end(&mut self, ended: Ended<u64, u64>, by: Option<NodeId>) {
        let number = ended.held.expect("it was attached");
        let (to, ends, _, until) = self.held.remove(&number).expect("what is held ends once");
        match ended.outcome {
            Outcome::Taken => assert!(by == Some(to) && !ends.is_question(), "by its partner alone"),
            Outcome::Answered => assert!(by == Some(to) && ends.is_question(), "by its partner alone"),
            Outcome::NotMapped => assert!(by == Some(to) && matches!(ends, Until::Taken(_)), "by its partner alone"),
            Outcome::Late => assert!(until <= self.now, "not before its time"),
            Outcome::LinkLost => assert!(ends != Until::Read),
            Outcome::LetGo => {}
        }
    }

    fn delivered(&mut self, from: NodeId, delivered: Delivered<u64, u64, u8>) {
        match delivered {
            Delivered::Queued(service) => *self.waiting.entry(service).or_default() += 1,
            Delivered::Answers(ended, _) => self.end(ended, Some(from)),
            Delivered::Nobody(_) | Delivered::Dropped => {}
        }
    }

    fn check(&self, machine: &Machine) {
        let (waiting, held, bytes) = machine.load();
        assert_eq!(waiting, self.waiting.values().sum::<usize>());
        assert!(self.waiting.values().all(|waiting| *waiting <= POLICY.mailbox_messages_max));
        assert_eq!((held, bytes), (self.held.len(), self.held.values().map(|held| held.2).sum()));
        for peer in 0..4 {
            let his = self.held.values().filter(|held| held.0 == node(peer).id);
            let (count, bytes) = his.fold((0, 0), |(count, bytes), held| (count + 1, bytes + held.2));
            assert!(count <= POLICY.held_per_peer_max && bytes <= POLICY.held_bytes_per_peer_max);
        }
    }
}

fn node(number: u8) -> Arc<NodeRef> {
    let id = NodeId(u64::from(number % 4));
    Arc::new(NodeRef { id, name: String::new(), address: None, site: None })
}

fn service(number: u8) -> String {
    format!("s{}", number % 4)
}

fuzz_target!(|operations: Vec<Operation>| {
    let (mut machine, mut world) = (Machine::new(POLICY), World::default());
    for operation in operations {
        match operation {
            Operation::Advance(us) => {
                world.now += u64::from(us);
                for ended in machine.on_timeout(Time::from_us(world.now)) {
                    world.end(ended, None);
                }
                assert!(world.held.values().all(|held| held.3 > world.now), "nothing is held for longer than its time");
            }
            Operation::Open(name) => drop(machine.open(&service(name), name % 4)),
            Operation::Close(name) => {
                let left = machine.close(&service(name)).len();
                assert_eq!(left, world.waiting.remove(&(name % 4)).unwrap_or(0));
            }
            Operation::Take(name) => {
                let waiting = world.waiting.entry(name % 4).or_default();
                assert_eq!(machine.take(&service(name)).is_some(), *waiting > 0);
                *waiting = waiting.saturating_sub(1);
            }
            Operation::Bytes { from, head } => {
                let encoded = Encoded { head: head.into(), tail: Bytes::new() };
                match Message::decode(encoded) {
                    Ok(Message::Segment(SegmentMessage::Short(datagram))) => {
                        let delivered = machine.deliver(&node(from), *datagram);
                        world.delivered(node(from).id, delivered);
                    }
                    Ok(Message::Segment(SegmentMessage::Carried(_, buffer))) => {
                        let inside = buffer.at.offset.checked_add(buffer.bytes);
                        if can_be_carried(&buffer, 1 << 20) {
                            let lent = buffer.lent.expect("it has to be lent");
                            assert!(buffer.bytes <= 1 << 20 && inside.is_some_and(|end| end <= lent.bytes));
                        }
                    }
                    Ok(Message::Segment(SegmentMessage::Taken(numbers))) => {
                        for ended in machine.on_taken(node(from).id, &numbers) {
                            world.end(ended, Some(node(from).id));
                        }
                    }
                    _ => {}
                }
            }
            Operation::Deliver { from, to, about, bytes } => {
                let items = vec![Bytes::from(vec![0; usize::from(bytes)])];
                let datagram = Datagram { to: service(to), about: about.map(u64::from), items, ..Datagram::default() };
                let delivered = machine.deliver(&node(from), datagram);
                world.delivered(node(from).id, delivered);
            }
            Operation::Hold { to, link, bytes, lasts_us } => {
                let until = match link {
                    None => Until::Read,
                    Some((true, link)) => Until::Answered(u64::from(link % 4)),
                    Some((false, link)) => Until::Taken(u64::from(link % 4)),
                };
                let terms = Terms { to: node(to).id, until, bytes: bytes.into(), lasts_us };
                if let Ok(number) = machine.hold(Time::from_us(world.now), terms, None) {
                    assert_eq!(machine.attach(number, number), None);
                    let until = world.now + lasts_us.min(POLICY.held_time_max_us);
                    world.held.insert(number, (terms.to, terms.until, terms.bytes, until));
                }
            }
            Operation::Taken { from, numbers } => {
                let numbers: Vec<_> = numbers.into_iter().map(u64::from).collect();
                for ended in machine.on_taken(node(from).id, &numbers) {
                    world.end(ended, Some(node(from).id));
                }
            }
            Operation::NotMapped { from, link, number } => {
                if let Some(ended) = machine.on_not_mapped(node(from).id, u64::from(link % 4), number.into()) {
                    world.end(ended, Some(node(from).id));
                }
            }
            Operation::LetGo(number) => {
                if let Some(ended) = machine.let_go(number.into()) {
                    world.end(ended, None);
                }
            }
            Operation::LinkLost(link) => {
                let link = u64::from(link % 4);
                for ended in machine.on_link_lost(link) {
                    assert_eq!(ended.outcome, Outcome::LinkLost);
                    world.end(ended, None);
                }
                let by_it = [Until::Answered(link), Until::Taken(link)];
                assert!(world.held.values().all(|held| !by_it.contains(&held.1)), "whoever waits by it is told");
            }
            Operation::Owe { to, number } => drop(machine.owe(node(to).id, number.into())),
            Operation::Owed(to) => {
                machine.owed(node(to).id);
                assert!(machine.owed(node(to).id).is_empty(), "told once");
            }
            Operation::Answer { to, bytes, room } => {
                let load = Load { bytes: bytes.into(), room: room.map(u64::from), ..Load::default() };
                let by = machine.answer_by(&service(to), load);
                let fits = room.is_some_and(|room| room >= bytes);
                assert!(by != Carrier::Returned || fits, "an answer goes only where there is room for it");
            }
        }
        world.check(&machine);
    }
});
