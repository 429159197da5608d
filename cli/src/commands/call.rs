//! `catena call SERVICE/FUNCTION [JSON]`.

use catena::Exception;
use clap::{Args, Command, CommandFactory, ValueHint};

use crate::{
    args::Cli,
    connect,
    failure::Failure,
    nearest::did_you_mean,
    output::Output,
    report,
    terms::Terms,
    value::{self, Shown},
};

/// Make one plain call
///
/// The result comes on standard output as JSON; bytes are {"$bytes": "BASE64"} both ways. With --replies, each reply of a function that
/// answers many times comes as soon as it is there, on a line of its own; if some are missing the command fails, after those that came.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  catena call probe.cam/echo '\"hello\"'\n  \
    catena call files.mtv/lookup '{\"path\": \"notes.txt\"}' --site bei\n  catena call probe.mtv/echo @big.json\n  \
    catena call --replies probe.cam/count '{\"upto\": 3, \"also\": [\"probe.bei/count\"]}'")]
pub(crate) struct Call {
    /// What to call; `catena ls` lists it
    #[arg(value_name = "SERVICE/FUNCTION", value_hint = ValueHint::Other)]
    target: String,
    /// Its parameters: JSON, @FILE, or - for standard input
    #[arg(value_name = "JSON", default_value = "{}", value_hint = ValueHint::Other, allow_negative_numbers = true)]
    params: String,
    /// Print each reply as it comes, one JSON line each
    #[arg(long, short = 'r')]
    replies: bool,
    #[command(flatten)]
    terms: Terms,
}

pub(crate) async fn run(args: &Call, output: &Output) -> Result<(), Failure> {
    let (service, function) = split(&args.target)?;
    let options = args.terms.options("the parameters", &args.params)?;
    let params = value::argument(&args.params)?;
    let failed = |exception: Exception| Failure::threw(exception.calling(service, function));
    let connecting = args.terms.connect(None, output);
    if args.replies {
        return connect::with(connecting, async |client| {
            let mut replies = client.replies_with(&args.target, params, &options).map_err(failed)?;
            // Each reply is printed as it arrives, so those that came stay printed however the set ends.
            while let Some(reply) = replies.next().await {
                output.json_line(&Shown(reply.map_err(failed)?.value()))?;
            }
            Ok(())
        })
        .await;
    }
    let calling = format!("calling {}", args.target);
    let called = connect::ask(connecting, &calling, output, async |client| {
        client.call_with(service, function, params, &options).await.map_err(failed)
    });
    let called = called.await;
    if output.json { report::tell(called, (), output) } else { output.json_pretty(&Shown(&called?)) }
}

fn split(target: &str) -> Result<(&str, &str), Failure> {
    match target.split_once('/') {
        Some((service, function)) if !service.is_empty() && !function.is_empty() && !function.contains('/') => {
            Ok((service, function))
        }
        _ => {
            let otherwise = "write SERVICE/FUNCTION, such as probe.mtv/echo; `catena ls` lists them";
            // The user may mean a subcommand: `catena call ls`.
            let cli = Cli::command();
            let help = did_you_mean(target, cli.get_subcommands().map(Command::get_name), otherwise);
            Err(Failure::input("BadTarget", format!("{target:?} is not of the form SERVICE/FUNCTION"), help))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_has_two_parts() {
        assert!(matches!(split("files.mtv/read"), Ok(("files.mtv", "read"))));
        for wrong in ["files.mtv", "/read", "files/", "a/b/c", ""] {
            assert!(split(wrong).is_err(), "{wrong}");
        }
    }
}
