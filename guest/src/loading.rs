//! Loads functions into images: each once, and not too many at a time.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use catena_wire::{Exception, Fault, Hash};
use tokio::sync::{OnceCell, Semaphore};

use crate::{
    Function, FunctionKind, Image, SandboxConfig,
    abi::{self, GuestEnd},
    admission::Role,
    error::{Stop, bad_code, limit_exceeded, node_fault, overloaded, refused},
    function::hash_of,
    instance::To,
    prototype::{self, Compiled, Prototype},
    sandbox::{Inner, lock, untouched},
};

/// Bytes of an encoded function in addition to its source or module: its name, engine hash and the like.
const ENVELOPE_BYTES_MAX: usize = 1_024;

type Cell = Arc<OnceCell<Arc<Image>>>;

/// Loads under way.
pub(crate) struct Loading {
    cells: Mutex<HashMap<Hash, Cell>>,
    max: usize,
    compiles: Arc<Semaphore>,
}

/// A task that waits for a load. The last of them removes the entry, so that an abandoned load leaves nothing behind.
struct Waiting<'l> {
    loading: &'l Loading,
    code: Hash,
    cell: Cell,
}

impl Loading {
    pub(crate) fn new(max: usize, compiles_max: usize) -> Self {
        Self { cells: Mutex::default(), max, compiles: Arc::new(Semaphore::new(compiles_max.max(1))) }
    }

    fn wait(&self, code: Hash) -> Result<Waiting<'_>, Exception> {
        let mut cells = lock(&self.cells);
        if cells.len() >= self.max && !cells.contains_key(&code) {
            return Err(overloaded("loads_max", self.max as u64));
        }
        let cell = Arc::clone(cells.entry(code).or_default());
        Ok(Waiting { loading: self, code, cell })
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut cells = lock(&self.loading.cells);
        // Held by the entry and by this one.
        if Arc::strong_count(&self.cell) <= 2 {
            cells.remove(&self.code);
        }
    }
}

impl Inner {
    pub(crate) async fn load(self: &Arc<Self>, code: Hash, encoded: &[u8]) -> Result<Arc<Image>, Exception> {
        let bytes_max = self.config.function_bytes_max;
        if encoded.len() > bytes_max.saturating_add(ENVELOPE_BYTES_MAX) {
            let message =
                format!("the function has {} bytes, more than function_bytes_max ({bytes_max} bytes)", encoded.len());
            return Err(limit_exceeded("function_bytes_max", Some(message), &self.runtime.limits));
        }
        let found = hash_of(encoded);
        if found != code {
            let message =
                format!("the bytes given for the function {code} are those of {found}; ask another source for it");
            return Err(bad_code(Fault::Network, message));
        }
        let function = Function::decode(encoded).map_err(|error| bad_code(Fault::Caller, error))?;
        let waiting = self.loading.wait(code)?;
        let image = waiting
            .cell
            .get_or_try_init(|| async {
                let image = match function.kind {
                    FunctionKind::JavaScript => self.load_source(code, &function).await?,
                    FunctionKind::Wasm => self.load_module(code, function).await?,
                };
                self.insert(&image);
                Ok::<_, Exception>(image)
            })
            .await?;
        Ok(Arc::clone(image))
    }

    async fn load_source(&self, code: Hash, function: &Function) -> Result<Arc<Image>, Exception> {
        let engine = &self.engine;
        if function.engine != Some(engine.code()) {
            let wanted = function
                .engine
                .map_or_else(|| "no engine at all".to_owned(), |hash| format!("the JavaScript engine {hash}"));
            let message = format!(
                "the function {} is bound to {wanted}; this node has {}: bind it again with the caller's own version, or update one of both",
                function.name,
                engine.code()
            );
            return Err(bad_code(Fault::Caller, message));
        }
        let source = std::str::from_utf8(&function.bytes).map_err(|error| {
            let message = format!("the source of {} is not UTF-8: {error}", function.name);
            bad_code(Fault::Caller, message)
        })?;
        let mut ready = self.ready(engine)?;
        abi::put_load(&mut ready.event, &function.name, source);
        let outbox = ready.deliver(&self.runtime.limits, To::Load).await.map_err(|stop| {
            self.count_stop();
            stop.into_exception(&self.runtime.limits)
        })?;
        match outbox.end {
            Some(GuestEnd::Loaded) => {}
            Some(GuestEnd::Threw(exception)) => {
                if ready.reset(&self.runtime) {
                    self.keep(ready);
                }
                return Err(*exception);
            }
            _ => {
                let stop = Stop::abi("the engine neither loaded the function nor said why");
                return Err(stop.into_exception(&self.runtime.limits));
            }
        }
        let image = Arc::new(Image::new(
            self.next_image_id(),
            code,
            FunctionKind::JavaScript,
            &function.name,
            engine.code(),
            Arc::clone(&engine.prototype),
            ready.loaded(&self.runtime),
        ));
        ready.adopt(&image);
        self.keep(ready);
        Ok(image)
    }

    async fn load_module(self: &Arc<Self>, code: Hash, function: Function) -> Result<Arc<Image>, Exception> {
        let name = function.name.clone();
        let failed = |fault| match fault {
            prototype::Fault::Refused(refusal) => refused(&name, &refusal),
            prototype::Fault::Compile(error) => {
                let message = format!("the module {name} does not compile: {error}");
                bad_code(Fault::Guest, message)
            }
            prototype::Fault::Instantiate(error) => {
                let message = format!("the module {name} has no instance: {error}");
                bad_code(Fault::Guest, message)
            }
            prototype::Fault::Stopped(stop) => stop.into_exception(&self.runtime.limits),
        };
        let module = hash_of(&function.bytes);
        let compiled = self.compile(function).await?.map_err(failed)?;
        let seat = self.seat()?;
        let prototype = Prototype::new(&self.runtime, compiled).await.map_err(failed)?;
        drop(seat);
        let loaded = untouched(&prototype);
        Ok(Arc::new(Image::new(self.next_image_id(), code, FunctionKind::Wasm, &name, module, prototype, loaded)))
    }

    /// Compiles on a blocking thread. A compiler cannot be stopped: one that takes too long goes on and keeps its permit, so that hostile modules never occupy
    /// more threads than `compiles_max`. A module may wait for its turn as long as compiling may take; if the turn does not come, the module is not to blame.
    async fn compile(self: &Arc<Self>, function: Function) -> Result<Result<Compiled, prototype::Fault>, Exception> {
        let SandboxConfig { compile_wall_ms_max, compiles_max, .. } = self.config;
        let wall_max = Duration::from_millis(compile_wall_ms_max.into());
        let turn = tokio::time::timeout(wall_max, Arc::clone(&self.loading.compiles).acquire_owned()).await;
        let turn = turn.map_err(|_| overloaded("compiles_max", compiles_max as u64))?.map_err(node_fault)?;
        let inner = Arc::clone(self);
        let compiling = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            Compiled::new(&inner.runtime, &function.bytes, Role::Function)
        });
        let compiled = tokio::time::timeout(wall_max, compiling).await.map_err(|_| {
            let message = format!("compiling took longer than {compile_wall_ms_max} ms");
            limit_exceeded("compile_wall_ms_max", Some(message), &self.runtime.limits)
        });
        compiled?.map_err(node_fault)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use catena_wire::names;

    use super::*;
    use crate::Sandbox;

    #[tokio::test(start_paused = true)]
    async fn a_module_whose_turn_does_not_come_is_not_said_to_compile_slowly() {
        let sandbox = Sandbox::new(SandboxConfig::default()).unwrap();
        let inner = sandbox.inner();
        let _others = inner.loading.compiles.acquire().await.unwrap();
        let function = sandbox.function(FunctionKind::Wasm, "test", b"no module".to_vec());
        let refused = sandbox.load(function.hash(), &function.encode()).await.unwrap_err();
        assert_eq!((refused.name.as_str(), refused.fault), (names::OVERLOADED, Fault::Node), "{refused}");
        assert!(refused.message.contains("compiles_max"), "{refused}");
    }
}
