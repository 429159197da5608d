//! The sandbox: loads functions once, keeps instances ready, begins and resumes sessions.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use catena_wire::{Exception, Hash};

use crate::{
    Function, FunctionKind, Image, Owner, PageFinder, SandboxConfig, SandboxError, Session,
    admission::Role,
    cache::Images,
    continuation::Checked,
    error::{bad_continuation, limit_exceeded, overloaded},
    explicit::Explicit,
    function::hash_of,
    image::Loaded,
    kept::Kept,
    loading::Loading,
    prototype::{Compiled, Prototype},
    ready::Ready,
    runtime::Runtime,
    seats::{Place, Seat, Seats},
    warm::Warm,
};

/// The JavaScript engine that ships with this build: a guest of the same ABI as any other.
static ENGINE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/engine.wasm"));

/// Where functions run. Cheap to clone; all clones are one sandbox.
#[derive(Clone)]
pub struct Sandbox(Arc<Inner>, Owner);

/// Counts for people and tests: either current, or since the sandbox was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SandboxStats {
    /// Functions kept loaded.
    pub images: usize,
    /// What keeping them costs, in bytes: see [`Image::len_bytes`].
    pub images_bytes: u64,
    /// Instances kept ready.
    pub warm_instances: usize,
    /// All instances: ready or in sessions.
    pub instances: u32,
    /// Functions loaded.
    pub loads: u64,
    /// Sessions that found a ready instance of their function.
    pub warm_hits: u64,
    /// Sessions that took over a ready instance of another function of the same engine.
    pub warm_converted: u64,
    /// Sessions for which an instance was made.
    pub warm_misses: u64,
    /// Sessions that broke a limit, trapped, or broke the ABI.
    pub guests_stopped: u64,
    /// How changed pages are found on this machine.
    pub page_finder: PageFinder,
}

/// What the clones share.
pub(crate) struct Inner {
    pub(crate) config: SandboxConfig,
    pub(crate) loading: Loading,
    pub(crate) engine: Arc<Image>,
    images: Mutex<Images>,
    warm: Mutex<Warm>,
    seats: Arc<Seats>,
    images_made: AtomicU64,
    loads: AtomicU64,
    warm_hits: AtomicU64,
    warm_converted: AtomicU64,
    warm_misses: AtomicU64,
    guests_stopped: AtomicU64,
    // Last, so that no instance outlives the engine's pool.
    pub(crate) runtime: Runtime,
}

impl Sandbox {
    /// Starts the runtime and loads the JavaScript engine: takes milliseconds if the compiled engine is in [`SandboxConfig::cache_dir`], else seconds.
    ///
    /// # Errors
    /// See [`SandboxError`].
    pub fn new(config: SandboxConfig) -> Result<Self, SandboxError> {
        let runtime = Runtime::new(&config)?;
        let unusable = |fault| SandboxError::Engine(format!("{fault:?}"));
        let compiled = Compiled::new(&runtime, ENGINE, Role::Engine).map_err(unusable)?;
        let prototype = finish(Prototype::new(&runtime, compiled, None)).map_err(unusable)?;
        let hash = hash_of(ENGINE);
        let engine = Image::new(
            0,
            hash,
            FunctionKind::JavaScript,
            "engine",
            hash,
            Arc::clone(&prototype),
            untouched(&prototype),
        );
        let inner = Inner {
            loading: Loading::new(config.loads_max, config.compiles_max),
            engine: Arc::new(engine),
            images: Mutex::new(Images::new(config.images_max, config.images_bytes_max)),
            warm: Mutex::new(Warm::new(config.warm_instances_max)),
            seats: Seats::new(config.instances_max, runtime.memory.limit().1),
            images_made: AtomicU64::new(1),
            loads: AtomicU64::new(0),
            warm_hits: AtomicU64::new(0),
            warm_converted: AtomicU64::new(0),
            warm_misses: AtomicU64::new(0),
            guests_stopped: AtomicU64::new(0),
            config,
            runtime,
        };
        Ok(Self(Arc::new(inner), Owner::Own))
    }

    /// The same sandbox, whose loads and sessions count for `owner`. Of [`Sandbox::new`], they count for [`Owner::Own`].
    #[must_use]
    pub fn on_behalf_of(&self, owner: Owner) -> Self {
        Self(Arc::clone(&self.0), owner)
    }

    /// A function as this sandbox would run it: JavaScript is bound to this build's engine.
    #[must_use]
    pub fn function(&self, kind: FunctionKind, name: &str, bytes: impl Into<Bytes>) -> Function {
        Function {
            kind,
            engine: (kind == FunctionKind::JavaScript).then(|| self.engine_hash()),
            name: name.to_owned(),
            bytes: bytes.into(),
        }
    }

    /// BLAKE3 of the JavaScript engine: functions bound to any other are refused.
    #[must_use]
    pub fn engine_hash(&self) -> Hash {
        self.0.engine.code()
    }

    /// The function, if it is loaded.
    #[must_use]
    pub fn loaded(&self, code: Hash) -> Option<Arc<Image>> {
        lock(&self.0.images).get(code)
    }

    /// Loads the function whose encoding ([`Function::encode`]) has the hash `code`. Concurrent calls for the same function load it once. Must be called in a
    /// tokio runtime with time enabled, since modules are compiled on a blocking thread.
    ///
    /// # Errors
    /// `BadCode`: the bytes do not match the hash, are of no known kind or of another engine, or are a module that cannot travel (the message says why). A
    /// `SyntaxError` with line and column, or whatever else the source threw. `LimitExceeded`, `Overloaded`.
    pub async fn load(&self, code: Hash, encoded: &[u8]) -> Result<Arc<Image>, Exception> {
        if let Some(image) = self.loaded(code) {
            return Ok(image);
        }
        self.0.load(code, encoded, self.1).await
    }

    /// A session of the function, not yet started.
    ///
    /// # Errors
    /// `Overloaded`, if all instances that this sandbox may have are in use.
    #[expect(clippy::unused_async, reason = "callers must not depend on its never waiting")]
    pub async fn begin(&self, image: &Arc<Image>) -> Result<Session, Exception> {
        Ok(Session::new(Arc::clone(&self.0), self.0.ready(image, self.1)?))
    }

    /// A session that resumes from a continuation of this image.
    ///
    /// # Errors
    /// `BadContinuation`, with the reason, if it is malformed: then nothing was written. Else as [`Sandbox::begin`].
    #[expect(clippy::unused_async, reason = "callers must not depend on its never waiting")]
    pub async fn resume(&self, image: &Arc<Image>, continuation: &[u8]) -> Result<Session, Exception> {
        let inner = &self.0;
        let limits = &inner.runtime.limits;
        if continuation.len() > limits.continuation_bytes_max as usize {
            return Err(limit_exceeded("continuation_bytes_max", None, limits));
        }
        if image.is_explicit() {
            let explicit = Explicit::decode(image.digest, continuation).map_err(bad_continuation)?;
            let session = Session::new(Arc::clone(inner), inner.ready(image, self.1)?);
            return Ok(session.resumed_explicit(explicit));
        }
        let shape = image.shape(inner.runtime.memory_pages_max());
        let checked = Checked::new(&shape, continuation).map_err(bad_continuation)?;
        let mut ready = inner.ready(image, self.1)?;
        ready.lay(&checked)?;
        Ok(Session::new(Arc::clone(inner), ready))
    }

    /// Current counts of this sandbox.
    #[must_use]
    pub fn stats(&self) -> SandboxStats {
        let inner = &self.0;
        let (images, images_bytes) = {
            let images = lock(&inner.images);
            (images.len(), images.bytes())
        };
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        SandboxStats {
            images,
            images_bytes,
            warm_instances: lock(&inner.warm).len(),
            instances: inner.seats.taken(),
            loads: count(&inner.loads),
            warm_hits: count(&inner.warm_hits),
            warm_converted: count(&inner.warm_converted),
            warm_misses: count(&inner.warm_misses),
            guests_stopped: count(&inner.guests_stopped),
            page_finder: inner.runtime.pages.finder(),
        }
    }
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Sandbox").field(&self.stats()).finish()
    }
}

impl Inner {
    /// An instance of the image in its base state, for this owner.
    pub(crate) fn ready(&self, image: &Arc<Image>, owner: Owner) -> Result<Box<Ready>, Exception> {
        self.kept_or_new(image, Some(self.place(owner)?))
    }

    pub(crate) fn place(&self, owner: Owner) -> Result<Arc<Place>, Exception> {
        self.seats.place(owner).ok_or_else(|| self.no_seat())
    }

    /// One kept ready, else a new one, to be used in this place.
    pub(crate) fn kept_or_new(&self, image: &Arc<Image>, place: Option<Arc<Place>>) -> Result<Box<Ready>, Exception> {
        let kept = lock(&self.warm).take(image.id);
        if let Some(mut ready) = kept {
            self.warm_hits.fetch_add(1, Ordering::Relaxed);
            ready.set_place(place);
            return Ok(ready);
        }
        // If no more may be kept, the least recently used would be evicted anyway. Laying another function over it takes a few microseconds, while a new
        // instance begins with a page fault for each page that it changes.
        if let Some(mut ready) = take_other(&self.warm, image)
            && ready.convert(image)
        {
            self.warm_converted.fetch_add(1, Ordering::Relaxed);
            ready.set_place(place);
            return Ok(ready);
        }
        self.warm_misses.fetch_add(1, Ordering::Relaxed);
        Ready::new(&self.runtime, image, self.seat()?, place).map(Box::new)
    }

    /// Room for one more instance: without a seat, the pool may have none.
    pub(crate) fn seat(&self) -> Result<Seat, Exception> {
        loop {
            if let Some(seat) = self.seats.take() {
                return Ok(seat);
            }
            // Evicts the least recently used; it is dropped before a seat is tried again.
            if evict(&self.warm).is_none() {
                return Err(self.no_seat());
            }
        }
    }

    fn no_seat(&self) -> Exception {
        overloaded("instances_max", self.config.instances_max.into())
    }

    /// Keeps an instance that is in its image's base state, and worth keeping.
    pub(crate) fn keep(&self, mut ready: Box<Ready>) {
        // Until it is kept: whoever is given the place next finds a seat.
        let _place = ready.set_place(None);
        // The last user may have had lower limits than the next.
        ready.limit(&self.runtime.limits);
        let one_too_many = lock(&self.warm).put(ready);
        // Dropped after the lock is released.
        drop(one_too_many);
    }

    /// Keeps a loaded function.
    pub(crate) fn insert(&self, image: &Arc<Image>) {
        self.loads.fetch_add(1, Ordering::Relaxed);
        let gone = lock(&self.images).insert(Arc::clone(image));
        for image in gone {
            drop(forget(&self.warm, image.id));
        }
    }

    pub(crate) fn next_image_id(&self) -> u64 {
        self.images_made.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn count_stop(&self) {
        self.guests_stopped.fetch_add(1, Ordering::Relaxed);
    }
}

// These release the lock before the caller uses or drops what they return.
fn take_other(warm: &Mutex<Warm>, image: &Arc<Image>) -> Option<Box<Ready>> {
    lock(warm).take_other(image)
}

fn evict(warm: &Mutex<Warm>) -> Option<Box<Ready>> {
    lock(warm).evict()
}

fn forget(warm: &Mutex<Warm>, image: u64) -> Vec<(u64, Box<Ready>)> {
    lock(warm).forget(image)
}

/// The data behind these locks are consistent between any two statements, so a panic elsewhere does no harm.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The image of a module into which nothing was loaded.
pub(crate) fn untouched(prototype: &Prototype) -> Loaded {
    Loaded { kept: Kept::default(), globals: prototype.globals.clone(), memory_pages: prototype.memory_pages }
}

/// Runs a future that only yields to others, in a place where there are none.
fn finish<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    loop {
        if let std::task::Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
    }
}
#[cfg(test)]
impl Sandbox {
    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.0
    }
}
