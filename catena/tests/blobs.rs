//! Values by reference: bytes cross the links that need them, and no others.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
#[path = "common/held.rs"]
mod held;

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use catena::{
    Blob, BlobBytes, Client, Context, LinkShape, MessagePolicy, Mode, Node, Place, RunOptions, Service, Topology,
    Value, exceptions, from_value, to_value,
};
use common::{PATIENCE, SANDBOX, service};
use futures_util::{TryStreamExt, future::ready};
use held::HeldPort;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

const MB: u64 = 1 << 20;

/// A service that paints and looks.
fn painter(name: &str) -> Service {
    service(name, &Arc::new(AtomicU64::new(0)))
        .function_in("paint", async |context: Context, bytes: u64| {
            let bytes: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
            Ok(context.blob(&bytes, "image/x-test")?)
        })
        .function("sum", async |picture: Blob| {
            Ok(picture.bytes().await?.iter().map(|byte| u64::from(*byte)).sum::<u64>())
        })
        // The lengths of the largest piece and of all.
        .function("pieces", async |picture: Blob| {
            let lengths = picture.stream().map_ok(|piece| piece.len() as u64);
            let sums =
                lengths.try_fold((0, 0), |(largest, all), bytes: u64| ready(Ok((bytes.max(largest), all + bytes))));
            Ok(sums.await?)
        })
        .function_raw("ignore", |_, _| async { Ok(Value::null()) })
        // Reads nothing, and returns when so many bytes have come anyway.
        .function_in("expect", async |context: Context, picture: Blob| {
            while context.client().traffic().received_bytes < picture.size() {
                tokio::task::yield_now().await;
            }
            Ok(picture.slice(3, 5).bytes().await?.to_vec())
        })
}

/// These nodes, all linked with each other, and a client; nobody shares memory, so that what crosses a link can be seen.
async fn nodes(names: &[&str]) -> (Vec<Node>, Client) {
    let mut nodes: Vec<Node> = Vec::new();
    for name in names {
        let builder = Node::builder(*name).listen("127.0.0.1:0").sandbox(SANDBOX.clone()).service(painter(name));
        let builder = nodes.iter().fold(builder, |builder, node| builder.join(Place::new(node.address().unwrap())));
        nodes.push(builder.without_shared_memory().start().await.unwrap());
    }
    let client = Client::builder("client").sandbox(SANDBOX.clone()).without_shared_memory();
    let client = nodes.iter().fold(client, |builder, node| builder.join(Place::new(node.address().unwrap())));
    (nodes, client.connect().await.unwrap())
}

/// Bytes that came to a node from another.
fn received(node: &Client, from: &str) -> u64 {
    let all = node.traffic_by_node();
    all.iter().filter(|(name, _)| name == from).map(|(_, traffic)| traffic.received_bytes).sum()
}

async fn run(client: &Client, source: &str) -> Value {
    let code = client.javascript("test.js", source).await.unwrap();
    client.run(&code, &()).await.unwrap().last().await.unwrap()
}

/// The value of a chain, and what each of its steps read of blobs, if anything.
async fn profiled(client: &Client, source: &str, mode: Mode) -> (Value, Vec<(String, BlobBytes)>) {
    let code = client.javascript("test.js", source).await.unwrap();
    let options = RunOptions { profile: true, mode, ..RunOptions::default() };
    let mut replies = client.run_with(&code, &to_value(&()).unwrap(), &options).unwrap();
    let value = replies.last().await.unwrap();
    let read = replies.trace().iter().filter_map(|step| Some((step.target.clone(), **step.blobs.as_ref()?)));
    (value, read.collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_tells_what_each_step_read_of_blobs_and_by_which_way_it_came() {
    const SIZE: u64 = 1_000_000;
    let (_nodes, client) = nodes(&["a", "b"]).await;
    let source = r#"import { call } from "catena";
        export default async () => {
            const picture = await call("a/paint", 1_000_000);
            const own = await call("a/sum", picture);
            await call("b/where", null);
            const three = await picture.slice(0, 3).bytes();
            return [own, three.length, await call("b/sum", picture), await call("a/where", null)];
        };"#;
    for mode in [Mode::Chain, Mode::Interactive] {
        let (value, mut read) = profiled(&client, source, mode).await;
        let (own, three, far, _): (u64, u64, u64, String) = from_value(&value).unwrap();
        assert_eq!((own, three, far), (sum_of(SIZE), 3, sum_of(SIZE)));
        read.sort_by(|(one, _), (other, _)| one.cmp(other));
        let by_link = BlobBytes { link: 3, ..BlobBytes::default() };
        let own = BlobBytes { own: SIZE, ..BlobBytes::default() };
        let [(first, of_a), (second, of_b), (third, of_function)] = &read[..] else { panic!("{mode:?}: {read:?}") };
        assert_eq!([first, second, third], ["a/sum", "b/sum", "catena.blob/bytes"], "{mode:?}");
        assert_eq!((of_a, of_function), (&own, &by_link), "{mode:?}");
        // Whoever is first, its owner or who asks: it came once.
        assert_eq!((of_b.link + of_b.pushed, of_b.total()), (SIZE, SIZE), "{mode:?}: {of_b:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_one_host_the_bytes_of_a_blob_are_copied_and_not_sent() {
    const SIZE: u64 = 3 * MB + 5;
    // The second lends more than its partner maps: what it lends is asked for by the link after all.
    for (lent_bytes_per_peer_max, maps) in [(16 * MB, true), (128 * MB, false)] {
        let policy = MessagePolicy { lent_bytes_per_peer_max, ..MessagePolicy::default() };
        let ping = Service::new("owner").function("ping", async |(): ()| Ok(()));
        let owner = Node::builder("owner").listen("127.0.0.1:0").message_policy(policy).service(ping);
        let owner = owner.start().await.unwrap();
        let bytes: Vec<u8> = (0..SIZE).map(|at| (at % 251) as u8).collect();
        let blob = owner.client().blob(&bytes, "").unwrap();
        let place = Place::new(owner.address().unwrap());
        let reader = Client::builder("reader").join(place).connect().await.unwrap();
        let there = blob.clone().on(&reader);
        let before = reader.traffic().received_bytes;
        let (whole, part) = tokio::join!(there.bytes(), there.read(77_777..1_077_778));
        assert!(whole.unwrap() == bytes && part.unwrap() == bytes[77_777..1_077_778]);
        let (near, crossed) = (reader.message_counts().read_near, reader.traffic().received_bytes - before);
        match maps {
            true => assert!(near >= 16 && crossed < 100_000, "{near} pieces copied, {crossed} bytes sent"),
            false => assert!(near == 0 && crossed > SIZE, "{near} pieces copied, {crossed} bytes sent"),
        }
        // What was taken is told by the same link: before the first of these, or when an answer that came before the first one's is there.
        for _ in 0..2 {
            reader.call::<_, ()>("owner", "ping", &()).await.unwrap();
        }
        assert_eq!(owner.client().message_load().1, 0, "what was taken is let go");
        assert!(blob.release());
        assert_eq!(
            there.bytes().await.unwrap_err().name,
            exceptions::BLOB_LOST,
            "a grant that is over is over here too"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blob_that_four_hops_carry_crosses_the_link_from_its_owner_to_its_user_alone() {
    const NAMES: [&str; 4] = ["a", "b", "c", "d"];
    const SIZE: u64 = 10 * MB;
    let (nodes, client) = nodes(&NAMES).await;
    let source = r#"import { call } from "catena";
        export default async () => {
            const picture = await call("a/paint", 10 * 1024 * 1024);
            await call("b/where", null);
            await call("c/echo", { size: picture.size });
            return [await call("d/sum", picture), picture];
        };"#;
    let (sum, picture): (u64, Blob) = {
        let code = client.javascript("test.js", source).await.unwrap();
        client.run(&code, &()).await.unwrap().value().await.unwrap()
    };
    assert_eq!(sum, (0..SIZE).map(|at| at % 251).sum::<u64>());
    let links: Vec<(&str, Client)> = NAMES.into_iter().zip(nodes.iter().map(Node::client)).collect();
    for (to, node) in links.iter().map(|(to, node)| (*to, node)).chain([("client", &client)]) {
        for from in NAMES.into_iter().chain(["client"]) {
            let bytes = received(node, from);
            match (from, to) {
                ("a", "d") => assert!((SIZE..SIZE + SIZE / 50).contains(&bytes), "a to d: {bytes}"),
                _ => assert!(bytes < 200_000, "{from} to {to}: {bytes}"),
            }
        }
    }
    // The answer's bytes come when they are asked for, as many as are asked for, from their owner.
    assert_eq!(picture.read(251..254).await.unwrap(), &[0, 1, 2][..]);
    assert!(received(&client, "a") < 200_000);
    let (mut whole, mut told) = (Vec::new(), Vec::new());
    picture.copy_to(&mut whole, |bytes| told.push(bytes)).await.unwrap();
    assert_eq!((whole.len() as u64, told.last()), (SIZE, Some(&SIZE)));
    assert!(told.is_sorted() && told.len() > 10, "{told:?}");
    assert!((SIZE..SIZE + SIZE / 50).contains(&received(&client, "a")), "{}", received(&client, "a"));
    assert!(received(&client, "d") < 200_000, "the chain ended there, and the bytes are elsewhere");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parameters_bytes_come_before_anybody_asks_for_them() {
    let (_nodes, client) = nodes(&["a", "b"]).await;
    let source = r#"import { call } from "catena";
        export default async () => call("b/expect", await call("a/paint", 1_000_000));"#;
    assert_eq!(from_value::<Vec<u8>>(&run(&client, source).await).unwrap(), [3, 4]);
}

/// Milliseconds from each of these to each other, one way.
type Ways<'w> = &'w [(&'w str, &'w str, u64)];

/// Nodes as far from each other as is said, all linked, and a client in a site of its own; the blob of so many bytes is the first one's.
async fn far_nodes(names: &[&str], ways: Ways<'_>) -> (Vec<Node>, Client) {
    let shape = |ms| LinkShape { delay_us: ms * 1_000, bytes_per_s: 1 << 30 };
    let topology = ways.iter().fold(Topology::new(), |all, (from, to, ms)| all.with(from, to, shape(*ms)));
    let topology = Arc::new(topology);
    let mut places: Vec<Place> = Vec::new();
    let mut nodes = Vec::new();
    for name in names {
        let builder = Node::builder(*name).site(*name).topology(Arc::clone(&topology)).listen("127.0.0.1:0");
        let builder = builder.sandbox(SANDBOX.clone()).service(painter(name));
        let builder = places.iter().cloned().fold(builder, catena::NodeBuilder::join);
        let node = builder.start().await.unwrap();
        places.push(Place::new(node.address().unwrap()).in_site(*name));
        nodes.push(node);
    }
    let client = Client::builder("client").site("client").topology(topology).sandbox(SANDBOX.clone());
    let client = places.into_iter().fold(client, catena::NodeBuilder::join).connect().await.unwrap();
    (nodes, client)
}

/// Bytes of blobs that a node pushed, and that came to it so and were read.
fn pushed(node: &Node) -> (u64, u64) {
    node.client().blobs_pushed()
}

fn sum_of(bytes: u64) -> u64 {
    (0..bytes).map(|at| at % 251).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_calls_sends_the_bytes_beside_the_call() {
    const SIZE: u64 = 1_000_000;
    let (nodes, client) = far_nodes(&["a"], &[("a", "client", 200)]).await;
    let bytes: Vec<u8> = (0..SIZE).map(|at| (at % 251) as u8).collect();
    let blob = client.blob(&bytes, "").unwrap();
    let sum: u64 = client.call("a", "sum", &blob).await.unwrap();
    assert_eq!(sum, sum_of(SIZE));
    assert_eq!((client.blobs_pushed(), pushed(&nodes[0])), ((SIZE, 0), (0, SIZE)), "before they were asked for");
    let crossed = received(&nodes[0].client(), "client");
    assert!((SIZE..SIZE + SIZE / 50).contains(&crossed), "once: {crossed}");
    // Again, at once: they were asked for a moment ago, and who wants them again asks again.
    let sum: u64 = client.call("a", "sum", &blob.slice(0, 251)).await.unwrap();
    assert_eq!(sum, sum_of(251));
    // Whoever streams gets pieces, though they have come as one.
    let streamed: (u64, u64) = client.call("a", "pieces", &blob).await.unwrap();
    assert_eq!(streamed, (256 << 10, SIZE));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_far_from_the_chain_is_told_when_the_chain_hops() {
    const SIZE: u64 = 1_000_000;
    let ways =
        [("a", "b", 200), ("a", "c", 200), ("b", "c", 200), ("client", "a", 1), ("client", "b", 1), ("client", "c", 1)];
    let (nodes, client) = far_nodes(&["a", "b", "c"], &ways).await;
    let source = r#"import { call } from "catena";
        export default async () => {
            const picture = await call("a/paint", 1_000_000);
            await call("c/where", null);
            return call("b/sum", picture);
        };"#;
    let (sum, read) = profiled(&client, source, Mode::Chain).await;
    assert_eq!(from_value::<u64>(&sum).unwrap(), sum_of(SIZE));
    assert_eq!(read, [("b/sum".to_owned(), BlobBytes { pushed: SIZE, ..BlobBytes::default() })]);
    assert_eq!((pushed(&nodes[0]), pushed(&nodes[1])), ((SIZE, 0), (0, SIZE)), "c told a, and a sent b");
    let crossed = received(&nodes[1].client(), "a");
    assert!((SIZE..SIZE + SIZE / 50).contains(&crossed), "once: {crossed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_callee_asks_for_first_is_not_pushed_as_well() {
    const SIZE: u64 = 1_000_000;
    // From c it is so far to a that the word comes there after the callee's own.
    let ways =
        [("a", "b", 10), ("a", "c", 500), ("b", "c", 10), ("client", "a", 1), ("client", "b", 1), ("client", "c", 1)];
    let (nodes, client) = far_nodes(&["a", "b", "c"], &ways).await;
    let paint = client.call::<_, Blob>("a", "paint", &SIZE).await.unwrap();
    let source = r#"import { call } from "catena";
        export default async (picture) => {
            await call("c/where", null);
            const sum = await call("b/sum", picture);
            return [sum, await call("a/where", null)];
        };"#;
    let code = client.javascript("test.js", source).await.unwrap();
    let (sum, _): (u64, String) = client.run(&code, &paint).await.unwrap().value().await.unwrap();
    assert_eq!(sum, sum_of(SIZE));
    // What c said came to a before anything that it says now: small messages keep their order.
    nodes[2].client().call::<_, String>("a", "where", &()).await.unwrap();
    assert_eq!((pushed(&nodes[0]), pushed(&nodes[1])), ((0, 0), (0, 0)));
    let crossed = received(&nodes[1].client(), "a");
    assert!((SIZE..SIZE + SIZE / 50).contains(&crossed), "once: {crossed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callee_that_reads_nothing_costs_a_bounded_part_and_may_read_it_later() {
    const SIZE: u64 = 10 * MB;
    let (nodes, client) = far_nodes(&["a"], &[("a", "client", 100)]).await;
    let bytes: Vec<u8> = (0..SIZE).map(|at| (at % 251) as u8).collect();
    let blob = client.blob(&bytes, "").unwrap();
    for _ in 0..3 {
        client.call::<_, ()>("a", "ignore", &blob).await.unwrap();
    }
    let crossed = || received(&nodes[0].client(), "client");
    let came = async {
        while crossed() < 4 * MB {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, came).await.expect("what is pushed comes");
    client.call::<_, ()>("a", "ignore", &()).await.unwrap();
    assert!(crossed() < 4 * MB + MB / 4, "{}", crossed());
    assert_eq!((client.blobs_pushed(), pushed(&nodes[0])), ((4 * MB, 0), (0, 0)));
    // Whoever reads it soon finds them there, and asks for the rest.
    let sum: u64 = client.call("a", "sum", &blob).await.unwrap();
    assert_eq!(sum, sum_of(SIZE));
    assert!(crossed() < SIZE + SIZE / 50, "{}", crossed());
    assert_eq!((client.blobs_pushed(), pushed(&nodes[0])), ((4 * MB, 0), (0, 4 * MB)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_reads_where_it_is() {
    let (nodes, client) = nodes(&["a", "b"]).await;
    let picture = client.blob("h\u{e9}llo, w\u{f6}rld".as_bytes(), "text/plain").unwrap();
    let code = client
        .javascript(
            "test.js",
            r#"import { call, emit, log } from "catena";
            export default async ({ held: [text] }) => {
                log(text);
                const [mine, there] = [await text.slice(0, 6).text(), await call("b/where", null)];
                emit(text.slice(8));
                const both = await Promise.all([text.slice(-6).text(), text.slice(0, 3).bytes()]);
                const long = await call("a/paint", 20_000_000);
                const refused = await long.bytes().catch((why) => why.name);
                return [text.size, text.type, mine, there, ...both, refused, text];
            };"#,
        )
        .await
        .unwrap();
    let mut replies = client.run(&code, &json_with(&picture)).await.unwrap();
    let emitted: Blob = replies.next().await.unwrap().unwrap().decode().unwrap();
    assert!(emitted.bytes().await.unwrap_err().message.contains("say with `on`"));
    assert_eq!(emitted.on(&client).text().await.unwrap(), "w\u{f6}rld");
    type Answer = (u64, String, String, String, String, serde_bytes::ByteBuf, String, Blob);
    let answer: Answer = replies.value().await.unwrap();
    assert_eq!(
        (answer.0, answer.1.as_str(), answer.2.as_str(), answer.3.as_str()),
        (14, "text/plain", "h\u{e9}llo", "b")
    );
    assert_eq!((answer.4.as_str(), answer.5.as_slice()), ("w\u{f6}rld", "h\u{e9}".as_bytes()));
    assert_eq!(answer.6, exceptions::LIMIT_EXCEEDED);
    assert_eq!(answer.7, picture);
    assert!(received(&nodes[1].client(), "a") < 100_000, "what is refused is not fetched");
}

#[derive(Serialize)]
struct Holding<'a> {
    held: [&'a Blob; 1],
}

fn json_with(blob: &Blob) -> Holding<'_> {
    Holding { held: [blob] }
}

#[tokio::test(flavor = "multi_thread")]
async fn blobs_are_bounded_charged_and_given_back() {
    let client = Client::builder("client").sandbox(SANDBOX.clone()).blob_bytes_max(3 * MB).blob_grace(Duration::ZERO);
    let client = client.connect().await.unwrap();
    let bytes = vec![7; MB as usize];
    let all: Vec<Blob> = (0..3).map(|_| client.blob(&bytes, "").unwrap()).collect();
    let why = client.blob(&[1], "").unwrap_err();
    assert_eq!(why.name, exceptions::OVERLOADED);
    assert!(why.message.contains("blob_bytes_max"), "{why}");
    assert_eq!(client.blobs_held(), (3, 3 * MB));
    assert!(all[0].slice(5, 9).release(), "a part stands for the whole");
    assert_eq!(client.blobs_held(), (2, 2 * MB));
    let empty = client.blob(&[], "text/plain").unwrap();
    assert_eq!(empty.bytes().await.unwrap(), &[][..]);
    assert_eq!(all[1].read(MB - 2..u64::MAX).await.unwrap(), &[7, 7][..], "no further than it reaches");
    let why = client.blob(&[1], &"x".repeat(257)).unwrap_err();
    assert_eq!(why.name, exceptions::BAD_PARAMETERS);
    // One whose time is over is refused, and its memory is given back by itself; it has a second for its megabyte.
    let over = client.blob_for(&bytes, "", Duration::ZERO).unwrap();
    assert_eq!(over.read(0..5).await.unwrap(), &bytes[..5]);
    let why = loop {
        if let Err(why) = over.read(0..5).await {
            break why;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(why.name, exceptions::BLOB_LOST, "{why}");
    while client.blobs_held() != (3, 2 * MB) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_reference_reads_nothing_that_it_was_not_given() {
    let (nodes, client) = nodes(&["a", "b"]).await;
    let secret: Blob = client.call("a", "paint", &1_000).await.unwrap();
    let mine: Blob = client.call("a", "paint", &1_000).await.unwrap();
    let honest = to_value(&mine.slice(10, 20)).unwrap();
    assert_eq!(from_value::<Blob>(&honest).unwrap().on(&client).bytes().await.unwrap().len(), 10);
    // From behind the owner's address on: the segment's number, its generation, the grant, the size, the range.
    let bytes = honest.as_bytes();
    let address = secret.owner().address.clone().unwrap().into_bytes();
    let from = bytes.windows(address.len()).position(|at| at == address).unwrap() + address.len();
    let mut refused = 0;
    for bit in from * 8..bytes.len() * 8 {
        let mut forged = bytes.to_vec();
        forged[bit / 8] ^= 1 << (bit % 8);
        let Ok(forged) = Value::from_cbor(forged.into()) else { continue };
        let Ok(forged) = from_value::<Blob>(&forged) else { continue };
        match forged.on(&client).bytes().await {
            // Another part of what it was given, or another size said for the whole.
            Ok(read) => assert!(read.iter().all(|byte| *byte < 251) && read.len() <= 1_000),
            Err(why) => {
                assert!([exceptions::BLOB_LOST, exceptions::OUT_OF_BOUNDS].contains(&&*why.name), "bit {bit}: {why}");
                refused += 1;
            }
        }
    }
    assert!(refused > 100, "{refused}");
    // Another owner, who has nothing of the kind, or is not there at all: named as the reference names it.
    let held = HeldPort::new();
    let (other, dead) = (nodes[1].address().unwrap().to_owned(), held.address.to_string());
    for to in [other, dead] {
        assert_eq!(to.len(), address.len(), "ports have five digits here");
        let mut bytes = bytes.to_vec();
        bytes[from - address.len()..from].copy_from_slice(to.as_bytes());
        // The owner's number comes before its name: another run than any that this client is linked with.
        let id = nodes[0].id().0.to_be_bytes();
        let at = bytes.windows(8).position(|at| at == id).unwrap();
        bytes[at + 7] ^= 1;
        let forged: Blob = from_value(&Value::from_cbor(bytes.into()).unwrap()).unwrap();
        let why = forged.on(&client).bytes().await.unwrap_err();
        assert_eq!((why.name.as_str(), why.unknown), (exceptions::BLOB_LOST, false), "{why}");
        assert!(why.message.contains("its owner a is lost"), "{why}");
    }
    // What is no blob is not taken for one, and a blob is no data.
    #[derive(Serialize, Deserialize, Debug)]
    struct Parts(#[serde(with = "serde_bytes")] Vec<u8>, u64, u64, String);
    assert!(from_value::<Blob>(&to_value(&Parts(vec![], 0, 0, String::new())).unwrap()).is_err());
    assert!(from_value::<Parts>(&honest).is_err());
    let why = client.call::<_, Json>("b", "sum", &json!([1, 2, 3, "x"])).await.unwrap_err();
    assert_eq!(why.name, exceptions::BAD_PARAMETERS);
}
