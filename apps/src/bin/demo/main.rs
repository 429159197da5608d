//! `make demo`: a file copied between two servers in Mountain View for a client in Beijing, and a mail opened in Mountain View whose storage and ads are in
//! Beijing; each by plain calls and by a chain, side by side, over real processes and shaped links.
#![allow(clippy::print_stdout)]

mod bound;
mod drawing;
mod figures;
mod stage;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use catena::{Client, Exception};
use catena_apps::{copy, mail};
use figures::{CopyFigures, MailFigures, median};
use stage::Stage;

/// Each way is run so often, after one run that nobody counts; the median is what is shown.
const RUNS: usize = 5;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    match demonstrate().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("the demonstration failed: {why}");
            ExitCode::FAILURE
        }
    }
}

async fn demonstrate() -> Result<(), Failure> {
    let folder = PathBuf::from("target/demo");
    let stage = Stage::open(&folder.join("stage")).await?;
    let file = source_file(std::env::var_os("FILE").map(PathBuf::from), &stage.data("mtv").join("demo.bin"))?;
    let copied = show_copy(&stage, &file).await?;
    let mailed = show_mail(&stage).await?;
    stage.close().await;
    figures::write(&folder.join("result.json"), &copied, &mailed)?;
    println!("\nwritten to {}", folder.join("result.json").display());
    Ok(())
}

/// What is copied: the file that was named, or half a megabyte of noise.
fn source_file(named: Option<PathBuf>, place: &Path) -> Result<String, Failure> {
    match named.filter(|named| !named.as_os_str().is_empty()) {
        Some(named) => {
            if !named.is_file() {
                return Err(format!("FILE={} is no readable file", named.display()).into());
            }
            std::fs::copy(&named, place).map_err(|why| format!("FILE={}: {why}", named.display()))?;
            Ok(named.display().to_string())
        }
        None => {
            let mut noise = vec![0; 500_000];
            blake3::Hasher::new_derive_key("catena demo").finalize_xof().fill(&mut noise);
            std::fs::write(place, noise)?;
            Ok("a generated file".into())
        }
    }
}

async fn show_copy(stage: &Stage, file: &str) -> Result<CopyFigures, Failure> {
    let client = stage.client("bei", &["files.mtv", "files.mtv2"]).await?;
    let code = copy::code(&client).await?;
    let copy = |target: &str| copy::Copy::new("files.mtv", "demo.bin", "files.mtv2", target);
    let source = copy::hash(&client, "files.mtv", "demo.bin").await?;
    let mut figures = CopyFigures::default();
    for run in 0..=RUNS {
        let (by_rpc, by_chain) = (copy("by-rpc.bin"), copy("by-chain.bin"));
        let counted = run > 0;
        let (rpc, rpc_ms, rpc_bytes) =
            timed(&client, "by plain calls", run, |show| copy::by_rpc(&client, &by_rpc, show)).await?;
        let (chain, chain_ms, chain_bytes) =
            timed(&client, "by a chain", run, |show| copy::by_chain(&client, &code, &by_chain, show)).await?;
        for target in ["by-rpc.bin", "by-chain.bin"] {
            if copy::hash(&client, "files.mtv2", target).await? != source {
                return Err(format!("{target} is not what was copied").into());
            }
        }
        if counted {
            figures.add(rpc_ms, chain_ms, rpc_bytes, chain_bytes);
            (figures.rpc, figures.chain) = (Some(rpc), Some(chain));
        }
    }
    figures.close();
    drawing::copy(file, &figures);
    client.close(Duration::from_secs(1)).await;
    Ok(figures)
}

/// Runs one copy with a progress bar; gives what it gave, milliseconds, and bytes over the client's links.
async fn timed<F, Fut>(client: &Client, what: &str, run: usize, copy: F) -> Result<(copy::Copied, f64, u64), Exception>
where
    F: FnOnce(Box<dyn Fn(copy::Progress)>) -> Fut,
    Fut: Future<Output = Result<copy::Copied, Exception>>,
{
    let bar = drawing::bar(what, run, RUNS);
    let show = {
        let bar = bar.clone();
        move |progress: copy::Progress| {
            bar.set_length(progress.size);
            bar.set_position(progress.written);
        }
    };
    let (before, began) = (client.traffic(), Instant::now());
    let copied = copy(Box::new(show)).await;
    let (ms, after) = (began.elapsed().as_secs_f64() * 1e3, client.traffic());
    bar.finish_and_clear();
    let crossed = after.sent_bytes + after.received_bytes - before.sent_bytes - before.received_bytes;
    copied.map(|copied| (copied, ms, crossed))
}

async fn show_mail(stage: &Stage) -> Result<MailFigures, Failure> {
    let client = stage.client("mtv", &["mail.storage", "ads"]).await?;
    let code = mail::code(&client).await?;
    let open = mail::Open { user: "you".into(), id: 7 };
    let (mut rpc_ms, mut chain_ms) = (Vec::new(), Vec::new());
    let mut figures = MailFigures::default();
    for run in 0..=RUNS {
        let began = Instant::now();
        let by_rpc = mail::open_by_rpc(&client, &open).await?;
        let rpc = began.elapsed().as_secs_f64() * 1e3;
        let began = Instant::now();
        let mut replies = client.run_with(&code, &catena::to_value(&open)?, &profiled())?;
        let by_chain: mail::Mail = catena::from_value(&replies.last().await?)?;
        let chain = began.elapsed().as_secs_f64() * 1e3;
        if by_rpc != by_chain {
            return Err("the chain and the plain calls brought different mails".into());
        }
        if run > 0 {
            rpc_ms.push(rpc);
            chain_ms.push(chain);
            figures.trace = replies.trace().to_vec();
            figures.mail_bytes = by_chain.size as u64;
        }
    }
    (figures.rpc_ms, figures.chain_ms) = (median(rpc_ms), median(chain_ms));
    figures.bound_ms = bound::mail_ms(figures.mail_bytes);
    drawing::mail(&figures);
    client.close(Duration::from_secs(1)).await;
    Ok(figures)
}

fn profiled() -> catena::RunOptions {
    catena::RunOptions { profile: true, ..catena::RunOptions::default() }
}
