//! Loads functions into images: each once, and not too many at a time, of one owner and of all.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use catena_wire::{Exception, Fault, Hash};
use tokio::sync::{AcquireError, Mutex as Turns, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore, SetOnce};

use crate::{
    Function, FunctionKind, Image, Owner, SandboxConfig,
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

/// A load under way, which counts for whoever asked for it first.
struct Load {
    owner: Owner,
    image: SetOnce<Arc<Image>>,
    /// Held by the task that loads.
    making: Turns<()>,
}

/// Loads under way.
pub(crate) struct Loading {
    loads: Mutex<HashMap<Hash, Arc<Load>>>,
    max: usize,
    /// Of each owner one load at a time compiles or is next in line to. So an owner's load waits for no more than one compilation of each other owner.
    turns: Mutex<HashMap<Owner, Weak<Turns<()>>>>,
    compiles: Arc<Semaphore>,
}

/// A turn to compile.
type Turn = (OwnedMutexGuard<()>, OwnedSemaphorePermit);

/// A task that waits for a load. The last of them removes the entry, so that an abandoned load leaves nothing behind.
struct Waiting<'l> {
    loading: &'l Loading,
    code: Hash,
    load: Arc<Load>,
}

impl Loading {
    pub(crate) fn new(max: usize, compiles_max: usize) -> Self {
        let compiles = Arc::new(Semaphore::new(compiles_max.max(1)));
        Self { loads: Mutex::default(), max, turns: Mutex::default(), compiles }
    }

    fn wait(&self, code: Hash, owner: Owner) -> Result<Waiting<'_>, Exception> {
        let mut loads = lock(&self.loads);
        let load = match loads.get(&code) {
            Some(load) => Arc::clone(load),
            None => {
                let own = loads.values().filter(|load| load.owner == owner).count();
                if !owner.may_have(1, own as u64, loads.len() as u64, self.max as u64) {
                    return Err(overloaded("loads_max", self.max as u64));
                }
                let load = Arc::new(Load { owner, image: SetOnce::new(), making: Turns::default() });
                loads.insert(code, Arc::clone(&load));
                load
            }
        };
        Ok(Waiting { loading: self, code, load })
    }

    async fn turn(&self, owner: Owner) -> Result<Turn, AcquireError> {
        let own = self.turns_of(owner).lock_owned().await;
        Ok((own, Arc::clone(&self.compiles).acquire_owned().await?))
    }

    fn turns_of(&self, owner: Owner) -> Arc<Turns<()>> {
        let mut turns = lock(&self.turns);
        if let Some(own) = turns.get(&owner).and_then(Weak::upgrade) {
            return own;
        }
        turns.retain(|_, own| own.strong_count() > 0);
        let own = Arc::default();
        turns.insert(owner, Arc::downgrade(&own));
        own
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut loads = lock(&self.loading.loads);
        // Held by the entry and by this one.
        if Arc::strong_count(&self.load) <= 2 {
            loads.remove(&self.code);
        }
    }
}

impl Inner {
    pub(crate) async fn load(
        self: &Arc<Self>,
        code: Hash,
        encoded: &[u8],
        owner: Owner,
    ) -> Result<Arc<Image>, Exception> {
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
        let waiting = self.loading.wait(code, owner)?;
        tokio::select! {
            biased;
            image = waiting.load.image.wait() => Ok(Arc::clone(image)),
            made = self.make(code, function, &waiting.load, owner) => made,
        }
    }

    /// Loads the function, unless somebody else has done so when this owner's turn comes: nobody waits for the turns of an owner that asked for the same function
    /// before.
    async fn make(
        self: &Arc<Self>,
        code: Hash,
        function: Function,
        load: &Load,
        owner: Owner,
    ) -> Result<Arc<Image>, Exception> {
        let turn = match function.kind {
            FunctionKind::JavaScript => None,
            FunctionKind::Wasm => Some(self.turn(owner).await?),
        };
        let _making = load.making.lock().await;
        if let Some(image) = load.image.get() {
            return Ok(Arc::clone(image));
        }
        let image = match turn {
            None => self.load_source(code, &function, owner).await?,
            Some(turn) => self.load_module(code, function, turn, owner).await?,
        };
        self.insert(&image);
        let _ = load.image.set(Arc::clone(&image));
        Ok(image)
    }

    async fn load_source(&self, code: Hash, function: &Function, owner: Owner) -> Result<Arc<Image>, Exception> {
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
        let mut ready = self.ready(engine, owner)?;
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
        if ready.is_worth_keeping() {
            self.keep(ready);
        }
        Ok(image)
    }

    async fn load_module(
        self: &Arc<Self>,
        code: Hash,
        function: Function,
        turn: Turn,
        owner: Owner,
    ) -> Result<Arc<Image>, Exception> {
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
        let compiled = self.compile(function, turn).await?.map_err(failed)?;
        let (place, seat) = (self.place(owner)?, self.seat()?);
        let prototype = Prototype::new(&self.runtime, compiled, Some(Arc::clone(&place))).await.map_err(failed)?;
        drop((seat, place));
        let loaded = untouched(&prototype);
        Ok(Arc::new(Image::new(self.next_image_id(), code, FunctionKind::Wasm, &name, module, prototype, loaded)))
    }

    /// A module may wait for its turn to be compiled as long as compiling may take; if the turn does not come, the module is not to blame.
    async fn turn(&self, owner: Owner) -> Result<Turn, Exception> {
        let SandboxConfig { compiles_max, .. } = self.config;
        let turn = tokio::time::timeout(self.compile_wall_max(), self.loading.turn(owner)).await;
        turn.map_err(|_| overloaded("compiles_max", compiles_max as u64))?.map_err(node_fault)
    }

    fn compile_wall_max(&self) -> Duration {
        Duration::from_millis(self.config.compile_wall_ms_max.into())
    }

    /// Compiles on a blocking thread. A compiler cannot be stopped: one that takes too long goes on and keeps its turn, so that hostile modules never occupy
    /// more threads than `compiles_max`, and those of one owner no more than one.
    async fn compile(
        self: &Arc<Self>,
        function: Function,
        turn: Turn,
    ) -> Result<Result<Compiled, prototype::Fault>, Exception> {
        let inner = Arc::clone(self);
        let compiling = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            Compiled::new(&inner.runtime, &function.bytes, Role::Function)
        });
        let compiled = tokio::time::timeout(self.compile_wall_max(), compiling).await.map_err(|_| {
            let SandboxConfig { compile_wall_ms_max, .. } = self.config;
            let message = format!("compiling took longer than {compile_wall_ms_max} ms");
            limit_exceeded("compile_wall_ms_max", Some(message), &self.runtime.limits)
        });
        compiled?.map_err(node_fault)
    }
}

#[cfg(test)]
#[path = "loading_tests.rs"]
mod tests;
