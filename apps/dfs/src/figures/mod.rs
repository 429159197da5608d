//! The figures of section 5.2 beside ours: Figure 2 (latency), Figure 3 (the server's processor), and the mix of Table 1a; how many clerks a server serves; and copies of
//! files beside another NFS server.

mod clients;
mod copies;
mod measure;
mod player;
mod process;
mod replay;

use std::{collections::BTreeMap, fmt::Write as _, path::PathBuf};

use catena_dfs::{
    Way,
    workload::{TABLE, Workload},
};
use serde::Serialize;

use clients::Clients;
use copies::Copies;
use measure::{Bench, Figure};
pub(crate) use replay::{Replaying, replay};

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Where the figures go
    #[arg(long, default_value = "target/clerks")]
    out: PathBuf,
    /// Times that each operation is done
    #[arg(long, default_value_t = 20_000)]
    times: usize,
    /// Operations of the mix, for each way
    #[arg(long, default_value_t = 200_000)]
    mix: usize,
    /// From which the mix is drawn
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A little of everything, to see that it works: no figures
    #[arg(long)]
    smoke: bool,
}

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What the goals are about, on one host in shared memory and over TCP.
#[derive(Serialize, Default)]
struct Summary {
    smoke: bool,
    /// Latency by READs / by Hybrid-1, of the operation with the worst ratio.
    dx_hy_latency: BTreeMap<String, f64>,
    /// Processor time of the server by READs / by Hybrid-1, of the worst operation.
    dx_hy_cpu: BTreeMap<String, f64>,
    /// The mean of these ratios over the operations: what the paper gives a number for.
    dx_hy_cpu_mean: BTreeMap<String, f64>,
    /// The same for the mix of Table 1a, by READs / by ordinary calls.
    dx_call_cpu_mix: BTreeMap<String, f64>,
    /// Bytes of control, of all, as Table 1b counts them (section 2), in the mix, by READs.
    dx_control_pct: f64,
    /// The same by Hybrid-1, where every operation transfers control, as by RPC.
    hy_control_pct: f64,
    /// Bytes on the wire that are not the data that was asked for, of all, by READs: with headers of frames and sectors, the rest of sectors, and the lease's READs.
    dx_overhead_pct: f64,
    /// Operations of the mix for which control went to the server, of all, by READs.
    dx_misses_pct: BTreeMap<String, f64>,
    #[serde(flatten)]
    clients: Clients,
    #[serde(flatten)]
    copies: Copies,
    /// What the paper has.
    paper: BTreeMap<&'static str, &'static str>,
}

/// Whether memory is shared, and how that is called.
const LINKS: [(bool, &str); 2] = [(true, "shared_memory"), (false, "tcp")];
const WAYS: [(Way, &str); 3] = [(Way::Data, "dx"), (Way::Hybrid, "hy"), (Way::Call, "call")];

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    std::fs::create_dir_all(&arguments.out)?;
    let paper = BTreeMap::from([
        ("dx_hy_latency", "always better"),
        ("dx_hy_cpu_mean", "less than 0.5"),
        ("dx_control_pct", "12 (by RPC)"),
    ]);
    let mut summary = Summary { smoke: arguments.smoke, paper, ..Summary::default() };
    let write = |name: &str, text: &str| std::fs::write(arguments.out.join(name), text);
    let (operations, mixes) = of_each(&arguments, &mut summary).await?;
    write("operations.csv", &operations)?;
    write("mix.csv", &mixes)?;
    write("table1.csv", &table())?;
    let (clients, lines) = clients::measure(&clients::Plan::new(arguments.smoke, arguments.seed)).await?;
    summary.clients = clients;
    write("clients.csv", &lines)?;
    let (copies, lines) = copies::measure(arguments.smoke)?;
    summary.copies = copies;
    if !lines.is_empty() {
        write("copies.csv", &lines)?;
    }
    let told = serde_json::to_string_pretty(&summary)?;
    write("summary.json", &told)?;
    println!("{told}");
    Ok(())
}

/// Each operation and the mix, by each way: the two tables as CSV.
async fn of_each(arguments: &Arguments, summary: &mut Summary) -> Result<(String, String), Failure> {
    let (times, mix) = if arguments.smoke { (200, 2_000) } else { (arguments.times, arguments.mix) };
    let mut lines = String::from("link,way,operation,latency_us,server_cpu_us\n");
    let mut mixes =
        String::from("link,way,operations,server_cpu_us_per_operation,wire_bytes,data_bytes,control_bytes,asked\n");
    for (shared_memory, link) in LINKS {
        let mut per_way: BTreeMap<&str, Vec<Figure>> = BTreeMap::new();
        let mut mix_cpu: BTreeMap<&str, f64> = BTreeMap::new();
        for (way, name) in WAYS {
            println!("{link}, {name}");
            let mut bench = Bench::start(way, shared_memory).await?;
            let figures = bench.each(times).await?;
            for one in &figures {
                writeln!(lines, "{link},{name},{},{:.3},{:.3}", one.operation, one.latency_us, one.cpu_us)?;
            }
            per_way.insert(name, figures);
            let mixed = bench.mix(Workload::new(arguments.seed).take(mix)).await?;
            let (wire, data, control, asked) = (mixed.wire_bytes, mixed.data_bytes, mixed.control_bytes, mixed.asked);
            writeln!(mixes, "{link},{name},{mix},{:.3},{wire},{data},{control},{asked}", mixed.cpu_us)?;
            mix_cpu.insert(name, mixed.cpu_us);
            if way == Way::Data {
                summary.dx_misses_pct.insert(link.to_owned(), asked as f64 * 100.0 / mix as f64);
            }
            match way {
                Way::Data if !shared_memory => {
                    (summary.dx_control_pct, summary.dx_overhead_pct) = (mixed.control_pct(), mixed.overhead_pct());
                }
                Way::Hybrid if !shared_memory => summary.hy_control_pct = mixed.control_pct(),
                _ => {}
            }
        }
        let cpu = ratios(&per_way, |one| one.cpu_us);
        summary.dx_hy_latency.insert(link.to_owned(), worst(&ratios(&per_way, |one| one.latency_us)));
        summary.dx_hy_cpu.insert(link.to_owned(), worst(&cpu));
        summary.dx_hy_cpu_mean.insert(link.to_owned(), cpu.iter().sum::<f64>() / cpu.len().max(1) as f64);
        summary.dx_call_cpu_mix.insert(link.to_owned(), mix_cpu["dx"] / mix_cpu["call"].max(f64::EPSILON));
    }
    Ok((lines, mixes))
}

/// DX to HY, of each operation.
fn ratios(per_way: &BTreeMap<&str, Vec<Figure>>, of: impl Fn(&Figure) -> f64) -> Vec<f64> {
    per_way["dx"].iter().zip(&per_way["hy"]).map(|(dx, hy)| of(dx) / of(hy).max(f64::EPSILON)).collect()
}

fn worst(ratios: &[f64]) -> f64 {
    ratios.iter().copied().fold(0.0, f64::max)
}

/// The paper's tables, for whoever draws them beside ours.
fn table() -> String {
    let mut table = String::from("operation,calls,control_mb,data_mb,data_bytes_per_call\n");
    for row in TABLE {
        let _ = writeln!(
            table,
            "{:?},{},{},{},{:.1}",
            row.activity,
            row.calls,
            row.control_mb,
            row.data_mb,
            row.data_bytes()
        );
    }
    table
}
