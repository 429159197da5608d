//! Replies as they come, and what becomes of them when the browser leaves, reads slowly or asks for too much.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::{pin::pin, sync::Arc};

use catena::{Node, Service};
use catena_gateway::{Config, Named};
use common::{Browser, Event, Stage, patient};
use futures_util::FutureExt;
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::sync::{Semaphore, mpsc};

/// What happens in a test is less than this.
const EVENTS_MAX: usize = 64;

/// What a call of `held/wait` tells of itself.
#[derive(Debug, PartialEq)]
enum Happened {
    Began,
    /// It ended, or was dropped.
    Over,
}

/// A service whose calls wait until the test lets one go.
struct Held {
    service: Service,
    go: Arc<Semaphore>,
    happens: mpsc::Receiver<Happened>,
}

struct Tells(mpsc::Sender<Happened>);

impl Drop for Tells {
    fn drop(&mut self) {
        let _ = self.0.try_send(Happened::Over);
    }
}

fn held() -> Held {
    let (tell, happens) = mpsc::channel(EVENTS_MAX);
    let go = Arc::new(Semaphore::new(0));
    let gate = Arc::clone(&go);
    let service = Service::new("held").function("wait", move |_: IgnoredAny| {
        let (gate, tell) = (Arc::clone(&gate), tell.clone());
        async move {
            tell.try_send(Happened::Began)?;
            let _tells = Tells(tell);
            gate.acquire().await?.forget();
            Ok("let go")
        }
    });
    Held { service, go, happens }
}

/// A gateway that also runs a chain.
async fn with_chain(
    services: Vec<Service>,
    source: &str,
    set: impl FnOnce(&mut Config),
) -> (Stage, catena_gateway::Gateway) {
    let stage = Stage::open(services, |_| {}).await;
    let code = stage.client.javascript("chain.js", source).await.unwrap();
    let mut config = Config { functions: vec![Named { name: "chain".into(), code }], ..Config::default() };
    set(&mut config);
    let gateway = catena_gateway::Gateway::open(stage.client.clone(), config).await.unwrap();
    (stage, gateway)
}

const ONE_THEN_WAIT: &str = r#"
    import { call, emit } from "catena";
    export default async (input) => {
        emit({ input });
        const waited = await call("held/wait", {});
        emit(waited);
        return "done";
    }"#;

#[tokio::test]
async fn replies_come_as_they_come_and_the_end_is_told_apart() {
    let mut held = held();
    let (_stage, gateway) = with_chain(vec![held.service], ONE_THEN_WAIT, |_| {}).await;
    let mut browser = Browser::connect(gateway.address()).await;
    browser.ask("/run/chain", "7").await;
    let (status, head) = browser.head().await;
    assert!(status == 200 && head.contains("content-type: text/event-stream\r\n"), "{head}");
    // While the service is held.
    assert_eq!(browser.event().await.unwrap(), Event::reply(json!({ "input": 7 })));
    assert_eq!(patient(held.happens.recv()).await.unwrap(), Happened::Began);
    held.go.add_permits(1);
    assert_eq!(browser.event().await.unwrap(), Event::reply("let go"));
    let end = browser.event().await.unwrap();
    assert_eq!((end.name.as_str(), end.data), ("end", json!({ "complete": true, "replies": 2, "result": "done" })));
    assert_eq!(browser.event().await, None);
    // The same connection, by hash, and for the one answer.
    let listed = {
        browser.send(format!("GET /openapi.json HTTP/1.1\r\nhost: {}\r\n\r\n", gateway.address()).as_bytes()).await;
        browser.answer().await.json()
    };
    let hash = listed["paths"]["/run/chain"]["post"]["x-catena-hash"].as_str().unwrap().to_owned();
    held.go.add_permits(1);
    browser.post(&format!("/run/{hash}"), &[], "7").await;
    assert_eq!(browser.answer().await.json(), json!("done"));
}

#[tokio::test]
async fn a_browser_that_leaves_cancels_what_it_asked_for() {
    let mut held = held();
    let (stage, gateway) =
        with_chain(vec![held.service], ONE_THEN_WAIT, |config| config.offers = vec!["held/*".parse().unwrap()]).await;
    for (path, events) in [("/call/held/wait", true), ("/call/held/wait", false), ("/run/chain", true)] {
        let mut browser = Browser::connect(gateway.address()).await;
        if events {
            browser.ask(path, "{}").await
        } else {
            browser.post(path, &[], "{}").await
        }
        assert_eq!(patient(held.happens.recv()).await.unwrap(), Happened::Began, "{path}");
        drop(browser);
        assert_eq!(patient(held.happens.recv()).await.unwrap(), Happened::Over, "{path}");
    }
    drop(stage);
}

#[tokio::test]
async fn a_browser_that_leaves_and_reconnects_has_all_of_it_from_the_beginning() {
    let mut held = held();
    let (_stage, gateway) =
        with_chain(vec![held.service], ONE_THEN_WAIT, |config| config.limits.streams_per_address_max = 1).await;
    let asks = async || {
        let mut browser = Browser::connect(gateway.address()).await;
        browser.ask("/run/chain", "7").await;
        assert_eq!(browser.head().await.0, 200);
        assert_eq!(browser.event().await.unwrap(), Event::reply(json!({ "input": 7 })));
        browser
    };
    // As often as it likes: what it left is over, and so is its place.
    for _ in 0..5 {
        let browser = asks().await;
        assert_eq!(patient(held.happens.recv()).await.unwrap(), Happened::Began);
        drop(browser);
        assert_eq!(patient(held.happens.recv()).await.unwrap(), Happened::Over);
        patient(async {
            while gateway.load() != (0, 0) {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
    let mut browser = asks().await;
    held.go.add_permits(1);
    assert_eq!(browser.event().await.unwrap(), Event::reply("let go"));
    let end = browser.event().await.unwrap();
    assert_eq!((end.name.as_str(), end.data), ("end", json!({ "complete": true, "replies": 2, "result": "done" })));
    assert_eq!(patient(held.happens.recv()).await.unwrap(), Happened::Began);
    assert_eq!(patient(held.happens.recv()).await.unwrap(), Happened::Over);
    assert!(held.happens.try_recv().is_err(), "nothing is done twice");
}

#[tokio::test]
async fn a_call_that_fails_ends_its_stream_with_the_reason() {
    let held = held();
    let stage = Stage::open(vec![held.service], |config| {
        config.offers = vec!["held/*".parse().unwrap(), "gone/*".parse().unwrap()];
    })
    .await;
    let ends = async |path: &str, headers: &[(&str, &str)]| {
        let mut browser = stage.browser().await;
        browser.post(path, &[&[("accept", "text/event-stream")], headers].concat(), "{}").await;
        assert_eq!(browser.head().await.0, 200);
        let end = browser.event().await.unwrap();
        assert_eq!((end.name.as_str(), &end.data["complete"], browser.event().await), ("end", &json!(false), None));
        (end.data["kind"].clone(), end.data["problem"]["name"].clone())
    };
    assert_eq!(ends("/call/gone/wait", &[]).await, (json!("exception"), json!("UnknownService")));
    assert_eq!(
        ends("/call/held/wait", &[("catena-timeout-ms", "50")]).await,
        (json!("failure"), json!("DeadlineExceeded"))
    );
}

#[tokio::test]
async fn one_address_has_so_many_calls_under_way() {
    let mut held = held();
    let stage = Stage::open(vec![held.service], |config| {
        config.offers = vec!["held/*".parse().unwrap()];
        config.limits.streams_per_address_max = 1;
    })
    .await;
    let mut first = stage.browser().await;
    first.ask("/call/held/wait", "{}").await;
    assert_eq!(patient(held.happens.recv()).await.unwrap(), Happened::Began);
    let why = stage.post("/call/held/wait", &[], "{}").await.is_problem(503, "Overloaded");
    assert!(why["detail"].as_str().unwrap().contains("streams_per_address_max"));
    held.go.add_permits(1);
    assert_eq!(first.head().await.0, 200);
    while first.event().await.is_some() {}
    held.go.add_permits(1);
    assert_eq!(stage.post("/call/held/wait", &[], "{}").await.json(), json!("let go"));
}

/// Answers with so many bytes.
fn large() -> Service {
    Service::new("large").function("of", async |bytes: usize| Ok("x".repeat(bytes)))
}

// A link whose tasks stand still for 20 s is given up. On one thread they would stand still for as long as the function makes its answer, so it makes no more
// than it takes to be refused, and has a thread to itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_reply_beyond_the_bound_ends_the_stream_by_name() {
    /// Of the node; the longest message is an eighth of it.
    const MEMORY_BYTES: u64 = 256 << 20;
    let far = Node::builder("far").memory_bytes_max(MEMORY_BYTES);
    let stage = Stage::open_beside(far, vec![large()], |config| {
        config.offers = vec!["large/of".parse().unwrap()];
        config.limits.reply_bytes_max = 1 << 20;
    })
    .await;
    let inside = (1 << 20) - 2;
    let fits = stage.post("/call/large/of", &[], &inside.to_string()).await;
    assert_eq!((fits.status, fits.body.len()), (200, 1 << 20));
    let why = stage.post("/call/large/of", &[], &(inside + 1).to_string()).await.is_problem(502, "LimitExceeded");
    assert!(why["detail"].as_str().unwrap().contains("reply_bytes_max"));
    for (bytes, bound) in [(8 << 20, "reply_bytes_max"), (MEMORY_BYTES / 8 + 1, "reply in parts")] {
        let mut browser = stage.browser().await;
        browser.ask("/call/large/of", &bytes.to_string()).await;
        assert_eq!(browser.head().await.0, 200);
        let end = browser.event().await.unwrap();
        assert_eq!((end.name.as_str(), &end.data["complete"]), ("end", &json!(false)), "{bytes}");
        assert!(end.data["problem"]["detail"].as_str().is_some_and(|detail| detail.contains(bound)), "{}", end.data);
    }
}

#[tokio::test]
async fn a_browser_that_reads_nothing_is_given_up() {
    let stage = Stage::open(vec![large()], |config| {
        config.offers = vec!["large/of".parse().unwrap()];
        config.limits.write_timeout_ms = 50;
    })
    .await;
    let mut idle = Browser::narrow(stage.address()).await;
    // More than the system takes in for somebody who reads nothing.
    idle.ask("/call/large/of", "7000000").await;
    idle.head().await;
    patient(stage.load((0, 0))).await;
}

#[tokio::test]
async fn closing_lets_what_is_under_way_end_and_nobody_in() {
    let mut held = held();
    let stage = Stage::open(vec![held.service], |config| config.offers = vec!["held/*".parse().unwrap()]).await;
    let mut browser = stage.browser().await;
    browser.ask("/call/held/wait", "{}").await;
    assert_eq!(patient(held.happens.recv()).await.unwrap(), Happened::Began);
    let address = stage.address();
    let Stage { gateway, client: _client, .. } = stage;
    let closing = tokio::spawn(gateway.close(std::time::Duration::from_secs(60)));
    // It listens no more from here on.
    patient(async { while tokio::net::TcpStream::connect(address).await.is_ok() {} }).await;
    held.go.add_permits(1);
    browser.head().await;
    assert_eq!(browser.event().await.unwrap(), Event::reply("let go"));
    assert_eq!(browser.event().await.unwrap().name, "end");
    patient(closing).await.unwrap();
}

#[tokio::test]
async fn a_branch_whose_replies_do_not_come_is_told_before_the_end() {
    let front = Service::new("front").replies("all", async |context, _: IgnoredAny| {
        context.preturn(&"mine").await?;
        context.delegate("gone/find", &())?;
        Ok(())
    });
    let stage = Stage::open(vec![front], |config| config.offers = vec!["front/all".parse().unwrap()]).await;
    let mut browser = stage.browser().await;
    browser.ask("/call/front/all", "{}").await;
    assert_eq!(browser.head().await.0, 200);
    assert_eq!(browser.event().await.unwrap(), Event::reply("mine"));
    let missing = browser.event().await.unwrap();
    assert_eq!((missing.name.as_str(), &missing.data["target"]), ("missing", &json!("gone/find")));
    assert_eq!(missing.data["problem"]["name"], "UnknownService");
    let end = browser.event().await.unwrap();
    assert_eq!((end.name.as_str(), &end.data["replies"], &end.data["kind"]), ("end", &json!(1), &json!("exception")));
    assert_eq!(browser.event().await, None);
}

/// Replies so often with a number, and tells when it is made to wait.
fn counting() -> (Service, mpsc::Receiver<()>) {
    let (tell, waits) = mpsc::channel(1);
    let service = Service::new("counting").replies("to", move |context, count: u32| {
        let tell = tell.clone();
        async move {
            for number in 0..count {
                let mut sending = pin!(context.preturn(&number));
                match (&mut sending).now_or_never() {
                    Some(sent) => sent?,
                    None => {
                        let _ = tell.try_send(());
                        sending.await?;
                    }
                }
            }
            Ok(())
        }
    });
    (service, waits)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_million_tiny_replies_wait_for_a_slow_browser_and_all_come() {
    const COUNT: u32 = 1_000_000;
    let (service, mut waits) = counting();
    let stage = Stage::open(vec![service], |config| config.offers = vec!["counting/to".parse().unwrap()]).await;
    let mut browser = Browser::narrow(stage.address()).await;
    browser.ask("/call/counting/to", &COUNT.to_string()).await;
    assert_eq!(browser.head().await.0, 200);
    // The browser reads nothing, so in the end the function waits.
    patient(waits.recv()).await.unwrap();
    let (replies, rest) = browser.count().await;
    assert_eq!(replies, COUNT as usize);
    assert!(rest.ends_with("data: {\"complete\":true,\"replies\":1000000}\n\n"), "{rest}");
}
