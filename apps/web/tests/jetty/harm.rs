//! What harms Jetty, or the client of Java: files that shrink, clients that are silent, absurd heads, servers that lie.

use super::*;
use crate::hostile::{BODY, HEAD, Lie, frame, lying, other_lengths, range};

/// More than a `ByteBuffer` has. Pages that nobody touches take no room.
const LONG_BYTES: u64 = (2 << 30) + 4_096;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_gets_a_clear_answer_of_jetty_and_hurts_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("small"), "hello").unwrap();
    let mut jetty = Java::start("catena.jetty.Served", &[folder.path().to_str().unwrap()]);
    let address = jetty.line();
    shrinks(&connected(&address).await, folder.path()).await;
    absurd_heads(&address).await;
    too_large(&connected(&address).await).await;
    anothers_body(&address).await;
    names(&connected(&address).await, folder.path()).await;
    is_silent(&connected(&address).await).await;
    assert_eq!(whole(connected(&address).await.fetch("read", get("/small")).await.unwrap()).await, "hello");
}

/// A file that is not kept, and shrinks while it is read.
async fn shrinks(fetcher: &Fetcher, folder: &Path) {
    let path = folder.join("shrinks");
    std::fs::write(&path, content(8 << 20)).unwrap();
    let mut body = fetcher.fetch("read", get("/shrinks")).await.unwrap().into_body();
    assert_eq!(body.bytes(), Some(8 << 20));
    assert!(body.frame().await.unwrap().is_ok());
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1 << 20).unwrap();
    let why = body.whole(1 << 30).await.unwrap_err();
    assert!(matches!(why, FetchError::BrokeOff(_)), "{why}");
    assert_eq!(whole(fetcher.fetch("read", get("/small")).await.unwrap()).await, "hello");
}

/// Heads that are longer than any: none reaches a handler, or comes back, in part.
async fn absurd_heads(address: &str) {
    let fetcher = connected(address).await;
    let why = fetcher.fetch("app", with("/who", "x", &"y".repeat(20_000))).await.unwrap_err();
    assert!(matches!(why, FetchError::HeadTooLarge { .. }), "{why}");
    let proxy = Proxy::open(connected(address).await, "app", "127.0.0.1:0", ProxyLimits::default()).await.unwrap();
    let asked = |fields: &str| format!("GET /who HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{fields}\r\n");
    let answer = raw(&proxy, asked(&format!("x: {}\r\n", "y".repeat(20_000))).as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    assert!(raw(&proxy, asked("").as_bytes()).await.starts_with("HTTP/1.1 200 "));
    // By hand: what a message takes is a head like any other; more goes into none.
    let client = Client::builder("c").join(Place::new(address)).connect().await.unwrap();
    let ask = async |bytes: usize| {
        let head = format!("GET /who HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(bytes));
        client.ask("app", catena::Question::new([Bytes::from_static(b"F"), Bytes::from(head)])).await
    };
    let answer = ask(11_900).await.unwrap().bytes().await.unwrap();
    assert!(String::from_utf8_lossy(&answer).contains("HTTP/1.1 200 "));
    assert_eq!(ask(20_000).await.unwrap_err().name, "LimitExceeded");
    let mut java = Java::start("catena.Program", &[address, "app", &format!("/{}", "x".repeat(20_000)), "/who"]);
    assert!(java.line().ends_with(" bytes, and 10240 are taken at most"));
    assert!(java.line().starts_with("200 "));
    // A response's.
    assert_eq!(fetcher.fetch("app", get("/wide")).await.unwrap().status(), StatusCode::INTERNAL_SERVER_ERROR);
}

/// A request's body that is longer than any: the next one is served.
async fn too_large(fetcher: &Fetcher) {
    let large = Request::post("/echo").body(Bytes::from(vec![0; (64 << 20) + 1])).unwrap();
    assert_eq!(fetcher.fetch("app", large).await.unwrap().status(), StatusCode::PAYLOAD_TOO_LARGE);
    let small = Request::post("/echo").body(Bytes::from("hello")).unwrap();
    assert_eq!(whole(fetcher.fetch("app", small).await.unwrap()).await, "hello");
}

/// Who knows a body's number has no part of it, and does not end it.
async fn anothers_body(address: &str) {
    let connect = async || Client::builder("c").join(Place::new(address)).connect().await.unwrap();
    let ask = async |client: &Client, items: &[&[u8]]| {
        let question = catena::Question::new(items.iter().map(|item| Bytes::copy_from_slice(item)));
        client.ask("app", question).await.unwrap().bytes().await.unwrap()
    };
    let (client, other) = (connect().await, connect().await);
    let begun = ask(&client, &[b"F", b"GET /endless HTTP/1.1\r\n\r\n"]).await;
    assert_eq!(begun[0], 3, "its first part came with its head");
    let (number, _first) = begun_body(&begun);
    assert_eq!(ask(&other, &[b"N", &number]).await[0], 4, "it is not the other's");
    other.send_short("", "app", [Bytes::from_static(b"L"), number.clone()]).await.unwrap();
    ask(&other, &[]).await;
    assert!(ask(&client, &[b"N", &number]).await[0] <= 3, "nor is it the other's to end");
}

/// Names as long as there are, of any bytes, and paths that are none.
async fn names(fetcher: &Fetcher, folder: &Path) {
    let escaped = |name: &[u8]| name.iter().map(|byte| format!("%{byte:02X}")).collect::<String>();
    let (plain, text) = ("a".repeat(255), "\u{e4}".repeat(127) + "?");
    for site in ["kept", "read"] {
        for name in [&plain, &text] {
            std::fs::write(folder.join(name), name).unwrap();
            let response = fetcher.fetch(site, get(&format!("/{}", escaped(name.as_bytes())))).await.unwrap();
            assert_eq!(whole(response).await, name.as_bytes(), "{site}");
        }
        for (bad, expected) in [
            (format!("/{plain}a"), 404),
            (format!("/{plain}/x"), 404),
            (format!("/{}", escaped(&[0xff; 255])), 400),
            (format!("/{}", escaped(&[0; 255])), 400),
            ("/..%2f..%2fetc%2fpasswd".to_owned(), 400),
            ("/%zz".to_owned(), 400),
        ] {
            let status = fetcher.fetch(site, get(&bad)).await.unwrap().status();
            assert_eq!(status.as_u16(), expected, "{bad} of {site}");
        }
    }
    assert_eq!(whole(fetcher.fetch("read", get("/small")).await.unwrap()).await, "hello");
}

/// Who asks for bodies and is silent has its places until they are let go, as soon as the connector is told.
async fn is_silent(fetcher: &Fetcher) {
    let asked = async |site: &str| fetcher.fetch(site, get("/endless")).await.unwrap();
    let mut held = Vec::new();
    loop {
        let response = asked("patient").await;
        if response.status() != StatusCode::OK {
            assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
            break;
        }
        held.push(response);
        assert!(held.len() <= 200, "there is no limit");
    }
    let places = held.len();
    drop(held);
    let mut held = Vec::new();
    // More than there are places for: some are let go meanwhile.
    let more = async {
        while held.len() <= places {
            let response = asked("hasty").await;
            match response.status() {
                StatusCode::OK => held.push(response),
                _ => tokio::task::yield_now().await,
            }
        }
    };
    tokio::time::timeout(LINE_MAX, more).await.expect("they are let go");
    // Which of them were is not said, and who is asked for in time goes on.
    let mut broke_off = 0;
    for response in held {
        match response.into_body().whole(1 << 20).await.unwrap_err() {
            FetchError::BrokeOff(_) | FetchError::Exception(_) => broke_off += 1,
            why => assert!(matches!(why, FetchError::TooLarge { .. }), "{why}"),
        }
    }
    assert!(broke_off > 0, "the place was one of theirs");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_of_java_takes_nothing_from_a_server_that_lies() {
    let (victim, liar) = (node(true).await, node(true).await);
    let open = || catena::Export { anyone: catena::Rights::READ, ..catena::Export::default() };
    let (_private, _own) = (victim.export("private", 100, open()).unwrap(), liar.export("own", 100, open()).unwrap());
    let (private, own) = (format!("{}/private", victim.address().unwrap()), format!("{}/own", liar.address().unwrap()));
    let part = |part: &[u8], expected| Lie::of_part(frame(2, HEAD, &BODY), part.to_vec(), expected);
    let own = |offset: u64, bytes: u64| frame(1, HEAD, &range(offset, bytes, &own));
    let beyond = "the server is at fault: it tells of bytes beyond its segment";
    let mut lies = vec![
        Lie::new(Vec::new(), "its answer is none"),
        Lie::new(vec![0; 4], "its answer is none"),
        Lie::new([&[0][..], &22_u32.to_le_bytes(), HEAD].concat(), "its answer is none"),
        Lie::new([&[0][..], &u32::MAX.to_le_bytes(), HEAD].concat(), "its answer is none"),
        Lie::new(frame(9, HEAD, b""), "its answer is none"),
        Lie::new(frame(0, b"", b""), "its head is none"),
        Lie::new(frame(0, b"HTTP/9.9 200 OK\r\n\r\n", b""), "its head is none"),
        Lie::new(frame(1, HEAD, &[0; 16]), "it does not say where its body lies"),
        Lie::new(own(0, 101), beyond),
        Lie::new(own(101, 0), beyond),
        Lie::new(own(i64::MAX as u64, 100), beyond),
        Lie::new(own(u64::MAX, 100), beyond),
        Lie::new(own(0, u64::MAX), beyond),
        Lie::new(own(0, 1 << 40), "the body has more than"),
        Lie::new(frame(1, HEAD, &range(0, 100, &private)), "another node's"),
        Lie::new(frame(1, HEAD, &range(0, 100, "nobody at all/x")), "nobody at all"),
        Lie::new(frame(3, HEAD, &BODY[..7]), "a body has no number"),
        Lie::new(frame(3, HEAD, &BODY), "a part of its body is none"),
        part(&[], "a part of its body is none"),
        part(&[9], "a part of its body is none"),
        part(&[255, 1], "a part of its body is none"),
        part(&[&[2][..], &range(0, 100, &private)].concat(), "another node's"),
        part(&[3, 1], "it does not say where its body lies"),
        part(b"\x04as it likes", "the body broke off: as it likes"),
    ];
    lies.extend(other_lengths(&format!("{}/own", liar.address().unwrap())));
    // No lie, but in a segment that no ByteBuffer can show: it is copied.
    let long = liar.export("long", LONG_BYTES, open()).unwrap();
    // Moved before anybody waits for it to where other processes can map it: that takes as long as the machine takes to fill so many pages.
    let _pages = long.map().unwrap();
    let long = format!("{}/long", liar.address().unwrap());
    lies.push(Lie::new(frame(1, HEAD, &range(LONG_BYTES - 100, 100, &long)), "200 100"));
    let telling = lying(&liar, lies.iter());
    let targets = ["/"].repeat(lies.len());
    let arguments = [&[liar.address().unwrap(), "web"], &targets[..]].concat();
    let mut java = Java::start("catena.Program", &arguments);
    for (at, lie) in lies.iter().enumerate() {
        // What it says blocks the thread that reads it; the node has the other.
        let said = java.line();
        assert!(said.contains(lie.expected), "lie {at}: {said}, and not {}", lie.expected);
    }
    telling.abort();
}
