//! `catena debug FILE`.

use std::{
    io::{self, IsTerminal},
    os::fd::AsFd,
    path::PathBuf,
};

use clap::{Args, ValueHint};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};

use crate::{
    connect,
    console::{self, Console},
    debugger::{self, Command, Debugger, Subject, Teller},
    exit::Exit,
    failure::Failure,
    input::{self, JSON_BYTES_MAX, STDIN},
    output::{Output, Paint},
    recording::Recording,
    sandbox,
    signals::Signals,
    source::Source,
    terms::Task,
    value::Shown,
};

/// Longest command.
const LINE_BYTES_MAX: u64 = JSON_BYTES_MAX;

fn more_help() -> String {
    format!(
        "\
Commands, one a line, from the terminal, from standard input or from --script (a wrong one ends the session, but at a terminal):
{}
After `back` the result of the step may be changed, or handed in again; after another `back` its call is made anew.

Examples:
  catena debug examples/tour.ts
  catena debug copy.ts --arg @input.json --record way.json
  printf 'set 5\\nstep\\ncontinue\\n' | catena debug f.ts --json",
        debugger::list()
    )
}

/// Step through a function, call by call
///
/// A node in this process runs the function (interactive mode): each call is shown before it is made, and its result before it is handed
/// in. When several calls wait side by side, also in branches of a split, the first is shown; chains that services answer with run on
/// their own. Ctrl-C ends the command that is under way, and at the prompt the session. The function's result comes on standard output
/// when the session is over; all else is on standard error, or with --json one JSON value a line on standard output.
#[derive(Debug, Args)]
#[command(after_help = more_help())]
pub(crate) struct Debug {
    #[command(flatten)]
    task: Task,
    /// Read the commands from this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    script: Option<PathBuf>,
    /// Record the session into this file, for `catena replay`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    record: Option<PathBuf>,
}

pub(crate) async fn run(args: &Debug, output: &Output) -> Result<(), Failure> {
    if args.task.arg == "-" || args.task.terms.read_stdin() {
        let help = "put it into a file, and name it as @FILE";
        let message =
            "standard input is for the debugger's commands: neither --arg nor --credentials can come from there";
        return Err(Failure::input("BadUsage", message, help));
    }
    let (source, input, options) = args.task.read()?;
    let lines = Lines::open(args)?;
    let mut signals = Signals::new()?;
    let sandbox = signals.unless(sandbox::make(output)).await?;
    let client = signals.unless(args.task.terms.connect(None, output)).await?;
    let subject = Subject { sandbox, input, client: &client, options };
    let ended = session(args, &source, subject, lines, &mut signals, output).await;
    ended.and(signals.unless(connect::close(client)).await)
}

async fn session(
    args: &Debug,
    source: &Source,
    subject: Subject<'_>,
    mut lines: Lines,
    signals: &mut Signals,
    output: &Output,
) -> Result<(), Failure> {
    let console = Console::open(&console::Where::Stderr, subject.client.unix_us(), output)?;
    let teller = Teller { source, output, console };
    let hops_max = subject.options.hops_max;
    let mut debugger = signals.unless(Debugger::begin(subject, teller)).await?;
    let mut recording = Recording::new(source, debugger.code.hash(), hops_max, args.task.lowered);
    // Fails before any call is made if the file cannot be written.
    recording.write(args.record.as_deref())?;
    let talked = talk(&mut debugger, &mut lines, signals, output).await;
    debugger.write_into(&mut recording);
    let recorded = output.beside(recording.write(args.record.as_deref()));
    talked.and_then(|()| close(&debugger, source, output)).and(recorded)
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
            Ok(Some(Command::Quit)) => return Ok(()),
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
        match debugger.obey(command, signals).await {
            // Without a prompt to come back to, the command was one of many: it ends them all.
            Err(Failure::Interrupted) if lines.terminal => {
                debugger.teller.refuse("interrupted; once more to end the session")?
            }
            obeyed => obeyed?,
        }
    }
}

fn prompt(number: usize, output: &Output) {
    use io::Write;
    // A prompt that nobody can see is no failure.
    let mut err = io::stderr().lock();
    let _ = write!(err, "{} ", output.paint_talk(Paint::Blue, &format!("#{number}>"))).and_then(|()| err.flush());
}

fn close(debugger: &Debugger<'_>, source: &Source, output: &Output) -> Result<(), Failure> {
    match debugger.end() {
        // With --json, the end has been reported already.
        Some(Err(_)) if output.json => Err(Failure::Told(Exit::Exception)),
        Some(Err(why)) => Err(source.threw(why.clone())),
        Some(Ok(_)) if output.json => Ok(()),
        Some(Ok(value)) => output.json_pretty(&Shown(value)),
        None => {
            let number = debugger.number();
            let left = || format!("left at step {number}: the function has not ended");
            output.say(|| json!({ "left": { "number": number } }), left)
        }
    }
}

/// Where the commands come from.
struct Lines {
    from: BufReader<Box<dyn AsyncRead + Send + Unpin>>,
    named: String,
    read: usize,
    terminal: bool,
}

impl Lines {
    fn open(args: &Debug) -> Result<Self, Failure> {
        if let Some(script) = &args.script {
            let from = Box::new(io::Cursor::new(input::file(script, JSON_BYTES_MAX)?));
            let named = script.display().to_string();
            return Ok(Self { from: BufReader::new(from), named, read: 0, terminal: false });
        }
        let (named, terminal) = (STDIN.to_owned(), io::stdin().is_terminal());
        let own = io::stdin().as_fd().try_clone_to_owned().map_err(|why| input::unreadable(&named, &why))?;
        let from = Box::new(tokio::fs::File::from_std(own.into()));
        Ok(Self { from: BufReader::new(from), named, read: 0, terminal })
    }

    /// The next line. Not cancel-safe: a line that was partly read may be lost.
    async fn next(&mut self) -> Result<Option<String>, Failure> {
        let mut line = String::new();
        let read = (&mut self.from).take(LINE_BYTES_MAX).read_line(&mut line).await;
        let read = read.map_err(|why| input::unreadable(&self.named, &why))?;
        self.read += 1;
        Ok((read > 0).then_some(line))
    }

    fn place(&self) -> String {
        format!("{}:{}", self.named, self.read)
    }
}
