//! The paper's figures, drawn from our tables.

use std::path::Path;

use plotters::prelude::*;

use crate::{
    Failure,
    bars::bars_in,
    lines::{Axes, Line, lines_in},
    rows::Rows,
};

pub(crate) const SIZE_PX: (u32, u32) = (860, 440);
/// Told apart in print and by those who see few colours.
const COLOURS: [RGBColor; 5] = [
    RGBColor(120, 120, 120),
    RGBColor(0, 114, 178),
    RGBColor(190, 170, 150),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
];

/// Draws what there are tables of.
///
/// # Errors
/// A table cannot be read, or a figure cannot be written.
pub(crate) fn draw(folder: &Path) -> Result<(), Failure> {
    let table = |name: &str| Rows::read(&folder.join(name).with_extension("csv"));
    if let Some(rows) = table("micro")? {
        figure_6(&rows, folder)?;
    }
    if let Some(rows) = table("stress")? {
        figure_7(&rows, folder)?;
    }
    if let Some(rows) = table("corsair")? {
        figure_8(&rows, &folder.join("figure-8.svg"))?;
    }
    if let Some(rows) = table("glickr_times")? {
        figure_9(&rows, &folder.join("figure-9.svg"))?;
    }
    if let Some(rows) = table("glickr")? {
        figure_10(&rows, &folder.join("figure-10.svg"))?;
    }
    if let Some(rows) = table("mapreduce")? {
        figure_11(&rows, &folder.join("figure-11.svg"))?;
    }
    if let Some(rows) = table("operations")? {
        operations(&rows, folder)?;
    }
    if let Some(rows) = table("clients")? {
        clients(&rows, folder)?;
    }
    for server in ["hyper", "jetty"] {
        if let Some(rows) = table(server)? {
            figure_3(&rows, server, folder)?;
        }
    }
    Ok(())
}

/// libRIPC's: the time of a fetch by the size of the file, on logarithmic axes; caches on, and off.
fn figure_3(rows: &Rows, server: &str, folder: &Path) -> Result<(), Failure> {
    let (caches, bytes) = (rows.texts("cache"), rows.numbers("bytes"));
    for cache in ["on", "off"] {
        let line = |column: &str| -> Vec<(f64, f64)> {
            let points = caches.iter().zip(bytes.iter().zip(rows.numbers(column)));
            points.filter(|(of, _)| **of == cache).filter_map(|(_, (x, y))| Some(((*x)? / 1024.0, y?))).collect()
        };
        let sockets = line("sockets_us");
        let paper = (server == "jetty").then(|| stated(cache, &sockets));
        let ours = [
            ("sockets", sockets, COLOURS[0]),
            ("ours, where it lies", line("in_place_us"), COLOURS[1]),
            ("ours, copied by the client", line("copied_us"), COLOURS[3]),
            ("ours, without shared memory", line("tcp_us"), COLOURS[4]),
        ];
        let lines: Vec<Line<'_>> = ours.into_iter().chain(paper).collect();
        let title = format!("libRIPC, Figure 3: a fetch from {server}, its cache {cache}");
        let file = folder.join(format!("figure-3-{server}-cache-{cache}.svg"));
        lines_in(&file, &title, ("KiB", "microseconds"), Axes::Logarithmic, &lines)?;
    }
    Ok(())
}

/// What the paper's text (section IV) says of its Jetty beside sockets, as a line beside ours: it gives no times.
fn stated(cache: &str, sockets: &[(f64, f64)]) -> Line<'static> {
    /// Below it the paper's Jetty is slower without its cache, "about".
    const SLOWER_BELOW_KIB: f64 = 6.0 * 1024.0;
    if cache == "on" {
        let third = sockets.iter().map(|(size, time)| (*size, time / 3.0)).collect();
        return ("a third of sockets: the paper's, larger files", third, COLOURS[2]);
    }
    let most = sockets.iter().map(|(_, time)| *time).fold(1.0, f64::max);
    ("about 6 MiB: the paper's is slower below", vec![(SLOWER_BELOW_KIB, 1.0), (SLOWER_BELOW_KIB, most)], COLOURS[2])
}

/// AAT by the number of parts, a figure for each length of task: those that run by tasks, beside what is ideal. Those by threads are in the table.
fn figure_6(rows: &Rows, folder: &Path) -> Result<(), Failure> {
    let (modes, kinds, parts) = (rows.texts("mode"), rows.texts("kind"), rows.numbers("parts"));
    let (tasks, aat, ideal) = (rows.numbers("task_ms"), rows.numbers("aat_ms"), rows.numbers("ideal_ms"));
    let mut lengths: Vec<f64> = tasks.iter().flatten().copied().collect();
    lengths.dedup();
    lengths.sort_by(f64::total_cmp);
    lengths.dedup();
    for length in lengths {
        let line = |mode: &str, values: &[Option<f64>]| -> Vec<(f64, f64)> {
            let of = |at: usize| modes[at] == mode && kinds[at] == "events" && tasks[at] == Some(length);
            (0..parts.len()).filter(|at| of(*at)).filter_map(|at| Some((parts[at]?, values[at]?))).collect()
        };
        let lines = [
            ("sequential, ideal", line("SE", &ideal), COLOURS[0]),
            ("sequential, replies", line("SE", &aat), COLOURS[1]),
            ("parallel, ideal", line("PE", &ideal), COLOURS[2]),
            ("parallel, replies", line("PE", &aat), COLOURS[3]),
        ];
        let title = format!("Figure 6: average arrival time of the parts of a task of {length} ms");
        let file = folder.join(format!("figure-6-{length}ms.svg"));
        lines_in(&file, &title, ("parts", "milliseconds"), Axes::FromZero, &lines)?;
    }
    Ok(())
}

/// Both kinds of server by the calls that they are offered, for each work: how long a call takes, and how many are completed.
fn figure_7(rows: &Rows, folder: &Path) -> Result<(), Failure> {
    let (modes, works, kinds) = (rows.texts("mode"), rows.texts("work"), rows.texts("kind"));
    let offered = rows.numbers("offered_per_s");
    let mut all: Vec<_> = modes.iter().zip(&works).collect();
    all.dedup();
    for (mode, work) in all {
        let line = |kind: &str, column: &str| -> Vec<(f64, f64)> {
            let values = rows.numbers(column);
            let of = |at: &usize| (modes[*at], works[*at], kinds[*at]) == (*mode, *work, kind);
            (0..kinds.len()).filter(of).filter_map(|at| Some((offered[at]?, values[at]?))).collect()
        };
        let times = [
            ("events, median", line("events", "median_ms"), COLOURS[0]),
            ("events, 99 of 100", line("events", "p99_ms"), COLOURS[1]),
            ("threads, median", line("threads", "median_ms"), COLOURS[2]),
            ("threads, 99 of 100", line("threads", "p99_ms"), COLOURS[3]),
        ];
        let completed = [
            ("events", line("events", "completed_pct"), COLOURS[1]),
            ("threads", line("threads", "completed_pct"), COLOURS[3]),
        ];
        let what = if *mode == "SE" { "one after the other" } else { "side by side" };
        let title = format!("Figure 7: calls whose parts {work}, {what}: ");
        let file = |of: &str| folder.join(format!("figure-7-{mode}-{work}-{of}.svg"));
        let (x, title_of) = ("calls offered a second", |of: &str| [title.as_str(), of].concat());
        lines_in(&file("time"), &title_of("time to the last reply"), (x, "milliseconds"), Axes::LogarithmicUp, &times)?;
        lines_in(&file("completed"), &title_of("completed"), (x, "percent"), Axes::FromZero, &completed)?;
    }
    Ok(())
}

/// AAT at each site: bars, four to a site, on a logarithmic axis, since a failure costs the baseline seconds.
fn figure_8(rows: &Rows, file: &Path) -> Result<(), Failure> {
    let series = [
        ("standard", rows.numbers("normal_standard_ms"), COLOURS[0]),
        ("replies", rows.numbers("normal_replies_ms"), COLOURS[1]),
        ("standard, one database stopped", rows.numbers("failure_standard_ms"), COLOURS[2]),
        ("replies, one database stopped", rows.numbers("failure_replies_ms"), COLOURS[3]),
    ];
    let title = "Figure 8: average arrival time of phone numbers, by the site that is asked";
    bars_in(file, title, (&rows.texts("site"), "milliseconds"), 10.0, &series)
}

/// The data paper's Figures 2 and 3: what an operation takes, and what it costs the server, by each way; on one host and over TCP.
fn operations(rows: &Rows, folder: &Path) -> Result<(), Failure> {
    let (links, ways, operations) = (rows.texts("link"), rows.texts("way"), rows.texts("operation"));
    for link in ["shared_memory", "tcp"] {
        let of =
            |way: &str| -> Vec<usize> { (0..ways.len()).filter(|at| links[*at] == link && ways[*at] == way).collect() };
        let names: Vec<&str> = of("dx").into_iter().map(|at| operations[at]).collect();
        // The paper's bars bear no numbers: what its text (section 5.2) says of them stands beside ours.
        for (figure, column, what, reads) in [
            (2, "latency_us", "latency at the clerk", "READs (DX; paper: below HY at each)"),
            (3, "server_cpu_us", "processor time of the server", "READs (DX; paper: below half of HY on average)"),
        ] {
            let values = rows.numbers(column);
            let bars = |way: &str| of(way).into_iter().map(|at| values[at]).collect::<Vec<_>>();
            let series = [
                (reads, bars("dx"), COLOURS[1]),
                ("Hybrid-1 (HY)", bars("hy"), COLOURS[2]),
                ("calls", bars("call"), COLOURS[0]),
            ];
            let title = format!("Data and control, Figure {figure}: {what}, {}", place(link));
            let file = folder.join(format!("figure-{figure}-{link}.svg"));
            bars_in(&file, &title, (&names, "microseconds"), 0.1, &series)?;
        }
    }
    Ok(())
}

/// More and more clerks of a server that has one core: how many operations a second they get done, and how full the core is.
fn clients(rows: &Rows, folder: &Path) -> Result<(), Failure> {
    let (links, ways, clerks) = (rows.texts("link"), rows.texts("way"), rows.numbers("clerks"));
    for link in ["shared_memory", "tcp"] {
        for (column, what, y) in [
            ("operations_per_s", "operations of all clerks", "operations a second"),
            ("server_pct", "how full the server's core is", "percent"),
        ] {
            let values = rows.numbers(column);
            let line = |way: &str| -> Vec<(f64, f64)> {
                let of = |at: &usize| links[*at] == link && ways[*at] == way;
                (0..ways.len()).filter(of).filter_map(|at| Some((clerks[at]?, values[at]?))).collect()
            };
            let lines = [("READs (DX)", line("dx"), COLOURS[1]), ("calls", line("call"), COLOURS[0])];
            let title = format!("Table 1a, a server on one core: {what}, {}", place(link));
            let file = folder.join(format!("clients-{column}-{link}.svg"));
            lines_in(&file, &title, ("clerks", y), Axes::FromZero, &lines)?;
        }
    }
    Ok(())
}

fn place(link: &str) -> &str {
    if link == "tcp" { "over TCP" } else { "in shared memory" }
}

/// How many of the engines have answered by when, for four keywords from the quickest to the slowest by our AAT.
fn figure_9(rows: &Rows, file: &Path) -> Result<(), Failure> {
    let (of, times) = (rows.texts("keyword"), rows.numbers("response_ms"));
    let mut keywords = of.clone();
    keywords.dedup();
    let chosen = |number: usize| keywords.get(number * keywords.len().saturating_sub(1) / (COLOURS.len() - 1)).copied();
    let stairs = |keyword: &str| -> Vec<(f64, f64)> {
        let own = of.iter().zip(&times).filter(|(of, _)| **of == keyword);
        let mut times: Vec<f64> = own.filter_map(|(_, ms)| *ms).collect();
        times.sort_by(f64::total_cmp);
        let pct = |count: usize| 100.0 * count as f64 / times.len() as f64;
        times.iter().enumerate().flat_map(|(before, ms)| [(*ms, pct(before)), (*ms, pct(before + 1))]).collect()
    };
    let colours = COLOURS.into_iter().enumerate();
    let lines: Vec<Line<'_>> =
        colours.filter_map(|(number, colour)| chosen(number).map(|one| (one, stairs(one), colour))).collect();
    let title = "Figure 9: engines that have answered, by keyword";
    lines_in(file, title, ("milliseconds", "percent"), Axes::FromZero, &lines)
}

/// AAT by keyword, ordered by ours.
fn figure_10(rows: &Rows, file: &Path) -> Result<(), Failure> {
    let line = |column: &str| -> Vec<(f64, f64)> {
        let values = rows.numbers(column);
        values.iter().enumerate().filter_map(|(at, value)| Some((at as f64, (*value)?))).collect()
    };
    let lines =
        [("standard", line("standard_aat_ms"), COLOURS[0]), ("replies", line("multi_return_aat_ms"), COLOURS[1])];
    lines_in(
        file,
        "Figure 10: average arrival time of photos, by keyword",
        ("keyword, in the order of ours", "milliseconds"),
        Axes::FromZero,
        &lines,
    )
}

/// Progress of maps and reduces over time in the three modes.
fn figure_11(rows: &Rows, file: &Path) -> Result<(), Failure> {
    let (modes, at) = (rows.texts("mode"), rows.numbers("at_s"));
    let (maps, reduces) = (rows.numbers("maps_pct"), rows.numbers("reduces_pct"));
    let line = |mode: &str, values: &[Option<f64>]| -> Vec<(f64, f64)> {
        let points = modes.iter().zip(at.iter().zip(values)).filter(|(of, _)| **of == mode);
        points.filter_map(|(_, (at, value))| Some(((*at)?, (*value)?))).collect()
    };
    let lines = [
        ("maps", line("replies", &maps), COLOURS[0]),
        ("reduces, blocking", line("blocking", &reduces), COLOURS[2]),
        ("reduces, push and pull", line("push and pull", &reduces), COLOURS[3]),
        ("reduces, replies", line("replies", &reduces), COLOURS[1]),
    ];
    lines_in(file, "Figure 11: progress of maps and reduces", ("seconds", "percent"), Axes::FromZero, &lines)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_there_is_a_table_of_is_drawn() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write(
            "corsair.csv",
            "site,place,normal_standard_ms,normal_replies_ms,failure_standard_ms,failure_replies_ms\nA1,Virginia,180,70,4000,60\nA4,Singapore,220,150,,\n",
        );
        write(
            "mapreduce.csv",
            "mode,at_s,maps_pct,reduces_pct\nreplies,0.1,50,48\nblocking,0.1,50,0\nreplies,0.2,100,100\n",
        );
        write(
            "micro.csv",
            "mode,kind,task_ms,parts,aat_ms,ready_ms,ideal_ms,cpu_ms\nSE,events,100,1,101,100,100,0.1\nSE,events,100,2,76,75,75,0.1\nPE,events,100,2,51,50,50,0.1\n",
        );
        write(
            "stress.csv",
            "mode,work,kind,limit_per_s,offered_per_s,completed_pct,median_ms,p99_ms\nSE,wait,events,640,128,100,101,103\nSE,wait,threads,640,128,100,100,104\nSE,wait,events,640,960,66,480,510\nSE,wait,threads,640,960,66,490,520\n",
        );
        write(
            "operations.csv",
            "link,way,operation,latency_us,server_cpu_us\ntcp,dx,getattr,60,30\ntcp,hy,getattr,110,80\ntcp,call,getattr,100,79\n",
        );
        write(
            "clients.csv",
            "link,way,clerks,operations_per_s,server_cpu_us_per_operation,server_pct\ntcp,dx,1,9000,40,30\ntcp,call,1,5000,90,45\n",
        );
        write("glickr_times.csv", "keyword,engine,response_ms\ntower,fr,90\ntower,it,4\nlake,fr,1500\nlake,it,1600\n");
        write(
            "jetty.csv",
            "cache,bytes,sockets_us,in_place_us,copied_us,tcp_us\non,1024,30,25,26,27\non,1048576,300,30,120,400\n",
        );
        draw(folder.path()).unwrap();
        for (file, word) in [
            ("figure-3-jetty-cache-on.svg", "where it lies"),
            ("figure-3-jetty-cache-on.svg", "without shared memory"),
            ("figure-3-jetty-cache-on.svg", "a third of sockets"),
            ("figure-3-jetty-cache-off.svg", "about 6 MiB"),
            ("figure-2-tcp.svg", "Hybrid-1"),
            ("figure-3-tcp.svg", "below half of HY"),
            ("clients-server_pct-tcp.svg", "over TCP"),
            ("figure-6-100ms.svg", "parallel, replies"),
            ("figure-7-SE-wait-time.svg", "threads, 99 of 100"),
            ("figure-7-SE-wait-completed.svg", "events"),
            ("figure-8.svg", "A4"),
            ("figure-9.svg", "lake"),
            ("figure-11.svg", "push and pull"),
        ] {
            let drawn = std::fs::read_to_string(folder.path().join(file)).unwrap();
            assert!(drawn.contains(word), "{file} does not show {word}");
        }
        assert!(!folder.path().join("figure-10.svg").exists());
    }
}
