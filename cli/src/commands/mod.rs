//! One file per subcommand.

pub(crate) mod call;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod debug;
pub(crate) mod dev;
pub(crate) mod gateway;
pub(crate) mod ls;
pub(crate) mod replay;
pub(crate) mod resolve;
pub(crate) mod run;
pub(crate) mod segments;
pub(crate) mod up;

use std::time::Duration;

use crate::{args::Command, failure::Failure, output::Output};

/// How long blocking work that nobody awaits any more may delay the end of the process.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(100);

/// Does what the command line says.
pub(crate) fn run(command: Command, output: &Output) -> Result<(), Failure> {
    match command {
        Command::Completions(args) => completions::run(&args, output),
        Command::Up(args) => in_runtime(up::run(&args, output)),
        Command::Dev(args) => in_runtime(dev::run(&args, output)),
        Command::Run(args) => in_runtime(run::run(&args, output)),
        Command::Debug(args) => in_runtime(debug::run(&args, output)),
        Command::Replay(args) => in_runtime(replay::run(&args, output)),
        Command::Call(args) => in_runtime(call::run(&args, output)),
        Command::Gateway(args) => in_runtime(gateway::run(&args, output)),
        Command::Ls(args) => in_runtime(ls::run(&args, output)),
        Command::Resolve(args) => in_runtime(resolve::run(&args, output)),
        Command::Segments(args) => in_runtime(segments::run(&args, output)),
        Command::Check(args) => in_runtime(check::run(&args, output)),
    }
}

fn in_runtime(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    // At least two: a lone worker thread polls sockets only between tasks, and a busy function would make that rare.
    let threads = std::thread::available_parallelism().map_or(2, |cores| cores.get().max(2));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    let runtime = runtime.map_err(|why| {
        Failure::cannot_start(format!("no threads to be had: {why}"), "see the machine's limit on processes")
    })?;
    let done = runtime.block_on(work);
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    done
}
