//! Both kinds of server under load (Quatrain, sections 3.4 and 5.1, Figure 7): calls are offered at the same rates to one by tasks and to one by
//! threads, from little to more than either can do.

mod offered;
mod service;

use std::{fmt::Write as _, path::Path, time::Duration};

use catena::{Client, Place};
use offered::{Offered, Target};
use serde_json::json;
use service::Job;
pub(crate) use service::service;

use crate::{Failure, mesh, server::Server};

/// The kinds of server, which are the names of their services.
const EVENTS: &str = "events";
const THREADS: &str = "threads";

/// Sequential and parallel execution of parts that wait, and of parts that compute.
const WORKS: [(&str, &str, Job); 4] = [
    ("SE", "wait", Job { part_us: 10_000, parts: 10, computes: false }),
    ("PE", "wait", Job { part_us: 100_000, parts: 10, computes: false }),
    ("SE", "compute", Job { part_us: 1_000, parts: 10, computes: true }),
    ("PE", "compute", Job { part_us: 1_000, parts: 10, computes: true }),
];

/// Neither kind may collapse up to this part of its own limit.
const KEPT_UP_TO: f64 = 0.8;

/// How much is measured.
pub(super) struct Scale {
    /// How long calls are offered at each rate.
    window: Duration,
    /// Rates, as parts of the lower and of the higher of the two limits.
    of_lower: &'static [f64],
    of_higher: &'static [f64],
}

pub(super) const WHOLE: Scale =
    Scale { window: Duration::from_secs(4), of_lower: &[0.2, 0.4, 0.6, 0.8, 1.0], of_higher: &[0.8, 1.0, 1.5] };
pub(super) const FEW: Scale = Scale { window: Duration::from_millis(300), of_lower: &[0.5], of_higher: &[1.5] };

/// One point of a line of the figure.
struct Point {
    mode: &'static str,
    work: &'static str,
    kind: &'static str,
    /// Calls a second: that the server can do, that were offered, and that it did meanwhile.
    limit_per_s: f64,
    offered_per_s: f64,
    done_per_s: f64,
    /// Of those offered: that ended with all of their replies, and that were refused.
    completed_pct: f64,
    refused_pct: f64,
    /// Of those that were completed.
    median_ms: f64,
    p99_ms: f64,
    aat_ms: f64,
    /// Processor time of the server, in percent of the time.
    cpu_pct: f64,
}

/// Writes `stress.csv` and `stress.json`.
pub(super) async fn run(folder: &Path, scale: &Scale) -> Result<(), Failure> {
    let mut points = Vec::new();
    for (mode, work, job) in WORKS {
        let events = Station::start(EVENTS, mode, job, scale).await?;
        let threads = Station::start(THREADS, mode, job, scale).await?;
        for (seed, per_s) in (1..).zip(rates([events.limit_per_s, threads.limit_per_s], scale)) {
            for station in [&events, &threads] {
                points.push(station.point((mode, work), per_s, scale.window, seed).await?);
            }
        }
    }
    write(folder, &points)
}

/// From the least to the most, each but once.
fn rates(limits: [f64; 2], scale: &Scale) -> Vec<f64> {
    /// Rates as near as this are one.
    const NEAR: f64 = 1.02;
    let (lower, higher) = (limits[0].min(limits[1]), limits[0].max(limits[1]));
    let parts = scale.of_lower.iter().map(|part| part * lower);
    let mut rates: Vec<f64> = parts.chain(scale.of_higher.iter().map(|part| part * higher)).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup_by(|next, before| *next < *before * NEAR);
    rates
}

/// A server of one kind, in a process of its own.
struct Station {
    kind: &'static str,
    server: Server,
    target: Target,
    limit_per_s: f64,
}

impl Station {
    async fn start(kind: &'static str, mode: &str, job: Job, scale: &Scale) -> Result<Self, Failure> {
        let server = Server::start(&["stressed", kind]).await?;
        let place = Place::new(server.address.as_str());
        let client =
            Client::builder("callers").sandbox(mesh::sandbox()?).without_shared_memory().join(place).connect().await?;
        let target = Target { client, name: format!("{kind}/{}", mode.to_lowercase()), job };
        target.warm().await?;
        let limit_per_s = target.limit(scale.window).await?;
        Ok(Self { kind, server, target, limit_per_s })
    }

    async fn point(
        &self,
        (mode, work): (&'static str, &'static str),
        per_s: f64,
        window: Duration,
        seed: u64,
    ) -> Result<Point, Failure> {
        let cpu_s = self.server.cpu_s().await?;
        let mut offered = self.target.offer(per_s, window, seed).await?;
        let cpu_s = self.server.cpu_s().await? - cpu_s;
        let pct = |calls: usize| calls as f64 * 100.0 / offered.calls.max(1) as f64;
        let (completed_pct, refused_pct) = (pct(offered.latency_ms.len()), pct(offered.refused));
        offered.latency_ms.sort_by(f64::total_cmp);
        let Offered { latency_ms, aat_ms, in_time, .. } = offered;
        Ok(Point {
            mode,
            work,
            kind: self.kind,
            limit_per_s: self.limit_per_s,
            offered_per_s: per_s,
            done_per_s: in_time as f64 / window.as_secs_f64(),
            completed_pct,
            refused_pct,
            median_ms: part_of(&latency_ms, 50),
            p99_ms: part_of(&latency_ms, 99),
            aat_ms: aat_ms.iter().sum::<f64>() / aat_ms.len() as f64,
            cpu_pct: cpu_s * 100.0 / window.as_secs_f64(),
        })
    }
}

/// So many percent of the sorted values are below it.
fn part_of(values: &[f64], percent: usize) -> f64 {
    values.get(values.len() * percent / 100).or(values.last()).copied().unwrap_or(f64::NAN)
}

impl Point {
    fn of_limit(&self) -> f64 {
        self.offered_per_s / self.limit_per_s
    }

    fn is_kept(&self) -> bool {
        self.of_limit() <= KEPT_UP_TO * 1.001
    }

    fn is_of(&self, line: &Self) -> bool {
        (self.mode, self.work, self.kind) == (line.mode, line.work, line.kind)
    }
}

fn write(folder: &Path, points: &[Point]) -> Result<(), Failure> {
    let mut csv = String::from(
        "mode,work,kind,limit_per_s,offered_per_s,of_limit,done_per_s,completed_pct,refused_pct,median_ms,p99_ms,aat_ms,cpu_pct\n",
    );
    for point in points {
        let Point { mode, work, kind, limit_per_s, offered_per_s, done_per_s, completed_pct, refused_pct, .. } = point;
        let Point { median_ms, p99_ms, aat_ms, cpu_pct, .. } = point;
        let _ = writeln!(
            csv,
            "{mode},{work},{kind},{limit_per_s:.1},{offered_per_s:.1},{:.3},{done_per_s:.1},{completed_pct:.2},{refused_pct:.2},{median_ms:.3},{p99_ms:.3},{aat_ms:.3},{cpu_pct:.1}",
            point.of_limit()
        );
    }
    std::fs::write(folder.join("stress.csv"), csv)?;
    let least = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::INFINITY, f64::min);
    let kept = least(&mut points.iter().filter(|point| point.is_kept()).map(|point| point.completed_pct));
    let lines: Vec<&Point> = ends(points).collect();
    let beyond = least(&mut lines.iter().map(|most| most.done_per_s * 100.0 / most.limit_per_s));
    let figure_7: Vec<_> = lines.into_iter().map(|line| at_most_kept(points, line)).collect();
    let json = json!({ "load_kept_pct": kept, "load_beyond_pct": beyond, "figure_7": figure_7 });
    std::fs::write(folder.join("stress.json"), format!("{json:#}\n"))?;
    Ok(())
}

/// The last point of each line: where most was offered.
fn ends(points: &[Point]) -> impl Iterator<Item = &Point> {
    points
        .iter()
        .enumerate()
        .filter(|(at, point)| !points[at + 1..].iter().any(|next| next.is_of(point)))
        .map(|(_, point)| point)
}

/// What a line says where most is offered that its server has to keep up with.
fn at_most_kept(points: &[Point], line: &Point) -> serde_json::Value {
    let kept = points.iter().rfind(|point| point.is_of(line) && point.is_kept());
    let of = |value: fn(&Point) -> f64| kept.map(value);
    json!({
        "mode": line.mode, "work": line.work, "kind": line.kind, "limit_per_s": line.limit_per_s,
        "offered_per_s": of(|point| point.offered_per_s), "completed_pct": of(|point| point.completed_pct),
        "median_ms": of(|point| point.median_ms), "p99_ms": of(|point| point.p99_ms), "aat_ms": of(|point| point.aat_ms),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_are_offered_the_same_from_little_to_more_than_either_can_do() {
        let rates = rates([400.0, 100.0], &WHOLE);
        assert_eq!(rates, [20.0, 40.0, 60.0, 80.0, 100.0, 320.0, 400.0, 600.0]);
        // Limits that are about the same.
        assert_eq!(super::rates([100.0, 101.0], &WHOLE), [20.0, 40.0, 60.0, 80.0, 100.0, 151.5]);
    }

    #[test]
    fn a_line_is_judged_where_its_server_has_to_keep_up_and_where_most_is_offered() {
        let point = |kind, offered_per_s| Point {
            mode: "SE",
            work: "wait",
            kind,
            limit_per_s: 100.0,
            offered_per_s,
            done_per_s: 90.0,
            completed_pct: 100.0,
            refused_pct: 0.0,
            median_ms: 1.0,
            p99_ms: 2.0,
            aat_ms: 1.0,
            cpu_pct: 1.0,
        };
        let points = [point(EVENTS, 20.0), point(THREADS, 20.0), point(EVENTS, 80.0), point(EVENTS, 150.0)];
        let lines: Vec<_> = ends(&points).map(|line| (line.kind, line.offered_per_s)).collect();
        assert_eq!(lines, [(THREADS, 20.0), (EVENTS, 150.0)]);
        assert_eq!(at_most_kept(&points, &points[3])["offered_per_s"], json!(80.0));
    }
}
