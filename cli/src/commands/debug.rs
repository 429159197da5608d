//! `catena debug FILE`.

use std::{
    io::{self, BufRead, IsTerminal, Read},
    path::PathBuf,
};

use catena::Limits;
use catena_guest::Start;
use clap::{Args, ValueHint};
use serde_json::json;
use tokio::sync::mpsc;

use crate::{
    clock, connect,
    console::{self, Console},
    debugger::{Command, Debugger, Teller, Went},
    exit::Exit,
    failure::Failure,
    input::{self, JSON_BYTES_MAX},
    local::{self, Local},
    lowering::Lowered,
    output::{Output, Paint},
    recording::Recording,
    sandbox,
    signals::Signals,
    source::Source,
    terms::Terms,
    value::{self, Shown},
};

/// Longest command.
const LINE_BYTES_MAX: u64 = JSON_BYTES_MAX;
/// Commands read ahead.
const LINES_AHEAD_MAX: usize = 16;

const EXAMPLES: &str = "\
Commands, one a line, from the terminal, from standard input or from --script (a wrong one ends the session, but at a terminal):
  step               make the call that is shown; again: hand in its result, and go on to the next call
  continue           make all calls, to the end
  set JSON           answer with this instead, whether the call was made or not
  throw NAME MESSAGE answer with this exception instead
  back [N]           to the step before, or to step N: its result may then be changed, handed in again, or (back once more)
                     the call made anew; what calls have done stays done
  show, list         all there is to know of this step; the steps so far
  quit, help

Examples:
  catena debug examples/tour.ts
  catena debug copy.ts --arg @input.json --record way.json
  printf 'set 5\\nstep\\ncontinue\\n' | catena debug f.ts --json";

/// Step through a function, call by call
///
/// The function runs here (interactive mode): each call is shown before it is made, and its result before it is handed in. Branches of a
/// split run one after the other, and chains that services answer with run on their own. The function's result comes on standard output
/// when the session is over; all else is on standard error, or with --json one JSON value a line on standard output.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Debug {
    /// The function: .ts, .mts, .js, .mjs or .wasm
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Its input: JSON or @FILE
    #[arg(long, value_name = "JSON", default_value = "null", value_hint = ValueHint::Other, allow_negative_numbers = true)]
    arg: String,
    /// Read the commands from there
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    script: Option<PathBuf>,
    /// Write the way that was taken into this file, for `catena replay`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    record: Option<PathBuf>,
    #[command(flatten)]
    terms: Terms,
    #[command(flatten)]
    lowered: Lowered,
}

pub(crate) async fn run(args: &Debug, output: &Output) -> Result<(), Failure> {
    if args.arg == "-" || args.terms.read_stdin() {
        let help = "put it into a file, and name it as @FILE";
        return Err(Failure::input("BadUsage", "standard input is for the debugger's commands", help));
    }
    let options = args.terms.options("--arg", &args.arg)?;
    let input = value::argument(&args.arg)?;
    let source = Source::read(&args.file)?;
    let mut lines = Lines::open(args)?;
    let mut signals = Signals::new()?;
    let sandbox = signals.unless(sandbox::make(Limits::default(), output)).await?;
    let began_at_us = clock::unix_us();
    let start = Start { started_at_ms: began_at_us / 1_000, seed: local::new_chain().seed() };
    let local = Local::load(sandbox, &source, start, args.terms.hops_max, args.lowered).await?;
    let mut recording = Recording::new(&source, &local, &input);
    if let Some(file) = &args.record {
        // A place that cannot be written to is told before anything is done.
        recording.write(file)?;
    }
    let client = signals.unless(args.terms.connect(None, output)).await?;
    let console = Console::open(&console::Where::Stderr, began_at_us, output)?;
    let teller = Teller { source: &source, output, console };
    let mut debugger = Debugger::begin(&local, &input, &client, &options, teller).await?;
    let talked = talk(&mut debugger, &mut lines, &mut signals, output).await;
    if let Some(file) = &args.record {
        debugger.write_into(&mut recording);
        recording.write(file)?;
    }
    let ended = talked.and_then(|()| close(&debugger, output));
    drop(debugger);
    connect::close(client).await;
    ended
}

async fn talk(
    debugger: &mut Debugger<'_>,
    lines: &mut Lines,
    signals: &mut Signals,
    output: &Output,
) -> Result<(), Failure> {
    loop {
        if lines.terminal {
            prompt(debugger.number(), output);
        }
        let line = tokio::select! {
            line = lines.next() => line?,
            () = signals.next() => return Err(Failure::Interrupted),
        };
        let Some(line) = line else { return Ok(()) };
        let command = match Command::read(&line) {
            Ok(Some(command)) => command,
            // At a terminal, the return key is one step.
            Ok(None) if lines.terminal && line.trim().is_empty() => Command::Step,
            Ok(None) => continue,
            Err(why) if lines.terminal => {
                output.failure(&why);
                continue;
            }
            Err(why) => return Err(why.saying_before(&lines.place())),
        };
        match debugger.obey(command, signals).await? {
            Went::On => {}
            Went::Out => return Ok(()),
            Went::No(why) => debugger.refuse(&why)?,
        }
    }
}

fn prompt(number: usize, output: &Output) {
    use io::Write;
    // Nobody there to see it is no failure.
    let mut err = io::stderr().lock();
    let _ = write!(err, "{} ", output.paint_talk(Paint::Blue, &format!("#{number}>"))).and_then(|()| err.flush());
}

fn close(debugger: &Debugger<'_>, output: &Output) -> Result<(), Failure> {
    match debugger.end() {
        // Programs have been told when it ended.
        Some(Err(_)) if output.json => Err(Failure::Told(Exit::Exception)),
        Some(Err(why)) => Err(debugger.failure(why)),
        Some(Ok(_)) if output.json => Ok(()),
        Some(Ok(value)) => output.json_pretty(&Shown(value)),
        None if output.json => output.json_line(&json!({ "left": { "number": debugger.number() } })),
        None => debugger.refuse(&format!("left at step {}: the function has not ended", debugger.number())),
    }
}

/// Where the commands come from.
struct Lines {
    from: mpsc::Receiver<io::Result<String>>,
    named: String,
    read: usize,
    terminal: bool,
}

impl Lines {
    fn open(args: &Debug) -> Result<Self, Failure> {
        let (tell, from) = mpsc::channel(LINES_AHEAD_MAX);
        let (named, terminal) = match &args.script {
            Some(script) => {
                let text = input::file(script, JSON_BYTES_MAX)?;
                std::thread::spawn(move || pass_on(io::Cursor::new(text), &tell));
                (script.display().to_string(), false)
            }
            None => {
                // A thread of its own: reading cannot be given up, and must not hold the process up at its end.
                std::thread::spawn(move || pass_on(io::stdin().lock(), &tell));
                ("standard input".to_owned(), io::stdin().is_terminal())
            }
        };
        Ok(Self { from, named, read: 0, terminal })
    }

    /// Cancel-safe.
    async fn next(&mut self) -> Result<Option<String>, Failure> {
        match self.from.recv().await {
            None => Ok(None),
            Some(Ok(line)) => {
                self.read += 1;
                Ok(Some(line))
            }
            Some(Err(why)) => {
                let message = format!("{} cannot be read: {why}", self.named);
                Err(Failure::input("Unreadable", message, "give commands as lines of text"))
            }
        }
    }

    fn place(&self) -> String {
        format!("{}:{}", self.named, self.read)
    }
}

fn pass_on(mut from: impl BufRead, tell: &mpsc::Sender<io::Result<String>>) {
    loop {
        let mut line = String::new();
        let read = from.by_ref().take(LINE_BYTES_MAX).read_line(&mut line);
        let line = match read {
            Ok(0) => return,
            Ok(_) => Ok(line),
            Err(why) => Err(why),
        };
        let last = line.is_err();
        if tell.blocking_send(line).is_err() || last {
            return;
        }
    }
}
