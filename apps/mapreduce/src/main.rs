//! `make mapreduce`: counts the words of a text with four worker processes, 40 maps and 5 reduces: in the three modes side by side, and for the 20
//! most frequent words alone.
#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use std::{path::Path, process::ExitCode};

use catena_mapreduce::{
    coordinator::{Done, Point},
    figures::{self, Scale, Stage, TEXT, TOP, at_half},
    fleet,
    job::{Mode, Want},
    top::Top,
    worker::Settings,
};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

const USAGE: &str = "mapreduce                               counts words with four worker processes
mapreduce figures DIR [--smoke]         measures that: DIR/mapreduce.csv and DIR/mapreduce.json
mapreduce worker NUMBER SLOW_MS OTHERS  what those processes are: they serve until their input ends";

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => show().await,
        ["figures", folder] => measure(folder, &Scale::WHOLE).await,
        ["figures", folder, "--smoke"] => measure(folder, &Scale::SMOKE).await,
        ["worker", number, slow_ms, ..] => work(number, slow_ms, &arguments[3..]).await,
        _ => Err(USAGE.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("mapreduce failed: {why}");
            ExitCode::FAILURE
        }
    }
}

async fn work(number: &str, slow_ms: &str, others: &[String]) -> Result<(), Failure> {
    let settings = Settings { number: number.parse()?, slots: 1, slow_ms: slow_ms.parse()? };
    Ok(fleet::serve(settings, others).await?)
}

async fn measure(folder: &str, scale: &Scale) -> Result<(), Failure> {
    figures::measure(&std::env::current_exe()?, Path::new(folder), scale).await
}

async fn show() -> Result<(), Failure> {
    let words = u64::from(TEXT.files) * u64::from(TEXT.lines) * u64::from(TEXT.words);
    println!("Writing a text of {words} words, and starting four workers");
    let mut stage = Stage::open(&std::env::current_exe()?, TEXT).await?;
    for mode in Mode::ALL {
        let bars = Bars::new(mode);
        let done = stage.run(mode, Want::Counts, |point, top| bars.show(point, top)).await?;
        bars.clear();
        tell(&format!("all counts, {}", mode.name()), &done);
    }
    let bars = Bars::new(Mode::Replies);
    let done = stage.run(Mode::Replies, Want::Top(TOP), |point, top| bars.show(point, top)).await?;
    bars.clear();
    tell("the most frequent words only, replies", &done);
    show_top(&done.top);
    Ok(())
}

/// One bar for each phase.
struct Bars {
    maps: ProgressBar,
    reduces: ProgressBar,
}

impl Bars {
    fn new(mode: Mode) -> Self {
        let (bars, style) =
            (MultiProgress::new(), ProgressStyle::with_template("{prefix:>22} {bar:40} {pos:>3} % {msg}"));
        let bar = |prefix: String| {
            let bar = bars.add(ProgressBar::new(100)).with_prefix(prefix);
            match &style {
                Ok(style) => bar.with_style(style.clone()),
                Err(_) => bar,
            }
        };
        Self { maps: bar(format!("{} map", mode.name())), reduces: bar("reduce".into()) }
    }

    fn show(&self, point: &Point, top: &Top) {
        self.maps.set_position(point.maps_pct as u64);
        self.reduces.set_position(point.reduces_pct as u64);
        let first = top.words.first().map(|ranked| format!("most frequent so far: {}", ranked.word));
        self.reduces.set_message(first.unwrap_or_default());
    }

    fn clear(&self) {
        self.maps.finish_and_clear();
        self.reduces.finish_and_clear();
    }
}

fn tell(what: &str, done: &Done) {
    let half = at_half(&done.points);
    println!(
        "\n{what}: {:.2} s; when half of the maps were done, {half:.0}% of the reduces were",
        done.took.as_secs_f64()
    );
    let settled = done.settled_at.as_secs_f64();
    match done.proved_at {
        Some(at) => {
            println!("  snapshots showed the final top 20 from {settled:.2} s on; proved at {:.2} s", at.as_secs_f64())
        }
        None => println!("  snapshots showed the final top 20 from {settled:.2} s on; never proved"),
    }
}

fn show_top(top: &Top) {
    println!(
        "  Whatever the rest of the text says, these are the most frequent words ({}):",
        if top.proved { "proved" } else { "not proved" }
    );
    for ranked in &top.words {
        match ranked.least == ranked.most {
            true => println!("    {:<8} {:>8}", ranked.word, ranked.least),
            false => println!("    {:<8} {:>8} to {}", ranked.word, ranked.least, ranked.most),
        }
    }
}
