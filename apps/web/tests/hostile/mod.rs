//! Who means harm, or dies: clients that ask for nonsense or read nothing, servers that lie, files that shrink.

use catena::{Export, Question, Rights};

use super::*;

/// Asks by hand.
pub(super) async fn ask(client: &Client, items: &[&[u8]]) -> Bytes {
    let question = Question::new(items.iter().map(|item| Bytes::copy_from_slice(item)));
    client.ask("web", question).await.unwrap().bytes().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_reads_nothing_takes_only_its_own_places() {
    let node = node(true).await;
    let two = Limits { bodies_per_client_max: 2, ..Limits::default() };
    let _mounted = mount(&node, "web", TowerToHyperService::new(application()), two).unwrap();
    let (greedy, other) = (fetcher(&node).await, fetcher(&node).await);
    let first = greedy.fetch("web", get("/endless")).await.unwrap();
    let second = greedy.fetch("web", get("/endless")).await.unwrap();
    assert_eq!(greedy.fetch("web", get("/endless")).await.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(other.fetch("web", get("/endless")).await.unwrap().status(), StatusCode::OK, "others have theirs");
    drop((first, second));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_place_of_a_client_that_reads_nothing_is_free_after_a_time() {
    let node = node(true).await;
    let limits = Limits { bodies_per_client_max: 1, body_idle_max: Duration::from_millis(100), ..Limits::default() };
    let _mounted = mount(&node, "web", TowerToHyperService::new(application()), limits).unwrap();
    let greedy = fetcher(&node).await;
    let first = greedy.fetch("web", get("/endless")).await.unwrap();
    let again = async {
        while greedy.fetch("web", get("/endless")).await.unwrap().status() != StatusCode::OK {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), again).await.unwrap();
    let why = first.into_body().whole(1 << 30).await.unwrap_err();
    assert!(matches!(why, FetchError::BrokeOff(_) | FetchError::Exception(_)), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_too_large_is_refused_and_the_next_is_served() {
    let node = node(true).await;
    let limits = Limits { request_bytes_max: 100_000, ..Limits::default() };
    let _mounted = mount(&node, "web", TowerToHyperService::new(application()), limits).unwrap();
    let fetcher = fetcher(&node).await;
    let echo = async |bytes: usize| {
        let request = Request::post("/echo").body(Bytes::from(vec![7; bytes])).unwrap();
        fetcher.fetch("web", request).await.unwrap()
    };
    assert_eq!(echo(100_001).await.status(), StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(whole(echo(100_000).await).await, vec![7; 100_000]);
    // As `GET /hello/you HTTP/1.1`, its empty line and this field's name and ends make 32 bytes of it.
    let hello = async |bytes: usize| fetcher.fetch("web", with("/hello/you", "x", &"y".repeat(bytes - 32))).await;
    let why = hello((10 << 10) + 1).await.unwrap_err();
    assert!(matches!(why, FetchError::HeadTooLarge { bytes: 10_241, bytes_max: 10_240 }), "{why}");
    assert_eq!(hello(10 << 10).await.unwrap().status(), StatusCode::OK);
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

/// What a site that lies answers to a request, and to each question for a part; and what its client is to say.
pub(crate) struct Lie {
    answer: Vec<u8>,
    part: Vec<u8>,
    pub(crate) expected: &'static str,
}

impl Lie {
    pub(crate) fn new(answer: Vec<u8>, expected: &'static str) -> Self {
        Self { part: answer.clone(), answer, expected }
    }

    /// Of a body that is asked for part by part, by the number [`BODY`].
    pub(crate) fn of_part(answer: Vec<u8>, part: Vec<u8>, expected: &'static str) -> Self {
        Self { answer, part, expected }
    }
}

/// The number of a body, and of every other.
pub(crate) const BODY: [u8; 8] = [1; 8];
pub(crate) const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\n\r\n";
/// Of a body of ten bytes.
const HEAD_OF_TEN: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n";

/// An answer, as `frame.rs` says it.
pub(crate) fn frame(place: u8, head: &[u8], rest: &[u8]) -> Vec<u8> {
    [&[place][..], &(head.len() as u32).to_le_bytes(), head, rest].concat()
}

pub(crate) fn range(offset: u64, bytes: u64, segment: &str) -> Vec<u8> {
    [&offset.to_le_bytes()[..], &bytes.to_le_bytes(), segment.as_bytes()].concat()
}

/// A site, `web`, that tells its lies in their order: each request begins the next one.
pub(crate) fn lying<'a>(node: &Node, lies: impl Iterator<Item = &'a Lie>) -> tokio::task::JoinHandle<()> {
    let mailbox = node.mailbox("web").unwrap();
    let lies: Vec<_> = lies.map(|lie| (lie.answer.clone(), lie.part.clone())).collect();
    tokio::spawn(async move {
        let mut part = Vec::new();
        let mut lies = lies.into_iter();
        loop {
            let message = mailbox.receive().await;
            let answer = match &message.items()[0][..] {
                b"F" | b"f" => {
                    let (answer, next) = lies.next().unwrap();
                    part = next;
                    answer
                }
                b"N" | b"n" => part.clone(),
                _ => continue,
            };
            let _ = message.answer(answer).await;
        }
    })
}

/// Bodies that are shorter and longer than their head declares, by each way in which a body comes; `segment` has more than ten bytes.
pub(crate) fn other_lengths(segment: &str) -> Vec<Lie> {
    let of_bytes = |bytes: usize, expected| {
        let (rest, range) = (vec![b'x'; bytes], range(0, bytes as u64, segment));
        let last = [&[1][..], &rest].concat();
        let begun = [&BODY[..], &[0], &rest[..5]].concat();
        vec![
            Lie::new(frame(0, HEAD_OF_TEN, &rest), expected),
            Lie::new(frame(1, HEAD_OF_TEN, &range), expected),
            Lie::of_part(frame(2, HEAD_OF_TEN, &BODY), last.clone(), expected),
            Lie::of_part(frame(2, HEAD_OF_TEN, &BODY), [&[3][..], &range].concat(), expected),
            Lie::of_part(frame(3, HEAD_OF_TEN, &begun), [&[1][..], &rest[5..]].concat(), expected),
            Lie::new(frame(3, HEAD_OF_TEN, &[&BODY[..], &last].concat()), expected),
        ]
    };
    let endless = Lie::of_part(frame(2, HEAD_OF_TEN, &BODY), vec![0; 8], "declares a body of 10 bytes, and 14 came");
    let all = [
        of_bytes(9, "declares a body of 10 bytes, and 9 came"),
        of_bytes(11, "declares a body of 10 bytes, and 11 came"),
    ];
    all.into_iter().flatten().chain([endless]).collect()
}

async fn open_segment(node: &Node) -> (catena::Segment, String) {
    let open = Export { anyone: Rights::READ, ..Export::default() };
    (node.export("private", 100, open).unwrap(), format!("{}/private", node.address().unwrap()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_lies_is_at_fault_and_reads_nothing_of_others() {
    let victim = node(true).await;
    let (_private, private) = open_segment(&victim).await;
    let of_head = |head: &[u8], expected| Lie::new(frame(0, head, b""), expected);
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(97));
    // A first part that lies elsewhere, or is longer than any part.
    let part = |bytes| frame(3, HEAD, &[&BODY[..], &[3], &range(0, bytes, &private)].concat());
    let lies = [
        Lie::new(Vec::new(), "its answer is none"),
        Lie::new([&[0][..], &u32::MAX.to_le_bytes(), HEAD].concat(), "its answer is none"),
        Lie::new(frame(9, HEAD, b""), "its answer is none"),
        Lie::new(frame(3, HEAD, &BODY), "its answer is none"),
        Lie::new(frame(3, HEAD, &[9; 9]), "its answer is none"),
        of_head(&HEAD[..4], "it ends within its head"),
        of_head(many.as_bytes(), "it is no HTTP"),
        of_head(b"HTTP/1.1 200 OK\r\ncontent length: 1\r\n\r\n", "it is no HTTP"),
        of_head(b"HTTP/1.1 200 OK\r\na: \x00\r\n\r\n", "it is no HTTP"),
        of_head(b"HTTP/9.9 20 K\r\n\r\n", "it is no HTTP"),
        of_head(&[b'x'; 2 << 20], "are wanted at most"),
        Lie::new(frame(1, HEAD, &range(0, 100, "nobody at all/x")), "nobody at all"),
        Lie::new(frame(1, HEAD, &range(0, 100, &private)), "another node's"),
        Lie::new(part(100), "another node's"),
        Lie::new(part(1 << 40), "too long"),
        Lie::of_part(frame(2, HEAD, &BODY), vec![9], "a part of its body is none"),
    ];
    let liar = node(true).await;
    let telling = lying(&liar, lies.iter());
    let fetcher = fetcher(&liar).await;
    for lie in &lies {
        let fetched = async { fetcher.fetch("web", get("/")).await?.into_body().whole(u64::MAX).await };
        let why = fetched.await.unwrap_err().to_string();
        assert!(why.contains(lie.expected), "{why}, and not {}", lie.expected);
    }
    telling.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_of_another_length_than_its_head_declares_is_none() {
    for near in [true, false] {
        let liar = node(near).await;
        let (_own, own) = open_segment(&liar).await;
        let lies = other_lengths(&own);
        // Each is fetched in three ways.
        let telling = lying(&liar, lies.iter().flat_map(|lie| [lie; 3]));
        let fetcher = fetcher(&liar).await;
        for (at, lie) in lies.iter().enumerate() {
            let fetch = async || Ok::<_, FetchError>(fetcher.fetch("web", get("/")).await?.into_body());
            let whole = async { fetch().await?.whole(100).await };
            let copied = async { fetch().await?.read_into(&mut [0; 100]).await };
            let frames = async { fetch().await?.collect().await };
            for why in [whole.await.unwrap_err(), copied.await.unwrap_err(), frames.await.unwrap_err()] {
                assert!(matches!(why, FetchError::Length { .. }), "{why}, near {near}, lie {at}");
                assert!(
                    why.to_string().contains(lie.expected),
                    "{why}, and not {}, near {near}, lie {at}",
                    lie.expected
                );
            }
        }
        telling.abort();
    }
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

/// How many bytes came, each of them the one of its place: what is cut off and read all the same would be zeros, or bytes of another place.
async fn in_place(response: Response<catena_web::FetchBody>) -> Result<usize, FetchError> {
    let body = response.into_body().whole(1 << 30).await?;
    assert!(body == content(body.len()), "{} bytes, not all of them in their place", body.len());
    Ok(body.len())
}

fn cut(path: &Path, bytes: usize) {
    std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(bytes as u64).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kept_file_that_shrinks_is_whole_as_it_was_and_then_as_it_is() {
    const LONG: usize = 3 << 20;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    for short in [0, 1, LONG - 1] {
        for near in [true, false] {
            std::fs::write(&path, content(LONG)).unwrap();
            let limits = FileLimits { believed: Duration::from_secs(3_600), ..FileLimits::default() };
            let believing = folder_server(folder.path(), near, true, limits.clone()).await;
            let looking = FileLimits { believed: Duration::ZERO, ..limits };
            let looking = folder_server(folder.path(), near, true, looking).await;
            let fetchers = [fetcher(&believing.node).await, fetcher(&looking.node).await];
            let fetched = async |who: usize| fetchers[who].fetch("web", get("/file")).await.unwrap();
            let before = [fetched(0).await, fetched(1).await];
            cut(&path, short);
            for response in before {
                assert_eq!(in_place(response).await.unwrap(), LONG, "what was told of before");
            }
            assert_eq!(in_place(fetched(0).await).await.unwrap(), LONG, "what is believed");
            assert_eq!(in_place(fetched(1).await).await.unwrap(), short, "what is looked at");
        }
    }
}

/// One file takes another's place, and is cut, while it is fetched: each time it is whole as it was at some moment, or is said not to be.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_file_that_is_cut_while_it_is_fetched_is_whole_or_breaks_off() {
    const ROUNDS: usize = 300;
    const LONG: usize = 2 << 20;
    const SHORT: usize = 70_000;
    let folder = tempfile::tempdir().unwrap();
    let (path, next) = (folder.path().join("file"), folder.path().join("next"));
    let put = move || {
        std::fs::write(&next, content(LONG)).unwrap();
        std::fs::rename(&next, &path).unwrap();
        path.clone()
    };
    put();
    let limits = FileLimits { believed: Duration::ZERO, read_bytes: 64 << 10, ..FileLimits::default() };
    let servers = [
        folder_server(folder.path(), true, true, limits.clone()).await,
        folder_server(folder.path(), false, true, limits.clone()).await,
        folder_server(folder.path(), true, false, limits.clone()).await,
        folder_server(folder.path(), false, false, limits).await,
    ];
    let changing = tokio::task::spawn_blocking(move || (0..ROUNDS).for_each(|_| cut(&put(), SHORT)));
    let mut fetchers = Vec::new();
    for server in &servers {
        fetchers.push(fetcher(&server.node).await);
    }
    while !changing.is_finished() {
        for (at, fetcher) in fetchers.iter().enumerate() {
            let response = fetcher.fetch("web", get("/file")).await.unwrap();
            match response.status() {
                StatusCode::OK => match in_place(response).await {
                    Ok(bytes) => assert!([LONG, SHORT].contains(&bytes), "server {at}: {bytes} bytes"),
                    Err(why) => assert!(matches!(why, FetchError::BrokeOff(_)) && at >= 2, "server {at}: {why}"),
                },
                // It was cut before any of it went.
                status => assert_eq!(status, [503, 500][usize::from(at >= 2)], "server {at}"),
            }
        }
    }
    changing.await.unwrap();
}
