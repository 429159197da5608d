//! Processes of this program beside the measuring one: a server, a clerk, many clerks. So their processor time is counted separately.

use std::{
    io::{BufRead as _, BufReader, Lines, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use super::Failure;

/// The process; it ends when this is dropped.
pub(crate) struct Process {
    child: Child,
    input: Option<ChildStdin>,
    /// Kept open: a process that prints into a closed pipe ends.
    said: Lines<BufReader<ChildStdout>>,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    /// Starts this program with these arguments, restricted to these cores if given (in the syntax of `taskset`).
    pub(crate) fn start(arguments: &[&str], cores: Option<&str>) -> Result<Self, Failure> {
        let program = std::env::current_exe()?;
        let mut command = match cores {
            None => Command::new(program),
            Some(cores) => {
                let mut command = Command::new("taskset");
                command.args(["-c", cores]).arg(program);
                command
            }
        };
        let mut child = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let said = BufReader::new(output.ok_or("a process without an output")?).lines();
        Ok(Self { child, input, said })
    }

    /// Reads its next line, which must begin with `begins`; returns the rest of it.
    pub(crate) fn says(&mut self, begins: &str) -> Result<String, Failure> {
        let line = self.said.next().ok_or("a process ended before it was ready: its message is above")??;
        Ok(line.strip_prefix(begins).ok_or_else(|| format!("a process said {line:?}"))?.trim().to_owned())
    }

    /// Writes a line to its input.
    pub(crate) fn tell(&mut self, line: &str) -> Result<(), Failure> {
        let input = self.input.as_mut().ok_or("a process without an input")?;
        Ok(writeln!(input, "{line}")?)
    }

    /// Its process ID, for observers from outside.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its processor time so far, microseconds, of all its threads.
    pub(crate) fn cpu_us(&self) -> Result<f64, Failure> {
        let mut sum = 0.0;
        for task in std::fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let path = task?.path().join("schedstat");
            let text = std::fs::read_to_string(path).unwrap_or_default();
            sum += text.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0);
        }
        Ok(sum / 1_000.0)
    }
}

/// Prints the processes that a profiler can look at.
pub(crate) fn say_ids(served: &Served, clerks: &[Process]) {
    let clerks = clerks.iter().map(|clerk| clerk.id().to_string()).collect::<Vec<_>>().join(",");
    println!("the server is process {}, clerks are {clerks}: perf record -g -p PROCESS", served.process.id());
}

/// A server of a folder.
pub(crate) struct Served {
    pub(crate) process: Process,
    pub(crate) address: String,
}

impl Served {
    pub(crate) fn start(root: &Path, shared_memory: bool, cores: Option<&str>) -> Result<Self, Failure> {
        let root = root.to_str().ok_or("a folder whose name is not UTF-8")?;
        let mut arguments = vec!["serve", root, "--listen", "127.0.0.1:0", "--no-grace"];
        if !shared_memory {
            arguments.push("--without-shared-memory");
        }
        let mut process = Process::start(&arguments, cores)?;
        let address = process.says("serving at ")?;
        Ok(Self { process, address })
    }
}
