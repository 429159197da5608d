//! A compiled module, and the state of an untouched instance of it.

use std::{ops::Range, sync::Arc};
use wasmtime::{InstancePre, Module, ModuleExport};

use crate::{
    admission::{self, Admitted, Role},
    base::Base,
    error::Stop,
    host::Host,
    instance::{Instance, To, Unready},
    runtime::Runtime,
    scratch::Scratch,
    seats::Place,
};

/// The positions of a module's exports, so that no instance looks them up by name.
pub(crate) struct Exports {
    pub(crate) memory: ModuleExport,
    pub(crate) alloc: ModuleExport,
    /// Indexed by [`To`].
    pub(crate) entries: [Option<ModuleExport>; To::EXPORTS.len()],
    pub(crate) inbox: Option<ModuleExport>,
    pub(crate) settle: Option<ModuleExport>,
    pub(crate) scratch: Option<ModuleExport>,
    pub(crate) place: Option<ModuleExport>,
    pub(crate) last_words: Option<ModuleExport>,
    pub(crate) globals: Vec<ModuleExport>,
}

/// A compiled module, ready to be instantiated.
pub(crate) struct Compiled {
    pub(crate) pre: InstancePre<Host>,
    pub(crate) exports: Exports,
    pub(crate) admitted: Admitted,
    /// Machine code and data.
    code_bytes: usize,
}

/// A module with the state of its untouched instance.
pub(crate) struct Prototype {
    pub(crate) compiled: Compiled,
    pub(crate) base: Base,
    /// The mutable globals' bits.
    pub(crate) globals: Box<[u64]>,
    pub(crate) scratch: Scratch,
    /// Where events that fit are written: a range of scratch. Empty if the guest has no such place.
    pub(crate) inbox: Range<u64>,
    /// Initial size of the memory, in pages of 64 KiB.
    pub(crate) memory_pages: u32,
}

/// Why a module cannot be used.
#[derive(Debug)]
pub(crate) enum Fault {
    Refused(admission::Refusal),
    Compile(String),
    Instantiate(String),
    Stopped(Stop),
}

impl Compiled {
    /// Checks and compiles `module`. Takes long, and blocks.
    pub(crate) fn new(runtime: &Runtime, module: &[u8], role: Role) -> Result<Self, Fault> {
        let admitted = admission::admit(module, role, runtime.limits.memory_bytes_max).map_err(Fault::Refused)?;
        let compile = |error: wasmtime::Error| Fault::Compile(format!("{error:#}"));
        let (_, instrumented) = wasmtime_wizer::Wizer::new().instrument(module).map_err(compile)?;
        let module = Module::new(&runtime.engine, &instrumented).map_err(compile)?;
        let exports = exports(&module, &admitted).ok_or_else(|| Fault::Compile("an export got lost".to_owned()))?;
        let image = module.image_range();
        let code_bytes = image.end.addr() - image.start.addr();
        Ok(Self { pre: runtime.linker.instantiate_pre(&module).map_err(compile)?, exports, admitted, code_bytes })
    }
}

fn exports(module: &Module, admitted: &Admitted) -> Option<Exports> {
    let optional = |name: &str| module.get_export_index(name);
    Some(Exports {
        memory: optional("memory")?,
        alloc: optional("catena_alloc")?,
        entries: To::EXPORTS.map(optional),
        inbox: optional("catena_inbox"),
        settle: optional("catena_settle"),
        scratch: optional("catena_scratch"),
        place: optional("catena_where"),
        last_words: optional("catena_last_words"),
        globals: admitted.global_names.iter().map(|name| optional(name)).collect::<Option<_>>()?,
    })
}

impl Prototype {
    /// Examines an untouched instance, and asks it for its scratch and its inbox.
    pub(crate) async fn new(
        runtime: &Runtime,
        compiled: Compiled,
        place: Option<Arc<Place>>,
    ) -> Result<Arc<Self>, Fault> {
        let unusable = |why: Unready| match why {
            Unready::Full(stop) => Fault::Stopped(stop),
            Unready::Broken(error) => Fault::Instantiate(format!("{error:#}")),
        };
        let mut instance = Instance::new(runtime, &compiled, place).map_err(unusable)?;
        let base = Base::new(instance.memory());
        let globals = instance.globals().collect();
        let memory_pages = instance.memory_pages();
        let (scratch, inbox) = instance.layout().await.map_err(Fault::Stopped)?;
        Ok(Arc::new(Self { compiled, base, globals, scratch, inbox, memory_pages }))
    }

    /// What keeping this costs, in bytes.
    pub(crate) fn len_bytes(&self) -> usize {
        self.compiled.code_bytes + self.base.len_bytes()
    }
}
