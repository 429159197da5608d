//! Nodes of the example `node`, each a process of its own, and their client.

use std::{collections::BTreeMap, path::PathBuf, sync::LazyLock};

use catena::{
    Client, Exception, NodeBuilder, Place, RunOptions, Sandbox, SandboxConfig, exceptions, from_value, to_value,
};
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use tokio::time::timeout;

use crate::{
    node::beating,
    process::{PATIENCE, Process},
};

/// Compiled modules, for all processes and from one run of the tests to the next.
const CACHE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/compiled");
/// How often there are signs of life here: a chain that fell silent ends after some seconds.
pub(crate) const BEAT_MS: u64 = 400;
/// The same where nodes are kept busy: half a minute is no reason to give one up.
pub(crate) const PATIENT_BEAT_MS: u64 = 8_000;

pub(crate) static SANDBOX: LazyLock<Sandbox> = LazyLock::new(|| {
    let config = SandboxConfig { cache_dir: Some(CACHE.into()), ..SandboxConfig::default() };
    Sandbox::new(config).expect("a sandbox")
});

/// The nodes of one test, by name.
#[derive(Default)]
pub(crate) struct Nodes {
    processes: BTreeMap<String, Process>,
    addresses: BTreeMap<String, String>,
}

impl Nodes {
    /// Each of them knows all that were started before it.
    pub(crate) async fn start(names: &[&str]) -> Self {
        let mut nodes = Self::default();
        for name in names {
            nodes.add(name, &[]).await;
        }
        nodes
    }

    /// The same, and with a client of all of them: for what keeps a node busy, and is no reason to give it up.
    pub(crate) async fn patient(names: &[&str]) -> (Self, Client) {
        let each: Vec<(&str, &[&str])> = names.iter().map(|name| (*name, [].as_slice())).collect();
        Self::patient_with(&each).await
    }

    /// These, each with its arguments besides.
    pub(crate) async fn patient_with(each: &[(&str, &[&str])]) -> (Self, Client) {
        let mut nodes = Self::default();
        let beat = PATIENT_BEAT_MS.to_string();
        for (name, more) in each {
            nodes.add(name, &[&["--beat-ms", &beat], *more].concat()).await;
        }
        let client = nodes.patient_client().await;
        (nodes, client)
    }

    /// A client of all nodes that gives none of them up for half a minute.
    pub(crate) async fn patient_client(&self) -> Client {
        self.joined(builder("client").policy(beating(PATIENT_BEAT_MS))).await
    }

    /// One more, with these arguments besides.
    pub(crate) async fn add(&mut self, name: &str, more: &[&str]) {
        self.add_in([], name, more).await;
    }

    /// The same, with this in the environment of its process.
    pub(crate) async fn add_in<const N: usize>(
        &mut self,
        environment: [(&str, PathBuf); N],
        name: &str,
        more: &[&str],
    ) {
        let beat = BEAT_MS.to_string();
        let mut arguments =
            vec!["--name", name, "--listen", "127.0.0.1:0", "--cache", CACHE, "--beat-ms", beat.as_str()];
        for address in self.addresses.values() {
            arguments.extend(["--join", address]);
        }
        arguments.extend(more);
        let mut process = Process::start(environment, &arguments);
        let address = process.says("ready ").await;
        self.addresses.insert(name.to_owned(), address);
        self.processes.insert(name.to_owned(), process);
    }

    /// Somebody who is no process of this kind, and whom nodes started from now on join as well.
    pub(crate) fn introduce(&mut self, name: &str, address: String) {
        self.addresses.insert(name.to_owned(), address);
    }

    pub(crate) fn place(&self, name: &str) -> Place {
        Place::new(&self.addresses[name])
    }

    /// A client that joined all of them.
    pub(crate) async fn client(&self) -> Client {
        self.joined(builder("client")).await
    }

    async fn joined(&self, client: NodeBuilder) -> Client {
        self.addresses.keys().fold(client, |builder, name| builder.join(self.place(name))).connect().await.unwrap()
    }

    pub(crate) fn process(&mut self, name: &str) -> &mut Process {
        self.processes.get_mut(name).expect("a node that runs")
    }

    /// The number of its process.
    pub(crate) fn id(&self, name: &str) -> u32 {
        self.processes[name].id()
    }

    /// The node that first has this in a line. What they said before is passed over.
    pub(crate) async fn first_to_say(&mut self, what: &str) -> String {
        let all = self.processes.iter_mut().map(|(name, process)| {
            Box::pin(async move {
                process.says(what).await;
                name.clone()
            })
        });
        futures_util::future::select_all(all).await.0
    }

    /// SIGKILL.
    pub(crate) async fn kill(&mut self, name: &str) {
        self.addresses.remove(name);
        self.processes.remove(name).expect("a node that runs").kill().await;
    }
}

/// A client of this name, as impatient as the nodes are.
pub(crate) fn builder(name: &str) -> NodeBuilder {
    Client::builder(name).sandbox(SANDBOX.clone()).policy(beating(BEAT_MS))
}

/// How a chain ended, and where it was.
pub(crate) struct Ended {
    pub(crate) result: Result<Json, Exception>,
    pub(crate) emitted: Vec<Json>,
    pub(crate) path: Vec<String>,
    pub(crate) trace: Vec<catena::StepTrace>,
}

impl Ended {
    #[track_caller]
    pub(crate) fn value(&self) -> &Json {
        self.result.as_ref().unwrap_or_else(|why| panic!("{why}"))
    }

    #[track_caller]
    pub(crate) fn why(&self) -> &Exception {
        self.result.as_ref().unwrap_err()
    }
}

/// A chain that is under way: it is waited for in a task, so that a test can do something meanwhile.
pub(crate) fn begin(client: &Client, source: &str, input: Json) -> tokio::task::JoinHandle<Ended> {
    begin_with(client, source, input, RunOptions::default())
}

pub(crate) fn begin_with(
    client: &Client,
    source: &str,
    input: Json,
    options: RunOptions,
) -> tokio::task::JoinHandle<Ended> {
    let (client, source) = (client.clone(), source.to_owned());
    tokio::spawn(async move {
        let code = client.javascript("test.js", &source).await.expect("the function loads");
        let options = RunOptions { profile: true, ..options };
        let mut replies = client.run_with(&code, &to_value(&input).unwrap(), &options).unwrap();
        let mut emitted = Vec::new();
        let result = loop {
            match timeout(PATIENCE, replies.next()).await.expect("an end").expect("one end") {
                Ok(catena::Reply::Partial(value)) => emitted.push(from_value(&value).unwrap()),
                Ok(catena::Reply::Last(value)) => break from_value(&value),
                Err(why) => break Err(why),
            }
        };
        Ended { result, emitted, path: replies.path().to_vec(), trace: replies.trace().to_vec() }
    })
}

/// Runs a chain to its end.
pub(crate) async fn run(client: &Client, source: &str, input: Json) -> Ended {
    begin(client, source, input).await.unwrap()
}

/// Asks one desk something by a plain call.
pub(crate) async fn ask<R: DeserializeOwned>(client: &Client, desk: &str, function: &str, params: Json) -> R {
    client.call(desk, function, &params).await.unwrap()
}

/// Asks a desk that was killed until the client knows that it is gone. What is sent while its link still stands may
/// have been done, and is told as lost.
pub(crate) async fn until_unreachable(client: &Client, desk: &str) {
    let unreachable = async {
        loop {
            let why = client.call::<_, String>(desk, "where", &Json::Null).await.expect_err("it was killed");
            match why.name.as_str() {
                exceptions::NODE_UNREACHABLE => return,
                exceptions::NODE_LOST => {}
                _ => panic!("{why}"),
            }
        }
    };
    timeout(PATIENCE, unreachable).await.expect("a link to a node that was killed stands");
}
