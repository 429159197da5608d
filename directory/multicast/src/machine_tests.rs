#![allow(clippy::unwrap_used, clippy::panic)]
use super::*;

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 7));

fn ip(last: u8) -> IpAddr {
    IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, last))
}

fn serving(run: u64, service: &str) -> Machine {
    let mut machine = Machine::new(false);
    machine.announce(0, &format!("n{run}"), run, vec![(service.to_owned(), format!("10.0.0.{run}:7400"))]);
    machine
}

fn told(run: u64, service: &str, address: &str, ttl_ms: u32) -> Vec<u8> {
    let entries = vec![(service.to_owned(), address.to_owned())];
    Datagram::Tell(Told { node: format!("n{run}"), run, ttl_ms, entries }).encode()
}

fn ask(service: &str) -> Vec<u8> {
    Datagram::Ask(vec![service.to_owned()]).encode()
}

#[test]
fn what_is_asked_for_is_told_and_then_known_without_asking() {
    let (mut owner, mut asker) = (serving(7, "files"), Machine::new(false));
    owner.poll(0);
    asker.ask(1_000, "files");
    let asked = asker.poll(1_000);
    assert_eq!(owner.on_datagram(1_001, ip(9), &asked[0], 5), [""; 0]);
    assert!(owner.poll(1_002).is_empty() && owner.next_timeout() == Some(1_006), "it waits for its turn");
    let told = owner.poll(1_006);
    assert_eq!(asker.on_datagram(1_007, ip(7), &told[0], 0), ["files"]);
    let known = asker.known(1_008, "files");
    assert_eq!((known[0].address.as_str(), known[0].run), ("10.0.0.7:7400", 7));
    assert!(asker.known(1_007 + u64::from(TTL_MS), "files").is_empty(), "for a while");
    owner.announce(2_000, "n7", 7, Vec::new());
    assert_eq!(asker.on_datagram(2_001, ip(7), &owner.poll(2_000)[0], 0), ["files"]);
    assert!(asker.known(2_002, "files").is_empty() && asker.senders.is_empty(), "it is taken back");
}

#[test]
fn a_storm_of_questions_is_answered_a_few_times() {
    let mut owner = serving(7, "files");
    let mut sent = owner.poll(0).len();
    for ms in 0..10_000 {
        for sender in 1..=3 {
            owner.on_datagram(ms, ip(sender), &ask("files"), ms % DELAY_MS_MAX);
        }
        sent += owner.poll(ms).len();
    }
    assert!((10..=21).contains(&sent), "{sent} answers to 30,000 questions in 10 s");
    assert!(owner.asked.len() <= 1);
}

#[test]
fn however_much_there_is_to_say_only_so_much_is_said() {
    let mut machine = Machine::new(false);
    let mut sent = 0;
    for ms in 0..10_000 {
        machine.ask(ms, &format!("service.{ms}"));
        sent += machine.poll(ms).len() as u64;
    }
    assert!((10 * DATAGRAMS_PER_S..=DATAGRAMS_AT_ONCE + 10 * DATAGRAMS_PER_S).contains(&sent), "{sent} in 10 s");
    assert!(machine.asked.len() <= ASKED_MAX && machine.dropped > 5_000);
}

#[test]
fn whoever_has_just_heard_the_question_does_not_ask_it_again() {
    let mut machine = Machine::new(false);
    machine.on_datagram(0, ip(3), &ask("files"), 0);
    machine.ask(ASK_EVERY_MS - 1, "files");
    assert!(machine.poll(ASK_EVERY_MS - 1).is_empty());
    machine.ask(ASK_EVERY_MS, "files");
    assert_eq!(machine.poll(ASK_EVERY_MS).len(), 1);
}

#[test]
fn a_liar_speaks_for_nobody_else_and_leaves_room() {
    let mut machine = Machine::new(false);
    machine.on_datagram(0, ip(7), &told(7, "files", "10.0.0.7:7400", 30_000), 0);
    // In another node's name: that it is elsewhere, and that it is gone.
    for (at, ttl) in [("10.0.0.66:1", 30_000), ("10.0.0.66:1", 0)] {
        assert_eq!(machine.on_datagram(1, ip(66), &told(7, "files", at, ttl), 0), [""; 0]);
        assert_eq!(machine.known(2, "files")[0].address, "10.0.0.7:7400");
    }
    // Addresses off the local network, and names that would have to be looked up.
    for far in ["192.0.2.1:80", "example.org:80", "8.8.8.8:53", "10.0.1.66:80", "nonsense"] {
        machine.on_datagram(2, ip(66), &told(66, "bank", far, 30_000), 0);
        assert!(machine.known(3, "bank").is_empty(), "{far}");
    }
    // A liar may announce as many services as it likes.
    for number in 0..10_000 {
        machine.on_datagram(3, ip(66), &told(66, &format!("s{number}"), "10.0.0.66:1", u32::MAX), 0);
    }
    assert_eq!(machine.senders[&ip(66)], SERVICES_PER_SENDER_MAX);
    assert_eq!(machine.on_datagram(4, HERE, &told(8, "mail", "10.0.0.7:7401", 30_000), 0), ["mail"]);
    // Its announcements expire, whatever lifetime they claim.
    assert!(machine.known(4 + u64::from(TTL_MS_MAX), "s1").is_empty());
    machine.on_datagram(5 + u64::from(TTL_MS_MAX), HERE, &told(8, "mail", "10.0.0.7:7401", 30_000), 0);
    assert_eq!(machine.senders.len(), 1, "what is old is forgotten");
}

#[test]
fn two_owners_of_one_service_are_both_known_the_first_first() {
    let mut machine = Machine::new(false);
    machine.on_datagram(0, ip(7), &told(7, "files", "10.0.0.7:7400", 30_000), 0);
    machine.on_datagram(1, ip(8), &told(8, "files", "10.0.0.8:7400", 30_000), 0);
    machine.on_datagram(2, ip(7), &told(7, "files", "10.0.0.7:7400", 30_000), 0);
    let runs: Vec<_> = machine.known(3, "files").iter().map(|one| one.run).collect();
    assert_eq!(runs, [7, 8]);
}

#[test]
fn addresses_elsewhere_are_believed_where_that_is_allowed() {
    let mut machine = Machine::new(true);
    assert_eq!(machine.on_datagram(0, ip(7), &told(7, "files", "files.example.org:7400", 30_000), 0), ["files"]);
}
