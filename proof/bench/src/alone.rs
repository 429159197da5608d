//! Figures each value of which comes from a process of its own. Of memory, since what an earlier measurement left behind would be in the
//! next one; of guests, since one process has its memory laid out well or badly for as long as it lives.

use crate::{Failure, guests, memory, stats::Spread, summary::Summary};

const OF_MEMORY: [&str; 5] =
    ["cached_js_bytes", "waiting_chain_bytes", "soak_growth_pct", "segment_bytes", "import_bytes"];
const OF_GUESTS: [&str; 5] = ["hop_js_us", "hop_js_cold_us", "hop_wasm_us", "load_js_us", "mail_state_bytes"];

/// How often each is measured, and by which part of the work: all of it where `parts` is 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    pub(crate) repetitions: usize,
    pub(crate) parts: usize,
}

pub(crate) async fn measure_memory(scale: Scale, summary: &mut Summary) -> Result<(), Failure> {
    measure(&OF_MEMORY, scale, summary).await
}

pub(crate) async fn measure_guests(scale: Scale, summary: &mut Summary) -> Result<(), Failure> {
    measure(&OF_GUESTS, scale, summary).await
}

/// In turns, so that a disturbance by the machine does not fall on one figure alone.
async fn measure(keys: &[&'static str], scale: Scale, summary: &mut Summary) -> Result<(), Failure> {
    let mut values = vec![Vec::new(); keys.len()];
    for _ in 0..scale.repetitions {
        for (key, values) in keys.iter().zip(&mut values) {
            values.push(in_a_process(key, scale.parts).await?);
        }
    }
    keys.iter().zip(values).for_each(|(key, values)| summary.put(key, Spread::of(values)));
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
    let parts = parts.parse()?;
    let value = match OF_GUESTS.contains(&key.as_str()) {
        true => guests::value(key, parts).await?,
        false => memory::value(key, parts).await?,
    };
    println!("{value}");
    Ok(())
}
