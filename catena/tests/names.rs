//! Service IDs lead to services wherever they are: found by a file, moved under load, withdrawn, and slow.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use catena::{
    Client, Names, Node, Place, Resolver, RunOptions, Service,
    directory::{Announcement, Answer, Location, NodeId, ResolveError},
    exceptions, to_value,
};
use common::{PATIENCE, SANDBOX};
use serde::Serialize;
use tokio::{net::TcpListener, sync::watch};

const DRAIN_MAX: Duration = Duration::from_secs(20);

/// Counts how often each call was done, wherever it was done.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<HashMap<(String, u64), u32>>>);

impl Ledger {
    fn done(&self, kind: &str, number: u64) {
        *self.0.lock().unwrap().entry((kind.to_owned(), number)).or_default() += 1;
    }

    fn times(&self, kind: &str) -> Vec<u32> {
        self.0.lock().unwrap().iter().filter(|((of, _), _)| of == kind).map(|(_, times)| *times).collect()
    }
}

/// A service whose calls take a moment, so that a migration always finds some under way.
fn moving(ledger: &Ledger) -> Service {
    let (again, once) = (ledger.clone(), ledger.clone());
    Service::new("moving")
        .function("again", move |number: u64| {
            let ledger = again.clone();
            async move {
                tokio::time::sleep(Duration::from_millis(2)).await;
                ledger.done("again", number);
                Ok(number)
            }
        })
        .function("once", move |number: u64| {
            let ledger = once.clone();
            async move {
                tokio::time::sleep(Duration::from_millis(2)).await;
                ledger.done("once", number);
                Ok(number)
            }
        })
        .repeatable("again")
}

async fn node(name: &str, join: Option<&Node>) -> Node {
    let mut builder = Node::builder(name).listen("127.0.0.1:0").sandbox(SANDBOX.clone());
    if let Some(other) = join {
        builder = builder.join(Place::new(other.address().unwrap()));
    }
    builder.start().await.unwrap()
}

async fn client_of(node: &Node) -> Client {
    let client = Client::builder("client").sandbox(SANDBOX.clone());
    client.join(Place::new(node.address().unwrap())).connect().await.unwrap()
}

#[derive(Serialize)]
struct Count {
    kind: &'static str,
    from: u64,
    count: u64,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_moves_under_load_loses_no_call_and_doubles_none() {
    const MOVES: usize = 12;
    let ledger = Ledger::default();
    let nodes = {
        let a = node("a", None).await;
        let b = node("b", Some(&a)).await;
        let c = node("c", Some(&a)).await;
        [a, b, c]
    };
    nodes[0].offer(moving(&ledger)).unwrap();
    let client = client_of(&nodes[1]).await;
    let source = "import { call } from 'catena';
        export default async ({ kind, from, count }) => {
            for (let n = from; n < from + count; n++) await call('moving/' + kind, n);
            return count;
        };";
    let code = client.javascript("mover.js", source).await.unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let worst_us = Arc::new(AtomicU64::new(0));
    let numbers = Arc::new(AtomicU64::new(1));
    let mut callers = Vec::new();
    for (kind, chained) in [("again", false), ("once", false), ("again", true), ("once", true)] {
        let (client, code, over) = (client.clone(), code, Arc::clone(&over));
        let (worst_us, numbers) = (Arc::clone(&worst_us), Arc::clone(&numbers));
        callers.push(tokio::spawn(async move {
            let mut done = 0_u64;
            while !over.load(Ordering::SeqCst) {
                let began = Instant::now();
                let count = if chained { 5 } else { 1 };
                let from = numbers.fetch_add(count, Ordering::SeqCst);
                let result = if chained {
                    let options = RunOptions { timeout: Duration::from_secs(60), ..RunOptions::default() };
                    let input = to_value(&Count { kind, from, count }).unwrap();
                    client.run_with(&code, &input, &options).unwrap().value::<u64>().await
                } else {
                    client.call("moving", kind, &from).await
                };
                result.unwrap_or_else(|why| panic!("{kind} {from} is lost: {why}"));
                let us = u64::try_from(began.elapsed().as_micros()).unwrap();
                worst_us.fetch_max(us, Ordering::SeqCst);
                done += count;
            }
            done
        }));
    }
    for turn in 0..MOVES {
        // The interval is the load's, not something to wait for.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let (from, to) = (&nodes[turn % 3], &nodes[(turn + 1) % 3]);
        let service = moving(&ledger);
        from.migrate_service("moving", DRAIN_MAX, async { to.offer(service) }).await.unwrap();
    }
    over.store(true, Ordering::SeqCst);
    let mut done = Vec::new();
    for caller in callers {
        done.push(caller.await.unwrap());
    }
    assert!(done.iter().all(|done| *done > 0), "{done:?}");
    let (again, once) = (ledger.times("again"), ledger.times("once"));
    assert_eq!(u64::try_from(again.len() + once.len()).unwrap(), done.iter().sum::<u64>(), "none is lost");
    assert!(once.iter().all(|times| *times == 1), "what must not be done twice was: {once:?}");
    println!(
        "{MOVES} migrations under {done:?} calls: worst call {} ms (migration_pause_ms)",
        worst_us.load(Ordering::SeqCst) / 1_000
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_is_not_taken_over_stays_where_it_was() {
    let ledger = Ledger::default();
    let (a, b) = (node("a", None).await, Ledger::default());
    drop(b);
    a.offer(moving(&ledger)).unwrap();
    let client = client_of(&a).await;
    let refused = catena::Exception::new("Refused", catena::Fault::Service, "no room");
    let why = a.migrate_service("moving", DRAIN_MAX, async { Err(refused) }).await.unwrap_err();
    assert_eq!(why.name, "Refused");
    assert_eq!(client.call::<_, u64>("moving", "once", &1_u64).await.unwrap(), 1);
    // Whoever drops the future has not moved it either.
    let never = a.migrate_service("moving", DRAIN_MAX, std::future::pending());
    assert!(tokio::time::timeout(Duration::from_millis(50), never).await.is_err());
    assert_eq!(client.call::<_, u64>("moving", "once", &2_u64).await.unwrap(), 2);
    assert_eq!(
        a.migrate_service("nobody", DRAIN_MAX, async { panic!() }).await.unwrap_err().name,
        exceptions::UNKNOWN_SERVICE
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_is_withdrawn_is_found_elsewhere_or_said_to_be_gone() {
    let ledger = Ledger::default();
    let a = node("a", None).await;
    let b = node("b", Some(&a)).await;
    let client = client_of(&a).await;
    a.offer(moving(&ledger)).unwrap();
    assert_eq!(client.call::<_, u64>("moving", "once", &1_u64).await.unwrap(), 1);
    b.offer(moving(&ledger)).unwrap();
    a.withdraw("moving", DRAIN_MAX).await.unwrap();
    found(&client, 2).await;
    b.withdraw("moving", DRAIN_MAX).await.unwrap();
    let why = client.call::<_, u64>("moving", "once", &3_u64).await.unwrap_err();
    // Which it is depends on whether the news or the call is there first.
    assert!([exceptions::UNKNOWN_SERVICE, exceptions::NODE_UNREACHABLE].contains(&why.name.as_str()), "{why}");
    assert!(!why.unknown, "{why}");
    // That nobody served it is remembered only until somebody does.
    b.offer(moving(&ledger)).unwrap();
    found(&client, 4).await;
    assert!(ledger.times("once").iter().all(|times| *times == 1));
}

/// Calls until the news that a node serves it has come. That is after `offer` has returned, so an earlier call may find nobody.
async fn found(client: &Client, number: u64) {
    let call = async {
        while let Err(why) = client.call::<_, u64>("moving", "once", &number).await {
            assert!(!why.unknown, "{why}");
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, call).await.unwrap();
}

/// The service of which resolvers here cannot say where it is: they panic.
const PANICS: &str = "panics";

/// Says what it was told to say, counts how often it was asked, and keeps what nodes announce.
struct Told {
    at: Mutex<Result<Vec<Location>, ResolveError>>,
    asked: AtomicU64,
    /// Who serves what, as each said last.
    served: watch::Sender<BTreeMap<String, Vec<String>>>,
}

impl Told {
    fn at(locations: Vec<Location>) -> Arc<Self> {
        Arc::new(Self { at: Mutex::new(Ok(locations)), asked: AtomicU64::new(0), served: watch::Sender::default() })
    }

    /// Until it was announced that these nodes serve a service, and these do not.
    async fn is_told(&self, service: &str, by: &[&str], not_by: &[&str]) {
        let mut served = self.served.subscribe();
        let serves = |served: &BTreeMap<String, Vec<String>>, node: &str| {
            served.get(node).is_some_and(|services| services.iter().any(|one| one == service))
        };
        let told = served.wait_for(|served| {
            by.iter().all(|node| serves(served, node)) && !not_by.iter().any(|node| serves(served, node))
        });
        let told = tokio::time::timeout(PATIENCE, told).await;
        assert!(told.is_ok(), "{:?}", self.served.borrow());
    }
}

#[async_trait]
impl Resolver for Told {
    fn name(&self) -> &str {
        "told"
    }

    async fn resolve(&self, service: &str, _: &[NodeId]) -> Result<Answer, ResolveError> {
        assert!(service != PANICS, "on purpose");
        self.asked.fetch_add(1, Ordering::SeqCst);
        Ok(Answer { at: self.at.lock().unwrap().clone()?, ..Answer::default() })
    }

    async fn announce(&self, own: &Announcement) -> Result<(), ResolveError> {
        let services = own.services.iter().map(|entry| entry.service.clone()).collect();
        self.served.send_modify(|served| drop(served.insert(own.node.name.clone(), services)));
        Ok(())
    }
}

fn location(node: &Node) -> Location {
    Location::At { address: node.address().unwrap().to_owned(), node: None, run: None }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_location_is_passed_over_and_a_right_one_is_kept() {
    let ledger = Ledger::default();
    // Neither knows of the other: only the resolver does.
    let (other, served) = (node("other", None).await, node("served", None).await);
    served.offer(moving(&ledger)).unwrap();
    let nobody = Location::At { address: "127.0.0.1:9".into(), node: Some("gone".into()), run: None };
    let told = Told::at(vec![nobody.clone(), location(&other), location(&served)]);
    let names = vec![Names::Mesh, Names::By(Arc::clone(&told) as Arc<dyn Resolver>)];
    let asker = Node::builder("asker").sandbox(SANDBOX.clone()).names(names).start().await.unwrap();
    let client = asker.client();
    for number in 0..3_u64 {
        assert_eq!(client.call::<_, u64>("moving", "once", &number).await.unwrap(), number);
    }
    assert_eq!(told.asked.load(Ordering::SeqCst), 1, "the answer is kept");
    let said = client.resolve("moving").await;
    assert_eq!(said.iter().map(|one| one.resolver.as_str()).collect::<Vec<_>>(), ["mesh", "told"]);

    *told.at.lock().unwrap() = Ok(vec![nobody]);
    let why = client.call::<_, u64>("elsewhere", "once", &1_u64).await.unwrap_err();
    assert_eq!(why.name, exceptions::NODE_UNREACHABLE, "{why}");
    assert!(why.message.contains("served by gone") && !why.message.contains("did you mean"), "{why}");
    *told.at.lock().unwrap() = Ok(Vec::new());
    let before = told.asked.load(Ordering::SeqCst);
    for _ in 0..3 {
        let why = client.call::<_, u64>("nobody", "once", &1_u64).await.unwrap_err();
        assert_eq!(why.name, exceptions::UNKNOWN_SERVICE, "{why}");
    }
    assert_eq!(told.asked.load(Ordering::SeqCst), before + 1, "that nobody serves it is remembered for a moment");
    *told.at.lock().unwrap() = Err(ResolveError("the directory is down".into()));
    let why = client.call::<_, u64>("who.knows", "once", &1_u64).await.unwrap_err();
    assert!(why.name == exceptions::NODE_UNREACHABLE && why.message.contains("the directory is down"), "{why}");
    let why = client.call::<_, u64>(PANICS, "once", &1_u64).await.unwrap_err();
    assert!(why.name == exceptions::NODE_UNREACHABLE && why.message.contains("told: it panicked"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn resolvers_are_told_what_is_served_where_it_moved_and_that_it_is_gone() {
    let (ledger, told) = (Ledger::default(), Told::at(Vec::new()));
    let start = async |name: &str| {
        let names = vec![Names::Mesh, Names::By(Arc::clone(&told) as Arc<dyn Resolver>)];
        Node::builder(name).listen("127.0.0.1:0").names(names).start().await.unwrap()
    };
    let (a, b) = (start("a").await, start("b").await);
    a.offer(moving(&ledger)).unwrap();
    told.is_told("moving", &["a"], &["b"]).await;
    a.migrate_service("moving", DRAIN_MAX, async { b.offer(moving(&ledger)) }).await.unwrap();
    told.is_told("moving", &["b"], &["a"]).await;
    b.withdraw("moving", DRAIN_MAX).await.unwrap();
    told.is_told("moving", &[], &["a", "b"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_does_not_wait_for_a_dial_that_hangs_when_the_other_side_has_dialled() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let given_up = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&given_up);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = silent.accept().await {
            let told = Arc::clone(&told);
            tokio::spawn(async move {
                drop(tokio::io::copy(&mut stream, &mut tokio::io::sink()).await);
                told.store(true, Ordering::SeqCst);
            });
        }
    });
    let between = node("between", None).await;
    let join = || Place::new(between.address().unwrap());
    // Whoever dials it gets no answer. It links by itself with all nodes that it hears of.
    let deaf = Node::builder("deaf").listen("127.0.0.1:0").advertise(address).join(join());
    let _deaf = deaf.service(moving(&Ledger::default())).start().await.unwrap();
    // It is heard of since it serves something.
    let here = Service::new("here").function("none", async |(): ()| Ok(()));
    let asker = Node::builder("asker").listen("127.0.0.1:0").service(here).entry_only();
    let asker = asker.join(join()).start().await.unwrap();
    assert_eq!(asker.client().call::<_, u64>("moving", "again", &1_u64).await.unwrap(), 1);
    assert!(!given_up.load(Ordering::SeqCst), "the call waited for the dial's end");
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_are_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let start = || {
        let builder = Node::builder("kept").listen("127.0.0.1:0").sandbox(SANDBOX.clone()).repository();
        builder.function_store(folder.path()).start()
    };
    let first = start().await.unwrap();
    let client = first.client();
    client.javascript("kept.js", "export default async (n) => n + 1;").await.unwrap();
    // It is written beside what goes on, under another name at first.
    let whole = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().path().extension().is_none();
    let written = async {
        while !std::fs::read_dir(folder.path()).unwrap().any(whole) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, written).await.unwrap();
    first.close(Duration::ZERO).await;
    let file = || std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    let kept = std::fs::read(file()).unwrap();
    let again = start().await.unwrap();
    assert_eq!(std::fs::read(file()).unwrap(), kept);
    again.close(Duration::ZERO).await;
    std::fs::write(file(), "not a function").unwrap();
    let last = start().await.unwrap();
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none(), "what was damaged is not kept");
    last.close(Duration::ZERO).await;
}

/// Finds nothing, and never says so of some names.
struct Slow {
    stuck: watch::Sender<usize>,
}

#[async_trait]
impl Resolver for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    async fn resolve(&self, service: &str, _: &[NodeId]) -> Result<Answer, ResolveError> {
        if service.starts_with("stuck") {
            self.stuck.send_modify(|stuck| *stuck += 1);
            std::future::pending::<()>().await;
        }
        Ok(Answer::default())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_of_one_peer_take_no_turns_of_own_look_ups_and_leave_some_for_others() {
    /// As many look-ups of its own as a node makes at one time, and as many questions of one peer as it answers.
    const OWN: usize = 64;
    const OF_ONE: usize = 29;
    let slow = Arc::new(Slow { stuck: watch::Sender::default() });
    let names = vec![Names::By(Arc::clone(&slow) as Arc<dyn Resolver>)];
    let node = Node::builder("node").listen("127.0.0.1:0").names(names).start().await.unwrap();
    let (one, other) = (client_of(&node).await, client_of(&node).await);
    let mut stuck = slow.stuck.subscribe();
    for number in 0..OWN {
        let client = node.client();
        tokio::spawn(async move { client.call::<_, u64>(&format!("stuck{number}"), "f", &()).await });
    }
    stuck.wait_for(|stuck| *stuck == OWN).await.unwrap();
    other.resolve_there("quick").await.expect("own look-ups are counted apart");
    for _ in 0..2 * OWN {
        let client = one.clone();
        tokio::spawn(async move { client.resolve_there("stuck").await });
    }
    stuck.wait_for(|stuck| *stuck >= OWN + OF_ONE).await.unwrap();
    other.resolve_there("quick").await.expect("one peer leaves room for others");
    assert_eq!(*stuck.borrow(), OWN + OF_ONE);
}
