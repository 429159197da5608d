//! What every command that makes calls is told: where to begin, on whose behalf, and what it may cost.

use std::{path::PathBuf, sync::Arc, time::Duration};

use catena::{Client, NodeBuilder, RunOptions, Sandbox, Topology, Value};
use clap::{Args, ValueHint, builder::PossibleValuesParser};

use crate::{
    connect::{self, At},
    failure::Failure,
    given::Given,
    lowering::Lowered,
    output::Output,
    source::Source,
    value,
};

/// The terms on which calls are made.
#[derive(Clone, Debug, Args)]
pub(crate) struct Terms {
    #[command(flatten)]
    at: At,
    /// Delay this client's links as if it stood at SITE (development: `catena dev` answers in kind)
    #[arg(long, value_name = "SITE", value_parser = PossibleValuesParser::new(catena_apps::sites::SITES.map(|site| site.id)))]
    site: Option<String>,
    /// On whose behalf services are called, as they understand it: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON", value_hint = ValueHint::Other, allow_negative_numbers = true)]
    credentials: Option<String>,
    /// How long it may take, when debugging each call: 500ms, 60s, 2m
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = duration)]
    timeout: Duration,
    /// How many calls may be made, with those of chains that services answer with
    #[arg(long, default_value_t = 2_000, value_name = "N")]
    hops_max: u32,
}

impl Terms {
    /// For a function or call whose input is `input`, and is called `named`: standard input can be read once.
    pub(crate) fn options(&self, named: &str, input: &str) -> Result<RunOptions, Failure> {
        if input == "-" && self.read_stdin() {
            let message = format!("{named} and --credentials cannot both come from standard input");
            return Err(Failure::input("BadUsage", message, "put one of them into a file, and name it as @FILE"));
        }
        let credentials = self.credentials.as_deref().map(value::argument).transpose()?;
        Ok(RunOptions { timeout: self.timeout, hops_max: self.hops_max, credentials, ..RunOptions::default() })
    }

    /// Whether the credentials come from standard input.
    pub(crate) fn read_stdin(&self) -> bool {
        self.credentials.as_deref() == Some("-")
    }

    /// Connects. The sandbox is for chains, which begin in this process.
    pub(crate) async fn connect(&self, sandbox: Option<Sandbox>, output: &Output) -> Result<Client, Failure> {
        let standing = |client: NodeBuilder, site: &String| client.site(site).topology(Arc::new(Topology::paper()));
        let more =
            |client: NodeBuilder| client.given(self.site.as_ref(), standing).given(sandbox, NodeBuilder::sandbox);
        connect::connect(&self.at.connect, more, output).await
    }
}

/// A function with its input, and on which terms it runs.
#[derive(Clone, Debug, Args)]
pub(crate) struct Task {
    /// The function: .ts, .mts, .js, .mjs or .wasm
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Its input: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON", default_value = "null", value_hint = ValueHint::Other, allow_negative_numbers = true)]
    pub(crate) arg: String,
    #[command(flatten)]
    pub(crate) terms: Terms,
    #[command(flatten)]
    pub(crate) lowered: Lowered,
}

impl Task {
    /// What the command line says: the function, its input, and how it runs.
    pub(crate) fn read(&self) -> Result<(Source, Value, RunOptions), Failure> {
        let options = RunOptions { limits: self.lowered.limits(), ..self.terms.options("--arg", &self.arg)? };
        let input = value::argument(&self.arg)?;
        Ok((Source::read(&self.file)?, input, options))
    }
}

/// Longest time that may be asked for.
const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 3_600);

/// A time with its unit.
fn duration(text: &str) -> Result<Duration, String> {
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
}
