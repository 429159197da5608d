//! One guest in its store: events in, events out.

use catena_wire::Exception;
use std::{ops::Range, sync::Arc};
use wasmtime::{Extern, Global, Memory, Store, TypedFunc, Val};

use crate::{
    abi::{self, GuestEnd, Outbox},
    error::Stop,
    host::Host,
    last_words,
    limits::Limits,
    pages::{Pages, Watch},
    prototype::{Compiled, Exports, Prototype},
    runtime::Runtime,
    scratch::Scratch,
    seats::Place,
};

type Entry = TypedFunc<(u32, u32), u64>;

/// Which of the guest's functions receives an event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum To {
    Start,
    Resume,
    Step,
    Load,
}

impl To {
    /// The names of the exported functions, in the order of the variants.
    pub(crate) const EXPORTS: [&str; 4] = ["catena_start", "catena_resume", "catena_step", "catena_load"];
}

/// A guest that can be called.
pub(crate) struct Instance {
    store: Store<Host>,
    memory: Memory,
    /// Tracks who writes to the memory.
    watch: Watch,
    globals: Vec<Global>,
    alloc: TypedFunc<u32, u32>,
    /// Indexed by [`To`].
    entries: [Option<Entry>; To::EXPORTS.len()],
    settle: Option<TypedFunc<(), ()>>,
    scratch: Option<TypedFunc<(), u32>>,
    inbox: Option<TypedFunc<(), u64>>,
    place: Option<TypedFunc<(), u64>>,
    last_words: Option<TypedFunc<(), u64>>,
}

/// Why there is no instance, or none of this size.
pub(crate) enum Unready {
    /// The node has no memory left for it.
    Full(Stop),
    Broken(wasmtime::Error),
}

impl Unready {
    /// What the host says about the failure comes first: the failure is the module's or this build's only if there was memory.
    fn new(error: wasmtime::Error, host: &Host) -> Self {
        full(host).map_or(Self::Broken(error), Self::Full)
    }

    pub(crate) fn into_exception(self, broken: impl FnOnce(wasmtime::Error) -> Exception) -> Exception {
        match self {
            Self::Full(stop) => stop.into_exception(&Limits::default()),
            Self::Broken(error) => broken(error),
        }
    }
}

/// The stop reason if the guest was refused memory that its own limit allows.
fn full(host: &Host) -> Option<Stop> {
    let (limit, max) = host.memory.limit();
    host.node_full.then(|| Stop::Full { limit: limit.to_owned(), max })
}

impl Instance {
    /// An untouched instance.
    pub(crate) fn new(runtime: &Runtime, compiled: &Compiled, place: Option<Arc<Place>>) -> Result<Self, Unready> {
        let mut store = runtime.store(place);
        match compiled.pre.instantiate(&mut store) {
            Ok(instance) => Self::of(store, instance, &compiled.exports).map_err(Unready::Broken),
            Err(error) => Err(Unready::new(error, store.data())),
        }
    }

    fn of(mut store: Store<Host>, instance: wasmtime::Instance, exports: &Exports) -> wasmtime::Result<Self> {
        let mut look = Look { instance, store: &mut store };
        let mut entries = [const { None }; To::EXPORTS.len()];
        for (entry, export) in entries.iter_mut().zip(&exports.entries) {
            *entry = look.function(export.as_ref())?;
        }
        let memory = look.export(&exports.memory).and_then(Extern::into_memory).ok_or_else(missing)?;
        look.store.data_mut().guest_memory = Some(memory);
        Ok(Self {
            watch: Watch::default(),
            memory,
            globals: exports
                .globals
                .iter()
                .map(|export| look.export(export).and_then(Extern::into_global))
                .collect::<Option<_>>()
                .ok_or_else(missing)?,
            alloc: look.function(Some(&exports.alloc))?.ok_or_else(missing)?,
            entries,
            settle: look.function(exports.settle.as_ref())?,
            scratch: look.function(exports.scratch.as_ref())?,
            inbox: look.function(exports.inbox.as_ref())?,
            place: look.function(exports.place.as_ref())?,
            last_words: look.function(exports.last_words.as_ref())?,
            store,
        })
    }

    /// Sets the limits of whoever runs in the instance next.
    pub(crate) fn limit(&mut self, limits: &Limits) {
        self.store.data_mut().limit(limits);
    }

    /// See [`Host::set_place`].
    pub(crate) fn set_place(&mut self, place: Option<Arc<Place>>) {
        self.store.data_mut().set_place(place);
    }

    pub(crate) fn memory(&self) -> &[u8] {
        self.memory.data(&self.store)
    }

    pub(crate) fn memory_mut(&mut self) -> &mut [u8] {
        self.watch.touch();
        self.memory.data_mut(&mut self.store)
    }

    /// The memory, for a caller that writes only to pages that [`find`](Self::find) found.
    pub(crate) fn found_memory_mut(&mut self) -> &mut [u8] {
        self.memory.data_mut(&mut self.store)
    }

    /// Updates `found`, the result of the last call, to the pages that may differ from the image.
    pub(crate) fn find(&mut self, pages: &Pages, found: &mut Vec<u32>) {
        pages.find(self.memory.data(&self.store), &mut self.watch, found);
    }

    /// Takes from the node's budget what the guest has written, which are these pages.
    pub(crate) fn charge(&mut self, written: &[u32]) -> Result<(), Stop> {
        self.store.data_mut().charge(written);
        full(self.store.data()).map_or(Ok(()), Err)
    }

    /// Whether nothing is taken from the node's budget for these pages.
    pub(crate) fn is_free(&self, written: &[u32]) -> bool {
        self.store.data().is_free(written)
    }

    /// The size of the memory in pages of 64 KiB.
    pub(crate) fn memory_pages(&self) -> u32 {
        u32::try_from(self.memory.size(&self.store)).unwrap_or(u32::MAX)
    }

    /// Grows the memory to `pages` of 64 KiB, unless it is that large.
    pub(crate) fn grow_to(&mut self, pages: u32) -> Result<(), Unready> {
        let more = u64::from(pages).saturating_sub(self.memory.size(&self.store));
        if more > 0
            && let Err(error) = self.memory.grow(&mut self.store, more)
        {
            return Err(Unready::new(error, self.store.data()));
        }
        Ok(())
    }

    /// The mutable globals' bits.
    pub(crate) fn globals(&mut self) -> impl ExactSizeIterator<Item = u64> {
        let store = &mut self.store;
        self.globals.iter().map(move |global| match global.get(&mut *store) {
            // Signedness does not matter for bits, and the upper half of a 32-bit value is zero.
            Val::I32(value) => u64::from(value.cast_unsigned()),
            Val::F32(bits) => u64::from(bits),
            Val::I64(value) => value.cast_unsigned(),
            Val::F64(bits) => bits,
            // Such globals are not admitted.
            _ => 0,
        })
    }

    /// Sets the mutable globals.
    pub(crate) fn set_globals(&mut self, bits: impl Iterator<Item = u64>) -> wasmtime::Result<()> {
        for (global, bits) in self.globals.iter().zip(bits) {
            let held = global.get(&mut self.store);
            // Narrow values were checked to fit.
            let value = match held {
                Val::I32(_) => Val::I32((bits as u32).cast_signed()),
                Val::F32(_) => Val::F32(bits as u32),
                Val::I64(_) => Val::I64(bits.cast_signed()),
                _ => Val::F64(bits),
            };
            global.set(&mut self.store, value)?;
        }
        Ok(())
    }

    /// Delivers `event` to an instance of `prototype`, and returns the guest's outbox.
    pub(crate) async fn deliver(
        &mut self,
        prototype: &Prototype,
        to: To,
        event: &[u8],
        limits: &Limits,
    ) -> Result<Outbox, Stop> {
        Runtime::rearm(&mut self.store);
        let clock = self.store.data().clock.clone();
        // If the step is abandoned, nothing is known of the memory that it leaves.
        let mut watch = std::mem::take(&mut self.watch);
        let step = async {
            let result = self.exchange(prototype, to, event, limits).await;
            if let Some(full) = full(self.store.data()) {
                return Err(full);
            }
            let broken = self.store.data().memory_broken;
            match result {
                Ok(Outbox { end: Some(GuestEnd::Limit { limit, message, line, column }), .. }) => {
                    Err(Stop::Limit { limit, message: Some(message), line, column })
                }
                // Whether the guest coped with less memory or failed because of it, it asked for more than it may have.
                Ok(_) | Err(Stop::Trap { .. } | Stop::Abi(_)) if broken => {
                    Err(self.stop_at_place("memory_bytes_max").await)
                }
                Err(Stop::Limit { limit, line: 0, .. }) => Err(self.stop_at_place(&limit).await),
                Err(Stop::Trap { what, .. }) => {
                    let packed = self.ask_stopped(self.last_words.clone()).await;
                    Err(Stop::Trap {
                        what,
                        last_words: packed.and_then(|packed| last_words::read(self.memory(), packed)),
                    })
                }
                result => result,
            }
        };
        let watched = watch.over(clock.run(step)).await;
        self.watch = watch;
        watched
    }

    /// The guest broke a limit without reporting it: asks where it is.
    async fn stop_at_place(&mut self, limit: &str) -> Stop {
        let packed = self.ask_stopped(self.place.clone()).await.unwrap_or(0);
        Stop::Limit { limit: limit.to_owned(), message: None, line: (packed >> 32) as u32, column: packed as u32 }
    }

    /// Asks a guest that was stopped at an arbitrary point, so it may not be able to answer. Its instance is dropped in any case, so its limits need not be
    /// restored.
    async fn ask_stopped(&mut self, what: Option<TypedFunc<(), u64>>) -> Option<u64> {
        self.store.data_mut().end_time();
        Runtime::rearm(&mut self.store);
        what?.call_async(&mut self.store, ()).await.ok()
    }

    /// One event in, one outbox out; enters the guest once, unless either is larger than its fixed place.
    async fn exchange(&mut self, prototype: &Prototype, to: To, event: &[u8], limits: &Limits) -> Result<Outbox, Stop> {
        let entry = self.entries.get(to as usize).and_then(Option::as_ref);
        let entry = entry.ok_or_else(|| Stop::abi("it does not take this event"))?;
        let stopped = |error: wasmtime::Error| Stop::of_call(&error);
        let length = u32::try_from(event.len()).map_err(Stop::abi)?;
        let inbox = &prototype.inbox;
        let fits = u64::from(length) <= inbox.end - inbox.start;
        let place = match fits {
            true => inbox.start as u32,
            false => self.alloc.call_async(&mut self.store, length).await.map_err(stopped)?,
        };
        if place == 0 {
            return Err(Stop::abi(format!("catena_alloc has no place for an event of {length} bytes")));
        }
        self.memory
            .write(&mut self.store, place as usize, event)
            .map_err(|_| Stop::abi("catena_alloc returned a place outside the memory"))?;
        let packed = entry.call_async(&mut self.store, (place, length)).await.map_err(stopped)?;
        let outbox = self.outbox(packed, limits)?;
        // The contents of scratch are not needed any more.
        if let Some(settle) = self.settle.as_ref().filter(|_| !fits || !prototype.scratch.covers(&range(packed))) {
            settle.call_async(&mut self.store, ()).await.map_err(stopped)?;
        }
        Ok(outbox)
    }

    /// Reads the outbox at the address and length that `(address << 32) | length` packs.
    fn outbox(&self, packed: u64, limits: &Limits) -> Result<Outbox, Stop> {
        let Range { start, end } = range(packed);
        if end - start > limits.output_bytes_max.into() {
            return Err(Stop::limit("output_bytes_max"));
        }
        let bytes = self
            .memory()
            .get(start as usize..end as usize)
            .ok_or_else(|| Stop::abi("its outbox lies outside its memory"))?;
        abi::read_outbox(bytes, limits.events_max).map_err(|error| match error {
            abi::OutboxError::TooMany { .. } => Stop::limit("events_max"),
            error @ abi::OutboxError::Malformed(_) => Stop::abi(error),
        })
    }

    /// Asks the guest for its scratch ranges and its inbox.
    pub(crate) async fn layout(&mut self) -> Result<(Scratch, Range<u64>), Stop> {
        Runtime::rearm(&mut self.store);
        let clock = self.store.data().clock.clone();
        let asked = async {
            let list = match &self.scratch {
                Some(scratch) => Some(scratch.call_async(&mut self.store, ()).await?),
                None => None,
            };
            let inbox = match &self.inbox {
                Some(inbox) => inbox.call_async(&mut self.store, ()).await?,
                None => 0,
            };
            Ok::<_, wasmtime::Error>((list, range(inbox)))
        };
        let (list, inbox) = clock.run(asked).await.map_err(|error| Stop::of_call(&error))?;
        let scratch = match list {
            Some(list) => Scratch::read(self.memory(), list).map_err(Stop::abi)?,
            None => Scratch::default(),
        };
        match inbox.is_empty() || scratch.covers(&inbox) {
            true => Ok((scratch, inbox)),
            false => Err(Stop::abi("its inbox is not scratch")),
        }
    }
}

/// The address range that `(address << 32) | length` packs.
fn range(packed: u64) -> Range<u64> {
    let start = packed >> 32;
    start..start + u64::from(packed as u32)
}

/// A new instance, whose exports are being looked up.
struct Look<'s> {
    instance: wasmtime::Instance,
    store: &'s mut Store<Host>,
}

impl Look<'_> {
    fn export(&mut self, export: &wasmtime::ModuleExport) -> Option<Extern> {
        self.instance.get_module_export(&mut *self.store, export)
    }

    fn function<P: wasmtime::WasmParams, R: wasmtime::WasmResults>(
        &mut self,
        export: Option<&wasmtime::ModuleExport>,
    ) -> wasmtime::Result<Option<TypedFunc<P, R>>> {
        let function = export.and_then(|export| self.export(export)).and_then(Extern::into_func);
        function.map(|function| function.typed(&*self.store)).transpose()
    }
}

/// Admission checked every export, so this can only be a bug of the host.
fn missing() -> wasmtime::Error {
    wasmtime::Error::msg("an export that was admitted is missing")
}
