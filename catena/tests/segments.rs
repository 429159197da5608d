//! Segments between real nodes: by a link over TCP, in shared memory, and by libfabric's `tcp;ofi_rxm`. What holds by one way holds by the others.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "common/held.rs"]
mod held;
#[path = "segments/rdma.rs"]
mod rdma;
#[path = "segments/restarts.rs"]
mod restarts;

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use catena::{
    Access, Client, Exception, Export, GrantTerms, Lookup, Node, Notify, Order, Place, RemoteMemory, Rights, Segment,
    SegmentPolicy, Service, Way, Wish, exceptions as names,
};
use catena_fabric::{Fabric, Terms};

/// Far more than it takes.
const PATIENCE: Duration = Duration::from_secs(120);

const WAYS: [Way; 3] = [Way::Link, Way::SharedMemory, Way::Rdma];

/// Any port.
const ANY: &str = "127.0.0.1:0";

struct Pair {
    owner: Node,
    importer: Client,
}

async fn pair(way: Way) -> Pair {
    pair_within(way, SegmentPolicy::default()).await
}

async fn pair_within(way: Way, policy: SegmentPolicy) -> Pair {
    pair_over(way, policy, fabric, ANY).await
}

async fn pair_over(way: Way, policy: SegmentPolicy, fabric: fn() -> Arc<dyn RemoteMemory>, listen: &str) -> Pair {
    let builder = Node::builder("owner").listen(listen).segment_policy(policy.clone());
    let owner = match way {
        Way::SharedMemory => builder,
        Way::Link => builder.without_shared_memory(),
        Way::Rdma => builder.without_shared_memory().remote_memory(fabric()),
    };
    let owner = owner.start().await.unwrap();
    let importer = match way {
        // All of it, to see that it is the same.
        Way::Rdma => rdma_client_of(fabric(), &owner, SegmentPolicy { remote_bytes_min: 1, ..policy }).await,
        _ => client_of(&owner, policy).await,
    };
    Pair { owner, importer }
}

/// One for all the nodes of this process.
fn fabric() -> Arc<dyn RemoteMemory> {
    static FABRIC: OnceLock<Arc<Fabric>> = OnceLock::new();
    opened(&FABRIC, Terms::default())
}

/// Another, for who tells by which way bytes went: an access that takes longer goes by the link, as all do after it. What a revocation leaves without an answer
/// takes as long.
fn patient_fabric() -> Arc<dyn RemoteMemory> {
    static FABRIC: OnceLock<Arc<Fabric>> = OnceLock::new();
    opened(&FABRIC, Terms { access_timeout_ms: PATIENCE.as_millis() as u64 / 2, ..Terms::default() })
}

fn opened(fabric: &OnceLock<Arc<Fabric>>, terms: Terms) -> Arc<dyn RemoteMemory> {
    let open = || Fabric::open("tcp;ofi_rxm", Some("127.0.0.1"), terms).map(Arc::new);
    let fabric = fabric.get_or_init(|| open().expect("libfabric 1.17: tools/bootstrap.sh tests installs it"));
    Arc::<Fabric>::clone(fabric)
}

async fn rdma_client_of(fabric: Arc<dyn RemoteMemory>, owner: &Node, policy: SegmentPolicy) -> Client {
    let place = Place::new(owner.address().unwrap());
    let builder = Client::builder("importer").segment_policy(policy).remote_memory(fabric);
    builder.join(place).connect().await.unwrap()
}

async fn client_of(owner: &Node, policy: SegmentPolicy) -> Client {
    let place = Place::new(owner.address().unwrap());
    Client::builder("importer").segment_policy(policy).join(place).connect().await.unwrap()
}

fn open(anyone: Rights) -> Export {
    Export { anyone, ..Export::default() }
}

fn bytes_of(segment: &Segment, offset: u64, count: usize) -> Vec<u8> {
    let mut out = vec![0; count];
    segment.read(offset, &mut out).unwrap();
    out
}

fn name_of<T: std::fmt::Debug>(result: Result<T, Exception>) -> String {
    result.unwrap_err().name
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_writes_the_other_reads() {
    for way in WAYS {
        let Pair { owner, importer } = pair_over(way, SegmentPolicy::default(), patient_fabric, ANY).await;
        let segment = owner.export("numbers", 1_000_003, open(Rights::ALL)).unwrap();
        let near = importer.import("owner/numbers").await.unwrap();
        assert_eq!(near.bytes(), 1_000_003);
        for (offset, count) in [(0, 64), (3, 5), (7, 70_000), (0, 1_000_003), (1_000_003, 0), (5, 0)] {
            let sent: Vec<u8> = (0..count).map(|at| (at * 7 + offset) as u8).collect();
            near.write(offset as u64, sent.clone()).await.unwrap();
            near.flush().await.unwrap();
            assert_eq!(bytes_of(&segment, offset as u64, count), sent, "{way:?}");
            assert_eq!(near.read(offset as u64, count as u64).await.unwrap(), sent, "{way:?}");
        }
        assert_eq!(near.way(), way, "a node without shared memory is reached by the link, another one in memory");
        segment.write(8, &40_u64.to_ne_bytes()).unwrap();
        assert_eq!(near.cas(8, 40, 41).await.unwrap(), 40);
        assert_eq!(near.cas(8, 40, 42).await.unwrap(), 41, "refused: what is there comes back");
        assert_eq!(segment.cas(8, 41, 43).unwrap(), 41);
        segment.write(20, &7_u32.to_ne_bytes()).unwrap();
        assert_eq!(near.cas4(20, 7, 8).await.unwrap(), 7);
        assert_eq!(bytes_of(&segment, 20, 4), 8_u32.to_ne_bytes());
        let mut out = [0; 8];
        near.read_into(8, &mut out).await.unwrap();
        assert_eq!(u64::from_ne_bytes(out), 43);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_swap_notifies_its_owner_where_it_asks_to() {
    for way in WAYS {
        let Pair { owner, importer } = pair(way).await;
        let segment = owner.export("word", 8, open(Rights::ALL)).unwrap();
        let mut told = segment.notifications().unwrap();
        let near = importer.import("owner/word").await.unwrap();
        assert_eq!(near.cas(0, 0, 1).await.unwrap(), 0);
        assert_eq!(told.try_next(), None, "{way:?}: it did not ask");
        assert_eq!(near.cas_and_notify(0, 1, 2).await.unwrap(), 1);
        let notice = tokio::time::timeout(Duration::from_secs(30), told.next()).await.expect("it asked").unwrap();
        assert_eq!((notice.times, notice.missed), (1, 0), "{way:?}");
        // In shared memory nobody sees an access, but for its ring.
        let seen = notice.access.map(|(_, access, offset, count)| (access, offset, count));
        assert!(seen.is_none_or(|seen| seen == (Access::Cas, 0, 8)), "{way:?}: {seen:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flush_tells_each_write_that_was_not_done() {
    for way in WAYS {
        let Pair { owner, importer } = pair(way).await;
        let segment = owner.export("small", 100, open(Rights::READ)).unwrap();
        let near = importer.import("owner/small").await.unwrap();
        near.write(0, &[1][..]).await.unwrap();
        near.write(16, &[2; 8][..]).await.unwrap();
        let why = near.flush().await.unwrap_err();
        let each: Vec<(u64, u64, String)> = catena::from_value(&why.params.clone().unwrap()).unwrap();
        assert_eq!(each, [(0, 1, names::NO_RIGHT.to_owned()), (16, 8, names::NO_RIGHT.to_owned())], "{way:?}");
        assert!(why.message.ends_with("not done: 1 bytes at 0, 8 bytes at 16"), "{why}");
        near.flush().await.expect("it is told once");
        drop(segment);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_read_or_a_swap_brings_is_put_into_a_segment_of_ones_own() {
    let owner = Node::builder("owner").listen("127.0.0.1:0").start().await.unwrap();
    let place = Place::new(owner.address().unwrap());
    let importer = Node::builder("importer").listen("127.0.0.1:0").join(place).start().await.unwrap();
    let word = owner.export("word", 16, open(Rights::ALL)).unwrap();
    word.write(0, &[7_u64.to_ne_bytes(), 8_u64.to_ne_bytes()].concat()).unwrap();
    let here = importer.export("here", 24, Export::default()).unwrap();
    let mut told = here.notifications().unwrap();
    let far = importer.client().import("owner/word").await.unwrap();

    assert_eq!(far.cas_to(0, (7, 9), &here, 8, false).await.unwrap(), 7);
    assert_eq!(
        (bytes_of(&word, 0, 8), bytes_of(&here, 8, 8)),
        (9_u64.to_ne_bytes().into(), 7_u64.to_ne_bytes().into())
    );
    assert_eq!(told.try_next(), None);
    assert_eq!(name_of(far.cas_to(0, (9, 1), &here, 17, true).await), names::OUT_OF_BOUNDS);
    assert_eq!(bytes_of(&word, 0, 8), 9_u64.to_ne_bytes(), "nothing was done");
    assert_eq!(far.cas_to(0, (1, 2), &here, 16, true).await.unwrap(), 9, "refused: what is there comes back");
    far.read_to(8, 8, &here, 0, true).await.unwrap();
    assert_eq!(
        (bytes_of(&here, 16, 8), bytes_of(&here, 0, 8)),
        (9_u64.to_ne_bytes().into(), 8_u64.to_ne_bytes().into())
    );
    for offset in [16, 0] {
        let notice = tokio::time::timeout(Duration::from_secs(30), told.next()).await.expect("it asked").unwrap();
        assert_eq!(notice.access, Some((owner.id(), Access::Write, offset, 8)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn words_are_turned_for_whoever_asks() {
    for way in WAYS {
        let Pair { owner, importer } = pair(way).await;
        let segment = owner.export("words", 64, open(Rights::ALL)).unwrap();
        let near = importer.import("owner/words").await.unwrap();
        segment.write(0, &[0x0102_0304_u32.to_ne_bytes(), 0x0506_0708_u32.to_ne_bytes()].concat()).unwrap();
        let read = async |order, count| near.read_as(0, count, Wish { order, notify: false }).await;
        assert_eq!(read(Order::Big(4), 8).await.unwrap().as_ref(), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(read(Order::Little(4), 8).await.unwrap().as_ref(), [4, 3, 2, 1, 8, 7, 6, 5]);
        assert_eq!(name_of(read(Order::Big(4), 6).await), names::UNALIGNED);
        assert_eq!(name_of(read(Order::Big(3), 6).await), names::UNALIGNED);
        near.write_as(16, &[0, 0, 0, 0, 0, 0, 1, 2][..], Wish { order: Order::Big(8), notify: false }).await.unwrap();
        near.flush().await.unwrap();
        assert_eq!(bytes_of(&segment, 16, 8), 0x0102_u64.to_ne_bytes());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_is_refused_by_name_and_nothing_else_happens() {
    for way in WAYS {
        let Pair { owner, importer } = pair(way).await;
        let segment = owner.export("small", 100, open(Rights::READ)).unwrap();
        segment.write(0, &[9; 100]).unwrap();
        let near = importer.import("owner/small").await.unwrap();
        for (offset, count) in [(100, 1), (0, 101), (u64::MAX, 1), (1, u64::MAX), (u64::MAX, u64::MAX), (101, 0)] {
            assert_eq!(name_of(near.read(offset, count).await), names::OUT_OF_BOUNDS, "{way:?} {offset} {count}");
        }
        assert_eq!(name_of(near.write(99, &[1, 2][..]).await), names::OUT_OF_BOUNDS);
        near.write(0, &[1][..]).await.unwrap();
        assert_eq!(name_of(near.flush().await), names::NO_RIGHT, "a write is refused at the next flush");
        near.flush().await.unwrap();
        assert_eq!(name_of(near.cas(0, 9, 1).await), names::NO_RIGHT);
        assert_eq!(name_of(near.cas(4, 9, 1).await), names::UNALIGNED);
        assert_eq!(name_of(near.cas4(2, 9, 1).await), names::UNALIGNED);
        assert_eq!(name_of(near.cas(96, 9, 1).await), names::OUT_OF_BOUNDS);
        assert_eq!(bytes_of(&segment, 0, 100), [9; 100]);
        assert_eq!(name_of(owner.export("small", 1, Export::default())), names::BAD_PARAMETERS, "exported twice");
        assert_eq!(name_of(owner.export("", 1, Export::default())), names::BAD_PARAMETERS);
        assert_eq!(name_of(owner.export(&"x".repeat(4_096), 1, Export::default())), names::BAD_PARAMETERS);
        assert_eq!(name_of(owner.export("huge", u64::MAX, Export::default())), names::OVERLOADED);
        let long = format!("owner/{}", "x".repeat(4_096));
        for (path, why) in [
            ("owner/nobody's", names::UNKNOWN_SEGMENT),
            (long.as_str(), names::UNKNOWN_SEGMENT),
            ("nobody/small", names::NODE_UNREACHABLE),
            ("small", names::BAD_PARAMETERS),
            ("/", names::BAD_PARAMETERS),
        ] {
            assert_eq!(name_of(importer.import(path).await), why, "{path:.20}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_write_does_not_overtake_a_long_one() {
    const BLOCK: usize = 200_000;
    let Pair { owner, importer } = pair(Way::Link).await;
    let segment = owner.export("block", BLOCK as u64 + 8, open(Rights::ALL)).unwrap();
    let far = importer.import("owner/block").await.unwrap();
    for round in 1..=30_u8 {
        // A block, and the flag that says that it is there.
        far.write(8, vec![round; BLOCK]).await.unwrap();
        far.write(0, u64::from(round).to_ne_bytes().to_vec()).await.unwrap();
        while bytes_of(&segment, 0, 8) != u64::from(round).to_ne_bytes() {
            tokio::task::yield_now().await;
        }
        let block = bytes_of(&segment, 8, BLOCK);
        assert!(block.iter().all(|byte| *byte == round), "round {round}: the flag was there before the block");
        let read = far.read(8, 16).await.unwrap();
        assert_eq!(read.as_ref(), [round; 16], "a read sees what was written before it");
    }
    far.flush().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_waits_for_room_and_no_byte_is_lost() {
    let policy = SegmentPolicy { unflushed_bytes_max: 300_000, ..SegmentPolicy::default() };
    let Pair { owner, importer } = pair_within(Way::Link, policy).await;
    let segment = owner.export("stream", 4_000_000, open(Rights::ALL)).unwrap();
    let far = importer.import("owner/stream").await.unwrap();
    let sent: Vec<u8> = (0..4_000_000_u32).map(|at| (at / 251) as u8).collect();
    for (at, block) in sent.chunks(65_536).enumerate() {
        far.write(at as u64 * 65_536, block.to_vec()).await.unwrap();
    }
    far.flush().await.unwrap();
    assert!(bytes_of(&segment, 0, sent.len()) == sent);
}

/// What a revoked segment is; or, if a refresh has come before the access, stale.
fn over(failed: &str) -> bool {
    [names::SEGMENT_REVOKED, names::SEGMENT_STALE].contains(&failed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_revoke_no_byte_changes_any_more() {
    for way in WAYS {
        let Pair { owner, importer } = pair(way).await;
        let segment = owner.export("doomed", 4_096, open(Rights::ALL)).unwrap();
        let near = importer.import("owner/doomed").await.unwrap();
        let (stop, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let mut busy = tokio::task::JoinSet::new();
        for task in 0..8_u8 {
            let (near, stop, rounds) = (near.clone(), Arc::clone(&stop), Arc::clone(&rounds));
            busy.spawn(async move {
                let mut failed = String::new();
                let mut reads = 0;
                while !stop.load(Ordering::Relaxed) {
                    let wrote = near.write(u64::from(task) * 512, vec![task; 512]).await;
                    let read = near.read(0, 4_096).await;
                    reads += 1;
                    rounds.fetch_add(1, Ordering::Relaxed);
                    if let Err(why) = wrote.map(drop).and(read.map(drop)) {
                        failed = why.name;
                    }
                }
                (reads, failed)
            });
        }
        // Each is in the middle of it, and tries it once more after the revocation, at least.
        let more = async |times: usize| {
            let enough = rounds.load(Ordering::Relaxed) + times;
            while rounds.load(Ordering::Relaxed) < enough {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        more(500).await;
        segment.revoke().await.unwrap();
        let after = bytes_of(&segment, 0, 4_096);
        more(500).await;
        assert!(bytes_of(&segment, 0, 4_096) == after, "{way:?}: a write came through after the revocation");
        stop.store(true, Ordering::Relaxed);
        let mut all = 0;
        while let Some(ended) = busy.join_next().await {
            let (reads, failed) = ended.unwrap();
            all += reads;
            assert!(over(&failed), "{way:?}: {failed}");
        }
        assert!(all > 8, "{all}");
        let failed = name_of(near.read(0, 8).await);
        assert!(over(&failed), "{way:?}: {failed}");
        // The name may be used again, and the old import is not the new segment.
        let again = owner.export("doomed", 4_096, open(Rights::ALL)).unwrap();
        assert!(again.id().generation > segment.id().generation);
        assert_eq!(name_of(near.read(0, 8).await), names::SEGMENT_STALE);
        let fresh = importer.import_with("owner/doomed", Lookup::Forced).await.unwrap();
        assert_eq!(fresh.read(0, 8).await.unwrap().as_ref(), [0; 8]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_thousand_reads_under_way_at_a_revocation_each_ends_and_none_brings_what_comes_later() {
    const READS: usize = 1_000;
    for way in [Way::Link, Way::SharedMemory] {
        let Pair { owner, importer } = pair(way).await;
        let segment = owner.export("busy", 4_096, open(Rights::READ)).unwrap();
        segment.write(0, &[7; 4_096]).unwrap();
        let near = importer.import("owner/busy").await.unwrap();
        let begun = Arc::new(AtomicUsize::new(0));
        let mut reads = tokio::task::JoinSet::new();
        for _ in 0..READS {
            let (near, begun) = (near.clone(), Arc::clone(&begun));
            reads.spawn(async move {
                begun.fetch_add(1, Ordering::Relaxed);
                loop {
                    match near.read(0, 4_096).await {
                        Ok(bytes) => assert!(bytes.iter().all(|byte| *byte == 7), "bytes of after the revocation"),
                        // As many as these are more than one importer has under way: it is told, and tries again.
                        Err(why) if why.name == names::OVERLOADED => tokio::task::yield_now().await,
                        Err(why) => return why.name,
                    }
                }
            });
        }
        while begun.load(Ordering::Relaxed) < READS {
            tokio::task::yield_now().await;
        }
        segment.revoke().await.unwrap();
        segment.write(0, &[9; 4_096]).unwrap();
        let mut ended = 0;
        while let Some(failed) = tokio::time::timeout(PATIENCE, reads.join_next()).await.expect("each READ ends") {
            let failed = failed.unwrap();
            assert!(over(&failed), "{way:?}: {failed}");
            ended += 1;
        }
        assert_eq!(ended, READS);
    }
}

#[tokio::test]
async fn who_only_reads_memory_lets_others_have_their_turn() {
    const READS_MAX: usize = 100_000;
    let Pair { owner, importer } = pair(Way::SharedMemory).await;
    let _board = owner.export("board", 4_096, Export { anyone: Rights::ALL, ..Export::default() }).unwrap();
    let board = importer.import("owner/board").await.unwrap();
    board.read(0, 8).await.unwrap();
    assert_eq!(board.way(), Way::SharedMemory);
    let other = tokio::spawn(std::future::ready(()));
    let mut reads = 0;
    while !other.is_finished() {
        board.read(0, 8).await.unwrap();
        reads += 1;
        assert!(reads < READS_MAX, "its thread is not given up");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_are_kept_in_memory_within_the_nodes_limit_and_keep_their_bytes() {
    const BYTES: u64 = 16 << 10;
    let policy = SegmentPolicy { pinned_bytes_max: BYTES + BYTES / 2, ..SegmentPolicy::default() };
    for way in [Way::Link, Way::SharedMemory] {
        let Pair { owner, importer } = pair_within(way, policy.clone()).await;
        let export = |name: &str| owner.export(name, BYTES, open(Rights::ALL)).unwrap();
        let (first, second) = (export("first"), export("second"));
        let near = importer.import("owner/first").await.unwrap();
        near.write(0, vec![5; BYTES as usize]).await.unwrap();
        near.flush().await.unwrap();
        let before = locked_bytes();
        first.pin(true).await.unwrap();
        first.pin(true).await.unwrap();
        assert_eq!(locked_bytes() - before, BYTES, "{way:?}");
        assert_eq!(near.read(0, BYTES).await.unwrap(), vec![5; BYTES as usize], "{way:?}");
        near.write(8, vec![6; 8]).await.unwrap();
        near.flush().await.unwrap();
        assert_eq!(bytes_of(&first, 0, 24), [[5; 8], [6; 8], [5; 8]].concat(), "{way:?}");
        assert_eq!(name_of(second.pin(true).await), names::LIMIT_EXCEEDED, "{way:?}");
        first.pin(false).await.unwrap();
        second.pin(true).await.unwrap();
        assert_eq!(name_of(first.pin(true).await), names::LIMIT_EXCEEDED, "{way:?}");
        second.revoke().await.unwrap();
        drop(second);
        first.pin(true).await.unwrap();
        assert_eq!(near.read(8, 8).await.unwrap().as_ref(), [6; 8], "{way:?}");
        first.pin(false).await.unwrap();
    }
}

/// Bytes that the system keeps in memory for this process.
fn locked_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let locked = status.lines().find_map(|line| line.strip_prefix("VmLck:")).unwrap();
    locked.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1_024
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rights_are_each_importers_own_and_go_one_by_one() {
    for way in WAYS {
        let Pair { owner, importer } = pair(way).await;
        let other = client_of(&owner, SegmentPolicy::default()).await;
        let segment = owner.export("private", 64, Export::default()).unwrap();
        assert_eq!(
            name_of(importer.import("owner/private").await),
            names::UNKNOWN_SEGMENT,
            "to a stranger it is not there"
        );
        segment.allow(importer.id(), Rights::ALL).await.unwrap();
        segment.allow(other.id(), Rights::READ).await.unwrap();
        let (mine, its) =
            (importer.import("owner/private").await.unwrap(), other.import("owner/private").await.unwrap());
        mine.write(0, &b"mine"[..]).await.unwrap();
        mine.flush().await.unwrap();
        assert_eq!(its.read(0, 4).await.unwrap().as_ref(), b"mine");
        its.write(0, &b"its!"[..]).await.unwrap();
        assert_eq!(name_of(its.flush().await), names::NO_RIGHT);
        segment.allow(importer.id(), Rights::READ).await.unwrap();
        mine.write(0, &b"more"[..]).await.unwrap();
        assert_eq!(name_of(mine.flush().await), names::NO_RIGHT);
        assert_eq!(name_of(mine.cas(0, 0, 1).await), names::NO_RIGHT);
        segment.allow(importer.id(), Rights::NONE).await.unwrap();
        assert_eq!(name_of(mine.read(0, 4).await), names::NO_RIGHT);
        assert_eq!(its.read(0, 4).await.unwrap().as_ref(), b"mine", "{way:?}: the other one's right stays");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_are_inhibited_and_let_again() {
    for way in WAYS {
        let Pair { owner, importer } = pair(way).await;
        let segment = owner.export("table", 64, open(Rights::ALL)).unwrap();
        let near = importer.import("owner/table").await.unwrap();
        near.write(0, &[1; 8][..]).await.unwrap();
        near.flush().await.unwrap();
        segment.inhibit_writes(true).await.unwrap();
        near.write(0, &[2; 8][..]).await.unwrap();
        assert_eq!(name_of(near.flush().await), names::WRITE_INHIBITED);
        assert_eq!(name_of(near.cas(0, 0, 1).await), names::WRITE_INHIBITED);
        assert_eq!(near.read(0, 8).await.unwrap().as_ref(), [1; 8], "{way:?}: readers go on");
        segment.write(8, &[3; 8]).unwrap();
        assert_eq!(near.read(8, 8).await.unwrap().as_ref(), [3; 8], "{way:?}: they see what the owner does");
        segment.inhibit_writes(false).await.unwrap();
        near.write(0, &[4; 8][..]).await.unwrap();
        near.flush().await.unwrap();
        assert_eq!(bytes_of(&segment, 0, 8), [4; 8]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_is_for_one_partner_so_many_uses_one_range_and_one_time() {
    let Pair { owner, importer } = pair(Way::Link).await;
    let thief = client_of(&owner, SegmentPolicy::default()).await;
    let segment = owner.export("letters", 64, Export::default()).unwrap();
    segment.write(0, &[5; 64]).unwrap();
    let terms = GrantTerms { rights: Rights::READ, offset: 8, bytes: 16, uses: 2, lasts: Duration::from_secs(60) };
    let granted = segment.grant(importer.id(), terms).unwrap();
    let stolen = thief.import_granted(owner.me(), &granted).await.unwrap();
    assert_eq!(name_of(stolen.read(8, 16).await), names::GRANT_VOID, "it is no bearer's ticket");
    let mine = importer.import_granted(owner.me(), &granted).await.unwrap();
    assert_eq!(name_of(mine.read(7, 16).await), names::OUT_OF_BOUNDS);
    assert_eq!(name_of(mine.cas(8, 0, 0).await), names::NO_RIGHT);
    assert_eq!(mine.read(8, 16).await.unwrap().as_ref(), [5; 16], "what was refused used nothing up");
    assert_eq!(mine.read(9, 3).await.unwrap().as_ref(), [5; 3]);
    assert_eq!(name_of(mine.read(8, 16).await), names::GRANT_VOID, "a third time");
    let over = segment.grant(importer.id(), GrantTerms { lasts: Duration::ZERO, ..terms }).unwrap();
    assert_eq!(name_of(importer.import_granted(owner.me(), &over).await.unwrap().read(8, 1).await), names::GRANT_VOID);
    let back = segment.grant(importer.id(), terms).unwrap();
    assert!(segment.take_back(&back) && !segment.take_back(&back));
    assert_eq!(name_of(importer.import_granted(owner.me(), &back).await.unwrap().read(8, 1).await), names::GRANT_VOID);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_owner_is_notified_when_it_wants_to_be() {
    for way in WAYS {
        let Pair { owner, importer } = pair(way).await;
        for (when, asked, told) in [
            (Notify::IfAsked, false, false),
            (Notify::IfAsked, true, true),
            (Notify::Always, false, true),
            (Notify::Never, true, false),
        ] {
            let how = Export { anyone: Rights::ALL, on_read: when, on_write: when };
            let segment = owner.export("bell", 64, how).unwrap();
            let mut notifications = segment.notifications().unwrap();
            let near = importer.import_with("owner/bell", Lookup::Forced).await.unwrap();
            let wish = Wish { notify: asked, ..Wish::default() };
            near.write_as(8, &[1; 4][..], wish).await.unwrap();
            near.flush().await.unwrap();
            near.read_as(0, 16, wish).await.unwrap();
            if !told {
                assert_eq!(notifications.try_next(), None, "{way:?} {when:?}");
                continue;
            }
            let mut times = 0;
            while times < 2 {
                let notice = tokio::time::timeout(PATIENCE, notifications.next()).await.unwrap().unwrap();
                times += notice.times;
                match (way, notice.access) {
                    (Way::Link | Way::Rdma, Some((who, access, offset, count))) => {
                        assert_eq!(who, importer.id());
                        let expected = if times == 1 { (Access::Write, 8, 4) } else { (Access::Read, 0, 16) };
                        assert_eq!((access, offset, count), expected);
                    }
                    (Way::SharedMemory, None) => {}
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(times, 2);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_are_found_by_reading_and_a_refresh_purges_what_is_gone() {
    let Pair { owner, importer } = pair(Way::Link).await;
    let mut all: Vec<_> =
        (0..500).map(|at| owner.export(&format!("segment {at}"), 8, open(Rights::READ)).unwrap()).collect();
    for segment in &all {
        let found = importer.import_with(&format!("owner/{}", segment.name()), Lookup::Probe).await.unwrap();
        assert_eq!(found.generation().unwrap().0, segment.id().generation);
    }
    let kept = importer.import_with("owner/segment 7", Lookup::Ask).await.unwrap();
    let gone = importer.import("owner/segment 8").await.unwrap();
    let replaced = importer.import("owner/segment 9").await.unwrap();
    let eight = all.swap_remove(8);
    eight.revoke().await.unwrap();
    let nine = all.iter().position(|segment| segment.name() == "segment 9").unwrap();
    all.swap_remove(nine).revoke().await.unwrap();
    let _again = owner.export("segment 9", 8, open(Rights::READ)).unwrap();
    let cached = importer.import("owner/segment 8").await.unwrap();
    assert_eq!(cached.generation(), gone.generation(), "the local table is asked first");
    importer.refresh_imports().await;
    assert!(!kept.generation().unwrap().1 && gone.generation().unwrap().1 && replaced.generation().unwrap().1);
    assert_eq!(name_of(gone.read(0, 1).await), names::SEGMENT_STALE, "at the source, without a message");
    assert_eq!(name_of(importer.import_with("owner/segment 8", Lookup::Probe).await), names::UNKNOWN_SEGMENT);
    assert!(importer.import("owner/segment 9").await.unwrap().read(0, 1).await.is_ok());
    let listed = importer.segments("owner").await.unwrap();
    assert_eq!(listed.len(), 499);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_service_that_holds_its_thread_does_not_delay_a_read() {
    let (stop, stuck) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (until, tell) = (Arc::clone(&stop), Arc::clone(&stuck));
    let busy = Service::new("busy").function_raw("spin", move |_, value| {
        let (until, tell) = (Arc::clone(&until), Arc::clone(&tell));
        async move {
            // No await: whatever thread polls this does nothing else.
            while !until.load(Ordering::Relaxed) {
                tell.store(true, Ordering::Relaxed);
                std::hint::spin_loop();
            }
            Ok(value)
        }
    });
    let owner =
        Node::builder("owner").listen("127.0.0.1:0").without_shared_memory().service(busy).start().await.unwrap();
    let segment = owner.export("free", 64, open(Rights::READ)).unwrap();
    segment.write(0, &[6; 64]).unwrap();
    let reader = client_of(&owner, SegmentPolicy::default()).await;
    let far = reader.import("owner/free").await.unwrap();
    let caller = client_of(&owner, SegmentPolicy::default()).await;
    let call = tokio::spawn(async move { caller.call::<_, ()>("busy", "spin", &()).await });
    while !stuck.load(Ordering::Relaxed) {
        tokio::task::yield_now().await;
    }
    for _ in 0..200 {
        assert_eq!(far.read(0, 64).await.unwrap().as_ref(), [6; 64]);
    }
    assert!(!call.is_finished(), "the service still holds its thread");
    stop.store(true, Ordering::Relaxed);
    call.await.unwrap().unwrap();
}
