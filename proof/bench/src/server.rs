//! Servers, each in a process of its own: in one process they would share an address space, and in one runtime even a
//! thread, which no two servers ever do.

use std::process::Stdio;

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::Mutex,
};

use crate::{Failure, cpu, grpc, mesh, moving, ring, segments};

/// A server that runs until this is dropped.
pub(crate) struct Server {
    /// Where it listens; a server of several nodes says all, with a space between.
    pub(crate) address: String,
    talk: Mutex<(ChildStdin, Lines<BufReader<ChildStdout>>)>,
    child: Child,
}

impl Server {
    /// Starts this program again as a server: `kind` as in [`serve`].
    pub(crate) async fn start(kind: &[&str]) -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("serve").args(kind).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let out = child.stdout.take().ok_or("a server has no output")?;
        let mut lines = BufReader::new(out).lines();
        let address = lines.next_line().await?.ok_or("a server ended before it listened")?;
        let to = child.stdin.take().ok_or("a server has no input")?;
        Ok(Self { address, talk: Mutex::new((to, lines)), child })
    }

    /// Its process.
    pub(crate) fn process(&self) -> Option<u32> {
        self.child.id()
    }

    /// Ends it, and returns when its ports are free.
    pub(crate) async fn end(mut self) -> Result<(), Failure> {
        Ok(self.child.kill().await?)
    }

    /// Processor time that it has taken, in seconds, as it says itself: exact, where the kernel tells others in ticks.
    pub(crate) async fn cpu_s(&self) -> Result<f64, Failure> {
        let mut talk = self.talk.lock().await;
        let (to, said) = &mut *talk;
        to.write_all(b"\n").await?;
        Ok(said.next_line().await?.ok_or("a server ended when it was asked")?.parse()?)
    }
}

/// What a process of this program does that is a server: `tonic`, `ring NEXT`, `owner`, `moving`, or nodes as in [`mesh::serve`].
pub(crate) async fn serve(kind: &[String]) -> Result<(), Failure> {
    let kind: Vec<_> = kind.iter().map(String::as_str).collect();
    // Held until the end.
    let (_nodes, _owner, _moving);
    let address = match kind[..] {
        ["tonic"] => grpc::serve().await?,
        ["owner"] => {
            let (owner, addresses) = segments::serve().await?;
            _owner = owner;
            addresses
        }
        ["moving"] => {
            let (nodes, address) = moving::serve().await?;
            _moving = nodes;
            address
        }
        ["ring", next] => ring::pass_on(next.parse()?).await?.to_string(),
        _ => {
            let (nodes, address) = mesh::serve(&kind).await?;
            _nodes = nodes;
            address
        }
    };
    println!("{address}");
    // Until whoever started it is gone: says what it has taken whenever it is asked.
    let answers = || std::io::stdin().lines().try_for_each(|line| line.map(|_| println!("{}", cpu::cpu_s())));
    Ok(tokio::task::spawn_blocking(answers).await??)
}
