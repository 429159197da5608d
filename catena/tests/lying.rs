//! A peer that says what is not so of its segments: a clerk whose registry is full of lies, and a sender of long messages that are not there. Each costs its users
//! a bounded look, and nobody else anything.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "common/bound.rs"]
mod bound;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bound::bound;
use bytes::Bytes;
use catena::{Client, Exception, Export, Lookup, Node, Place, Rights, exceptions as names};
use catena_core::segments::registry::{self, RECORD_BYTES, REGISTRY_NAME, Record};
use catena_net::{Endpoint, Handler, Identity, Incoming, Link, LinkError, Message as Frames};
use catena_wire::{
    At, Buffer, Datagram, Encoded, Hello, Lent, Message, NodeId, NodeRef, SegmentEntry, SegmentMessage, SegmentRefusal,
};

/// Far more than it takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// Records that a look-up reads at most, the table's head and one that was torn among them.
const READS_MAX: usize = 258;

/// Answers what is asked about segments as it likes.
struct Liar<F> {
    says: F,
    reads: AtomicUsize,
}

fn send(link: &Link, message: Message) {
    let Encoded { head, tail } = message.encode();
    link.try_send(Frames::new(head, tail)).expect("an open link");
}

impl<F: Fn(SegmentMessage) -> Option<SegmentMessage> + Send + Sync + 'static> Handler for Liar<F> {
    fn on_link(&self, _: &Arc<Link>) {}

    fn on_message(&self, peer: &Arc<Link>, incoming: Incoming) {
        let Incoming::Whole(message) = incoming else { return };
        match Message::decode(Encoded { head: message.head, tail: message.tail }) {
            Ok(Message::List(id)) => send(peer, Message::Listing(id, Vec::new())),
            Ok(Message::Segment(asked)) => {
                if matches!(asked, SegmentMessage::Read { .. }) {
                    self.reads.fetch_add(1, Ordering::Relaxed);
                }
                if let Some(answer) = (self.says)(asked) {
                    send(peer, Message::Segment(answer));
                }
            }
            _ => {}
        }
    }

    fn on_link_lost(&self, _: &Arc<Link>, _: &LinkError) {}
}

/// A node of this name that says so.
async fn liar<F>(name: &str, says: F) -> (Endpoint, Arc<Liar<F>>, Place)
where
    F: Fn(SegmentMessage) -> Option<SegmentMessage> + Send + Sync + 'static,
{
    let (bound, address) = bound().await;
    let node = NodeRef { id: NodeId(4_242), name: name.into(), address: Some(address.clone()), site: None };
    let identity = Identity {
        node: node.id.0,
        site: None,
        hello: Hello { node, services: Vec::new(), repository: false }.encode().into(),
    };
    let liar = Arc::new(Liar { says, reads: AtomicUsize::new(0) });
    let endpoint = bound.start(identity, Arc::clone(&liar) as Arc<dyn Handler>).expect("an endpoint");
    (endpoint, liar, Place::new(address))
}

/// What the request of this kind is refused with, whatever it names.
fn refused(asked: &SegmentMessage) -> Option<SegmentMessage> {
    let (id, why) = match asked {
        SegmentMessage::Read { id, .. } => (id, SegmentRefusal::NeverExported),
        SegmentMessage::Import(id, _) => (id, SegmentRefusal::UnknownName),
        SegmentMessage::Attach { id, .. } => (id, SegmentRefusal::NotShared),
        _ => return None,
    };
    Some(SegmentMessage::Refused(*id, why))
}

fn name_of<T>(result: Result<T, Exception>) -> String {
    result.err().expect("it should have failed").name
}

async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it does not end")
}

/// A table of so many slots, of which each record is this.
const SLOTS: u32 = 1 << 16;

/// A clerk of whose table `record` says what is at an offset, and a client of it and of an honest node.
async fn clerk(
    head: [u8; RECORD_BYTES],
    record: impl Fn() -> Vec<u8> + Send + Sync + 'static,
) -> (Endpoint, impl Fn() -> usize, Client, Node) {
    let says = move |asked: SegmentMessage| match &asked {
        SegmentMessage::Import(id, name) if name == REGISTRY_NAME => {
            let (name, bytes) = (name.clone(), registry::table_bytes(SLOTS));
            let entry = SegmentEntry { name, number: 0, generation: 1, bytes, rights: Rights::READ };
            Some(SegmentMessage::Imported(*id, entry))
        }
        SegmentMessage::Read { id, at, .. } if at.number == 0 => {
            let bytes = if at.offset == 0 { head.to_vec() } else { record() };
            Some(SegmentMessage::Data(*id, bytes.into()))
        }
        _ => refused(&asked),
    };
    let (endpoint, liar, place) = liar("clerk", says).await;
    let honest = Node::builder("honest").listen("127.0.0.1:0").start().await.unwrap();
    let client = Client::builder("client").join(place).join(Place::new(honest.address().unwrap()));
    let client = client.connect().await.unwrap();
    (endpoint, move || liar.reads.swap(0, Ordering::Relaxed), client, honest)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registry_full_of_lies_costs_a_bounded_look_and_misleads_nobody_else() {
    let other = Record { hash: registry::hash("other"), number: 1, anyone: Rights::ALL, generation: 7, bytes: 8 };
    let (head, huge) = (registry::encode_head(SLOTS), registry::encode_head(1 << 31));
    let lies: [(&str, _, Vec<u8>); 5] = [
        ("records that are none", head, vec![7; RECORD_BYTES]),
        ("a name that collides with all there are", head, registry::encode(&other).into()),
        ("nothing but marks", head, registry::deleted(&other).into()),
        ("records that are too short", head, vec![0; 3]),
        ("more slots than bytes", huge, vec![7; RECORD_BYTES]),
    ];
    for (lie, head, record) in lies {
        let (_endpoint, reads, client, honest) = clerk(head, move || record.clone()).await;
        let found = in_time(client.import_with("clerk/wanted", Lookup::Probe)).await;
        assert_eq!(name_of(found), names::UNKNOWN_SEGMENT, "{lie}");
        let reads = reads();
        assert!(reads <= READS_MAX, "{lie}: {reads} records were read");
        let open = Export { anyone: Rights::ALL, ..Export::default() };
        let _wanted = honest.export("wanted", 8, open).unwrap();
        let there = in_time(client.import("honest/wanted")).await.unwrap();
        assert_eq!(there.read(0, 8).await.unwrap().as_ref(), [0; 8], "{lie}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_leads_nowhere_is_refused_where_it_leads() {
    let found = Record {
        hash: registry::hash("wanted"),
        number: 77,
        anyone: Rights::ALL,
        generation: u64::MAX,
        bytes: u64::MAX,
    };
    let (_endpoint, _, client, _honest) =
        clerk(registry::encode_head(SLOTS), move || registry::encode(&found).into()).await;
    let far = in_time(client.import_with("clerk/wanted", Lookup::Probe)).await.unwrap();
    assert_eq!(far.bytes(), u64::MAX, "as it is said to be");
    for (offset, count) in [(0, 8), (0, u64::MAX), (u64::MAX - 8, 8)] {
        assert_eq!(name_of(in_time(far.read(offset, count)).await), names::SEGMENT_STALE, "{count} bytes at {offset}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn buffers_that_are_not_there_or_said_to_be_huge_cost_whoever_reads_them_nothing() {
    let node = Node::builder("node").listen("127.0.0.1:0").start().await.unwrap();
    let shop = node.mailbox("shop").unwrap();
    let (endpoint, _, _) = liar("liar", |asked| refused(&asked)).await;
    let link = endpoint.link(&Place::new(node.address().unwrap())).await.unwrap();
    let at = At { number: 9, generation: 9, offset: 0, grant: Some(5) };
    let lent = Lent { whole: 6, bytes: u64::MAX, word: 0, uses: u32::MAX };
    let huge = Buffer { at, bytes: u64::MAX, lent: None };
    let beyond = Buffer { at: At { offset: u64::MAX - 8, ..at }, ..huge };
    let buffers = vec![huge, beyond, Buffer { lent: Some(lent), ..huge }, Buffer { lent: Some(lent), ..beyond }];
    let number = 1;
    let items = vec![Bytes::from_static(b"catalogue")];
    let (from, to) = ("liar".to_owned(), "shop".to_owned());
    let long = Datagram { from, to, number, items, buffers, ..Datagram::default() };
    send(&link, Message::Segment(SegmentMessage::Short(long.into())));
    let message = in_time(shop.receive()).await;
    assert_eq!((message.from(), message.buffers().len()), ("liar", 4));
    for buffer in message.buffers() {
        assert_eq!(buffer.bytes(), u64::MAX, "what it is said to be, and nothing is kept for it");
        assert_eq!(
            name_of(in_time(buffer.fetch(64 << 20)).await),
            names::LIMIT_EXCEEDED,
            "whoever reads says how much"
        );
        for count in [8, 1 << 20, u64::MAX] {
            let why = name_of(in_time(buffer.read(0, count)).await);
            assert!([names::SEGMENT_STALE, names::OUT_OF_BOUNDS].contains(&why.as_str()), "{count} bytes: {why}");
        }
    }
    assert_eq!(node.client().message_load(), (0, 0, 0));
    drop(message);
    let buyer = Client::builder("buyer").join(Place::new(node.address().unwrap())).connect().await.unwrap();
    buyer.send_short("", "shop", ["apples"]).await.unwrap();
    assert_eq!(in_time(shop.receive()).await.items(), ["apples"], "and nobody else is hurt");
}
