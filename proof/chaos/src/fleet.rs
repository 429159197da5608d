//! The nodes, each a process of its own.

use std::{net::TcpListener, path::PathBuf, process::Stdio, time::Duration};

use catena::{Client, Place};
use clap::ValueEnum;
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use crate::{
    Failure,
    flaw::Flaw,
    ledger::{self, Effects},
    node,
};

/// How long a node may take to be there.
const START_MAX: Duration = Duration::from_secs(30);

pub(crate) struct Fleet {
    nodes: Vec<Child>,
    site: Site,
}

/// What all nodes have in common, whichever of them run.
struct Site {
    addresses: Vec<String>,
    folder: PathBuf,
    flaw: Option<Flaw>,
}

impl Fleet {
    pub(crate) async fn start(count: usize, flaw: Option<Flaw>) -> Result<Self, Failure> {
        let folder = std::env::temp_dir().join(format!("catena-chaos-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let site = Site { addresses: free_addresses(count)?, folder, flaw };
        let mut nodes = Vec::new();
        for number in 0..count {
            nodes.push(site.spawn(number).await?);
        }
        Ok(Self { nodes, site })
    }

    pub(crate) fn count(&self) -> usize {
        self.nodes.len()
    }

    /// A client of all of them, in this process: the origin of the chains.
    pub(crate) async fn client(&self) -> Result<Client, Failure> {
        let mut builder =
            Client::builder("origin").policy(node::policy()).cache_dir(node::cache_dir(&self.site.folder));
        for address in &self.site.addresses {
            builder = builder.join(Place::new(address));
        }
        Ok(builder.connect().await?)
    }

    pub(crate) fn signal(&self, number: usize, signal: Signal) -> Result<(), Failure> {
        let pid = self.nodes[number].id().and_then(|id| Pid::from_raw(id.cast_signed()));
        // A process that is gone cannot be signalled, which is as good.
        if let Some(pid) = pid {
            kill_process(pid, signal)?;
        }
        Ok(())
    }

    /// Ends nodes as a power failure would, and starts them again.
    pub(crate) async fn kill_and_restart(&mut self, numbers: &[usize], down: Duration) -> Result<(), Failure> {
        for number in numbers {
            self.signal(*number, Signal::KILL)?;
        }
        for number in numbers {
            self.nodes[*number].wait().await?;
        }
        tokio::time::sleep(down).await;
        for number in numbers {
            self.nodes[*number] = self.site.spawn(*number).await?;
        }
        Ok(())
    }

    pub(crate) async fn restart_all(&mut self) -> Result<(), Failure> {
        for number in 0..self.nodes.len() {
            self.signal(number, Signal::CONT)?;
            if self.nodes[number].try_wait()?.is_some() {
                self.nodes[number] = self.site.spawn(number).await?;
            }
        }
        Ok(())
    }

    pub(crate) fn effects(&self) -> Result<Effects, Failure> {
        ledger::read((0..self.count()).map(|number| self.site.folder.join(node::ledger_name(number))))
    }

    pub(crate) async fn end(mut self) {
        for node in &mut self.nodes {
            let _ = node.kill().await;
        }
        let _ = std::fs::remove_dir_all(&self.site.folder);
    }
}

/// All held until the last is chosen, so that they differ.
fn free_addresses(count: usize) -> Result<Vec<String>, Failure> {
    let probes = (0..count).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<Vec<_>, _>>()?;
    Ok(probes.iter().map(|probe| Ok(probe.local_addr()?.to_string())).collect::<std::io::Result<_>>()?)
}

impl Site {
    async fn spawn(&self, number: usize) -> Result<Child, Failure> {
        let mut child =
            self.command(number)?.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let mut out = BufReader::new(child.stdout.take().ok_or("a node has no output")?);
        let mut line = String::new();
        tokio::time::timeout(START_MAX, out.read_line(&mut line)).await??;
        if line.trim().is_empty() {
            return Err(format!("node {number} ended before it listened").into());
        }
        // Kept open for as long as the node lives: nobody writes to it any more.
        tokio::spawn(async move {
            let _ = tokio::io::copy(&mut out, &mut tokio::io::sink()).await;
        });
        Ok(child)
    }

    fn command(&self, number: usize) -> Result<Command, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["node", "--number", &number.to_string(), "--listen", &self.addresses[number], "--folder"]);
        command.arg(&self.folder);
        for (_, address) in self.addresses.iter().enumerate().filter(|(other, _)| *other != number) {
            command.args(["--join", address]);
        }
        if let Some(flaw) = self.flaw.and_then(|flaw| flaw.to_possible_value()) {
            command.args(["--flaw", flaw.get_name()]);
        }
        Ok(command)
    }
}
