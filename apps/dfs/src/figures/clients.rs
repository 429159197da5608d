//! How many clerks a server can serve before its one core is full: more and more clerks replay the mix as fast as they can.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    time::{Duration, Instant},
};

use serde::Serialize;
use tempfile::TempDir;

use super::{
    Failure, LINKS,
    player::lay_out,
    process::{Process, Served, say_ids},
};

/// The two ways that are compared, by their names on the command line and in the figures.
const WAYS: [(&str, &str); 2] = [("data", "dx"), ("call", "call")];
/// Processes in which the clerks are.
const PROCESSES_MAX: u64 = 4;
/// The most clerks that share a server.
pub(crate) const CLERKS_MAX: u64 = 64;
/// A server's core counts as full from this percentage on.
const FULL_PCT: f64 = 95.0;

/// How much is measured.
pub(crate) struct Plan {
    /// Numbers of clerks.
    pub(crate) clerks: &'static [u64],
    /// Warm-up before the measurement.
    pub(crate) warm: Duration,
    pub(crate) counts: Duration,
    pub(crate) seed: u64,
}

impl Plan {
    pub(crate) fn new(smoke: bool, seed: u64) -> Self {
        match smoke {
            true => Self { clerks: &[1, 4], warm: Duration::from_millis(50), counts: Duration::from_millis(150), seed },
            false => Self {
                clerks: &[1, 2, 4, 8, 16, 32, CLERKS_MAX],
                warm: Duration::from_secs(1),
                counts: Duration::from_secs(4),
                seed,
            },
        }
    }
}

/// What this number of clerks did.
struct Point {
    clerks: u64,
    operations_per_s: f64,
    /// Processor time of the server for each operation.
    server_cpu_us: f64,
    /// Use of the server's core, in percent.
    server_pct: f64,
}

/// The results.
#[derive(Serialize, Default)]
pub(crate) struct Clients {
    /// Operations a second that the server's one core is enough for, by READs / by ordinary calls.
    dx_clients_ratio: BTreeMap<&'static str, f64>,
    /// Those operations a second.
    dx_clients_operations_per_s: BTreeMap<String, f64>,
    /// The highest load of the server's core, percent. Below 95 it was never full: then the figure above was computed from the processor time per operation,
    /// not observed.
    dx_clients_server_pct: BTreeMap<String, f64>,
}

impl Clients {
    fn note(&mut self, link: &'static str, way: &str, points: &[Point]) {
        let fullest = points.iter().map(|point| point.server_pct).fold(0.0, f64::max);
        self.dx_clients_server_pct.insert(format!("{link}, {way}"), fullest);
        let capacity = capacity(points);
        self.dx_clients_operations_per_s.insert(format!("{link}, {way}"), capacity);
        // The ways come in this order: READs first.
        let ratio = self.dx_clients_ratio.entry(link).or_insert(capacity);
        if way == "call" {
            *ratio /= capacity.max(f64::EPSILON);
        }
    }
}

/// Operations a second of a server whose core is full: the most that were seen while it was; if it never was, computed from the processor time per operation
/// with the most clerks.
fn capacity(points: &[Point]) -> f64 {
    let full = points.iter().filter(|point| point.server_pct >= FULL_PCT).map(|point| point.operations_per_s);
    let left_room = || points.last().map_or(0.0, |point| 1e6 / point.server_cpu_us.max(f64::EPSILON));
    full.reduce(f64::max).unwrap_or_else(left_room)
}

/// Measures, and also returns the table as CSV.
pub(crate) async fn measure(plan: &Plan) -> Result<(Clients, String), Failure> {
    let mut clients = Clients::default();
    let mut lines = String::from("link,way,clerks,operations_per_s,server_cpu_us_per_operation,server_pct\n");
    for (shared_memory, link) in LINKS {
        for (way, name) in WAYS {
            println!("{link}, {name}: clerks of a server on one core");
            let points = points(plan, way, shared_memory).await?;
            for Point { clerks, operations_per_s, server_cpu_us, server_pct } in &points {
                writeln!(lines, "{link},{name},{clerks},{operations_per_s:.0},{server_cpu_us:.3},{server_pct:.1}")?;
            }
            clients.note(link, name, &points);
        }
    }
    Ok((clients, lines))
}

/// One server, with more and more clerks.
async fn points(plan: &Plan, way: &str, shared_memory: bool) -> Result<Vec<Point>, Failure> {
    let (_folder, served, others) = serve(shared_memory)?;
    let mut points = Vec::new();
    for clerks in plan.clerks {
        let mut all = start(&served, (way, shared_memory), *clerks, plan.seed, &others)?;
        tokio::time::sleep(plan.warm).await;
        points.push(point(&served, &mut all, *clerks, plan.counts).await?);
    }
    Ok(points)
}

/// Has this many clerks replay the mix by READs over TCP, for a profiler; prints now and then what an operation costs.
pub(crate) async fn over_and_over(clerks: u64) -> Result<(), Failure> {
    const SEED: u64 = 1;
    const EVERY: Duration = Duration::from_secs(1);
    let (_folder, served, others) = serve(false)?;
    let mut all = start(&served, ("data", false), clerks, SEED, &others)?;
    say_ids(&served, &all);
    loop {
        let Point { operations_per_s: speed, server_cpu_us: each, server_pct: busy, .. } =
            point(&served, &mut all, clerks, EVERY).await?;
        println!("{speed:.0} operations a second, {each:.1} µs of the server each: {busy:.0}% of its core");
    }
}

/// Lays out the files, and starts their server on a core of its own; also returns the cores for clerks.
fn serve(shared_memory: bool) -> Result<(TempDir, Served, String), Failure> {
    let folder = tempfile::tempdir()?;
    lay_out(folder.path())?;
    let (one, others) = cores()?;
    let served = Served::start(folder.path(), shared_memory, Some(&one))?;
    Ok((folder, served, others))
}

/// What these clerks do within that time.
async fn point(served: &Served, all: &mut [Process], clerks: u64, counts: Duration) -> Result<Point, Failure> {
    let (began, worked, before) = (Instant::now(), served.process.cpu_us()?, done(all)?);
    tokio::time::sleep(counts).await;
    let (cpu_us, operations) = (served.process.cpu_us()? - worked, (done(all)? - before).max(1) as f64);
    let took_us = began.elapsed().as_secs_f64() * 1e6;
    Ok(Point {
        clerks,
        operations_per_s: operations * 1e6 / took_us,
        server_cpu_us: cpu_us / operations,
        server_pct: cpu_us * 100.0 / took_us,
    })
}

/// Starts this many clerks in a few processes; when it returns they have begun.
fn start(
    served: &Served,
    (way, shared_memory): (&str, bool),
    clerks: u64,
    seed: u64,
    cores: &str,
) -> Result<Vec<Process>, Failure> {
    let count = clerks.min(PROCESSES_MAX);
    let process = |number: u64| {
        // If the clerks cannot be divided evenly, the first processes have one more.
        let (here, from) = (clerks / count + u64::from(number < clerks % count), seed + number * clerks);
        let (here, from) = (here.to_string(), from.to_string());
        let mut arguments = vec!["replay", &served.address, "--way", way, "--clerks", &here, "--seed", &from];
        if !shared_memory {
            arguments.push("--without-shared-memory");
        }
        Process::start(&arguments, Some(cores))
    };
    let mut all = (0..count).map(process).collect::<Result<Vec<_>, Failure>>()?;
    for process in &mut all {
        process.says("replaying")?;
    }
    Ok(all)
}

/// Operations that all have done.
fn done(all: &mut [Process]) -> Result<u64, Failure> {
    let mut sum = 0;
    for process in all {
        process.tell("how many?")?;
        sum += process.says("")?.parse::<u64>()?;
    }
    Ok(sum)
}

/// A core for the server, and those for the clerks: all others of this process, or the same one if there is no other.
fn cores() -> Result<(String, String), Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).ok_or("no list of cores")?;
    apart(allowed.trim()).ok_or_else(|| format!("a list of cores that is none: {allowed:?}").into())
}

/// The first core of a list, and the rest of the list.
fn apart(list: &str) -> Option<(String, String)> {
    let (first, rest) = list.split_once(',').unwrap_or((list, ""));
    let (one, more) = match first.split_once('-') {
        None => (first.parse::<u32>().ok()?, String::new()),
        Some((from, to)) => {
            let (from, to) = (from.parse::<u32>().ok()?, to.parse::<u32>().ok()?);
            (from, format!("{}-{to}", from + 1))
        }
    };
    let others = [more.as_str(), rest].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(",");
    let one = one.to_string();
    Some(if others.is_empty() { (one.clone(), one) } else { (one, others) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_has_a_core_of_its_own_where_there_are_two() {
        let cases = [
            ("0-1", Some(("0", "1-1"))),
            ("0-7,9", Some(("0", "1-7,9"))),
            ("3,5-6", Some(("3", "5-6"))),
            ("2", Some(("2", "2"))),
            ("none", None),
        ];
        for (list, expected) in cases {
            let got = apart(list);
            assert_eq!(got.as_ref().map(|(one, others)| (one.as_str(), others.as_str())), expected, "{list}");
        }
    }

    #[test]
    fn a_core_that_was_never_full_is_judged_by_its_time_for_an_operation() {
        let point = |operations_per_s, server_cpu_us, server_pct| Point {
            clerks: 1,
            operations_per_s,
            server_cpu_us,
            server_pct,
        };
        let mut clients = Clients::default();
        clients.note("tcp", "dx", &[point(900.0, 50.0, 4.0), point(1_500.0, 20.0, 3.0)]);
        clients.note(
            "tcp",
            "call",
            &[point(9_000.0, 100.0, 90.0), point(10_000.0, 99.0, 99.0), point(9_900.0, 98.0, 98.0)],
        );
        assert_eq!(clients.dx_clients_ratio["tcp"], 5.0, "50,000 that there would be room for, 10,000 that were seen");
        assert_eq!(clients.dx_clients_server_pct["tcp, dx"], 4.0);
    }
}
