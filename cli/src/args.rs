//! The command line, as clap reads it.

use std::process::ExitCode;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::{
    commands::{call, check, completions, debug, dev, gateway, ls, replay, resolve, run, segments, up},
    exit,
    output::Color,
};

const TOUR: &str = "\
A first tour, the second and third lines in another terminal:
  catena dev                                         four nodes at four distant sites
  catena call probe.cam/echo '\"hello\"'               a plain call
  catena run examples/tour.ts --site bei --explain   a chain through all four, drawn
";

/// Chains of remote calls: an async function that hops from server to server.
#[derive(Debug, Parser)]
#[command(name = "catena", version, before_help = TOUR, after_help = exit::help())]
#[command(subcommand_required = true, arg_required_else_help = true, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) shared: Shared,
}

/// What every subcommand takes.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Shared {
    /// Answer in JSON on standard output, for programs
    #[arg(long, global = true, help_heading = "Output")]
    pub(crate) json: bool,
    /// When to use colour; NO_COLOR in the environment counts as `never` where this says `auto`
    #[arg(long, global = true, value_enum, default_value = "auto", value_name = "WHEN", help_heading = "Output")]
    pub(crate) color: Color,
}

/// What to do. Each describes itself.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Up(up::Up),
    Dev(dev::Dev),
    Run(run::Run),
    Call(call::Call),
    Debug(debug::Debug),
    Replay(replay::Replay),
    Ls(ls::Ls),
    Gateway(gateway::GatewayArgs),
    Resolve(resolve::Resolve),
    Segments(segments::Segments),
    Check(check::Check),
    Completions(completions::Completions),
}

/// Reads the command line, and prints what clap has to say (help, version, or the nearest right flag for a wrong one).
pub(crate) fn parse() -> Result<Cli, ExitCode> {
    let arguments: Vec<_> = std::env::args_os().collect();
    let choice = color_choice(&arguments);
    let parsed = Cli::command().color(choice).try_get_matches_from(arguments);
    parsed.and_then(|matches| Cli::from_arg_matches(&matches)).map_err(|why| {
        // If the reader of our output has gone, nobody needs the help.
        let _ = why.print();
        u8::try_from(why.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
    })
}

/// Clap must know whether to paint its messages before it has read the flags.
fn color_choice(arguments: &[std::ffi::OsString]) -> clap::ColorChoice {
    let named = arguments.iter().enumerate().find_map(|(index, argument)| match argument.to_str()? {
        "--color" => arguments.get(index + 1)?.to_str(),
        argument => argument.strip_prefix("--color="),
    });
    named.and_then(|named| named.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_is_sound() {
        Cli::command().debug_assert();
    }
}
