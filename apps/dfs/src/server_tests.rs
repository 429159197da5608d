//! What a clerk may put into its lanes: bytes that are no request, and requests that nobody may make.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{collections::BTreeSet, path::Path};

use catena::{Client, Imported, Place as At, Segment, Wish};
use catena_clerk::{Asking, FRAME_HEAD_BYTES, answers_bytes, frame};
use catena_files::testing::{create, lookup, read, write};
use catena_files::{
    Change, CommitParams, CreateParams, LookupParams, MkdirParams, ReadParams, RemoveParams, RenameParams, Stable,
    Status, WriteParams, limits::READ_BYTES_MAX,
};
use futures_util::{StreamExt, stream};
use serde_bytes::ByteBuf;
use tempfile::TempDir;

use super::*;
use crate::{Clerk, ClerkConfig};

/// Long enough for a busy machine: no test waits for it to pass.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server of a folder with other files beside it, and a well-behaved clerk.
struct Served {
    around: TempDir,
    server: Server,
    honest: Clerk,
    root: Handle,
    file: Handle,
}

async fn serve() -> Served {
    let around = tempfile::tempdir().unwrap();
    std::fs::write(around.path().join("outside"), "untouched").unwrap();
    let inside = around.path().join("inside");
    std::fs::create_dir(&inside).unwrap();
    let server = Server::start(ServerConfig { grace: Duration::ZERO, ..ServerConfig::new(inside) }).await.unwrap();
    let honest = Clerk::connect(ClerkConfig::new(server.address())).await.unwrap();
    let root = honest.root(RootParams {}).await.unwrap().handle;
    let file = create(&honest, "file").await.handle;
    Served { around, server, honest, root, file }
}

impl Served {
    /// The server's reply to bytes that came in a lane.
    async fn told(&self, bytes: Vec<u8>) -> Reply {
        decode(one(Arc::downgrade(&self.server.shared), bytes).await).unwrap()
    }

    async fn refuses(&self, bytes: Vec<u8>, what: &str) {
        match self.told(bytes).await {
            Reply::Refused { status, what: why } => {
                assert_eq!(status, Status::Inval.number(), "{what}: {why}");
                assert!(!why.is_empty() && why.len() <= REFUSAL_BYTES_MAX, "{what}: {} bytes of words", why.len());
            }
            other => panic!("{what}: {other:?}"),
        }
    }

    /// Checks that the well-behaved clerk is served, and that nothing beside the folder was touched.
    async fn goes_on(&self) {
        let file = create(&self.honest, "honest").await.handle;
        write(&self.honest, &file, 0, b"served", Stable::Unstable).await.unwrap();
        assert_eq!(read(&self.honest, &file, 0, 10).await.unwrap().data.as_slice(), b"served");
        assert!(lookup(&self.honest, "honest").await.is_ok());
        assert_eq!(std::fs::read(self.around.path().join("outside")).unwrap(), b"untouched");
        assert_eq!(names_in(self.around.path()), BTreeSet::from(["inside".to_owned(), "outside".to_owned()]));
    }
}

fn names_in(folder: &Path) -> BTreeSet<String> {
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

/// A clerk whose lanes can be filled with arbitrary bytes.
struct Hand {
    _node: Node,
    client: Client,
    asking: Asking,
    requests: Imported,
    answers: Segment,
}

impl Hand {
    async fn of(server: &Server) -> Self {
        let node = Node::builder("hand").listen("127.0.0.1:0").join(At::new(server.address())).start().await.unwrap();
        let client = node.client();
        let owner = client.import("dfs/dfs.data").await.unwrap().owner().id;
        let answers = node.export("answers", answers_bytes(&LANES), Export::default()).unwrap();
        answers.allow(owner, Rights::READ.and(Rights::WRITE)).await.unwrap();
        let hello = Hello { clerk: node.id().0, answers: "hand/answers".to_owned() };
        let welcome: Welcome = client.call(SERVICE, "hello", &hello).await.unwrap();
        let requests = client.import(&welcome.requests).await.unwrap();
        let asking = Asking::new(requests.clone(), answers.clone(), LANES).unwrap();
        Self { _node: node, client, asking, requests, answers }
    }

    async fn ask(&self, bytes: &[u8]) -> Reply {
        decode(self.asking.ask(bytes, PATIENCE).await.unwrap()).unwrap()
    }

    /// Asks in both ways by which control can come.
    async fn ask_twice(&self, request: &Request) -> [Reply; 2] {
        [self.ask(&encode(request)).await, self.client.call(SERVICE, "perform", request).await.unwrap()]
    }

    /// Puts bytes into the last lane, as they are.
    async fn put(&self, bytes: Vec<u8>) {
        let wish = Wish { notify: true, ..Wish::default() };
        self.requests.write_as(LANES.at(LANES.count - 1), bytes, wish).await.unwrap();
    }

    /// The contents of its last answer lane.
    fn answered(&self, bytes: usize) -> Vec<u8> {
        let mut answer = vec![0; bytes];
        self.answers.read(LANES.at(LANES.count - 1), &mut answer).unwrap();
        answer
    }
}

fn named(dir: Option<&Handle>, name: &str) -> Vec<Request> {
    let (dir, name) = (dir.cloned(), name.to_owned());
    let some = Some(name.clone());
    let rename = |from: &str, to: &str| {
        let (from_name, to_name) = (from.to_owned(), to.to_owned());
        Request::Rename(RenameParams { from_dir: dir.clone(), from_name, to_dir: dir.clone(), to_name })
    };
    vec![
        Request::Lookup(LookupParams { dir: dir.clone(), name: some.clone(), path: None }),
        Request::Create(CreateParams { dir: dir.clone(), name: some.clone(), ..CreateParams::default() }),
        Request::Remove(RemoveParams { dir: dir.clone(), name: some.clone(), path: None }),
        Request::Mkdir(MkdirParams { dir: dir.clone(), name: some, ..MkdirParams::default() }),
        Request::Rmdir { dir: dir.clone(), name: name.clone() },
        rename(&name, "to"),
        rename("file", &name),
    ]
}

fn by_path(path: &str) -> Vec<Request> {
    let path = Some(path.to_owned());
    vec![
        Request::Lookup(LookupParams { path: path.clone(), ..LookupParams::default() }),
        Request::Create(CreateParams { path: path.clone(), ..CreateParams::default() }),
        Request::Remove(RemoveParams { path: path.clone(), ..RemoveParams::default() }),
        Request::Mkdir(MkdirParams { path, ..MkdirParams::default() }),
    ]
}

fn by_handle(handle: &Handle) -> Vec<Request> {
    let handle = handle.clone();
    let mut requests = vec![
        Request::Getattr(handle.clone()),
        Request::Readlink(handle.clone()),
        Request::List { dir: handle.clone(), from: 0 },
        Request::Read(ReadParams { handle: handle.clone(), offset: 0, count: 10 }),
        write_at(&handle, 0),
        Request::Setattr { handle: handle.clone(), change: Change { mode: Some(0o600), ..Change::default() } },
        Request::Commit(CommitParams { handle: handle.clone(), offset: 0, count: 0 }),
    ];
    requests.extend(named(Some(&handle), "file"));
    requests
}

fn write_at(handle: &Handle, offset: u64) -> Request {
    let data = ByteBuf::from(b"data");
    Request::Write(WriteParams { handle: handle.clone(), offset, data, stable: Stable::Unstable })
}

fn bytes_as_handle(bytes: impl Into<Vec<u8>>) -> Handle {
    Handle(ByteBuf::from(bytes))
}

/// One request of every kind, as clerks make them.
fn all_kinds(root: &Handle, file: &Handle) -> Vec<Request> {
    let mut requests = vec![Request::Null, Request::Root, Request::Statfs, Request::Find(ByteBuf::from([1; 24]))];
    requests.extend(by_handle(file));
    requests.extend(named(Some(root), "name"));
    requests.extend(by_path("dir/name"));
    requests
}

/// The encoding of a request with `those` bytes, which occur in it once, replaced by `these`.
fn replaced(request: &Request, those: &[u8], these: &[u8]) -> Vec<u8> {
    let bytes = encode(request);
    let at = bytes.windows(those.len()).position(|window| window == those).unwrap();
    [&bytes[..at], these, &bytes[at + those.len()..]].concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_that_are_no_request_are_refused_in_few_words() {
    let served = serve().await;
    let mut random = fastrand::Rng::with_seed(12);
    for _ in 0..2_000 {
        let bytes: Vec<u8> = (0..random.usize(..300)).map(|_| random.u8(..)).collect();
        served.refuses(bytes.clone(), &format!("{bytes:?}")).await;
    }
    for request in all_kinds(&served.root, &served.file) {
        let bytes = encode(&request);
        for length in 0..bytes.len() {
            served.refuses(bytes[..length].to_vec(), &format!("{length} bytes of {request:?}")).await;
        }
        served.refuses([&bytes[..], &[0xf6]].concat(), &format!("more than {request:?}")).await;
    }
    served.goes_on().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_lie_about_what_is_in_them_are_refused() {
    let served = serve().await;
    let find = Request::Find(ByteBuf::from([1; 24]));
    let [lookup, ..] = &named(None, "NAME")[..] else { panic!("no look-up") };
    let room = LANES.content_bytes();
    let text = |bytes: usize, of: u8| [&[0x7a][..], &(bytes as u32).to_be_bytes(), &vec![of; bytes]].concat();
    for (what, bytes) in [
        ("no bytes", vec![]),
        ("an identity of more bytes than came", replaced(&find, &[0x58, 24], &[0x5b, 0, 0, 0, 1, 0, 0, 0, 0])),
        ("one of more than there can be", replaced(&find, &[0x58, 24], &[[0x5b].as_slice(), &[0xff; 8]].concat())),
        ("as many items as there can be", vec![0xbb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        ("a name that is not UTF-8", replaced(lookup, b"NAME", &[0xff, 0xc0, 0x80, 0xfe])),
        ("a name that is half a character", replaced(lookup, b"NAME", b"\xe2\x82\xe2\x82")),
        ("bytes where a name belongs", replaced(lookup, b"\x64NAME", b"\x44NAME")),
        ("a number where a name belongs", replaced(lookup, b"\x64NAME", &[0x18, 7])),
        ("a field that there is not", replaced(lookup, b"\x64name", b"\x64none")),
        ("lists in lists in lists", vec![0x81; room]),
        ("an operation that there is not, as long as a lane", text(room - 5, b'x')),
        ("one that takes more bytes to show", text(room - 5, b'\n')),
    ] {
        served.refuses(bytes, what).await;
    }
    served.goes_on().await;
}

/// Whatever the corrupted request becomes, it is answered, and the server goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_with_any_byte_wrong_is_answered() {
    let served = serve().await;
    let mut random = fastrand::Rng::with_seed(12);
    let mut wrong = Vec::new();
    for request in all_kinds(&served.root, &served.file) {
        let bytes = encode(&request);
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= random.u8(1..);
            wrong.push(bytes);
        }
    }
    let mut answers = stream::iter(wrong).map(|bytes| served.told(bytes)).buffer_unordered(8);
    let mut refused = 0;
    while let Some(reply) = answers.next().await {
        refused += usize::from(matches!(reply, Reply::Refused { .. }));
    }
    assert!(refused > 100, "{refused}");
    drop(answers);
    served.goes_on().await;
}

/// Invalid requests, each with the status that its clerk gets.
fn wrong_requests(served: &Served) -> Vec<(Request, Status)> {
    let file = &served.file;
    let mut wrong = Vec::new();
    for name in ["", ".", "..", "a/b", "/", "../outside", "a\0b", "\0"] {
        wrong.extend(named(Some(&served.root), name).into_iter().map(|request| (request, Status::Inval)));
    }
    let too_long = "é".repeat(128);
    wrong.extend(named(None, &too_long).into_iter().map(|request| (request, Status::NameTooLong)));
    for path in ["", "..", "../outside", "file/../../outside", "/etc/passwd", "a//b", "./a", "a\0b"] {
        wrong.extend(by_path(path).into_iter().map(|request| (request, Status::Inval)));
    }
    wrong.extend(by_path(&too_long).into_iter().map(|request| (request, Status::NameTooLong)));
    let up = [&file.0[..25], b"../outside"].concat();
    let not_text = [&file.0[..25], &[0xff]].concat();
    for handle in [vec![], vec![0xc1; 24], file.0[..24].to_vec(), vec![0xff; 60], up, not_text, vec![0xc1; 2_000]] {
        let handle = bytes_as_handle(handle);
        wrong.extend(by_handle(&handle).into_iter().map(|request| (request, Status::BadHandle)));
    }
    // Handles of the right size that belong to no file.
    let stale = by_handle(&bytes_as_handle([0xc1; 25]));
    wrong.extend(stale.into_iter().map(|request| (request, Status::Stale)));
    for identity in [vec![], vec![1; 23], vec![1; 24], vec![1; 60_000]] {
        wrong.push((Request::Find(ByteBuf::from(identity)), Status::Stale));
    }
    let read = ReadParams { handle: file.clone(), offset: 0, count: READ_BYTES_MAX + 1 };
    let change = |change| Request::Setattr { handle: file.clone(), change };
    wrong.extend([
        (Request::Read(read), Status::Inval),
        (write_at(file, u64::MAX), Status::FBig),
        (change(Change { size: Some(u64::MAX), ..Change::default() }), Status::FBig),
        (change(Change { mode: Some(u32::MAX), ..Change::default() }), Status::Inval),
    ]);
    wrong
}

async fn refused(hand: &Hand, request: Request, wanted: Status) {
    for reply in hand.ask_twice(&request).await {
        let Reply::Refused { status, what } = reply else { panic!("{request:?}: {reply:?}") };
        assert_eq!(Status::from_number(status), Some(wanted), "{request:?}: {what}");
        assert!(!what.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_nobody_may_make_are_refused_by_lane_and_by_call_and_others_are_served() {
    let served = serve().await;
    let hand = Hand::of(&served.server).await;
    let asked = wrong_requests(&served).into_iter().map(|(request, wanted)| refused(&hand, request, wanted));
    stream::iter(asked).buffer_unordered(8).collect::<()>().await;
    assert_eq!(names_in(&served.around.path().join("inside")), BTreeSet::from(["file".to_owned()]));
    assert_eq!(served.server.clerks(), 2, "a clerk lost its lanes");
    served.goes_on().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_longest_names_and_the_last_bytes_are_within_bounds() {
    let served = serve().await;
    let hand = Hand::of(&served.server).await;
    for name in ["x".repeat(255), "é".repeat(127) + "x", "\u{1f980}".repeat(63), "\\\n\u{7f}*?".repeat(51)] {
        let [look, make, remove, ..] = &named(Some(&served.root), &name)[..] else { panic!("not enough") };
        for (request, there) in [(make, true), (look, true), (remove, false)] {
            let reply = hand.ask(&encode(request)).await;
            assert!(matches!(reply, Reply::Entry(_) | Reply::Done), "{request:?}: {reply:?}");
            assert_eq!(served.around.path().join("inside").join(&name).exists(), there);
        }
    }
    for (offset, count) in [(u64::MAX, 10), (u64::MAX, READ_BYTES_MAX), (i64::MAX as u64, 1), (0, READ_BYTES_MAX)] {
        let read = Request::Read(ReadParams { handle: served.file.clone(), offset, count });
        let nothing = Reply::Data { data: ByteBuf::new(), end: true };
        assert_eq!(hand.ask_twice(&read).await, [nothing.clone(), nothing], "{offset} {count}");
    }
    served.goes_on().await;
}

/// As if nothing had come: the next request in the same lane is executed, and the other lanes do not wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_that_are_not_whole_are_not_done_and_keep_no_lane() {
    let served = serve().await;
    let hand = Hand::of(&served.server).await;
    let [_, make, ..] = &named(None, "made")[..] else { panic!("not enough") };
    let whole = frame(7, &encode(make));
    let with_length = |length: u64| [&whole[..8], &length.to_le_bytes(), &whole[16..]].concat();
    let mut frames: Vec<Vec<u8>> = [0, 1, whole.len() as u64, LANES.content_bytes() as u64, 1 << 32, u64::MAX]
        .map(with_length)
        .into_iter()
        .chain([vec![0xff; FRAME_HEAD_BYTES], vec![0xff; LANES.bytes as usize], frame(0, &encode(make))])
        .collect();
    // Corrupts a byte of the number, of the check and of the request.
    for at in [0, 16, FRAME_HEAD_BYTES] {
        let mut frame = whole.clone();
        frame[at] ^= 1;
        frames.push(frame);
    }
    let asked = served.server.asked();
    for (done, frame) in (1..).zip(frames) {
        hand.put(frame.clone()).await;
        // Once this is answered, the server has looked at its lanes since the corrupt frame.
        assert_eq!(hand.ask(&encode(&Request::Null)).await, Reply::Done);
        assert_eq!(served.server.asked(), asked + done, "{:?} was done", &frame[..FRAME_HEAD_BYTES.min(frame.len())]);
    }
    assert!(lookup(&served.honest, "made").await.is_err());
    hand.put(frame(1, &encode(&Request::Null))).await;
    let answer = frame(1, &encode(&Reply::Done));
    let answered = tokio::time::timeout(PATIENCE, async {
        while hand.answered(answer.len()) != answer {
            hand.ask(&encode(&Request::Null)).await;
        }
    });
    assert!(answered.await.is_ok(), "the lane is not served any more");
    assert_eq!(served.server.clerks(), 2);
    served.goes_on().await;
}
