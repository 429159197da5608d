//! Who means harm, or dies: clients that ask for nonsense or read nothing, servers that lie, files that shrink.

use catena::{Export, Question, Rights};

use super::*;

/// Asks by hand.
async fn ask(client: &Client, items: &[&[u8]]) -> Bytes {
    let question = Question::new(items.iter().map(|item| Bytes::copy_from_slice(item)));
    client.ask("web", question).await.unwrap().bytes().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_reads_nothing_takes_only_its_own_places() {
    let node = node(true).await;
    let limits = Limits {
        bodies_per_client_max: 2,
        body_idle_max: Duration::from_millis(100),
        request_bytes_max: 100_000,
        ..Limits::default()
    };
    let _mounted = mount(&node, "web", TowerToHyperService::new(application()), limits).unwrap();
    let (greedy, other) = (fetcher(&node).await, fetcher(&node).await);
    let first = greedy.fetch("web", get("/endless")).await.unwrap();
    let second = greedy.fetch("web", get("/endless")).await.unwrap();
    assert_eq!(greedy.fetch("web", get("/endless")).await.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(other.fetch("web", get("/endless")).await.unwrap().status(), StatusCode::OK, "others have theirs");
    // After a time they are let go, and the place is free.
    let again = async {
        while greedy.fetch("web", get("/endless")).await.unwrap().status() != StatusCode::OK {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), again).await.unwrap();
    let why = first.into_body().whole(1 << 30).await.unwrap_err();
    assert!(matches!(why, FetchError::BrokeOff(_) | FetchError::Exception(_)), "{why}");
    drop(second);
    let large = Request::post("/echo").body(Bytes::from(vec![0; 100_001])).unwrap();
    assert_eq!(greedy.fetch("web", large).await.unwrap().status(), StatusCode::PAYLOAD_TOO_LARGE);
    let why = greedy.fetch("web", with("/", "x", &"y".repeat(20_000))).await.unwrap_err();
    assert!(matches!(why, FetchError::HeadTooLarge { .. }), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nonsense_is_answered_and_nobody_gets_anothers_body() {
    let node = node(true).await;
    let _mounted = mount(&node, "web", TowerToHyperService::new(application()), Limits::default()).unwrap();
    let connect = async || Client::builder("c").join(Place::new(node.address().unwrap())).connect().await.unwrap();
    let (client, other) = (connect().await, connect().await);
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    assert!(text(&ask(&client, &[]).await).contains("HTTP/1.1 501 "));
    assert!(text(&ask(&client, &[b"Z", b"x"]).await).contains("HTTP/1.1 501 "));
    for head in [&b""[..], b"GET", b"GET / HTTP/1.1\r\n", b"GET  / HTTP/9\r\n\r\n", &[0xff; 4_000]] {
        assert!(text(&ask(&client, &[b"F", head]).await).contains("HTTP/1.1 400 "), "{head:?}");
    }
    for number in [&b""[..], b"1", &[0; 8], &[7; 9]] {
        assert_eq!(ask(&client, &[b"N", number]).await[0], 4, "{number:?}");
    }
    let begun = ask(&client, &[b"F", b"GET /endless HTTP/1.1\r\n\r\n"]).await;
    let (number, _first) = begun_body(&begun);
    let number = &number[..];
    assert_eq!((begun[0], ask(&other, &[b"N", number]).await[0]), (3, 4), "it is not the other's");
    other.send_short("", "web", [Bytes::from_static(b"L"), Bytes::copy_from_slice(number)]).await.unwrap();
    // Messages of one node come in their order: its next answer says that the one before was taken.
    ask(&other, &[]).await;
    assert!(ask(&client, &[b"N", number]).await[0] <= 3, "nor is it the other's to end");
}

/// A site whose answer to anything is this.
async fn liar(answer: Vec<u8>) -> (Node, tokio::task::JoinHandle<()>) {
    let node = node(true).await;
    let mailbox = node.mailbox("web").unwrap();
    let lying = tokio::spawn(async move {
        loop {
            let message = mailbox.receive().await;
            let _ = message.answer(answer.clone()).await;
        }
    });
    (node, lying)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_lies_is_at_fault_and_reads_nothing_of_others() {
    let victim = node(true).await;
    let open = Export { anyone: Rights::READ, ..Export::default() };
    let _exported = victim.export("private", 100, open).unwrap();
    let head = b"HTTP/1.1 200 OK\r\n\r\n";
    // As `frame.rs` says it.
    let frame = |kind: u8, length: u32, rest: &[u8]| {
        let mut frame = vec![kind];
        frame.extend_from_slice(&length.to_le_bytes());
        frame.extend_from_slice(head);
        frame.extend_from_slice(rest);
        frame
    };
    let of_head = |head: &[u8]| [&[0][..], &(head.len() as u32).to_le_bytes(), head].concat();
    let lies = |segment: String| {
        let mut rest = [0u64.to_le_bytes(), 100u64.to_le_bytes()].concat();
        rest.extend_from_slice(segment.as_bytes());
        frame(1, head.len() as u32, &rest)
    };
    let elsewhere = lies(format!("{}/private", victim.address().unwrap()));
    let cases = [
        (Vec::new(), "its answer is none"),
        (frame(0, u32::MAX, b""), "its answer is none"),
        (frame(9, head.len() as u32, b""), "its answer is none"),
        (frame(3, head.len() as u32, &[1; 8]), "its answer is none"),
        (frame(3, head.len() as u32, &[9; 9]), "its answer is none"),
        (frame(0, 4, b""), "it ends within its head"),
        (of_head(format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(97)).as_bytes()), "it is no HTTP"),
        (of_head(b"HTTP/1.1 200 OK\r\ncontent length: 1\r\n\r\n"), "it is no HTTP"),
        (of_head(b"HTTP/1.1 200 OK\r\na: \x00\r\n\r\n"), "it is no HTTP"),
        (of_head(b"HTTP/9.9 20 K\r\n\r\n"), "it is no HTTP"),
        (of_head(&[b'x'; 2 << 20]), "are wanted at most"),
        (lies("nobody at all/x".to_owned()), "nobody at all"),
        (elsewhere, "another node's"),
    ];
    for (answer, expected) in cases {
        let (node, lying) = liar(answer).await;
        let why = fetcher(&node).await.fetch("web", get("/")).await.unwrap_err();
        assert!(why.to_string().contains(expected), "{why}, and not {expected}");
        lying.abort();
    }
    // A first part that lies elsewhere, or is longer than any part.
    let private = format!("{}/private", victim.address().unwrap());
    for (bytes, expected) in [(100_u64, "another node's"), (1 << 40, "too long")] {
        let part = [&[1; 8][..], &[3], &[0; 8], &bytes.to_le_bytes(), private.as_bytes()].concat();
        let (node, lying) = liar(frame(3, head.len() as u32, &part)).await;
        let body = fetcher(&node).await.fetch("web", get("/")).await.unwrap().into_body();
        let why = body.whole(u64::MAX).await.unwrap_err();
        assert!(why.to_string().contains(expected), "{why}, and not {expected}");
        lying.abort();
    }
    let (node, lying) = liar(frame(2, head.len() as u32, &[1; 8])).await;
    let body = fetcher(&node).await.fetch("web", get("/")).await.unwrap().into_body();
    // Whatever it says then is the same again, which is no part.
    assert!(body.whole(1 << 20).await.is_err());
    lying.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_shrinks_and_a_server_that_dies_end_a_body_in_its_midst() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, content(8 << 20)).unwrap();
    let server = folder_server(folder.path(), true, false, FileLimits::default()).await;
    let fetcher = fetcher(&server.node).await;
    let mut body = fetcher.fetch("web", get("/file")).await.unwrap().into_body();
    assert_eq!(body.bytes(), Some(8 << 20));
    assert!(body.frame().await.unwrap().is_ok());
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1 << 20).unwrap();
    let why = body.whole(1 << 30).await.unwrap_err();
    assert!(matches!(why, FetchError::BrokeOff(_)), "{why}");
    std::fs::write(&path, content(8 << 20)).unwrap();
    let mut body = fetcher.fetch("web", get("/file")).await.unwrap().into_body();
    assert!(body.frame().await.unwrap().is_ok());
    server.node.close(Duration::ZERO).await;
    drop(server);
    let why = tokio::time::timeout(Duration::from_secs(60), body.whole(1 << 30)).await.unwrap().unwrap_err();
    assert!(matches!(why, FetchError::Exception(_) | FetchError::BrokeOff(_)), "{why}");
}
