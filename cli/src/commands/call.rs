//! `catena call SERVICE/FUNCTION [JSON]`.

use std::time::Duration;

use catena::{Client, RunOptions, Value};
use clap::{Args, ValueHint};

use crate::{
    connect::{self, At, Standing},
    failure::{Failure, Threw},
    nearest::did_you_mean,
    output::Output,
    progress::Progress,
    signals::Signals,
    value::{self, OneKey, Shown},
};

/// Make one plain call
///
/// The result comes on standard output as JSON; bytes are {"$bytes": "BASE64"} both ways.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  catena call probe.cam/echo '\"hello\"'\n  \
    catena call files.mtv/lookup '{\"path\": \"notes.txt\"}' --site bei\n  catena call probe.mtv/echo @big.json")]
pub(crate) struct Call {
    /// What to call; `catena ls` lists it
    #[arg(value_name = "SERVICE/FUNCTION", value_hint = ValueHint::Other)]
    target: String,
    /// Its parameters: JSON, @FILE, or - for standard input
    #[arg(value_name = "JSON", default_value = "{}", value_hint = ValueHint::Other, allow_negative_numbers = true)]
    params: String,
    #[command(flatten)]
    at: At,
    #[command(flatten)]
    standing: Standing,
    /// How long it may take: 500ms, 60s, 2m
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = duration)]
    timeout: Duration,
}

/// Longest time that may be asked for.
const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 3_600);

/// A time with its unit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "write a number with its unit, such as 500ms, 60s or 2m (at most 24h)".to_owned();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
    let (number, unit) = text.split_at(split);
    let seconds = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        _ => return Err(wrong()),
    };
    let time = number.parse::<f64>().ok().and_then(|number| Duration::try_from_secs_f64(number * seconds).ok());
    time.filter(|time| !time.is_zero() && *time <= TIMEOUT_MAX).ok_or_else(wrong)
}

pub(crate) async fn run(args: &Call, output: &Output) -> Result<(), Failure> {
    let (service, function) = split(&args.target)?;
    let params = value::argument(&args.params)?;
    let mut signals = Signals::new()?;
    let client = signals.unless(connect::connect(&args.at, Some(&args.standing), None, output)).await?;
    let called = signals.unless(call(&client, service, function, params, args, output)).await;
    connect::close(client).await;
    let result = called?;
    if output.json { output.json_line(&OneKey("result", Shown(&result))) } else { output.json_pretty(&Shown(&result)) }
}

async fn call(
    client: &Client,
    service: &str,
    function: &str,
    params: Value,
    args: &Call,
    output: &Output,
) -> Result<Value, Failure> {
    let _progress = Progress::new(output, &format!("calling {}", args.target));
    let options = RunOptions { timeout: args.timeout, ..RunOptions::default() };
    let called = client.call_with(service, function, params, &options).await;
    called.map_err(|exception| {
        let exception = exception.calling(service, function);
        Failure::Threw(Box::new(Threw { exception, spot: None, chain: None, cancelled: false }))
    })
}

fn split(target: &str) -> Result<(&str, &str), Failure> {
    match target.split_once('/') {
        Some((service, function)) if !service.is_empty() && !function.is_empty() && !function.contains('/') => {
            Ok((service, function))
        }
        _ => {
            let subcommands = ["up", "dev", "run", "call", "debug", "replay", "ls", "check"];
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
    fn times_have_units_and_bounds() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1_500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["", "60", "s", "0s", "-1s", "25h", "1e9s", "1.2.3s", "5 s", "NaNs"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_target_has_two_parts() {
        assert!(matches!(split("files.mtv/read"), Ok(("files.mtv", "read"))));
        for wrong in ["files.mtv", "/read", "files/", "a/b/c", ""] {
            assert!(split(wrong).is_err(), "{wrong}");
        }
    }
}
