//! `catena call SERVICE/FUNCTION [JSON]`.

use catena::{Client, Exception, RunOptions, Value};
use clap::{Args, ValueHint};

use crate::{
    connect,
    failure::{Failure, Threw},
    nearest::did_you_mean,
    output::Output,
    progress::Progress,
    report,
    signals::Signals,
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
    let mut signals = Signals::new()?;
    let client = signals.unless(args.terms.connect(None, output)).await?;
    if args.replies {
        let printed = signals.unless(print_replies(&client, service, function, params, &options, output)).await;
        connect::close(client).await;
        return printed;
    }
    let progress = Progress::new(output, &format!("calling {}", args.target));
    let called = signals.unless(call(&client, service, function, params, &options)).await;
    drop(progress);
    connect::close(client).await;
    if output.json { report::tell(called, report::Nothing {}, output) } else { output.json_pretty(&Shown(&called?)) }
}

async fn call(
    client: &Client,
    service: &str,
    function: &str,
    params: Value,
    options: &RunOptions,
) -> Result<Value, Failure> {
    let called = client.call_with(service, function, params, options).await;
    called.map_err(|exception| threw(exception, service, function))
}

/// Prints each reply as soon as it is there. Whatever ends it, those that have come have been printed.
async fn print_replies(
    client: &Client,
    service: &str,
    function: &str,
    params: Value,
    options: &RunOptions,
    output: &Output,
) -> Result<(), Failure> {
    let failed = |exception| threw(exception, service, function);
    let mut replies = client.replies_with(&format!("{service}/{function}"), params, options).map_err(failed)?;
    while let Some(reply) = replies.next().await {
        output.json_line(&Shown(reply.map_err(failed)?.value()))?;
    }
    Ok(())
}

fn threw(exception: Exception, service: &str, function: &str) -> Failure {
    let exception = exception.calling(service, function);
    Failure::Threw(Box::new(Threw { exception, spot: None, ended: None, cancelled: false }))
}

fn split(target: &str) -> Result<(&str, &str), Failure> {
    match target.split_once('/') {
        Some((service, function)) if !service.is_empty() && !function.is_empty() && !function.contains('/') => {
            Ok((service, function))
        }
        _ => {
            let subcommands = ["up", "dev", "run", "call", "debug", "replay", "ls", "gateway", "check"];
            let help = did_you_mean(
                target,
                subcommands,
                "write SERVICE/FUNCTION, such as probe.mtv/echo; `catena ls` lists them",
            );
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
