//! A real server, which ends with its test.

use std::process::{Child, Command, Stdio};

pub(crate) struct Served(Child);

impl Served {
    /// Debian's, as `tools/bootstrap.sh tests` installs it.
    pub(crate) fn start(command: &mut Command) -> Self {
        let started = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Self(started.unwrap_or_else(|why| panic!("{command:?}: {why}; tools/bootstrap.sh tests installs it")))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
