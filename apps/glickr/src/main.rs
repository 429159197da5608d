//! `glickr`: photos on a globe, in a browser; or the figures of the paper.
#![allow(clippy::print_stdout)]

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};

use catena_gateway::{Config, Gateway};
use catena_glickr::{
    SEED, figures,
    keywords::KEYWORDS,
    stage::{self, Stage},
};
use indicatif::{ProgressBar, ProgressStyle};

const USAGE: &str = "\
usage: glickr [serve] [--listen HOST:PORT] [--page DIR] [--seed WORD]
       glickr figures DIR [--page DIR] [--seed WORD] [--smoke]

serve     open the page (default: at 127.0.0.1:7490); Ctrl-C ends it
figures   measure all keywords in both modes, which takes about a minute; DIR/glickr.json, glickr.csv and glickr_times.csv say how long
--page    the folder that apps/glickr/prepare.sh puts together, with places.json beside it (default: target/glickr/page)
--seed    of what the engines know and how long they take
--smoke   a few keywords, at a twentieth of the time: to see that it works, no figures";

/// Keywords measured at a time.
const AT_ONCE: usize = 10;
/// What of it a smoke run does.
const SMOKE_KEYWORDS: usize = 6;
const SMOKE_SCALE: f64 = 0.05;
/// How long the gateway may take to close.
const CLOSE_GRACE: Duration = Duration::from_millis(500);
/// How often the progress bar moves.
const DRAW_EVERY: Duration = Duration::from_millis(100);

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What the command line says.
struct Args {
    figures: Option<PathBuf>,
    listen: String,
    page: PathBuf,
    seed: String,
    smoke: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let Some(args) = parse(arguments) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let done = match &args.figures {
        Some(folder) => measure(&args, folder).await,
        None => serve(&args).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("glickr: {why}");
            ExitCode::FAILURE
        }
    }
}

/// `None` if it is not as [`USAGE`] says.
fn parse(arguments: Vec<String>) -> Option<Args> {
    let mut args = Args {
        figures: None,
        listen: "127.0.0.1:7490".into(),
        page: "target/glickr/page".into(),
        seed: SEED.into(),
        smoke: false,
    };
    let mut rest = arguments.into_iter().peekable();
    match rest.peek().map(String::as_str) {
        Some("serve") => drop(rest.next()),
        Some("figures") => {
            rest.next();
            args.figures = Some(rest.next().filter(|folder| !folder.starts_with('-'))?.into());
        }
        _ => {}
    }
    while let Some(flag) = rest.next() {
        match (flag.as_str(), args.figures.is_some()) {
            ("--page", _) => args.page = rest.next()?.into(),
            ("--seed", _) => args.seed = rest.next()?,
            ("--listen", false) => args.listen = rest.next()?,
            ("--smoke", true) => args.smoke = true,
            _ => return None,
        }
    }
    Some(args)
}

async fn open(args: &Args, scale: f64) -> Result<Stage, Failure> {
    let indexes = stage::indexes(&args.page.with_file_name("places.json"), &args.seed)?;
    Ok(Stage::open(indexes, stage::as_the_paper(&args.seed, scale)).await?)
}

async fn serve(args: &Args) -> Result<(), Failure> {
    let stage = open(args, 1.0).await?;
    let config = Config {
        listen: args.listen.clone(),
        offers: vec!["glickr/*".parse()?],
        files: Some(args.page.clone()),
        ..Config::default()
    };
    let gateway = Gateway::open(stage.client().await?, config).await?;
    println!("Glickr is open: http://{}\nCtrl-C ends it", gateway.address());
    tokio::signal::ctrl_c().await?;
    gateway.close(CLOSE_GRACE).await;
    stage.close().await;
    Ok(())
}

async fn measure(args: &Args, folder: &Path) -> Result<(), Failure> {
    let (keywords, scale) = if args.smoke { (&KEYWORDS[..SMOKE_KEYWORDS], SMOKE_SCALE) } else { (&KEYWORDS[..], 1.0) };
    let stage = open(args, scale).await?;
    let client = stage.client().await?;
    let done = Arc::new(AtomicUsize::new(0));
    let bar = ProgressBar::new(keywords.len() as u64);
    bar.set_style(ProgressStyle::with_template("{bar:40} {pos} of {len} keywords, {elapsed}")?);
    let drawing = tokio::spawn({
        let (bar, done) = (bar.clone(), Arc::clone(&done));
        async move {
            loop {
                bar.set_position(done.load(std::sync::atomic::Ordering::Relaxed) as u64);
                tokio::time::sleep(DRAW_EVERY).await;
            }
        }
    });
    let measured = figures::measure(&client, keywords, AT_ONCE, &args.seed, scale, &done).await;
    drawing.abort();
    bar.finish_and_clear();
    let measured = measured?;
    figures::write(folder, &measured, &args.seed, scale)?;
    println!("{:#}", figures::summary(&measured, &args.seed, scale));
    stage.close().await;
    Ok(())
}
