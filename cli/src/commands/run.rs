//! `catena run FILE`.

use std::{
    path::PathBuf,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use catena::{Client, Exception, Limits, LogLine, Reply, ReplySet, RunOptions, Value};
use clap::{Args, ValueHint};
use serde::Serialize;
use serde_json::json;

use crate::{
    commands::call::duration,
    connect::{self, At, Standing},
    explain::Chart,
    failure::{Failure, Threw},
    output::{Output, Paint, printable},
    progress::Progress,
    sandbox,
    signals::Signals,
    source::Source,
    value::{self, OneKey, Shown},
};

/// Run a function as a chain
///
/// The function begins here and hops to each service that it awaits; what it emits comes as it happens, then its result, as JSON on
/// standard output. What it logs comes on standard error. Bytes are {"$bytes": "BASE64"} both ways.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  catena run examples/tour.ts --site bei --explain\n  \
    catena run hello.ts --arg '{\"name\": \"you\"}' --json\n  catena run report.js --arg @input.json --timeout 5m")]
pub(crate) struct Run {
    /// The function: .ts, .mts, .js, .mjs or .wasm
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Its input: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON", default_value = "null", value_hint = ValueHint::Other, allow_negative_numbers = true)]
    arg: String,
    /// Draw the chain hop by hop, on standard error (with --json: under "explain")
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    at: At,
    #[command(flatten)]
    standing: Standing,
    /// How long it may take: 500ms, 60s, 2m
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = duration)]
    timeout: Duration,
    /// How many calls it may make
    #[arg(long, default_value_t = 2_000, value_name = "N")]
    hops_max: u32,
}

pub(crate) async fn run(args: &Run, output: &Output) -> Result<(), Failure> {
    let input = value::argument(&args.arg)?;
    let source = Source::read(&args.file)?;
    let mut signals = Signals::new()?;
    let sandbox = signals.unless(sandbox::make(Limits::default(), output)).await?;
    let client = signals.unless(connect::connect(&args.at, Some(&args.standing), Some(sandbox), output)).await?;
    let ran = signals.unless(chain(args, &client, &source, &input, output)).await;
    connect::close(client).await;
    ran
}

async fn chain(args: &Run, client: &Client, source: &Source, input: &Value, output: &Output) -> Result<(), Failure> {
    let code = source.load(client).await?;
    let options = RunOptions {
        timeout: args.timeout,
        hops_max: args.hops_max,
        profile: args.explain,
        ..RunOptions::default()
    };
    let progress = Progress::new(output, &format!("running {}", source.name));
    let mut replies = client.run_with(&code, input, &options).map_err(|exception| threw(source, exception))?;
    let mut logged = 0;
    let ended = loop {
        let reply = replies.next().await;
        let unread = replies.console().get(logged..).unwrap_or_default();
        logged += unread.len();
        progress.aside(|| unread.iter().for_each(|line| tell(line, output)));
        match reply {
            Some(Ok(Reply::Partial(value))) => progress.aside(|| emitted(&value, output))?,
            Some(Ok(Reply::Last(value))) => break Ok(value),
            Some(Err(why)) => break Err(threw(source, why)),
            // A reply set ends with one of the two above; this is for the compiler.
            None => break Ok(Value::null()),
        }
    };
    drop(progress);
    let chart = args.explain.then(|| Chart::new(replies.trace(), unix_us()));
    if output.json { report(ended, &replies, chart.as_ref(), output) } else { show(ended, chart.as_ref(), output) }
}

fn threw(source: &Source, exception: Exception) -> Failure {
    let spot = source.spot(&exception);
    Failure::Threw(Box::new(Threw { exception, spot }))
}

/// A line of the virtual console (rpc-chains section 3.7).
fn tell(line: &LogLine, output: &Output) {
    let from = output.paint_talk(Paint::Dim, &format!("[{} {}]", printable(&line.node), line.step));
    output.talk(&format!("{from} {}", printable(&line.text)));
}

fn emitted(value: &Value, output: &Output) -> Result<(), Failure> {
    if output.json {
        return output.json_line(&OneKey("emit", Shown(value)));
    }
    let mark = if output.out_tty { output.paint(Paint::Dim, "emit ") } else { String::new() };
    output.data(&(mark + &Shown(value).compact()))
}

fn show(ended: Result<Value, Failure>, chart: Option<&Chart>, output: &Output) -> Result<(), Failure> {
    let ended = match ended {
        Ok(value) => output.json_pretty(&Shown(&value)),
        Err(why) => {
            output.failure(&why);
            Err(Failure::Told(why.exit()))
        }
    };
    if let Some(chart) = chart {
        output.talk(&format!("\n{}", chart.text(output.err_fancy())));
    }
    ended
}

/// The last line for programs: the result or error, and what is known of the way.
#[derive(Serialize)]
struct Report<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Shown<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<serde_json::Value>,
    path: &'a [String],
    log: Vec<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explain: Option<serde_json::Value>,
}

fn report(
    ended: Result<Value, Failure>,
    replies: &ReplySet,
    chart: Option<&Chart>,
    output: &Output,
) -> Result<(), Failure> {
    let lines = replies.console().iter();
    let log = lines.map(|line| json!({ "step": line.step, "node": line.node, "at_us": line.at_us, "text": line.text }));
    let report = Report {
        result: ended.as_ref().ok().map(Shown),
        error: ended.as_ref().err().and_then(Failure::json),
        path: replies.path(),
        log: log.collect(),
        explain: chart.map(Chart::json),
    };
    output.json_line(&report)?;
    ended.map(drop).map_err(|why| Failure::Told(why.exit()))
}

fn unix_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
