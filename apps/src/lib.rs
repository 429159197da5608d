//! The paper's two applications, copy and mail, and the services that `catena dev` offers for trying things out.
//!
//! Each application exists twice: as a chain (`functions/*.ts`), and over plain calls, as well as that can be done: the baseline.
#![forbid(unsafe_code)]

pub mod copy;
pub mod files;
pub mod mail;
pub mod offers;
pub mod probe;
pub mod replicated;
pub mod sites;

use catena::{Client, Code, Exception, Fault, exceptions};

/// Prepares a function that ships with this crate.
///
/// # Errors
/// Whatever the sandbox says; the source itself is tested.
async fn shipped(client: &Client, name: &str, source: &str) -> Result<Code, Exception> {
    let script = catena_script::prepare(name, source)
        .map_err(|why| Exception::new(exceptions::BAD_CODE, Fault::Caller, why.to_string()))?;
    client.javascript(&script.name, &script.source).await
}
