//! Processes that are this test program once more, waited for by what they print; never by sleeping.

use std::{process::Stdio, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::timeout,
};

/// The longest that anything here may take: the first process of all compiles the engine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// Its arguments, for a process that is started; without it this program is the test.
const ARGUMENTS: &str = "CATENA_TEST_PROCESS_ARGUMENTS";

/// What the test `process` is to be, if it was started to be a process.
pub(crate) fn arguments() -> Option<Vec<String>> {
    let all = std::env::var(ARGUMENTS).ok()?;
    Some(all.split('\n').map(str::to_owned).collect())
}

/// A process. Dropping it kills it.
pub(crate) struct Process {
    /// With its standard input, which is open as long as this lives: a process whose test was killed ends by itself.
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Runs the test `process` of this program with these arguments.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["process", "--exact", "--nocapture"]).env(ARGUMENTS, arguments.join("\n"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Reads on to a line that has this in it: what comes after it.
    pub(crate) async fn says(&mut self, what: &str) -> String {
        let found = async {
            while let Some(line) = self.lines.next_line().await.unwrap() {
                if let Some((_, after)) = line.split_once(what) {
                    return after.to_owned();
                }
            }
            panic!("it ended before it said {what:?}")
        };
        timeout(PATIENCE, found).await.unwrap_or_else(|_| panic!("it did not say {what:?}"))
    }

    /// Bytes of memory that it holds.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id().expect("a process that runs")));
        let status = status.unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("what it holds");
        resident.trim_end_matches(" kB").trim().parse::<u64>().unwrap() << 10
    }

    /// Sends a signal by its name, such as `STOP`.
    pub(crate) async fn signal(&self, name: &str) {
        let id = self.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().await.unwrap().success());
    }

    /// Its number in the system.
    pub(crate) fn id(&self) -> u32 {
        self.child.id().expect("a process that runs")
    }

    /// SIGKILL, and nothing of it is left.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }
}
