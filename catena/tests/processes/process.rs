//! Processes that are this test program once more, waited for by what they print; never by sleeping.

use std::{path::PathBuf, process::Stdio, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::timeout,
};

/// The longest that anything here may take: the first process of all compiles the engine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// Its arguments, for a process that is started; without it this program is the test.
const ARGUMENTS: &str = "CATENA_TEST_PROCESS_ARGUMENTS";

/// What is freed goes back to the system, so that a process holds what it uses (`docs/src/limits.md`, *What counts as the node's memory*).
const ALLOCATOR: (&str, &str) = ("GLIBC_TUNABLES", "glibc.malloc.mmap_threshold=1048576");

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
    /// Runs the test `process` of this program with these arguments, and this in its environment.
    pub(crate) fn start<const N: usize>(environment: [(&str, PathBuf); N], arguments: &[&str]) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["process", "--exact", "--nocapture"]).env(ARGUMENTS, arguments.join("\n")).envs(environment);
        command.env(ALLOCATOR.0, ALLOCATOR.1);
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

    /// Reads on to a line that has `end` in it: the lines before it.
    pub(crate) async fn says_before(&mut self, end: &str) -> Vec<String> {
        let said = async {
            let mut said = Vec::new();
            while let Some(line) = self.lines.next_line().await.unwrap() {
                if line.contains(end) {
                    return said;
                }
                said.push(line);
            }
            panic!("it ended before it said {end:?}")
        };
        timeout(PATIENCE, said).await.unwrap_or_else(|_| panic!("it did not say {end:?}"))
    }

    /// Bytes of memory that it holds.
    pub(crate) fn resident_bytes(&self) -> u64 {
        resident_bytes(self.id())
    }

    /// Processor time that it has taken, in ticks of the system: hundredths of a second.
    pub(crate) fn busy_ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap();
        let (_, after_name) = stat.rsplit_once(')').expect("its name");
        // The fields `utime` and `stime`, the 14th and 15th of all.
        after_name.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
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

/// Waits until this is so.
pub(crate) async fn comes_to_pass(what: &str, mut so: impl AsyncFnMut() -> bool) {
    let waits = async {
        while !so().await {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, waits).await.unwrap_or_else(|_| panic!("not so: {what}"));
}

/// Bytes of memory that a process holds.
pub(crate) fn resident_bytes(process: u32) -> u64 {
    status(process, "VmRSS:")
}

/// The most that it has held so far.
pub(crate) fn resident_bytes_max(process: u32) -> u64 {
    status(process, "VmHWM:")
}

fn status(process: u32, what: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(what)).expect("what it holds");
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}
