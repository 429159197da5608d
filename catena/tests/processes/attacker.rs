//! A peer that speaks the protocol, and keeps to nothing else.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex as Lock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use catena::{NodeId, NodeRef, RunOptions, ServiceEntry, exceptions};
use catena_net::{Endpoint, Handler, Identity, Incoming, Link, LinkError, Message as Frames, Place};
use catena_wire::{Encoded, End, Hello, Hop, Kinds, Message, Outcome, StepKey, Value};
use serde_json::Value as Json;
use tokio::{
    sync::{Mutex, Notify, mpsc},
    time::timeout,
};

use crate::{
    bound::bound,
    nodes::{begin_with, builder},
    process::PATIENCE,
};

/// What its links bring and somebody may want to know: hops, calls, and listings; and what became of its own hops and chains.
struct Heard(mpsc::Sender<Message>, Arc<Answered>);

/// How many hops were accepted, how many were refused and why, and which chains have ended.
#[derive(Default)]
struct Answered {
    accepted: AtomicUsize,
    overloaded: AtomicUsize,
    /// Refused, since whether their steps were done is unknown.
    unknown: AtomicUsize,
    ended: Lock<BTreeSet<u128>>,
    more: Notify,
}

/// Of those nobody has read.
const UNREAD_MAX: usize = 64;

impl Handler for Heard {
    fn on_link(&self, _: &Arc<Link>) {}

    fn on_message(&self, _: &Arc<Link>, incoming: Incoming) {
        let Incoming::Whole(message) = incoming else { return };
        let message = Message::decode(Encoded { head: message.head, tail: message.tail });
        match message {
            Ok(message @ (Message::Hop(_) | Message::Ask { .. } | Message::Call { .. } | Message::Listing(..))) => {
                self.0.try_send(message).expect("they are read")
            }
            Ok(Message::Accepted(_)) => {
                self.1.accepted.fetch_add(1, Ordering::SeqCst);
            }
            Ok(Message::Refused(_, why)) if why.name == exceptions::OVERLOADED => {
                self.1.overloaded.fetch_add(1, Ordering::SeqCst);
            }
            Ok(Message::Refused(_, why)) if why.unknown => {
                self.1.unknown.fetch_add(1, Ordering::SeqCst);
            }
            Ok(Message::End(end)) => {
                self.1.ended.lock().unwrap().insert(end.key.chain.number);
            }
            _ => return,
        }
        self.1.more.notify_one();
    }

    fn on_link_lost(&self, _: &Arc<Link>, _: &LinkError) {}
}

pub(crate) struct Attacker {
    pub(crate) endpoint: Endpoint,
    pub(crate) node: NodeRef,
    heard: Mutex<mpsc::Receiver<Message>>,
    answered: Arc<Answered>,
}

/// An entry for a service of one function, `f`, at this node.
pub(crate) fn entry(service: &str, node: &NodeRef) -> ServiceEntry {
    let (service, functions) = (service.to_owned(), vec!["f".to_owned()]);
    ServiceEntry { service, functions, node: node.clone(), kinds: Kinds::default(), proxy: None }
}

impl Attacker {
    /// One of this number and name that announces what `announces` makes of it.
    pub(crate) async fn start(id: u64, name: &str, announces: impl FnOnce(&NodeRef) -> Vec<ServiceEntry>) -> Self {
        let (bound, address) = bound().await;
        let node = NodeRef { id: NodeId(id), name: name.into(), address: Some(address), site: None };
        let hello = Hello { node: node.clone(), services: announces(&node), repository: false }.encode().into();
        let (sender, heard) = mpsc::channel(UNREAD_MAX);
        let answered = Arc::new(Answered::default());
        let identity = Identity { node: id, site: None, hello };
        let endpoint = bound.start(identity, Arc::new(Heard(sender, Arc::clone(&answered)))).expect("an endpoint");
        Self { endpoint, node, heard: Mutex::new(heard), answered }
    }

    /// A link to the node there, introduced on this side.
    pub(crate) async fn link(&self, place: &Place) -> Arc<Link> {
        let link = self.endpoint.link(place).await.unwrap();
        link.introduced().await.unwrap();
        link
    }

    /// Waits for a message of which `of_interest` makes something.
    pub(crate) async fn hears<T>(&self, mut of_interest: impl FnMut(Message) -> Option<T>) -> T {
        let mut heard = self.heard.lock().await;
        let found = async {
            loop {
                if let Some(found) = of_interest(heard.recv().await.expect("an endpoint")) {
                    return found;
                }
            }
        };
        timeout(PATIENCE, found).await.expect("what it waits for")
    }

    /// Until so many hops were accepted or refused for want of room; how many of each.
    pub(crate) async fn answered(&self, hops: usize) -> (usize, usize) {
        let all = async {
            loop {
                let (accepted, overloaded) = (&self.answered.accepted, &self.answered.overloaded);
                let counts = (accepted.load(Ordering::SeqCst), overloaded.load(Ordering::SeqCst));
                if counts.0 + counts.1 >= hops {
                    return counts;
                }
                self.answered.more.notified().await;
            }
        };
        timeout(PATIENCE, all).await.expect("an answer to each hop")
    }

    /// Until it is said of so many of its hops that whether their steps were done is unknown.
    pub(crate) async fn unknown(&self, hops: usize) {
        let all = async {
            while self.answered.unknown.load(Ordering::SeqCst) < hops {
                self.answered.more.notified().await;
            }
        };
        timeout(PATIENCE, all).await.expect("an answer that says so");
    }

    /// Until so many of its chains have ended.
    pub(crate) async fn ended(&self, chains: usize) {
        let all = async {
            while self.answered.ended.lock().unwrap().len() < chains {
                self.answered.more.notified().await;
            }
        };
        timeout(PATIENCE, all).await.expect("its chains end");
    }

    /// Until the node has read all that was sent over this link: it answers what comes after that.
    pub(crate) async fn is_read(&self, link: &Arc<Link>) -> Vec<ServiceEntry> {
        send(link, Message::List(7)).await;
        tokio::select! {
            entries = self.listing() => entries,
            why = link.lost() => panic!("{why}"),
        }
    }

    async fn listing(&self) -> Vec<ServiceEntry> {
        self.hears(|message| match message {
            Message::Listing(7, entries) => Some(entries),
            _ => None,
        })
        .await
    }

    /// Sends a message over a link that may break; says whether the node had read it before that.
    pub(crate) async fn is_heard(&self, place: &Place, message: Message) -> bool {
        let Ok(link) = self.endpoint.link_introduced(place).await else { return false };
        for Encoded { head, tail } in [message.encode(), Message::List(7).encode()] {
            if link.send(Frames::new(head, tail)).await.is_err() {
                return false;
            }
        }
        tokio::select! {
            _ = self.listing() => true,
            () = broken(&link) => false,
        }
    }
}

pub(crate) async fn send(link: &Arc<Link>, message: Message) {
    let Encoded { head, tail } = message.encode();
    link.send(Frames::new(head, tail)).await.unwrap();
}

/// Until a link has ended.
pub(crate) async fn broken(link: &Link) {
    timeout(PATIENCE, link.lost()).await.expect("a link that was to end stands");
}

/// A hop of a real chain that called the attacker, with its function but without its state: to be changed and sent elsewhere.
pub(crate) async fn captured() -> Hop {
    let trap = Attacker::start(6_666, "trap", |node| vec![entry("trap", node)]).await;
    let place = Place::new(trap.node.address.clone().unwrap());
    let client = builder("caught").join(place).connect().await.unwrap();
    let source = r#"import { call } from "catena"; export default () => call("trap/f", null);"#;
    // Its hops are sent for as long as an attack takes.
    let options = RunOptions { timeout: Duration::from_secs(600), ..RunOptions::default() };
    let chain = begin_with(&client, source, Json::Null, options);
    let hop = trap.hears(|message| if let Message::Hop(hop) = message { Some(*hop) } else { None }).await;
    chain.abort();
    Hop { continuation: Default::default(), continuation_bytes: 0, ..hop }
}

/// The same hop of another chain, which `origin` began.
pub(crate) fn of_chain(hop: &Hop, number: u64, origin: &NodeRef) -> Message {
    let mut hop = hop.clone();
    (hop.key.chain.origin, hop.key.chain.number) = (origin.id, number.into());
    hop.header.origin = origin.clone().into();
    hop.header.entry = None;
    Message::Hop(Box::new(hop))
}

/// That a step came to nothing and was all there was of its chain.
pub(crate) fn end_of(key: StepKey) -> End {
    End {
        key,
        outcome: Outcome::Done(Value::null()),
        emitted: 0,
        path: Vec::new(),
        trace: None,
        console: Vec::new(),
        at: None,
        hops_left: 0,
        merged: Vec::new(),
        cut: false,
        recording: None,
    }
}
