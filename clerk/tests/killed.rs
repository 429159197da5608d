//! A clerk that is a process of its own, and is killed while it holds a token and writes what the token is for: over TCP and in shared memory.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use std::{process::Stdio, time::Duration};

use catena::{Export, Imported, Node, Place, Rights};
use catena_clerk::{FarTokens, Tokens, Wanted};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::timeout,
};

/// The server's address, for a process that is to be the holder; without it this program is the test.
const SERVER: &str = "CATENA_TOKEN_SERVER";
/// The numbers of the clerks.
const HOLDER: u16 = 7;
const OTHER: u16 = 8;
/// Beats for which a token is taken.
const LASTS: u64 = 10;
/// Words of what the token is for.
const WORDS: usize = 1_000;
/// How long anything may take here.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a holder has to give its token back.
const SHORT: Duration = Duration::from_millis(20);

async fn beside(name: &str, server: &str) -> Node {
    Node::builder(name).listen("127.0.0.1:0").join(Place::new(server)).start().await.unwrap()
}

async fn tokens_of(clerk: &Node, me: u16) -> FarTokens {
    FarTokens::new(clerk.client().import("server/tokens").await.unwrap(), me)
}

/// Fills what the token is for with one number, and returns when that is done.
async fn fill(file: &Imported, number: u64) {
    file.write(0, number.to_ne_bytes().repeat(WORDS)).await.unwrap();
    file.flush().await.unwrap();
}

async fn numbers(file: &Imported) -> Vec<u64> {
    let bytes = file.read(0, 8 * WORDS as u64).await.unwrap();
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect()
}

/// The clerk that is killed: it takes the token, does not listen, and writes one number after the other. Run as a test it is over at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holder() {
    let Ok(server) = std::env::var(SERVER) else { return };
    let clerk = beside("holder", &server).await;
    let file = clerk.client().import("server/file").await.unwrap();
    let _wanted = Wanted::export(&clerk, "wanted", 1, file.owner().id).await.unwrap();
    let held = tokens_of(&clerk, HOLDER).await.try_take(0, LASTS).await.unwrap().expect("it is free");
    println!("held until {}", held.until());
    // Without the test there is nobody to write for, and nothing to print to: either ends it.
    for number in 1_u64.. {
        fill(&file, number).await;
        println!("written {number}");
    }
}

struct Holder {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Holder {
    fn start(server: &Node) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["holder", "--exact", "--nocapture"]).env(SERVER, server.address().unwrap());
        let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The number in the next line that says this; `None`: it has ended.
    async fn says(&mut self, what: &str) -> Option<u64> {
        let said = async {
            while let Some(line) = self.lines.next_line().await.unwrap() {
                if let Some((_, number)) = line.split_once(what) {
                    return Some(number.parse().unwrap());
                }
            }
            None
        };
        timeout(PATIENCE, said).await.unwrap_or_else(|_| panic!("it did not say {what:?}"))
    }

    /// Kills it in the midst of its writing, as SIGKILL does; gives the last number that it knew to be written.
    async fn killed(mut self) -> u64 {
        let mut last = 0;
        while last < 20 {
            last = self.says("written ").await.expect("it goes on");
        }
        self.child.kill().await.unwrap();
        while let Some(number) = self.says("written ").await {
            last = number;
        }
        last
    }
}

/// How a token comes free whose holder is dead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Freed {
    ByTime,
    ByAsking,
}

async fn another_goes_on(shared_memory: bool, freed: Freed) {
    let builder = Node::builder("server").listen("127.0.0.1:0");
    let builder = if shared_memory { builder } else { builder.without_shared_memory() };
    let server = builder.start().await.unwrap();
    let tokens = Tokens::export(&server, "tokens", 1).unwrap();
    let anyone = Rights::READ.and(Rights::WRITE);
    let _file = server.export("file", 8 * WORDS as u64, Export { anyone, ..Export::default() }).unwrap();
    let mut holder = Holder::start(&server);
    let until = holder.says("held until ").await.expect("it holds the token");
    let wanted = server.client().import("holder/wanted").await.unwrap();
    let last = holder.killed().await;
    if !shared_memory {
        // What it had sent is done when this fails: its link has been read to its end.
        timeout(PATIENCE, wanted.read(0, 8)).await.expect("its link is gone").unwrap_err();
    }

    let other = beside("other", server.address().unwrap()).await;
    let far = tokens_of(&other, OTHER).await;
    assert_eq!(far.try_take(0, LASTS).await.unwrap(), None, "its time is not over");
    match freed {
        Freed::ByTime => (0..=LASTS).for_each(|_| tokens.beat(LASTS).unwrap()),
        Freed::ByAsking => assert_eq!(tokens.ask_back(0, &wanted, SHORT).await.unwrap(), Some(HOLDER)),
    }
    let taken = far.try_take(0, LASTS).await.unwrap().expect("its holder is dead");
    assert_eq!(taken.until() > until, freed == Freed::ByTime, "late writes can be told from those of the holder");
    let file = other.client().import("server/file").await.unwrap();
    for number in numbers(&file).await {
        assert!((last..=last + 1).contains(&number), "{number} after {last} was written");
    }
    fill(&file, u64::MAX).await;
    assert_eq!(numbers(&file).await, [u64::MAX; WORDS]);
    assert!(far.release(taken).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_whose_holder_s_process_is_killed_is_another_s_and_what_it_wrote_is_there() {
    for shared_memory in [false, true] {
        for freed in [Freed::ByTime, Freed::ByAsking] {
            another_goes_on(shared_memory, freed).await;
        }
    }
}
