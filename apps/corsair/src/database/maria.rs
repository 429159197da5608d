//! A real MariaDB server of one site: a process with its own data folder, on loopback.

use std::{
    ffi::OsString,
    io::Write,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use sqlx::mysql::MySqlConnectOptions;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, Command},
    time::timeout,
};

/// Where the package puts the statements that make the system's own tables.
const STATEMENTS: &str = "/usr/share/mysql";
/// How long a server may take until it is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// Ports that are tried.
const PORTS_TRIED_MAX: u32 = 4;
const USER: &str = "corsair";
const DATABASE: &str = "corsair";

/// Why a server does not run.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// It cannot be started.
    #[error("mariadbd cannot be started ({0}): install it with apt-get install mariadb-server-core")]
    Missing(std::io::Error),
    /// Its folder cannot be written, or its package is not whole.
    #[error("{path}: {why}")]
    File {
        /// Which file or folder.
        path: PathBuf,
        /// Why.
        why: std::io::Error,
    },
    /// It ended, or does not get ready.
    #[error("mariadbd in {folder} does not get ready: {last}")]
    NotReady {
        /// Its data folder.
        folder: PathBuf,
        /// The last thing that it said.
        last: String,
    },
}

/// A server that runs until this is dropped.
pub struct MariaDb {
    process: Child,
    port: u16,
    password: String,
}

impl MariaDb {
    /// Starts a server with an empty database of its own in `folder`, which is made, and must not be there yet.
    ///
    /// # Errors
    /// The package is not installed, or the folder cannot be written.
    pub async fn start(folder: &Path) -> Result<Self, ServerError> {
        let file = |why| ServerError::File { path: folder.to_owned(), why };
        std::fs::create_dir_all(folder).map_err(file)?;
        let folder = folder.canonicalize().map_err(file)?;
        bootstrap(&folder).await?;
        let password = format!("{:016x}", fastrand::u64(..));
        let init = folder.join("init.sql");
        write_private(&init, &format!(
            "CREATE DATABASE IF NOT EXISTS {DATABASE};\nCREATE OR REPLACE USER {USER}@'127.0.0.1' IDENTIFIED BY '{password}';\nGRANT ALL ON {DATABASE}.* TO {USER}@'127.0.0.1';\n"
        )).map_err(file)?;
        let mut attempt = 1;
        let (process, port) = loop {
            let port = free_port().map_err(file)?;
            match serve(&folder, &init, port).await {
                Ok(process) => break (process, port),
                // Somebody else may have taken the port after it was found free and before the server listened on it.
                Err(ServerError::NotReady { .. }) if attempt < PORTS_TRIED_MAX => attempt += 1,
                Err(why) => return Err(why),
            }
        };
        // The server has read the file, which holds a password.
        std::fs::remove_file(&init).map_err(file)?;
        Ok(Self { process, port, password })
    }

    /// How to connect to it.
    #[must_use]
    pub fn options(&self) -> MySqlConnectOptions {
        MySqlConnectOptions::new()
            .host("127.0.0.1")
            .port(self.port)
            .username(USER)
            .password(&self.password)
            .database(DATABASE)
    }

    /// Stops it where it is, as if its machine stood still: connections stay open, and nobody answers.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
    }

    /// Has it go on.
    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    /// Kills it, in mid-query if there is one, and waits until it is gone.
    ///
    /// # Errors
    /// It cannot be waited for.
    pub async fn kill(&mut self) -> std::io::Result<()> {
        self.process.kill().await
    }

    fn signal(&self, signal: Signal) {
        let pid = self.process.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        if let Some(pid) = pid {
            // Fails only if it has ended: then there is nothing to stop.
            let _ = kill_process(pid, signal);
        }
    }
}

/// A server's command line: little memory, and nothing on disk that has to outlive the process.
fn command(folder: &Path) -> Command {
    let mut command = Command::new("mariadbd");
    command.arg("--no-defaults").arg(option("--datadir=", folder)).current_dir(folder).kill_on_drop(true);
    // A starting server removes all temporary tables in this folder, also those of other servers if they share it.
    command.arg(option("--tmpdir=", folder));
    if rustix::process::geteuid().is_root() {
        command.arg("--user=root");
    }
    command.args([
        "--performance-schema=OFF",
        "--skip-log-bin",
        "--innodb-buffer-pool-size=16M",
        "--innodb-log-file-size=4M",
        "--innodb-doublewrite=OFF",
        // Servers on one machine share the kernel's limit for asynchronous I/O, and a server that gets none exits.
        "--innodb-use-native-aio=OFF",
        "--innodb-flush-log-at-trx-commit=0",
        "--innodb-fast-shutdown=2",
        "--aria-pagecache-buffer-size=1M",
        "--key-buffer-size=64K",
    ]);
    command
}

fn option(name: &str, path: &Path) -> OsString {
    let mut option = OsString::from(name);
    option.push(path);
    option
}

/// A server that listens on this port, when it is ready.
async fn serve(folder: &Path, init: &Path, port: u16) -> Result<Child, ServerError> {
    let mut process = command(folder)
        .arg(format!("--port={port}"))
        .arg(option("--init-file=", init))
        .args(["--bind-address=127.0.0.1", "--skip-name-resolve", "--socket=server.sock"])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(ServerError::Missing)?;
    ready(&mut process, folder).await?;
    Ok(process)
}

/// Makes the system's own tables, as mariadb-install-db would.
async fn bootstrap(folder: &Path) -> Result<(), ServerError> {
    let mut statements = String::from("CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket = NULL;\n");
    for name in ["mysql_system_tables.sql", "mysql_system_tables_data.sql"] {
        let path = Path::new(STATEMENTS).join(name);
        statements += &std::fs::read_to_string(&path).map_err(|why| ServerError::File { path, why })?;
    }
    let mut command = command(folder);
    command
        .args(["--bootstrap", "--skip-grant-tables"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut process = command.spawn().map_err(ServerError::Missing)?;
    if let Some(mut input) = process.stdin.take() {
        // If it ends before it has read everything, what it said last tells why.
        let _ = input.write_all(statements.as_bytes()).await;
    }
    let output = process.wait_with_output().await.map_err(ServerError::Missing)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().find(|line| line.contains("ERROR")).unwrap_or("it said nothing").to_owned();
    Err(ServerError::NotReady { folder: folder.to_owned(), last })
}

/// Waits until the server says that it is ready, and goes on draining its output, so that it can keep writing.
async fn ready(process: &mut Child, folder: &Path) -> Result<(), ServerError> {
    let mut last = String::from("it said nothing");
    if let Some(output) = process.stderr.take() {
        let mut lines = BufReader::new(output).lines();
        let ready = async {
            while let Ok(Some(line)) = lines.next_line().await {
                if line.contains("ready for connections") {
                    return true;
                }
                // The first error is the reason; later ones only say that the server is exiting.
                if !last.contains("[ERROR]") {
                    last = line;
                }
            }
            false
        };
        if timeout(READY_TIMEOUT, ready).await == Ok(true) {
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return Ok(());
        }
    }
    Err(ServerError::NotReady { folder: folder.to_owned(), last })
}

/// Bound and released again: the system does not give out the same port twice in a row.
fn free_port() -> std::io::Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}
