#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::sync::atomic::{AtomicUsize, Ordering};

use catena_wire::{At, Budget, Hash, Lent, Value};

use super::*;
use crate::{Client, Node, Place, Service, messages::post::Post};

/// An event that has not come within this time is taken not to come.
const SOON: Duration = Duration::from_secs(20);

/// A node with a service that counts its calls, and a client that sends it arbitrary messages.
struct Pair {
    node: Node,
    client: Client,
    asked: Arc<AtomicUsize>,
}

impl Pair {
    async fn start() -> Self {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let service = Service::new("count").function_raw("call", move |_, _| {
            count.fetch_add(1, Ordering::SeqCst);
            async { Ok(Value::null()) }
        });
        let node = Node::builder("node").listen("127.0.0.1:0").service(service).start().await.unwrap();
        let client = Client::builder("liar").join(Place::new(node.address().unwrap())).connect().await.unwrap();
        Self { node, client, asked }
    }

    fn link(&self) -> Option<Arc<Link>> {
        self.client.shell().endpoint()?.link_to_node(self.node.id().0)
    }

    /// A link that the node has not given up.
    async fn linked(&self) -> Arc<Link> {
        let place = Place::new(self.node.address().unwrap());
        loop {
            match self.link().filter(|link| link.ended().is_none()) {
                Some(link) => return link,
                None => drop(self.client.shell().join(&place).await),
            }
        }
    }

    /// Announces a message in lent memory, after `lie` has changed where it is said to be.
    async fn tell(&self, head: &[u8], lie: impl FnOnce(Buffer) -> Buffer) -> (Arc<Link>, u64, Buffer) {
        let link = self.linked().await;
        let offer = self.client.shell().offer_for(self.node.id(), &link, head.len() as u64, (SOON, None)).unwrap();
        assert!(offer.put(head));
        let SegmentMessage::Carried(number, buffer) = offer.message() else { panic!() };
        offer.keep();
        assert!(is_posted(&link, SegmentMessage::Carried(number, lie(buffer))));
        (link, number, buffer)
    }

    /// Waits until the message is not held any more.
    async fn taken(&self) {
        until(|| self.client.message_load().1 == 0).await;
    }
}

async fn until(what: impl Fn() -> bool) {
    let looked = async {
        while !what() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(SOON, looked).await.unwrap();
}

type Lie = Box<dyn Fn(Buffer) -> Buffer>;

fn call() -> Vec<u8> {
    let (service, function, params) = ("count".to_owned(), "call".to_owned(), Value::encode(&"x".repeat(100_000)));
    let budget = Budget::new(60_000_000, 1);
    let call = Message::Call {
        id: 1 << 40,
        service,
        function,
        params,
        budget,
        key: None,
        credentials: None,
        duplicate: None,
        age_us: 0,
    };
    call.encode().head.to_vec()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lie_about_a_message_beside_a_link_ends_that_link_and_nothing_else() {
    let pair = Pair::start().await;
    let with = |at: fn(At) -> At, lent: fn(Lent) -> Lent| {
        move |told: Buffer| Buffer { at: at(told.at), lent: told.lent.map(lent), ..told }
    };
    fn same_at(at: At) -> At {
        at
    }
    let lies: [(&str, Lie); 8] = [
        ("past the end", Box::new(with(|at| At { offset: u64::MAX - 5, ..at }, |lent| lent))),
        ("longer than what is lent", Box::new(|told| Buffer { bytes: 1 << 40, ..told })),
        ("nothing", Box::new(|told| Buffer { bytes: 0, ..told })),
        ("not lent", Box::new(|told| Buffer { lent: None, ..told })),
        ("no grant", Box::new(with(|at| At { grant: None, ..at }, |lent| lent))),
        ("a forged grant", Box::new(with(|at| At { grant: at.grant.map(|grant| grant ^ 1), ..at }, |lent| lent))),
        ("another word", Box::new(with(same_at, |lent| Lent { word: lent.word + 8, ..lent }))),
        ("a word outside", Box::new(with(same_at, |lent| Lent { word: u64::MAX - 3, ..lent }))),
    ];
    for (what, lie) in lies {
        let (link, number, _) = pair.tell(&call(), lie).await;
        until(|| link.ended().is_some()).await;
        assert_eq!(pair.asked.load(Ordering::SeqCst), 0, "{what}");
        Post::finish(pair.client.shell().post.machine().let_go(number));
    }
    // A correct announcement is accepted, once.
    let (link, _, buffer) = pair.tell(&call(), |told| told).await;
    until(|| pair.asked.load(Ordering::SeqCst) == 1).await;
    pair.taken().await;
    assert!(link.ended().is_none());
    assert!(is_posted(&link, SegmentMessage::Carried(999, buffer)));
    until(|| link.ended().is_some()).await;
    assert_eq!(pair.asked.load(Ordering::SeqCst), 1, "a grant used twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_calls_and_results_come_beside_a_link() {
    let pair = Pair::start().await;
    let (link, ..) = pair.tell(&[0xff; 1_000], |told| told).await;
    pair.taken().await;
    assert!(link.ended().is_none(), "what is no message is dropped, as by a link");
    let hash = Hash([7; 32]);
    for wrong in [Message::List(1), Message::Segment(SegmentMessage::NotMapped(1)), Message::WantCode(hash)] {
        let (link, ..) = pair.tell(&wrong.encode().head, |told| told).await;
        until(|| link.ended().is_some()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_lies_in_memory_that_is_not_there_is_asked_for_by_the_link_once() {
    let pair = Pair::start().await;
    let unknown = |told: Buffer| Buffer { at: At { number: told.at.number + 1_000, ..told.at }, ..told };
    let (link, number, _) = pair.tell(&call(), unknown).await;
    // A message that was not to go over the link has not done so.
    let node = pair.node.id();
    let shell = Arc::clone(pair.client.shell());
    for number in [number, number, 0, u64::MAX] {
        shell.not_mapped(&link, node, number);
    }
    assert!(link.ended().is_none() && pair.asked.load(Ordering::SeqCst) == 0);
    // One that may go over the link does so once, however often it is rejected, and only for its receiver.
    let memory = shell.endpoint().unwrap().memory().lease(1).unwrap();
    let message = Frame::head(call());
    let carried = Carried { link: Arc::downgrade(&link), message, _memory: memory };
    let offer = shell.offer_for(node, &link, 100_000, (SOON, Some(carried))).unwrap();
    let SegmentMessage::Carried(number, _) = offer.message() else { panic!() };
    offer.keep();
    shell.not_mapped(&link, catena_wire::NodeId(1), number);
    for _ in 0..10 {
        shell.not_mapped(&link, node, number);
    }
    until(|| pair.asked.load(Ordering::SeqCst) == 1).await;
    pair.client.call::<_, ()>("count", "call", &()).await.unwrap();
    assert_eq!(pair.asked.load(Ordering::SeqCst), 2, "the call after it, and none but these");
}
