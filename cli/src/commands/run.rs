//! `catena run FILE`.

use std::path::{Path, PathBuf};

use catena::{Client, Exception, Limits, LogLine, Mode, Reply, RunOptions, Sandbox, Value};
use catena_guest::Start;
use clap::{Args, ValueEnum, ValueHint};
use serde::Serialize;
use serde_json::json;

use crate::{
    clock, connect,
    console::{self, Console},
    ending::Ended,
    explain::Chart,
    failure::{Failure, Threw},
    hearing::{self, Heard},
    local::{self, HERE, Local, Said},
    lowering::Lowered,
    output::{Output, Paint, printable},
    progress::Progress,
    recorder,
    recording::Recording,
    report, sandbox,
    signals::Signals,
    source::Source,
    terms::Terms,
    value::{self, OneKey, Shown},
};

/// Where a chain's own code runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Placing {
    /// At each server that it calls.
    Chain,
    /// Here: each call is a plain one.
    Interactive,
    /// At each call, wherever it is expected to be quicker.
    Adaptive,
}

impl From<Placing> for Mode {
    fn from(placing: Placing) -> Self {
        match placing {
            Placing::Chain => Self::Chain,
            Placing::Interactive => Self::Interactive,
            Placing::Adaptive => Self::Adaptive,
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  catena run examples/tour.ts --site bei --explain
  catena run hello.ts --arg '{\"name\": \"you\"}' --json
  catena run report.js --arg @input.json --timeout 5m
  catena run copy.ts --mode interactive               its own code stays here
  catena run read.ts --credentials '{\"uid\": 1000}'  on somebody's behalf
  catena run read.ts --record read.json               to be run again by `catena replay`";

/// Run a function as a chain
///
/// The function begins here and hops to each service that it awaits; what it emits comes as it happens, then its result, as JSON on
/// standard output. What it logs comes on standard error. Bytes are {"$bytes": "BASE64"} both ways. Ctrl-C cancels the chain wherever it
/// is, and says where that was; a second Ctrl-C ends at once.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
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
    /// Where its own code runs [default: chain]
    #[arg(long, value_enum, value_name = "MODE")]
    mode: Option<Placing>,
    /// Write down all that the function is told, for `catena replay`; its own code stays here (--mode interactive), and the branches of
    /// a split run one after the other
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["explain", "no_compose"])]
    record: Option<PathBuf>,
    /// Let chains that services answer with run on their own, and bring their result back to that service
    #[arg(long)]
    no_compose: bool,
    /// Where to write what the function logs: stderr, off, or a file
    #[arg(long, value_name = "WHERE", default_value = "stderr", value_hint = ValueHint::FilePath, value_parser = console::place)]
    console: console::Where,
    #[command(flatten)]
    terms: Terms,
    #[command(flatten)]
    lowered: Lowered,
}

impl Run {
    fn options(&self) -> Result<RunOptions, Failure> {
        Ok(RunOptions {
            profile: self.explain,
            mode: self.mode.unwrap_or(Placing::Chain).into(),
            compose: !self.no_compose,
            limits: self.lowered.limits(),
            ..self.terms.options("--arg", &self.arg)?
        })
    }
}

pub(crate) async fn run(args: &Run, output: &Output) -> Result<(), Failure> {
    let (input, options) = inputs(args)?;
    let source = Source::read(&args.file)?;
    let mut signals = Signals::new()?;
    let sandbox = signals.unless(sandbox::make(Limits::default(), output)).await?;
    let here = sandbox.clone();
    let client = signals.unless(args.terms.connect(Some(sandbox), output)).await?;
    let task = Task { args, source: &source, input: &input, options: &options, output };
    let ran = match &args.record {
        Some(file) => task.record(file, here, &client, &mut signals).await,
        None => task.chain(&client, &mut signals).await,
    };
    // What tells the nodes of a cancelled chain goes out here.
    let closing = async {
        connect::close(client).await;
        Ok(())
    };
    let closed = signals.unless(closing).await;
    if closed.is_err() && !output.json {
        output.talk("ended at once: nodes that were not told in time stop the chain when its time is up");
    }
    ran.and(closed)
}

/// What the command line says and does not mean.
fn inputs(args: &Run) -> Result<(Value, RunOptions), Failure> {
    if args.record.is_some() && args.mode.is_some_and(|mode| mode != Placing::Interactive) {
        let message = "a chain's calls are known here in interactive mode only, so only that can be recorded";
        return Err(Failure::input("BadUsage", message, "leave --mode out, or --record"));
    }
    let options = args.options()?;
    Ok((value::argument(&args.arg)?, options))
}

/// What is to be run, and how.
struct Task<'a> {
    args: &'a Run,
    source: &'a Source,
    input: &'a Value,
    options: &'a RunOptions,
    output: &'a Output,
}

impl Task<'_> {
    async fn chain(&self, client: &Client, signals: &mut Signals) -> Result<(), Failure> {
        let Self { args, source, input, options, output } = *self;
        let code = signals.unless(source.load(client)).await?;
        let mut console = Console::open(&args.console, clock::unix_us(), output)?;
        let progress = Progress::new(output, &format!("running {}", source.name));
        let mut replies =
            client.run_with(&code, input, options).map_err(|exception| threw(source, exception, None, false))?;
        let chain = replies.chain();
        let mut logged = 0;
        let mut cancelled = false;
        let ended = loop {
            let heard = tokio::select! {
                heard = hearing::next(&mut replies, logged) => heard,
                () = signals.next() => {
                    if cancelled {
                        return Err(Failure::Interrupted);
                    }
                    cancelled = true;
                    replies.cancel();
                    if !output.json {
                        progress.aside(|| output.talk("cancelling; once more to end at once"));
                    }
                    continue;
                }
            };
            let unread = replies.console().get(logged..).unwrap_or_default();
            logged += unread.len();
            progress.aside(|| unread.iter().try_for_each(|line| console.line(line)))?;
            let Heard::Reply(reply) = heard else { continue };
            match reply {
                Some(Ok(Reply::Partial(value))) => progress.aside(|| emitted(&value, output))?,
                Some(Ok(Reply::Last(value))) => break Ok(value),
                Some(Err(why)) => {
                    let last_step = replies.last_step();
                    break Err(threw(source, why, Some(Ended { chain, last_step }), cancelled));
                }
                // A reply set ends with one of the two above; this is for the compiler.
                None => break Ok(Value::null()),
            }
        };
        drop(progress);
        let chart = args.explain.then(|| Chart::new(replies.trace(), clock::unix_us()));
        if output.json {
            tell(ended, &chain.to_string(), replies.path(), replies.console(), chart.as_ref(), output)
        } else {
            show(ended, chart.as_ref(), output)
        }
    }

    /// Runs it here by plain calls, and writes down what it is told.
    async fn record(
        &self,
        file: &Path,
        sandbox: Sandbox,
        client: &Client,
        signals: &mut Signals,
    ) -> Result<(), Failure> {
        let Self { args, source, input, options, output } = *self;
        let (chain, began_at_us) = (local::new_chain(), clock::unix_us());
        let start = Start { started_at_ms: began_at_us / 1_000, seed: chain.seed() };
        let local = Local::load(sandbox, source, start, args.terms.hops_max, args.lowered).await?;
        let mut console = Console::open(&args.console, began_at_us, output)?;
        let recording = Recording::new(source, &local, input);
        // A place that cannot be written to is told before anything is done.
        recording.write(file)?;
        let progress = Progress::new(output, &format!("running and recording {}", source.name));
        let mut lines = Vec::new();
        let hear = |said: &Said| {
            lines.extend(said.lines.iter().cloned());
            progress.aside(|| {
                said.lines.iter().try_for_each(|line| console.line(line))?;
                said.emits.iter().try_for_each(|value| emitted(value, output))
            })
        };
        let ran = recorder::run(&local, recording, client, options, signals, hear).await?;
        drop(progress);
        ran.recording.write(file)?;
        let ended = ran.end.map_err(|why| threw(source, why, None, ran.cancelled));
        if output.json {
            let path = [HERE.to_owned()];
            tell(ended, &chain.to_string(), &path, &lines, None, output)
        } else {
            output.talk(&format!("recorded, in interactive mode: {}", printable(&file.display().to_string())));
            show(ended, None, output)
        }
    }
}

/// `cancelled`: somebody here asked for its end. It may have ended by itself all the same.
fn threw(source: &Source, exception: Exception, ended: Option<Ended>, cancelled: bool) -> Failure {
    let spot = source.spot(&exception);
    let cancelled = cancelled && exception.name == catena::exceptions::CANCELLED;
    Failure::Threw(Box::new(Threw { exception, spot, ended, cancelled }))
}

pub(crate) fn emitted(value: &Value, output: &Output) -> Result<(), Failure> {
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

/// What is known of the way.
#[derive(Serialize)]
struct Way<'a> {
    chain: &'a str,
    path: &'a [String],
    log: Vec<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explain: Option<serde_json::Value>,
}

fn tell(
    ended: Result<Value, Failure>,
    chain: &str,
    path: &[String],
    lines: &[LogLine],
    chart: Option<&Chart>,
    output: &Output,
) -> Result<(), Failure> {
    let log = lines
        .iter()
        .map(|line| json!({ "step": line.step, "branch": line.branch.to_string(), "node": line.node, "at_us": line.at_us, "text": line.text }));
    report::tell(ended, Way { chain, path, log: log.collect(), explain: chart.map(Chart::json) }, output)
}
