//! The commands as people run them: they are interrupted, and a server is killed and comes back. And what a client does when its server is lost.

use std::process::{ExitStatus, Stdio};

use catena::Mailbox;
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    net::unix::pipe,
    process::{Child, Command},
};

use super::*;

/// How long anything may take here.
const PATIENCE: Duration = Duration::from_secs(60);

async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("{what}: not within a minute"))
}

/// `web` in a process of its own, which ends with this.
fn web(arguments: &[&str], stdout: Stdio) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_web"));
    command.args(arguments).stdout(stdout).kill_on_drop(true).spawn().unwrap()
}

/// The same, once it has said that it is ready, and what it said.
async fn ready(arguments: &[&str]) -> (Child, String) {
    let mut process = web(arguments, Stdio::piped());
    let mut line = String::new();
    // Its pipe stays open: who prints into one that is closed ends.
    let mut said = BufReader::new(process.stdout.as_mut().unwrap());
    in_time("it says that it is ready", said.read_line(&mut line)).await.unwrap();
    (process, line)
}

/// Interrupts it, as Ctrl-C does.
fn interrupt(process: &Child) {
    let pid = process.id().and_then(|pid| Pid::from_raw(pid.try_into().unwrap())).unwrap();
    kill_process(pid, Signal::INT).unwrap();
}

async fn ended(process: &mut Child) -> ExitStatus {
    in_time("it ends", process.wait()).await.unwrap()
}

/// Serves a folder; gives the address.
async fn serve(folder: &Path, listen: &str, options: &[&str]) -> (Child, String) {
    let (server, line) = ready(&[&["serve", folder.to_str().unwrap(), "--listen", listen], options].concat()).await;
    (server, line.trim().rsplit_once(" at ").expect("an address").1.to_owned())
}

/// The address of a door, out of what it says.
fn door_of(line: &str) -> &str {
    line.split_once("http://").and_then(|(_, rest)| rest.split_once('/')).expect("an address").0
}

/// The status and the body of what is at a path.
async fn fetched(door: &str, path: &str) -> (u16, Vec<u8>) {
    let asked = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let answer = raw_bytes_at(door, asked.as_bytes()).await;
    let head_bytes = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
    let status = std::str::from_utf8(&answer[9..12]).unwrap().parse().unwrap();
    (status, answer[head_bytes..].to_vec())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_in_one_process_serve_a_folder_until_they_are_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), content(300_000)).unwrap();
    std::fs::write(folder.path().join("index.html"), "hello").unwrap();
    let (mut both, line) = ready(&["both", folder.path().to_str().unwrap(), "--port", "0"]).await;
    assert_eq!(fetched(door_of(&line), "/").await, (200, b"hello".to_vec()));
    assert!(fetched(door_of(&line), "/file").await == (200, content(300_000)));
    interrupt(&both);
    let status = ended(&mut both).await;
    assert!(status.success(), "{status}");
}

/// A pipe in which there is no room for a line.
async fn full_pipe() -> (Stdio, pipe::Receiver) {
    let (writer, reader) = pipe::pipe().unwrap();
    writer.writable().await.unwrap();
    let page = [b'.'; 4_096];
    while writer.try_write(&page).is_ok() {}
    (writer.into_blocking_fd().unwrap().into(), reader)
}

/// Whether this process takes interrupts itself (proc(5): the signals that are caught).
fn takes_interrupts(process: &Child) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id().unwrap())).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("the signals that are caught");
    u64::from_str_radix(caught.trim(), 16).unwrap() >> (Signal::INT.as_raw() - 1) & 1 == 1
}

/// Whoever waits for a command to be ready may interrupt it at once. One that cannot say that it is ready, since its pipe is full, takes interrupts all the same, or it would
/// say so too early.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_can_be_interrupted_from_their_first_line_on() {
    let folder = tempfile::tempdir().unwrap();
    let server = folder_server(folder.path(), true, true, FileLimits::default()).await;
    let path = folder.path().to_str().unwrap();
    for arguments in [
        &["both", path, "--port", "0"][..],
        &["serve", path, "--listen", "127.0.0.1:0"],
        &["proxy", server.node.address().unwrap(), "--port", "0"],
    ] {
        let (stdout, mut said) = full_pipe().await;
        let mut process = web(arguments, stdout);
        let taken = async {
            while !takes_interrupts(&process) {
                tokio::task::yield_now().await;
            }
        };
        in_time("it takes interrupts before it says that it is ready", taken).await;
        interrupt(&process);
        let all = async { tokio::io::copy(&mut said, &mut tokio::io::sink()).await.unwrap() };
        in_time("it says so, and ends", all).await;
        let status = ended(&mut process).await;
        assert!(status.success(), "{arguments:?}: {status}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_and_comes_back_is_found_by_the_proxy() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    for options in [&[][..], &["--without-cache"]] {
        std::fs::write(&file, content(300_000)).unwrap();
        // Nobody takes its port while it is down: who dials comes from 127.0.0.1.
        let (mut server, address) = serve(folder.path(), "127.0.0.2:0", options).await;
        let (_proxy, line) = ready(&["proxy", &address, "--port", "0"]).await;
        let door = door_of(&line);
        assert!(fetched(door, "/file").await == (200, content(300_000)), "{options:?}");
        // As SIGKILL does it.
        server.kill().await.unwrap();
        // What is fetched later is not what was imported of the run before.
        std::fs::write(&file, content(200_000)).unwrap();
        let (_server, again) = serve(folder.path(), &address, options).await;
        assert_eq!(again, address);
        let found = async {
            loop {
                match fetched(door, "/file").await {
                    (200, body) => {
                        assert!(body == content(200_000), "{options:?}: {} bytes", body.len());
                        break;
                    }
                    (status, body) => {
                        assert!([502, 504].contains(&status), "{options:?}: {status} {}", body.escape_ascii());
                    }
                }
            }
        };
        in_time("the new one is found", found).await;
    }
}

/// Whoever is told of the server is told that address, whichever it dialled itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_reached_elsewhere_than_it_listens_tells_clients_where() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), content(300_000)).unwrap();
    let (_server, address) = serve(folder.path(), "0.0.0.0:0", &["--advertise", "127.0.0.2:0"]).await;
    let (host, port) = address.split_once(':').unwrap();
    assert!(host == "127.0.0.2" && port != "0", "{address}");
    let (_proxy, line) = ready(&["proxy", &address, "--port", "0"]).await;
    assert!(fetched(door_of(&line), "/file").await == (200, content(300_000)));
    let elsewhere = Place::new(format!("127.0.0.1:{port}"));
    let client = Client::builder("client").join(elsewhere).connect().await.unwrap();
    let entry = client.services().await.into_iter().find(|entry| entry.service == "web").expect("the service");
    assert_eq!(entry.node.address, Some(address));
}

/// One of several nodes that serve one service ID.
async fn instance(home: &Node, name: &str) -> (Node, Mailbox) {
    let place = Place::new(home.address().unwrap());
    let node = Node::builder(name).listen("127.0.0.1:0").join(place).start().await.unwrap();
    let mailbox = node.mailbox("web").unwrap();
    (node, mailbox)
}

/// What may be asked twice is, and is answered by the other one; what may have been done is not asked again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_safe_request_is_asked_once_more_if_its_server_is_lost() {
    for (method, is_safe) in [(Method::GET, true), (Method::POST, false)] {
        let home = node(true).await;
        let (first, second) = (instance(&home, "first").await, instance(&home, "second").await);
        let both = async {
            while home.client().known_services().iter().filter(|entry| entry.service == "web").count() < 2 {
                tokio::task::yield_now().await;
            }
        };
        in_time("both are known", both).await;
        let fetcher = fetcher(&home).await;
        let request = Request::builder().method(&method).uri("/").body(Bytes::new()).unwrap();
        let answering = async {
            let (_question, (lost, _mailbox), (other, mailbox)) = tokio::select! {
                question = first.1.receive() => (question, first, second),
                question = second.1.receive() => (question, second, first),
            };
            lost.close(Duration::ZERO).await;
            if is_safe {
                let again = mailbox.receive().await;
                again.answer(hostile::frame(0, hostile::HEAD, b"hello")).await.unwrap();
            }
            // It is there until its answer has come.
            other
        };
        let fetched = async { tokio::join!(fetcher.fetch("web", request), answering).0 };
        let fetched = in_time("it is answered", fetched).await;
        match fetched {
            Ok(response) => assert!(is_safe && whole(response).await == "hello", "{method}"),
            Err(FetchError::Exception(why)) => assert!(!is_safe && why.name == "OwnerLost", "{method}: {why}"),
            Err(why) => panic!("{method}: {why}"),
        }
    }
}
