//! Who replies, who reads, and how far ahead of each other they may be.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use catena::{Client, Context, Ended, Exception, Place, Policy, RunOptions, Service, exceptions, to_value};
use tokio::sync::{Notify, Semaphore, watch};

use crate::{PATIENCE, all, complete, leaf, nodes};

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
    // Far more than the replies take to come.
    const TIME: Duration = Duration::from_secs(10);
    let begin = async |timeout| {
        let options = RunOptions { timeout, ..RunOptions::default() };
        let set = client.replies_with("a/hang", to_value(&()).unwrap(), &options).unwrap();
        sent.acquire().await.unwrap().forget();
        // Its answer comes by the same link, after what was sent before.
        client.call::<_, ()>("a", "ping", &()).await.unwrap();
        set
    };
    let (cancelled, late) = (begin(RunOptions::default().timeout).await, begin(TIME).await);
    cancelled.cancel();
    // Its time is over after that of the one before.
    let (_, why, _) = all(begin(TIME).await).await;
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

#[allow(clippy::disallowed_methods, reason = "a blocking function has a thread of its own")]
#[tokio::test(flavor = "multi_thread")]
async fn one_peer_leaves_places_of_blocking_functions_for_others() {
    let (go, begun) = (Arc::new(Semaphore::new(0)), watch::Sender::new(0));
    let (wait, begins) = (Arc::clone(&go), begun.clone());
    let service = Service::new("a").threads(8, 0).blocking("block", move |_, (): ()| {
        begins.send_modify(|begun| *begun += 1);
        tokio::runtime::Handle::current().block_on(wait.acquire())?.forget();
        Ok(7_u64)
    });
    let (nodes, one) = nodes(vec![service]).await;
    let other = Client::builder("other").join(Place::new(nodes[0].address().unwrap())).connect().await.unwrap();
    let mut calls = tokio::task::JoinSet::new();
    let call = |client: Client| async move { client.call::<_, u64>("a", "block", &()).await };
    (0..8).for_each(|_| drop(calls.spawn(call(one.clone()))));
    for _ in 0..4 {
        let refused = tokio::time::timeout(PATIENCE, calls.join_next()).await.expect("it has its share");
        let why = refused.unwrap().unwrap().unwrap_err();
        assert_eq!(why.name, exceptions::OVERLOADED, "{why}");
    }
    for client in [other, nodes[0].client()] {
        calls.spawn(call(client));
    }
    tokio::time::timeout(PATIENCE, begun.subscribe().wait_for(|begun| *begun == 6)).await.expect("room").unwrap();
    go.add_permits(6);
    while let Some(ended) = calls.join_next().await {
        assert_eq!(ended.unwrap().unwrap(), 7);
    }
}
