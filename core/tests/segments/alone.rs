//! One owner and whoever asks it, message by message: what a peer may send in any order, with any numbers.

use bytes::Bytes;
use catena_core::{
    Time,
    segments::{Answer, Export, ExportError, Grant, SegmentId, SegmentPolicy, Segments, Todo},
};
use catena_wire::{At, Buffer, NodeId, Order, Rights, SegmentMessage as M, SegmentRefusal as R};

const ALICE: NodeId = NodeId(1);
const MALLORY: NodeId = NodeId(2);
const LINK: u64 = 10;

type Machine = Segments<u32, u32>;

fn machine(policy: SegmentPolicy) -> Machine {
    Segments::new(&policy, 1_000)
}

fn at(id: SegmentId, offset: u64) -> At {
    At { number: id.number, generation: id.generation, offset, grant: None }
}

fn read(at: At, count: u32) -> M {
    M::Read { id: 7, at, count, notify: false, order: Order::Bytes, after: 0, maps: false }
}

fn write(turn: u64, at: At, bytes: usize) -> M {
    M::Write { turn, at, notify: false, order: Order::Bytes, data: vec![0; bytes].into() }
}

/// What became of a request: the memory that it reached, or why not.
fn outcome(todo: Todo<u32>) -> Result<Option<u32>, R> {
    match todo {
        Todo::Do(_, memory) => Ok(Some(memory)),
        Todo::Answer(M::Refused(_, why) | M::NotWritten(_, why)) => Err(why),
        Todo::Answer(_) | Todo::Nothing => Ok(None),
    }
}

fn ask(machine: &mut Machine, from: NodeId, message: M) -> Result<Option<u32>, R> {
    outcome(machine.owner.on_request(Time::from_us(5), LINK + from.0, from, message))
}

const EVERYBODY: Export = Export {
    anyone: Rights::ALL,
    on_read: catena_core::segments::Notify::IfAsked,
    on_write: catena_core::segments::Notify::IfAsked,
};

#[test]
fn generations_tell_old_new_and_forged_apart() {
    let mut machine = machine(SegmentPolicy::default());
    let first = machine.owner.exports.export("a", 8, EVERYBODY, 1).unwrap();
    assert!(first.generation > 1_000, "above those of any run before");
    assert_eq!(ask(&mut machine, ALICE, read(at(first, 0), 8)), Ok(Some(1)));
    assert_eq!(machine.owner.revoke(first), Some(1));
    assert_eq!(machine.owner.revoke(first), None);
    assert_eq!(ask(&mut machine, ALICE, read(at(first, 0), 8)), Err(R::Revoked));
    let second = machine.owner.exports.export("b", 8, EVERYBODY, 2).unwrap();
    assert_eq!(second.number, first.number, "the number is used again");
    for (generation, why) in [
        (first.generation, R::Stale),
        (0, R::Stale),
        (second.generation + 1, R::NeverExported),
        (u64::MAX, R::NeverExported),
    ] {
        let forged = SegmentId { generation, ..second };
        assert_eq!(ask(&mut machine, ALICE, read(at(forged, 0), 8)), Err(why), "{generation}");
    }
    let nobody = SegmentId { number: u32::MAX, ..second };
    assert_eq!(ask(&mut machine, ALICE, read(at(nobody, 0), 0)), Err(R::NeverExported));
}

#[test]
fn counts_offsets_and_words_are_checked_before_anything_is_touched() {
    let mut machine = machine(SegmentPolicy { request_bytes_max: 50, ..SegmentPolicy::default() });
    let id = machine.owner.exports.export("a", 64, EVERYBODY, 1).unwrap();
    for (offset, count, expected) in [
        (0, 0, Ok(Some(1))),
        (64, 0, Ok(Some(1))),
        (65, 0, Err(R::OutOfBounds(64))),
        (u64::MAX, 1, Err(R::OutOfBounds(64))),
        (60, 5, Err(R::OutOfBounds(64))),
        (0, 51, Err(R::TooLarge(50))),
        (0, u32::MAX, Err(R::TooLarge(50))),
    ] {
        assert_eq!(ask(&mut machine, ALICE, read(at(id, offset), count)), expected, "{offset} {count}");
    }
    let cas = |offset, width| M::Cas { id: 1, at: at(id, offset), width, old: 0, new: 0, notify: false, after: 0 };
    for (offset, width, expected) in [
        (0, 8, Ok(Some(1))),
        (4, 4, Ok(Some(1))),
        (4, 8, Err(R::Unaligned)),
        (0, 0, Err(R::Unaligned)),
        (0, 16, Err(R::Unaligned)),
        (64, 8, Err(R::OutOfBounds(64))),
        (u64::MAX - 7, 8, Err(R::OutOfBounds(64))),
    ] {
        assert_eq!(ask(&mut machine, ALICE, cas(offset, width)), expected, "{offset} {width}");
    }
    for width in [0, 1, 3, 5, 255] {
        let message =
            M::Read { id: 1, at: at(id, 0), count: 0, notify: false, order: Order::Big(width), after: 0, maps: false };
        assert_eq!(ask(&mut machine, ALICE, message), Err(R::Unaligned));
    }
}

#[test]
fn a_grant_is_not_its_finders_and_is_used_up() {
    let mut machine = machine(SegmentPolicy { grants_per_peer_max: 2, ..SegmentPolicy::default() });
    let id = machine.owner.exports.export("a", 64, Export::default(), 1).unwrap();
    let other = machine.owner.exports.export("b", 64, Export::default(), 2).unwrap();
    let grant =
        Grant { to: Some(ALICE), rights: Rights::READ, offset: 8, bytes: 8, uses: 2, until: Time::from_us(100) };
    let now = Time::from_us(5);
    assert_eq!(machine.owner.grant(now, id, 1, Grant { bytes: 57, ..grant }), Err(R::OutOfBounds(64)));
    let given = machine.owner.grant(now, id, 77, grant).unwrap();
    let by = |place: At| At { grant: Some(given), ..place };
    assert_eq!(ask(&mut machine, MALLORY, read(by(at(id, 8)), 8)), Err(R::GrantVoid));
    assert_eq!(ask(&mut machine, ALICE, read(by(at(other, 8)), 8)), Err(R::GrantVoid), "for another segment");
    assert_eq!(ask(&mut machine, ALICE, read(by(at(id, 0)), 16)), Err(R::OutOfBounds(8)));
    assert_eq!(ask(&mut machine, ALICE, write(0, by(at(id, 8)), 8)), Err(R::NoRight(Rights::WRITE)));
    assert_eq!(ask(&mut machine, ALICE, read(by(at(id, 8)), 8)), Ok(Some(1)));
    assert_eq!(ask(&mut machine, ALICE, read(by(at(id, 15)), 1)), Ok(Some(1)));
    assert_eq!(ask(&mut machine, ALICE, read(by(at(id, 8)), 8)), Err(R::GrantVoid));
    // Nobody is given more than so many; those that are over make room.
    for number in 0..2 {
        machine.owner.grant(now, id, number, grant).unwrap();
    }
    assert_eq!(machine.owner.grant(now, id, 5, grant), Err(R::Overloaded));
    assert_eq!(machine.owner.grant(Time::from_us(100), id, 5, Grant { until: Time::from_us(200), ..grant }), Ok(5));
    let late = machine.owner.on_request(Time::from_us(200), LINK, ALICE, read(At { grant: Some(5), ..at(id, 8) }, 1));
    assert_eq!(outcome(late), Err(R::GrantVoid));
    machine.owner.revoke(id);
    assert_eq!(machine.owner.load().2, 0, "a segment takes its grants with it");
}

#[test]
fn a_grant_to_nobody_in_particular_is_for_whoever_knows_its_number() {
    let mut machine = machine(SegmentPolicy { grants_per_peer_max: 0, ..SegmentPolicy::default() });
    let id = machine.owner.exports.export("a", 64, Export::default(), 1).unwrap();
    let grant = Grant { to: None, rights: Rights::READ, offset: 8, bytes: 8, uses: 9, until: Time::from_us(100) };
    let now = Time::from_us(5);
    machine.owner.grant(now, id, 77, grant).unwrap();
    let by = |number| At { grant: Some(number), ..at(id, 8) };
    assert_eq!(ask(&mut machine, ALICE, read(by(77), 8)), Ok(Some(1)));
    assert_eq!(ask(&mut machine, MALLORY, read(by(77), 8)), Ok(Some(1)));
    assert_eq!(ask(&mut machine, MALLORY, read(by(78), 8)), Err(R::GrantVoid));
    assert_eq!(ask(&mut machine, MALLORY, read(by(77), 9)), Err(R::OutOfBounds(8)));
    assert_eq!(ask(&mut machine, MALLORY, write(0, by(77), 8)), Err(R::NoRight(Rights::WRITE)));
    let late = machine.owner.on_request(Time::from_us(100), LINK, ALICE, read(by(77), 8));
    assert_eq!(outcome(late), Err(R::GrantVoid));
}

#[test]
fn pages_are_mapped_by_a_grant_of_all_of_them_and_by_its_partner_alone() {
    let mut machine = machine(SegmentPolicy::default());
    let segment = machine.owner.exports.export("lent", 100, Export::default(), 1).unwrap();
    let until = Time::from_us(100);
    let whole = Grant { to: Some(ALICE), rights: Rights::READ, offset: 0, bytes: 100, uses: u32::MAX, until };
    let attach = |grant, write| M::Attach { id: 7, at: At { grant: Some(grant), ..at(segment, 0) }, host: 1, write };
    let shares = |machine: &mut Machine, from, grant, write| match machine.owner.on_request(
        Time::from_us(5),
        LINK,
        from,
        attach(grant, write),
    ) {
        Todo::Do(M::Attach { write, .. }, _) => Ok(write),
        other => Err(outcome(other).unwrap_err()),
    };
    let all = Grant { rights: Rights::ALL, ..whole };
    for (number, grant, expected) in [
        (1, whole, Ok(false)),
        (2, all, Ok(true)),
        (3, Grant { to: None, ..whole }, Err(R::GrantVoid)),
        (4, Grant { bytes: 99, ..whole }, Err(R::GrantVoid)),
        (5, Grant { uses: 1_000, ..whole }, Err(R::GrantVoid)),
        (6, Grant { rights: Rights::WRITE, ..whole }, Err(R::GrantVoid)),
        (7, Grant { until: Time::from_us(5), ..whole }, Err(R::GrantVoid)),
    ] {
        machine.owner.grant(Time::from_us(0), segment, number, grant).unwrap();
        assert_eq!(shares(&mut machine, ALICE, number, true), expected, "{number}");
        assert_eq!(shares(&mut machine, MALLORY, number, true), Err(R::GrantVoid), "{number} is not hers");
    }
    let other = machine.owner.exports.export("other", 100, Export::default(), 2).unwrap();
    let elsewhere = M::Attach { id: 7, at: At { grant: Some(1), ..at(other, 0) }, host: 1, write: false };
    assert_eq!(ask(&mut machine, ALICE, elsewhere), Err(R::GrantVoid), "nor good for another segment");
    assert!(machine.owner.take_back(1));
    assert_eq!(shares(&mut machine, ALICE, 1, false), Err(R::GrantVoid));
}

#[test]
fn writes_keep_their_turns_and_nobody_heaps_them_up() {
    let policy = SegmentPolicy { held_per_link_max: 4, held_bytes_per_link_max: 100, ..SegmentPolicy::default() };
    let mut machine = machine(policy);
    let id = machine.owner.exports.export("a", 1_000, EVERYBODY, 1).unwrap();
    let (now, link) = (Time::from_us(5), LINK + ALICE.0);
    assert_eq!(ask(&mut machine, ALICE, write(1, at(id, 0), 10)), Ok(None), "too early");
    assert_eq!(ask(&mut machine, ALICE, write(1, at(id, 0), 10)), Ok(None), "and not twice");
    assert_eq!(ask(&mut machine, ALICE, write(3, at(id, 0), 91)), Err(R::Overloaded), "too many bytes");
    assert_eq!(ask(&mut machine, ALICE, M::Flush(9, 4)), Ok(None));
    assert_eq!(ask(&mut machine, ALICE, M::Flush(8, 1 << 60)), Ok(None));
    assert_eq!(ask(&mut machine, ALICE, M::Flush(9, u64::MAX)), Err(R::Overloaded), "too many wait");
    for turn in 10..1_000 {
        let _ = ask(&mut machine, ALICE, write(turn, at(id, 0), 1_000));
    }
    assert!(machine.owner.load().3 <= 100);
    assert_eq!(machine.owner.next(now, link, ALICE).map(outcome), None);
    assert_eq!(ask(&mut machine, ALICE, write(0, at(id, 0), 10)), Ok(Some(1)));
    assert_eq!(machine.owner.next(now, link, ALICE).map(outcome), Some(Ok(Some(1))), "the second");
    assert_eq!(machine.owner.next(now, link, ALICE).map(outcome), None);
    assert_eq!(ask(&mut machine, ALICE, write(2, at(id, 0), 10)), Ok(Some(1)));
    let flushed = machine.owner.next(now, link, ALICE);
    assert!(matches!(flushed, Some(Todo::Answer(M::Flushed(9)))), "{flushed:?}: the one refused is passed over");
    assert_eq!(ask(&mut machine, ALICE, write(0, at(id, 0), 10)), Ok(None), "what was done is not done again");
    // Another link has turns of its own, and one that is lost leaves nothing.
    assert_eq!(ask(&mut machine, MALLORY, write(0, at(id, 0), 10)), Ok(Some(1)));
    assert_eq!(ask(&mut machine, MALLORY, write(5, at(id, 0), 10)), Ok(None));
    machine.owner.on_link_lost(LINK + MALLORY.0);
    machine.owner.on_link_lost(link);
    assert_eq!(machine.owner.load().3, 0);
}

/// Nodes of one address, which is whoever chooses their numbers.
fn crowd(machine: &mut Machine) -> impl Iterator<Item = NodeId> + use<> {
    let numbers = (100..150).map(NodeId);
    numbers.clone().for_each(|node| machine.owner.on_linked(node, Some([192, 0, 2, 1].into())));
    numbers
}

#[test]
fn what_one_address_sends_too_early_leaves_room_for_others_whatever_numbers_it_has() {
    for (policy, bytes) in [
        (SegmentPolicy { held_bytes_max: 1_000, held_bytes_per_peer_max: 300, ..SegmentPolicy::default() }, 100),
        (SegmentPolicy { held_per_peer_max: 3, ..SegmentPolicy::default() }, 0),
    ] {
        let mut machine = machine(policy);
        let id = machine.owner.exports.export("a", 1_000, EVERYBODY, 1).unwrap();
        let crowd: Vec<_> = crowd(&mut machine).collect();
        let held = crowd.iter().filter(|node| ask(&mut machine, **node, write(1, at(id, 0), bytes)) == Ok(None));
        assert_eq!(held.count(), 3, "of all of them together");
        assert_eq!(ask(&mut machine, ALICE, write(1, at(id, 0), bytes)), Ok(None));
        // The share stays with the address, even if a node's link to it is known no more.
        machine.owner.on_linked(crowd[0], None);
        crowd.iter().for_each(|node| machine.owner.on_link_lost(LINK + node.0));
        assert_eq!(machine.owner.load().3, bytes as u64, "Alice's");
        assert_eq!(ask(&mut machine, crowd[1], write(1, at(id, 0), bytes)), Ok(None), "it has its share back");
    }
}

#[test]
fn what_waits_for_a_write_that_never_comes_goes_and_its_writer_is_told() {
    let mut machine = machine(SegmentPolicy { held_time_max_us: 1_000, ..SegmentPolicy::default() });
    let id = machine.owner.exports.export("a", 64, EVERYBODY, 1).unwrap();
    let link = LINK + ALICE.0;
    let send = |machine: &mut Machine, at_us, message| {
        outcome(machine.owner.on_request(Time::from_us(at_us), link, ALICE, message))
    };
    let held = |machine: &mut Machine, at_us| {
        machine.owner.on_timeout(Time::from_us(at_us));
        machine.owner.load().3
    };
    assert_eq!(send(&mut machine, 0, write(1, at(id, 0), 8)), Ok(None));
    assert_eq!(send(&mut machine, 900, write(0, at(id, 0), 8)), Ok(Some(1)));
    assert!(machine.owner.next(Time::from_us(900), link, ALICE).is_some());
    // Here 2 is missing. What comes meanwhile is no reason to wait for longer.
    for (at_us, turn) in [(2_000, 3), (2_900, 4)] {
        assert_eq!(send(&mut machine, at_us, write(turn, at(id, 0), 8)), Ok(None));
        assert_eq!(held(&mut machine, at_us), (turn - 2) * 8);
    }
    assert_eq!(send(&mut machine, 2_900, M::Flush(1, 4)), Ok(None));
    assert_eq!((held(&mut machine, 2_999), held(&mut machine, 3_000)), (16, 0));
    assert_eq!(send(&mut machine, 3_000, write(3, at(id, 0), 8)), Ok(None), "it is not held again");
    assert_eq!(send(&mut machine, 3_000, M::Flush(2, 5)), Ok(None));
    // A write that was only slow: those dropped meanwhile are refused before the flush that covers them is answered.
    assert_eq!(send(&mut machine, 3_500, write(2, at(id, 0), 8)), Ok(Some(1)));
    let rest: Vec<_> = std::iter::from_fn(|| machine.owner.next(Time::from_us(3_500), link, ALICE)).collect();
    let [Todo::Answer(M::NotWritten(3, R::Overloaded)), Todo::Answer(M::NotWritten(4, R::Overloaded)), flushed] =
        &rest[..]
    else {
        panic!("{rest:?}")
    };
    assert!(matches!(flushed, Todo::Answer(M::Flushed(2))), "{flushed:?}");
    assert_eq!(send(&mut machine, 3_500, write(5, at(id, 0), 8)), Ok(Some(1)));
}

#[test]
fn grants_to_one_address_leave_room_for_others_whatever_numbers_it_has() {
    let mut machine = machine(SegmentPolicy { grants_per_peer_max: 2, ..SegmentPolicy::default() });
    let id = machine.owner.exports.export("a", 64, Export::default(), 1).unwrap();
    let until = Time::from_us(100);
    let grant = |to| Grant { to: Some(to), rights: Rights::READ, offset: 0, bytes: 8, uses: 1, until };
    let give = |machine: &mut Machine, to: NodeId| machine.owner.grant(Time::from_us(5), id, to.0, grant(to));
    let crowd: Vec<_> = crowd(&mut machine).collect();
    assert_eq!(crowd.iter().filter(|node| give(&mut machine, **node).is_ok()).count(), 2);
    assert!(give(&mut machine, ALICE).is_ok());
    machine.owner.on_linked(crowd[0], None);
    assert!(machine.owner.take_back(crowd[0].0));
    assert_eq!([2, 3].map(|at| give(&mut machine, crowd[at]).is_ok()), [true, false], "one has gone");
}

/// As when short writes overtake a long one.
#[test]
fn refused_writes_that_lie_side_by_side_are_all_passed_over() {
    const WRITES: u64 = 3_000;
    let (first, rest) = (1..=4, 5..WRITES);
    for rest in [rest.clone().collect::<Vec<_>>(), rest.rev().collect()] {
        let mut machine = machine(SegmentPolicy { held_per_link_max: 5, ..SegmentPolicy::default() });
        let id = machine.owner.exports.export("a", 1_000, EVERYBODY, 1).unwrap();
        let (now, link) = (Time::from_us(5), LINK + ALICE.0);
        assert_eq!(ask(&mut machine, ALICE, M::Flush(9, 1)), Ok(None));
        for turn in first.clone().chain(rest) {
            let held = ask(&mut machine, ALICE, write(turn, at(id, 0), 8));
            assert_eq!(held, if turn <= 4 { Ok(None) } else { Err(R::Overloaded) }, "{turn}");
        }
        assert_eq!(ask(&mut machine, ALICE, write(0, at(id, 0), 8)), Ok(Some(1)));
        while machine.owner.next(now, link, ALICE).is_some() {}
        assert_eq!(ask(&mut machine, ALICE, write(WRITES, at(id, 0), 8)), Ok(Some(1)), "the next is done at once");
    }
}

#[test]
fn a_write_that_waits_is_judged_when_its_turn_comes() {
    let mut machine = machine(SegmentPolicy::default());
    let id = machine.owner.exports.export("a", 64, EVERYBODY, 1).unwrap();
    let keep = machine.owner.exports.export("b", 64, EVERYBODY, 2).unwrap();
    assert_eq!(ask(&mut machine, ALICE, write(1, at(id, 0), 8)), Ok(None));
    machine.owner.revoke(id);
    assert_eq!(ask(&mut machine, ALICE, write(0, at(keep, 0), 8)), Ok(Some(2)));
    let next = machine.owner.next(Time::from_us(5), LINK + ALICE.0, ALICE).map(outcome);
    assert_eq!(next, Some(Err(R::Revoked)));
}

#[test]
fn exports_stay_within_the_nodes_bounds() {
    let policy =
        SegmentPolicy { segments_max: 2, segment_bytes_max: 100, exported_bytes_max: 150, ..SegmentPolicy::default() };
    let mut machine = machine(policy);
    assert_eq!(machine.owner.exports.export("a", 101, EVERYBODY, 1), Err(ExportError::Limit("segment_bytes_max")));
    let a = machine.owner.exports.export("a", 100, EVERYBODY, 1).unwrap();
    assert_eq!(machine.owner.exports.export("a", 1, EVERYBODY, 1), Err(ExportError::Twice));
    assert_eq!(machine.owner.exports.export("b", 51, EVERYBODY, 1), Err(ExportError::Limit("exported_bytes_max")));
    machine.owner.exports.export("b", 50, EVERYBODY, 1).unwrap();
    assert_eq!(machine.owner.exports.export("c", 0, EVERYBODY, 1), Err(ExportError::Limit("segments_max")));
    machine.owner.revoke(a);
    machine.owner.exports.export("c", 100, EVERYBODY, 1).unwrap();
}

#[test]
fn an_importer_believes_only_whom_it_asked() {
    let mut machine = machine(SegmentPolicy::default());
    let entry =
        catena_wire::SegmentEntry { name: "a".into(), number: 3, generation: 9, bytes: 64, rights: Rights::ALL };
    let id = machine.importer.imports.import(ALICE, entry, None, None).unwrap();
    let now = Time::from_us(5);
    let ask =
        |machine: &mut Machine| machine.importer.read(now, (id, LINK), (0, 8), (false, Order::Bytes), 1).unwrap().id;
    let asked = ask(&mut machine);
    let data = |id, bytes: &'static [u8]| M::Data(id, Bytes::from_static(bytes));
    assert_eq!(machine.importer.on_answer(MALLORY, LINK, data(asked, b"lielielie")), None);
    assert_eq!(machine.importer.on_answer(ALICE, LINK + 1, data(asked, b"12345678")), None, "by another link");
    assert_eq!(machine.importer.on_answer(ALICE, LINK, data(asked ^ 1 << 32, b"12345678")), None);
    let short = machine.importer.on_answer(ALICE, LINK, data(asked, b"1234567"));
    assert_eq!(short, Some((1, Err(R::BadAnswer))));
    assert_eq!(machine.importer.on_answer(ALICE, LINK, data(asked, b"12345678")), None, "once");
    let asked = ask(&mut machine);
    assert_eq!(machine.importer.on_answer(ALICE, LINK, M::Was(asked, 5)), Some((1, Err(R::BadAnswer))));
    let at = At { number: 4, generation: 9, offset: 64, grant: Some(5) };
    let lent = |bytes| Buffer { at, bytes, lent: None };
    let asked = ask(&mut machine);
    assert_eq!(machine.importer.on_answer(MALLORY, LINK, M::Lent(asked, 7, lent(8))), None);
    let more = machine.importer.on_answer(ALICE, LINK, M::Lent(asked, 7, lent(9)));
    assert_eq!(more, Some((1, Err(R::BadAnswer))), "more than was asked for");
    let asked = ask(&mut machine);
    let lies_there = machine.importer.on_answer(ALICE, LINK, M::Lent(asked, 7, lent(8)));
    assert_eq!(lies_there, Some((1, Ok(Answer::Lent(7, lent(8))))));
    let _asked = ask(&mut machine);
    assert_eq!(machine.importer.on_timeout(now), []);
    assert_eq!(machine.importer.on_timeout(now.after(5_000_000)), [(1, R::NoAnswer)]);
    let _asked = ask(&mut machine);
    assert_eq!(machine.importer.on_link_lost(LINK), [(1, R::OwnerLost)]);
    assert_eq!(machine.importer.load().1, 0, "nothing is kept");
}
