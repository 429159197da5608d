//! Which process runs on which core, for what is measured one at a time: the kernel may keep two processes that wake each other on one core or on
//! two, for minutes on end, and that choice would decide the figure.

use rustix::{
    process::Pid,
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
};

use crate::Failure;

/// As long as it lives, all threads of some processes are on one of two cores: the first, where this process is, or the second.
pub(crate) struct Cores {
    processes: Vec<u32>,
    before: CpuSet,
}

impl Cores {
    /// Puts this process and the `near` ones on the first core, and the `far` ones on the second, if there is one. Services on different machines share no
    /// core, so a sender and its receiver should be on different ones.
    pub(crate) fn hold(
        near: impl IntoIterator<Item = u32>,
        far: impl IntoIterator<Item = u32>,
    ) -> Result<Self, Failure> {
        let before = sched_getaffinity(None)?;
        let mut cores = (0..CpuSet::MAX_CPU).filter(|core| before.is_set(*core));
        let first = cores.next().ok_or("no core to run on")?;
        let second = cores.next().unwrap_or(first);
        let near: Vec<u32> = std::iter::once(std::process::id()).chain(near).collect();
        let far: Vec<u32> = far.into_iter().collect();
        let held = Self { processes: near.iter().chain(&far).copied().collect(), before };
        place(&near, &only(first))?;
        place(&far, &only(second))?;
        Ok(held)
    }
}

fn only(core: usize) -> CpuSet {
    let mut cores = CpuSet::new();
    cores.set(core);
    cores
}

/// Threads inherit the cores of the threads that start them.
fn place(processes: &[u32], cores: &CpuSet) -> Result<(), Failure> {
    for process in processes {
        for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
            let number = thread?.file_name().to_string_lossy().parse()?;
            // One may have ended since.
            let _ = sched_setaffinity(Pid::from_raw(number), cores);
        }
    }
    Ok(())
}

impl Drop for Cores {
    fn drop(&mut self) {
        if let Err(why) = place(&self.processes, &self.before) {
            eprintln!("some processes stay on one core: {why}");
        }
    }
}
