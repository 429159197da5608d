//! The paper's figures, drawn from our tables.

use std::path::Path;

use plotters::{
    coord::ranged1d::{IntoSegmentedCoord, SegmentValue},
    prelude::*,
};

use crate::{
    Failure,
    lines::{Axes, lines_in},
    rows::Rows,
};

pub(crate) const SIZE_PX: (u32, u32) = (860, 440);
/// Told apart in print and by those who see few colours.
const COLOURS: [RGBColor; 4] =
    [RGBColor(120, 120, 120), RGBColor(0, 114, 178), RGBColor(190, 170, 150), RGBColor(213, 94, 0)];

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
    if let Some(rows) = table("glickr")? {
        figure_10(&rows, &folder.join("figure-10.svg"))?;
    }
    if let Some(rows) = table("mapreduce")? {
        figure_11(&rows, &folder.join("figure-11.svg"))?;
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
        let lines = [
            ("sockets", line("sockets_us"), COLOURS[0]),
            ("ours, where it lies", line("in_place_us"), COLOURS[1]),
            ("ours, copied by the client", line("copied_us"), COLOURS[3]),
        ];
        let title = format!("libRIPC, Figure 3: a fetch from {server}, its cache {cache}");
        let file = folder.join(format!("figure-3-{server}-cache-{cache}.svg"));
        lines_in(&file, &title, ("KiB", "microseconds"), Axes::Logarithmic, &lines)?;
    }
    Ok(())
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
        ("standard", "normal_standard_ms"),
        ("replies", "normal_replies_ms"),
        ("standard, one database stopped", "failure_standard_ms"),
        ("replies, one database stopped", "failure_replies_ms"),
    ];
    let sites = rows.texts("site");
    let columns: Vec<Vec<Option<f64>>> = series.iter().map(|(_, column)| rows.numbers(column)).collect();
    let most = columns.iter().flatten().flatten().copied().fold(1.0, f64::max);
    let area = SVGBackend::new(file, SIZE_PX).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption("Figure 8: average arrival time of phone numbers, by the site that is asked", ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(32)
        .y_label_area_size(64)
        .build_cartesian_2d((0..sites.len().max(1)).into_segmented(), (10.0..most * 2.0).log_scale())?;
    let label = |value: &SegmentValue<usize>| match value {
        SegmentValue::CenterOf(at) => sites.get(*at).copied().unwrap_or("").to_owned(),
        _ => String::new(),
    };
    chart.configure_mesh().disable_x_mesh().y_desc("milliseconds").x_label_formatter(&label).draw()?;
    drop(chart);
    // Four bars to a segment: segments have no parts, so the bars are on an axis of plain numbers over the same place.
    let mut bars = ChartBuilder::on(&area)
        .caption(" ", ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(32)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..sites.len().max(1) as f64, (10.0..most * 2.0).log_scale())?;
    for (at, ((name, _), (values, colour))) in series.iter().zip(columns.iter().zip(COLOURS)).enumerate() {
        let bar = |(site, value): (usize, &Option<f64>)| {
            let left = site as f64 + 0.12 + 0.19 * at as f64;
            value.map(|value| Rectangle::new([(left, 10.0), (left + 0.17, value)], colour.filled()))
        };
        bars.draw_series(values.iter().enumerate().filter_map(bar))?
            .label(*name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour.filled()));
    }
    bars.configure_series_labels().position(SeriesLabelPosition::UpperLeft).background_style(WHITE.mix(0.9)).draw()?;
    Ok(area.present()?)
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
        write("jetty.csv", "cache,bytes,sockets_us,in_place_us,copied_us\non,1024,30,25,26\non,1048576,300,30,120\n");
        draw(folder.path()).unwrap();
        for (file, word) in [
            ("figure-3-jetty-cache-on.svg", "where it lies"),
            ("figure-6-100ms.svg", "parallel, replies"),
            ("figure-7-SE-wait-time.svg", "threads, 99 of 100"),
            ("figure-7-SE-wait-completed.svg", "events"),
            ("figure-8.svg", "A4"),
            ("figure-11.svg", "push and pull"),
        ] {
            let drawn = std::fs::read_to_string(folder.path().join(file)).unwrap();
            assert!(drawn.contains(word), "{file} does not show {word}");
        }
        assert!(!folder.path().join("figure-10.svg").exists());
    }
}
