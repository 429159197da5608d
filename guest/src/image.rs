//! A function, loaded and not yet started: the same bytes on every node that loads it.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use catena_wire::Hash;

use crate::{
    FunctionKind,
    base::{Patched, Reset},
    cache::ENTRY_BYTES,
    continuation::{DIGEST_BYTES, Shape},
    kept::Kept,
    prototype::Prototype,
};

/// A loaded function. Its instances start from this state, and its continuations are differences from it.
pub struct Image {
    /// Unique in this process.
    pub(crate) id: u64,
    code: Hash,
    kind: FunctionKind,
    name: String,
    pub(crate) prototype: Arc<Prototype>,
    /// The changes that loading made to the prototype's memory.
    pub(crate) kept: Kept,
    /// The mutable globals' bits after loading.
    pub(crate) globals: Box<[u64]>,
    /// Size of the memory after loading, in pages of 64 KiB.
    pub(crate) memory_pages: u32,
    pub(crate) digest: [u8; DIGEST_BYTES],
    patched: Mutex<Weak<Patched>>,
}

/// The result of loading in an instance.
pub(crate) struct Loaded {
    pub(crate) kept: Kept,
    pub(crate) globals: Box<[u64]>,
    pub(crate) memory_pages: u32,
}

impl Image {
    /// `module` is the hash of the module from which `prototype` was compiled.
    pub(crate) fn new(
        id: u64,
        code: Hash,
        kind: FunctionKind,
        name: &str,
        module: Hash,
        prototype: Arc<Prototype>,
        loaded: Loaded,
    ) -> Self {
        let digest = digest(module, &loaded);
        Self {
            id,
            code,
            kind,
            name: name.to_owned(),
            prototype,
            kept: loaded.kept,
            globals: loaded.globals,
            memory_pages: loaded.memory_pages,
            digest,
            patched: Mutex::default(),
        }
    }

    /// The hash by which it was loaded.
    #[must_use]
    pub const fn code(&self) -> Hash {
        self.code
    }

    /// Kind of code.
    #[must_use]
    pub const fn kind(&self) -> FunctionKind {
        self.kind
    }

    /// The function's name, as stack traces show it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the function passes on its state itself, so that no memory travels.
    #[must_use]
    pub fn is_explicit(&self) -> bool {
        self.prototype.compiled.admitted.explicit
    }

    /// Identifies the image in continuations: the first bytes of BLAKE3 over the module and all that loading changed.
    #[must_use]
    pub const fn digest(&self) -> [u8; DIGEST_BYTES] {
        self.digest
    }

    /// What keeping the image costs, in bytes, including its cache entry and what remains of instances that are gone. For JavaScript this is without the
    /// engine, which all images share. Memory of living instances is not included:
    /// [`SandboxConfig::warm_instances_max`](crate::SandboxConfig::warm_instances_max) bounds it.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        /// The reference counts of a shared allocation.
        const SHARED_BYTES: usize = 2 * size_of::<usize>();
        let blocks = size_of::<Self>() + size_of::<Patched>() + 2 * SHARED_BYTES + ENTRY_BYTES;
        let own = blocks + self.name.len() + self.kept.bytes().len() + self.globals.len() * 8;
        match self.kind {
            FunctionKind::JavaScript => own,
            FunctionKind::Wasm => own + self.prototype.len_bytes(),
        }
    }

    /// What a continuation of this image must fit.
    pub(crate) fn shape(&self, memory_pages_max: u32) -> Shape<'_> {
        Shape {
            digest: self.digest,
            memory_pages: self.memory_pages,
            memory_pages_max,
            globals_wide: &self.prototype.compiled.admitted.globals_wide,
            scratch: &self.prototype.scratch,
        }
    }

    /// The whole pages that loading changed, shared by all living instances.
    pub(crate) fn patched(&self) -> Arc<Patched> {
        let mut held = self.patched.lock().unwrap_or_else(PoisonError::into_inner);
        held.upgrade().unwrap_or_else(|| {
            let patched = Arc::new(Patched::new(&self.prototype.base, &self.kept));
            *held = Arc::downgrade(&patched);
            patched
        })
    }

    /// The bytes that an instance must hold after a reset.
    pub(crate) fn expected<'a>(&'a self, patched: &'a Patched) -> Reset<'a> {
        Reset { base: &self.prototype.base, patched }
    }
}

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Image").field("code", &self.code).field("name", &self.name).finish_non_exhaustive()
    }
}

fn digest(module: Hash, loaded: &Loaded) -> [u8; DIGEST_BYTES] {
    let mut hasher = blake3::Hasher::new_derive_key("catena 2026-11 guest image");
    hasher.update(&module.0);
    hasher.update(&loaded.memory_pages.to_le_bytes());
    for bits in &loaded.globals {
        hasher.update(&bits.to_le_bytes());
    }
    hasher.update(loaded.kept.bytes());
    let mut digest = [0; DIGEST_BYTES];
    hasher.finalize_xof().fill(&mut digest);
    digest
}
