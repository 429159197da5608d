//! `catena completions SHELL`.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::{args::Cli, failure::Failure, output::Output};

/// Print the completions for a shell
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  source <(catena completions bash)\n  \
    catena completions fish > ~/.config/fish/completions/catena.fish")]
pub(crate) struct Completions {
    /// Which shell
    shell: Shell,
}

pub(crate) fn run(args: &Completions, output: &Output) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "catena", &mut script);
    output.data(String::from_utf8_lossy(&script).trim_end())
}
