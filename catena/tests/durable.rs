//! Durable steps, with a node that is a process of its own and is killed (SIGKILL) while a chain is there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod common;
#[allow(dead_code, reason = "these tests need less of it")]
#[path = "processes/latency.rs"]
mod latency;
#[allow(dead_code, reason = "the process of these tests is another")]
#[path = "processes/process.rs"]
mod process;

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use catena::{Client, Context, Exception, Node, Place, Policy, RunOptions, Service, to_value};
use common::SANDBOX;
use latency::Quiet;
use serde_json::{Value as Json, json};

/// Where the process under test finds its folder; without it this program is the test.
const FOLDER: &str = "CATENA_TEST_DURABLE_FOLDER";
/// Where its chains stop for ever, so that it can be killed there.
const STALLS: &str = "CATENA_TEST_DURABLE_STALLS";
const ADDRESS: &str = "CATENA_TEST_DURABLE_ADDRESS";

/// Stops for ever at the place named, once it has said so.
async fn stall_at(place: &str) {
    if std::env::var(STALLS).as_deref() == Ok(place) {
        println!("\nat {place}");
        std::io::stdout().flush().unwrap();
        std::future::pending::<()>().await;
    }
}

/// The process that is killed: its effects are lines in a file. Runs as a test of this program that is over at once unless it was started to be that process.
#[tokio::test(flavor = "multi_thread")]
async fn process() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let file = folder.join("effects");
    let deposit = move |context: Context, amount: u32| {
        let file = file.clone();
        async move {
            stall_at("before").await;
            let mut effects = std::fs::OpenOptions::new().append(true).create(true).open(&file)?;
            writeln!(effects, "{amount} for {:?}", context.step)?;
            stall_at("after").await;
            Ok(amount)
        }
    };
    let bank = Service::new("bank")
        .function_in("deposit", deposit.clone())
        .function_in("deposit_again", deposit)
        .durable("deposit")
        .repeatable("deposit_again")
        .function("look", async |_: Json| {
            stall_at("later").await;
            Ok("seen")
        })
        .repeatable("look");
    // What a busy machine takes to start it again is no reason to have forgotten a step.
    let policy = Policy { step_record_ttl_us: 600_000_000, ..Policy::default() };
    let node = Node::builder("bank")
        .policy(policy)
        .listen(std::env::var(ADDRESS).unwrap())
        .cache_dir(folder.join("cache"))
        .step_store(folder.join("steps"))
        .service(bank);
    let _node = node.start().await.unwrap();
    println!("\nready");
    std::future::pending::<()>().await;
}

/// That process. Dropping it kills it.
struct Bank(Child, std::io::Lines<BufReader<std::process::ChildStdout>>);

impl Bank {
    fn start(folder: &Path, address: &str, stalls: &str) -> Self {
        // A write beyond a limit on the size of files is to fail, not to kill.
        let mut child = Command::new("sh")
            .args(["-c", r#"trap "" XFSZ; exec "$0" process --exact --nocapture"#])
            .arg(std::env::current_exe().unwrap())
            .envs([(FOLDER, folder.to_str().unwrap()), (ADDRESS, address), (STALLS, stalls)])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut bank = Self(child, lines);
        bank.says("ready");
        bank
    }

    /// Waits for a line.
    fn says(&mut self, what: &str) {
        assert!(self.1.any(|line| line.unwrap() == what), "the process ended before it said {what:?}");
    }

    /// Lets it write so many bytes to a file, or as many as it likes: a disk that is full, and then is not.
    fn may_write(&self, bytes: &str) {
        let (id, limit) = (self.0.id().to_string(), format!("--fsize={bytes}:unlimited"));
        assert!(Command::new("prlimit").args(["--pid", &id, &limit]).status().unwrap().success());
    }

    /// SIGKILL, and nothing of it is left.
    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Bank {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Where a bank listens that is to come back at its port: nobody else takes it meanwhile, since who dials comes from 127.0.0.1.
fn restarted() -> String {
    TcpListener::bind("127.0.0.2:0").unwrap().local_addr().unwrap().to_string()
}

/// Runs a chain that deposits, kills the bank's process at `stalls`, starts it again: how the chain ends, and the effects.
async fn killed_at(stalls: &'static str, function: &str) -> (Result<Json, Exception>, usize) {
    let dir = tempfile::tempdir().unwrap();
    let address = restarted();
    let (folder, there) = (dir.path().to_owned(), address.clone());
    let mut bank = tokio::task::spawn_blocking(move || Bank::start(&folder, &there, stalls)).await.unwrap();
    let policy = Policy {
        heartbeat_interval_us: 1_000_000,
        heartbeat_timeout_us: 4_000_000,
        accept_timeout_us: 1_000_000,
        ..Policy::default()
    };
    let origin = Node::builder("client").sandbox(SANDBOX.clone()).policy(policy).join(Place::new(&address));
    let origin = origin.start().await.unwrap();
    let client = origin.client();
    let source = r#"import { call } from "catena";
        export default async (name) => [await call(`bank/${name}`, 7), await call("bank/look", null)];"#;
    let code = client.javascript("deposit.js", source).await.unwrap();
    let options = RunOptions { timeout: Duration::from_secs(300), ..RunOptions::default() };
    let mut replies = client.run_with(&code, &to_value(function).unwrap(), &options).unwrap();
    let folder = dir.path().to_owned();
    let bank = tokio::task::spawn_blocking(move || {
        bank.says(&format!("at {stalls}"));
        bank
    });
    let bank = bank.await.unwrap();
    while origin.load().0 > 0 {
        tokio::task::yield_now().await; // until the hop is known to have been taken over: its loss then shows by silence alone
    }
    let again = move || {
        bank.kill();
        Bank::start(&folder, &address, "nowhere")
    };
    let _bank = tokio::task::spawn_blocking(again).await.unwrap();
    let result = replies.last().await.and_then(|value| catena::from_value(&value));
    let effects = std::fs::read_to_string(dir.path().join("effects")).unwrap_or_default();
    println!("killed at {stalls}, {function}: {result:?}; effects: {effects:?}");
    (result, effects.lines().count())
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_between_effect_and_answer_the_outcome_is_unknown() {
    let (result, effects) = killed_at("after", "deposit").await;
    let why = result.unwrap_err();
    assert!(why.unknown && why.message.contains("begun before"), "the store says so: {why}");
    assert_eq!(effects, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_between_intent_and_effect_the_outcome_is_unknown() {
    let (result, effects) = killed_at("before", "deposit").await;
    let why = result.unwrap_err();
    assert!(why.unknown && why.message.contains("begun before"), "the store says so: {why}");
    assert_eq!(effects, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_after_the_step_was_done_the_chain_goes_on_with_what_was_kept() {
    let (result, effects) = killed_at("later", "deposit").await;
    assert_eq!(result.unwrap(), json!([7, "seen"]));
    assert_eq!(effects, 1);
}

const DEPOSIT: &str = r#"import { call } from "catena"; export default (name) => call(`bank/${name}`, 7);"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_was_full_and_a_folder_that_was_deleted_stop_durable_functions_for_so_long_and_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    let address = restarted();
    let (folder, there) = (dir.path().to_owned(), address.clone());
    let bank = tokio::task::spawn_blocking(move || Bank::start(&folder, &there, "nowhere")).await.unwrap();
    let client = async |name: &str| {
        let builder = Client::builder(name).sandbox(SANDBOX.clone()).join(Place::new(&address));
        builder.connect().await.unwrap()
    };
    let (client, depositor) = (client("client").await, client("depositor").await);
    let code = client.javascript("deposit.js", DEPOSIT).await.unwrap();
    let run = async |function: &str| client.run(&code, function).await.unwrap().value::<Json>().await;
    let effects = || std::fs::read_to_string(dir.path().join("effects")).unwrap_or_default().lines().count();
    assert_eq!(run("deposit").await.unwrap(), json!(7));

    let look = async || assert_eq!(run("look").await.unwrap(), json!("seen"), "others go on");
    let quiet = Quiet::of(bank.0.id(), look).await;
    bank.may_write("0");
    let code_of_it = depositor.javascript("deposit.js", DEPOSIT).await.unwrap();
    let deposits = async move {
        for _ in 0..200 {
            let why = depositor.run(&code_of_it, "deposit").await.unwrap().value::<Json>().await.unwrap_err();
            assert!(!why.unknown && why.message.contains("step store cannot be used"), "{why}");
        }
    };
    quiet.beside("a step store whose disk is full", deposits, look).await;
    assert_eq!(effects(), 1, "nothing was done");
    bank.may_write("unlimited");
    let mended = async {
        while let Err(why) = run("deposit").await {
            assert!(!why.unknown && why.message.contains("step store cannot be used"), "{why}");
        }
    };
    tokio::time::timeout(Duration::from_secs(120), mended).await.expect("it is used again");
    assert_eq!(effects(), 2, "by itself");

    std::fs::remove_dir_all(dir.path()).unwrap();
    for _ in 0..3 {
        assert_eq!(run("deposit").await.unwrap(), json!(7));
    }
    assert!(dir.path().join("steps").exists());
    assert_eq!(effects(), 3, "of the new folder");
}

/// Without the store the same program does its effect twice: the tests above could fail.
#[tokio::test(flavor = "multi_thread")]
async fn without_the_store_a_repeatable_function_runs_twice() {
    let (result, effects) = killed_at("later", "deposit_again").await;
    assert_eq!(result.unwrap(), json!([7, "seen"]));
    assert_eq!(effects, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_durable_function_needs_a_place_for_its_steps() {
    let bank = Service::new("bank").function("deposit", async |amount: u32| Ok(amount)).durable("deposit");
    let why = Node::builder("bank").service(bank.clone()).start().await.err().unwrap();
    assert!(why.to_string().contains("bank/deposit") && why.to_string().contains("step_store"), "{why}");
    let dir = tempfile::tempdir().unwrap();
    let why = Node::builder("bank").service(bank).step_store(dir.path()).start().await.err().unwrap();
    assert!(why.to_string().contains(&dir.path().display().to_string()), "{why}");
}

#[tokio::test]
async fn what_is_declared_of_no_function_or_given_twice_is_an_error_at_start() {
    let bank = || Service::new("bank").function("deposit", async |amount: u32| Ok(amount));
    for (service, words) in [
        (bank().durable("depositt"), ["bank/depositt", "durable", "bank has: deposit"]),
        (bank().repeatable("depositt"), ["bank/depositt", "repeatable", "bank has: deposit"]),
        (bank().function("deposit", async |amount: u32| Ok(amount)), ["bank/deposit", "twice", "different names"]),
    ] {
        let why = Node::builder("bank").service(service).start().await.err().unwrap().to_string();
        assert!(words.iter().all(|word| why.contains(word)), "{why}");
    }
}
