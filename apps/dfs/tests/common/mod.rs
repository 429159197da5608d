//! Servers and clerks, here and as processes that can be killed.
#![allow(unreachable_pub, dead_code, reason = "each test file uses its part")]

use std::{
    cell::RefCell,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use catena_bridge_nfs::{NfsBridge, NfsConfig};
use catena_dfs::{Clerk, ClerkConfig, Server, ServerConfig, Way};

pub async fn serve(root: &Path, config: impl FnOnce(&mut ServerConfig)) -> Server {
    let mut chosen = ServerConfig { grace: Duration::ZERO, ..ServerConfig::new(root) };
    config(&mut chosen);
    Server::start(chosen).await.unwrap()
}

pub async fn clerk(address: &str, way: Way) -> Clerk {
    Clerk::connect(ClerkConfig { way, ..ClerkConfig::new(address) }).await.unwrap()
}

/// An NFS client of the clerk at this port.
pub async fn bridge(port: u16) -> NfsBridge {
    let ports = Some(port);
    let config = NfsConfig { nfs_port: ports, mount_port: ports, ..NfsConfig::new("127.0.0.1", "/") };
    NfsBridge::connect(config).await.unwrap()
}

/// Waits until something is so.
pub async fn until<F: Future<Output = bool>>(what: &str, is: impl Fn() -> F) {
    let waited = tokio::time::timeout(Duration::from_secs(60), async {
        while !is().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("{what}: not within a minute"));
}

/// Where a server listens that is to come back at its port. Nobody else takes it meanwhile: who dials comes from 127.0.0.1, and would take it even to dial what is not there.
pub const RESTARTED: &str = "127.0.0.2:0";

/// A server or clerk that is another process, so that it can be killed.
pub struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    /// Interrupts it, as Ctrl-C does, and gives how it ended.
    pub async fn interrupted(self) -> ExitStatus {
        let kill = Command::new("kill").args(["-INT", &self.0.id().to_string()]).status().unwrap();
        assert!(kill.success(), "kill: {kill}");
        let process = RefCell::new(self);
        until("it has ended", async || process.borrow_mut().0.try_wait().unwrap().is_some()).await;
        process.borrow_mut().0.wait().unwrap()
    }
}

/// Starts the program, and gives what follows these words in its first line.
fn started(arguments: &[&str], says: &str) -> (Process, String) {
    use std::io::BufRead;
    let mut command = Command::new(env!("CARGO_BIN_EXE_dfs"));
    let mut process = Process(command.args(arguments).stdout(Stdio::piped()).spawn().unwrap());
    let (mut output, (said, says_at_last)) = (process.0.stdout.take().unwrap(), std::sync::mpsc::sync_channel(1));
    std::thread::spawn(move || {
        let mut line = String::new();
        std::io::BufReader::new(&mut output).read_line(&mut line).unwrap();
        said.send((line, output))
    });
    let line = says_at_last.recv_timeout(Duration::from_secs(60));
    let (line, output) = line.unwrap_or_else(|_| panic!("dfs {arguments:?} says nothing within a minute"));
    // Its pipe stays open: who prints into one that is closed ends.
    process.0.stdout = Some(output);
    let rest = line.trim().strip_prefix(says).unwrap_or_else(|| panic!("{line:?}")).to_owned();
    (process, rest)
}

/// A server, and its address.
pub fn start(root: &Path, listen: &str, options: &[&str]) -> (Process, String) {
    let arguments = [&["serve", root.to_str().unwrap(), "--listen", listen], options].concat();
    started(&arguments, "serving at ")
}

/// A clerk, and its port.
pub fn start_clerk(address: &str) -> (Process, u16) {
    started_at_a_port(&["clerk", address, "--port", "0"])
}

/// A server of this directory and its clerk in one process, and the clerk's port.
pub fn start_both(root: &Path) -> (Process, u16) {
    started_at_a_port(&["both", root.to_str().unwrap(), "--port", "0"])
}

fn started_at_a_port(arguments: &[&str]) -> (Process, u16) {
    let (process, ports) = started(arguments, "NFSv3 at 127.0.0.1, port ");
    (process, ports.split(' ').next().unwrap().parse().unwrap())
}
