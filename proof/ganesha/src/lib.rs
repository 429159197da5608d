//! A real nfs-ganesha, for tests and for figures beside it: started with an export of its own, stopped when it goes out of scope.
//!
//! It needs root and the Debian packages that `bridge/nfs/tests/prepare.sh` installs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
// What is waited for is another program, which sends no event: it is asked again and again, up to a deadline.
#![allow(clippy::disallowed_methods)]

mod rpcbind;
mod way;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

use catena_bridge_nfs::{Credentials, NfsConfig};
use rpcbind::Rpcbind;
pub use way::Way;

/// How long the server may take to answer, or to end.
const DEADLINE: Duration = Duration::from_secs(30);
/// How often that is looked at.
const POLL: Duration = Duration::from_millis(20);
/// What to type when the server is not installed.
const INSTALL: &str = "apt-get install -y nfs-ganesha nfs-ganesha-vfs rpcbind  (or: bridge/nfs/tests/prepare.sh)";

/// Runs the server until its standard input ends, so that it ends with the test, also when that is killed.
const GUARD: &str = r#"
exec 3<&0
"$@" 3<&- &
server=$!
(
    read -r _ <&3
    kill -TERM "$server"
    tenths=0
    while [ "$tenths" -lt 100 ] && kill -0 "$server"; do
        sleep 0.1
        tenths=$((tenths + 1))
    done
    kill -KILL "$server"
) 2>/dev/null &
watch=$!
wait "$server"
kill "$watch" 2>/dev/null
"#;

/// A running nfs-ganesha that exports one new directory. Dropping it stops the server and removes the directory.
#[derive(Debug)]
pub struct GaneshaServer {
    /// The port of the NFS service, on the loopback.
    pub nfs_port: u16,
    /// The port of the mount service, on the loopback.
    pub mount_port: u16,
    /// The export's name: what a client mounts.
    pub export: String,
    /// The exported directory, as this machine sees it.
    pub dir: PathBuf,
    work: PathBuf,
    guard: Option<Child>,
    started_at_s: Option<u64>,
    _rpcbind: Rpcbind,
}

impl GaneshaServer {
    /// Starts a server and waits until it answers. Blocks for about a second.
    ///
    /// # Panics
    /// If the server is not installed, not allowed (it takes root) or does not answer in 30 s; the message says what to do.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with("No_Root_Squash")
    }

    /// The same with a `Squash` of one's own, such as `Root_Squash`.
    ///
    /// # Panics
    /// As [`GaneshaServer::start`].
    #[must_use]
    pub fn start_with(squash: &str) -> Self {
        for program in ["/usr/bin/ganesha.nfsd", "/usr/sbin/rpcbind"] {
            assert!(Path::new(program).exists(), "{program} is not installed: {INSTALL}");
        }
        let rpcbind = Rpcbind::needed();
        let work = work_directory();
        let dir = work.join("export");
        std::fs::create_dir_all(&dir).expect("a directory to export");
        std::fs::create_dir_all(work.join("recovery")).expect("a directory for the server");
        let [nfs_port, mount_port] = free_ports();
        let export = dir.to_str().expect("a path in UTF-8").to_owned();
        let mut server =
            Self { nfs_port, mount_port, export, dir, work, guard: None, started_at_s: None, _rpcbind: rpcbind };
        std::fs::write(server.work.join("ganesha.conf"), server.configuration(squash)).expect("the configuration");
        server.run();
        server
    }

    /// The configuration of a bridge to this server, acting as root.
    #[must_use]
    pub fn config(&self) -> NfsConfig {
        NfsConfig {
            nfs_port: Some(self.nfs_port),
            mount_port: Some(self.mount_port),
            credentials: Credentials { machine: "test".to_owned(), ..Credentials::default() },
            ..NfsConfig::new("127.0.0.1", self.export.clone())
        }
    }

    /// Stops the server, as its administrator would, and waits until it is gone. The export stays.
    ///
    /// # Panics
    /// If it does not end in 30 s.
    pub fn stop(&mut self) {
        let Some(mut guard) = self.guard.take() else { return };
        drop(guard.stdin.take());
        let deadline = Instant::now() + DEADLINE;
        while guard.try_wait().expect("the server's state").is_none() {
            assert!(Instant::now() < deadline, "nfs-ganesha did not end in {DEADLINE:?}");
            std::thread::sleep(POLL);
        }
    }

    /// Starts the server again, at the same ports and over the same directory, in a later second of the clock:
    /// nfs-ganesha's write verifier is the second it started in, so two starts within one cannot be told apart.
    ///
    /// # Panics
    /// As [`GaneshaServer::start`].
    pub fn restart(&mut self) {
        self.stop();
        while self.started_at_s.is_some_and(|second| second == now_s()) {
            std::thread::sleep(POLL);
        }
        self.run();
    }

    fn run(&mut self) {
        let _starting = rpcbind::starting();
        let log = self.work.join("ganesha.log");
        let guard = Command::new("sh")
            .args(["-c", GUARD, "sh", "/usr/bin/ganesha.nfsd", "-F", "-N", "NIV_EVENT", "-L"])
            .arg(&log)
            .arg("-f")
            .arg(self.work.join("ganesha.conf"))
            .arg("-p")
            .arg(self.work.join("ganesha.pid"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("sh");
        let guard = self.guard.insert(guard);
        let deadline = Instant::now() + DEADLINE;
        while !(answers(self.nfs_port, 100_003) && answers(self.mount_port, 100_005)) {
            let ended = guard.try_wait().expect("the server's state").is_some();
            assert!(
                !ended && Instant::now() < deadline,
                "nfs-ganesha {} (it takes root). The end of its log:\n{}",
                if ended { "ended at once".to_owned() } else { format!("did not answer in {DEADLINE:?}") },
                tail(&log)
            );
            std::thread::sleep(POLL);
        }
        self.started_at_s = Some(now_s());
    }

    fn configuration(&self, squash: &str) -> String {
        let Self { nfs_port, mount_port, export, .. } = self;
        let recovery = self.work.join("recovery");
        format!(
            r#"NFS_CORE_PARAM {{
    Protocols = 3;
    NFS_Port = {nfs_port};
    MNT_Port = {mount_port};
    Bind_addr = 127.0.0.1;
    Enable_NLM = false;
    Enable_RQUOTA = false;
    Enable_UDP = false;
}}
NFSV4 {{ Graceless = true; RecoveryRoot = {recovery:?}; }}
EXPORT {{
    Export_Id = 1;
    Path = {export:?};
    Pseudo = "/export";
    Protocols = 3;
    Transports = TCP;
    Access_Type = RW;
    Squash = {squash};
    SecType = sys;
    FSAL {{ Name = VFS; }}
}}
"#
        )
    }
}

impl Drop for GaneshaServer {
    fn drop(&mut self) {
        // Not through `stop`: a panic while one is under way would end the process and hide the first.
        if let Some(mut guard) = self.guard.take() {
            drop(guard.stdin.take());
            let _ = guard.wait();
        }
        let _ = std::fs::remove_dir_all(&self.work);
    }
}

/// A new directory beside the build's results, which are on a real file system: FSAL VFS needs `open_by_handle_at`, which
/// overlays and some temporary file systems lack.
fn work_directory() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let program = std::env::current_exe().expect("this program's path");
    let build = program.ancestors().find(|path| path.ends_with("release") || path.ends_with("debug"));
    let build = build.or_else(|| program.parent()).expect("a directory of the build");
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    build.join(format!("ganesha-{}-{number}", std::process::id()))
}

/// Two ports that are free now. They are held together, so that they differ.
fn free_ports() -> [u16; 2] {
    let held = [(); 2].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port"));
    held.map(|listener| listener.local_addr().expect("its number").port())
}

/// Whether an RPC program answers its procedure 0, version 3 (RFC 5531, section 9), within a second.
fn answers(port: u16, program: u32) -> bool {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let Ok(mut stream) = TcpStream::connect_timeout(&address, Duration::from_secs(1)) else { return false };
    let words = [0x8000_0000 | 40, 7, 0, 2, program, 3, 0, 0, 0, 0, 0];
    let call: Vec<u8> = words.into_iter().flat_map(u32::to_be_bytes).collect();
    let mut header = [0; 8];
    stream.set_read_timeout(Some(Duration::from_secs(1))).is_ok()
        && stream.write_all(&call).is_ok()
        && stream.read_exact(&mut header).is_ok()
        && header[4..] == [0, 0, 0, 7]
}

/// The second that the wall clock is in.
fn now_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock after 1970").as_secs()
}

/// The last lines of a file.
fn tail(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| format!("(no log: {error})"));
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}
