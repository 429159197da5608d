//! The nodes, each a process of its own behind a front of its own.

use std::{path::PathBuf, process::Stdio, sync::Arc, time::Duration};

use catena::{Client, Place};
use clap::ValueEnum;
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    sync::{Mutex, OwnedMutexGuard},
};

use crate::{
    Failure,
    bug::Bug,
    flaw::Flaw,
    front::Front,
    ledger::{self, Effects},
    node,
};

/// How long a node may take to be there.
const START_MAX: Duration = Duration::from_secs(60);
/// How long a node that was asked to end may take to do so.
const END_MAX: Duration = Duration::from_secs(5);

/// Of the first node.
const PORT_MIN: usize = 7_400;

/// The mistakes that all nodes make.
#[derive(Clone, Copy, Default)]
pub(crate) struct Mistakes {
    pub(crate) flaw: Option<Flaw>,
    pub(crate) bug: Option<Bug>,
}

pub(crate) struct Fleet {
    /// Locked by whatever is being done to it.
    nodes: Vec<Arc<Mutex<Child>>>,
    pub(crate) fronts: Vec<Front>,
    site: Site,
}

/// What all nodes have in common, whichever of them run.
struct Site {
    /// Addresses at which the nodes listen, behind their fronts.
    listen: Vec<String>,
    /// Addresses of their fronts.
    reached: Vec<String>,
    folder: PathBuf,
    mistakes: Mistakes,
}

impl Fleet {
    pub(crate) async fn start(count: usize, seed: u64, mistakes: Mistakes) -> Result<Self, Failure> {
        let folder = std::env::temp_dir().join(format!("catena-chaos-{}-{seed}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let listen: Vec<_> = (0..count).map(address).collect();
        let mut fronts = Vec::new();
        for address in &listen {
            fronts.push(Front::of(address.clone()).await?);
        }
        let reached = fronts.iter().map(|front| front.address.clone()).collect();
        let site = Site { listen, reached, folder, mistakes };
        let mut nodes = Vec::new();
        for number in 0..count {
            nodes.push(Arc::new(Mutex::new(site.spawn(number, false).await?)));
        }
        Ok(Self { nodes, fronts, site })
    }

    pub(crate) fn count(&self) -> usize {
        self.nodes.len()
    }

    /// A client of all of them, in this process: the origin of the chains.
    pub(crate) async fn client(&self) -> Result<Client, Failure> {
        let policy = node::policy(self.site.mistakes.bug);
        let mut builder = Client::builder("origin").policy(policy).cache_dir(node::cache_dir(&self.site.folder));
        for address in &self.site.reached {
            builder = builder.join(Place::new(address));
        }
        Ok(builder.connect().await?)
    }

    /// The node, unless something is being done to it.
    pub(crate) fn take(&self, number: usize) -> Option<OwnedMutexGuard<Child>> {
        Arc::clone(&self.nodes[number]).try_lock_owned().ok()
    }

    /// Starts it again, after it has ended.
    pub(crate) async fn revive(&self, number: usize, node: &mut Child) -> Result<(), Failure> {
        *node = self.site.spawn(number, false).await?;
        Ok(())
    }

    /// A second node of the same name, with the same services.
    pub(crate) async fn twin(&self, number: usize) -> Result<Child, Failure> {
        self.site.spawn(number, true).await
    }

    pub(crate) async fn revive_all(&self) -> Result<(), Failure> {
        for (number, node) in self.nodes.iter().enumerate() {
            self.fronts[number].set(crate::front::Weather::Fair);
            let mut node = node.lock().await;
            signal(&node, Signal::CONT)?;
            if node.try_wait()?.is_some() {
                self.revive(number, &mut node).await?;
            }
        }
        Ok(())
    }

    pub(crate) fn effects(&self) -> Result<Effects, Failure> {
        let file = |(number, twin)| (number, twin, self.site.folder.join(node::ledger_name(number, twin)));
        ledger::read((0..self.count()).flat_map(|number| [(number, false), (number, true)]).map(file))
    }

    pub(crate) async fn end(self) {
        for node in &self.nodes {
            let _ = node.lock().await.kill().await;
        }
        let _ = std::fs::remove_dir_all(&self.site.folder);
    }
}

pub(crate) fn signal(node: &Child, signal: Signal) -> Result<(), Failure> {
    // A process that is gone cannot be signalled, which is as good.
    if let Some(pid) = node.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
        kill_process(pid, signal)?;
    }
    Ok(())
}

/// Lets a node end in order: at the end of its input.
pub(crate) async fn ask_to_end(node: &mut Child) -> Result<(), Failure> {
    drop(node.stdin.take());
    if tokio::time::timeout(END_MAX, node.wait()).await.is_err() {
        node.kill().await?;
    }
    Ok(())
}

/// On a loopback address of this process alone: nobody else takes a node's port while it is down.
fn address(slot: usize) -> String {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    format!("127.{}.{middle}.{low}:{}", 64 | (high & 63), PORT_MIN + slot)
}

impl Site {
    async fn spawn(&self, number: usize, twin: bool) -> Result<Child, Failure> {
        let mut child =
            self.command(number, twin)?.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let mut out = BufReader::new(child.stdout.take().ok_or("a node has no output")?);
        let mut line = String::new();
        tokio::time::timeout(START_MAX, out.read_line(&mut line)).await??;
        if line.trim().is_empty() {
            return Err(format!("node {number} ended before it listened").into());
        }
        // Drained for as long as the node lives, so that its writes never fail.
        tokio::spawn(async move {
            let _ = tokio::io::copy(&mut out, &mut tokio::io::sink()).await;
        });
        Ok(child)
    }

    fn command(&self, number: usize, twin: bool) -> Result<Command, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["node", "--number", &number.to_string(), "--folder"]).arg(&self.folder);
        // A twin has no front: it is there for a short while only.
        let (listen, reached) = if twin {
            command.arg("--twin");
            let address = address(self.listen.len() + number);
            (address.clone(), address)
        } else {
            (self.listen[number].clone(), self.reached[number].clone())
        };
        command.args(["--listen", &listen, "--advertise", &reached]);
        for (_, address) in self.reached.iter().enumerate().filter(|(other, _)| *other != number) {
            command.args(["--join", address]);
        }
        let Mistakes { flaw, bug } = self.mistakes;
        if let Some(flaw) = flaw.and_then(|flaw| flaw.to_possible_value()) {
            command.args(["--flaw", flaw.get_name()]);
        }
        if let Some(bug) = bug {
            command.args(["--bug", &bug.to_string()]);
        }
        Ok(command)
    }
}
