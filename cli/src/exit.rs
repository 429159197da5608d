//! How the command ends: stable numbers, for scripts.

use std::process::ExitCode;

use crate::{failure::Failure, output::Output};

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Ok = 0,
    Exception = 1,
    BadInput = 2,
    Unreachable = 3,
    CannotStart = 4,
    Interrupted = 130,
}

/// Every exit code with its meaning, as `--help` shows them. They never change.
pub(crate) const EXIT_CODES: [(Exit, &str); 6] = [
    (Exit::Ok, "done"),
    (
        Exit::Exception,
        "the chain or call ended with an exception, a replay took another way, or nobody serves what was looked for",
    ),
    (Exit::BadInput, "wrong usage, or an input file, function or JSON that is wrong"),
    (Exit::Unreachable, "the node to connect to cannot be reached"),
    (Exit::CannotStart, "a node cannot start: port in use, wrong configuration"),
    (Exit::Interrupted, "interrupted (Ctrl-C, SIGTERM, a closed terminal)"),
];

/// The table for `--help`.
pub(crate) fn help() -> String {
    let rows = EXIT_CODES.iter().map(|(exit, meaning)| format!("\n  {:<4} {meaning}", *exit as u8));
    rows.fold("Exit codes:".to_owned(), |help, row| help + &row)
}

/// Says what went wrong, and gives the code to end with.
pub(crate) fn code(ended: Result<(), Failure>, output: &Output) -> ExitCode {
    let exit = match ended {
        Ok(()) => Exit::Ok,
        Err(failure) => {
            output.failure(&failure);
            failure.exit()
        }
    };
    ExitCode::from(exit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_codes_are_the_documented_ones() {
        let codes: Vec<u8> = EXIT_CODES.iter().map(|(exit, _)| *exit as u8).collect();
        assert_eq!(codes, [0, 1, 2, 3, 4, 130]);
        assert!(help().contains("\n  3    the node"));
    }
}
