//! A server in a process of its own, so that its processor time is its own.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use super::Failure;

pub(crate) struct Served {
    child: Child,
    pub(crate) address: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Served {
    pub(crate) fn start(root: &Path, shared_memory: bool) -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("serve").arg(root).args(["--listen", "127.0.0.1:0", "--no-grace"]).stdout(Stdio::piped());
        if !shared_memory {
            command.arg("--without-shared-memory");
        }
        let mut child = command.spawn()?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        let address = line.trim().strip_prefix("serving at ").map(str::to_owned);
        let mut served = Self { child, address: String::new() };
        served.address = address.ok_or_else(|| format!("the server said {line:?}"))?;
        Ok(served)
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
