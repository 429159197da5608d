//! `catena check NODE.toml`: what a node's file means, without starting anything.

use std::path::Path;

use serde_json::json;

use crate::{
    config::NodeFile,
    failure::Failure,
    output::{Output, Paint, printable},
    table,
};

/// Whether this is a node's file, by its name.
pub(crate) fn is_node(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "toml")
}

pub(crate) fn run(file: &Path, output: &Output) -> Result<(), Failure> {
    let meaning = NodeFile::read(file)?.meaning();
    let shown = file.display().to_string();
    if output.json {
        let means: Vec<_> = meaning.iter().map(|(what, means)| json!({ "what": what, "means": means })).collect();
        return output.json_line(&json!({ "file": shown, "ok": true, "node": means }));
    }
    output.data(&output.paint(Paint::Bold, &format!("{}: a node", printable(&shown))))?;
    let rows = meaning.iter().map(|(what, means)| [printable(what), printable(means)]);
    output.data(&table::text(["what", "means"], rows, output))
}
