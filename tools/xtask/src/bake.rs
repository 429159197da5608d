//! Takes the base image: runs the engine's set-up once and keeps the memory that results in the module.

use wasmtime::error::Context;
use wasmtime::{Engine, Instance, Linker, Module, Result, Store, Val, ensure};
use wasmtime_wizer::{InstanceState, SnapshotVal, ValType, Wizer};

const INIT: &str = "catena_init";
/// All that the engine may import.
const IMPORT: (&str, &str) = ("catena", "interrupted");

/// The engine as it is after its set-up.
pub(crate) fn bake(wasm: &[u8]) -> Result<Vec<u8>> {
    let engine = Engine::default();
    let mut linker = Linker::new(&engine);
    linker.func_wrap(IMPORT.0, IMPORT.1, || 0i32)?;
    let mut wizer = Wizer::new();
    wizer.init_func(INIT);
    let (context, instrumented) = wizer.instrument(wasm)?;
    let mut store = Store::new(&engine, ());
    let instance = linker.instantiate(&mut store, &Module::new(&engine, instrumented)?)?;
    instance.get_typed_func::<(), ()>(&mut store, INIT)?.call(&mut store, ()).context("the engine's set-up failed")?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let baked = runtime.block_on(wizer.snapshot(&context, &mut Ready { store, instance }))?;
    check_imports(&engine, &baked)?;
    Ok(baked)
}

/// The engine after its set-up, for wizer to read. Wizer's own reader comes with its feature `wasmtime`, which has the component model built as well.
struct Ready {
    store: Store<()>,
    instance: Instance,
}

#[expect(clippy::panic, reason = "wizer asks only for what it found in the module")]
impl InstanceState for Ready {
    async fn global_get(&mut self, name: &str, _: ValType) -> SnapshotVal {
        match self.instance.get_global(&mut self.store, name).map(|global| global.get(&mut self.store)) {
            Some(Val::I32(value)) => SnapshotVal::I32(value),
            Some(Val::I64(value)) => SnapshotVal::I64(value),
            Some(Val::F32(bits)) => SnapshotVal::F32(bits),
            Some(Val::F64(bits)) => SnapshotVal::F64(bits),
            Some(Val::V128(value)) => SnapshotVal::V128(value.as_u128()),
            other => panic!("{name} is no global of a number: {other:?}"),
        }
    }

    async fn memory_contents(&mut self, name: &str, contents: impl FnOnce(&[u8]) + Send) {
        match self.instance.get_memory(&mut self.store, name) {
            Some(memory) => contents(memory.data(&self.store)),
            None => panic!("{name} is no memory"),
        }
    }
}

fn check_imports(engine: &Engine, wasm: &[u8]) -> Result<()> {
    let module = Module::new(engine, wasm).context("the engine does not compile")?;
    for import in module.imports() {
        ensure!(
            (import.module(), import.name()) == IMPORT,
            "the engine imports {}.{}: it may import only {}.{}",
            import.module(),
            import.name(),
            IMPORT.0,
            IMPORT.1
        );
    }
    Ok(())
}
