//! Anybody on the network may speak: whatever is heard, a node remembers no more than it has room for, and what it says is short, seldom, and understood.
#![no_main]
#![allow(dead_code, reason = "of the crate's own modules a part is used; the crate itself brings sockets")]

#[path = "../../../directory/multicast/src/datagram.rs"]
mod datagram;
#[path = "../../../directory/multicast/src/machine.rs"]
mod machine;

use std::net::{IpAddr, Ipv4Addr};

use arbitrary::Arbitrary;
use datagram::{DATAGRAM_BYTES_MAX, Datagram, NAME_BYTES_MAX, Told};
use libfuzzer_sys::fuzz_target;
use machine::Machine;

#[derive(Arbitrary, Debug)]
enum Operation {
    Advance(u16),
    Bytes { from: u8, bytes: Vec<u8> },
    Asked { from: u8, services: Vec<u8>, delay_ms: u64 },
    Told { from: u8, node: u8, ttl_ms: u32, at: u8, services: Vec<u8> },
    Announce { run: u8, services: Vec<u8> },
    Ask(u8),
    Poll,
}

/// One service known of too many nodes would be a list without a bound.
const INSTANCES_MAX: usize = 16;
/// A second's worth of datagrams, and those that may come at once.
const DATAGRAMS_PER_S: u64 = 50;

fn sender(number: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, number % 3, number))
}

fn name(number: u8) -> String {
    format!("s{}", number % 8)
}

fn entries(services: &[u8], at: u8) -> Vec<(String, String)> {
    services.iter().map(|service| (name(*service), format!("10.0.{}.{at}:7400", at % 3))).collect()
}

fuzz_target!(|input: (bool, Vec<Operation>)| {
    let (any_address, operations) = input;
    let (mut machine, mut now, mut said) = (Machine::new(any_address), 0, 0);
    for operation in operations {
        match operation {
            Operation::Advance(ms) => now += u64::from(ms),
            Operation::Bytes { from, bytes } => {
                if let Some(datagram) = Datagram::decode(&bytes) {
                    assert_eq!(Datagram::decode(&datagram.encode()), Some(datagram));
                }
                machine.on_datagram(now, sender(from), &bytes, 0);
            }
            Operation::Asked { from, services, delay_ms } => {
                let ask = Datagram::Ask(services.iter().map(|service| name(*service)).collect()).encode();
                machine.on_datagram(now, sender(from), &ask, delay_ms);
            }
            Operation::Told { from, node, ttl_ms, at, services } => {
                let told = Told { node: name(node), run: u64::from(node), ttl_ms, entries: entries(&services, at) };
                for bytes in Datagram::telling(&told) {
                    let changed = machine.on_datagram(now, sender(from), &bytes, 0);
                    assert!(changed.iter().all(|service| service.len() <= NAME_BYTES_MAX));
                }
            }
            Operation::Announce { run, services } => machine.announce(now, "me", u64::from(run), entries(&services, 7)),
            Operation::Ask(service) => machine.ask(now, &name(service)),
            Operation::Poll => {
                for bytes in machine.poll(now) {
                    said += 1;
                    assert!(bytes.len() <= DATAGRAM_BYTES_MAX && Datagram::decode(&bytes).is_some());
                }
            }
        }
        assert!(said <= (now / 1_000 + 2) * DATAGRAMS_PER_S, "{said} datagrams in {now} ms");
        for service in 0..8 {
            let known = machine.known(now, &name(service));
            assert!(known.len() <= INSTANCES_MAX && known.iter().all(|one| one.at <= now && now < one.until));
        }
    }
    assert!(machine.next_timeout().is_none_or(|at| at <= now + 1_000), "nothing is told later than soon");
});
