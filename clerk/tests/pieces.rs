//! The pieces between real nodes, over TCP and in shared memory, and with partners who lie.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use catena::{Client, Exception, Export, Imported, LinkShape, Node, Place, Rights, Segment, Topology, Wish};
use catena_clerk::{
    Asking, Changes, FarTable, FarTokens, Key, Lanes, Lease, Pushed, Pushing, Shape, Table, Tokens, Wanted, answer,
    answers_bytes, frame,
};

const SHAPE: Shape = Shape { slots: 64, sectors: 4, payload: 64 };
const LANES: Lanes = Lanes { count: 2, bytes: 1_024 };
const LONG: Duration = Duration::from_secs(60);

async fn node(name: &str, shared_memory: bool) -> Node {
    let builder = Node::builder(name).listen("127.0.0.1:0");
    if shared_memory { builder } else { builder.without_shared_memory() }.start().await.unwrap()
}

async fn beside(name: &str, server: &Node) -> Node {
    let builder = Node::builder(name).listen("127.0.0.1:0").join(Place::new(server.address().unwrap()));
    builder.start().await.unwrap()
}

fn key(of: u64) -> Key {
    Key::of(&[&of.to_le_bytes()])
}

/// Whatever a reader finds while entries come and go is a value that was entered for that key, whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_find_whole_values_of_their_key_or_nothing() {
    for shared_memory in [false, true] {
        let server = node("server", shared_memory).await;
        let changes = Changes::default();
        let table = Arc::new(Table::export(&server, "table", SHAPE, &changes).unwrap());
        let client = Client::connect(server.address().unwrap()).await.unwrap();
        let far = FarTable::open(client.import("server/table").await.unwrap()).await.unwrap();
        assert_eq!(far.shape(), SHAPE);
        let writing = Arc::clone(&table);
        let done = Arc::new(AtomicU64::new(0));
        let writes = Arc::clone(&done);
        let writer = tokio::task::spawn_blocking(move || {
            for round in 0..60_000_u64 {
                let of = round % 5;
                let value = vec![(round % 251) as u8; (8 + round * 7 % 240) as usize];
                let value: Vec<u8> = of.to_le_bytes().into_iter().chain(value).collect();
                assert!(writing.put(writing_look(&changes), key(of), [Some(key(100 + of)), None], &value));
                if round % 11 == 0 {
                    writing.remove_group(key(100 + of));
                }
            }
            writes.store(1, Ordering::Release);
        });
        let (mut found, mut reads) = (0, 0_u64);
        while done.load(Ordering::Acquire) == 0 || found == 0 {
            let of = reads % 5;
            reads += 1;
            let Some(value) = far.get(key(of), 64).await.unwrap() else { continue };
            found += 1;
            assert_eq!(value[..8], of.to_le_bytes(), "another key's");
            assert!(value[8..].windows(2).all(|pair| pair[0] == pair[1]), "torn: {value:?}");
        }
        writer.await.unwrap();
        // Removed is removed.
        (0..5).for_each(|of| table.remove_group(key(100 + of)));
        for of in 0..5 {
            assert_eq!(far.get(key(of), 64).await.unwrap(), None);
        }
        assert!(table.is_empty());
    }
}

fn writing_look(changes: &Changes) -> catena_clerk::Look {
    changes.look()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clerk_writes_into_no_table_and_a_segment_that_is_none_is_refused() {
    let server = node("server", true).await;
    let table = Table::export(&server, "table", SHAPE, &Changes::default()).unwrap();
    let _other = server.export("other", 4_096, Export { anyone: Rights::ALL, ..Export::default() }).unwrap();
    let client = Client::connect(server.address().unwrap()).await.unwrap();
    let far = client.import("server/table").await.unwrap();
    let written = async {
        far.write(64, vec![0xff; 8]).await?;
        far.flush().await
    };
    assert_eq!(written.await.unwrap_err().name, "NoRight");
    assert_eq!(far.cas(64, 0, 1).await.unwrap_err().name, "NoRight");
    assert!(table.is_empty());
    let other = client.import("server/other").await.unwrap();
    assert_eq!(FarTable::open(other).await.unwrap_err().name, "BadTable");
}

/// A clerk, its lanes, and a server that does what `handler` says.
struct Asked {
    asking: Asking,
    requests: Imported,
    answers: Imported,
    clerk: Node,
    server: tokio::task::JoinHandle<Exception>,
    _node: Node,
}

async fn asked<F, Fut>(shared_memory: bool, handler: F) -> Asked
where
    F: Fn(Vec<u8>) -> Fut + Send + 'static,
    Fut: Future<Output = Vec<u8>> + Send + 'static,
{
    let server = node("server", shared_memory).await;
    let clerk = beside("clerk", &server).await;
    let requests = server.export("requests", LANES.segment_bytes(), Export::default()).unwrap();
    requests.allow(clerk.id(), Rights::READ.and(Rights::WRITE)).await.unwrap();
    let answers: Segment = clerk.export("answers", answers_bytes(&LANES), Export::default()).unwrap();
    answers.allow(server.id(), Rights::READ.and(Rights::WRITE)).await.unwrap();
    let far_answers = server.client().import("clerk/answers").await.unwrap();
    let far_requests = clerk.client().import("server/requests").await.unwrap();
    let asking = Asking::new(far_requests.clone(), answers, LANES).unwrap();
    let task = tokio::spawn(answer_boxed(requests, far_answers.clone(), handler));
    Asked { asking, requests: far_requests, answers: far_answers, clerk, server: task, _node: server }
}

async fn answer_boxed<F, Fut>(requests: Segment, answers: Imported, handler: F) -> Exception
where
    F: Fn(Vec<u8>) -> Fut + Send + 'static,
    Fut: Future<Output = Vec<u8>> + Send + 'static,
{
    answer(requests, answers, LANES, handler).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_asks_and_gets_its_own_answer() {
    for shared_memory in [false, true] {
        let done = Arc::new(AtomicU64::new(0));
        let counting = Arc::clone(&done);
        let asked = asked(shared_memory, move |request| {
            counting.fetch_add(1, Ordering::Relaxed);
            async move { request.into_iter().rev().collect() }
        })
        .await;
        // More at once than there are lanes.
        let asks = (0..40_u8).map(|number| {
            let asking = &asked.asking;
            async move {
                let request: Vec<u8> = (0..number).collect();
                let answer = asking.ask(&request, LONG).await.unwrap();
                assert_eq!(answer, (0..number).rev().collect::<Vec<u8>>());
            }
        });
        futures(asks).await;
        assert_eq!(done.load(Ordering::Relaxed), 40, "each once");
        let long = asked.asking.ask(&vec![0; LANES.content_bytes() + 1], LONG).await;
        assert_eq!(long.unwrap_err().name, "TooLong");
    }
}

/// All of them at once.
async fn futures<F: Future<Output = ()>>(all: impl Iterator<Item = F>) {
    let mut all: Vec<_> = all.map(Box::pin).collect();
    std::future::poll_fn(move |context| {
        all.retain_mut(|one| one.as_mut().poll(context).is_pending());
        if all.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

/// A request that nobody waits for any more keeps its lane until it is answered, and its late answer is nobody else's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_answer_is_nobody_else_s() {
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let waiting = Arc::clone(&gate);
    let asked = asked(true, move |request| {
        let gate = Arc::clone(&waiting);
        async move {
            if request == b"slow" {
                drop(gate.acquire().await);
            }
            request
        }
    })
    .await;
    for _ in 0..LANES.count {
        let given_up = asked.asking.ask(b"slow", Duration::from_millis(20)).await.unwrap_err();
        assert!(given_up.name == "NoAnswer" && given_up.unknown);
    }
    // All lanes are taken by what was given up.
    assert_eq!(asked.asking.ask(b"quick", Duration::from_millis(20)).await.unwrap_err().name, "NoAnswer");
    gate.add_permits(10);
    assert_eq!(asked.asking.ask(b"quick", LONG).await.unwrap(), b"quick");
}

/// What a clerk that lies writes into its own lanes is not done, and harms only itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clerk_that_lies_in_its_lanes_is_not_believed() {
    let done = Arc::new(AtomicU64::new(0));
    let counting = Arc::clone(&done);
    let asked = asked(true, move |request| {
        counting.fetch_add(1, Ordering::Relaxed);
        async move { request }
    })
    .await;
    let notify = Wish { notify: true, ..Wish::default() };
    let mut lie = frame(u64::MAX, b"never done");
    lie[8] = 0xff;
    let lies = [vec![0xff; 1_024], lie, [9_u64, u64::MAX, 1].iter().flat_map(|word| word.to_le_bytes()).collect()];
    for lie in lies {
        asked.requests.write_as(LANES.at(1), lie, notify).await.unwrap();
        assert_eq!(asked.asking.ask(b"true", LONG).await.unwrap(), b"true");
    }
    assert_eq!(done.load(Ordering::Relaxed), 3, "no lie was done");
    // Beyond its lanes it cannot write.
    let beyond = asked.requests.write(LANES.segment_bytes(), vec![1]).await;
    assert_eq!(beyond.unwrap_err().name, "OutOfBounds");
}

/// The server learns that its clerk is gone when it answers it, and when it looks at the clerk's word.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clerk_that_is_gone_is_noticed() {
    let asked = asked(false, |request| async { request }).await;
    assert_eq!(asked.asking.ask(b"there", LONG).await.unwrap(), b"there");
    let answers = asked.answers.clone();
    let watching = tokio::spawn(async move {
        answers.watch(catena_clerk::beat_at(&LANES), Duration::from_millis(10), Duration::from_secs(5)).await
    });
    drop((asked.asking, asked.requests));
    asked.clerk.close(Duration::from_millis(10)).await;
    drop(asked.clerk);
    let why = tokio::time::timeout(LONG, watching).await.unwrap().unwrap();
    assert!(
        ["OwnerDead", "OwnerStalled", "OwnerLost", "OwnerSilent", "SegmentRevoked"].contains(&why.name.as_str()),
        "{why}"
    );
    asked.server.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_one_clerk_s_until_its_time_is_over() {
    for shared_memory in [false, true] {
        let server = node("server", shared_memory).await;
        let tokens = Tokens::export(&server, "tokens", 4).unwrap();
        let clerk = async |me| {
            let client = Client::connect(server.address().unwrap()).await.unwrap();
            (FarTokens::new(client.import("server/tokens").await.unwrap(), me), client)
        };
        let ((one, first), (two, _second)) = (clerk(1).await, clerk(2).await);
        let held = one.try_take(3, 10).await.unwrap().unwrap();
        assert_eq!(two.try_take(3, 10).await.unwrap(), None);
        assert!(two.try_take(2, 10).await.unwrap().is_some(), "another token");
        assert!(one.release(held).await.unwrap());
        // One takes it and is never heard of again: its time passes.
        let dead = one.try_take(3, 10).await.unwrap().unwrap();
        for _ in 0..10 {
            assert_eq!(two.try_take(3, 10).await.unwrap(), None);
            tokens.beat(20).unwrap();
        }
        tokens.beat(20).unwrap();
        let taken = two.try_take(3, 10).await.unwrap().unwrap();
        assert!(taken.until() > dead.until(), "late writes can be told from those of the holder");
        assert!(!one.release(dead).await.unwrap(), "it was another's by then");
        assert_eq!(tokens.take_back(3).unwrap(), Some(2));
        assert!(!two.release(taken).await.unwrap());
        // One that swaps the server's beat to the end of time changes what is told until the next beat, and no more.
        let lies = first.import("server/tokens").await.unwrap();
        let beat = u64::from_ne_bytes(lies.read(0, 8).await.unwrap()[..].try_into().unwrap());
        assert_eq!(lies.cas(0, beat, u64::MAX).await.unwrap(), beat);
        tokens.beat(20).unwrap();
        assert_eq!(lies.read(0, 8).await.unwrap()[..], (beat + 1).to_ne_bytes());
        // One that would hold it for ever holds it for as long as anybody may.
        let _for_ever = one.try_take(3, u64::MAX).await.unwrap().unwrap();
        for _ in 0..22 {
            tokens.beat(20).unwrap();
        }
        assert!(two.try_take(3, 10).await.unwrap().is_some());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_is_asked_for_a_token_before_it_is_taken_back() {
    const SHORT: Duration = Duration::from_millis(20);
    for shared_memory in [false, true] {
        let server = node("server", shared_memory).await;
        let tokens = Tokens::export(&server, "tokens", 4).unwrap();
        let clerk = beside("clerk", &server).await;
        let mut wanted = Wanted::export(&clerk, "wanted", 4, server.id()).await.unwrap();
        let asks = server.client().import("clerk/wanted").await.unwrap();
        let far = FarTokens::new(clerk.client().import("server/tokens").await.unwrap(), 7);
        assert_eq!(tokens.ask_back(3, &asks, LONG).await.unwrap(), None, "nobody holds it");

        let held = far.try_take(3, 10).await.unwrap().unwrap();
        let hears = async {
            let asked = wanted.next().await.unwrap().unwrap();
            assert_eq!(asked, held);
            assert!(far.give_back(asked).await.unwrap());
        };
        let asked = async { tokio::join!(tokens.ask_back(3, &asks, 2 * LONG), hears) };
        let (who, ()) = tokio::time::timeout(LONG, asked).await.expect("it is given back as soon as it is asked for");
        assert_eq!(who.unwrap(), Some(7));

        let held = far.try_take(3, 10).await.unwrap().expect("it is free");
        assert_eq!(tokens.ask_back(3, &asks, SHORT).await.unwrap(), Some(7), "one that does not listen");
        assert!(!far.release(held).await.unwrap());

        let _lost = far.try_take(3, 10).await.unwrap().expect("it is free");
        clerk.close(Duration::from_millis(10)).await;
        drop((wanted, clerk));
        assert_eq!(tokens.ask_back(3, &asks, SHORT).await.unwrap(), Some(7), "one that is gone");
        assert_eq!(tokens.take_back(3).unwrap(), None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_pushed_is_there_without_asking() {
    for shared_memory in [false, true] {
        let server = node("server", shared_memory).await;
        let clerk = beside("clerk", &server).await;
        let pushed = Pushed::export(&clerk, "pushed", SHAPE, server.id()).await.unwrap();
        let stranger = Client::connect(clerk.address().unwrap()).await.unwrap();
        assert_eq!(stranger.import("clerk/pushed").await.unwrap_err().name, "UnknownSegment");
        let mut pushing = Pushing::open(server.client().import("clerk/pushed").await.unwrap()).await.unwrap();
        let sent = server.client().traffic().sent_bytes;
        for of in 0..20 {
            assert!(pushing.push(key(of), &[of as u8; 200]).await.unwrap());
        }
        pushing.done().await.unwrap();
        let by_link = server.client().traffic().sent_bytes - sent >= 20 * 200;
        assert_eq!(by_link, !shared_memory, "the way that the bytes took");
        assert!(!pushing.push(key(0), &vec![0; 257]).await.unwrap(), "too long for the clerk's table");
        pushing.take_back(key(19)).await.unwrap();
        pushing.done().await.unwrap();
        assert_eq!(pushed.get(key(19)), None);
        let found = (0..19).filter(|of| pushed.get(key(*of)) == Some(vec![*of as u8; 200])).count();
        assert!(found >= 15, "{found}: two entries that want one place are one");
    }
}

/// Over a link on which a READ takes longer than a beat.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_good_while_the_server_beats_and_says_what_is_wrong_then() {
    let slow = LinkShape { delay_us: 5_000, bytes_per_s: 0 };
    let topology = Arc::new(Topology::new().with("here", "there", slow));
    let server = Node::builder("server").listen("127.0.0.1:0").site("here").topology(Arc::clone(&topology));
    let server = server.without_shared_memory().start().await.unwrap();
    let table = Arc::new(Table::export(&server, "table", SHAPE, &Changes::default()).unwrap());
    let place = Place::new(server.address().unwrap()).in_site("here");
    let client = Client::builder("client").site("there").topology(topology).join(place).connect().await.unwrap();
    let far = FarTable::open(client.import("server/table").await.unwrap()).await.unwrap();
    let lease = Lease::begin(far, Duration::from_millis(5), Duration::from_secs(2)).await.unwrap();
    assert!(lease.is_good());
    let beating = Arc::clone(&table);
    let beats = tokio::spawn(async move {
        loop {
            beating.beat();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    let early = tokio::time::timeout(Duration::from_secs(3), lease.lost()).await;
    assert!(early.is_err(), "{early:?}: it beats");
    beats.abort();
    let why = tokio::time::timeout(LONG, lease.lost()).await.unwrap();
    assert!(!lease.is_good() && why.name == "OwnerStalled", "{why}");
    drop(table);
    let why = tokio::time::timeout(LONG, lease.lost()).await.unwrap();
    assert!(["SegmentRevoked", "SegmentStale", "UnknownSegment"].contains(&why.name.as_str()), "{why}");
}
