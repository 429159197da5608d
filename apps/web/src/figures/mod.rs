//! The paper's Figure 3 beside ours: fetches of one file again and again, over sockets and over Catena, from servers of the same files.

mod server;
mod sockets;

use std::{collections::BTreeMap, fmt::Write as _, path::PathBuf, time::Instant};

use bytes::Bytes;
use catena::{Client, Place};
use catena_web::{FetchLimits, Fetcher};
use hyper::Request;
use serde::Serialize;

use crate::Failure;
use server::Child;
pub(crate) use server::{Measured, serve};
use sockets::Connection;

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Where the figures go
    #[arg(long, default_value = "target/web")]
    out: PathBuf,
    /// Fetches of each size; the largest are fetched less often, for 8 GB a size at most
    #[arg(long, default_value_t = 10_000)]
    times: u64,
    /// A little of everything, to see that it works: no figures
    #[arg(long)]
    smoke: bool,
    /// A server other than hyper to measure: a command that prints its two addresses as `web measured` does; {FOLDER} and {CACHE} in it are replaced
    #[arg(long)]
    server: Option<String>,
    /// What the keys of the summary begin with
    #[arg(long, default_value = "hyper")]
    name: String,
}

/// Bytes of the files, 1 KiB to 64 MiB.
const SIZES: [u64; 9] = [1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20];
/// Bytes fetched of one size, about, at most.
const BYTES_MAX: u64 = 8 << 30;

/// One line of the figure.
#[derive(Clone, Copy)]
struct Line {
    bytes: u64,
    sockets_us: f64,
    ours_us: f64,
    sockets_cpu_us: f64,
    ours_cpu_us: f64,
}

impl Line {
    fn ratio(&self) -> f64 {
        self.sockets_us / self.ours_us.max(f64::EPSILON)
    }
}

#[derive(Serialize)]
struct Summary {
    smoke: bool,
    /// Time of a fetch over sockets / over Catena: by size in bytes, where both caches are on, and where both are off.
    cached: BTreeMap<u64, f64>,
    uncached: BTreeMap<u64, f64>,
    /// The keys.
    #[serde(flatten)]
    keys: BTreeMap<String, f64>,
}

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    std::fs::create_dir_all(&arguments.out)?;
    let folder = tempfile::tempdir()?;
    let sizes = if arguments.smoke { &SIZES[..6] } else { &SIZES[..] };
    for bytes in sizes {
        std::fs::write(folder.path().join(format!("{bytes}.bin")), content(*bytes))?;
    }
    let mut csv = String::from("cache,bytes,sockets_us,ours_us,sockets_cpu_us,ours_cpu_us\n");
    let (mut ratios, mut keys) = ([BTreeMap::new(), BTreeMap::new()], BTreeMap::new());
    for (place, cache) in [(0, true), (1, false)] {
        let child = Child::start(folder.path(), cache, arguments.server.as_deref())?;
        for bytes in sizes {
            let times = if arguments.smoke { 20 } else { arguments.times.min(BYTES_MAX / bytes) };
            let line = measure(&child, *bytes, times).await?;
            writeln!(
                csv,
                "{},{bytes},{:.2},{:.2},{:.2},{:.2}",
                if cache { "on" } else { "off" },
                line.sockets_us,
                line.ours_us,
                line.sockets_cpu_us,
                line.ours_cpu_us
            )?;
            println!("cache {}, {bytes} bytes: {:.2} times as fast", if cache { "on" } else { "off" }, line.ratio());
            ratios[place].insert(*bytes, line.ratio());
            if cache {
                note(&mut keys, &arguments.name, &line);
            }
        }
    }
    let [cached, uncached] = ratios;
    let summary = Summary { smoke: arguments.smoke, cached, uncached, keys };
    let name = &arguments.name;
    std::fs::write(arguments.out.join(format!("{name}.csv")), csv)?;
    std::fs::write(arguments.out.join(format!("{name}.json")), serde_json::to_string_pretty(&summary)?)?;
    println!("{}", serde_json::to_string_pretty(&summary)?);
    Ok(())
}

/// The keys of the issue that a line gives. Processor time is that of the largest size: of a GB, sent as such.
fn note(keys: &mut BTreeMap<String, f64>, name: &str, line: &Line) {
    if line.bytes == 1 << 20 {
        keys.insert(format!("{name}_ratio_1mb"), line.ratio());
    }
    if line.bytes == 64 << 20 {
        keys.insert(format!("{name}_ratio_64mb"), line.ratio());
    }
    keys.insert(format!("{name}_cpu_ratio"), line.ours_cpu_us / line.sockets_cpu_us.max(f64::EPSILON));
}

/// Random to a compressor, the same each time.
fn content(bytes: u64) -> Vec<u8> {
    let mut state = bytes | 1;
    let mut content = Vec::new();
    while (content.len() as u64) < bytes {
        // Marsaglia's xorshift.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        content.extend_from_slice(&state.to_le_bytes());
    }
    content.truncate(usize::try_from(bytes).unwrap_or(usize::MAX));
    content
}

/// Both in turns, so that whatever else the machine does meets both.
async fn measure(child: &Child, bytes: u64, times: u64) -> Result<Line, Failure> {
    /// Turns of each.
    const ROUNDS: u64 = 10;
    let target = format!("/{bytes}.bin");
    let client = Client::builder("fetcher").join(Place::new(&child.catena)).connect().await?;
    let fetcher = Fetcher::new(client, FetchLimits::default());
    let mut sockets = Connection::open(&child.sockets).await?;
    let expected = content(bytes);
    let mut out = vec![0; expected.len()];
    // Once before, which is not counted; and what comes is what was to come.
    sockets.fetch(&target, &mut out).await?;
    check(&out, &expected)?;
    out.fill(0);
    fetch(&fetcher, &target, &mut out).await?;
    check(&out, &expected)?;
    let each = (times / ROUNDS).max(1);
    let (mut time, mut cpu) = ([0.0; 2], [0.0; 2]);
    for _ in 0..ROUNDS {
        for way in 0..2 {
            let (began, worked) = (Instant::now(), child.cpu_us()?);
            for _ in 0..each {
                if way == 0 {
                    sockets.fetch(&target, &mut out).await?;
                } else {
                    fetch(&fetcher, &target, &mut out).await?;
                }
            }
            time[way] += began.elapsed().as_secs_f64() * 1e6;
            cpu[way] += child.cpu_us()? - worked;
        }
    }
    let per = |sum: f64| sum / (each * ROUNDS) as f64;
    Ok(Line {
        bytes,
        sockets_us: per(time[0]),
        ours_us: per(time[1]),
        sockets_cpu_us: per(cpu[0]),
        ours_cpu_us: per(cpu[1]),
    })
}

async fn fetch(fetcher: &Fetcher, target: &str, out: &mut [u8]) -> Result<(), Failure> {
    let response = fetcher.fetch("web", Request::get(target).body(Bytes::new())?).await?;
    let status = response.status();
    let got = response.into_body().read_into(out).await?;
    if !status.is_success() || got != out.len() {
        return Err(format!("{target}: {status}, {got} bytes of {}", out.len()).into());
    }
    Ok(())
}

fn check(got: &[u8], expected: &[u8]) -> Result<(), Failure> {
    if got == expected { Ok(()) } else { Err("what was fetched is not what is in the file".into()) }
}
