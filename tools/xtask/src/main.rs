//! Tasks of the house: `cargo run --release -p xtask -- TASK`.

mod bake;
mod build;
mod docs;
mod guests;
mod header;
mod limits;
mod lock;
mod modules;
mod named;
mod quickjs;
mod stamp;
mod tidy;
mod zig;

use std::process::ExitCode;

use wasmtime::{Result, bail};

const USAGE: &str = "\
usage: cargo run --release -p xtask -- TASK
  guests                 build the JavaScript engine and the sample guests into target/guests/
  guests --update-lock   the same, and write the engine's hash to guest/engine.lock
  header                 write the header of the C interface, of its source
  verify-engine          build the engine twice from nothing, in two folders, and compare the bytes
  tidy                   check the invariants of ARCHITECTURE.md that no compiler checks, and the links in the documentation";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Result<()> {
    match words {
        ["guests"] => guests::guests(false),
        ["guests", "--update-lock"] => guests::guests(true),
        ["tidy"] => tidy::tidy(),
        ["header"] => header::write(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")),
        ["verify-engine"] => guests::verify_engine(),
        _ => bail!("unknown task: {:?}\n{USAGE}", words.join(" ")),
    }
}
