//! Calls that are answered many times, over real nodes and sockets (Quatrain).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::disallowed_methods, reason = "a blocking function is tried by one that blocks")]

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use catena::{
    Budget, Client, Context, Ended, Exception, Node, Place, Policy, ReplySet, RunOptions, Service, exceptions, to_value,
};
use tokio::sync::{Notify, Semaphore};

const PATIENCE: Duration = Duration::from_secs(30);

/// Nodes with these services, each of its own, and a client that has joined the first.
async fn nodes(services: Vec<Service>) -> (Vec<Node>, Client) {
    let mut nodes: Vec<Node> = Vec::new();
    for service in services {
        let mut builder = Node::builder(service.name()).listen("127.0.0.1:0").service(service.clone());
        if let Some(first) = nodes.first() {
            builder = builder.join(Place::new(first.address().unwrap()));
        }
        nodes.push(builder.start().await.unwrap());
    }
    let join = Place::new(nodes[0].address().unwrap());
    let client = Client::builder("client").join(join).connect().await.unwrap();
    (nodes, client)
}

/// All replies, and what ended the set if it was not complete.
async fn all(mut set: ReplySet) -> (BTreeSet<u64>, Option<Exception>, ReplySet) {
    let (mut seen, mut ended) = (BTreeSet::new(), None);
    while let Some(reply) = tokio::time::timeout(PATIENCE, set.next()).await.expect("the set ends") {
        match reply {
            Ok(reply) => assert!(seen.insert(reply.decode().unwrap()), "{reply:?} came twice"),
            Err(why) => ended = Some(why),
        }
    }
    (seen, ended, set)
}

async fn complete(set: ReplySet) -> BTreeSet<u64> {
    let (seen, ended, set) = all(set).await;
    assert!(ended.is_none() && set.ended() == Some(Ended::Complete) && !set.is_partial(), "{ended:?}");
    seen
}

/// Replies with `of + 0..count`, each from a task of its own.
fn leaf(name: &str, of: u64) -> Service {
    let tasks = move |context: Context, count: u64| async move {
        for number in 0..count {
            let context = context.clone();
            tokio::spawn(async move { context.preturn(&(of + number)).await });
        }
        Ok(())
    };
    Service::new(name).replies("find", tasks)
}

#[tokio::test(flavor = "multi_thread")]
async fn replies_come_from_any_task_and_thread_at_any_position_and_what_is_returned_is_one_more() {
    // The paper's Sample Code 2: threads that reply, and one reply after they have been started.
    let many = async |context: Context, count: u64| {
        for number in 0..count {
            let context = context.clone();
            let runtime = tokio::runtime::Handle::current();
            std::thread::spawn(move || {
                let _runtime = runtime.enter();
                context.preturn_blocking(&(2 * number)).unwrap();
                context.preturn_blocking(&(2 * number + 1)).unwrap();
            });
        }
        context.preturn(&1_000).await?;
        Ok(1_001)
    };
    let (_nodes, client) = nodes(vec![Service::new("a").function_in("many", many)]).await;
    for _ in 0..50 {
        let seen = complete(client.replies("a/many", &10_u64).await.unwrap()).await;
        assert_eq!(seen, (0..20).chain([1_000, 1_001]).collect());
    }
    // A plain call gets what the function returns, as ever.
    assert_eq!(client.call::<_, u64>("a", "many", &3_u64).await.unwrap(), 1_001);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn replies_that_follow_each_other_quickly_do_not_wait_for_a_function_that_holds_its_thread() {
    let (open, gate) = std::sync::mpsc::channel::<()>();
    let gate = Arc::new(Mutex::new(gate));
    let service = Service::new("a").replies("hold", move |context: Context, count: u64| {
        let gate = Arc::clone(&gate);
        async move {
            for number in 0..count {
                context.preturn(&number).await?;
            }
            // Without an `await`, as code does that computes for long.
            gate.lock().unwrap().recv_timeout(PATIENCE)?;
            Ok(())
        }
    });
    let (_nodes, client) = nodes(vec![service]).await;
    for _ in 0..10 {
        let mut set = client.replies("a/hold", &20_u64).await.unwrap();
        for number in 0..20 {
            let reply = set.next().await.unwrap().unwrap();
            assert_eq!(reply.decode::<u64>().unwrap(), number);
        }
        open.send(()).unwrap();
        assert!(set.next().await.is_none(), "{:?}", set.ended());
    }
}

/// Quatrain, Figure 4: a count of replies under way is zero before a thread that was started late makes its first (a); and a count
/// of threads, which their replies lower, is zero once the procedure itself has replied (b).
#[tokio::test(flavor = "multi_thread")]
async fn the_papers_two_counter_examples_do_not_end_the_set_early() {
    let late = Arc::new(Notify::new());
    let begin = Arc::clone(&late);
    let service = Service::new("a").replies("late", move |context: Context, first: Option<u64>| {
        let begin = Arc::clone(&begin);
        async move {
            let thread = context.clone();
            tokio::spawn(async move {
                begin.notified().await;
                thread.preturn(&2_u64).await
            });
            if let Some(first) = first {
                context.preturn(&first).await?;
            }
            Ok(())
        }
    });
    let (nodes, client) = nodes(vec![service]).await;
    for first in [None, Some(1)] {
        let mut set = client.replies("a/late", &first).await.unwrap();
        if let Some(first) = first {
            assert_eq!(set.next().await.unwrap().unwrap().decode::<u64>().unwrap(), first);
        } else {
            // The function has ended when none of this node's runs any more.
            client.call::<_, ()>("a", "none", &()).await.unwrap_err();
            while nodes[0].load().2 > 0 {
                tokio::task::yield_now().await;
            }
        }
        assert_eq!(set.ended(), None);
        late.notify_one();
        assert_eq!(complete(set).await, BTreeSet::from([2]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_delegated_over_three_servers_ends_when_all_have() {
    let front = Service::new("front")
        .replies("find", async |context: Context, count: u64| {
            context.delegate("middle/find", &count)?;
            context.delegate("left/find", &count)?;
            Ok(context.preturn(&1).await?)
        })
        .replies("pass", async |context: Context, count: u64| {
            let left = context.client().replies("left/find", &count).await?;
            let right = context.client().replies("right/find", &count).await?;
            tokio::try_join!(context.pass_on(left), context.pass_on(right))?;
            Ok(())
        });
    let middle = Service::new("middle").replies("find", async |context: Context, count: u64| {
        context.preturn(&2).await?;
        Ok(context.delegate("right/find", &count)?)
    });
    let services = vec![front, middle, leaf("left", 1_000), leaf("right", 2_000)];
    let (_nodes, client) = nodes(services).await;
    let both: BTreeSet<u64> = (1_000..1_020).chain(2_000..2_020).collect();
    for _ in 0..50 {
        let seen = complete(client.replies("front/find", &20_u64).await.unwrap()).await;
        assert_eq!(seen, both.iter().copied().chain([1, 2]).collect());
    }
    assert_eq!(complete(client.replies("front/pass", &20_u64).await.unwrap()).await, both);
    // Who makes a plain call gets all of it as one list, when the last has come.
    let list: BTreeSet<u64> = client.call("front", "find", &20_u64).await.unwrap();
    assert_eq!(list, both.iter().copied().chain([1, 2]).collect());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_branch_that_throws_or_is_not_there_is_named_and_costs_its_own_replies_only() {
    let front = Service::new("front").replies("find", async |context: Context, targets: Vec<String>| {
        for target in targets {
            context.delegate(&target, &3_u64)?;
        }
        Ok(context.preturn(&1).await?)
    });
    let bad = Service::new("bad").replies("find", async |context: Context, count: u64| {
        context.preturn(&count).await?;
        Err(catena::ServiceError::named("NoTable", "the table is missing"))
    });
    let (_nodes, client) = nodes(vec![front, bad, leaf("left", 1_000)]).await;
    let find = |targets: &'static [&'static str]| client.replies("front/find", targets);
    let (seen, why, set) = all(find(&["bad/find", "left/find"]).await.unwrap()).await;
    assert_eq!(seen, BTreeSet::from([1, 3, 1_000, 1_001, 1_002]));
    assert_eq!((why.unwrap().name.as_str(), set.ended()), ("NoTable", Some(Ended::Exception)));
    assert!(set.is_partial());
    let [missing] = set.missing() else { panic!("{:?}", set.missing()) };
    assert_eq!((missing.target.as_str(), missing.node.as_deref()), ("bad/find", Some("bad")));

    let (seen, why, set) = all(find(&["bad/find", "nobody/find", "left/none"]).await.unwrap()).await;
    assert_eq!(seen, BTreeSet::from([1, 3]));
    let why = why.unwrap();
    assert!(why.name == exceptions::REPLIES_MISSING && why.message.contains("nobody/find"), "{why}");
    assert_eq!(set.missing().len(), 3);
    // A plain call returns all of them, or says why it cannot.
    let call = async |targets: &'static [&'static str]| client.call::<_, Vec<u64>>("front", "find", targets).await;
    assert_eq!(call(&["left/find"]).await.unwrap().len(), 4);
    for (targets, name) in
        [(&["bad/find", "left/find"], "NoTable"), (&["left/find", "nobody/find"], exceptions::UNKNOWN_SERVICE)]
    {
        assert_eq!(call(targets).await.unwrap_err().name, name);
    }
    let (_, why, set) = all(client.replies("front/none", &()).await.unwrap()).await;
    assert_eq!((why.unwrap().name.as_str(), set.ended()), (exceptions::UNKNOWN_FUNCTION, Some(Ended::Exception)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_holds_the_replier_back_and_what_has_come_stays_readable() {
    let sent = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&sent);
    let service = Service::new("a").replies("all", move |context: Context, upto: u64| {
        let count = Arc::clone(&count);
        async move {
            for number in 0..upto {
                context.preturn(&number).await?;
                count.fetch_add(1, Ordering::SeqCst);
            }
            Ok(())
        }
    });
    let (_nodes, client) = nodes(vec![service]).await;
    let mut set = client.replies("a/all", &10_000_u64).await.unwrap();
    assert!(set.has_more().await);
    // It runs into the window, and waits there.
    tokio::time::timeout(Duration::from_millis(300), async {
        while sent.load(Ordering::SeqCst) < 1_024 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap_or_default();
    assert!(sent.load(Ordering::SeqCst) <= 1_024, "{sent:?} were sent to one who reads nothing");
    assert_eq!(complete(set).await, (0..10_000).collect());

    // All has come, and nobody has read: the end does not take it away.
    let set = client.replies("a/all", &100_u64).await.unwrap();
    let read = move || {
        let mut set = set.blocking();
        let sum: u64 = set.by_ref().map(|reply| reply.unwrap().decode::<u64>().unwrap()).sum();
        assert_eq!((sum, set.set().ended()), (4_950, Some(Ended::Complete)));
    };
    tokio::task::spawn_blocking(read).await.unwrap();
    let sum = AtomicU64::new(0);
    let add = async |value: catena::Value| {
        sum.fetch_add(catena::from_value(&value).unwrap(), Ordering::SeqCst);
    };
    client.replies("a/all", &100_u64).await.unwrap().in_parallel(8, add).await.unwrap();
    assert_eq!(sum.into_inner(), 4_950);
}

/// Tells when it is dropped: the function that has it was stopped.
struct Stopped(Arc<Semaphore>);

impl Drop for Stopped {
    fn drop(&mut self) {
        self.0.add_permits(1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_that_is_dropped_or_cancelled_stops_the_whole_tree() {
    let stopped = Arc::new(Semaphore::new(0));
    let waits = |name: &str, to: Option<&'static str>| {
        let stopped = Arc::clone(&stopped);
        Service::new(name).replies("wait", move |context: Context, (): ()| {
            let stopped = Stopped(Arc::clone(&stopped));
            async move {
                if let Some(to) = to {
                    context.delegate(to, &())?;
                }
                context.preturn(&u64::from(to.is_some())).await?;
                std::future::pending::<()>().await;
                drop(stopped);
                Ok(())
            }
        })
    };
    // One that asks, and passes the replies on.
    let through = Service::new("through").replies("wait", async |context: Context, (): ()| {
        let replies = context.client().replies("front/wait", &()).await?;
        Ok(context.pass_on(replies).await?)
    });
    let (_nodes, client) = nodes(vec![waits("front", Some("back/wait")), waits("back", None), through]).await;
    let both_stopped = || async {
        let both = tokio::time::timeout(PATIENCE, stopped.acquire_many(2)).await;
        both.expect("both are stopped").unwrap().forget();
    };
    for target in ["front/wait", "through/wait"] {
        let mut set = client.replies(target, &()).await.unwrap();
        for _ in 0..2 {
            set.next().await.unwrap().unwrap();
        }
        drop(set);
        both_stopped().await;
    }
    let mut set = client.replies("front/wait", &()).await.unwrap();
    for _ in 0..2 {
        set.next().await.unwrap().unwrap();
    }
    set.cancel();
    let (_, why, set) = all(set).await;
    assert_eq!((why.unwrap().name.as_str(), set.ended()), (exceptions::CANCELLED, Some(Ended::Failure)));
    both_stopped().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_context_that_is_kept_for_ever_ends_with_the_callers_time_and_its_node_is_named() {
    let (kept, service) = keeper("a");
    let (_nodes, client) = nodes(vec![service]).await;
    let options = RunOptions { timeout: Duration::from_secs(2), ..RunOptions::default() };
    ends_as_failure_of_a(client.replies_with("a/keep", to_value(&()).unwrap(), &options).unwrap()).await;
    // The right is over for whoever still has it.
    is_over(kept_one(&kept).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_context_that_is_used_after_its_call_is_over_is_refused_by_name() {
    let (kept, service) = keeper("a");
    let (_nodes, client) = nodes(vec![service]).await;
    let mut left = client.replies("a/keep", &()).await.unwrap();
    left.next().await.unwrap().unwrap();
    drop(left);
    is_over(kept_one(&kept).await).await;
    kept.lock().unwrap().clear();
    // A plain call waits for all that may reply, and its caller leaves meanwhile.
    let call = tokio::spawn(async move { client.call::<_, Vec<u64>>("a", "keep", &()).await });
    let context = kept_one(&kept).await;
    call.abort();
    is_over(context).await;
}

/// Nobody waits for what this context has to say, and whoever says it is told so.
async fn is_over(context: Context) {
    let replied = async {
        loop {
            match context.preturn(&8).await {
                Ok(()) => tokio::task::yield_now().await,
                Err(why) => return why,
            }
        }
    };
    let replied = tokio::time::timeout(PATIENCE, replied).await.expect("it is told that nobody waits");
    let thread = context.clone();
    let by_thread = tokio::task::spawn_blocking(move || thread.preturn_blocking(&8)).await.unwrap();
    let others = context.client().replies("a/keep", &()).await.unwrap();
    let passed_on = context.pass_on(others).await;
    for refused in [Err(replied), by_thread, passed_on, context.delegate("a/keep", &())] {
        let why = refused.unwrap_err();
        assert!(why.name == exceptions::CANCELLED && why.message.contains("stop here"), "{why:?}");
    }
}

/// The last context that was kept, as soon as there is one.
async fn kept_one(kept: &Mutex<Vec<Context>>) -> Context {
    let one = async {
        loop {
            if let Some(context) = kept.lock().unwrap().pop() {
                return context;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, one).await.expect("a context is kept")
}

/// Each reply goes to one of them, and the end to both.
#[tokio::test(flavor = "multi_thread")]
async fn two_readers_of_one_set_share_its_replies() {
    const COUNT: u64 = 2_000;
    let service = Service::new("a").iterator("count", |_, upto: u64| Ok(0..upto));
    let (_nodes, client) = nodes(vec![service]).await;
    let set = tokio::sync::Mutex::new(client.replies("a/count", &COUNT).await.unwrap());
    let read = async || {
        let mut seen: Vec<u64> = Vec::new();
        loop {
            let next = set.lock().await.next().await;
            let Some(reply) = next else { return seen };
            seen.push(reply.unwrap().decode().unwrap());
        }
    };
    let both = async { tokio::join!(read(), read()) };
    let (one, other) = tokio::time::timeout(PATIENCE, both).await.expect("both are told of the end");
    assert!(!one.is_empty() && one.is_sorted() && !other.is_empty() && other.is_sorted(), "{one:?}, {other:?}");
    let mut all = [one, other].concat();
    all.sort_unstable();
    assert_eq!(all, (0..COUNT).collect::<Vec<_>>());
    assert_eq!(set.into_inner().ended(), Some(Ended::Complete));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_says_first_that_time_ran_out_makes_no_other_end_of_it() {
    let (_kept, service) = keeper("a");
    let policy = Policy { budget_max: Budget::new(1_000_000, 2_000), ..Policy::default() };
    let node = Node::builder("a").listen("127.0.0.1:0").policy(policy).service(service).start().await.unwrap();
    let join = Place::new(node.address().unwrap());
    let client = Client::builder("client").join(join).connect().await.unwrap();
    // The caller would wait for the default time, which is far longer.
    ends_as_failure_of_a(client.replies("a/keep", &()).await.unwrap()).await;
}

/// A service whose function replies once, and whose context is kept for ever.
fn keeper(name: &str) -> (Arc<Mutex<Vec<Context>>>, Service) {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&kept);
    let service = Service::new(name).replies("keep", move |context: Context, (): ()| {
        keep.lock().unwrap().push(context.clone());
        async move { Ok(context.preturn(&7).await?) }
    });
    (kept, service)
}

/// Whoever is first to say that time ran out.
async fn ends_as_failure_of_a(set: ReplySet) {
    let (seen, why, set) = all(set).await;
    assert_eq!((seen, set.ended()), (BTreeSet::from([7]), Some(Ended::Failure)));
    let why = why.unwrap();
    assert!(why.name == exceptions::DEADLINE_EXCEEDED && why.message.contains("held by a for a/keep"), "{why:?}");
    let [missing] = set.missing() else { panic!("{:?}", set.missing()) };
    assert!(missing.node.as_deref() == Some("a") && missing.target == "a/keep", "{missing:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delegate_that_is_gone_before_or_after_its_part_takes_nothing_else_with_it() {
    let go = Arc::new(Notify::new());
    let goes_on = Arc::clone(&go);
    let front = Service::new("front").replies("find", move |context: Context, (): ()| {
        let go = Arc::clone(&goes_on);
        async move {
            context.preturn(&1).await?;
            context.delegate("mortal/find", &3_u64)?;
            go.notified().await;
            Ok(context.preturn(&2).await?)
        }
    });
    let mortal = leaf("mortal", 10).replies("hang", async |context: Context, (): ()| {
        context.preturn(&7).await?;
        std::future::pending::<()>().await;
        Ok(())
    });
    let (nodes, client) = nodes(vec![front, mortal]).await;
    // The two are linked: what it replies comes from itself, and the caller sees that it is gone.
    assert_eq!(complete(client.replies("mortal/find", &1_u64).await.unwrap()).await, BTreeSet::from([10]));
    let mut after = client.replies("front/find", &()).await.unwrap();
    for _ in 0..3 {
        tokio::time::timeout(PATIENCE, after.next()).await.expect("both reply").unwrap().unwrap();
    }
    // The fourth is here and not read: it stays, too.
    assert!(tokio::time::timeout(PATIENCE, after.has_more()).await.expect("both reply"));
    let mut witness = client.replies("mortal/hang", &()).await.unwrap();
    assert_eq!(witness.next().await.unwrap().unwrap().decode::<u64>().unwrap(), 7);
    nodes[1].close(PATIENCE).await;
    // The caller has given that node up as soon as another set says so; this one waits for the front alone.
    let (_, lost, _) = all(witness).await;
    assert_eq!(lost.expect("it was lost").name, exceptions::NODE_LOST);
    go.notify_one();
    let at_once = Duration::from_micros(Policy::default().heartbeat_timeout_us / 2);
    let (came, why, set) = tokio::time::timeout(at_once, all(after)).await.expect("nobody waits for who is gone");
    assert_eq!((came.len(), set.ended()), (2, Some(Ended::Complete)), "it had done its part: {came:?}, {why:?}");
    assert!(why.is_none() && set.missing().is_empty() && came.contains(&2), "{came:?}, {:?}", set.missing());

    let before = client.replies("front/find", &()).await.unwrap();
    go.notify_one();
    let (came, why, set) = all(before).await;
    assert_eq!((came, set.ended()), (BTreeSet::from([1, 2]), Some(Ended::Exception)), "{why:?}");
    let [missing] = set.missing() else { panic!("{:?}", set.missing()) };
    assert_eq!(missing.target, "mortal/find", "{missing:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delegate_that_dies_amid_its_replies_keeps_those_that_came_and_is_named() {
    let go = Arc::new(Notify::new());
    let goes_on = Arc::clone(&go);
    let front = Service::new("front").replies("find", move |context: Context, (): ()| {
        let go = Arc::clone(&goes_on);
        async move {
            context.delegate("mortal/find", &())?;
            go.notified().await;
            Ok(context.preturn(&2).await?)
        }
    });
    let mortal = Service::new("mortal").replies("find", async |context: Context, (): ()| {
        context.preturn(&1).await?;
        std::future::pending::<()>().await;
        Ok(())
    });
    let (nodes, client) = nodes(vec![front, mortal]).await;
    let mut set = client.replies("front/find", &()).await.unwrap();
    let reply = tokio::time::timeout(PATIENCE, set.next()).await.expect("it replies").unwrap().unwrap();
    assert_eq!(reply.decode::<u64>().unwrap(), 1);
    nodes[1].close(Duration::ZERO).await;
    go.notify_one();
    let (came, why, set) = all(set).await;
    assert_eq!((came, set.ended()), (BTreeSet::from([2]), Some(Ended::Exception)), "{why:?}");
    let [missing] = set.missing() else { panic!("{:?}", set.missing()) };
    assert_eq!((missing.target.as_str(), missing.node.as_deref()), ("mortal/find", Some("mortal")));
    assert!(missing.why.name == exceptions::NODE_LOST && missing.why.unknown, "{missing:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_is_refused_by_name() {
    let service = Service::new("a")
        .replies("circle", async |context: Context, (): ()| Ok(context.delegate("a/circle", &())?))
        .replies("nowhere", async |context: Context, (): ()| Ok(context.delegate("nowhere", &())?));
    let (_nodes, client) = nodes(vec![service]).await;
    let why = async |target: &str| all(client.replies(target, &()).await.unwrap()).await.1.expect("an exception");
    assert_eq!(why("a/circle").await.name, exceptions::HOP_BUDGET_EXCEEDED);
    assert_eq!(why("a/nowhere").await.name, exceptions::BAD_PARAMETERS);
    assert!(matches!(client.replies("a", &()).await, Err(why) if why.name == exceptions::BAD_PARAMETERS));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_of_200_mb_is_refused_by_name_and_takes_no_other_with_it() {
    let service = Service::new("a").replies("large", async |context: Context, goes_on: bool| {
        context.preturn(&1).await?;
        context.preturn(&2).await?;
        let refused = context.preturn(&"x".repeat(200 << 20)).await;
        if goes_on { Ok(context.preturn(&3).await?) } else { Ok(refused?) }
    });
    let (_nodes, client) = nodes(vec![service]).await;
    let (seen, why, set) = all(client.replies("a/large", &false).await.unwrap()).await;
    assert_eq!((seen, set.ended()), (BTreeSet::from([1, 2]), Some(Ended::Exception)));
    let why = why.unwrap();
    assert!(why.name == exceptions::LIMIT_EXCEEDED && why.message.contains("reply in parts"), "{why}");
    let [missing] = set.missing() else { panic!("{:?}", set.missing()) };
    assert_eq!((missing.target.as_str(), missing.node.as_deref()), ("a/large", Some("a")));
    assert_eq!(complete(client.replies("a/large", &true).await.unwrap()).await, BTreeSet::from([1, 2, 3]));
}

#[tokio::test(flavor = "multi_thread")]
async fn there_is_no_more_before_an_exception_which_is_still_to_be_taken() {
    let service = Service::new("a").replies("fail", async |context: Context, (): ()| {
        context.preturn(&1).await?;
        Err(catena::ServiceError::named("Refused", "on purpose"))
    });
    let (_nodes, client) = nodes(vec![service]).await;
    let mut set = client.replies("a/fail", &()).await.unwrap();
    // However often it is asked.
    for _ in 0..2 {
        assert!(set.has_more().await);
    }
    assert_eq!(set.next().await.unwrap().unwrap().decode::<u64>().unwrap(), 1);
    for _ in 0..2 {
        assert!(!set.has_more().await, "an exception is no reply");
    }
    assert_eq!(set.next().await.unwrap().unwrap_err().name, "Refused");
    assert!(!set.has_more().await && set.next().await.is_none());
    assert_eq!(set.ended(), Some(Ended::Exception));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_has_read_can_be_read_after_the_set_was_cancelled_and_after_its_time() {
    let sent = Arc::new(Semaphore::new(0));
    let says = Arc::clone(&sent);
    let service = Service::new("a").replies("hang", move |context: Context, (): ()| {
        let says = Arc::clone(&says);
        async move {
            context.gather(1, 1, 1);
            for number in 0..3 {
                context.preturn(&number).await?;
            }
            says.add_permits(1);
            std::future::pending::<()>().await;
            Ok(())
        }
    });
    let service = service.function("ping", async |(): ()| Ok(()));
    let (_nodes, client) = nodes(vec![service]).await;
    let options = RunOptions { timeout: Duration::from_secs(2), ..RunOptions::default() };
    let begin = async || {
        let set = client.replies_with("a/hang", to_value(&()).unwrap(), &options).unwrap();
        sent.acquire().await.unwrap().forget();
        // Its answer comes by the same link, after what was sent before.
        client.call::<_, ()>("a", "ping", &()).await.unwrap();
        set
    };
    let (cancelled, late) = (begin().await, begin().await);
    cancelled.cancel();
    // Its time is over after that of the one before.
    let (_, why, _) = all(begin().await).await;
    assert_eq!(why.unwrap().name, exceptions::DEADLINE_EXCEEDED);
    for (set, name) in [(cancelled, exceptions::CANCELLED), (late, exceptions::DEADLINE_EXCEEDED)] {
        let (seen, why, set) = all(set).await;
        assert_eq!((seen, set.ended()), (BTreeSet::from([0, 1, 2]), Some(Ended::Failure)));
        assert_eq!(why.unwrap().name, name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_million_replies_of_one_byte_are_never_further_ahead_than_the_window() {
    const COUNT: u64 = 1_000_000;
    let window = u64::from(Policy::default().reply_window);
    let (read, ahead) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (seen, most) = (Arc::clone(&read), Arc::clone(&ahead));
    let service = Service::new("a").replies("tiny", move |context: Context, (): ()| {
        let (seen, most) = (Arc::clone(&seen), Arc::clone(&most));
        async move {
            for sent in 1..=COUNT {
                context.preturn(&(sent % 24)).await?;
                most.fetch_max(sent.saturating_sub(seen.load(Ordering::SeqCst)), Ordering::SeqCst);
            }
            Ok(())
        }
    });
    let (_nodes, client) = nodes(vec![service]).await;
    let mut set = client.replies("a/tiny", &()).await.unwrap();
    // It runs into the window before anything is read.
    let stuck = async {
        while ahead.load(Ordering::SeqCst) < window {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, stuck).await.expect("the window is filled");
    for number in 1..=COUNT {
        // Counted before it is told: what is ahead of this is ahead of what the replier knows.
        read.store(number, Ordering::SeqCst);
        let reply = tokio::time::timeout(PATIENCE, set.next()).await.expect("they flow").unwrap().unwrap();
        assert_eq!((reply.value().len_bytes(), reply.decode::<u64>().unwrap()), (1, number % 24));
    }
    assert!(set.next().await.is_none() && set.ended() == Some(Ended::Complete));
    let ahead = ahead.load(Ordering::SeqCst);
    assert!(ahead <= window, "{ahead} were sent and not read");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_circle_of_delegations_is_as_long_as_its_hops_allow_for_plain_calls_too() {
    let runs = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&runs);
    let service = Service::new("a").replies("circle", move |context: Context, (): ()| {
        count.fetch_add(1, Ordering::SeqCst);
        async move { Ok(context.delegate("a/circle", &())?) }
    });
    let (_nodes, client) = nodes(vec![service]).await;
    // Each is one hop, and lends half of what is left then.
    for (hops_max, expected) in [(0, 1), (1, 2), (5, 3), (2_000, 11)] {
        let options = RunOptions { hops_max, ..RunOptions::default() };
        let set = client.replies_with("a/circle", to_value(&()).unwrap(), &options).unwrap();
        let of_set = all(set).await.1.expect("an exception");
        assert_eq!((of_set.name.as_str(), runs.swap(0, Ordering::SeqCst)), (exceptions::HOP_BUDGET_EXCEEDED, expected));
        let plain = client.call_with("a", "circle", to_value(&()).unwrap(), &options).await.unwrap_err();
        assert_eq!((plain.name.as_str(), runs.swap(0, Ordering::SeqCst)), (exceptions::HOP_BUDGET_EXCEEDED, expected));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_delegates_of_a_plain_call_share_its_hops_as_those_of_a_set_do() {
    let runs = Arc::new(AtomicU64::new(0));
    let service = Service::new("a").replies("twice", move |context: Context, (): ()| {
        let runs = Arc::clone(&runs);
        async move {
            context.preturn(&runs.fetch_add(1, Ordering::SeqCst)).await?;
            // As often as the hops allow, and no more than twice.
            let _ = context.delegate("a/twice", &()).and_then(|()| context.delegate("a/twice", &()));
            Ok(())
        }
    });
    let (_nodes, client) = nodes(vec![service]).await;
    for (hops_max, expected) in [(0, 1), (1, 2), (2, 3), (6, 5)] {
        let options = RunOptions { hops_max, ..RunOptions::default() };
        let of_set = complete(client.replies_with("a/twice", to_value(&()).unwrap(), &options).unwrap()).await;
        let plain = client.call_with("a", "twice", to_value(&()).unwrap(), &options).await.unwrap();
        let of_plain: Vec<u64> = catena::from_value(&plain).unwrap();
        assert_eq!((of_set.len(), of_plain.len()), (expected, expected), "with {hops_max} hops");
    }
}

#[allow(clippy::disallowed_methods, reason = "a blocking function has a thread of its own")]
#[tokio::test(flavor = "multi_thread")]
async fn streams_iterators_and_blocking_functions_reply_and_overload_is_refused_by_name() {
    let (go, gone) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicU64::new(0)));
    let (wait, count) = (Arc::clone(&go), Arc::clone(&gone));
    let service = Service::new("a")
        .threads(1, 1)
        .iterator("count", |_, upto: u64| Ok(0..upto))
        .stream("stream", async |_, upto: u64| Ok(futures_util::stream::iter((0..upto).map(Ok))))
        .blocking("block", move |_, (): ()| {
            count.fetch_add(1, Ordering::SeqCst);
            tokio::runtime::Handle::current().block_on(wait.acquire())?.forget();
            Ok(7_u64)
        });
    let (_nodes, client) = nodes(vec![service]).await;
    for target in ["a/count", "a/stream"] {
        assert_eq!(complete(client.replies(target, &2_000_u64).await.unwrap()).await, (0..2_000).collect());
    }
    let call = || client.call::<_, u64>("a", "block", &());
    let first = tokio::spawn({
        let client = client.clone();
        async move { client.call::<_, u64>("a", "block", &()).await }
    });
    while gone.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    // One has the thread, one waits for it, and the third is refused, whichever that is.
    let (second, third) = tokio::join!(
        async {
            let result = call().await;
            go.add_permits(2);
            result
        },
        async {
            let result = call().await;
            go.add_permits(2);
            result
        }
    );
    let refused = |result: &Result<u64, Exception>| matches!(result, Err(why) if why.name == exceptions::OVERLOADED);
    assert!(refused(&second) != refused(&third), "{second:?} {third:?}");
    assert_eq!(first.await.unwrap().unwrap(), 7);
}

/// A process that ends drops its tasks, in the middle of what they had to say: that is no end of theirs.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_ends_before_all_of_its_tasks_have_replied_leaves_no_complete_set() {
    for by_task in [false, true] {
        let process = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let service = Service::new("a").replies("more", async |context: Context, by_task: bool| {
            let more = async move {
                context.preturn(&1_u64).await?;
                std::future::pending::<()>().await;
                context.preturn(&2_u64).await
            };
            if by_task {
                drop(tokio::spawn(more));
                return Ok(());
            }
            Ok(more.await?)
        });
        let starting = Node::builder("a").listen("127.0.0.1:0").service(service).start();
        let node = process.spawn(starting).await.unwrap().unwrap();
        let join = Place::new(node.address().unwrap());
        let client = Client::builder("client").join(join).connect().await.unwrap();
        let mut set = client.replies("a/more", &by_task).await.unwrap();
        assert_eq!(set.next().await.unwrap().unwrap().decode::<u64>().unwrap(), 1);
        // As at the end of `main`: without closing the node.
        process.shutdown_background();
        let (seen, why, set) = all(set).await;
        assert!(seen.is_empty() && set.is_partial(), "by a task: {by_task}, {why:?}");
    }
}
