//! The server that is measured: the same folder by sockets and by Catena, in a process of its own.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child as Process, Command, Stdio},
    sync::{Mutex, PoisonError},
};

use catena::Node;
use catena_web::{FileLimits, Files, Keep, Limits, mount};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use super::cores::Cores;
use crate::Failure;

/// What the measured server is told.
#[derive(clap::Args)]
pub(crate) struct Measured {
    folder: PathBuf,
    /// `on` or `off`
    cache: String,
}

/// How a server is told whether to have its cache on.
pub(crate) const fn cache(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

/// Serves until its parent closes its input.
pub(crate) async fn serve(arguments: Measured) -> Result<(), Failure> {
    let cached = arguments.cache == cache(true);
    let open = |keep| Files::open(&arguments.folder, if cached { keep } else { Keep::Nothing }, FileLimits::default());
    let node = Node::builder("web").listen("127.0.0.1:0").start().await?;
    let _mounted = mount(&node, "web", open(Keep::InSegments(node.clone()))?, Limits::default())?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("sockets {}", listener.local_addr()?);
    println!("catena {}", node.address().unwrap_or_default());
    tokio::spawn(on_sockets(listener, open(Keep::InMemory)?));
    let ended = tokio::task::spawn_blocking(|| std::io::stdin().lines().find(Result::is_err));
    ended.await?;
    Ok(())
}

async fn on_sockets(listener: TcpListener, files: Files) {
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        let files = files.clone();
        tokio::spawn(async move { http1::Builder::new().serve_connection(TokioIo::new(stream), files).await });
    }
}

/// The server's process; it ends with this.
pub(crate) struct Child {
    process: Process,
    pub(crate) sockets: String,
    pub(crate) catena: String,
    /// Processor time by thread, as it was last seen: one that has ended took it all the same.
    taken_ns: Mutex<BTreeMap<OsString, f64>>,
}

impl Child {
    pub(crate) fn start(folder: &Path, cache: &str, other: Option<&str>, cores: &Cores) -> Result<Self, Failure> {
        let mut command = match other {
            None => {
                let mut command = Command::new(std::env::current_exe()?);
                command.arg("measured").arg(folder).arg(cache);
                command
            }
            Some(line) => {
                let folder = folder.display().to_string();
                let words =
                    line.split_whitespace().map(|word| word.replace("{FOLDER}", &folder).replace("{CACHE}", cache));
                let mut words = words.collect::<Vec<_>>().into_iter();
                let mut command = Command::new(words.next().ok_or("no server is named")?);
                command.args(words);
                command
            }
        };
        let mut process = cores.start(command.stdin(Stdio::piped()).stdout(Stdio::piped()))?;
        let mut lines = BufReader::new(process.stdout.take().ok_or("the server says nothing")?).lines();
        let mut told = |what: &str| -> Result<String, Failure> {
            let line = lines.next().ok_or("the server ended before it served")??;
            Ok(line.strip_prefix(what).ok_or_else(|| format!("the server said {line:?}"))?.trim().to_owned())
        };
        let (sockets, catena) = (told("sockets")?, told("catena")?);
        Ok(Self { process, sockets, catena, taken_ns: Mutex::default() })
    }

    /// Its number, for whoever looks at it from outside.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Processor time that the server took so far, in microseconds, by the scheduler's own count of its threads' nanoseconds.
    pub(super) fn cpu_us(&self) -> Result<f64, Failure> {
        let mut taken_ns = self.taken_ns.lock().unwrap_or_else(PoisonError::into_inner);
        for thread in std::fs::read_dir(format!("/proc/{}/task", self.process.id()))? {
            let thread = thread?;
            // A thread may have ended since it was listed.
            let Ok(told) = std::fs::read_to_string(thread.path().join("schedstat")) else { continue };
            if let Some(ns) = told.split_whitespace().next().and_then(|first| first.parse().ok()) {
                taken_ns.insert(thread.file_name(), ns);
            }
        }
        Ok(taken_ns.values().sum::<f64>() / 1e3)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Its input is closed with it, too.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
