//! `web`: a folder as a web server over Catena, and a door to it for browsers.
#![allow(clippy::print_stdout, reason = "this talks to people")]

mod figures;

use std::{path::PathBuf, process::ExitCode};

use catena::{Client, Node, Place};
use catena_web::{FetchLimits, Fetcher, FileLimits, Files, Keep, Limits, Mounted, Proxy, ProxyLimits, mount};
use clap::{Parser, Subcommand};
use figures::Cores;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Parser)]
#[command(about = "A web server without sockets: HTTP over messages and shared memory")]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Serve a folder
    Serve {
        /// The folder
        folder: PathBuf,
        /// The service ID by which it is found
        #[arg(long, default_value = "web")]
        site: String,
        /// Where to listen
        #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7700")]
        listen: String,
        /// Tell clients to dial this address instead of the one it listens on; port 0 stands for the port it listens on
        #[arg(long, value_name = "HOST:PORT")]
        advertise: Option<String>,
        /// Share no memory with clients on this host
        #[arg(long)]
        without_shared_memory: bool,
        /// Keep nothing
        #[arg(long)]
        without_cache: bool,
    },
    /// Open a door for browsers and curl on this machine
    Proxy {
        /// The server's address
        #[arg(default_value = "127.0.0.1:7700")]
        server: String,
        /// The service ID
        #[arg(long, default_value = "web")]
        site: String,
        /// The port, on loopback; 0: any
        #[arg(long, default_value_t = 7780)]
        port: u16,
    },
    /// A server and a door together, to try
    Both {
        /// The folder
        folder: PathBuf,
        /// The door's port, on loopback; 0: any
        #[arg(long, default_value_t = 7780)]
        port: u16,
        /// A server other than hyper, in a process of its own, as for the figures
        #[arg(long)]
        server: Option<String>,
    },
    /// Fetches over sockets and over Catena, side by side
    Figures(figures::Arguments),
    /// One fetch over and over, for a profiler
    Profile(figures::Profiling),
    /// The server that the figures measure
    #[command(hide = true)]
    Measured(figures::Measured),
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    match begin(Arguments::parse().what) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("web: {why}");
            ExitCode::FAILURE
        }
    }
}

fn begin(what: What) -> Result<(), Failure> {
    let measures = matches!(what, What::Figures(_) | What::Profile(_));
    let cores = if measures { Cores::apart() } else { Cores::any() }?;
    // In a task: a future in the first thread would have to be woken from another thread.
    tokio::runtime::Runtime::new()?.block_on(async { tokio::spawn(run(what, cores)).await })?
}

async fn run(what: What, cores: Cores) -> Result<(), Failure> {
    match what {
        What::Serve { folder, site, listen, advertise, without_shared_memory, without_cache } => {
            let builder = Node::builder("web").listen(listen);
            let builder = match advertise {
                Some(address) => builder.advertise(address),
                None => builder,
            };
            let builder = if without_shared_memory { builder.without_shared_memory() } else { builder };
            let node = builder.start().await?;
            let keep = if without_cache { Keep::Nothing } else { Keep::InSegments(node.clone()) };
            let _mounted = serve(&node, &folder, &site, keep)?;
            let mut interrupts = signal(SignalKind::interrupt())?;
            println!("serving {} as {site} at {}", folder.display(), node.address().unwrap_or_default());
            interrupts.recv().await;
        }
        What::Proxy { server, site, port } => until_interrupted(&server, &site, port).await?,
        What::Both { folder, port, server: Some(other) } => {
            let server = figures::Child::start(&folder, figures::cache(true), Some(&other), &cores)?;
            println!("the server is process {}, and at http://{}/ by a socket of its own", server.id(), server.sockets);
            until_interrupted(&server.catena, "web", port).await?;
        }
        What::Both { folder, port, server: None } => {
            let node = Node::builder("web").listen("127.0.0.1:0").start().await?;
            let _mounted = serve(&node, &folder, "web", Keep::InSegments(node.clone()))?;
            until_interrupted(node.address().unwrap_or_default(), "web", port).await?;
        }
        What::Figures(arguments) => figures::run(arguments, cores).await?,
        What::Profile(arguments) => figures::profile(arguments, cores).await?,
        What::Measured(arguments) => figures::serve(arguments).await?,
    }
    Ok(())
}

fn serve(node: &Node, folder: &std::path::Path, site: &str, keep: Keep) -> Result<Mounted, Failure> {
    let files = Files::open(folder, keep, FileLimits::default())
        .map_err(|why| format!("the folder {}: {why}", folder.display()))?;
    Ok(mount(node, site, files, Limits::default())?)
}

async fn until_interrupted(server: &str, site: &str, port: u16) -> Result<(), Failure> {
    let client = Client::builder("web door").join(Place::new(server)).connect().await?;
    let fetcher = Fetcher::new(client, FetchLimits::default());
    let door = Proxy::open(fetcher, site, &format!("127.0.0.1:{port}"), ProxyLimits::default()).await?;
    // Installed before it says that it is ready: whoever waits for that may interrupt it at once.
    let mut interrupts = signal(SignalKind::interrupt())?;
    println!("open http://{}/ in a browser, or: curl -i http://{}/", door.address(), door.address());
    interrupts.recv().await;
    Ok(())
}
