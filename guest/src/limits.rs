//! Limits of guests and sandboxes.

use std::{path::PathBuf, sync::Arc};

use catena_wire::StepLimits;

use crate::{GuestsBudget, MemoryBudget, PageFinder};

/// Hard limits of one session. A guest that exceeds one ends only its own function, with `LimitExceeded`, whose parameters name the limit.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Linear memory, the engine's own included. Default 64 MiB.
    pub memory_bytes_max: u64,
    /// Time for which one step (from an event to the guest's return) may run, not counting the time for which it yielded to others. Default 1,000 ms.
    pub step_wall_ms_max: u32,
    /// All events of one step, encoded. Default 16 MiB.
    pub output_bytes_max: u32,
    /// Events of one step: calls, emits and log lines. Default 65,536.
    pub events_max: u32,
    /// One continuation. Default 16 MiB.
    pub continuation_bytes_max: u32,
}

impl Limits {
    /// The lower of both for each limit: a chain may lower what it may use, but not raise it (rpc-chains section 3.6).
    #[must_use]
    pub fn lowered_by(&self, by: &StepLimits) -> Self {
        Self {
            memory_bytes_max: by.memory_bytes_max.unwrap_or(u64::MAX).min(self.memory_bytes_max),
            step_wall_ms_max: by.step_wall_ms_max.unwrap_or(u32::MAX).min(self.step_wall_ms_max),
            output_bytes_max: by.output_bytes_max.unwrap_or(u32::MAX).min(self.output_bytes_max),
            events_max: by.events_max.unwrap_or(u32::MAX).min(self.events_max),
            continuation_bytes_max: by.continuation_bytes_max.unwrap_or(u32::MAX).min(self.continuation_bytes_max),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes_max: 64 << 20,
            step_wall_ms_max: 1_000,
            output_bytes_max: 16 << 20,
            events_max: 65_536,
            continuation_bytes_max: 16 << 20,
        }
    }
}

/// Native stack of a guest: the same on every node, so that unbounded recursion ends at the same depth everywhere.
pub const STACK_BYTES_MAX: usize = 1 << 20;
/// A guest that ignores `catena.interrupted` is stopped by force this many epochs after its step's time is over. An epoch is 1 ms while a guest is busy; the
/// first one of its step may take 10 ms.
pub const HARD_STOP_EPOCHS: u32 = 50;
/// Memory granted once beyond `memory_bytes_max`, so that the engine can report where the limit was exceeded.
pub const MEMORY_RESERVE_BYTES: u64 = 1 << 20;

/// The limits of a sandbox's guests, and of what it keeps.
#[derive(Clone, Debug)]
pub struct SandboxConfig {
    /// Hard limits of each session.
    pub limits: Limits,
    /// Where compiled modules, above all the engine, are kept from one process to the next (wasmtime's own cache: only files that this user wrote are safe
    /// there). `None`: nowhere, so that each start compiles the engine. Default `None`.
    pub cache_dir: Option<PathBuf>,
    /// Loaded functions kept. Default 1,024.
    pub images_max: usize,
    /// Bytes of loaded functions kept: changes to the engine's memory, and machine code and data of compiled functions.
    /// Default 256 MiB.
    pub images_bytes_max: u64,
    /// Instances kept ready between sessions: each holds the pages that it changed, about 150 KiB for JavaScript. Default 128.
    pub warm_instances_max: usize,
    /// All instances, in sessions or kept ready. Each [`Owner`](crate::Owner) has a share of those in sessions. Default 1,024.
    pub instances_max: u32,
    /// The budget for the memory of all instances, beyond 512 KiB that each may write. Default 512 MiB.
    pub memory: Arc<dyn MemoryBudget>,
    /// The size of one function's source or module. Default 4 MiB.
    pub function_bytes_max: usize,
    /// Functions being loaded or waiting for it; one more is refused with `Overloaded`. Each [`Owner`](crate::Owner) has a share. Default 256.
    pub loads_max: usize,
    /// Modules compiled at once, each on one thread of its own; of one [`Owner`](crate::Owner) one at a time. Default 2.
    pub compiles_max: usize,
    /// How long a load waits for a module to be compiled. Default 10,000 ms.
    pub compile_wall_ms_max: u32,
    /// How changed pages are found. `None`: in the best way that this machine has. Default `None`.
    pub page_finder: Option<PageFinder>,
}

impl Default for SandboxConfig {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            cache_dir: None,
            images_max: 1_024,
            images_bytes_max: 256 << 20,
            warm_instances_max: 128,
            instances_max: 1_024,
            memory: Arc::new(GuestsBudget::new(512 << 20)),
            function_bytes_max: 4 << 20,
            loads_max: 256,
            compiles_max: 2,
            compile_wall_ms_max: 10_000,
            page_finder: None,
        }
    }
}
