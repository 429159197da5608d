//! Memory against a plain vector, shared and not; and what a hostile neighbour can do to it.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, Barrier},
};

use catena_segment::{Attached, Bell, Handles, Memory, MemoryError, Mode, Shared, Width};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Write(u64, Vec<u8>),
    Swap(u64, Width, u64),
}

fn step() -> impl Strategy<Value = Step> {
    let offset = || prop_oneof![0_u64..80, any::<u64>()];
    prop_oneof![
        (offset(), proptest::collection::vec(any::<u8>(), 0..80)).prop_map(|(at, bytes)| Step::Write(at, bytes)),
        (offset(), prop_oneof![Just(Width::Four), Just(Width::Eight)], any::<u64>())
            .prop_map(|(at, width, new)| Step::Swap(at, width, new)),
    ]
}

fn all(memory: &Memory) -> Vec<u8> {
    let mut out = vec![0; memory.bytes() as usize];
    memory.read(0, &mut out).unwrap();
    out
}

fn follow(memory: &Memory, model: &mut [u8], step: &Step) {
    match step {
        Step::Write(at, bytes) => {
            let range = usize::try_from(*at).ok().and_then(|at| model.get_mut(at..at.checked_add(bytes.len())?));
            match range {
                Some(range) => {
                    range.copy_from_slice(bytes);
                    memory.write(*at, bytes).unwrap();
                }
                None => assert!(matches!(memory.write(*at, bytes), Err(MemoryError::OutOfBounds { .. }))),
            }
        }
        Step::Swap(at, width, new) => {
            let bytes = width.bytes() as usize;
            let range = usize::try_from(*at).ok().and_then(|at| model.get_mut(at..at.checked_add(bytes)?));
            match range {
                _ if at % width.bytes() != 0 => {
                    assert!(matches!(memory.compare_and_swap(*at, *width, 0, 0), Err(MemoryError::Unaligned { .. })));
                }
                Some(range) => {
                    let old = memory.compare_and_swap(*at, *width, 1, *new).unwrap();
                    let was = range.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
                    let was = if cfg!(target_endian = "big") { was.swap_bytes() >> (64 - 8 * bytes) } else { was };
                    assert_eq!(old, was);
                    assert_eq!(memory.compare_and_swap(*at, *width, old, *new).unwrap(), old);
                    match width {
                        Width::Eight => range.copy_from_slice(&new.to_ne_bytes()),
                        Width::Four => range.copy_from_slice(&(*new as u32).to_ne_bytes()),
                    }
                }
                None => {
                    assert!(matches!(memory.compare_and_swap(*at, *width, 0, 0), Err(MemoryError::OutOfBounds { .. })));
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn memory_is_what_was_written_and_nothing_beside_it(bytes in 0_u64..80, steps in proptest::collection::vec(step(), 0..20)) {
        let own = Memory::own(bytes).unwrap();
        let mut model = vec![0; bytes as usize];
        steps.iter().for_each(|step| follow(&own, &mut model, step));
        prop_assert_eq!(&all(&own), &model);
        let (shared, memory) = Shared::of(&own, Mode::Writable, false).unwrap();
        let near = Attached::to(&shared.handles(true).unwrap(), bytes, true).unwrap();
        steps.iter().for_each(|step| follow(near.memory(), &mut model, step));
        prop_assert_eq!(&all(&memory), &model, "the owner sees what was written through the other mapping");
        for (at, len) in [(0, bytes), (1, bytes.saturating_sub(1)), (bytes / 2, bytes - bytes / 2)] {
            let mut part = vec![0; len as usize];
            if near.memory().read(at, &mut part).is_ok() {
                prop_assert_eq!(&part, &model[at as usize..(at + len) as usize]);
            }
        }
    }
}

#[test]
fn a_reader_cannot_map_what_it_is_given_for_writing() {
    let own = Memory::own(100).unwrap();
    for mode in [Mode::ReadOnly, Mode::Writable] {
        let (shared, _memory) = Shared::of(&own, mode, false).unwrap();
        let handles = shared.handles(false).unwrap();
        assert!(Attached::to(&handles, 100, true).is_err(), "{mode:?}");
        let near = Attached::to(&handles, 100, false).unwrap();
        assert!(matches!(near.memory().write(0, &[1]), Err(MemoryError::ReadOnly)));
        assert!(matches!(near.memory().compare_and_swap(0, Width::Eight, 0, 1), Err(MemoryError::ReadOnly)));
    }
    let (shared, _memory) = Shared::of(&own, Mode::ReadOnly, false).unwrap();
    let asked_for_more = shared.handles(true).unwrap();
    assert!(Attached::to(&asked_for_more, 100, true).is_err(), "what is sealed is nobody's to write");
    let state = Handles { pages: asked_for_more.state, state: shared.handles(false).unwrap().state };
    assert!(Attached::to(&state, 16, true).is_err(), "nor is the state of writable pages");
}

#[test]
fn what_could_shrink_under_a_reader_is_not_mapped() {
    let (shared, _memory) = Shared::of(&Memory::own(4096).unwrap(), Mode::Writable, false).unwrap();
    let state = || shared.handles(false).unwrap().state;
    let file = |bytes: u64| -> OwnedFd {
        let file = tempfile();
        file.set_len(bytes).unwrap();
        file.into()
    };
    assert!(matches!(
        Attached::to(&Handles { pages: file(4096), state: state() }, 4096, false),
        Err(MemoryError::Foreign(_))
    ));
    let short = shared.handles(false).unwrap();
    assert!(matches!(Attached::to(&short, 4097, false), Err(MemoryError::Foreign(_))));
    assert!(matches!(Attached::to(&short, u64::MAX, false), Err(MemoryError::Foreign(_))));
    let handles = shared.handles(true).unwrap();
    let pages = std::fs::File::from(handles.pages);
    assert!(pages.set_len(0).is_err() && pages.set_len(1 << 20).is_err(), "the size is sealed");
}

fn tempfile() -> std::fs::File {
    let path = std::env::temp_dir().join(format!("catena-segment-{}", std::process::id()));
    let file = std::fs::File::options().create(true).read(true).write(true).truncate(true).open(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    file
}

#[test]
fn who_keeps_old_pages_changes_nothing() {
    let own = Memory::own(64).unwrap();
    let (shared, memory) = Shared::of(&own, Mode::Writable, false).unwrap();
    shared.set_flags(5);
    let near = Attached::to(&shared.handles(true).unwrap(), 64, true).unwrap();
    near.memory().write(3, b"before").unwrap();
    assert!(near.is_live() && near.flags() == 5);
    shared.retire();
    let fresh = memory.fresh(false).unwrap();
    near.memory().write(3, b"after!").unwrap();
    assert!(!near.is_live());
    assert_eq!(&all(&fresh)[3..9], b"before");
}

/// Whoever writes and then finds the pages alive has written in time to be copied, although it needs no barrier of its own for it.
#[test]
fn what_was_found_alive_after_it_was_written_is_copied() {
    const ROUNDS: u64 = 5_000;
    for _ in 0..ROUNDS {
        let (shared, memory) = Shared::zeros(8, Mode::Writable, false).unwrap();
        let near = Attached::to(&shared.handles(true).unwrap(), 8, true).unwrap();
        let start = Barrier::new(2);
        let (copied, confirmed) = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                start.wait();
                let confirmed = |number: &u64| {
                    near.memory().write(0, &number.to_ne_bytes()).unwrap();
                    near.is_live()
                };
                (1_u64..).take_while(confirmed).last().unwrap_or(0)
            });
            start.wait();
            // Not before something was written, or most rounds would show nothing.
            while all(&memory) == [0; 8] {
                std::hint::spin_loop();
            }
            shared.retire();
            (all(&memory.fresh(false).unwrap()), writer.join().unwrap())
        });
        let copied = u64::from_ne_bytes(copied.try_into().unwrap());
        assert!(copied >= confirmed, "{confirmed} was confirmed, and {copied} copied");
    }
}

#[test]
fn bytes_that_never_change_are_read_as_they_are() {
    let bytes: Vec<u8> = (0..100).collect();
    let frozen = Memory::frozen(bytes.clone().into());
    assert_eq!((frozen.bytes(), all(&frozen)), (100, bytes.clone()));
    let part = frozen.part(7, 13).unwrap();
    assert_eq!((&part[..], frozen.part(7, 13).unwrap().as_ptr()), (&bytes[7..20], part.as_ptr()), "not a copy");
    assert!(frozen.part(90, 11).is_none() && frozen.part(u64::MAX, 2).is_none() && frozen.place().is_none());
    assert!(matches!(frozen.write(0, b"no"), Err(MemoryError::ReadOnly)));
    assert!(matches!(frozen.compare_and_swap(0, Width::Eight, 0, 1), Err(MemoryError::ReadOnly)));
    assert_eq!(all(&frozen.fresh(false).unwrap()), bytes);
    let (_, shared) = Shared::of(&frozen, Mode::ReadOnly, false).unwrap();
    assert_eq!(all(&shared), bytes);
}

#[test]
fn pages_go_back_to_the_system_whoever_still_maps_them() {
    const BYTES: u64 = 1 << 20;
    let (shared, memory) = Shared::zeros(BYTES, Mode::Writable, false).unwrap();
    memory.write(0, &vec![7; BYTES as usize]).unwrap();
    let handles = shared.handles(false).unwrap();
    let held = || taken(&handles.pages);
    let kept = Attached::to(&handles, BYTES, false).unwrap();
    assert!(held() >= BYTES, "they are there");
    shared.retire();
    shared.discard();
    assert_eq!(held(), 0, "a partner that keeps its mapping keeps no page");
    let mut out = [1; 64];
    kept.memory().read(BYTES - 64, &mut out).unwrap();
    assert_eq!((out, kept.was_live()), ([0; 64], false), "nor does it see, or fault");
    // What is sealed against writing goes with its last mapping.
    let (sealed, memory) = Shared::zeros(4_096, Mode::ReadOnly, false).unwrap();
    memory.write(0, b"sealed").unwrap();
    sealed.discard();
    memory.read(0, &mut out[..6]).unwrap();
    assert_eq!(&out[..6], b"sealed");
}

/// Bytes that a file takes.
fn taken(file: &OwnedFd) -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::File::from(file.try_clone().unwrap()).metadata().unwrap().blocks() * 512
}

#[test]
fn a_word_is_never_torn_and_neighbours_do_not_clobber_each_other() {
    let (shared, owner) = Shared::of(&Memory::own(64).unwrap(), Mode::Writable, false).unwrap();
    let near = Attached::to(&shared.handles(true).unwrap(), 64, true).unwrap();
    let (owner, near) = (Arc::new(owner), Arc::new(near));
    let start = Arc::new(Barrier::new(5));
    let rounds = 20_000_u32;
    std::thread::scope(|scope| {
        let begin = || start.wait();
        let bytes = &near;
        // Bytes 1 to 2 and byte 3 of one word, by two writers; a counter in its upper half, by two swappers.
        scope.spawn(move || {
            begin();
            (0..rounds).for_each(|round| bytes.memory().write(1, &[round as u8; 2]).unwrap());
        });
        for memory in [&*owner, near.memory()] {
            scope.spawn(move || {
                begin();
                for _ in 0..rounds {
                    let mut now = [0; 4];
                    memory.read(4, &mut now).unwrap();
                    let mut now = u32::from_ne_bytes(now);
                    while let other @ 0.. =
                        memory.compare_and_swap(4, Width::Four, now.into(), (now + 1).into()).unwrap() as u32
                        && other != now
                    {
                        now = other;
                    }
                }
            });
        }
        // Whole words: each is one value or another, never both.
        let words = &owner;
        scope.spawn(move || {
            begin();
            (0..rounds).for_each(|round| words.write(8, &[round as u8; 24]).unwrap());
        });
        scope.spawn(move || {
            begin();
            for _ in 0..rounds {
                let mut seen = [0; 24];
                bytes.memory().read(8, &mut seen).unwrap();
                assert!(seen.chunks(8).all(|word| word.iter().all(|byte| *byte == word[0])), "{seen:?}");
            }
        });
    });
    let mut word = [0; 8];
    owner.read(0, &mut word).unwrap();
    assert_eq!(word[1..3], [(rounds - 1) as u8; 2]);
    assert_eq!(u32::from_ne_bytes([word[4], word[5], word[6], word[7]]), 2 * rounds);
}

/// Long blocks are copied by another instruction, which tears no word either.
#[test]
fn a_word_of_a_long_block_is_never_torn() {
    const BYTES: usize = 64 << 10;
    const ROUNDS: u32 = 2_000;
    let (shared, owner) = Shared::of(&Memory::own(BYTES as u64).unwrap(), Mode::Writable, false).unwrap();
    let near = Attached::to(&shared.handles(true).unwrap(), BYTES as u64, true).unwrap();
    let start = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            start.wait();
            let mut block = vec![0; BYTES];
            for round in 0..ROUNDS {
                block.fill(round as u8);
                owner.write(0, &block).unwrap();
            }
        });
        let mut seen = vec![0; BYTES];
        start.wait();
        for _ in 0..ROUNDS {
            near.memory().read(0, &mut seen).unwrap();
            assert!(seen.chunks(8).all(|word| word.iter().all(|byte| *byte == word[0])));
        }
    });
}

#[test]
fn long_blocks_are_copied_whole_from_and_to_any_place() {
    const BYTES: usize = 16 << 10;
    let bytes: Vec<u8> = (0..BYTES + 8).map(|at| (at * 7 + at / 251) as u8).collect();
    for (at, from) in (0..9_usize).flat_map(|at| (0..9).map(move |from| (at, from))) {
        for count in [2_047, 2_048, 2_049, 4_096, 10_003, BYTES - 9] {
            let memory = Memory::own(BYTES as u64).unwrap();
            memory.write(at as u64, &bytes[from..from + count]).unwrap();
            let mut model = vec![0; BYTES];
            model[at..at + count].copy_from_slice(&bytes[from..from + count]);
            assert!(all(&memory) == model, "{count} bytes of {from} on to {at}");
            let mut out = vec![0; count + from];
            memory.read(at as u64, &mut out[from..]).unwrap();
            assert!(out[from..] == model[at..at + count], "{count} bytes of {at} to {from} on");
        }
    }
}

#[test]
fn rings_add_up_until_they_are_taken() {
    let bell = Bell::new().unwrap();
    assert_eq!(bell.take(), None);
    bell.ring();
    Bell::of(bell.as_fd().try_clone_to_owned().unwrap()).ring();
    assert_eq!(bell.take(), Some(2));
    assert_eq!(bell.take(), None);
}
