//! HTTP over messages and shared memory, between real nodes: applications, a folder, the proxy, and who means harm.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod door;
mod full;
mod hostile;
mod jetty;
mod names;
mod processes;

use std::{path::Path, time::Duration};

use axum::{Router, body::Body, extract::Request as Asked, routing};
use bytes::Bytes;
use catena::{Client, Node, Place};
use catena_web::{
    FetchError, FetchLimits, Fetcher, FileLimits, Files, Keep, Limits, Mounted, Proxy, ProxyLimits, mount,
};
use futures_util::{StreamExt as _, stream};
use http_body_util::BodyExt as _;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::service::TowerToHyperService;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// A node, with what is mounted there.
struct Server {
    node: Node,
    _mounted: Mounted,
}

async fn node(near: bool) -> Node {
    let builder = Node::builder("server").listen("127.0.0.1:0");
    let builder = if near { builder } else { builder.without_shared_memory() };
    builder.start().await.unwrap()
}

async fn fetcher(node: &Node) -> Fetcher {
    let place = Place::new(node.address().unwrap());
    let client = Client::builder("client").join(place).connect().await.unwrap();
    Fetcher::new(client, FetchLimits::default())
}

async fn folder_server(folder: &Path, near: bool, cached: bool, limits: FileLimits) -> Server {
    let node = node(near).await;
    let keep = if cached { Keep::InSegments(node.clone()) } else { Keep::Nothing };
    let files = Files::open(folder, keep, limits).unwrap();
    let mounted = mount(&node, "web", files, Limits::default()).unwrap();
    Server { node, _mounted: mounted }
}

fn get(target: &str) -> Request<Bytes> {
    Request::get(target).body(Bytes::new()).unwrap()
}

fn with(target: &str, field: &str, value: &str) -> Request<Bytes> {
    Request::get(target).header(field, value).body(Bytes::new()).unwrap()
}

async fn whole(response: Response<catena_web::FetchBody>) -> Bytes {
    let read = tokio::time::timeout(Duration::from_secs(60), response.into_body().whole(1 << 30)).await;
    read.expect("the body ends").unwrap()
}

fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 31 + at / 251) as u8).collect()
}

/// The number and the first part of a body that was begun, in an answer as `frame.rs` says it.
fn begun_body(answer: &Bytes) -> (Bytes, Bytes) {
    let head_bytes = u32::from_le_bytes(answer[1..5].try_into().unwrap()) as usize;
    (answer.slice(5 + head_bytes..13 + head_bytes), answer.slice(13 + head_bytes..))
}

fn application() -> Router {
    Router::new()
        .route("/hello/{name}", routing::get(async |asked: Asked| format!("{} {}", asked.method(), asked.uri())))
        .route("/echo", routing::post(async |asked: Asked| asked.into_body()))
        .route("/empty", routing::delete(async || StatusCode::NO_CONTENT))
        .route("/panics", routing::get(async || -> &'static str { panic!("on purpose") }))
        .route("/endless", routing::get(async || Body::from_stream(numbers(u64::MAX))))
        .route("/numbers", routing::get(async || Body::from_stream(numbers(400_000))))
        .route(
            "/fails",
            routing::get(async || {
                let failure = stream::once(async { Err(std::io::Error::other("on purpose")) });
                Body::from_stream(numbers(400_000).chain(failure))
            }),
        )
        .route(
            "/fails-at-once",
            routing::get(async || {
                let failure = stream::once(async { Err(std::io::Error::other("on purpose")) });
                Body::from_stream(numbers(10).chain(failure))
            }),
        )
        .route("/slow", routing::get(async || Body::from_stream(numbers(10).chain(stream::pending()))))
}

fn numbers(count: u64) -> impl futures_util::Stream<Item = std::io::Result<Bytes>> {
    stream::iter((0..count).map(|number| Ok(Bytes::from(format!("{number:08}\n")))))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_of_axum_is_mounted_as_it_is() {
    for near in [true, false] {
        let node = node(near).await;
        let _mounted = mount(&node, "shop", TowerToHyperService::new(application()), Limits::default()).unwrap();
        let fetcher = fetcher(&node).await;
        let hello = fetcher.fetch("shop", get("/hello/you?a=b%20c")).await.unwrap();
        assert_eq!(hello.headers()["content-length"], "22");
        assert_eq!(whole(hello).await, "GET /hello/you?a=b%20c");
        for bytes in [0, 10, 11_000, 40_000, 3 << 20] {
            let body = content(bytes);
            let request = Request::post("/echo").body(Bytes::from(body.clone())).unwrap();
            assert_eq!(whole(fetcher.fetch("shop", request).await.unwrap()).await, body, "{bytes} bytes, {near}");
        }
        let request =
            |method: Method, target: &str| Request::builder().method(method).uri(target).body(Bytes::new()).unwrap();
        let head = fetcher.fetch("shop", request(Method::HEAD, "/hello/you")).await.unwrap();
        assert_eq!((head.headers()["content-length"].to_str().unwrap(), head.body().bytes()), ("15", Some(0)));
        let empty = fetcher.fetch("shop", request(Method::DELETE, "/empty")).await.unwrap();
        assert_eq!((empty.status(), empty.headers().contains_key("content-length")), (StatusCode::NO_CONTENT, false));
        assert_eq!(fetcher.fetch("shop", get("/nowhere")).await.unwrap().status(), StatusCode::NOT_FOUND);
        assert_eq!(fetcher.fetch("shop", get("/panics")).await.unwrap().status(), StatusCode::INTERNAL_SERVER_ERROR);
        let long = whole(fetcher.fetch("shop", get("/numbers")).await.unwrap()).await;
        assert_eq!((long.len(), &long[long.len() - 9..]), (9 * 400_000, &b"00399999\n"[..]));
        // One that fails before anything of it went is an error; one that fails in its midst is not taken for whole; one that waits has its head, and what there is; one that never ends is left when nobody wants more.
        let why = fetcher.fetch("shop", get("/fails")).await.unwrap().into_body().whole(1 << 30).await.unwrap_err();
        assert!(matches!(why, FetchError::BrokeOff(_)), "{why}");
        let early = fetcher.fetch("shop", get("/fails-at-once")).await.unwrap();
        assert_eq!(early.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let mut slow = fetcher.fetch("shop", get("/slow")).await.unwrap().into_body();
        assert_eq!(slow.frame().await.unwrap().unwrap().into_data().unwrap().len(), 90);
        let mut endless = fetcher.fetch("shop", get("/endless")).await.unwrap().into_body();
        let first = endless.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(first.starts_with(b"00000000\n00000001\n"));
        let why = fetcher.fetch("nobody", get("/")).await.unwrap_err();
        assert!(matches!(&why, FetchError::Exception(why) if why.name == "UnknownService"), "{why}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_come_whole_in_parts_and_only_if_they_changed() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    std::fs::write(folder.path().join("sub/index.html"), "<p>").unwrap();
    std::fs::write(folder.path().join(".secret"), "no").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder.path().join("out")).unwrap();
    let sizes = [0, 1, 8_000, 100_000, 5 << 20];
    sizes.iter().for_each(|bytes| std::fs::write(folder.path().join(format!("{bytes}")), content(*bytes)).unwrap());
    for (near, cached) in [(true, true), (false, true), (true, false), (false, false)] {
        let server = folder_server(folder.path(), near, cached, FileLimits::default()).await;
        let fetcher = fetcher(&server.node).await;
        for bytes in sizes {
            for _ in 0..2 {
                let response = fetcher.fetch("web", get(&format!("/{bytes}"))).await.unwrap();
                assert_eq!(response.status(), StatusCode::OK);
                assert!(whole(response).await == content(bytes), "{bytes} bytes, near {near}, cached {cached}");
            }
        }
        let part = fetcher.fetch("web", with("/100000", "range", "bytes=70000-")).await.unwrap();
        assert_eq!(
            (part.status(), &part.headers()["content-range"]),
            (StatusCode::PARTIAL_CONTENT, &"bytes 70000-99999/100000".parse().unwrap())
        );
        assert!(whole(part).await == content(100_000)[70_000..]);
        let beyond = fetcher.fetch("web", with("/1", "range", "bytes=1-")).await.unwrap();
        assert_eq!(
            (beyond.status(), &beyond.headers()["content-range"]),
            (StatusCode::RANGE_NOT_SATISFIABLE, &"bytes */1".parse().unwrap())
        );
        let head = fetcher.fetch("web", Request::head("/8000").body(Bytes::new()).unwrap()).await.unwrap();
        assert_eq!((&head.headers()["content-length"], head.body().bytes()), (&"8000".parse().unwrap(), Some(0)));
        let tag = head.headers()["etag"].to_str().unwrap();
        let status = async |request| fetcher.fetch("web", request).await.unwrap().status();
        assert_eq!(status(with("/8000", "if-none-match", &format!("\"x\", W/{tag}"))).await, StatusCode::NOT_MODIFIED);
        let since = head.headers()["last-modified"].to_str().unwrap();
        assert_eq!(status(with("/8000", "if-modified-since", since)).await, StatusCode::NOT_MODIFIED);
        let stale = Request::get("/8000").header("range", "bytes=1-2").header("if-range", "\"old\"");
        assert_eq!(status(stale.body(Bytes::new()).unwrap()).await, StatusCode::OK);
        assert_eq!(whole(fetcher.fetch("web", get("/sub/")).await.unwrap()).await, "<p>");
        assert_eq!(fetcher.fetch("web", get("/sub")).await.unwrap().headers()["location"], "./sub/");
        for bad in ["/.secret", "/out", "/../etc/passwd", "/%2e%2e/x", "/a%00b", "//1", "/sub/.", "/%ff", "/no"] {
            assert_eq!(status(get(bad)).await, StatusCode::NOT_FOUND, "{bad}");
        }
        assert_eq!(status(Request::post("/1").body(Bytes::new()).unwrap()).await, StatusCode::METHOD_NOT_ALLOWED);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_kept_is_sent_from_where_it_lies_and_stays_what_it_was_for_who_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, vec![1; 3 << 20]).unwrap();
    let limits = FileLimits { believed: Duration::ZERO, ..FileLimits::default() };
    let node = node(true).await;
    let files = Files::open(folder.path(), Keep::InSegments(node.clone()), limits).unwrap();
    let mounted = mount(&node, "web", files.clone(), Limits::default()).unwrap();
    let fetcher = fetcher(&node).await;
    assert!(whole(fetcher.fetch("web", get("/file")).await.unwrap()).await.iter().all(|byte| *byte == 1));
    assert_eq!(files.kept(), (1, 3 << 20));
    // Nobody copies: it is where it was, each time it is fetched, and stays mapped.
    let (first, second) =
        (fetcher.fetch("web", get("/file")).await.unwrap(), fetcher.fetch("web", get("/file")).await.unwrap());
    let (first, second) = (first.into_body().in_place().await.unwrap(), second.into_body().in_place().await.unwrap());
    assert_eq!((first.address(), first.bytes(), first.is_current()), (second.address(), 3 << 20, true));
    let mut end = [0; 4];
    first.read((3 << 20) - 4, &mut end).await.unwrap();
    assert_eq!(end, [1; 4]);
    assert!(first.read((3 << 20) - 3, &mut end).await.is_err(), "beyond its end");
    // From now on the bytes do not go by the link: what does is heads.
    let before = node.client().traffic().sent_bytes;
    let response = fetcher.fetch("web", get("/file")).await.unwrap();
    std::fs::write(&path, vec![2; 1 << 20]).unwrap();
    assert!(whole(fetcher.fetch("web", get("/file")).await.unwrap()).await == vec![2; 1 << 20]);
    assert_eq!(files.kept(), (1, 1 << 20), "what it was is not kept");
    let mut body = response.into_body();
    let mut got = 0;
    while let Some(frame) = body.frame().await {
        let data = frame.unwrap().into_data().unwrap();
        assert!(data.iter().all(|byte| *byte == 1), "a body that began is not mixed with the next version");
        got += data.len();
    }
    assert_eq!(got, 3 << 20);
    let sent = node.client().traffic().sent_bytes - before;
    assert!(sent < 100_000, "{sent} bytes went by the link");
    // Nor does the server do anything for it: when nobody serves any more, what was told of can still be read.
    let response = fetcher.fetch("web", get("/file")).await.unwrap();
    drop(mounted);
    assert!(whole(response).await == vec![2; 1 << 20]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_cache_lets_go_of_what_was_not_asked_for_longest() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b", "c", "large"] {
        std::fs::write(folder.path().join(name), vec![b'x'; if name == "large" { 5_000 } else { 1_000 }]).unwrap();
    }
    let limits = FileLimits { kept_file_bytes_max: 4_000, ..FileLimits::default() };
    for limits in [FileLimits { kept_bytes_max: 2_500, ..limits.clone() }, FileLimits { kept_files_max: 2, ..limits }] {
        let node = node(true).await;
        let files = Files::open(folder.path(), Keep::InSegments(node.clone()), limits).unwrap();
        let _mounted = mount(&node, "web", files.clone(), Limits::default()).unwrap();
        let fetcher = fetcher(&node).await;
        for name in ["a", "b", "a", "c", "large", "a", "b"] {
            let body = whole(fetcher.fetch("web", get(&format!("/{name}"))).await.unwrap()).await;
            assert!(body.iter().all(|byte| *byte == b'x'));
            assert!(files.kept().0 <= 2 && files.kept().1 <= 2_000, "{:?}", files.kept());
        }
        assert_eq!(files.kept(), (2, 2_000));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_part_of_a_body_travels_with_its_head() {
    const SIZES: [usize; 3] = [20_000, 100_000, 1 << 20];
    let folder = tempfile::tempdir().unwrap();
    SIZES.iter().for_each(|bytes| std::fs::write(folder.path().join(format!("{bytes}")), content(*bytes)).unwrap());
    let node = node(true).await;
    let files = Files::open(folder.path(), Keep::Nothing, FileLimits::default()).unwrap();
    // However slow the disk is.
    let patient = Limits { first_time_max: Duration::from_secs(60), ..Limits::default() };
    let _mounted = mount(&node, "web", files, patient).unwrap();
    let fetcher = fetcher(&node).await;
    for bytes in SIZES {
        let mut out = vec![0; bytes];
        let response = fetcher.fetch("web", get(&format!("/{bytes}"))).await.unwrap();
        assert_eq!(response.into_body().read_into(&mut out).await.unwrap(), bytes);
        assert!(out == content(bytes), "{bytes}");
    }
    assert_eq!(fetcher.fetch("web", get("/none")).await.unwrap().status(), StatusCode::NOT_FOUND);
    // Four questions, and at most twice that nothing more is wanted of what lay in a segment; a question for a part would be one more each time.
    let messages = node.client().message_counts().received;
    assert!((4..=6).contains(&messages), "{messages}");
}

/// Sends bytes as they are, and reads until the other side closes.
async fn raw(proxy: &Proxy, request: &[u8]) -> String {
    raw_at(proxy.address(), request).await
}

async fn raw_at(address: impl tokio::net::ToSocketAddrs, request: &[u8]) -> String {
    String::from_utf8_lossy(&raw_bytes_at(address, request).await).into_owned()
}

#[allow(clippy::disallowed_methods, reason = "it is read up to a limit")]
async fn raw_bytes_at(address: impl tokio::net::ToSocketAddrs, request: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    // One that is refused early may be reset.
    let _ = tokio::time::timeout(Duration::from_secs(60), (&mut stream).take(1 << 20).read_to_end(&mut answer))
        .await
        .unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_speaks_http_reaches_it_by_the_proxy() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("index.html"), "hello").unwrap();
    std::fs::write(folder.path().join("large"), content(40 << 20)).unwrap();
    let server = folder_server(folder.path(), true, true, FileLimits::default()).await;
    let limits = ProxyLimits { write_time_max: Duration::from_millis(300), ..ProxyLimits::default() };
    let proxy = Proxy::open(fetcher(&server.node).await, "web", "127.0.0.1:0", limits.clone()).await.unwrap();
    let asked =
        |rest: &str| format!("GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{rest}\r\n").into_bytes();
    let answer = raw(&proxy, &asked("")).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nhello"), "{answer}");
    assert!(raw(&proxy, &asked("range: bytes=1-2\r\n")).await.ends_with("\r\n\r\nel"));
    let host = b"GET / HTTP/1.1\r\nhost: elsewhere.example\r\nconnection: close\r\n\r\n";
    assert!(raw(&proxy, host).await.starts_with("HTTP/1.1 421 "));
    for (absurd, status) in [
        (asked(&"a: b\r\n".repeat(200)), "431"),
        (asked(&format!("a: {}\r\n", "x".repeat(20_000))), "431"),
        (asked(&format!("a: {}\r\n", "x".repeat(1 << 20))), "431"),
        (asked("a b: c\r\n"), "400"),
        (asked("content-length: 5\r\ncontent-length: 6\r\n"), "400"),
        (asked("transfer-encoding: nonsense\r\n"), "400"),
        (asked(&format!("content-length: {}\r\n", u64::MAX - 9)), "413"),
        (b"\0\x01\x02 nonsense\r\n\r\n".to_vec(), "400"),
    ] {
        let shown = String::from_utf8_lossy(&absurd[..absurd.len().min(90)]).into_owned();
        let answer = raw(&proxy, &absurd).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{shown}: {answer}");
    }
    // One that reads nothing is closed, and others are served meanwhile.
    let mut idle = TcpStream::connect(proxy.address()).await.unwrap();
    idle.write_all(b"GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    assert!(raw(&proxy, &asked("")).await.ends_with("hello"));
    let closed = async {
        while idle.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), closed).await.expect("it took nothing in its time");
    let why = Proxy::open(fetcher(&server.node).await, "web", "0.0.0.0:0", limits).await.unwrap_err();
    assert!(why.to_string().contains("loopback"), "{why}");
}
