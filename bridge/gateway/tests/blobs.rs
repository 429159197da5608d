//! Blobs of replies: each has an address, for whoever the reply went to, once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use catena::{Context, Service};
use catena_gateway::Config;
use common::{Answer, Browser, Stage, patient};
use serde_json::json;

const PAGE: &str = "http://page.example";

fn bytes_of(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at % 251) as u8).collect()
}

fn photos() -> Service {
    Service::new("photos")
        .function_in("get", async |context: Context, bytes: usize| Ok(context.blob(&bytes_of(bytes), "image/png")?))
        .function_in("odd", async |context: Context, kind: String| Ok([context.blob(&bytes_of(3), &kind)?]))
        .function_in("lost", async |context: Context, bytes: usize| {
            let blob = context.blob(&bytes_of(bytes), "")?;
            assert!(blob.release());
            Ok(blob)
        })
}

async fn stage(set: impl FnOnce(&mut Config)) -> Stage {
    let stage = Stage::open(vec![photos()], |config| {
        config.offers = vec!["photos/*".parse().unwrap()];
        config.origins = vec![PAGE.parse().unwrap()];
        set(config);
    });
    stage.await
}

/// The address of a blob of so many bytes.
async fn address(stage: &Stage, function: &str, bytes: usize) -> String {
    let answer = stage.post(&format!("/call/photos/{function}"), &[], &bytes.to_string()).await.json();
    let url = answer["$blob"]["url"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
    assert!(url.starts_with("/blob/") && url.len() == 6 + 32, "{url}");
    url
}

#[track_caller]
fn is_part(answer: &Answer, from: usize, to: usize, size: usize) {
    assert_eq!(answer.status, 206, "{}", answer.head);
    assert!(answer.head.contains(&format!("content-range: bytes {from}-{}/{size}\r\n", to - 1)), "{}", answer.head);
    assert!(answer.body == bytes_of(size)[from..to]);
}

#[tokio::test]
async fn a_blob_comes_from_its_owner_once() {
    const SIZE: usize = 5_000_000;
    let stage = stage(|_| {}).await;
    let url = address(&stage, "get", SIZE).await;
    let mut browser = stage.browser().await;
    browser.ask_for("HEAD", &url, &[]).await;
    let (status, head) = browser.head().await;
    assert!(status == 200 && head.contains("content-length: 5000000\r\n") && head.contains("accept-ranges: bytes\r\n"));
    let answer = browser.get(&url, &[]).await;
    assert!(answer.status == 200 && answer.body == bytes_of(SIZE), "{}", answer.head);
    for line in ["content-type: image/png\r\n", "sandbox\r\n", "nosniff\r\n", "cache-control: no-store\r\n"] {
        assert!(answer.head.contains(line), "{line} {}", answer.head);
    }
    // Over the same connection, which is still good for other things.
    browser.get(&url, &[]).await.is_problem(404, "NoSuchBlob");
    let empty = address(&stage, "get", 0).await;
    assert_eq!((browser.get(&empty, &[]).await.body.len(), browser.get(&empty, &[]).await.status), (0, 404));
    // In a stream, and deep in a value; what a service says of it cannot break a header.
    browser.ask("/call/photos/odd", "\"text/html\\r\\nset-cookie: a=b\"").await;
    assert_eq!(browser.head().await.0, 200);
    let end = browser.event().await.unwrap();
    let blob = if end.name == "reply" { end.data[0].clone() } else { end.data["result"][0].clone() };
    let odd = stage.get(blob["$blob"]["url"].as_str().unwrap_or_else(|| panic!("{end:?}"))).await;
    assert!(odd.body == bytes_of(3) && odd.head.contains("content-type: application/octet-stream\r\n"), "{}", odd.head);
}

#[tokio::test]
async fn its_parts_are_had_once_each() {
    const SIZE: usize = 100_000;
    let stage = stage(|_| {}).await;
    let url = address(&stage, "get", SIZE).await;
    let mut browser = stage.browser().await;
    let mut get = async |range: &str| browser.get(&url, &[("range", range)]).await;
    is_part(&get("bytes=0-999").await, 0, 1_000, SIZE);
    is_part(&get("bytes=-10").await, SIZE - 10, SIZE, SIZE);
    let beyond = get("bytes=100000-").await;
    assert!(beyond.status == 416 && beyond.head.contains("content-range: bytes */100000\r\n"), "{}", beyond.head);
    get("bytes=0-1,5-6").await.is_problem(404, "NoSuchBlob");
    is_part(&get("bytes=1000-99989").await, 1_000, SIZE - 10, SIZE);
    get("bytes=0-0").await.is_problem(404, "NoSuchBlob");
}

#[tokio::test]
async fn an_address_is_good_for_whoever_it_was_given_to() {
    let stage = stage(|_| {}).await;
    let page = [("origin", PAGE)];
    let url = address(&stage, "get", 1_000).await;
    let mut elsewhere = Browser::from("127.0.0.9", stage.address()).await;
    elsewhere.get(&url, &[]).await.is_problem(404, "NoSuchBlob");
    elsewhere.get(&url, &page).await.is_problem(404, "NoSuchBlob");
    let mut here = stage.browser().await;
    here.get(&url, &page).await.is_problem(404, "NoSuchBlob");
    here.get(&url, &[("origin", "http://evil.example")]).await.is_problem(403, "ForeignOrigin");
    let own = format!("http://{}", stage.address());
    assert_eq!(here.get(&url, &[("origin", &own)]).await.status, 200, "by a page of the gateway's own");
    // One that a page of another origin was given is that page's.
    let given = stage.post("/call/photos/get", &page, "1000").await.json();
    let url = given["$blob"]["url"].as_str().unwrap();
    here.get(url, &[]).await.is_problem(404, "NoSuchBlob");
    let answer = here.get(url, &page).await;
    assert!(answer.status == 200 && answer.head.contains(&format!("access-control-allow-origin: {PAGE}\r\n")));
    for wrong in ["/blob/", "/blob/7", &format!("/blob/{}", "f".repeat(32)), &format!("/blob/+{}", "1".repeat(31))] {
        here.get(wrong, &[]).await.is_problem(404, "NoSuchBlob");
    }
    here.post("/blob/7", &[], "{}").await;
    here.answer().await.is_problem(405, "MethodNotAllowed");
}

#[tokio::test]
async fn addresses_are_bounded_in_number_bytes_and_time() {
    let stage_with = stage(|config| {
        config.limits.blobs_per_address_max = 2;
        config.limits.blob_bytes_max = 2_000;
    });
    let stage_of_two = stage_with.await;
    let mut urls = Vec::new();
    for _ in 0..3 {
        urls.push(address(&stage_of_two, "get", 2_000).await);
    }
    stage_of_two.get(&urls[0]).await.is_problem(404, "NoSuchBlob");
    assert_eq!((stage_of_two.get(&urls[1]).await.status, stage_of_two.get(&urls[2]).await.status), (200, 200));
    let large = stage_of_two.post("/call/photos/get", &[], "2001").await.json();
    assert_eq!(large, json!({ "$blob": { "type": "image/png", "size": 2_001 } }), "no address");
    let short = stage(|config| config.limits.blob_ms = 1).await;
    let url = address(&short, "get", 1_000).await;
    let mut browser = short.browser().await;
    let over = async {
        loop {
            browser.ask_for("HEAD", &url, &[]).await;
            if browser.head().await.0 == 404 {
                break;
            }
        }
    };
    patient(over).await;
}

#[tokio::test]
async fn a_lost_blob_is_told_and_one_that_breaks_off_can_be_had_on() {
    const SIZE: usize = 40_000_000;
    let stage = stage(|_| {}).await;
    let url = address(&stage, "lost", 1_000).await;
    stage.get(&url).await.is_problem(410, "BlobLost");
    let url = address(&stage, "get", SIZE).await;
    let mut narrow = Browser::narrow(stage.address()).await;
    narrow.ask_for("GET", &url, &[]).await;
    assert_eq!(narrow.head().await.0, 200);
    let last = format!("bytes={}-", SIZE - 1_000);
    let mut browser = stage.browser().await;
    browser.get(&url, &[("range", &last)]).await.is_problem(404, "NoSuchBlob");
    assert_eq!(stage.gateway.load().1, 1);
    drop(narrow);
    stage.load((1, 0)).await;
    is_part(&browser.get(&url, &[("range", &last)]).await, SIZE - 1_000, SIZE, SIZE);
}
