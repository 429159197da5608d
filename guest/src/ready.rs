//! An instance of an image: prepared, run, compared with the image, and reset to it.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use catena_wire::Exception;

use crate::{
    abi::Outbox,
    base::Patched,
    continuation::{self, Checked, WASM_PAGE_BYTES},
    difference::{Difference, compare, restore, restore_scratch},
    error::{Stop, node_fault},
    image::{Image, Loaded},
    instance::{Instance, To, Unready},
    kept::Kept,
    limits::Limits,
    prototype::Prototype,
    runtime::Runtime,
    seats::{Place, Seat},
};

/// Pages compared in one go, which takes about a millisecond; then other tasks get their turn. An instance that has changed more pages is not kept, since it
/// holds 4 MiB, and each reset would compare them all.
const PAGES_AT_ONCE: usize = 1_024;
/// The minimum cost of a run in addition to its bytes.
const RUN_BYTES: usize = 2;

/// An instance of an image.
pub(crate) struct Ready {
    pub(crate) image: Arc<Image>,
    instance: Instance,
    patched: Arc<Patched>,
    /// Those that may differ from the image, as last found; kept from one use to the next.
    pages: Vec<u32>,
    /// Kept from one use to the next, so that it grows only once.
    found: Difference,
    pub(crate) event: Vec<u8>,
    // Declared after the instance, so that the instance's place in the pool is free before the seat is.
    _seat: Seat,
    /// In the share of whoever uses it: nobody, while it is kept ready. After the seat, so that whoever is given the place finds one.
    place: Option<Arc<Place>>,
}

impl Ready {
    /// An instance in the image's base state.
    pub(crate) fn new(
        runtime: &Runtime,
        image: &Arc<Image>,
        seat: Seat,
        place: Option<Arc<Place>>,
    ) -> Result<Self, Exception> {
        let failed = |error: wasmtime::Error| node_fault(format!("no instance of {}: {error:#}", image.name()));
        let unready = |why: Unready| why.into_exception(failed);
        let mut instance = Instance::new(runtime, &image.prototype.compiled, place.clone()).map_err(unready)?;
        instance.grow_to(image.memory_pages).map_err(unready)?;
        if !image.kept.bytes().is_empty() {
            image.kept.lay(instance.memory_mut());
            instance.set_globals(image.globals.iter().copied()).map_err(failed)?;
        }
        Ok(Self {
            patched: image.patched(),
            image: Arc::clone(image),
            instance,
            pages: Vec::new(),
            found: Difference::default(),
            event: Vec::new(),
            _seat: seat,
            place,
        })
    }

    /// Delivers the event that was encoded into `event`.
    pub(crate) async fn deliver(&mut self, limits: &Limits, to: To) -> Result<Outbox, Stop> {
        self.instance.deliver(&self.image.prototype, to, &self.event, limits).await
    }

    /// The instance is used in this place from now on; returns the one in which it was used before.
    pub(crate) fn set_place(&mut self, place: Option<Arc<Place>>) -> Option<Arc<Place>> {
        self.instance.set_place(place.clone());
        std::mem::replace(&mut self.place, place)
    }

    /// Sets the limits of whoever runs in the instance next. `false`: it already holds more memory than that.
    pub(crate) fn limit(&mut self, limits: &Limits) -> bool {
        self.instance.limit(limits);
        u64::from(self.instance.memory_pages()) * WASM_PAGE_BYTES <= limits.memory_bytes_max
    }

    /// Lays a continuation, which was checked against this image's shape, over the base state.
    pub(crate) fn lay(&mut self, checked: &Checked<'_>) -> Result<(), Exception> {
        let failed = |error: wasmtime::Error| node_fault(format!("{error:#}"));
        self.instance.grow_to(checked.memory_pages).map_err(|why| why.into_exception(failed))?;
        checked.lay(self.instance.memory_mut());
        self.instance.set_globals(checked.globals()).map_err(failed)
    }

    /// Takes from the node's budget what the guest has written until now, before it waits.
    pub(crate) fn charge(&mut self, runtime: &Runtime) -> Result<(), Stop> {
        self.instance.find(&runtime.pages, &mut self.pages);
        self.instance.charge(&self.pages)
    }

    /// Finds the pages that may differ from the image.
    fn find(&mut self, runtime: &Runtime) {
        self.found.runs.clear();
        self.found.bytes = 0;
        self.instance.find(&runtime.pages, &mut self.pages);
    }

    /// Finds what differs from the image in a part of the pages found. `false`: the differences in all parts so far exceed `bytes_max`.
    fn compare(&mut self, part: Range<usize>, bytes_max: u64) -> bool {
        compare(
            self.instance.memory(),
            self.pages.get(part).unwrap_or_default(),
            &self.image.expected(&self.patched),
            &self.image.prototype.scratch,
            bytes_max,
            &mut self.found,
        )
    }

    /// The continuation. Afterwards the instance must be [`reset`](Self::reset_compared) or dropped; after an error, dropped.
    pub(crate) async fn continuation(&mut self, runtime: &Runtime, limits: &Limits) -> Result<Bytes, Stop> {
        let bytes_max = limits.continuation_bytes_max as usize;
        let too_large = || Stop::limit("continuation_bytes_max");
        self.find(runtime);
        for start in (0..self.pages.len()).step_by(PAGES_AT_ONCE) {
            if start > 0 {
                tokio::task::yield_now().await;
            }
            let end = self.pages.len().min(start + PAGES_AT_ONCE);
            if !self.compare(start..end, bytes_max as u64) {
                return Err(too_large());
            }
        }
        let least = self.found.bytes as usize + self.found.runs.len() * RUN_BYTES;
        if least > bytes_max {
            return Err(too_large());
        }
        let mut out = Vec::with_capacity(least + self.found.runs.len() + self.image.globals.len() * 8 + 64);
        let memory_pages = self.instance.memory_pages();
        continuation::put_head(&mut out, self.image.digest, memory_pages, self.instance.globals());
        continuation::put_runs(&mut out, &self.found.runs, self.instance.memory());
        if out.len() > bytes_max {
            return Err(too_large());
        }
        Ok(out.into())
    }

    /// Restores the image's bytes where [`continuation`](Self::continuation) found others. `false`: that is impossible or not worth it, and the instance must
    /// be dropped.
    pub(crate) fn reset_compared(&mut self) -> bool {
        if !self.is_worth_keeping() {
            return false;
        }
        let (memory, expected) = (self.instance.found_memory_mut(), self.image.expected(&self.patched));
        restore_scratch(memory, &self.pages, &expected, &self.image.prototype.scratch);
        restore(memory, &self.found.runs, &expected);
        self.instance.set_globals(self.image.globals.iter().copied()).is_ok()
    }

    /// Resets the instance to the image's base state, whatever ran in it. `false`: see [`reset_compared`](Self::reset_compared).
    pub(crate) fn reset(&mut self, runtime: &Runtime) -> bool {
        self.find(runtime);
        self.is_worth_keeping() && self.compare(0..self.pages.len(), u64::MAX) && self.reset_compared()
    }

    /// Whether it can be reset, at little cost now and for later users.
    pub(crate) fn is_worth_keeping(&self) -> bool {
        // Memory never shrinks; and what is kept ready takes nothing that guests in use may need.
        self.pages.len() <= PAGES_AT_ONCE
            && self.instance.is_free(&self.pages)
            && self.instance.memory_pages() == self.image.memory_pages
    }

    /// Turns this instance, which must be in its image's base state, into one of another function of the same engine.
    pub(crate) fn convert(&mut self, image: &Arc<Image>) -> bool {
        let memory = self.instance.memory_mut();
        self.image.kept.clear(memory, &image.prototype.base);
        image.kept.lay(memory);
        self.adopt(image);
        self.instance.set_globals(image.globals.iter().copied()).is_ok()
    }

    /// The changes that loading a function made in this instance of an engine.
    pub(crate) fn loaded(&mut self, runtime: &Runtime) -> Loaded {
        self.find(runtime);
        let Prototype { base, scratch, .. } = &*self.image.prototype;
        restore_scratch(self.instance.found_memory_mut(), &self.pages, base, scratch);
        Loaded {
            kept: Kept::new(self.instance.memory(), &self.pages, base),
            globals: self.instance.globals().collect(),
            memory_pages: self.instance.memory_pages(),
        }
    }

    /// Turns this instance, in which `image` was just loaded and compared, into one of `image`.
    pub(crate) fn adopt(&mut self, image: &Arc<Image>) {
        self.patched = image.patched();
        self.image = Arc::clone(image);
    }

    #[cfg(test)]
    pub(crate) fn instance(&mut self) -> &mut Instance {
        &mut self.instance
    }
}
