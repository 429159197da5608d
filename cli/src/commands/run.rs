//! `catena run FILE`.

use std::path::PathBuf;

use catena::{Client, Mode, Reply, ReplySet, RunOptions, Value};
use clap::{Args, ValueEnum, ValueHint};
use serde::Serialize;
use serde_json::json;

use crate::{
    connect,
    console::{self, Console},
    ending::Ended,
    explain::Chart,
    failure::{Failure, Threw},
    hearing::{self, Heard},
    output::{Output, Paint, printable},
    progress::Progress,
    recording::Recording,
    report, sandbox,
    signals::Signals,
    source::Source,
    terms::Task,
    value::{Exact, OneKey, Shown, compact},
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
    #[command(flatten)]
    task: Task,
    /// Draw the chain hop by hop, on standard error (with --json: under "explain")
    #[arg(long)]
    explain: bool,
    /// Where its own code runs
    #[arg(long, value_enum, value_name = "MODE", default_value = "chain")]
    mode: Placing,
    /// Record all that the function is told, at whichever node it is, for `catena replay`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    record: Option<PathBuf>,
    /// Let chains that services answer with run on their own, and bring their result back to that service
    #[arg(long)]
    no_compose: bool,
    #[command(flatten)]
    console: console::Destination,
}

pub(crate) async fn run(args: &Run, output: &Output) -> Result<(), Failure> {
    let (source, input, options) = args.task.read()?;
    let options = RunOptions {
        profile: args.explain,
        mode: args.mode.into(),
        compose: !args.no_compose,
        record: args.record.is_some(),
        ..options
    };
    let mut signals = Signals::new()?;
    let sandbox = signals.unless(sandbox::make(output)).await?;
    let client = signals.unless(args.task.terms.connect(Some(sandbox), output)).await?;
    let ran = chain(args, &source, &input, &options, &client, &mut signals, output).await;
    // Closing flushes the messages that tell the nodes of a cancelled chain to stop.
    let closed = signals.unless(connect::close(client)).await;
    if closed.is_err() && !output.json {
        output.talk("ended at once: nodes that were not told in time stop the chain when its time is up");
    }
    ran.and(closed)
}

async fn chain(
    args: &Run,
    source: &Source,
    input: &Value,
    options: &RunOptions,
    client: &Client,
    signals: &mut Signals,
    output: &Output,
) -> Result<(), Failure> {
    let code = signals.unless(source.load(client)).await?;
    let mut console = Console::open(&args.console.console, client.unix_us(), output)?;
    let mut recording = Recording::new(source, code.hash(), options.hops_max, args.task.lowered);
    // Fails before anything is done if the file cannot be written.
    recording.write(args.record.as_deref())?;
    let progress = Progress::new(output, &format!("running {}", source.name));
    let mut replies = client.run_with(&code, input, options).map_err(|exception| source.threw(exception))?;
    let chain = replies.chain();
    let (mut logged, mut cancelled) = (0, false);
    let ended = loop {
        let heard = tokio::select! {
            heard = hearing::next(&mut replies, logged, usize::MAX) => heard,
            // Of a chain that is cancelled the outcome is known here at once: a second signal finds the command closing.
            () = signals.next(), if !cancelled => {
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
        progress.aside(|| unread.iter().for_each(|line| console.line(line)));
        match heard {
            Heard::More => {}
            Heard::Reply(Ok(Reply::Partial(value))) => {
                progress.aside(|| emitted(&value, output))?;
                if options.record {
                    recording.emits.push(Exact(value));
                }
            }
            Heard::Reply(Ok(Reply::Last(value))) => break Ok(value),
            Heard::Reply(Err(why)) => break Err(why),
        }
    };
    drop(progress);
    recording.take(replies.recording(), replies.console(), Some(&ended));
    let recorded = output.beside(recording.write(args.record.as_deref()));
    if let (Some(file), Ok(()), false) = (&args.record, &recorded, output.json) {
        let lacks = if recording.end.is_none() { "; only its beginning, since the rest did not come home" } else { "" };
        output.talk(&format!("recorded: {}{lacks}", printable(&file.display().to_string())));
    }
    // A chain that is given up keeps its profile where it is.
    let profiled = replies.trace().iter().map(|step| step.step).max().unwrap_or_default();
    let cut_off = ended.as_ref().is_err_and(|why| why.unknown) && profiled < replies.last_step();
    let ended = ended.map_err(|exception| {
        // It may have ended by itself before the cancel took effect.
        let cancelled = cancelled && exception.name == catena::exceptions::CANCELLED;
        let (spot, last_step) = (source.spot(&exception), replies.last_step());
        Failure::Threw(Box::new(Threw { exception, spot, ended: Some(Ended { chain, last_step }), cancelled }))
    });
    let chart = args.explain.then(|| Chart::new(replies.trace(), client.unix_us()));
    let told = match output.json {
        true => tell(ended, &replies, chart.as_ref(), output),
        false => show(ended, chart.as_ref(), output),
    };
    if args.explain && !output.json && cut_off {
        output.talk("what came after that did not come home: where it spent its time is not known");
    }
    told.and(recorded).and(console.close())
}

pub(crate) fn emitted(value: &Value, output: &Output) -> Result<(), Failure> {
    if output.json {
        return output.json_line(&OneKey("emit", Shown(value)));
    }
    let mark = if output.out_tty { output.paint(Paint::Dim, "emit ") } else { String::new() };
    output.data(&(mark + &compact(value)))
}

fn show(ended: Result<Value, Failure>, chart: Option<&Chart<'_>>, output: &Output) -> Result<(), Failure> {
    let ended = match ended {
        Ok(value) => output.json_pretty(&Shown(&value)),
        Err(why) => {
            output.failure(&why);
            Err(Failure::Told(why.exit()))
        }
    };
    if let Some(chart) = chart {
        output.talk(&format!("\n{}", chart.text(output.err_fancy)));
    }
    ended
}

/// What is known of the way that the chain took.
#[derive(Serialize)]
struct Way<'a> {
    chain: String,
    path: &'a [String],
    log: Vec<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explain: Option<serde_json::Value>,
}

fn tell(
    ended: Result<Value, Failure>,
    replies: &ReplySet,
    chart: Option<&Chart<'_>>,
    output: &Output,
) -> Result<(), Failure> {
    let log = replies
        .console()
        .iter()
        .map(|line| json!({ "step": line.step, "branch": line.branch.to_string(), "node": line.node, "at_us": line.at_us, "text": line.text }));
    let (chain, path, log) = (replies.chain().to_string(), replies.path(), log.collect());
    report::tell(ended, Way { chain, path, log, explain: chart.map(Chart::json) }, output)
}
