//! The workers, each a process of its own, started by this program.

use std::{path::Path, process::Stdio, sync::Arc, time::Duration};

use catena::{Client, Node, Place, StartError, Topology};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, ChildStdout, Command},
    time::timeout,
};

use crate::worker::{Settings, name, service};

/// How long a worker may take until it is ready, and how long until all workers know each other.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// How often to ask whether they do.
const ASK_EVERY: Duration = Duration::from_millis(20);
/// What a worker's first line begins with; its address follows.
const READY: &str = "worker ready: ";

/// Why the workers do not run.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The program cannot be started.
    #[error("{program}: {why}")]
    Program {
        /// Its file.
        program: String,
        /// Why.
        why: std::io::Error,
    },
    /// A node or client.
    #[error(transparent)]
    Node(#[from] StartError),
    /// It ended, or says nothing.
    #[error("worker {0} does not get ready")]
    NotReady(u32),
    /// They do not find each other.
    #[error("the workers do not find each other within {} s", READY_TIMEOUT.as_secs())]
    Apart,
}

/// Worker processes. Dropping it ends them.
pub struct Fleet {
    processes: Vec<Child>,
    client: Client,
}

impl Fleet {
    /// Starts a worker process for each entry of `slow_ms`: by how many milliseconds to slow down each block; `program` is the `mapreduce` command.
    ///
    /// # Errors
    /// One of them does not get ready.
    pub async fn start(program: &Path, slow_ms: &[u64], topology: Option<Arc<Topology>>) -> Result<Self, Failure> {
        let (mut processes, mut addresses) = (Vec::new(), Vec::<String>::new());
        for (number, slow) in (0..).zip(slow_ms) {
            let mut command = Command::new(program);
            command.arg("worker").arg(number.to_string()).arg(slow.to_string()).args(&addresses);
            // The worker's input ends with this process, however this process ends; then the worker ends, too.
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
            let failed = |why| Failure::Program { program: program.display().to_string(), why };
            let mut process = command.spawn().map_err(failed)?;
            let output = process.stdout.take().ok_or(Failure::NotReady(number))?;
            let address =
                timeout(READY_TIMEOUT, address(output)).await.ok().flatten().ok_or(Failure::NotReady(number))?;
            processes.push(process);
            addresses.push(address);
        }
        let builder = Client::builder("mapreduce").site("client");
        let builder = addresses.iter().enumerate().fold(builder, |builder, (number, address)| {
            builder.join(Place { address: address.clone(), site: Some(site(number)) })
        });
        let builder = match topology {
            Some(topology) => builder.topology(topology),
            None => builder,
        };
        let fleet = Self { client: builder.connect().await?, processes };
        fleet.meet().await?;
        Ok(fleet)
    }

    async fn meet(&self) -> Result<(), Failure> {
        let met = async {
            while !(0..self.workers())
                .all(|worker| self.client.known_services().iter().any(|known| known.service == name(worker)))
            {
                tokio::time::sleep(ASK_EVERY).await;
            }
        };
        timeout(READY_TIMEOUT, met).await.map_err(|_| Failure::Apart)
    }

    /// A client that is linked with all of them.
    #[must_use]
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// How many there are.
    #[must_use]
    pub fn workers(&self) -> u32 {
        u32::try_from(self.processes.len()).unwrap_or(0)
    }

    /// The process number of a worker, while it runs.
    #[must_use]
    pub fn process(&self, worker: usize) -> Option<u32> {
        self.processes.get(worker)?.id()
    }

    /// Kills a worker, and waits until it is gone.
    ///
    /// # Errors
    /// It cannot be waited for.
    pub async fn kill(&mut self, worker: usize) -> std::io::Result<()> {
        match self.processes.get_mut(worker) {
            Some(process) => process.kill().await,
            None => Ok(()),
        }
    }
}

/// What a worker process does: it serves until its input ends.
///
/// # Errors
/// The node does not start.
#[allow(clippy::print_stdout, reason = "its first line tells the program that started it where it listens")]
pub async fn serve(settings: Settings, others: &[String]) -> Result<(), Failure> {
    let builder = Node::builder(name(settings.number)).site(site(settings.number as usize)).listen("127.0.0.1:0");
    let builder = others.iter().enumerate().fold(builder, |builder, (number, address)| {
        builder.join(Place { address: address.clone(), site: Some(site(number)) })
    });
    let node = builder.service(service(settings)).start().await?;
    println!("{READY}{}", node.address().unwrap_or_default());
    // Nothing is ever written to it: it ends when the program that started this one has ended.
    let input = tokio::task::spawn_blocking(|| std::io::Read::read(&mut std::io::stdin(), &mut [0]));
    let _ = input.await;
    Ok(())
}

fn site(worker: usize) -> String {
    format!("worker{worker}")
}

async fn address(output: ChildStdout) -> Option<String> {
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if let Some(address) = line.strip_prefix(READY) {
            return Some(address.to_owned());
        }
    }
    None
}
