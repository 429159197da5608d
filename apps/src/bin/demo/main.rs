//! `make demo`: a file copied between two servers in Mountain View for a client in Beijing, and a mail opened in Mountain View whose storage and ads are in
//! Beijing; each by plain calls and by a chain, side by side, over real processes and shaped links. Then a picture by reference.
#![allow(clippy::print_stdout)]

mod bound;
mod drawing;
mod figures;
mod picture;
mod stage;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use catena::{Client, Exception};
use catena_apps::{
    copy::{self, Writes},
    mail,
};
use drawing::Stretch;
use figures::{Job, Run, Way};
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
    let pictured = picture::show(&stage).await?;
    stage.close().await;
    figures::write(&folder.join("result.json"), &copied, &mailed, &pictured)?;
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

async fn show_copy(stage: &Stage, file: &str) -> Result<Job, Failure> {
    let client = stage.client("bei", &["files.mtv", "files.mtv2"]).await?;
    let code = copy::code(&client).await?;
    let source = copy::hash(&client, "files.mtv", "demo.bin").await?;
    let [mut stable, mut committed] = ["with stable writes", "with one commit at the end"].map(Way::new);
    let mut chain = Way::new("by a chain");
    let mut bytes = 0;
    for run in 0..=RUNS {
        for (way, writes) in
            [(&mut stable, Some(Writes::Stable)), (&mut committed, Some(Writes::Committed)), (&mut chain, None)]
        {
            let copy = copy::Copy::new("files.mtv", "demo.bin", "files.mtv2", "copied.bin");
            let counted = match writes {
                Some(writes) => {
                    timed(&client, way.name, run, |show| copy::by_rpc_with(&client, &copy, writes, show)).await
                }
                None => timed(&client, way.name, run, |show| copy::by_chain(&client, &code, &copy, show)).await,
            };
            let (copied, counted) = counted?;
            if copy::hash(&client, "files.mtv2", "copied.bin").await? != source {
                return Err(format!("the copy {} is not what was copied", way.name).into());
            }
            bytes = copied.bytes;
            if run > 0 {
                way.add(counted);
            }
        }
    }
    client.close(Duration::from_secs(1)).await;
    stable.bound_ms = bound::plain_copy_ms(3, bytes);
    committed.bound_ms = bound::plain_copy_ms(4, bytes);
    chain.bound_ms = bound::copy_ms(bytes);
    let job = Job::new(vec![stable, committed], chain).ok_or("nothing was copied")?;
    let title = format!("Copy {bytes} bytes ({file}) between two servers in Mountain View; the client is in Beijing");
    let why = "the function went to the files, so no byte of the file, and only one round trip, crossed the ocean.";
    drawing::job(&title, &job, why);
    println!("  Each copy had the hash of the original.");
    Ok(job)
}

/// Runs one copy with a progress bar; gives what it gave, and what was measured.
async fn timed<F, Fut>(client: &Client, what: &str, run: usize, copy: F) -> Result<(copy::Copied, Run), Exception>
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
    let measured = measured(client, copy(Box::new(show))).await;
    bar.finish_and_clear();
    let (copied, run) = measured?;
    let stretches = match copied.marks {
        Some(marks) => drawing::plain_copy(marks, run.ms),
        None => drawing::chain(&copied.trace, run.ms),
    };
    Ok((copied, Run { stretches, ..run }))
}

/// What something gives, with milliseconds and bytes over the client's links.
async fn measured<T>(client: &Client, job: impl Future<Output = Result<T, Exception>>) -> Result<(T, Run), Exception> {
    let (before, began) = (client.traffic(), Instant::now());
    let done = job.await?;
    let (ms, after) = (began.elapsed().as_secs_f64() * 1e3, client.traffic());
    let crossed = |after: u64, before: u64| after.saturating_sub(before);
    let client_bytes =
        crossed(after.sent_bytes, before.sent_bytes) + crossed(after.received_bytes, before.received_bytes);
    Ok((done, Run { ms, client_bytes, stretches: Vec::new() }))
}

async fn show_mail(stage: &Stage) -> Result<Job, Failure> {
    let client = stage.client("mtv", &["mail.storage", "ads"]).await?;
    let code = mail::code(&client).await?;
    let open = mail::Open { user: "you".into(), id: 7 };
    let (mut plain, mut chain) = (Way::new("by plain calls"), Way::new("by a chain"));
    let mut bytes = 0;
    for run in 0..=RUNS {
        let (began, mut fetched_ms) = (Instant::now(), 0.0);
        let fetched = || fetched_ms = began.elapsed().as_secs_f64() * 1e3;
        let (by_plain, mut plain_run) = measured(&client, mail::open_by_rpc(&client, &open, fetched)).await?;
        plain_run.stretches = vec![
            Stretch::new("storage, there and back", 0.0, fetched_ms),
            Stretch::new("ads, there and back", fetched_ms, plain_run.ms),
        ];
        let by_chain = async {
            let mut replies = client.run_with(&code, &catena::to_value(&open)?, &profiled())?;
            Ok((catena::from_value::<mail::Mail>(&replies.last().await?)?, replies.trace().to_vec()))
        };
        let ((by_chain, trace), mut chain_run) = measured(&client, by_chain).await?;
        chain_run.stretches = drawing::chain(&trace, chain_run.ms);
        if by_chain != by_plain {
            return Err("the chain and the plain calls brought different mails".into());
        }
        bytes = by_plain.size as u64;
        if run > 0 {
            plain.add(plain_run);
            chain.add(chain_run);
        }
    }
    client.close(Duration::from_secs(1)).await;
    (plain.bound_ms, chain.bound_ms) = (bound::plain_mail_ms(bytes), bound::mail_ms(bytes));
    let job = Job::new(vec![plain], chain).ok_or("no mail was opened")?;
    let title =
        format!("Open a mail of {bytes} bytes with its ad; storage and ads in Beijing, the client in Mountain View");
    drawing::job(&title, &job, "storage handed the mail to the ads next door.");
    Ok(job)
}

fn profiled() -> catena::RunOptions {
    catena::RunOptions { profile: true, ..catena::RunOptions::default() }
}
