//! Tables on standard output.

use comfy_table::{Cell, ContentArrangement, Table, presets};

use crate::{
    failure::Failure,
    output::{Output, Paint},
};

/// Shows a table without borders, so that other programs can take it apart; on a terminal it keeps to the terminal's width.
pub(crate) fn show<const N: usize>(
    head: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
    output: &Output,
) -> Result<(), Failure> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_content_arrangement(if output.out_tty {
        ContentArrangement::Dynamic
    } else {
        ContentArrangement::Disabled
    });
    table.set_header(head.map(|name| Cell::new(name.to_uppercase())));
    table.add_rows(rows.map(|row| row.map(Cell::new)));
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    let lines = lines.iter().enumerate().map(|(index, line)| {
        let line = line.strip_prefix(' ').unwrap_or(line);
        if index == 0 { output.paint(Paint::Bold, line) } else { line.to_owned() }
    });
    output.data(&lines.collect::<Vec<_>>().join("\n"))
}
