//! The `catena` command: nodes, chains and calls for people at a terminal, and for programs with `--json`.
//!
//! Standard output is data, standard error is talk. Each subcommand is one file in `commands`; what they share is beside them. How
//! a command ends is one table: [`exit::EXIT_CODES`].
#![forbid(unsafe_code)]

mod advice;
mod args;
mod commands;
mod config;
mod connect;
mod console;
mod debugger;
mod ending;
mod exit;
mod explain;
mod failure;
mod hearing;
mod input;
mod nearest;
mod output;
mod progress;
mod recording;
mod replayer;
mod report;
mod sandbox;
mod signals;
mod source;
mod talk;
mod terms;
mod value;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args = match args::parse() {
        Ok(args) => args,
        Err(shown) => return shown,
    };
    let output = output::Output::new(args.shared.json, args.shared.color);
    let ended = commands::run(args.command, &output);
    exit::code(ended, &output)
}
