//! The nodes, each a process of its own.

use std::{collections::BTreeMap, net::TcpListener, path::PathBuf, process::Stdio, time::Duration};

use catena::{Client, Place};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use crate::{Failure, node};

/// How long a node may take to be there.
const START_MAX: Duration = Duration::from_secs(30);

pub(crate) struct Fleet {
    nodes: Vec<Member>,
    folder: PathBuf,
}

struct Member {
    address: String,
    effects: PathBuf,
    child: Child,
}

impl Fleet {
    pub(crate) async fn start(count: usize) -> Result<Self, Failure> {
        let folder = std::env::temp_dir().join(format!("catena-chaos-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        // Held until all are chosen, so that they differ.
        let probes = (0..count).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<Vec<_>, _>>()?;
        let addresses =
            probes.iter().map(|probe| Ok(probe.local_addr()?.to_string())).collect::<std::io::Result<Vec<_>>>()?;
        drop(probes);
        let mut nodes = Vec::new();
        for number in 0..count {
            let effects = folder.join(format!("{number}.effects"));
            let child = spawn(number, &addresses, &effects).await?;
            nodes.push(Member { address: addresses[number].clone(), effects, child });
        }
        Ok(Self { nodes, folder })
    }

    pub(crate) fn count(&self) -> usize {
        self.nodes.len()
    }

    /// A client of all of them, in this process: the origin of the chains.
    pub(crate) async fn client(&self) -> Result<Client, Failure> {
        let mut builder = Client::builder("origin").policy(node::policy());
        for member in &self.nodes {
            builder = builder.join(Place::new(&member.address));
        }
        Ok(builder.connect().await?)
    }

    pub(crate) fn signal(&self, number: usize, signal: Signal) -> Result<(), Failure> {
        let pid = self.nodes[number].child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        // A process that is gone cannot be signalled, which is as good.
        if let Some(pid) = pid {
            kill_process(pid, signal)?;
        }
        Ok(())
    }

    /// Ends a node as a power failure would, and starts it again.
    pub(crate) async fn kill_and_restart(&mut self, number: usize, down: Duration) -> Result<(), Failure> {
        self.signal(number, Signal::KILL)?;
        self.nodes[number].child.wait().await?;
        tokio::time::sleep(down).await;
        self.restart(number).await
    }

    async fn restart(&mut self, number: usize) -> Result<(), Failure> {
        let addresses: Vec<_> = self.nodes.iter().map(|member| member.address.clone()).collect();
        let effects = self.nodes[number].effects.clone();
        self.nodes[number].child = spawn(number, &addresses, &effects).await?;
        Ok(())
    }

    pub(crate) async fn restart_all(&mut self) -> Result<(), Failure> {
        for number in 0..self.nodes.len() {
            self.signal(number, Signal::CONT)?;
            if self.nodes[number].child.try_wait()?.is_some() {
                self.restart(number).await?;
            }
        }
        Ok(())
    }

    /// How often each effect of each chain took place.
    pub(crate) fn effects(&self) -> Result<BTreeMap<(usize, usize), usize>, Failure> {
        let mut effects = BTreeMap::new();
        for member in &self.nodes {
            for line in std::fs::read_to_string(&member.effects)?.lines() {
                let (chain, index) = line.split_once(' ').ok_or("an effect's line is broken")?;
                *effects.entry((chain.parse()?, index.parse()?)).or_default() += 1;
            }
        }
        Ok(effects)
    }

    pub(crate) async fn end(mut self) {
        for member in &mut self.nodes {
            let _ = member.child.kill().await;
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

async fn spawn(number: usize, addresses: &[String], effects: &PathBuf) -> Result<Child, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["node", "--number", &number.to_string(), "--listen", &addresses[number], "--effects"]).arg(effects);
    for (other, address) in addresses.iter().enumerate() {
        if other != number {
            command.args(["--join", address]);
        }
    }
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
    let out = child.stdout.take().ok_or("a node has no output")?;
    let mut line = String::new();
    let ready = BufReader::new(out);
    let mut ready = ready;
    tokio::time::timeout(START_MAX, ready.read_line(&mut line)).await??;
    if line.trim().is_empty() {
        return Err(format!("node {number} ended before it listened").into());
    }
    // Kept open for as long as the node lives: nobody writes to it any more.
    tokio::spawn(async move {
        let _ = tokio::io::copy(&mut ready, &mut tokio::io::sink()).await;
    });
    Ok(child)
}
