//! What is full: segments for parts, what is lent, the cache, the places for requests. And services that do not answer as they should.

use std::{convert::Infallible, sync::Arc};

use catena::{Export, Rights, Segment};
use catena_web::Lying;
use http_body_util::Full;
use hyper::service::service_fn;
use tokio::sync::mpsc;

use super::{hostile::ask, *};

async fn client(node: &Node) -> Client {
    Client::builder("c").join(Place::new(node.address().unwrap())).connect().await.unwrap()
}

/// The bytes of a part, as `frame.rs` says it, and whether they lie in a segment.
async fn part(client: &Client, part: &Bytes) -> (bool, Bytes) {
    assert!(part[0] < 4, "{}", part.escape_ascii());
    if part[0] < 2 {
        return (false, part.slice(1..));
    }
    let number = |at: usize| u64::from_le_bytes(part[at..at + 8].try_into().unwrap());
    let far = client.import(std::str::from_utf8(&part[17..]).unwrap()).await.unwrap();
    (true, far.read(number(1), number(9)).await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_the_segments_for_parts_are_full_parts_come_in_messages_until_there_is_room() {
    const PART_BYTES: usize = 128 << 10;
    let folder = tempfile::tempdir().unwrap();
    let expected = content(10 * PART_BYTES);
    std::fs::write(folder.path().join("file"), &expected).unwrap();
    let node = node(true).await;
    let files = FileLimits { read_bytes: PART_BYTES, ..FileLimits::default() };
    let files = Files::open(folder.path(), Keep::Nothing, files).unwrap();
    // Room for one body's two parts; however slow the disk is.
    let patience = Duration::from_secs(60);
    let limits = Limits {
        part_bytes: PART_BYTES,
        staging_bytes_max: 2 * PART_BYTES as u64,
        first_time_max: patience,
        part_time_max: patience,
        ..Limits::default()
    };
    let _mounted = mount(&node, "web", files, limits).unwrap();
    let (holder, other) = (client(&node).await, client(&node).await);
    let fetch: [&[u8]; 2] = [b"F", b"GET /file HTTP/1.1\r\n\r\n"];
    let (held, first) = begun_body(&ask(&holder, &fetch).await);
    assert!(part(&holder, &first).await == (true, Bytes::copy_from_slice(&expected[..PART_BYTES])));
    // From now on it is full.
    let (number, first) = begun_body(&ask(&other, &fetch).await);
    let (lies, mut came) = part(&other, &first).await;
    assert_eq!((lies, came.len()), (false, 64 << 10), "what may be read by nobody must not cost much");
    let (lies, next) = part(&other, &ask(&other, &[b"N", &number]).await).await;
    assert!(!lies && next.len() >= 64 << 10, "{lies}, {} bytes", next.len());
    came = [came, next].concat().into();
    assert!(came == expected[..came.len()]);
    let fetcher = fetcher(&node).await;
    assert!(whole(fetcher.fetch("web", get("/file")).await.unwrap()).await == expected);
    // The one who holds it wants no more. Messages of one node come in their order: the next answer says that the one before was taken.
    holder.send_short("", "web", [Bytes::from_static(b"L"), held]).await.unwrap();
    ask(&holder, &[]).await;
    let (lies, next) = part(&other, &ask(&other, &[b"N", &number]).await).await;
    assert!(lies && next == expected[came.len()..came.len() + next.len()], "there is room again");
}

/// A segment of so many bytes, each the last of its name.
fn segment(node: &Node, name: &str, bytes: u64) -> Segment {
    let how = Export { anyone: Rights::READ, ..Export::default() };
    let segment = node.export(name, bytes, how).unwrap();
    segment.write(0, &vec![*name.as_bytes().last().unwrap(); bytes as usize]).unwrap();
    segment
}

const LENT_BYTES: u64 = 1 << 20;

/// A site whose every response lies in a segment that nobody else holds, but for `/same`, which is kept.
fn lend(node: &Node, limits: Limits) -> Mounted {
    let (owner, kept) = (node.clone(), segment(node, "same", LENT_BYTES));
    let service = service_fn(move |asked: Request<Full<Bytes>>| {
        let name = &asked.uri().path()[1..];
        let segment = if name == "same" { kept.clone() } else { segment(&owner, name, LENT_BYTES) };
        let lying = Lying { segment, offset: 0, bytes: LENT_BYTES };
        let mut response = Response::new(Full::new(Bytes::new()));
        response.headers_mut().insert("content-length", LENT_BYTES.into());
        response.extensions_mut().insert(lying);
        std::future::ready(Ok::<_, Infallible>(response))
    });
    mount(node, "web", service, limits).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_lent_has_a_limit_and_the_oldest_is_let_go() {
    let of_bytes = |lent_bytes_max| Limits { lent_bytes_max, ..Limits::default() };
    // The last one is held, however large it is.
    for (limits, held) in [
        (of_bytes(3 * LENT_BYTES), 3),
        (of_bytes(3 * LENT_BYTES - 1), 2),
        (of_bytes(LENT_BYTES - 1), 1),
        (Limits { bodies_max: 2, ..Limits::default() }, 2),
    ] {
        for near in [true, false] {
            let node = node(near).await;
            let _mounted = lend(&node, limits.clone());
            let fetcher = fetcher(&node).await;
            let mut told = Vec::new();
            for path in ["/1", "/2", "/3", "/4"] {
                told.push((path, fetcher.fetch("web", get(path)).await.unwrap()));
            }
            let gone = told.len() - held;
            for (at, (path, response)) in told.into_iter().enumerate() {
                match response.into_body().whole(LENT_BYTES).await {
                    Ok(bytes) => {
                        assert!(at >= gone, "{path}, {limits:?}, near {near}");
                        assert!(bytes == vec![path.as_bytes()[1]; LENT_BYTES as usize], "{path}");
                    }
                    Err(why) => {
                        assert!(at < gone && matches!(why, FetchError::Exception(_)), "{path}, {limits:?}: {why}");
                    }
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_lent_again_and_again_is_held_once() {
    let node = node(true).await;
    let _mounted = lend(&node, Limits { bodies_max: 2, ..Limits::default() });
    let fetcher = fetcher(&node).await;
    let before = fetcher.fetch("web", get("/1")).await.unwrap();
    for _ in 0..3 {
        assert!(whole(fetcher.fetch("web", get("/same")).await.unwrap()).await == vec![b'e'; LENT_BYTES as usize]);
    }
    assert!(whole(before).await == vec![b'1'; LENT_BYTES as usize]);
}

/// A client that keeps two segments imported has what lies in others as well; and what it was told of before can be read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_goes_on_with_more_segments_than_stay_imported() {
    const FILES: usize = 5;
    let folder = tempfile::tempdir().unwrap();
    let file = |number: usize| vec![number as u8; 100_000 + number];
    (0..FILES).for_each(|number| std::fs::write(folder.path().join(number.to_string()), file(number)).unwrap());
    for near in [true, false] {
        let server = folder_server(folder.path(), near, true, FileLimits::default()).await;
        let client = client(&server.node).await;
        let fetcher = Fetcher::new(client, FetchLimits { imports_max: 2, ..FetchLimits::default() });
        let fetched = async |number: usize| fetcher.fetch("web", get(&format!("/{number}"))).await.unwrap();
        let first = fetched(0).await;
        let all = (0..20 * FILES).map(|at| {
            let fetched = &fetched;
            async move { (at % FILES, whole(fetched(at % FILES).await).await) }
        });
        let mut all = stream::iter(all).buffer_unordered(FILES);
        while let Some((number, body)) = all.next().await {
            assert!(body == file(number), "{number}, near {near}");
        }
        assert!(whole(first).await == file(0), "near {near}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_beyond_their_number_are_told_so_and_others_have_theirs() {
    let node = node(true).await;
    let (entered, mut inside) = mpsc::channel(1);
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let open = Arc::clone(&gate);
    let service = service_fn(move |asked: Request<Full<Bytes>>| {
        let (entered, gate) = (entered.clone(), Arc::clone(&gate));
        async move {
            if asked.uri().path() == "/waits" {
                entered.send(()).await.unwrap();
                let _open = gate.acquire().await.unwrap();
            }
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("hello"))))
        }
    });
    let limits = Limits { requests_max: 3, requests_per_client_max: 2, ..Limits::default() };
    let _mounted = mount(&node, "web", service, limits).unwrap();
    let fetchers = [fetcher(&node).await, fetcher(&node).await, fetcher(&node).await];
    let status = async |who: usize| fetchers[who].fetch("web", get("/")).await.unwrap().status();
    let mut waiting = Vec::new();
    for who in [0, 0, 1] {
        assert_eq!(status(who).await, StatusCode::OK);
        let fetcher = fetchers[who].clone();
        waiting.push(tokio::spawn(async move { fetcher.fetch("web", get("/waits")).await.unwrap() }));
        inside.recv().await.unwrap();
        if waiting.len() == 2 {
            assert_eq!(status(0).await, StatusCode::SERVICE_UNAVAILABLE, "it has two");
        }
    }
    let refused = fetchers[2].fetch("web", get("/")).await.unwrap();
    assert_eq!(
        (refused.status(), &refused.headers()["retry-after"]),
        (StatusCode::SERVICE_UNAVAILABLE, &"1".parse().unwrap())
    );
    open.add_permits(1);
    for answered in waiting {
        assert_eq!(whole(answered.await.unwrap()).await, "hello");
    }
    assert_eq!(status(2).await, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_fails_or_panics_is_a_500_and_a_silent_one_a_503() {
    let node = node(true).await;
    let service = service_fn(async |asked: Request<Full<Bytes>>| match asked.uri().path() {
        "/fails" => Err(std::io::Error::other("where it is kept secret")),
        "/panics" => panic!("where it is kept secret"),
        "/silent" => std::future::pending().await,
        _ => Ok(Response::new(Full::new(Bytes::from("hello")))),
    });
    // What answers at once is not waited for, however short the time is.
    let limits = Limits { head_time_max: Duration::from_millis(10), ..Limits::default() };
    let _mounted = mount(&node, "web", service, limits).unwrap();
    let fetcher = fetcher(&node).await;
    for (path, status, says) in [
        ("/fails", StatusCode::INTERNAL_SERVER_ERROR, "the service failed\n"),
        ("/panics", StatusCode::INTERNAL_SERVER_ERROR, "the service failed\n"),
        ("/silent", StatusCode::SERVICE_UNAVAILABLE, "the service did not answer in time (head_time_max)\n"),
        ("/", StatusCode::OK, "hello"),
    ] {
        let response = fetcher.fetch("web", get(path)).await.unwrap();
        assert_eq!(response.status(), status, "{path}");
        assert_eq!(whole(response).await, says, "{path}");
    }
}
