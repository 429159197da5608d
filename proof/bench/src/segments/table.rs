//! The paper's Tables 2 and 3 beside ours (Separating Data and Control Transfer, sections 3.1.2 and 4.3).

use super::{access::Accesses, naming::Naming, notified::Notified, stream::Streams};
use crate::stats::Spread;

/// Each value, in a larger unit. Tables say how far values lie apart, since two processes wake each other quickly or slowly, as the scheduler has it.
fn shown(values: &[f64], unit: f64, digits: usize) -> String {
    Spread::of(values.iter().map(|value| value / unit).collect()).shown(digits)
}

/// Microseconds of a series in nanoseconds.
fn us(values: &[f64]) -> String {
    shown(values, 1e3, 3)
}

/// Table 2. WRITE by the link is half of WRITE and flush. The paper's READ and WRITE are of 40 bytes; our READs are of 64.
pub(super) fn of_operations(access: &Accesses, notified: &Notified, streams: &Streams) -> String {
    let of_us = |values: &[f64]| shown(values, 1.0, 3);
    let megabits = |values: &[f64]| shown(values, 1e6 / 8.0, 0);
    let rows = [
        ["READ us", "45", &us(&access.read), &us(&access.read_shared)],
        ["WRITE us", "30", &us(&access.write), &us(&access.write_shared)],
        ["CAS us", "38", &us(&access.cas), &us(&access.cas_shared)],
        ["4 KiB blocks Mb/s", "35.4", &megabits(&streams.link_4k), &megabits(&streams.shared_4k)],
        ["notification us", "260", &of_us(&notified.by_link), &of_us(&notified.shared)],
    ];
    lines("operation,paper,by the link,shared memory", &rows.map(|row| row.join(",")))
}

/// Table 3.
pub(super) fn of_names(naming: &Naming) -> String {
    let rows = [
        ["Export (ADDNAME) us", "665", &us(&naming.export), "", ""],
        ["Import (LOOKUP) us", "196", &us(&naming.cached), "264", &us(&naming.uncached)],
        ["Revoke (DELETENAME) us", "307", &us(&naming.revoke), "", ""],
        ["Import by asking us", "", "", "524", &us(&naming.asked)],
    ];
    lines("operation,paper cached,cached,paper uncached,uncached", &rows.map(|row| row.join(",")))
}

fn lines(names: &str, rows: &[String]) -> String {
    format!("{names}\n{}\n", rows.join("\n"))
}
