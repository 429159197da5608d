//! Memory of another process by each provider that needs no hardware. This program is both processes: the owner is itself with an argument.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    reason = "a test"
)]

mod owner;
mod patience;

use std::{sync::Arc, thread, time::Instant};

use catena_fabric::{Fabric, Terms};
use catena_segment::{Reached, RemoteError, RemoteMemory, Width};
use owner::{BYTES, Owner};
use patience::wait;

const PROVIDERS: [&str; 2] = ["tcp;ofi_rxm", "shm"];

type Check = fn(&'static str);

fn main() {
    if let Some(provider) = std::env::args().nth(1).filter(|first| first.starts_with("owner=")) {
        return owner::run(provider.trim_start_matches("owner="));
    }
    let before = owner::caught_signals();
    let checks: [(&str, Check); 8] = [
        ("reads, writes and swaps are right", right),
        ("swaps are atomic with the owner's and with others'", atomic),
        ("what was not allowed is not done, and hurts nobody else", refused),
        ("lies about key, place and address end in an error", lies),
        ("revoked under many reads and writes", revoked),
        ("a killed owner is an error that names it", killed),
        ("bounds of ports and accesses", bounded),
        ("nothing is done while nothing is under way", idle),
    ];
    // As with other tests: a part of a name, and switches that mean something to them.
    let only = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    for provider in PROVIDERS {
        for (what, check) in checks.into_iter().filter(|(what, _)| what.contains(&only)) {
            let began = Instant::now();
            check(provider);
            println!("{provider}: {what}: ok, {} ms", began.elapsed().as_millis());
        }
    }
    let why = Fabric::open("nonsense", None, Terms::default()).unwrap_err().to_string();
    assert!(why.contains("nonsense") && why.contains("by the link"), "{why}");
    assert_eq!(owner::caught_signals(), before, "libfabric changed how this process handles signals");
    owner::layout_is_that_of_the_headers();
    println!("a provider that is not there, signals, tables: ok");
}

fn open(provider: &str) -> Fabric {
    opened(provider, Terms { access_timeout_ms: 60_000, ..Terms::default() })
}

/// For accesses that must fail: shm of 1.17 says nothing about what it refuses, so that only time tells.
fn impatient(provider: &str) -> Fabric {
    opened(provider, Terms { access_timeout_ms: if provider == "shm" { 300 } else { 60_000 }, ..Terms::default() })
}

fn opened(provider: &str, terms: Terms) -> Fabric {
    let address = provider.starts_with("tcp").then_some("127.0.0.1");
    Fabric::open(provider, address, terms).expect("libfabric 1.17: tools/bootstrap.sh tests installs it")
}

fn reached(fabric: &Fabric, token: &[u8]) -> Arc<dyn Reached> {
    fabric.reach(token, BYTES).unwrap()
}

fn right(provider: &'static str) {
    let (fabric, mut owner) = (open(provider), Owner::start(provider));
    let far = reached(&fabric, &owner.offer("all"));
    owner.ask("fill 7");
    for (offset, count) in [(0_u64, 1_usize), (3, 5), (8, 8), (1, 8_191), (0, BYTES as usize), (BYTES - 3, 3)] {
        assert_eq!(wait(far.read(offset, count)).unwrap(), vec![7; count], "{count} at {offset}");
        let bytes: Vec<u8> = (0..count).map(|at| at as u8).collect();
        wait(far.write(offset, &bytes)).unwrap();
        let beside = (offset.saturating_sub(1), (count + 2).min((BYTES - offset.saturating_sub(1)) as usize));
        let all = wait(far.read(beside.0, beside.1)).unwrap();
        let from = (offset - beside.0) as usize;
        assert_eq!(&all[from..from + count], bytes);
        assert!(all[..from].iter().chain(&all[from + count..]).all(|byte| *byte == 7), "{count} at {offset}");
        owner.ask("fill 7");
    }
    owner.ask("fill 0");
    assert_eq!(wait(far.compare_and_swap(16, Width::Eight, 0, u64::MAX - 1).unwrap()), Ok(0));
    assert_eq!(wait(far.compare_and_swap(16, Width::Eight, 0, 5).unwrap()), Ok(u64::MAX - 1));
    assert_eq!(wait(far.compare_and_swap(28, Width::Four, 0, 9).unwrap()), Ok(0));
    assert_eq!(wait(far.compare_and_swap(28, Width::Four, 9, 11).unwrap()), Ok(9));
    assert_eq!(owner.ask("word 16"), (u64::MAX - 1).to_string());
    assert_eq!(owner.ask("word 24"), (11_u64 << 32).to_string());
    assert!(far.compare_and_swap(4, Width::Eight, 0, 1).is_none(), "words are aligned");
}

fn atomic(provider: &'static str) {
    const ROUNDS: u64 = 300;
    let (fabric, mut owner) = (open(provider), Owner::start(provider));
    owner.ask("fill 0");
    let far = [owner.offer("all"), owner.offer("all")].map(|token| reached(&fabric, &token));
    owner.say(&format!("race {ROUNDS}"));
    thread::scope(|scope| {
        for far in &far {
            scope.spawn(move || {
                let mut now = 0;
                for _ in 0..ROUNDS {
                    loop {
                        let was = wait(far.compare_and_swap(0, Width::Eight, now, now + 1).unwrap()).unwrap();
                        let done = was == now;
                        now = if done { now + 1 } else { was };
                        if done {
                            break;
                        }
                    }
                }
            });
        }
    });
    owner.answer();
    assert_eq!(owner.ask("word 0"), (3 * ROUNDS).to_string(), "a swap was lost");
}

fn refused(provider: &'static str) {
    let (fabric, impatient, mut owner) = (open(provider), impatient(provider), Owner::start(provider));
    owner.ask("fill 1");
    let other = reached(&fabric, &owner.offer("all"));
    for attempt in 0..2 {
        let token = owner.offer("read");
        assert_eq!(wait(reached(&fabric, &token).read(0, 8)).unwrap(), [1; 8]);
        let reader = reached(&impatient, &token);
        let why = match attempt {
            0 => wait(reader.write(8, &[9; 4_096])).unwrap_err(),
            _ => wait(reader.compare_and_swap(0, Width::Eight, 0x0101_0101_0101_0101, 0).unwrap()).unwrap_err(),
        };
        named(provider, &why);
        assert!(!reader.is_live());
        assert_eq!(wait(other.read(0, 8_192)).unwrap(), [1; 8_192], "what was refused was done");
    }
}

/// An error says by which provider, with which peer, what happened and what to do.
fn named(provider: &str, why: &RemoteError) {
    let text = why.to_string();
    println!("    {text}");
    assert!(
        text.contains(provider) && !why.peer.is_empty() && !why.why.is_empty() && text.contains("by the link"),
        "{text}"
    );
}

fn lies(provider: &'static str) {
    let (patient, fabric, mut owner) = (open(provider), impatient(provider), Owner::start(provider));
    owner.ask("fill 1");
    let other = reached(&patient, &owner.offer("all"));
    let token = owner.offer("all");
    let mut key = token.clone();
    key[9] ^= 0xff;
    named(provider, &wait(reached(&fabric, &key).write(0, &[9; 4_096])).unwrap_err());
    // The owner is said to have more than it has, and the place to lie elsewhere.
    let larger = fabric.reach(&owner.offer("all"), BYTES * 2).unwrap();
    named(provider, &wait(larger.write(BYTES - 8, &[9; 64])).unwrap_err());
    let mut place = owner.offer("all");
    place[4] ^= 0x80;
    named(provider, &wait(reached(&fabric, &place).write(0, &[9; 64])).unwrap_err());
    // Whatever it is, it is an error or a port that leads nowhere.
    let address = if provider == "shm" { b"../../etc/passwd\0".to_vec() } else { vec![2, 0, 0, 1, 127, 0, 0, 1] };
    assert!(fabric.reach(&[&token[..17], &address].concat(), BYTES).is_err());
    for cut in 0..token.len() {
        assert!(fabric.reach(&token[..cut], BYTES).is_err(), "a token of {cut} bytes");
    }
    assert_eq!(wait(other.read(0, BYTES as usize)).unwrap(), vec![1; BYTES as usize], "a lie was believed");
}

fn revoked(provider: &'static str) {
    let (patient, fabric) = (open(provider), opened(provider, Terms { access_timeout_ms: 2_000, ..Terms::default() }));
    let mut owner = Owner::start(provider);
    owner.ask("fill 1");
    let (reader, writer) = (reached(&fabric, &owner.offer("read")), reached(&fabric, &owner.offer("all")));
    let stays = reached(&patient, &owner.offer("all"));
    thread::scope(|scope| {
        let (begun, came) = std::sync::mpsc::sync_channel(8);
        for _ in 0..4 {
            let (reader, writer, begun) = (Arc::clone(&reader), Arc::clone(&writer), begun.clone());
            scope.spawn(move || {
                let mut told = Some(begun);
                loop {
                    let accesses: Vec<_> = (0..8).map(|at| reader.read(at * 4_096, 65_536)).collect();
                    let write = writer.write(4_096, &[2; 32_768]);
                    for access in accesses {
                        let Ok(bytes) = wait(access) else { continue };
                        assert!(!bytes.contains(&3), "read after it was revoked");
                    }
                    let _ = wait(write);
                    told.take().into_iter().for_each(|told| told.send(()).unwrap());
                    if !reader.is_live() && !writer.is_live() {
                        return;
                    }
                }
            });
        }
        for _ in 0..4 {
            came.recv().unwrap();
        }
        owner.ask("drop 0");
        owner.ask("drop 1");
        // From now on its bytes are its own.
        owner.ask("fill 3");
    });
    assert_eq!(owner.ask("same 3"), "true", "written after it was revoked");
    assert_eq!(wait(stays.read(0, 8)).unwrap(), [3; 8], "another partner's way was taken too");
    named(provider, &wait(reader.read(0, 8)).unwrap_err());
}

fn killed(provider: &'static str) {
    let (fabric, mut owner) =
        (opened(provider, Terms { access_timeout_ms: 2_000, ..Terms::default() }), Owner::start(provider));
    let far = reached(&fabric, &owner.offer("all"));
    wait(far.read(0, 8)).unwrap();
    let accesses: Vec<_> = (0..16).map(|_| far.read(0, BYTES as usize)).collect();
    owner.kill();
    // What was answered before is right; what was not is an error.
    let ended = accesses.into_iter().map(wait).filter(Result::is_err).count();
    println!("    {ended} of 16 reads ended in an error");
    let began = Instant::now();
    named(provider, &wait(far.read(0, 8)).unwrap_err());
    assert!(began.elapsed().as_secs() < 60, "it hung for {:?}", began.elapsed());
    assert!(!far.is_live());
}

fn bounded(provider: &'static str) {
    let address = provider.starts_with("tcp").then_some("127.0.0.1");
    let terms = Terms { ports_max: 2, access_bytes_max: 4_096, ..Terms::default() };
    let fabric = Fabric::open(provider, address, terms).unwrap();
    let mut owner = Owner::start(provider);
    let tokens = [(); 3].map(|()| owner.offer("all"));
    let (first, _second) = (reached(&fabric, &tokens[0]), reached(&fabric, &tokens[1]));
    let why = fabric.reach(&tokens[2], BYTES).unwrap_err().to_string();
    assert!(why.contains("ports_max"), "{why}");
    assert!(wait(first.read(0, 4_097)).is_err());
    assert!(wait(first.read(BYTES - 1, 2)).is_err());
    assert!(wait(first.read(u64::MAX, 2)).is_err());
    // Too many at one time: some are refused at once, and none is lost.
    let ended = (0..1_000).map(|_| first.read(0, 4_096)).collect::<Vec<_>>().into_iter().map(wait);
    let (done, refused): (Vec<_>, Vec<_>) = ended.partition(Result::is_ok);
    assert!(!done.is_empty() && done.len() + refused.len() == 1_000);
    assert!(first.is_live(), "a bound ended the way");
    drop(first);
    wait(reached(&fabric, &tokens[2]).read(0, 8)).unwrap();
}

fn idle(provider: &'static str) {
    let (fabric, mut owner) = (open(provider), Owner::start(provider));
    let far = reached(&fabric, &owner.offer("all"));
    wait(far.read(0, 8)).unwrap();
    let wakes = owner.wakes();
    thread::park_timeout(std::time::Duration::from_millis(200));
    let more = owner.wakes() - wakes;
    println!("    the owner's threads woke {more} times in 200 ms");
    // Without a descriptor it looks each millisecond; else about once a second.
    assert!(more <= if provider == "shm" { 400 } else { 20 }, "{more} times");
}
