//! Servers, each in a process of its own: in one process they would share an address space, and in one runtime even a
//! thread, which no two servers ever do.

use std::process::Stdio;

use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use crate::{Failure, grpc, mesh, ring};

/// A server that runs until this is dropped.
pub(crate) struct Server {
    /// Where it listens; a server of several nodes says all, with a space between.
    pub(crate) address: String,
    process: u32,
    child: Child,
}

impl Server {
    /// Starts this program again as a server: `kind` as in [`serve`].
    pub(crate) async fn start(kind: &[&str]) -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("serve").args(kind).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let out = child.stdout.take().ok_or("a server has no output")?;
        let address = BufReader::new(out).lines().next_line().await?.ok_or("a server ended before it listened")?;
        let process = child.id().ok_or("a server ended at once")?;
        Ok(Self { address, process, child })
    }

    /// Ends it, and returns when its ports are free.
    pub(crate) async fn end(mut self) -> Result<(), Failure> {
        Ok(self.child.kill().await?)
    }

    /// Processor time that it has taken, in seconds.
    pub(crate) fn cpu_s(&self) -> Result<f64, Failure> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process))?;
        // The name may hold anything, but no closing bracket follows the one that ends it.
        let fields: Vec<_> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |field: usize| fields.get(field).and_then(|ticks| ticks.parse::<f64>().ok()).unwrap_or(f64::NAN);
        Ok((ticks(11) + ticks(12)) / rustix::param::clock_ticks_per_second() as f64)
    }
}

/// What a process of this program does that is a server: `tonic`, `ring NEXT`, or nodes as in [`mesh::serve`].
pub(crate) async fn serve(kind: &[String]) -> Result<(), Failure> {
    let kind: Vec<_> = kind.iter().map(String::as_str).collect();
    // Held until the end.
    let _nodes;
    let address = match kind[..] {
        ["tonic"] => grpc::serve().await?,
        ["ring", next] => ring::pass_on(next.parse()?).await?.to_string(),
        _ => {
            let (nodes, address) = mesh::serve(&kind).await?;
            _nodes = nodes;
            address
        }
    };
    println!("{address}");
    // Until whoever started it is gone.
    tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink())).await??;
    Ok(())
}
