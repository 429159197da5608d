//! The two timelines, and why the chain won.

use catena::StepTrace;
use indicatif::{ProgressBar, ProgressStyle};

use crate::figures::{CopyFigures, MailFigures};

/// Columns of a timeline.
const WIDTH: f64 = 48.0;

/// A progress bar for one copy, on standard error, if that is a terminal.
pub(crate) fn bar(what: &str, run: usize, runs: usize) -> ProgressBar {
    let bar = ProgressBar::new(1);
    if let Ok(style) = ProgressStyle::with_template("{msg:28} [{bar:30}] {bytes}/{total_bytes}") {
        bar.set_style(style.progress_chars("=> "));
    }
    let which = if run == 0 { "warm-up".to_owned() } else { format!("{run} of {runs}") };
    bar.with_message(format!("{what}, {which}"))
}

/// A stretch of a timeline.
struct Stretch {
    label: String,
    from_ms: f64,
    to_ms: f64,
}

fn draw(title: &str, total_ms: f64, scale_ms: f64, stretches: &[Stretch]) {
    println!("  {title:<16} {total_ms:7.1} ms");
    for stretch in stretches {
        let column = |ms: f64| (ms / scale_ms * WIDTH).round() as usize;
        let (from, to) = (column(stretch.from_ms), column(stretch.to_ms));
        let (blank, filled) = (" ".repeat(from), "#".repeat((to - from).max(1)));
        println!("    {:<30} |{blank}{filled}", stretch.label);
    }
}

/// A chain's profile as stretches: each hop's way, then what was done there.
fn chain(trace: &[StepTrace], total_ms: f64) -> Vec<Stretch> {
    let steps: Vec<_> = trace.iter().filter(|step| !step.in_place).collect();
    let Some(first) = steps.first() else { return Vec::new() };
    let at = |us: u64| us.saturating_sub(first.arrived_at_us) as f64 / 1e3;
    let mut stretches = Vec::new();
    for pair in steps.windows(2) {
        let (before, here) = (pair[0], pair[1]);
        let label = format!("to {} with {} B of state", here.node, here.continuation_bytes);
        stretches.push(Stretch { label, from_ms: at(before.left_at_us), to_ms: at(here.arrived_at_us) });
        let label = format!("at {}: {}", here.node, here.target);
        stretches.push(Stretch { label, from_ms: at(here.arrived_at_us), to_ms: at(here.left_at_us) });
    }
    if let Some(last) = steps.last() {
        stretches.push(Stretch { label: "home".into(), from_ms: at(last.left_at_us), to_ms: total_ms });
    }
    stretches
}

pub(crate) fn copy(file: &str, figures: &CopyFigures) {
    let (Some(rpc), Some(by_chain)) = (&figures.rpc, &figures.chain) else { return };
    println!("\nCopy {} bytes ({file}) between two servers in Mountain View; the client is in Beijing", rpc.bytes);
    let mut from_ms = 0.0;
    let marks = rpc.marks_us.iter().map(|us| *us as f64 / 1e3).chain([figures.rpc_ms]);
    let labels = ["lookup, there and back", "reads and writes, side by side", "commit, there and back"];
    let stretches: Vec<_> = labels
        .iter()
        .zip(marks)
        .map(|(label, to_ms)| {
            let stretch = Stretch { label: (*label).to_owned(), from_ms, to_ms };
            from_ms = to_ms;
            stretch
        })
        .collect();
    draw("by plain calls", figures.rpc_ms, figures.rpc_ms, &stretches);
    draw("by a chain", figures.chain_ms, figures.rpc_ms, &chain(&by_chain.trace, figures.chain_ms));
    println!(
        "  {:<16} {:7.1} ms  (one-way delays, and the bytes over the narrowest link)",
        "the bound", figures.bound_ms
    );
    println!(
        "  over the client's link: {} bytes by plain calls, {} by the chain",
        figures.rpc_client_bytes, figures.chain_client_bytes
    );
    println!(
        "  The chain is {:.1} times as fast: the function went to the files, so no byte of the file, and only one round trip, crossed the ocean.",
        figures.rpc_ms / figures.chain_ms
    );
    println!("  Both copies have the hash of the original.");
}

pub(crate) fn mail(figures: &MailFigures) {
    println!(
        "\nOpen a mail of {} bytes with its ad; storage and ads in Beijing, the client in Mountain View",
        figures.mail_bytes
    );
    let half = figures.rpc_ms / 2.0;
    let stretches = [("storage, there and back", 0.0, half), ("ads, there and back", half, figures.rpc_ms)]
        .map(|(label, from_ms, to_ms)| Stretch { label: label.into(), from_ms, to_ms });
    draw("by plain calls", figures.rpc_ms, figures.rpc_ms, &stretches);
    draw("by a chain", figures.chain_ms, figures.rpc_ms, &chain(&figures.trace, figures.chain_ms));
    println!("  {:<16} {:7.1} ms", "the bound", figures.bound_ms);
    println!(
        "  The chain is {:.1} times as fast: storage handed the mail to the ads next door.",
        figures.rpc_ms / figures.chain_ms
    );
}
