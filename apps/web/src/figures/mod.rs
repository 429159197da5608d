//! The paper's Figure 3 beside ours: fetches of one file again and again, over sockets and over Catena, from servers of the same files.

mod cores;
mod profile;
mod server;
mod sockets;

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::{Path, PathBuf},
    time::Instant,
};

use bytes::Bytes;
use catena::{Client, Place};
use catena_web::{FetchLimits, Fetcher};
use hyper::Request;
use serde::Serialize;

use crate::Failure;
pub(crate) use cores::Cores;
pub(crate) use profile::{Profiling, profile};
pub(crate) use server::{Child, Measured, cache, serve};
use sockets::Connection;

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Where the figures go
    #[arg(long, default_value = "target/web")]
    out: PathBuf,
    /// Fetches of each size, by each way; the largest are fetched less often
    #[arg(long, default_value_t = 10_000)]
    times: u64,
    /// GiB to fetch of one size by each way, about, at most: 64 MiB 10,000 times are 625
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=GIB_MAX))]
    gib_max: u64,
    /// A little of everything, to see that it works: no figures
    #[arg(long)]
    smoke: bool,
    /// A server other than hyper to measure: a command that prints its two addresses as `web measured` does; {FOLDER} and {CACHE} in it are replaced
    #[arg(long)]
    server: Option<String>,
    /// What the keys of the summary begin with
    #[arg(long, default_value = "hyper")]
    name: String,
    /// How long each size is fetched before it is measured, in milliseconds: a JVM compiles what it runs often
    #[arg(long, default_value_t = 0)]
    warm_ms: u64,
}

/// Bytes of the files, 1 KiB to 64 MiB.
const SIZES: [u64; 9] = [1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20];
/// More than 10,000 fetches of the largest.
const GIB_MAX: u64 = 1_024;

/// Bytes of the largest file that is fetched from a server on its client's core, too: of a larger one the wake-ups are a small part.
const ONE_CORE_BYTES_MAX: u64 = 64 << 10;

/// One line of the figure.
#[derive(Clone, Copy)]
struct Line {
    bytes: u64,
    /// By [`Way`].
    time_us: [f64; WAYS.len()],
    cpu_us: [f64; WAYS.len()],
}

/// How a file is fetched.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Way {
    /// Over a socket, into memory of the client's.
    Sockets,
    /// Over Catena; the client has it where the server has it, if it lies there.
    InPlace,
    /// Over Catena, into memory of the client's.
    Copied,
    /// The same by a client that shares no memory: the body comes by the link, over TCP.
    Tcp,
}

const WAYS: [Way; 4] = [Way::Sockets, Way::InPlace, Way::Copied, Way::Tcp];
/// Those over Catena, as the summary names them.
const OURS: [(Way, &str); 3] = [(Way::InPlace, ""), (Way::Copied, "copied_"), (Way::Tcp, "tcp_")];

impl Line {
    /// Time over sockets / over Catena.
    fn ratio(&self, way: Way) -> f64 {
        self.time_us[Way::Sockets as usize] / self.time_us[way as usize].max(f64::EPSILON)
    }

    fn cpu_ratio(&self, way: Way) -> f64 {
        self.cpu_us[way as usize] / self.cpu_us[Way::Sockets as usize].max(f64::EPSILON)
    }
}

#[derive(Serialize)]
struct Summary {
    smoke: bool,
    /// Time of a fetch over sockets / over Catena in place, by size in bytes, where both caches are on, and where both are off.
    cached: BTreeMap<u64, f64>,
    uncached: BTreeMap<u64, f64>,
    /// The same where the client copies what it was told of.
    cached_copied: BTreeMap<u64, f64>,
    uncached_copied: BTreeMap<u64, f64>,
    /// The same where client and server share no memory.
    cached_tcp: BTreeMap<u64, f64>,
    uncached_tcp: BTreeMap<u64, f64>,
    /// That of `cached` where the server is on its client's core.
    cached_one_core: BTreeMap<u64, f64>,
    /// The keys.
    #[serde(flatten)]
    keys: BTreeMap<String, f64>,
}

pub(crate) async fn run(arguments: Arguments, cores: Cores) -> Result<(), Failure> {
    std::fs::create_dir_all(&arguments.out)?;
    let folder = tempfile::tempdir()?;
    let sizes = if arguments.smoke { &SIZES[..6] } else { &SIZES[..] };
    for bytes in sizes {
        std::fs::write(folder.path().join(format!("{bytes}.bin")), content(*bytes))?;
    }
    let mut taken = Taken::default();
    for cached in [true, false] {
        let child = Child::start(folder.path(), cache(cached), arguments.server.as_deref(), &cores)?;
        for bytes in sizes {
            let times = if arguments.smoke { 20 } else { arguments.times.min((arguments.gib_max << 30) / bytes) };
            let line = measure(&child, *bytes, times, arguments.warm_ms).await?;
            let one_core = match cached && *bytes <= ONE_CORE_BYTES_MAX {
                true => Some(on_one_core(&cores, &child, *bytes, times, arguments.warm_ms).await?),
                false => None,
            };
            taken.take(&arguments.name, cached, &line, one_core)?;
        }
    }
    let name = &arguments.name;
    std::fs::write(arguments.out.join(format!("{name}.csv")), format!("{COLUMNS}{}", taken.csv))?;
    let summary = taken.summary(arguments.smoke);
    let told = serde_json::to_string_pretty(&summary)?;
    std::fs::write(arguments.out.join(format!("{name}.json")), &told)?;
    println!("{told}");
    put_together(&arguments.out, &summary)
}

const COLUMNS: &str = "cache,bytes,sockets_us,in_place_us,copied_us,tcp_us,sockets_cpu_us,in_place_cpu_us,copied_cpu_us,tcp_cpu_us,\
                       one_core_sockets_us,one_core_in_place_us\n";

/// What was measured so far.
#[derive(Default)]
struct Taken {
    csv: String,
    /// Of [`OURS`], with the caches on, and off.
    ratios: [[BTreeMap<u64, f64>; OURS.len()]; 2],
    one_core: BTreeMap<u64, f64>,
    keys: BTreeMap<String, f64>,
}

impl Taken {
    fn take(&mut self, name: &str, cached: bool, line: &Line, one_core: Option<Line>) -> Result<(), Failure> {
        let (bytes, cache) = (line.bytes, cache(cached));
        let ratios = OURS.map(|(way, _)| line.ratio(way));
        let [in_place, copied, tcp] = ratios;
        println!(
            "cache {cache}, {bytes} bytes: {in_place:.2} times as fast, {copied:.2} with a copy, {tcp:.2} over TCP"
        );
        for (by_size, ratio) in self.ratios[usize::from(!cached)].iter_mut().zip(ratios) {
            by_size.insert(bytes, ratio);
        }
        if let Some(one_core) = one_core {
            let ratio = one_core.ratio(Way::InPlace);
            println!("    on one core {ratio:.2} times as fast");
            self.one_core.insert(bytes, ratio);
        }
        let together = [Way::Sockets, Way::InPlace].map(|way| one_core.map(|line| line.time_us[way as usize]));
        let values = line.time_us.iter().chain(&line.cpu_us).copied().map(Some).chain(together);
        let values = values.map(|us| us.map_or_else(String::new, |us| format!("{us:.2}"))).collect::<Vec<_>>();
        writeln!(self.csv, "{cache},{bytes},{}", values.join(","))?;
        if cached {
            note(&mut self.keys, name, line);
        }
        Ok(())
    }

    fn summary(self, smoke: bool) -> Summary {
        let Self { ratios, one_core: cached_one_core, keys, .. } = self;
        let [[cached, cached_copied, cached_tcp], [uncached, uncached_copied, uncached_tcp]] = ratios;
        Summary {
            smoke,
            cached,
            uncached,
            cached_copied,
            uncached_copied,
            cached_tcp,
            uncached_tcp,
            cached_one_core,
            keys,
        }
    }
}

/// What the paper's text says of the time over sockets / of its Jetty over libRIPC (section IV); its Figure 3 bears no numbers.
const PAPER: [(&str, &str); 2] = [
    ("jetty_cached", "above 1 at every size, 3 for larger files"),
    ("jetty_uncached", "below 1 for files smaller than about 6 MiB"),
];

/// Adds the keys, and what the paper has, to those of what was measured before, in `summary.json`.
fn put_together(folder: &Path, summary: &Summary) -> Result<(), Failure> {
    let file = folder.join("summary.json");
    let before = std::fs::read(&file).ok().and_then(|text| serde_json::from_slice::<serde_json::Map<_, _>>(&text).ok());
    let mut all = before.unwrap_or_default();
    all.insert("smoke".to_owned(), summary.smoke.into());
    let mut paper = all.get("paper").and_then(serde_json::Value::as_object).cloned().unwrap_or_default();
    paper.extend(PAPER.map(|(key, value)| (key.to_owned(), value.into())));
    all.insert("paper".to_owned(), paper.into());
    all.extend(summary.keys.iter().map(|(key, value)| (key.clone(), serde_json::json!(value))));
    Ok(std::fs::write(file, serde_json::to_string_pretty(&all)?)?)
}

/// The keys of the issue that a line gives. Processor time is that of the largest size: of a GB, sent as such.
fn note(keys: &mut BTreeMap<String, f64>, name: &str, line: &Line) {
    for (bytes, size) in [(1 << 20, "1mb"), (64 << 20, "64mb")] {
        if line.bytes == bytes {
            keys.extend(OURS.map(|(way, called)| (format!("{name}_{called}ratio_{size}"), line.ratio(way))));
        }
    }
    keys.extend([Way::InPlace, Way::Tcp].map(|way| {
        let called = if way == Way::Tcp { "tcp_" } else { "" };
        (format!("{name}_{called}cpu_ratio"), line.cpu_ratio(way))
    }));
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

/// A client by every way, and memory that it uses again.
struct Fetching {
    fetcher: Fetcher,
    /// Shares no memory with the server.
    far: Fetcher,
    sockets: Connection,
    target: String,
    out: Vec<u8>,
}

impl Fetching {
    /// Of this server's file of so many bytes; what comes was looked at.
    async fn open(child: &Child, bytes: u64) -> Result<Self, Failure> {
        let client = |name: &str| Client::builder(name).join(Place::new(&child.catena));
        let (near, far) = (client("fetcher").connect().await?, client("far").without_shared_memory().connect().await?);
        let mut fetching = Self {
            fetcher: Fetcher::new(near, FetchLimits::default()),
            far: Fetcher::new(far, FetchLimits::default()),
            sockets: Connection::open(&child.sockets).await?,
            target: format!("/{bytes}.bin"),
            out: vec![0; usize::try_from(bytes)?],
        };
        fetching.check().await?;
        Ok(fetching)
    }

    async fn fetch(&mut self, way: Way) -> Result<(), Failure> {
        let Self { fetcher, far, sockets, target, out } = self;
        let fetcher = match way {
            Way::Sockets => return sockets.fetch(target, out).await,
            Way::InPlace | Way::Copied => fetcher,
            Way::Tcp => far,
        };
        let response = fetcher.fetch("web", Request::get(&*target).body(Bytes::new())?).await?;
        let (status, body) = (response.status(), response.into_body());
        let in_place = if way == Way::InPlace { body.in_place().await } else { None };
        let got = match in_place {
            Some(lies) => usize::try_from(lies.bytes())?,
            // It is no longer than what goes with its head, or came in parts.
            None => body.read_into(out).await?,
        };
        if !status.is_success() || got != out.len() {
            return Err(format!("{target}: {status}, {got} bytes of {}", out.len()).into());
        }
        Ok(())
    }

    /// Once by each way: what comes is what was to come, and where it lies, too.
    async fn check(&mut self) -> Result<(), Failure> {
        let expected = content(self.out.len() as u64);
        for way in [Way::Sockets, Way::Copied, Way::Tcp] {
            self.out.fill(0);
            self.fetch(way).await?;
            check(&self.out, &expected)?;
        }
        let response = self.fetcher.fetch("web", Request::get(&*self.target).body(Bytes::new())?).await?;
        if let Some(lies) = response.into_body().in_place().await {
            self.out.fill(0);
            lies.read(0, &mut self.out).await?;
            check(&self.out, &expected)?;
        }
        Ok(())
    }
}

/// All ways in turns, so that whatever else the machine does meets all.
async fn measure(child: &Child, bytes: u64, times: u64, warm_ms: u64) -> Result<Line, Failure> {
    /// Turns of each.
    const ROUNDS: u64 = 10;
    let mut fetching = Fetching::open(child, bytes).await?;
    let began = Instant::now();
    while began.elapsed().as_millis() < u128::from(warm_ms) {
        for way in WAYS {
            fetching.fetch(way).await?;
        }
    }
    let each = (times / ROUNDS).max(1);
    let (mut time_us, mut cpu_us) = ([0.0; WAYS.len()], [0.0; WAYS.len()]);
    for _ in 0..ROUNDS {
        for way in WAYS {
            let (began, worked) = (Instant::now(), child.cpu_us()?);
            for _ in 0..each {
                fetching.fetch(way).await?;
            }
            time_us[way as usize] += began.elapsed().as_secs_f64() * 1e6;
            cpu_us[way as usize] += child.cpu_us()? - worked;
        }
    }
    let fetches = (each * ROUNDS) as f64;
    Ok(Line { bytes, time_us: time_us.map(|sum| sum / fetches), cpu_us: cpu_us.map(|sum| sum / fetches) })
}

/// The same with the server on its client's core.
async fn on_one_core(cores: &Cores, child: &Child, bytes: u64, times: u64, warm_ms: u64) -> Result<Line, Failure> {
    cores.share(child.id(), true)?;
    let line = measure(child, bytes, times, warm_ms).await;
    cores.share(child.id(), false)?;
    line
}

fn check(got: &[u8], expected: &[u8]) -> Result<(), Failure> {
    if got == expected { Ok(()) } else { Err("what was fetched is not what is in the file".into()) }
}
