//! Jetty behind service IDs, in a process of its own: what it serves is fetched by the client of Rust and by that of Java.

mod harm;

use std::{
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, sync_channel},
};

use super::*;

// The library has to be built for it.
use catena_c as _;

/// How long a program in Java may take to say its next line.
const LINE_MAX: Duration = Duration::from_secs(120);

/// A program that is, or starts one, in Java; it ends with this.
struct Java {
    child: Child,
    said: Receiver<String>,
}

impl Java {
    fn start(class: &str, arguments: &[&str]) -> Self {
        let mut java = Command::new("java");
        java.args(["-Xmx512m", "-cp", &classes(), class]).args(arguments);
        Self::of(java)
    }

    fn of(mut program: Command) -> Self {
        let library = std::env::current_exe().unwrap().parent().unwrap().join("libcatena_c.so");
        program.env("CATENA_LIBRARY", library).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = program.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (says, said) = sync_channel(64);
        // Ends with the program's output.
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| says.send(line)));
        Self { child, said }
    }

    fn line(&mut self) -> String {
        self.said.recv_timeout(LINE_MAX).expect("it ended, or says nothing")
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Java {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where what is in Java is, once it is built.
fn classes() -> String {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let built = Command::new(root.join("tools/java.sh")).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stdout));
    format!("{0}/lib/*:{0}/catena/test-classes:{0}/catena-jetty/test-classes", root.join("target/java").display())
}

async fn connected(address: &str) -> Fetcher {
    let client = Client::builder("client").join(Place::new(address)).connect().await.unwrap();
    Fetcher::new(client, FetchLimits::default())
}

fn chunks(count: usize) -> Vec<u8> {
    (0..count).flat_map(|at| vec![(count - at) as u8; 100_000]).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jetty_serves_files_and_applications_to_the_same_clients() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    std::fs::write(folder.path().join("sub/index.html"), "<p>").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder.path().join("out")).unwrap();
    let sizes = [0, 1, 8_000, 100_000, 5 << 20];
    sizes.iter().for_each(|bytes| std::fs::write(folder.path().join(format!("{bytes}")), content(*bytes)).unwrap());
    let mut jetty = Java::start("catena.jetty.Served", &[folder.path().to_str().unwrap()]);
    let address = jetty.line();
    let fetcher = connected(&address).await;
    files(&fetcher, &sizes).await;
    changed(&fetcher, folder.path()).await;
    application(&fetcher).await;
    nonsense(&address).await;
    parts_stay(&address).await;
    one_question_is_enough(&address).await;
    Box::pin(java_fetches(&address, &fetcher)).await;
    let proxy = Proxy::open(connected(&address).await, "kept", "127.0.0.1:0", ProxyLimits::default()).await.unwrap();
    let asked = b"GET /sub/ HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let answer = raw(&proxy, asked).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\n<p>"), "{answer}");
    // A JVM that is killed: who reads what is mapped goes on, who asks for more is told.
    let begun = fetcher.fetch("kept", get("/5242880")).await.unwrap();
    let pulled = fetcher.fetch("read", get("/5242880")).await.unwrap();
    assert_eq!((begun.body().bytes(), pulled.body().bytes()), (Some(5 << 20), Some(5 << 20)));
    jetty.kill();
    let read = tokio::time::timeout(Duration::from_secs(60), begun.into_body().whole(1 << 30)).await.unwrap();
    assert!(read.map_or_else(|why| matches!(why, FetchError::Exception(_)), |bytes| bytes == content(5 << 20)));
    let why =
        tokio::time::timeout(Duration::from_secs(60), pulled.into_body().whole(1 << 30)).await.unwrap().unwrap_err();
    assert!(matches!(why, FetchError::Exception(_) | FetchError::BrokeOff(_)), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_command_starts_jetty_and_a_door_to_it() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("page.html"), "hello").unwrap();
    let server = format!("java -cp {} catena.jetty.Measured {{FOLDER}} {{CACHE}}", classes());
    let mut command = Command::new(env!("CARGO_BIN_EXE_web"));
    command.arg("both").arg(folder.path()).args(["--port", "0", "--server", &server]);
    let mut web = Java::of(command);
    // Jetty's own socket, and the door.
    for door in [false, true] {
        let line = web.line();
        let address = line.split_once("http://").and_then(|(_, rest)| rest.split_once('/')).expect("an address").0;
        let asked = b"GET /page.html HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        let answer = raw_at(address, asked).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nhello"), "{door}: {answer}");
    }
}

/// What Jetty's buffers are when there is no room for them in segments.
#[test]
fn a_pool_of_segments_that_is_full_gives_ordinary_buffers() {
    assert_eq!(Java::start("catena.jetty.Pools", &[]).line(), "all of it");
}

async fn files(fetcher: &Fetcher, sizes: &[usize]) {
    for site in ["kept", "read"] {
        for bytes in sizes {
            for _ in 0..2 {
                let response = fetcher.fetch(site, get(&format!("/{bytes}"))).await.unwrap();
                assert_eq!(
                    (response.status(), response.body().bytes()),
                    (StatusCode::OK, Some(*bytes as u64)),
                    "{site}"
                );
                assert!(whole(response).await == content(*bytes), "{bytes} bytes, {site}");
            }
        }
        let part = fetcher.fetch(site, with("/5242880", "range", "bytes=70000-4000000")).await.unwrap();
        assert_eq!(
            (part.status(), &part.headers()["content-range"]),
            (StatusCode::PARTIAL_CONTENT, &"bytes 70000-4000000/5242880".parse().unwrap())
        );
        assert!(whole(part).await == content(5 << 20)[70_000..=4_000_000]);
        let parts = fetcher.fetch(site, with("/100000", "range", "bytes=0-9,50000-50009")).await.unwrap();
        assert!(parts.headers()["content-type"].to_str().unwrap().starts_with("multipart/byteranges"));
        let body = whole(parts).await;
        assert!(body.windows(10).any(|ten| ten == &content(100_000)[50_000..50_010]));
        let status = async |request| fetcher.fetch(site, request).await.unwrap().status();
        assert_eq!(status(with("/1", "range", "bytes=1-")).await, StatusCode::RANGE_NOT_SATISFIABLE);
        let head = fetcher.fetch(site, Request::head("/8000").body(Bytes::new()).unwrap()).await.unwrap();
        assert_eq!((&head.headers()["content-length"], head.body().bytes()), (&"8000".parse().unwrap(), Some(0)));
        let tag = head.headers()["etag"].to_str().unwrap();
        assert_eq!(status(with("/8000", "if-none-match", tag)).await, StatusCode::NOT_MODIFIED);
        assert_eq!(whole(fetcher.fetch(site, get("/sub/")).await.unwrap()).await, "<p>");
        for (bad, expected) in
            [("/no", 404), ("/out", 404), ("/../etc/passwd", 400), ("/%2e%2e/x", 400), ("/sub%2findex.html", 400)]
        {
            assert_eq!(status(get(bad)).await.as_u16(), expected, "{bad}");
        }
    }
}

/// What is kept is sent from where it lies, and stays what it was for who reads it.
async fn changed(fetcher: &Fetcher, folder: &Path) {
    std::fs::write(folder.join("file"), vec![1; 3 << 20]).unwrap();
    let before = fetcher.fetch("kept", get("/file")).await.unwrap();
    std::fs::write(folder.join("file"), vec![2; 1 << 20]).unwrap();
    let now = async {
        while whole(fetcher.fetch("kept", get("/file")).await.unwrap()).await != vec![2; 1 << 20] {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), now).await.expect("a change is seen after a second");
    assert!(whole(before).await == vec![1; 3 << 20]);
}

async fn application(fetcher: &Fetcher) {
    for bytes in [0, 10, 11_000, 40_000, 3 << 20] {
        let body = content(bytes);
        let request = Request::post("/echo").body(Bytes::from(body.clone())).unwrap();
        assert!(whole(fetcher.fetch("app", request).await.unwrap()).await == body, "{bytes} bytes");
    }
    assert!(whole(fetcher.fetch("app", get("/many")).await.unwrap()).await == chunks(30));
    assert!(whole(fetcher.fetch("app", get("/who")).await.unwrap()).await.starts_with(b"catena-"));
    assert_eq!(fetcher.fetch("app", get("/throws")).await.unwrap().status(), StatusCode::INTERNAL_SERVER_ERROR);
    // The second fails before its first write has returned.
    for path in ["/fails", "/fails-early"] {
        let body = fetcher.fetch("app", get(path)).await.unwrap().into_body();
        let read = tokio::time::timeout(Duration::from_secs(60), body.whole(1 << 30)).await.expect(path);
        let why = read.unwrap_err();
        assert!(matches!(why, FetchError::BrokeOff(_)), "{path}: {why}");
    }
    // Who reads nothing has its places, and others have theirs; who leaves frees one.
    let mut held = Vec::new();
    let refused = loop {
        let response = fetcher.fetch("app", get("/endless")).await.unwrap();
        if response.status() != StatusCode::OK || held.len() > 200 {
            break response.status();
        }
        held.push(response);
    };
    // One before may not have ended yet.
    assert!(refused == StatusCode::SERVICE_UNAVAILABLE && (60..=64).contains(&held.len()), "{refused}, {}", held.len());
    let small = || async { fetcher.fetch("app", get("/who")).await.unwrap().status() };
    drop(held);
    let again = async {
        while small().await != StatusCode::OK
            || fetcher.fetch("app", get("/endless")).await.unwrap().status() != StatusCode::OK
        {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), again).await.unwrap();
}

async fn nonsense(address: &str) {
    let client = Client::builder("c").join(Place::new(address)).connect().await.unwrap();
    let text = async |items: &[&[u8]]| {
        let question = catena::Question::new(items.iter().map(|item| Bytes::copy_from_slice(item)));
        String::from_utf8_lossy(&client.ask("app", question).await.unwrap().bytes().await.unwrap()).into_owned()
    };
    assert!(text(&[]).await.contains("HTTP/1.1 501 "));
    assert!(text(&[b"Z", b"x"]).await.contains("HTTP/1.1 501 "));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(97));
    let bad = [
        &b""[..],
        b"GET",
        b"GET / HTTP/1.1\r\n",
        b"GET  / HTTP/9\r\n\r\n",
        b"GET / HTTP/1.1\r\na b: c\r\n\r\n",
        b"GET / HTTP/1.1\r\na: \0\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
        b"GET http://[ HTTP/1.1\r\n\r\n",
        many.as_bytes(),
        &[0xff; 4_000],
    ];
    for head in bad {
        let answer = text(&[b"F", head]).await;
        assert!(
            answer.contains("HTTP/1.1 400 "),
            "{:?}: {answer}",
            String::from_utf8_lossy(&head[..head.len().min(60)])
        );
    }
    for number in [&b""[..], b"1", &[0; 8], &[7; 9]] {
        assert!(text(&[b"N", number]).await.starts_with('\u{4}'), "{number:?}");
    }
}

/// What is read from the disk, and has the length that its head promised, needs one question.
async fn one_question_is_enough(address: &str) {
    let client = Client::builder("c").join(Place::new(address)).connect().await.unwrap();
    for (bytes, kind, part) in [(1, 0, None), (8_000, 0, None), (100_000, 3, Some(3))] {
        let head = format!("GET /{bytes} HTTP/1.1\r\n\r\n");
        let question = catena::Question::new([Bytes::from_static(b"F"), Bytes::from(head)]);
        let answer = client.ask("read", question).await.unwrap().bytes().await.unwrap();
        assert_eq!(answer[0], kind, "{bytes} bytes: they came with the head, or their only part did");
        let told = part.map(|_| begun_body(&answer).1[0]);
        assert_eq!(told, part, "{bytes} bytes: the part is the last, in a segment");
    }
}

/// A part that was told of stays as it is while the one after it is read from the disk, and until that is asked for again.
async fn parts_stay(address: &str) {
    let client = Client::builder("c").join(Place::new(address)).connect().await.unwrap();
    let ask = async |kind: &'static [u8], item: Bytes| {
        let question = catena::Question::new([Bytes::from_static(kind), item]);
        client.ask("read", question).await.unwrap().bytes().await.unwrap()
    };
    let begun = ask(b"F", Bytes::from_static(b"GET /5242880 HTTP/1.1\r\n\r\n")).await;
    assert_eq!(begun[0], 3, "its first part came with its head");
    let (number, first) = begun_body(&begun);
    let second = ask(b"N", number).await;
    for (at, part) in [first, second].into_iter().enumerate() {
        assert_eq!(part[0], 2, "it lies in a segment");
        let number = |at: usize| u64::from_le_bytes(part[at..at + 8].try_into().unwrap());
        let far = client.import(std::str::from_utf8(&part[17..]).unwrap()).await.unwrap();
        let read = far.read(number(1), number(9)).await.unwrap();
        assert!(read == content(5 << 20)[at << 20..(at + 1) << 20], "part {at}");
    }
}

/// The client of Java reads what is kept without a copy; one that is killed with it mapped harms nobody.
async fn java_fetches(address: &str, fetcher: &Fetcher) {
    let sum: u64 = content(5 << 20).iter().map(|byte| u64::from(*byte)).sum();
    let mut java = Java::start("catena.Program", &[address, "kept", "/5242880"]);
    assert_eq!(java.line(), format!("200 {} {sum}", 5 << 20));
    java.kill();
    assert!(whole(fetcher.fetch("kept", get("/5242880")).await.unwrap()).await == content(5 << 20));
}
