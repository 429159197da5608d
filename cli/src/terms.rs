//! What every command that makes calls is told: where to begin, on whose behalf, and what it may cost.

use std::{path::PathBuf, sync::Arc, time::Duration};

use catena::{Client, NodeBuilder, RunOptions, Sandbox, StepLimits, Topology, Value};
use clap::{Args, ValueHint, builder::PossibleValuesParser};
use serde::{Deserialize, Serialize};

use crate::{
    connect::{self, At, Given},
    failure::Failure,
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
    /// How long it may take: 500ms, 60s, 2m, up to the 10m that nodes allow; when debugging, each call, up to 24h
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = duration)]
    timeout: Duration,
    /// How many calls may be made, with those of chains that services answer with, up to the 2,000 that nodes allow
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

/// Over the flags by which a chain lowers what its own function may use (rpc-chains section 3.6).
const HEADING: &str = "Limits of the function's own, at each step";

/// Limits of a function, lower than those of the nodes it comes to: as flags, and as a recording has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lowered {
    /// Memory that it may use, the engine's own included; each node has a limit too (64 MiB by default), and the lower one holds, as for those below
    #[arg(long, value_name = "BYTES", help_heading = HEADING, value_parser = whole::<u64>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_bytes_max: Option<u64>,
    /// Time that it may run from one call to the next (1,000 by default)
    #[arg(long, value_name = "MS", help_heading = HEADING, value_parser = whole::<u32>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    step_wall_ms_max: Option<u32>,
    /// Parameters of its calls, intermediate answers, log lines and result (16 MiB)
    #[arg(long, value_name = "BYTES", help_heading = HEADING, value_parser = whole::<u32>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    output_bytes_max: Option<u32>,
    /// Calls, intermediate answers and log lines (65,536)
    #[arg(long, value_name = "N", help_heading = HEADING, value_parser = whole::<u32>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    events_max: Option<u32>,
    /// State that it may take along to the next node (16 MiB)
    #[arg(long, value_name = "BYTES", help_heading = HEADING, value_parser = whole::<u32>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    continuation_bytes_max: Option<u32>,
}

impl Lowered {
    /// As they travel.
    pub(crate) const fn limits(&self) -> StepLimits {
        let Self { memory_bytes_max, step_wall_ms_max, output_bytes_max, events_max, continuation_bytes_max } = *self;
        StepLimits { memory_bytes_max, step_wall_ms_max, output_bytes_max, events_max, continuation_bytes_max }
    }
}

fn whole<N: TryFrom<u64>>(text: &str) -> Result<N, String> {
    let number = text.parse::<u64>().ok().filter(|number| *number > 0).and_then(|number| N::try_from(number).ok());
    let bits = 8 * size_of::<N>();
    number.ok_or_else(|| {
        format!("write a whole number, from 1 on and of at most {bits} bits; its unit is that of the flag")
    })
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

    #[test]
    fn numbers_are_whole_and_fit() {
        assert_eq!(whole(&u32::MAX.to_string()), Ok(u32::MAX));
        assert_eq!(whole("4294967296"), Ok(1_u64 << 32));
        for wrong in ["", "0", "-1", "1.5", "1mb", "4294967296"] {
            assert!(whole::<u32>(wrong).is_err(), "{wrong}");
        }
    }
}
