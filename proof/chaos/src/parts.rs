//! A long run in parts, each with nodes, a seed and a result of its own: one that was broken off goes on where it was.

use std::path::PathBuf;

use crate::{Failure, Run, tally::Verdict};

/// Runs the parts whose results do not exist yet, and adds up the results of all.
pub(crate) async fn run(first: Run, parts: usize, result: &std::path::Path) -> Result<Verdict, Failure> {
    let mut all = Verdict { seed: first.seed, ..Verdict::default() };
    for part in 0..parts {
        let run = Run { seed: first.seed.wrapping_add(part as u64), ..first.clone() };
        let file = file_of(&run, result);
        let verdict = match std::fs::read(&file).ok().filter(|_| parts > 1) {
            Some(known) => serde_json::from_slice(&known)?,
            None => {
                let verdict = run.run().await?;
                verdict.write(&file)?;
                verdict
            }
        };
        if parts > 1 {
            println!("part {} of {parts}, seed {}: {}", part + 1, run.seed, verdict.brief());
        }
        all.add_part(verdict);
        all.write(result)?;
    }
    Ok(all)
}

/// The file of a part's result; different settings have different files.
fn file_of(run: &Run, result: &std::path::Path) -> PathBuf {
    let folder = result.with_extension("parts");
    folder.join(format!("{}.json", run.name()))
}
