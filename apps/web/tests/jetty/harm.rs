//! What harms Jetty, or the client of Java: files that shrink, clients that are silent, absurd heads, servers that lie.

use super::*;
use crate::hostile::{BODY, HEAD, Lie, frame, lying, other_lengths, range};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_gets_a_clear_answer_of_jetty_and_hurts_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("small"), "hello").unwrap();
    let mut jetty = Java::start("catena.jetty.Served", &[folder.path().to_str().unwrap()]);
    let address = jetty.line();
    shrinks(&connected(&address).await, folder.path()).await;
    absurd_heads(&address).await;
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

/// Who asks for bodies and is silent has its places until they are let go, as soon as the connector is told.
async fn is_silent(fetcher: &Fetcher) {
    let mut held = Vec::new();
    let mut status = StatusCode::OK;
    while status == StatusCode::OK {
        let response = fetcher.fetch("hasty", get("/endless")).await.unwrap();
        status = response.status();
        held.push(response);
        assert!(held.len() <= 200, "there is no limit");
    }
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    let again = async {
        while fetcher.fetch("hasty", get("/endless")).await.unwrap().status() != StatusCode::OK {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), again).await.expect("they are let go");
    let why = held.swap_remove(0).into_body().whole(1 << 30).await.unwrap_err();
    assert!(matches!(why, FetchError::BrokeOff(_) | FetchError::Exception(_)), "{why}");
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
