//! Takes the base image: runs the engine's set-up once and keeps the memory that results in the module.

use wasmtime::error::Context;
use wasmtime::{Engine, Linker, Result, Store, ensure};
use wasmtime_wizer::Wizer;

const INIT: &str = "catena_init";
/// All that the engine may import.
const IMPORT: (&str, &str) = ("catena", "interrupted");

/// The engine as it is after its set-up.
pub(crate) fn bake(wasm: &[u8]) -> Result<Vec<u8>> {
    let engine = Engine::default();
    let mut linker = Linker::new(&engine);
    linker.func_wrap(IMPORT.0, IMPORT.1, || 0i32)?;
    let mut store = Store::new(&engine, ());
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let baked = runtime
        .block_on(
            Wizer::new()
                .init_func(INIT)
                .run(&mut store, wasm, async |store, module| linker.instantiate_async(store, module).await),
        )
        .context("the engine's set-up failed")?;
    check_imports(&engine, &baked)?;
    Ok(baked)
}

fn check_imports(engine: &Engine, wasm: &[u8]) -> Result<()> {
    let module = wasmtime::Module::new(engine, wasm).context("the engine does not compile")?;
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
