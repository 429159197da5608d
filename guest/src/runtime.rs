//! wasmtime, configured so that a function behaves the same on every node, and cannot monopolise a thread or the memory.

use std::{path::Path, sync::Arc};
use wasmtime::{
    Cache, CacheConfig, Caller, Config, Engine, InstanceAllocationStrategy, Linker, OptLevel, PoolingAllocationConfig,
    Store,
};

use crate::{
    MemoryBudget, SandboxConfig,
    admission::TABLE_ELEMENTS_MAX,
    continuation::WASM_PAGE_BYTES,
    error::SandboxError,
    host::{Clock, Host},
    limits::{Limits, MEMORY_RESERVE_BYTES, STACK_BYTES_MAX},
    pages::Pages,
    seats::Place,
    ticker::Ticker,
};

/// The host's own frames on a guest's stack, in addition to the guest's.
const HOST_STACK_BYTES: usize = 256 << 10;
/// What the runtime keeps for one instance in addition to its memory.
const INSTANCE_BYTES_MAX: usize = 1 << 20;

/// What all guests of a sandbox share.
pub(crate) struct Runtime {
    pub(crate) engine: Engine,
    pub(crate) linker: Linker<Host>,
    pub(crate) pages: Arc<Pages>,
    pub(crate) limits: Limits,
    pub(crate) memory: Arc<dyn MemoryBudget>,
    ticker: Arc<Ticker>,
}

impl Runtime {
    pub(crate) fn new(config: &SandboxConfig) -> Result<Self, SandboxError> {
        let runtime = |error: wasmtime::Error| SandboxError::Runtime(format!("{error:#}"));
        let engine = Engine::new(&settings(config)?).map_err(runtime)?;
        let mut linker = Linker::new(&engine);
        linker
            .func_wrap("catena", "interrupted", |caller: Caller<'_, Host>| caller.data().interrupted())
            .map_err(runtime)?;
        let wanted = config.page_finder;
        let pages = Pages::new(wanted)
            .ok_or_else(|| SandboxError::PageFinder(wanted.unwrap_or(crate::PageFinder::Everything)))?;
        let ticker = Ticker::new(engine.weak()).map_err(SandboxError::Ticker)?;
        Ok(Self {
            engine,
            linker,
            pages: Arc::new(pages),
            limits: config.limits.clone(),
            memory: Arc::clone(&config.memory),
            ticker: Arc::new(ticker),
        })
    }

    /// A store in which one guest runs under the limits, in this place.
    pub(crate) fn store(&self, place: Option<Arc<Place>>) -> Store<Host> {
        let clock = Clock::new(Arc::clone(&self.ticker));
        let host = Host::new(clock, &self.limits, Arc::clone(&self.memory), Arc::clone(&self.pages), place);
        let mut store = Store::new(&self.engine, host);
        store.limiter(|host| host);
        store.epoch_deadline_callback(Host::epoch);
        Self::rearm(&mut store);
        store
    }

    /// To be called before each step.
    pub(crate) fn rearm(store: &mut Store<Host>) {
        store.data_mut().late_epochs = 0;
        let patience_epochs = store.data().clock.ticker.patience_epochs();
        store.set_epoch_deadline(patience_epochs);
    }

    /// The most memory that a guest may have, in pages of 64 KiB.
    pub(crate) fn memory_pages_max(&self) -> u32 {
        let pages = self.limits.memory_bytes_max / WASM_PAGE_BYTES;
        u32::try_from(pages).unwrap_or(u32::MAX)
    }
}

fn settings(config: &SandboxConfig) -> Result<Config, SandboxError> {
    let mut settings = Config::new();
    settings
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool(config)))
        .memory_init_cow(true)
        .epoch_interruption(true)
        .max_wasm_stack(STACK_BYTES_MAX)
        .async_stack_size(STACK_BYTES_MAX + HOST_STACK_BYTES)
        .cranelift_opt_level(OptLevel::Speed)
        // A module that is slow to compile may use one core: `compiles_max` limits how many.
        .parallel_compilation(false)
        // A function must compute the same bits on every kind of machine.
        .cranelift_nan_canonicalization(true)
        .wasm_relaxed_simd(false)
        .wasm_multi_memory(false)
        .wasm_memory64(false);
    if let Some(directory) = &config.cache_dir {
        settings.cache(Some(cache(directory)?));
    }
    Ok(settings)
}

fn pool(config: &SandboxConfig) -> PoolingAllocationConfig {
    let memory_max = config.limits.memory_bytes_max + MEMORY_RESERVE_BYTES;
    let mut pool = PoolingAllocationConfig::default();
    pool.total_core_instances(config.instances_max)
        .total_memories(config.instances_max)
        .total_tables(config.instances_max)
        .total_stacks(config.instances_max)
        .max_memories_per_module(1)
        .max_tables_per_module(1)
        .table_elements(usize::try_from(TABLE_ELEMENTS_MAX).unwrap_or(usize::MAX))
        .max_core_instance_size(INSTANCE_BYTES_MAX)
        .max_memory_size(usize::try_from(memory_max).unwrap_or(usize::MAX));
    pool
}

fn cache(directory: &Path) -> Result<Cache, SandboxError> {
    let unusable = |error: String| SandboxError::CacheDir(error);
    // wasmtime accepts absolute paths only.
    let directory = std::path::absolute(directory).map_err(|error| unusable(error.to_string()))?;
    let mut cache = CacheConfig::new();
    cache.with_directory(directory);
    Cache::new(cache).map_err(|error| unusable(format!("{error:#}")))
}
