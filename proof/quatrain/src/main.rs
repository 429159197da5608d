//! `make quatrain`: what the applications measured, beside the paper's numbers: figures as SVG, and `summary.json`.
//!
//! Each application writes `NAME.json` and `NAME.csv` into one folder. `values` in the JSON has a list of values for each key, one for each run; any
//! other number is taken as it is. What an application did not write is left out, and named.
#![allow(clippy::print_stdout, reason = "its output is its purpose")]

mod bars;
mod figures;
mod lines;
mod rows;
mod spread;
mod summary;

use std::{path::Path, process::ExitCode};

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["draw", folder] => figures::draw(Path::new(folder)),
        [folder] => put_together(Path::new(folder)),
        _ => {
            eprintln!("quatrain DIR        draws what is in DIR, and writes DIR/summary.json");
            eprintln!("quatrain draw DIR   draws it, and no more");
            return ExitCode::FAILURE;
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("quatrain: {why}");
            ExitCode::FAILURE
        }
    }
}

fn put_together(folder: &Path) -> Result<(), Failure> {
    figures::draw(folder)?;
    let summary = summary::read(folder)?;
    summary::print(&summary);
    let file = folder.join("summary.json");
    std::fs::write(&file, format!("{summary:#}\n"))?;
    println!("\nwritten to {}", file.display());
    Ok(())
}
