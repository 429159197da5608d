//! What browsers may ask for, and what they are told when they may not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use catena::{Service, ServiceError};
use catena_gateway::{Config, Gateway};
use common::{Browser, Stage, patient};
use serde::de::IgnoredAny;
use serde_json::json;

/// A service that counts how often it was asked.
fn photos(asked: &Arc<AtomicUsize>) -> Service {
    let asked = Arc::clone(asked);
    Service::new("photos")
        .function_raw("echo", move |_, value| {
            asked.fetch_add(1, Ordering::Relaxed);
            async { Ok(value) }
        })
        .function("delete", async |_: IgnoredAny| Ok(()))
        .function("fail", async |_: IgnoredAny| Err::<(), _>(ServiceError::named("NoFilm", "the camera is empty")))
}

async fn stage(set: impl FnOnce(&mut Config)) -> (Stage, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let stage = Stage::open(vec![photos(&asked)], |config| {
        config.offers = vec!["photos/echo".parse().unwrap(), "photos/fail".parse().unwrap()];
        set(config);
    });
    (stage.await, asked)
}

#[tokio::test]
async fn what_is_offered_can_be_called_and_nothing_else() {
    let (stage, asked) = stage(|_| {}).await;
    let text = r#"{"z":[1,-2.5,"é",null,true],"a":{"$bytes":"AP8="}}"#;
    let answer = stage.post("/call/photos/echo", &[], text).await;
    assert_eq!((answer.status, std::str::from_utf8(&answer.body).unwrap()), (200, text));
    assert!(answer.head.contains("content-type: application/json\r\n") && answer.head.contains("nosniff"));
    assert_eq!(stage.post("/call/photos/echo", &[], "").await.json(), json!({}));
    stage.post("/call/photos/delete", &[], "{}").await.is_problem(404, "NotOffered");
    stage.post("/call/photos/nothing", &[], "{}").await.is_problem(404, "NotOffered");
    stage.post("/run/photos", &[], "{}").await.is_problem(404, "NotOffered");
    stage.post("/call/photos", &[], "{}").await.is_problem(400, "BadTarget");
    let why = stage.post("/call/photos/fail", &[], "{}").await.is_problem(502, "NoFilm");
    assert_eq!((&why["fault"], &why["exception"]["target"]), (&json!("service"), &json!("photos/fail")));
    stage.get("/call/photos/echo").await.is_problem(405, "MethodNotAllowed");
    stage.get("/").await.is_problem(404, "NotFound");
    assert_eq!(asked.load(Ordering::Relaxed), 2);
    let nothing = Gateway::open(stage.client.clone(), Config::default()).await.unwrap();
    let mut browser = Browser::connect(nothing.address()).await;
    browser.post("/call/photos/echo", &[], "{}").await;
    browser.answer().await.is_problem(404, "NotOffered");
}

#[tokio::test]
async fn what_is_offered_is_listed() {
    let (stage, _) =
        stage(|config| config.offers = vec!["photos/*".parse().unwrap(), "later/find".parse().unwrap()]).await;
    let listed = stage.get("/openapi.json").await.json();
    let paths: Vec<&String> = listed["paths"].as_object().unwrap().keys().collect();
    assert_eq!(paths, ["/call/later/find", "/call/photos/delete", "/call/photos/echo", "/call/photos/fail"]);
    let client = stage.get("/catena.js").await;
    assert!(
        client.head.contains("text/javascript")
            && String::from_utf8(client.body).unwrap().contains("export function replies")
    );
}

#[tokio::test]
async fn what_cannot_be_read_is_refused_by_name() {
    let (stage, asked) = stage(|config| config.limits.body_bytes_max = 1_000).await;
    let echo = async |headers: &[(&str, &str)], body: &str| stage.post("/call/photos/echo", headers, body).await;
    let why = echo(&[], "{\"a\": ?}").await.is_problem(400, "BadJson");
    assert!(why["detail"].as_str().unwrap().contains("line 1, column 7"), "{why}");
    echo(&[], &"[".repeat(100)).await.is_problem(400, "BadJson");
    echo(&[], &("[".repeat(70) + &"]".repeat(70))).await.is_problem(400, "BadJson");
    echo(&[("content-type", "text/plain")], "{}").await.is_problem(415, "NotJson");
    echo(&[("catena-timeout-ms", "0")], "{}").await.is_problem(400, "BadTimeout");
    echo(&[("catena-timeout-ms", "60001")], "{}").await.is_problem(400, "BadTimeout");
    echo(&[("last-event-id", "7")], "{}").await.is_problem(409, "NotResumable");
    echo(&[], &format!("\"{}\"", "x".repeat(1_000))).await.is_problem(413, "BodyTooLarge");
    let mut browser = stage.browser().await;
    let chunks = format!("400\r\n{}\r\n", " ".repeat(1_024));
    browser.send(format!("POST /call/photos/echo HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n{chunks}", stage.address()).as_bytes()).await;
    browser.answer().await.is_problem(413, "BodyTooLarge");
    assert_eq!(asked.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn garbage_ends_its_own_connection_only() {
    let (stage, _) = stage(|config| config.limits.head_bytes_max = 8 << 10).await;
    let mut halfway = stage.browser().await;
    halfway.send(b"POST /call/photos/echo HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{").await;
    let head = format!("GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nx: {}\r\n\r\n", "x".repeat(16 << 10));
    let lines = format!("GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n{}\r\n", "a: b\r\n".repeat(200));
    let garbage: [&[u8]; 5] = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\r\n\r\n\0\0\0\0\n\n",
        b"GET\r\n\r\n",
        head.as_bytes(),
        lines.as_bytes(),
    ];
    for bytes in garbage {
        let mut browser = stage.browser().await;
        browser.send(bytes).await;
        let said = browser.rest().await;
        assert!(said.is_empty() || said.starts_with(b"HTTP/1.1 4"), "{}", String::from_utf8_lossy(&said));
    }
    assert_eq!(stage.post("/call/photos/echo", &[], "1").await.json(), json!(1));
    // The one that stopped halfway holds no more than its own place, and that until it goes.
    patient(stage.load((1, 1))).await;
    drop(halfway);
    patient(stage.load((0, 0))).await;
}

#[tokio::test]
async fn pages_of_foreign_origins_are_refused_before_anything_is_done() {
    let (stage, asked) = stage(|config| config.origins = vec!["https://photos.example".parse().unwrap()]).await;
    let own = format!("http://{}", stage.address());
    let from = async |origin: &str| stage.post("/call/photos/echo", &[("origin", origin)], "1").await;
    from("https://evil.example").await.is_problem(403, "ForeignOrigin");
    from("null").await.is_problem(403, "ForeignOrigin");
    let rebound =
        stage.post("/call/photos/echo", &[("host", "evil.example"), ("origin", "http://evil.example")], "1").await;
    rebound.is_problem(421, "UnknownHost");
    assert_eq!(asked.load(Ordering::Relaxed), 0);
    assert!(!from(&own).await.head.contains("access-control"));
    let named = from("https://photos.example").await;
    assert!(named.status == 200 && named.head.contains("access-control-allow-origin: https://photos.example\r\n"));
    assert!(named.head.contains("vary: origin\r\n"), "{}", named.head);
    let preflight = async |origin: &str| {
        let mut browser = stage.browser().await;
        browser.send(format!("OPTIONS /call/photos/echo HTTP/1.1\r\nhost: {}\r\norigin: {origin}\r\naccess-control-request-method: POST\r\n\r\n", stage.address()).as_bytes()).await;
        browser.answer().await
    };
    let allowed = preflight("https://photos.example").await;
    assert!(
        allowed.status == 204
            && allowed
                .head
                .contains("access-control-allow-headers: accept, content-type, catena-timeout-ms, range\r\n")
    );
    assert_eq!(preflight("https://evil.example").await.status, 403);
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn one_address_has_so_many_connections() {
    let (stage, _) = stage(|config| config.limits.connections_per_address_max = 2).await;
    let mut two = [stage.browser().await, stage.browser().await];
    for browser in &mut two {
        browser.post("/call/photos/echo", &[], "1").await;
        assert_eq!(browser.answer().await.status, 200);
    }
    let said = stage.browser().await.rest().await;
    assert!(said.starts_with(b"HTTP/1.1 503"), "{}", String::from_utf8_lossy(&said));
    // One goes, and there is room again.
    let [first, _second] = two;
    drop(first);
    patient(async {
        loop {
            let mut browser = stage.browser().await;
            browser.post("/call/photos/echo", &[], "1").await;
            if browser.rest_or_answer().await {
                break;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn files_are_served_and_no_path_leads_out() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page");
    std::fs::create_dir_all(page.join(".git")).unwrap();
    std::fs::write(folder.path().join("secret"), "secret").unwrap();
    std::fs::write(page.join(".git/config"), "secret").unwrap();
    std::fs::write(page.join("index.html"), "<p>hello").unwrap();
    std::fs::write(page.join("a b.json"), "{}").unwrap();
    std::fs::write(page.join("large"), vec![0; 2_000]).unwrap();
    std::os::unix::fs::symlink(folder.path().join("secret"), page.join("link")).unwrap();
    let (stage, _) = stage(|config| {
        config.files = Some(page);
        config.limits.file_bytes_max = 1_000;
    })
    .await;
    let index = stage.get("/").await;
    assert!(index.body == b"<p>hello" && index.head.contains("text/html") && index.head.contains("nosniff"));
    assert!(stage.get("/a%20b.json").await.head.contains("application/json"));
    for path in [
        "/../secret",
        "/%2e%2e/secret",
        "/..%2fsecret",
        "//secret",
        "/link",
        "/.git/config",
        "/missing",
        "/%ff",
        "/large/x",
    ] {
        let answer = stage.get(path).await;
        assert!(answer.status == 404 && !answer.body.ends_with(b"secret"), "{path}: {answer:?}");
    }
    let why = stage.get("/large").await.is_problem(502, "LimitExceeded");
    assert!(why["detail"].as_str().unwrap().contains("file_bytes_max"));
    let mut browser = stage.browser().await;
    browser
        .send(
            format!("HEAD / HTTP/1.1\r\nhost: {0}\r\n\r\nGET / HTTP/1.1\r\nhost: {0}\r\n\r\n", stage.address())
                .as_bytes(),
        )
        .await;
    assert!(browser.head().await.1.contains("content-length: 8\r\n"));
    assert_eq!(browser.answer().await.body, b"<p>hello");
}
