//! Figures of memory, each value from a process of its own: what an earlier measurement left behind would be in the next one.

use crate::{Failure, memory, stats::Spread, summary::Summary};

/// Measures `repetitions` times, each with a part of the work: all of it where `parts` is 1.
pub(crate) async fn measure(repetitions: usize, parts: usize, summary: &mut Summary) -> Result<(), Failure> {
    for key in ["cached_js_bytes", "waiting_chain_bytes", "soak_growth_pct", "segment_bytes", "import_bytes"] {
        let mut values = Vec::new();
        for _ in 0..repetitions {
            values.push(in_a_process(key, parts).await?);
        }
        summary.put(key, Spread::of(values));
    }
    Ok(())
}

async fn in_a_process(key: &str, parts: usize) -> Result<f64, Failure> {
    let mut command = tokio::process::Command::new(std::env::current_exe()?);
    command.args(["alone", key, &parts.to_string()]).stderr(std::process::Stdio::inherit()).kill_on_drop(true);
    let output = command.output().await?;
    let said = String::from_utf8_lossy(&output.stdout);
    said.trim().parse().map_err(|_| format!("{key}: its process said {said:?}").into())
}

/// What that process does: `alone KEY PARTS`.
pub(crate) async fn run(arguments: &[String]) -> Result<(), Failure> {
    let [key, parts] = arguments else { return Err("alone KEY PARTS".into()) };
    println!("{}", memory::value(key, parts.parse()?).await?);
    Ok(())
}
