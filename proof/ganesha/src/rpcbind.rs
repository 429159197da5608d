//! nfs-ganesha registers with rpcbind when it starts. If none runs on this machine, one is started, and the last of the
//! tests that use it stops it. This holds across processes, by locks on files.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::{DEADLINE, POLL};

/// Held alone while a server starts: one that registers takes away what another is just registering.
const STARTING: &str = "/tmp/catena-test-ganesha-starting.lock";
/// Held shared by each user of rpcbind. Its content is the number of the rpcbind that a test started, if one did.
const USERS: &str = "/tmp/catena-test-rpcbind-users.lock";

/// Says that rpcbind is needed; dropping it says that it is not.
#[derive(Debug)]
pub(super) struct Rpcbind {
    users: File,
    started: Option<Child>,
}

/// Waits until no other server is starting; dropping the file lets the next one start.
pub(super) fn starting() -> File {
    let lock = open(STARTING);
    lock.lock().expect("the lock");
    lock
}

fn open(path: &str) -> File {
    let opened = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path);
    opened.unwrap_or_else(|error| panic!("{path}: {error}"))
}

impl Rpcbind {
    /// Starts rpcbind unless one answers.
    pub(super) fn needed() -> Self {
        let _starting = starting();
        let mut users = open(USERS);
        users.lock_shared().expect("the lock");
        let mut started = None;
        if !answers() {
            // In the foreground, so that its number is known. It outlives this process if others still need it then.
            let child = Command::new("/usr/sbin/rpcbind")
                .args(["-f", "-w"])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("rpcbind");
            let child = started.insert(child);
            let recorded =
                users.set_len(0).and_then(|()| users.rewind()).and_then(|()| write!(users, "{}", child.id()));
            recorded.expect("the lock");
            let deadline = Instant::now() + DEADLINE;
            while !answers() {
                let ended = child.try_wait().expect("its state").is_some();
                assert!(!ended && Instant::now() < deadline, "rpcbind does not answer: it takes root");
                std::thread::sleep(POLL);
            }
        }
        Self { users, started }
    }
}

impl Drop for Rpcbind {
    fn drop(&mut self) {
        let _starting = starting();
        let _ = self.users.unlock();
        if self.users.try_lock().is_err() {
            return; // Somebody else still needs it, and will stop it.
        }
        let mut text = String::new();
        let _ = self.users.rewind().and_then(|()| self.users.read_to_string(&mut text));
        let Ok(pid) = text.trim().parse::<u32>() else { return };
        if is_rpcbind(pid) {
            let _ = Command::new("kill").arg(pid.to_string()).status();
            if let Some(started) = self.started.as_mut().filter(|started| started.id() == pid) {
                let _ = started.wait();
            }
            // Another test may have started it. Whoever needs rpcbind next must not take this one for running.
            let deadline = Instant::now() + DEADLINE;
            while answers() && Instant::now() < deadline {
                std::thread::sleep(POLL);
            }
        }
        let _ = self.users.set_len(0);
    }
}

fn answers() -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, 111)).is_ok()
}

fn is_rpcbind(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "rpcbind")
}
