//! Quatrain's micro benchmark (section 5.1): tasks of a fixed time, in parts that reply one by one. One call at a time (Figure 6), and then under load
//! (Figure 7).

mod stress;
mod task;

use std::{fmt::Write as _, path::Path, time::Duration};

use catena::{Client, Place};
use serde_json::json;
pub(crate) use stress::service as stressed;
pub(crate) use task::service;

use crate::{Failure, mesh, segments::monotonic_ns, server::Server};

/// Sequential and parallel execution, by tasks and by threads.
const FUNCTIONS: [(&str, &str, &str); 4] =
    [("SE", "events", "se"), ("PE", "events", "pe"), ("SE", "threads", "se_threads"), ("PE", "threads", "pe_threads")];

/// How much is measured.
struct Scale {
    /// Times of a whole task, and how often it is called with each number of parts.
    tasks: &'static [(Duration, usize)],
    parts: &'static [u32],
    stress: stress::Scale,
}

const WHOLE: Scale = Scale {
    tasks: &[(Duration::from_millis(100), 20), (Duration::from_secs(1), 3), (Duration::from_secs(10), 1)],
    parts: &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20],
    stress: stress::WHOLE,
};
const FEW: Scale = Scale { tasks: &[(Duration::from_millis(100), 1)], parts: &[1, 4, 20], stress: stress::FEW };

/// One point of a line of the figure: means over its calls.
struct Point {
    mode: &'static str,
    kind: &'static str,
    task_ms: f64,
    parts: u32,
    /// When parts arrived, when they were ready, and when they would be if sleeping were exact: milliseconds after the call.
    aat_ms: f64,
    ready_ms: f64,
    ideal_ms: f64,
    /// Processor time of the server for one call, milliseconds.
    cpu_ms: f64,
}

/// `micro DIR [--smoke]`: writes `micro.csv` and `micro.json`, then what [`stress`] does.
pub(crate) async fn run(arguments: &[String]) -> Result<(), Failure> {
    let (folder, scale) = match arguments {
        [folder] => (Path::new(folder), &WHOLE),
        [folder, smoke] if smoke == "--smoke" => (Path::new(folder), &FEW),
        _ => return Err("micro DIR [--smoke]".into()),
    };
    // Each by a server of its own, which has one call at a time: they sleep beside each other.
    let lines: Vec<_> = FUNCTIONS.iter().map(|function| tokio::spawn(line(function, scale))).collect();
    let mut points = Vec::new();
    for line in lines {
        points.extend(line.await??);
    }
    write(folder, &points)?;
    stress::run(folder, &scale.stress).await
}

async fn line(
    &(mode, kind, function): &'static (&'static str, &'static str, &'static str),
    scale: &'static Scale,
) -> Result<Vec<Point>, Failure> {
    let server = Server::start(&["tasks", "tasks"]).await?;
    let place = Place::new(server.address.as_str());
    let client =
        Client::builder("caller").sandbox(mesh::sandbox()?).without_shared_memory().join(place).connect().await?;
    let target = format!("tasks/{function}");
    // The first call has what is made once.
    call(&client, &target, Duration::from_millis(1), 1).await?;
    let mut points = Vec::new();
    for (task, calls) in scale.tasks {
        for parts in scale.parts {
            let (mut aat_ms, mut ready_ms) = (0.0, 0.0);
            let cpu = server.cpu_s().await?;
            for _ in 0..*calls {
                let (aat, ready) = call(&client, &target, *task, *parts).await?;
                aat_ms += aat / *calls as f64;
                ready_ms += ready / *calls as f64;
            }
            let cpu_ms = (server.cpu_s().await? - cpu) * 1e3 / *calls as f64;
            let (task_ms, of) = (task.as_secs_f64() * 1e3, f64::from(*parts));
            let ideal_ms = if mode == "SE" { task_ms * (of + 1.0) / (2.0 * of) } else { task_ms / of };
            points.push(Point { mode, kind, task_ms, parts: *parts, aat_ms, ready_ms, ideal_ms, cpu_ms });
        }
    }
    Ok(points)
}

/// Mean of when the parts arrived, and of when they were ready, in milliseconds after the call: client and server have one clock.
async fn call(client: &Client, target: &str, task: Duration, parts: u32) -> Result<(f64, f64), Failure> {
    let began = monotonic_ns();
    let after_ms = |at: u64| at.saturating_sub(began) as f64 / 1e6;
    let task_us = u64::try_from(task.as_micros())?;
    let mut set = client.replies(target, &(task_us, parts)).await?;
    let (mut arrived, mut ready, mut count) = (0.0, 0.0, 0);
    while let Some(reply) = set.next().await {
        arrived += after_ms(monotonic_ns());
        let (at, _records): (u64, serde_bytes::ByteBuf) = reply?.decode()?;
        ready += after_ms(at);
        count += 1;
    }
    match count == parts {
        true => Ok((arrived / f64::from(parts), ready / f64::from(parts))),
        false => Err(format!("{count} replies of {parts} parts").into()),
    }
}

fn write(folder: &Path, points: &[Point]) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)?;
    let mut csv = String::from("mode,kind,task_ms,parts,aat_ms,ready_ms,ideal_ms,cpu_ms\n");
    for Point { mode, kind, task_ms, parts, aat_ms, ready_ms, ideal_ms, cpu_ms } in points {
        let _ = writeln!(csv, "{mode},{kind},{task_ms},{parts},{aat_ms:.3},{ready_ms:.3},{ideal_ms:.3},{cpu_ms:.3}");
    }
    std::fs::write(folder.join("micro.csv"), csv)?;
    let ratios: Vec<f64> = points.iter().map(|point| point.aat_ms / point.ready_ms).collect();
    let values = json!({ "aat_ideal": ratios, "preturn_cpu_pct": more_cpu(points) });
    std::fs::write(folder.join("micro.json"), format!("{:#}\n", json!({ "values": values })))?;
    Ok(())
}

/// For each line of the figure: the processor time with the most parts, less that with one, in percent of the task's time.
fn more_cpu(points: &[Point]) -> Vec<f64> {
    let lines = points.iter().filter(|point| point.parts == 1);
    let more = |one: &Point| {
        let of_line = |point: &&Point| point.mode == one.mode && point.kind == one.kind && point.task_ms == one.task_ms;
        let most = points.iter().filter(of_line).max_by_key(|point| point.parts);
        most.map(|most| (most.cpu_ms - one.cpu_ms) / one.task_ms * 100.0)
    };
    lines.filter_map(more).collect()
}
