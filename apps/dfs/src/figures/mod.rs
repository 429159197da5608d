//! The figures of section 5.2 beside ours: Figure 2 (latency), Figure 3 (the server's processor), and the mix of Table 1a; how many clerks a server serves; and copies of
//! files beside another NFS server.

mod clients;
mod copies;
mod measure;
mod player;
mod process;
mod profile;
mod replay;

use std::{collections::BTreeMap, fmt::Write as _, path::PathBuf};

use catena_dfs::{
    Way,
    workload::{Activity, Row, TABLE, Workload},
};
use serde::Serialize;

use clients::Clients;
use copies::Copies;
use measure::{Bench, Figure, Moved};
pub(crate) use profile::{Profiling, profile};
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

/// The values that the goals are about, on one host in shared memory and over TCP.
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
    /// Bytes of control as a percentage of all bytes, as Table 1b counts them (section 2), in the mix, by READs.
    dx_control_pct: f64,
    /// The same by Hybrid-1, where every operation transfers control, as with RPC.
    hy_control_pct: f64,
    /// Bytes on the wire that are not requested data, in percent, by READs: headers of frames and sectors, unused bytes of sectors, the lease's READs.
    dx_overhead_pct: f64,
    /// Operations of the mix for which control went to the server, as a percentage of all, by READs.
    dx_misses_pct: BTreeMap<String, f64>,
    #[serde(flatten)]
    clients: Clients,
    #[serde(flatten)]
    copies: Copies,
    /// The paper's values.
    paper: BTreeMap<&'static str, &'static str>,
}

/// Whether memory is shared, and the name of that configuration.
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
    let Tables { operations, mixes, table1 } = of_each(&arguments, &mut summary).await?;
    write("operations.csv", &operations)?;
    write("mix.csv", &mixes)?;
    write("table1.csv", &table1)?;
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

/// As CSV.
struct Tables {
    operations: String,
    mixes: String,
    table1: String,
}

/// Each operation and the mix, by each way.
async fn of_each(arguments: &Arguments, summary: &mut Summary) -> Result<Tables, Failure> {
    let (times, mix) = if arguments.smoke { (200, 2_000) } else { (arguments.times, arguments.mix) };
    let mut lines = String::from("link,way,operation,latency_us,server_cpu_us\n");
    let mut mixes =
        String::from("link,way,operations,server_cpu_us_per_operation,wire_bytes,data_bytes,control_bytes,asked\n");
    let mut rows: BTreeMap<&str, BTreeMap<Activity, Moved>> = BTreeMap::new();
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
            let total = mixed.total();
            let (wire, data, control, asked) = (mixed.wire_bytes, total.data_bytes, total.control_bytes, mixed.asked);
            writeln!(mixes, "{link},{name},{mix},{:.3},{wire},{data},{control},{asked}", mixed.cpu_us)?;
            mix_cpu.insert(name, mixed.cpu_us);
            if way == Way::Data {
                summary.dx_misses_pct.insert(link.to_owned(), asked as f64 * 100.0 / mix as f64);
            }
            match way {
                Way::Data if !shared_memory => {
                    (summary.dx_control_pct, summary.dx_overhead_pct) = (total.control_pct(), mixed.overhead_pct());
                }
                Way::Hybrid if !shared_memory => summary.hy_control_pct = total.control_pct(),
                _ => {}
            }
            rows.insert(name, mixed.moved);
        }
        let cpu = ratios(&per_way, |one| one.cpu_us);
        summary.dx_hy_latency.insert(link.to_owned(), worst(&ratios(&per_way, |one| one.latency_us)));
        summary.dx_hy_cpu.insert(link.to_owned(), worst(&cpu));
        summary.dx_hy_cpu_mean.insert(link.to_owned(), cpu.iter().sum::<f64>() / cpu.len().max(1) as f64);
        summary.dx_call_cpu_mix.insert(link.to_owned(), mix_cpu["dx"] / mix_cpu["call"].max(f64::EPSILON));
    }
    Ok(Tables { operations: lines, mixes, table1: table1(&rows) })
}

/// The ratio of DX to HY for each operation that is compared.
fn ratios(per_way: &BTreeMap<&str, Vec<Figure>>, of: impl Fn(&Figure) -> f64) -> Vec<f64> {
    let both = per_way["dx"].iter().zip(&per_way["hy"]);
    both.filter(|(dx, _)| dx.compared).map(|(dx, hy)| of(dx) / of(hy).max(f64::EPSILON)).collect()
}

fn worst(ratios: &[f64]) -> f64 {
    ratios.iter().copied().fold(0.0, f64::max)
}

/// Table 1b, with ours beside each of its rows: by READs (`dx`), and where each operation transfers control (`hy`), over TCP. Control is in percent of all
/// bytes, since the paper's absolute numbers are of several days.
fn table1(ours: &BTreeMap<&str, BTreeMap<Activity, Moved>>) -> String {
    const BYTES_PER_MB: u64 = 1_000_000;
    let mut table = String::from(
        "operation,paper_calls,paper_data_bytes_per_call,paper_control_pct,calls,data_bytes_per_call,dx_control_pct,hy_control_pct\n",
    );
    let mut line = |operation: &str, paper: Moved, [dx, hy]: [Moved; 2]| {
        let side = |of: Moved| format!("{},{:.1},{:.1}", of.calls, of.data_bytes_per_call(), of.control_pct());
        let _ = writeln!(table, "{operation},{},{},{:.1}", side(paper), side(dx), hy.control_pct());
    };
    let papers = |row: Row| Moved {
        calls: row.calls,
        data_bytes: row.data_mb * BYTES_PER_MB,
        control_bytes: row.control_mb * BYTES_PER_MB,
    };
    for row in TABLE {
        let of = |way: &str| ours.get(way).and_then(|rows| rows.get(&row.activity)).copied().unwrap_or_default();
        line(&format!("{:?}", row.activity), papers(row), ["dx", "hy"].map(of));
    }
    let all = |way: &str| ours.get(way).into_iter().flat_map(BTreeMap::values).copied().sum::<Moved>();
    line("Total", TABLE.map(papers).into_iter().sum(), ["dx", "hy"].map(all));
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_of_the_papers_table_has_ours_beside_it() {
        let moved = |control_bytes| Moved { calls: 4, data_bytes: 1_000, control_bytes };
        let ours = |read, setattr| BTreeMap::from([(Activity::Read, moved(read)), (Activity::Setattr, moved(setattr))]);
        let table = table1(&BTreeMap::from([("dx", ours(0, 500)), ("hy", ours(250, 750))]));
        assert_eq!(table.lines().count(), 1 + TABLE.len() + 1);
        assert!(table.contains("\nRead,4478036,485.9,7.8,4,250.0,0.0,20.0\n"), "{table}");
        assert!(table.contains("\nWrite,109712,2470.1,1.5,0,0.0,0.0,0.0\n"), "{table}");
        assert!(table.ends_with("\nTotal,28860744,193.1,12.1,8,250.0,20.0,33.3\n"), "{table}");
    }
}
