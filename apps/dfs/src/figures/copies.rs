//! Copying files by libnfs's own utility: through the clerk, and through nfs-ganesha, which serves files of the same sizes from the same disk of this machine.

use std::{collections::BTreeMap, fmt::Write as _, panic::catch_unwind, path::Path, process::Command, time::Instant};

use catena_ganesha::GaneshaServer;
use serde::Serialize;
use tempfile::TempDir;

use super::{
    Failure,
    process::{Process, Served, say_ids},
};

/// Bytes of the file that is copied over and over.
const PROFILED_BYTES: usize = 16 << 20;

/// How much is measured.
struct Plan {
    /// Bytes of the files.
    sizes: &'static [usize],
    /// Times that each is copied, by each in turn.
    rounds: usize,
}

/// The results; empty where nfs-ganesha or the utility is not installed.
#[derive(Serialize, Default)]
pub(crate) struct Copies {
    /// Time through nfs-ganesha / through the clerk, all sizes together, by where the files go.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    clerk_nfs_ratio: BTreeMap<&'static str, f64>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    clerk_nfs_ratio_missing: Option<String>,
}

/// A file server, as the utility addresses it.
struct Door<'a> {
    name: &'static str,
    /// What comes before and after a file's name.
    url: [String; 2],
    /// Where its files are.
    folder: &'a Path,
}

/// A server, and its clerk as the utility reaches it.
struct Ours {
    clerk: [Process; 1],
    served: Served,
    port: String,
    folder: TempDir,
}

impl Ours {
    /// Its folder is created next to the others in `beside`.
    fn start(beside: &Path) -> Result<Self, Failure> {
        let folder = TempDir::new_in(beside)?;
        let served = Served::start(folder.path(), true, None)?;
        let mut clerk = Process::start(&["clerk", &served.address, "--port", "0"], None)?;
        let port = clerk.says("NFSv3 at 127.0.0.1, port ")?;
        let port = port.split_whitespace().next().unwrap_or_default().to_owned();
        Ok(Self { clerk: [clerk], served, port, folder })
    }

    fn door(&self) -> Door<'_> {
        let port = &self.port;
        let url = [String::from("nfs://127.0.0.1//"), format!("?nfsport={port}&mountport={port}&version=3")];
        Door { name: "clerk", url, folder: self.folder.path() }
    }
}

#[derive(Clone, Copy)]
pub(crate) enum To {
    /// From the server into a folder of this machine.
    Here,
    /// From that folder to the server.
    Server,
}

const WAYS: [(To, &str); 2] = [(To::Here, "read"), (To::Server, "write")];

/// Measures, and also returns the table as CSV.
pub(crate) fn measure(smoke: bool) -> Result<(Copies, String), Failure> {
    let plan = match smoke {
        true => Plan { sizes: &[1 << 20], rounds: 1 },
        false => Plan { sizes: &[64 << 10, 1 << 20, 16 << 20], rounds: 15 },
    };
    let missing = |why: String| {
        println!("copies are not compared: {why}");
        (Copies { clerk_nfs_ratio_missing: Some(why), ..Copies::default() }, String::new())
    };
    if let Err(why) = utility() {
        return Ok(missing(why));
    }
    // `GaneshaServer` was made for tests: it panics with instructions if it cannot start.
    let ganesha = match catch_unwind(GaneshaServer::start) {
        Ok(ganesha) => ganesha,
        Err(why) => {
            let text = why.downcast_ref::<String>().map(String::as_str).or_else(|| why.downcast_ref::<&str>().copied());
            return Ok(missing(format!("nfs-ganesha does not run: {}", text.unwrap_or("its message is above"))));
        }
    };
    println!("copies through the clerk and through nfs-ganesha");
    Ok(compare(&plan, &ganesha).unwrap_or_else(|why| missing(why.to_string())))
}

/// Whether the utility runs; the error says what to do.
fn utility() -> Result<(), String> {
    let run = Command::new("nfs-cp").output();
    run.map(drop).map_err(|why| format!("nfs-cp does not run ({why}); it is in Debian's libnfs-utils"))
}

/// Copies one file through the clerk, for a profiler; prints now and then how long a copy takes.
pub(crate) async fn over_and_over(to: To) -> Result<(), Failure> {
    const ROUNDS: usize = 20;
    utility()?;
    let (ours, here) = (Ours::start(&std::env::temp_dir())?, TempDir::new()?);
    let (door, content) = (ours.door(), content(PROFILED_BYTES));
    for folder in [door.folder, here.path()] {
        std::fs::write(folder.join(source(PROFILED_BYTES)), &content)?;
    }
    say_ids(&ours.served, &ours.clerk);
    loop {
        let mut took_ms = 0.0;
        for round in 0..ROUNDS {
            let copied = copied(&door, to, here.path(), (PROFILED_BYTES, round), &content);
            // An interrupt also ends the utility: the yield lets the interrupt be seen before the failed copy.
            tokio::task::yield_now().await;
            took_ms += copied?;
        }
        println!("{:.1} ms a copy", took_ms / ROUNDS as f64);
    }
}

fn compare(plan: &Plan, ganesha: &GaneshaServer) -> Result<(Copies, String), Failure> {
    // On the same file system as nfs-ganesha's.
    let beside = ganesha.dir.parent().ok_or("nfs-ganesha serves the root")?;
    let (ours, here) = (Ours::start(beside)?, TempDir::new_in(beside)?);
    let GaneshaServer { nfs_port, mount_port, export, .. } = ganesha;
    let theirs = [format!("nfs://127.0.0.1{export}/"), format!("?nfsport={nfs_port}&mountport={mount_port}&version=3")];
    let doors = [ours.door(), Door { name: "ganesha", url: theirs, folder: &ganesha.dir }];
    let mut lines = String::from("to,bytes,clerk_ms,ganesha_ms\n");
    let mut copies = Copies::default();
    for (to, way) in WAYS {
        let mut sums = [0.0; 2];
        for bytes in plan.sizes {
            let content = content(*bytes);
            for folder in doors.iter().map(|door| door.folder).chain([here.path()]) {
                std::fs::write(folder.join(source(*bytes)), &content)?;
            }
            let medians = alternately(plan.rounds, &doors, |door, round| {
                copied(door, to, here.path(), (*bytes, round), &content)
            })?;
            writeln!(lines, "{way},{bytes},{:.3},{:.3}", medians[0], medians[1])?;
            sums = [sums[0] + medians[0], sums[1] + medians[1]];
        }
        copies.clerk_nfs_ratio.insert(way, sums[1] / sums[0].max(f64::EPSILON));
    }
    Ok((copies, lines))
}

/// The medians of so many copies by each, in alternation, in milliseconds; one more copy before them is not counted.
fn alternately<'a>(
    rounds: usize,
    doors: &[Door<'a>; 2],
    mut copy: impl FnMut(&Door<'a>, usize) -> Result<f64, Failure>,
) -> Result<[f64; 2], Failure> {
    let mut took = [Vec::new(), Vec::new()];
    for round in 0..=rounds {
        for (door, took) in doors.iter().zip(&mut took) {
            let ms = copy(door, round)?;
            if round > 0 {
                took.push(ms);
            }
        }
    }
    Ok(took.map(|mut took| {
        took.sort_unstable_by(f64::total_cmp);
        took.get(took.len() / 2).copied().unwrap_or_default()
    }))
}

/// Copies a file, and checks that the copy equals the original; returns the milliseconds.
fn copied(
    door: &Door<'_>,
    to: To,
    here: &Path,
    (bytes, round): (usize, usize),
    content: &[u8],
) -> Result<f64, Failure> {
    let [before, after] = &door.url;
    let at_server = |name: &str| format!("{before}{name}{after}");
    let local = |name: &str| here.join(name).display().to_string();
    let (source, copy) = (source(bytes), format!("{bytes}.{round}.{}", door.name));
    let (from, into, folder) = match to {
        To::Here => (at_server(&source), local(&copy), here),
        To::Server => (local(&source), at_server(&copy), door.folder),
    };
    let began = Instant::now();
    let run = Command::new("nfs-cp").args([&from, &into]).output()?;
    let ms = began.elapsed().as_secs_f64() * 1e3;
    if !run.status.success() {
        return Err(format!("nfs-cp {from} {into}: {}", String::from_utf8_lossy(&run.stderr)).into());
    }
    let copy = folder.join(copy);
    if std::fs::read(&copy)? != content {
        return Err(format!("{into} is not what {from} is").into());
    }
    std::fs::remove_file(copy)?;
    Ok(ms)
}

fn source(bytes: usize) -> String {
    format!("{bytes}.bin")
}

/// Bytes that are not all alike.
fn content(bytes: usize) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(bytes as u64);
    let mut content = vec![0; bytes];
    rng.fill(&mut content);
    content
}
