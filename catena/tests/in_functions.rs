//! Functions that read replies as they come (Quatrain), over real nodes and sockets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use catena::{
    Budget, Client, Code, Context, Exception, Mode, Node, Place, Policy, ReplySet, RunOptions, Service, exceptions,
    to_value,
};
use common::SANDBOX;
use serde_json::{Value as Json, json};
use tokio::sync::Notify;

const PATIENCE: Duration = Duration::from_secs(600);

/// Nodes `a`, `b` and `c`, each with a service of its name, and a client that has joined the first.
struct Mesh {
    nodes: Vec<Node>,
    client: Client,
    /// Functions that were told that nobody waits for their replies.
    cancelled: Arc<AtomicU64>,
    told: Arc<Notify>,
}

impl Mesh {
    async fn new() -> Self {
        let (cancelled, told) = (Arc::new(AtomicU64::new(0)), Arc::new(Notify::new()));
        let mut nodes: Vec<Node> = Vec::new();
        for name in ["a", "b", "c"] {
            // A node that dies is noticed soon.
            let policy =
                Policy { heartbeat_interval_us: 200_000, heartbeat_timeout_us: 5_000_000, ..Policy::default() };
            let builder = Node::builder(name).listen("127.0.0.1:0").sandbox(SANDBOX.clone()).policy(policy);
            let mut builder = builder.service(service(name, &cancelled, &told));
            if let Some(first) = nodes.first() {
                builder = builder.join(Place::new(first.address().unwrap()));
            }
            nodes.push(builder.start().await.unwrap());
        }
        let join = Place::new(nodes[0].address().unwrap());
        let client = Client::builder("client").sandbox(SANDBOX.clone()).join(join).connect().await.unwrap();
        Self { nodes, client, cancelled, told }
    }

    async fn begin(&self, source: &str, input: Json, options: &RunOptions) -> ReplySet {
        let source = format!("import {{ call, emit, replies, split }} from \"catena\";\n{source}");
        let code = self.client.javascript("test.js", &source).await.expect("the function loads");
        self.client.run_with(&code, &to_value(&input).unwrap(), options).unwrap()
    }

    /// The sample guest `enough`.
    async fn enough(&self) -> Code {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/guests/enough.wasm");
        let module =
            std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}: run `make engine`", path.display()));
        self.client.wasm("enough.wasm", &module).await.expect("the function loads")
    }

    /// What it emitted, its end, and the hosts that it went through.
    async fn run_as(&self, source: &str, input: Json, mode: Mode) -> Ran {
        ran(self.begin(source, input, &RunOptions { mode, timeout: PATIENCE, ..RunOptions::default() }).await).await
    }

    async fn run(&self, source: &str, input: Json) -> Ran {
        self.run_as(source, input, Mode::Chain).await
    }

    async fn value(&self, source: &str, input: Json) -> Json {
        self.run(source, input).await.1.unwrap_or_else(|why| panic!("{why}"))
    }

    /// What the chain emitted, and its value, where node `c` dies when so much was emitted.
    async fn kill_c_after(&mut self, count: usize, mut set: ReplySet) -> (Vec<Json>, Json) {
        let mut seen = Vec::new();
        loop {
            match tokio::time::timeout(PATIENCE, set.next()).await.expect("the chain ends").unwrap().unwrap() {
                catena::Reply::Last(value) => return (seen, catena::from_value(&value).unwrap()),
                catena::Reply::Partial(value) => seen.push(catena::from_value(&value).unwrap()),
            }
            if seen.len() == count
                && let Some(node) = self.nodes.pop()
            {
                node.close(Duration::ZERO).await;
            }
        }
    }

    /// Waits until so many functions know that nobody waits.
    async fn until_cancelled(&self, count: u64) {
        let all = async {
            loop {
                let mut told = std::pin::pin!(self.told.notified());
                told.as_mut().enable();
                if self.cancelled.load(Ordering::SeqCst) >= count {
                    return;
                }
                told.await;
            }
        };
        tokio::time::timeout(PATIENCE, all).await.expect("the service is told that nobody waits");
    }
}

/// What a function emitted, its end, and the hosts that it went through.
type Ran = (Vec<Json>, Result<Json, Exception>, Vec<String>);

async fn ran(mut set: ReplySet) -> Ran {
    let mut emits = Vec::new();
    loop {
        match tokio::time::timeout(PATIENCE, set.next()).await.expect("the chain ends").expect("an end") {
            Ok(catena::Reply::Partial(value)) => emits.push(catena::from_value(&value).unwrap()),
            Ok(catena::Reply::Last(value)) => return (emits, catena::from_value(&value), set.path().to_vec()),
            Err(why) => return (emits, Err(why), set.path().to_vec()),
        }
    }
}

struct Told(Arc<AtomicU64>, Arc<Notify>);

impl Drop for Told {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        self.1.notify_waiters();
    }
}

fn service(name: &str, cancelled: &Arc<AtomicU64>, told: &Arc<Notify>) -> Service {
    let (cancelled, told) = (Arc::clone(cancelled), Arc::clone(told));
    Service::new(name)
        .function("echo", async |value: Json| Ok(value))
        .function_in("where", async |context: Context, _: Json| Ok(context.node.to_string()))
        .function("fail", async |_: Json| Err::<(), _>(catena::ServiceError::named("Refused", "on purpose")))
        .replies("count", async |context: Context, count: u64| {
            context.gather(64, 16_384, 1_000);
            for number in 0..count {
                context.preturn(&number).await?;
            }
            Ok(())
        })
        // Replies for as long as anybody waits.
        .replies("ever", move |context: Context, _: Json| {
            let (cancelled, told) = (Arc::clone(&cancelled), Arc::clone(&told));
            async move {
                // When nobody waits the function is dropped, wherever it is.
                let _told = Told(cancelled, told);
                for number in 0_u64.. {
                    context.preturn(&number).await?;
                }
                Ok(())
            }
        })
        // One reply, and those of others.
        .replies("also", async |context: Context, others: Vec<String>| {
            context.preturn(&"mine").await?;
            for other in others {
                context.delegate(&other, &1)?;
            }
            Ok(())
        })
        .replies("hang", async |context: Context, _: Json| {
            context.preturn(&"before").await?;
            std::future::pending::<()>().await;
            Ok(())
        })
}

/// From a service of the node where the function is, and from another.
#[tokio::test(flavor = "multi_thread")]
async fn each_reply_is_emitted_as_it_comes_in_order_from_here_and_from_elsewhere() {
    let mesh = Mesh::new().await;
    let source = r#"export default async (target) => {
        const here = await call("a/where", null);
        let count = 0;
        for await (const reply of replies(target, 1_000)) { emit(reply); count++; }
        return [here, count];
    }"#;
    let numbers: Vec<Json> = (0..1_000).map(Json::from).collect();
    for mode in [Mode::Chain, Mode::Interactive, Mode::Adaptive] {
        for target in ["a/count", "b/count"] {
            let (emits, end, _) = mesh.run_as(source, json!(target), mode).await;
            assert_eq!(end.unwrap(), json!(["a", 1_000]), "{target}, {mode:?}");
            assert_eq!(emits, numbers, "{target}, {mode:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_stops_early_cancels_the_rest_and_the_next_call_moves() {
    let mesh = Mesh::new().await;
    let stops = [
        "for await (const reply of set) if (reply === 3) break;",
        "try { for await (const reply of set) if (reply === 3) throw new Error('enough'); } catch {}",
        "await set.next(); await set.return();",
        "await set.next(); const next = set.next(); for (let i = 0; i < 9; i++) await null; await set.return(); await next;",
        "await set.return();",
    ];
    let mut expected = 0;
    for (target, stop) in ["a/ever", "b/ever"].into_iter().flat_map(|target| stops.map(|stop| (target, stop))) {
        let source = format!(
            r#"export default async (target) => {{
                await call("a/where", null);
                const set = replies(target, null);
                {stop}
                return [set.isPartial, set.ended, (await set.next()).done, await call("c/where", null)];
            }}"#
        );
        let (_, end, path) = mesh.run(&source, json!(target)).await;
        assert_eq!(end.unwrap(), json!([true, "failure", true, "c"]), "{target}: {stop}");
        assert_eq!(path.last().unwrap(), "c", "{target}: {stop}: {path:?}");
        // One that is stopped in the breath in which it was asked may never have begun.
        expected += u64::from(stop != stops[4]);
        mesh.until_cancelled(expected).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_in_the_loop_goes_out_from_where_the_function_reads_and_one_that_ends_it_moves() {
    let mesh = Mesh::new().await;
    let source = r#"export default async () => {
        const seen = [];
        for await (const reply of replies("b/count", 3_000)) {
            if (reply < 300 && reply % 100 === 0) seen.push([reply, await call("c/where", null)]);
        }
        return seen;
    }"#;
    let (_, end, path) = mesh.run(source, Json::Null).await;
    assert_eq!(end.unwrap(), json!([[0, "c"], [100, "c"], [200, "c"]]));
    assert!(!path.contains(&"c".to_owned()), "{path:?}");
    let source = r#"export default async () => {
        for await (const reply of replies("b/ever", null)) if (reply === 5) return call("c/echo", reply);
    }"#;
    let (_, end, path) = mesh.run(source, Json::Null).await;
    assert_eq!((end.unwrap(), path.last().unwrap().as_str()), (json!(5), "c"), "{path:?}");
    mesh.until_cancelled(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_million_replies_flow_through_a_function_that_keeps_none() {
    let mesh = Mesh::new().await;
    let source = r#"export default async (count) => {
        await call("a/where", null);
        let sum = 0;
        for await (const reply of replies("b/count", count)) sum += reply;
        return sum;
    }"#;
    assert_eq!(mesh.value(source, json!(1_000_000)).await, json!(499_999_500_000_u64));
}

/// A call, not a loop: the function goes on when nobody can reply any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_whose_service_delegates_gets_the_replies_of_all_or_the_reason_why_not() {
    let mesh = Mesh::new().await;
    let source = r#"export default async (others) => {
        try { return [await call("b/also", others), await call("c/where", null)]; }
        catch (why) { return why.name; }
    }"#;
    for mode in [Mode::Chain, Mode::Interactive, Mode::Adaptive] {
        let run = async |others: Json| mesh.run_as(source, others, mode).await.1.unwrap();
        assert_eq!(run(json!(["c/count", "a/count", "b/count"])).await, json!([["mine", 0, 0, 0], "c"]), "{mode:?}");
        assert_eq!(run(json!(["c/count", "a/fail"])).await, json!("Refused"), "{mode:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_is_thrown_after_the_last_reply_or_read_from_the_set() {
    let mesh = Mesh::new().await;
    let source = r#"export default async ([target, others, partial]) => {
        const [seen, set] = [[], replies(target, others, { partial })];
        if (set.ended !== undefined || set.isPartial) throw new Error("it is open");
        let caught = null;
        try {
            for await (const reply of set) seen.push(reply);
        } catch (why) { caught = why.name; }
        const missing = set.missing.map(({ target, node, why }) => [target, node, why.name, why instanceof Error]);
        return [seen.sort(), caught, set.isPartial, set.ended, missing.sort()];
    }"#;
    let missing = json!([["b/fail", "b", "Refused", true], ["c/fail", "c", "Refused", true]]);
    let input = |partial| json!(["a/also", ["b/fail", "b/count", "c/fail"], partial]);
    assert_eq!(
        mesh.value(source, input(false)).await,
        json!([[0, "mine"], "RepliesMissing", true, "exception", missing])
    );
    assert_eq!(mesh.value(source, input(true)).await, json!([[0, "mine"], null, true, "exception", missing]));
    let whole = mesh.value(source, json!(["a/also", ["b/count", "c/count"], false])).await;
    assert_eq!(whole, json!([[0, 0, "mine"], null, false, "complete", []]));
    let nobody = mesh.value(source, json!(["nobody/f", null, false])).await;
    assert_eq!(
        nobody,
        json!([[], "UnknownService", true, "exception", [["nobody/f", "client", "UnknownService", true]]])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delegate_that_dies_costs_its_own_replies_and_is_named() {
    let mut mesh = Mesh::new().await;
    let source = r#"export default async () => {
        await call("a/where", null);
        const set = replies("b/also", ["c/hang", "b/count"], { partial: true });
        for await (const reply of set) emit(reply);
        return [set.ended, set.missing.map(({ target, node, why }) => [target, node, why.name, why.unknown])];
    }"#;
    let set = mesh.begin(source, Json::Null, &RunOptions::default()).await;
    let (mut seen, end) = mesh.kill_c_after(3, set).await;
    seen.sort_by_key(Json::to_string);
    assert_eq!(seen, [json!("before"), json!("mine"), json!(0)]);
    assert_eq!(end, json!(["exception", [["c/hang", "c", "NodeLost", true]]]));
}

/// The connection broke (Quatrain, section 3.3): no exception, and what had come stays.
#[tokio::test(flavor = "multi_thread")]
async fn when_the_server_that_was_called_dies_a_set_is_a_failure() {
    let missing = json!([["c/hang", "c", "NodeLost"]]);
    let mut mesh = Mesh::new().await;
    let source = r#"export default async () => {
        const set = replies("c/hang", null);
        let caught = null;
        try { for await (const reply of set) emit(reply); } catch (why) { caught = why.name; }
        return [set.ended, set.isPartial, caught, set.missing.map(({ target, node, why }) => [target, node, why.name])];
    }"#;
    let set = mesh.begin(source, Json::Null, &RunOptions::default()).await;
    let (seen, end) = mesh.kill_c_after(1, set).await;
    assert_eq!((seen, end), (vec![json!("before")], json!(["failure", true, "NodeLost", missing])));

    let mut mesh = Mesh::new().await;
    let code = mesh.enough().await;
    let input = json!({ "target": "c/hang", "params": null, "wanted": 2, "then": null });
    let set = mesh.client.run_with(&code, &to_value(&input).unwrap(), &RunOptions::default()).unwrap();
    let (seen, end) = mesh.kill_c_after(1, set).await;
    assert_eq!((seen, end), (vec![json!("before")], json!([1, "failure", "NodeLost", missing, null])));
}

/// Time ran out (Quatrain, section 3.3) at a server of the tree: no exception, and what had come stays.
#[tokio::test(flavor = "multi_thread")]
async fn when_a_server_of_the_tree_runs_out_of_time_a_set_is_a_failure() {
    let mesh = Mesh::new().await;
    // Its callers would wait for longer.
    let policy = Policy { budget_max: Budget::new(500_000, 2_000), ..Policy::default() };
    let late = Node::builder("late").listen("127.0.0.1:0").policy(policy);
    let late = late.service(service("late", &mesh.cancelled, &mesh.told));
    let _late = late.join(Place::new(mesh.nodes[0].address().unwrap())).start().await.unwrap();
    let missing = json!([["late/hang", "late", "DeadlineExceeded"]]);
    let source = r#"export default async ([target, params]) => {
        const [seen, set] = [[], replies(target, params)];
        let caught = null;
        try { for await (const reply of set) seen.push(reply); } catch (why) { caught = why.name; }
        const missing = set.missing.map(({ target, node, why }) => [target, node, why.name]);
        return [seen.sort(), set.ended, set.isPartial, caught, missing];
    }"#;
    let ended = |seen: Json| json!([seen, "failure", true, "DeadlineExceeded", missing]);
    assert_eq!(mesh.value(source, json!(["late/hang", null])).await, ended(json!(["before"])));
    let delegated = json!(["b/also", ["late/hang", "b/count"]]);
    assert_eq!(mesh.value(source, delegated).await, ended(json!([0, "before", "mine"])));

    let code = mesh.enough().await;
    let input = json!({ "target": "late/hang", "params": null, "wanted": 2, "then": null });
    let set = mesh.client.run_with(&code, &to_value(&input).unwrap(), &RunOptions::default()).unwrap();
    let end = ran(set).await.1.unwrap();
    assert_eq!(end, json!([1, "failure", "DeadlineExceeded", missing, null]));
}

/// Each reply goes to one of them and the end to both, also if one of them leaves the set.
#[tokio::test(flavor = "multi_thread")]
async fn two_readers_of_one_set_share_its_replies() {
    let mesh = Mesh::new().await;
    let source = r#"export default async () => {
        const all = async (set) => {
            const seen = [];
            for await (const reply of set) seen.push(reply);
            return seen;
        };
        const first = async (set) => { for await (const reply of set) return reply; };
        const shared = replies("b/count", 1_000);
        const both = await Promise.all([all(shared), all(shared)]);
        const left = replies("b/ever", null);
        const [one, rest] = await Promise.all([first(left), all(left)]);
        const each = both.flat().sort((a, b) => a - b);
        return [
            both.every((seen) => seen.length > 0), each.length, each.every((reply, at) => reply === at), shared.ended,
            one, rest.includes(0), left.ended,
        ];
    }"#;
    let expected = json!([true, 1_000, true, "complete", 0, false, "failure"]);
    assert_eq!(mesh.value(source, Json::Null).await, expected);
    mesh.until_cancelled(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_sets_at_once_and_many_reads_at_once() {
    let mesh = Mesh::new().await;
    let source = r#"export default async () => {
        const sum = async (target) => {
            let sum = 0;
            for await (const reply of replies(target, 2_000)) sum += reply;
            return sum;
        };
        const both = await Promise.all([sum("b/count"), sum("c/count"), call("c/echo", "beside")]);
        const set = replies("b/count", 3);
        const reads = await Promise.all([1, 2, 3, 4, 5].map(() => set.next()));
        return [both, reads.map(({ value, done }) => done ? "end" : value)];
    }"#;
    let expected = json!([[1_999_000, 1_999_000, "beside"], [0, 1, 2, "end", "end"]]);
    assert_eq!(mesh.value(source, Json::Null).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_that_is_never_read_waits_at_its_service_and_is_cancelled_with_the_function() {
    let mesh = Mesh::new().await;
    for ending in ["return 7;", "throw new RangeError('so');", "for (;;) {}"] {
        let before = mesh.cancelled.load(Ordering::SeqCst);
        let source = format!(
            r#"export default async () => {{
                await call("a/where", null);
                const set = replies("b/ever", null);
                await call("c/echo", null);
                {ending}
            }}"#
        );
        let (_, end, _) = mesh.run(&source, Json::Null).await;
        let ended = end.map_or_else(|why| why.name, |value| value.to_string());
        assert!(["7", "RangeError", "LimitExceeded"].contains(&ended.as_str()), "{ended}");
        mesh.until_cancelled(before + 1).await;
    }
    // Also when the caller cancels the chain.
    let before = mesh.cancelled.load(Ordering::SeqCst);
    let source = r#"export default async () => { for await (const reply of replies("b/ever", null)) emit(reply); }"#;
    let mut set = mesh.begin(source, Json::Null, &RunOptions::default()).await;
    set.next().await.unwrap().unwrap();
    drop(set);
    mesh.until_cancelled(before + 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_split_leaves_the_open_set_and_says_so_to_whoever_reads_on() {
    let mesh = Mesh::new().await;
    let source = r#"export default async () => {
        const set = replies("b/ever", null);
        await set.next();
        const parts = await split([async () => call("c/where", null), async () => call("b/where", null)]);
        let caught = null;
        try { for (;;) if ((await set.next()).done) break; } catch (why) { caught = why.name; }
        return [parts, caught];
    }"#;
    assert_eq!(mesh.value(source, Json::Null).await, json!([["c", "b"], "Cancelled"]));
    mesh.until_cancelled(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sets_are_bounded_by_name_and_by_hops() {
    let mesh = Mesh::new().await;
    let source = r#"export default async (count) => {
        const sets = Array.from({ length: count }, () => replies("b/ever", null));
        const firsts = await Promise.allSettled(sets.map((set) => set.next()));
        const why = firsts.find(({ status }) => status === "rejected")?.reason;
        return [firsts.filter(({ status }) => status === "fulfilled").length, why?.name, why?.message];
    }"#;
    let got = mesh.value(source, json!(100)).await;
    assert_eq!((&got[0], &got[1]), (&json!(64), &json!("LimitExceeded")), "{got}");
    assert!(got[2].as_str().unwrap().contains("sets_per_chain_max"), "{got}");
    let (_, end, _) = mesh.run(source, json!(10_000)).await;
    let bounds = [exceptions::HOP_BUDGET_EXCEEDED, exceptions::LIMIT_EXCEEDED];
    assert!(bounds.contains(&end.unwrap_err().name.as_str()));
    // Sets one after the other leave hops for what comes after them.
    let source = r#"export default async () => {
        let sum = 0;
        for (let i = 0; i < 200; i++) for await (const reply of replies("b/also", ["c/count"])) sum++;
        return sum;
    }"#;
    assert_eq!(mesh.value(source, Json::Null).await, json!(400));
    let (_, end, _) = mesh.run(r#"export default () => { replies("nothing"); };"#, Json::Null).await;
    assert!(end.unwrap_err().message.contains("replies: the target must be"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_in_rust_reads_replies_stops_when_it_has_enough_and_moves_on() {
    let mesh = Mesh::new().await;
    let code = mesh.enough().await;
    let run = async |target: &str, params: Json, wanted: u64, then: Option<&str>, mode: Mode| {
        let input = json!({ "target": target, "params": params, "wanted": wanted, "then": then });
        let options = RunOptions { mode, timeout: PATIENCE, ..RunOptions::default() };
        ran(mesh.client.run_with(&code, &to_value(&input).unwrap(), &options).unwrap()).await
    };
    let mut expected = 0;
    for mode in [Mode::Chain, Mode::Interactive, Mode::Adaptive] {
        for site in ["a", "b"] {
            // To their exact end, in batches.
            let (emits, end, _) = run(&format!("{site}/count"), json!(1_000), 2_000, None, mode).await;
            assert_eq!(
                (emits, end.unwrap()),
                ((0..1_000).map(Json::from).collect(), json!([1_000, "complete", null, [], null]))
            );
            // Dropped before their end: whoever replies is told, and the function is free to move.
            let (emits, end, path) = run(&format!("{site}/ever"), Json::Null, 3, Some("c/where"), mode).await;
            assert_eq!((emits, end.unwrap()), (vec![json!(0), json!(1), json!(2)], json!([3, null, null, [], "c"])));
            assert!(mode != Mode::Chain || path.last().unwrap() == "c", "{path:?}");
            expected += 1;
            mesh.until_cancelled(expected).await;
        }
    }
    let (_, end, _) = run("a/also", json!(["b/fail", "b/count", "c/fail"]), 100, None, Mode::Chain).await;
    let [count, ended, name, missing, _] = parts(end.unwrap());
    assert_eq!((count, ended, name), (json!(2), json!("exception"), json!("RepliesMissing")));
    let refused = |of: &str| json!([format!("{of}/fail"), of, "Refused"]);
    assert!(
        missing == json!([refused("b"), refused("c")]) || missing == json!([refused("c"), refused("b")]),
        "{missing}"
    );
    let (_, end, _) = run("nobody/f", Json::Null, 1, None, Mode::Chain).await;
    assert_eq!(
        end.unwrap(),
        json!([0, "exception", "UnknownService", [["nobody/f", "client", "UnknownService"]], null])
    );
    // None is asked for: it is left in the breath in which it was asked, and the function ends.
    let (_, end, _) = run("b/ever", Json::Null, 0, None, Mode::Chain).await;
    assert_eq!(end.unwrap(), json!([0, null, null, [], null]));
}

fn parts<const N: usize>(value: Json) -> [Json; N] {
    serde_json::from_value::<Vec<Json>>(value).unwrap().try_into().unwrap()
}
