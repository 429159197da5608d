//! `dfs`: a file server, and its clerks as NFS servers on loopback.
#![allow(clippy::print_stdout, reason = "this talks to people")]

mod figures;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use catena_dfs::{Callers, Clerk, ClerkConfig, NfsDoor, Server, ServerConfig, Way};
use clap::{Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

#[derive(Parser)]
#[command(about = "A file service whose clerks read its caches instead of calling it")]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

/// The way in for NFS clients.
#[derive(clap::Args)]
struct Door {
    /// The port of NFS and mount, on loopback; 0: any
    #[arg(long, default_value_t = 12049)]
    port: u16,
    /// Serve every user of this machine, not only its own and root. All may do what the server's process may
    #[arg(long)]
    any_user: bool,
}

#[derive(Subcommand)]
enum What {
    /// Serve a directory
    Serve {
        /// The directory
        root: PathBuf,
        /// Where to listen
        #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7600")]
        listen: String,
        /// Tell clerks to dial this address instead of the one it listens on; port 0 stands for the port it listens on
        #[arg(long, value_name = "HOST:PORT")]
        advertise: Option<String>,
        /// Share no memory with clerks on this host
        #[arg(long)]
        without_shared_memory: bool,
        /// Change files from the first moment on: only where no clerk can still read from a run before
        #[arg(long)]
        no_grace: bool,
    },
    /// Be a clerk of a server, and an NFSv3 server for this machine
    Clerk {
        /// The server's address
        #[arg(default_value = "127.0.0.1:7600")]
        server: String,
        #[command(flatten)]
        door: Door,
        /// How it comes by what it is asked for
        #[arg(long, value_enum, default_value_t = Way::Data)]
        way: Way,
    },
    /// A server and its clerk in one process, to try
    Both {
        /// The directory
        root: PathBuf,
        #[command(flatten)]
        door: Door,
    },
    /// The figures of the paper's section 5.2 beside ours
    Figures(figures::Arguments),
    /// One thing over and over, for a profiler
    Profile(figures::Profiling),
    /// The clerks that the figures measure
    #[command(hide = true)]
    Replay(figures::Replaying),
}

#[tokio::main]
async fn main() -> ExitCode {
    // In a task: a future in the first thread would have to be woken from another thread.
    match tokio::spawn(run(Arguments::parse().what)).await.unwrap_or_else(|why| Err(why.into())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("dfs: {why}");
            ExitCode::FAILURE
        }
    }
}

async fn run(what: What) -> Result<(), figures::Failure> {
    match what {
        What::Serve { root, listen, advertise, without_shared_memory, no_grace } => {
            let (shared_memory, config) = (!without_shared_memory, ServerConfig::new(root));
            let grace = if no_grace { Duration::ZERO } else { config.grace };
            let config = ServerConfig { listen, advertise, shared_memory, grace, ..config };
            let server = Server::start(config).await?;
            let mut interrupts = signal(SignalKind::interrupt())?;
            println!("serving at {}", server.address());
            interrupts.recv().await;
            server.stop().await;
        }
        What::Clerk { server, door, way } => {
            let clerk = Clerk::connect(ClerkConfig { way, ..ClerkConfig::new(server) }).await?;
            until_interrupted(clerk, &door).await?;
        }
        What::Both { root, door } => {
            let server = Server::start(ServerConfig::new(root)).await?;
            let clerk = Clerk::connect(ClerkConfig::new(server.address())).await?;
            until_interrupted(clerk, &door).await?;
            server.stop().await;
        }
        What::Figures(arguments) => figures::run(arguments).await?,
        What::Profile(arguments) => figures::profile(arguments).await?,
        What::Replay(arguments) => figures::replay(arguments).await?,
    }
    Ok(())
}

async fn until_interrupted(clerk: Clerk, how: &Door) -> Result<(), figures::Failure> {
    let callers = if how.any_user { Callers::AnyUser } else { Callers::OwnUser };
    let door = NfsDoor::open_to(callers, clerk, how.port).await?;
    let port = door.port();
    // Installed before it says that it is ready: whoever waits for that may interrupt it at once.
    let mut interrupts = signal(SignalKind::interrupt())?;
    println!("NFSv3 at 127.0.0.1, port {port} (mount, too). Try, in another window:");
    println!("  nfs-ls 'nfs://127.0.0.1/?nfsport={port}&mountport={port}'");
    println!("  nfs-cp README.md 'nfs://127.0.0.1//README.md?nfsport={port}&mountport={port}'");
    if how.any_user {
        println!("  mount -t nfs -o vers=3,tcp,nolock,port={port},mountport={port} 127.0.0.1:/ /mnt    (as root)");
    }
    interrupts.recv().await;
    Ok(())
}
