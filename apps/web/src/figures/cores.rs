//! Who runs on which core while something is measured: left to the kernel, two processes that wake each other share a core or do not, for minutes on end, and whichever it was
//! would be the figure.

use std::process::{Child, Command};

use rustix::{
    process::Pid,
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
};

use crate::Failure;

/// Where the client is, which is this process, and where its server.
pub(crate) struct Cores {
    client: CpuSet,
    server: CpuSet,
}

impl Cores {
    /// All for both, as the kernel likes.
    pub(crate) fn any() -> Result<Self, Failure> {
        let all = sched_getaffinity(None)?;
        Ok(Self { client: all, server: all })
    }

    /// One for the client and one for the server, if there are two. Threads are where those are that start them: this is called before there are any, so that all of this
    /// process come to its core, and its runtime knows that it has one.
    pub(crate) fn apart() -> Result<Self, Failure> {
        let all = sched_getaffinity(None)?;
        let mut cores = (0..CpuSet::MAX_CPU).filter(|core| all.is_set(*core));
        let first = cores.next().ok_or("no core to run on")?;
        let second = cores.next().unwrap_or(first);
        let apart = Self { client: only(first), server: only(second) };
        sched_setaffinity(None, &apart.client)?;
        Ok(apart)
    }

    /// Starts a process on the server's. It is there from its beginning: a JVM's threads are, too, and it knows how many cores it has.
    pub(crate) fn start(&self, command: &mut Command) -> Result<Child, Failure> {
        std::thread::scope(|scope| {
            let starting = scope.spawn(|| {
                sched_setaffinity(None, &self.server)?;
                Ok(command.spawn()?)
            });
            starting.join().unwrap_or_else(|_| Err("the thread that starts the server panicked".into()))
        })
    }

    /// Has the server's process run beside the client for a while, or not any more.
    pub(crate) fn share(&self, server: u32, together: bool) -> Result<(), Failure> {
        let cores = if together { &self.client } else { &self.server };
        for thread in std::fs::read_dir(format!("/proc/{server}/task"))? {
            let number = thread?.file_name().to_string_lossy().parse()?;
            // One may have ended since.
            let _ = sched_setaffinity(Pid::from_raw(number), cores);
        }
        Ok(())
    }
}

fn only(core: usize) -> CpuSet {
    let mut cores = CpuSet::new();
    cores.set(core);
    cores
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::process::Stdio;

    use super::*;

    fn is_on(process: &str, cores: &CpuSet) -> bool {
        let core = (0..CpuSet::MAX_CPU).find(|core| cores.is_set(*core)).unwrap();
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        status.contains(&format!("Cpus_allowed_list:\t{core}\n"))
    }

    #[test]
    fn client_and_server_have_a_core_each_until_they_are_to_share_one() {
        let all = sched_getaffinity(None).unwrap();
        let cores = Cores::apart().unwrap();
        assert!(is_on("thread-self", &cores.client));
        assert_eq!(cores.client == cores.server, all.count() == 1, "where there are two, each has one");
        let mut server = cores.start(Command::new("cat").stdin(Stdio::piped())).unwrap();
        let process = server.id().to_string();
        assert!(is_on(&process, &cores.server), "it began there");
        for together in [true, false] {
            cores.share(server.id(), together).unwrap();
            assert!(is_on(&process, if together { &cores.client } else { &cores.server }), "together: {together}");
        }
        assert!(is_on("thread-self", &cores.client), "the one that starts it stays where it is");
        drop(server.stdin.take());
        assert!(server.wait().unwrap().success());
        // The thread may be another test's next.
        sched_setaffinity(None, &all).unwrap();
    }
}
