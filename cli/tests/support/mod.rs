//! Real processes of the built command, waited for by what they print and by their end; never by sleeping.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, dead_code)]

use std::{
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{LazyLock, Mutex, mpsc},
    thread,
    time::Duration,
};

use serde_json::Value;

pub(crate) mod own;

/// The longest that any process here may take: the first one of all compiles the engine.
const PATIENCE: Duration = Duration::from_secs(120);
/// Lines kept of each stream of a process.
const LINES_MAX: usize = 65_536;

/// How a process ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    /// Standard output as one JSON value.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|why| panic!("{why}: {self:?}"))
    }

    /// Standard output as JSON values, one per line.
    #[track_caller]
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        self.out
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|why| panic!("{why}: {self:?}")))
            .collect()
    }

    /// It ended with this code, and said all of this on standard error.
    #[track_caller]
    pub(crate) fn failed(&self, code: i32, said: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        for part in said {
            assert!(self.err.contains(part), "{part:?} is not in:\n{}", self.err);
        }
    }
}

/// The command with these arguments, and none of this process's settings.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_catena"));
    command.args(arguments).env_remove("CATENA_CONNECT").env_remove("NO_COLOR");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs it to its end.
#[track_caller]
pub(crate) fn catena(arguments: &[&str]) -> Ended {
    end(command(arguments).spawn().unwrap())
}

/// Runs it with this on standard input.
#[track_caller]
pub(crate) fn catena_with_input(arguments: &[&str], input: &str) -> Ended {
    let mut child = command(arguments).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    end(child)
}

/// Waits for the end; a process that takes too long is killed, and the test fails.
#[track_caller]
pub(crate) fn end(mut child: Child) -> Ended {
    let out = child.stdout.take().map(read_all);
    let err = child.stderr.take().map(read_all);
    let code = wait(&mut child);
    let text = |reader: Option<thread::JoinHandle<String>>| reader.map_or_else(String::new, |it| it.join().unwrap());
    Ended { code, out: text(out), err: text(err) }
}

fn read_all(mut from: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

#[track_caller]
fn wait(child: &mut Child) -> Option<i32> {
    // `wait` has no deadline, so a thread that is told of the end in time, or kills, keeps watch.
    let (tell, told) = mpsc::sync_channel::<()>(1);
    let id = child.id().to_string();
    let watch = thread::spawn(move || {
        let late = told.recv_timeout(PATIENCE).is_err();
        if late {
            let _ = Command::new("kill").args(["-KILL", &id]).status();
        }
        late
    });
    let status = child.wait().unwrap();
    let _ = tell.send(());
    assert!(!watch.join().unwrap(), "the process did not end within {PATIENCE:?}");
    status.code()
}

/// Sends a signal by its name, such as `INT`.
pub(crate) fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// A process that serves.
pub(crate) struct Server {
    child: Option<Child>,
    lines: mpsc::Receiver<String>,
    talk: mpsc::Receiver<String>,
    /// Where its own folders go: one that is killed does not remove them.
    temporary: Option<tempfile::TempDir>,
}

impl Server {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::spawn(&mut command(arguments))
    }

    /// Starts it through another program, which is given the command as its last arguments and becomes it (`exec`): signals reach it.
    pub(crate) fn start_through(program: &[&str], arguments: &[&str]) -> Self {
        let plain = command(arguments);
        let mut through = Command::new(program[0]);
        through.args(&program[1..]).arg(plain.get_program()).args(plain.get_args());
        through.env_remove("CATENA_CONNECT").env_remove("NO_COLOR").stdin(Stdio::null()).stdout(Stdio::piped());
        Self::spawn(&mut through)
    }

    fn spawn(command: &mut Command) -> Self {
        let temporary = folder();
        let mut server = Self::spawn_in(command.env("TMPDIR", temporary.path()));
        server.temporary = Some(temporary);
        server
    }

    fn spawn_in(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let (out, talk) = (lines(child.stdout.take().unwrap()), lines(child.stderr.take().unwrap()));
        Self { child: Some(child), lines: out, talk, temporary: None }
    }

    /// Reads its standard output up to a line for which this holds.
    #[track_caller]
    pub(crate) fn line(&self, wanted: impl Fn(&str) -> bool) -> String {
        find(&self.lines, wanted)
    }

    /// Reads its standard error up to a line that contains this.
    #[track_caller]
    pub(crate) fn talk(&self, wanted: &str) -> String {
        find(&self.talk, |line| line.contains(wanted))
    }

    /// Sends a signal.
    #[track_caller]
    pub(crate) fn signal(&self, name: &str) {
        signal(self.child.as_ref().unwrap(), name);
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Its first line, as JSON: with `--json` it says that it is ready, and where.
    #[track_caller]
    pub(crate) fn ready(&self) -> Value {
        let ready: Value = serde_json::from_str(&self.line(|_| true)).unwrap();
        assert_eq!(ready["ready"], true);
        ready
    }

    /// Sends a signal, and waits for the end.
    #[track_caller]
    pub(crate) fn end_by(self, name: &str) -> Option<i32> {
        self.signal(name);
        self.wait()
    }

    /// Waits for the end.
    #[track_caller]
    pub(crate) fn wait(mut self) -> Option<i32> {
        wait(&mut self.child.take().unwrap())
    }

    /// Kills it (SIGKILL), and waits until it is gone.
    pub(crate) fn kill(self) {
        drop(self);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[track_caller]
fn find(lines: &mpsc::Receiver<String>, wanted: impl Fn(&str) -> bool) -> String {
    loop {
        match lines.recv_timeout(PATIENCE) {
            Ok(line) if wanted(&line) => return line,
            Ok(_) => {}
            Err(_) => panic!("it ended, or took longer than {PATIENCE:?}, without the line"),
        }
    }
}

/// Lines as they come. More are kept than any test makes a process say, so that it never waits for a reader.
fn lines(from: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (tell, told) = mpsc::sync_channel(LINES_MAX);
    thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if tell.send(line).is_err() {
                return;
            }
        }
    });
    told
}

/// `catena dev` with links that are not slowed down, shared by the tests of one file. It is told to end when this process is gone,
/// since statics are never dropped: its standard input is this process's.
pub(crate) struct World {
    pub(crate) address: String,
    /// Kept, so that the process lives as long as this one.
    _server: Mutex<Server>,
}

/// One world per test process.
pub(crate) fn world() -> &'static World {
    static WORLD: LazyLock<World> = LazyLock::new(|| {
        let server = Server::start_for_this_process(&["dev", "--port-base", "0", "--no-shape", "--json"]);
        let ready = server.ready();
        let address = ready["nodes"][0]["address"].as_str().unwrap().to_owned();
        World { address, _server: Mutex::new(server) }
    });
    &WORLD
}

impl Server {
    /// Ends with this process, however that ends: a shell waits for the end of its standard input, which this process holds.
    fn start_for_this_process(arguments: &[&str]) -> Self {
        let script = r#""$@" <&- & node=$!; read -r _; kill -TERM "$node"; wait "$node""#;
        let mut shell = Command::new("sh");
        shell.args(["-c", script, "sh", env!("CARGO_BIN_EXE_catena")]).args(arguments);
        // This process's statics are never dropped, so a folder in one would stay.
        Self::spawn_in(shell.stdin(Stdio::piped()).stdout(Stdio::piped()))
    }
}

/// A folder of this test's own.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// A file with this text in it.
pub(crate) fn file(folder: &tempfile::TempDir, name: &str, text: &str) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A file of the examples' folder.
pub(crate) fn example(name: &str) -> String {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name);
    path.to_str().unwrap().to_owned()
}
