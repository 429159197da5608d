//! The two timelines, and by how much which of them won.

use catena::StepTrace;
use catena_apps::copy::Marks;
use indicatif::{ProgressBar, ProgressStyle};

use crate::figures::{Job, Way};

/// Columns of a timeline.
const WIDTH: f64 = 48.0;

/// A progress bar for one copy, on standard error, if that is a terminal.
pub(crate) fn bar(what: &str, run: usize, runs: usize) -> ProgressBar {
    let bar = ProgressBar::new(1);
    if let Ok(style) = ProgressStyle::with_template("{msg:36} [{bar:30}] {bytes}/{total_bytes}") {
        bar.set_style(style.progress_chars("=> "));
    }
    let which = if run == 0 { "warm-up".to_owned() } else { format!("{run} of {runs}") };
    bar.with_message(format!("{what}, {which}"))
}

/// A stretch of a timeline.
#[derive(Clone, Debug)]
pub(crate) struct Stretch {
    label: String,
    from_ms: f64,
    to_ms: f64,
}

impl Stretch {
    pub(crate) fn new(label: impl Into<String>, from_ms: f64, to_ms: f64) -> Self {
        Self { label: label.into(), from_ms, to_ms }
    }

    /// Drawn where `scale_ms` fills the width. Clocks of several nodes are in this: whatever they say, it stays inside.
    fn line(&self, scale_ms: f64) -> String {
        // What is not a number becomes 0.
        let column = |ms: f64| (ms / scale_ms * WIDTH).round().clamp(0.0, WIDTH) as usize;
        let (from, to) = (column(self.from_ms), column(self.to_ms));
        format!("{:<30} |{}{}", self.label, " ".repeat(from), "#".repeat(to.saturating_sub(from).max(1)))
    }
}

/// A copy by plain calls. Reading and writing overlap: each has its line.
pub(crate) fn plain_copy(marks: Marks, total_ms: f64) -> Vec<Stretch> {
    let ms = |us: u64| us as f64 / 1e3;
    let mut stretches = vec![
        Stretch::new("lookup, there and back", 0.0, ms(marks.found_us)),
        Stretch::new("reads, side by side", ms(marks.found_us), ms(marks.read_us)),
        Stretch::new("writes, as the reads come in", ms(marks.first_read_us), ms(marks.written_us)),
    ];
    // Less is what ending takes here, without a call.
    if total_ms - ms(marks.written_us) > 1.0 {
        stretches.push(Stretch::new("commit, there and back", ms(marks.written_us), total_ms));
    }
    stretches
}

/// A chain's profile as stretches: each hop's way, then what was done there.
pub(crate) fn chain(trace: &[StepTrace], total_ms: f64) -> Vec<Stretch> {
    let steps: Vec<_> = trace.iter().filter(|step| !step.in_place).collect();
    let Some(first) = steps.first() else { return Vec::new() };
    let at = |us: u64| us.saturating_sub(first.arrived_at_us) as f64 / 1e3;
    let mut stretches = Vec::new();
    for pair in steps.windows(2) {
        let (before, here) = (pair[0], pair[1]);
        let label = format!("to {} with {} B of state", here.node, here.continuation_bytes);
        stretches.push(Stretch::new(label, at(before.left_at_us), at(here.arrived_at_us)));
        let label = format!("at {}: {}", here.node, here.target);
        stretches.push(Stretch::new(label, at(here.arrived_at_us), at(here.left_at_us)));
    }
    if let Some(last) = steps.last() {
        stretches.push(Stretch::new("home", at(last.left_at_us), total_ms));
    }
    stretches
}

fn draw(title: &str, way: &Way, scale_ms: f64) {
    let run = way.median();
    println!(
        "  {title:<16} {:7.1} ms; the bound {:.1} ms, {} bytes over the client's link",
        run.ms, way.bound_ms, run.client_bytes
    );
    for stretch in &run.stretches {
        println!("    {}", stretch.line(scale_ms));
    }
}

/// Both timelines of a job, on one scale, and `why` the chain won if it did.
pub(crate) fn job(title: &str, job: &Job, why: &str) {
    println!("\n{title}");
    let scale_ms = job.plain.median().ms.max(job.chain.median().ms);
    draw("by plain calls", &job.plain, scale_ms);
    draw("by a chain", &job.chain, scale_ms);
    for way in &job.slower {
        println!(
            "  {}: {:.1} ms, against {:.1} ms {}",
            way.name,
            way.median().ms,
            job.plain.median().ms,
            job.plain.name
        );
    }
    println!("  The bounds are the delays along the way, and the bytes over the narrowest link that they cross.");
    println!("  {}", verdict(job.ratio(), why));
}

fn verdict(ratio: f64, why: &str) -> String {
    match ratio > 1.0 {
        true => format!("The chain is {ratio:.1} times as fast: {why}"),
        false => format!("The chain did not win here: it took {:.1} times as long as the plain calls.", 1.0 / ratio),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_stays_inside_whatever_the_clocks_say() {
        let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -5.0, 0.0, 3.0, 10.0, 1e300];
        for (from, to, scale) in odd.iter().flat_map(|a| odd.iter().flat_map(move |b| odd.map(|c| (*a, *b, c)))) {
            let line = Stretch::new("x", from, to).line(scale);
            let drawn = line.split_once('|').map_or("", |(_, drawn)| drawn);
            assert!(drawn.ends_with('#') && drawn.len() <= WIDTH as usize + 1, "{from} {to} {scale}: {line}");
        }
    }

    #[test]
    fn only_a_chain_that_won_is_told_why() {
        assert_eq!(verdict(2.0, "because."), "The chain is 2.0 times as fast: because.");
        for ratio in [1.0, 0.5, f64::NAN] {
            assert!(!verdict(ratio, "because.").contains("because"));
        }
    }
}
