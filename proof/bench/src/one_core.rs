//! Everybody on one core, for what is measured one at a time. Two processes that wake each other take some 10 us for it there; on two cores, 10 or 50, as the kernel places
//! them, for minutes on end: whichever it was would be the figure.

use rustix::{
    process::Pid,
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
};

use crate::Failure;

/// As long as it lives, all threads of these processes are on one core.
pub(crate) struct OneCore {
    processes: Vec<u32>,
    before: CpuSet,
}

impl OneCore {
    /// This process, and those.
    pub(crate) fn hold(others: impl IntoIterator<Item = u32>) -> Result<Self, Failure> {
        let mut processes = vec![std::process::id()];
        processes.extend(others);
        let before = sched_getaffinity(None)?;
        let first = (0..CpuSet::MAX_CPU).find(|core| before.is_set(*core)).ok_or("no core to run on")?;
        let mut one = CpuSet::new();
        one.set(first);
        let held = Self { processes, before };
        held.place(&one)?;
        Ok(held)
    }

    /// Threads that they start later are where those are that start them.
    fn place(&self, cores: &CpuSet) -> Result<(), Failure> {
        for process in &self.processes {
            for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
                let number = thread?.file_name().to_string_lossy().parse()?;
                // One may have ended since.
                let _ = sched_setaffinity(Pid::from_raw(number), cores);
            }
        }
        Ok(())
    }
}

impl Drop for OneCore {
    fn drop(&mut self) {
        if let Err(why) = self.place(&self.before) {
            eprintln!("some processes stay on one core: {why}");
        }
    }
}
