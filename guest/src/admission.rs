//! Which WebAssembly modules are admitted: those whose whole state is where a continuation finds it (`ABI.md`, "Module shape").
//!
//! Checked before compilation, so that a module that cannot travel costs nothing.

use wasmparser::{
    ExternalKind, FuncType, FunctionBody, Operator, Parser, Payload, TypeRef, ValType, Validator, WasmFeatures,
};

use crate::continuation::WASM_PAGE_BYTES;

/// The most functions in one module.
pub(crate) const FUNCTIONS_MAX: usize = 50_000;
/// The largest body of one function: compilation cost grows faster than the body.
pub(crate) const FUNCTION_BODY_BYTES_MAX: usize = 256 << 10;
/// The product of locals and blocks (loops and conditions too) of each function, summed over the module, is at most this: the compiler's data-flow analysis
/// grows with it. The JavaScript engine, a large program in C, has 290,000; 500,000 take seconds.
const LOCALS_TIMES_BLOCKS_MAX: u64 = 1_000_000;
/// The most elements of one table.
pub(crate) const TABLE_ELEMENTS_MAX: u64 = 20_000;
/// The most mutable globals: each is part of every continuation.
pub(crate) const MUTABLE_GLOBALS_MAX: usize = 256;

/// Why a module is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Not a valid module of the features allowed.
    #[error("not a valid WebAssembly module: {0}")]
    Invalid(String),
    /// Imports something besides `catena.interrupted`.
    #[error("it imports {what} {module}.{name}; the only import is the function catena.interrupted: () -> i32")]
    Import {
        /// Kind of import.
        what: &'static str,
        /// Its module.
        module: String,
        /// Its name.
        name: String,
    },
    /// Lacks an export, or has it with another type.
    #[error("it does not export {name} as {expected}")]
    Export {
        /// Name of the export.
        name: &'static str,
        /// What it has to be.
        expected: &'static str,
    },
    /// Has no memory, or more than one.
    #[error("it has {count} memories; it has to have one")]
    MemoryCount {
        /// How many it has.
        count: usize,
    },
    /// Its memory is of a kind that cannot travel.
    #[error("its memory is {what}")]
    MemoryKind {
        /// `shared`, `64-bit`, or of another page size.
        what: &'static str,
    },
    /// Its initial memory is larger than a guest may have.
    #[error("it starts with {bytes} bytes of memory, more than memory_bytes_max ({bytes_max})")]
    MemorySize {
        /// Initial size.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// A mutable global whose bits cannot travel.
    #[error("its mutable global {index} holds a {what}, which cannot travel")]
    Global {
        /// Its index.
        index: u32,
        /// `reference` or `v128`.
        what: &'static str,
    },
    /// An instruction whose effect lies outside memory and globals.
    #[error("it uses {name}, whose effect cannot travel (function {function})")]
    Instruction {
        /// The instruction.
        name: &'static str,
        /// Index of the function that has it, imports included.
        function: u32,
    },
    /// A proposal whose state lies outside memory and globals.
    #[error("it uses {name}, which cannot travel")]
    Proposal {
        /// `garbage collection`, `exceptions`, `threads`, `components`.
        name: &'static str,
    },
    /// Has a start function, which would run before the host can bound it.
    #[error("it has a start function; do such work in catena_start")]
    Start,
    /// Exceeds one of the limits of this module (`admission`).
    #[error("it has {found}, more than {limit} ({max})")]
    TooLarge {
        /// The limit's name, which says what it counts.
        limit: &'static str,
        /// How much there is.
        found: u64,
        /// The limit.
        max: u64,
    },
    /// Exports a name that the host needs for itself.
    #[error("it uses a name that begins with __wizer_, which is reserved")]
    ReservedName,
}

/// What an admitted module exports to the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Admitted {
    /// `catena_step` instead of `catena_start` and `catena_resume`.
    pub(crate) explicit: bool,
    /// For each mutable global in order of index: whether it has 64 bits.
    pub(crate) globals_wide: Vec<bool>,
    /// The names under which the instrumented module exports them.
    pub(crate) global_names: Vec<String>,
}

/// Which exports are required.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// A chain function.
    Function,
    /// A language engine: `catena_load` too.
    Engine,
}

/// The features that a module may use: those of WebAssembly 2.0 but for references to what a host owns (`externref`), and those of 3.0 whose state travels.
const FEATURES: WasmFeatures = WasmFeatures::WASM2
    .difference(WasmFeatures::GC_TYPES)
    .union(WasmFeatures::EXTENDED_CONST)
    .union(WasmFeatures::TAIL_CALL);

/// Checks `module`, which is then safe to compile and to carry between nodes.
pub(crate) fn admit(module: &[u8], role: Role, memory_bytes_max: u64) -> Result<Admitted, Refusal> {
    let mut seen = Seen::default();
    for payload in Parser::new(0).parse_all(module) {
        seen.payload(payload.map_err(invalid)?)?;
    }
    seen.check_memory(memory_bytes_max)?;
    Validator::new_with_features(FEATURES).validate_all(module).map_err(invalid)?;
    let explicit = seen.check_exports(role)?;
    let (global_names, globals_wide) =
        seen.mutable_globals.iter().map(|(index, wide)| (format!("__wizer_global_{index}"), *wide)).unzip();
    Ok(Admitted { explicit, globals_wide, global_names })
}

fn invalid(error: wasmparser::BinaryReaderError) -> Refusal {
    Refusal::Invalid(error.to_string())
}

#[derive(Default)]
struct Seen<'m> {
    types: Vec<Option<FuncType>>,
    /// Type index of each function, imports included.
    functions: Vec<u32>,
    bodies: u32,
    /// The sum over all functions.
    locals_times_blocks: u64,
    imported_functions: u32,
    memories: Vec<wasmparser::MemoryType>,
    globals: u32,
    mutable_globals: Vec<(u32, bool)>,
    exports: Vec<wasmparser::Export<'m>>,
}

impl<'m> Seen<'m> {
    fn payload(&mut self, payload: Payload<'m>) -> Result<(), Refusal> {
        match payload {
            Payload::TypeSection(section) => {
                for group in section {
                    self.types(&group.map_err(invalid)?)?;
                }
            }
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    self.import(&import.map_err(invalid)?)?;
                }
            }
            Payload::FunctionSection(section) => {
                at_most("module_functions_max", section.count(), FUNCTIONS_MAX as u64)?;
                for index in section {
                    self.functions.push(index.map_err(invalid)?);
                }
            }
            Payload::TableSection(section) => {
                at_most("module_tables_max", section.count(), 1)?;
                for table in section {
                    let initial = table.map_err(invalid)?.ty.initial;
                    at_most("table_elements_max", initial, TABLE_ELEMENTS_MAX)?;
                }
            }
            Payload::MemorySection(section) => {
                at_most("module_memories_max", section.count(), 100)?;
                for memory in section {
                    self.memories.push(memory.map_err(invalid)?);
                }
            }
            Payload::GlobalSection(section) => {
                for global in section {
                    self.global(global.map_err(invalid)?.ty)?;
                }
            }
            Payload::ExportSection(section) => {
                for export in section {
                    let export = export.map_err(invalid)?;
                    if export.name.starts_with("__wizer_") {
                        return Err(Refusal::ReservedName);
                    }
                    self.exports.push(export);
                }
            }
            Payload::StartSection { .. } => return Err(Refusal::Start),
            Payload::TagSection(_) => return Err(Refusal::Proposal { name: "exceptions" }),
            Payload::CodeSectionEntry(body) => self.body(&body)?,
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => {
                return Err(Refusal::Proposal { name: "components" });
            }
            _ => {}
        }
        Ok(())
    }

    fn types(&mut self, group: &wasmparser::RecGroup) -> Result<(), Refusal> {
        for ty in group.types() {
            match &ty.composite_type.inner {
                wasmparser::CompositeInnerType::Func(function) => {
                    self.types.push(Some(function.clone()));
                }
                _ => return Err(Refusal::Proposal { name: "garbage collection" }),
            }
            at_most("module_types_max", self.types.len(), FUNCTIONS_MAX as u64)?;
        }
        Ok(())
    }

    fn import(&mut self, import: &wasmparser::Import<'_>) -> Result<(), Refusal> {
        let what = match import.ty {
            TypeRef::Func(ty) if import.module == "catena" && import.name == "interrupted" => {
                if self.has_type(ty, &[], &[ValType::I32]) {
                    self.functions.push(ty);
                    self.imported_functions += 1;
                    return Ok(());
                }
                "a function of another type"
            }
            TypeRef::Func(_) | TypeRef::FuncExact(_) => "the function",
            TypeRef::Memory(_) => "the memory",
            TypeRef::Table(_) => "the table",
            TypeRef::Global(_) => "the global",
            TypeRef::Tag(_) => "the tag",
        };
        Err(Refusal::Import { what, module: import.module.to_owned(), name: import.name.to_owned() })
    }

    fn has_type(&self, index: u32, params: &[ValType], results: &[ValType]) -> bool {
        matches!(self.types.get(index as usize), Some(Some(ty))
            if ty.params() == params && ty.results() == results)
    }

    fn global(&mut self, ty: wasmparser::GlobalType) -> Result<(), Refusal> {
        let index = self.globals;
        self.globals += 1;
        if !ty.mutable {
            return Ok(());
        }
        let wide = match ty.content_type {
            ValType::I32 | ValType::F32 => false,
            ValType::I64 | ValType::F64 => true,
            ValType::V128 => return Err(Refusal::Global { index, what: "v128" }),
            ValType::Ref(_) => {
                return Err(Refusal::Global { index, what: "reference" });
            }
        };
        self.mutable_globals.push((index, wide));
        at_most("mutable_globals_max", self.mutable_globals.len(), MUTABLE_GLOBALS_MAX as u64)
    }

    fn body(&mut self, body: &FunctionBody<'_>) -> Result<(), Refusal> {
        let function = self.imported_functions + self.bodies;
        self.bodies += 1;
        at_most("function_body_bytes_max", body.range().len(), FUNCTION_BODY_BYTES_MAX as u64)?;
        let (mut locals, mut blocks) = (0_u64, 0_u64);
        for declared in body.get_locals_reader().map_err(invalid)? {
            locals += u64::from(declared.map_err(invalid)?.0);
        }
        let mut operators = body.get_operators_reader().map_err(invalid)?;
        while !operators.eof() {
            let operator = operators.read().map_err(invalid)?;
            if let Some(name) = forbidden(&operator) {
                return Err(Refusal::Instruction { name, function });
            }
            blocks +=
                u64::from(matches!(operator, Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. }));
        }
        self.locals_times_blocks = self.locals_times_blocks.saturating_add(locals.saturating_mul(blocks));
        at_most("module_locals_times_blocks_max", self.locals_times_blocks, LOCALS_TIMES_BLOCKS_MAX)
    }

    fn check_memory(&self, bytes_max: u64) -> Result<(), Refusal> {
        let [memory] = self.memories.as_slice() else {
            return Err(Refusal::MemoryCount { count: self.memories.len() });
        };
        let kinds = [
            (memory.shared, "shared"),
            (memory.memory64, "64-bit"),
            (memory.page_size_log2.is_some(), "of pages other than 64 KiB"),
        ];
        if let Some((_, what)) = kinds.into_iter().find(|(is, _)| *is) {
            return Err(Refusal::MemoryKind { what });
        }
        let bytes = memory.initial.saturating_mul(WASM_PAGE_BYTES);
        if bytes > bytes_max {
            return Err(Refusal::MemorySize { bytes, bytes_max });
        }
        Ok(())
    }

    /// Whether the module's state is explicit.
    fn check_exports(&self, role: Role) -> Result<bool, Refusal> {
        use ValType::{I32, I64};
        let event: (&[ValType], &[ValType]) = (&[I32, I32], &[I64]);
        if !self.exports.iter().any(|export| export.name == "memory" && export.kind == ExternalKind::Memory) {
            return Err(Refusal::Export { name: "memory", expected: "a memory" });
        }
        let explicit = role == Role::Function && self.exports.iter().any(|e| e.name == "catena_step");
        self.function("catena_abi_v1", &[], &[], "() -> ()", true)?;
        self.function("catena_alloc", &[I32], &[I32], "(i32) -> i32", true)?;
        self.function("catena_inbox", &[], &[I64], "() -> i64", false)?;
        self.function("catena_settle", &[], &[], "() -> ()", false)?;
        self.function("catena_scratch", &[], &[I32], "() -> i32", false)?;
        self.function("catena_where", &[], &[I64], "() -> i64", false)?;
        self.function("catena_last_words", &[], &[I64], "() -> i64", false)?;
        let entries: &[&'static str] = match (role, explicit) {
            (_, true) => &["catena_step"],
            (Role::Function, false) => &["catena_start", "catena_resume"],
            (Role::Engine, false) => &["catena_start", "catena_resume", "catena_load"],
        };
        for name in entries {
            self.function(name, event.0, event.1, "(i32, i32) -> i64", true)?;
        }
        Ok(explicit)
    }

    fn function(
        &self,
        name: &'static str,
        params: &[ValType],
        results: &[ValType],
        expected: &'static str,
        needed: bool,
    ) -> Result<(), Refusal> {
        let fault = Refusal::Export { name, expected };
        let Some(export) = self.exports.iter().find(|export| export.name == name) else {
            return if needed { Err(fault) } else { Ok(()) };
        };
        let ty = self.functions.get(export.index as usize);
        match (export.kind, ty) {
            (ExternalKind::Func, Some(ty)) if self.has_type(*ty, params, results) => Ok(()),
            _ => Err(fault),
        }
    }
}

fn at_most(limit: &'static str, found: impl TryInto<u64>, max: u64) -> Result<(), Refusal> {
    let found = found.try_into().unwrap_or(u64::MAX);
    if found > max {
        return Err(Refusal::TooLarge { limit, found, max });
    }
    Ok(())
}

/// The name of an instruction whose effect lies outside memory and globals.
fn forbidden(operator: &Operator<'_>) -> Option<&'static str> {
    Some(match operator {
        Operator::TableSet { .. } => "table.set",
        Operator::TableGrow { .. } => "table.grow",
        Operator::TableFill { .. } => "table.fill",
        Operator::TableCopy { .. } => "table.copy",
        Operator::TableInit { .. } => "table.init",
        Operator::ElemDrop { .. } => "elem.drop",
        Operator::DataDrop { .. } => "data.drop",
        Operator::MemoryAtomicNotify { .. }
        | Operator::MemoryAtomicWait32 { .. }
        | Operator::MemoryAtomicWait64 { .. }
        | Operator::AtomicFence => "atomic instructions",
        _ => return None,
    })
}
