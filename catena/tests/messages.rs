//! Messages between services of real nodes, over links: short, long, and answers into return buffers; and partners who do not keep to what was agreed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "messages/calls.rs"]
mod calls;
#[path = "common/held.rs"]
mod held;
#[path = "processes/relay.rs"]
mod relay;
#[path = "messages/reliable.rs"]
mod reliable;

use std::{
    pin::pin,
    sync::{Arc, Mutex},
    task::{Context, Waker},
    time::Duration,
};

use bytes::Bytes;
use catena::{
    Answer, Carrier, Client, Completion, Context as Called, Exception, Export, LinkShape, Long, Mailbox, MessageCounts,
    MessagePolicy, Node, Place, Question, Received, Rights, SegmentPolicy, Service, Topology, exceptions as names,
};
use held::HeldPort;
use relay::Relay;

/// More than a frame, less than a piece.
const MEDIUM: usize = 100_000;
/// Several pieces.
const LARGE: usize = 1_000_003;
/// An event that does not come by then does not come at all.
const SOON: Duration = Duration::from_secs(60);

struct Pair {
    node: Node,
    /// Of the node.
    shop: Mailbox,
    other: Client,
    /// Of the other.
    buyer: Mailbox,
}

async fn pair() -> Pair {
    pair_within(MessagePolicy::default()).await
}

async fn pair_within(policy: MessagePolicy) -> Pair {
    let node = Node::builder("node").listen("127.0.0.1:0").message_policy(policy.clone()).start().await.unwrap();
    let shop = node.mailbox("shop").unwrap();
    let other = client_of(&node, policy).await;
    let buyer = other.mailbox("buyer").unwrap();
    meet(&buyer, &shop).await;
    Pair { node, shop, other, buyer }
}

async fn client_of(node: &Node, policy: MessagePolicy) -> Client {
    let place = Place::new(node.address().unwrap());
    Client::builder("other").message_policy(policy).join(place).connect().await.unwrap()
}

/// From now on the shop's node knows where the other is: news of services goes before what is sent after it.
async fn meet(one: &Mailbox, shop: &Mailbox) {
    one.signal(shop.service()).await.unwrap();
    next(shop).await;
}

async fn next(mailbox: &Mailbox) -> Received {
    tokio::time::timeout(SOON, mailbox.receive()).await.expect("no message came")
}

/// Waits for something that is not told: a counter.
async fn until(what: impl Fn() -> bool) {
    let looked = async {
        while !what() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(SOON, looked).await.expect("it never came to that");
}

fn bytes_of(count: usize) -> Bytes {
    (0..count).map(|at| (at / 7) as u8).collect::<Vec<_>>().into()
}

fn name_of<T>(result: Result<T, Exception>) -> String {
    result.err().expect("it should have failed").name
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mailbox_that_is_opened_again_at_once_is_found() {
    let Pair { mut shop, buyer, node, .. } = pair().await;
    for _ in 0..20 {
        drop(shop);
        shop = node.mailbox("shop").unwrap();
        meet(&buyer, &shop).await;
    }
    // Whatever the drop of an earlier one has begun is over, once the node has answered somebody new.
    let other = client_of(&node, MessagePolicy::default()).await;
    assert!(other.services().await.iter().any(|entry| entry.service == "shop"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_message_goes_from_service_to_service_and_a_signal_says_that_it_came() {
    let Pair { shop, buyer, node, .. } = pair().await;
    buyer.send("shop", [&b"two"[..], b"", b"apples"]).await.unwrap();
    let order = next(&shop).await;
    assert_eq!((order.from(), order.node().name.as_str()), ("buyer", "other"));
    assert_eq!(order.items(), [&b"two"[..], b"", b"apples"]);
    // Back, to a process that nobody can dial.
    shop.signal("buyer").await.unwrap();
    let signal = next(&buyer).await;
    assert!(signal.is_signal() && signal.from() == "shop");
    assert_eq!(
        signal.answer(&b"thanks"[..]).await.unwrap(),
        Carrier::Short,
        "what asks nothing is answered by a message"
    );
    assert_eq!(next(&shop).await.items(), [&b"thanks"[..]]);
    // To itself, without a link.
    let till = node.mailbox("till").unwrap();
    shop.send("till", ["5"]).await.unwrap();
    assert_eq!(next(&till).await.items(), ["5"]);
    let largest = vec![7_u8; 12 << 10];
    buyer.send("shop", [largest.clone()]).await.unwrap();
    assert_eq!(next(&shop).await.items(), [largest]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_several_who_wait_the_last_is_woken() {
    let Pair { shop, buyer, .. } = pair().await;
    let (mut first, mut last) = (pin!(shop.receive()), pin!(shop.receive()));
    let mut waits = Context::from_waker(Waker::noop());
    assert!(first.as_mut().poll(&mut waits).is_pending() && last.as_mut().poll(&mut waits).is_pending());
    for one in [last, first] {
        buyer.signal("shop").await.unwrap();
        assert!(tokio::time::timeout(SOON, one).await.expect("it was not woken").is_signal());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_sent_is_an_error_at_the_sender() {
    let Pair { shop, buyer, node, other } = pair().await;
    assert_eq!(name_of(buyer.send("shop", [vec![0; (12 << 10) + 1]]).await), names::LIMIT_EXCEEDED);
    assert_eq!(name_of(buyer.send("shop", vec![Bytes::new(); 65]).await), names::LIMIT_EXCEEDED);
    assert_eq!(name_of(buyer.send("shopp", ["x"]).await), names::UNKNOWN_SERVICE);
    for name in ["", "a/b", &"x".repeat(257), "shop"] {
        assert_eq!(name_of(node.mailbox(name)), names::BAD_PARAMETERS, "{name:.9}");
    }
    let many = (0..17).fold(Long::default(), |long, _| long.and(&b"x"[..]));
    assert_eq!(name_of(buyer.send_long("shop", many).await), names::LIMIT_EXCEEDED);
    // A mailbox that is gone is found to be gone by use, and looked up anew.
    drop(shop);
    let sent = async || other.send_short("buyer", "shop", ["x"]).await;
    let gone = async {
        while sent().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        name_of(sent().await)
    };
    assert_eq!(tokio::time::timeout(SOON, gone).await.unwrap(), names::UNKNOWN_SERVICE);
    let again = node.mailbox("shop").unwrap();
    let back = async {
        while sent().await.is_err() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(SOON, back).await.expect("the service is there again");
    assert_eq!(next(&again).await.items(), ["x"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_finds_no_room_is_dropped_in_silence_and_counted() {
    let policy =
        MessagePolicy { mailbox_messages_max: 10, mailbox_messages_per_peer_max: 6, ..MessagePolicy::default() };
    let Pair { shop, buyer, node, .. } = pair_within(policy.clone()).await;
    let counts = || node.client().message_counts();
    let before = counts().received;
    for number in 0..50_u8 {
        buyer.send("shop", [vec![number]]).await.unwrap();
    }
    until(|| counts().received + counts().no_room == before + 50).await;
    assert_eq!((counts().received - before, counts().no_room), (6, 44));
    let second = client_of(&node, policy).await;
    second.send_short("", "shop", ["mine"]).await.unwrap();
    until(|| counts().received == before + 7).await;
    for number in 0..6_u8 {
        assert_eq!(next(&shop).await.items(), [vec![number]], "the first come stay");
    }
    assert_eq!(next(&shop).await.items(), ["mine"], "a flood leaves room for others");
    buyer.signal("shop").await.unwrap();
    next(&shop).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_message_overtakes_bulk() {
    const BULK: u64 = 1 << 20;
    let slow = LinkShape { delay_us: 0, bytes_per_s: 1 << 20 };
    let topology = std::sync::Arc::new(Topology::new().with("here", "there", slow));
    let here = Node::builder("here").listen("127.0.0.1:0").site("here").topology(topology.clone());
    let here = here.without_shared_memory().start().await.unwrap();
    let shop = here.mailbox("shop").unwrap();
    let anyone = Export { anyone: Rights::ALL, ..Export::default() };
    let segment = here.export("bulk", BULK, anyone).unwrap();
    let place = Place::new(here.address().unwrap()).in_site("here");
    let there = Client::builder("there").site("there").topology(topology).join(place).connect().await.unwrap();
    there.send_short("", "shop", ["first"]).await.unwrap();
    next(&shop).await;
    let far = there.import("here/bulk").await.unwrap();
    far.write(0, vec![1; BULK as usize]).await.unwrap();
    there.send_short("", "shop", ["second"]).await.unwrap();
    next(&shop).await;
    let mut last = [0];
    segment.read(BULK - 1, &mut last).unwrap();
    assert_eq!(last, [0], "the bulk, which takes a second, was sent before it and is not there");
    far.flush().await.unwrap();
    segment.read(BULK - 1, &mut last).unwrap();
    assert_eq!(last, [1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_message_is_read_when_its_receiver_likes_and_the_sender_goes_on() {
    let Pair { shop, buyer, node, other } = pair().await;
    let mine = node.export("mine", 1 << 20, Export::default()).unwrap();
    mine.write(100, b"part of a segment").unwrap();
    let long = Long::of(bytes_of(LARGE)).and(&b"second"[..]).and_part(&mine, 100, 17).item("catalogue");
    let sent = shop.send_long("buyer", long).await.unwrap();
    // The sender serves its next request at once.
    shop.send("buyer", ["next"]).await.unwrap();
    let message = next(&buyer).await;
    assert_eq!(message.items(), ["catalogue"]);
    assert_eq!(next(&buyer).await.items(), ["next"]);
    let buffers = message.buffers();
    assert_eq!(buffers.iter().map(|buffer| buffer.bytes()).collect::<Vec<_>>(), [LARGE as u64, 6, 17]);
    assert_eq!(node.client().message_load(), (0, 1, LARGE as u64 + 6), "what is held is the sender's own copy");
    assert_eq!(name_of(buffers[0].fetch(1_000).await), names::LIMIT_EXCEEDED, "whoever reads says how much");
    assert!(buffers[0].fetch(1 << 30).await.unwrap() == bytes_of(LARGE));
    assert_eq!(buffers[1].read(2, 3).await.unwrap().as_ref(), b"con");
    assert_eq!(buffers[2].fetch(100).await.unwrap().as_ref(), b"part of a segment");
    drop(message);
    tokio::time::timeout(SOON, sent.completed()).await.unwrap().unwrap();
    assert_eq!(node.client().message_load(), (0, 0, 0));
    assert!(mine.write(0, b"still there").is_ok());
    // To a service of its own node.
    let till = node.mailbox("till").unwrap();
    let sent = shop.send_long("till", Long::of(bytes_of(LARGE))).await.unwrap();
    let message = next(&till).await;
    assert!(message.buffers()[0].fetch(1 << 30).await.unwrap() == bytes_of(LARGE));
    assert_eq!(name_of(message.buffers()[0].read(0, 1).await), names::GRANT_VOID);
    drop(message);
    sent.completed().await.unwrap();
    drop(other);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_one_host_buffers_are_copied_and_not_sent() {
    let Pair { shop, buyer, node, other } = pair().await;
    let near = |client: &Client| {
        let MessageCounts { lent, read_near, returned_near, .. } = client.message_counts();
        (lent, read_near, returned_near)
    };
    for round in 1..=3 {
        let sent = shop.send_long("buyer", Long::of(bytes_of(LARGE))).await.unwrap();
        let message = next(&buyer).await;
        let buffer = message.buffers().remove(0);
        assert!(buffer.read(7, 90_000).await.unwrap() == bytes_of(LARGE).slice(7..90_007));
        for (offset, count) in [(0, LARGE as u64 + 1), (LARGE as u64, 1), (u64::MAX, 1)] {
            assert_eq!(name_of(buffer.read(offset, count).await), names::OUT_OF_BOUNDS, "{offset} {count}");
        }
        assert!(buffer.read(300_000, 700_003).await.unwrap() == bytes_of(LARGE).slice(300_000..1_000_003));
        assert_eq!(name_of(message.buffers()[0].read(0, 1).await), names::GRANT_VOID, "four pieces were granted");
        drop(message);
        tokio::time::timeout(SOON, sent.completed()).await.unwrap().unwrap();
        assert_eq!(name_of(buffer.read(0, 1).await), names::GRANT_VOID, "nor is it there after it was let go");
        let question = other.ask("shop", Question::new(["?"]).room(LARGE as u64));
        let served = async { next(&shop).await.answer(bytes_of(LARGE)).await.unwrap() };
        let (answer, carrier) = tokio::join!(question, served);
        let Ok(Answer::Returned(bytes)) = answer else { panic!("{answer:?}") };
        assert!(bytes == bytes_of(LARGE) && carrier == Carrier::Returned);
        assert_eq!((near(&node.client()), near(&other)), ((round, 0, round), (round, 2 * round, 0)), "what is seen");
    }
    // What is larger than its part of the memory is asked for by the link, and comes in pieces in the same memory, but for the byte that is left.
    let large = Bytes::from(vec![1; (4 << 20) + 1]);
    let sent = shop.send_long("buyer", Long::of(large.clone())).await.unwrap();
    let message = next(&buyer).await;
    assert!(message.buffers()[0].fetch(1 << 30).await.unwrap() == large);
    drop(message);
    sent.completed().await.unwrap();
    assert_eq!(near(&other), (3, 6 + 16, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_lent_is_gone_with_its_time_and_the_memory_with_its_partner() {
    let policy = MessagePolicy { lent_max: 1, ..MessagePolicy::default() };
    let Pair { shop, buyer, node, other } = pair_within(policy.clone()).await;
    let lent = || node.client().message_counts().lent;
    let send = async |to: &str, lasts| shop.send_long(to, Long::of(bytes_of(MEDIUM)).lasts(lasts)).await.unwrap();
    let late = send("buyer", Duration::from_millis(1)).await;
    let message = next(&buyer).await;
    assert_eq!(name_of(late.completed().await), names::DEADLINE_EXCEEDED);
    assert_eq!(name_of(message.buffers()[0].fetch(1 << 20).await), names::GRANT_VOID);
    drop(message);
    let taken_back = send("buyer", SOON).await;
    let message = next(&buyer).await;
    assert!(taken_back.take_back());
    assert_eq!(name_of(message.buffers()[0].fetch(1 << 20).await), names::GRANT_VOID);
    assert_eq!((lent(), other.message_counts().read_near), (2, 0));
    drop(message);
    // Another gets none while the one memory that this node lends is the first partner's, ...
    let second = client_of(&node, policy).await;
    let friend = second.mailbox("friend").unwrap();
    meet(&friend, &shop).await;
    let by_link = send("friend", SOON).await;
    let message = next(&friend).await;
    assert!(message.buffers()[0].fetch(1 << 20).await.unwrap() == bytes_of(MEDIUM));
    drop(message);
    by_link.completed().await.unwrap();
    assert_eq!(lent(), 2);
    // ... and gets it when that has gone.
    drop((buyer, other));
    let freed = async {
        while lent() == 2 {
            let sent = send("friend", SOON).await;
            let message = next(&friend).await;
            assert!(message.buffers()[0].fetch(1 << 20).await.unwrap() == bytes_of(MEDIUM));
            drop(message);
            sent.completed().await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON, freed).await.expect("a partner that is gone has kept its memory");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_answer_does_not_reach_whoever_asked_after_it() {
    let Pair { shop, other, .. } = pair().await;
    let ask = async |timeout| {
        let question = Question::new(["?"]).room(LARGE as u64).timeout(timeout);
        other.ask("shop", question).await
    };
    for round in 0..3_u8 {
        assert_eq!(name_of(ask(Duration::from_millis(20)).await), names::DEADLINE_EXCEEDED);
        let late = next(&shop).await;
        let served = async {
            let question = next(&shop).await;
            late.answer(vec![1; LARGE]).await.unwrap();
            assert_eq!(question.answer(vec![2 + round; LARGE]).await.unwrap(), Carrier::Returned);
            assert_eq!(question.answer(vec![1; LARGE]).await.unwrap(), Carrier::Long, "one answer for one buffer");
        };
        let (answer, ()) = tokio::join!(ask(SOON), served);
        let Ok(Answer::Returned(bytes)) = answer else { panic!("{answer:?}") };
        assert!(bytes.iter().all(|byte| *byte == 2 + round));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn completion_is_told_or_rides_along_or_is_left_to_time() {
    let Pair { shop, buyer, node, .. } = pair().await;
    let held = || node.client().message_load().1;
    let send = async |completion, lasts| {
        let long = Long::of(bytes_of(MEDIUM)).completion(completion).lasts(lasts);
        shop.send_long("buyer", long).await.unwrap()
    };
    let rides = send(Completion::Piggybacked, SOON).await;
    let message = next(&buyer).await;
    message.buffers()[0].fetch(1 << 20).await.unwrap();
    let told = send(Completion::Told, SOON).await;
    let second = next(&buyer).await;
    drop(message);
    drop(second);
    // What was said of the first would have come before what is said of the second.
    told.completed().await.unwrap();
    assert_eq!(held(), 1, "nothing is said of the first by itself");
    buyer.send("shop", ["by the way"]).await.unwrap();
    assert_eq!(next(&shop).await.items(), ["by the way"]);
    assert_eq!(held(), 0, "it came with the message, and before it");
    rides.completed().await.unwrap();
    let silent = send(Completion::Timeout, SOON).await;
    let message = next(&buyer).await;
    message.buffers()[0].fetch(1 << 20).await.unwrap();
    drop(message);
    let told = send(Completion::Told, SOON).await;
    drop(next(&buyer).await);
    told.completed().await.unwrap();
    assert_eq!(held(), 1, "nobody said anything, though much was said after it");
    assert!(silent.take_back());
    let over = send(Completion::Timeout, Duration::from_millis(300)).await.completed().await.unwrap_err();
    assert!(over.name == names::DEADLINE_EXCEEDED && over.unknown);
    assert_eq!(held(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_is_in_the_return_buffer_before_its_asker_looks() {
    let Pair { shop, other, node, .. } = pair().await;
    let ask = async |count: usize, room| {
        let question = Question::new([count.to_string()]);
        let question = if let Some(room) = room { question.room(room) } else { question };
        let asked = other.ask("shop", question);
        let served = async {
            let question = next(&shop).await;
            let count: usize = str::from_utf8(&question.items()[0]).unwrap().parse().unwrap();
            question.answer(bytes_of(count)).await.unwrap()
        };
        tokio::join!(asked, served)
    };
    for count in [MEDIUM, LARGE, 12 << 10 | 1] {
        let (answer, carrier) = ask(count, Some(LARGE as u64)).await;
        let Ok(Answer::Returned(bytes)) = answer else { panic!("{answer:?}") };
        assert!(bytes == bytes_of(count) && carrier == Carrier::Returned);
    }
    let (answer, carrier) = ask(100, Some(LARGE as u64)).await;
    assert!(matches!(answer, Ok(Answer::Short(_))) && carrier == Carrier::Short, "what fits goes in a frame");
    for room in [None, Some(MEDIUM as u64 - 1)] {
        let (answer, carrier) = ask(MEDIUM, room).await;
        let answer = answer.unwrap();
        assert!(matches!(answer, Answer::Long(_)) && carrier == Carrier::Long, "without room it is left to be read");
        assert!(answer.bytes().await.unwrap() == bytes_of(MEDIUM));
    }
    until(|| node.client().message_load().1 == 0).await;
    assert_eq!(other.message_load(), (0, 0, 0), "nothing is held for what was answered");
    let MessageCounts { answered_short, answered_returned, answered_long, .. } = node.client().message_counts();
    assert_eq!((answered_short, answered_returned, answered_long), (1, 3, 2), "who worked can be seen");
}

/// Who asks reads nothing of its link for a while: its part of what is under way to it is full, and the rest of the answer finds no room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_its_asker_does_not_take_into_its_return_buffer_is_left_to_be_read() {
    let held = HeldPort::new();
    let listen = held.address.to_string();
    let mut relay = Relay::to(listen.clone()).await;
    let asker = Node::builder("asker").listen(&listen).advertise(&relay.address).without_shared_memory();
    let asker = asker.start().await.unwrap();
    let server = Node::builder("server").without_shared_memory().join(Place::new(&relay.address));
    let server = server
        .segment_policy(SegmentPolicy { unflushed_bytes_max: MEDIUM as u64, ..SegmentPolicy::default() })
        .message_policy(MessagePolicy { return_time_max_us: 300_000, ..MessagePolicy::default() });
    let server = server.start().await.unwrap();
    let (shop, buyer) = (server.mailbox("shop").unwrap(), asker.mailbox("buyer").unwrap());
    meet(&shop, &buyer).await;

    let client = asker.client();
    let asked = tokio::spawn(async move { client.ask("shop", Question::new(["?"]).room(LARGE as u64)).await });
    let question = next(&shop).await;
    relay.allow(MEDIUM as u64 / 5);
    let answered = tokio::time::timeout(SOON, question.answer(bytes_of(LARGE))).await;
    assert_eq!(answered.expect("the server waits for it").unwrap(), Carrier::Long);
    let MessageCounts { answered_returned, answered_long, .. } = server.client().message_counts();
    assert_eq!((answered_returned, answered_long), (0, 1), "it was meant to be returned");
    relay.holds().await;
    relay.allow(u64::MAX);
    let answer = tokio::time::timeout(SOON, asked).await.expect("no answer came").unwrap().unwrap();
    assert!(matches!(answer, Answer::Long(_)), "{answer:?}");
    assert!(answer.bytes().await.unwrap() == bytes_of(LARGE));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loaded_server_leaves_the_work_to_who_asks() {
    let policy = MessagePolicy { loaded_waiting_min: 2, ..MessagePolicy::default() };
    let Pair { shop, other, node, .. } = pair_within(policy).await;
    let question = || Question::new(["?"]).room(LARGE as u64);
    let asked = futures_util::future::join_all((0..3).map(|_| other.ask("shop", question())));
    let served = async {
        until(|| node.client().message_load().0 == 3).await;
        let mut carriers = Vec::new();
        for _ in 0..3 {
            let question = next(&shop).await;
            carriers.push(question.answer(bytes_of(MEDIUM)).await.unwrap());
        }
        carriers
    };
    let (answers, carriers) = tokio::join!(asked, served);
    assert_eq!(carriers, [Carrier::Long, Carrier::Returned, Carrier::Returned], "while two more waited, and after");
    for answer in answers {
        assert!(answer.unwrap().bytes().await.unwrap() == bytes_of(MEDIUM));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_never_reads_holds_up_only_who_writes_to_him() {
    let policy = MessagePolicy { held_per_peer_max: 3, held_bytes_per_peer_max: 350_000, ..MessagePolicy::default() };
    let long = || Long::of(bytes_of(MEDIUM)).lasts(Duration::from_secs(3_600));
    let three = async |shop: &Mailbox| {
        let mut sent = Vec::new();
        for _ in 0..3 {
            sent.push(shop.send_long("buyer", long()).await.unwrap());
        }
        sent
    };
    let Pair { shop, node, other: _buyers, buyer: _never_reads } = pair_within(policy.clone()).await;
    let friend = client_of(&node, policy.clone()).await;
    let pen_pal = friend.mailbox("friend").unwrap();
    meet(&pen_pal, &shop).await;
    let sent = three(&shop).await;
    assert_eq!(name_of(shop.send_long("buyer", long()).await), names::OVERLOADED, "his part is full");
    let other = shop.send_long("friend", long()).await.unwrap();
    let message = next(&pen_pal).await;
    assert!(message.buffers()[0].fetch(1 << 20).await.unwrap() == bytes_of(MEDIUM), "another has his own");
    drop(message);
    other.completed().await.unwrap();
    assert!(sent.into_iter().all(|sent| sent.take_back()), "his were held all the while");
    // He holds on to the messages; the node does not.
    let policy = MessagePolicy { held_time_max_us: 400_000, ..policy };
    let Pair { shop, node, other: _buyers, buyer } = pair_within(policy).await;
    let sent = three(&shop).await;
    let (first, second) = (next(&buyer).await, next(&buyer).await);
    for sent in sent {
        assert_eq!(name_of(sent.completed().await), names::DEADLINE_EXCEEDED);
    }
    assert_eq!(node.client().message_load(), (0, 0, 0));
    let why = name_of(first.buffers()[0].fetch(1 << 20).await);
    assert!([names::GRANT_VOID, names::SEGMENT_REVOKED, names::SEGMENT_STALE].contains(&why.as_str()), "{why}");
    drop(second);
    assert!(shop.send_long("buyer", long()).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_reads_twice_or_elsewhere_gets_nothing() {
    let Pair { shop, buyer, node, .. } = pair().await;
    let mine = node.export("mine", 4_096, Export::default()).unwrap();
    mine.write(0, &[1; 4_096]).unwrap();
    let sent = shop.send_long("buyer", Long::default().and_part(&mine, 1_000, 100)).await.unwrap();
    let message = next(&buyer).await;
    let buffer = message.buffers().remove(0);
    for (offset, count) in [(0, 101), (100, 1), (u64::MAX, 1), (1, u64::MAX)] {
        assert_eq!(name_of(buffer.read(offset, count).await), names::OUT_OF_BOUNDS, "{offset} {count}");
    }
    assert_eq!(buffer.read(0, 100).await.unwrap().as_ref(), [1; 100]);
    assert_eq!(name_of(buffer.read(0, 100).await), names::GRANT_VOID, "a second time");
    drop(message);
    sent.completed().await.unwrap();
    // As often as its sender says.
    let sent = shop.send_long("buyer", Long::of(&b"thrice"[..]).requests(3)).await.unwrap();
    let message = next(&buyer).await;
    let buffer = message.buffers().remove(0);
    for _ in 0..3 {
        assert_eq!(buffer.read(0, 6).await.unwrap().as_ref(), b"thrice");
    }
    assert_eq!(name_of(buffer.read(0, 1).await), names::GRANT_VOID);
    assert!(sent.take_back());
    // What its sender took back is gone, however often it might have been read.
    let sent = shop.send_long("buyer", Long::default().and_part(&mine, 0, 8).requests(100)).await.unwrap();
    let message = next(&buyer).await;
    assert!(sent.take_back());
    assert_eq!(name_of(message.buffers()[0].read(0, 1).await), names::GRANT_VOID);
    assert!(mine.write(0, b"the sender's own bytes are untouched").is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sender_that_changes_the_bytes_meanwhile_sends_what_he_changed_them_to() {
    let Pair { shop, buyer, node, .. } = pair().await;
    let mine = node.export("mine", 16, Export::default()).unwrap();
    mine.write(0, b"one thing       ").unwrap();
    let long = Long::default().and_part(&mine, 0, 16).requests(2);
    let _sent = shop.send_long("buyer", long).await.unwrap();
    let message = next(&buyer).await;
    let buffer = message.buffers().remove(0);
    let first = buffer.read(0, 16).await.unwrap();
    mine.write(0, b"another         ").unwrap();
    assert_eq!(first.as_ref(), b"one thing       ", "what was read is the receiver's own, and stays");
    assert_eq!(buffer.read(0, 16).await.unwrap().as_ref(), b"another         ");
    mine.revoke().await.unwrap();
    assert!(buffer.read(0, 16).await.is_err());
    shop.signal("buyer").await.unwrap();
    assert!(next(&buyer).await.is_signal(), "and nobody else is hurt");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_ends_when_its_server_is_silent_or_gone() {
    let Pair { shop, other, node, .. } = pair().await;
    let question = || Question::new(["?"]).room(MEDIUM as u64);
    let silent = other.ask("shop", question().timeout(Duration::from_millis(50))).await.unwrap_err();
    assert!(silent.name == names::DEADLINE_EXCEEDED && silent.unknown, "{silent}");
    assert_eq!(other.message_load(), (0, 0, 0));
    let late = next(&shop).await;
    assert_eq!(late.answer(bytes_of(MEDIUM)).await.unwrap(), Carrier::Returned);
    assert_eq!(late.answer(&b"short"[..]).await.unwrap(), Carrier::Short);
    until(|| other.message_counts().late == 1).await;
    let asked = other.ask("shop", question());
    let gone = async {
        let _unanswered = next(&shop).await;
        node.close(Duration::ZERO).await;
    };
    let (lost, ()) = tokio::join!(asked, gone);
    let lost = lost.unwrap_err();
    assert!(lost.name == names::OWNER_LOST && lost.unknown, "{lost}");
    assert_eq!(other.message_load(), (0, 0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn messages_right_behind_one_another_do_not_wait_for_a_service_that_holds_its_thread() {
    const MESSAGES: u8 = 20;
    let (open, gate) = std::sync::mpsc::sync_channel::<()>(1);
    let gate = Arc::new(Mutex::new(gate));
    let service = Service::new("a").function_in("tell", move |context: Called, (): ()| {
        let gate = Arc::clone(&gate);
        async move {
            for number in 0..MESSAGES {
                context.client().send_short("shop", "buyer", [Bytes::from(vec![number])]).await?;
            }
            // Without an `await`, as code does that computes for long: those that the link has put off are written all the same.
            gate.lock().unwrap().recv_timeout(SOON)?;
            Ok(())
        }
    });
    let node = Node::builder("node").listen("127.0.0.1:0").service(service).start().await.unwrap();
    let shop = node.mailbox("shop").unwrap();
    let other = client_of(&node, MessagePolicy::default()).await;
    let buyer = other.mailbox("buyer").unwrap();
    meet(&buyer, &shop).await;
    for _ in 0..10 {
        let caller = other.clone();
        let call = tokio::spawn(async move { caller.call::<_, ()>("a", "tell", &()).await });
        for number in 0..MESSAGES {
            assert_eq!(next(&buyer).await.items()[0].as_ref(), [number]);
        }
        open.send(()).unwrap();
        call.await.unwrap().unwrap();
    }
}
