//! How a set ends where not all goes well: what is refused, stopped, gone or out of time is named, and takes nothing else with it.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use catena::{
    Budget, Client, Context, Ended, Node, Place, Policy, ReplySet, RunOptions, Service, exceptions, to_value,
};
use futures_util::FutureExt as _;
use tokio::sync::{Notify, Semaphore};

use crate::{PATIENCE, all, complete, leaf, nodes, nodes_with};

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
    // Whoever waits for who is gone ends with a loss, or when its time runs out: never so.
    let (came, why, set) = all(after).await;
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

// A link whose tasks stand still for 20 s is given up: whatever makes the reply has one thread of several, on one processor too.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_reply_of_200_mb_is_refused_by_name_and_takes_no_other_with_it() {
    let service = Service::new("a").replies("large", async |context: Context, goes_on: bool| {
        context.preturn(&1).await?;
        context.preturn(&2).await?;
        let refused = context.preturn(&"x".repeat(200 << 20)).await;
        if goes_on { Ok(context.preturn(&3).await?) } else { Ok(refused?) }
    });
    // That takes seconds on a slow processor, and nobody is to be taken for lost meanwhile.
    let patient = Policy { heartbeat_timeout_us: 120_000_000, ..Policy::default() };
    let (_nodes, client) = nodes_with(vec![service], &patient).await;
    let (seen, why, set) = all(client.replies("a/large", &false).await.unwrap()).await;
    assert_eq!((seen, set.ended()), (BTreeSet::from([1, 2]), Some(Ended::Exception)));
    let why = why.unwrap();
    assert!(why.name == exceptions::LIMIT_EXCEEDED && why.message.contains("reply in parts"), "{why}");
    let [missing] = set.missing() else { panic!("{:?}", set.missing()) };
    assert_eq!((missing.target.as_str(), missing.node.as_deref()), ("a/large", Some("a")));
    assert_eq!(complete(client.replies("a/large", &true).await.unwrap()).await, BTreeSet::from([1, 2, 3]));
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

/// A function that runs when its process ends goes on until it waits; what it starts meanwhile is dropped at once, unheard.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_function_starts_while_its_process_ends_is_not_taken_for_said() {
    for plain in [false, true] {
        let process = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (begun, begins) = std::sync::mpsc::sync_channel(1);
        let service = Service::new("a").replies("more", move |context: Context, (): ()| {
            let begun = begun.clone();
            async move {
                tokio::task::yield_now().await;
                begun.send(()).unwrap();
                // Until no task is taken any more. It does not wait, so nothing can stop it here.
                while tokio::spawn(async {}).now_or_never().is_none_or(|ended| ended.is_ok()) {
                    std::thread::yield_now();
                }
                drop(tokio::spawn(async move { context.preturn(&1_u64).await }));
                Ok(())
            }
        });
        let starting = Node::builder("a").listen("127.0.0.1:0").service(service).start();
        let node = process.spawn(starting).await.unwrap().unwrap();
        let join = Place::new(node.address().unwrap());
        let client = Client::builder("client").join(join).connect().await.unwrap();
        let calling = async {
            if plain {
                return client.call::<_, Vec<u64>>("a", "more", &()).await.is_err();
            }
            let (seen, _, set) = all(client.replies("a/more", &()).await.unwrap()).await;
            seen.is_empty() && set.is_partial()
        };
        let ending = async {
            tokio::task::spawn_blocking(move || begins.recv()).await.unwrap().unwrap();
            process.shutdown_background();
        };
        let (some_are_missing, ()) = tokio::join!(calling, ending);
        assert!(some_are_missing, "by a plain call: {plain}");
    }
}
